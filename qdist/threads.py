"""How many threads the library uses."""

from __future__ import annotations

import operator

from qdist.hints import hinted
from qdist.native.blas import set_blas_threads
from qdist.state.threads import set_kernel_threads
from qdist.tensor.threads import set_num_threads as set_tensor_threads

__all__ = ["set_num_threads"]


@hinted
def set_num_threads(count: int) -> None:
    """Threads of circuits, states and tensors in this process, in place of one a core.

    By default that is OMP_NUM_THREADS, or this rank's share of its node's cores. Less work takes fewer: a batch or a
    state that is too small for two threads runs on one. The products that NumPy leaves to OpenBLAS or MKL use as
    many; a rank's share is theirs too, unless OPENBLAS_NUM_THREADS, MKL_NUM_THREADS or OMP_NUM_THREADS is set.
    Raises ValueError unless there is at least one.
    """
    try:
        threads = operator.index(count)
    except TypeError:
        raise TypeError(f"set_num_threads({count!r}): a whole number of threads") from None
    set_tensor_threads(threads)  # First, as it refuses what none of them takes.
    set_kernel_threads(threads)
    set_blas_threads(threads)
