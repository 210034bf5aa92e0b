"""The channels that have a name, made from their probabilities, and any other from its Kraus operators.

Each maker checks what it is given and raises CircuitError with the value, the rule and a way out.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from qdist.hints import hinted

from ..errors import CircuitError
from ..matrices import Matrix, pauli_matrix
from ..parameters import Expression, as_number
from .channel import Channel

__all__ = [
    "amplitude_damping",
    "bit_flip",
    "depolarizing",
    "kraus",
    "pauli_channel",
    "phase_damping",
    "phase_flip",
    "readout_error",
    "thermal_relaxation",
]

MOST_QUBITS = 3
"""Of a channel: its superoperator has 16**n entries."""
_ROUNDING = 1e-8
_NEVER = 1e-15
"""The largest entry of an operator whose probability, below 1e-29, is lost in the rounding of all others."""


@hinted
def pauli_channel(probabilities: Mapping[str, float]) -> Channel:
    """The Pauli strings that happen, with their probabilities: {"X": 0.01, "Z": 0.02}, or {"XX": 0.01} on two qubits,
    the highest qubit first. Nothing happens with what is left to 1."""
    if not isinstance(probabilities, Mapping) or not probabilities:
        raise CircuitError(f'a Pauli channel takes {{"X": probability, ...}}; got {probabilities!r}')
    sizes = {len(label) if isinstance(label, str) else 0 for label in probabilities}
    letters = set("".join(map(str, probabilities)))
    if len(sizes) != 1 or letters - set("IXYZ") or not 1 <= min(sizes) <= MOST_QUBITS:
        raise CircuitError(
            f"the labels of a Pauli channel have the letters I, X, Y and Z, one a qubit, for 1 to {MOST_QUBITS} "
            f"qubits; got {', '.join(map(repr, probabilities))}"
        )
    found = {label: _probability("pauli_channel", label, p) for label, p in probabilities.items()}
    identity = "I" * min(sizes)
    total = sum(p for label, p in found.items() if label != identity)
    if total > 1 + _ROUNDING or abs(total + found.get(identity, 1 - total) - 1) > _ROUNDING:
        given = total + found.get(identity, 0.0)
        raise CircuitError(
            f"the probabilities of a Pauli channel add up to {given:.6g}: to at most 1, or with {identity!r} to 1 "
            "exactly"
        )
    strings = {identity: max(0.0, 1 - total)} | {label: p for label, p in found.items() if p and label != identity}
    text = ",".join(f"{label}:{p:.3g}" for label, p in strings.items() if label != identity)
    return _mixture("pauli_channel", strings, text)


@hinted
def depolarizing(p: float, num_qubits: int = 1) -> Channel:
    """rho becomes (1 - p) rho + p I / 2**n: with probability p the qubits are left with nothing known of them."""
    value = _probability("depolarizing", "p", p)
    if num_qubits not in range(1, MOST_QUBITS + 1):
        raise CircuitError(
            f"depolarizing is for 1 to {MOST_QUBITS} qubits at once; got {num_qubits!r}: a list of qubits, "
            "depolarizing(p, [0, 1, 2]), is one channel on each"
        )
    labels = ["".join(letters) for letters in itertools.product("IXYZ", repeat=int(num_qubits))]
    strings = {label: value / len(labels) for label in labels if value}
    strings["I" * int(num_qubits)] = 1 - value + value / len(labels)
    return _mixture("depolarizing", strings, f"{value:.3g}")


@hinted
def bit_flip(p: float) -> Channel:
    """X with probability p."""
    value = _probability("bit_flip", "p", p)
    return _mixture("bit_flip", {"I": 1 - value, "X": value}, f"{value:.3g}")


@hinted
def phase_flip(p: float) -> Channel:
    """Z with probability p."""
    value = _probability("phase_flip", "p", p)
    return _mixture("phase_flip", {"I": 1 - value, "Z": value}, f"{value:.3g}")


@hinted
def amplitude_damping(gamma: float) -> Channel:
    """|1> decays to |0> with probability gamma."""
    value = _probability("amplitude_damping", "gamma", gamma)
    stays = np.array([[1, 0], [0, math.sqrt(1 - value)]])
    decays = np.array([[0, math.sqrt(value)], [0, 0]])
    return _channel("amplitude_damping", [stays, decays], f"{value:.3g}")


@hinted
def phase_damping(lam: float) -> Channel:
    """Off-diagonal elements of rho are multiplied by sqrt(1 - lam): as Z with probability (1 - sqrt(1 - lam)) / 2."""
    value = _probability("phase_damping", "lam", lam)
    flip = (1 - math.sqrt(1 - value)) / 2
    return _mixture("phase_damping", {"I": 1 - flip, "Z": flip}, f"{value:.3g}")


@hinted
def thermal_relaxation(t1: float, t2: float, time: float, excited: float = 0.0) -> Channel:
    """What happens in `time` to a qubit with relaxation time t1 and coherence time t2 (the same unit; inf for never):
    populations go to 1 - excited and excited with exp(-time/t1), coherences to 0 with exp(-time/t2)."""
    given = {"t1": t1, "t2": t2, "time": time}
    numbers = {name: as_number(value) for name, value in given.items()}
    for name, number in numbers.items():
        positive = number is not None and (number > 0 or (name == "time" and number == 0))
        if not positive or (name == "time" and math.isinf(number or 0)):
            raise CircuitError(
                f"thermal_relaxation: {name}={given[name]!r} must be a positive number, all three in the same unit"
            )
    one, two, passed = (float(numbers[name] or 0.0) for name in given)
    if two > 2 * one * (1 + 1e-12):
        raise CircuitError(
            f"thermal_relaxation: t2={two:.6g} is more than twice t1={one:.6g}, and coherence cannot outlive that: "
            f"t2 is at most {2 * one:.6g}"
        )
    up = _probability("thermal_relaxation", "excited", excited)
    relaxed, coherent = -math.expm1(-passed / one), math.exp(-passed / two)
    # The Choi matrix: element (i, a; j, b) is rho'_{ij} where rho_{ab} alone is 1. Index a + 2 i.
    choi = np.zeros((4, 4))
    choi[0, 0], choi[2, 2] = 1 - up * relaxed, up * relaxed
    choi[1, 1], choi[3, 3] = (1 - up) * relaxed, 1 - (1 - up) * relaxed
    choi[0, 3] = choi[3, 0] = coherent
    values, vectors = np.linalg.eigh(choi)
    operators = [
        math.sqrt(value) * vectors[:, k].reshape(2, 2).astype(np.complex128)
        for k, value in reversed(list(enumerate(values)))
        if value > 1e-15
    ]
    text = f"{one:.3g},{two:.3g},{passed:.3g}" + (f",{up:.3g}" if up else "")
    return _channel("thermal_relaxation", operators, text)


@hinted
def kraus(operators: Sequence[ArrayLike]) -> Channel:
    """The channel with these Kraus operators, each 2**n by 2**n, the first qubit as the lowest bit of the index.

    Raises CircuitError for other shapes and where the sum of K†K is not the identity: the trace would not be kept.
    """
    try:
        array = np.asarray(operators, np.complex128)
    except (TypeError, ValueError):
        raise CircuitError("kraus takes a list of matrices of one shape, (2**n, 2**n)") from None
    size = array.shape[-1] if array.ndim == 3 else 0
    if array.ndim != 3 or array.shape[1] != size or size not in [1 << n for n in range(1, MOST_QUBITS + 1)]:
        raise CircuitError(
            f"kraus takes a list of matrices of shape (2**n, 2**n), for 1 to {MOST_QUBITS} qubits; got an array of "
            f"shape {array.shape}"
        )
    if not np.isfinite(array).all():
        raise CircuitError("a Kraus operator holds nan or infinity")
    total = np.einsum("kji,kjl->il", array.conj(), array)
    excess = float(np.abs(total - np.eye(size)).max())
    if excess > _ROUNDING:
        raise CircuitError(
            f"the Kraus operators do not keep the trace: the sum of K†K differs from the identity by up to "
            f"{excess:.3g}; if it is meant to be, give them to full precision, or add the operator that is missing"
        )
    return _channel("kraus", list(array), "")


@hinted
def readout_error(p: float | Sequence[float]) -> Channel:
    """A bit that is read wrong with probability p, or (of reading 1 for 0, of reading 0 for 1)."""
    pair = list(p) if isinstance(p, Sequence | np.ndarray) else [p, p]
    if len(pair) != 2:
        raise CircuitError(f"readout_error takes a probability, or (of 1 for 0, of 0 for 1); got {p!r}")
    values = [_probability("readout_error", "p", one) for one in pair]
    text = f"{values[0]:.3g}" if values[0] == values[1] else f"{values[0]:.3g},{values[1]:.3g}"
    return Channel("readout_error", 1, np.array(values), text, kind="readout")


def _mixture(name: str, strings: Mapping[str, float], text: str) -> Channel:
    """Pauli strings with their probabilities."""
    operators = [math.sqrt(p) * pauli_matrix(label[::-1]) for label, p in strings.items()]
    return _channel(name, operators, text)


def _channel(name: str, operators: Sequence[Matrix], text: str) -> Channel:
    array = np.array(operators, np.complex128)
    # What never happens is left out: of a first operator that is zero, trajectories would have nothing left.
    array = array[np.abs(array).max(axis=(1, 2)) > _NEVER]
    # What a trajectory does most often comes first.
    least = int(np.argmax(np.abs(np.einsum("kii->k", array))))
    array = np.concatenate([array[least : least + 1], np.delete(array, least, axis=0)])
    return Channel(name, array.shape[1].bit_length() - 1, array, text)


def _probability(channel: str, name: str, value: Any) -> float:
    if isinstance(value, Expression):
        raise CircuitError(
            f"{channel}: {name}={value} is a Parameter, and the strength of noise is a number; to try several make a "
            "circuit for each"
        )
    number = as_number(value)
    if number is None or not 0 <= number <= 1:
        raise CircuitError(f"{channel}: {name}={value!r} must be a probability, a number from 0 to 1")
    return float(number)
