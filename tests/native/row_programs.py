"""Right and wrong calls of row programs, for the table of entry points."""

from collections.abc import Callable
from typing import Any

import numpy as np

from qdist.backends.memory import aligned_zeros
from qdist.circuit import Circuit, ParameterVector, PauliSum
from qdist.native import kernels
from qdist.plan.observables.row_outputs import lowered_outputs
from qdist.plan.operations import operations
from qdist.plan.rows import lowered

NAMES = [
    "num_qubits",
    "per_row",
    "num_shared",
    "slot_constants",
    "slot_entries",
    "slot_coefficients",
    "constants",
    "entries",
    "coefficients",
    "start",
    "operations",
    "rotations",
    "terms",
    "targets",
    "matrices",
    "walks",
    "columns",
    "logical",
    "phase",
]
LARGE = 1 << 61
N, ROWS = 3, 5


def _records() -> tuple[dict[str, Any], Any]:
    x, w = ParameterVector("x", 2), ParameterVector("w", 2)
    circuit = Circuit(N).rx(x[0], 0).h(1).cx(0, 1).rzz(w[0], 0, 2).ry(x[1], 1).crx(w[1], 1, 2).iswap(0, 2).rccx(0, 1, 2)
    found = lowered(N, operations(circuit), circuit.affine(), [circuit.parameters.index(p) for p in x])
    assert set(found.operations[:, 0].tolist()) == {0, 1, 2}
    return dict(zip(NAMES, found.arguments())), found.frame


def right() -> dict[str, Any]:
    return _records()[0]


def program(dtype: str) -> Any:
    return kind(dtype)(**right())


def kind(dtype: str) -> Any:
    return kernels.RowProgram64 if dtype == "complex64" else kernels.RowProgram128


def output_arguments() -> dict[str, Any]:
    found = lowered_outputs(_records()[1], [PauliSum({"X0 Y1": 1.0, "Z2": 0.5}), (0, 2)])
    names = ["num_qubits", "num_outputs", "strings", "coefficients", "marginals"]
    return {name: getattr(found, name) for name in names}


def outputs() -> Any:
    return kernels.RowOutputs(**output_arguments())


def changed(name: str, where: Any, value: int, given: Callable[[], dict[str, Any]] = right) -> np.ndarray:
    """The right array of this name with one number changed."""
    array = given()[name].copy()
    array[where] = value
    return array


def wrong_records() -> dict[str, list[Any]]:
    operations = right()["operations"]
    first = {int(kind): k for k, kind in reversed(list(enumerate(operations[:, 0])))}
    return {
        "num_qubits": [0, 2, 21, -1],
        "per_row": [-1, 0],
        "num_shared": [-1, 0],
        "slot_constants": [np.zeros(0), np.zeros(1)],
        "slot_entries": [changed("slot_entries", (0, k), v) for k in (0, 1) for v in (-1, 4000)],
        "slot_coefficients": [np.zeros(1), np.zeros(0)],
        "constants": [np.zeros(0), np.zeros(1)],
        "entries": [changed("entries", (0, k), v) for k in (0, 1) for v in (-1, 4000)] + [np.zeros((1, 3), np.int64)],
        "coefficients": [np.zeros(1), np.zeros(0)],
        "start": [changed("start", (0, k), v) for k in (0, 1, 2) for v in (-1, 4000)] + [np.zeros((1, 2), np.int64)],
        "operations": [changed("operations", (0, 0), v) for v in (-1, 3)]
        + [changed("operations", (first[k], c), v) for k in (0, 1, 2) for c in (1, 2) for v in (-1, 1000, LARGE)]
        + [changed("operations", (first[0], 2), 0), operations[:1], np.zeros((1, 2), np.int64)],
        "rotations": [changed("rotations", (0, k), v) for k in (0, 1, 2) for v in (-1, 16 if k < 2 else 4000)],
        # The angle of a row is none of a diagonal's: number 0 is that of the first rotation of the start.
        "terms": [changed("terms", (0, k), v) for k in (0, 1) for v in (-1, 8 if k == 0 else 4000)]
        + [changed("terms", (0, 1), int(right()["start"][0, 2]))],
        "targets": [changed("targets", 0, -1), changed("targets", 0, 8), right()["targets"][:1]],
        "matrices": [right()["matrices"][:-1], right()["matrices"][:0]],
        "walks": [
            changed("walks", 0, -1),
            changed("walks", 0, 16),
            changed("walks", 1, -1),
            changed("walks", 1, 4000),
            right()["walks"][:-2],
            right()["walks"][:-1],
            np.append(right()["walks"], [0, len(right()["columns"])]),
        ],
        "columns": [changed("columns", 0, -1), changed("columns", 0, 16), np.tile(right()["columns"], 9)],
        "logical": [changed("logical", 0, 8), changed("logical", 1, -1), right()["logical"][:-1]],
        "phase": [-2, 4000],
    }


def wrong_outputs() -> dict[str, list[Any]]:
    def strings(column: int, value: int) -> np.ndarray:
        return changed("strings", (0, column), value, output_arguments)

    def marginals(column: int, value: int) -> np.ndarray:
        return changed("marginals", (0, column), value, output_arguments)

    return {
        "num_qubits": [0, 2, 4, 21],
        "num_outputs": [-1, 1, 4],
        "strings": [strings(k, v) for k in range(4) for v in (-1, 64)] + [np.zeros((2, 3), np.int64)],
        "coefficients": [np.zeros(1), np.zeros(3)],
        "marginals": [marginals(k, v) for k in range(6) for v in (-1, 64)] + [np.zeros((1, 5), np.int64)],
    }


def kets(dtype: str, change: int = 0) -> np.ndarray:
    real = np.dtype(np.float32 if dtype == "complex64" else np.float64)
    return aligned_zeros(program(dtype).kept_size(ROWS) + change, real)


def unaligned(dtype: str) -> np.ndarray:
    return kets(dtype, 1)[1:]


def call(dtype: str) -> dict[str, Any]:
    return {
        "it": program(dtype),
        "row_values": np.ones((ROWS, 2)),
        "shared": np.ones(2),
        "outputs": outputs(),
        "kets": kets(dtype),
        "values": np.zeros((ROWS, 5)),
    }


def back(dtype: str) -> dict[str, Any]:
    return {
        **call(dtype),
        "cotangents": np.ones((ROWS, 5)),
        "row_gradient": np.zeros((ROWS, 2)),
        "shared_gradient": np.zeros(2),
    }


def wrong_calls(dtype: str) -> dict[str, list[Any]]:
    one = kernels.RowOutputs(2, 0, np.zeros((0, 4), np.int64), np.zeros(0), np.zeros((0, 5), np.int64))
    return {
        "row_values": [np.ones((ROWS, 1)), np.ones((ROWS, 3)), np.ones((ROWS + 1, 2)), np.ones((ROWS, 2), np.int64)],
        "shared": [np.ones(1), np.ones(3), np.ones(2, np.float16)],
        "outputs": [one],
        "kets": [kets(dtype, -1), kets(dtype, 1), unaligned(dtype)],
        "values": [np.zeros((ROWS - 1, 5)), np.zeros((ROWS, 4)), np.zeros((ROWS, 5), np.int64)],
    }


def wrong_back(dtype: str) -> dict[str, list[Any]]:
    return {
        **wrong_calls(dtype),
        "cotangents": [np.ones((ROWS - 1, 5)), np.ones((ROWS, 4)), np.ones((ROWS, 5), np.complex64)],
        "row_gradient": [np.zeros((ROWS - 1, 2)), np.zeros((ROWS, 1)), np.zeros((ROWS, 2), np.int32)],
        "shared_gradient": [np.zeros(1), np.zeros(3), np.zeros(2, np.complex128)],
    }
