"""Row programs read and write numbers of either precision, each array in its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import row_programs as rows

DTYPES = ["complex64", "complex128"]


def ran(dtype: str, kept: bool, **precisions: str) -> dict[str, np.ndarray]:
    """What a forward and a backward run write, with arrays of the given precision; float64 where none is."""
    rng = np.random.default_rng(3)
    given: dict[str, Any] = {
        "row_values": rng.uniform(-3, 3, (rows.ROWS, 2)),
        "shared": rng.uniform(-3, 3, 2),
        "cotangents": rng.normal(size=(rows.ROWS, 5)),
        "values": np.full((rows.ROWS, 5), 7.0),
        "row_gradient": np.full((rows.ROWS, 2), 7.0),
        "shared_gradient": np.full(2, 7.0),
    }
    # Numbers that both precisions have.
    given = {name: array.astype(np.float32).astype(precisions.get(name, "float64")) for name, array in given.items()}
    written = {name: given.pop(name) for name in ("row_gradient", "shared_gradient")}
    cotangents = given.pop("cotangents")
    program = rows.program(dtype)
    given |= {"outputs": rows.outputs(), "kets": rows.kets(dtype)}
    assert program.forward(**given)
    if not kept:
        given["kets"], given["values"] = None, np.zeros_like(given["values"])
    assert program.backward(**given, cotangents=cotangents, **written)
    return {"values": given["values"], **written}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kept", [True, False], ids=["with kets", "without"])
@pytest.mark.parametrize(
    "single",
    [
        ["row_values", "shared", "cotangents"],
        ["values"],
        ["row_gradient"],
        ["shared_gradient"],
        ["row_values", "shared", "cotangents", "values", "row_gradient", "shared_gradient"],
    ],
    ids=lambda single: " ".join(single),
)
def test_every_array_has_a_precision_of_its_own(dtype: str, kept: bool, single: list[str]) -> None:
    expected = ran(dtype, kept)
    found = ran(dtype, kept, **dict.fromkeys(single, "float32"))
    assert np.abs(expected["shared_gradient"]).max() > 0.1
    for name, array in found.items():
        assert array.dtype == ("float32" if name in single else "float64")
        np.testing.assert_allclose(array, expected[name], rtol=2e-7, atol=2e-7)


def test_arrays_that_are_only_read_may_be_read_only() -> None:
    given = rows.back("complex64")
    for name in ("row_values", "shared", "cotangents"):
        given[name].flags.writeable = False
    program = given.pop("it")
    given["kets"] = None
    assert program.backward(**given)
    given["values"].flags.writeable = False
    with pytest.raises(TypeError):
        program.backward(**given)
