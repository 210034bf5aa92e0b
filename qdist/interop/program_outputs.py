"""What can be read from a program, as functions of all its parameters: what the frameworks' functions share."""

from __future__ import annotations

import hashlib
from typing import Any

from qdist.backends import on_host
from qdist.circuit import Circuit
from qdist.interop.circuit_maps import CircuitMaps, of_program
from qdist.program import row_outputs
from qdist.program.program import Program
from qdist.state.checking import checks
from qdist.state.outputs import Expectation, Overlap, Probabilities, State, as_output
from qdist.state.statevector import StateVector

__all__ = ["expectations", "overlap", "probabilities", "state"]


def expectations(program: Program, observable: Any) -> CircuitMaps:
    """Of one observable, or of a list of them. Raises TypeError for other outputs."""
    n = _checked(program).num_qubits
    given = observable if isinstance(observable, list | tuple) else [observable]
    outputs = [as_output(one, n) for one in given]
    if not all(isinstance(output, Expectation) for output in outputs):
        raise TypeError(f"expectation() takes observables; got {observable!r}")
    return of_program(program, outputs, row_outputs.key(outputs, n))


def probabilities(program: Program, qubits: Any) -> CircuitMaps:
    """Of some qubits, or with None of all."""
    chosen = checks.checked_qubits(qubits, _checked(program).num_qubits)
    return of_program(program, [Probabilities(chosen)], ("probabilities", chosen))


def state(program: Program) -> CircuitMaps:
    """All amplitudes."""
    return of_program(_checked(program), [State()], "state")


def overlap(program: Program, given: StateVector) -> CircuitMaps:
    """With a state, which is found again by what it holds, since it may be changed in place."""
    _checked(program)
    content = hashlib.sha256(on_host(given.local).tobytes()).digest()
    return of_program(program, [Overlap(given)], ("overlap", given.layout.positions, content))


def _checked(program: Any) -> Program:
    if not isinstance(program, Program):
        way = ": qdist.compile(circuit) makes one" if isinstance(program, Circuit) else ""
        raise TypeError(f"a qdist.Program is needed, not {type(program).__name__}{way}")
    return program
