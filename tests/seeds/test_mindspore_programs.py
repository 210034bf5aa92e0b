"""MindSpore's quick start on eight ranks, beside one process, with the strategies and shapes that it prints."""

import importlib
import re
from pathlib import Path

import numpy as np
import pytest

from qdist.interop import mindspore as ms
from qdist.interop.mindspore import ops

PROGRAM = Path(__file__).parent / "mindspore" / "quickstart.py"


def test_the_quick_start_in_every_mode_and_with_every_search(run_ranks, tmp_path: Path) -> None:
    done = run_ranks(8, [PROGRAM, tmp_path])
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


@pytest.mark.parametrize("name", [name for name in ops.__all__ if name != "Primitive"])
def test_every_operator_takes_a_strategy(name: str) -> None:
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel")
    try:
        operator, plain = getattr(ops, name)(), getattr(ops, name)()
        x = np.random.default_rng(0).random((4, 4)) + 0.5
        two = operator.rule in ("add", "sub", "mul", "div", "maximum", "minimum", "pow", "matmul")
        inputs = (x, x + 1) if two else (x,)
        divided = operator.shard(((1, 1),) * len(inputs), ((1, 1),))(*inputs)
        np.testing.assert_allclose(divided.numpy(), plain(*inputs).numpy())
        halves = ((2, 1), (1, 1) if name == "MatMul" else (2, 1))[: len(inputs)]
        with pytest.raises(ValueError, match="needs 2 ranks or a multiple of it"):
            getattr(ops, name)().shard(halves)(*inputs)
        with pytest.raises(ValueError, match="cannot be made"):
            getattr(ops, name)().shard(((1, 1),) * len(inputs), ((2, 1),))(*inputs)
    finally:
        ms.reset_auto_parallel_context()


def test_every_name_in_the_table_is_there() -> None:
    text = (Path(__file__).parents[2] / "papers" / "source_documents_mindspore.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert len(rows) > 20
    for dotted in re.findall(r"`(qdist\.[\w.]+)`", text):
        parts = dotted.split(".")
        value: object = None
        for end in range(len(parts), 0, -1):
            try:
                value = importlib.import_module(".".join(parts[:end]))
            except ModuleNotFoundError:
                continue
            for part in parts[end:]:
                value = getattr(value, part)
            break
        assert value is not None, dotted
    assert "missing" not in text


def test_settings_that_do_not_exist_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown setting parallel"):
        ms.set_auto_parallel_context(parallel="auto")
    with pytest.raises(ValueError, match="stand_alone, data_parallel"):
        ms.set_auto_parallel_context(parallel_mode="hybrid")
    with pytest.raises(ValueError, match="CPU"):
        ms.set_context(device_target="TPU")
    with pytest.raises(ValueError, match=r"initializer\('random'\)"):
        ms.initializer("random", [2])
    assert ms.get_auto_parallel_context("search_mode") == "recursive_programming"
