"""Which states can be used together: those whose amplitudes are split alike over the same ranks."""

from __future__ import annotations

from qdist.backends.errors import StateError
from qdist.comm import Communicator
from qdist.state.shards import Shards

__all__ = ["check_alike", "check_ranks", "same_ranks"]


def same_ranks(a: Communicator, b: Communicator) -> bool:
    """Whether two communicators have the same processes in the same order, so that ranks hold the same shards.

    Those of one process alone have: it is always this one.
    """
    return a is b or a.size == b.size == 1 or a.group == b.group


def check_alike(what: str, a: Shards, b: Shards) -> None:
    """Raises StateError, which names both, unless two states have one size, dtype, device and the same ranks.

    Args:
        what: it is for, as the subject of "needs".
        a, b: the states; layouts may differ.
    """
    if (a.num_qubits, a.dtype, a.device) != (b.num_qubits, b.dtype, b.device) or not same_ranks(a.comm, b.comm):
        raise StateError(
            f"{what} needs two states of one size and dtype, on one device and the same ranks; got {a!r} on {a.device} "
            f"({_ranks(a.comm)}) and {b!r} on {b.device} ({_ranks(b.comm)})"
        )


def check_ranks(name: str, state: Shards, comm: Communicator | None) -> None:
    """Raises StateError unless a state that is handed to a program is split over the program's ranks."""
    alone = comm is None or comm.size == 1
    if state.comm.size == 1 if alone else comm is not None and same_ranks(state.comm, comm):
        return
    own = "in this process alone" if comm is None else f"over {_ranks(comm)}"
    raise StateError(
        f"{name} is split over {_ranks(state.comm)}; the program runs {own}: make both with the same communicator"
    )


def _ranks(comm: Communicator) -> str:
    return f"group {comm.name!r}, world ranks {list(comm.group)}"
