"""Process groups: the ranks of the job, and parts of them, under torch.distributed's names."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, ClassVar

from ... import comm as qc
from ...comm import Communicator
from ...comm.bootstrap.environment import launch_of_this_process
from .store import Store, seconds

__all__ = [
    "Backend",
    "GroupMember",
    "NotAMember",
    "ProcessGroup",
    "communicator",
    "destroy_process_group",
    "get_backend",
    "get_rank",
    "get_world_size",
    "global_ranks",
    "init_process_group",
    "is_available",
    "is_initialized",
    "is_torchelastic_launched",
    "new_group",
    "rank_in",
]

ProcessGroup = Communicator
"""A group is a communicator of qdist.comm, whose own calls work too; `None` stands for all ranks."""


class Backend(str):
    """The name of a backend, in small letters: mpi, nccl, gloo or ucc. Raises ValueError for others."""

    MPI: ClassVar[str] = "mpi"
    NCCL: ClassVar[str] = "nccl"
    GLOO: ClassVar[str] = "gloo"
    UCC: ClassVar[str] = "ucc"

    def __new__(cls, name: str) -> Backend:
        if not isinstance(name, str) or name.lower() not in _OVER:
            raise ValueError(f"backend={name!r}: use {', '.join(_OVER)}")
        return str.__new__(cls, name.lower())


# What a backend of torch's is here.
_OVER = {"mpi": "mpi", "nccl": "nccl", "gloo": "mpi", "ucc": "mpi"}


class NotAMember:
    """What new_group gives to ranks that are not in the group."""

    def __init__(self, ranks: Sequence[int]) -> None:
        self.ranks = tuple(ranks)

    def __repr__(self) -> str:
        return f"<the group of ranks {list(self.ranks)}, of which this one is none>"


class GroupMember:
    """Names for the group of all ranks, and for that of ranks that are in none."""

    WORLD = None
    NON_GROUP_MEMBER = NotAMember(())


_default: Communicator | None = None


def is_available() -> bool:
    """Whether processes can talk to each other here: always."""
    return True


def is_initialized() -> bool:
    """Whether init_process_group was called, and destroy_process_group not since."""
    return _default is not None


def is_torchelastic_launched() -> bool:
    """Whether torch's elastic launcher started this process: it sets TORCHELASTIC_RUN_ID."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Store | None = None,
) -> None:
    """Brings the ranks of the job together.

    Args:
        backend: "mpi"; "nccl" for tensors on GPUs; "gloo" and "ucc", which are MPI here, and a warning says so. Without
            it MPI, over which tensors on GPUs travel too.
        init_method: how ranks that no MPI launcher started find each other: "env://", the default, "tcp://host:port" or
            "file:///path", as of `qdist.comm.init`.
        timeout: after which a communication that some rank never joins ends the job; 10 minutes when not given.
        world_size, rank: of the job and of this process; -1 leaves them to the launcher or to env://. A launcher of MPI
            tells them itself: then they are ignored with backend="mpi", as torch does, and must fit with others.
        store: where ranks find each other instead of an init_method; takes rank and world_size.

    Raises RuntimeError if it was called before, ValueError for arguments that do not fit each other and CommError when
    the ranks cannot be brought together.
    """
    global _default
    if _default is not None:
        raise RuntimeError("the process group is initialised already: call destroy_process_group() first")
    name = Backend("mpi" if backend is None else backend)
    if store is not None and init_method is not None:
        raise ValueError("init_method and store exclude each other: both say where ranks meet")
    given = (rank, world_size) if rank >= 0 and world_size >= 0 else None
    options: dict[str, Any] = {} if timeout is None else {"timeout": seconds(timeout)}
    launch = launch_of_this_process()
    if launch is not None and launch.is_mpi:
        if given not in (None, (launch.rank, launch.size)):
            told = (
                f"rank={rank} and world_size={world_size}, but {launch.by} has this as {launch.rank} of {launch.size}"
            )
            if name != "mpi":
                raise ValueError(f"{told}: leave them out")
            warnings.warn(f"{told}: with MPI they are ignored", stacklevel=2)
    elif store is not None:
        if given is None:
            raise ValueError("store= takes rank and world_size: nothing else tells them")
        if world_size > 1:
            options |= {"rank": rank, "world_size": world_size, "init_method": store.init_method(rank, world_size)}
    else:
        if init_method is not None:
            options["init_method"] = init_method
        if given is not None:
            options |= {"rank": rank, "world_size": world_size}
        elif (rank >= 0) != (world_size >= 0):
            raise ValueError(f"rank={rank} and world_size={world_size}: give both or none")
    _default = qc.init("nccl" if name == "nccl" else "auto", **options)
    if _OVER[name] != name and _default.rank == 0:
        warnings.warn(f"backend={str(name)!r} is MPI here, which has all collectives on the CPU", stacklevel=2)


def destroy_process_group(group: Communicator | NotAMember | None = None) -> None:
    """Ends the communication of all ranks, or of a group, whose members all call. Does nothing for non-members."""
    global _default
    if isinstance(group, NotAMember):
        return
    if group is not None and group is not _default:
        group.close()
        return
    communicator(None)
    _default = None
    qc.shutdown()


def communicator(group: Communicator | NotAMember | None) -> Communicator | None:
    """The communicator of a group; None where this rank is not in it. Raises RuntimeError before init_process_group."""
    if _default is None:
        raise RuntimeError("no process group yet: call init_process_group() first")
    if isinstance(group, NotAMember):
        return None
    if group is None:
        return _default
    if not isinstance(group, Communicator):
        raise TypeError(f"a group is what new_group() gave, not {type(group).__name__}")
    return group


def get_backend(group: Communicator | None = None) -> str:
    """mpi or nccl: what the group talks over."""
    comm = communicator(group)
    return "nccl" if comm is not None and comm.backend == "nccl" else "mpi"


def get_rank(group: Communicator | NotAMember | None = None) -> int:
    """This process's number among all, or in a group; -1 if it is not in it."""
    comm = communicator(group)
    return -1 if comm is None else comm.rank


def get_world_size(group: Communicator | NotAMember | None = None) -> int:
    """How many processes there are, or are in a group; -1 if this one is not in it."""
    comm = communicator(group)
    return -1 if comm is None else comm.size


def global_ranks(group: Communicator | NotAMember | None = None) -> list[int]:
    """The numbers among all that the members of a group have, in the order of the group."""
    if isinstance(group, NotAMember):
        return list(group.ranks)
    comm = communicator(group)
    assert comm is not None
    return list(comm.group)


def rank_in(comm: Communicator, rank: int) -> int:
    """What number a rank of the job has in a group. Raises ValueError if it is not in it."""
    if rank not in comm.group:
        raise ValueError(f"rank {rank} is not in the group of ranks {list(comm.group)}")
    return comm.group.index(rank)


def new_group(
    ranks: Sequence[int] | None = None, timeout: timedelta | None = None, backend: str | None = None
) -> Communicator | NotAMember:
    """A group of some ranks, for the calls that take a group. All ranks call; those not in it get a stand-in.

    Args:
        ranks: their numbers among all; all of them when not given.
        timeout, backend: those of init_process_group, which all groups share; anything else is refused.
    """
    world = communicator(None)
    assert world is not None
    if timeout is not None and seconds(timeout) != world.timeout:
        raise ValueError(
            f"timeout={timeout}: groups share the {world.timeout:g} s of the job: give it to init_process_group"
        )
    if backend is not None and _OVER[Backend(backend)] != get_backend():
        raise ValueError(f"backend={backend!r}: the job talks over {get_backend()}, and groups share that")
    members = list(range(world.size)) if ranks is None else sorted(ranks)
    return world.new_group(members) or NotAMember(members)
