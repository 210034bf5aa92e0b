"""Differentiable outputs: expectation values, variances, probabilities, overlaps, the state.

An output has a value in a state, and a vector-Jacobian product: ``pull_back`` adds to the bra so that, to first order,
2 Re <bra|d psi> is the change of the loss due to the output. A loss L sees a complex value v = a + ib through the
cotangent g = dL/da + i dL/db, so that dL = Re(conj(g) dv).

The expectation values of a call share their passes over the state: ``values`` and ``pull_back`` see to that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdist.backends.errors import StateError
from qdist.circuit import PauliSum
from qdist.circuit.wires import as_tuple
from qdist.plan.tail import NO_TAIL, Tail
from qdist.state.checking import checks
from qdist.state.checking.alike import check_alike
from qdist.state.measuring import expectation
from qdist.state.measuring.expectation import Observable
from qdist.state.moves.relayout import relayout
from qdist.state.statevector import StateVector

__all__ = [
    "Expectation",
    "Output",
    "Overlap",
    "Probabilities",
    "State",
    "Variance",
    "as_output",
    "observables_of",
    "pull_back",
    "values",
]


class Output:
    """One output of a program. ``dtype`` is that of its value and of its cotangent."""

    dtype: Any = np.float64
    more_states: int = 0
    """Memory that its ``pull_back`` takes, in states beside the ket and the bra."""

    def shape(self, num_qubits: int) -> tuple[int, ...]:
        """Of the value, for a state of so many qubits."""
        return ()

    def frozen(self, num_qubits: int) -> Output:
        """The same output of a state of so many qubits, which shares nothing that can be changed with this one."""
        return self

    def value(self, ket: StateVector) -> Any:
        """The value in a normalised state; the same on every rank. May leave the state in another layout."""
        raise NotImplementedError

    def pull_back(self, ket: StateVector, cotangent: Any, bra: StateVector) -> None:
        """Adds to ``bra``, which has the layout of ``ket``."""
        raise NotImplementedError


@dataclass(frozen=True)
class Expectation(Output):
    """<O> of a Hermitian observable. Where outputs are listed, the observable alone means the same."""

    observable: Observable

    def frozen(self, num_qubits: int) -> Expectation:
        return Expectation(expectation.as_hermitian_sum(self.observable, num_qubits))

    def value(self, ket: StateVector) -> float:
        return ket.expectation(self.observable)

    def pull_back(self, ket: StateVector, cotangent: Any, bra: StateVector) -> None:
        product = ket.like()
        expectation.apply_and_expect(ket, [self.observable], [cotangent], product)
        bra.local[:] += product.local


@dataclass(frozen=True)
class Variance(Output):
    """<O^2> - <O>^2 of a Hermitian observable. Takes memory for three more states while it is differentiated."""

    observable: Observable
    more_states = 3

    def frozen(self, num_qubits: int) -> Variance:
        return Variance(expectation.as_hermitian_sum(self.observable, num_qubits))

    def moments(self, num_qubits: int) -> list[PauliSum]:
        """O^2 and O, of whose expectation values it is made where there is no state to look at. O has lost its
        multiple of the identity, which no variance depends on, but in which the digits of a small one would be lost."""
        given = expectation.as_hermitian_sum(self.observable, num_qubits)
        acts = (given.x | given.z).any(axis=1)
        centred = PauliSum.from_masks(given.x[acts], given.z[acts], given.coefficients[acts])
        return [(centred @ centred).simplify(), centred]

    def value(self, ket: StateVector) -> float:
        return ket.variance(self.observable)

    def pull_back(self, ket: StateVector, cotangent: Any, bra: StateVector) -> None:
        # <(O - m)^2> with m = <O>, whose own change does not count: the derivative by m is zero there.
        once = ket.copy()
        (mean,) = expectation.apply_and_expect(ket, [self.observable], [1.0], once)
        once.local[:] -= float(mean) * ket.local
        twice = once.apply_pauli_sum(self.observable)
        twice.local[:] -= float(mean) * once.local
        bra.local[:] += float(cotangent) * twice.local


@dataclass(frozen=True)
class Probabilities(Output):
    """The probabilities of the values of some qubits (all by default), qubits[0] as bit 0.

    >>> theta = Parameter("theta")
    >>> outputs, _ = compile(Circuit(2).ry(theta, 0)).vjp([Probabilities(0)], [0.0], [np.ones(2)])
    >>> outputs[0].tolist()
    [1.0, 0.0]
    """

    qubits: int | Sequence[int] | None = None

    def __post_init__(self) -> None:
        # They are read more than once: what can be read only once, or changed, is kept as it is now.
        if self.qubits is not None:
            object.__setattr__(self, "qubits", as_tuple(self.qubits))

    def shape(self, num_qubits: int) -> tuple[int, ...]:
        return (1 << len(checks.checked_qubits(self.qubits, num_qubits)),)

    def frozen(self, num_qubits: int) -> Probabilities:
        return Probabilities(checks.checked_qubits(self.qubits, num_qubits))

    def value(self, ket: StateVector) -> NDArray[np.float64]:
        return ket.probabilities(self.qubits)

    def pull_back(self, ket: StateVector, cotangent: Any, bra: StateVector) -> None:
        qubits = checks.checked_qubits(self.qubits, ket.num_qubits)
        positions = [ket.layout.positions[q] for q in qubits]
        for (first, shard), (_, out) in zip(ket.shards(), bra.shards()):
            ket.backend.kernels.add_weighted(shard, first, positions, cotangent, out)


@dataclass(frozen=True)
class Overlap(Output):
    """<phi|psi> with a given state phi, which is split over the program's ranks: complex.

    The cotangent is dL/d(real part) + i dL/d(imaginary part).
    """

    state: StateVector
    dtype = np.complex128
    more_states = 1

    def __post_init__(self) -> None:
        if not isinstance(self.state, StateVector):
            kind = type(self.state).__name__
            raise StateError(f"Overlap takes a StateVector, got {kind}: StateVector.from_amplitudes(...) makes one")

    def frozen(self, num_qubits: int) -> Overlap:
        return Overlap(self.state.copy())

    def value(self, ket: StateVector) -> complex:
        return self._state(ket).inner(ket)

    def pull_back(self, ket: StateVector, cotangent: Any, bra: StateVector) -> None:
        state = self._state(ket)
        if state.layout != ket.layout:
            state = state.copy().relayout(ket.layout)
        bra.local[:] += complex(cotangent) / 2 * state.local

    def _state(self, ket: StateVector) -> StateVector:
        check_alike("an overlap", self.state, ket)
        return self.state


@dataclass(frozen=True)
class State(Output):
    """All amplitudes in logical order: complex, on every rank. The cotangent of a + ib is dL/da + i dL/db."""

    dtype = np.complex128

    def shape(self, num_qubits: int) -> tuple[int, ...]:
        return (1 << num_qubits,)

    def value(self, ket: StateVector) -> NDArray[Any]:
        return ket.amplitudes()

    def pull_back(self, ket: StateVector, cotangent: Any, bra: StateVector) -> None:
        _add_logical(bra, cotangent / 2)


def as_output(given: Observable | Output, num_qubits: int) -> Output:
    """An output of states of so many qubits: itself, or the expectation value of an observable.

    Raises StateError for what is neither.
    """
    return given if isinstance(given, Output) else Expectation(expectation.as_pauli_sum(given, num_qubits))


def observables_of(outputs: Sequence[Output]) -> list[Observable]:
    """The observables, where all outputs are expectation values; none where there is another."""
    found = [output.observable for output in outputs if isinstance(output, Expectation)]
    return found if len(found) == len(outputs) else []


def values(ket: StateVector, outputs: Sequence[Output], gates: Tail = NO_TAIL) -> list[Any]:
    """The value of each output. ``gates`` run before observables (and only before those)."""
    observables = [output.observable for output in outputs if isinstance(output, Expectation)]
    expected = iter(expectation.expectations(ket, observables, gates).tolist() if observables else ())
    return [next(expected) if isinstance(output, Expectation) else output.value(ket) for output in outputs]


def pull_back(
    ket: StateVector,
    outputs: Sequence[Output],
    cotangents: Sequence[Any],
    bra: StateVector,
    product: Any,
    gates: Tail = NO_TAIL,
) -> tuple[Callable[[], list[Any]], Any]:
    """bra = the pull-back of the cotangents through all outputs, up to a multiple of the ket, which changes no
    derivative. Returns what gives the outputs' values once it is called, which waits for the device, and the multiple
    of the ket to subtract from the bra: a number, or ``product``, an array of one double on the device, which has still
    to compute it. gates: as for ``values``."""
    found: list[Any] = [None] * len(outputs)
    read: Callable[[], Any] = list
    shift: Any = 0.0
    expected = {k: output.observable for k, output in enumerate(outputs) if isinstance(output, Expectation)}
    if expected:
        weights = np.array([float(cotangents[k]) for k in expected])
        read, shift = expectation.pull_back(ket, list(expected.values()), weights, bra, product, gates)
    else:
        bra.local.fill(0)
    for k, output in enumerate(outputs):
        if k not in expected:
            found[k] = output.value(ket)
            relayout(ket, bra.layout)
            output.pull_back(ket, cotangents[k], bra)
            relayout(ket, bra.layout)

    def finish() -> list[Any]:
        for k, number in zip(expected, read()):
            found[k] = float(number)
        return found

    return finish, shift


def _add_logical(bra: StateVector, amplitudes: NDArray[Any]) -> None:
    """Adds amplitudes in logical order, wherever this rank's shards have them."""
    for first, shard in bra.shards():
        if bra.layout.is_identity:
            own = amplitudes[first : first + len(shard)]
        else:
            own = amplitudes[bra.layout.to_logical(np.arange(first, first + len(shard)))]
        shard += bra.backend.moved(own.astype(shard.dtype, copy=False))
