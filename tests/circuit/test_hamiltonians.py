"""Hamiltonians, time evolution, fermions and molecules, against exact solutions and published numbers."""

import itertools
import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qdist.circuit import CircuitError, Hermitian, Parameter, PauliString, PauliSum
from qdist.circuit.library import (
    Molecule,
    annihilation,
    creation,
    electronic_hamiltonian,
    excitations,
    h2,
    hartree_fock,
    heisenberg_evolution,
    heisenberg_xxz,
    lattice_edges,
    lih,
    maxcut,
    tfim,
    tfim_evolution,
    trotter,
    uccsd,
)
from qdist.circuit.library.graphs import disjoint_layers
from qdist.state import reference


def ground_energy(hamiltonian, num_qubits=None):
    matrix = hamiltonian.to_matrix(num_qubits)
    return np.linalg.eigvalsh(matrix if matrix.imag.any() else matrix.real)[0]


def exponential(hamiltonian, time, num_qubits):
    """exp(-i H time) by diagonalisation."""
    energies, vectors = np.linalg.eigh(hamiltonian.to_matrix(num_qubits))
    return (vectors * np.exp(-1j * energies * time)) @ vectors.conj().T


class TestLattices:
    def test_chains(self):
        assert lattice_edges(4) == [(0, 1), (1, 2), (2, 3)]
        assert lattice_edges(4, periodic=True) == [(0, 1), (1, 2), (2, 3), (3, 0)]
        assert lattice_edges(2, periodic=True) == [(0, 1)]
        assert lattice_edges(1) == []

    @pytest.mark.parametrize("periodic", [False, True])
    @pytest.mark.parametrize("shape", [(2, 3), (3, 3), (2, 2, 2), (3, 1, 4)])
    def test_neighbours_differ_by_one_step(self, shape, periodic):
        edges = {frozenset(edge) for edge in lattice_edges(shape, periodic)}
        sites = list(itertools.product(*map(range, shape)))
        for (i, a), (j, b) in itertools.combinations(enumerate(sites), 2):
            steps = [abs(p - q) for p, q in zip(a, b)]
            if periodic:
                steps = [min(step, size - step) for step, size in zip(steps, shape)]
            assert (frozenset((i, j)) in edges) == (sum(steps) == 1)
        assert len(edges) == len(lattice_edges(shape, periodic))

    @pytest.mark.parametrize("shape", [0, (), (2, 0), (2.0, 2)])
    def test_bad_shapes_are_refused(self, shape):
        with pytest.raises(CircuitError, match="positive sizes"):
            lattice_edges(shape)

    @pytest.mark.parametrize("shape", [7, (3, 4), (2, 3, 2)])
    def test_layers_are_disjoint_and_cover(self, shape):
        edges = lattice_edges(shape, periodic=True)
        layers = disjoint_layers(edges)
        assert sorted(itertools.chain(*layers)) == sorted(edges)
        for layer in layers:
            assert len(set(itertools.chain(*layer))) == 2 * len(layer)


class TestSpinModels:
    @pytest.mark.parametrize(("n", "J", "h"), [(2, 1.0, 1.0), (6, 1.0, 0.5), (7, -0.8, 1.3)])
    def test_open_tfim_is_free_fermions(self, n, J, h):
        """The excitation energies are twice the singular values of the bidiagonal matrix (Pfeuty, 1970)."""
        matrix = h * np.eye(n) + J * np.eye(n, k=-1)
        exact = -np.linalg.svd(matrix, compute_uv=False).sum()
        assert ground_energy(tfim(n, J, h)) == pytest.approx(exact)

    @pytest.mark.parametrize(("n", "h"), [(4, 0.7), (8, 1.0)])
    def test_periodic_tfim_is_free_fermions(self, n, h):
        momenta = (2 * np.arange(n) + 1) * math.pi / n
        exact = -np.sqrt(1 + h**2 - 2 * h * np.cos(momenta)).sum()
        assert ground_energy(tfim(n, 1.0, h, periodic=True)) == pytest.approx(exact)

    def test_tfim_on_a_square_lattice(self):
        model = tfim((3, 3), J=2.0, h=0.0)
        assert len(model) == 12
        assert ground_energy(model, 9) == pytest.approx(-24)
        assert len(tfim((3, 3), h=0.5)) == 21

    @pytest.mark.parametrize(
        ("shape", "periodic", "energy"),
        [
            (2, False, -3.0),  # the singlet
            (4, True, -8.0),
            (6, True, -2 - 2 * math.sqrt(13) - 2),
            ((2, 2), False, -8.0),  # the ring of four again
        ],
    )
    def test_heisenberg_ground_energies(self, shape, periodic, energy):
        assert ground_energy(heisenberg_xxz(shape, periodic=periodic)) == pytest.approx(energy)

    def test_heisenberg_conserves_magnetisation_and_the_isotropic_one_total_spin(self):
        total = {axis: PauliSum((f"{axis}{q}", 1.0) for q in range(5)) for axis in "XYZ"}
        isotropic, anisotropic = heisenberg_xxz(5, h=0.0), heisenberg_xxz(5, delta=0.5, h=0.3)
        assert all(isotropic.commutes_with(spin) for spin in total.values())
        assert anisotropic.commutes_with(total["Z"])
        assert not anisotropic.commutes_with(total["X"])

    def test_field_points_along_z(self):
        assert heisenberg_xxz(2, J=0, h=0.5) == PauliSum({"Z0": -0.5, "Z1": -0.5})

    def test_the_energy_of_the_benchmarks(self):
        """XX, YY, ZZ on a chain: 3 (n - 1) terms."""
        model = heisenberg_xxz(20)
        assert len(model) == 57
        assert [str(string) for string, _ in model[:3]] == ["X0 X1", "Y0 Y1", "Z0 Z1"]


class TestMaxCut:
    @settings(deadline=None)
    @given(st.dictionaries(st.sampled_from(list(itertools.combinations(range(5), 2))), st.floats(-3, 3), min_size=1))
    def test_energies_are_minus_the_cut(self, weights):
        cut = np.zeros(32)
        for index, ((a, b), weight) in itertools.product(range(32), weights.items()):
            cut[index] += weight * ((index >> a ^ index >> b) & 1)
        energies = np.diagonal(maxcut([(a, b, w) for (a, b), w in weights.items()]).to_matrix(5))
        assert np.allclose(energies, -cut, rtol=0, atol=1e-12)

    def test_pairs_have_weight_one(self):
        assert maxcut([(0, 1), (1, 2)]) == maxcut([[0, 1, 1.0], [1, 2, 1]])

    def test_networkx_graphs(self):
        networkx = pytest.importorskip("networkx")
        graph = networkx.Graph([(0, 1, {"weight": 2.5}), (1, 3)])
        assert maxcut(graph) == maxcut([(0, 1, 2.5), (1, 3)])

    def test_arrays_and_objects_with_edges(self):
        assert maxcut(np.array([[0, 1], [1, 3]])) == maxcut([(0, 1), (1, 3)])

        class WithEdges:
            edges = ((0, 1, 2.5), (1, 3))

        assert maxcut(WithEdges()) == maxcut([(0, 1, 2.5), (1, 3)])

    @pytest.mark.parametrize(
        ("graph", "message"),
        [
            ([("a", "b")], "vertices are the qubits"),
            ([(0, -1)], "vertices are the qubits"),
            ([(0, 0)], "to itself"),
            ([(0, 1), (1, 0)], "twice"),
            ([(0,)], "pair"),
            ([3], "pair"),
            ([(0, 1, float("nan"))], "finite"),
        ],
    )
    def test_bad_graphs_are_refused(self, graph, message):
        with pytest.raises(CircuitError, match=message):
            maxcut(graph)


class TestEvolution:
    MODELS = (
        (tfim(4, 0.8, 0.6), lambda *a: tfim_evolution(4, *a, J=0.8, h=0.6)),
        (tfim((2, 2), 0.5), lambda *a: tfim_evolution((2, 2), *a, J=0.5)),
        (heisenberg_xxz(4, 0.5, 0.7, 0.3), lambda *a: heisenberg_evolution(4, *a, J=0.5, delta=0.7, h=0.3)),
        (
            heisenberg_xxz(5, 0.3, periodic=True),
            lambda *a: heisenberg_evolution(5, *a, J=0.3, periodic=True),
        ),
        (h2().hamiltonian(), lambda *a: trotter(h2().hamiltonian(), *a)),
    )

    @pytest.mark.parametrize("order", [1, 2, 4])
    @pytest.mark.parametrize("model", range(len(MODELS)))
    def test_converges_at_its_order(self, model, order):
        hamiltonian, evolve = self.MODELS[model]
        exact = exponential(hamiltonian, 1.0, hamiltonian.num_qubits)
        errors = [np.linalg.norm(reference.unitary(evolve(1.0, steps, order)) - exact, ord=2) for steps in (4, 8)]
        assert errors[0] < 0.5
        assert math.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.35)

    def test_commuting_sums_are_exact_with_their_phase(self):
        hamiltonian = PauliSum({"Z0 Z1 Z2": 0.3, "Z0": -1.2, "": 0.7, "Z1 Z2": 0.5})
        exact = exponential(hamiltonian, 0.9, 3)
        assert np.allclose(reference.unitary(trotter(hamiltonian, 0.9)), exact, rtol=0, atol=1e-12)

    def test_mixed_strings_are_exact_alone(self):
        for label in ("XY", "YIZ", "XYZ", "Y", "XX", "YY", "ZX", "I"):
            exact = exponential(PauliSum(label), 0.4, 3)
            ours = reference.unitary(trotter(PauliSum(label), 0.4, num_qubits=3))
            assert np.allclose(ours, exact, rtol=0, atol=1e-12)

    def test_time_can_be_a_parameter(self):
        t = Parameter("t")
        circuit = tfim_evolution(3, t, steps=2, order=2)
        assert circuit.parameters == (t,)
        assert np.allclose(
            reference.unitary(circuit, {t: 0.7}),
            reference.unitary(tfim_evolution(3, 0.7, steps=2, order=2)),
            rtol=0,
            atol=1e-12,
        )

    def test_halves_of_neighbouring_steps_merge(self):
        """Ten second-order steps need one more layer of bonds than ten first-order ones."""
        assert tfim_evolution(6, 1.0, 10, 1).count_ops() == {"rx": 60, "rzz": 50}
        assert tfim_evolution(6, 1.0, 10, 2).count_ops() == {"rx": 60, "rzz": 55}
        assert sum(heisenberg_evolution(5, 1.0, 10, 2).count_ops().values()) == 3 * (10 * 4 + 2)

    def test_one_site(self):
        assert heisenberg_evolution(1, 1.0).num_qubits == 1

    @pytest.mark.parametrize(
        "given",
        [
            {"X0": 1.0},
            PauliString("X0 Y2"),
            "Z0 Z1",
            {"X0": 0.3, PauliString("Z1 Z2"): -0.7},
            Hermitian([[1, 0.5j], [-0.5j, -1]], [1]),
        ],
        ids=repr,
    )
    def test_a_hamiltonian_has_every_form_of_an_observable(self, given):
        total = given.to_pauli_sum() if isinstance(given, Hermitian) else PauliSum(given)
        exact = exponential(total, 0.3, 3)
        found = reference.unitary(trotter(given, 0.3, 8, 6, num_qubits=3))
        assert np.allclose(found, exact, rtol=0, atol=1e-9)
        parts = trotter([given, "Z0"], 0.3, 8, 6, num_qubits=3) if len(total) == 1 else None
        if parts is not None:
            both = exponential(total + PauliSum("Z0"), 0.3, 3)
            assert np.allclose(reference.unitary(parts), both, rtol=0, atol=1e-9)

    @pytest.mark.parametrize("given", [None, 3, [("X0", 1.0)], [None], np.eye(2)], ids=repr)
    def test_what_is_no_hamiltonian_is_refused(self, given):
        with pytest.raises(CircuitError, match="a Hamiltonian is a sum"):
            trotter(given, 0.3)

    def test_bad_arguments_are_refused(self):
        with pytest.raises(CircuitError, match="real"):
            trotter(PauliSum({"X0": 1j}), 1.0)
        with pytest.raises(CircuitError, match="commute"):
            trotter([PauliSum({"X0": 1, "Z0": 1})], 1.0)
        with pytest.raises(CircuitError, match="order must be 1 or even"):
            trotter(tfim(2), 1.0, order=3)
        with pytest.raises(CircuitError, match="one step"):
            trotter(tfim(2), 1.0, steps=0)
        for order in ("2", 2.0, None, -2):
            with pytest.raises(CircuitError, match="order must be 1 or even"):
                trotter(tfim(2), 1.0, order=order)
        for time in ("1", None, float("nan"), 1j, [0.1, 0.2]):
            with pytest.raises(CircuitError, match="the time must be a finite real number or an expression"):
                trotter(tfim(2), time)

    @pytest.mark.parametrize("strength", ["1", None, 1j, float("inf"), [1.0, 2.0]], ids=repr)
    def test_strengths_are_real_numbers(self, strength):
        makers = {
            "J": [tfim, heisenberg_xxz, partial(tfim_evolution, time=0.1), partial(heisenberg_evolution, time=0.1)],
            "h": [tfim, heisenberg_xxz, partial(tfim_evolution, time=0.1), partial(heisenberg_evolution, time=0.1)],
            "delta": [heisenberg_xxz, partial(heisenberg_evolution, time=0.1)],
        }
        for name, known in makers.items():
            for make in known:
                with pytest.raises(CircuitError, match=f"{name} must be a finite real number; got"):
                    make(3, **{name: strength})
                assert make(3, **{name: np.float32(0.5)}) == make(3, **{name: 0.5})
        with pytest.raises(CircuitError, match=r"the weight of edge \(0, 1\) must be a finite real number"):
            maxcut([(0, 1, strength)])


class TestFermions:
    def test_canonical_anticommutation(self):
        for p, q in itertools.product(range(4), repeat=2):
            a, b = annihilation(p), creation(q)
            assert a @ b + b @ a == PauliSum({"": float(p == q)})
            assert annihilation(p) @ annihilation(q) + annihilation(q) @ annihilation(p) == PauliSum()

    def test_number_operator(self):
        assert creation(3) @ annihilation(3) == PauliSum({"": 0.5, "Z3": -0.5})

    def test_excitations_conserve_spin(self):
        chosen = excitations(2, 4)
        assert [tuple(e) for e in chosen] == [((0,), (2,)), ((1,), (3,)), ((0, 1), (2, 3))]
        assert len(excitations(4, 12)) == 92  # 16 singles and 76 doubles, as for LiH in STO-3G

    @pytest.mark.parametrize(("electrons", "modes"), [(3, 6), (2, 5), (6, 4)])
    def test_bad_numbers_are_refused(self, electrons, modes):
        with pytest.raises(CircuitError, match="spin orbitals"):
            excitations(electrons, modes)

    def test_uccsd_conserves_the_electrons_of_each_spin(self):
        circuit = uccsd(2, 6, reps=2)
        ket = reference.state(circuit, np.random.default_rng(0).normal(size=circuit.num_parameters))
        for index in np.flatnonzero(np.abs(ket) > 1e-12):
            bits = [int(index) >> q & 1 for q in range(6)]
            assert (sum(bits[::2]), sum(bits[1::2])) == (1, 1)

    def test_each_excitation_is_the_exponential_of_its_generator(self):
        circuit = uccsd(2, 4)
        angles = np.array([0.3, -0.8, 1.1])
        ket = reference.state(hartree_fock(2, 4))
        for theta, (occupied, virtual) in zip(angles, excitations(2, 4)):
            move = PauliSum("I")
            for mode in virtual:
                move = move @ creation(mode)
            for mode in reversed(occupied):
                move = move @ annihilation(mode)
            ket = exponential(1j * (move - move.adjoint()), theta, 4) @ ket
        assert np.allclose(reference.state(circuit, angles), ket, rtol=0, atol=1e-12)


class TestMolecules:
    def test_h2_coefficients_are_the_published_ones(self):
        """The 15 Jordan-Wigner terms at 0.735 Angstrom as Qiskit Nature's documentation prints them."""
        nuclear_repulsion = 0.7199689944489797
        z, y = 0.04523279994605785, -0.22575349222402472
        published = {
            "": -0.8105479805373275,
            "Z0": 0.17218393261915543,
            "Z1": 0.17218393261915543,
            "Z2": y,
            "Z3": y,
            "Z0 Z1": 0.1689275387008791,
            "Z0 Z2": 0.12091263261776629,
            "Z1 Z3": 0.12091263261776629,
            "Z0 Z3": 0.16614543256382414,
            "Z1 Z2": 0.16614543256382414,
            "Z2 Z3": 0.17464343068300453,
            "X0 X1 Y2 Y3": -z,
            "Y0 Y1 X2 X3": -z,
            "X0 Y1 Y2 X3": z,
            "Y0 X1 X2 Y3": z,
        }
        expected = PauliSum(published) + nuclear_repulsion
        assert h2().hamiltonian().allclose(expected, tolerance=1e-7)

    @pytest.mark.parametrize("n", [1, 2])
    def test_integrals_of_other_shapes_are_refused(self, n):
        h, g = np.eye(n), np.zeros((n,) * 4)
        wider, text = np.zeros((n + 1,) * 4), [["x"]]
        for one, two in [
            (h, wider),
            (wider[0, 0], g),
            (h[:, :0], g),
            (h, g[:0]),
            (3.0, g),
            (h, h),
            (h, None),
            (text, g),
        ]:
            with pytest.raises(CircuitError, match=r"one_body|two_body"):
                electronic_hamiltonian(0.0, one, two)
        with pytest.raises(CircuitError, match="constant"):
            electronic_hamiltonian([0.1], h, g)

    def test_integrals_in_another_order_are_refused(self):
        molecule = h2()
        h, g = molecule.one_body, molecule.two_body
        for wrong in (g.transpose(0, 2, 1, 3), g + 0.1 * np.arange(16.0).reshape(2, 2, 2, 2)):
            with pytest.raises(CircuitError, match="chemists' order"):
                electronic_hamiltonian(0.0, h, wrong)
        back = g.transpose(0, 2, 1, 3).transpose(0, 2, 1, 3)
        assert electronic_hamiltonian(molecule.constant, h, back) == molecule.hamiltonian()
        with pytest.raises(CircuitError, match="one_body must be symmetric"):
            electronic_hamiltonian(0.0, h + [[0, 0.2], [0, 0]], g)

    def test_modes_are_ints_whatever_was_asked_before(self):
        """Where 2.0 would be found in a cache that 2 was put into."""
        assert annihilation(2) == annihilation(np.int64(2))
        for mode in (2.0, [2], {}, np.array([2, 3])):
            with pytest.raises(CircuitError, match="the number of a mode"):
                annihilation(mode)

    @pytest.mark.parametrize("place", [0, 1, 2])
    def test_complex_integrals_are_refused(self, place):
        h = [0.7, np.diag([-1.25, -0.5]), np.zeros((2, 2, 2, 2))]
        expected = electronic_hamiltonian(*h)
        real = [np.asarray(part).astype(complex) for part in h]
        assert electronic_hamiltonian(*real) == expected
        assert electronic_hamiltonian(h[0], h[1].tolist(), h[2].tolist()) == expected
        h[place] = real[place] + 0.1j
        with pytest.raises(CircuitError, match=["constant", "one_body", "two_body"][place] + " has an imaginary part"):
            electronic_hamiltonian(*h)

    def test_h2_energies(self):
        molecule = h2()
        hamiltonian = molecule.hamiltonian()
        assert len(hamiltonian) == 15
        assert ground_energy(hamiltonian) == pytest.approx(-1.137306035753, abs=1e-9)
        assert ground_energy(hamiltonian) - molecule.constant == pytest.approx(-1.857275, abs=1e-6)
        hf = reference.expectation(hartree_fock(2, 4), hamiltonian)
        assert hf == pytest.approx(-1.116998996754, abs=1e-9)

    def test_uccsd_reaches_the_ground_state_of_h2(self):
        hamiltonian, circuit = h2().hamiltonian(), uccsd(2, 4)

        def energy(theta):
            return reference.expectation(circuit, hamiltonian, [0, 0, theta])

        # In the double excitation the energy is a + b cos(2 theta) + c sin(2 theta).
        at_0, at_half, at_quarter = energy(0), energy(math.pi / 2), energy(math.pi / 4)
        a, b = (at_0 + at_half) / 2, (at_0 - at_half) / 2
        best = math.atan2(-(at_quarter - a), -b) / 2
        assert energy(best) == pytest.approx(-1.137306035753, abs=1e-9)

    def test_lih_hartree_fock_energy(self):
        molecule = lih()
        hamiltonian = molecule.hamiltonian()
        assert (molecule.num_electrons, molecule.num_qubits, len(hamiltonian)) == (4, 12, 631)
        energy = reference.expectation(hartree_fock(4, 12), hamiltonian)
        assert energy == pytest.approx(-7.862026959394, abs=1e-9)

    def test_lih_ground_energy(self):
        linalg = pytest.importorskip("scipy.sparse.linalg")
        SparsePauliOp = pytest.importorskip("qiskit.quantum_info").SparsePauliOp
        matrix = lih().hamiltonian().to_qiskit(SparsePauliOp).to_matrix(sparse=True)
        energy = linalg.eigsh(matrix, k=1, which="SA", v0=np.ones(4096))[0][0]
        assert energy == pytest.approx(-7.882403410335, abs=1e-9)

    @pytest.mark.parametrize(("active", "energy"), [([1, 2, 5], -7.881146468513), ([1, 2, 3, 4, 5], -7.882175990799)])
    def test_lih_active_spaces(self, active, energy):
        """PySCF's complete-active-space energies with the core frozen."""
        molecule = lih().active_space(active, frozen=[0])
        assert molecule.num_electrons == 2
        assert ground_energy(molecule.hamiltonian()) == pytest.approx(energy, abs=1e-9)

    def test_hamiltonians_conserve_electrons_and_spin(self):
        hamiltonian = lih().active_space([1, 2, 5], frozen=[0]).hamiltonian()
        assert hamiltonian.is_hermitian()
        for spin in (0, 1):
            number = sum((creation(q) @ annihilation(q) for q in range(spin, 6, 2)), PauliSum())
            assert hamiltonian.commutes_with(number)

    def test_fcidump_round_trip(self, tmp_path):
        path = tmp_path / "h2.fcidump"
        path.write_text(
            "&FCI NORB= 2,NELEC=2,MS2=0,\n ORBSYM=1,5,\n ISYM=1,\n/\n"
            "0.6757101548D+00 1 1 1 1\n 0.1809311998 1 2 1 2\n 0.6645817303 1 1 2 2\n 0.6985737227 2 2 2 2\n"
            "-1.2563390730 1 1 0 0\n-0.4718960073 2 2 0 0\n-0.58 1 0 0 0\n 0.7199689944 0 0 0 0\n"
        )
        assert Molecule.from_fcidump(path).hamiltonian().allclose(h2().hamiltonian())

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("1.0 1 1 0 0\n", "header"),
            ("&FCI NELEC=2 &END\n", "header"),
            ("&FCI NORB=1,NELEC=2 &END\n1.0 1 1 0\n", "line 2"),
            ("&FCI NORB=1,NELEC=2,\n &END\n1.0 1 1 0 0\nx 1 1 1 1\n", "line 4"),
            ("&FCI NORB=1,NELEC=2 &END\n\n1.0 2 1 0 0\n", "line 3"),
            ("&FCI NORB=1,NELEC=2 &END\n1.0 1 1 1 0\n", "line 2"),
            ("&FCI NORB=1,NELEC=2 &END\n1.0 0 1 0 0\n", "line 2"),
            ("&FCI NORB=1,NELEC=2,IUHF=1 &END\n1.0 1 1 0 0\n", "unrestricted"),
        ],
    )
    def test_bad_fcidumps_are_refused_with_the_line(self, tmp_path, text, message):
        path = tmp_path / "bad.fcidump"
        path.write_text(text)
        with pytest.raises(CircuitError, match=message):
            Molecule.from_fcidump(path)

    @pytest.mark.parametrize(("active", "frozen"), [([0], [0]), ([7], []), ([3], [0, 1, 2])])
    def test_bad_active_spaces_are_refused(self, active, frozen):
        with pytest.raises(CircuitError, match="orbitals"):
            lih().active_space(active, frozen)
