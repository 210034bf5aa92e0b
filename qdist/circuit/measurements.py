"""Which measurements and resets of a circuit its final state depends on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .instruction import Instruction

__all__ = ["is_random", "split_final_measurements", "without_idle_resets"]


def split_final_measurements(instructions: Sequence[Instruction]) -> tuple[list[Instruction], dict[int, int]]:
    """The instructions without the measurements (and barriers) at the end, and what those measure: {clbit: qubit}.

    A measurement is at the end if nothing but barriers and measurements at the end come to its qubit after it, and
    nothing depends on its outcome: no condition tests it, and no measurement under a condition may or may not replace
    it. Bits that later measurements write over are not among the clbits. What is measured under a condition stays.
    """
    kept: list[Instruction] = []
    sources: dict[int, int] = {}
    busy: set[int] = set()  # qubits to which something happens later
    tested: set[int] = set()  # bits that are tested later, before they are written
    unsure: set[int] = set()  # bits that are written later under a condition, before they are written for certain
    written: set[int] = set()  # bits that are written later for certain
    for instruction in reversed(instructions):
        gate, qubits, _, clbits, condition = instruction
        if gate.is_directive:
            if not busy.isdisjoint(qubits):
                kept.append(instruction)
            continue
        if gate.kind == "measure" and not condition:
            (qubit,), (clbit,) = qubits, clbits
            if qubit in busy or clbit in tested or clbit in unsure:
                kept.append(instruction)
                busy.add(qubit)
            elif clbit not in written:
                sources[clbit] = qubit
            written.add(clbit)
            tested.discard(clbit)
            unsure.discard(clbit)
            continue
        kept.append(instruction)
        busy.update(qubits)
        unsure.update(clbit for clbit in clbits if clbit not in written)
        tested.update(clbit for test in condition for clbit in test.clbits)
    return kept[::-1], dict(sorted(sources.items()))


def without_idle_resets(instructions: Iterable[Instruction]) -> list[Instruction]:
    """The instructions without resets of qubits to which nothing has happened since |0...0>."""
    kept: list[Instruction] = []
    touched: set[int] = set()
    for instruction in instructions:
        if instruction.gate.kind == "reset" and touched.isdisjoint(instruction.qubits):
            continue
        kept.append(instruction)
        if not instruction.gate.is_directive:
            touched.update(instruction.qubits)
    return kept


def is_random(instructions: Iterable[Instruction], num_qubits: int, from_zero: bool) -> bool:
    """Whether two runs may end in different states: something is measured, or put into a new state while it may be
    entangled with other qubits. from_zero: they begin with |0...0>, not with a given state."""
    touched: set[int] = set() if from_zero else set(range(num_qubits))
    for gate, qubits, *_ in instructions:
        if gate.kind == "measure":
            return True
        # Where all qubits are prepared anew, nothing is left that the outcome could have mattered to.
        prepared = gate.kind == "reset" or (gate.kind == "initialize" and len(qubits) < num_qubits)
        if prepared and not touched.isdisjoint(qubits):
            return True
        if not gate.is_directive:
            touched.update(qubits)
    return False
