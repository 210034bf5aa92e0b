"""Expectation values of circuits that measure or reset mid-circuit: means over runs."""

from __future__ import annotations

from qdist.backends.errors import StateError
from qdist.circuit.binding import ParameterValues
from qdist.program.runner import Runner
from qdist.state.checking import checks
from qdist.state.measuring import expectation
from qdist.state.measuring.expectation import Observable
from qdist.state.measuring.measure import Seed, generator

__all__ = ["check", "mean"]


def check(program: Runner, shots: int | None) -> None:
    """Raises StateError unless ``shots`` is given where runs differ, and only there."""
    if program.is_random and shots is None:
        raise StateError(
            "the circuit measures or resets mid-circuit, so that every run ends in another state with another "
            "expectation value: expectation(observable, params, shots=1000) gives the mean over runs, and "
            "run(params).expectation(observable) the value of one; measurements at the end change nothing"
        )
    if program.is_random and checks.checked_shots(shots) == 0:
        raise StateError("shots=0: a mean needs at least one run")
    if not program.is_random and shots is not None:
        raise StateError(
            f"shots={shots!r}: the circuit ends in the same state in every run, and the expectation value is exact: "
            "leave shots out"
        )


def mean(program: Runner, observable: Observable, params: ParameterValues | None, shots: int, seed: Seed) -> float:
    """The mean of an expectation value over so many runs."""
    wanted = expectation.as_hermitian_sum(observable, program.num_qubits)
    runs = program.runs(shots, params, generator(program.comm, seed))
    return sum(state.expectation(wanted) for state in runs) / shots
