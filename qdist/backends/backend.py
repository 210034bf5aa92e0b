"""The interface of a device: Backend, and the Executors that it lowers plans to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from qdist.backends import memory
from qdist.circuit import AffineMap
from qdist.comm import Communicator
from qdist.plan.observables.row_outputs import RowOutputRecords
from qdist.plan.observables.strings import Strings
from qdist.plan.plan import Plan, Segment
from qdist.plan.rows import RowRecords
from qdist.plan.stages.backward import Backward
from qdist.plan.stages.target import Target

__all__ = ["Backend", "Executor", "ObservableKernel", "RowKernel"]


class Backend(ABC):
    """One device. Arrays on it are NumPy's or CuPy's; numbers that go in or come out are NumPy's."""

    device: str
    """As users name it: "cpu", or "cuda:N"."""
    is_host: bool
    """Whether NumPy can read its arrays where they are."""
    pools_memory: bool
    """Whether freed memory stays in a pool, so that allocating it again costs nothing."""
    largest_piece: int
    """Bytes of a message between ranks beyond which bandwidth no longer grows."""
    kernels: Any
    """Kernels that measure, collapse, pack and permute amplitudes: functions of the same names and arguments on every
    device (``qdist.native.kernels``, ``qdist.backends.cuda.kernels``)."""

    def tangent_dtype(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """In which tangent states of programs are computed: their added rotations have tiny angles, whose relative
        precision must be that of the dtype."""
        return dtype

    @abstractmethod
    def zeros(self, size: int, dtype: np.dtype[Any]) -> Any:
        """A 1-D array of zeros, aligned to at least 64 bytes."""

    @abstractmethod
    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """An uninitialised array."""

    @abstractmethod
    def moved(self, array: NDArray[Any]) -> Any:
        """A NumPy array on the device: itself, or a copy."""

    def set_first(self, shard: Any, value: complex) -> None:
        """shard[0] = value."""
        shard[0] = value

    @abstractmethod
    def free_memory(self, comm: Communicator | None = None) -> int:
        """Bytes that every rank can still allocate on its device, beside the buffers of exchanges. All ranks call."""

    def check_room(self, comm: Communicator | None, nbytes: int, what: str, way_out: str) -> None:
        """Raises MemoryError, on all ranks, where every rank cannot take so many bytes on a device with memory of its
        own (for the host's there is ``memory.check_copies``).

        what: whose memory it is, as the subject of "need". way_out: what to do instead. All ranks call.
        """
        if self.is_host or nbytes <= memory.SMALL:
            return
        free = self.free_memory(comm)
        if nbytes > free:
            raise MemoryError(
                f"{what} need {memory.gib(nbytes)} on {self.device}; {memory.gib(free)} are free; {way_out}"
            )

    def share(self, comm: Communicator) -> None:  # noqa: B027 (most devices need nothing)
        """Lets the ranks of a node access each other's memory, where that is faster than messages. All ranks call."""

    @abstractmethod
    def target(self, dtype: np.dtype[Any]) -> Target:
        """The device model that plans for it are made for."""

    @abstractmethod
    def lower(self, plan: Plan, segment: Segment, affine: AffineMap) -> Executor:
        """The executor of a segment, which runs on one shard after another. affine: how the circuit's
        angles follow from its parameters."""

    @abstractmethod
    def observable(self, strings: Strings, num_bits: int, dtype: np.dtype[Any], products: bool) -> ObservableKernel:
        """The kernel for Pauli strings (masks of positions) on shards of ``num_bits`` index bits, beyond which no
        string flips. products: whether it is for products with a state rather than for expectation values alone."""

    def rows(self, records: RowRecords, in_double: bool) -> RowKernel:
        """The kernel of a row program, where the target takes such. in_double: whether it computes in complex128."""
        raise NotImplementedError


class Executor(ABC):
    """The stages of a segment, lowered for a device, with the values that were bound last."""

    dtype: np.dtype[Any]
    origin: tuple[Plan, Segment] | None = None
    """What it was lowered from, by which a trace counts its work."""

    @property
    @abstractmethod
    def num_stages(self) -> int: ...

    @property
    @abstractmethod
    def is_trainable(self) -> bool:
        """Whether anything in it depends on a parameter."""

    @abstractmethod
    def bind(self, theta: NDArray[np.float64]) -> bool:
        """Computes all matrices and phases from the parameters' values; False if one is not finite."""

    @abstractmethod
    def bind_angles(self, angles: NDArray[np.float64]) -> None:
        """Computes all matrices and phases from the circuit's angles, of which those that no parameter changes are as
        they were given with the circuit."""

    @abstractmethod
    def run_from_zero(self, shard: Any) -> None:
        """Puts |0...0> into a shard that holds the whole state, and runs."""

    @abstractmethod
    def run(
        self, shard: Any, offset: int = 0, support: int = -1, after_stage: Callable[[], None] | None = None
    ) -> None:
        """Runs on ``shard`` in place. ``offset``: the physical index of its first amplitude in the whole state.

        ``support``: nonzero-support mask: amplitudes whose index has a 1 outside of it are zero, and are not computed;
        0 for |0...0>, -1 for any state. ``after_stage`` is called after each sweep; on a GPU, when it is queued.
        """

    @abstractmethod
    def run_batch(self, states: Any, angles: NDArray[np.float64]) -> None:
        """Binds and runs once for each row of ``angles``, on the row of ``states``, which is |0...0> before."""

    @abstractmethod
    def lower_back(self, plan: Backward) -> None:
        """Prepares ``run_back``; the second call does nothing."""

    def bind_back(self) -> None:  # noqa: B027
        """Computes what ``run_back`` needs of the bound values, if it is not done: best while a device still runs."""

    @abstractmethod
    def run_back(
        self,
        ket: Any,
        bra: Any,
        gradient: NDArray[np.float64],
        offset: int = 0,
        support: int = -1,
        recover: bool = True,
        shift: Any = 0.0,
    ) -> None:
        """Undoes the run on both shards in place, and adds 2 Re <bra|d ket> by each angle to ``gradient``.
        Of angles that are multiples of one another one may stand for all: parameters get what they should.

        ``offset`` and ``support`` are those of the run. Without ``recover`` the sweep ends at the first block or stage
        that depends on a parameter, and leaves nothing of use in the shards. ``shift``: the multiple of the ket that
        is first subtracted from the bra, which changes no derivative (see ``adjoint.sweep_back``): a number, or an
        array of one double on the device, which may have still to compute it.
        """

    def queues_back(self) -> bool:
        """Whether ``queue_back`` can do what ``run_back`` does; once ``lower_back`` was called."""
        return False

    def queue_back(self, ket: Any, bra: Any, support: int, shift: Any, out: Any) -> None:
        """run_back, without recovery, of the first shard of a state, with the derivatives by parameters, not angles,
        written to ``out``: an array of either precision on the device, which nothing waits for. Where ``queues_back``
        alone."""
        raise NotImplementedError(f"{type(self).__name__} queues no sweeps: ask queues_back() first")

    @abstractmethod
    def run_back_batch(
        self,
        kets: Any,
        bras: Any,
        angles: NDArray[np.float64],
        shifts: NDArray[np.float64],
        gradients: NDArray[np.float64],
    ) -> None:
        """run_back, without recovery, for each row of what run_batch made; gradients: one row of angles each."""


class ObservableKernel(Protocol):
    """Pauli strings of some observables, arranged in passes over a shard."""

    @property
    def passes(self) -> int:
        """How often it reads the shard."""
        ...

    def add_expectations(self, shard: Any, first: int, values: NDArray[np.float64]) -> None:
        """Adds the observables' values in a shard, whose first amplitude has physical index ``first``."""
        ...

    def apply(
        self,
        shard: Any,
        first: int,
        weights: NDArray[np.float64],
        out: Any,
        add: bool,
        values: NDArray[np.float64] | None,
    ) -> None:
        """out = the sum of all strings, times their observables' weights, applied to the shard; with ``add`` it is
        added to what is there. out is another array. The observables' values are added to ``values``."""
        ...

    def queues(self, weights: NDArray[np.float64]) -> bool:
        """Whether ``queue`` can do what ``apply`` does with these weights."""
        ...

    def queue(
        self, shard: Any, weights: NDArray[np.float64], out: Any, product: Any, constant: float = 0.0, value: Any = None
    ) -> None:
        """out = the strings of the one observable, times its weight, applied to the first shard of a state, and product
        = Re <shard|out>: an array of one double on the device. value, if it is given: that plus a constant, in an array
        of one number of either precision. Nothing waits for them."""
        ...

    def apply_rows(self, kets: Any, weights: NDArray[np.float64], bras: Any, values: NDArray[np.float64]) -> None:
        """For each row of a batch: bra = the sum of weights[row, k] O_k ket, and the values added to values[row]."""
        ...

    def add_values(self, kets: Any, values: NDArray[np.float64]) -> None:
        """Adds the observables' values in each row of a batch to values[row]."""
        ...


class RowKernel(Protocol):
    """A row program (plan/rows/records.py) on a device. rows: (batch, per_row) parameters of rows; shared: those of all
    rows; contiguous, float64 or float32, which results then are too; arrays of NumPy or, on a GPU, its own, or on the
    CPU what has a shape, a dtype of NumPy and DLPack's capsule. Calls that find a value that is not finite do nothing,
    and return None or False."""

    def outputs(self, records: RowOutputRecords) -> Any:
        """Outputs as the device takes them."""
        ...

    def kept_bytes(self, count: int) -> int:
        """Memory of the states of so many rows."""
        ...

    def forward(
        self, rows: NDArray[np.float64], shared: NDArray[np.float64], outputs: Any, keep: bool
    ) -> tuple[NDArray[np.float64], Any] | None:
        """The outputs of every row, (batch, outputs), and with ``keep`` the states, for ``backward``."""
        ...

    def backward(
        self,
        rows: NDArray[np.float64],
        shared: NDArray[np.float64],
        outputs: Any,
        cotangents: NDArray[np.float64],
        by_rows: bool,
        by_shared: bool,
        kets: Any = None,
        values: NDArray[np.float64] | None = None,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64] | None, NDArray[np.float64] | None] | None:
        """The outputs, and the vector-Jacobian products by the parameters of rows and by the shared ones (summed over
        rows), as far as wanted. kets, values: of ``forward``; the states are overwritten. Runs the circuit without."""
        ...

    def states(self, rows: NDArray[np.float64], shared: NDArray[np.float64], out: NDArray[Any]) -> bool:
        """The state of every row in logical order, into (batch, 2**n) complex numbers."""
        ...
