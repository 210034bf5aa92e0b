"""MindSpore's quick start on eight ranks, beside one process, with the strategies and shapes that it prints."""

import sys
from pathlib import Path

import numpy as np
import pytest

from qdist.interop import mindspore as ms
from qdist.interop.mindspore import ops

sys.path.append(str(Path(__file__).parent / "mindspore"))

import operators

PROGRAM = Path(__file__).parent / "mindspore" / "quickstart.py"


def test_the_quick_start_in_every_mode_and_with_every_search(run_ranks, tmp_path: Path, thorough: bool) -> None:
    done = run_ranks(8, [PROGRAM, tmp_path, *["--thorough"] * thorough])
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert "all equal" in done.stdout
    for rank in range(8):
        own = tmp_path / "saved_graph" / f"rank_{rank}"
        begin = (own / "step_parallel_begin.ir").read_text().splitlines()
        chosen = [line.partition(" = ")[2] for line in begin if "matmul(" in line or "relu(" in line]
        # As the document prints them: the given one, and those that follow from it.
        assert "in_strategy: ((2, 4), (4, 1))" in chosen[0]
        assert "in_strategy: ((2, 4))" in chosen[1]
        assert "in_strategy: ((2, 4), (4, 1))" in chosen[2]
        assert "    : ((16, 32), (32, 16)) -> ((16, 16))" in begin
        run = (own / "execute.ir").read_text()
        product = run.partition("= matmul(")[2].splitlines()[1]
        assert [f"local {shape}" in product for shape in ("[8, 8]", "[8, 16]")] == [True, True]
        first = 4 * (rank // 4)
        assert f"all_reduce over d1 {list(range(first, first + 4))}" in run
        assert all(words in run for words in ("matmul_grad(", "relu_grad(", "weight2 = momentum("))


def test_every_operator_divided_by_strategies(run_ranks) -> None:
    done = run_ranks(4, [PROGRAM.parent / "operators.py"])
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert "all equal" in done.stdout


@pytest.mark.parametrize("name", operators.CASES)
def test_strategies_that_do_not_fit_are_refused_by_name(name: str) -> None:
    options, arguments, in_strategy, outs = operators.CASES[name]
    made = getattr(ops, name)
    ones = [tuple(1 for _ in counts) for counts in in_strategy]
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel")
    try:
        outputs, values, _ = operators.run(made(*options).shard(ones), arguments)
        for got, want in zip(values, operators.run(made(*options), arguments)[1], strict=True):
            np.testing.assert_array_equal(got, want)
        rule = made(*options).bind(*operators.tensors(arguments)[0]).rule
        for strategies, message in (
            ((in_strategy,), "needs 4 ranks or a multiple of it; there are 1"),
            (([*ones, (1,)],), f"{len(ones) + 1} inputs named, the operator has {len(ones)}"),
            (([(*ones[0], 1), *ones[1:]],), "input 0 has"),
            ((ones, [tuple(2 * n for n in parts) for parts in outs[0]]), "cannot be made on"),
            ((ones, [*outs[0], (1,)]), f"an out_strategy of {len(outputs) + 1} for {len(outputs)} output"),
        ):
            with pytest.raises(ValueError, match=rf"^{rule}\b.*{message}"):
                operators.run(made(*options).shard(*strategies), arguments)
        with pytest.raises(ValueError, match="a dimension is cut into 1 part or more"):
            made(*options).shard([(0, *counts[1:]) for counts in ones])
        for parts in (0, -1):
            with pytest.raises(ValueError, match="a dimension is cut into 1 part or more"):
                made(*options).shard(ones, [(parts, *counts[1:]) for counts in outs[0]])
        with pytest.raises(TypeError, match="'float' object"):
            made(*options).shard([(1.5, *counts[1:]) for counts in ones])
    finally:
        ms.reset_auto_parallel_context()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ops.Einsum("ij,jk"), "the output stands behind ->"),
        (lambda: ops.Conv2D(1, 3, mode=0), "a cross-correlation"),
        (lambda: ops.Conv2D(1, 3, pad=1), 'takes pad_mode="pad"'),
        (lambda: ops.Conv2D(1, 2, pad_mode="same"), "an odd kernel"),
        (lambda: ops.Conv2D(1, 3, pad_mode="full"), '"valid", "same" or "pad"'),
        (lambda: ops.Conv2D(1, 3)(np.ones((1, 2, 4, 4)), np.ones((2, 2, 3, 3))), "was made for"),
        (lambda: ops.MaxPool(2, pad_mode="same"), '"valid"'),
        (lambda: ops.AvgPool(2)(np.ones((2, 2))), "takes \\(n, c, h, w\\)"),
        (lambda: ops.BiasAdd()(np.ones((2, 2, 2)), np.ones(2)), "takes \\(rows, channels\\)"),
        (lambda: ops.Gather()(np.ones((2, 2)), np.array([0]), 1), "axis 0"),
        (lambda: ops.MatMul(transpose_a=True)(np.ones((2, 3, 3)), np.ones((3, 3))), "leading dimensions"),
        (lambda: ops.Transpose()(np.ones((2, 3)), (0,)), "no order of 2 dimensions"),
        (lambda: ops.Squeeze(0)(np.ones((2, 3))), "longer than 1"),
        (lambda: ops.Split(0, 2)(np.ones(3)), "equal parts"),
        (lambda: ops.Pad(((1, 0),))(np.ones((3, 2))), "a pair for each of 2 dimensions"),
        (lambda: ops.Pad(((1, 0), (0, 0)))(np.ones(3)), "a pair for each of 1 dimensions"),
        (lambda: ops.Pad(((1, -1),)), "not negative"),
        (lambda: ops.MatMul(True)(np.ones(3), np.ones((3, 2))), "a product of matrices"),
        (lambda: ops.BatchMatMul(False, True)(np.ones((3, 2)), np.ones(2)), "a product of matrices"),
        (lambda: ops.Concat()(()), "not an empty one"),
    ],
)
def test_operators_refuse_what_they_do_not_compute(make, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_what_transposes_and_pads() -> None:
    rng = np.random.default_rng(0)
    a, b, image, kernel = (rng.normal(size=s) for s in ((2, 3), (4, 3), (1, 1, 5, 5), (2, 1, 3, 3)))
    np.testing.assert_allclose(ops.MatMul(False, True)(a, b).numpy(), a @ b.T)
    np.testing.assert_allclose(ops.MatMul(True, True)(a.T, b).numpy(), a @ b.T)
    assert ops.Conv2D(2, 3, pad_mode="same")(image, kernel).shape == (1, 2, 5, 5)
    assert ops.Conv2D(2, 3, pad_mode="pad", pad=2)(image, kernel).shape == (1, 2, 7, 7)
    assert ops.Squeeze()(np.ones((1, 2, 1))).shape == (2,)


def test_settings_that_do_not_exist_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown setting parallel"):
        ms.set_auto_parallel_context(parallel="auto")
    with pytest.raises(ValueError, match="stand_alone, data_parallel"):
        ms.set_auto_parallel_context(parallel_mode="hybrid")
    with pytest.raises(ValueError, match="CPU"):
        ms.set_context(device_target="TPU")
    for settings, message in (
        ({"mode": 7}, "mode=7: 0, 1"),
        ({"search_mode": "random"}, "search_mode='random': dynamic_programming"),
        ({"dataset_strategy": "rows"}, "dataset_strategy='rows': data_parallel, full_batch"),
    ):
        call = ms.set_context if "mode" in settings else ms.set_auto_parallel_context
        with pytest.raises(ValueError, match=message):
            call(**settings)
    with pytest.raises(ValueError, match="unknown setting parallel"):
        ms.get_auto_parallel_context("parallel")
    with pytest.raises(ValueError, match=r"initializer\('random'\)"):
        ms.initializer("random", [2])
    assert ms.get_auto_parallel_context("search_mode") == "recursive_programming"


def test_tensors_take_mindspores_arguments() -> None:
    x = np.arange(4.0).reshape(2, 2)
    made = ms.Tensor(x, np.float32)
    assert (made.dtype, made.requires_grad, made.tolist()) == (np.float32, False, x.tolist())
    made.add_(1)
    assert ms.Tensor(x).dtype == np.float64
    assert ms.Tensor(2.5).item() == 2.5
    made = ops.ReLU()(ms.Tensor([-1.0, 2.0]))
    assert (made.dtype, made.tolist()) == (np.float32, [0.0, 2.0])
    np.testing.assert_array_equal(x, np.arange(4.0).reshape(2, 2))
