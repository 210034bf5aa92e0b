"""Every operation, with its inputs placed in every way: the values and gradients of a single process."""

import itertools

import numpy as np
import pytest
from cases import CASES
from thread_ranks import on_threads

from qdist.parallel.auto import Partial, ProcessMesh, Replicate, Shard, shard_tensor
from qdist.parallel.auto.rules.operator_rules import FORMS
from qdist.tensor import RULES, Tensor, apply

WITHOUT_ENTRY = {"batch_norm"}


def test_every_operation_but_one_has_an_entry() -> None:
    assert set(RULES) - set(FORMS) == WITHOUT_ENTRY
    assert set(FORMS) - set(RULES) == {"quantum_layer"}


def placements_for(shape: tuple[int, ...], degree: int) -> list:
    return [Replicate(), Partial(), *(Shard(d) for d, n in enumerate(shape) if n >= degree)]


def run(case, arrays, place):
    """Output(s) and gradients of inexact inputs; `place` makes the tensors."""
    tensors = [place(Tensor(a, a.dtype.kind in "fc"), i) for i, a in enumerate(arrays)]
    made = case.call(*tensors)
    outputs = made if isinstance(made, tuple) else (made,)
    loss = None
    for k, out in enumerate(outputs):
        if out.requires_grad:
            rng = np.random.default_rng(k)
            weights = rng.standard_normal(out.shape)
            term = ((out * Tensor(weights)).abs2() + (out * 0.5).real).sum()
            loss = term if loss is None else loss + term
    if loss is not None:
        loss.backward()
    return [o.numpy() for o in outputs], [t.grad for t in tensors]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_placed_inputs_give_the_values_and_gradients_of_one_process(case) -> None:
    rng = np.random.default_rng(5)
    arrays = case.make(rng)
    want, slopes = run(case, arrays, lambda t, i: t)
    degree = 2
    choices = [placements_for(a.shape, degree) for a in arrays]
    combinations = list(itertools.product(*choices))
    picked = [combinations[i] for i in rng.permutation(len(combinations))[:4]]

    def work(comm) -> None:
        mesh = ProcessMesh([0, 1], ["x"], comm)
        for combination in picked:
            leaves: list[Tensor] = []

            def place(tensor, i, combination=combination, leaves=leaves):
                leaves.append(tensor)
                if tensor.dtype.kind not in "fc" and combination[i] == Partial():
                    return shard_tensor(tensor, mesh, [Replicate()])
                return shard_tensor(tensor, mesh, [combination[i]])

            got, _ = run(case, arrays, place)
            for a, b in zip(got, want, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11, err_msg=str(combination))
            for leaf, slope in zip(leaves, slopes, strict=True):
                assert (leaf.grad is None) == (slope is None), combination
                if slope is not None:
                    np.testing.assert_allclose(leaf.grad, slope, rtol=1e-10, atol=1e-10, err_msg=str(combination))

    on_threads(degree, work)


@pytest.mark.parametrize("width", [(), (3,), (2, 3)])
@pytest.mark.parametrize("index", [0, 4])
def test_a_single_index_into_cut_rows(width: tuple[int, ...], index: int) -> None:
    table = np.random.default_rng(0).normal(size=(5, *width))

    def work(comm) -> None:
        cut = shard_tensor(Tensor(table), ProcessMesh([0, 1], ["x"], comm), [Shard(0)])
        found = apply("embedding", cut, Tensor(np.array(index)))
        np.testing.assert_array_equal(found.numpy(), table[index])

    on_threads(2, work)


@pytest.mark.parametrize("rows", [5, 128, 256])
def test_indices_into_cut_rows_of_a_table_mean_what_they_mean_in_a_whole_one(rows: int) -> None:
    table = np.random.default_rng(0).normal(size=(rows, 3))

    def work(comm) -> None:
        mesh = ProcessMesh([0, 1], ["x"], comm)
        cut = shard_tensor(Tensor(table), mesh, [Shard(0)])
        for dtype, given in (
            (np.int64, [[0, rows - 1], [-1, -rows]]),
            (np.int8, [[0, min(rows, 128) - 1, -1]]),
            (np.uint8, [0, rows - 1]),
            (np.int32, []),
        ):
            indices = np.array(given, dtype)
            np.testing.assert_array_equal(apply("embedding", cut, Tensor(indices)).numpy(), table[indices])
        for outside in (rows, -rows - 1, 7 * rows):
            with pytest.raises(IndexError, match=f"but the table has {rows} rows"):
                apply("embedding", cut, Tensor(np.array([0, outside])))
        with pytest.raises(IndexError, match="integers, not bool"):
            apply("embedding", cut, Tensor(np.array([True, False])))

    on_threads(2, work)
