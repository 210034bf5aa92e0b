"""Runs the tests of tests/parallel/ranks on real ranks: one start for each number of them, since that of eight
processes on two cores takes longer than many a test.

Files choose by the number of ranks themselves, or are chosen from here where all pass on any number: replicas on 3,
which divides nothing, pipelines on 2, and on the others the comparison with one process and what has more to go wrong
there.
"""

from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "ranks"
MESHES = {"mesh": "", "checkpoints": "", "wrong_without_a_word": ""}
DIVIDED = {"tensor_parallel": "", "auto": "", "engine_stages": ""}
CHOICE = {
    2: {"pipeline": "", **MESHES},
    3: {"replicas": "", "pipeline": "one_process and 1f1b or live or bytes"},
    4: {
        "deferred": "",  # First: it counts on memory that nothing has been freed to.
        **MESHES,
        "precision": "not every_mesh or bfloat16",
        **DIVIDED,
        "dynamic_pipeline": "",
        "traced_pipeline": "",
        "stage_refusals": "",
        "pipeline": "one_process and interleaved or side_by_side",
    },
    8: {"mesh": "", "checkpoints": "", "engine_stages": ""},
}
MORE = {
    2: {"precision": "", "traced_pipeline": "", "replicas": "one_process and (cnn or hybrid)"},
    4: {"replicas": "one_process and (mlp or transformer)", "precision": "every_mesh"},
    8: {
        "auto": "",
        "tensor_parallel": "",
        "precision": "",
        "replicas": "one_process and (mlp or hybrid)",
        "pipeline": "one_process and 1f1b and (mlp or transformer) or deep or side_by_side",
    },
}
"""As on the others: half precision on 4 (bfloat16 on every mesh), meshes that are chosen on 4, stages of a traced model
on 4, replicas on 3, pipelines on 2, 3 and 4, layers divided by hand on groups of 2, 3 and 4 (on 8 they are divided by
meshes)."""


def arguments(choice: dict[str, str]) -> list[str | Path]:
    """Of pytest: the files, and which of their tests."""
    files = {FOLDER / f"mpi_{name}.py": tests for name, tests in choice.items()}
    parts = [f"{file.name} and ({tests})" if tests else file.name for file, tests in files.items()]
    return [*files, "-k", " or ".join(parts)]


@pytest.mark.parametrize("ranks", CHOICE)
def test_all_ranks_pass(pass_on_ranks, tmp_path: Path, ranks: int) -> None:
    pass_on_ranks(ranks, arguments(CHOICE[ranks]), QDIST_TEST_FOLDER=str(tmp_path))


@pytest.mark.thorough
@pytest.mark.parametrize("ranks", MORE)
def test_all_ranks_pass_more(pass_on_ranks, tmp_path: Path, ranks: int) -> None:
    pass_on_ranks(ranks, arguments(MORE[ranks]), QDIST_TEST_FOLDER=str(tmp_path))
