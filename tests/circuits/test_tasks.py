"""The short programs, and that every program runs when its file alone is copied somewhere."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import programs
import pytest

from qdist import training

LEFT_OUT = {"training"}  # A former name.


def test_lithium_hydride_is_lowered_below_hartree_fock() -> None:
    energies = programs.load("vqe_molecule").main(["--steps", "8"])
    # Hartree-Fock and full configuration interaction of these integrals.
    assert energies[0] == pytest.approx(-7.8620, abs=1e-3)
    assert -7.8824 - 1e-3 < energies[-1] < energies[0] - 5e-3


def test_water_is_lowered_below_hartree_fock() -> None:
    energies = programs.load("vqe_molecule").main(["--molecule", "h2o", "--steps", "8", "--lr", "0.005"])
    # Restricted Hartree-Fock and full configuration interaction of PySCF.
    assert energies[0] == pytest.approx(-74.963120, abs=1e-5)
    assert -75.012760 < energies[-1] < energies[0] - 0.03


def test_weighted_cuts_are_found() -> None:
    best, exact = programs.load("qaoa_weighted").main(["--steps", "60"])
    assert best == pytest.approx(exact)


def test_data_is_uploaded_again() -> None:
    assert programs.load("reuploading").main(["--steps", "96"]) > 0.8


@pytest.mark.parametrize("ranks", [3, 4])
def test_a_mesh_gives_the_losses_of_one_rank(run_ranks, ranks: int) -> None:
    """Also where ranks have different numbers of rows."""
    alone = programs.load("mesh_training").main(["--steps", "2"])
    result = run_ranks(ranks, [programs.FOLDER / "mesh_training.py"])
    assert result.returncode == 0, result.stderr
    shared = [float(word) for word in result.stdout.partition("losses ")[2].split(",")[:2]]
    assert shared == pytest.approx(alone, abs=1e-5)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("mesh_training", []),
        ("qaoa_weighted", ["--layers", "1"]),
        ("reuploading", ["--layers", "1"]),
        ("vqe_molecule", ["--molecule", "h2"]),
    ],
)
def test_a_program_that_was_told_to_leave_goes_on_bit_by_bit(
    name: str, options: list[str], tmp_path, monkeypatch
) -> None:
    program, descend, taken = programs.load(name), training.descend, []

    def main(folder: str) -> None:
        program.main([*options, "--steps", "5", "--save", str(tmp_path / folder)])

    def told(*args: Any) -> float:
        taken.append(descend(*args))
        if len(taken) == 3:
            os.kill(os.getpid(), signal.SIGTERM)
        return taken[-1]

    main("whole")
    with monkeypatch.context() as patch:
        patch.setattr(training, "descend", told)
        with pytest.raises(training.Preempted):
            main("parts")
    assert len(taken) == 3
    assert (tmp_path / "parts" / "step-00000003.safetensors").exists()
    main("parts")
    last = "step-00000005.safetensors"
    assert (tmp_path / "parts" / last).read_bytes() == (tmp_path / "whole" / last).read_bytes()
    steps = [json.loads(line).get("step") for line in (tmp_path / "parts" / "log.jsonl").read_text().splitlines()]
    assert [step for step in steps if step is not None] == [0, 1, 2, 3, 4]


def test_a_hybrid_net_in_torch_learns_two_moons() -> None:
    pytest.importorskip("torch")
    assert programs.load("torch_hybrid").main(["--plain", "--steps", "60"]) > 0.9


def test_jax_finds_the_ground_energy() -> None:
    pytest.importorskip("jax")
    found, exact = programs.load("jax_vqe").main(["--steps", "80"])
    assert found == pytest.approx(exact, rel=2e-3)


def test_shots_and_feedforward(capsys) -> None:
    found = programs.load("shots_and_feedforward").main()
    value = found["teleported"].expectation("Z2", shots=50, seed=1)
    assert value == pytest.approx(0.696707, abs=1e-4)
    assert "±" in capsys.readouterr().out


def test_twenty_small_wishes() -> None:
    assert len(programs.load("small_wishes").main()) == 20


def test_programs_run_when_copied_alone(tmp_path: Path) -> None:
    names = sorted(path.stem for path in programs.FOLDER.glob("*.py") if path.stem not in LEFT_OUT)
    # Other libraries may be missing, and VQNet's programs run when they are imported, on two ranks.
    names = [name for name in names if not name.startswith(("pennylane", "qiskit", "vqnet", "torch", "jax"))]
    for name in names:
        (tmp_path / name).mkdir()
        shutil.copy(programs.FOLDER / f"{name}.py", tmp_path / name)
    code = "import runpy, sys\nfor path in sys.argv[1:]:\n    runpy.run_path(path, run_name='copied')"
    files = [str(tmp_path / name / f"{name}.py") for name in names]
    result = subprocess.run([sys.executable, "-P", "-c", code, *files], capture_output=True, text=True, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
