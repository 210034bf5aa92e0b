"""CircuitBuilder: how instructions get into a circuit, checked at the call that adds them; if-blocks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self

import numpy as np

from .channels.methods import ChannelMethods
from .errors import CircuitError
from .gate_methods import GateMethods, Qubits
from .gates import MEASURE, RESET, Gate, barrier_gate, initialize_gate
from .instruction import Condition, Instruction
from .parameters import Angle, Expression, Parameter, as_number
from .wires import as_tuple, broadcast, check_count, check_wires


class CircuitBuilder(GateMethods, ChannelMethods):
    """The part of Circuit that grows: its bits, its instructions so far, and every check before one is stored."""

    __slots__ = ("_condition", "_instructions", "_named", "_open", "name", "num_clbits", "num_qubits")

    def __init__(self, num_qubits: int, num_clbits: int = 0, name: str | None = None) -> None:
        self.num_qubits = check_count(num_qubits, "qubits")
        self.num_clbits = check_count(num_clbits, "classical bits")
        self.name = name
        self._instructions: list[Instruction] = []
        self._named: dict[str, Parameter] = {}  # parameters by name, in the order of first use
        self._open: list[ConditionalBlock] = []  # the if-blocks we are in
        self._condition: tuple[Condition, ...] = ()  # and their conditions

    @property
    def instructions(self) -> Sequence[Instruction]:
        """The instructions in program order; to be read, not changed."""
        return self._instructions

    def __iter__(self) -> Iterator[Instruction]:
        return iter(self._instructions)

    def __len__(self) -> int:
        return len(self._instructions)

    def append(
        self,
        gate: Gate,
        qubits: int | Sequence[int],
        params: Sequence[Angle] = (),
        clbits: int | Sequence[int] = (),
        condition: Condition | Sequence[Condition] | None = None,
    ) -> Self:
        """Add one instruction: `gate` on `qubits` (its controls first) with its angles and classical bits.

        `condition` is one Condition, or several that must all hold. Returns the circuit.
        """
        if not isinstance(gate, Gate):
            raise CircuitError(f'append takes a Gate, such as GATES["h"]; got {gate!r}')
        wires, params = as_tuple(qubits), _angles(gate, params)
        plain = type(clbits) is tuple and not clbits and condition is None and gate.num_clbits == 0
        if plain and len(wires) == gate.num_qubits and len(params) == gate.num_params:
            return self._add(gate, wires, params)
        chosen = self._check_qubits(gate, wires)
        bits = self._check_clbits(gate, as_tuple(clbits))
        tests = self._condition + (() if condition is None else self._check_condition(condition))
        angles = self._check_params(gate, params)  # last, because it notes the parameters
        self._store(Instruction(gate, chosen, angles, bits, tests))
        return self

    def _add(self, gate: Gate, qubits: tuple[Any, ...], params: tuple[Any, ...] = ()) -> Self:
        # The common case, plain ints and floats, must cost about a microsecond; the rest may take longer.
        limit = self.num_qubits
        for qubit in qubits:
            if type(qubit) is not int or not 0 <= qubit < limit:
                return self._add_each(gate, qubits, params)
        if len(qubits) > 1 and len(set(qubits)) != len(qubits):
            return self._add_each(gate, qubits, params)
        for param in params:
            if type(param) is not float or param - param != 0.0:  # the latter for nan and infinity
                params = self._check_params(gate, params)
                break
        instruction = tuple.__new__(Instruction, (gate, qubits, params, (), self._condition))
        if self._open:
            self._store(instruction)
        else:
            self._instructions.append(instruction)
        return self

    def _add_each(self, gate: Gate, qubits: tuple[Any, ...], params: tuple[Any, ...]) -> Self:
        """Add the gate once, or once for each element where some of `qubits` are sequences."""
        places = [self._check_qubits(gate, chosen) for chosen in broadcast(gate, qubits)]
        angles = self._check_params(gate, params)
        for chosen in places:
            self._store(Instruction(gate, chosen, angles, (), self._condition))
        return self

    def _store(self, instruction: Instruction) -> None:
        for block in self._open:
            block.allow(instruction)
        self._instructions.append(instruction)

    def measure(self, qubit: Qubits, clbit: Qubits) -> Self:
        """Measure a qubit in the computational basis into a classical bit, or several into as many."""
        pairs = list(broadcast(MEASURE, (qubit, clbit)))
        qubits = [self._check_qubits(MEASURE, (q,)) for q, _ in pairs]
        way_out = self._with_clbits([c for _, c in pairs])
        clbits = [check_wires((c,), self.num_clbits, "classical bit", "measure", way_out) for _, c in pairs]
        for measured, bits in zip(qubits, clbits):
            self._store(Instruction(MEASURE, measured, (), bits, self._condition))
        return self

    def measure_all(self) -> Self:
        """Measure every qubit, qubit i into classical bit i, adding classical bits where there are too few.

        In a circuit that has measured before, the results go to new classical bits, which keeps the old ones.
        """
        measured = any(instruction.clbits for instruction in self._instructions)
        first = self.num_clbits if measured else 0
        for qubit in range(self.num_qubits):
            self._store(Instruction(MEASURE, (qubit,), (), (first + qubit,), self._condition))
        self.num_clbits = max(self.num_clbits, first + self.num_qubits)
        return self

    def reset(self, qubit: Qubits) -> Self:
        """Put a qubit back into |0>, whatever it was entangled with."""
        return self._add(RESET, (qubit,))

    def barrier(self, *qubits: Qubits) -> Self:
        """Keep what is before it before what is after it, on these qubits (default: all)."""
        chosen = [q for given in qubits for q in as_tuple(given)] if qubits else range(self.num_qubits)
        return self.append(barrier_gate(len(chosen)), chosen)

    def initialize(
        self, state: int | str | Sequence[Any] | np.ndarray, qubits: int | Sequence[int] | None = None
    ) -> Self:
        """Put qubits (default: all) into a given state, whatever they were in.

        `state` is a basis state (an int, or a bit string with the highest qubit first), a product state (a
        pair of amplitudes for each of the qubits in turn), or all 2**n amplitudes, indexed with qubits[0] as
        bit 0.
        """
        chosen = range(self.num_qubits) if qubits is None else as_tuple(qubits)
        return self.append(initialize_gate(state, len(chosen)), chosen)

    def if_(self, clbits: int | Sequence[int], value: int) -> ConditionalBlock:
        """A block that runs when `clbits` hold `value` (clbits[0] is its bit 0), with an optional else:

            with c.if_(0, 1) as else_:
                c.x(2)
            with else_:
                c.z(2)

        The test is made once, at the top: after a measurement inside the block into one of the tested bits,
        nothing more can be added to the block.
        """
        (condition,) = self._check_condition(Condition(as_tuple(clbits), value))
        return ConditionalBlock(self, condition)

    # Checks.

    def _check_qubits(self, gate: Gate, qubits: Sequence[Any]) -> tuple[int, ...]:
        if len(qubits) != gate.num_qubits:
            raise CircuitError(f"{gate.name} acts on {gate.num_qubits} qubits; got {len(qubits)}: {list(qubits)}")
        return check_wires(qubits, self.num_qubits, "qubit", gate.name)

    def _check_clbits(self, gate: Gate, clbits: Sequence[Any]) -> tuple[int, ...]:
        if len(clbits) != gate.num_clbits:
            raise CircuitError(f"{gate.name} takes {gate.num_clbits} classical bits; got {len(clbits)}: {list(clbits)}")
        return check_wires(clbits, self.num_clbits, "classical bit", gate.name, self._with_clbits(clbits))

    def _with_clbits(self, clbits: Sequence[Any]) -> str:
        needed = max((int(c) + 1 for c in clbits if isinstance(c, int | np.integer)), default=0)
        return f"; make it with more of them: Circuit({self.num_qubits}, {needed})"

    def _check_params(self, gate: Gate, params: tuple[Any, ...]) -> tuple[Angle, ...]:
        if len(params) != gate.num_params:
            raise CircuitError(f"{gate.name} takes {gate.num_params} parameters; got {len(params)}: {list(params)}")
        angles: list[Angle] = []
        symbols: list[Parameter] = []
        for param in params:
            if isinstance(param, Expression):
                symbols += param.parameters
                angles.append(param)
                continue
            number = as_number(param)
            if number is None or not math.isfinite(number):
                raise CircuitError(
                    f"an angle of {gate.name} must be a finite real number or an expression of Parameters; "
                    f"got {param if number is None else number!r}"
                )
            angles.append(number)
        self._use(symbols)
        return tuple(angles)

    def _check_condition(self, condition: Condition | Sequence[Condition]) -> tuple[Condition, ...]:
        tests = (condition,) if isinstance(condition, Condition) else as_tuple(condition)
        checked = []
        for test in tests:
            if not isinstance(test, Condition):
                raise CircuitError(
                    f"a condition is a Condition, such as Condition((0,), 1): classical bit 0 is 1; got {condition!r}"
                )
            tested = as_tuple(test.clbits)
            way_out = self._with_clbits(tested)
            clbits = check_wires(tested, self.num_clbits, "classical bit", "a condition", way_out)
            if not isinstance(test.value, int | np.integer) or not 0 <= test.value < 1 << len(clbits):
                raise CircuitError(
                    f"{len(clbits)} classical bits can be compared with 0 to {(1 << len(clbits)) - 1}; "
                    f"got {test.value!r}"
                )
            checked.append(Condition(clbits, int(test.value), bool(test.equal)))
        return tuple(checked)

    def _use(self, parameters: Iterable[Parameter]) -> None:
        """Note parameters in the order of first use. Raises CircuitError where two have the same name."""
        noted, named = len(self._named), self._named
        for parameter in parameters:
            known = named.setdefault(parameter.name, parameter)
            if known is not parameter and known != parameter:
                while len(named) > noted:  # a call that raises leaves no trace
                    named.popitem()
                raise CircuitError(
                    f"the circuit has another Parameter named {known.name!r}; give them different names, or "
                    "use one object in both places"
                )

    def _open_block(self, block: ConditionalBlock, condition: Condition) -> None:
        self._open.append(block)
        self._condition += (condition,)

    def _close_block(self) -> None:
        self._open.pop()
        self._condition = self._condition[:-1]


def _angles(gate: Gate, params: Any) -> tuple[Any, ...]:
    try:
        return tuple(params)
    except TypeError:
        raise CircuitError(
            f"the angles of {gate.name} are a list, append(gate, qubits, [0.3]); got {params!r}"
        ) from None


class ConditionalBlock:
    """What `circuit.if_` returns: a `with` block of instructions under a condition, which yields its else."""

    __slots__ = ("_circuit", "_condition", "_else_of", "_end", "_tested", "_tested_bit_written")

    def __init__(self, circuit: CircuitBuilder, condition: Condition, else_of: ConditionalBlock | None = None) -> None:
        self._circuit = circuit
        self._condition = condition
        self._tested = frozenset(condition.clbits)
        self._else_of = else_of
        self._end: int | None = None
        self._tested_bit_written: int | None = None

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"a block of if_ has no {name!r}: what it holds is added to the circuit inside of it, "
            "`with circuit.if_(clbits, value): circuit.x(0)`",
            name=name,
            obj=self,
        )

    def __enter__(self) -> ConditionalBlock:
        if self._else_of is not None:
            if self._else_of._end != len(self._circuit):
                raise CircuitError("an else block must come right after its if block")
            self._else_of._refuse_if_written("the else block")
        self._circuit._open_block(self, self._condition)
        return ConditionalBlock(self._circuit, self._condition._replace(equal=not self._condition.equal), self)

    def __exit__(self, *error: object) -> None:
        self._end = len(self._circuit)
        self._circuit._close_block()

    def allow(self, instruction: Instruction) -> None:
        """Raise CircuitError where the block's condition may have changed since its top."""
        self._refuse_if_written(instruction.gate.name)
        for clbit in instruction.clbits:
            if clbit in self._tested:
                self._tested_bit_written = clbit

    def _refuse_if_written(self, what: str) -> None:
        # An instruction tests its own condition when it runs, so the tested bits must keep their values.
        if self._tested_bit_written is not None:
            raise CircuitError(
                f"{what} depends on classical bit {self._tested_bit_written}, which the if block has "
                "measured into since it was tested; measure into another bit, or as the block's last thing"
            )
