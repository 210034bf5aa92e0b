"""OpenQASM 3."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from ..circuit import Circuit
from ..gates import Gate
from ..instruction import Condition, Instruction
from ..parameters import Angle, Parameter, ParameterVector, ParameterVectorElement
from .parser3 import Parser3
from .standard import STDGATES
from .writer import Writer

# The table's u and u2 differ by a phase from what OpenQASM 3 calls U and u2.
_LITERAL_BODIES = {
    "u": ["U(p0, p1, p2) q0;", "gphase(-p0/2);"],
    "u2": ["u2(p0, p1) q0;", "gphase((p0 + p1)/2);"],
    "phased_u": ["U(p0, p1, p2) q0;", "gphase(p3 - p0/2);"],
}
_INDENT = "  "


class Writer3(Writer):
    """Writes a circuit as OpenQASM 3."""

    version = 3
    header = 'OPENQASM 3.0;\ninclude "stdgates.inc";'
    reserved = Parser3.reserved | set(STDGATES)

    def __init__(self, circuit: Circuit) -> None:
        super().__init__(circuit)
        self.bit_register = self.new_name("c")
        self._inputs: list[str] = []
        self._renamed: dict[Parameter | ParameterVector, Parameter] = {}
        self._declare_inputs()

    # Parameters.

    def _declare_inputs(self) -> None:
        vectors: dict[ParameterVector, str] = {}
        for parameter in self.circuit.parameters:
            if isinstance(parameter, ParameterVectorElement):
                vector = parameter.vector
                if vector not in vectors:
                    vectors[vector] = self.new_name(vector.name)
                    self._inputs.append(f"input array[float[64], {len(vector)}] {vectors[vector]};")
                name = f"{vectors[vector]}[{parameter.index}]"
            else:
                name = self.new_name(parameter.name)
                self._inputs.append(f"input float[64] {name};")
            if name != parameter.name:
                self._renamed[parameter] = Parameter(name)

    def declarations_before_gates(self) -> list[str]:
        return self._inputs

    def declarations(self) -> list[str]:
        circuit = self.circuit
        lines = [f"qubit[{circuit.num_qubits}] {self.qubit_register};"] if circuit.num_qubits else []
        return lines + ([f"bit[{circuit.num_clbits}] {self.bit_register};"] if circuit.num_clbits else [])

    # Gates.

    def gate_name(self, gate: Gate) -> str | None:
        if gate.name == "gphase":
            return "gphase"
        builtin = STDGATES.get(gate.qasm3_name or "")
        return gate.qasm3_name if builtin is not None and builtin.phase is None else None

    def literal_body(self, gate: Gate) -> list[str] | None:
        return _LITERAL_BODIES.get(gate.name)

    def call(self, gate: Gate, params: Sequence[Angle], operands: Sequence[str]) -> str:
        if self.gate_name(gate) is None and gate.num_controls:
            return _modifiers(gate) + super().call(gate.base, params, operands)
        return super().call(gate, params, operands)

    # Statements.

    def statements(self) -> list[str]:
        circuit = self.circuit.bind(self._renamed, partial=True) if self._renamed else self.circuit
        return self._block(circuit.instructions, 0)

    def _block(self, instructions: Sequence[Instruction], depth: int) -> list[str]:
        """Statements for instructions that share the first `depth` tests of their conditions."""
        lines: list[str] = []
        start = 0
        previous: Condition | None = None
        while start < len(instructions):
            condition = instructions[start].condition
            if len(condition) == depth:
                lines += self._statements(instructions[start])
                start += 1
                previous = None
                continue
            test = condition[depth]
            end, written = _run(instructions, start, depth)
            inner = [_INDENT + line for line in self._block(instructions[start:end], depth + 1)]
            if previous is not None and test == previous._replace(equal=not previous.equal):
                lines[-1] = "} else {"
                previous = None
            else:
                lines.append(f"if ({self._test(test)}) {{")
                # What changes a tested bit ends the block, and an else would no longer see the same value.
                previous = None if written else test
            lines += [*inner, "}"]
            start = end
        return lines

    def _statements(self, instruction: Instruction) -> list[str]:
        gate = instruction.gate
        operands = [self.qubits[q] for q in instruction.qubits]
        if gate.kind == "gate":
            return [self.gate_statement(instruction)]
        if gate.kind == "measure":
            return [f"{self.bit_register}[{instruction.clbits[0]}] = measure {operands[0]};"]
        if gate.kind == "reset":
            return [f"reset {operands[0]};"]
        if gate.kind == "initialize":
            return self.initialize_statements(instruction)
        if list(instruction.qubits) == list(range(self.circuit.num_qubits)):
            return ["barrier;"]
        return [f"barrier {', '.join(operands)};"]

    def _test(self, test: Condition) -> str:
        name = self.bit_register
        if len(test.clbits) > 1 and list(test.clbits) == list(range(self.circuit.num_clbits)):
            return f"{name} {'==' if test.equal else '!='} {test.value}"
        bits = [f"{name}[{clbit}] == {test.value >> place & 1}" for place, clbit in enumerate(test.clbits)]
        if len(bits) == 1 and not test.equal:
            return bits[0].replace("==", "!=")
        return " && ".join(bits) if test.equal else f"!({' && '.join(bits)})"


def _modifiers(gate: Gate) -> str:
    """`ctrl(2) @ negctrl @ ` for the controls of a gate, the first control first."""
    values = [gate.ctrl_state >> k & 1 for k in range(gate.num_controls)]
    text = ""
    for value, run in groupby(values):
        count = len(list(run))
        text += f"{'ctrl' if value else 'negctrl'}{f'({count})' if count > 1 else ''} @ "
    return text


def _run(instructions: Sequence[Instruction], start: int, depth: int) -> tuple[int, bool]:
    """The end of the instructions under one test, and whether the last of them changes a tested bit."""
    test = instructions[start].condition[depth]
    for end in range(start, len(instructions)):
        instruction = instructions[end]
        if instruction.condition[depth : depth + 1] != (test,):
            return end, False
        if not set(test.clbits).isdisjoint(instruction.clbits):
            return end + 1, True
    return len(instructions), False
