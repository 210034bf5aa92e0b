"""Random tapes over all operations, observables and measurements of the device, for the tests of this folder."""

import numpy as np
import pennylane as qml

from qdist.interop.pennylane.gates import FIXED, RULES

LABELS = ["a", 3, "q", -1, 0]


def operation(rng, wires, batch=None):
    """One of all operations, maybe inverted or controlled, on some of the wires."""
    kinds = [kind for kind in [*FIXED, *RULES] if kind is not qml.Identity]
    kind = kinds[rng.integers(len(kinds))]
    own = [wires[k] for k in rng.permutation(len(wires))]

    def angle():
        shape = () if batch is None or rng.random() < 0.5 else (batch,)
        return rng.uniform(-np.pi, np.pi, shape)

    if kind is qml.PauliRot:
        count = int(rng.integers(1, 4))
        op = qml.PauliRot(angle(), "".join(rng.choice(list("IXYZ"), count)), wires=own[:count])
    elif kind is qml.MultiControlledX:
        op = qml.MultiControlledX(wires=own[:4], control_values=rng.integers(0, 2, 3).tolist())
    elif kind is qml.FermionicSingleExcitation:
        op = kind(rng.uniform(-np.pi, np.pi), wires=own[: int(rng.integers(2, 5))])
    elif kind is qml.FermionicDoubleExcitation:
        op = kind(rng.uniform(-np.pi, np.pi), wires1=own[:2], wires2=own[2:4])
    elif kind is qml.GlobalPhase:
        op = qml.GlobalPhase(angle(), wires=own[0])
    else:
        count = kind.num_wires if isinstance(kind.num_wires, int) else int(rng.integers(1, 4))
        op = kind(*[angle() for _ in range(kind.num_params)], wires=own[:count])
    if rng.random() < 0.2:
        op = qml.adjoint(op, lazy=True)
    free = [wire for wire in own if wire not in op.wires]
    if free and rng.random() < 0.2:
        op = qml.ctrl(op, control=free[:1], control_values=[int(rng.integers(2))])
    return op


def data_operation(rng, wires):
    """One of those that carry a matrix."""
    own = [wires[k] for k in rng.permutation(len(wires))]
    dense = np.linalg.qr(rng.normal(size=(4, 4)) + 1j * rng.normal(size=(4, 4)))[0]
    if rng.random() < 0.5:
        return qml.QubitUnitary(dense, wires=own[:2])
    return qml.DiagonalQubitUnitary(np.exp(1j * rng.normal(size=4)), wires=own[:2])


def observable(rng, wires):
    """A Pauli word, a sum, a product, a matrix, or a projector."""
    own = [wires[k] for k in rng.permutation(len(wires))]
    paulis = [qml.X, qml.Y, qml.Z, qml.Hadamard]

    def factor(wire):
        return paulis[rng.integers(4)](wire)

    matrix = rng.normal(size=(4, 4)) + 1j * rng.normal(size=(4, 4))
    vector = rng.normal(size=4) + 1j * rng.normal(size=4)
    choices = [
        lambda: paulis[rng.integers(3)](own[0]),
        lambda: qml.prod(factor(own[0]), factor(own[1])),
        lambda: qml.sum(qml.prod(factor(own[0]), factor(own[2])), qml.s_prod(0.7, factor(own[1]))),
        lambda: qml.Hamiltonian([0.3, -1.2, 0.5], [qml.X(own[0]) @ qml.Y(own[1]), qml.Z(own[2]), qml.Identity(own[0])]),
        lambda: qml.Hermitian(matrix + matrix.conj().T, wires=own[:2]),
        lambda: qml.Hermitian(matrix + matrix.conj().T, wires=own[:2]) @ qml.Z(own[2]),
        lambda: qml.Projector(rng.integers(0, 2, 2), wires=own[:2]),
        lambda: qml.Projector(vector / np.linalg.norm(vector), wires=own[:2]),
        lambda: qml.Identity(own[0]),
    ]
    return choices[rng.integers(len(choices))]()


def measurement(rng, wires):
    """Any that reads a state."""
    own = [wires[k] for k in rng.permutation(len(wires))]
    choices = [
        lambda: qml.expval(observable(rng, wires)),
        lambda: qml.expval(observable(rng, wires)),
        lambda: qml.var(observable(rng, wires)),
        lambda: qml.probs(wires=own[: int(rng.integers(1, 4))]),
        lambda: qml.probs(op=qml.prod(qml.X(own[0]), qml.Y(own[1]))),
        qml.state,
        lambda: qml.density_matrix(wires=own[:2]),
        lambda: qml.purity(wires=own[:2]),
        lambda: qml.vn_entropy(wires=own[:2]),
        lambda: qml.mutual_info(wires0=own[:1], wires1=own[1:2]),
    ]
    return choices[rng.integers(len(choices))]()


def script(rng, wires, batch=None, length=14):
    """A tape that begins with a state and has operations and measurements of all kinds."""
    ops = []
    start = rng.integers(3)
    if start == 0:
        ops.append(qml.BasisState(rng.integers(0, 2, 2), wires=wires[1:3]))
    elif start == 1:
        vector = rng.normal(size=4) + 1j * rng.normal(size=4)
        ops.append(qml.StatePrep(vector / np.linalg.norm(vector), wires=[wires[2], wires[0]]))
    ops += [qml.RY(rng.uniform(-3, 3), wires=wire) for wire in wires]
    ops += [operation(rng, wires, batch) for _ in range(length)] + [data_operation(rng, wires)]
    if batch is not None:
        ops.append(qml.RX(rng.uniform(-3, 3, batch), wires=wires[0]))
    return qml.tape.QuantumScript(ops, [measurement(rng, wires) for _ in range(int(rng.integers(1, 4)))])


def run(device, tape):
    """The results of a tape, as a QNode without derivatives would have them."""
    return qml.execute([tape], device, diff_method=None)[0]
