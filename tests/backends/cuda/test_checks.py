"""Kernels on a GPU refuse sizes and positions that would lead them past their memory, before anything is launched.

What they look at are sizes alone, so NumPy's arrays stand in for CuPy's: nothing here needs a GPU.
"""

from typing import Any

import numpy as np
import pytest

from qdist.backends.cuda import kernels

BITS = 5
SHARD, SHORT, ODD, NONE = (np.ones(size, np.complex64) for size in (1 << BITS, 1 << BITS - 1, 31, 0))
PLACES = list(range(BITS))


def masks(*values: int) -> np.ndarray:
    return np.array(values, np.uint64)


def plan(bits: int = BITS, **changes: Any) -> kernels.PauliPlan:
    arguments = {
        "bits": bits,
        "x": masks(1, 3),
        "z": masks(2, 0),
        "coefficients": np.array([1.0, 0.5], complex),
        "observable": np.array([0, 1]),
        "observables": 2,
    }
    return kernels.PauliPlan(**arguments | changes)


ROWS, WEIGHTS = np.ones((3, 1 << BITS), np.complex64), np.ones((3, 2))

WRONG: dict[str, list[tuple[Any, ...]]] = {
    "add_leaves": [
        (SHARD, 1, np.array([0]), [0], np.zeros(4)),
        (SHARD, 0, np.array([0]), [0], np.zeros(3)),
        (SHARD, 0, np.array([0]), [0, 0], np.zeros(8)),
        (SHARD, 0, np.array([0]), [63], np.zeros(4)),
        (ODD, 0, np.array([0]), [0], np.zeros(4)),
    ],
    "add_probabilities": [
        (SHARD, 0, [0, 1], np.zeros(2)),
        (SHARD, 0, [0, -1], np.zeros(4)),
        (SHARD, 0, [0, 62], np.zeros(4)),
        (SHARD, 3, [0, 1], np.zeros(4)),
        (ODD, 0, [0, 1], np.zeros(4)),
        (NONE, 0, [0, 1], np.zeros(4)),
    ],
    "add_weighted": [
        (SHARD, 0, [0], np.zeros(1), SHARD),
        (SHARD, 0, [0], np.zeros(2), SHORT),
        (SHARD, 0, [-1], np.zeros(2), SHARD),
        (SHARD, 1, [0], np.zeros(2), SHARD),
        (ODD, 0, [0], np.zeros(2), ODD),
    ],
    "inner": [(SHARD, SHORT), (SHORT, SHARD)],
    "pack": [(SHARD, 1, 1, SHORT), (SHARD, 32, 1, np.ones(2)), (SHARD, 0, 64, np.ones(2)), (SHARD, 0, 3, np.ones(2))],
    "permuted_copy": [
        (SHARD, PLACES, SHORT),
        (SHARD, PLACES[:-1], SHARD),
        (SHARD, [0] * BITS, SHARD),
        (SHARD, [1, 2, 3, 4, 5], SHARD),
        (ODD, PLACES, ODD),
    ],
    "permuted_inner": [(SHARD, SHORT, PLACES), (SHARD, SHARD, PLACES[:-1]), (SHARD, SHARD, [0, 0, 1, 2, 3])],
    "project": [(SHARD, 1, 1, 1, 1.0), (SHARD, 0, 1, 2, 1.0), (SHARD, 0, -1, 0, 1.0), (ODD, 0, 1, 1, 1.0)],
    "reset_bit": [(SHARD, BITS, True, 1.0), (SHARD, -1, True, 1.0), (ODD, 0, True, 1.0)],
    "squared_norm": [],
    "swap_parts": [(SHARD, 32, SHARD, 0, 1), (SHARD, 0, SHARD, 32, 1), (SHARD, 1, SHARD, 0, 1)],
    "swap_positions": [(SHARD, [1, 2, 0, 3, 4]), (SHARD, [0, 1]), (SHARD, [5, 1, 2, 3, 0]), (ODD, PLACES)],
    "unpack": [(np.ones(2), SHARD, 32, 1), (np.ones(4), SHARD, 0, 1), (np.ones(2), SHARD, 1, 1)],
    "PauliPlan": [
        (BITS, masks(1), masks(1, 2), np.ones(1, complex), np.array([0]), 1),
        (BITS, masks(32), masks(1), np.ones(1, complex), np.array([0]), 1),
        (BITS, masks(1), masks(1), np.ones(1, complex), np.array([1]), 1),
        (BITS, masks(1), masks(1), np.ones(1, complex), np.array([-1]), 1),
        (BITS, masks(1), masks(1), np.ones(2, complex), np.array([0]), 1),
    ],
}


def test_the_table_has_every_kernel() -> None:
    assert set(WRONG) == set(kernels.__all__)


@pytest.mark.parametrize("name", [name for name, calls in WRONG.items() if calls])
def test_wrong_calls_are_refused(name: str) -> None:
    for arguments in WRONG[name]:
        with pytest.raises(ValueError):
            getattr(kernels, name)(*arguments)


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("add_expectations", (SHORT, 0, np.zeros(2))),
        ("add_expectations", (SHARD, 1, np.zeros(2))),
        ("add_expectations", (SHARD, 0, np.zeros(1))),
        ("apply", (SHORT, 0, np.ones(2), SHORT, False, None)),
        ("apply", (SHARD, 0, np.ones(1), SHARD.copy(), False, None)),
        ("apply", (SHARD, 0, np.ones(2), SHORT, False, None)),
        ("apply", (SHARD, 0, np.ones(2), SHARD.copy(), False, np.zeros(1))),
        ("apply", (SHARD, 5, np.ones(2), SHARD.copy(), False, None)),
        ("apply_rows", (ROWS, WEIGHTS[:1], ROWS.copy(), WEIGHTS)),
        ("apply_rows", (ROWS[:2], WEIGHTS, ROWS, WEIGHTS)),
        ("apply_rows", (ROWS, WEIGHTS[:, :1], ROWS, WEIGHTS)),
        ("apply_rows", (ROWS, WEIGHTS, ROWS[:2], WEIGHTS)),
        ("apply_rows", (ROWS[:, :-1], WEIGHTS, ROWS[:, :-1], WEIGHTS)),
        ("apply_rows", (ROWS, WEIGHTS, ROWS, WEIGHTS[:2])),
        ("add_values", (ROWS, np.zeros((3, 1)))),
    ],
)
def test_plans_of_strings_refuse_other_shards(method: str, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError):
        getattr(plan(), method)(*arguments)
