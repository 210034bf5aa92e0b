"""How the tests start the training programs."""

import argparse
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "circuits"
NAMES = ["vqe_tfim", "vqe_natural", "vqe_h2", "qaoa_maxcut", "classify_digits", "quantum_kernel"]
# A step of each is quick with these.
SMALL = {
    "vqe_tfim": ["--spins", "8"],
    "vqe_natural": ["--spins", "8"],
    "qaoa_maxcut": ["--nodes", "8", "--layers", "2"],
    "classify_digits": ["--qubits", "6", "--layers", "1"],
    "quantum_kernel": ["--qubits", "4", "--block", "16"],
}


def load(name: str) -> ModuleType:
    """A program, imported as when it is started: its folder comes first."""
    # Not imported: of scikit-learn the programs read a file.
    if name in ("classify_digits", "quantum_kernel") and find_spec("sklearn") is None:
        pytest.skip("needs scikit-learn")
    if str(FOLDER) not in sys.path:
        sys.path.insert(0, str(FOLDER))
    return import_module(name)


def small(program: ModuleType, steps: int, *options: Any) -> argparse.Namespace:
    """Options for a few quick steps."""
    words = ["--steps", steps, *SMALL.get(program.__name__, []), *options]
    return program.parser().parse_args(list(map(str, words)))


def curve(program: ModuleType, args: argparse.Namespace, comm: Any) -> list[float]:
    """The losses of a training."""
    result = program.train(args, comm)
    return result[0] if isinstance(result, tuple) else result
