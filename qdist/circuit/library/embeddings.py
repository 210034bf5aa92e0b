"""Feature maps: circuits that carry classical data."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from qdist.hints import hinted

from ..circuit import Circuit
from ..errors import CircuitError
from ..parameters import Angle, ParameterVector
from ..wires import check_count
from .arguments import listed
from .graphs import Entanglement, entangling_pairs


@hinted
def angle_embedding(features: Sequence[Angle], rotation: str = "rx") -> Circuit:
    """One rotation a qubit: feature i is the angle of qubit i.

    Args:
        features: numbers, or Parameters (a ParameterVector, to run one circuit for many inputs).
        rotation: "rx", "ry" or "rz".
    """
    if rotation not in ("rx", "ry", "rz"):
        raise CircuitError(f"rotation must be 'rx', 'ry' or 'rz', got {rotation!r}")
    angles = listed(features, "features", "angles, one a qubit")
    circuit = Circuit(len(angles))
    for qubit, angle in enumerate(angles):
        getattr(circuit, rotation)(angle, qubit)
    return circuit


@hinted
def amplitude_embedding(features: ArrayLike, normalize: bool = False, pad_with: complex | None = None) -> Circuit:
    """The features as the amplitudes of a state of ceil(log2(length)) qubits.

    Args:
        features: a vector; feature i is the amplitude of basis state i, with qubit 0 as its lowest bit.
        normalize: divide by the norm; otherwise it must be 1.
        pad_with: the value that fills a vector up to a power of two; without it the length must be one.
    """
    amplitudes = np.asarray(features)
    if amplitudes.ndim != 1 or not len(amplitudes) or amplitudes.dtype.kind not in "biufc":
        raise CircuitError(f"features must be a vector of numbers, got shape {amplitudes.shape} of {amplitudes.dtype}")
    num_qubits = (len(amplitudes) - 1).bit_length()
    missing = 2**num_qubits - len(amplitudes)
    if missing and pad_with is None:
        raise CircuitError(f"{len(amplitudes)} features are not a power of two; pad_with=0 fills them up")
    if missing:
        amplitudes = np.concatenate([amplitudes, np.full(missing, pad_with)])
    norm = float(np.linalg.norm(amplitudes))
    if normalize and norm > 0:
        amplitudes = amplitudes / norm
    elif not math.isclose(norm, 1, abs_tol=1e-6):
        raise CircuitError(f"the norm of the features is {norm:.6g}; it must be 1, or with normalize=True not 0")
    return Circuit(num_qubits).initialize(amplitudes)


@hinted
def zz_feature_map(num_qubits: int, reps: int = 2, entanglement: Entanglement = "full", name: str = "phi") -> Circuit:
    """The ZZ feature map (Havlíček et al., Nature 567, 209 (2019)), as Qiskit's up to a global phase.

    Each repetition is H on every qubit, then P(2 x_i) on every qubit, then for every pair the phase
    2 (pi - x_i) (pi - x_j) where the qubits differ. These angles are not affine in the data, so they are the
    parameters: the vector `name`, first the qubits', then the pairs'. `zz_feature_angles` computes them.

    >>> circuit = zz_feature_map(2)
    >>> bound = circuit.bind(zz_feature_angles([0.1, 0.2]))
    """
    num_qubits, reps = check_count(num_qubits, "qubits"), check_count(reps, "repetitions")
    pairs = entangling_pairs(num_qubits, entanglement)
    phi = ParameterVector(name, num_qubits + len(pairs))
    circuit = Circuit(num_qubits)
    for _ in range(reps):
        circuit.h(range(num_qubits))
        for qubit in range(num_qubits):
            circuit.p(phi[qubit], qubit)
        for angle, (a, b) in zip(phi[num_qubits:], pairs):
            circuit.rzz(angle, a, b)
    return circuit


@hinted
def zz_feature_angles(features: ArrayLike, entanglement: Entanglement = "full") -> NDArray[np.float64]:
    """The parameters of `zz_feature_map` for data: shape (..., n) in, (..., n + number of pairs) out."""
    try:
        x = np.asarray(features, dtype=np.float64)
    except (TypeError, ValueError):
        x = np.zeros(())
    if not x.ndim:
        raise CircuitError(f"features must be real numbers of shape (..., n); got {features!r}")
    pairs = np.array(entangling_pairs(x.shape[-1], entanglement), dtype=np.intp).reshape(-1, 2)
    rest = math.pi - x
    return np.concatenate([2 * x, 2 * rest[..., pairs[:, 0]] * rest[..., pairs[:, 1]]], axis=-1)
