"""allgather_group with the communicator of a group of init_group. Changed: imports."""

from qdist.interop.vqnet.distributed import CommController, get_rank, init_group
from qdist.interop.vqnet.tensor import tensor

Comm_OP = CommController("mpi")
group = init_group([[0, 1]])

complex_data = tensor.QTensor([3 + 1j, 2, 1 + get_rank()], dtype=8).reshape((3, 1))
print(f" before rank {get_rank()}: {complex_data}")
for comm_ in group:
    if Comm_OP.getRank() in comm_[1]:
        complex_data = Comm_OP.all_gather_group(complex_data, comm_[0])
        print(f"after rank {get_rank()}: {complex_data}")
