"""Long runs: saved between stages and gone on from there; corrupted amplitudes are found."""

from pathlib import Path

import numpy as np
import pytest

import qdist as qd
from qdist.backends import StateError
from qdist.program.compiled import Compiled
from qdist.state import storage

FOLDER = Path(__file__).parent / "ranks"


def circuit(random: bool = False) -> qd.Circuit:
    made, theta = qd.Circuit(6, 2), qd.ParameterVector("t", 6)
    for k in range(6):
        made.ry(theta[k], k).cx(k, (k + 1) % 6)
    if random:
        made.measure(2, 0).reset(3)
        for k in range(6):
            made.rx(0.1 + k, k).cx(k, (k + 2) % 6)
        made.measure(1, 1)
        for k in range(6):
            made.ry(0.2 * k, k)
    return made


@pytest.mark.parametrize("random", [False, True])
def test_a_run_that_died_goes_on_bit_by_bit(tmp_path: Path, monkeypatch, random: bool, device: str) -> None:
    values = np.linspace(0.1, 1.0, 6)
    program = qd.compile(circuit(random), device=device)
    want = program.run(values, seed=4)
    bits = program.bits
    path, save, saved = tmp_path / "c", storage.save, []

    def killed(*arguments) -> None:
        save(*arguments)
        saved.append(1)
        if len(saved) == (2 if random else 1):
            raise KeyboardInterrupt

    monkeypatch.setattr(storage, "save", killed)
    with pytest.raises(KeyboardInterrupt):
        program.run(values, seed=4, checkpoint=path, seconds=0)
    monkeypatch.undo()
    assert qd.StateVector.load(path).norm() == pytest.approx(1, abs=1e-5)
    with pytest.raises(StateError, match="of another circuit, of other values"):
        program.run(values + 1, seed=4, checkpoint=path)
    for wrong in (-1, float("nan")):
        with pytest.raises(ValueError, match=f"seconds={wrong}"):
            program.run(values, checkpoint=path, seconds=wrong)
    again = qd.compile(circuit(random), device=device)
    got = again.run(values, seed=99, checkpoint=path, seconds=0, verify=True)
    np.testing.assert_array_equal(got.amplitudes(), want.amplitudes())
    if random:
        assert again.bits == bits
    assert not path.exists()


def test_what_a_stage_gets_wrong_is_found(monkeypatch) -> None:
    program = qd.compile(circuit())
    program.run(np.zeros(6), verify=True)
    sweep = Compiled._sweep

    def wrong(self, state, *arguments) -> None:
        sweep(self, state, *arguments)
        state.local[0] *= -1  # A sign: the norm does not show it.

    monkeypatch.setattr(Compiled, "_sweep", wrong)
    with pytest.raises(StateError, match="corrupted amplitudes: stage 1 on rank 0"):
        program.run(np.linspace(0.3, 0.9, 6), verify=True)

    def scaled(self, state, *arguments) -> None:
        sweep(self, state, *arguments)
        if np.isfinite(state.norm()):
            state.local[:] *= 1.5

    monkeypatch.setattr(Compiled, "_sweep", scaled)
    with pytest.raises(StateError, match="corrupted amplitudes"):
        program.run(np.linspace(0.3, 0.9, 6), verify=True)


def test_on_ranks(pass_on_ranks, tmp_path: Path) -> None:
    pass_on_ranks(2, [FOLDER / "mpi_long_runs.py"], QDIST_TEST_FOLDER=str(tmp_path))
