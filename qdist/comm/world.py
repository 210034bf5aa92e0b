"""init(): brings the ranks of the job together and gives the world's Communicator."""

from __future__ import annotations

import atexit
import faulthandler
import math
import os
import sys
from typing import Any

from qdist.comm import shared_memory
from qdist.comm.communicator import Communicator
from qdist.comm.counting import CountingTransport
from qdist.comm.environment import Launch, launched_by
from qdist.comm.errors import CommError
from qdist.comm.forked import finalize_in_parent_alone
from qdist.comm.guard import Guard
from qdist.comm.installation import check_same_installation
from qdist.comm.libmpi import cuda_aware, loaded_library, point_mpi4py_at_launcher
from qdist.comm.place import Place, affinity, shared_cores
from qdist.comm.rendezvous import Rendezvous
from qdist.comm.settings import Settings
from qdist.comm.solo import SoloTransport
from qdist.comm.store import Address, StoreClient, StoreServer
from qdist.comm.transport import Transport

__all__ = ["DEFAULT_TIMEOUT", "counting_communicator", "init", "is_initialized", "shutdown", "world"]

DEFAULT_TIMEOUT = 600.0
_BACKENDS = ("auto", "mpi", "nccl", "solo")

_world: Communicator | None = None
_settings = Settings()
_server: StoreServer | None = None


def init(
    backend: str = "auto",
    init_method: str | None = None,
    *,
    comm: Any = None,
    rank: int | None = None,
    world_size: int | None = None,
    timeout: float | None = None,
    debug: bool | None = None,
) -> Communicator:
    """The communicator of all ranks of this job. Calling it again gives the same one; CommError if it is asked for
    something else then.

    backend: ``auto`` takes MPI when this process was started as one of several and is alone otherwise; ``mpi``;
        ``nccl`` (GPU arrays over NCCL, host arrays over MPI); ``solo`` (alone, whatever the launcher said).
    init_method: how ranks that no MPI launcher started find each other: ``env://``, the default (MASTER_ADDR,
        MASTER_PORT, RANK, WORLD_SIZE), ``tcp://host:port`` or ``file://path``, the last two with ``rank`` and
        ``world_size``.
    comm: an mpi4py communicator of your own to use as the world. It is never freed, nor is MPI finalised.
    timeout: seconds after which a communication that some rank never joins ends the job, saying who is missing; 600 by
        default.
    debug: check before every collective that all ranks call the same; also by QDIST_DEBUG=comm.

    Raises ValueError for arguments that do not fit and CommError when the ranks cannot be brought together.
    """
    global _world, _settings
    settings = Settings(backend, init_method, comm, rank, world_size, timeout, debug)
    if backend not in _BACKENDS:
        raise ValueError(f"backend={backend!r}: use one of {', '.join(_BACKENDS)}")
    if timeout is not None and not (timeout > 0 and math.isfinite(timeout)):
        raise ValueError(f"timeout={timeout!r}: a number of seconds greater than 0")
    if (rank is None) != (world_size is None):
        raise ValueError("rank and world_size go together")
    if _world is not None:
        settings.check_again(_world, _settings)
        return _world
    timeout = DEFAULT_TIMEOUT if timeout is None else timeout
    if debug is None:
        debug = "comm" in os.environ.get("QDIST_DEBUG", "").split(",")
    launch = launched_by(os.environ)
    if rank is not None and world_size is not None:
        if not 0 <= rank < world_size:
            raise ValueError(f"rank={rank} of world_size={world_size}: the rank must be in 0..world_size-1")
        launch = Launch("init(rank=, world_size=)", rank, world_size, is_mpi=False)
    settings.check(launch is not None)
    if comm is not None or (launch is None and _mpi_is_running()):
        _world = _over_mpi(comm, None, backend, timeout, debug)
    elif backend == "solo" or launch is None:
        _world = _alone(backend, timeout, debug)
    else:
        meeting = None if launch.is_mpi else Rendezvous(init_method or "env://", launch.rank, launch.size, timeout)
        _world = _over_mpi(None, launch, backend, timeout, debug, meeting)
    _settings = settings
    atexit.register(shutdown)
    return _world


def is_initialized() -> bool:
    """Whether init() was called and shutdown() not since."""
    return _world is not None


def world() -> Communicator:
    """The communicator of all ranks; calls init() if nobody did."""
    return _world if _world is not None else init()


def shutdown() -> None:
    """Ends qdist's communication; MPI itself stays as it is. Ranks that still wait for this one are told."""
    global _world, _server
    if _world is None:
        return
    leaving, _world = _world, None
    atexit.unregister(shutdown)
    leaving._guard.leave()
    if _server is not None:
        _server.close()
        _server = None


def _leave_server_to_parent() -> None:
    """In a forked child: the thread that serves the store is the parent's, and so is its end."""
    global _server
    _server = None


os.register_at_fork(after_in_child=_leave_server_to_parent)


def counting_communicator(size: int, rank: int = 0) -> Communicator:
    """A communicator that moves nothing and records every message: for dry runs of any size on one process.

    Results are as if the other ranks brought nothing (zeros, or the reduction's neutral element); what was sent
    stands in ``messages``.
    """
    guard = Guard(rank, size, DEFAULT_TIMEOUT, None, sys.exit)
    transport = CountingTransport(size, rank)
    return Communicator(transport, transport, guard=guard, place=Place.alone(), group=tuple(range(size)))


def _alone(backend: str, timeout: float, debug: bool) -> Communicator:
    if backend in ("mpi", "nccl"):
        point_mpi4py_at_launcher()
        return _over_mpi(None, None, backend, timeout, debug)
    transport = SoloTransport()
    guard = Guard(0, 1, timeout, None, sys.exit)
    return Communicator(transport, transport, guard=guard, place=Place.alone(), group=(0,), debug=debug)


def _over_mpi(
    mpi_comm: Any,
    launch: Launch | None,
    backend: str,
    timeout: float,
    debug: bool,
    meeting: Rendezvous | None = None,
) -> Communicator:
    if meeting is not None:
        meeting.prepare_mpi()
    else:
        point_mpi4py_at_launcher()
    MPI = _start_mpi(timeout)
    from qdist.comm.mpi import MpiTransport

    base = MPI.COMM_WORLD if mpi_comm is None else mpi_comm
    if not isinstance(base, MPI.Intracomm):
        raise TypeError(f"comm must be an mpi4py intra-communicator, not {type(base).__name__}")
    if launch is not None and base.size != launch.size:
        raise CommError(
            f"{launch.by} started this process as rank {launch.rank} of {launch.size}, but the MPI library that was "
            f"loaded ({MPI.Get_library_version().split(chr(10))[0]}, {loaded_library()}) sees {base.size}: they do not "
            "belong together. Start with `qdist run`, or set MPI4PY_LIBMPI to the launcher's libmpi.so."
        )
    # A communicator of our own keeps our messages apart from the user's.
    transport = MpiTransport(base.Dup(), owned=True)
    # That took every rank, so all have come out of MPI_Init with MPICH's segment mapped. The next line may be the last.
    shared_memory.unlink(shared_memory.segments())
    check_same_installation(transport)
    shared = base.Split_type(MPI.COMM_TYPE_SHARED)
    leader = shared.bcast(base.rank, 0)
    own_cores = shared_cores(shared.allgather(affinity()))
    shared.Free()
    place = Place.among(base.rank, base.allgather(leader), cuda_aware(), own_cores)
    guard = Guard(
        base.rank,
        base.size,
        timeout,
        _board(base) if base.size > 1 else None,
        transport.abort,
        unattended=meeting is not None,
    )
    if meeting is not None:
        meeting.finish(guard)
    device: Transport | None = None
    if backend == "nccl":
        from qdist.comm.nccl import NcclTransport

        device = NcclTransport.create(base.rank, base.size, place, lambda id_: base.bcast(id_, 0))
    return Communicator(transport, device, guard=guard, place=place, group=tuple(range(base.size)), debug=debug)


def _start_mpi(timeout: float) -> Any:
    """mpi4py's MPI, initialised. MPI_Init waits for all ranks and holds the interpreter meanwhile, so only a timer
    outside of it can end the wait for a rank that never comes."""
    if "mpi4py.MPI" not in sys.modules:
        faulthandler.dump_traceback_later(timeout, exit=True)
    try:
        finalize_in_parent_alone()
        from mpi4py import MPI

        if not MPI.Is_initialized():
            MPI.Init_thread()
    except (ImportError, RuntimeError) as error:
        raise CommError(f"MPI cannot be loaded: {error}. `pip install mpich` brings one.") from error
    finally:
        faulthandler.cancel_dump_traceback_later()
    return MPI


def _board(base: Any) -> StoreClient:
    """The store that the guards use, served by rank 0."""
    global _server
    if base.rank == 0:
        _server = StoreServer()
    address = base.bcast(_server.address.to_json() if _server is not None else None, 0)
    return StoreClient(Address.from_json(address))


def _mpi_is_running() -> bool:
    """Whether somebody initialised MPI with several ranks already, without variables that tell of it."""
    mpi = sys.modules.get("mpi4py.MPI")
    return mpi is not None and mpi.Is_initialized() and not mpi.Is_finalized() and mpi.COMM_WORLD.size > 1
