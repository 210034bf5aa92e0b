"""Batches of small circuits on a GPU: a row's state in shared memory (sources/rows.cu)."""

from qdist.backends.cuda.rows.kernel import CudaRows

__all__ = ["CudaRows"]
