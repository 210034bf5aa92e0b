"""`qdist demo`: what it says is so."""

import re
import subprocess
import sys

import numpy as np
import pytest

from qdist import library
from qdist.cli import main
from qdist.demo import command
from qdist.demo.chart import chart
from qdist.demo.energy import exact_energy, train


def test_the_whole_demonstration() -> None:
    words = [sys.executable, "-m", "qdist", "demo", "--spins", "6", "--steps", "40", "--ranks", "2"]
    done = subprocess.run([*words, "--speed-qubits", "12"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    text = done.stdout
    for part in ("This machine", "How that circuit is run", "What next", "The same on 2 ranks", "sweep of"):
        assert part in text
    found = re.search(r"Energy (\S+) after 40 steps, exact (\S+): (\S+) apart", text)
    energy, exact, apart = map(float, found.groups())
    assert energy >= exact
    assert abs(energy / exact - 1) == pytest.approx(apart, rel=0.1)
    assert apart < 1e-2
    assert float(re.search(r"energies at most (\S+) apart", text).group(1)) < 1e-10


@pytest.mark.parametrize("spins", [4, 6, 8])
def test_the_exact_energy_is_the_lowest_eigenvalue(spins: int) -> None:
    matrix = library.tfim(spins, h=1.0, periodic=True).to_matrix(spins)
    assert exact_energy(spins) == pytest.approx(np.linalg.eigvalsh(matrix)[0], abs=1e-9)


def test_the_training_comes_down_to_the_ground_energy() -> None:
    energies = train(8, 100).energies
    assert exact_energy(8) <= energies[-1] < 0.999 * exact_energy(8)


def test_the_line_for_the_shell_finds_a_folder_with_spaces(tmp_path, monkeypatch, capsys) -> None:
    folder = tmp_path / "my environment"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "activate").write_text("echo found\n")
    monkeypatch.setattr(sys, "prefix", str(folder))
    monkeypatch.setattr(command.shutil, "which", lambda name: None)
    command._next()
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("source "))
    words = line.partition("once in a shell")[0]
    assert subprocess.run(["bash", "-c", words], capture_output=True, text=True).stdout == "found\n"


def test_the_chart_has_its_first_value_on_top_and_the_limit_below() -> None:
    lines = chart([3.0, 2.0, 1.0, 1.0], 1.0, 40, ascii_only=True).splitlines()
    assert lines[0].split() == ["3.0000", "*"]
    assert lines[-1].split() == ["1.0000", "--**"]
    assert chart([1.0], 1.0, 10)  # nothing to divide by


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--spins", "5"], "--spins 5"),
        (["--ranks", "0"], "--ranks 0"),
        (["--ranks", "1000"], "--ranks 1000: 12 qubits leave each rank fewer than 5; use at most 128 ranks"),
        (["--spins", "4", "--ranks", "2"], "--ranks 2: 4 qubits leave each rank fewer than 5; use at most 1 rank"),
        (["--speed-qubits", "0"], "--speed-qubits 0"),
        (["--speed-qubits", "63"], "--speed-qubits 63: "),
        (["--speed-qubits", "50"], "--speed-qubits 50: "),
    ],
)
def test_what_cannot_be_shown_is_refused_before_anything_runs(arguments, told, capsys) -> None:
    assert main(["demo", *arguments]) == 2
    printed = capsys.readouterr()
    assert told in printed.err
    assert printed.err.count("\n") == 1
    assert printed.out == ""


@pytest.mark.parametrize(("spins", "ranks"), [(4, 1), (6, 2), (8, 4), (20, 4)])
def test_few_spins_are_split_over_as_many_ranks_as_they_are_enough_for(spins, ranks, monkeypatch) -> None:
    asked = []
    monkeypatch.setattr(command, "spawn", lambda fn, count, arguments: asked.append(count) or [fn(*arguments)])
    monkeypatch.setattr(command, "_speed", lambda num_qubits: None)
    assert main(["demo", "--spins", str(spins), "--steps", "1"]) == 0
    assert asked == [ranks]
