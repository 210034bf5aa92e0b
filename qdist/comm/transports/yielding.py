"""Waits of MPICH that leave the core to other ranks, where a node has more ranks than cores.

MPICH polls while it waits and calls sched_yield() now and then. Linux then mostly picks a rank that waits as well, and
the one that all wait for stands in line behind them: an all-reduce of 8 ranks on 2 cores takes ten times as long, and
all of it is processor time. Told to, MPICH sleeps for a moment instead. Open MPI yields by itself.
"""

from __future__ import annotations

import ctypes
import os

from qdist.comm.transports.libmpi import loaded_library

__all__ = ["yield_while_waiting"]

POLLS = 100
"""Without success, before a waiting rank sleeps: some ten microseconds, within which a rank that runs would answer."""
_VARIABLES = {"MPIR_CVAR_ENABLE_HEAVY_YIELD": 1, "MPIR_CVAR_POLLS_BEFORE_YIELD": POLLS}


def yield_while_waiting() -> bool:
    """From now on waits of the MPI library that is loaded sleep between polls. Returns whether it has been told:
    libraries other than MPICH are not, nor is one for which the environment has a setting."""
    path = loaded_library()
    if path is None or any(name in os.environ for name in _VARIABLES):
        return False
    library = ctypes.CDLL(path)
    # MPI_T, of which mpi4py has nothing. It counts its users apart from MPI_Init and stays on with the library.
    if not hasattr(library, "MPI_T_cvar_write") or library.MPI_T_init_thread(0, ctypes.byref(ctypes.c_int())) != 0:
        return False
    return all(_set(library, name, value) for name, value in _VARIABLES.items())


def _set(library: ctypes.CDLL, name: str, value: int) -> bool:
    index, handle, count = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_int()
    if library.MPI_T_cvar_get_index(name.encode(), ctypes.byref(index)) != 0:
        return False
    if library.MPI_T_cvar_handle_alloc(index, None, ctypes.byref(handle), ctypes.byref(count)) != 0:
        return False
    written = library.MPI_T_cvar_write(handle, ctypes.byref(ctypes.c_int(value))) == 0
    library.MPI_T_cvar_handle_free(ctypes.byref(handle))
    return written
