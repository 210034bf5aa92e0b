"""Phases found by looking ahead: as few as trying everything finds, right, and fewer than first come, first served."""

import numpy as np
import pytest
from interpreter import Interpreter

import qdist as qd
from qdist.backends.cuda.lowering import phases as phases_module
from qdist.backends.cuda.lowering.packing import MOST, Piece, Step, pack
from qdist.backends.cuda.lowering.phases import phases
from qdist.backends.cuda.lowering.tables import Tables
from qdist.backends.cuda.lowering.tile import Shape, shape_of, tile_level
from qdist.circuit import unitary_gate
from qdist.plan.planner import make_plan
from qdist.plan.stages.division import Tiles
from qdist.state import reference

both = pytest.mark.parametrize("dtype", ["complex64", "complex128"])


def random_pieces(rng: np.random.Generator) -> list[Piece]:
    pieces = []
    for number in range(rng.integers(1, 7)):
        after = sum(1 << k for k in range(number) if rng.random() < 0.3)
        bits = sum(1 << int(b) for b in rng.permutation(6)[: rng.integers(0, 3)])
        begins = bool(rng.random() < 0.2)
        together = not begins and bits.bit_count() == 2 and bool(rng.random() < 0.7)
        pieces.append(Piece(after, 0 if begins else bits, begins, together))
    return pieces


def fits(pieces: list[Piece], step: Step, registers: int, closed: int) -> bool:
    """Whether the pieces of a phase that run in registers find room there, pairs side by side."""
    used, pairs = 0, set()
    for piece in (pieces[k] for k in step[1]):
        used |= piece.bits
        if piece.together:
            pairs.add(piece.bits)
    apart = all(not a & b for a in pairs for b in pairs if a != b)
    return apart and used.bit_count() <= registers and not used & closed


def check_steps(pieces: list[Piece], steps: list[Step], registers: int, low: int) -> None:
    done = 0
    for number, (first, members) in enumerate(steps):
        outer = number in (0, len(steps) - 1)
        assert fits(pieces, (first, members), registers, low if outer else 0)
        assert number or first is None
        for k in [] if first is None else [first]:
            assert pieces[k].begins
            assert not pieces[k].after & ~done
            done |= 1 << k
        for k in members:
            assert not pieces[k].begins
            assert not pieces[k].after & ~done
            assert not done >> k & 1
            done |= 1 << k
    assert done == (1 << len(pieces)) - 1


def fewest(pieces: list[Piece], registers: int, low: int) -> int:
    """The least number of phases, by trying every set of pieces for each."""

    def after_phase(done: int, closed: int, begin: bool) -> set[int]:
        ends = set()
        ready = [k for k, p in enumerate(pieces) if p.begins and not done >> k & 1 and not p.after & ~done]
        for first in (None, *(ready if begin else [])):
            begun = done if first is None else done | 1 << first
            for more in range(1 << len(pieces)):
                members = [k for k in range(len(pieces)) if more >> k & 1]
                own = all(not pieces[k].begins and not pieces[k].after & ~(begun | more) for k in members)
                if not more & begun and own and fits(pieces, (first, members), registers, closed):
                    ends.add(begun | more)
        return ends

    everything = (1 << len(pieces)) - 1
    reached, count = after_phase(0, low, begin=False), 1
    if everything in reached:
        return count
    while not any(everything in after_phase(done, low, begin=True) for done in reached):
        reached = {end for done in reached for end in after_phase(done, 0, begin=True)}
        count += 1
    return count + 1


def test_no_way_to_fill_phases_is_shorter() -> None:
    rng = np.random.default_rng(8)
    for _ in range(60):
        pieces, registers, low = random_pieces(rng), int(rng.integers(2, 5)), int(rng.integers(0, 2))
        steps = pack(pieces, registers, low, below=20)
        assert steps is not None
        check_steps(pieces, steps, registers, low)
        assert len(steps) == fewest(pieces, registers, low)
        assert pack(pieces, registers, low, below=len(steps)) is None


def stages_of(circuit: qd.Circuit, dtype: str, shape: Shape) -> list[Tiles]:
    level = tile_level(circuit.num_qubits, shape)
    (segment,) = make_plan(circuit, np.dtype(dtype), [level]).segments
    return list(segment.stages)


def counts(stages: list[Tiles], shape: Shape, most: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The phases of each stage, with looking ahead in stages of so many blocks at most."""
    monkeypatch.setattr(phases_module, "MOST", most)
    return [len(phases(stage.close, blocks, shape).phases) for stage, blocks in stages]


@both
def test_a_volume_needs_fewer_phases_than_first_come_first_served(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = shape_of(np.dtype(dtype))
    stages = stages_of(qd.library.quantum_volume(30, 10, seed=3), dtype, shape)
    before, now = (counts(stages, shape, most, monkeypatch) for most in (-1, MOST))
    assert all(a <= b for a, b in zip(now, before))
    assert sum(now) <= sum(before) - 7


def mixed_circuit(n: int, num_gates: int) -> qd.Circuit:
    """SU(4), rotations, diagonals, changes of index and wide matrices, at random places."""
    rng = np.random.default_rng(n)
    su = [unitary_gate(qd.library.random_circuits.random_su(1 << k, seed=k)) for k in (2, 3)]
    circuit = qd.Circuit(n)
    for _ in range(num_gates):
        a, b, c = rng.permutation(n)[:3].tolist()
        kind = rng.integers(12)
        if kind < 5:
            circuit.append(su[0], [a, b])
        elif kind < 7:
            circuit.cx(a, b)
        elif kind == 7:
            circuit.append(su[1], [a, b, c])
        elif kind == 8:
            circuit.rzz(rng.normal(), a, b)
        elif kind == 9:
            circuit.pauli_rotation(rng.normal(), "XYZ", [a, b, c])
        else:
            circuit.rx(rng.normal(), a)
    return circuit


@both
def test_blocks_keep_their_order_and_their_result(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    n, shape = 8, Shape(np.dtype(dtype).itemsize, tile=6, registers=3, contiguous=1)
    circuit = mixed_circuit(n, 90)
    stages = stages_of(circuit, dtype, shape)
    before, now = (counts(stages, shape, most, monkeypatch) for most in (-1, MOST))
    assert all(a <= b for a, b in zip(now, before))
    assert sum(now) < sum(before)
    moved = 0
    for stage, blocks in stages:
        place = {id(block): k for k, block in enumerate(blocks)}
        found = phases(stage.close, blocks, shape).phases
        ran = [block for phase in found for block in ([phase.entry] if phase.entry else []) + phase.blocks]
        linear = [block for block in blocks if block.kind == "linear"]
        assert sorted(place[id(block)] for block in ran + linear) == list(range(len(blocks)))
        for k, later in enumerate(ran):
            for earlier in ran[:k]:
                if place[id(earlier)] > place[id(later)]:
                    moved += 1
                    both_z = ~(earlier.mixes | later.mixes)
                    both_x = ~(earlier.not_x | later.not_x)
                    assert not earlier.all & later.all & ~(both_z | both_x)
    assert moved
    got = np.zeros(1 << n, complex)
    got[0] = 1
    Interpreter(Tables(n, np.dtype(dtype), stages, shape, pairs=True), circuit.affine()(np.zeros(0))).run(got)
    np.testing.assert_allclose(got, reference.state(circuit), atol=1e-5 if dtype == "complex64" else 1e-12)
