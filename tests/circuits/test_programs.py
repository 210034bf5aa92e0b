"""The training programs: what they reach, that they repeat and resume, and that four ranks give what one gives."""

import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import programs
import pytest

import qdist as qd
from qdist import checkpoint
from qdist.tensor import Tensor, manual_seed, no_grad


@pytest.fixture(params=programs.NAMES)
def program(request: pytest.FixtureRequest) -> ModuleType:
    return programs.load(request.param)


@pytest.fixture(scope="module")
def comm() -> qd.comm.Communicator:
    return qd.comm.init()


def test_vqe_reaches_chemical_accuracy_for_hydrogen(comm) -> None:
    h2 = programs.load("vqe_h2")
    energies = h2.train(h2.parser().parse_args([]), comm)
    # The ground energy that PySCF gives for these integrals.
    assert h2.exact_energy() == pytest.approx(-1.137306035753, abs=1e-9)
    assert abs(energies[-1] - h2.exact_energy()) < 1.6e-3
    assert min(energies) > h2.exact_energy() - 1e-9


def test_vqe_reaches_the_ground_energy_of_twelve_spins(comm) -> None:
    tfim = programs.load("vqe_tfim")
    energies = tfim.train(tfim.parser().parse_args([]), comm)
    exact = tfim.exact_energy(12, 1.0)
    assert abs(energies[-1] - exact) < 1e-3 * abs(exact)
    assert min(energies) > exact - 1e-9


def test_the_natural_gradient_takes_fewer_steps_than_adam(comm) -> None:
    natural = programs.load("vqe_natural")
    exact = natural.exact_energy(8, 1.0)

    def steps(*words: str) -> int:
        energies = natural.train(natural.parser().parse_args(list(words)), comm)
        return next(k for k, energy in enumerate(energies) if abs(energy - exact) < 1e-6 * abs(exact))

    assert 3 * steps() < steps("--optimizer", "adam", "--lr", "0.02", "--steps", "120")


@pytest.mark.parametrize("field", [0.4, 1.0, 1.7])
def test_the_free_fermions_energy_is_the_lowest_eigenvalue(field: float) -> None:
    tfim = programs.load("vqe_tfim")
    matrix = qd.library.tfim(6, h=field, periodic=True).to_matrix()
    assert tfim.exact_energy(6, field) == pytest.approx(np.linalg.eigvalsh(matrix)[0], abs=1e-10)


def test_qaoa_finds_the_largest_cut(comm) -> None:
    qaoa = programs.load("qaoa_maxcut")
    args = qaoa.parser().parse_args([])
    losses, samples = qaoa.train(args, comm)
    edges = qaoa.regular_graph(args.nodes, args.seed)
    assert [sum(node in edge for edge in edges) for node in range(12)] == [3] * 12
    largest = max(sum((state >> a ^ state >> b) & 1 for a, b in edges) for state in range(1 << 12))
    assert qaoa.cut_sizes(edges, samples).max() == largest
    assert -losses[-1] > 0.9 * largest


def test_the_hybrid_net_learns_the_digits(comm) -> None:
    digits = programs.load("classify_digits")
    losses, model = digits.train(digits.parser().parse_args(["--steps", "150"]), comm)
    assert losses[-1] < losses[0] / 3
    assert digits.accuracy(model, seed=0) > 0.85


def test_the_kernel_learns_the_digits(comm) -> None:
    kernel = programs.load("quantum_kernel")
    errors = kernel.train(kernel.parser().parse_args([]), comm)
    assert errors[-1] < 0.04
    assert errors[-1] < errors[0]


def test_a_seed_repeats_the_curve(program: ModuleType, comm) -> None:
    args = programs.small(program, 3, "--seed", 4)
    assert programs.curve(program, args, comm) == programs.curve(program, args, comm)
    assert programs.curve(program, args, comm) != programs.curve(program, programs.small(program, 3), comm)


def test_an_interrupted_run_ends_like_an_uninterrupted_one(program: ModuleType, comm, tmp_path, monkeypatch) -> None:
    whole = programs.curve(program, programs.small(program, 12), comm)
    commit = checkpoint.Saving.commit

    def killed(saving: checkpoint.Saving) -> None:
        commit(saving)
        raise KeyboardInterrupt

    monkeypatch.setattr(checkpoint.Saving, "commit", killed)
    with pytest.raises(KeyboardInterrupt):
        program.train(programs.small(program, 12, "--save", tmp_path / "c"), comm)
    monkeypatch.undo()
    saved = tmp_path / "c" / "step-00000010.safetensors"
    assert checkpoint.load(saved)["loop"]["done"] == 10
    assert [path.name for path in (tmp_path / "c").glob("step*")] == [saved.name]
    assert programs.curve(program, programs.small(program, 12, "--resume", tmp_path / "c"), comm) == whole


def test_the_command_line(program: ModuleType, tmp_path, capsys, monkeypatch) -> None:
    # Without matplotlib the curve is left out, and that is said.
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    words = [*programs.SMALL.get(program.__name__, []), "--steps", "2", "--plot", str(tmp_path / "loss.png")]
    program.main(words)
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 1
    assert "loss.png is not written: it needs matplotlib (pip install 'qdist[plot]')" in err
    assert not (tmp_path / "loss.png").exists()
    with pytest.raises(SystemExit) as ended:
        program.main(["--help"])
    assert ended.value.code == 0
    assert "mpirun" in capsys.readouterr().out


def test_the_loss_curve_is_a_picture(tmp_path) -> None:
    pytest.importorskip("matplotlib")
    programs.load("vqe_h2").main(["--steps", "2", "--plot", str(tmp_path / "loss.png")])
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")


def test_four_ranks_give_what_one_gives(pass_on_ranks) -> None:
    pass_on_ranks(4, [Path(__file__).parent / "ranks" / "mpi_training.py"])


def test_a_llama_like_model_writes_with_its_cache_what_it_writes_without() -> None:
    program = programs.load("train_gpt")
    args = programs.small(program, 1, "--llama", "--width", 16)
    manual_seed(0)
    model = program.build(args)
    text = program.finish(model, "12+7=")
    again = "12+7="
    with no_grad():
        while len(again) < program.LENGTH and not again.endswith("."):
            letters = Tensor(np.array([[program.LETTERS.index(c) for c in again]]))
            again += program.LETTERS[int(model(letters)[0, -1].argmax().item())]
    assert text == again
    assert len(text) > len("12+7=")
