"""Gate calls: modifiers, definitions and broadcasts, down to instructions of the table's gates."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..circuit import Circuit
from ..errors import CircuitError
from ..parameters import Angle, Expression
from .definitions import (
    Definition,
    Opaque,
    Target,
    define,
    find_gate,
    is_gate,
    namesake,
    wrong_operands,
)
from .errors import QasmError
from .evaluate import describe, is_number
from .frame import INSTRUCTION, MAX_COUNT, STATEMENT, WIRES_PER_UNIT, Budget, Frame, circuit_work
from .names import Names, Qubits
from .registers import Registers
from .standard import GENERIC_ANGLES, Builtin
from .syntax import GateCall, GateDefinition, Modifier, Node, Statement
from .unitary import Unitary

_CONTROLS = ("ctrl", "negctrl")
# The work of a fractional power, besides that of its matrix.
_ROOT = 500
# How many definitions, each at given parameters, are kept expanded.
MAX_REMEMBERED = 4096
# With definitions as deep as they may be, the controls of one gate still fit an integer that can be printed.
MAX_CONTROLS = 100


class GateCalls:
    """Applies the gates of one program. `run` executes a statement in a frame."""

    def __init__(self, registers: Registers, budget: Budget, run: Callable[[Statement, Frame], None]) -> None:
        self._registers = registers
        self._budget = budget
        self._run = run
        self._expanded: dict[tuple[Definition, tuple[Angle, ...]], Unitary] = {}

    def define(self, node: GateDefinition, frame: Frame) -> Target:
        """The gate that a definition makes: the table's own, where it has that name and that matrix."""
        target: Target = define(node, frame.gates, frame.names.constants())
        gate = namesake(node)
        if gate is not None and isinstance(target, Definition):
            try:
                if is_gate(self._expand(target, GENERIC_ANGLES[: gate.num_params], frame), gate):
                    return Builtin(gate)
            except QasmError:
                pass  # it cannot run at these angles, or it calls an opaque gate
        return target

    def call(self, call: GateCall, frame: Frame) -> None:
        """Run a gate call."""
        target = find_gate(call.name, frame.gates, call)
        params = tuple(frame.angle(node) for node in call.arguments)
        modifiers = [(modifier, self._modifier_value(modifier, frame)) for modifier in call.modifiers]
        controls = sum(value for modifier, value in modifiers if modifier.kind in _CONTROLS)
        if controls > MAX_CONTROLS:
            raise call.error(f"more than {MAX_CONTROLS} controls on one gate are not supported")
        if len(call.operands) != target.num_qubits + controls:
            raise call.error(wrong_operands(call, target.num_qubits + controls))
        applications = self._registers.applications(call.operands, frame, call)
        if not modifiers:
            self.apply(target, params, applications, call, frame)
            return
        unitary = self._unitary(target, params, call, frame)
        for modifier, value in reversed(modifiers):
            unitary = self._modified(unitary, modifier, value)
        self._add(unitary, applications, call, frame)

    def apply(
        self,
        target: Target,
        params: tuple[Angle, ...],
        applications: Iterable[tuple[int, ...]],
        node: Node,
        frame: Frame,
    ) -> None:
        """Add a gate without modifiers, once for each tuple of qubits."""
        if not isinstance(target, Builtin):
            self._add(self._unitary(target, params, node, frame), applications, node, frame)
            return
        for qubits in applications:
            frame.circuit.append(target.gate, qubits, params)
            if target.phase is not None:
                frame.add_phase(target.phase(*params))

    def _add(self, unitary: Unitary, applications: Iterable[tuple[int, ...]], node: Node, frame: Frame) -> None:
        work = circuit_work(unitary.circuit)
        for qubits in applications:
            self._budget.spend(work, node)
            frame.circuit.compose(unitary.circuit, qubits, inplace=True)
            if isinstance(unitary.phase, Expression) or unitary.phase != 0.0:
                frame.add_phase(unitary.phase)

    def _modifier_value(self, modifier: Modifier, frame: Frame) -> Any:
        """How many controls, or which power."""
        node = modifier.argument
        if modifier.kind in _CONTROLS:
            return 1 if node is None else frame.count(node, "the number of controls")
        if node is None:
            return None
        value = frame.evaluate(node)
        if not is_number(value) or isinstance(value, Expression):
            raise node.error(f"the power of a gate must be a number; got {describe(value)}")
        if abs(value) > MAX_COUNT:
            raise node.error(f"the power of a gate must be from -{MAX_COUNT:,} to {MAX_COUNT:,}; got {value}")
        return int(value) if value == int(value) else value

    def _modified(self, unitary: Unitary, modifier: Modifier, value: Any) -> Unitary:
        work = circuit_work(unitary.circuit)
        if modifier.kind in _CONTROLS:
            work += value * len(unitary.circuit) // WIRES_PER_UNIT
        self._budget.spend(STATEMENT + work, modifier)
        try:
            if modifier.kind == "inv":
                return unitary.inverse()
            if modifier.kind in _CONTROLS:
                return unitary.controlled(value, 1 if modifier.kind == "ctrl" else 0)
            if isinstance(value, float):
                self._budget.spend(_ROOT + 4**unitary.circuit.num_qubits, modifier)
                return unitary.root(value)
            turned = unitary.turned(value)
            if turned is None:
                self._budget.spend(abs(value) * max(INSTRUCTION, work), modifier)
                turned = unitary.repeated(value)
            return turned
        except QasmError:
            raise
        except CircuitError as error:
            raise modifier.error(str(error)) from None

    def _unitary(self, target: Target, params: tuple[Angle, ...], node: Node, frame: Frame) -> Unitary:
        if isinstance(target, Builtin):
            phase = 0.0 if target.phase is None else target.phase(*params)
            return Unitary.of(target.gate, params, phase)
        if isinstance(target, Opaque):
            raise node.error("this gate is opaque: it has no definition, so nothing can be computed with it")
        return self._expand(target, params, frame)

    def _expand(self, definition: Definition, params: tuple[Angle, ...], caller: Frame) -> Unitary:
        """What a defined gate does at these parameters."""
        key = (definition, params)
        if key not in self._expanded:
            node = definition.node
            names: dict[str, Any] = dict(zip(node.params, params))
            names |= {name: Qubits((k,), scalar=True) for k, name in enumerate(node.qubits)}
            frame = Frame(
                caller.language,
                Circuit(len(node.qubits)),
                Names(names, definition.constants),
                dict(definition.gates),
                self._budget,
                top_level=False,
            )
            for statement in definition.body:
                self._run(statement, frame)
            if len(self._expanded) >= MAX_REMEMBERED:
                self._expanded.clear()
            self._expanded[key] = Unitary.split(frame.circuit, frame.total_phase())
        return self._expanded[key]
