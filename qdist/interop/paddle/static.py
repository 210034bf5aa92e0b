"""Static graphs: a program is captured once, inside program_guard, and then run with the data of each step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...nn import Module, Parameter
from ...parallel.auto import InputSpec
from ...parallel.auto.eager.capture import capturing, paused
from ...parallel.auto.ir.graph import Operation, Recorder, Value
from ...parallel.auto.run import program_text
from ...parallel.auto.run.program_text import ProgramText
from ...tensor import Rule, Tensor, apply, no_grad
from ...tensor.random import default_generator
from .open_lengths import OpenLength, OpenTensor, Values, has_length, in_run

__all__ = [
    "Executor",
    "InputSpec",
    "Program",
    "data",
    "default_main_program",
    "default_startup_program",
    "disable_static",
    "enable_static",
    "in_dynamic_mode",
    "named",
    "program_guard",
]

_ROWS = 3
"""Rows of the sample that stands for an open number of them while a program is captured."""

_OTHER_ROWS = 2 * _ROWS
"""Rows of a second sample: the axes whose lengths differ between the two are open. A multiple, so that what divides the
one divides the other."""


class _State:
    static = False
    inside: Program | None = None


def enable_static() -> None:
    """Programs are captured from now on; the default one is empty."""
    global _main
    _State.static, _main = True, Program()


def disable_static() -> None:
    """Operations run as they are called, as at the start."""
    _State.static = False


def in_dynamic_mode() -> bool:
    """Whether operations run as they are called."""
    return not _State.static


def _values(operation: Operation) -> Iterator[Value]:
    return (x for x in operation.inputs if isinstance(x, Value))


def _run(operation: Operation, values: Values, **over: Any) -> tuple[Tensor, ...]:
    """An operation on these values; what is not among them was the same for every number of rows."""
    inputs = [values.get(x, x.tensor) if isinstance(x, Value) else x for x in operation.inputs]
    attributes = {name: in_run(attribute, values) for name, attribute in operation.attributes.items()}
    made = apply(operation.rule, *inputs, **{**attributes, **over})
    return made if isinstance(made, tuple) else (made,)


class _Recorder(Recorder):
    """Parameters get names from the layers that have them; tensors with open axes are told so."""

    def __init__(self, model: Module) -> None:
        super().__init__(model)
        # What the second sample gives: what does not depend on the number of rows is the same for both.
        self._others: dict[Value, Tensor] = {}
        self._open: set[Value] = set()

    def take(
        self, rule: Rule, inputs: tuple[Any, ...], attributes: dict[str, Any], made: Any, pinned: Any, stage: Any
    ) -> None:
        """One operation; it is run on the second sample as well where it depends on the number of rows."""
        super().take(rule, inputs, attributes, made, pinned, stage)
        operation = self.graph.operations[-1]
        outputs = others = made if isinstance(made, tuple) else (made,)
        if self._open and (has_length(attributes) or not self._open.isdisjoint(_values(operation))):
            try:
                with paused(), no_grad():
                    others = _run(operation, self._others)
            except (ValueError, IndexError) as error:
                raise ValueError(
                    f"{rule.name} fits {_ROWS} rows and not {_OTHER_ROWS}, but their number is open: write x.shape[0] "
                    f"or -1 for it ({error})"
                ) from error
        for value, out, other in zip(operation.outputs, outputs, others):
            self.compare(value, out, other)

    def compare(self, value: Value, tensor: Tensor, other: Tensor) -> None:
        """Lengths that differ between a tensor of the one sample and that of the other are open."""
        self._others[value] = other
        if tensor.shape == other.shape:
            return
        self._open.add(value)
        lengths = tuple(
            n if n == m else OpenLength.of_axis(n, value, axis)
            for axis, (n, m) in enumerate(zip(tensor.shape, other.shape, strict=True))
        )
        tensor.__class__ = OpenTensor
        tensor.lengths = lengths  # type: ignore[attr-defined]

    def lengths(self, value: Value) -> tuple[int | None, ...]:
        """Of an input; None for the open ones."""
        return tuple(n if n == m else None for n, m in zip(value.shape, self._others[value].shape))

    def value(self, tensor: Tensor) -> Value:
        if isinstance(tensor, Parameter) and id(tensor) not in self.names:
            self.names[id(tensor)] = f"{tensor.label.lower().replace('.', '_')}_{len(self.names)}"
        return super().value(tensor)


class Program:
    """Operations in the order in which they were captured, with the update that `minimize` adds."""

    def __init__(self) -> None:
        self._recorder = _Recorder(Module())
        self._named: dict[str, Tensor] = {}
        self._optimizer: Any = None

    @property
    def graph(self) -> Any:
        """What was captured."""
        return self._recorder.graph

    @property
    def desc(self) -> ProgramText:
        """The program as text, which can be drawn."""
        if self.graph.output is None and self.graph.operations:
            self.graph.output = self.graph.operations[-1].outputs[0]
        return program_text.main_program(program_text.alone(self.graph), self._optimizer)

    def __str__(self) -> str:
        return str(self.desc)

    def add_input(self, name: str, tensor: Tensor, other: Tensor) -> None:
        """Data that every run is fed: a sample of it, and one with another number of rows where that is open."""
        if name in self._named:
            raise ValueError(f"data {name!r} is there already")
        self._recorder.add_input(name, tensor)
        self._recorder.compare(self.graph.inputs[-1], tensor, other)
        self._named[name] = tensor

    def add_name(self, name: str, tensor: Tensor) -> str:
        """Name a result; returns the name, which is unique."""
        unique = f"{name}_{sum(key.startswith(f'{name}_') for key in self._named)}.tmp_0"
        self._named[unique] = tensor
        return unique

    @contextmanager
    def capture(self) -> Iterator[None]:
        """What runs inside the block becomes part of the program."""
        with capturing(self._recorder.take):
            yield

    def minimize(self, optimizer: Any, loss: Tensor) -> None:
        """Every run takes a step that makes this loss smaller."""
        self.graph.loss = self._recorder.value(loss)
        if not optimizer.param_groups:
            optimizer.take([v.tensor for v in self.graph.parameters if v.needs_grad])
        self._optimizer = optimizer

    def run(self, feed: Mapping[str, Any], fetch_list: Sequence[Any]) -> list[np.ndarray]:
        """One pass over all operations with this data; then the update, if there is one."""
        missing = [value.name for value in self.graph.inputs if value.name not in feed]
        unknown = [name for name in feed if name not in {value.name for value in self.graph.inputs}]
        if missing or unknown:
            raise ValueError(f"feed: missing {missing}, unknown {unknown}")
        wanted = [self._fetched(item) for item in fetch_list]
        values: dict[Value, Tensor] = {}
        for value in self.graph.inputs:
            given = feed[value.name]
            values[value] = given if isinstance(given, Tensor) else Tensor(given)
            shape, lengths = values[value].shape, self._recorder.lengths(value)
            if len(shape) != len(lengths) or any(m not in (None, n) for n, m in zip(shape, lengths)):
                raise ValueError(f"feed[{value.name!r}] has shape {shape}, the program {lengths}")
        if self._optimizer is None:
            with no_grad():
                self._replay(values)
        else:
            self._optimizer.zero_grad()
            self._replay(values)
            values[self.graph.loss].backward()
            self._optimizer.step()
        return [values[value].numpy() for value in wanted]

    def _replay(self, values: dict[Value, Tensor]) -> None:
        for operation in self.graph.operations:
            over = {} if operation.attributes.get("ticket") is None else {"ticket": default_generator().ticket()}
            values.update(zip(operation.outputs, _run(operation, values, **over)))

    def _fetched(self, item: Any) -> Value:
        tensor = item if isinstance(item, Tensor) else self._named.get(item)
        if tensor is None:
            raise ValueError(f"fetch_list: no result is named {item!r}; there are {', '.join(self._named)}")
        return self._recorder.value(tensor)


class _Startup:
    """What is there before the first step. Layers draw their values when they are made, so running it does nothing."""

    @property
    def desc(self) -> ProgramText:
        """The program as text, which can be drawn."""
        main = default_main_program()
        return program_text.startup_program(program_text.alone(main.graph).plan, main._optimizer)

    def __str__(self) -> str:
        return str(self.desc)


_main = Program()
_startup = _Startup()


def default_main_program() -> Program:
    """The program of the guard around it, or the one since enable_static()."""
    return _State.inside or _main


def default_startup_program() -> _Startup:
    """What comes before the default main program."""
    return _startup


@contextmanager
def program_guard(main_program: Program, startup_program: _Startup | None = None) -> Iterator[None]:
    """What runs inside the block becomes part of main_program; startup_program can only be the default one."""
    if startup_program not in (None, _startup):
        raise ValueError("program_guard: the startup program is default_startup_program()")
    if in_dynamic_mode():
        raise RuntimeError("program_guard is for static graphs: call enable_static() first")
    before, _State.inside = _State.inside, main_program
    try:
        with main_program.capture():
            yield
    finally:
        _State.inside = before


def data(name: str, shape: Sequence[int | None], dtype: Any = "float32") -> Tensor:
    """Data of the default main program that every run is fed; the first length may be None."""
    spec = InputSpec(shape, np.dtype(dtype), name)
    tensor = spec.sample(_ROWS, "cpu")
    default_main_program().add_input(name, tensor, spec.sample(_OTHER_ROWS, "cpu"))
    tensor.name = name  # type: ignore[attr-defined]
    return tensor


def named(tensor: Tensor, operation: str) -> Tensor:
    """A result; while a program is captured it gets a name to fetch it by."""
    if _State.inside is not None:
        tensor.name = _State.inside.add_name(operation, tensor)  # type: ignore[attr-defined]
    return tensor


class Executor:
    """Runs programs. place: Paddle's; data and parameters are where they are."""

    def __init__(self, place: Any = None) -> None:
        self.place = place

    def run(
        self, program: Any = None, feed: Mapping[str, Any] | None = None, fetch_list: Sequence[Any] = ()
    ) -> list[np.ndarray]:
        """One run of a program, the default one when not given; the values of what fetch_list names."""
        chosen = default_main_program() if program is None else program
        return [] if isinstance(chosen, _Startup) else chosen.run(feed or {}, fetch_list)
