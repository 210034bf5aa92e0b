"""Circuits of PUBs as programs, compiled once for all circuits that are equal but for the names of parameters."""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Iterator
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import qdist
from qdist.circuit import Circuit, ParameterVector
from qdist.circuit.measurements import is_random
from qdist.comm import Communicator
from qdist.program.program import Program
from qdist.program.source import FEWEST_CLOSE
from qdist.state.recent import Recent
from qdist.state.statevector import StateVector
from qdist.state.unplanned import run_unplanned

from .conversion.layouts import on_qubits, used_qubits
from .conversion.reading import from_qiskit
from .running import states
from .sampling import Sampling
from .trajectory import Trajectory

__all__ = ["Known", "Programs", "common_seed"]


class Known:
    """A circuit of Qiskit that was read: with one vector of parameters, in Qiskit's order, whatever their names are.

    Qubits to which nothing happens are left out, as a transpiled circuit has many of a device's: ``qubits`` are the
    others, in order.
    """

    def __init__(self, programs: Programs, circuit: Any) -> None:
        self._programs = programs
        own = from_qiskit(circuit, dict(zip(circuit.parameters, _vector(circuit.num_parameters))))
        self.qubits = used_qubits(own) or [0][: own.num_qubits]
        number = {qubit: k for k, qubit in enumerate(self.qubits)}
        self.circuit = own if len(number) == own.num_qubits else on_qubits(own, number, len(number))

    @cached_property
    def body(self) -> Circuit:
        """Without the measurements at its end."""
        return self.circuit.remove_final_measurements()

    @cached_property
    def is_random(self) -> bool:
        """Whether two runs of the body may end in different states."""
        return is_random(self.body, self.body.num_qubits, True)

    @cached_property
    def program(self) -> Program:
        return self._programs.of(self.body)

    @cached_property
    def trajectory(self) -> Trajectory:
        """Single runs of the body, in which something is drawn."""
        return self._programs.trajectory(self.body)

    @cached_property
    def sampling(self) -> Sampling:
        """How its classical bits are sampled."""
        return Sampling(self._programs, self.circuit)


class Programs:
    """Compiles circuits of Qiskit, and keeps the programs that were used last.

    A circuit that runs for the first time, for one set of values, is not planned: many are not run again, and to plan a
    small one takes far longer than to run it.

    comm: the ranks that share the states (None: all of this job; circuits too small for them run on each). device,
    dtype: as for ``qdist.compile``.
    """

    def __init__(self, comm: Communicator | None, device: str, dtype: Any, most: int = 64) -> None:
        self.comm = qdist.comm.world() if comm is None else comm
        self.device, self.dtype = device, np.dtype(dtype)
        self._kept: Recent[Program] = Recent(most)
        self._trajectories: Recent[Trajectory] = Recent(most)
        self._known: Recent[tuple[Any, Any, Known]] = Recent(most)
        self._run_before: Recent[bool] = Recent(most)

    def of(self, circuit: Circuit) -> Program:
        """The program of a circuit, which may be one that was compiled before."""
        key = _key(circuit)
        found = self._kept.get(key)
        if found is None:
            found = self.compiled(circuit)
            self._kept.put(key, found)
        return found

    def trajectory(self, circuit: Circuit) -> Trajectory:
        """Runs of a circuit in which something is drawn, which may have been compiled before."""
        key = _key(circuit)
        found = self._trajectories.get(key)
        if found is None:
            found = Trajectory(self, circuit)
            self._trajectories.put(key, found)
        return found

    def compiled(self, circuit: Circuit) -> Program:
        """A new program, over all ranks unless the circuit is too small for them."""
        comm = None if self._is_alone(circuit) else self.comm
        return Program(circuit, comm=comm, device=self.device, dtype=self.dtype)

    def _is_alone(self, circuit: Circuit) -> bool:
        far = (self.comm.size - 1).bit_length()
        return self.comm.size == 1 or circuit.num_qubits - far < FEWEST_CLOSE

    def first_state(self, circuit: Circuit, theta: NDArray[np.float64]) -> StateVector | None:
        """The state for one row of parameters of a circuit that has not run before, if it needs no plan."""
        key = _key(circuit)
        if len(theta) != 1 or self._kept.get(key) is not None or self._run_before.get(key):
            return None
        self._run_before.put(key, True)
        return run_unplanned(circuit, theta[0], self.device, self.dtype) if self._is_alone(circuit) else None

    def states(self, circuit: Circuit, theta: NDArray[np.float64]) -> Iterator[StateVector]:
        """The state for each row of parameters, valid until the next."""
        first = self.first_state(circuit, theta)
        return states(self.of(circuit), theta) if first is None else iter((first,))

    def read(self, circuit: Any) -> Known:
        """A circuit of Qiskit, read once as long as it does not change."""
        found = self._known.get(id(circuit))
        # To compare takes a tenth of the time of reading. (Circuits themselves are equal up to 1e-10 in angles.)
        if found is not None and found[0]() is circuit and _same(found[1], circuit._data):
            return found[2]
        known = Known(self, circuit)
        self._known.put(id(circuit), (weakref.ref(circuit), circuit.copy()._data, known))
        return known

    @staticmethod
    def columns(circuit: Circuit) -> list[int]:
        """Which of Qiskit's parameters the circuit has."""
        return [parameter.index for parameter in circuit.parameters]  # type: ignore[attr-defined]


def _same(before: Any, now: Any) -> bool:
    """Whether the data of a circuit of Qiskit are what they were. Its own comparison ignores bits without use."""
    return before == now and before.num_clbits == now.num_clbits and before.num_qubits == now.num_qubits


def _key(circuit: Circuit) -> Hashable:
    return (circuit.num_qubits, circuit.num_clbits, tuple(circuit))


@lru_cache(maxsize=256)
def _vector(length: int) -> ParameterVector:
    return ParameterVector("parameter", length)


def common_seed(seed: Any, comm: Communicator) -> Any:
    """The seed; where none is given, one that the first rank draws for all."""
    if seed is not None or comm.size == 1:
        return seed
    return int(comm.broadcast(np.array([np.random.SeedSequence().generate_state(1)[0]], np.int64))[0])
