"""`qdist simulate`: parameters, observables, ranks, files, help and exit codes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import qdist as qd
from qdist.cli import main, parser
from qdist.commands.exit_codes import TEXT
from qdist.commands.given_values import observable

VECTOR = (
    'OPENQASM 3.0; include "stdgates.inc"; input float phi; input array[float, 3] theta; qubit[3] q; '
    "ry(theta[0]) q[0]; ry(theta[1]) q[1]; ry(theta[2]) q[2]; cx q[0], q[1]; rx(phi) q[2];"
)
ANGLES = [0.1, np.pi / 2, -0.4]
COIN = 'OPENQASM 3.0; include "stdgates.inc"; qubit[2] q; bit c; h q[0]; c = measure q[0]; if (c) { x q[1]; } h q[1];'


@pytest.fixture
def qasm(tmp_path: Path) -> str:
    path = tmp_path / "vector.qasm"
    path.write_text(VECTOR)
    return str(path)


def simulated(capsys, *arguments: str) -> dict:
    assert main(["simulate", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def expected(observables: list) -> np.ndarray:
    circuit = qd.Circuit.from_qasm(VECTOR)
    return qd.compile(circuit).expectations(observables, {"phi": 0.25, "theta": ANGLES})


@pytest.mark.parametrize("form", ["0.1,pi/2,-0.4", "[0.1, pi/2, -0.4]", "json", "npy"])
def test_vectors_of_parameters_and_observables(qasm, tmp_path, capsys, form) -> None:
    if form in ("json", "npy"):
        path = tmp_path / f"angles.{form}"
        path.write_text(json.dumps(ANGLES)) if form == "json" else np.save(path, ANGLES)
        form = f"@{path}"
    sums = ["Z0 Z1 - 0.5*X2", "1.5 Y2 + 2"]
    options = [qasm, "--param", "phi=0.25", "--param", f"theta={form}", *(f"--observable={s}" for s in sums)]
    found = simulated(capsys, *options)
    wanted = expected([observable(s) for s in sums])
    assert found["values"] == pytest.approx(wanted, abs=1e-6)
    assert found["observables"] == sums


def test_elements_of_vectors_are_parameters_too(qasm, capsys) -> None:
    given = [f"--param=theta[{k}]={angle}" for k, angle in enumerate(ANGLES)]
    assert simulated(capsys, qasm, "--param", "phi=0.25", *given, "--observable", "Z2")["values"] == pytest.approx(
        expected(["Z2"]), abs=1e-6
    )


def test_observables_as_text(tmp_path) -> None:
    wanted = qd.PauliSum([("Z0 Z1", 0.5), ("X2", -1.5), ("", 2.0), ("YII", 1e-3)])
    assert observable("0.5*Z0 Z1 - 1.5 X2 + 2 + 1e-3*YII") == wanted
    path = tmp_path / "sum.txt"
    path.write_text("# a Hamiltonian\n0.5*Z0 Z1\n- 1.5 X2\n\n+2\n1e-3*YII\n")
    assert observable(f"@{path}") == wanted
    assert observable("-Z0") == -qd.PauliSum([("Z0", 1.0)])


def test_shots_give_estimates_with_errors(qasm, tmp_path, capsys) -> None:
    file = tmp_path / "values.npy"
    given = [qasm, "--param", "phi=0.25", "--param", "theta=0.1,0.2,0.3", "--observable", "Z0", "--shots", "400"]
    found = simulated(capsys, *given, "--seed", "5", "--output", str(file))
    program = qd.compile(qd.Circuit.from_qasm(VECTOR))
    wanted = program.expectations(["Z0"], {"phi": 0.25, "theta": [0.1, 0.2, 0.3]}, shots=400, seed=5)
    assert found["values"] == list(wanted)
    assert found["standard_errors"] == list(wanted.standard_error)
    np.testing.assert_array_equal(np.load(file), [wanted, wanted.standard_error])


def test_files_of_amplitudes_counts_and_numbers(qasm, tmp_path, capsys) -> None:
    given = [qasm, "--param", "phi=0.25", "--param", "theta=0.1,0.2,0.3"]
    values = {"phi": 0.25, "theta": [0.1, 0.2, 0.3]}
    program = qd.compile(qd.Circuit.from_qasm(VECTOR), dtype="complex128")
    state = tmp_path / "state.npy"
    simulated(capsys, *given, "--state", "--dtype", "complex128", "--output", str(state))
    np.testing.assert_allclose(np.load(state), program.run(values).amplitudes(), atol=1e-15)
    counts = tmp_path / "counts.npy"
    printed = simulated(capsys, *given, "--seed", "3", "--output", str(counts))
    read = np.load(counts, allow_pickle=False)
    assert dict(zip(read["outcome"].tolist(), read["count"].tolist())) == printed["counts"]
    assert sum(printed["counts"].values()) == 1000
    written = tmp_path / "counts.json"
    assert main(["simulate", *given, "--seed", "3", "-o", str(written)]) == 0
    assert json.loads(written.read_text())["counts"] == printed["counts"]
    assert "1000 shots in" in capsys.readouterr().out


def test_on_ranks_started_here(tmp_path, capsys) -> None:
    """One start of ranks: amplitudes of a state that each holds half of."""
    circuit = qd.library.hardware_efficient(7, 2)
    circuit = circuit.bind(np.linspace(0, 3, circuit.num_parameters))
    path, file = tmp_path / "ansatz.qasm", tmp_path / "state.npy"
    path.write_text(circuit.to_qasm())
    found = simulated(capsys, str(path), "--state", "--ranks", "2", "--device", "cpu", "--output", str(file))
    assert (found["ranks"], found["device"]) == (2, "cpu")
    np.testing.assert_allclose(np.load(file), qd.simulate(circuit).amplitudes(), atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--param", "theta=1,2"], "--param theta=1,2: theta has 3 elements; got 2 values"),
        (["--param", "theta=0.1"], "--param theta=0.1: the value of theta must be a sequence of numbers"),
        (["--param", "phi=1,2"], "must be a finite number; got [1.0, 2.0]"),
        (["--param", "phi=1", "--param", "phi=2"], "phi is given twice"),
        (["--param", "phi=@a.txt"], "end in .json or .npy"),
        (["--param", "theta=@empty.npy"], "--param theta=@empty.npy: empty.npy is not an array of NumPy's"),
        (["--param", "theta=@words.npy"], "--param theta=@words.npy: words.npy is not an array of NumPy's"),
        (["--param", "theta=@deep.json"], "--param theta=@deep.json: deep.json has no list of numbers"),
        (["--observable", "@words.npy"], "--observable @words.npy: this is no text file"),
        (["--param", "phi=1"], "without a value: theta[0], theta[1], theta[2]; give --param theta[0]=0.3"),
        (["--observable", "Z0 +"], "'+' is no term of a sum of Pauli strings; write it as"),
        (["--observable", "Q0"], "'Q0' at position 0 of the Pauli string 'Q0': expected I, X, Y or Z"),
        (["--observable", "Z0 Z0"], "--observable Z0 Z0: 'Z0' at position 3"),
        (["--device", "tpu"], "device='tpu': use 'cpu', 'cuda'"),
        (["--output", "x.txt"], "--output x.txt: a name that ends in .json or .npy"),
        (["--output", "none/x.npy"], "there is no folder"),
        (["--param", "phi=1/2"], "1/2 divides integers, which OpenQASM 3 rounds toward zero; write 1.0/2"),
        (["--param", "phi=nope"], "--param phi=nope: 'nope' is not a number in OpenQASM: 'nope' is not declared"),
        (["--param", "phi="], "--param phi=: '' is not a number; write one as 0.3 or pi/2"),
        (["--ranks", "2"], "--ranks 2: 3 qubits leave each rank fewer than 5; use at most 1 rank\n"),
        (["--ranks", "64"], "--ranks 64: 3 qubits leave each rank fewer than 5; use at most 1 rank\n"),
    ],
)
def test_what_cannot_be_is_refused_with_the_option(qasm, capsys, monkeypatch, tmp_path, arguments, said) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty.npy").touch()
    Path("words.npy").write_bytes(b"no array, and no text: \xff")
    Path("deep.json").write_text("[" * 100_000)
    given = [] if "--param" in arguments else ["--param", "phi=1", "--param", "theta=1,2,3"]
    assert main(["simulate", qasm, *given, *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert said in printed.err
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize(("qubits", "most"), [(5, 1), (6, 2), (8, 8)])
def test_no_rank_is_started_where_qubits_are_too_few(tmp_path, capsys, monkeypatch, qubits, most) -> None:
    started = []
    monkeypatch.setattr("qdist.commands.simulate.spawn", lambda fn, ranks, args: started.append(ranks) or [None])
    path = tmp_path / "small.qasm"
    path.write_text(f"OPENQASM 3.0; qubit[{qubits}] q; U(1, 0, 0) q[0];")
    for ranks in (2, 3, 4, 7, 8, 9, 64):
        started.clear()
        code = main(["simulate", str(path), "--ranks", str(ranks)])
        assert (code, started) == ((0, [ranks]) if ranks <= most else (2, []))
        assert capsys.readouterr().err.count("\n") == (ranks > most)
        assert main(["plan", str(path), "--ranks", str(ranks)]) == code
        capsys.readouterr()
    assert main(["simulate", str(path), "--ranks", "1", "--observable", f"Z{qubits}"]) == 2
    if most > 1:
        started.clear()
        assert main(["simulate", str(path), "--ranks", "2", "--observable", f"Z{qubits}"]) == 2
        assert not started


@pytest.mark.parametrize("text", ["-Z0", "-0.5*Z0", "-.5Z0 Z1", "- Z0", "-Z0 + 2", "-2", "-Z0 Z1", "-YII"])
def test_observables_may_begin_with_a_minus(qasm, capsys, text) -> None:
    given = [qasm, "--param", "phi=0.25", "--param", "theta=0.1,pi/2,-0.4"]
    found = simulated(capsys, *given, "--observable", text, "--observable", text)
    assert found["values"] == pytest.approx(2 * list(-expected([-observable(text)])), abs=1e-6)
    with pytest.raises(SystemExit):
        main(["simulate", *given, "--observable", "--json"])


def test_a_program_gets_its_own_words_as_they_are(tmp_path, capfd) -> None:
    script = tmp_path / "words.py"
    script.write_text("import sys; print(sys.argv[1:])")
    assert main(["run", str(script), "--observable", "-Z0"]) == 0
    assert "['--observable', '-Z0']" in capfd.readouterr().out


@pytest.mark.parametrize("seed", ["-5", "1.5", "x"])
def test_a_wrong_seed_names_its_option(qasm, capsys, seed) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["simulate", qasm, "--seed", seed])
    assert f"argument --seed: {seed!r} is not a whole number of 0 or more" in capsys.readouterr().err


@pytest.mark.parametrize("ranks", [[], ["-n", "2"]], ids=["here", "ranks"])
@pytest.mark.parametrize(("output", "said"), [("none/t.json", "there is no folder"), (".", "this is a folder")])
def test_trace_refuses_a_file_that_cannot_be_before_it_runs(tmp_path, capfd, monkeypatch, ranks, output, said) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "touch.py").write_text("open('ran', 'w')")
    assert main(["trace", *ranks, "-o", output, "touch.py"]) == 2
    printed = capfd.readouterr().err
    assert printed.startswith(f"qdist trace: --output {output}: {said}")
    assert printed.count("\n") == 1
    assert not (tmp_path / "ran").exists()


def test_random_circuits_need_shots_for_observables(tmp_path, capsys) -> None:
    path = tmp_path / "coin.qasm"
    path.write_text(COIN)
    assert main(["simulate", str(path), "--observable", "Z1"]) == 2
    assert "estimate it with --shots" in capsys.readouterr().err
    found = simulated(capsys, str(path), "--observable", "X1", "--shots", "50", "--seed", "1")
    assert found["values"] == list(qd.compile(qd.Circuit.from_qasm(COIN)).expectations(["X1"], shots=50, seed=1))


def test_amplitudes_take_no_shots(qasm, capsys) -> None:
    given = [qasm, "--param", "phi=0.25", "--param", "theta=0.1,0.2,0.3", "--state"]
    assert main(["simulate", *given, "--shots", "5"]) == 2
    assert capsys.readouterr().err == (
        "qdist simulate: --shots 5: --state prints amplitudes, which are exact; give one of the two\n"
    )
    assert simulated(capsys, *given)["amplitudes"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--state", "--seed", "3"], "--seed 3: --state prints amplitudes, for which nothing is drawn; leave it out"),
        (["--observable", "Z0", "--seed", "0"], "--seed 0: without --shots the values are exact and nothing is drawn"),
        (["--observable", "Z0", "--top", "2"], "--top 2: --observable prints all of its values; leave it out"),
        (["--observable", "Z0", "--shots", "9", "--top", "2"], "--top 2: --observable prints all"),
        (["--json", "--top", "2"], "--top 2: --json prints all outcomes; leave it out"),
    ],
)
def test_options_that_would_do_nothing_are_refused(qasm, capsys, words, told) -> None:
    assert main(["simulate", qasm, "--param", "phi=0.25", "--param", "theta=0.1,0.2,0.3", *words]) == 2
    out, err = capsys.readouterr()
    assert err.startswith(f"qdist simulate: {told}")
    assert (out, err.count("\n")) == ("", 1)


def test_top_says_how_many_amplitudes(qasm, capsys) -> None:
    given = [qasm, "--param", "phi=0.25", "--param", "theta=0.1,0.2,0.3", "--state"]
    assert len(simulated(capsys, *given, "--top", "2")["amplitudes"]) == 2


# Help and exit codes -------------------------------------------------------------------------------------------------


def commands() -> dict:
    (several,) = (a for a in parser()._actions if a.dest == "name")
    return several.choices


@pytest.mark.parametrize("name", ["", *commands()])
def test_every_help_has_an_example(name) -> None:
    text = (commands()[name] if name else parser()).format_help()
    assert "xample" in text
    assert f"qdist {name}".rstrip() in text[text.index("xample") :]


def test_help_explains_exit_codes() -> None:
    assert TEXT in parser().format_help()


def test_an_interrupt_is_130(qasm, monkeypatch) -> None:
    def interrupt(path: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(qd.Circuit, "from_file", interrupt)
    assert main(["simulate", qasm]) == 130


def test_a_reader_that_leaves_is_no_error() -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([sys.executable, "-m", "qdist", "info"], stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")


def test_the_guide_has_the_exit_codes() -> None:
    text = (Path(__file__).parents[2] / "circuits/troubleshooting.md").read_text()
    codes = [line.split()[0] for line in TEXT.splitlines()[1:]]
    assert codes == ["0", "1", "2", "75", "130", "141", "others"]
    for code in codes[:-1]:
        assert f"| {code} |" in text
