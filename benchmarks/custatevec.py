"""cuStateVec on the circuits of compare_gpu.py, where cuquantum-python is installed: gate by gate, and cuStateVecEx.

Written from the documentation of cuquantum.bindings (docs.nvidia.com/cuda/cuquantum/latest/python/bindings), and run
with cuStateVec 1.15.0 and the bindings of cuquantum-python 26.9.0. Every gate is given to it as a dense matrix with
controls; the QFT's phases take cuStateVecEx four times as long that way as the 158 ms that are known of it
(compare_gpu.py). Wide Pauli rotations are custatevecApplyPauliRotation's, which no updater fuses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import qdist as qd
from qdist.backends.cuda import custatevec

# The widest rotation that is given as a matrix: cuStateVecEx fuses gates of as many qubits.
WIDEST_MATRIX = 4


def _is_wide_rotation(gate: qd.Gate) -> bool:
    return gate.pauli is not None and gate.num_qubits > WIDEST_MATRIX


def has_wide_rotations(circuit: qd.Circuit) -> bool:
    return any(_is_wide_rotation(gate) for gate, *_ in circuit)


def gates_of(circuit: qd.Circuit, dtype: str) -> Iterator[tuple[np.ndarray, list[int], list[tuple[int, int]]]]:
    """(matrix, targets, controls with their values) of each gate of a circuit without parameters."""
    for gate, qubits, params, _, _ in circuit:
        count = gate.num_controls
        matrix = gate.base.matrix(*(float(p) for p in params)).astype(dtype)
        controls = [(q, gate.ctrl_state >> k & 1) for k, q in enumerate(qubits[:count])]
        yield np.ascontiguousarray(matrix), list(qubits[count:]), controls


def gate_by_gate(circuit: qd.Circuit, dtype: str) -> Callable[[], None]:
    """What applies every gate to one state with custatevecApplyMatrix, and wide Pauli rotations with their own call."""
    import cupy
    from cuquantum import cudaDataType
    from cuquantum.bindings import custatevec as cusv

    n = circuit.num_qubits
    state = cupy.zeros(1 << n, dtype)
    handle = cusv.create()
    data_type = cudaDataType.CUDA_C_32F if dtype == "complex64" else cudaDataType.CUDA_C_64F
    letters = {"X": cusv.Pauli.X, "Y": cusv.Pauli.Y, "Z": cusv.Pauli.Z}

    def applied(instruction: qd.Instruction) -> Callable[[], None]:
        gate, qubits, params, *_ = instruction
        if not _is_wide_rotation(gate):
            one = qd.Circuit(n)
            one.append(gate, qubits, params)
            ((matrix, targets, controls),) = gates_of(one, dtype)
            on_device = cupy.asarray(matrix)
            return lambda: custatevec.apply_matrix(state, n, on_device, targets, controls)
        paulis, half = [int(letters[letter]) for letter in gate.pauli], -float(params[0]) / 2
        about = (half, paulis, list(qubits), len(qubits), [], [], 0)
        return lambda: cusv.apply_pauli_rotation(handle, state.data.ptr, data_type, n, *about)

    gates = [applied(instruction) for instruction in circuit]

    def run() -> None:
        state.fill(0)
        state[0] = 1
        cusv.set_stream(handle, cupy.cuda.get_current_stream().ptr)
        for apply in gates:
            apply()

    return run


@contextmanager
def fused(circuit: qd.Circuit, dtype: str) -> Iterator[Callable[[], None]]:
    """What applies the whole circuit with cuStateVecEx's updater, which fuses gates as it likes."""
    from cuquantum import cudaDataType
    from cuquantum.bindings import custatevec as cusv
    from cuquantum.bindings import custatevecEx as Ex

    n = circuit.num_qubits
    data_type = cudaDataType.CUDA_C_32F if dtype == "complex64" else cudaDataType.CUDA_C_64F

    def configured(config: int, create: Callable[[int], Any]) -> Any:
        try:
            return create(config)
        finally:
            Ex.dictionary_destroy(config)

    state = configured(
        Ex.configure_state_vector_single_device(data_type, n, n, 0, Ex.StateVectorCapability.NONE),
        lambda config: Ex.state_vector_create_single_process(config, 0, 0, 0),
    )
    updater = configured(Ex.configure_sv_updater(data_type, ()), lambda config: Ex.sv_updater_create(config, 0))
    for matrix, targets, controls in gates_of(circuit, dtype):
        bits, values = [q for q, _ in controls], [v for _, v in controls]
        about = (matrix.ctypes.data, data_type, Ex.MatrixType.DENSE, cusv.MatrixLayout.ROW, 0)
        Ex.sv_updater_enqueue_matrix(updater, *about, targets, len(targets), bits, values, len(bits))

    def run() -> None:
        Ex.state_vector_set_zero_state(state)
        Ex.sv_updater_apply(updater, state, 0, 0)
        Ex.state_vector_synchronize(state)

    try:
        yield run
    finally:
        Ex.sv_updater_destroy(updater)
        Ex.state_vector_destroy(state)
