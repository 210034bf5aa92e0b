"""QuantumLayer: a circuit as a module, differentiated by the adjoint sweep."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from qdist.backends import on_host
from qdist.hints import hinted
from qdist.program import adjoint
from qdist.program.program import Program, compile
from qdist.state.measuring.measure import Seed
from qdist.state.outputs import Output, as_output, values

from ..circuit import Circuit, lowered
from ..circuit.binding import resolve_values
from ..circuit.circuit import checked_circuit
from ..comm import Communicator, Mesh
from ..plan.plan import readable_size
from ..tensor import Generator, Rule, Tensor, apply, computing_in, random
from ..tensor.arrays import MODULES, to_device
from ..tensor.autograd import mode
from ..tensor.half import widened
from ..tensor.versions import held_elsewhere
from . import quantum_embedding as embedding
from .agreement import Agreement
from .module import Module, Parameter
from .quantum_map import CircuitMap, Kept
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
        shots: expectation values and probabilities are estimated from so many measurements each, and gradients follow
            the parameter-shift rule with as many for each shifted run, as on a device; `seed` is also that of the
            outcomes, of which each rank of the Mesh's axis "dp" draws its own; in DataParallel, give each of its ranks
            another seed, as the weights are the first rank's.
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

    A forward that is recorded keeps its states for the backward, if they are of one row, or of a batch whose gradients
    are computed at once and whose states are not too many; other gradients run the circuit again. On a GPU, and where
    angles are functions of parameters, x and the weights are read again: changed in place before the backward, they
    make it raise RuntimeError.

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

    _fitted: tuple[Any, ...] | None = None  # The kind of the last x that was checked.

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
        chosen = flat(checked_circuit(circuit), inputs), flat(circuit, weights)
        if frozen:
            fixed = resolve_values(circuit.parameters, frozen, partial=True)
            circuit = circuit.bind(frozen, partial=True)
            chosen = chosen[0], [symbol for symbol in chosen[1] if symbol not in fixed]
        circuit = lowered(circuit)
        division = Division(circuit, *chosen)
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
        if amplitudes and (division.in_features or shots is not None):
            raise ValueError("amplitudes=True: x holds the initial state, so there are no inputs, and no shots")
        self._amplitudes = bool(amplitudes)
        self._shots = None if shots is None else Shots(self.program, self.observables, shots, _own_seed(seed, rows))
        self._map = CircuitMap(self.program, self.observables, division, not amplitudes and shots is None)
        self._warn_if_tiny(above=4)
        real = np.float32 if self.program.dtype == np.complex64 else np.float64
        self._dtype = np.dtype(real)
        self.weights: Parameter | None = None
        if division.num_weights:
            # With weights that are given, a seed is that of the outcomes.
            of_weights = seed if shots is None or initial is None else None
            values = _start(division.num_weights, initial, of_weights, self._dtype)
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
        Kept.drop(old.comm)
        self.comm, self.program = comm, compile(old.circuit, comm=comm, device=old.device, dtype=old.dtype)
        self._map = CircuitMap(self.program, self.observables, self._map.division, self._map.in_rows)
        self._warn_if_tiny()
        return self

    def _warn_if_tiny(self, above: int = 3) -> None:
        """A state that one rank runs in microseconds waits for messages when it is split. above: the caller's frame."""
        plan, comm = self.program.plan, self.program.comm
        if plan.far and comm is not None and comm.rank == 0 and plan.num_qubits <= _TINY:
            warnings.warn(
                f"the layer's state of {plan.num_qubits} qubits ({readable_size(plan.state_bytes)}) is split over "
                f"{comm.size} ranks, which is many times slower than on one: run it in one process, or without comm on "
                "every rank, each with rows of the batch (DataParallel, the axis 'dp' of a mesh)",
                stacklevel=above,
            )

    @property
    def in_features(self) -> int:
        """How many features x has: the circuit's parameters in `inputs`, or the amplitudes of its state."""
        return 1 << self.program.num_qubits if self._amplitudes else self._map.division.in_features

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
        if x.__class__ is not Tensor or self._kind(x) != self._fitted:
            x = self._fitting(x)
        if mode.precision is None:
            output = self._applied(x)
        else:
            with computing_in(None):
                output = self._applied(x)
        together = None if self.comm is None else self._together()
        if output.requires_grad and together is not None and together.size > 1:
            if self._agreement is None or self._agreement.comm is not together:
                self._agreement = Agreement(together, _WAY_OUT)
            output.register_hook(self._agreement.follow)
        return output

    def _kind(self, x: Tensor) -> tuple[Any, ...]:
        """What decides whether x fits, where arrays of a class are all in one place."""
        array, weights = x._data, self.weights
        return array.__class__, array.dtype, array.shape, None if weights is None else weights._data.dtype

    def _fitting(self, given: Any) -> Tensor:
        """x as the circuit takes it. Raises TypeError or ValueError where it cannot be; what fits as it is, is
        remembered by its kind."""
        # Angles keep their precision, and so do outputs, whatever the layers around compute in.
        x: Tensor = widened(given if isinstance(given, Tensor) else Tensor(given, device=self.program.device))
        dtype, shape, features = x.dtype, x.shape, self.in_features
        if dtype.kind == "c":
            raise TypeError(f"QuantumLayer takes real numbers, which are angles; got {dtype}")
        if self.weights is not None and dtype.kind == "f" and dtype != self.weights.dtype:
            name = self.weights.dtype.name
            raise TypeError(
                f"x is {dtype} and the layer's weights are {name}: convert the data, x.astype({name!r}) (of a Tensor "
                f"x.to({name!r})), or the layer, layer.to({dtype.name!r})"
            )
        wide = self._amplitudes and len(shape) == 2 and 1 <= shape[1] < features
        if len(shape) != 2 or (shape[1] != features and not wide):
            raise ValueError(f"QuantumLayer takes (batch, {features}), got shape {shape}")
        if x.device != self.program.device:
            where = self.program.device
            raise TypeError(f"the circuit runs on {where} and x is on {x.device}: move it with x.to({where!r})")
        if x is given and (x._data.__class__ is np.ndarray or x._data.__class__ in MODULES):
            self.__dict__["_fitted"] = self._kind(x)
        return x

    def _applied(self, x: Tensor) -> Tensor:
        if mode.grad and x._version.outside and not self.program.backend.is_host and held_elsewhere(x):
            # What others may write is digested where it is saved, and that waits for the GPU; a copy does not.
            x = x.clone()
        return apply(_RULE, x, layer=self) if self.weights is None else apply(_RULE, x, self.weights, layer=self)

    def metric_vector(self, v: Any, x: Any = None) -> NDArray[np.float64]:
        """The metric tensor of the circuit's state by the weights (``Program.metric_tensor``), times a vector; the mean
        over the rows of x. For ``optim.QuantumNaturalGradient``. Raises ValueError where x holds amplitudes."""
        if self._amplitudes or self.weights is None:
            raise ValueError("the metric is that of states from |0...0> by the weights: there are none here")
        given = np.zeros((1, self.in_features)) if x is None else on_host(x.data if isinstance(x, Tensor) else x)
        theta = self._map.params(given, self.weights.data)
        tangents = self._map.division.parameters(np, np.zeros_like(given), np.asarray(v, np.float64))
        found = self._map.division.gradients(self.program.metric_vector(theta, tangents))[1] / len(theta)
        rows = _groups(self.comm)[2]
        return found if rows is None or rows.size == 1 else rows.all_reduce(found, "avg")

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_agreement", "_fitted")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _agreement=None)

    def _together(self) -> Communicator | None:
        """The ranks that run every backward pass together: those of "dp" only do where they average weights."""
        everyone, shared, _ = _groups(self.comm)
        return everyone if self.weights is not None and self.weights.requires_grad else shared

    def extra_repr(self) -> str:
        counts = (
            f"{self.in_features} inputs, {self._map.division.num_weights} weights, {len(self.observables)} observables"
        )
        return f"{self.program.num_qubits} qubits, {counts}"


def _forward(xp: Any, x: Any, weights: Any = None, *, layer: QuantumLayer) -> Any:
    if layer._amplitudes:
        return _forward_of_amplitudes(xp, x, weights, layer)
    if layer._shots is not None:
        params = layer._map.params(x, weights)
        Kept.drop(layer.program.comm)
        return xp.asarray(layer._shots.values(layer.program, params).astype(x.dtype)), params
    return layer._map.forward(xp, x, weights)


def _forward_of_amplitudes(xp: Any, x: Any, weights: Any, layer: QuantumLayer) -> Any:
    params = layer._map.params(np.zeros((len(x), 0)), weights)
    Kept.drop(layer.program.comm)
    start = embedding.Start(on_host(x), layer.program)
    columns = layer._map.columns
    found = np.empty((len(params), columns.width))
    for row, state in zip(found, start.evolved(layer.program, params)):
        row[:] = columns.of(values(state, layer.observables))
    return xp.asarray(found.astype(x.dtype)), (params, start)


def _vjp(xp: Any, g: Any, saved: Any, needs: Sequence[bool], *, layer: QuantumLayer) -> tuple[Any, ...]:
    division = layer._map.division
    if layer._amplitudes:
        params, start = saved
        cotangents = layer._map.columns.cotangents(on_host(g).astype(np.float64))
        by_x, gradient = embedding.gradients(layer.program, layer.observables, params, cotangents, start)
        both = by_x, division.gradients(gradient)[1]
    elif layer._shots is not None:
        both = division.gradients(layer._shots.gradient(layer.program, saved, on_host(g).astype(np.float64)))
    else:
        both = layer._map.backward(xp, g, saved, needs)
    by_x, by_weights, kind = *both, g.__class__
    if by_x is not None and by_x.__class__ is not kind:
        by_x = xp.asarray(by_x)
    if len(needs) == 1:
        return (by_x,)
    return by_x, by_weights if by_weights is None or by_weights.__class__ is kind else xp.asarray(by_weights)


_TINY = 12
"""Qubits of a layer up to which a split state is not worth its messages."""

_WAY_OUT = (
    'ranks that differ along "dp" have different rows, so all gradients must be averaged: make the QuantumLayer with '
    'comm=mesh["state"] and train DataParallel(model, mesh["dp"]), which also gives all ranks equal weights at the '
    "start (or use average_gradients, after the same manual_seed everywhere)"
)

_RULE = Rule("quantum_layer", _forward, _vjp, floating=True)


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


def _own_seed(seed: int | None, rows: Communicator | None) -> Seed:
    """Of the outcomes here: ranks that have different rows draw different ones, so that noise averages out."""
    if seed is None or rows is None or rows.rank == 0:
        return seed
    return np.random.SeedSequence(seed, spawn_key=(rows.rank,))


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
