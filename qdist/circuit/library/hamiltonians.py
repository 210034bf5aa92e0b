"""Hamiltonians of spin models and of MaxCut; terms with a coefficient of 0 are left out."""

from collections.abc import Sequence
from typing import Any

from qdist.hints import hinted

from ..pauli import PauliSum
from .arguments import real
from .graphs import lattice_edges, num_sites, weighted_edges


@hinted
def tfim(shape: int | Sequence[int], J: float = 1.0, h: float = 1.0, periodic: bool = False) -> PauliSum:
    """The transverse-field Ising model H = -J sum_<ij> Z_i Z_j - h sum_i X_i.

    Args:
        shape: the number of sites of a chain, or the sizes of a lattice, as for `lattice_edges`.
        J: the coupling of nearest neighbours; positive is ferromagnetic.
        h: the transverse field.
        periodic: close the chain or lattice.

    >>> print(tfim(3, h=0.5))
    -1 * Z0 Z1 - 1 * Z1 Z2 - 0.5 * X0 - 0.5 * X1 - 0.5 * X2
    """
    J, h = real(J, "J"), real(h, "h")
    bonds = [(f"Z{a} Z{b}", -J) for a, b in lattice_edges(shape, periodic)]
    field = [(f"X{site}", -h) for site in range(num_sites(shape))]
    return PauliSum(bonds + field).simplify(0)


@hinted
def heisenberg_xxz(
    shape: int | Sequence[int], J: float = 1.0, delta: float = 1.0, h: float = 0.0, periodic: bool = False
) -> PauliSum:
    """The Heisenberg XXZ model H = J sum_<ij> (X_i X_j + Y_i Y_j + delta Z_i Z_j) - h sum_i Z_i.

    X, Y and Z are Pauli matrices, not spins of 1/2.

    Args:
        shape: the number of sites of a chain, or the sizes of a lattice, as for `lattice_edges`.
        J: the coupling of nearest neighbours; positive is antiferromagnetic.
        delta: the anisotropy; 1 is the isotropic model.
        h: the longitudinal field.
        periodic: close the chain or lattice.
    """
    J, delta, h = real(J, "J"), real(delta, "delta"), real(h, "h")
    bonds = [
        (f"{letter}{a} {letter}{b}", J * strength)
        for a, b in lattice_edges(shape, periodic)
        for letter, strength in (("X", 1.0), ("Y", 1.0), ("Z", delta))
    ]
    field = [(f"Z{site}", -h) for site in range(num_sites(shape))]
    return PauliSum(bonds + field).simplify(0)


@hinted
def maxcut(graph: Any) -> PauliSum:
    """MaxCut: H = sum_(a, b) weight / 2 (Z_a Z_b - 1).

    The energy of a basis state is minus the weight of the edges between its zeros and its ones.

    Args:
        graph: pairs (a, b), triples (a, b, weight), or an object with such `edges`, like a networkx Graph.

    >>> print(maxcut([(0, 1), (1, 2, 3.0)]))
    0.5 * Z0 Z1 + 1.5 * Z1 Z2 - 2 * I
    """
    _, edges = weighted_edges(graph)
    terms = [(f"Z{a} Z{b}", weight / 2) for a, b, weight in edges]
    return PauliSum([*terms, ("", -sum(weight for _, _, weight in edges) / 2)]).simplify(0)
