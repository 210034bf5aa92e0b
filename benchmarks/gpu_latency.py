"""Small work on a GPU, where the host is what takes the time: steps of a quantum layer, one circuit, the first call.

Prints milliseconds (median, after one that warms up), and what a first value and gradient takes in a process with an
empty cache of compiled kernels, once CuPy is imported: with the packs of kernels compiled ahead, if there are
(python -m qdist.backends.cuda.compiling), and without.

    python benchmarks/gpu_latency.py --save gpu_latency
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
from common import machine_line, save, table
from layer_peers import data, gates

import qdist as qd
from qdist import nn
from qdist.backends.cuda.compiling import packs
from qdist.comm import cuda_devices

LAYERS = [(4, 2, 32), (8, 4, 256), (12, 6, 1024), (13, 6, 256), (14, 6, 256), (14, 6, 1024), (16, 4, 64)]
"""Qubits, layers and rows."""

CIRCUITS = [4, 8, 12, 16, 20, 24]
"""Qubits of a TFIM ansatz of ten layers."""

FIRST = """
import time, cupy
cupy.zeros(1)
import sys
sys.path.insert(0, {here!r})
import gpu_latency
start = time.perf_counter()
gpu_latency.one_circuit({qubits})()
print(time.perf_counter() - start)
"""


def milliseconds(step: Callable[[], Any], repeats: int) -> float:
    """Of a step, which ends with a number on the host."""
    step()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return 1e3 * median(times)


def layer_step(num_qubits: int, layers: int, rows: int) -> Callable[[], float]:
    """Outputs, sum of squares, gradient by all weights; everything but the loss stays on the GPU. A step ends when the
    host has the loss, with the gradient under way: the next one waits for it."""
    x, w = qd.ParameterVector("x", num_qubits), qd.ParameterVector("w", 3 * num_qubits * layers)
    circuit = qd.Circuit(num_qubits)
    for name, (a, b) in gates(num_qubits, layers):
        if name == "cx":
            circuit.cx(a, b)
        else:
            getattr(circuit, name)(x[a] if name == "rx" else w[a], b)
    features, _ = data(num_qubits, layers, rows)
    observables = [f"Z{q}" for q in range(num_qubits)]
    layer = nn.QuantumLayer(circuit, observables, inputs=x, weights=w, device="cuda", seed=1)
    given = qd.Tensor(features, device=layer.program.device)

    def step() -> float:
        assert layer.weights is not None
        layer.weights.grad = None
        out = layer(given)
        loss = (out * out).sum()
        loss.backward()
        return float(loss.item())

    return step


def chain(num_qubits: int) -> tuple[qd.Program, qd.PauliSum]:
    """A TFIM ansatz of ten layers, and the energy of a chain."""
    theta = qd.ParameterVector("t", 20)
    circuit = qd.Circuit(num_qubits).h(range(num_qubits))
    for layer in range(10):
        for q in range(num_qubits - 1):
            circuit.rzz(theta[2 * layer], q, q + 1)
        circuit.rx(theta[2 * layer + 1], range(num_qubits))
    energy = {f"Z{q} Z{q + 1}": 1.0 for q in range(num_qubits - 1)} | {f"X{q}": 0.5 for q in range(num_qubits)}
    return qd.compile(circuit, device="cuda"), qd.PauliSum(energy)


def one_circuit(num_qubits: int) -> Callable[[], float]:
    """Value and gradient of the energy."""
    program, observable = chain(num_qubits)
    values = np.random.default_rng(1).normal(size=20)
    return lambda: float(program.value_and_grad(observable, values)[0])


def one_in_torch(num_qubits: int) -> Callable[[], float]:
    """The same through torch, of parameters on the GPU, where the gradient stays."""
    import torch

    from qdist.interop.torch import expectation

    program, observable = chain(num_qubits)
    values = np.random.default_rng(1).normal(size=20)
    params = torch.tensor(values, dtype=torch.float32, device="cuda", requires_grad=True)

    def step() -> float:
        params.grad = None
        energy = expectation(program, observable, params)
        energy.backward()
        return float(energy.detach())

    return step


def first_call(num_qubits: int, ahead: bool) -> float:
    """Seconds of plan, compilation, value and gradient in a new process."""
    with tempfile.TemporaryDirectory() as cache:
        code = FIRST.format(here=os.path.dirname(os.path.abspath(__file__)), qubits=num_qubits)
        if not ahead:
            code = f"from qdist.backends.cuda.compiling import packs\npacks.FOLDER = packs.FOLDER / 'none'\n{code}"
        environment = {**os.environ, "CUPY_CACHE_DIR": cache}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
        if done.returncode:
            sys.exit(done.stderr)
        return float(done.stdout.split()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=50)
    parser.add_argument("--skip-first", action="store_true", help="no first calls, which take seconds each")
    parser.add_argument("--save", nargs="?", const="gpu_latency", metavar="NAME", help="write results/NAME.json")
    options = parser.parse_args()
    if not cuda_devices():
        sys.exit("this measures a GPU, with CuPy: `qdist info` says what is missing")
    print(machine_line())
    kinds = "a step of a layer", "one circuit", "one circuit in torch", "first call"
    results: dict[str, dict[str, float]] = {kind: {} for kind in kinds}
    for point in LAYERS:
        results["a step of a layer"]["/".join(map(str, point))] = milliseconds(layer_step(*point), options.repeats)
    for qubits in CIRCUITS:
        results["one circuit"][f"{qubits} qubits"] = milliseconds(one_circuit(qubits), options.repeats)
    try:
        import torch
    except ImportError:
        torch = None
    for qubits in CIRCUITS if torch is not None and torch.cuda.is_available() else ():
        results["one circuit in torch"][f"{qubits} qubits"] = milliseconds(one_in_torch(qubits), options.repeats)
    for qubits in () if options.skip_first else (12, 20):
        for ahead in (True, False) if any(packs.FOLDER.glob("*.zip")) else (False,):
            name = f"{qubits} qubits, {'compiled ahead' if ahead else 'NVRTC'}"
            results["first call"][name] = 1e3 * first_call(qubits, ahead)
    print(table(["what", "where", "ms"], [[what, at, ms] for what, own in results.items() for at, ms in own.items()]))
    if options.save:
        print("written to", save(options.save, results))


if __name__ == "__main__":
    main()
