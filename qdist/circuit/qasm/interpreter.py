"""Runs the statements of a program; what they leave behind is a Circuit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..builder import ConditionalBlock
from ..circuit import Circuit
from ..errors import CircuitError
from ..gates import MEASURE, RESET, barrier_gate
from ..parameters import Expression, Parameter, ParameterVector
from .calls import GateCalls
from .conditions import Conditions
from .definitions import Target
from .errors import QasmError
from .evaluate import Language, describe
from .frame import PARAMETER, STATEMENT, WIRES_PER_UNIT, Budget, Frame
from .inputs import ELEMENT, element_name, vector_length
from .names import Bits, Names, Qubits
from .registers import Registers
from .syntax import (
    Alias,
    Barrier,
    BitDeclaration,
    ConstDeclaration,
    Expr,
    For,
    GateCall,
    GateDefinition,
    If,
    InputDeclaration,
    Measure,
    Node,
    QubitDeclaration,
    Range,
    Reset,
    Statement,
    Type,
)

# Blocks in definitions in blocks: each takes a few frames of Python's stack.
MAX_DEPTH = 60


class Interpreter:
    """One program being read. `gates` are those that it may call; includes and definitions add to them."""

    def __init__(self, language: Language, gates: dict[str, Target]) -> None:
        self.circuit = Circuit(0)
        self.budget = Budget()
        self.frame = Frame(language, self.circuit, Names(), gates, self.budget)
        self.registers = Registers(self.circuit, self.budget)
        self.conditions = Conditions(self.registers)
        self.calls = GateCalls(self.registers, self.budget, self.execute)
        self._depth = 0
        # Elements of vectors whose inputs come next.
        self._elements: dict[str, Parameter] = {}
        # All parameters, in the order of their inputs.
        self._inputs: list[Parameter] = []
        # Gates of an include that the program may still define itself.
        self.replaceable: set[str] = set()

    def finish(self) -> Circuit:
        """The circuit, once the program has ended."""
        phase = self.frame.total_phase()
        if isinstance(phase, Expression) or phase != 0.0:
            self.circuit.gphase(phase)
        # The order of the inputs, whatever comes first in the circuit: that of the phase comes last.
        used = set(self.circuit.parameters)
        order = [parameter for parameter in self._inputs if parameter in used]
        return self.circuit if order == list(self.circuit.parameters) else self.circuit.with_order(order)

    def execute(self, statement: Statement, frame: Frame) -> None:
        """Run one statement. Raises QasmError."""
        if self._depth == MAX_DEPTH:
            raise statement.error(f"blocks and definitions nested over {MAX_DEPTH} deep are not supported")
        self._depth += 1
        try:
            self._execute(statement, frame)
        except QasmError:
            raise
        except CircuitError as error:
            raise statement.error(str(error)) from None
        finally:
            self._depth -= 1

    def _execute(self, statement: Statement, frame: Frame) -> None:
        if not frame.top_level:
            self.budget.spend(STATEMENT + (statement.end - statement.start) // 16, statement)
        match statement:
            case GateCall():
                self.calls.call(statement, frame)
            case Barrier():
                self._barrier(statement, frame)
            case Reset(operand=operand):
                qubits = self.registers.select(operand, Qubits, frame).wires
                self.budget.spend_on_copies(len(qubits), statement)
                for qubit in qubits:
                    frame.circuit.append(RESET, qubit)
            case Measure(operand=operand, target=target):
                measured = self.registers.select(operand, Qubits, frame)
                self._measure(statement, measured, self.registers.select(target, Bits, frame), frame)
            case If():
                self._if(statement, frame)
            case For():
                self._for(statement, frame)
            case ConstDeclaration(name=name, type=wanted, value=node):
                value = self._typed(wanted, frame.evaluate(node), node, frame)
                frame.names.define(name, value, statement)
            case Alias(name=name, operands=operands):
                frame.names.define(name, self.registers.join(operands, frame, statement), statement)
            case _:
                if not frame.top_level:
                    raise statement.error("declarations and definitions must stand at the top level of a program")
                self._declare(statement, frame)

    def _declare(self, statement: Statement, frame: Frame) -> None:
        match statement:
            case QubitDeclaration(name=name, size=size):
                count = None if size is None else frame.count(size, "the size of a register")
                frame.names.define(name, self.registers.declare(Qubits, count, statement), statement)
            case BitDeclaration(name=name, size=size, measured=measured):
                count = None if size is None else frame.count(size, "the size of a register")
                bits = self.registers.declare(Bits, count, statement)
                frame.names.define(name, bits, statement)
                if measured is not None:
                    self._measure(statement, self.registers.select(measured, Qubits, frame), bits, frame)
            case InputDeclaration(name=name, type=given, length=length):
                self._width(given, frame)
                parameters: Parameter | ParameterVector
                if length is None:
                    parameters = self._input(name, statement)
                    self._inputs.append(parameters)
                else:
                    count = frame.count(length, "the length of an array")
                    self.budget.spend(PARAMETER * count, statement)
                    parameters = ParameterVector(name, count)
                    self._inputs += parameters
                frame.names.define(name, parameters, statement)
            case GateDefinition(name=name):
                if name in frame.gates and name not in self.replaceable:
                    raise statement.error(f"gate '{name}' is already defined")
                frame.gates[name] = self.calls.define(statement, frame)
                self.replaceable.discard(name)
            case _:
                raise AssertionError(statement)

    def _input(self, name: str, node: Node) -> Parameter:
        """A new parameter: an element of a vector, where a run of inputs is named like one."""
        element = ELEMENT.fullmatch(name)
        if element is not None and element["index"] == "0":
            vector = ParameterVector(element["vector"], vector_length(node.source.text, node.end, element["vector"]))
            self._elements |= {element_name(vector.name, k): part for k, part in enumerate(vector)}
        return self._elements.pop(name, None) or Parameter(name)

    def _typed(self, wanted: Type, value: Any, node: Expr, frame: Frame) -> Any:
        """A value of a declared type. Integers serve as floats, and all floats are doubles."""
        width = self._width(wanted, frame)
        is_int = isinstance(value, int) and not isinstance(value, bool)
        if wanted.name == "float" and is_int:
            return frame.angle(node)
        fits = {
            "bool": isinstance(value, bool),
            "float": isinstance(value, float),
            # ~value is -value - 1: the smallest int[8] is -128.
            "int": is_int and (width is None or max(value, ~value).bit_length() < width),
            "uint": is_int and value >= 0 and (width is None or value.bit_length() <= width),
        }[wanted.name]
        if not fits:
            name = wanted.name if width is None else f"{wanted.name}[{width}]"
            raise node.error(f"{describe(value)} is not of type '{name}'")
        return value

    def _width(self, given: Type, frame: Frame) -> int | None:
        return None if given.width is None else frame.count(given.width, "the width of a type")

    def _barrier(self, statement: Barrier, frame: Frame) -> None:
        if statement.operands:
            found = [self.registers.select(operand, Qubits, frame) for operand in statement.operands]
            self.budget.spend(sum(len(qubits.wires) for qubits in found) // WIRES_PER_UNIT, statement)
            wires = tuple(dict.fromkeys(wire for qubits in found for wire in qubits.wires))
        else:
            self.budget.spend(frame.circuit.num_qubits // WIRES_PER_UNIT, statement)
            wires = tuple(range(frame.circuit.num_qubits))
        frame.circuit.append(barrier_gate(len(wires)), wires)

    def _measure(self, node: Node, qubits: Qubits, bits: Bits, frame: Frame) -> None:
        if len(qubits.wires) != len(bits.wires):
            raise node.error(f"cannot measure {qubits} into {bits}: their sizes differ")
        self.budget.spend_on_copies(len(qubits.wires), node)
        for qubit, bit in zip(qubits.wires, bits.wires):
            frame.circuit.append(MEASURE, qubit, (), bit)

    def _block(self, statements: tuple[Statement, ...], frame: Frame) -> None:
        for statement in statements:
            self.execute(statement, frame)

    def _if(self, statement: If, frame: Frame) -> None:
        condition = self.conditions.evaluate(statement.condition, frame)
        if isinstance(condition, bool):
            self._block(statement.then if condition else statement.otherwise, frame.nested())
            return
        self.budget.spend(len(condition.clbits) // WIRES_PER_UNIT, statement)
        with ConditionalBlock(frame.circuit, condition) as otherwise:
            self._block(statement.then, frame.nested(conditional=True))
        if statement.otherwise:
            with otherwise:
                self._block(statement.otherwise, frame.nested(conditional=True))

    def _for(self, statement: For, frame: Frame) -> None:
        values: Iterable[Any]
        if isinstance(statement.values, Range):
            if statement.type.name == "float":
                raise statement.values.error("a range holds integers; loop over a set of floats instead")
            values = self._range(statement.values, frame)
        else:
            values = [self._typed(statement.type, frame.evaluate(node), node, frame) for node in statement.values]
        for value in values:
            self._block(statement.body, frame.nested({statement.variable: value}))

    def _range(self, node: Range, frame: Frame) -> range:
        assert node.first is not None
        assert node.last is not None
        first = frame.integer(node.first, "the start of a range")
        last = frame.integer(node.last, "the end of a range")
        step = frame.step(node.step)
        values = range(first, last + (1 if step > 0 else -1), step)
        # Refuses a huge range before it runs.
        self.budget.spend(STATEMENT * max(0, (last - first) // step), node)
        return values
