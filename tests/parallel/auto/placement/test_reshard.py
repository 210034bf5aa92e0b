"""Resharding keeps the global value, whatever the mesh, the shape and the placements; gradients go the way back."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thread_ranks import on_threads

from qdist.comm import counting_communicator
from qdist.nn.module import Parameter
from qdist.parallel.auto import DistTensor, Partial, ProcessMesh, Replicate, Shard, reshard, shard_tensor
from qdist.parallel.auto.placement.placements import part
from qdist.parallel.auto.placement.reshard import reshard_bytes, reshard_steps
from qdist.tensor import Tensor


@st.composite
def layouts(draw):
    degrees = draw(st.lists(st.integers(1, 3), min_size=1, max_size=2).filter(lambda d: np.prod(d) <= 6))
    shape = tuple(draw(st.lists(st.integers(6, 9), min_size=1, max_size=3)))
    one = st.one_of(st.just(Replicate()), st.just(Partial()), st.builds(Shard, st.integers(0, len(shape) - 1)))
    chain = draw(st.lists(st.lists(one, min_size=len(degrees), max_size=len(degrees)), min_size=2, max_size=4))
    return tuple(degrees), shape, chain


@settings(max_examples=40)
@given(layouts())
def test_a_chain_of_reshardings_keeps_value_and_gradient(layout) -> None:
    degrees, shape, chain = layout
    rng = np.random.default_rng(0)
    value, weights = rng.standard_normal(shape), rng.standard_normal(shape)

    def work(comm):
        mesh = ProcessMesh(np.arange(comm.size).reshape(degrees), comm=comm)
        x = Tensor(value, True)
        y = shard_tensor(x, mesh, chain[0])
        for placements in chain[1:]:
            y = reshard(y, mesh, placements)
        np.testing.assert_allclose(y.numpy(), value, rtol=1e-12)
        (y * Tensor(weights)).sum().backward()
        np.testing.assert_allclose(x.grad, weights, rtol=1e-12)
        return y.local.shape

    shapes = on_threads(int(np.prod(degrees)), work)
    for dim in range(len(shape)):
        parts = np.prod([n for n, p in zip(degrees, chain[-1]) if p == Shard(dim)])
        assert max(s[dim] for s in shapes) == -(-shape[dim] // parts) or parts > 3
        assert max(s[dim] for s in shapes) - min(s[dim] for s in shapes) <= (1 if parts <= 3 else 2)


@given(st.integers(1, 50), st.integers(1, 7))
def test_parts_follow_each_other_and_differ_by_one(length, parts) -> None:
    spans = [part(length, parts, i) for i in range(parts)]
    assert spans[0][0] == 0
    assert spans[-1][1] == length
    assert all(a[1] == b[0] for a, b in pairwise(spans))
    sizes = [b - a for a, b in spans]
    assert max(sizes) - min(sizes) <= 1
    assert sizes == [len(p) for p in np.array_split(np.arange(length), parts)]


def test_counted_bytes_are_the_predicted_ones() -> None:
    """Every move between two placements on a 2 x 4 mesh: forward and backward as `reshard_bytes` says."""
    shape = (16, 24)
    ways = [Replicate(), Partial(), Shard(0), Shard(1)]
    seen = set()
    for source in [(a, b) for a in ways for b in ways]:
        for target in [(a, b) for a in ways for b in ways]:
            comm = counting_communicator(8, 5)
            mesh = ProcessMesh(np.arange(8).reshape(2, 4), comm=comm)
            x = Tensor(np.zeros(shape), True)
            placed = shard_tensor(x, mesh, source)
            messages = [mesh.group(0).messages, mesh.group(1).messages]
            for m in messages:
                m.clear()
            moved = reshard(placed, mesh, target)
            forward = sum(m.wire_bytes for ms in messages for m in ms)
            for m in messages:
                m.clear()
            moved.backward(Tensor(np.zeros(shape)))
            backward = sum(m.wire_bytes for ms in messages for m in ms)
            # The gradient of the first placing travels too.
            there, back = reshard_bytes(16 * 24 * 8, (2, 4), source, target)
            first = reshard_bytes(16 * 24 * 8, (2, 4), (Replicate(),) * 2, source)[1]
            assert forward == pytest.approx(there), (source, target)
            assert backward == pytest.approx(back + first), (source, target)
            seen.add((forward > 0, backward > 0))
    assert seen == {(True, True), (True, False), (False, True), (False, False)}


def test_an_inner_cut_steps_aside_when_the_outer_one_changes() -> None:
    steps = reshard_steps([Shard(0), Shard(0)], [Replicate(), Shard(0)])
    assert [(s.axis, s.source, s.target) for s in steps] == [
        (1, Shard(0), Replicate()),
        (0, Shard(0), Replicate()),
        (1, Replicate(), Shard(0)),
    ]


@pytest.mark.parametrize("ranks", [2, 3])
def test_blocks_are_cut_one_by_one(ranks) -> None:
    """Queries, keys and values of one weight: a rank holds its slice of each, whatever they came from or become."""
    value = np.arange(54.0).reshape(18, 3)
    want = [np.concatenate([np.array_split(block, ranks)[r] for block in np.split(value, 3)]) for r in range(ranks)]
    weights = np.random.default_rng(0).standard_normal(value.shape)

    def work(comm):
        mesh = ProcessMesh(list(range(ranks)), ["mp"], comm)
        for source in (Replicate(), Partial(), Shard(0), Shard(1), Shard(0, 2), Shard(0, 3)):
            x = Tensor(value, True)
            y = reshard(shard_tensor(x, mesh, [source]), mesh, [Shard(0, 3)])
            np.testing.assert_array_equal(y.data, want[comm.rank])
            back = reshard(y, mesh, [source])
            np.testing.assert_array_equal(back.numpy(), value)
            (back * Tensor(weights)).sum().backward()
            np.testing.assert_allclose(x.grad, weights)

    on_threads(ranks, work)


def test_wrong_placements_are_refused_with_the_way_out() -> None:
    mesh = ProcessMesh([[0, 1], [2, 3]], ["dp", "mp"], counting_communicator(4))
    x = Tensor(np.zeros((4, 3)))
    with pytest.raises(ValueError, match="2 axes"):
        shard_tensor(x, mesh, [Shard(0)])
    with pytest.raises(ValueError, match=r"Shard\(2\): the tensor has 2"):
        shard_tensor(x, mesh, [Shard(2), Replicate()])
    with pytest.raises(TypeError, match="no placement"):
        shard_tensor(x, mesh, [0, Replicate()])
    with pytest.raises(ValueError, match="length 3 and cannot be cut into 4 parts"):
        shard_tensor(x, mesh, [Shard(1), Shard(1)])
    nothing = Tensor(np.zeros((0, 4)))
    with pytest.raises(ValueError, match="length 0 and cannot be cut into 2 parts"):
        shard_tensor(nothing, mesh, [Shard(0), Replicate()])
    assert shard_tensor(nothing, mesh, [Replicate(), Shard(1)]).shape == (0, 4)
    with pytest.raises(ValueError, match="only one dimension"):
        shard_tensor(x, mesh, ["mp", "mp"])
    with pytest.raises(ValueError, match="no axis 'tp'"):
        shard_tensor(x, mesh, ["tp", None])
    with pytest.raises(TypeError, match="place it with shard_tensor"):
        reshard(x, mesh, [Shard(0), Replicate()])
    with pytest.raises(ValueError, match="not \\[P, R\\]"):
        shard_tensor(Parameter(np.zeros((4, 4))), mesh, [Partial(), Replicate()])
    with pytest.raises(ValueError, match="one axis alone cuts them"):
        shard_tensor(Tensor(np.zeros((6, 3))), mesh, [Shard(0, 3), Shard(0)])
    with pytest.raises(ValueError, match="blocks have to be equal"):
        shard_tensor(Tensor(np.zeros((8, 3))), mesh, [Shard(0, 3), Replicate()])
    with pytest.raises(ValueError, match="needs 5 ranks, 4 run"):
        ProcessMesh([0, 4], comm=counting_communicator(4))
    with pytest.raises(ValueError, match="2 different names"):
        ProcessMesh([[0, 1]], ["dp", "dp"], counting_communicator(4))


def test_a_rank_outside_of_the_mesh_keeps_the_shape_alone() -> None:
    mesh = ProcessMesh([0, 1], ["dp"], counting_communicator(4, 3))
    placed = shard_tensor(Tensor(np.zeros((4, 2))), mesh, [Shard(0)])
    assert (placed.shape, placed.local.shape) == ((4, 2), (0,))
    weight = shard_tensor(Parameter(np.zeros((4, 2))), mesh, [Shard(0)])
    assert (weight.shape, weight.local.shape, weight.requires_grad) == ((4, 2), (0,), True)
    with pytest.raises(RuntimeError, match="rank 3 is not in"):
        mesh.group(0)


def test_a_parameter_becomes_its_part_in_place() -> None:
    mesh = ProcessMesh([0, 1], ["mp"], counting_communicator(2, 1))
    weight = Parameter(np.arange(12.0).reshape(4, 3))
    same = shard_tensor(weight, mesh, ["mp", None])
    assert same is weight
    assert isinstance(weight, DistTensor)
    assert weight.shape == (4, 3)
    assert weight.local.shape == (2, 3)
    np.testing.assert_array_equal(weight.data, np.arange(6.0, 12.0).reshape(2, 3))
    assert weight.requires_grad
    assert weight.is_leaf


@pytest.mark.parametrize("ranks", [[0, 1], [[0, 1], [2, 3]], [5]])
def test_a_mesh_of_ranks_that_do_not_run_says_how_many_to_start(ranks: list) -> None:
    start = 1 + int(np.max(ranks))
    with pytest.raises(ValueError, match=rf"needs {start} ranks, 1 run: start as many, `mpirun -n {start} python"):
        ProcessMesh(ranks, comm=counting_communicator(1))


@pytest.mark.parametrize("ranks", [[0, 0], [-1], [0, -1]])
def test_a_mesh_has_each_rank_once(ranks: list) -> None:
    with pytest.raises(ValueError, match="each rank once, from 0 on"):
        ProcessMesh(ranks, comm=counting_communicator(1))
