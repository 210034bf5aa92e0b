"""Gradients in PennyLane: qdist.qubit beside Lightning and default.qubit, in the same run, with the same QNodes.

    python benchmarks/pennylane_bench.py [--cases ansatz uccsd layer] [--small] [--repeats 5] [--save]

ansatz: the gradient of a Heisenberg energy by 320 angles on 20 qubits, also by our own Program, which tells what
PennyLane costs. uccsd: the gradient of the energy of H2O by the angles of UCCSD (PennyLane's own integrals, STO-3G,
frozen core: 12 qubits). layer: forward and backward of a TorchLayer of 8 qubits with 256 rows, and of default.qubit's
backpropagation under jax.jit where jax is installed. Every device's gradient is compared with that of qdist.qubit.
Prints the median of the repeats; a device that is not installed is left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pennylane as qml
from common import machine_line, save, table

import qdist as qd
from qdist.interop.pennylane import QdistQubit

DEVICES = ("qdist.qubit", "lightning.qubit", "lightning.kokkos", "lightning.gpu")
Row = tuple[str, str, float, float, float]


def median_seconds(run: Callable[[], object], repeats: int) -> float:
    run()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def made(name: str, wires: int) -> Any:
    """The device, or None where it is not installed."""
    if name == "qdist.qubit":
        return QdistQubit(wires=wires)
    try:
        return qml.device(name, wires=wires)
    except (qml.exceptions.DeviceError, ImportError, ModuleNotFoundError):
        return None


def compared(case: str, runs: dict[str, Callable[[], Any]], repeats: int) -> list[Row]:
    """Seconds of each, how many times qdist's, and the largest difference from qdist's gradient."""
    rows: list[Row] = []
    reference, own = None, 0.0
    for name, run in runs.items():
        found = np.concatenate([np.ravel(one) for one in run()])
        seconds = median_seconds(run, repeats)
        if reference is None:
            reference, own = found, seconds
        rows.append((case, name, seconds, seconds / own, float(np.abs(found - reference).max())))
    return rows


def ansatz(small: bool, repeats: int) -> list[Row]:
    wires, layers = (8, 2) if small else (20, 8)
    angles = qml.numpy.array(np.random.default_rng(1).uniform(-1, 1, (layers, wires, 2)))
    bonds = [(i, (i + 1) % wires) for i in range(wires)]
    hamiltonian = qml.Hamiltonian([1.0] * (3 * wires), [P(i) @ P(j) for i, j in bonds for P in (qml.X, qml.Y, qml.Z)])

    def circuit(angles):
        for layer in range(layers):
            for wire in range(wires):
                qml.RY(angles[layer, wire, 0], wires=wire)
                qml.RZ(angles[layer, wire, 1], wires=wire)
            for pair in bonds:
                qml.CNOT(pair)
        return qml.expval(hamiltonian)

    runs: dict[str, Callable[[], Any]] = {}
    for name in DEVICES:
        device = made(name, wires)
        if device is not None:
            gradient = qml.grad(qml.QNode(circuit, device, diff_method="adjoint"))
            runs[name] = lambda gradient=gradient: [gradient(angles)]
    vector = qd.ParameterVector("t", angles.size)
    own = qd.Circuit(wires)
    for layer in range(layers):
        for wire in range(wires):
            first = 2 * (layer * wires + wire)
            own.ry(vector[first], wire).rz(vector[first + 1], wire)
        for pair in bonds:
            own.cx(*pair)
    program = qd.compile(own, dtype="complex128")
    observable = qd.PauliSum({f"{P}{i} {P}{j}": 1.0 for i, j in bonds for P in "XYZ"})
    theta = np.array(angles).ravel()
    runs["Program.value_and_grad"] = lambda: [program.value_and_grad(observable, theta)[1]]
    return compared(f"ansatz, {wires} qubits, {angles.size} angles", runs, repeats)


def uccsd(small: bool, repeats: int) -> list[Row]:
    if small:
        symbols, geometry, electrons, orbitals = ["H", "H"], [[0, 0, -0.66], [0, 0, 0.66]], 2, 2
    else:
        symbols = ["O", "H", "H"]
        geometry, electrons, orbitals = [[0, 0, 0], [0, 1.431, 1.108], [0, -1.431, 1.108]], 8, 6
    molecule = qml.qchem.Molecule(symbols, np.array(geometry, float))
    hamiltonian, wires = qml.qchem.molecular_hamiltonian(molecule, active_electrons=electrons, active_orbitals=orbitals)
    singles, doubles = qml.qchem.excitations(electrons, wires)
    single_wires, double_wires = qml.qchem.excitations_to_wires(singles, doubles)
    occupied = qml.qchem.hf_state(electrons, wires)
    angles = qml.numpy.array(np.random.default_rng(2).normal(0, 0.1, len(singles) + len(doubles)))

    def circuit(angles):
        qml.UCCSD(angles, range(wires), single_wires, double_wires, occupied)
        return qml.expval(hamiltonian)

    runs: dict[str, Callable[[], Any]] = {}
    for name in DEVICES:
        device = made(name, wires)
        if device is not None:
            gradient = qml.grad(qml.QNode(circuit, device, diff_method="adjoint"))
            runs[name] = lambda gradient=gradient: [gradient(angles)]
    return compared(f"UCCSD, {wires} qubits, {len(angles)} angles", runs, repeats)


def layer(small: bool, repeats: int) -> list[Row]:
    import torch

    wires, depth, rows = (3, 1, 8) if small else (8, 2, 256)
    rng = np.random.default_rng(3)
    inputs, weights = rng.uniform(-1, 1, (rows, wires)), rng.uniform(-1, 1, (depth, wires, 3))

    def circuit(inputs, weights):
        qml.AngleEmbedding(inputs, wires=range(wires))
        qml.StronglyEntanglingLayers(weights, wires=range(wires))
        return [qml.expval(qml.Z(wire)) for wire in range(wires)]

    runs: dict[str, Callable[[], Any]] = {}
    for name in (*DEVICES, "default.qubit"):
        device = made(name, wires)
        if device is None:
            continue
        module = qml.qnn.TorchLayer(qml.QNode(circuit, device, interface="torch"), {"weights": weights.shape})
        module.double()
        with torch.no_grad():
            module.weights.copy_(torch.tensor(weights))

        def step(module=module):
            module.zero_grad()
            (module(torch.tensor(inputs)) ** 2).sum().backward()
            return [module.weights.grad.numpy().copy()]

        runs[f"{name}, torch"] = step
    if importlib.util.find_spec("jax") is not None:
        runs.update(jitted(circuit, wires, inputs, weights))
    return compared(f"layer, {wires} qubits, {rows} rows", runs, repeats)


def jitted(circuit: Callable[..., Any], wires: int, inputs: Any, weights: Any) -> dict[str, Callable[[], Any]]:
    """The same gradient under jax.jit and jax.vmap."""
    import jax

    jax.config.update("jax_enable_x64", True)
    runs = {}
    for name, method in (("qdist.qubit", "adjoint"), ("default.qubit", "backprop")):
        node = qml.QNode(circuit, made(name, wires), interface="jax", diff_method=method)

        def loss(weights, inputs, node=node):
            return sum((one**2).sum() for one in jax.vmap(node, in_axes=(0, None))(inputs, weights))

        gradient, given = jax.jit(jax.grad(loss)), (jax.numpy.array(weights), jax.numpy.array(inputs))
        runs[f"{name}, jax.jit(vmap)"] = lambda gradient=gradient, given=given: [np.asarray(gradient(*given))]
    return runs


CASES: dict[str, Callable[[bool, int], list[Row]]] = {"ansatz": ansatz, "uccsd": uccsd, "layer": layer}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--small", action="store_true", help="small sizes, to see that it runs")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--save", action="store_true", help="write results/pennylane_bench.json")
    args = parser.parse_args()
    print(machine_line())
    print(f"PennyLane {qml.__version__}")
    rows = [row for case in args.cases for row in CASES[case](args.small, args.repeats)]
    print(table(["gradient", "device", "seconds", "times qdist.qubit", "difference"], rows))
    if args.save:
        print(save("pennylane_bench", rows))


if __name__ == "__main__":
    main()
