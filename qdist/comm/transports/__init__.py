"""Transports, which move arrays between ranks: MPI, NCCL, one process alone, a dry run, GPU arrays over host memory.

Its modules are imported one by one: a launcher needs no NumPy, mpi.py starts MPI, and nccl.py needs CuPy.
"""

__all__: list[str] = []
