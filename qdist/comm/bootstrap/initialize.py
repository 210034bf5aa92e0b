"""init(): brings the ranks of the job together and gives the world's Communicator."""

from __future__ import annotations

import atexit
import faulthandler
import logging
import math
import os
import sys
from dataclasses import replace
from typing import Any

from qdist.comm.bootstrap.environment import Launch, launch_of_this_process, remember
from qdist.comm.bootstrap.installation import check_same_installation
from qdist.comm.bootstrap.opening import Opening, end_when_not_caught, gather_text, share_text
from qdist.comm.bootstrap.rendezvous import Rendezvous
from qdist.comm.bootstrap.settings import Settings
from qdist.comm.communicator import Communicator
from qdist.comm.errors import CommError
from qdist.comm.forks import finalize_in_parent_alone
from qdist.comm.guard.watch import Guard
from qdist.comm.place import Place, affinity, cuda_extra, few_cores, shared_cores
from qdist.comm.standalone import mpich_segments
from qdist.comm.store.client import Address, StoreClient
from qdist.comm.store.server import StoreServer
from qdist.comm.transports.counting import CountingTransport
from qdist.comm.transports.libmpi import cuda_aware, loaded_library, point_mpi4py_at_launcher
from qdist.comm.transports.solo import SoloTransport
from qdist.comm.transports.transport import Transport
from qdist.comm.transports.yielding import yield_while_waiting
from qdist.native.blas import share_blas_threads
from qdist.native.core_share import set_core_share

__all__ = ["DEFAULT_TIMEOUT", "counting_communicator", "init", "is_initialized", "shutdown", "world"]

_log = logging.getLogger("qdist.comm")

DEFAULT_TIMEOUT = 600.0
_BACKENDS = ("auto", "mpi", "nccl", "solo")

_world: Communicator | None = None
_settings = Settings()
_server: StoreServer | None = None
_rendezvous: Rendezvous | None = None
_rounds = 0


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
        ``world_size``. Ranks on one machine must be the same user's. Ranks on several need the same secret in
        QDIST_SECRET, or in the file that QDIST_SECRET_FILE names, which nobody but its owner may read; with ``file://``
        the file is the secret.
    comm: an mpi4py communicator of your own to use as the world. It is never freed, nor is MPI finalised.
    timeout: seconds after which a communication that some rank never joins ends the job, saying who is missing; 600 by
        default.
    debug: check before every collective that all ranks call the same; also by QDIST_DEBUG=comm.

    Raises ValueError or TypeError for arguments that do not fit and CommError when the ranks cannot be brought
    together. What fails on one rank, once MPI has started, raises on all; where the others cannot be told, because they
    wait in MPI already, an exception that is not caught ends them all.
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
        debug = _asks_for_debug(os.environ.get("QDIST_DEBUG", ""))
    launch = launch_of_this_process()
    if rank is not None and world_size is not None:
        if not 0 <= rank < world_size:
            raise ValueError(f"rank={rank} of world_size={world_size}: the rank must be in 0..world_size-1")
        if _rendezvous is None:
            launch = Launch("init(rank=, world_size=)", rank, world_size, is_mpi=False)
        elif launch is not None and (launch.rank, launch.size) != (rank, world_size):
            raise CommError(f"this process is rank {launch.rank} of {launch.size} already, not {rank} of {world_size}")
    settings.check(launch is not None)
    if comm is not None or (launch is None and _mpi_is_running()):
        _world = _over_mpi(comm, None, backend, timeout, debug)
    elif backend == "solo" or launch is None:
        _world = _alone(backend, timeout, debug)
    else:
        if not launch.is_mpi:
            _meet(init_method or "env://", launch, timeout)
        _world = _over_mpi(None, launch, backend, timeout, debug)
    _settings = settings
    _share_cores(_world.cores if _world.local_size > 1 else None)
    if _log.isEnabledFor(logging.INFO):
        _log.info(
            "rank %d of %d on %s over %s (%s), node %d of %d, %d cores",
            _world.rank,
            _world.size,
            _world.host,
            _world.backend,
            "no launcher" if launch is None else launch.by,
            _world.node,
            _world.num_nodes,
            _world.cores,
        )
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
    global _world
    if _world is None:
        return
    leaving, _world = _world, None
    _share_cores(None)
    atexit.unregister(shutdown)
    leaving._guard.leave()
    _close_board()


def _share_cores(cores: int | None) -> None:
    """Of this package's threads and those of NumPy's products; None: this process has them alone."""
    set_core_share(cores)
    share_blas_threads(cores)


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


def _meet(url: str, launch: Launch, timeout: float) -> None:
    """Starts MPI for ranks that no MPI launcher started."""
    global _rendezvous
    _log.info("rendezvous of %d ranks by %s, as rank %d", launch.size, url, launch.rank)
    rendezvous = Rendezvous(url, launch.rank, launch.size, timeout)
    rendezvous.prepare_mpi()
    _log.info("rendezvous: all %d ranks are there", launch.size)
    _start_mpi(timeout)
    rendezvous.mpi_has_started()
    _rendezvous = rendezvous
    remember(replace(launch, is_mpi=True))


def _over_mpi(mpi_comm: Any, launch: Launch | None, backend: str, timeout: float, debug: bool) -> Communicator:
    global _rounds
    point_mpi4py_at_launcher()
    MPI = _start_mpi(timeout)
    from qdist.comm.transports.mpi import MpiTransport, abort

    base = MPI.COMM_WORLD if mpi_comm is None else mpi_comm
    if not isinstance(base, MPI.Intracomm):
        if MPI.COMM_WORLD.size > 1:
            end_when_not_caught(MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size, abort)
        raise TypeError(f"comm must be an mpi4py intra-communicator, not {type(base).__name__}")
    guard: Guard | None = None
    rendezvous = _rendezvous if mpi_comm is None else None
    if rendezvous is not None:
        # From here on the others learn of this rank's end.
        guard = Guard(base.rank, base.size, timeout, rendezvous.board, abort, unattended=True, round=_rounds)
        _rounds += 1
        rendezvous.tell(guard)
    opening = Opening(base, timeout, abort if guard is None else guard.end_job, has_hook=guard is not None)
    try:
        with opening:
            if launch is not None and base.size != launch.size:
                raise CommError(
                    f"{launch.by} started this process as rank {launch.rank} of {launch.size}, but the MPI library "
                    f"that was loaded ({MPI.Get_library_version().split(chr(10))[0]}, {loaded_library()}) sees "
                    f"{base.size}: they do not belong together. Start with `qdist run`, or set MPI4PY_LIBMPI to the "
                    "launcher's libmpi.so."
                )
            # A communicator of our own keeps our messages apart from the user's.
            transport = MpiTransport(base.Dup(), owned=True)
            # That took every rank, so all have come out of MPI_Init with MPICH's segment mapped and the topology read.
            # The next line may be the last.
            mpich_segments.unlink(mpich_segments.segments() | mpich_segments.topologies(os.getppid()))
            opening.alike(lambda: check_same_installation(transport))
            place = _place(MPI, base)
            if guard is None:
                board = _board(opening, base, place) if base.size > 1 else None
                guard = Guard(base.rank, base.size, timeout, board, abort)
            device = _nccl(opening, base, place) if backend == "nccl" else None
            group = tuple(range(base.size))
            return Communicator(transport, device, guard=guard, place=place, group=group, debug=debug)
    except BaseException:
        if opening.agreed and guard is not None:
            guard.leave()
            _close_board()
        raise


def _asks_for_debug(given: str) -> bool:
    if given not in ("", "comm"):
        raise ValueError(f"QDIST_DEBUG={given}: it is 'comm', which checks collectives, or not set")
    return given == "comm"


def _place(MPI: Any, base: Any) -> Place:
    """Where this rank is among the others. What they tell each other is text and numbers."""
    shared = base.Split_type(MPI.COMM_TYPE_SHARED)
    leader = share_text(shared, str(base.rank))
    masks = [int(mask, 16) for mask in gather_text(shared, f"{affinity():x}")]
    shared.Free()
    if few_cores(masks):
        yield_while_waiting()
    return Place.among(base.rank, gather_text(base, leader), cuda_aware(), shared_cores(masks))


def _nccl(opening: Opening, base: Any, place: Place) -> Transport:
    def prepare() -> bytes:
        try:
            from qdist.comm.transports.nccl import NcclTransport
        except ImportError as error:
            raise CommError(
                f"NCCL comes with CuPy, which is not here ({error}): pip install 'qdist[{cuda_extra()}]'"
            ) from error
        return NcclTransport.prepare(base.rank, place)

    def create() -> Transport:
        from qdist.comm.transports.nccl import NcclTransport

        return NcclTransport(base.rank, base.size, bytes.fromhex(unique_id))

    unique_id = share_text(base, opening.everywhere(prepare).hex())
    return opening.everywhere(create)


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
        raise CommError(f"MPI cannot be loaded: {error}. `pip install mpi4py mpich` brings one.") from error
    finally:
        faulthandler.cancel_dump_traceback_later()
    return MPI


def _board(opening: Opening, base: Any, place: Place) -> StoreClient:
    """The store that the guards use, served by rank 0. Its token travels over MPI, so only ranks know it; it listens
    for other machines only where there are some."""

    def serve() -> str:
        global _server
        if base.rank != 0:
            return ""
        _server = StoreServer("" if place.num_nodes > 1 else "127.0.0.1")
        return _server.address.to_json()

    address = share_text(base, opening.everywhere(serve))
    return StoreClient(Address.from_json(address), base.rank)


def _close_board() -> None:
    global _server
    if _server is not None:
        _server.close()
        _server = None


def _mpi_is_running() -> bool:
    """Whether somebody initialised MPI with several ranks already, without variables that tell of it."""
    mpi = sys.modules.get("mpi4py.MPI")
    return mpi is not None and mpi.Is_initialized() and not mpi.Is_finalized() and mpi.COMM_WORLD.size > 1
