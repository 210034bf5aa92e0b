"""Transports, which move arrays between ranks: MPI, NCCL, one process alone, a dry run, GPU arrays over host memory.

mpi.py and nccl.py are imported when they are asked for: the one starts MPI, the other needs CuPy.
"""

from qdist.comm.transports.counting import CountingTransport
from qdist.comm.transports.solo import SoloTransport
from qdist.comm.transports.transport import Request, Transport

__all__ = ["CountingTransport", "Request", "SoloTransport", "Transport"]
