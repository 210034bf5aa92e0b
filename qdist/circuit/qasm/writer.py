"""Writes circuits as OpenQASM: what the two versions share. `writer2.py` and `writer3.py` have the rest.

Gates that the standard header lacks are written as definitions at the top of the program. The reader knows
those again and gives back the gate of the table, so circuits of table gates survive the round trip unchanged.
"""

from __future__ import annotations

import cmath
from collections.abc import Iterable, Sequence
from unicodedata import category

from ..circuit import Circuit
from ..data_gates import InitializeGate
from ..errors import CircuitError
from ..gates import GATES, Gate
from ..instruction import Instruction
from ..parameters import Angle, Parameter
from .angles import angle_text
from .decompose import Step, decompose
from .dense import state_steps
from .errors import QasmError

# What OpenQASM 3 takes for letters.
_LETTERS = frozenset({"Lu", "Ll", "Lt", "Lm", "Lo", "Nl"})
_DIGITS = frozenset("0123456789")


class Writer:
    """Writes one circuit. Subclasses say how a version names gates, declares bits and tests them."""

    version: int
    header: str
    reserved: frozenset[str]
    # On how many qubits a global phase is written: OpenQASM 2 needs one to hang it on.
    phase_operands = 0

    def __init__(self, circuit: Circuit) -> None:
        self.circuit = circuit
        self.definitions: list[str] = []
        # The gate is kept beside its name, so that its id stays its own.
        self._defined: dict[Gate | int, tuple[str, Gate]] = {}
        self._taken = set(self.reserved)
        self.qubit_register = self.new_name("q")
        self.qubits = [f"{self.qubit_register}[{k}]" for k in range(circuit.num_qubits)]

    def write(self) -> str:
        """The program."""
        body = self.statements()
        lines = [
            self.header,
            *self.declarations_before_gates(),
            *self.definitions,
            *self.declarations(),
            *body,
        ]
        return "\n".join(lines) + "\n"

    # What a version adds.

    def gate_name(self, gate: Gate) -> str | None:
        """The gate's name in the standard header, None where that lacks it."""
        raise NotImplementedError

    def statements(self) -> list[str]:
        raise NotImplementedError

    def declarations_before_gates(self) -> list[str]:
        return []

    def declarations(self) -> list[str]:
        raise NotImplementedError

    def literal_body(self, gate: Gate) -> list[str] | None:
        """The body of a gate's definition, where it needs what the table has no gate for."""
        return None

    # Names.

    def new_name(self, wanted: str) -> str:
        """A name that is still free, as close to `wanted` as it can be."""
        name = identifier(wanted)
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name

    # Gates.

    def call(self, gate: Gate, params: Sequence[Angle], operands: Sequence[str]) -> str:
        """The statement that applies a gate."""
        if gate.base.num_qubits == 0 and gate.base.data is not None:
            # A matrix on no qubits is a phase.
            params = [cmath.phase(gate.base.matrix().item())]
            gate = (
                GATES["gphase"].controlled(gate.num_controls, gate.ctrl_state) if gate.num_controls else GATES["gphase"]
            )
        name = self.gate_name(gate) or self.define(gate)
        return _call_text(name, params, operands)

    def define(self, gate: Gate) -> str:
        """The name of a gate that the program defines itself."""
        # Gates with data are told apart as objects: comparing their arrays would take quadratic time.
        key = gate if gate.data is None else id(gate)
        if key not in self._defined:
            formals = [Parameter(f"p{k}") for k in range(gate.num_params)]
            operands = [f"q{k}" for k in range(max(1, gate.num_qubits))]
            body = self.literal_body(gate)
            if body is None:
                body = [self._step(step, operands) for step in self._decomposed(gate, tuple(formals))]
            suffix = "" if gate.data is None else f"_{len(self._defined)}"
            name = self.new_name(gate.name + suffix)
            self._defined[key] = name, gate
            header = _call_text(name, formals, operands).removesuffix(";")
            self.definitions.append(f"gate {header} {{ {' '.join(body)}{' ' if body else ''}}}")
        return self._defined[key][0]

    def _decomposed(self, gate: Gate, params: tuple[Angle, ...]) -> list[Step]:
        try:
            return decompose(gate, params)
        except CircuitError as error:
            raise QasmError(str(error)) from None

    def _step(self, step: Step, operands: Sequence[str]) -> str:
        gate, params, wires = step
        return self.call(gate, params, [operands[k] for k in wires] or operands[: self.phase_operands])

    def gate_statement(self, instruction: Instruction) -> str:
        operands = [self.qubits[q] for q in instruction.qubits]
        if not operands:
            operands = self.qubits[: self.phase_operands]
            if len(operands) < self.phase_operands:
                raise QasmError("OpenQASM 2 cannot hold a global phase without a qubit; use version=3")
        return self.call(instruction.gate, instruction.params, operands)

    def initialize_statements(self, instruction: Instruction) -> list[str]:
        """Resets, and the gates that prepare a state from |0...0>."""
        gate, qubits = instruction.gate, instruction.qubits
        assert isinstance(gate, InitializeGate)
        operands = [self.qubits[q] for q in qubits]
        try:
            steps = list(_preparation(gate))
        except CircuitError as error:
            raise QasmError(str(error)) from None
        return [
            *(f"reset {operand};" for operand in operands),
            *(self._step(step, operands) for step in steps),
        ]


def identifier(wanted: str) -> str:
    """A name that both versions allow, as close to `wanted` as it can be: letters, digits and underscores."""
    name = "".join(c if c in _DIGITS or c == "_" or category(c) in _LETTERS else "_" for c in wanted)
    return f"_{name}" if not name or name[0] in _DIGITS else name


def _preparation(gate: Gate) -> Iterable[Step]:
    data = gate.data
    if isinstance(data, int):
        return [(GATES["x"], (), (k,)) for k in range(gate.num_qubits) if data >> k & 1]
    if data.ndim == 2:
        pairs = [state_steps(pair) for pair in data]
        return [(g, params, (k,) if wires else ()) for k, steps in enumerate(pairs) for g, params, wires in steps]
    return state_steps(data)


def _call_text(name: str, params: Sequence[Angle], operands: Sequence[str]) -> str:
    angles = f"({', '.join(map(angle_text, params))})" if params else ""
    return f"{name}{angles} {', '.join(operands)};" if operands else f"{name}{angles};"
