"""Qiskit's control flow as conditions on each instruction: if/else, switch, box, and for loops, which are unrolled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from qiskit.circuit import Clbit, ForLoopOp, IfElseOp, Parameter, SwitchCaseOp
from qiskit.circuit.classical import expr
from qiskit.circuit.controlflow import CASE_DEFAULT

from qdist.circuit import CircuitError
from qdist.circuit.instruction import Condition

if TYPE_CHECKING:
    from .reading import Reader

__all__ = ["read"]


def read(
    reader: Reader,
    operation: Any,
    qubits: Sequence[int],
    clbits: Sequence[int],
    classical: Mapping[Any, int],
    condition: tuple[Condition, ...],
) -> None:
    """Appends the blocks of an operation whose bits are these of the result."""
    if isinstance(operation, IfElseOp):
        tests = _tests(operation.condition, classical)
        _block(reader, operation.blocks[0], qubits, clbits, condition, tests, last=len(operation.blocks) == 1)
        if len(operation.blocks) > 1:
            _block(reader, operation.blocks[1], qubits, clbits, condition, [_opposite(tests)])
    elif isinstance(operation, SwitchCaseOp):
        bits = _bits(operation.target, classical)
        # Each value is a block of its own, and the default has what no case before it names.
        cases: list[tuple[list[Condition], Any]] = []
        named: list[Condition] = []
        for values, block in operation.cases_specifier():
            if CASE_DEFAULT in values:
                cases.append((named, block))
                break
            cases += [([Condition(bits, int(value))], block) for value in values]
            named = named + [Condition(bits, int(value), False) for value in values]
        for k, (tests, block) in enumerate(cases):
            _block(reader, block, qubits, clbits, condition, tests, last=k == len(cases) - 1)
    elif isinstance(operation, ForLoopOp):
        indices, parameter, body = operation.params
        # Qiskit may have a classical variable instead, which no angle depends on.
        bound = isinstance(parameter, Parameter)
        # The circuit, or a loop around this one, may have the same parameter.
        outside = reader.angles(parameter) if bound else 0.0
        for index in indices:
            if bound:
                reader.angles.put(parameter, float(index))
            _block(reader, body, qubits, clbits, condition, [])
        if bound:
            reader.angles.put(parameter, outside)
    elif operation.name == "box":
        _block(reader, operation.blocks[0], qubits, clbits, condition, [])
    else:
        raise CircuitError(
            f"{operation.name}: circuits of qdist have if/else, switch and for loops; unroll it, or run it in parts"
        )


def _block(
    reader: Reader,
    block: Any,
    qubits: Sequence[int],
    clbits: Sequence[int],
    condition: tuple[Condition, ...],
    tests: Sequence[Condition],
    last: bool = True,
) -> None:
    """One block under more tests; ``last``: no other block tests the same bits after it."""
    first = len(reader.result)
    reader.read(block, qubits, clbits, (*condition, *tests))
    tested = {bit for test in tests for bit in test.clbits}
    # Each instruction tests when it runs, so that only the very last one may change what is tested.
    earlier = list(reader.result[first:])[: -1 if last else None]
    for bit in (bit for instruction in earlier for bit in instruction.clbits if bit in tested):
        raise CircuitError(
            f"classical bit {bit} is tested by a block that measures into it, and in qdist each instruction "
            "of a block tests it anew: measure into another bit"
        )


def _opposite(tests: Sequence[Condition]) -> Condition:
    """The test that holds where not all of these do, which must be tests for values: of all their bits at once."""
    if len(tests) == 1:
        return tests[0]._replace(equal=not tests[0].equal)
    bits: list[int] = []
    value = 0
    for test in tests:
        if not test.equal and len(test.clbits) > 1:
            raise CircuitError(
                "the opposite of several tests, one of which is that a register does not have a value: nest ifs instead"
            )
        value |= (test.value if test.equal else 1 - test.value) << len(bits)
        bits += test.clbits
    if len(set(bits)) < len(bits):
        raise CircuitError("the opposite of several tests of the same bit: nest ifs instead")
    return Condition(tuple(bits), value, False)


def _tests(condition: Any, classical: Mapping[Any, int]) -> list[Condition]:
    if isinstance(condition, expr.Expr):
        return _of_expression(condition, classical)
    target, value = condition
    return [Condition(_bits(target, classical), int(value))]


def _bits(target: Any, classical: Mapping[Any, int]) -> tuple[int, ...]:
    if isinstance(target, expr.Var) and not target.standalone:
        target = target.var
    if isinstance(target, Clbit):
        return (classical[target],)
    if isinstance(target, expr.Expr):
        raise CircuitError(f"a test of {target}: qdist tests bits and registers for values")
    return tuple(classical[bit] for bit in target)


def _of_expression(condition: Any, classical: Mapping[Any, int]) -> list[Condition]:
    """Tests that must all hold: of bits, of registers for values, their opposites, and their conjunctions."""
    if isinstance(condition, expr.Var):
        return [Condition(_bits(condition, classical), 1)]
    if isinstance(condition, expr.Unary) and condition.op in (expr.Unary.Op.LOGIC_NOT, expr.Unary.Op.BIT_NOT):
        return [_opposite(_of_expression(condition.operand, classical))]
    if isinstance(condition, expr.Binary):
        op = condition.op
        if op in (expr.Binary.Op.LOGIC_AND, expr.Binary.Op.BIT_AND):
            return _of_expression(condition.left, classical) + _of_expression(condition.right, classical)
        if op in (expr.Binary.Op.EQUAL, expr.Binary.Op.NOT_EQUAL):
            for variable, value in ((condition.left, condition.right), (condition.right, condition.left)):
                if isinstance(variable, expr.Var) and isinstance(value, expr.Value):
                    return [Condition(_bits(variable, classical), int(value.value), op is expr.Binary.Op.EQUAL)]
    raise CircuitError(
        f"the condition {condition}: qdist tests bits and registers for values, and several such tests that all hold"
    )
