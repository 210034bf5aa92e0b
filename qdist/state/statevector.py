"""StateVector: the amplitudes of a state, split over the ranks of a communicator."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Never

import numpy as np
from numpy.typing import ArrayLike, NDArray

from qdist.backends import on_host
from qdist.backends.errors import StateError
from qdist.comm import Communicator
from qdist.hints import hinted, unexpected
from qdist.plan.layout import Layout
from qdist.plan.plan import readable_size
from qdist.progress import showing
from qdist.state import storage
from qdist.state.alone import alone
from qdist.state.checking import checks, same
from qdist.state.filling import check_filled, checked_factors, fill, fill_with_product
from qdist.state.given import checked_communicator, checked_layout
from qdist.state.measuring import expectation, measure
from qdist.state.measuring.estimates import Estimate, Estimates, check_exact, estimates
from qdist.state.measuring.expectation import Observable
from qdist.state.measuring.measure import Seed
from qdist.state.measuring.pictures import amplitudes_picture
from qdist.state.measuring.products import inner, is_close
from qdist.state.measuring.readout import Readout
from qdist.state.measuring.rotated import ReadoutError
from qdist.state.measuring.shadows import Shadow, shadow
from qdist.state.measuring.shots import tally
from qdist.state.moves.gather import gathered
from qdist.state.moves.relayout import relayout
from qdist.state.reduced import ReducedStates, reduced_fidelity
from qdist.state.shards import Traffic
from qdist.tensorfile import agreeing

__all__ = ["StateVector"]

_MOST_QUBITS_SHOWN = 20
"""As a picture, for which all amplitudes are copied."""


class StateVector(ReducedStates):
    """A state of n qubits, which starts as |0...0>.

    Every number that a method returns is the same on all ranks; `local` is the exception. All ranks of the
    communicator call a method together. Amplitudes keep their dtype, and sums are accumulated in double. States
    need not be normalised: probabilities and expectation values are then those of the amplitudes as they are,
    while samples and measurements use normalised probabilities.

    Args:
        num_qubits: 1 to 62, as far as the memory goes.
        dtype: "complex64" or "complex128".
        comm: whose ranks share the state; without one this process holds all of it.
        layout: which bit of the physical index (where an amplitude is stored) each qubit is; its own number by
            default.
        device: "cpu"; "cuda" for a GPU (on several ranks, the one whose number is the rank's on its node, modulo
            their number) or "cuda:N" for GPU number N; or "auto": the GPU where every rank has one, its share has at
            least 2**20 amplitudes, and they fit there; else the CPU.

    Raises:
        StateError: for arguments that cannot be right.
        MemoryError: if the state does not fit; says how many ranks would do.

    >>> sv = StateVector.basis(2, "10")
    >>> sv.expectation("Z0"), sv.expectation("Z1")
    (1.0, -1.0)
    """

    __slots__ = ("readout",)

    readout: Readout | None
    """How ``counts`` reads the classical bits of the circuit that ended in this state; None: it counts the qubits."""

    def __init__(
        self,
        num_qubits: int,
        dtype: Any = "complex64",
        comm: Communicator | None = None,
        layout: Layout | None = None,
        device: str = "auto",
    ) -> None:
        count, kind = checks.checked_num_qubits(num_qubits), checks.checked_dtype(dtype)
        same.arguments(comm, "size, dtype or layout", count, kind.char, _positions(layout))
        self._allocate(count, kind, comm, layout, device)
        if self._first == 0:
            self.backend.set_first(self._local, 1.0)

    def _set_local(self, local: NDArray[Any]) -> None:
        self._local, self.traffic, self.readout = local, Traffic(), None

    # Other constructors ----------------------------------------------------------------------------------------------

    @classmethod
    def empty(
        cls,
        num_qubits: int,
        dtype: Any = "complex64",
        comm: Communicator | None = None,
        layout: Layout | None = None,
        device: str = "auto",
    ) -> StateVector:
        """Memory of a state whose amplitudes are not set, as of ``np.empty``: for the ``out`` of ``Program.run``.

        num_qubits, dtype, comm, layout, device: as for a StateVector.
        """
        count, kind = checks.checked_num_qubits(num_qubits), checks.checked_dtype(dtype)
        same.arguments(comm, "size, dtype or layout", count, kind.char, _positions(layout))
        result = cls.__new__(cls)
        result._allocate(count, kind, comm, layout, device, zeros=False)
        return result

    @classmethod
    @hinted
    def from_amplitudes(
        cls,
        amplitudes: ArrayLike,
        dtype: Any = None,
        comm: Communicator | None = None,
        layout: Layout | None = None,
        device: str = "auto",
    ) -> StateVector:
        """The state with these 2**n amplitudes, in logical order, which are copied.

        Without `dtype` single precision stays complex64 and everything else becomes complex128. Every rank of
        `comm` passes all amplitudes; layout, device: as for a StateVector. Raises StateError for other lengths, and for
        amplitudes that are not finite or all zero.
        """
        array = np.asanyarray(amplitudes)
        if np.ma.is_masked(array):
            raise StateError("amplitudes are masked: fill them, amplitudes.filled(0)")
        array = np.asarray(array)
        if array.dtype.kind not in "biufc" or array.ndim != 1:
            raise StateError(f"amplitudes must be numbers of shape (2**n,); got {array.dtype} of shape {array.shape}")
        if array.size < 2 or array.size & array.size - 1:
            raise StateError(f"the number of amplitudes must be a power of two of at least 2; got {array.size}")
        if dtype is None:
            dtype = np.complex64 if array.dtype in (np.complex64, np.float32, np.float16) else np.complex128
        same.amplitudes(comm, "amplitudes", array)
        result = cls.__new__(cls)
        result._allocate(array.size.bit_length() - 1, checks.checked_dtype(dtype), comm, layout, device)
        fill(result, array)
        check_filled(result, array)
        return result

    @classmethod
    @hinted
    def basis(
        cls,
        num_qubits: int,
        index: int | str,
        dtype: Any = "complex64",
        comm: Communicator | None = None,
        layout: Layout | None = None,
        device: str = "auto",
    ) -> StateVector:
        """The basis state with this index, or this bit string (highest qubit first).

        num_qubits, dtype, comm, layout, device: as for a StateVector.
        """
        count, kind = checks.checked_num_qubits(num_qubits), checks.checked_dtype(dtype)
        logical = checks.checked_index(index, count)
        same.arguments(comm, "basis state", logical, count, kind.name)
        result = cls.__new__(cls)
        result._allocate(count, kind, comm, layout, device)
        offset = result._layout.to_physical(logical) - result._first
        if 0 <= offset < len(result._local):
            result._local[offset] = 1
        return result

    @classmethod
    @hinted
    def product(
        cls,
        factors: ArrayLike,
        dtype: Any = "complex64",
        comm: Communicator | None = None,
        layout: Layout | None = None,
        device: str = "auto",
    ) -> StateVector:
        """The product of one-qubit states: factors[q] holds the amplitudes of 0 and 1 of qubit q.

        dtype, comm, layout, device: as for a StateVector.
        """
        array = checked_factors(factors)
        kind = checks.checked_dtype(dtype)
        same.amplitudes(comm, "factors", array)
        result = cls.__new__(cls)
        result._allocate(checks.checked_num_qubits(len(array)), kind, comm, layout, device)
        fill_with_product(result, array)
        return result

    @classmethod
    def load(
        cls,
        path: str | Path,
        comm: Communicator | None = None,
        device: str = "auto",
        *,
        progress: bool | None = None,
    ) -> StateVector:
        """The state that ``save`` wrote to ``path``, with its dtype, layout and classical bits, on any number of ranks.

        comm, device: as for a StateVector. All ranks read their parts at once, so all must see the file. Raises
        CheckpointError when it is cut off, changed, or holds no state; OSError when it cannot be read. progress: as for
        ``save``.
        """
        comm = alone() if comm is None else checked_communicator(comm)
        description = storage.read_description(Path(path), comm)
        same.arguments(comm, "state file", description.header)
        result = cls.__new__(cls)
        # A rank that has no memory left must not leave the others waiting for it to read.
        with agreeing(comm):
            kind = np.dtype(description.dtype)
            result._allocate(description.layout.num_qubits, kind, comm, description.layout, device)
            result.readout = storage.readout_of(Path(path), description)
        with showing(progress):
            storage.read_amplitudes(result, Path(path), description)
        return result

    def save(self, path: str | Path, *, progress: bool | None = None) -> None:
        """Writes the state to ``path``, a safetensors file that ``load`` reads on any number of ranks.

        All ranks write their parts at once, so all must see the folder. An existing file is replaced only when the
        new one is complete and on disk. Raises OSError when it cannot be written. progress: whether a bar is drawn if
        it takes longer than a second; by default in terminals and notebooks.
        """
        with showing(progress):
            storage.save(self, Path(path), "" if self.readout is None else self.readout.text)

    def copy(self) -> StateVector:
        """The same state in memory of its own."""
        result = super().copy()
        result.readout = self.readout
        return result

    def __deepcopy__(self, memo: Any) -> StateVector:
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        if self._comm.size > 1:
            raise TypeError(f"a state on {self._comm.size} ranks cannot be pickled: state.save(path) writes it")
        return _unpickled, (self.amplitudes(), self.device, self.readout)

    def astype(self, dtype: Any) -> StateVector:
        """The same state in complex64 or complex128, in memory of its own."""
        kind = checks.checked_dtype(dtype)
        same.arguments(self._comm, "dtype", kind.name)
        result = StateVector.empty(self.num_qubits, kind, self._comm, self._layout, self.device)
        result._local[:] = self._local
        result.readout = self.readout
        return result

    def relayout(self, layout: Layout) -> StateVector:
        """Moves the amplitudes, in place, to where a layout has them; returns the state. It stays the same state.

        At most two exchanges between ranks and two sweeps of the memory; nothing is allocated but small buffers.
        """
        same.arguments(self._comm, "layout", checked_layout(layout).positions)
        relayout(self, layout)
        return self

    # What it is ------------------------------------------------------------------------------------------------------

    @property
    def is_random(self) -> bool:
        """Whether its circuit measures or resets mid-circuit: then this is the state of one outcome of that."""
        return self.readout is not None and self.readout.is_random

    def __repr__(self) -> str:
        ranks, size = self._comm.size, readable_size(self.dtype.itemsize << self.num_qubits)
        where = f"on {ranks} ranks, " if ranks > 1 else ""
        layout = "" if self._layout.is_identity else f", {self._layout}"
        qubits = f"{self.num_qubits} qubit{'s' if self.num_qubits > 1 else ''}"
        outcome = ", of one outcome of mid-circuit measurements or resets" if self.is_random else ""
        return f"<StateVector of {qubits}, {self.dtype}, {where}{self.device}, {size}{layout}{outcome}>"

    def _repr_svg_(self) -> str | None:
        """What notebooks show: the largest amplitudes; None where ranks share the state or it is large, for which
        notebooks print ``repr(state)``."""
        if self._comm.size > 1 or self.num_qubits > _MOST_QUBITS_SHOWN:
            return None
        return amplitudes_picture(f"{self.num_qubits} qubits, {self.dtype}", self.amplitudes())

    def __eq__(self, other: object) -> bool:
        """Whether all amplitudes are the same up to rounding, the global phase included; all ranks call.

        Rounding is that of the less precise of the two dtypes. ``fidelity`` compares up to a phase. States stay what
        they are in sets and as keys of dicts: hash(state) is that of the object.
        """
        if not isinstance(other, StateVector):
            return NotImplemented
        if self is other:
            return True
        return self.num_qubits == other.num_qubits and is_close(self, other)

    __hash__ = object.__hash__

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """What ``numpy.asarray(state)`` gives: a copy of all amplitudes, in logical order.

        Raises StateError where they are split over ranks or on a GPU: ``amplitudes()`` brings them together, and every
        rank must call it. Raises ValueError for copy=False, and TypeError for a dtype that is not complex.
        """
        if dtype is not None and np.dtype(dtype).kind != "c":
            raise TypeError(
                f"amplitudes are complex, and {np.dtype(dtype)} would lose a part: use numpy.asarray(state).real"
            )
        if self._comm.size > 1 or not self.backend.is_host:
            where = f"split over {self._comm.size} ranks" if self._comm.size > 1 else f"on {self.device}"
            raise StateError(
                f"the amplitudes are {where}, and NumPy cannot read them there: state.amplitudes() gives all of them "
                "as an array (every rank must call it), state.local the rank's own"
            )
        if copy is False:
            raise ValueError(
                "an array of a state's amplitudes is a copy; state.local is its own memory, in the order of storage"
            )
        amplitudes = self.amplitudes()
        return amplitudes if dtype is None else amplitudes.astype(dtype, copy=False)

    # Amplitudes ------------------------------------------------------------------------------------------------------

    def amplitudes(self, indices: ArrayLike | None = None) -> NDArray[Any]:
        """All amplitudes in logical order, or those of some basis states, in their shape: a new array.

        indices: logical indices, or bit strings (highest qubit first). Only what is asked for goes between ranks.
        Raises MemoryError, on all ranks, where all amplitudes do not fit on one of them.
        """
        if indices is None:
            result = gathered(self, None)
            assert result is not None, "every rank asked for it"
            return result
        logical = checks.checked_indices(indices, self.num_qubits)
        same.amplitudes(self._comm, "indices", logical)
        offsets = self._layout.to_physical(logical) - self._first
        own = (offsets >= 0) & (offsets < len(self._local))
        here = on_host(self._local[self.backend.moved(np.where(own, offsets, 0))])
        found = np.where(own, here, self.dtype.type(0))
        return self.sum_over_ranks(found)

    def gather(self, root: int = 0) -> NDArray[Any] | None:
        """All amplitudes in logical order on one rank, as a new array; None on the others.

        Raises MemoryError, on all ranks, where they do not fit there.
        """
        rank = checks.checked_rank(root, self._comm.size)
        same.arguments(self._comm, "root", rank)
        return gathered(self, rank)

    def amplitude(self, index: int | str) -> complex:
        """The amplitude of one basis state, given by its index or its bit string (highest qubit first)."""
        return complex(self.amplitudes(np.array([checks.checked_index(index, self.num_qubits)]))[0])

    def normalize(self) -> StateVector:
        """Divide by the norm, in place; returns the state. Raises StateError if it is zero."""
        norm = self.norm()
        if not (norm > 0 and math.isfinite(norm)):
            raise StateError(f"a state of norm {norm:g} cannot be normalised")
        self._scale(1 / norm)
        return self

    def inner(self, other: StateVector) -> complex:
        """<self|other>. Layouts may differ; on several ranks that takes memory for a copy of ``other``.

        Raises StateError for a state of another size, dtype or device, or over other ranks.
        """
        if not isinstance(other, StateVector):
            raise StateError(f"the inner product with {self!r} needs another state; got {other!r}")
        return inner(self, other)

    def fidelity(self, other: StateVector, qubits: int | Sequence[int] | None = None) -> float:
        """|<self|other>|^2; with `qubits` the fidelity (Tr sqrt(sqrt(rho) sigma sqrt(rho)))^2 of their reduced states,
        where the other state may have another number of qubits."""
        if qubits is None:
            return abs(self.inner(other)) ** 2
        chosen = checks.checked_qubits(qubits, self.num_qubits)
        return reduced_fidelity(self.density_matrix(chosen), other.density_matrix(chosen))

    # Measurement -----------------------------------------------------------------------------------------------------

    def probabilities(self, qubits: int | Sequence[int] | None = None) -> NDArray[np.float64]:
        """The probabilities of the values of `qubits` (all without), indexed with qubits[0] as bit 0: float64."""
        chosen = checks.checked_qubits(qubits, self.num_qubits)
        same.arguments(self._comm, "choice of qubits", chosen)
        return measure.probabilities(self, chosen)

    @hinted
    def sample(self, shots: int, seed: Seed = None, qubits: int | Sequence[int] | None = None) -> NDArray[np.int64]:
        """`shots` basis states of the qubits, drawn independently; the state stays as it is.

        Args:
            shots: how many.
            seed: what the draws depend on: an int, a NumPy Generator, or None for new ones every time. The same
                seed gives the same samples on any number of ranks and threads and in any layout.
            qubits: whose values; all without.

        Returns:
            int64 indices, with qubits[0] as bit 0.
        """
        chosen = None if qubits is None else checks.checked_qubits(qubits, self.num_qubits)
        indices = measure.sample(self, checks.checked_shots(shots), seed)
        if chosen is None:
            return indices
        result = np.zeros_like(indices)
        for k, qubit in enumerate(chosen):
            result |= (indices >> qubit & 1) << k
        return result

    @hinted
    def counts(self, shots: int, seed: Seed = None, qubits: int | Sequence[int] | None = None) -> dict[str, int]:
        """How often each outcome comes in so many shots: {bit string: how often}.

        After a circuit that measures at its end, those are of its classical bits, the highest first; otherwise, and
        with `qubits`, of qubits as in `sample`, the last first. seed: as for `sample`. Raises StateError without
        `qubits` if it `is_random`.
        """
        if qubits is None and self.readout is not None:
            return self.readout.counts(self, shots, seed)
        chosen = checks.checked_qubits(qubits, self.num_qubits)
        return tally(self.sample(shots, seed), dict(enumerate(chosen)), len(chosen))

    def collapse(self, qubits: int | Sequence[int], outcome: int) -> float:
        """Project onto an outcome and normalise, in place; returns the probability that the outcome had.

        qubits[0] is bit 0 of the outcome. Raises StateError if the outcome cannot be.
        """
        chosen = checks.checked_qubits(qubits, self.num_qubits)
        value = checks.checked_outcome(outcome, len(chosen))
        same.arguments(self._comm, "outcome to collapse to", chosen, value)
        return measure.collapse(self, chosen, value)

    @hinted
    def measure(self, qubits: int | Sequence[int] | None = None, seed: Seed = None) -> int:
        """Draw an outcome of `qubits` (all without), collapse to it in place, and return it; qubits[0] is bit 0.

        seed: as for ``sample``.
        """
        return measure.measure(self, checks.checked_qubits(qubits, self.num_qubits), seed)

    def reset_qubit(self, qubit: int, seed: Seed = None) -> None:
        """Measure a qubit, and flip it where it is found in 1: it is |0> afterwards. seed: as for ``sample``."""
        (chosen,) = checks.checked_qubits((qubit,), self.num_qubits)
        measure.reset(self, chosen, seed)

    # Observables -----------------------------------------------------------------------------------------------------

    def expectation(
        self,
        observable: Observable,
        *,
        shots: int | None = None,
        seed: Seed = None,
        readout_error: ReadoutError = None,
        **kwargs: Never,
    ) -> float:
        """<psi|O|psi> of a Hermitian observable.

        Args:
            observable: a PauliSum, PauliString, dict of strings and coefficients, text like "Z0 Z1" or "ZZI", a
                Hermitian, a pair (matrix, qubits), or a matrix of all qubits.
            shots, seed, readout_error: an estimate from so many measurements, with a ``standard_error``, instead of the
                exact value: see ``Program.expectation``. The state is taken as normalised.

        Raises:
            StateError: if it is not Hermitian or acts on qubits that the state does not have.

        >>> StateVector(2).expectation({"Z0 Z1": 0.5, "X0": 2.0})
        0.5
        """
        if kwargs:
            raise unexpected(StateVector.expectation, kwargs)
        if shots is not None or seed is not None or readout_error is not None:
            found = self.expectations([observable], shots=shots, seed=seed, readout_error=readout_error)
            assert isinstance(found, Estimates), "there are shots"
            return Estimate(found[0], found.standard_error[0], found.shots)
        return float(expectation.expectations(self, [observable])[0])

    def expectations(
        self,
        observables: Sequence[Observable],
        *,
        shots: int | None = None,
        seed: Seed = None,
        readout_error: ReadoutError = None,
        **kwargs: Never,
    ) -> NDArray[np.float64]:
        """The expectation values of several observables, which share the passes over the state: float64.

        With ``shots`` (and ``seed`` and ``readout_error``, as for ``Program.expectation``) all are estimated from the
        same ones: an array with a ``standard_error``. On several ranks the state may be left in another layout.
        """
        if kwargs:
            raise unexpected(StateVector.expectations, kwargs)
        listed = expectation.checked_observables(observables)
        if shots is not None:
            return estimates(self, listed, shots, seed, readout_error)
        check_exact(seed, readout_error)
        return expectation.expectations(self, listed)

    @hinted
    def shadow(self, shots: int, seed: Seed = None, readout_error: ReadoutError = None) -> Shadow:
        """A classical shadow of so many ``shots``, with ``seed`` and ``readout_error``: see ``Program.shadow``."""
        return shadow(self, shots, seed, readout_error)

    def variance(self, observable: Observable) -> float:
        """<O^2> - <O>^2 of a Hermitian observable in the normalised state. Takes memory for a second state."""
        weight = self.norm() ** 2
        mean = self.expectation(observable) / weight
        # |(O - mean) psi|^2 loses no digits, unlike the difference of two large numbers.
        centred = expectation.as_pauli_sum(observable, self.num_qubits) - mean
        return self.apply_pauli_sum(centred).norm() ** 2 / weight

    def apply_pauli_sum(self, observable: Observable, out: StateVector | None = None) -> StateVector:
        """O |psi> of an observable, not normalised, as a new state or in `out`; coefficients may be complex."""
        if out is not None and not isinstance(out, StateVector):
            raise StateError(f"out is a StateVector, which StateVector.empty makes; got {out!r}")
        result = self.like() if out is None else out
        result.readout = None
        expectation.apply_pauli_sum(self, observable, result)
        return result


def _positions(layout: Layout | None) -> tuple[int, ...] | None:
    return None if layout is None else checked_layout(layout).positions


def _unpickled(amplitudes: NDArray[Any], device: str, readout: Readout | None) -> StateVector:
    """The state with these amplitudes, which may be all zero."""
    state = StateVector.empty(amplitudes.size.bit_length() - 1, amplitudes.dtype, device=device)
    fill(state, amplitudes)
    state.readout = readout
    return state
