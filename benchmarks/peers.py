"""The peers that compare_cpu.py measures beside qdist: one class a library, each at the best setting it offers.

simulator.py says what is asked of them, and what is timed in each mode.
"""

from __future__ import annotations

import importlib.util
import math
import os
import sys
from collections.abc import Sequence
from importlib import machinery
from typing import Any

import numpy as np
from gate_lists import Gate, Work, angles, by_parameters, rewritten
from numpy.typing import NDArray
from simulator import QDist, Simulator


class Aer(Simulator):
    """Qiskit Aer: AerSimulator with fusion as wide as is best, and the seconds that it reports for the experiment less
    those of its fusion pass; new angles by AerState, which has no job to make, batches by that or by parameter_binds.
    """

    package = "qiskit-aer"

    def __init__(self, threads: int) -> None:
        super().__init__(threads)
        import qiskit
        import qiskit_aer
        from qiskit_aer.quantum_info.states.aer_state import AerState

        self.qiskit, self.aer, self.new_state = qiskit, qiskit_aer, AerState

    def version(self) -> str:
        return f"{super().version()} / qiskit {self.qiskit.__version__}"

    def settings(self, mode: str) -> Sequence[str]:
        if mode in ("evolve", "once"):
            return ("fusion off", "fusion 2", "fusion 3", "fusion 4", "fusion 5")
        return ("AerState",) if mode == "bind" else ("AerState", "parameter_binds")

    def prepare(self, work: Work, dtype: str, mode: str, setting: str) -> dict[str, Any]:
        known = ("x", "h", "rx", "ry", "rz", "p", "cx", "cp", "rxx", "ryy", "rzz", "unitary")
        self.work, self.mode, self.setting = work._replace(gates=rewritten(work, known)), mode, setting
        self.precision = "single" if dtype == "complex64" else "double"
        options: dict[str, Any] = {"fusion_enable": setting != "fusion off"}
        if setting.startswith("fusion ") and setting != "fusion off":
            options |= {"fusion_max_qubit": int(setting.split()[1]), "fusion_threshold": 1}
        if mode == "batch":
            options["max_parallel_experiments"] = self.threads
        self.backend = self.aer.AerSimulator(
            method="statevector", precision=self.precision, max_parallel_threads=self.threads, **options
        )
        self.parameters = self.qiskit.circuit.ParameterVector("t", work.num_parameters)
        self.circuit = self._circuit(bound=mode in ("evolve", "once"))
        # Something must be saved, and one amplitude costs nothing.
        self.timed = self.circuit.copy()
        self.timed.save_amplitudes([0])
        return {}

    def _circuit(self, bound: bool) -> Any:
        circuit = self.qiskit.QuantumCircuit(self.work.num_qubits)
        for gate in self.work.gates:
            if gate.name == "unitary":
                circuit.unitary(gate.matrix, gate.qubits)
            elif gate.controls:
                circuit.mcp(gate.angle, list(gate.qubits[:-1]), gate.qubits[-1])
            elif gate.parameters and gate.parameters[0] and not bound:
                getattr(circuit, gate.name)(self.parameters[gate.parameters[0][0]], *gate.qubits)
            else:
                getattr(circuit, gate.name)(*gate.angles, *gate.qubits)
        return circuit

    def run(self, theta: NDArray[np.float64] | None = None) -> float | None:
        if theta is not None:
            self._run_state(theta)
            return None
        done = self.backend.run(self.timed, shots=1).result()
        if not done.success:
            raise RuntimeError(done.status)
        (experiment,) = done.results
        fusing = experiment.metadata.get("fusion", {}).get("time_taken", 0.0) if self.mode == "evolve" else 0.0
        return experiment.time_taken - fusing

    def _run_state(self, theta: NDArray[np.float64]) -> None:
        state = self.new_state(method="statevector", precision=self.precision, max_parallel_threads=self.threads)
        state.allocate_qubits(self.work.num_qubits)
        state.initialize()
        for gate, angle in zip(self.work.gates, angles(self.work, theta)):
            if gate.name == "ry":
                state.apply_u(gate.qubits[0], angle, 0.0, 0.0)
            elif gate.name == "rz":
                # A phase gate, which is RZ up to a global phase.
                state.apply_mcphase([], gate.qubits[0], angle)
            else:
                state.apply_cx(*gate.qubits)
        state.flush()
        self.state = state

    def run_batch(self, thetas: NDArray[np.float64]) -> None:
        if self.setting == "AerState":
            super().run_batch(thetas)
            return
        binds = {parameter: thetas[:, k].tolist() for k, parameter in enumerate(self.parameters)}
        done = self.backend.run(self.timed, shots=1, parameter_binds=[binds]).result()
        if not done.success:
            raise RuntimeError(done.status)

    def amplitudes(self) -> NDArray[Any]:
        if self.mode not in ("evolve", "once"):
            # In single precision AerState gives out probabilities only.
            if self.precision == "single":
                return np.sqrt(self.state.probabilities())
            return self.state.move_to_ndarray()
        circuit = self.circuit.copy()
        circuit.save_statevector()
        return np.asarray(self.backend.run(circuit, shots=1).result().get_statevector())


class LightningQubit(Simulator):
    """lightning.qubit: the state vector's own methods, called with every gate made ready; PennyLane's fusion of
    neighbouring one-qubit gates on or off.
    """

    package, short_name = "pennylane-lightning", "lightning.qubit"
    modes = ("evolve", "once", "gradient", "bind", "batch")

    def __init__(self, threads: int) -> None:
        super().__init__(threads)
        import pennylane
        from pennylane_lightning import lightning_qubit_ops

        self.qml, self.ops = pennylane, lightning_qubit_ops

    def version(self) -> str:
        return f"{super().version()} / pennylane {self.qml.__version__}"

    def settings(self, mode: str) -> Sequence[str]:
        return ("plain", "fused 1") if mode == "evolve" else ("plain",)

    def _make_state(self, num_qubits: int, dtype: str) -> Any:
        kind = self.ops.StateVectorC64 if dtype == "complex64" else self.ops.StateVectorC128
        return kind(num_qubits)

    def prepare(self, work: Work, dtype: str, mode: str, setting: str) -> dict[str, Any]:
        self.work, self.dtype, self.mode = work, dtype, mode
        known = ("x", "h", "rx", "ry", "rz", "p", "cx", "cp", "rxx", "ryy", "rzz", "unitary", "mcp", "pauli_rotation")
        self.gates = rewritten(work, known, matrices=mode != "gradient")
        operations = [self._operation(gate) for gate in self.gates]
        if mode == "gradient":
            self._prepare_gradient(operations)
            return {}
        self.state = self._make_state(work.num_qubits, dtype)
        if setting == "fused 1":
            (tape,), _ = self.qml.transforms.single_qubit_fusion(self.qml.tape.QuantumScript(operations))
            operations = tape.operations
        self.calls = [self._call(operation) for operation in operations]
        return {}

    def _operation(self, gate: Gate) -> Any:
        qml = self.qml
        wires = [self.work.num_qubits - 1 - q for q in gate.qubits]
        if gate.name == "unitary":
            return qml.QubitUnitary(gate.matrix, wires=wires[::-1])
        if gate.letters:
            return qml.PauliRot(gate.angle, gate.letters, wires=wires)
        if gate.controls:
            phase = qml.PhaseShift(gate.angle, wires=wires[-1])
            return qml.ctrl(phase, wires[:-1], [value == "1" for value in gate.controls])
        kinds = {
            "x": qml.PauliX, "h": qml.Hadamard, "rx": qml.RX, "ry": qml.RY, "rz": qml.RZ, "p": qml.PhaseShift,
            "cx": qml.CNOT, "cp": qml.ControlledPhaseShift, "rxx": qml.IsingXX, "ryy": qml.IsingYY, "rzz": qml.IsingZZ,
        }  # fmt: skip
        return kinds[gate.name](*gate.angles, wires=wires)

    def _prepare_gradient(self, operations: list[Any]) -> None:
        """The device's adjoint Jacobian of a tape, by every angle."""
        qml, size = self.qml, self.work.num_qubits
        self.device = qml.device(self.short_name, wires=size, c_dtype=np.dtype(self.dtype).type)
        config = qml.devices.ExecutionConfig(gradient_method="adjoint", use_device_gradient=True)
        self.config = self.device.setup_execution_config(config)
        pauli = {"X": qml.PauliX, "Y": qml.PauliY, "Z": qml.PauliZ}
        terms = [
            qml.prod(*(pauli[p](size - 1 - q) for p, q in zip(letters, qubits))) if letters else qml.Identity(0)
            for _, letters, qubits in self.work.observable
        ]
        measured = qml.expval(qml.Hamiltonian([term[0] for term in self.work.observable], terms))
        # Its adjoint Jacobian takes Pauli rotations, and is wrong for them: they are changes of basis around a MultiRZ.
        parts = [[o] if o.name != "PauliRot" else o.decomposition() for o in operations]
        numbers = [
            (part.name == "MultiRZ" or len(some) == 1, p) for some in parts for part in some for p in part.parameters
        ]
        self.tape = qml.tape.QuantumScript([part for some in parts for part in some], [measured])
        # Not by matrices, which are parameters of gates to PennyLane, nor by the observable's coefficients.
        self.tape.trainable_params = [k for k, (is_angle, p) in enumerate(numbers) if is_angle and np.ndim(p) == 0]

    def _call(self, operation: Any) -> tuple[Any, tuple[Any, ...]]:
        wires = list(operation.wires)
        if operation.name == "QubitUnitary":
            matrix = np.ascontiguousarray(operation.parameters[0], dtype=self.dtype)
            return self.state.applyMatrix, (matrix, wires, False)
        if operation.name == "PauliRot":
            word = operation.hyperparameters["pauli_word"]
            return self.state.applyPauliRot, (wires, False, [float(operation.parameters[0])], word)
        numbers = [float(p) for p in operation.parameters]
        if hasattr(operation, "control_values") and operation.name.startswith("C("):
            controls, values = list(operation.control_wires), list(operation.control_values)
            return self.state.PhaseShift, (controls, values, list(operation.base.wires), False, numbers)
        return getattr(self.state, operation.name), (wires, False, numbers)

    def run(self, theta: NDArray[np.float64] | None = None) -> None:
        if self.mode == "gradient":
            self.found = self.device.execute_and_compute_derivatives(self.tape, self.config)[1]
            return
        self.state.resetStateVector()
        if theta is None:
            for method, arguments in self.calls:
                method(*arguments)
            return
        for gate, angle, (method, (wires, inverse, _)) in zip(self.work.gates, angles(self.work, theta), self.calls):
            method(wires, inverse, [angle] if gate.angles else [])

    def derivatives(self) -> NDArray[np.float64]:
        return by_parameters(self.work.num_parameters, self.gates, self.found)

    def amplitudes(self) -> NDArray[Any]:
        state = np.zeros(1 << self.work.num_qubits, self.dtype)
        self.state.getState(state)
        return state


class LightningKokkos(LightningQubit):
    """lightning.kokkos: as lightning.qubit, with threads given to Kokkos."""

    package, short_name = "pennylane-lightning-kokkos", "lightning.kokkos"

    def __init__(self, threads: int) -> None:
        Simulator.__init__(self, threads)
        import pennylane
        from pennylane_lightning import lightning_kokkos_ops

        self.qml, self.ops = pennylane, lightning_kokkos_ops
        self.arguments = lightning_kokkos_ops.InitializationSettings().set_num_threads(threads)

    def _make_state(self, num_qubits: int, dtype: str) -> Any:
        kind = self.ops.StateVectorC64 if dtype == "complex64" else self.ops.StateVectorC128
        return kind(num_qubits, self.arguments)

    def amplitudes(self) -> NDArray[Any]:
        state = np.zeros(1 << self.work.num_qubits, self.dtype)
        self.state.DeviceToHost(state)
        return state


class Qulacs(Simulator):
    """Qulacs: QuantumCircuit, merged by its optimizer or not; new angles by ParametricQuantumCircuit."""

    package = "qulacs"
    dtypes = ("complex128",)
    modes = ("evolve", "once", "energy", "gradient", "bind", "batch")

    def __init__(self, threads: int) -> None:
        super().__init__(threads)
        import qulacs

        self.qulacs = qulacs

    def settings(self, mode: str) -> Sequence[str]:
        if mode in ("evolve", "once"):
            return ("plain", "diagonal", "light", "fused 2", "fused 3", "fused 4")
        return ("plain",)

    def prepare(self, work: Work, dtype: str, mode: str, setting: str) -> dict[str, Any]:
        self.mode, self.setting = mode, setting
        self.state = self.qulacs.QuantumState(work.num_qubits)
        self.observable = self.qulacs.Observable(work.num_qubits)
        for coefficient, letters, qubits in work.observable:
            self.observable.add_operator(coefficient, " ".join(f"{p} {q}" for p, q in zip(letters, qubits)))
        known = ["x", "h", "rx", "ry", "rz", "cx", "unitary", "mcp", "pauli_rotation"]
        if mode in ("evolve", "once", "energy"):
            self.circuit = self.qulacs.QuantumCircuit(work.num_qubits)
            known += ["cp", "p", "rxx", "ryy", "rzz"]
        else:
            self.circuit = self.qulacs.ParametricQuantumCircuit(work.num_qubits)
        self.parameters: list[int] = []
        self.work, self.gates = work, rewritten(work, known, matrices=mode != "gradient")
        if setting not in ("plain", "diagonal") and any(len(gate.qubits) > 4 for gate in self.gates):
            raise NotImplementedError("its optimizer makes matrices of gates as wide as they are")
        for gate in self.gates:
            if mode in ("bind", "batch", "gradient") and gate.parameters and gate.parameters[0]:
                self._add_parametric(gate)
            else:
                self.circuit.add_gate(self._gate(gate, diagonal=setting == "diagonal"))
        if mode != "once":
            self._merge(self.circuit)
        if mode == "energy":
            self.circuit.update_quantum_state(self.state)
        return {}

    def _merge(self, circuit: Any) -> None:
        optimizer = self.qulacs.circuit.QuantumCircuitOptimizer()
        if self.setting == "light":
            optimizer.optimize_light(circuit)
        elif self.setting.startswith("fused"):
            optimizer.optimize(circuit, int(self.setting.split()[1]))

    def _add_parametric(self, gate: Gate) -> None:
        # Its parametric gates turn the other way: exp(+i angle/2 P).
        self.parameters.append(gate.parameters[0][0])
        if gate.letters:
            letters = ["IXYZ".index(p) for p in gate.letters]
            self.circuit.add_parametric_multi_Pauli_rotation_gate(list(gate.qubits), letters, -gate.angle)
        else:
            getattr(self.circuit, f"add_parametric_{gate.name.upper()}_gate")(*gate.qubits, -gate.angle)

    def _gate(self, gate: Gate, diagonal: bool) -> Any:
        make = self.qulacs.gate
        if gate.name == "unitary":
            return make.DenseMatrix(list(gate.qubits), gate.matrix)
        if gate.name in ("cp", "rzz") and diagonal:
            return make.DiagonalMatrix(list(gate.qubits), np.diag(gate.matrix))
        if gate.name == "cp" or gate.controls:
            phase = make.to_matrix_gate(make.U1(gate.qubits[-1], gate.angle))
            for q, value in zip(gate.qubits, gate.controls or "1"):
                phase.add_control_qubit(q, int(value))
            return phase
        if gate.letters or gate.name in ("rxx", "ryy", "rzz"):
            letters = ["IXYZ".index(p) for p in gate.letters or gate.name[1:].upper()]
            return make.PauliRotation(list(gate.qubits), letters, -gate.angle)
        kinds = {
            "x": make.X, "h": make.H, "rx": make.RotX, "ry": make.RotY, "rz": make.RotZ, "p": make.U1, "cx": make.CNOT,
        }  # fmt: skip
        return kinds[gate.name](*gate.qubits, *gate.angles)

    def run(self, theta: NDArray[np.float64] | None = None) -> None:
        if self.mode == "energy":
            self.observable.get_expectation_value(self.state)
            return
        if self.mode == "gradient":
            self.found = [-d for d in self.circuit.backprop(self.observable)]
            return
        if theta is not None:
            values = theta.tolist()
            for position, parameter in enumerate(self.parameters):
                self.circuit.set_parameter(position, -values[parameter])
        circuit = self.circuit
        if self.mode == "once" and self.setting not in ("plain", "diagonal"):
            circuit = circuit.copy()
            self._merge(circuit)
        self.state.set_zero_state()
        circuit.update_quantum_state(self.state)

    def derivatives(self) -> NDArray[np.float64]:
        return by_parameters(self.work.num_parameters, self.gates, self.found)

    def amplitudes(self) -> NDArray[Any]:
        return self.state.get_vector()


def _load_avx2_as_avx512() -> None:
    """qsim chooses its kernels when it is imported, by what the CPU has, and one process can load one kind."""
    package = importlib.util.find_spec("qsimcirq")
    for folder in (package and package.submodule_search_locations) or ():
        finder = machinery.FileFinder(folder, (machinery.ExtensionFileLoader, machinery.EXTENSION_SUFFIXES))
        if (spec := finder.find_spec("qsim_avx2")) and spec.loader:
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            sys.modules["qsimcirq.qsim_avx512"] = module


class QSim(Simulator):
    """qsim: the simulator's own circuit and entry point (no translation from Cirq), gates fused as is best.

    It allocates its state and fuses the gates in every run; there is no call that does not.
    """

    package = "qsimcirq"
    dtypes = ("complex64",)

    def __init__(self, threads: int) -> None:
        super().__init__(threads)
        # Kept from qdist's kernels, AVX-512 is kept from qsim's too.
        if os.environ.get("QDIST_SIMD") == "x86_64_v3":
            _load_avx2_as_avx512()
        import qsimcirq

        self.qsimcirq, self.qsim = qsimcirq, qsimcirq.qsim

    def settings(self, mode: str) -> Sequence[str]:
        return ("fused 2", "fused 3", "fused 4")

    def prepare(self, work: Work, dtype: str, mode: str, setting: str) -> dict[str, Any]:
        options = self.qsimcirq.QSimOptions(max_fused_gate_size=int(setting.split()[1]), cpu_threads=self.threads)
        self.options = options.as_dict() | {"s": 1}
        known = ("x", "h", "rx", "ry", "rz", "p", "cx", "cp", "fsim", "unitary", "mcp")
        work = work._replace(gates=rewritten(work, known))
        # Gates must be added in the order of their moments; a gate's moment is the first that its qubits are free in.
        free = [0] * work.num_qubits
        moments = []
        for gate in work.gates:
            moment = max(free[q] for q in gate.qubits)
            moments.append(moment)
            for q in gate.qubits:
                free[q] = moment + 1
        order = sorted(range(len(moments)), key=moments.__getitem__)
        self.moments = [moments[k] for k in order]
        self.work = Work(work.num_qubits, [work.gates[k] for k in order])
        self.options["c"] = self._circuit([g.angles[0] if g.angles else 0.0 for g in self.work.gates])
        return {}

    def _circuit(self, values: list[float]) -> Any:
        qsim = self.qsim
        circuit = qsim.Circuit()
        circuit.num_qubits = self.work.num_qubits
        kinds = {
            "x": qsim.kX, "h": qsim.kH, "cx": qsim.kCX, "rx": qsim.kXPowGate, "ry": qsim.kYPowGate,
            "rz": qsim.kZPowGate, "p": qsim.kZPowGate, "cp": qsim.kCZPowGate,
        }  # fmt: skip
        for gate, moment, angle in zip(self.work.gates, self.moments, values):
            if gate.name == "unitary":
                numbers = gate.matrix.reshape(-1).view(np.float64).tolist()
                qsim.add_matrix_gate(moment, list(gate.qubits[::-1]), numbers, circuit)
            elif gate.name == "fsim":
                theta, phi = gate.angles
                qsim.add_gate(qsim.kFSimGate, moment, list(gate.qubits), {"theta": theta, "phi": phi}, circuit)
            elif gate.controls:
                turns = {"exponent": angle / math.pi, "global_shift": 0.0}
                qsim.add_gate(qsim.kZPowGate, moment, list(gate.qubits[-1:]), turns, circuit)
                qsim.control_last_gate(list(gate.qubits[:-1]), [int(value) for value in gate.controls], circuit)
            elif not gate.angles:
                qsim.add_gate(kinds[gate.name], moment, list(gate.qubits), {}, circuit)
            else:
                shift = 0.0 if gate.name in ("cp", "p") else -0.5
                turns = {"exponent": angle / math.pi, "global_shift": shift}
                qsim.add_gate(kinds[gate.name], moment, list(gate.qubits), turns, circuit)
        return circuit

    def run(self, theta: NDArray[np.float64] | None = None) -> None:
        if theta is not None:
            self.options["c"] = self._circuit(angles(self.work, theta))
        self.state = self.qsim.qsim_simulate_fullstate(self.options, 0)

    def amplitudes(self) -> NDArray[Any]:
        return self.state.view(np.complex64)


class Qibojit(Simulator):
    """Qibo with the qibojit backend (Numba): the circuit as it is, or with gates fused."""

    package = "qibojit"

    def __init__(self, threads: int) -> None:
        super().__init__(threads)
        import qibo

        qibo.set_backend("qibojit", platform="numba")
        self.qibo = qibo
        self.backend = qibo.get_backend()
        self.backend.set_threads(threads)

    def version(self) -> str:
        return f"{super().version()} / qibo {self.qibo.__version__}"

    def settings(self, mode: str) -> Sequence[str]:
        return ("plain", "fused 2") if mode == "evolve" else ("plain",)

    def prepare(self, work: Work, dtype: str, mode: str, setting: str) -> dict[str, Any]:
        self.backend.set_dtype(dtype)
        gates = self.qibo.gates
        kinds = {
            "x": gates.X, "h": gates.H, "rx": gates.RX, "ry": gates.RY, "rz": gates.RZ, "p": gates.U1, "cx": gates.CNOT,
            "cp": gates.CU1, "rxx": gates.RXX, "ryy": gates.RYY, "rzz": gates.RZZ, "fsim": gates.fSim,
        }  # fmt: skip
        self.circuit = self.qibo.Circuit(work.num_qubits)
        for gate in rewritten(work, (*kinds, "unitary")):
            qubits = [work.num_qubits - 1 - q for q in gate.qubits]
            if gate.name == "unitary":
                self.circuit.add(gates.Unitary(gate.matrix.astype(dtype), *qubits[::-1]))
            elif gate.controls:
                self.circuit.add(gates.U1(qubits[-1], *gate.angles).controlled_by(*qubits[:-1]))
            else:
                self.circuit.add(kinds[gate.name](*qubits, *gate.angles))
        self.parameters = [g.parameters[0][0] for g in work.gates if g.parameters and g.parameters[0]]
        if setting.startswith("fused"):
            self.circuit = self.circuit.fuse(max_qubits=int(setting.split()[1]))
        return {}

    def run(self, theta: NDArray[np.float64] | None = None) -> None:
        if theta is not None:
            self.circuit.set_parameters(theta[self.parameters].tolist())
        self.result = self.backend.execute_circuit(self.circuit)

    def amplitudes(self) -> NDArray[Any]:
        return np.asarray(self.result.state())


SIMULATORS: dict[str, type[Simulator]] = {
    "qdist": QDist,
    "qulacs": Qulacs,
    "aer": Aer,
    "lightning.qubit": LightningQubit,
    "lightning.kokkos": LightningKokkos,
    "qsim": QSim,
    "qibojit": Qibojit,
}
