"""QuantumLayer: a circuit of features and weights as a function of JAX arrays."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from qdist.circuit import Circuit
from qdist.comm import Communicator
from qdist.interop.circuit_maps import CircuitMaps
from qdist.nn.quantum_parameters import Symbols

from .operators import in_rows, real

__all__ = ["QuantumLayer"]


class QuantumLayer:
    """layer(weights, x): (..., features) in, (..., outputs) out; weights are an array of the caller's.

    circuit, observables, inputs, weights, comm, frozen: as for ``qdist.interop.torch.QuantumLayer``. float32 runs in
    complex64, float64 in complex128, the wider of the two dtypes where weights and x differ, on the CPU: there on XLA's
    own memory, while arrays of a GPU are copied to the host and back. Works under jit, vmap, grad and shard_map;
    reverse derivatives of first and second order are exact, a third raises NotImplementedError. On several ranks all of
    them run the same JAX program, in which calls of circuits keep their order, and wait (``jax.block_until_ready``)
    before they talk to each other by other means; there is no shard_map there.
    Raises CircuitError and StateError as ``qdist.nn.QuantumLayer`` does.
    """

    def __init__(
        self,
        circuit: Circuit,
        observables: Any,
        inputs: Symbols = (),
        weights: Symbols = (),
        *,
        comm: Communicator | None = None,
        frozen: Mapping[Any, Any] | None = None,
    ) -> None:
        self._maps = CircuitMaps(circuit, observables, inputs, weights, comm, frozen)

    @property
    def in_features(self) -> int:
        """How many features x has."""
        return self._maps.division.in_features

    @property
    def out_features(self) -> int:
        """How many outputs there are."""
        return self._maps.width

    @property
    def num_weights(self) -> int:
        """How many weights there are."""
        return self._maps.division.num_weights

    def init(self, key: Any, dtype: Any = None) -> Any:
        """Weights to start from: uniform in [0, 2 pi)."""
        return jax.random.uniform(key, (self.num_weights,), dtype or jnp.float32, 0.0, 2 * math.pi)

    def __call__(self, weights: Any, x: Any = None) -> Any:
        """The outputs for every row of x; without inputs those of one row."""
        w, given = real(weights, jnp.zeros((1, 0), jnp.float32) if x is None else x)
        if given.shape[-1:] != (self.in_features,) or w.shape != (self.num_weights,):
            raise ValueError(
                f"QuantumLayer takes ({self.num_weights},) weights and (..., {self.in_features}) features, got shapes "
                f"{w.shape} and {given.shape}"
            )
        return in_rows(self._maps, given, w)
