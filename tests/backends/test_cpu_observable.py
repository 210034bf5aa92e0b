"""Which kernel computes a value on the CPU, and in which tiles."""

import numpy as np
import pytest

from qdist.backends.cpu.observable import CpuObservable, value_as_product
from qdist.native import kernels
from qdist.plan.observables.strings import Strings

COMPLEX64 = np.dtype(np.complex64)


def four_flips(num_qubits: int, masks: int) -> Strings:
    """As many random masks of four flips, as double excitations have, with two strings each."""
    rng = np.random.default_rng(0)
    x = np.array([sum(1 << int(q) for q in rng.choice(num_qubits, 4, replace=False)) for _ in range(masks)], np.uint64)
    x = np.unique(x).repeat(2)
    z = x * (np.arange(len(x), dtype=np.uint64) % np.uint64(2))
    return Strings(x, z, np.ones(len(x), complex), np.zeros(len(x), np.int64), 1)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_the_energy_of_a_molecule_comes_from_the_tables_of_products(dtype: type) -> None:
    """Whose tiles are larger, so that there are fewer passes."""
    strings = four_flips(20, 500)
    assert value_as_product(strings, 20, np.dtype(dtype))
    small_tiles = kernels.PauliPlan(20, *strings, 12, False).passes
    assert 2 * CpuObservable(strings, 20, np.dtype(dtype), False).passes < small_tiles


def test_tables_do_not_outgrow_the_state() -> None:
    flips = np.arange(1, 1 << 15, dtype=np.uint64)
    strings = Strings(flips, 0 * flips, np.ones(len(flips), complex), np.zeros(len(flips), np.int64), 1)
    assert not value_as_product(strings, 16, COMPLEX64)
    assert value_as_product(strings, 24, COMPLEX64)


def test_small_states_several_observables_and_diagonals_are_summed_by_slots() -> None:
    strings = four_flips(20, 50)
    assert not value_as_product(strings, 13, COMPLEX64)
    assert not value_as_product(strings._replace(num_observables=2), 20, COMPLEX64)
    assert not value_as_product(strings._replace(x=0 * strings.x), 20, COMPLEX64)
