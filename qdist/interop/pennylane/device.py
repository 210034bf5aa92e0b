"""The PennyLane device "qdist.qubit"."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np
import pennylane as qml
from pennylane.devices import Device, ExecutionConfig, MCMConfig
from pennylane.devices.modifiers import simulator_tracking, single_tape_support
from pennylane.math import Interface
from pennylane.tape import QuantumScript
from pennylane.transforms.core import CompilePipeline

import qdist
from qdist.backends import StateError
from qdist.backends.choice import checked_device
from qdist.comm import Communicator
from qdist.locks import open_in_forks

from . import derivatives, execution, mid_circuit
from .binding import as_numpy, bound
from .preprocessing import NAME, pipeline, supports_adjoint
from .sampling import merged, sample_state, sampled
from .tapes import Compiler

__all__ = ["QdistQubit"]

_MCM_METHODS = ("deferred", "one-shot", "tree-traversal")
_PER_ROW = "gradients_per_row"


@simulator_tracking
@single_tape_support
class QdistQubit(Device):
    """State vectors on one CPU, a GPU, or the ranks of an MPI job; derivatives by the adjoint method.

    Under ``mpirun -n N`` every rank runs the script, the amplitudes are split over all of them, and every rank gets
    every result. Circuits too small to be split run on each rank.

    Args:
        wires: how many, or their labels; None takes those of each circuit.
        shots: of circuits that say nothing else.
        c_dtype: of the amplitudes, complex128 or complex64.
        device: "cpu", "cuda", "cuda:N", or "auto": the GPU for states that are large enough.
        comm: the ranks that share the states; None takes all of this job.
        seed: of samples and mid-circuit measurements. The default draws one from NumPy's global generator, and None
            from the operating system; on several ranks it is that of the first.

    Derivatives are vector-Jacobian products, of all measurements in one sweep, whatever ``device_vjp`` says: by angles,
    and by the amplitudes of a StatePrep or AmplitudeEmbedding that a circuit begins with, also where some are 0. So
    with JAX they are reverse-mode (grad, vjp, jacrev, also under jit and vmap); jax.jacfwd takes
    diff_method="parameter-shift". Second derivatives take max_diff=2, by parameter shifts; without it torch
    and JAX raise, and autograd has zeros.

    >>> dev = qml.device("qdist.qubit", wires=2)
    """

    config_filepath = str(Path(__file__).with_name("capabilities.toml"))
    _device_options = (_PER_ROW,)

    def __init__(
        self,
        wires: Any = None,
        shots: Any = None,
        *,
        c_dtype: Any = np.complex128,
        device: str = "auto",
        comm: Communicator | None = None,
        seed: Any = "global",
    ) -> None:
        super().__init__(wires=wires, shots=shots)
        ranks = qdist.comm.world() if comm is None else comm
        self.c_dtype = np.dtype(c_dtype)
        if self.c_dtype not in (np.complex64, np.complex128):
            raise qml.exceptions.DeviceError(f"c_dtype={c_dtype!r}: {NAME} has complex64 and complex128")
        if not isinstance(ranks, Communicator):
            raise qml.exceptions.DeviceError(f"comm={comm!r}: {NAME} takes a communicator of qdist.comm, or None")
        try:
            if device != "auto":
                checked_device(device, ranks)
        except StateError as error:
            raise qml.exceptions.DeviceError(f"{NAME}: {error}") from error
        self._compiler = Compiler(self.c_dtype, device, ranks)
        self._rng = np.random.default_rng(_common_seed(seed, self._compiler.comm))
        self._asked: tuple[Any, bool] = (lambda: None, False)
        # Programs keep the state of their last run.
        self._lock = open_in_forks(RLock())

    @property
    def name(self) -> str:
        return NAME

    @property
    def comm(self) -> Communicator | None:
        """The ranks that share the states; None: there is but one."""
        return self._compiler.comm

    # Before a run ----------------------------------------------------------------------------------------------------

    def supports_derivatives(
        self, execution_config: ExecutionConfig | None = None, circuit: QuantumScript | None = None
    ) -> bool:
        """Adjoint derivatives of first order, without shots, of unitary circuits, such as those with deferred
        measurements; paths through measurements have none."""
        if execution_config is None:
            return True
        if execution_config.gradient_method not in ("adjoint", "best", "device"):
            return False
        if execution_config.derivative_order != 1:
            return False
        if circuit is None:
            return True
        paths = execution_config.mcm_config.mcm_method not in (None, "deferred")
        if paths and mid_circuit.has_branches(circuit):
            return False
        # PennyLane asks several times for each call of a QNode.
        tape, answer = self._asked
        if tape() is not circuit:
            answer = supports_adjoint(circuit, self.wires)
            self._asked = weakref.ref(circuit), answer
        return answer

    supports_vjp = supports_derivatives
    supports_jvp = supports_derivatives

    def setup_execution_config(
        self, config: ExecutionConfig | None = None, circuit: QuantumScript | None = None
    ) -> ExecutionConfig:
        config = config or ExecutionConfig()
        for option in config.device_options:
            if option not in self._device_options:
                raise qml.exceptions.DeviceError(f"device option {option} not present on {self}")
        updated: dict[str, Any] = {"mcm_config": _mcm_config(config.mcm_config, circuit)}
        method = config.gradient_method
        if method in ("best", "device"):
            method = updated["gradient_method"] = "adjoint"
        if method == "adjoint":
            # One sweep gives the product with all cotangents; Jacobians would take one for each measured number.
            updated.update(use_device_gradient=True, use_device_jacobian_product=True, grad_on_execution=False)
            # Nothing is gained by a tape with NumPy's numbers for each that has a framework's own: see as_numpy.
            updated["convert_to_numpy"] = False
            if config.interface in (Interface.JAX, Interface.JAX_JIT):
                rows = circuit is not None and circuit.batch_size is None
                # Where jax.vmap makes the batch, its rows are derivatives of functions of their own.
                updated["device_options"] = {**config.device_options, _PER_ROW: rows}
        return replace(config, **updated)

    def preprocess_transforms(self, execution_config: ExecutionConfig | None = None) -> CompilePipeline:
        config = execution_config or ExecutionConfig()
        # PennyLane's interface to TensorFlow stacks the derivatives by all parameters of a tape.
        equal_shapes = config.interface in (Interface.TF, Interface.TF_AUTOGRAPH)
        return pipeline(self.wires, config.mcm_config.mcm_method, config.gradient_method == "adjoint", equal_shapes)

    # Runs ------------------------------------------------------------------------------------------------------------

    def execute(self, circuits: Sequence[QuantumScript], execution_config: ExecutionConfig | None = None) -> Any:
        config = execution_config or ExecutionConfig()
        with self._lock:
            return tuple(self._execute(circuit, config) for circuit in circuits)

    def _execute(self, tape: QuantumScript, config: ExecutionConfig) -> Any:
        if not config.convert_to_numpy:
            tape = as_numpy(tape)
        if mid_circuit.has_branches(tape):
            return mid_circuit.run(tape, self._compiler, self.wires, self._rng, config.mcm_config.postselect_mode)
        if tape.shots:
            return self._sampled(tape)
        return execution.analytic(tape, self._compiler, self.wires, config.gradient_method == "adjoint")

    def _sampled(self, tape: QuantumScript) -> Any:
        found, place, theta, starts = bound(tape, self._compiler, self.wires)

        def results(state: Any) -> Any:
            def draw(rotations: Any) -> Any:
                total = tape.shots.total_shots
                return sample_state(state, total, rotations, place, self._compiler, self._rng)

            return sampled(tape.measurements, tape.shots, place, draw, state.amplitudes, self._rng)

        if theta.ndim == 1:
            return results(found.run(theta, starts))
        rows = [results(state) for state in execution.rows_of(found, theta, starts)]
        return merged(rows, tape.shots.has_partitioned_shots, len(tape.measurements) > 1)

    # Derivatives -----------------------------------------------------------------------------------------------------

    def compute_derivatives(
        self, circuits: Sequence[QuantumScript], execution_config: ExecutionConfig | None = None
    ) -> Any:
        with self._lock:
            return tuple(derivatives.jacobian(circuit, self._compiler, self.wires) for circuit in circuits)

    def execute_and_compute_derivatives(
        self, circuits: Sequence[QuantumScript], execution_config: ExecutionConfig | None = None
    ) -> Any:
        return self.execute(circuits, execution_config), self.compute_derivatives(circuits, execution_config)

    def compute_vjp(
        self, circuits: Sequence[QuantumScript], cotangents: Any, execution_config: ExecutionConfig | None = None
    ) -> Any:
        config = execution_config or ExecutionConfig()
        if _is_followed(config.interface):
            raise qml.exceptions.DeviceError(
                f"the adjoint method of {NAME} has first derivatives, and this asks for the second, which would be "
                "zeros: give the QNode max_diff=2, for which both are parameter shifts"
            )
        per_row = bool(config.device_options.get(_PER_ROW, False))
        is_torch = config.interface == Interface.TORCH
        with self._lock:
            return derivatives.vjps(circuits, cotangents, self._compiler, self.wires, per_row, is_torch)

    def execute_and_compute_vjp(
        self, circuits: Sequence[QuantumScript], cotangents: Any, execution_config: ExecutionConfig | None = None
    ) -> Any:
        config = replace(execution_config or ExecutionConfig(), gradient_method="adjoint")
        return self.execute(circuits, config), self.compute_vjp(circuits, cotangents, config)

    def compute_jvp(
        self, circuits: Sequence[QuantumScript], tangents: Any, execution_config: ExecutionConfig | None = None
    ) -> Any:
        with self._lock:
            return tuple(
                derivatives.jvp(circuit, tangent, self._compiler, self.wires)
                for circuit, tangent in zip(circuits, tangents)
            )

    def execute_and_compute_jvp(
        self, circuits: Sequence[QuantumScript], tangents: Any, execution_config: ExecutionConfig | None = None
    ) -> Any:
        return self.execute(circuits, execution_config), self.compute_jvp(circuits, tangents, execution_config)


def _is_followed(interface: Any) -> bool:
    """Whether derivatives are differentiated again by a framework that would take them for constants: by torch with
    create_graph=True. JAX refuses that, and of autograd nobody can tell."""
    if interface != Interface.TORCH:
        return False
    import torch

    return torch.is_grad_enabled()


def _common_seed(seed: Any, comm: Communicator | None) -> Any:
    """A seed that all ranks have: the given one, or one that the first rank draws."""
    if isinstance(seed, str) and seed == "global":
        seed = int(np.random.randint(2**31 - 1))  # noqa: NPY002  # What qml's users seed.
    elif seed is None:
        seed = int(np.random.SeedSequence().generate_state(1)[0])
    else:
        return seed
    return seed if comm is None else int(comm.broadcast(np.array([seed], np.int64))[0])


def _mcm_config(config: MCMConfig, circuit: QuantumScript | None) -> MCMConfig:
    method = config.mcm_method
    if method is None:
        method = "one-shot" if circuit is not None and circuit.shots else "deferred"
    elif method == "device":
        method = "tree-traversal"
    if method not in _MCM_METHODS:
        raise qml.exceptions.DeviceError(f"mcm_method={method!r}: {NAME} has {', '.join(_MCM_METHODS)}")
    return replace(config, mcm_method=method)
