"""VQNet's distributed machine and its layer. Gates are noted as they come; measuring runs them as one circuit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .... import comm as qc
from ....circuit import Circuit, Gate, ParameterVector, PauliSum
from ....circuit.wires import as_tuple
from ....nn import QuantumLayer
from ....tensor import Tensor, concatenate
from ....tensor.arrays import is_array
from ..devices import Placed
from ..dtypes import as_dtype, kcomplex64, kcomplex128
from ..module import Module
from .controller import CommController

__all__ = ["DistQuantumLayerAdjoint", "DistributeQMachine"]


class DistributeQMachine(Placed):
    """A batch of states of `num_wires` qubits, each split over all ranks of the job.

    Args:
        num_wires: the number of qubits of the whole state.
        dtype: kcomplex64 or kcomplex128; params are then float32 or float64.
        grad_mode: "adjoint", which is how gradients are taken, or "".

    It runs on the CPU until the Module that it is an attribute of is moved (`.toGPU(DEV_GPU_0 + k)`), or `place` is
    called: then each rank's part of the states is on that GPU.
    """

    def __init__(self, num_wires: int, dtype: Any = kcomplex64, grad_mode: str = "") -> None:
        if grad_mode not in ("", "adjoint"):
            raise ValueError(f"grad_mode={grad_mode!r}: gradients are taken by the adjoint method; use 'adjoint' or ''")
        self.num_wires, self.grad_mode = num_wires, grad_mode
        self.dtype = as_dtype(dtype)
        if self.dtype.kind != "c":
            raise ValueError(
                f"dtype={dtype!r}: amplitudes are kcomplex64 ({kcomplex64}) or kcomplex128 ({kcomplex128})"
            )
        self.comm = qc.world()
        # Circuits that were planned, by their gates and observables: a training loop writes the same one every time.
        self._layers: dict[Any, QuantumLayer] = {}
        self.reset_states(1)

    def place(self, device: str) -> None:
        """Runs on this device ("cpu", "cuda:1") from now on. Raises RuntimeError if it is not there."""
        before = self.device
        super().place(device)
        if self.device != before:
            self._layers.clear()
            self.reset_states(self.batch_size)

    def set_just_defined(self, flag: bool) -> None:
        """Must be True: gates are noted, and run when the machine is measured."""
        _only_true("set_just_defined", flag)

    def set_save_op_history_flag(self, flag: bool) -> None:
        """Must be True: the gates that were noted are what is differentiated."""
        _only_true("set_save_op_history_flag", flag)

    def set_qr_config(self, qr_config: Mapping[str, int]) -> None:
        """Checks {"qubit": all qubits, "global_qubit": those that tell the ranks apart} against the job.

        Qubits move between ranks as the planner decides, so there is nothing else to set.
        """
        unknown = set(qr_config) - {"qubit", "global_qubit"}
        if unknown:
            raise ValueError(f"set_qr_config takes 'qubit' and 'global_qubit', not {sorted(unknown)}")
        if len(qr_config) < 2:
            raise ValueError(f"set_qr_config takes 'qubit' and 'global_qubit', not {sorted(qr_config)} alone")
        qubits, far = qr_config["qubit"], qr_config["global_qubit"]
        if qubits != self.num_wires:
            raise ValueError(f"'qubit' is {qubits}, but the machine has {self.num_wires} wires")
        if 1 << far != self.comm.size:
            raise ValueError(f"'global_qubit' is {far}, for {1 << far} ranks; this job has {self.comm.size}")

    def reset_states(self, batchsize: int) -> None:
        """Back to |0...0>, for a batch of this size."""
        if batchsize != int(batchsize) or batchsize < 0:
            raise ValueError(f"reset_states({batchsize}): a whole number of states")
        self.batch_size = int(batchsize)
        self._gates: list[tuple[Gate, tuple[int, ...], bool]] = []
        self._params: list[Tensor] = []

    def append(self, gate: Gate, wires: int | Sequence[int], params: Any = None, use_dagger: bool = False) -> None:
        """Notes a gate; see `vqc` for the shapes of params. Raises ValueError for others."""
        values = _angles(params)
        if values.dtype.kind == "c":
            raise ValueError(f"{gate.name} takes real params, not {values.dtype}")
        angles = values.reshape(1, -1) if values.ndim < 2 else values
        if angles.ndim != 2 or angles.shape[1] != gate.num_params or angles.shape[0] not in (1, self.batch_size):
            raise ValueError(
                f"{gate.name} takes params of shape ({gate.num_params},), (1, {gate.num_params}) or "
                f"({self.batch_size}, {gate.num_params}) here; got {values.shape}"
            )
        self._gates.append((gate, as_tuple(wires), use_dagger))
        if gate.num_params:
            self._params.append(angles)

    def measure(self, observables: Sequence[PauliSum]) -> Tensor:
        """The expectation values of what was noted since reset_states: (batch, observables)."""
        key = (tuple(self._gates), tuple(map(id, observables)))
        if key not in self._layers:
            self._layers[key] = self._planned(list(observables))
        # States that do not differ are computed once.
        rows = next((angles.shape[0] for angles in self._params if angles.shape[0] != 1), 1)
        real = np.float32 if self.dtype == np.complex64 else np.float64
        columns = [angles.to(self.device).to(real).expand(rows, angles.shape[1]) for angles in self._params]
        values = self._layers[key](concatenate(columns, 1) if columns else None)
        return values.expand(self.batch_size, len(observables))

    def _planned(self, observables: list[PauliSum]) -> QuantumLayer:
        circuit = Circuit(self.num_wires)
        angles = ParameterVector("angle", sum(gate.num_params for gate, _, _ in self._gates))
        rest = iter(angles)
        for gate, wires, dagger in self._gates:
            params = tuple(next(rest) for _ in range(gate.num_params))
            circuit.append(*_inverse(gate, wires, params) if dagger else (gate, wires, params))
        return QuantumLayer(circuit, observables, inputs=angles, comm=self.comm, dtype=self.dtype, device=self.device)


def _angles(params: Any) -> Tensor:
    """The params of a gate as a tensor: numbers with all their digits, tensors in a list with their places in the
    graph."""
    if params is None:
        return Tensor(np.zeros(0))
    if isinstance(params, list | tuple) and any(isinstance(angle, Tensor) for angle in params):
        return concatenate([_angles(angle).reshape(-1) for angle in params])
    return params if isinstance(params, Tensor) else Tensor(params if is_array(params) else np.asarray(params))


def _inverse(gate: Gate, wires: tuple[int, ...], params: tuple[Any, ...]) -> tuple[Any, ...]:
    inverse, angles = gate.inverse(params)
    return inverse, wires, angles


def _only_true(setting: str, flag: bool) -> None:
    if flag is not True:
        raise ValueError(
            f"{setting}({flag!r}): a DistributeQMachine always works this way; leave the call out or say True"
        )


class DistQuantumLayerAdjoint(Module):
    """A module that computes with a DistributeQMachine, with equal parameters on all ranks.

    Args:
        vqc_module: has a DistributeQMachine with grad_mode="adjoint" among its attributes.

    layer(x) is a QTensor, so backward() needs no gradient. It runs where the module is: on the CPU, or on the GPU that
    it was moved to.
    """

    def __init__(self, vqc_module: Module, name: str = "") -> None:
        super().__init__()
        machines = [value for value in vars(vqc_module).values() if isinstance(value, DistributeQMachine)]
        if not machines or any(machine.grad_mode != "adjoint" for machine in machines):
            raise ValueError(
                f"{type(vqc_module).__name__} needs a DistributeQMachine(..., grad_mode='adjoint') as an attribute"
            )
        self.name = name
        self.vqc_module = vqc_module
        CommController.of_world().broadcast_model_params(vqc_module)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.vqc_module(*args, **kwargs)
