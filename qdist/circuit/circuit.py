"""Circuit: a list of instructions on numbered qubits and classical bits; builder.py has how they are added."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np

from qdist.hints import hinted
from qdist.native import kernels

from . import dense
from .aliases import ALIASES, hint
from .binding import AffineMap, ParameterValues, flat_values, resolve_values
from .builder import CircuitBuilder
from .errors import CircuitError
from .frozen import FrozenInstructions, FrozenParameters
from .functions import Function, Functions
from .gate import Gate, check_ctrl_state
from .gates import GATES
from .instruction import Instruction
from .measurements import split_final_measurements
from .own_gates import CircuitGate
from .parameters import Angle, Expression, Parameter, ParameterVector, ParameterVectorElement
from .wires import wire_map


class Circuit(CircuitBuilder):
    """A quantum circuit.

    num_qubits, num_clbits: how many qubits and classical bits. name: for people. Qubit 0 is the least significant bit
    of a basis state's index. Iterating yields Instructions; `c[i]` is one of them and `c[i:j]` a Circuit. Raises
    CircuitError at the call that is wrong.

    >>> theta = ParameterVector("theta", 2)
    >>> circuit = Circuit(3).h(0).cx(0, 1).rzz(2 * theta[0] + theta[1], 1, 2)
    >>> circuit.size, circuit.num_parameters
    (3, 2)
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        # Only asked for what is not there: other libraries' names of gates, and typing errors.
        if name in ALIASES:
            return getattr(self, ALIASES[name])
        if name.startswith("_"):
            raise AttributeError(f"'Circuit' object has no attribute {name!r}", name=name, obj=self)
        methods = [m for m in dir(type(self)) if not m.startswith("_")]
        raise AttributeError(f"a Circuit has no {name!r}{hint(name, methods)}")

    # Reading.

    @overload
    def __getitem__(self, index: int) -> Instruction: ...
    @overload
    def __getitem__(self, index: slice) -> Circuit: ...
    def __getitem__(self, index: int | slice) -> Instruction | Circuit:
        if isinstance(index, slice):
            return self.with_instructions(self._instructions[index])
        return self._instructions[index]

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters the circuit uses, in the order of first use.

        The elements of a ParameterVector stand together, by index, in the place of the one used first.
        """
        groups: dict[Any, list[Any]] = {}
        for parameter in self._named.values():
            key = parameter.vector if isinstance(parameter, ParameterVectorElement) else parameter
            groups.setdefault(key, []).append(parameter)
        for key, group in groups.items():
            if isinstance(key, ParameterVector):
                group.sort(key=operator.attrgetter("index"))
        return tuple(parameter for group in groups.values() for parameter in group)

    @property
    def num_parameters(self) -> int:
        """How many parameters the circuit has: the length of `parameters`."""
        return len(self._named)

    @property
    def global_phase(self) -> Angle:
        """The sum of the angles of the unconditional gphase instructions."""
        return sum((i.params[0] for i in self if i.gate is GATES["gphase"] and not i.condition), 0.0)

    @property
    def size(self) -> int:
        """The number of instructions other than barriers."""
        return sum(not instruction.gate.is_directive for instruction in self)

    def count_ops(self) -> dict[str, int]:
        """How many instructions of each name there are, most frequent first."""
        return dict(Counter(instruction.gate.name for instruction in self).most_common())

    def depth(self) -> int:
        """The length of the longest chain of instructions that share qubits or classical bits.

        Barriers and global phases take no time, but a barrier makes its qubits wait for each other.
        """
        qubits, clbits = [0] * self.num_qubits, [0] * self.num_clbits
        for gate, targets, _, written, condition in self:
            bits = (*written, *(clbit for test in condition for clbit in test.clbits))
            ready = max((*(qubits[q] for q in targets), *(clbits[b] for b in bits)), default=0)
            ready += bool(targets) and not gate.is_directive
            for q in targets:
                qubits[q] = ready
            for b in bits:
                clbits[b] = ready
        return max(qubits + clbits, default=0)

    @property
    def functions(self) -> Functions | None:
        """Products and functions of parameters in its angles, in the order of first use; None where there are none."""
        params = (param for instruction in self for param in instruction.params if isinstance(param, Expression))
        found = dict.fromkeys(symbol for param in params for symbol in param.terms if isinstance(symbol, Function))
        return Functions(self.parameters, tuple(found)) if found else None

    def affine(self) -> AffineMap:
        """All angles, modulo 4 pi, as one affine map of the parameters, then of `functions`, for executors that bind
        many times."""
        functions = self.functions
        symbols = (*self.parameters, *(functions.symbols if functions is not None else ()))
        column = {symbol: k for k, symbol in enumerate(symbols)}
        constants: list[float] = []
        entries: list[tuple[int, int, float]] = []
        for instruction in self:
            for param in instruction.params:
                if isinstance(param, Expression):
                    slot = len(constants)
                    entries += [(slot, column[parameter], a) for parameter, a in param.terms.items()]
                    constants.append(param.constant)
                else:
                    constants.append(param)
        slots, parameters, coefficients = zip(*entries) if entries else ((), (), ())
        # Or sums with parameters would be rounded to the last place of a large constant.
        kernels.reduce_angles(reduced := np.array([constants], dtype=np.float64))
        return AffineMap(
            np.array(slots, dtype=np.int64),
            np.array(parameters, dtype=np.int64),
            np.array(coefficients, dtype=np.float64),
            reduced[0],
            len(column),
        )

    def to_matrix(self, params: ParameterValues | None = None, comm: Any = None) -> np.ndarray:
        """The unitary matrix of the circuit at these values: complex128, qubit 0 as the lowest bit of both indices.

        With `comm`, its ranks each compute some of the columns, and every rank gets all of them. Measurements at the
        end are left out. Raises CircuitError where the circuit measures or resets mid-circuit, initialises, branches or
        has unbound parameters; MemoryError where the matrix does not fit.
        """
        circuit = self if params is None else self.bind(params)
        return dense.matrix(circuit.remove_final_measurements(), comm)

    def parameter_values(self, params: ParameterValues) -> np.ndarray:
        """`params`, as `bind` takes them, as one float64 array in the order of `parameters`."""
        return flat_values(self.parameters, params)

    # Making other circuits of it.

    def bind(self, params: ParameterValues, partial: bool = False) -> Circuit:
        """A copy with values in the place of parameters.

        `params` is a mapping {Parameter: value, ParameterVector: values}, where names may stand for both
        ({"theta": [0.1, 0.2]}), or one flat array in the order of `parameters`. With `partial` a mapping may leave
        parameters out. Raises CircuitError that names
        parameters that are missing, or that the circuit does not have.
        """
        values = resolve_values(self.parameters, params, partial)
        bound = []
        for instruction in self:
            gate, qubits, angles, clbits, condition = instruction
            if angles:
                angles = tuple([p.bind(values) if isinstance(p, Expression) else p for p in angles])
                instruction = Instruction(gate, qubits, angles, clbits, condition)
            bound.append(instruction)
        return self.with_instructions(bound)

    def inverse(self) -> Circuit:
        """The circuit that undoes this one. Raises CircuitError where it measures, resets or initializes."""
        inverted = []
        for index, (gate, qubits, params, clbits, condition) in enumerate(self):
            if not gate.is_directive:
                if not gate.is_unitary:
                    raise CircuitError(f"instruction {index} is {gate.name}, which has no inverse")
                gate, params = gate.inverse(params)
            inverted.append(Instruction(gate, qubits, params, clbits, condition))
        return self.with_instructions(inverted[::-1])

    def compose(
        self,
        other: Circuit,
        qubits: Sequence[int] | None = None,
        clbits: Sequence[int] | None = None,
        inplace: bool = False,
    ) -> Circuit:
        """This circuit followed by `other`, whose qubit i goes on qubits[i], and clbit i on clbits[i].

        Both default to the same numbers. Returns a new circuit, or with `inplace` this one, changed.
        """
        checked_circuit(other, "compose")
        qubit_map = wire_map(qubits, other.num_qubits, self.num_qubits, "qubit")
        clbit_map = wire_map(clbits, other.num_clbits, self.num_clbits, "classical bit")
        result = self if inplace else self.copy()
        # A list first: `other` may be this very circuit.
        moved = [_moved(instruction, qubit_map, clbit_map) for instruction in other]
        result._use(other._named.values())
        if result._open:
            for instruction in moved:
                result._store(instruction._replace(condition=result._condition + instruction.condition))
        else:
            result._instructions.extend(moved)
        return result

    def tensor(self, other: Circuit) -> Circuit:
        """Both side by side, `other` on the low qubits, so that the unitary is kron(U(self), U(other))."""
        checked_circuit(other, "tensor")
        result = Circuit(self.num_qubits + other.num_qubits, self.num_clbits + other.num_clbits)
        result.compose(other, inplace=True)
        return result.compose(
            self,
            range(other.num_qubits, result.num_qubits),
            range(other.num_clbits, result.num_clbits),
            inplace=True,
        )

    def repeat(self, times: int) -> Circuit:
        """The circuit `times` times in a row."""
        if not isinstance(times, int | np.integer) or times < 0:
            raise CircuitError(f"a circuit can be repeated an int >= 0 times; got {times!r}")
        return self.with_instructions(self._instructions * int(times))

    def power(self, exponent: int) -> Circuit:
        """The circuit raised to an integer power; a negative one repeats the inverse."""
        if not isinstance(exponent, int | np.integer):
            raise CircuitError(f"a circuit can be raised to an int power; got {exponent!r}")
        return self.repeat(exponent) if exponent >= 0 else self.inverse().repeat(-exponent)

    def controlled(self, num_controls: int = 1, ctrl_state: int | str | None = None) -> Circuit:
        """The circuit under controls, which become qubits 0 .. num_controls - 1; its own move up past them.

        Bit i of `ctrl_state` is the value that control i must have (default: all ones).
        """
        state = check_ctrl_state(num_controls, ctrl_state)
        controls = tuple(range(num_controls))
        result = Circuit(num_controls + self.num_qubits, self.num_clbits)
        result._named = dict(self._named)
        for index, (gate, qubits, params, clbits, condition) in enumerate(self):
            qubits = tuple([q + num_controls for q in qubits])
            if not gate.is_directive:
                if not gate.is_unitary:
                    raise CircuitError(f"instruction {index} is {gate.name}, which cannot be controlled")
                gate, qubits = gate.controlled(num_controls, state), controls + qubits
            result._instructions.append(Instruction(gate, qubits, params, clbits, condition))
        return result

    def remove_final_measurements(self) -> Circuit:
        """A copy without the measurements (and barriers) after which nothing else happens to their qubits.

        A measurement whose bit is tested later stays.
        """
        kept, _ = split_final_measurements(self._instructions)
        return self.with_instructions(kept)

    def copy(self) -> Circuit:
        """A copy that can be changed without changing this one."""
        return self._copy(list(self._instructions), dict(self._named))

    __copy__ = copy

    def frozen(self) -> Circuit:
        """A copy that cannot be changed: what would add to it raises CircuitError. Its own copies can be changed."""
        return self._copy(FrozenInstructions(self._instructions), FrozenParameters(self._named))

    def _copy(self, instructions: list[Instruction], named: dict[str, Parameter]) -> Circuit:
        result = Circuit(self.num_qubits, self.num_clbits, self.name)
        result._instructions, result._named = instructions, named
        return result

    def with_instructions(self, instructions: list[Instruction]) -> Circuit:
        """A circuit on the same bits with other instructions."""
        result = Circuit(self.num_qubits, self.num_clbits, self.name)
        result._instructions = instructions
        for instruction in instructions:
            for param in instruction.params:
                if isinstance(param, Expression):
                    result._use(param.parameters)
        return result

    def with_order(self, parameters: Sequence[Parameter]) -> Circuit:
        """A copy whose `parameters` are these, in this order: all that it uses, and maybe others.

        Raises CircuitError where one that it uses is missing, and where elements of a ParameterVector do not stand
        together, by index.
        """
        wanted = list(parameters)
        known = set(wanted)
        missing = [parameter.name for parameter in self._named.values() if parameter not in known]
        if missing:
            raise CircuitError(f"with_order: the circuit uses {', '.join(missing)}, which the order lacks")
        result = self._copy(list(self._instructions), {parameter.name: parameter for parameter in wanted})
        if list(result.parameters) != wanted:
            names = ", ".join(parameter.name for parameter in wanted)
            raise CircuitError(
                f"with_order: {names}: each parameter comes once, and the elements of a ParameterVector stand "
                "together, by index; take Parameters of their own for another order"
            )
        return result

    def to_gate(self, name: str | None = None) -> Gate:
        """This circuit as a gate of its own, whose angles are the circuit's parameters in their order.

            bell = Circuit(2).ry(theta, 0).cx(0, 1).to_gate("bell")
            circuit.append(bell, [3, 4], [0.3])

        Raises CircuitError where it measures, resets, initialises or branches.
        """
        for index, (gate, _, _, _, condition) in enumerate(self):
            if condition or not (gate.is_unitary or gate.is_directive):
                raise CircuitError(f"instruction {index}, {gate.name}, is not unitary, and a gate is")
        chosen = name or self.name
        if not isinstance(chosen, str) or not chosen:
            raise CircuitError('a gate needs a name: to_gate("block")')
        return CircuitGate(chosen, self.frozen())

    # Text.

    @classmethod
    def from_qasm(cls, text: str) -> Circuit:
        """The circuit that an OpenQASM 2 or 3 program describes. Raises QasmError with line and column."""
        from . import qasm

        if not isinstance(text, str):
            raise TypeError(f"from_qasm takes the text of a program, not {type(text).__name__}; from_file takes a path")
        return qasm.loads(text)

    @classmethod
    def from_file(cls, path: str | Path) -> Circuit:
        """The circuit in an OpenQASM file."""
        from . import qasm

        return qasm.load(path)

    def to_qasm(self, version: int = 3) -> str:
        """The circuit as an OpenQASM program, version 2 or 3.

        Gates of one's own are written as what they are made of; one given by a matrix of angles must be bound before.
        """
        from . import qasm

        return qasm.dumps(self, version=version)

    @hinted
    def draw(self, output: str | int = "text", width: int = 80) -> Any:
        """A picture of the circuit, in blocks that are at most `width` letters wide.

        output: "text" (a string, which print(circuit) shows too), "svg" (a string; notebooks show the picture),
            "latex" (a string for the package quantikz, version 2) or "mpl" (a matplotlib Figure). A number is a width.

        Raises CircuitError for anything else, and ImportError for "mpl" without matplotlib.
        """
        from .drawing import drawn

        return drawn(self, output, width) if isinstance(output, str) else drawn(self, "text", output)

    def _repr_svg_(self) -> str | None:
        """What notebooks show, unless the circuit is too large to look at."""
        return self.draw("svg", 100) if len(self) <= 500 and self.num_qubits <= 50 else None

    def __str__(self) -> str:
        return self.draw()

    def __repr__(self) -> str:
        name = f" {self.name!r}" if self.name else ""
        return (
            f"<Circuit{name}: {self.num_qubits} qubits, {self.num_clbits} classical bits, "
            f"{len(self)} instructions, {self.num_parameters} parameters>"
        )

    def __eq__(self, other: object) -> bool:
        """Whether both have as many bits and the same instructions in the same order; names do not matter."""
        if not isinstance(other, Circuit):
            return NotImplemented
        return (
            self.num_qubits == other.num_qubits
            and self.num_clbits == other.num_clbits
            and self._instructions == other._instructions
        )

    __hash__ = None  # type: ignore[assignment]  # circuits can be changed


def _moved(instruction: Instruction, qubits: tuple[int, ...], clbits: tuple[int, ...]) -> Instruction:
    gate, old_qubits, params, old_clbits, condition = instruction
    return Instruction(
        gate,
        tuple([qubits[q] for q in old_qubits]),
        params,
        tuple([clbits[c] for c in old_clbits]),
        tuple([test._replace(clbits=tuple(clbits[c] for c in test.clbits)) for test in condition]),
    )


def checked_circuit(given: Any, taker: str = "") -> Circuit:
    """The circuit. Raises TypeError for anything else, with the way to make one of it; taker: what takes it."""
    if isinstance(given, Circuit):
        return given
    kind = type(given)
    way = _CONVERTED.get(kind.__module__.partition(".")[0], _CONVERTED.get(f"{kind.__module__}.{kind.__name__}", ""))
    need = f"{taker} takes a qdist.Circuit" if taker else "a qdist.Circuit is needed"
    raise TypeError(f"{need}, not {kind.__name__}{way and f': {way}'}")


_CONVERTED = {
    "builtins.str": "Circuit.from_qasm(text) reads OpenQASM",
    "qiskit": "qdist.interop.qiskit.from_qiskit(circuit) makes one",
    "pennylane": 'PennyLane\'s circuits run on qml.device("qdist.qubit", wires=...)',
}
"""By the library of a type, or by the type."""
