"""JAX layers on several ranks: amplitudes split over them, inside jit, in the order of the program on every rank."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest

import qdist as qd

sys.path.append(str(Path(__file__).parents[1] / "torch_layers"))
from frameworks import outputs, random_circuit

try:
    import jax
    import jax.numpy as jnp
    from jax.test_util import check_grads

    from qdist.interop.jax import QuantumLayer
except ImportError:
    pytest.skip("takes JAX", allow_module_level=True)

jax.config.update("jax_enable_x64", True)
N = 8
pytestmark = pytest.mark.filterwarnings("ignore:the layer's state")


@pytest.fixture(scope="session")
def comm() -> qd.comm.Communicator:
    return qd.comm.init(os.environ.get("QDIST_TEST_BACKEND", "auto"), timeout=120)


def given(comm, seed: int) -> tuple[QuantumLayer, QuantumLayer]:
    """The same layer on this process alone, and on all."""
    circuit, x, w = random_circuit(seed, N)
    one, many = (QuantumLayer(circuit, outputs(), x, w, comm=ranks) for ranks in (None, comm))
    return one, many


W, X = jnp.linspace(0.2, 1.1, 5), jnp.linspace(-0.5, 0.9, 6).reshape(2, 3)


def test_split_amplitudes_give_the_derivatives_of_one_process(comm) -> None:
    def parts(layer: QuantumLayer) -> list:
        def loss(w, x):
            return (layer(w, x) ** 2).sum()

        step = jax.jit(jax.value_and_grad(loss, (0, 1)))
        second = jax.jit(jax.grad(lambda w: (jax.grad(loss)(w, X) ** 2).sum()))
        each = jax.jit(jax.vmap(loss, (None, 0)))
        return jax.tree.leaves(jax.block_until_ready([step(W, X), second(W), each(W, X[:, None]), layer(W, X)]))

    for one, many in zip(*map(parts, given(comm, 1)), strict=True):
        np.testing.assert_allclose(many, one, atol=1e-12)
    if comm.size <= 4:
        small = QuantumLayer(*(lambda c, f, v: (c, ["Z0", "X1 Z2"], f, v))(*random_circuit(1, N)), comm=comm)
        check_grads(jax.jit(lambda w: small(w, X[:1])), (W,), order=2, modes=["rev"])


def test_independent_calls_keep_the_order_of_the_program(comm) -> None:
    """Twelve calls that do not depend on each other, of which XLA may run any first; and computations one after the
    other, nobody waiting for the first."""
    pairs = [given(comm, seed) for seed in (1, 2)]

    def total(which: int, w):
        found = [pairs[k % 2][which](w + 0.1 * k, X).sum() for k in range(6)]
        return jnp.stack(found).sum()

    one, many = (jax.jit(jax.value_and_grad(lambda w, which=which: total(which, w))) for which in (0, 1))
    first, second = many(W), many(2 * W)
    for found, want in zip((first, second), (one(W), one(2 * W))):
        for a, b in zip(found, want):
            np.testing.assert_allclose(a, b, atol=1e-11)
