"""The libraries that layer_bench.py measures, each in a process of its own: one small class a library.

The circuit: RX of the features, L layers of RZ RY RZ on every qubit and CX at distance 1, 2, ..., outputs <Z_q> of all
qubits. A step is the outputs of all rows, the sum of their squares, and its gradient by all weights, in float32 and
complex64, from new weights in an array.

Run as a program (`layer_peers.py NAME QUBITS LAYERS ROWS THREADS REPEATS`) this file measures a library and prints one
line of JSON: the seconds of the first step (with whatever is made for it: plans, tracing, compilation, but not the
import), those of the following ones, and the loss and the gradient of the first.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

ENOUGH = 5.0
"""Seconds of repeated steps after which, with three of them, a median is good enough."""

Step = Callable[[NDArray[np.float32]], tuple[float, NDArray[Any]]]


def gates(num_qubits: int, layers: int) -> Iterator[tuple[str, Any]]:
    """("rx", (feature, qubit)), ("rz" or "ry", (weight, qubit)) and ("cx", (control, target)) in order."""
    for q in range(num_qubits):
        yield "rx", (q, q)
    weight = 0
    for layer in range(layers):
        for q in range(num_qubits):
            for name in ("rz", "ry", "rz"):
                yield name, (weight, q)
                weight += 1
        distance = layer % max(1, num_qubits - 1) + 1
        for q in range(num_qubits):
            yield "cx", (q, (q + distance) % num_qubits)


def data(num_qubits: int, layers: int, rows: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    rng = np.random.default_rng(5)
    features = rng.uniform(-np.pi, np.pi, (rows, num_qubits)).astype(np.float32)
    return features, rng.uniform(-np.pi, np.pi, 3 * num_qubits * layers).astype(np.float32)


def qdist_circuit(num_qubits: int, layers: int, threads: int) -> tuple[Any, list[str], Any, Any]:
    """What every QuantumLayer takes: circuit, observables, inputs and weights."""
    import qdist as qd
    from qdist.native import kernels

    kernels.set_threads(threads)
    x, w = qd.ParameterVector("x", num_qubits), qd.ParameterVector("w", 3 * num_qubits * layers)
    circuit = qd.Circuit(num_qubits)
    for name, (a, b) in gates(num_qubits, layers):
        if name == "cx":
            circuit.cx(a, b)
        else:
            getattr(circuit, name)(x[a] if name == "rx" else w[a], b)
    return circuit, [f"Z{q}" for q in range(num_qubits)], x, w


def qdist_torch_step(num_qubits: int, layers: int, features: NDArray[np.float32], threads: int) -> Step:
    import torch

    from qdist.interop.torch import QuantumLayer

    torch.set_num_threads(threads)
    layer = QuantumLayer(*qdist_circuit(num_qubits, layers, threads))
    rows = torch.tensor(features)

    def step(weights: NDArray[np.float32]) -> tuple[float, NDArray[Any]]:
        layer.weights.data[:] = torch.from_numpy(weights)
        layer.weights.grad = None
        out = layer(rows)
        loss = (out * out).sum()
        loss.backward()
        return loss.item(), layer.weights.grad.numpy()  # type: ignore[union-attr]

    return step


def empty_torch_step(num_qubits: int, layers: int, features: NDArray[np.float32], threads: int) -> Step:
    """A step of a layer that computes nothing: what torch itself takes for one."""
    import torch

    class Nothing(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, weights: Any) -> Any:  # type: ignore[override]
            ctx.save_for_backward(weights)
            return x.clone()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:  # type: ignore[override]
            return None, ctx.saved_tensors[0].clone()

    torch.set_num_threads(threads)
    own = torch.nn.Parameter(torch.zeros(3 * num_qubits * layers))
    rows = torch.tensor(features)

    def step(weights: NDArray[np.float32]) -> tuple[float, NDArray[Any]]:
        own.data[:] = torch.from_numpy(weights)
        own.grad = None
        out = Nothing.apply(rows, own)  # type: ignore[no-untyped-call]
        loss = (out * out).sum()
        loss.backward()
        return loss.item(), own.grad.numpy()  # type: ignore[union-attr]

    return step


def qdist_jax_step(num_qubits: int, layers: int, features: NDArray[np.float32], threads: int) -> Step:
    import jax.numpy as jnp

    from qdist.interop.jax import QuantumLayer

    layer = QuantumLayer(*qdist_circuit(num_qubits, layers, threads))
    return jax_step(lambda w: (layer(w, jnp.asarray(features)) ** 2).sum())


def qdist_step(num_qubits: int, layers: int, features: NDArray[np.float32], threads: int) -> Step:
    import qdist as qd
    from qdist import nn

    layer = nn.QuantumLayer(*qdist_circuit(num_qubits, layers, threads))
    rows = qd.tensor.Tensor(features)

    def step(weights: NDArray[np.float32]) -> tuple[float, NDArray[Any]]:
        assert layer.weights is not None
        layer.weights.data[:] = weights
        layer.weights.grad = None
        out = layer(rows)
        loss = (out * out).sum()
        loss.backward()
        return loss.item(), layer.weights.grad.numpy()

    return step


def jax_step(loss: Callable[[Any], Any]) -> Step:
    """The jitted value and gradient of a function of JAX arrays."""
    import jax

    both = jax.jit(jax.value_and_grad(loss))

    def step(weights: NDArray[np.float32]) -> tuple[float, NDArray[Any]]:
        value, gradient = jax.block_until_ready(both(weights))
        return float(value), np.asarray(gradient)

    return step


def pennylane_circuit(num_qubits: int, layers: int, device: str, interface: str) -> Callable[..., Any]:
    import pennylane as qml

    which = {"rx": qml.RX, "ry": qml.RY, "rz": qml.RZ}
    made = qml.device(device, wires=num_qubits)
    method = "adjoint" if device == "lightning.qubit" else "backprop"

    @qml.qnode(made, interface=interface, diff_method=method)  # type: ignore[untyped-decorator]
    def circuit(x: Any, w: Any) -> Any:
        for name, (a, b) in gates(num_qubits, layers):
            if name == "cx":
                qml.CNOT([a, b])
            else:
                which[name](x[a] if name == "rx" else w[a], wires=b)
        return [qml.expval(qml.PauliZ(q)) for q in range(num_qubits)]

    return circuit  # type: ignore[no-any-return]


def pennylane_jax_step(num_qubits: int, layers: int, features: NDArray[np.float32], threads: int) -> Step:
    import jax
    import jax.numpy as jnp

    circuit = pennylane_circuit(num_qubits, layers, "default.qubit", "jax")
    rows = jax.vmap(lambda x, w: jnp.stack(circuit(x, w)), in_axes=(0, None))
    return jax_step(lambda w: (rows(jnp.asarray(features), w) ** 2).sum())


def lightning_step(num_qubits: int, layers: int, features: NDArray[np.float32], threads: int) -> Step:
    import torch

    torch.set_num_threads(threads)
    circuit = pennylane_circuit(num_qubits, layers, "lightning.qubit", "torch")

    def step(weights: NDArray[np.float32]) -> tuple[float, NDArray[Any]]:
        w = torch.tensor(weights, requires_grad=True)
        loss = sum((torch.stack(circuit(x, w)) ** 2).sum() for x in torch.tensor(features))
        loss.backward()  # type: ignore[union-attr]
        return float(loss), w.grad.numpy()  # type: ignore[union-attr, arg-type]

    return step


def tensorcircuit_step(num_qubits: int, layers: int, features: NDArray[np.float32], threads: int) -> Step:
    import jax
    import jax.numpy as jnp
    import tensorcircuit as tc

    tc.set_backend("jax")
    tc.set_dtype("complex64")

    def row(x: Any, w: Any) -> Any:
        circuit = tc.Circuit(num_qubits)
        for name, (a, b) in gates(num_qubits, layers):
            if name == "cx":
                circuit.cx(a, b)
            else:
                getattr(circuit, name)(b, theta=x[a] if name == "rx" else w[a])
        return jnp.stack([jnp.real(circuit.expectation_ps(z=[q])) for q in range(num_qubits)])

    rows = jax.vmap(row, in_axes=(0, None))
    return jax_step(lambda w: (rows(jnp.asarray(features), w) ** 2).sum())


def deepquantum_step(num_qubits: int, layers: int, features: NDArray[np.float32], threads: int) -> Step:
    import deepquantum as dq
    import torch

    torch.set_num_threads(threads)
    circuit = dq.QubitCircuit(num_qubits)
    trained = []
    for name, (a, b) in gates(num_qubits, layers):
        if name == "cx":
            circuit.cnot(a, b)
        elif name == "rx":
            circuit.rx(b, encode=True)
        else:
            getattr(circuit, name)(b)
            trained.append(circuit.operators[-1])
    for q in range(num_qubits):
        circuit.observable(q)
    rows = torch.tensor(features)

    def step(weights: NDArray[np.float32]) -> tuple[float, NDArray[Any]]:
        for gate, weight in zip(trained, weights):
            gate.init_para([float(weight)])
            gate.theta.requires_grad_(True)
            gate.theta.grad = None
        circuit(data=rows)
        loss = (circuit.expectation() ** 2).sum()
        loss.backward()
        return float(loss), np.array([float(gate.theta.grad) for gate in trained])

    return step


LIBRARIES: dict[str, tuple[list[str], Callable[..., Step]]] = {
    "qdist": (["qdist", "qdist.nn.quantum"], qdist_step),
    "qdist in torch": (["qdist", "torch", "qdist.interop.torch"], qdist_torch_step),
    "qdist in JAX (jit)": (["qdist", "jax", "qdist.interop.jax"], qdist_jax_step),
    "PennyLane default.qubit (JAX jit, vmap)": (["pennylane", "jax"], pennylane_jax_step),
    "TensorCircuit-NG (JAX jit, vmap)": (["tensorcircuit", "jax"], tensorcircuit_step),
    "DeepQuantum": (["deepquantum", "torch"], deepquantum_step),
    "PennyLane lightning.qubit": (["pennylane", "pennylane_lightning", "torch"], lightning_step),
}
"""By name: the modules that it needs, the first of which has a version, and what makes its step."""


def main() -> None:
    name, (qubits, layers, rows, threads, repeats) = sys.argv[1], map(int, sys.argv[2:7])
    modules, make = LIBRARIES[name]
    module, *_ = [importlib.import_module(module) for module in modules]
    features, weights = data(qubits, layers, rows)
    start = time.perf_counter()
    step = make(qubits, layers, features, threads)
    loss, gradient = step(weights)
    first, seconds = time.perf_counter() - start, []
    for k in range(repeats):
        start = time.perf_counter()
        step(weights + np.float32(0.01 * (k + 1)))
        seconds.append(time.perf_counter() - start)
        if k >= 2 and sum(seconds) > ENOUGH:
            break
    found = {"version": module.__version__, "first": first, "seconds": seconds, "loss": loss}
    print(json.dumps({**found, "gradient": np.asarray(gradient, float).tolist()}))


if __name__ == "__main__":
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    main()
