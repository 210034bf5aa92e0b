"""Between Pauli coefficients and matrices, by Walsh-Hadamard transforms.

P(x, z) maps |i> to i^|x & z| (-1)^|z & i| |i ^ x>. For one flip mask x the matrix elements <i ^ x| M |i> are
therefore the Walsh-Hadamard transform, over z, of the coefficients times i^|x & z|: n 4^n steps for all of a
dense matrix instead of the 8^n of summing strings one by one.
"""

import numpy as np
from numpy.typing import NDArray

from .masks import Words, y_phase

Matrix = NDArray[np.complex128]


def walsh_hadamard(rows: Matrix) -> Matrix:
    """sum_j (-1)^|i & j| rows[:, j] for every i; the last axis has a power of two of entries."""
    count, size = rows.shape
    step = 1
    while step < size:
        pairs = rows.reshape(count, size // (2 * step), 2, step)
        rows = np.stack([pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]], axis=2)
        step *= 2
    return rows.reshape(count, size)


def to_matrix(x: Words, z: Words, coefficients: NDArray[np.complex128], num_qubits: int) -> Matrix:
    """The (2^n, 2^n) matrix of a sum of strings given by one-word masks."""
    size = 1 << num_qubits
    flips, row = np.unique(x[:, 0].astype(np.intp), return_inverse=True)
    rows = np.zeros((len(flips), size), dtype=np.complex128)
    np.add.at(rows, (row.reshape(-1), z[:, 0].astype(np.intp)), coefficients * y_phase(x, z))
    rows = walsh_hadamard(rows)
    matrix = np.zeros((size, size), dtype=np.complex128)
    index = np.arange(size)
    matrix[index ^ flips[:, None], index] = rows
    return matrix


def from_matrix(matrix: Matrix) -> tuple[Words, Words, NDArray[np.complex128]]:
    """The masks and coefficients of all 4^n strings: c(P) = Tr(P M) / 2^n."""
    size = len(matrix)
    index = np.arange(size)
    rows = matrix[index ^ index[:, None], index]
    x, z = (mask.astype(np.uint64).reshape(-1, 1) for mask in np.divmod(np.arange(size * size), size))
    coefficients = walsh_hadamard(rows).reshape(-1) * y_phase(x, z).conj() / size
    return x, z, coefficients
