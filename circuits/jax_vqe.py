"""The ground energy of a transverse-field Ising chain in JAX: jit, value_and_grad, and optax where it is installed.

    python circuits/jax_vqe.py

Reaches a relative error of 1e-3. Needs jax; without optax the steps are those of Adam, written out here.
"""

from __future__ import annotations

import argparse
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import qdist as qd
from qdist.interop.jax import expectation
from qdist.training import run, whole


def adam(lr: float) -> tuple[Any, Any]:
    """(init, update) of optax's Adam, or of the same rule (Kingma and Ba, arXiv 1412.6980)."""
    try:
        import optax
    except ImportError:

        def update(gradient: Any, state: Any) -> tuple[Any, Any]:
            step, mean, square = state
            step, mean, square = step + 1, 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
            scaled = mean / (1 - 0.9**step), jnp.sqrt(square / (1 - 0.999**step)) + 1e-8
            return -lr * scaled[0] / scaled[1], (step, mean, square)

        return (lambda theta: (0, jnp.zeros_like(theta), jnp.zeros_like(theta))), update
    rule = optax.adam(lr)
    return rule.init, rule.update


def main(argv: list[str] | None = None) -> tuple[float, float]:
    """The energy that is reached, and the exact one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=whole(1), default=120, help="(default: 120)")
    parser.add_argument(
        "--spins", type=whole(4, even=True), default=6, help="an even number of at least 4 (default: 6)"
    )
    args = parser.parse_args(argv)
    energy = qd.library.tfim(args.spins, h=1.0, periodic=True)
    circuit = qd.library.qaoa(qd.library.tfim(args.spins, h=0, periodic=True), args.spins // 2)
    program = qd.compile(circuit, device="cpu")
    angles = np.repeat([0.45, -0.6], args.spins // 2)
    angles[[0, -1]] /= 2
    theta = jnp.asarray(angles, jnp.float32)
    value_and_grad = jax.jit(jax.value_and_grad(lambda theta: expectation(program, energy, theta)))
    init, update = adam(0.02)
    state = init(theta)
    value = 0.0
    for _ in range(args.steps):
        value, gradient = value_and_grad(theta)
        change, state = update(gradient, state)
        theta = theta + change
    k = np.pi * (2 * np.arange(args.spins) + 1) / args.spins
    exact = -float(np.sqrt(2 - 2 * np.cos(k)).sum())
    print(f"{args.spins} spins: energy {float(value):.6f}, exact {exact:.6f}")
    return float(value), exact


if __name__ == "__main__":
    run(main)
