"""What can be read from a program, as differentiable functions of its parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from qdist.interop import program_outputs
from qdist.interop.circuit_maps import CircuitMaps
from qdist.program.program import Program
from qdist.state.statevector import StateVector

from .operators import in_rows, real

__all__ = ["expectation", "overlap", "probabilities", "state"]


def expectation(program: Program, observable: Any, params: Any) -> Any:
    """The expectation value of an observable after the circuit, or, for a list of them, all of theirs.

    Args:
        program: its circuit and ranks count; float32 params run in complex64, float64 in complex128. It runs on the
            CPU, wherever the arrays are.
        observable: in any form that ``StateVector.expectation`` takes, or a list.
        params: values of the circuit's parameters, in the order of ``program.circuit.parameters``: (..., parameters).

    Returns (...) of params' dtype (float32 where that is neither of the two), or (..., observables) for a list. Reverse
    derivatives of first and second order are exact; a third raises NotImplementedError.
    """
    found = _read(program_outputs.expectations(program, observable), params)
    return found if isinstance(observable, list | tuple) else found[..., 0]


def probabilities(program: Program, params: Any, qubits: int | Sequence[int] | None = None) -> Any:
    """The probabilities of the values of some qubits (all by default), qubits[0] as bit 0: (..., 2**qubits). Otherwise
    as ``expectation``."""
    return _read(program_outputs.probabilities(program, qubits), params)


def state(program: Program, params: Any) -> Any:
    """All amplitudes in logical order: complex, (..., 2**n). Otherwise as ``expectation``."""
    return _complex(_read(program_outputs.state(program), params))


def overlap(program: Program, state: StateVector, params: Any) -> Any:
    """<state|psi> with a given state: complex, (...). Otherwise as ``expectation``."""
    return _complex(_read(program_outputs.overlap(program, state), params))[..., 0]


def _read(maps: CircuitMaps, params: Any) -> Any:
    (given,) = real(params)
    count = maps.division.in_features
    if given.shape[-1:] != (count,):
        raise ValueError(f"the circuit takes (..., {count}) parameters, got shape {given.shape}")
    return in_rows(maps, given, jnp.zeros(0, given.dtype))


def _complex(parts: Any) -> Any:
    half = parts.shape[-1] // 2
    return parts[..., :half] + 1j * parts[..., half:]
