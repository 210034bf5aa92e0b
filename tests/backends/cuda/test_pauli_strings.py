"""Passes of Pauli strings over tiles, in NumPy as pauli_tiles.cu does them, against the CPU's products: no GPU."""

import numpy as np
import pytest

import qdist as qd
from qdist.backends.cuda.pauli_tiles import TilePass, tile_passes
from qdist.plan.observables.strings import Strings


def run(one: TilePass, ket: np.ndarray, first: int, out: np.ndarray) -> None:
    """What apply_tiles adds to ``out``: tiles one after the other, threads and their amplitudes as axes."""
    columns, offsets = one.places[:4].astype(np.int64), one.places[4:].astype(np.int64)
    held = sum((np.arange(16) >> b & 1) * columns[b] for b in range(4))
    thread, j = np.arange(len(offsets))[:, None], np.arange(16)
    done = np.zeros(len(ket), int)
    for tile in range(one.tiles):
        base = sum((tile >> shift & (1 << width) - 1) << at for shift, width, at in one.runs.reshape(-1, 3).tolist())
        places = base | offsets[:, None] | held
        done[places] += 1
        shared = ket[places].T.ravel()  # The thread's number is the lowest bits.
        begin = 0
        for x, word, imaginary, middle, end in one.groups.tolist():
            factors = np.zeros(places.shape)
            for k, (far, near, _, factor) in enumerate(one.strings[begin:end].tolist(), begin):
                odd = (
                    ((first | base) & far).bit_count()
                    + np.bitwise_count(thread & near)
                    + (k >= middle) * (word >> j & 1)
                )
                factors += np.where(odd & 1, -factor, factor)
            begin = end
            out[places] += (1j if imaginary else 1) * factors * shared[(thread + j * len(offsets)) ^ x]
    np.testing.assert_array_equal(done, 1)
    kinds = [(int(group["x"]), int(group["imaginary"])) for group in one.groups]
    assert [kind == (0, 0) for kind in kinds] == [k >= len(kinds) - one.diagonal for k in range(len(kinds))]


@pytest.mark.parametrize("first", [0, 1 << 13, 3 << 13])
def test_strings_within_tiles_are_applied_in_passes_and_the_rest_is_named(first: int) -> None:
    n = 13
    rng = np.random.default_rng(1)
    x = np.repeat(np.array([0, 0b11, 1 << 12, 0b1100000000011, (1 << 13) - 1, 0x0FF0, 0x03F0], np.uint64), 4)
    z = rng.integers(0, 1 << n + 2, len(x), dtype=np.uint64)
    observable = qd.PauliSum.from_masks(x, z, rng.normal(size=len(x)) + 1j * rng.normal(size=len(x)))
    whole = rng.normal(size=1 << n + 2) + 1j * rng.normal(size=1 << n + 2)
    state = qd.StateVector.from_amplitudes(whole, "complex128", device="cpu")
    strings = Strings.of([observable], real=False)
    num_y = np.array([(int(a) & int(b)).bit_count() for a, b in zip(strings.x, strings.z)])
    passes, wide = tile_passes(n, strings.x, strings.z, strings.coefficients * 1j**num_y)
    assert len(passes) == 1
    flips = {int(m) for m in strings.x[wide]}
    assert flips == {(1 << 13) - 1}
    narrow = [k for k in range(len(strings.x)) if k not in wide]
    part = qd.PauliSum.from_masks(strings.x[narrow], strings.z[narrow], strings.coefficients[narrow])
    out = np.zeros(1 << n, np.complex128)
    for one in passes:
        run(one, whole[first : first + (1 << n)], first, out)
    np.testing.assert_allclose(out, state.apply_pauli_sum(part).amplitudes()[first : first + (1 << n)], atol=1e-11)


def test_a_chain_of_neighbours_takes_few_passes_and_reads_a_tile_once_a_flip() -> None:
    n = 28
    chain = Strings.of([qd.library.heisenberg_xxz(n)], real=True)
    passes, wide = tile_passes(n, chain.x, chain.z, chain.coefficients)
    assert len(passes) == 3
    assert len(wide) == 0
    assert sum(len(one.groups) - one.diagonal for one in passes) == n - 1


def test_small_states_are_left_to_the_plain_kernel() -> None:
    passes, wide = tile_passes(10, np.zeros(2, np.uint64), np.ones(2, np.uint64), np.ones(2, np.complex128))
    assert passes == []
    assert wide.tolist() == [0, 1]
