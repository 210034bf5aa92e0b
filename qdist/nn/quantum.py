"""QuantumLayer: a circuit as a module, differentiated by the adjoint sweep."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import local
from typing import Any, Self
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray

from qdist.backends import on_host
from qdist.hints import hinted
from qdist.program import adjoint, batches
from qdist.program.program import Program, compile
from qdist.program.rows import Reading, RowProgram
from qdist.state.checking import checks, same
from qdist.state.moves.relayout import relayout
from qdist.state.outputs import Output, as_output, values
from qdist.state.statevector import StateVector

from ..circuit import Circuit, lowered
from ..circuit.binding import resolve_values
from ..comm import Communicator, Mesh
from ..plan import Layout
from ..plan.plan import readable_size
from ..tensor import Generator, Rule, Tensor, apply, computing_in, random
from ..tensor.arrays import to_device
from ..tensor.half import widened
from . import quantum_embedding as embedding
from .agreement import Agreement
from .module import Module, Parameter
from .quantum_outputs import Columns
from .quantum_parameters import Division, Symbols, flat
from .quantum_shots import Shots

__all__ = ["QuantumLayer"]


class QuantumLayer(Module):
    """Expectation values of a circuit: (batch, features) in, (batch, outputs) out.

    Args:
        circuit: its parameters are divided between `inputs` and `weights`. It is copied, and so is what is read from
            its state; measurements at its end change nothing.
        observables: what is read from the state, one or a list: observables, whose expectation values are outputs
            (`Expectation(observable)` says the same), `Variance(observable)`, and `Probabilities(qubits)`, which makes
            an output of every probability; `Overlap(state)` and `State()`, of which every number makes two outputs: the
            real parts of all, then the imaginary parts.
        inputs: the circuit's parameters that x holds: Parameters and ParameterVectors, or their names, in the order of
            x's features. Elements of a vector that the circuit does not use are features that change nothing.
        weights: those that are trained, as one Parameter `weights`, in this order; unused elements likewise.
        frozen: values of weights that are not trained, {Parameter, ParameterVector or name: value}. They are put into
            the circuit, and are no part of `weights`.
        amplitudes: x holds amplitudes of the initial state instead of angles: (batch, features), up to 2**n real
            numbers a row (missing ones are 0), which are normalised. There are no `inputs` then.
        shots: every expectation value is estimated from so many measurements, and gradients follow the parameter-shift
            rule with as many for each shifted run, as on a device; `seed` is also that of the outcomes.
        comm: None runs the circuit on this rank alone; a communicator, such as mesh["state"], splits its amplitudes
            over its ranks. A Mesh splits them over its axis "state", and averages the gradient of the weights over its
            axis "dp", whose ranks each have rows of the batch: for a model that is this layer alone. A model with other
            parameters takes mesh["state"] here and goes into DataParallel(model, mesh["dp"]).
        dtype: complex64 or complex128, of the amplitudes. The weights are float32 or float64 accordingly, and so are x
            and the outputs.
        device: where the circuit runs and the weights are: "cpu", "cuda", "cuda:N" or "auto". x must be there too, and
            the outputs are. On a GPU batches of up to 16 qubits run in few launches, and nothing goes
            through the host; a row with a value that is not finite has outputs that are NaN. Larger circuits copy x and
            the weights to the host, where matrices are made of them.
        initial: the weights to start from; uniform in [0, 2 pi) when not given.
        seed: of those uniform numbers; None draws them from the default generator, as other layers do.

    A forward that is recorded keeps its states for the backward, if they are of one row, or of a batch on the CPU whose
    gradients are computed at once; other gradients run the circuit again.

    All ranks that share amplitudes give the same x and get the same outputs. Rank 0's weights are taken over by all
    ranks of `comm` at the start. Parameters that are trained together with a layer must be equal on all its ranks,
    which backward passes compare now and then (the 1st, 2nd, 4th ... 64th, every 64th); ValueError names one that is
    not.

    Raises CircuitError if a parameter is in neither or in both of `inputs` and `weights`, or not in the circuit, and
    StateError for circuits that cannot be differentiated.

    >>> x, w = ParameterVector("x", 2), ParameterVector("w", 2)
    >>> circuit = Circuit(2).rx(x[0], 0).rx(x[1], 1).cx(0, 1).ry(w[0], 0).ry(w[1], 1)
    >>> layer = QuantumLayer(circuit, ["Z0", "Z1"], inputs=x, weights=w, seed=0)
    >>> layer(Tensor([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]])).shape
    (3, 2)
    """

    @hinted
    def __init__(
        self,
        circuit: Circuit,
        observables: Any,
        inputs: Symbols = (),
        weights: Symbols = (),
        *,
        comm: Communicator | Mesh | None = None,
        dtype: Any = "complex64",
        device: str = "cpu",
        initial: ArrayLike | None = None,
        seed: int | None = None,
        frozen: Mapping[Any, Any] | None = None,
        amplitudes: bool = False,
        shots: int | None = None,
    ) -> None:
        super().__init__()
        chosen = flat(circuit, inputs), flat(circuit, weights)
        if frozen:
            fixed = resolve_values(circuit.parameters, frozen, partial=True)
            circuit = circuit.bind(frozen, partial=True)
            chosen = chosen[0], [symbol for symbol in chosen[1] if symbol not in fixed]
        circuit = lowered(circuit)
        self._division = Division(circuit, *chosen)
        self.comm = comm
        """As given."""
        self._agreement: Agreement | None = None
        everyone, shared, rows = _groups(comm)
        self.program: Program = compile(circuit, comm=shared, device=device, dtype=dtype)
        adjoint.check_differentiable(self.program)
        given = observables if isinstance(observables, list) else [observables]
        if not given:
            raise ValueError("a QuantumLayer needs at least one observable")
        n = circuit.num_qubits
        self.observables: list[Output] = [as_output(o, n).frozen(n) for o in given]
        self._columns = Columns(self.observables, n)
        if amplitudes and (self._division.in_features or shots is not None):
            raise ValueError("amplitudes=True: x holds the initial state, so there are no inputs, and no shots")
        self._amplitudes = bool(amplitudes)
        self._shots = None if shots is None else Shots(self.program, self.observables, shots, seed)
        self._rows: tuple[RowProgram, Reading] | None = self._row_program()
        self._warn_if_tiny(above=4)
        real = np.float32 if self.program.dtype == np.complex64 else np.float64
        self._dtype = np.dtype(real)
        self.weights: Parameter | None = None
        if self._division.num_weights:
            values = _start(self._division.num_weights, initial, seed, self._dtype)
            values = values if everyone is None else everyone.broadcast(values)
            self.weights = Parameter(to_device(values, self.program.device))
            self.weights.keeps_precision = True
            if rows is not None and rows.size > 1:
                self.weights.register_hook(_mean_over(rows))
        elif initial is not None:
            raise ValueError("initial values are given, but no weights")

    def split_over(self, comm: Communicator) -> Self:
        """Splits the amplitudes over the ranks of a communicator from now on; returns itself.

        The weights stay as they are, and must be equal on these ranks. Collective over them.
        """
        old = self.program
        _Kept.drop(old.comm)
        self.comm, self.program = comm, compile(old.circuit, comm=comm, device=old.device, dtype=old.dtype)
        self._rows = self._row_program()
        self._warn_if_tiny()
        return self

    def _warn_if_tiny(self, above: int = 3) -> None:
        """A state that one rank runs in microseconds waits for messages when it is split. above: the caller's frame."""
        plan, comm = self.program.plan, self.program.comm
        if plan.far and comm is not None and comm.rank == 0 and plan.num_qubits <= _TINY:
            warnings.warn(
                f"the layer's state of {plan.num_qubits} qubits ({readable_size(plan.state_bytes)}) is split over "
                f"{comm.size} ranks, which is many times slower than on one: leave comm out, or use a mesh that has "
                "these ranks on its axis 'dp', where each takes rows of the batch",
                stacklevel=above,
            )

    def _row_program(self) -> tuple[RowProgram, Reading] | None:
        """The circuit for rows of x, with the weights shared, where batches run so; and what is read from them."""
        programs = self.program.row_programs
        if self._amplitudes or self._shots is not None or not programs.takes(self.observables):
            return None
        rows = programs.of(self._division.row_columns, self._division.shared_columns)
        return rows, rows.reading(self.observables)

    @property
    def in_features(self) -> int:
        """How many features x has: the circuit's parameters in `inputs`, or the amplitudes of its state."""
        return 1 << self.program.num_qubits if self._amplitudes else self._division.in_features

    def random_state(self) -> dict[str, Any] | None:
        """Of the numbers that shots are drawn from, for a checkpoint; None without shots."""
        return None if self._shots is None else self._shots.state_dict()

    def load_random_state(self, state: dict[str, Any]) -> None:
        """Go on from what `random_state` gave."""
        if self._shots is not None:
            self._shots.load_state_dict(state)

    def forward(self, x: Any = None) -> Tensor:
        """The outputs for every row of x, or without inputs one row: `layer()`."""
        if x is None:
            if self.in_features:
                raise ValueError(f"QuantumLayer takes (batch, {self.in_features}), got nothing")
            x = np.zeros((1, 0), self._dtype)
        # Angles keep their precision, and so do outputs, whatever the layers around compute in.
        x = widened(x if isinstance(x, Tensor) else Tensor(x, device=self.program.device))
        if x.dtype.kind == "c":
            raise TypeError(f"QuantumLayer takes real numbers, which are angles; got {x.dtype}")
        if self.weights is not None and x.dtype.kind == "f" and x.dtype != self.weights.dtype:
            name = self.weights.dtype.name
            raise TypeError(
                f"x is {x.dtype} and the layer's weights are {name}: convert the data, x.astype({name!r}) (of a Tensor "
                f"x.to({name!r})), or the layer, layer.to({x.dtype.name!r})"
            )
        wide = self._amplitudes and x.ndim == 2 and 1 <= x.shape[1] < self.in_features
        if x.ndim != 2 or (x.shape[1] != self.in_features and not wide):
            raise ValueError(f"QuantumLayer takes (batch, {self.in_features}), got shape {x.shape}")
        if x.device != self.program.device:
            where = self.program.device
            raise TypeError(f"the circuit runs on {where} and x is on {x.device}: move it with x.to({where!r})")
        with computing_in(None):
            inputs = (x,) if self.weights is None else (x, self.weights)
            output = apply(_RULE, *inputs, layer=self)
        together = self._together()
        if output.requires_grad and together is not None and together.size > 1:
            if self._agreement is None or self._agreement.comm is not together:
                self._agreement = Agreement(together, _WAY_OUT)
            output.register_hook(self._agreement.follow)
        return output

    def __getstate__(self) -> dict[str, Any]:
        # Kernels are made again where the layer is copied to or loaded.
        return {name: value for name, value in self.__dict__.items() if name not in ("_rows", "_agreement")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__dict__.update(_agreement=None, _rows=self._row_program())

    def _together(self) -> Communicator | None:
        """The ranks that run every backward pass together: those of "dp" only do where they average weights."""
        everyone, shared, _ = _groups(self.comm)
        return everyone if self.weights is not None and self.weights.requires_grad else shared

    def extra_repr(self) -> str:
        counts = f"{self.in_features} inputs, {self._division.num_weights} weights, {len(self.observables)} observables"
        return f"{self.program.num_qubits} qubits, {counts}"

    def _params(self, x: NDArray[Any], weights: NDArray[Any] | None) -> NDArray[np.float64]:
        """One row of the circuit's parameters for every row of x. Raises StateError where one is not finite."""
        features = np.zeros((len(x), 0)) if self._amplitudes else on_host(x)
        params = self._division.parameters(np, features, None if weights is None else on_host(weights))
        params = same.values(self.program.comm, params, "input and weight")
        return checks.checked_batch(params, params.shape[1])


class _Kept:
    """The states of a forward, for its backward: until another forward of its thread on the same ranks, or a backward
    there that has none of its own. Where nothing is recorded, they are gone with the forward.

    So a model of many layers takes no more memory than its gradients do; and what only some ranks run, on their own,
    leaves alone what all of them must find again.
    """

    def __init__(self, comm: Communicator | None, kets: Any, layout: Layout | None) -> None:
        self._comm, self._kets, self._layout = comm, kets, layout
        _last.kept[comm] = self

    def take(self) -> Any:
        """The states as they came from the runs, if they are still there."""
        kets, self._kets = self._kets, None
        if kets is None:
            _Kept.drop(self._comm)
        elif self._layout is not None:
            relayout(kets, self._layout)  # The outputs were read in layouts of their own.
        return kets

    @staticmethod
    def drop(comm: Communicator | None) -> None:
        last = _last.kept.pop(comm, None)
        if last is not None:
            last._kets = None


class _Last(local):
    """This thread's last forward on each group of ranks."""

    def __init__(self) -> None:
        self.kept: WeakValueDictionary[Communicator | None, _Kept] = WeakValueDictionary()


_last = _Last()


def _forward(xp: Any, x: Any, weights: Any = None, *, layer: QuantumLayer) -> Any:
    if layer._rows is not None:
        return _forward_of_rows(xp, x, weights, layer)
    params = layer._params(x, weights)
    _Kept.drop(layer.program.comm)
    if layer._amplitudes:
        return _forward_of_amplitudes(xp, x, params, layer)
    if layer._shots is not None:
        return xp.asarray(layer._shots.values(layer.program, params).astype(x.dtype)), (params,)
    values, *kept = _values(layer, params)
    return xp.asarray(values.astype(x.dtype)), (params, _Kept(layer.program.comm, *kept))


def _forward_of_amplitudes(xp: Any, x: Any, params: NDArray[np.float64], layer: QuantumLayer) -> Any:
    start = embedding.Start(on_host(x), layer.program)
    found = np.empty((len(params), layer._columns.width))
    for row, state in zip(found, start.evolved(layer.program, params)):
        row[:] = layer._columns.of(values(state, layer.observables))
    return xp.asarray(found.astype(x.dtype)), (params, start)


def _forward_of_rows(xp: Any, x: Any, weights: Any, layer: QuantumLayer) -> Any:
    assert layer._rows is not None, "the caller has looked"
    rows, reading = layer._rows
    comm = layer.program.comm
    params = layer._division.of_rows(xp, x, weights)
    _Kept.drop(comm)
    found = rows.values(*params, reading, keep=True)
    if found is None:
        layer._params(x, weights)  # Says which value is not finite.
        raise AssertionError("a value is not finite")
    values, kets = found
    out = reading.columns.flat(values).astype(x.dtype, copy=False)
    return xp.asarray(out), (params, (x, weights), values, _Kept(comm, kets, None))


def _vjp(xp: Any, g: Any, saved: Any, needs: Sequence[bool], *, layer: QuantumLayer) -> tuple[Any, ...]:
    if len(saved) == 4:
        both = _vjp_of_rows(xp, layer, saved, needs, g)
    else:
        weights = on_host(g).astype(np.float64)
        if len(saved) == 1:
            assert layer._shots is not None, "the forward run had shots"
            gradient = layer._shots.gradient(layer.program, saved[0], weights)
        else:
            params, kept = saved
            cotangents = layer._columns.cotangents(weights)
            if layer._amplitudes:
                by_x, gradient = embedding.gradients(layer.program, layer.observables, params, cotangents, kept)
                _, by_weights = layer._division.gradients(gradient)
                return tuple(xp.asarray(part) for part in (by_x, by_weights)[: len(needs)])
            _, gradient = adjoint.vjp(layer.program, layer.observables, params, cotangents, kept.take())
        both = layer._division.gradients(gradient)
    return tuple(None if part is None else xp.asarray(part) for part in both[: len(needs)])


def _vjp_of_rows(xp: Any, layer: QuantumLayer, saved: Any, needs: Sequence[bool], g: Any) -> tuple[Any, ...]:
    """The gradients by x and by the weights, None where they are not needed."""
    (rows, shared), (x, weights), values, kept = saved
    assert layer._rows is not None, "the forward run was of rows"
    program, reading = layer._rows
    together = layer._division.has_functions
    by_weights = together or (len(needs) > 1 and needs[1])
    found = program.vjp(rows, shared, reading, g, together or needs[0], by_weights, values, kept.take())
    assert found is not None, "the forward run has checked the values"
    _, by_rows, by_shared = found
    return layer._division.gradients_of_rows(xp, x, weights, by_rows, by_shared)


_TINY = 12
"""Qubits of a layer up to which a split state is not worth its messages."""

_BATCH_BYTES = 1 << 26
"""Of the states that are computed at once."""

_WAY_OUT = (
    'ranks that differ along "dp" have different rows, so all gradients must be averaged: make the QuantumLayer with '
    'comm=mesh["state"] and train DataParallel(model, mesh["dp"]), which also gives all ranks equal weights at the '
    "start (or use average_gradients, after the same manual_seed everywhere)"
)

_RULE = Rule("quantum_layer", _forward, _vjp, floating=True)


def _values(layer: QuantumLayer, params: NDArray[np.float64]) -> tuple[NDArray[np.float64], Any, Layout | None]:
    """The outputs for every row of parameters; the states, if a gradient can go on from them; and their layout, if
    reading may have changed it."""
    program, outputs = layer.program, layer.observables
    fit = batches.fit(program, outputs)
    if fit and not program.backend.is_host:
        return batches.values(program, outputs, params), None, None
    if len(params) == 1 and not fit:
        bound, gates = program.bind_for(outputs, params[0])
        ket = bound.evolved()
        layout = ket.layout
        return layer._columns.of(values(ket, outputs, gates))[None], [ket], layout
    kets = program.run_batch(params) if fit and batches.one_part(program, len(params)) else None
    states = _states(program, params) if kets is None else _loaded(kets, program.device)
    found = np.empty((len(params), layer._columns.width))
    for row, state in zip(found, states):
        row[:] = layer._columns.of(values(state, outputs))
    return found, kets, None


def _states(program: Program, params: NDArray[np.float64]) -> Iterator[StateVector]:
    """The state of each row, valid until the next is asked for. Small ones are computed many at once."""
    at_once = _BATCH_BYTES // (program.dtype.itemsize << program.num_qubits) if program.backend.is_host else 1
    if at_once > 1 and not program.plan.far and all(part.instruction is None for part in program.plan.parts):
        for start in range(0, len(params), at_once):
            yield from _loaded(program.run_batch(params[start : start + at_once]), program.device)
        return
    state = None
    for row in params:
        state = program.evolved(row, out=state)
        yield state


def _loaded(kets: NDArray[Any], device: str) -> Iterator[StateVector]:
    return (StateVector.from_amplitudes(amplitudes, device=device) for amplitudes in kets)


def _groups(
    comm: Communicator | Mesh | None,
) -> tuple[Communicator | None, Communicator | None, Communicator | None]:
    """All ranks, those that share the amplitudes, and those that have different rows of the batch."""
    if not isinstance(comm, Mesh):
        return comm, comm, None
    if "state" not in comm and "dp" not in comm:
        raise ValueError(f"{comm!r} has neither an axis 'state' for the amplitudes nor 'dp' for the batch")
    axes = [axis for axis in ("dp", "state") if axis in comm]
    found = {axis: comm[axis] for axis in axes}
    return comm[axes], found.get("state"), found.get("dp")


def _mean_over(rows: Communicator) -> Callable[[Tensor], Tensor]:
    """A hook for the weights. It sees the whole gradient of a backward pass, however often the layer was in it."""
    return lambda gradient: Tensor(rows.all_reduce(gradient.data, "avg"))


def _start(count: int, initial: ArrayLike | None, seed: int | None, dtype: np.dtype) -> NDArray[Any]:
    if initial is None:
        generator = random.default_generator() if seed is None else Generator(seed)
        return generator.uniform((count,), 0.0, 2 * math.pi, dtype)
    if seed is not None:
        raise ValueError("initial weights and a seed for random ones are given: leave one out")
    values = np.array(initial, dtype)
    if values.shape != (count,):
        raise ValueError(f"the layer has {count} weights; initial has shape {values.shape}")
    return values
