"""Random circuits of all kinds of steps of a row program, for tests with and without a GPU."""

import numpy as np

import qdist as qd
from qdist.plan.operations import operations
from qdist.plan.rows import RowRecords, lowered

PARAMETERS = 6


def random_circuit(n: int, seed: int, gates: int = 40) -> qd.Circuit:
    rng = np.random.default_rng(seed)
    circuit, theta = qd.Circuit(n), qd.ParameterVector("p", PARAMETERS)

    def angle():
        first, second = (theta[int(k)] for k in rng.integers(PARAMETERS, size=2))
        return [float(rng.uniform(-3, 3)), float(rng.normal()) * first + second, first + 0.3][rng.integers(3)]

    one = ["rx", "ry", "rz", "p"]
    two = ["rxx", "ryy", "rzz", "crx", "cp"]
    for _ in range(gates):
        a, b, c = (rng.permutation(n).tolist() + [None, None])[:3]
        kind = int(rng.integers(3 if n > 2 else n))
        if kind == 0:
            choice = int(rng.integers(7))
            if choice < 4:
                getattr(circuit, one[choice])(angle(), a)
            elif choice == 4:
                circuit.u(angle(), angle(), angle(), a)
            else:
                circuit.h(a) if choice == 5 else circuit.t(a)
        elif kind == 1:
            choice = int(rng.integers(10))
            if choice < 5:
                getattr(circuit, two[choice])(angle(), a, b)
            elif choice == 5:
                circuit.fsim(angle(), angle(), a, b)
            elif choice == 6:
                matrix = rng.normal(size=(4, 4)) + 1j * rng.normal(size=(4, 4))
                circuit.unitary(np.linalg.qr(matrix)[0], [a, b])
            elif choice == 7:
                circuit.xx_plus_yy(angle(), angle(), a, b)
            else:
                circuit.cx(a, b) if choice == 8 else circuit.swap(a, b)
        else:
            choice = int(rng.integers(3))
            if choice == 0:
                circuit.pauli_rotation(angle(), "".join(rng.choice(list("XYZ"), 3)), [a, b, c])
            else:
                circuit.ccx(a, b, c) if choice == 1 else circuit.cswap(a, b, c)
    for k in range(PARAMETERS):
        circuit.ry(theta[k], int(rng.integers(n)))
    return circuit


def random_sum(n: int, seed: int, terms: int) -> qd.PauliSum:
    rng = np.random.default_rng(seed)
    found = qd.PauliSum({"Z0": 0.5})
    for _ in range(terms):
        letters = rng.choice(list("IXYZ"), n)
        string = " ".join(f"{letter}{q}" for q, letter in enumerate(letters) if letter != "I")
        if string:
            found = found + qd.PauliSum({string: float(rng.normal())})
    return found


def row_records(circuit: qd.Circuit, of_rows: list[int]) -> RowRecords:
    return lowered(circuit.num_qubits, list(operations(circuit)), circuit.affine(), of_rows)
