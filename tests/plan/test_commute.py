"""The rule for what may pass what: the same in Python and in every search in C++, and true of the gates' matrices."""

from __future__ import annotations

import random
from itertools import combinations

import numpy as np
import pytest
from strategies import TABLE_GATES

import qdist as qd
from qdist.circuit import Gate, pauli_rotation_gate
from qdist.native import kernels
from qdist.plan.commute import acts, commute, stops
from qdist.plan.fuse import Block, fuse
from qdist.plan.operations import Operation, operations
from qdist.state.reference import unitary

QUBITS = 4


def random_action(rng: random.Random) -> Operation:
    """An operation that acts on each qubit like Z, like X, like neither, or not at all; it mixes at most three."""
    masks = {"z": 0, "x": 0, "neither": 0, "nothing": 0}
    for qubit in range(QUBITS):
        mixed = (masks["x"] | masks["neither"]).bit_count()
        masks[rng.choice(["z", "nothing"] if mixed == 3 else list(masks))] |= 1 << qubit
    return Operation("dense", masks["x"] | masks["neither"], masks["x"], masks["z"])


def columns(*actions: tuple[int, int, int]) -> list[np.ndarray]:
    return [np.array(column, np.uint64) for column in zip(*actions)]


def masks(action: Operation, more: int = 0) -> tuple[int, int, int]:
    return action.mixes | more, action.x_like, action.z_like


@pytest.mark.parametrize("seed", range(100))
def test_every_search_lets_pass_what_the_rule_does(seed: int) -> None:
    rng = random.Random(seed)
    a, b = random_action(rng), random_action(rng)
    may = commute(a, b)
    assert may == commute(b, a)
    assert may == all(
        not (a.all & b.all) >> q & 1 or (a.z_like & b.z_like) >> q & 1 or (a.x_like & b.x_like) >> q & 1
        for q in range(QUBITS)
    )
    # Gates of two kinds: the second is one change behind the first unless it may pass it.
    assert kernels.alternations(*columns(masks(a), masks(b)), [False, True]) == [0, 0 if may else 1]
    # The first waits for a far qubit; the second, on close ones, runs before it if it may.
    far, other = 1 << QUBITS, 2 << QUBITS
    _, when, _ = kernels.search(*columns(masks(a, far), masks(b)), QUBITS + 1, QUBITS, far - 1, 10**6)
    assert (when[1] < when[0]) == may
    # A third, heavier than both, takes the last close place.
    heavy = np.array([1.0, 1.0, 1000.0])
    three = columns(masks(a, far), masks(b), (other, 0, 0))
    (_, first), *_ = kernels.schedule(*three, heavy, QUBITS + 2, QUBITS + 1, far - 1)
    assert 0 not in first
    assert (1 in first) == may


def random_gates(seed: int) -> tuple[list[qd.Circuit], list[Operation]]:
    """Two circuits of one gate each, of the table or a Pauli rotation, no identities; and the gates as operations."""
    rng = np.random.default_rng(seed)
    rows: list[Gate] = [g for g in TABLE_GATES if 0 < g.num_qubits <= QUBITS and not g.base.is_identity]
    rows += [pauli_rotation_gate(label) for label in ("XZ", "XX", "ZYX", "ZZ")] * 4
    circuits = []
    for _ in range(2):
        gate = rows[rng.integers(len(rows))]
        circuit = qd.Circuit(QUBITS)
        qubits = [int(q) for q in rng.permutation(QUBITS)[: gate.num_qubits]]
        circuit.append(gate, qubits, [float(t) for t in rng.uniform(0.3, 2.8, gate.num_params)])
        circuits.append(circuit)
    return circuits, [next(operations(c)) for c in circuits]


def test_what_may_pass_commutes() -> None:
    passed = 0
    for seed in range(600):
        circuits, (a, b) = random_gates(seed)
        if commute(a, b):
            first, second = (unitary(c) for c in circuits)
            np.testing.assert_allclose(first @ second, second @ first, atol=1e-12)
            passed += bool(a.all & b.all)
    assert passed > 50  # of those that share qubits


@pytest.mark.parametrize("seed", range(20))
def test_blocks_may_pass_only_if_all_of_their_operations_may(seed: int) -> None:
    blocks: list[Block] = fuse([random_gates(100 * seed + k)[1][0] for k in range(20)])
    for a, b in combinations(blocks, 2):
        if commute(a, b):
            assert all(commute(x, y) for x in a.operations for y in b.operations)
    for block in blocks:
        if len(block.operations) == 1:
            assert acts(block) == acts(block.operations[0])
            assert stops(block) == stops(block.operations[0])
