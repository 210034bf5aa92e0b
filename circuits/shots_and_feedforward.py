"""What a device would do: teleportation with corrections that depend on outcomes, and energies with error bars.

python circuits/shots_and_feedforward.py
"""

from __future__ import annotations

import qdist as qd


def teleported(angle: float) -> qd.Circuit:
    """ry(angle)|0> of qubit 0 on qubit 2, by two measurements and what follows from them."""
    circuit = qd.Circuit(3, 2).ry(angle, 0).h(1).cx(1, 2).cx(0, 1).h(0).measure([0, 1], [0, 1])
    with circuit.if_(1, 1):
        circuit.x(2)
    with circuit.if_(0, 1):
        circuit.z(2)
    return circuit


def main() -> dict[str, qd.Program]:
    program = qd.compile(teleported(0.8))
    print("teleported <Z>:", program.expectation("Z2", shots=200, seed=0), "exact 0.696707")

    molecule = qd.library.h2()
    ansatz = qd.compile(qd.library.uccsd(2, 4))
    energy = molecule.hamiltonian()
    angles = [0.0, 0.0, -0.113]
    print("H2, exact:       ", f"{ansatz.expectation(energy, angles):.6f}")
    print("H2, 10,000 shots:", ansatz.expectation(energy, angles, shots=10_000, seed=1))
    print("and bad readout: ", ansatz.expectation(energy, angles, shots=10_000, seed=1, readout_error=0.02))
    print("from a shadow:   ", ansatz.shadow(10_000, angles, seed=1).expectation(energy))
    return {"teleported": program, "h2": ansatz}


if __name__ == "__main__":
    main()
