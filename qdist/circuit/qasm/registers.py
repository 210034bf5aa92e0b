"""Registers: declared, selected from, and broadcast over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from ..circuit import Circuit
from .evaluate import describe
from .frame import MAX_COUNT, WIRES_PER_UNIT, Budget, Frame
from .names import Bits, Qubits
from .syntax import Expr, Node, Operand, Range

Kind = TypeVar("Kind", Qubits, Bits)


class Registers:
    """The qubits and bits of one program."""

    def __init__(self, circuit: Circuit, budget: Budget) -> None:
        self._circuit = circuit
        self._budget = budget
        self._physical = False

    def declare(self, kind: type[Kind], size: int | None, node: Node) -> Kind:
        """New qubits or bits, numbered after those already there; without a size a single one."""
        count = size or 1
        if kind is Qubits:
            if self._physical:
                raise node.error("a program that uses physical qubits ($0, $1, ...) cannot declare others")
            first = self._circuit.num_qubits
            self._circuit.num_qubits += count
        else:
            first = self._circuit.num_clbits
            self._circuit.num_clbits += count
        if first + count > MAX_COUNT:
            raise node.error(f"a program may declare up to {MAX_COUNT:,} qubits and as many bits")
        return kind(tuple(range(first, first + count)), scalar=size is None)

    def select(self, operand: Operand, kind: type[Kind], frame: Frame) -> Kind:
        """The qubits or bits that an operand means."""
        if operand.name.startswith("$"):
            return self._physical_qubit(operand, kind)
        end = operand.start + len(operand.name)
        found = frame.names.value(operand.name, operand.source, operand.start, end)
        if not isinstance(found, kind):
            wanted = "qubits" if kind is Qubits else "classical bits"
            raise operand.error(f"expected {wanted}, but '{operand.name}' is {describe(found)}")
        selector = operand.selector
        if selector is None:
            return found
        if found.scalar:
            raise operand.error(f"'{operand.name}' is {found} and cannot be indexed")
        if isinstance(selector, Expr):
            return kind((found.wires[self._index(selector, found, operand, frame)],), scalar=True)
        if isinstance(selector, Range):
            places: Sequence[int] = self._slice(selector, found, operand, frame)
        else:
            places = [self._index(node, found, operand, frame) for node in selector]
        self._budget.spend(len(places) // WIRES_PER_UNIT, operand)
        chosen = tuple(found.wires[place] for place in places)
        if len(set(chosen)) != len(chosen):
            raise operand.error("the same element is selected twice")
        return kind(chosen)

    def join(self, operands: tuple[Operand, ...], frame: Frame, node: Node) -> Qubits | Bits:
        """What `a ++ b ++ ...` means."""
        kind: type = Bits if isinstance(frame.names.get(operands[0].name), Bits) else Qubits
        parts = [self.select(operand, kind, frame) for operand in operands]
        wires = tuple(wire for part in parts for wire in part.wires)
        self._budget.spend(len(wires) // WIRES_PER_UNIT, node)
        if len(set(wires)) != len(wires):
            raise node.error("an alias cannot hold the same qubit or bit twice")
        return kind(wires, scalar=len(parts) == 1 and parts[0].scalar)

    def applications(self, operands: tuple[Operand, ...], frame: Frame, node: Node) -> Iterator[tuple[int, ...]]:
        """The qubits of each application of a gate: registers in step, single qubits the same in all."""
        found = [self.select(operand, Qubits, frame) for operand in operands]
        sizes = {len(qubits.wires) for qubits in found if not qubits.scalar}
        if len(sizes) > 1:
            raise node.error(f"registers of different sizes cannot be combined: {sorted(sizes)}")
        count = sizes.pop() if sizes else 1
        self._budget.spend_on_copies(count, node)
        for place in range(count):
            chosen = tuple(qubits.wires[0 if qubits.scalar else place] for qubits in found)
            if len(set(chosen)) != len(chosen):
                first: dict[int, int] = {}
                for k, qubit in enumerate(chosen):
                    if first.setdefault(qubit, k) != k:
                        raise operands[k].error("the qubits of one operation must differ; this one repeats")
            yield chosen

    def _physical_qubit(self, operand: Operand, kind: type[Kind]) -> Kind:
        if kind is not Qubits:
            raise operand.error(f"expected classical bits, but '{operand.name}' is a physical qubit")
        if self._circuit.num_qubits and not self._physical:
            raise operand.error("a program that declares qubits cannot use physical ones ($0, $1, ...)")
        digits = operand.name[1:].lstrip("0") or "0"
        if len(digits) >= len(str(MAX_COUNT)):
            raise operand.error(f"physical qubits go up to ${MAX_COUNT - 1}")
        self._physical = True
        self._circuit.num_qubits = max(self._circuit.num_qubits, int(digits) + 1)
        return kind((int(digits),), scalar=True)

    def _index(self, node: Expr, register: Qubits | Bits, operand: Operand, frame: Frame) -> int:
        index, size = frame.integer(node, "an index"), len(register.wires)
        if not -size <= index < size:
            raise node.error(f"index {index} is out of range: '{operand.name}' has elements 0 to {size - 1}")
        return index % size

    def _slice(self, node: Range, register: Qubits | Bits, operand: Operand, frame: Frame) -> range:
        step, size = frame.step(node.step), len(register.wires)
        first, last = (0, size - 1) if step > 0 else (size - 1, 0)
        if node.first is not None:
            first = self._index(node.first, register, operand, frame)
        if node.last is not None:
            last = self._index(node.last, register, operand, frame)
        places = range(first, last + (1 if step > 0 else -1), step)
        if not places:
            raise node.error("the range is empty")
        return places
