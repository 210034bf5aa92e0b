"""Blocks of operations: those that a search through all blocks finds, in few steps however many of them commute."""

import random
from collections.abc import Sequence
from typing import Any

import pytest
from excitations import DOUBLE

import qdist as qd
from qdist.native import kernels
from qdist.plan.fuse import Block, fuse
from qdist.plan.operations import Operation, operations


class Growing(Block):
    """A block that operations become part of one by one."""

    def add(self, operation: Operation) -> None:
        self.add_first([operation])
        self.operations.append(self.operations.pop(0))

    def add_first(self, earlier: list[Operation]) -> None:
        self.operations[:0] = earlier
        for operation in earlier:
            self.mixes |= operation.mixes
            self.all |= operation.all
            self.not_x |= operation.all & ~operation.x_like


def commutes(block: Block, operation: Operation) -> bool:
    """Whether on each qubit that they share both are like Z, or both like X."""
    shared = block.all & operation.all
    return not shared & ~(operation.z_like & ~block.mixes | operation.x_like & ~block.not_x)


def rank(masks: list[int]) -> int:
    """Of vectors over GF(2)."""
    span = {0}
    for mask in masks:
        span |= {mask ^ other for other in span}
    return len(span).bit_length() - 1


def takes(block: Block, operation: Operation, parities: int) -> bool:
    """Whether a block of rotations has the operation's flips and controls, commutes with it, and has room for it."""
    first = block.operations[0]
    return (
        block.kind == "rotation"
        and (first.mixes, first.controls) == (operation.mixes, operation.controls)
        and not ((first.signs ^ operation.signs) & operation.mixes).bit_count() % 2
        and rank([o.signs for o in [*block.operations, operation]]) <= parities
    )


def searched(given: list[Operation], parities: int = 0) -> list[Growing]:
    """What `fuse` gives, by looking at one block after the other."""
    blocks: list[Growing] = []
    matrices: list[Growing] = []
    for operation in given:
        kind = "linear" if operation.kind in ("flip", "swap") else operation.kind
        plain = kind == "dense" and not operation.controls
        top = 1 << operation.mixes.bit_length() >> 1
        after = max((k for k, block in enumerate(blocks) if not commutes(block, operation)), default=-1)
        candidates = blocks[max(after, 0) :] if kind in ("diagonal", "linear") else []
        if plain:
            # The last matrix on its qubit is before others that it commutes with where it acts like X.
            on = [b for b in matrices if any(b is block for block in blocks) and b.mixes & top]
            last = max(after, next(k for k, block in enumerate(blocks) if block is on[-1]) if on else -1)
            block = blocks[last] if last >= 0 else None
            fits = block is not None and block.is_plain_dense and block.mixes.bit_count() <= 2
            candidates = [block] if fits and not operation.mixes & ~block.mixes else []
        merging = next((block for block in candidates if block.kind == kind), None)
        if kind == "rotation" and parities:
            alike = [block for block in blocks[max(after, 0) :] if takes(block, operation, 62)]
            merging = alike[-1] if alike and takes(alike[-1], operation, parities) else None
        if merging is not None:
            merging.add(operation)
            continue
        made = Growing(kind)
        made.add(operation)
        if plain and operation.mixes.bit_count() == 2:
            for k in reversed(range(len(blocks))):
                alone = blocks[k].is_plain_dense and blocks[k].mixes.bit_count() == 1
                last = not any(later.all & blocks[k].mixes for later in blocks[k + 1 :])
                if alone and last and blocks[k].mixes & operation.mixes:
                    made.add_first(blocks.pop(k).operations)
                    after -= k <= after
        place = next((k for k in range(after + 1, len(blocks)) if blocks[k].kind == kind), len(blocks))
        while place < len(blocks) and blocks[place].kind == kind:
            place += 1
        blocks.insert(place, made)
        matrices += [made] if plain else []
    return blocks


KINDS = ["dense", "diagonal", "flip", "swap", "rotation", "table", "permute"]


def test_rotations_with_the_same_flips_are_one_block_where_the_target_takes_it() -> None:
    circuit = qd.Circuit(6)
    for letters in DOUBLE:
        circuit.pauli_rotation(0.1, letters, [0, 2, 3, 5]).pauli_rotation(0.2, "XX", [1, 4])
    given = list(operations(circuit))
    assert [len(block.operations) for block in fuse(given, 6)] == [8, 8]
    assert {len(block.operations) for block in fuse(given)} == {1}


def test_rotations_of_pairs_stay_matrices_where_a_matrix_has_room_for_them() -> None:
    iswap_and_rotations = qd.Circuit(3).iswap(0, 1).rxx(0.1, 0, 1).rxx(0.2, 1, 2).ryy(0.3, 1, 2)
    found = fuse(list(operations(iswap_and_rotations)), 6)
    assert [(block.kind, len(block.operations)) for block in found] == [("dense", 2), ("rotation", 2)]


def random_operation(rng: random.Random, n: int, kind: str) -> Operation:
    """As gates have them: the qubits it mixes, those among them on which it is like X, and those on which like Z."""
    bits = [1 << q for q in rng.sample(range(n), n)]
    control = ((bits[4].bit_length() - 1, 1),) if rng.random() < 0.3 else ()
    far = bits[4] if control else 0
    if kind == "dense":
        mixes = sum(bits[: rng.randint(1, 2)])
        return Operation(kind, mixes, mixes if rng.random() < 0.4 else mixes & bits[0], far, controls=control)
    if kind == "rotation":
        letters = [(bit, rng.choice("XYZ")) for bit in bits[: rng.randint(1, 4)]]
        x, y, z = (sum(bit for bit, letter in letters if letter == one) for one in "XYZ")
        targets = tuple(bit.bit_length() - 1 for bit, _ in letters)
        text = "".join(letter for _, letter in letters)
        return Operation(kind, x | y, x, z | far, targets, control, letters=text)
    if kind == "flip":
        return Operation(kind, bits[0], bits[0], far, controls=control)
    if kind in ("swap", "permute"):
        return Operation(kind, sum(bits[: 2 if kind == "swap" else 3]), 0, 0)
    return Operation(kind, 0, 0, sum(bits[: 4 if kind == "table" else rng.randint(0, 3)]))


def contents(blocks: Sequence[Block]) -> list[tuple[Any, ...]]:
    return [(b.kind, list(map(id, b.operations)), b.mixes, b.not_x, b.mixes, b.all) for b in blocks]


def test_blocks_are_those_that_a_search_finds() -> None:
    rng = random.Random(0)
    kinds, most = set(), 0
    for _ in range(600):
        n, length = rng.randint(5, 8), rng.randint(1, 60)
        some = rng.sample(KINDS, rng.randint(1, len(KINDS)))
        given = [random_operation(rng, n, rng.choice(some)) for _ in range(length)]
        parities = rng.randint(0, 3)
        found = fuse(given, parities)
        assert contents(found) == contents(searched(given, parities))
        kinds |= {block.kind for block in found}
        most = max(most, *(len(block.operations) for block in found))
    assert kinds == {"dense", "diagonal", "linear", "rotation", "table", "permute"}
    assert most > 10


def steps(given: list[Operation]) -> int:
    """How many places of blocks are looked at."""
    _, looked_at = kernels.fuse(given, 6, None)
    return looked_at


def pairs(gate: str, count: int) -> qd.Circuit:
    circuit = qd.Circuit(8)
    for k in range(count):
        getattr(circuit, gate)(0.1, *random.Random(k).sample(range(8), 2))
    return circuit


@pytest.mark.parametrize(
    "circuit",
    [
        lambda count: pairs("rxx", count),
        lambda count: pairs("rzx", 2).compose(pairs("rxx", count)),
        lambda count: qd.Circuit(8).rx(0.1, [k % 8 for k in range(count)]),
        lambda count: qd.library.heisenberg_evolution(8, 1.0, steps=count // 4),
    ],
)
def test_the_steps_grow_with_the_operations(circuit: Any) -> None:
    few, many = (list(operations(circuit(count))) for count in (100, 400))
    assert len(many) == pytest.approx(4 * len(few), rel=0.05)
    assert steps(many) < 5 * steps(few)
