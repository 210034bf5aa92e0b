"""Backend: circuits run with shots by Qiskit's BackendV2 interface."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from qiskit import QiskitError
from qiskit.circuit import ForLoopOp, IfElseOp, QuantumCircuit, SwitchCaseOp
from qiskit.circuit.library import (
    DiagonalGate,
    Initialize,
    MCPhaseGate,
    MCXGate,
    PauliEvolutionGate,
    PauliGate,
    PermutationGate,
    UnitaryGate,
    get_standard_gate_name_mapping,
)
from qiskit.providers import BackendV2, JobStatus, JobV1, Options
from qiskit.result import Result
from qiskit.transpiler import Target

import qdist
from qdist.circuit import Circuit
from qdist.comm import Communicator

from .conversion.reading import checked_quantum_circuit
from .programs import Programs, common_seed
from .sampling import own_choice

__all__ = ["Backend", "Job"]


class Backend(BackendV2):
    """A simulator of circuits of any width and connectivity, for ``transpile`` and for Qiskit's Backend primitives.

    Circuits may measure, reset and branch in their middle. Under ``mpirun`` every rank runs the script, the states are
    split, and every rank gets every result.

    Args:
        comm: the ranks that share the states; None takes all of this job.
        device: "cpu", "cuda", "cuda:N" or "auto".
        dtype: of the amplitudes, complex128 or complex64.
        options: defaults of the options of ``run``.
    """

    def __init__(
        self,
        *,
        comm: Communicator | None = None,
        device: str = "auto",
        dtype: Any = np.complex128,
        **options: Any,
    ) -> None:
        super().__init__(
            name="qdist", description="distributed state vectors", backend_version=qdist.__version__, **options
        )
        self._programs = Programs(comm, device, dtype)
        self._target = _target()

    @property
    def target(self) -> Target:
        return self._target

    @property
    def max_circuits(self) -> None:
        return None

    @classmethod
    def _default_options(cls) -> Options:
        return Options(shots=1024, seed_simulator=None, memory=False, statevector=False)

    def run(self, run_input: QuantumCircuit | Sequence[QuantumCircuit], **options: Any) -> Job:
        """Runs circuits whose parameters have values; the job is done when this returns.

        Args:
            run_input: one circuit or several.
            shots: samples a circuit; 0 where only the state vector is wanted.
            seed_simulator: of the random numbers, which go on from circuit to circuit.
            memory: whether results have the outcome of every shot (``result.get_memory()``).
            statevector: whether results have the state before the final measurements (``result.get_statevector()``);
                where circuits measure, reset or branch in their middle, that of the last shot.

        Raises:
            TypeError: for what is no circuit of Qiskit.
            QiskitError: for an unknown option, a number of shots that is none, and parameters without values.
        """
        is_one = isinstance(run_input, QuantumCircuit | Circuit | str) or not isinstance(run_input, Iterable)
        circuits: list[Any] = [run_input] if is_one else list(run_input)
        for circuit in circuits:
            checked_quantum_circuit(circuit, "Backend.run")
        chosen = {name: self.options.get(name) for name in ("shots", "seed_simulator", "memory", "statevector")}
        for name, value in options.items():
            if name not in chosen:
                raise QiskitError(f"{name}={value!r}: the options of a run are {', '.join(chosen)}")
            chosen[name] = value
        shots = chosen["shots"]
        if isinstance(shots, bool) or not isinstance(shots, int | np.integer) or shots < 0:
            raise QiskitError(f"shots={shots!r}: not a number of shots")
        started = time.perf_counter()
        rng = np.random.default_rng(common_seed(chosen["seed_simulator"], self._programs.comm))
        found = [self._run_one(circuit, rng, **chosen) for circuit in circuits]
        job_id = str(uuid.uuid4())
        result = {
            "backend_name": self.name,
            "backend_version": self.backend_version,
            "job_id": job_id,
            "success": True,
            "status": "COMPLETED",
            "results": found,
            "time_taken": time.perf_counter() - started,
        }
        return Job(self, job_id, Result.from_dict(result))

    def _run_one(
        self,
        circuit: QuantumCircuit,
        rng: np.random.Generator,
        shots: int,
        seed_simulator: Any,
        memory: bool,
        statevector: bool,
    ) -> dict[str, Any]:
        if circuit.num_parameters:
            names = ", ".join(parameter.name for parameter in circuit.parameters)
            raise QiskitError(f"{circuit.name} has parameters without values ({names}): assign_parameters gives them")
        started = time.perf_counter()
        known, nothing = self._programs.read(circuit), np.zeros((1, 0))
        sampling = known.sampling
        # The state of a circuit without shots is that of one run.
        bits, state = sampling.sampled(nothing, max(shots, 1), lambda: rng, own_choice)
        data: dict[str, Any] = {}
        if shots and sampling.measures:
            outcomes = _hexadecimal(bits[0])
            data["counts"] = dict(Counter(outcomes))
            if memory:
                data["memory"] = outcomes
        if statevector:
            assert state is not None, "there was a run"
            data["statevector"] = _widened(np.asarray(state.amplitudes()), known.qubits, circuit.num_qubits)
        return {
            "name": circuit.name,
            "shots": shots,
            "seed_simulator": seed_simulator,
            "success": True,
            "status": "DONE",
            "data": data,
            "header": _header(circuit),
            "time_taken": time.perf_counter() - started,
        }


class Job(JobV1):
    """A job that is done."""

    def __init__(self, backend: Backend, job_id: str, result: Result) -> None:
        super().__init__(backend, job_id)
        self._result = result

    def submit(self) -> None:
        raise QiskitError("the job was submitted when it was made")

    def result(self) -> Result:
        return self._result

    def status(self) -> JobStatus:
        return JobStatus.DONE


def _target() -> Target:
    """Every gate that circuits of ours have natively, on any qubits."""
    target = Target(description="qdist", num_qubits=None)
    for name, instruction in get_standard_gate_name_mapping().items():
        target.add_instruction(instruction, properties=None, name=name)
    wide = {
        "unitary": UnitaryGate,
        "diagonal": DiagonalGate,
        "permutation": PermutationGate,
        "pauli": PauliGate,
        "PauliEvolution": PauliEvolutionGate,
        "mcx": MCXGate,
        "mcphase": MCPhaseGate,
        "initialize": Initialize,
        "if_else": IfElseOp,
        "switch_case": SwitchCaseOp,
        "for_loop": ForLoopOp,
    }
    for name, kind in wide.items():
        target.add_instruction(kind, name=name)
    return target


def _widened(amplitudes: NDArray[Any], qubits: Sequence[int], count: int) -> NDArray[Any]:
    """The state of ``count`` qubits of which these have the amplitudes, and the others are |0>."""
    if len(qubits) == count:
        return amplitudes
    index = np.arange(len(amplitudes))
    result = np.zeros(1 << count, amplitudes.dtype)
    result[sum((index >> k & 1) << qubit for k, qubit in enumerate(qubits))] = amplitudes
    return result


def _hexadecimal(bits: NDArray[np.uint8]) -> list[str]:
    """Each row of bits, the lowest first, as Qiskit's results write outcomes."""
    packed = np.packbits(bits, axis=1, bitorder="little")
    rows, which = np.unique(packed, axis=0, return_inverse=True)
    texts = [hex(int.from_bytes(row.tobytes(), "little")) for row in rows]
    return [texts[k] for k in which.ravel().tolist()]


def _header(circuit: QuantumCircuit) -> dict[str, Any]:
    return {
        "name": circuit.name,
        "n_qubits": circuit.num_qubits,
        "memory_slots": circuit.num_clbits,
        "qreg_sizes": [[register.name, register.size] for register in circuit.qregs],
        "creg_sizes": [[register.name, register.size] for register in circuit.cregs],
        "qubit_labels": [[register.name, k] for register in circuit.qregs for k in range(register.size)],
        "clbit_labels": [[register.name, k] for register in circuit.cregs for k in range(register.size)],
        "global_phase": float(circuit.global_phase),
        "metadata": circuit.metadata or {},
    }
