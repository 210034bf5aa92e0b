"""The training programs: what they reach, that they repeat and resume, and that four ranks give what one gives."""

import ast
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import programs
import pytest

import qdist as qd
from qdist import checkpoint, training
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


WRONG = {
    "vqe_tfim": ["--spins 0", "--spins 2", "--spins 5", "--spins -4", "--steps 0", "--field nan", "--lr inf"],
    "vqe_natural": ["--spins 2", "--spins 5", "--steps -3", "--damping -1", "--damping 0.1 --optimizer adam"],
    "vqe_h2": ["--steps 0", "--seed -1", "--spread -1", "--lr -1", "--lr nan", "--plot no/h2.png", "--plot /"],
    "vqe_molecule": ["--steps 0", "--molecule h2 --fcidump n2.fcidump"],
    "qaoa_maxcut": ["--nodes 2", "--nodes 7", "--layers 0", "--layers -2", "--steps 0"],
    "qaoa_weighted": ["--layers 0", "--shots 0", "--shots -1", "--steps 0"],
    "reuploading": ["--layers 0", "--layers -1", "--steps 0"],
    "quantum_kernel": ["--block 0", "--block -1", "--qubits 0", "--qubits 65", "--scale nan", "--steps 0"],
    "classify_digits": ["--qubits 0", "--qubits 1", "--layers 0", "--state 0", "--state -1", "--steps 0"],
    "mesh_training": ["--steps 0", "--steps 1.5", "--steps two"],
    "train_gpt": ["--layers 0", "--width 0", "--heads -1", "--dropout 1", "--rows 0", "--zero 4", "--clip 0"],
    "train_digits": ["--epochs 0", "--epochs -1", "--seed -1", "--plot no/x.png", "--model both --save x"],
    "auto_parallel": [
        *("--steps 0", "--rows 0", "--width 0", "--inner -1", "--seed -1", "--accuracy", "--program --mode model"),
        *("--explain --mode sharded", "--explain --mode pipeline --static", "--stage 2", "--stage 1 --mode auto"),
    ],
    "jax_vqe": ["--spins 0", "--spins 2", "--spins 5", "--steps 0"],
    "torch_hybrid": ["--qubits 0", "--layers 0", "--steps 0"],
    "pennylane_vqe": ["--spins 0", "--spins 1", "--spins 5", "--layers 0", "--steps 0", "--lr -1", "--device foo"],
    "pennylane_qnn": ["--qubits 0", "--layers 0", "--points 0", "--batch 0", "--epochs 0", "--device foo"],
    "qiskit_vqe": ["--spins 0", "--spins 1", "--spins 5", "--layers 0", "--steps 0"],
    "qiskit_qnn": ["--qubits 0", "--layers 0", "--points 0", "--batch 0", "--epochs 0"],
}
"""Options of the programs that ask for what cannot be; two spins have one bond, not the two that the formula counts."""


@pytest.mark.parametrize("name", WRONG)
def test_options_that_cannot_be_are_refused(name: str, capsys) -> None:
    try:
        main = programs.load(name).main
    except ModuleNotFoundError as error:
        pytest.skip(str(error))
    for words in WRONG[name]:
        with pytest.raises(SystemExit) as ended:
            main(words.split())
        assert ended.value.code == 2, words
        assert words.split()[0] in capsys.readouterr().err.splitlines()[-1], words


@pytest.mark.parametrize("name", ["vqe_h2", "train_digits"])
@pytest.mark.parametrize("file", ["curve.xyz", "curve.txt", "run.json"])
def test_pictures_that_matplotlib_cannot_write_are_refused_before_the_work(name: str, file: str, capsys) -> None:
    pytest.importorskip("matplotlib")
    with pytest.raises(SystemExit) as ended:
        programs.load(name).main(["--plot", file])
    assert ended.value.code == 2
    assert f"'{file}': matplotlib writes no {Path(file).suffix}; name a .png" in capsys.readouterr().err


TOO_MUCH = [
    ("vqe_tfim", "--spins 40 --steps 1", "40 qubits need"),
    ("qaoa_maxcut", "--nodes 100 --steps 1 --layers 1", "at most 62"),
    ("vqe_molecule", "--fcidump missing.fcidump", "missing.fcidump: No such file"),
    ("vqe_h2", "--resume missing", "there is no checkpoint"),
    ("quantum_kernel", "--qubits 2 --steps 3 --block 1000", "--steps 3 --block 1000: there are 1438 images"),
    ("classify_digits", "--state 3", "does not make 1 rank"),
    ("train_gpt", "--mesh dp=x", "--mesh dp=x"),
]


@pytest.mark.parametrize(("name", "words", "told"), TOO_MUCH)
def test_what_turns_out_to_be_impossible_ends_in_one_line(name: str, words: str, told: str, capsys) -> None:
    program = programs.load(name)
    with pytest.raises(SystemExit) as ended:
        training.run(lambda: program.main(words.split()))
    assert ended.value.code == 2
    err = capsys.readouterr().err
    assert told in err
    assert err.count("\n") == 1


def test_a_package_that_is_missing_is_named_in_one_line(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    program = programs.load("train_digits")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SystemExit) as ended:
        training.run(lambda: program.main(["--epochs", "1"]))
    assert ended.value.code == 2
    assert capsys.readouterr().err.endswith(": the digits come with scikit-learn: pip install scikit-learn\n")


def test_a_program_that_ends_well_is_let_be() -> None:
    done: list[int] = []
    training.run(lambda: done.append(1))
    assert done == [1]
    with pytest.raises(ZeroDivisionError):
        training.run(lambda: 1 // 0)


@pytest.mark.parametrize("path", sorted(programs.FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_programs_read_no_bare_numbers(path: Path) -> None:
    """A number that an option takes has a range: int and float take -1, 0 and nan."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument":
            given = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
            assert given.get("type") not in ("int", "float") or "choices" in given, ast.unparse(node)


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
    errors, count = kernel.train(kernel.parser().parse_args([]), comm)
    assert errors[-1] < 0.04
    assert errors[-1] < errors[0]
    assert count == 11 * 128


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
