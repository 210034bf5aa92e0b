"""Tables of row programs for a GPU, interpreted in NumPy as the kernel does, against the dense reference."""

import itertools

import numpy as np
import pytest
from row_circuits import PARAMETERS, random_circuit, random_sum, row_records

import qdist as qd
from qdist.backends.cuda.lowering.records.rows import ROW_UNEVEN
from qdist.backends.cuda.rows.outputs import output_tables
from qdist.backends.cuda.rows.tables import row_tables, swizzled
from qdist.plan.observables.row_outputs import lowered_outputs
from qdist.plan.rows.records import DIAGONAL, GROUP, RowRecords
from qdist.state import reference


def walsh(x: np.ndarray) -> np.ndarray:
    for bit in range(len(x).bit_length() - 1):
        low, high = x.reshape(-1, 2, 1 << bit).swapaxes(0, 1)
        x = np.stack([low + high, low - high], axis=1).reshape(-1)
    return x


def angles_of(arrays: dict, row: np.ndarray, shared: np.ndarray) -> np.ndarray:
    slots = arrays["slot_constants"].copy()
    for name, values in (("shared", shared), ("row", row)):
        slots += product(arrays[f"{name}_begins"], arrays[f"{name}_entries"], values)
    return arrays["constants"] + product(arrays["begins"], arrays["entries"], slots)


def product(begins: np.ndarray, entries: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Of a sparse matrix."""
    rows = [entries[first:end] for first, end in itertools.pairwise(begins.tolist())]
    return np.array([own["coefficient"] @ values[own["other"]] for own in rows])


def start_of(arrays: dict, n: int, angles: np.ndarray) -> np.ndarray:
    """Real numbers at their places."""
    state = np.ones(1, complex)
    paulis = [np.array(m, complex) for m in ([[0, 1], [1, 0]], [[0, -1j], [1j, 0]], [[1, 0], [0, -1]])]
    factors = arrays["factors"].reshape(-1, 2)
    for q in range(n):
        qubit = np.array([1, 0], complex)
        for axis, angle in factors[arrays["start_begins"][q] : arrays["start_begins"][q + 1]]:
            half = angles[angle] / 2
            qubit = np.cos(half) * qubit - 1j * np.sin(half) * paulis[axis] @ qubit
        state = np.kron(qubit, state)
    numbers = np.zeros(2 << n)
    index = np.arange(1 << n)
    numbers[swizzled(index)], numbers[swizzled(index | 1 << n)] = state.real, state.imag
    return numbers


def places_of(arrays: dict, op: np.void, threads: int) -> np.ndarray:
    """Of all threads' steps, in Gray code order."""
    count = 1 << op["columns"]
    own = arrays["starts"][op["starts"] : op["starts"] + min(threads, count)].astype(np.int64)
    found = [own]
    for k in range(1, max(1, count // threads)):
        own = own ^ int(arrays["columns"][op["high"] + ((k & -k).bit_length() - 1)])
        found.append(own)
    return np.concatenate(found)


def run(records: RowRecords, threads: int, row: np.ndarray, shared: np.ndarray) -> np.ndarray:
    """The state's numbers at their places."""
    arrays = row_tables(records, threads).arrays
    n = records.num_qubits
    angles = angles_of(arrays, row, shared)
    x, plane, index = start_of(arrays, n, angles), swizzled(1 << n), np.arange(1 << n)
    for op in arrays["ops"]:
        if op["kind"] == DIAGONAL:
            first, end = arrays["diagonals"][2 * op["first"] : 2 * op["first"] + 2]
            phases = np.zeros(1 << n)
            for place, angle in arrays["terms"][first:end].tolist():
                phases[swizzled(place)] += angles[angle]  # The swizzle is its own inverse.
            factor = np.exp(-0.5j * walsh(phases))
            re, im = swizzled(index), swizzled(index) ^ plane
            after = factor * (x[re] + 1j * x[im])
            x[re], x[im] = after.real, after.imag
            continue
        places = places_of(arrays, op, threads)
        assert len(set(places.tolist())) == len(places)
        if op["kind"] == GROUP:
            directions = op["direction"].astype(np.int64)
            for j in range(op["count"]):
                half = angles[op["angle"][j]] / 2
                for r in range(1 << op["count"] - 1):
                    bits = r >> j << j + 1 | r & (1 << j) - 1
                    offset = int(np.bitwise_xor.reduce([directions[k] * (bits >> k & 1) for k in range(3)]))
                    u, v = places ^ offset, places ^ offset ^ int(directions[j])
                    sine = np.sin(half) * (-1 if op["signs"] >> 4 * j + r & 1 else 1)
                    x[u], x[v] = np.cos(half) * x[u] - sine * x[v], np.cos(half) * x[v] + sine * x[u]
        else:
            targets = arrays["targets"][op["first"] : op["first"] + op["count"]].astype(np.int64)
            size = 1 << op["count"]
            spread = np.array(
                [np.bitwise_xor.reduce([t * (o >> k & 1) for k, t in enumerate(targets)]) for o in range(size)]
            )
            matrix = arrays["matrices"][op["matrix"] : op["matrix"] + size**2].reshape(size, size)
            at = places ^ spread[:, None]
            after = matrix @ (x[at] + 1j * x[at ^ plane])
            x[at], x[at ^ plane] = after.real, after.imag
    return x


def values_of(records, numbers: np.ndarray) -> np.ndarray:
    tables = output_tables(records)
    arrays, n = tables.arrays, records.num_qubits
    index, plane = np.arange(1 << n), swizzled(1 << n)
    psi = numbers[swizzled(index)] + 1j * numbers[swizzled(index) ^ plane]
    leaves = np.zeros(len(arrays["masks"]))
    for flip in arrays["flips"]:
        bits, pivot = int(flip["bits"]), int(flip["pivot"])
        half = np.arange(1 << n - (bits != 0))
        a = half >> pivot << pivot + 1 | half & (1 << pivot) - 1 if bits else half
        product = psi[a ^ bits].conj() * psi[a]
        sums = walsh(product.imag if flip["imaginary"] else product.real)
        for m in range(flip["first"], flip["end"]):
            leaves[m] = sums[swizzled(int(arrays["masks"][m]))]
    values = np.zeros(records.num_outputs)
    for k, output in enumerate(arrays["sum_outputs"]):
        own = arrays["sum_entries"][arrays["sum_begins"][k] : arrays["sum_begins"][k + 1]]
        values[output] = own["coefficient"] @ leaves[own["other"]]
    for first, count, base, *columns in arrays["marginals"].reshape(-1, n + 3).tolist():
        for j in range(1 << count):
            steps = np.arange(1 << n - count) | j << n - count
            at = np.full(len(steps), base)
            for b, column in enumerate(columns):
                at ^= (steps >> b & 1) * column
            values[first + j] = (numbers[at] ** 2 + numbers[at ^ plane] ** 2).sum()
    return values


def test_derivatives_by_parameters_follow_from_those_by_angles() -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        of_rows = sorted(rng.permutation(PARAMETERS)[: rng.integers(PARAMETERS + 1)].tolist())
        records = row_records(random_circuit(4, seed), of_rows)
        arrays = row_tables(records, 32).arrays
        row, shared = rng.normal(size=len(of_rows)), rng.normal(size=PARAMETERS - len(of_rows))
        weights = rng.normal(size=len(records.constants))
        weights[records.phase :][: records.phase >= 0] = 0
        found = [product(arrays[f"{k}_uses"], arrays[f"{k}_users"], weights) for k in ("row", "shared")]
        for own, values, part in zip(found, (row, shared), range(2)):
            for p in range(len(values)):
                moved = [row.copy(), shared.copy()]
                moved[part][p] += 1.0
                change = angles_of(arrays, *moved) - angles_of(arrays, row, shared)
                np.testing.assert_allclose(own[p], weights @ change, atol=1e-12)


@pytest.mark.parametrize("threads", [32, 64])
@pytest.mark.parametrize("n", range(1, 8))
def test_tables_give_the_values_of_the_reference(n: int, threads: int) -> None:
    for seed in range(6):
        rng = np.random.default_rng(100 * n + seed)
        circuit = random_circuit(n, 100 * n + seed)
        theta = rng.normal(size=PARAMETERS)
        of_rows = sorted(rng.permutation(PARAMETERS)[: rng.integers(PARAMETERS + 1)].tolist())
        shared = [k for k in range(PARAMETERS) if k not in of_rows]
        records = row_records(circuit, of_rows)
        numbers = run(records, threads, theta[of_rows], theta[shared])
        outputs = [random_sum(n, seed, 3), (0,), random_sum(n, seed + 50, 2)]
        state = reference.state(circuit, theta)
        wanted = [o.to_matrix() for o in outputs if isinstance(o, qd.PauliSum)]
        # A sum need not act on the last qubits.
        grown = [np.kron(np.eye((1 << n) // len(m)), m) for m in wanted]
        first, second = ((state.conj() @ m @ state).real for m in grown)
        probabilities = (np.abs(state.reshape(-1, 2)) ** 2).sum(axis=0)
        found = values_of(lowered_outputs(records.frame, outputs), numbers)
        np.testing.assert_allclose(found, [first, *probabilities, second], atol=1e-12)


def test_lanes_of_a_warp_reach_different_banks_where_the_walk_allows_it() -> None:
    """Rotations of any three qubits of 12: at most two lanes share a bank, for most none."""
    n, conflicts = 12, []
    rng = np.random.default_rng(1)
    for _ in range(40):
        circuit = qd.Circuit(n).h(range(n))
        for q in range(n):
            circuit.cx(q, (q + 1) % n)
        for q in rng.permutation(n)[:3].tolist():
            circuit.ry(qd.Parameter(f"t{q}"), q)
        arrays = row_tables(row_records(circuit, []), 512).arrays
        for op in arrays["ops"]:
            if op["kind"] == GROUP and op["count"] == 3:
                banks = arrays["starts"][op["starts"] : op["starts"] + 32] & 31
                conflicts.append(int(np.bincount(banks, minlength=32).max()))
    assert conflicts
    assert np.median(conflicts) == 1


def test_flips_let_all_pairs_of_a_rotation_turn_the_same_way() -> None:
    found = set()
    for seed in range(12):
        ops = row_tables(row_records(random_circuit(4, seed), [0, 2]), 32).arrays["ops"]
        for op in ops[ops["kind"] == GROUP]:
            count, flips = int(op["count"]), int(op["flips"])
            found.add((count, flips == ROW_UNEVEN))
            for j in range(count if flips != ROW_UNEVEN else 0):
                turns = set()
                for r in range(1 << count - 1):
                    first = r >> j << j + 1 | r & (1 << j) - 1
                    turns.add((int(op["signs"]) >> 4 * j + r ^ flips >> first ^ flips >> (first | 1 << j)) & 1)
                assert len(turns) == 1
                assert flips & 1 == flips >> (1 << j) & 1 == 0
    assert {(1, False), (2, False), (2, True), (3, False), (3, True)} <= found
