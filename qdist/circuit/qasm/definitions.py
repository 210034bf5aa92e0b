"""Gates that a program defines: checked once where they are defined, expanded where they are called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from ..gate import NAMED
from ..gates import GATES, Gate
from .names import Names, suggestion
from .standard import GENERIC_ANGLES, Builtin
from .syntax import (
    Barrier,
    Binary,
    Call,
    Expr,
    For,
    GateCall,
    GateDefinition,
    If,
    Index,
    Name,
    Operand,
    Range,
    Statement,
    Unary,
)
from .unitary import Unitary

# Definitions that call definitions; expanding them takes as many Python frames.
MAX_DEFINITION_DEPTH = 50
# A definition up to this size is compared with the gate of the table that has its name.
_MAX_COMPARED_QUBITS = 5
_MAX_COMPARED_STEPS = 1000


class Opaque(NamedTuple):
    """A gate that is declared but not defined."""

    num_params: int
    num_qubits: int
    depth: int = 0


@dataclass(frozen=True, eq=False)
class Definition:
    """A gate with a body. `gates` are those the body calls, as they were when it was defined."""

    node: GateDefinition
    gates: Mapping[str, Target]
    constants: Names
    depth: int

    @property
    def body(self) -> tuple[Statement, ...]:
        return self.node.body or ()

    @property
    def num_params(self) -> int:
        return len(self.node.params)

    @property
    def num_qubits(self) -> int:
        return len(self.node.qubits)


Target: TypeAlias = Builtin | Definition | Opaque


def define(node: GateDefinition, gates: Mapping[str, Target], constants: Names) -> Definition | Opaque:
    """Check a definition in a program that has these gates. Raises QasmError where the body is wrong."""
    if node.body is None:
        return Opaque(len(node.params), len(node.qubits))
    checker = _Checker(node, gates, constants)
    checker.check(node.body, ())
    if checker.depth > MAX_DEFINITION_DEPTH:
        raise node.error(f"definitions nested more than {MAX_DEFINITION_DEPTH} deep are not supported")
    return Definition(node, checker.called, constants, checker.depth)


def namesake(node: GateDefinition) -> Gate | None:
    """The table's gate of the same name, number of parameters and number of qubits, if it has one.

    Underscores at the end do not count: the writer adds them where a name is taken.
    """
    gate = NAMED.get(node.name.rstrip("_"))
    if gate is None or not gate.is_unitary or gate.num_params != len(node.params):
        return None
    return gate if gate.num_qubits == len(node.qubits) <= _MAX_COMPARED_QUBITS else None


def is_gate(unitary: Unitary, gate: Gate) -> bool:
    """Whether a definition, expanded at GENERIC_ANGLES, has the matrix of a gate."""
    if len(unitary.circuit) > _MAX_COMPARED_STEPS:
        return False
    expected = gate.matrix(*GENERIC_ANGLES[: gate.num_params])
    return np.allclose(unitary.matrix(), expected, rtol=0, atol=1e-12)


def find_gate(name: str, gates: Mapping[str, Target], call: GateCall) -> Target:
    """The gate that a call names, with the parameters that the call gives it."""
    target = gates.get(name)
    if target is None:
        raise call.error(f"gate '{name}' is not defined{_remedy(name, gates)}")
    if len(call.arguments) != target.num_params:
        wanted = f"{target.num_params} parameter{'s'[: target.num_params != 1]}"
        raise call.error(f"gate '{name}' takes {wanted}; got {len(call.arguments)}")
    return target


def _remedy(name: str, gates: Mapping[str, Target]) -> str:
    if name in GATES and "h" not in gates:
        return '; the standard gates need an include: "qelib1.inc" in OpenQASM 2, "stdgates.inc" in OpenQASM 3'
    return suggestion(name, list(gates))


class _Checker:
    """Walks a gate's body without running it, so that a wrong gate is refused even if it is never called."""

    def __init__(self, node: GateDefinition, gates: Mapping[str, Target], constants: Names) -> None:
        self.node = node
        self.gates = gates
        self.constants = constants
        self.params = frozenset(node.params)
        self.qubits = frozenset(node.qubits)
        self.called: dict[str, Target] = {}
        self.depth = 1

    def check(self, statements: Iterable[Statement], variables: tuple[str, ...]) -> None:
        """Check statements inside the loops over `variables`."""
        for statement in statements:
            match statement:
                case GateCall():
                    self._call(statement, variables)
                case Barrier(operands=operands):
                    self._operands(operands)
                case For(variable=variable, values=values, body=body):
                    parts = (values.first, values.step, values.last) if isinstance(values, Range) else values
                    self._expressions((part for part in parts if part is not None), variables)
                    self.check(body, (*variables, variable))
                case If(condition=condition, then=then, otherwise=otherwise):
                    self._expressions([condition], variables)
                    self.check(then, variables)
                    self.check(otherwise, variables)
                case _:
                    raise statement.error(
                        f"the body of gate '{self.node.name}' holds only gates, barriers and constant loops"
                    )

    def _call(self, call: GateCall, variables: tuple[str, ...]) -> None:
        if call.name == self.node.name:
            raise call.error(f"gate '{call.name}' cannot call itself")
        target = find_gate(call.name, self.gates, call)
        self.called[call.name] = target
        self.depth = max(self.depth, target.depth + 1)
        self._expressions(call.arguments, variables)
        self._expressions((m.argument for m in call.modifiers if m.argument is not None), variables)
        self._operands(call.operands)
        if not call.modifiers and len(call.operands) != target.num_qubits:
            raise call.error(wrong_operands(call, target.num_qubits))

    def _operands(self, operands: tuple[Operand, ...]) -> None:
        seen = set()
        for operand in operands:
            if operand.name not in self.qubits:
                hint = suggestion(operand.name, list(self.node.qubits))
                raise operand.error(f"'{operand.name}' is not a qubit of gate '{self.node.name}'{hint}")
            if operand.selector is not None:
                raise operand.error(f"'{operand.name}' is a single qubit and cannot be indexed")
            if operand.name in seen:
                raise operand.error(f"qubit '{operand.name}' appears twice in one operation")
            seen.add(operand.name)

    def _expressions(self, nodes: Iterable[Expr], variables: tuple[str, ...]) -> None:
        pending = list(nodes)
        while pending:
            node = pending.pop()
            match node:
                case Name(name=name):
                    known = name in self.params or name in variables
                    if not known and self.constants.get(name) is None:
                        hint = suggestion(name, [*self.node.params, *variables])
                        raise node.error(f"'{name}' is not a parameter of gate '{self.node.name}'{hint}")
                case Index(name=name):
                    raise node.error(f"'{name}' cannot be indexed in the body of a gate")
                case Unary(operand=operand):
                    pending.append(operand)
                case Binary(left=left, right=right):
                    pending += [left, right]
                case Call(arguments=arguments):
                    pending += arguments


def wrong_operands(call: GateCall, expected: int) -> str:
    """What to say of a call with the wrong number of qubits."""
    noun = "qubit" if expected == 1 else "qubits"
    return f"gate '{call.name}' acts on {expected} {noun} here; got {len(call.operands)}"
