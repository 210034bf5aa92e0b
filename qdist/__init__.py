"""qdist: distributed state-vector simulation of quantum circuits, and training on the same ranks."""

__version__ = "0.1.0"

import importlib
from typing import TYPE_CHECKING, Any

import qdist.logs  # noqa: F401 (sets up logging, before anything logs)

if TYPE_CHECKING:
    from qdist import checkpoint, comm, data, nn, noise, optim, parallel, plots, training
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
    "training",
]

_HOMES = {
    "qdist.circuit": "Circuit CircuitError Hermitian Parameter ParameterVector PauliString PauliSum generator_gate "
    "matrix_gate",
    "qdist.comm.launch": "spawn",
    "qdist.program.program": "Program compile simulate",
    "qdist.state.outputs": "Expectation Overlap Probabilities State Variance",
    "qdist.state.statevector": "StateVector",
    "qdist.tensor": "Tensor",
    "qdist.threads": "set_num_threads",
    "qdist.tracing": "trace",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}
_MODULES = (
    "backends blocks checkpoint circuit comm data hints native nn noise optim parallel plan plots program progress "
    "state tensor tensorfile threads training"
)
_MODULE_OF = {"library": "qdist.circuit.library", **{name: f"qdist.{name}" for name in _MODULES.split()}}


def __getattr__(name: str) -> Any:
    # What is asked for is imported then: a rank that only talks needs no circuits, and a circuit no optimisers.
    if name in _HOME_OF:
        value = getattr(importlib.import_module(_HOME_OF[name]), name)
    elif name in _MODULE_OF:
        value = importlib.import_module(_MODULE_OF[name])
    else:
        raise AttributeError(f"module 'qdist' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
