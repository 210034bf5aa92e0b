"""OpenQASM 3."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from ..circuit import Circuit
from ..gate import standard_name
from ..gates import GATES, Gate
from ..instruction import Condition, Instruction
from ..parameters import Angle, Parameter, ParameterVector, ParameterVectorElement
from .inputs import ELEMENT, element_name
from .parser3 import Parser3
from .standard import STDGATES
from .writer import Writer, identifier

# Readers disagree on the phase of U, u2 and u3 (Qiskit's U lacks the e^{i theta/2} of the specification), and under
# controls that phase matters; on p and ry they agree, and p(phi) ry(theta) p(lambda) is the table's u.
_LITERAL_BODIES = {
    "u": ["p(p2) q0;", "ry(p0) q0;", "p(p1) q0;"],
    "u2": ["p(p1) q0;", "ry(pi/2) q0;", "p(p0) q0;"],
    "phased_u": ["p(p2) q0;", "ry(p0) q0;", "p(p1) q0;", "gphase(p3);"],
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

    def new_name(self, wanted: str) -> str:
        name = super().new_name(wanted)
        while ELEMENT.fullmatch(name):  # the reader would take it for an element of a vector
            name = super().new_name(f"{name}_")
        return name

    def _declare_inputs(self) -> None:
        vectors: dict[ParameterVector, list[str]] = {}
        for parameter in self.circuit.parameters:
            if isinstance(parameter, ParameterVectorElement):
                vector = parameter.vector
                if vector not in vectors:
                    vectors[vector] = self._vector_names(vector)
                    self._inputs += [f"input float[64] {name};" for name in vectors[vector]]
                name = vectors[vector][parameter.index]
            else:
                name = self.new_name(parameter.name)
                self._inputs.append(f"input float[64] {name};")
            if name != parameter.name:
                self._renamed[parameter] = Parameter(name)

    def _vector_names(self, vector: ParameterVector) -> list[str]:
        """Names for all elements. Few readers know arrays of inputs, so each element is an input of its own."""
        name = identifier(vector.name)
        while True:
            names = [element_name(name, index) for index in range(len(vector))]
            if self._taken.isdisjoint(names):
                self._taken.update(names)
                return names
            name += "_"

    def declarations_before_gates(self) -> list[str]:
        return self._inputs

    def declarations(self) -> list[str]:
        circuit = self.circuit
        lines = [f"qubit[{circuit.num_qubits}] {self.qubit_register};"] if circuit.num_qubits else []
        return lines + ([f"bit[{circuit.num_clbits}] {self.bit_register};"] if circuit.num_clbits else [])

    # Gates.

    def gate_name(self, gate: Gate) -> str | None:
        if gate is GATES["gphase"]:
            return "gphase"
        builtin = STDGATES.get(gate.qasm3_name or "")
        return gate.qasm3_name if builtin is not None and builtin.phase is None else None

    def literal_body(self, gate: Gate) -> list[str] | None:
        return _LITERAL_BODIES.get(standard_name(gate))

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
            elif not test.equal:
                # Readers that know no '!=' know this.
                lines += [f"if ({self._test(test)}) {{", "} else {"]
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
        """The condition that bits equal the value of a test, in a form that all readers know."""
        name, clbits = self.bit_register, test.clbits
        if len(clbits) == 1:
            return f"{'' if test.value else '!'}{name}[{clbits[0]}]"
        if clbits == tuple(range(self.circuit.num_clbits)):
            return f"{name} == {test.value}"
        if clbits == tuple(range(clbits[0], clbits[0] + len(clbits))):
            return f"{name}[{clbits[0]}:{clbits[-1]}] == {test.value}"
        return f"{name}[{{{', '.join(map(str, clbits))}}}] == {test.value}"


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
