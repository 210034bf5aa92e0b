"""Families of circuits as users bring them, and what each costs on one thread.

    python benchmarks/families.py --qubits 20                         # all, complex64
    python benchmarks/families.py --only uccsd heisenberg --gradient  # with gradients, in forward runs
    python benchmarks/families.py --dtype complex128 --plan           # with stages and blocks

Timed is the CPU time of the process on one thread, which a busy machine changes far less than the clock; the smallest
of several repeats counts. A gradient is that of the Heisenberg energy by all parameters of the circuit, and by every
angle of circuits that have no parameters; it is divided by the time of that circuit's own run.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from common import machine_line, table
from numpy.typing import NDArray

import qdist as qd
from qdist.circuit.library import fermions
from qdist.native import kernels

_DOUBLE = {"XXXY": 1, "XXYX": 1, "XYXX": -1, "YXXX": -1, "YYYX": -1, "YYXY": -1, "YXYY": 1, "XYYY": 1}
"""The strings of a double excitation, and their signs."""


def qaoa(n: int) -> qd.Circuit:
    """MaxCut of a random 3-regular graph, 4 layers."""
    rng = np.random.default_rng(0)
    while True:
        pairs = rng.permutation(np.repeat(np.arange(n), 3)).reshape(-1, 2)
        edges = {(int(min(p)), int(max(p))) for p in pairs}
        if len(edges) == len(pairs) and all(a != b for a, b in edges):
            return qd.library.qaoa_maxcut(sorted(edges), 4)


def heisenberg(n: int) -> qd.Circuit:
    """10 Trotter steps: RXX, RYY and RZZ on a brickwork of pairs, RZ on all."""
    theta = qd.ParameterVector("t", 40)
    circuit = qd.Circuit(n).x(range(0, n, 2))
    for x, y, z, field in (theta[4 * k : 4 * k + 4] for k in range(10)):
        for q in [*range(0, n - 1, 2), *range(1, n - 1, 2)]:
            circuit.rxx(x, q, q + 1).ryy(y, q, q + 1).rzz(z, q, q + 1)
        circuit.rz(field, range(n))
    return circuit


def grid(n: int) -> qd.Circuit:
    """16 layers of random square roots of X, Y and W on all qubits, then fSim along one direction of a grid."""
    rng = np.random.default_rng(0)
    roots = [
        np.array(m) / np.sqrt(2) for m in ([[1, -1j], [-1j, 1]], [[1, -1], [1, 1]], [[1, -(1j**0.5)], [1j**-0.5, 1]])
    ]
    width = next(w for w in range(int(n**0.5), 0, -1) if n % w == 0)
    circuit = qd.Circuit(n)
    for layer in range(16):
        for q in range(n):
            circuit.unitary(roots[rng.integers(3)], [q])
        step, odd = (1, width)[layer // 2 % 2], layer % 2
        for q in range(n - step):
            along = q % width if step == 1 else q // width
            if along % 2 == odd and (step > 1 or along + 1 < width):
                circuit.fsim(np.pi / 2, np.pi / 6, q, q + step)
    return circuit


def zz_map(n: int) -> qd.Circuit:
    """The ZZ feature map, all pairs, 2 repetitions, as CX, phase, CX."""
    x = np.random.default_rng(0).uniform(0, 1, n)
    circuit = qd.Circuit(n)
    for _ in range(2):
        for q in range(n):
            circuit.h(q).p(2 * x[q], q)
        for b in range(n):
            for a in range(b):
                circuit.cx(a, b).p(2 * (np.pi - x[a]) * (np.pi - x[b]), b).cx(a, b)
    return circuit


def doubles(n: int) -> qd.Circuit:
    """120 random double excitations, 960 Pauli rotations with Z letters between the flips."""
    circuit = qd.Circuit(n).x(range(n // 2))
    for angle, label, qubits in _excitations(n, 120):
        circuit.pauli_rotation(angle, label, qubits)
    return circuit


def doubles_cx(n: int) -> qd.Circuit:
    """The same as compilers write them: H or RX, a ladder of CX, RZ, and all of that back."""
    circuit = qd.Circuit(n).x(range(n // 2))
    for angle, label, qubits in _excitations(n, 120):
        letters = dict(sorted(zip(qubits, reversed(label))))
        for turn in (np.pi / 2, -np.pi / 2):
            for q, letter in letters.items():
                if letter == "X":
                    circuit.h(q)
                elif letter == "Y":
                    circuit.rx(turn, q)
            ladder = list(pairwise(letters))
            if turn > 0:
                for a, b in ladder:
                    circuit.cx(a, b)
                circuit.rz(angle, ladder[-1][1])
                for a, b in reversed(ladder):
                    circuit.cx(a, b)
    return circuit


def _excitations(n: int, count: int) -> Iterator[tuple[Any, str, list[int]]]:
    """An angle, a label and its qubits for each Pauli rotation."""
    rng = np.random.default_rng(0)
    for angle in qd.ParameterVector("t", count):
        a, b = sorted(rng.choice(n // 2, 2, replace=False).tolist())
        c, d = sorted((n // 2 + rng.choice(n - n // 2, 2, replace=False)).tolist())
        between = [*range(a + 1, b), *range(c + 1, d)]
        for letters, sign in _DOUBLE.items():
            yield angle * (sign / 4), letters + "Z" * len(between), [*between, a, b, c, d]


def adders(n: int) -> qd.Circuit:
    """Three additions of registers with a carry that ripples through them, from a uniform state; Toffoli gates as
    compilers write them."""
    circuit = qd.Circuit(n).h(range(n))
    rows = [(0 if q == 1 else q - 2, q + 1, q) for q in range(1, n - 2, 2)]
    """The carry before, and a bit of each register."""
    for _ in range(3):
        for carry, b, a in rows:
            _toffoli(circuit.cx(a, b).cx(a, carry), carry, b, a)
        circuit.cx(rows[-1][2], n - 1)
        for carry, b, a in reversed(rows):
            _toffoli(circuit, carry, b, a)
            circuit.cx(a, carry).cx(carry, b)
    return circuit


def _toffoli(circuit: qd.Circuit, a: int, b: int, target: int) -> None:
    circuit.h(target).cx(b, target).tdg(target).cx(a, target).t(target).cx(b, target).tdg(target).cx(a, target)
    circuit.t(b).t(target).h(target).cx(a, b).t(a).tdg(b).cx(a, b)


def transpiled(n: int) -> qd.Circuit:
    """8 layers as compilers for hardware write them: RZ SX RZ SX RZ on all qubits, CX on a brickwork of pairs."""
    theta = iter(qd.ParameterVector("t", 24 * n))
    circuit = qd.Circuit(n)
    for layer in range(8):
        for q in range(n):
            circuit.rz(next(theta), q).sx(q).rz(next(theta), q).sx(q).rz(next(theta), q)
        for q in range(layer % 2, n - 1, 2):
            circuit.cx(q, q + 1)
    return circuit


def hopping(n: int) -> qd.Circuit:
    """8 layers of hopping on two chains, from a lattice half full, and phases between the sites of both."""
    theta, half = iter(qd.ParameterVector("t", 24 * n)), n // 2
    circuit = qd.Circuit(n).x(range(0, n, 2))
    for _ in range(8):
        for first in (0, half):
            for q in [*range(first, first + half - 1, 2), *range(first + 1, first + half - 1, 2)]:
                circuit.xx_plus_yy(next(theta), next(theta), q, q + 1)
        for q in range(half):
            circuit.cp(next(theta), q, half + q)
    return circuit


def iswaps(n: int) -> qd.Circuit:
    """12 layers of any matrix on every qubit, and iSwap on random pairs."""
    theta, rng = iter(qd.ParameterVector("t", 36 * n)), np.random.default_rng(0)
    circuit = qd.Circuit(n)
    for _ in range(12):
        for q in range(n):
            circuit.u(next(theta), next(theta), next(theta), q)
        for a, b in rng.permutation(n)[: n // 2 * 2].reshape(-1, 2).tolist():
            circuit.iswap(a, b)
    return circuit


def trotter2(n: int) -> qd.Circuit:
    """10 Trotter steps of second order on a ring: half of the field, the bonds, half of the field."""
    theta = qd.ParameterVector("t", 20)
    circuit = qd.Circuit(n)
    for field, bond in (theta[2 * k : 2 * k + 2] for k in range(10)):
        circuit.rx(field, range(n))
        for q in range(n):
            circuit.rzz(bond, q, (q + 1) % n)
        circuit.rx(field, range(n))
    return circuit


def clifford_t(n: int) -> qd.Circuit:
    """Random H, S, T and CX, 20 a qubit."""
    rng = np.random.default_rng(0)
    circuit = qd.Circuit(n)
    for name in rng.choice(["h", "s", "t", "cx", "cx"], 20 * n).tolist():
        circuit.append(qd.circuit.GATES[name], rng.choice(n, 1 + (name == "cx"), replace=False).tolist())
    return circuit


def volume_cx(n: int) -> qd.Circuit:
    """10 layers of random gates on pairs as compilers write them: three CX, and any matrix on both qubits around
    each."""
    rng = np.random.default_rng(0)
    circuit = qd.Circuit(n)
    for _ in range(10):
        order = rng.permutation(n).tolist()
        for a, b in zip(order[::2], order[1::2]):
            for k in range(4):
                for q in (a, b):
                    circuit.u(*rng.uniform(-3, 3, 3), q)
                if k < 3:
                    circuit.cx(a, b)
    return circuit


def qcnn(n: int) -> qd.Circuit:
    """A convolutional network: three rounds of any gate on all neighbours, by 15 angles, then half of the qubits."""
    theta = iter(qd.ParameterVector("t", 90 * n + 2 * n))
    circuit, left = qd.Circuit(n), list(range(n))
    while len(left) > 1:
        for a, b in 3 * [*zip(left[::2], left[1::2]), *zip(left[1::2], left[2::2])]:
            for last in (False, True):
                for q in (a, b):
                    circuit.rz(next(theta), q).ry(next(theta), q).rz(next(theta), q)
                if not last:
                    circuit.rxx(next(theta), a, b).ryy(next(theta), a, b).rzz(next(theta), a, b)
        for a, b in zip(left[::2], left[1::2]):
            circuit.cp(next(theta), a, b).ry(next(theta), b)
        left = left[1::2] + left[-1:] * (len(left) % 2)
    return circuit


FAMILIES: dict[str, Callable[[int], qd.Circuit]] = {
    "ansatz": lambda n: qd.library.hardware_efficient(n, 8),
    "qft": lambda n: qd.Circuit(n).x(0).compose(qd.library.qft(n, swaps=False)),
    "volume": lambda n: qd.library.quantum_volume(n, 10, seed=5),
    "qaoa": qaoa,
    "heisenberg": heisenberg,
    "layers": lambda n: qd.library.strongly_entangling_layers(n, 6),
    "grid": grid,
    "zz_map": zz_map,
    "grover": lambda n: qd.library.grover(["01" * (n // 2) + "1" * (n % 2)], 12),
    "doubles": doubles,
    "doubles_cx": doubles_cx,
    "adders": adders,
    "transpiled": transpiled,
    "hopping": hopping,
    "iswaps": iswaps,
    "trotter2": trotter2,
    "clifford_t": clifford_t,
    "volume_cx": volume_cx,
    "qcnn": qcnn,
    "uccsd": lambda n: fermions.uccsd(n // 2 // 2 * 2, n // 2 * 2),
}


def trained(circuit: qd.Circuit) -> tuple[qd.Circuit, NDArray[np.float64]]:
    """The circuit with a parameter for every angle, and their values."""
    result, values = qd.Circuit(circuit.num_qubits), []
    for instruction in circuit:
        angles = [qd.Parameter(f"angle{len(values) + k}") for k in range(len(instruction.params))]
        values += map(float, instruction.params)
        result.append(instruction.gate, instruction.qubits, angles)
    return result, np.array(values)


def seconds(run: Callable[[], object], repeats: int) -> float:
    """CPU time of a run on one thread: the least of several, after one that warms up."""
    times = []
    for _ in range(repeats + 1):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times[1:])


def row(name: str, n: int, options: argparse.Namespace) -> list[object]:
    circuit = FAMILIES[name](n)
    theta = np.random.default_rng(7).uniform(-1, 1, circuit.num_parameters)
    start = time.process_time()
    program = qd.compile(circuit, dtype=options.dtype)
    planning = time.process_time() - start
    forward = seconds(lambda: program.run(theta), options.repeats)
    cells: list[object] = [name, n, len(circuit), f"{1e3 * planning:.0f}", f"{1e3 * forward:.1f}"]
    if options.gradient:
        if not circuit.num_parameters:
            circuit, theta = trained(circuit)
            program = qd.compile(circuit, dtype=options.dtype)
            forward = seconds(lambda: program.run(theta), options.repeats)
        ratio, energy = "", qd.library.heisenberg_xxz(n)
        if circuit.num_parameters:
            ratio = f"{seconds(lambda: program.value_and_grad(energy, theta), options.repeats) / forward:.2f}"
        cells.append(ratio)
    if options.plan:
        kinds = Counter(block.kind for block in program.plan.blocks)
        precision = "double" if program.plan.in_double else "single"
        cells.append(f"{precision}, {program.plan.sweeps} sweeps: {', '.join(f'{c} {k}' for k, c in kinds.items())}")
    return cells


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--qubits", type=int, nargs="+", default=[20])
    parser.add_argument("--only", nargs="+", choices=FAMILIES, default=[name for name in FAMILIES if name != "uccsd"])
    parser.add_argument("--dtype", choices=["complex64", "complex128"], default="complex64")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--gradient", action="store_true", help="also gradients, in forward runs")
    parser.add_argument("--plan", action="store_true", help="also sweeps and blocks")
    options = parser.parse_args(arguments)
    kernels.set_threads(1)
    print(machine_line())
    header = ["circuit", "qubits", "gates", "planning ms", "forward ms"]
    header += ["gradient/forward"] * options.gradient + ["plan"] * options.plan
    print(table(header, [row(name, n, options) for name in options.only for n in options.qubits]))


if __name__ == "__main__":
    main()
