"""Two-qubit unitaries as one-qubit ones around a core: U = (A1 x A0) core (C1 x C0), Cartan's decomposition.

The core is diagonal in the magic basis, so it mixes 00 with 11 and 01 with 10 and nothing else (Kraus and Cirac,
Phys. Rev. A 63, 062309, 2001). Matrices are complex128; bit 0 of an index is that of A0 and C0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Matrix", "cartan", "zyz"]

Matrix = NDArray[np.complex128]

_MAGIC = np.array([[1, 0, 0, 1j], [0, 1j, 1, 0], [0, 1j, -1, 0], [1, 0, 0, -1j]]) / np.sqrt(2)
_BACK = _MAGIC.conj().T
_MIXES = np.array([0.7, 1.9, 0.2, 2.6, 1.3])
"""Angles by which real and imaginary parts are mixed: one of them tells all different eigenvalues apart."""
_SMALLEST = 1e-15


def cartan(unitaries: Matrix) -> tuple[Matrix, Matrix, Matrix, Matrix, Matrix]:
    """(A1, A0, core, C1, C0) of many unitaries: these and the core of shape (count, 4, 4), the others (count, 2, 2)."""
    phase = _determinant(unitaries) ** 0.25
    magic = _BACK @ (unitaries / phase[:, None, None]) @ _MAGIC
    square = magic.swapaxes(1, 2) @ magic
    # Equal eigenvalues, which come one after the other, belong to 00 and 11 or to 01 and 10: then a core does not mix
    # these, or exchanges them.
    right = _real_basis(square)[:, :, [0, 2, 3, 1]]
    root = np.exp(0.5j * np.angle(np.einsum("nji,njk,nki->ni", right, square, right)))
    left = (magic @ right / root[:, None, :]).real
    # Both are rotations, or they are no products of one-qubit matrices.
    flip = np.sign(_determinant(right).real)
    right[:, :, 0] *= flip[:, None]
    left[:, :, 0] *= flip[:, None]
    flip = np.sign(_determinant(left).real)
    left[:, :, 0] *= flip[:, None]
    root[:, 0] *= flip
    core = phase[:, None, None] * (_MAGIC * root[:, None, :]) @ _BACK
    return (*_factors(_MAGIC @ left @ _BACK), core, *_factors(_MAGIC @ right.swapaxes(1, 2) @ _BACK))


def _determinant(matrices: NDArray[Any]) -> Matrix:
    return np.prod(np.linalg.eigvals(matrices).astype(complex), axis=-1)


def _real_basis(symmetric: Matrix) -> NDArray[np.float64]:
    """The real orthogonal eigenvectors of symmetric unitaries, whose real and imaginary parts commute."""
    mixes = _MIXES[:, None, None, None]
    _, vectors = np.linalg.eigh(np.cos(mixes) * symmetric.real + np.sin(mixes) * symmetric.imag)
    rest = np.abs(vectors.swapaxes(2, 3) @ symmetric @ vectors) * (1 - np.eye(4))
    best = np.argmin(rest.max(axis=(2, 3)), axis=0)
    return vectors[best, np.arange(len(symmetric))]


def _factors(products: Matrix) -> tuple[Matrix, Matrix]:
    """The unitary factors of tensor products."""
    blocks = products.reshape(-1, 2, 2, 2, 2).swapaxes(2, 3)
    sizes = np.linalg.norm(blocks, axis=(3, 4)).reshape(-1, 4)
    each, best = np.arange(len(products)), np.argmax(sizes, axis=1)
    low = blocks.reshape(-1, 4, 2, 2)[each, best] * (np.sqrt(2) / sizes[each, best])[:, None, None]
    return np.einsum("nijkl,nkl->nij", blocks, low.conj()) / 2, low


def zyz(unitaries: Matrix) -> tuple[Matrix, NDArray[np.float64], NDArray[np.float64], Matrix]:
    """The ZYZ decomposition (p, cosine, sine, q): each unitary is diag(p) ((cosine, -sine), (sine, cosine)) diag(q),
    neither cosine nor sine negative.

    unitaries: of shape (..., 2, 2); p and q have (..., 2), the others one dimension less.
    """
    (u00, u01), (u10, u11) = np.moveaxis(unitaries, (-2, -1), (0, 1))
    cosine, sine = np.abs(u00), np.abs(u10)
    straight, across = sine < _SMALLEST, cosine < _SMALLEST
    cosine, sine = np.where(straight, 1, np.where(across, 0, cosine)), np.where(across, 1, np.where(straight, 0, sine))
    p0 = np.where(across, -u01, u00 / np.where(across, 1, cosine))
    p1 = np.where(straight, u11, u10 / np.where(straight, 1, sine))
    # By the larger ones: of a small number the phase has few digits. Where one is 0, those on the left are enough.
    q1 = np.where(cosine >= sine, u11 / (np.where(across, 1, cosine) * p1), -u01 / (np.where(straight, 1, sine) * p0))
    q1 = np.where(straight | across, 1, q1)
    return np.stack([p0, p1], axis=-1), cosine, sine, np.stack([np.ones_like(q1), q1], axis=-1)
