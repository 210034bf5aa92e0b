"""Agreement of the ranks that share a state, checked before anything runs: circuits, plans, values, observables.

Each rank computes with its own arguments; if they differ, the shards belong to different states. So digests of 8 bytes
a rank are compared (all_gather). All ranks call, and all of them raise.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from qdist.backends.errors import StateError
from qdist.circuit.gate import standard_name
from qdist.state.given import checked_communicator

if TYPE_CHECKING:
    from qdist.circuit import Circuit, PauliSum
    from qdist.comm import Communicator
    from qdist.plan.plan import Plan

__all__ = ["amplitudes", "arguments", "circuit", "observables", "plan", "seeds", "values"]

_CAUSE = (
    "Ranks that share a state must be given the same. The usual cause are random numbers without a seed: seed them "
    "alike on all ranks, or let rank 0 draw them and broadcast them"
)
_CAUSES = {
    "cotangent": "What follows a circuit over ranks must be the same on them: its layers start from the same values "
    "(manual_seed with one seed on all ranks, or broadcast them) and get the same targets"
}
_DIMS = 4
_ROUNDING = 1e-6
"""Values that differ by less, relative to 1 or to themselves, differ by rounding: in what each rank computed before."""


def circuit(comm: Communicator | None, given: Circuit, *options: Any) -> None:
    """Raises StateError unless all ranks compile the same circuit with the same options."""
    if not _shared(comm):
        return
    _check(comm, _circuit_digest(given, options), "another circuit (or dtype, device or schedule) to compile")


def plan(comm: Communicator | None, made: Plan, *options: Any) -> None:
    """Raises StateError unless all ranks have planned the same. They do of the same circuit, unless what they run
    differs, or what they know of their machines."""
    if not _shared(comm):
        return
    _check(
        comm,
        _digest(repr((_outline(made), options)).encode()),
        "another plan for the same circuit",
        "Ranks that share a state must run the same qdist on machines alike: see `qdist info` on each host",
    )


def values(comm: Communicator | None, given: NDArray[Any], what: str = "parameter") -> NDArray[Any]:
    """The values that all ranks use: the given ones, which must be the same on all of them; rank 0's where they differ
    by rounding alone. Raises StateError for larger differences and other shapes."""
    if not _shared(comm):
        return given
    if _odd(comm, _digest(_plain(given))) is None:
        return given
    shapes = comm.all_gather(np.array([*given.shape, *[-1] * (_DIMS - given.ndim)], np.int64))
    for rank, shape in enumerate(shapes):
        if (shape != shapes[0]).any():
            raise StateError(
                f"rank {rank} of {comm.name!r} has {what} values of shape {_shape(shape)}, rank 0 of shape "
                f"{_shape(shapes[0])}. {_CAUSES.get(what, _CAUSE)}"
            )
    table = comm.all_gather(given)
    with np.errstate(invalid="ignore"):
        same = np.abs(table - table[0]) <= _ROUNDING * np.maximum(1, np.abs(table[0]))
    same |= np.isnan(table) & np.isnan(table[0])  # Refused with a better message elsewhere.
    if same.all():
        return table[0].copy()
    rank, *index = (int(k) for k in np.argwhere(~same)[0])
    where = f" number {', '.join(map(str, index))}" if index else ""
    raise StateError(
        f"rank {rank} of {comm.name!r} has other {what} values than rank 0: {what}{where} is "
        f"{table[(rank, *index)]:.17g} there and {table[(0, *index)]:.17g} on rank 0. {_CAUSES.get(what, _CAUSE)}"
    )


def observables(comm: Communicator | None, sums: Sequence[PauliSum]) -> None:
    """Raises StateError unless all ranks ask for the same observables."""
    if not _shared(comm):
        return
    _check(comm, _digest(b"".join(one.key for one in sums)), "other observables")


def arguments(comm: Communicator | None, what: str, *given: Any) -> None:
    """Raises StateError unless all ranks give the same plain values: numbers, text, tuples of them."""
    if _shared(comm):
        cause = "Ranks that share a state must be given the same"
        _check(comm, _digest(repr(given).encode()), f"another {what}", cause)


def amplitudes(comm: Communicator | None, what: str, given: NDArray[Any]) -> None:
    """Raises StateError unless all ranks give the same array; for large ones, which are read once."""
    if not _shared(comm):
        return
    words = np.ascontiguousarray(given).reshape(-1).view(np.uint8)
    whole = len(words) // 8 * 8
    # Sums of 64-bit words run at the speed of memory; one sum a piece detects reordering, except within a piece.
    pieces = [words[start : min(start + _PIECE, whole)].view(np.uint64).sum() for start in range(0, whole, _PIECE)]
    text = repr((given.shape, given.dtype.str, [int(p) for p in pieces])).encode() + words[whole:].tobytes()
    _check(comm, _digest(text), f"other {what}")


_PIECE = 1 << 16


def seeds(comm: Communicator, drawn: int, is_given: bool, *what: int) -> int:
    """The number that all ranks take their random choices from: rank 0's where no rank was given a seed; where they
    were, what their seeds have drawn. Raises StateError where those differ, or only some ranks have one, and where
    what is drawn (``what``: qubits, or how many shots) differs."""
    if not _shared(comm):
        return drawn
    table = comm.all_gather(np.array([drawn, is_given, _digest(repr(what).encode()) >> 1], np.int64))
    for rank, (number, has_seed, wanted) in enumerate(table.tolist()):
        if wanted != table[0, 2]:
            raise StateError(f"rank {rank} of {comm.name!r} draws other qubits or another number of shots than rank 0")
        if has_seed != table[0, 1] or (has_seed and number != table[0, 0]):
            raise StateError(
                f"rank {rank} of {comm.name!r} draws with another seed than rank 0. Ranks that share a state draw the "
                "same outcomes: give all of them the same seed, or None, which takes rank 0's random numbers"
            )
    return int(table[0, 0])


def _shared(comm: Communicator | None) -> TypeGuard[Communicator]:
    """Whether there is another rank to compare with."""
    return comm is not None and checked_communicator(comm).size > 1 and comm.backend != "counting"


def _check(comm: Communicator, digest: int, what: str, cause: str = _CAUSE) -> None:
    odd = _odd(comm, digest)
    if odd is not None:
        ranks, other = odd
        who = f"rank {ranks[0]} has" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))} have"
        raise StateError(f"{who} {what} than rank {other}, on {comm.name!r}. {cause}")


def _odd(comm: Communicator, digest: int) -> tuple[list[int], int] | None:
    """The ranks that differ from most (from rank 0 where it is undecided), and one of the others; None if all agree."""
    table = comm.all_gather(np.array(digest, np.uint64))
    if (table == table[0]).all():
        return None
    parties: dict[int, list[int]] = {}
    for rank, number in enumerate(table.tolist()):
        parties.setdefault(number, []).append(rank)
    usual = max(parties.values(), key=lambda ranks: (len(ranks), -ranks[0]))
    return [rank for rank in range(comm.size) if rank not in usual], usual[0]


def _shape(row: NDArray[np.int64]) -> tuple[int, ...]:
    return tuple(int(n) for n in row if n >= 0)


def _digest(text: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def _circuit_digest(given: Circuit, options: Sequence[Any]) -> int:
    """Digest of a circuit: its instructions, the data of its gates, and the affine map from parameters to angles."""
    state = hashlib.blake2b(digest_size=8)
    lines = []
    for gate, qubits, _, clbits, condition in given:
        lines.append((gate.name, gate.kind, gate.num_controls, gate.ctrl_state, qubits, clbits, condition))
        base = gate.base
        if gate.data is not None or base.data is not None:
            for data in (gate.data, base.data):
                state.update(_plain(data))
        elif base.is_unitary and not standard_name(base):
            state.update(_plain(base.matrix(*(0.3 + 0.4 * k for k in range(base.num_params)))))
    functions = given.functions
    symbols = (*given.parameters, *(functions.symbols if functions is not None else ()))
    names = [symbol.format(repr) for symbol in symbols]
    state.update(repr((given.num_qubits, given.num_clbits, lines, names, options)).encode())
    affine = given.affine()
    for array in (affine.slots, affine.parameters, affine.coefficients, affine.constants):
        state.update(_plain(array))
    return int.from_bytes(state.digest(), "little")


def _plain(data: Any) -> bytes:
    """The data of a gate as bytes: arrays by their values, everything else as Python writes it."""
    if isinstance(data, np.ndarray):
        return f"{data.shape}{data.dtype.str}".encode() + np.ascontiguousarray(data).tobytes()
    if isinstance(data, tuple | list):
        return b"(" + b",".join(_plain(one) for one in data) + b")"
    return repr(data).encode()


def _outline(made: Plan) -> Any:
    """The decisions of a plan, as plain values: which exchanges, stages and blocks in which order."""
    parts = [
        [
            (
                list(segment.swaps),
                segment.layout.positions,
                [
                    (stage.close, [(b.kind, b.mixes, b.all, len(b.operations)) for b in blocks])
                    for stage, blocks in segment.stages
                ],
            )
            for segment in part.segments
        ]
        for part in made.parts
    ]
    folded = sorted((qubit, [(gate.name, slot) for gate, slot in gates]) for qubit, gates in made.folded.items())
    return made.num_qubits, str(made.dtype), made.far, made.inside, made.schedule, made.layout.positions, folded, parts
