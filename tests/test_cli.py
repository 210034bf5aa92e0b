"""`qdist simulate`: what it prints, and how it refuses."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import qdist as qd
from qdist.cli import main
from qdist.commands import checks
from qdist.histogram import histogram, largest_amplitudes
from qdist.progress import Progress

BELL = 'OPENQASM 2.0; include "qelib1.inc"; qreg q[2]; creg c[2]; h q[0]; cx q[0],q[1]; measure q -> c;'
ROTATION = 'OPENQASM 3.0; include "stdgates.inc"; input float theta; qubit[2] q; ry(theta) q[1];'
# The second measurement is of a qubit that the first one's outcome decides.
TELEGRAPH = (
    'OPENQASM 3.0; include "stdgates.inc"; qubit[2] q; bit[2] c; h q[0]; c[0] = measure q[0]; '
    "if (c[0]) { x q[1]; } c[1] = measure q[1];"
)


@pytest.fixture
def file(tmp_path: Path):
    def write(text: str) -> str:
        path = tmp_path / "program.qasm"
        path.write_text(text)
        return str(path)

    return write


def test_histogram_of_a_bell_pair(file, capsys) -> None:
    assert main(["simulate", file(BELL), "--shots", "1000", "--seed", "7"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.startswith("2 qubits, 4 operations, 1000 shots in ")
    rows = {line.split()[0]: line.split()[1:3] for line in lines}
    assert set(rows) == {"00", "11"}
    assert sum(int(times) for times, _ in rows.values()) == 1000
    assert all(share == f"{int(times) / 10:.1f}%" for times, share in rows.values())


@pytest.mark.parametrize("text", [BELL, TELEGRAPH], ids=["measured at the end", "measured mid-circuit"])
def test_counts_are_those_of_the_program(file, capsys, text) -> None:
    path = file(text)
    assert main(["simulate", path, "--shots", "200", "--seed", "3", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["counts"] == qd.compile(qd.Circuit.from_file(path)).counts(200, seed=3)
    assert (result["shots"], result["seed"], result["num_qubits"]) == (200, 3, 2)


@pytest.mark.parametrize("more", ["", "h q[0];"], ids=["measured at the end", "measured mid-circuit"])
def test_registers_of_more_bits_than_a_machine_word(file, capsys, more) -> None:
    begin = 'OPENQASM 2.0; include "qelib1.inc"; qreg q[3]; creg a[40]; creg b[90]; x q[0]; '
    condition = f"if (b == {1 << 70}) x q[1]; measure q[1] -> b[89];"
    path = file(f"{begin} measure q[0] -> a[39]; measure q[0] -> b[70]; {condition if more else ''} {more}")
    want = "".join("1" if k in {39, 110, *([129] if more else [])} else "0" for k in reversed(range(130)))
    assert main(["simulate", path, "--shots", "20", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["counts"] == {want: 20}
    assert main(["simulate", path, "--shots", "20"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith(f"{want}  20  100.0%")


def test_resets_before_anything_else_leave_one_state(file, capsys) -> None:
    text = 'OPENQASM 3.0; include "stdgates.inc"; qubit[2] q; bit[2] c; reset q; x q[1]; c = measure q;'
    assert main(["simulate", file(text), "--state", "--json"]) == 0
    assert [a["state"] for a in json.loads(capsys.readouterr().out)["amplitudes"]] == ["10"]
    used = 'OPENQASM 3.0; include "stdgates.inc"; qubit[2] q; h q[0]; cx q[0], q[1]; reset q[0];'
    assert main(["simulate", file(used), "--state"]) == 2
    assert "its state is random" in capsys.readouterr().err


def test_state_shows_the_largest_amplitudes(file, capsys) -> None:
    assert main(["simulate", file(BELL), "--state", "--json", "--dtype", "complex128"]) == 0
    shown = json.loads(capsys.readouterr().out)["amplitudes"]
    assert [a["state"] for a in shown] == ["00", "11"]
    assert [a["real"] for a in shown] == pytest.approx([0.5**0.5] * 2)
    assert main(["simulate", file(BELL), "--state", "--top", "1"]) == 0
    assert capsys.readouterr().out.splitlines()[1] == "00  +0.707107 +0.000000i   50.000%"


@pytest.mark.parametrize(("value", "angle"), [("0.3", 0.3), ("pi/3", np.pi / 3), ("-2e-1", -0.2)])
def test_input_parameters_are_set_by_name(file, capsys, value, angle) -> None:
    assert main(["simulate", file(ROTATION), "--set", f"theta={value}", "--state", "--json"]) == 0
    amplitudes = {a["state"]: a["real"] for a in json.loads(capsys.readouterr().out)["amplitudes"]}
    assert amplitudes == pytest.approx({"00": np.cos(angle / 2), "10": np.sin(angle / 2)}, abs=1e-6)


def test_plan_is_printed_on_request(file, capsys) -> None:
    path = file(BELL)
    assert main(["simulate", path, "--plan"]) == 0
    assert qd.compile(qd.Circuit.from_file(path)).plan.summary() in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "arguments", "expected"),
    [
        (ROTATION, [], "without a value: theta; give --param theta=0.3"),
        (ROTATION, ["--set", "phi=1"], "--param phi=1: the circuit has no parameter phi; it has theta"),
        (ROTATION, ["--set", "theta"], "write it as NAME=VALUE"),
        (ROTATION, ["--set", "theta=x y"], "'x y' is not a number"),
        (TELEGRAPH, ["--state"], "measures before its end"),
        ("OPENQASM 3.0;\nqubit q;\n  nonsense q;", [], "program.qasm, line 3, column 3: "),
        ("", [], "program.qasm: the program has no qubits"),
        ("OPENQASM 3.0; bit c;", ["--ranks", "2"], "program.qasm: the program has no qubits"),
        ("OPENQASM 3.0; qubit[60] q;", [], "60 qubits need"),
        ("OPENQASM 3.0; qubit[100] q;", [], "100 qubits cannot be simulated: a state has at most 62"),
    ],
)
def test_what_cannot_be_is_one_line_and_exit_code_2(file, capsys, text, arguments, expected) -> None:
    assert main(["simulate", file(text), *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("qdist simulate: ")
    assert expected in printed.err
    assert printed.err.count("\n") == 1


def test_a_stdout_that_is_closed_is_no_error(file, tmp_path) -> None:
    shell, result = '"$0" -m qdist simulate "$1" --shots 10 -o "$2" >&-', tmp_path / "result.json"
    command = ["sh", "-c", shell, sys.executable, file(BELL), str(result)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    assert sum(json.loads(result.read_text())["counts"].values()) == 10
    # A launcher is started with all three streams.
    shell, script = '"$0" -m qdist run -n 1 "$1" "$2" <&- >&- 2>&-', tmp_path / "script.py"
    script.write_text("import os, sys\nopen(sys.argv[1], 'w').write(''.join(map(str, map(os.isatty, range(3)))))\n")
    done = subprocess.run(["sh", "-c", shell, sys.executable, str(script), str(result)], timeout=300)
    assert (done.returncode, result.read_text()) == (0, "FalseFalseFalse")


@pytest.mark.parametrize("name", ["-", "/dev/stdin", "/dev/fd/0"])
def test_programs_come_from_pipes(capsys, monkeypatch, name) -> None:
    reader, writer = os.pipe()
    before = os.dup(0)
    try:
        os.write(writer, BELL.encode())
        os.close(writer)
        os.dup2(reader, 0)
        assert main(["simulate", name, "--json", "--seed", "3"]) == 0
    finally:
        os.dup2(before, 0)
        os.close(before)
        os.close(reader)
    assert set(json.loads(capsys.readouterr().out)["counts"]) == {"00", "11"}
    # Of several ranks one has a stdin, and the others would wait for theirs.
    monkeypatch.setattr(checks, "launch_of_this_process", lambda: SimpleNamespace(size=3))
    assert main(["plan", "-", "--ranks", "1"]) == 2
    assert "-: not all 3 ranks have a stdin; write the program to a file" in capsys.readouterr().err


def test_missing_file_from_the_shell(tmp_path) -> None:
    command = [sys.executable, "-m", "qdist", "simulate", str(tmp_path / "none.qasm")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == f"qdist simulate: {tmp_path / 'none.qasm'}: No such file or directory\n"


@pytest.mark.parametrize("option", [["--shots", "0"], ["--threads", "-1"], ["--shots", "many"]])
def test_numbers_are_checked(file, option) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["simulate", file(BELL), *option])


def test_threads_do_not_change_the_outcome(file, capsys) -> None:
    outcomes = []
    before = qd.native.kernels.max_threads()
    try:
        for threads in ("1", "2"):
            assert main(["simulate", file(BELL), "--seed", "1", "--json", "--threads", threads]) == 0
            outcomes.append(json.loads(capsys.readouterr().out)["counts"])
    finally:
        qd.native.kernels.set_threads(before)
    assert outcomes[0] == outcomes[1]


def test_histogram_ranks_scales_and_sums_the_rest() -> None:
    counts = {"00": 10, "01": 40, "10": 20, "11": 30}
    lines = histogram(counts, top=2, width=60, ascii_only=True).splitlines()
    assert [line.split()[:-1] for line in lines[:2]] == [["01", "40", "40.0%"], ["11", "30", "30.0%"]]
    assert lines[2].split()[:4] == ["2", "others", "30", "30.0%"]
    assert len(lines[0]) == 60
    bars = [line.count("#") for line in lines]
    assert bars[1] == round(bars[0] * 0.75)
    assert max(map(len, histogram(counts, width=60).splitlines())) <= 60


def test_largest_amplitudes_are_ranked_and_zeros_left_out() -> None:
    pairs = largest_amplitudes(np.array([0.6, 0, 0.8j, 0]), 3)
    assert [(bits, amplitude) for bits, amplitude in pairs] == [("10", 0.8j), ("00", 0.6)]


def test_progress_shows_a_bar_only_for_long_work(capsys) -> None:
    with Progress("shots", 10) as progress:
        progress.advance(10)
    assert capsys.readouterr().err == ""
    with Progress("shots", 10) as progress:
        progress.advance(5)
        time.sleep(1.3)
        progress.advance(5)
    shown = capsys.readouterr().err
    assert "5/10, about" in shown
    assert shown.rstrip().endswith("10/10, about 0 s left")
    with Progress("hidden", shown=False):
        pass
