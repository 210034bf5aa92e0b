"""CX gates and phases that alternate as one block of phases and one change of the index.

Behind CX gates a qubit holds a parity of what the qubits were before, and a phase there is a phase of that parity: a
polynomial of the bits, x + y - 2xy for two of them. So all phases of a run can come first, and all CX gates after them,
or none, where they undo each other. A Toffoli gate as compilers write it, six CX and seven T between two H, is eight
passes of a tile or more; here its phases add up to pi x y z, a single one, and others that undo each other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from qdist.circuit.pauli.text import qubits_of
from qdist.plan.operations import Affine, Operation, scaled

__all__ = ["with_phases_folded"]

_MOST_BITS = 3
"""Of a parity: the polynomial of one of four bits has 15 terms."""
_ROUNDING = 1e-12


def with_phases_folded(operations: Sequence[Operation]) -> list[Operation]:
    """The same operations, runs of CX gates and phases that alternate as phases and then CX gates; all others stay in
    their places."""
    if not any(operation.kind in ("flip", "swap") and operation.all.bit_count() == 2 for operation in operations):
        return list(operations)
    placed: list[list[Operation]] = [[operation] for operation in operations]
    runs: dict[int, _Run] = {}
    """By qubit."""

    def end(qubits: int) -> None:
        for run in _different(runs, qubits):
            for q in qubits_of(run.qubits):
                del runs[q]
            if (folded := run.folded()) is not None:
                for number, _ in run.operations:
                    placed[number] = []
                placed[run.operations[-1][0]] = folded

    for number, operation in enumerate(operations):
        if not _is_linear(operation) and not _is_phase(operation):
            end(operation.all)
            continue
        if _is_phase(operation) and not _fits(operation, runs):
            end(operation.all)
        run = _Run()
        for other in _different(runs, operation.all):
            run.join(other)
        run.add(number, operation)
        runs.update(dict.fromkeys(qubits_of(run.qubits), run))
    end(sum(1 << q for q in runs))
    return [operation for own in placed for operation in own]


def _different(runs: dict[int, _Run], qubits: int) -> list[_Run]:
    """The runs on some qubits, each once."""
    return list({id(runs[q]): runs[q] for q in qubits_of(qubits) if q in runs}.values())


def _is_linear(operation: Operation) -> bool:
    return operation.kind in ("flip", "swap") and len(operation.controls) <= 1


def _is_phase(operation: Operation) -> bool:
    return operation.kind == "diagonal" and not operation.wide and operation.all != 0


def _fits(phases: Operation, runs: dict[int, _Run]) -> bool:
    """Whether its parities have few bits."""
    return all(
        parity.bit_count() <= _MOST_BITS
        for product, _ in phases.terms
        for parity in _parities([runs[q].values[q] if q in runs else 1 << q for q in product])
    )


def _parities(values: list[int]) -> Iterator[int]:
    """Of the values in a product of one or two bits."""
    yield from values
    if len(values) == 2:
        yield values[0] ^ values[1]


@dataclass(slots=True)
class _Run:
    """CX gates, SWAP gates, X gates and phases on some qubits."""

    qubits: int = 0
    operations: list[tuple[int, Operation]] = field(default_factory=list)
    values: dict[int, int] = field(default_factory=dict)
    """What each qubit holds: a mask of those whose first values' parity it is."""
    flipped: dict[int, bool] = field(default_factory=dict)
    """Whether it is the opposite of that."""
    phases: defaultdict[int, list[Affine]] = field(default_factory=lambda: defaultdict(list))
    """Of each parity; of 0 those of all amplitudes."""
    behind: int = 0
    """Qubits with phases of other parities than their first value."""
    alternates: bool = False

    def join(self, other: _Run) -> None:
        """With what happened on other qubits."""
        self.qubits |= other.qubits
        self.operations = sorted(self.operations + other.operations, key=lambda numbered: numbered[0])
        self.values |= other.values
        self.flipped |= other.flipped
        for parity, angles in other.phases.items():
            self.phases[parity] += angles
        self.behind |= other.behind
        self.alternates = self.alternates or other.alternates

    def add(self, number: int, operation: Operation) -> None:
        self.operations.append((number, operation))
        self.qubits |= operation.all
        for q in qubits_of(operation.all):
            self.values.setdefault(q, 1 << q)
            self.flipped.setdefault(q, False)
        if operation.kind == "diagonal":
            for product, affine in operation.terms:
                self._add_phase(list(product), affine)
            return
        self.alternates = self.alternates or bool(self.behind & operation.all)
        if operation.kind == "swap":
            a, b = operation.targets
            self.values[a], self.values[b] = self.values[b], self.values[a]
            self.flipped[a], self.flipped[b] = self.flipped[b], self.flipped[a]
            return
        (target,) = operation.targets
        if not operation.controls:
            self.flipped[target] = not self.flipped[target]
            return
        ((control, value),) = operation.controls
        self.values[target] ^= self.values[control]
        self.flipped[target] ^= self.flipped[control] ^ (value == 0)

    def _add_phase(self, product: list[int], affine: Affine) -> None:
        """x y = (x + y - (x ^ y)) / 2"""
        for q in product:
            if self.values[q] != 1 << q:
                self.behind |= 1 << q
        if not product:
            self.phases[0].append(affine)
        elif len(set(product)) == 1:
            self._add_parity(self.values[product[0]], self.flipped[product[0]], affine)
        else:
            a, b = product
            for q in product:
                self._add_parity(self.values[q], self.flipped[q], scaled(affine, 0.5))
            self._add_parity(self.values[a] ^ self.values[b], self.flipped[a] ^ self.flipped[b], scaled(affine, -0.5))

    def _add_parity(self, parity: int, is_flipped: bool, affine: Affine) -> None:
        """1 - p where the value is the opposite."""
        if is_flipped:
            self.phases[0].append(affine)
            affine = scaled(affine, -1.0)
        if parity:
            self.phases[parity].append(affine)

    def folded(self) -> list[Operation] | None:
        """Phases, then what is left of the CX gates; None where nothing stands between two of them, or the polynomial
        has more terms of three bits than there are passes to save."""
        if not self.alternates:
            return None
        polynomial = _polynomial(self.phases)
        moves = [operation for _, operation in self.operations if operation.kind != "diagonal"]
        if 2 * sum(len(bits) > 2 for bits in polynomial) > len(moves):
            return None
        return [*_diagonal(polynomial), *self._left_of(moves)]

    def _left_of(self, moves: list[Operation]) -> list[Operation]:
        """CX gates that do what these do, if they are fewer; elimination finds them, last first."""
        rows, found = dict(self.values), list[tuple[int, int]]()

        def add(control: int, target: int) -> None:
            rows[target] ^= rows[control]
            found.append((control, target))

        for q in sorted(rows):
            if not rows[q] >> q & 1:
                add(next(r for r in sorted(rows) if r > q and rows[r] >> q & 1), q)
            for r in sorted(rows):
                if r != q and rows[r] >> q & 1:
                    add(q, r)
        if len(found) >= len(moves):
            return moves
        flips = [_flip(q, None) for q, is_flipped in self.flipped.items() if is_flipped]
        return [_flip(target, control) for control, target in reversed(found)] + flips


def _flip(target: int, control: int | None) -> Operation:
    mask = 1 << target
    if control is None:
        return Operation("flip", mask, mask, 0, (target,))
    return Operation("flip", mask, mask, 1 << control, (target,), ((control, 1),))


_Polynomial = dict[tuple[int, ...], Affine]


def _polynomial(phases: dict[int, list[Affine]]) -> _Polynomial:
    """Of the bits, by products of them: a parity is the sum of all products of its bits with factors 1, -2, 4."""
    constants: defaultdict[tuple[int, ...], float] = defaultdict(float)
    slots: defaultdict[tuple[int, ...], defaultdict[int, float]] = defaultdict(lambda: defaultdict(float))
    for parity, angles in phases.items():
        bits = tuple(qubits_of(parity))
        sizes = range(1, len(bits) + 1) if bits else (0,)
        for size in sizes:
            factor = (-2.0) ** (size - 1) if size else 1.0
            for product in combinations(bits, size):
                for constant, terms in angles:
                    constants[product] += factor * constant
                    for slot, coefficient in terms:
                        slots[product][slot] += factor * coefficient
    found: _Polynomial = {}
    for product, constant in constants.items():
        kept = tuple((slot, c) for slot, c in slots[product].items() if abs(c) > _ROUNDING)
        if kept or abs(constant) > _ROUNDING:
            found[product] = constant if abs(constant) > _ROUNDING else 0.0, kept
    return found


def _diagonal(polynomial: _Polynomial) -> list[Operation]:
    if not polynomial:
        return []
    mask = sum(1 << q for q in {q for product in polynomial for q in product})
    terms = [(product, affine) for product, affine in polynomial.items() if len(product) <= 2]
    wide = [(tuple((q, 1) for q in p), affine) for p, affine in polynomial.items() if len(p) > 2]
    return [Operation("diagonal", 0, 0, mask, terms=terms, wide=wide)]
