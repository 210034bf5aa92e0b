"""Fermions on qubits by the Jordan-Wigner transformation: mode p is qubit p, occupied is 1.

a_p = Z_0 ... Z_(p-1) (X_p + i Y_p) / 2 (Jordan and Wigner, Z. Phys. 47, 631 (1928)). Spin orbitals are
interleaved: spatial orbital p has its spin-up mode on qubit 2p and its spin-down mode on qubit 2p + 1.
"""

import functools
import itertools
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from qdist.hints import hinted

from ..circuit import Circuit
from ..errors import CircuitError
from ..parameters import ParameterVector
from ..pauli import PauliString, PauliSum
from ..wires import check_count
from .evolution import add_rotation


@hinted
def annihilation(mode: int) -> PauliSum:
    """The operator a_p that empties a mode."""
    return _annihilation(check_count(mode, "a mode"))


@functools.lru_cache(maxsize=1024)
def _annihilation(mode: int) -> PauliSum:
    bit = 1 << mode
    below = bit - 1
    x, y = PauliString.from_masks(bit, below), PauliString.from_masks(bit, below | bit)
    return PauliSum([(x, 0.5), (y, 0.5j)])


@hinted
def creation(mode: int) -> PauliSum:
    """The operator that fills a mode: the adjoint of `annihilation`."""
    return annihilation(mode).adjoint()


@hinted
def electronic_hamiltonian(constant: float, one_body: NDArray[np.float64], two_body: NDArray[np.float64]) -> PauliSum:
    """constant + sum_pq h_pq E_pq + 1/2 sum_pqrs (pq|rs) (E_pq E_rs - delta_qr E_ps), on 2 n qubits.

    E_pq moves an electron from spatial orbital q to p, summed over its spin (Helgaker, Jørgensen and Olsen,
    Molecular Electronic-Structure Theory, section 2.2).

    Args:
        constant: the energy of the nuclei and of frozen orbitals.
        one_body: h, of shape (n, n).
        two_body: (pq|rs) in the chemists' order, of shape (n, n, n, n).

    Raises:
        CircuitError: for other shapes, for what has an imaginary part (the orbitals must be real), and for what lacks
            the symmetries of integrals over real orbitals, as in the physicists' order.
    """
    constant = float(_real("constant", constant, 0))
    one_body, two_body = _real("one_body", one_body, 2), _real("two_body", two_body, 4)
    if one_body.shape != (len(one_body),) * 2 or two_body.shape != (len(one_body),) * 4:
        raise CircuitError(
            f"one_body has shape {one_body.shape} and two_body {two_body.shape}; of n orbitals they have (n, n) and "
            "(n, n, n, n)"
        )
    _check_symmetric(one_body, two_body)
    orbitals = range(len(one_body))
    moves = {
        (p, q): sum((creation(2 * p + s) @ annihilation(2 * q + s) for s in (0, 1)), PauliSum())
        for p, q in itertools.product(orbitals, repeat=2)
    }
    single = one_body - 0.5 * np.einsum("pqqs->ps", two_body)
    total = PauliSum([("", constant)]) + _weighted(moves, single)
    for pq, move in moves.items():
        total += 0.5 * (move @ _weighted(moves, two_body[pq]))
    simple = total.simplify(1e-14)
    return PauliSum.from_masks(simple.x, simple.z, simple.coefficients.real)


def _real(name: str, values: ArrayLike, axes: int) -> NDArray[np.float64]:
    """Integrals as an array of real numbers."""
    try:
        array = np.asarray(values, np.complex128)
    except (TypeError, ValueError):
        raise CircuitError(f"{name} must be numbers; got {values!r}") from None
    if array.ndim != axes:
        raise CircuitError(f"{name} has {axes} axes; got shape {array.shape}")
    if np.iscomplexobj(array) and array.imag.any():
        raise CircuitError(f"{name} has an imaginary part: the integrals must be over real orbitals")
    return array.real.astype(np.float64)


def _check_symmetric(one_body: NDArray[np.float64], two_body: NDArray[np.float64]) -> None:
    if not _is_close(one_body, one_body.T):
        raise CircuitError("one_body must be symmetric: h_pq = h_qp, over real orbitals")
    if not (_is_close(two_body, two_body.swapaxes(0, 1)) and _is_close(two_body, two_body.transpose(2, 3, 0, 1))):
        raise CircuitError(
            "two_body must have the symmetries (pq|rs) = (qp|rs) = (rs|pq) of the chemists' order, over real orbitals; "
            "integrals <pq|rs> in the physicists' order become those by two_body.transpose(0, 2, 1, 3)"
        )


def _is_close(one: NDArray[np.float64], other: NDArray[np.float64]) -> bool:
    return bool(np.allclose(one, other, rtol=0, atol=1e-6 * np.abs(one).max(initial=0.0)))


def _weighted(moves: dict[tuple[int, int], PauliSum], weights: NDArray[np.float64]) -> PauliSum:
    """sum_pq weights[p, q] E_pq."""
    return sum((float(weights[pq]) * move for pq, move in moves.items() if weights[pq]), PauliSum())


class Excitation(NamedTuple):
    """Electrons that leave the `occupied` modes for the `virtual` ones."""

    occupied: tuple[int, ...]
    virtual: tuple[int, ...]


@hinted
def excitations(num_electrons: int, num_modes: int) -> list[Excitation]:
    """The single, then the double excitations of the Hartree-Fock state that conserve the spin."""
    num_electrons, num_modes = check_count(num_electrons, "electrons"), check_count(num_modes, "spin orbitals")
    if num_electrons > num_modes or num_electrons % 2 or num_modes % 2:
        raise CircuitError(
            f"{num_electrons} electrons in {num_modes} spin orbitals: both numbers must be even, and the "
            "orbitals enough"
        )
    occupied, virtual = range(num_electrons), range(num_electrons, num_modes)
    return [
        Excitation(leave, enter)
        for count in (1, 2)
        for leave in itertools.combinations(occupied, count)
        for enter in itertools.combinations(virtual, count)
        if sum(mode % 2 for mode in leave) == sum(mode % 2 for mode in enter)
    ]


@hinted
def hartree_fock(num_electrons: int, num_modes: int) -> Circuit:
    """The Hartree-Fock state: the lowest modes occupied, by X gates."""
    num_electrons, num_modes = check_count(num_electrons, "electrons"), check_count(num_modes, "spin orbitals")
    if num_electrons > num_modes:
        raise CircuitError(f"{num_electrons} electrons do not fit in {num_modes} spin orbitals")
    return Circuit(num_modes).x(range(num_electrons))


@hinted
def uccsd(num_electrons: int, num_modes: int, reps: int = 1, name: str = "theta") -> Circuit:
    """Unitary coupled cluster with singles and doubles, from the Hartree-Fock state.

    A repetition is one Trotter step. Each excitation is exp(theta (T - T^dagger)) with T = a+_a a_i or a+_a
    a+_b a_j a_i. Its 2 or 8 Pauli strings commute, so it is exactly a product of Pauli rotations that share
    one parameter (Peruzzo et al., Nat. Commun. 5, 4213 (2014); Romero et al., arXiv 1701.02691). The number
    of electrons of each spin is conserved.

    Args:
        num_electrons: an even number; they fill the lowest spin orbitals.
        num_modes: the number of spin orbitals, which is that of qubits.
        reps: how many rounds of all excitations, each with parameters of its own.

    The parameters are the vector `name`, a value an excitation in the order of `excitations`, round by
    round. At 0 the state is Hartree-Fock's.

    >>> uccsd(2, 4).num_parameters
    3
    """
    chosen = excitations(num_electrons, num_modes)
    reps = check_count(reps, "repetitions")
    theta = ParameterVector(name, reps * len(chosen))
    circuit = hartree_fock(num_electrons, num_modes)
    generators = [_generator(excitation) for excitation in chosen]
    for angle, generator in zip(theta, generators * reps):
        for string, coefficient in generator:
            # T - T^dagger is i times a real sum; exp(theta i c P) is the rotation by -2 c theta.
            add_rotation(circuit, -2 * coefficient.imag * angle, string)
    return circuit


def _generator(excitation: Excitation) -> PauliSum:
    """T - T^dagger, the sum that an excitation's parameter multiplies."""
    factors = [creation(mode) for mode in excitation.virtual]
    factors += [annihilation(mode) for mode in reversed(excitation.occupied)]
    move = functools.reduce(lambda left, right: left @ right, factors)
    return (move - move.adjoint()).simplify()
