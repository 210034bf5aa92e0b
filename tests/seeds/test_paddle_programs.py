"""The programs of Paddle's distributed primer on ranks, beside one process; its names, beside what is here."""

import importlib
import re
from pathlib import Path

import pytest

from qdist.interop.paddle.distributed import launch

HERE = Path(__file__).parent
TABLE = HERE.parents[1] / "papers" / "source_documents_paddle.md"


@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
def test_every_program_gives_what_one_process_gives(run_ranks, ranks: int, tmp_path: Path) -> None:
    done = run_ranks(ranks, [HERE / "paddle" / "run_all.py", tmp_path])
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert "all equal" in done.stdout
    assert (tmp_path / f"d2s_main_program_{ranks - 1}.svg").stat().st_size > 1000


def test_the_launcher_starts_a_rank_for_each_gpu_and_writes_its_log(tmp_path: Path, monkeypatch) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import os, sys\n"
        "from qdist.interop.paddle.distributed import get_rank, get_world_size, barrier\n"
        "barrier()\n"
        "print(get_rank(), get_world_size(), os.environ['CUDA_VISIBLE_DEVICES'], sys.argv[1:])\n"
    )
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    logs = tmp_path / "logs"
    assert launch.main(["--gpus=0,1", "--log_dir", str(logs), str(program), "--epochs", "3"]) == 0
    for rank in (0, 1):
        assert (logs / f"workerlog.{rank}").read_text() == f"{rank} 2 0,1 ['--epochs', '3']\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--gpus=0,0", "x.py"], "different numbers"),
        (["--gpus=0,1", "--nproc_per_node=3", "x.py"], "a rank for each"),
        (["--nproc_per_node=0", "x.py"], "at least 1"),
    ],
)
def test_the_launcher_refuses_what_does_not_fit(arguments, message, capsys, monkeypatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert launch.main(arguments) == 2
    assert message in capsys.readouterr().err


def rows() -> list[list[str]]:
    lines = [line for line in TABLE.read_text().splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_every_name_in_the_table_is_there() -> None:
    table = rows()
    assert len(table) > 60
    for name, here, _ in table:
        assert "missing" not in here.lower(), name
        for dotted in re.findall(r"`(qdist\.[\w.]+)`", here):
            value = None
            parts = dotted.split(".")
            for end in range(len(parts), 0, -1):
                try:
                    value = importlib.import_module(".".join(parts[:end]))
                except ModuleNotFoundError:
                    continue
                for part in parts[end:]:
                    value = getattr(value, part)
                break
            assert value is not None, dotted
        assert re.search(r"`(qdist\.|circuits/|python -m)", here), f"{name}: {here} names nothing"


def test_every_name_of_the_programs_is_in_the_table() -> None:
    text = "\n".join(path.read_text() for path in (HERE / "paddle").glob("*.py"))
    used = set(re.findall(r"\bpaddle\.(?:\w+\.)*[a-zA-Z]\w*", text.replace("qdist.interop.paddle", "")))
    known = " ".join(name for name, _, _ in rows())
    last = {name.rpartition(".")[2] for name in used}
    assert {name for name in last if not re.search(rf"\b{name}\b", known)} == set()


def test_programs_name_the_lines_that_had_to_change() -> None:
    for path in (HERE / "paddle").glob("*.py"):
        if path.name != "run_all.py":
            assert re.search(r"[Cc]hange", path.read_text().split('"""')[1]), path.name
