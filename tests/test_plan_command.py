"""`qdist plan`: the numbers and pictures it gives, and how it refuses."""

import json
from pathlib import Path

import numpy as np
import pytest

import qdist as qd
from qdist import plan_command
from qdist.backends.cuda.target import cuda_target
from qdist.cli import main
from qdist.plan.cost import Machine
from qdist.plan.planner import make_plan
from qdist.plan.stages.cpu_target import cpu_target

KEYS = {
    "stages",
    "exchanges",
    "exchanges_between_nodes",
    "bytes_per_rank",
    "memory_per_rank",
    "seconds",
    "plan_seconds",
}


@pytest.fixture
def ansatz(tmp_path: Path) -> str:
    path = tmp_path / "ansatz.qasm"
    circuit = qd.library.hardware_efficient(20, 3)
    path.write_text(circuit.bind(np.linspace(0, 1, circuit.num_parameters)).to_qasm())
    return str(path)


def planned(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, float]:
    assert main(["plan", *arguments, "--json", "-"]) == 0
    return json.loads(capsys.readouterr().out)


def test_json_has_the_plan_s_numbers(ansatz: str, capsys) -> None:
    numbers = planned([ansatz, "--ranks", "16", "--per-node", "4"], capsys)
    assert set(numbers) == KEYS
    plan = make_plan(qd.Circuit.from_file(ansatz), np.dtype("complex64"), far=4, inside=2)
    assert numbers["exchanges"] == plan.exchanges == numbers["stages"] - 1
    assert 0 < numbers["exchanges_between_nodes"] == plan.exchanges_between_nodes <= plan.exchanges
    assert numbers["bytes_per_rank"] == plan.bytes_sent
    assert numbers["memory_per_rank"] == 8 * 2**16 * 9 // 8
    assert numbers["seconds"] > 0
    assert numbers["plan_seconds"] > 0


def test_one_rank_exchanges_nothing_and_ranks_need_no_power_of_two(ansatz: str, capsys) -> None:
    alone = planned([ansatz, "--ranks", "1"], capsys)
    assert (alone["exchanges"], alone["bytes_per_rank"], alone["memory_per_rank"]) == (0, 0, 8 * 2**20)
    # Of 8 shards on 6 ranks one rank holds two.
    six, eight = (planned([ansatz, "--ranks", ranks], capsys) for ranks in ("6", "8"))
    assert six["exchanges"] == eight["exchanges"]
    assert six["memory_per_rank"] == 2 * eight["memory_per_rank"]
    assert six["bytes_per_rank"] == 2 * eight["bytes_per_rank"]


def test_schedules_and_dtypes_are_told_apart(ansatz: str, capsys) -> None:
    lazy, order, paper = (
        planned([ansatz, "--ranks", "16", "--schedule", schedule], capsys) for schedule in ("lazy", "in-order", "paper")
    )
    assert lazy["exchanges"] <= paper["exchanges"] < order["exchanges"]
    assert lazy["bytes_per_rank"] * 5 < order["bytes_per_rank"]
    double = planned([ansatz, "--ranks", "16", "--dtype", "complex128"], capsys)
    assert double["memory_per_rank"] == 2 * lazy["memory_per_rank"]


def test_a_slower_cluster_takes_longer(ansatz: str, capsys) -> None:
    arguments = [ansatz, "--ranks", "16", "--per-node", "4"]
    usual = planned(arguments, capsys)["seconds"]
    for option, worse in (("--memory-bandwidth", "1"), ("--between", "1"), ("--inside", "1"), ("--latency", "1000")):
        assert planned([*arguments, option, worse], capsys)["seconds"] > usual


def test_the_picture_has_a_row_a_stage_and_a_column_a_qubit(ansatz: str, capsys) -> None:
    assert main(["plan", ansatz, "--ranks", "16", "--per-node", "4"]) == 0
    text = capsys.readouterr().out
    plan = make_plan(qd.Circuit.from_file(ansatz), np.dtype("complex64"), far=4, inside=2)
    rows = [line.split()[1] for line in text.splitlines() if line.lstrip()[:1].isdigit() and "gate" in line]
    assert len(rows) == len(plan.segments)
    for row, segment in zip(rows, plan.segments):
        signs = row[::-1]
        assert len(signs) == 20
        assert [q for q in range(20) if signs[q] in "·."] == sorted(segment.layout.qubits[:16])
        assert {q for q in range(20) if signs[q] in "▒o"} == set(segment.layout.qubits[16:18])
    assert "16 ranks on 4 nodes" in text
    assert "576 KiB of memory" in text


def test_the_page_needs_nothing_from_outside(ansatz: str, tmp_path: Path, capsys) -> None:
    page = tmp_path / "plan.html"
    assert main(["plan", ansatz, "--ranks", "16", "--html", str(page), "--json", str(tmp_path / "plan.json")]) == 0
    text = page.read_text()
    stages = json.loads((tmp_path / "plan.json").read_text())["stages"]
    assert text.count("<rect data-qubit") == 20 * stages
    assert "http" not in text
    assert "src=" not in text
    assert "ansatz.qasm" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.qasm", "--ranks", "4"], "missing.qasm: No such file"),
        (["{ansatz}", "--ranks", "65536"], "use at most 32768 ranks"),
        (["/dev/null", "--ranks", "4"], "/dev/null: the program has no qubits"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(ansatz: str, arguments: list[str], message: str, capsys) -> None:
    assert main(["plan", *(a.format(ansatz=ansatz) for a in arguments)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("option", ["--html", "--json"])
def test_files_that_cannot_be_written_are_refused_before_anything_is_planned(
    ansatz: str, tmp_path: Path, capsys, monkeypatch, option: str
) -> None:
    monkeypatch.setattr(plan_command, "make_plan", lambda *_, **__: pytest.fail("this may take minutes"))
    folder = tmp_path / "none"
    assert main(["plan", ansatz, "--ranks", "2", option, str(folder / "plan")]) == 2
    assert capsys.readouterr().err == f"qdist plan: {option} {folder / 'plan'}: there is no folder {folder}\n"
    assert main(["plan", ansatz, "--ranks", "2", option, str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"qdist plan: {option} {tmp_path}: this is a folder; name a file in it\n"


def test_wrong_numbers_are_refused(ansatz: str, capsys) -> None:
    for option in (["--ranks", "0"], ["--ranks", "4", "--between", "-1"], ["--ranks", "4", "--per-node", "0"]):
        with pytest.raises(SystemExit):
            main(["plan", ansatz, *option])
    assert "is not a positive number" in capsys.readouterr().err


def test_sweeps_are_those_of_the_device(ansatz: str, capsys) -> None:
    """As its plan has them: `qdist plan` says nothing that a program would not do."""
    for device, target in (("cpu", cpu_target), ("cuda", cuda_target)):
        assert main(["plan", ansatz, "--ranks", "4", "--device", device]) == 0
        kind = np.dtype("complex64")
        plan = make_plan(qd.Circuit.from_file(ansatz), kind, far=2, inside=0, target=target(kind))
        assert f" {plan.sweeps} sweeps" in capsys.readouterr().out


def test_predicted_times_on_a_gpu_are_those_that_were_measured() -> None:
    """30 qubits in complex64 on an H200 (4.0e12 bytes a second): benchmarks/gpu_notes.md has the milliseconds."""
    gpu, kind = Machine(4e12, 60e12, 30e12), np.dtype("complex64")
    for circuit, measured in (
        (qd.library.hardware_efficient(30, 8), 29.3e-3),
        (qd.library.quantum_volume(30, 10, seed=1), 86e-3),
    ):
        predicted = make_plan(circuit, kind, target=cuda_target(kind)).seconds(gpu)
        assert measured / 1.5 < predicted < 1.5 * measured
