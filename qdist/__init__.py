"""qdist: distributed state-vector simulation of quantum circuits, and training on the same ranks."""

__version__ = "0.1.0"

from typing import TYPE_CHECKING, Any

import qdist.logs  # noqa: F401 (sets up logging, before anything logs)
from qdist import comm, data, nn, noise, optim
from qdist.circuit import (
    Circuit,
    CircuitError,
    Hermitian,
    Parameter,
    ParameterVector,
    PauliString,
    PauliSum,
    generator_gate,
    library,
    matrix_gate,
)
from qdist.comm.launch import spawn
from qdist.program.program import Program, compile, simulate
from qdist.state.outputs import Expectation, Overlap, Probabilities, State, Variance
from qdist.state.statevector import StateVector
from qdist.tensor import Tensor
from qdist.threads import set_num_threads

if TYPE_CHECKING:
    from qdist import checkpoint, parallel, plots
    from qdist.tracing import trace

__all__ = [
    "Circuit",
    "CircuitError",
    "Expectation",
    "Hermitian",
    "Overlap",
    "Parameter",
    "ParameterVector",
    "PauliString",
    "PauliSum",
    "Probabilities",
    "Program",
    "State",
    "StateVector",
    "Tensor",
    "Variance",
    "__version__",
    "checkpoint",
    "comm",
    "compile",
    "data",
    "generator_gate",
    "library",
    "matrix_gate",
    "nn",
    "noise",
    "optim",
    "parallel",
    "plots",
    "set_num_threads",
    "simulate",
    "spawn",
    "trace",
]


def __getattr__(name: str) -> Any:
    # A third of the time that all imports take, and not needed to run circuits.
    if name in ("checkpoint", "parallel", "plots"):
        import importlib

        return importlib.import_module(f"qdist.{name}")
    if name == "trace":
        from qdist.tracing import trace

        return trace
    raise AttributeError(f"module 'qdist' has no attribute {name!r}")
