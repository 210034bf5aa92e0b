"""What can be read from a program, as differentiable functions of its parameters.

``torch.compile(fullgraph=True)`` takes them with torch 2.13, where dynamo lets a Program be a constant of the graph;
with 2.11 it does not, and takes only ``QuantumLayer``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from qdist.interop import program_outputs
from qdist.interop.circuit_maps import CircuitMaps
from qdist.program.program import Program
from qdist.state.statevector import StateVector

from .differentiated import run, run_number

__all__ = ["expectation", "overlap", "probabilities", "state"]


def expectation(program: Program, observable: Any, params: Tensor) -> Tensor:
    """The expectation value of an observable after the circuit, or, for a list of them, all of theirs.

    Args:
        program: its circuit, ranks and observables count; precision and device are those of params: float32 runs in
            complex64, float64 in complex128.
        observable: in any form that ``StateVector.expectation`` takes, or a list.
        params: values of the circuit's parameters, in the order of ``program.circuit.parameters``: (..., parameters).

    Returns (...) of params' dtype (float32 for half precision), or (..., observables) for a list. The derivatives of
    first and second order are exact; those of higher order raise RuntimeError. Raises ValueError where params are more
    or fewer than the circuit takes.
    """
    read = _expectation_of(program, observable)
    if isinstance(observable, list | tuple):
        return _read(read, params)
    is_row = isinstance(params, Tensor) and params.shape == read[1:]
    found = run_number(params, read[0]) if is_row and not torch.compiler.is_compiling() else None
    return _read(read, params, ()) if found is None else found


def probabilities(program: Program, params: Tensor, qubits: int | Sequence[int] | None = None) -> Tensor:
    """The probabilities of the values of some qubits (all by default), qubits[0] as bit 0: (..., 2**qubits).

    program, params and derivatives: as for ``expectation``.
    """
    return _read(_probabilities_of(program, qubits), params)


def state(program: Program, params: Tensor) -> Tensor:
    """All amplitudes in logical order: complex, (..., 2**n). Otherwise as ``expectation``."""
    return _complex(_read(_state_of(program), params))


def overlap(program: Program, state: StateVector, params: Tensor) -> Tensor:
    """<state|psi> with a given state: complex, (...). program, params and derivatives: as for ``expectation``."""
    return _complex(_read(_overlap_of(program, state), params))[..., 0]


def _read(circuit: tuple[str, int], params: Tensor, ends: tuple[int, ...] | None = None) -> Tensor:
    """What a circuit gives for each row of params; circuit: its handle, and how many parameters it takes; ends: the
    shape of what it gives, behind the rows' own, if it is not that of all its numbers."""
    if not isinstance(params, Tensor):
        raise TypeError(f"params are a tensor, got {type(params).__name__}: give torch.as_tensor(params)")
    if params.ndim == 0:
        raise ValueError("params are (..., parameters); got a tensor without dimensions")
    handle, count = circuit
    if params.shape[-1] != count:
        raise ValueError(f"the circuit takes (..., {count}) parameters, got shape {tuple(params.shape)}")
    # Of tensors without elements torch infers no size.
    rows = params.reshape(math.prod(params.shape[:-1]), params.shape[-1])
    if rows.dtype in (torch.float16, torch.bfloat16):
        rows = rows.float()
    elif rows.dtype not in (torch.float32, torch.float64):
        raise TypeError(f"params are torch.float32 or torch.float64; got {rows.dtype}")
    found = run(rows, rows.new_empty(0), handle)
    return found.reshape((*params.shape[:-1], *(found.shape[1:] if ends is None else ends)))


def _complex(parts: Tensor) -> Tensor:
    half = parts.shape[-1] // 2
    return torch.complex(parts[..., :half].contiguous(), parts[..., half:].contiguous())


# Under torch.compile these run while it traces; what they give is a constant of the graph.


def _constant(function: Callable[..., tuple[str, int]]) -> Callable[..., tuple[str, int]]:
    """As ``torch.compiler.assume_constant_result``, without its import of dynamo, which takes longer than torch's."""
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


def _circuit(maps: CircuitMaps) -> tuple[str, int]:
    return maps.handle, maps.division.in_features


@_constant
def _expectation_of(program: Program, observable: Any) -> tuple[str, int]:
    return _circuit(program_outputs.expectations(program, observable))


@_constant
def _probabilities_of(program: Program, qubits: Any) -> tuple[str, int]:
    return _circuit(program_outputs.probabilities(program, qubits))


@_constant
def _state_of(program: Program) -> tuple[str, int]:
    return _circuit(program_outputs.state(program))


@_constant
def _overlap_of(program: Program, given: StateVector) -> tuple[str, int]:
    return _circuit(program_outputs.overlap(program, given))
