"""Words at the edge: help() explains arguments, mistyped ones are answered, messages name the way out."""

import inspect

import numpy as np
import pytest

import qdist as qd
from qdist.backends.memory import check_memory
from qdist.state.reduced import ReducedStates


def callables() -> list[tuple[str, object, object]]:
    """(name, what has the docstring, what has the signature) of all public functions, classes and Program's methods."""
    found: list[tuple[str, object, object]] = []
    for name in qd.__all__:
        given = getattr(qd, name)
        if inspect.isclass(given) and not issubclass(given, Exception):
            found.append((name, given, given.__init__))
        elif inspect.isfunction(given):
            found.append((name, given, given))
    for owner in (qd.Program, qd.StateVector):
        for name in (*vars(owner), *vars(ReducedStates)):
            method = getattr(owner, name, None)
            if callable(method) and not name.startswith("_") and method.__doc__:
                found.append((f"{owner.__name__}.{name}", method, method))
    for owner in (qd.noise.NoisyProgram, qd.noise.NoiseModel):
        for name, method in vars(owner).items():
            if callable(method) and not name.startswith("_"):
                found.append((f"{owner.__name__}.{name}", method, method))
    found.append(("noise.compile", qd.noise.compile, qd.noise.compile))
    found.append(("nn.QuantumLayer", qd.nn.QuantumLayer, qd.nn.QuantumLayer.__init__))
    return found


CALLABLES = callables()
# What a first argument is, is said by the name of the method or by the sentence.
PLAIN = {"self", "args", "kwargs", "other", "name", "length", "paulis", "terms", "matrix", "qubit", "index"}


@pytest.mark.parametrize(("name", "documented", "called"), CALLABLES, ids=[name for name, _, _ in CALLABLES])
def test_help_names_every_argument(name: str, documented: object, called: object) -> None:
    text = " ".join(filter(None, [inspect.getdoc(documented), inspect.getdoc(called)]))
    parameters = [p for p in inspect.signature(called).parameters if p not in PLAIN]
    missing = [p for p in parameters[1 if len(parameters) == 1 else 0 :] if p not in text]
    assert not missing, f"{name} does not say what {missing} are"


@pytest.mark.parametrize(
    ("call", "answer"),
    [
        (lambda: qd.simulate(qd.Circuit(1), devise="cpu"), "did you mean 'device'"),
        (lambda: qd.compile(qd.Circuit(1), dtyp="complex64"), "did you mean 'dtype'"),
        (lambda: qd.compile(qd.Circuit(1)).expectation("Z0", shot=10), "did you mean 'shots'"),
        (lambda: qd.nn.QuantumLayer(qd.Circuit(1), "Z0", weight=[]), "did you mean 'weights'"),
        (lambda: qd.library.hardware_efficient(2, 1, rotation=["rx"]), "did you mean 'rotations'"),
        (lambda: qd.StateVector.basis(2, 1, foo=1), "it takes .*num_qubits"),
        (lambda: qd.Circuit(1).draw(colour="red"), "it takes output, width"),
        (lambda: qd.spawn(print, 2, tmeout=1), "did you mean 'timeout'"),
        (lambda: PROGRAM.run(sed=1), "did you mean 'seed'"),
        (lambda: PROGRAM.run(zzz=1), "it takes params, initial, seed, out, progress"),
        (lambda: PROGRAM.value_and_grad("Z0", metod="adjoint"), "did you mean 'method'"),
        (lambda: PROGRAM.vjp(["Z0"], None, [1.0], inital=1), "did you mean 'initial'"),
        (lambda: PROGRAM.jacobian(["Z0"], parms=1), "did you mean 'params'"),
        (lambda: qd.StateVector(1).expectation("Z0", shot=3), "did you mean 'shots'"),
        (lambda: qd.StateVector(1).expectations(["Z0"], sed=3), "did you mean 'seed'"),
        (lambda: qd.StateVector(1).sample(3, sed=3), "did you mean 'seed'"),
        (lambda: qd.StateVector(1).counts(shot=3), "did you mean 'shots'"),
        (lambda: qd.library.qft(num_qubit=3), "did you mean 'num_qubits'"),
        (lambda: qd.noise.compile(qd.Circuit(1), metod=3), "did you mean 'method'"),
    ],
)
def test_mistyped_arguments_are_answered(call: object, answer: str) -> None:
    with pytest.raises(TypeError, match=f"unexpected keyword argument.*; {answer}"):
        call()  # type: ignore[operator]


PROGRAM = qd.compile(qd.Circuit(1).h(0))
FUNCTIONS = [
    (name, given)
    for module in (qd, qd.library, qd.noise)
    for name in module.__all__
    if inspect.isfunction(given := getattr(module, name))
]


@pytest.mark.parametrize(("name", "function"), FUNCTIONS, ids=[name for name, _ in FUNCTIONS])
def test_every_public_function_answers_mistyped_arguments(name: str, function: object) -> None:
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'qqqq'; it takes \w"):
        function(qqqq=1)  # type: ignore[operator]


def test_other_type_errors_stay_what_they_are() -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        qd.compile()  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: qd.Circuit(2).measure(0, 0), r"no classical bits; make it with more of them: Circuit\(2, 1\)"),
        (lambda: qd.Circuit(2).measure([0, 1], [0, 1]), r"classical bit 0 .*: Circuit\(2, 2\)"),
        (lambda: qd.Circuit(2).measure(np.arange(2), np.arange(2)), r"Circuit\(2, 2\)"),
        (lambda: qd.Circuit(2, 1).if_(3, 1), r"Circuit\(2, 4\)"),
        (lambda: qd.comm.Mesh(qd.comm.counting_communicator(1), dp=2, state=2), "does not make 1 rank: start as many"),
        (lambda: qd.StateVector.check_room(62, "complex64", device="cpu"), "ranks would do, on .* machines"),
        (lambda: check_memory(30, np.dtype("complex64"), 2, 1 << 30), "8 ranks would do, on 4 times as many machines"),
    ],
)
def test_messages_name_the_way_out(call: object, message: str) -> None:
    with pytest.raises((ValueError, MemoryError), match=message):
        call()  # type: ignore[operator]


def test_the_names_of_the_readme_are_there_after_the_import() -> None:
    for name in ("checkpoint", "parallel", "comm", "data", "library", "nn", "optim"):
        assert inspect.ismodule(getattr(qd, name))


def test_what_a_transport_says_names_the_way_to_find_the_rank() -> None:
    from qdist.comm.errors import CommError, explained

    raw = RuntimeError("Message truncated")
    assert "irecv failed: Message truncated. If the ranks disagree" in str(explained("irecv", raw))
    assert "QDIST_DEBUG=comm" in str(explained("irecv", raw))
    known = CommError("known")
    assert explained("irecv", known) is known
