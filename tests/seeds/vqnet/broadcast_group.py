"""broadcast_group of complex numbers. Changed: imports, the backend's name (BACKEND), the device's number (DEVICE)."""

from qdist.interop.vqnet.distributed import CommController, get_rank
from qdist.interop.vqnet.tensor import tensor

Comm_OP = CommController(BACKEND)  # noqa: F821

groups = Comm_OP.split_group([[0, 1]])

complex_data = tensor.QTensor([3 + 1j, 2, 1 + get_rank()], dtype=8).reshape((3, 1)).to(DEVICE)  # noqa: F821

print(f"broadcast_group before rank {get_rank()}: {complex_data}")

Comm_OP.broadcast_group(complex_data, group=groups[0])
Comm_OP.barrier()
print(f"broadcast_group after rank {get_rank()}: {complex_data}")
