"""NoiseModel: which channels come behind which gates."""

import numpy as np
import pytest
from kraus_reference import density

import qdist as qd
from qdist.circuit import CircuitError

noise = qd.noise


def placed(circuit: qd.Circuit) -> list[tuple[str, tuple[int, ...]]]:
    return [(i.gate.name, i.qubits) for i in circuit]


def test_channels_come_behind_the_gates_they_are_for() -> None:
    model = noise.NoiseModel()
    assert model.add(noise.depolarizing(0.1, 2), "cnot") is model
    model.add(noise.bit_flip(0.2), ["h", "cx"], qubits=[0]).add(noise.phase_damping(0.1), "rx")
    circuit = qd.Circuit(3).h(0).h(1).cx(1, 0).barrier().rx(0.3, 2).measure_all()
    found = placed(model.applied(circuit))
    assert found[:8] == [
        ("h", (0,)),
        ("bit_flip", (0,)),
        ("h", (1,)),
        ("cx", (1, 0)),
        ("depolarizing", (1, 0)),
        ("bit_flip", (0,)),
        ("barrier", (0, 1, 2)),
        ("rx", (2,)),
    ]
    assert found[8] == ("phase_damping", (2,))
    assert len(found) == 12
    assert len(circuit) == 8  # Left alone.
    assert "depolarizing(0.1) behind cx" in repr(model)
    assert repr(noise.NoiseModel()) == "<NoiseModel: no noise>"


def test_channels_behind_all_gates() -> None:
    model = noise.NoiseModel().add(noise.depolarizing(0.1)).add(noise.depolarizing(0.2, 2)).readout(0.1)
    model.readout((0.2, 0.3), 1)
    own = qd.Circuit(2).ry(0.1, 0).cx(0, 1).to_gate("own")
    circuit = qd.Circuit(3).h(0).append(own, [1, 2]).reset(0).readout_error(0.5, 2)
    found = placed(model.applied(circuit))
    assert found == [
        ("h", (0,)),
        ("depolarizing", (0,)),
        ("own", (1, 2)),
        ("depolarizing", (1,)),
        ("depolarizing", (2,)),
        ("depolarizing", (1, 2)),
        ("reset", (0,)),
        ("depolarizing", (0,)),
        ("readout_error", (2,)),
        ("readout_error", (0,)),
        ("readout_error", (1,)),
    ]
    errors = [i.gate.data.tolist() for i in model.applied(circuit) if i.gate.kind == "readout"]
    assert errors == [[0.5, 0.5], [0.1, 0.1], [0.2, 0.3]]
    assert "readout_error(0.2,0.3) of qubit 1" in repr(model)


def test_channels_come_behind_what_is_initialized() -> None:
    pair, flip = noise.depolarizing(0.1, 2), noise.bit_flip(0.2)
    model = noise.NoiseModel().add(pair, "initialize").add(flip, ["reset", "initialize"], 2)
    circuit = qd.Circuit(3, 1).h(0).measure(0, 0)
    with circuit.if_(0, 1):
        circuit.initialize(2, [2, 0])
    applied = model.applied(circuit.x(2))
    assert placed(applied)[2:] == [
        ("initialize", (2, 0)),
        ("depolarizing", (2, 0)),
        ("bit_flip", (2,)),
        ("x", (2,)),
    ]
    assert {i.condition for i in list(applied)[2:5]} == {(((0,), 1, True),)}
    assert placed(noise.NoiseModel().add(flip).applied(qd.Circuit(2).initialize("10"))) == [
        ("initialize", (0, 1)),
        ("bit_flip", (0,)),
        ("bit_flip", (1,)),
    ]


@pytest.mark.parametrize("qubits", [1, np.array(1), np.int8(1), [1], np.array([1], np.uint8), range(1, 2)], ids=repr)
def test_qubits_of_models_in_whatever_holds_them(qubits) -> None:
    def errors(model: noise.NoiseModel) -> qd.Circuit:
        return model.applied(qd.Circuit(3).x(range(3)))

    assert errors(noise.NoiseModel().readout(0.1, qubits)) == errors(noise.NoiseModel().readout(0.1, 1))
    flip = noise.bit_flip(0.1)
    assert errors(noise.NoiseModel().add(flip, "x", qubits)) == errors(noise.NoiseModel().add(flip, "x", 1))


def test_compiled_with_a_model_is_compiled_with_its_channels() -> None:
    model = noise.NoiseModel().add(noise.amplitude_damping(0.1)).add(noise.depolarizing(0.1, 2), ["cx"]).readout(0.05)
    a = qd.Parameter("a")
    circuit = qd.Circuit(2).ry(a, 0).cx(0, 1).rx(0.3, 1)
    program = noise.compile(circuit, model, method="density_matrix", dtype="complex128")
    np.testing.assert_allclose(program.density_matrix([0.7]), density(model.applied(circuit), [0.7]), atol=1e-13)
    assert program.circuit.count_ops()["amplitude_damping"] == 4
    by_name = noise.compile(model.applied(circuit), method="density_matrix", dtype="complex128")
    assert by_name.expectation("Z0", {"a": 0.7}) == program.expectation("Z0", [0.7])


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda m: m.add(noise.bit_flip(0.1), "cxx"), r"no gate named 'cxx'; did you mean 'cx'\?"),
        (lambda m: m.add(noise.depolarizing(0.1, 2), "h"), r"is on 2 qubits and h on 1: give a channel on one qubit"),
        (lambda m: m.add(0.1, "h"), r"adds channels, such as noise.depolarizing\(0.01\); got 0.1"),
        (lambda m: m.readout(1.5), r"readout_error: p=1.5"),
        (lambda m: m.readout(0.1, -1), "qubits of a NoiseModel are one int >= 0 or several; got -1"),
        (lambda m: m.readout(0.1, [0, 1.5]), r"one int >= 0 or several; got \[0, 1.5\]"),
        (lambda m: m.readout(0.1, "1"), "one int >= 0 or several; got '1'"),
        (lambda m: m.readout(0.1, [None]), "one int >= 0 or several"),
        (lambda m: m.add(noise.bit_flip(0.1), "x", [0, -2]), "one int >= 0 or several"),
        (lambda m: m.add(noise.bit_flip(0.1), "measure"), r"model.readout\(p\)"),
        (lambda m: m.add(noise.bit_flip(0.1), "RX"), "did you mean 'rx'"),
        (lambda m: m.add(noise.bit_flip(0.1), "x", "0"), "one int >= 0 or several"),
        (lambda m: m.add(noise.bit_flip(0.1), "x", np.array([[0, 1]])), "one int >= 0 or several"),
        (
            lambda m: m.add(noise.depolarizing(0.1, 2), "diagonal").applied(qd.Circuit(1).diagonal([1, 1j], 0)),
            r"is on 2 qubits and diagonal on 1",
        ),
    ],
)
def test_what_no_model_can_be(ask, message: str) -> None:
    with pytest.raises(CircuitError, match=message):
        ask(noise.NoiseModel())
