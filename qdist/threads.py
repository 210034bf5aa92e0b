"""How many threads the library uses."""

from __future__ import annotations

from qdist.hints import hinted
from qdist.state.threads import set_kernel_threads
from qdist.tensor.threads import set_num_threads as set_tensor_threads

__all__ = ["set_num_threads"]


@hinted
def set_num_threads(count: int) -> None:
    """Threads of circuits, states and tensors in this process, in place of one a core.

    By default that is OMP_NUM_THREADS, or this rank's share of its node's cores. Less work takes fewer: a batch or a
    state that is too small for two threads runs on one. Matrix products that are left to the BLAS library follow its
    own setting.
    Raises ValueError unless there is at least one.
    """
    set_kernel_threads(count)
    set_tensor_threads(count)
