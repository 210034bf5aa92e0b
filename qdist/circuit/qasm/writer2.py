"""OpenQASM 2."""

from __future__ import annotations

from ..gates import Gate
from ..instruction import Condition
from .errors import QasmError
from .parser2 import Parser2
from .standard import QELIB1
from .writer import Writer


class Writer2(Writer):
    """Writes a circuit as OpenQASM 2. Raises QasmError for what that language cannot say."""

    version = 2
    header = 'OPENQASM 2.0;\ninclude "qelib1.inc";'
    # Gates that only later headers have are defined here, under the names that they have there: readers with the
    # original header need the definition, and those with a later one accept it.
    reserved = Parser2.reserved | set(QELIB1)
    phase_operands = 1

    def gate_name(self, gate: Gate) -> str | None:
        return gate.qasm2_name if gate.qasm2_name in QELIB1 else None

    def declarations(self) -> list[str]:
        count = self.circuit.num_qubits
        lines = [f"qreg {self.qubit_register}[{count}];"] if count else []
        return lines + [f"creg {name}[{size}];" for name, size in self._registers]

    def statements(self) -> list[str]:
        if self.circuit.num_parameters:
            names = ", ".join(parameter.name for parameter in self.circuit.parameters)
            raise QasmError(f"OpenQASM 2 has no parameters; bind them first ({names}), or use version=3")
        self._declare_bits()
        lines = []
        for instruction in self.circuit:
            gate = instruction.gate
            operands = [self.qubits[q] for q in instruction.qubits]
            if gate.kind == "gate":
                statements = [self.gate_statement(instruction)]
            elif gate.kind == "measure":
                statements = [f"measure {operands[0]} -> {self._clbits[instruction.clbits[0]]};"]
            elif gate.kind == "reset":
                statements = [f"reset {operands[0]};"]
            elif gate.kind == "initialize":
                statements = self.initialize_statements(instruction)
            else:
                whole = list(instruction.qubits) == list(range(self.circuit.num_qubits))
                statements = [f"barrier {self.qubit_register if whole else ', '.join(operands)};"]
                if instruction.condition or not operands:
                    raise QasmError("OpenQASM 2 has no barrier under a condition or without qubits; use version=3")
            lines += [self._conditional(instruction.condition, statement) for statement in statements]
        return lines

    def _declare_bits(self) -> None:
        """Registers such that each condition tests all of one, which is all that OpenQASM 2 can test."""
        count = self.circuit.num_clbits
        groups = {test.clbits for instruction in self.circuit for test in instruction.condition}
        owner: list[tuple[int, ...] | None] = [None] * count
        for group in sorted(groups):
            consecutive = group == tuple(range(group[0], group[0] + len(group)))
            if not consecutive or any(owner[clbit] is not None for clbit in group):
                raise QasmError(
                    "OpenQASM 2 tests whole registers, and the circuit's conditions do not split its bits "
                    f"into registers (bits {list(group)} and others); use version=3"
                )
            for clbit in group:
                owner[clbit] = group
        starts = [k for k in range(count) if k == 0 or owner[k] != owner[k - 1]]
        sizes = [end - start for start, end in zip(starts, [*starts[1:], count])]
        names = [self.new_name("c" if len(starts) == 1 else f"c{k}") for k in range(len(starts))]
        self._registers = list(zip(names, sizes))
        self._clbits = [f"{name}[{k}]" for name, size in self._registers for k in range(size)]

    def _conditional(self, condition: tuple[Condition, ...], statement: str) -> str:
        if not condition:
            return statement
        test = condition[0]
        if len(condition) > 1 or not (test.equal or len(test.clbits) == 1):
            raise QasmError(
                "OpenQASM 2 can test only that one register equals a value; nested conditions and 'else' need version=3"
            )
        value = test.value if test.equal else 1 - test.value
        register = self._clbits[test.clbits[0]].partition("[")[0]
        return f"if ({register} == {value}) {statement}"
