"""A collective in the background, and its result on another stream.

Changed: imports; the group is there already; `.cuda(rank)` is `.to(PLACE)`, and without a GPU the lines of the streams
are left out.
"""

import qdist.interop.torch_distributed as dist
import qdist.interop.torch_distributed.torch as torch

rank = dist.get_rank()
output = torch.tensor([rank]).to(PLACE)  # noqa: F821
s = torch.cuda.Stream() if BACKEND == "nccl" else None  # noqa: F821
handle = dist.all_reduce(output, async_op=True)
# The operation is queued then, and on the CPU done.
handle.wait()
# The result is used on a stream other than the default one.
if s is None:
    output.add_(100)
else:
    with torch.cuda.stream(s):
        s.wait_stream(torch.cuda.default_stream())
        output.add_(100)
        s.synchronize()
if rank == 0:
    print(output)
