"""Qubits of transpiled circuits: numbered as before transpiling, and without those to which nothing happens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from qdist.circuit import Circuit
from qdist.circuit.gates import GATES
from qdist.circuit.instruction import Instruction

__all__ = ["in_virtual_order", "on_qubits", "used_qubits"]


def used_qubits(circuit: Circuit) -> list[int]:
    """The qubits that any instruction but a barrier is on, in order."""
    used: set[int] = set()
    for gate, qubits, *_ in circuit:
        if not gate.is_directive:
            used.update(qubits)
            if len(used) == circuit.num_qubits:
                break
    return sorted(used)


def on_qubits(circuit: Circuit, number: dict[int, int], count: int) -> Circuit:
    """The circuit on ``count`` qubits, of which number[q] takes the place of q. Barriers lose qubits without one."""
    result = Circuit(count, circuit.num_clbits, circuit.name)
    instructions = []
    for instruction in circuit:
        if instruction.gate.is_directive:
            kept = [number[q] for q in instruction.qubits if q in number]
            if kept:
                result.barrier(*kept)
                instructions.append(result[-1])
        else:
            instructions.append(instruction._replace(qubits=tuple([number[q] for q in instruction.qubits])))
    return result.with_instructions(instructions)


def in_virtual_order(circuit: Circuit, layout: Any) -> Circuit:
    """A circuit on physical qubits as one on the qubits that it had before transpiling.

    Qubits get the numbers that they have at the end, so that measurements stay at the end; swaps at the beginning lead
    there from where they started.
    """
    starts, ends = layout.initial_index_layout(), layout.final_index_layout(filter_ancillas=False)
    number = {physical: virtual for virtual, physical in enumerate(ends)}
    # The qubit that begins as number k is at first where the one that ends as number moved[k] will be.
    moved = [number[physical] for physical in starts]
    swaps = [Instruction(GATES["swap"], pair) for pair in _transpositions(moved)]
    used = {number[q] for q in used_qubits(circuit)}.union(q for swap in swaps for q in swap.qubits)
    inputs = len(layout.final_index_layout())
    count = max([inputs, *(q + 1 for q in used)])
    places = {physical: virtual for physical, virtual in number.items() if virtual < count}
    relabelled = on_qubits(circuit, places, count)
    return relabelled.with_instructions([*swaps, *relabelled])


def _transpositions(moved: Sequence[int]) -> list[tuple[int, int]]:
    """Swaps that take qubit k to place moved[k], for all k."""
    at, swaps = list(moved), []
    for k in range(len(at)):
        while at[k] != k:
            swaps.append((k, at[k]))
            target = at[k]
            at[k], at[target] = at[target], at[k]
    return swaps
