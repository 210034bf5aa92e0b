"""Small things that one wants from a simulator, a line each.

python circuits/small_wishes.py
"""

from __future__ import annotations

import copy
import pickle

import numpy as np

import qdist as qd


def main() -> list[str]:
    said: list[str] = []

    def show(what: str, value: object) -> None:
        said.append(f"{what:34} {value}")

    a, b = qd.Parameter("a"), qd.Parameter("b")
    circuit = qd.Circuit(3).h(0).cnot(0, 1).ry(a * b, 2).toffoli(0, 1, 2).u3(np.sin(a), 0.1, 0.2, 1)
    values = {"a": 0.3, "b": 0.7}
    program = qd.compile(circuit, dtype="complex128")
    state = program.run(values)
    show("drawing", "\n" + circuit.draw())
    show("values by name", program.expectation("Z0 Z1", values))
    show("gradient of sin(a) and a * b", program.value_and_grad("Z2", values)[1])
    show("unitary matrix", np.shape(circuit.to_matrix(values)))
    show("a gate of my own", circuit.to_gate("mine").num_params)
    twist = qd.generator_gate("twist", [[1, 1j], [-1j, 0]])
    show("exp(-i t/2 G)", qd.simulate(qd.Circuit(1).append(twist, 0, [0.4])).expectation("Y0"))
    show("state", state)
    show("a few amplitudes", state.amplitudes(["000", "111"]))
    show("reduced density matrix", state.density_matrix([0]).round(3).tolist())
    show("entropy in bits", f"{state.entropy([0]):.4f}")
    show("mutual information", f"{state.mutual_information(0, 2):.4f}")
    show("Schmidt values", state.schmidt_values([0]).round(4))
    show("purity", f"{state.purity([0, 1]):.4f}")
    show("single precision", state.astype("complex64") == state)
    show("with shots", program.expectation("Z0 Z1", values, shots=1000, seed=0))
    show("several observables", program.expectations(["Z0", "X1"], values).round(4))
    show("samples", program.sample(5, values, seed=0))
    show("a shadow", program.shadow(2000, values, seed=0).expectation("Z0 Z1"))
    show("copied", copy.deepcopy(program).expectation("Z2", values) == program.expectation("Z2", values))
    show("pickled", pickle.loads(pickle.dumps(program)).circuit.num_qubits)
    print("\n".join(said))
    return said


if __name__ == "__main__":
    main()
