"""Time evolution by product formulas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from qdist.hints import hinted

from ..circuit import Circuit
from ..errors import CircuitError
from ..parameters import Angle
from ..pauli import Hermitian, PauliString, PauliSum
from ..wires import check_count
from .arguments import angle
from .graphs import disjoint_layers, lattice_edges, num_sites
from .hamiltonians import heisenberg_xxz, tfim

Hamiltonian: TypeAlias = PauliSum | PauliString | Mapping[Any, complex] | str | Hermitian
"""What PauliSum can be made of, other than pairs, which would look like parts."""
_FORMS = (PauliSum, PauliString, Mapping, str, Hermitian)


def add_rotation(circuit: Circuit, angle: Angle, string: PauliString) -> None:
    """Add exp(-i angle/2 string) by the simplest gate that does it."""
    qubits = string.qubits
    letters = "".join(string.letter(qubit) for qubit in reversed(qubits))
    match letters:
        case "":
            circuit.gphase(-0.5 * angle)
        case "X" | "Y" | "Z" | "XX" | "YY" | "ZZ":
            getattr(circuit, "r" + letters.lower())(angle, *qubits)
        case _:
            circuit.pauli_rotation(angle, letters, qubits)


@hinted
def trotter(
    hamiltonian: Hamiltonian | Sequence[Hamiltonian],
    time: Angle,
    steps: int = 1,
    order: int = 1,
    num_qubits: int | None = None,
) -> Circuit:
    """exp(-i H time) by the product formulas of Trotter and Suzuki (Suzuki, J. Math. Phys. 32, 400 (1991)).

    Args:
        hamiltonian: a Hermitian sum, or the parts of one in the order in which they are to act: each a PauliSum,
            PauliString, dict of strings and coefficients, text like "Z0 Z1", or a Hermitian. The strings of a part
            must commute, so that its evolution is exact. A sum is split into its qubit-wise commuting groups.
        time: a number, or a Parameter.
        steps: the number of equal steps.
        order: 1 (error time^2 / steps), or 2, 4, 6, ... (error time^(order + 1) / steps^order).
        num_qubits: the number of qubits, if more than the Hamiltonian acts on.
    """
    parts = [part for part in _parts(hamiltonian) if len(part)]
    for part in parts:
        if not part.is_hermitian():
            raise CircuitError(f"the coefficients of a Hamiltonian must be real: {part!r}")
        if not part.is_commuting():
            raise CircuitError(f"the strings of a part must commute with each other: {part!r}")
    if not isinstance(order, int | np.integer) or order < 1 or (order > 1 and order % 2):
        raise CircuitError(f"the order must be 1 or even, got {order!r}")
    time, steps = angle(time, "the time"), check_count(steps, "steps")
    if steps < 1:
        raise CircuitError(f"at least one step is needed, got {steps}")
    needed = max((part.num_qubits for part in parts), default=0)
    circuit = Circuit(needed if num_qubits is None else num_qubits)
    terms = [[(string, c.real) for string, c in part.simplify(0)] for part in parts]
    sequence = [factor for _ in range(steps) for factor in _formula(len(parts), order, 1 / steps)]
    for index, fraction in _merged(sequence):
        for string, coefficient in terms[index]:
            add_rotation(circuit, 2 * coefficient * fraction * time, string)
    return circuit


def _parts(hamiltonian: Hamiltonian | Sequence[Hamiltonian]) -> Sequence[PauliSum]:
    if isinstance(hamiltonian, _FORMS):
        return _sum(hamiltonian).group_qubit_wise_commuting()
    if not isinstance(hamiltonian, Iterable):
        raise CircuitError(f"a Hamiltonian is a sum of Pauli strings, or a list of parts; got {hamiltonian!r}")
    return [_sum(part) for part in hamiltonian]


def _sum(part: Hamiltonian) -> PauliSum:
    if isinstance(part, Hermitian):
        return part.to_pauli_sum()
    if isinstance(part, PauliSum | PauliString | Mapping | str):
        return PauliSum(part)
    raise CircuitError(
        f'a part of a Hamiltonian is a sum such as {{"Z0 Z1": -1.0, "X0": 0.5}}; got {part!r} (PauliSum(pairs) makes a '
        "sum of a list of pairs)"
    )


def _formula(num_parts: int, order: int, time: float) -> Iterator[tuple[int, float]]:
    """The (part, time) factors of one step, in the order in which they act."""
    if order == 1:
        yield from ((part, time) for part in range(num_parts))
    elif order == 2:
        yield from ((part, time / 2) for part in range(num_parts))
        yield from ((part, time / 2) for part in reversed(range(num_parts)))
    else:
        # Suzuki's recursion: the outer and the inner steps cancel the leading error of the lower order.
        outer = 1 / (4 - 4 ** (1 / (order - 1)))
        for share in (outer, outer, 1 - 4 * outer, outer, outer):
            yield from _formula(num_parts, order - 2, share * time)


def _merged(sequence: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """Neighbouring factors of one part as one factor."""
    merged: list[tuple[int, float]] = []
    for part, time in sequence:
        if merged and merged[-1][0] == part:
            merged[-1] = (part, merged[-1][1] + time)
        else:
            merged.append((part, time))
    return merged


@hinted
def tfim_evolution(
    shape: int | Sequence[int],
    time: Angle,
    steps: int = 1,
    order: int = 1,
    J: float = 1.0,
    h: float = 1.0,
    periodic: bool = False,
) -> Circuit:
    """Evolution under the transverse-field Ising model `tfim(shape, J, h, periodic)`.

    A step turns all bonds by RZZ and all sites by RX; see `trotter` for time, steps and order.
    """
    parts = [tfim(shape, J, 0, periodic), tfim(shape, 0, h)]
    return trotter(parts, time, steps, order, num_sites(shape))


@hinted
def heisenberg_evolution(
    shape: int | Sequence[int],
    time: Angle,
    steps: int = 1,
    order: int = 1,
    J: float = 1.0,
    delta: float = 1.0,
    h: float = 0.0,
    periodic: bool = False,
) -> Circuit:
    """Evolution under the Heisenberg model `heisenberg_xxz(shape, J, delta, h, periodic)`.

    The parts are layers of bonds that share no site (on a chain the even and the odd bonds), on each of which
    XX, YY and ZZ commute, and last the field; see `trotter` for time, steps and order.
    """
    bond = heisenberg_xxz(2, J, delta)
    layers = disjoint_layers(lattice_edges(shape, periodic))
    parts = [sum((bond.relabel(edge) for edge in layer), PauliSum()) for layer in layers]
    return trotter([*parts, heisenberg_xxz(shape, 0, 0, h)], time, steps, order, num_sites(shape))
