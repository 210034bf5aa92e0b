"""Textbook and random circuits, ansätze and feature maps, against closed forms and Qiskit's definitions."""

import doctest
import functools
import importlib
import itertools
import math
import pkgutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qdist.circuit import Circuit, CircuitError, ParameterVector, PauliString, PauliSum, library, pauli
from qdist.circuit.library import (
    amplitude_embedding,
    amplitude_estimation,
    angle_embedding,
    bernstein_vazirani,
    constant_oracle,
    deutsch_jozsa,
    efficient_su2,
    ghz,
    graph_state,
    grover,
    hardware_efficient,
    maxcut,
    parity_oracle,
    phase_estimation,
    qaoa,
    qaoa_maxcut,
    qft,
    quantum_volume,
    random_circuit,
    random_su,
    real_amplitudes,
    strongly_entangling_layers,
    w_state,
    zz_feature_angles,
    zz_feature_map,
)
from qdist.circuit.library.graphs import entangling_pairs
from qdist.state import reference

ENTANGLEMENTS = ["linear", "reverse_linear", "circular", "full", "pairwise"]


def random_angles(circuit, seed):
    return np.random.default_rng(seed).uniform(-math.pi, math.pi, size=circuit.num_parameters)


def assert_equal_up_to_phase(a, b):
    overlap = np.vdot(a, b)
    assert abs(overlap) == pytest.approx(np.linalg.norm(a) * np.linalg.norm(b), abs=1e-9)
    assert np.allclose(a * (overlap / abs(overlap)), b, rtol=0, atol=1e-9)


class Graph:
    """The part of a networkx Graph that is read: nodes, and edges that give their weights when called."""

    class Edges(dict):
        def __call__(self, data, default):
            return [(a, b, attributes.get(data, default)) for (a, b), attributes in self.items()]

    def __init__(self, nodes, edges):
        self.nodes = nodes
        self.edges = self.Edges(edges)


class TestFourier:
    @pytest.mark.parametrize("num_qubits", [1, 2, 3, 5])
    def test_is_the_discrete_fourier_transform(self, num_qubits):
        size = 2**num_qubits
        j, k = np.meshgrid(range(size), range(size))
        dft = np.exp(2j * math.pi * j * k / size) / math.sqrt(size)
        assert np.allclose(reference.unitary(qft(num_qubits)), dft, rtol=0, atol=1e-12)
        inverse = reference.unitary(qft(num_qubits, inverse=True))
        assert np.allclose(inverse, dft.conj(), rtol=0, atol=1e-12)

    def test_without_swaps_the_result_has_its_qubits_reversed(self):
        reverse = [int(f"{i:03b}"[::-1], 2) for i in range(8)]
        plain = reference.unitary(qft(3, swaps=False))
        assert np.allclose(plain[reverse], reference.unitary(qft(3)), rtol=0, atol=1e-12)
        both = qft(3, swaps=False).compose(qft(3, swaps=False, inverse=True))
        assert np.allclose(reference.unitary(both), np.eye(8), rtol=0, atol=1e-12)

    def test_gate_counts(self):
        assert qft(20, swaps=False).count_ops() == {"cp": 190, "h": 20}
        assert qft(20).count_ops()["swap"] == 10
        assert qft(1100, swaps=False)[-1].gate.name == "h"  # the smallest angles underflow to 0


class TestStates:
    @pytest.mark.parametrize("num_qubits", [1, 2, 5])
    def test_ghz(self, num_qubits):
        expected = np.zeros(2**num_qubits)
        expected[[0, -1]] = math.sqrt(0.5)
        assert np.allclose(reference.state(ghz(num_qubits)), expected, rtol=0, atol=1e-12)

    @pytest.mark.parametrize("num_qubits", [1, 2, 3, 6])
    def test_w(self, num_qubits):
        expected = np.zeros(2**num_qubits)
        expected[2 ** np.arange(num_qubits)] = 1 / math.sqrt(num_qubits)
        assert np.allclose(reference.state(w_state(num_qubits)), expected, rtol=0, atol=1e-12)

    @pytest.mark.parametrize("make", [ghz, w_state])
    def test_no_qubits_are_refused(self, make):
        with pytest.raises(CircuitError, match="at least one qubit"):
            make(0)

    def test_graph_state_is_stabilised_by_x_times_neighbouring_z(self):
        edges = [(0, 1), (1, 2), (2, 3), (3, 0), (1, 3), (4, 0)]
        ket = reference.state(graph_state(edges))
        for vertex in range(5):
            neighbours = [a + b - vertex for a, b in edges if vertex in (a, b)]
            string = PauliString(" ".join([f"X{vertex}", *(f"Z{q}" for q in neighbours)]))
            assert np.allclose(string.to_matrix(5) @ ket, ket, rtol=0, atol=1e-12)

    def test_graph_objects_keep_their_isolated_vertices(self):
        assert graph_state(Graph(range(4), {(0, 1): {}})).num_qubits == 4


class TestAlgorithms:
    @pytest.mark.parametrize("secret", ["1", "0", "10110", "00001"])
    def test_bernstein_vazirani_finds_the_secret(self, secret):
        circuit = bernstein_vazirani(secret)
        probabilities = reference.probabilities(reference.state(circuit), range(len(secret)))
        assert probabilities[int(secret, 2)] == pytest.approx(1)

    @pytest.mark.parametrize("secret", ["", "012", "ab"])
    def test_bad_bit_strings_are_refused(self, secret):
        with pytest.raises(CircuitError, match="bit string"):
            bernstein_vazirani(secret)

    @pytest.mark.parametrize(
        ("oracle", "zero"),
        [
            (constant_oracle(3, 0), 1),
            (constant_oracle(3, 1), 1),
            (parity_oracle("010"), 0),
            (parity_oracle("111"), 0),
        ],
    )
    def test_deutsch_jozsa_tells_constant_from_balanced(self, oracle, zero):
        ket = reference.state(deutsch_jozsa(oracle))
        assert reference.probabilities(ket, range(3))[0] == pytest.approx(zero, abs=1e-12)

    def test_deutsch_jozsa_takes_any_oracle(self):
        oracle = Circuit(4).ccx(0, 1, 3).cx(2, 3)  # f = x0 x1 ^ x2, which is balanced
        ket = reference.state(deutsch_jozsa(oracle))
        assert reference.probabilities(ket, range(3))[0] == pytest.approx(0, abs=1e-12)

    @pytest.mark.parametrize(
        ("marked", "iterations"),
        [(["101"], None), (["0000", "1111"], None), (["01", "10"], 1), (["10110"], 2), (["1"], 1)],
    )
    def test_grover_success_probability(self, marked, iterations):
        """sin^2((2 k + 1) theta) with sin(theta)^2 the marked fraction."""
        circuit = grover(marked, iterations)
        theta = math.asin(math.sqrt(len(marked) / 2 ** len(marked[0])))
        k = circuit.count_ops().get("h", 0) // len(marked[0]) // 2
        assert iterations in (None, k)
        probabilities = reference.probabilities(reference.state(circuit))
        found = sum(probabilities[int(string, 2)] for string in marked)
        assert found == pytest.approx(math.sin((2 * k + 1) * theta) ** 2)
        if iterations is None:
            assert found > 0.9

    @pytest.mark.parametrize("marked", [[], ["01", "1"], ["01", "01"]])
    def test_grover_refuses_bad_sets(self, marked):
        with pytest.raises(CircuitError, match="different and equally long"):
            grover(marked)

    @pytest.mark.parametrize("numerator", [0, 1, 5, 15])
    def test_phase_estimation_is_exact_for_four_bit_phases(self, numerator):
        circuit = phase_estimation(Circuit(1).p(2 * math.pi * numerator / 16, 0), 4, Circuit(1).x(0))
        assert reference.probabilities(reference.state(circuit), range(4))[numerator] == pytest.approx(1)

    def test_phase_estimation_distribution(self):
        """|sin(pi 2^t d) / (2^t sin(pi d))|^2, where d is the distance of an outcome from the phase."""
        phase, size = 0.3, 32
        circuit = phase_estimation(Circuit(1).p(2 * math.pi * phase, 0), 5, Circuit(1).x(0))
        distance = phase - np.arange(size) / size
        expected = (np.sin(math.pi * size * distance) / (size * np.sin(math.pi * distance))) ** 2
        probabilities = reference.probabilities(reference.state(circuit), range(5))
        assert np.allclose(probabilities, expected, rtol=0, atol=1e-10)

    def test_phase_estimation_of_several_qubits(self):
        """exp(-i t ZZ/2) and X X share the Bell states; here the phase of |00> + |11> is -1/8."""
        unitary = Circuit(2).rzz(math.pi / 2, 0, 1)
        circuit = phase_estimation(unitary, 3, ghz(2))
        assert reference.probabilities(reference.state(circuit), range(3))[7] == pytest.approx(1)

    @pytest.mark.parametrize("y", [0, 1, 3, 4])
    def test_amplitude_estimation_is_exact_on_its_grid(self, y):
        t = 3
        preparation = Circuit(2).h(0).cry(2 * math.pi * y / 2**t, 0, 1).x(0).cry(2 * math.pi * y / 2**t, 0, 1)
        outcome = reference.probabilities(reference.state(amplitude_estimation(preparation, 1, t)), range(t))
        assert outcome[y] + (outcome[-y] if 0 < y < 4 else 0) == pytest.approx(1)

    def test_amplitude_estimation_needs_a_qubit_of_the_preparation(self):
        with pytest.raises(CircuitError, match="objective 2"):
            amplitude_estimation(Circuit(2).h(0), 2, 3)

    def test_amplitude_estimation_peaks_at_the_probability(self):
        preparation = hardware_efficient(3, 1)
        preparation = preparation.bind(random_angles(preparation, 3))
        wanted = reference.probabilities(reference.state(preparation), [1])[1]
        t = 6
        outcome = reference.probabilities(reference.state(amplitude_estimation(preparation, 1, t)), range(t))
        estimate = math.sin(math.pi * outcome.argmax() / 2**t) ** 2
        assert estimate == pytest.approx(wanted, abs=math.pi / 2**t)


class TestRandomCircuits:
    @pytest.mark.parametrize(("num_qubits", "depth"), [(4, None), (5, 10), (1, 3)])
    def test_quantum_volume_layers(self, num_qubits, depth):
        circuit = quantum_volume(num_qubits, depth, seed=1)
        per_layer = num_qubits // 2
        assert len(circuit) == per_layer * (num_qubits if depth is None else depth)
        for start in range(0, len(circuit), max(1, per_layer)):
            touched = [q for instruction in circuit[start : start + per_layer] for q in instruction.qubits]
            assert len(set(touched)) == len(touched) == 2 * per_layer
        for instruction in circuit:
            block = instruction.gate.matrix()
            assert np.allclose(block @ block.conj().T, np.eye(4), rtol=0, atol=1e-12)
            assert np.linalg.det(block) == pytest.approx(1)

    def test_seeds(self):
        assert quantum_volume(4, seed=7) == quantum_volume(4, seed=7) != quantum_volume(4, seed=8)
        assert random_circuit(4, 5, seed=7) == random_circuit(4, 5, seed=7) != random_circuit(4, 5, seed=8)
        rng = np.random.default_rng(0)
        assert random_circuit(3, 3, rng) != random_circuit(3, 3, rng)

    def test_random_su_is_haar(self):
        """Moments of Haar measure: <|u|^2> = 1/d, <|u|^4> = 2 / (d (d + 1)), <|tr U|^2> = 1."""
        rng = np.random.default_rng(0)
        squares = np.array([np.abs(random_su(3, rng)[0, 0]) ** 2 for _ in range(5_000)])
        assert squares.mean() == pytest.approx(1 / 3, abs=0.015)
        assert (squares**2).mean() == pytest.approx(1 / 6, abs=0.015)
        traces = np.array([np.abs(np.trace(random_su(3, rng))) ** 2 for _ in range(5_000)])
        assert traces.mean() == pytest.approx(1, abs=0.1)

    def test_random_circuit_is_made_of_layers(self):
        circuit = random_circuit(5, 6, seed=3, gates=["h", "rzz", "ccx", "u"])
        assert set(circuit.count_ops()) <= {"h", "rzz", "ccx", "u"}
        assert circuit.depth() == 6
        assert sum(len(instruction.qubits) for instruction in circuit) == 30

    def test_wide_gates_alone_leave_qubits_out(self):
        assert len(random_circuit(5, 4, seed=0, gates=["cx"])) == 8

    def test_unknown_gates_are_refused(self):
        with pytest.raises(CircuitError, match="'hadamard'"):
            random_circuit(2, 2, gates=["hadamard"])

    def test_random_circuits_are_unitary(self):
        matrix = reference.unitary(random_circuit(4, 20, seed=5))
        assert np.allclose(matrix @ matrix.conj().T, np.eye(16), rtol=0, atol=1e-10)


class TestAnsatz:
    def test_the_benchmark_ansatz(self):
        """8 layers of RY, RZ on every qubit, then a chain of CX."""
        n = 20
        circuit = hardware_efficient(n, 8)
        assert circuit.count_ops() == {"ry": 8 * n, "rz": 8 * n, "cx": 8 * (n - 1)}
        assert circuit.num_parameters == 16 * n
        assert [i.qubits for i in circuit[2 * n : 3 * n - 1]] == [(q, q + 1) for q in range(n - 1)]
        assert circuit[-1].gate.name == "cx"

    def test_pairs_of_entangling_layers(self):
        expected = {
            "linear": [(0, 1), (1, 2), (2, 3)],
            "reverse_linear": [(2, 3), (1, 2), (0, 1)],
            "circular": [(3, 0), (0, 1), (1, 2), (2, 3)],
            "full": [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)],
            "pairwise": [(0, 1), (2, 3), (1, 2)],
        }
        assert {name: entangling_pairs(4, name) for name in ENTANGLEMENTS} == expected
        assert entangling_pairs(2, "circular") == [(0, 1)]
        assert entangling_pairs(4, [(3, 1)]) == [(3, 1)]
        with pytest.raises(CircuitError, match="'linear'"):
            entangling_pairs(4, "chain")

    def test_other_rotations_and_entanglers(self):
        circuit = hardware_efficient(3, 2, rotations=["rx"], entangler="cz", entanglement="circular")
        assert circuit.count_ops() == {"rx": 6, "cz": 6}
        for options in ({"rotations": ["measure"]}, {"rotations": ["h"]}, {"entangler": "rzz"}):
            with pytest.raises(CircuitError, match="is not a gate on"):
                hardware_efficient(3, 1, **options)

    @pytest.mark.parametrize("entanglement", ENTANGLEMENTS)
    @pytest.mark.parametrize("num_qubits", [2, 4])
    def test_real_amplitudes_and_efficient_su2_are_qiskits(self, entanglement, num_qubits):
        library = pytest.importorskip("qiskit.circuit.library")
        Operator = pytest.importorskip("qiskit.quantum_info").Operator
        for ours, theirs in [
            (
                real_amplitudes(num_qubits, 2, entanglement),
                library.real_amplitudes(num_qubits, entanglement, 2),
            ),
            (
                efficient_su2(num_qubits, 2, entanglement),
                library.efficient_su2(num_qubits, entanglement=entanglement, reps=2),
            ),
        ]:
            angles = random_angles(ours, num_qubits)
            expected = Operator(theirs.assign_parameters(angles)).data
            assert np.allclose(reference.unitary(ours, angles), expected, rtol=0, atol=1e-10)

    def test_defaults_are_qiskits(self):
        library = pytest.importorskip("qiskit.circuit.library")
        Operator = pytest.importorskip("qiskit.quantum_info").Operator
        for ours, theirs in [
            (real_amplitudes(3), library.real_amplitudes(3)),
            (efficient_su2(3), library.efficient_su2(3)),
        ]:
            angles = random_angles(ours, 1)
            expected = Operator(theirs.assign_parameters(angles)).data
            assert np.allclose(reference.unitary(ours, angles), expected, rtol=0, atol=1e-10)

    def test_real_amplitudes_are_real(self):
        circuit = real_amplitudes(4)
        assert np.abs(reference.state(circuit, random_angles(circuit, 0)).imag).max() == 0

    @pytest.mark.parametrize(
        ("num_qubits", "layers", "ranges"), [(1, 2, None), (2, 2, None), (4, 5, None), (4, 2, [3, 1])]
    )
    def test_strongly_entangling_layers(self, num_qubits, layers, ranges):
        """PennyLane's definition: Rot on each wire, then CNOT to the wire l mod (n - 1) + 1 further."""
        circuit = strongly_entangling_layers(num_qubits, layers, ranges)
        angles = random_angles(circuit, 5)
        weights = angles.reshape(layers, num_qubits, 3)
        expected = np.eye(2**num_qubits)
        for layer in range(layers):
            blocks = []
            for phi, theta, omega in weights[layer]:
                c, s = math.cos(theta / 2), math.sin(theta / 2)
                plus, minus = (phi + omega) / 2, (phi - omega) / 2
                blocks.append(
                    np.array(
                        [
                            [np.exp(-1j * plus) * c, -np.exp(1j * minus) * s],
                            [np.exp(-1j * minus) * s, np.exp(1j * plus) * c],
                        ]
                    )
                )
            expected = functools.reduce(np.kron, blocks[::-1]) @ expected
            r = ranges[layer] if ranges else layer % max(1, num_qubits - 1) + 1
            for wire in range(num_qubits if num_qubits > 1 else 0):
                index = np.arange(2**num_qubits)
                flipped = index ^ ((index >> wire & 1) << (wire + r) % num_qubits)
                expected = expected[flipped]
        assert np.allclose(reference.unitary(circuit, angles), expected, rtol=0, atol=1e-10)

    def test_strongly_entangling_ranges_are_checked(self):
        with pytest.raises(CircuitError, match="2 ranges"):
            strongly_entangling_layers(3, 2, [1])
        with pytest.raises(CircuitError, match="multiple of 3"):
            strongly_entangling_layers(3, 1, [3])


class TestQaoa:
    def test_parameters_are_gamma_then_beta(self):
        circuit = qaoa_maxcut([(0, 1), (1, 2)], 2)
        assert [p.name for p in circuit.parameters] == ["gamma[0]", "gamma[1]", "beta[0]", "beta[1]"]
        assert circuit.count_ops() == {"rx": 6, "rzz": 4, "h": 3}
        assert qaoa_maxcut(iter([(0, 1), (1, 2)]), 2).count_ops() == circuit.count_ops()

    @pytest.mark.parametrize(("gamma", "beta"), [(0.3, 0.2), (-math.pi / 4, math.pi / 8), (1.1, -0.7)])
    def test_one_layer_on_a_ring(self, gamma, beta):
        """Triangle-free regular graphs (Wang et al., PRA 97, 022304 (2018)); the optimum is 3/4."""
        ring = [(q, (q + 1) % 6) for q in range(6)]
        energy = reference.expectation(qaoa_maxcut(ring, 1), maxcut(ring), [gamma, beta])
        assert energy == pytest.approx(-6 * (0.5 - 0.25 * math.sin(4 * beta) * math.sin(2 * gamma)))

    def test_layers_are_the_exponentials_of_cost_and_mixer(self):
        cost = PauliSum({"Z0 Z1 Z2": 0.7, "Z1": -0.4, "Z0 Z2": 1.5, "": 2.0})
        gamma, beta = 0.37, 0.81
        phases = np.exp(-1j * gamma * (np.diagonal(cost.to_matrix()) - 2.0))
        mixer = np.array([[math.cos(beta), -1j * math.sin(beta)], [-1j * math.sin(beta), math.cos(beta)]])
        mixer = functools.reduce(np.kron, [mixer] * 3)
        expected = mixer @ (phases * np.full(8, 8**-0.5))
        assert np.allclose(reference.state(qaoa(cost, 1), [gamma, beta]), expected, rtol=0, atol=1e-12)

    def test_weights_and_isolated_vertices(self):
        graph = Graph(range(4), {(0, 1): {"weight": 2.0}, (1, 2): {}})
        circuit = qaoa_maxcut(graph, 1)
        assert circuit.num_qubits == 4
        assert [i.params[0].terms for i in circuit if i.gate.name == "rzz"] == [
            {circuit.parameters[0]: 2.0},
            {circuit.parameters[0]: 1.0},
        ]

    @pytest.mark.parametrize("cost", [PauliSum("X0"), PauliSum({"Z0": 1j})])
    def test_costs_must_be_real_and_diagonal(self, cost):
        with pytest.raises(CircuitError, match="sum of Z strings"):
            qaoa(cost, 1)


class TestEmbeddings:
    @pytest.mark.parametrize("rotation", ["rx", "ry", "rz"])
    def test_angle_embedding(self, rotation):
        x = ParameterVector("x", 3)
        circuit = angle_embedding(x, rotation)
        values = [0.1, -0.2, 0.3]
        assert [i.gate.name for i in circuit] == [rotation] * 3
        assert circuit.bind(values) == angle_embedding(values, rotation)

    def test_angle_embedding_refuses_other_gates(self):
        with pytest.raises(CircuitError, match="'rx', 'ry' or 'rz'"):
            angle_embedding([0.1], "h")

    @given(st.lists(st.floats(-10, 10), min_size=1, max_size=9).filter(lambda x: np.linalg.norm(x) > 1e-3))
    def test_amplitude_embedding(self, features):
        ket = reference.state(amplitude_embedding(features, normalize=True, pad_with=0))
        padded = np.concatenate([features, np.zeros(len(ket) - len(features))])
        assert np.allclose(ket, padded / np.linalg.norm(padded), rtol=0, atol=1e-12)

    @pytest.mark.parametrize(
        ("features", "options", "message"),
        [
            ([1, 0, 0], {}, "pad_with"),
            ([1, 1], {}, "norm of the features is 1.41421"),
            ([0, 0], {"normalize": True}, "norm of the features is 0"),
            ([], {}, "vector"),
            ([[1, 0]], {}, "vector"),
        ],
    )
    def test_bad_amplitudes_are_refused(self, features, options, message):
        with pytest.raises(CircuitError, match=message):
            amplitude_embedding(features, **options)

    @pytest.mark.parametrize("entanglement", ENTANGLEMENTS)
    @pytest.mark.parametrize(("num_qubits", "reps"), [(2, 2), (4, 1), (3, 3)])
    def test_zz_feature_map_is_qiskits(self, entanglement, num_qubits, reps):
        library = pytest.importorskip("qiskit.circuit.library")
        Operator = pytest.importorskip("qiskit.quantum_info").Operator
        x = np.random.default_rng(num_qubits).uniform(-1, 1, size=num_qubits)
        theirs = library.zz_feature_map(num_qubits, reps=reps, entanglement=entanglement)
        ours = reference.unitary(zz_feature_map(num_qubits, reps, entanglement), zz_feature_angles(x, entanglement))
        assert_equal_up_to_phase(Operator(theirs.assign_parameters(x)).data, ours)

    def test_zz_feature_angles_of_a_batch(self):
        batch = np.random.default_rng(0).normal(size=(5, 2, 3))
        angles = zz_feature_angles(batch)
        assert angles.shape == (5, 2, 6)
        for index in itertools.product(range(5), range(2)):
            assert np.array_equal(angles[index], zz_feature_angles(batch[index]))


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (library.ghz, "qubits"),
        (library.w_state, "qubits"),
        (lambda n: library.quantum_volume(3, n, seed=0), "layers"),
        (lambda n: library.random_circuit(3, n, seed=0), "layers"),
        (lambda n: library.random_su(n, 0), "rows of the matrix"),
        (lambda n: library.hardware_efficient(n, 1), "qubits"),
        (lambda n: library.hardware_efficient(3, n), "layers"),
        (lambda n: library.efficient_su2(3, n), "layers"),
        (lambda n: library.strongly_entangling_layers(3, n), "layers"),
        (lambda n: library.zz_feature_map(n), "qubits"),
        (lambda n: library.zz_feature_map(3, n), "repetitions"),
        (lambda n: library.hartree_fock(n, 4), "electrons"),
        (lambda n: library.excitations(n, 4), "electrons"),
        (lambda n: library.excitations(2, n), "spin orbitals"),
        (lambda n: library.uccsd(2, 4, n), "repetitions"),
        (lambda n: library.trotter("Z0", 0.1, n), "steps"),
        (library.annihilation, "a mode"),
        (library.creation, "a mode"),
    ],
)
@pytest.mark.parametrize("number", [-1, 2.5, "2", None, (2,)], ids=repr)
def test_numbers_that_are_none(make, what, number):
    if what == "layers" and number is None:
        number = -2  # quantum_volume has a default.
    with pytest.raises(CircuitError, match=f"the number of {what} must be an int >= 0; got"):
        make(number)


@pytest.mark.parametrize(
    "make",
    [
        library.angle_embedding,
        library.grover,
        lambda other: library.hardware_efficient(2, 1, rotations=other),
        lambda other: library.efficient_su2(2, 1, rotations=other),
        lambda other: library.random_circuit(2, 1, gates=other),
        lambda other: library.strongly_entangling_layers(2, 1, ranges=other),
        lambda other: library.hardware_efficient(2, 1, entanglement=other),
        lambda other: library.zz_feature_map(2, entanglement=other),
        lambda other: library.zz_feature_angles([0.1, 0.2], entanglement=other),
    ],
)
@pytest.mark.parametrize("other", [3, 0.5, "rx", "01", np.array(1.0), {"rx": 1}], ids=repr)
def test_what_is_no_list_is_refused(make, other):
    """Text would be taken letter by letter: the gates r and x of "rx", the strings 0 and 1 of "01"."""
    with pytest.raises(CircuitError, match=r"must be a list of|is not known"):
        make(other)


@pytest.mark.parametrize("pairs", [[0, 1], [(0, 1, 2)], [(0,)], ["01"]])
def test_pairs_of_an_entangling_layer_are_two_qubits(pairs):
    with pytest.raises(CircuitError, match="must be a list of"):
        library.hardware_efficient(3, 1, entanglement=pairs)


def test_lists_of_every_kind_are_taken():
    theta = ParameterVector("theta", 2)
    plain = library.angle_embedding([0.1, 0.2])
    for angles in ((0.1, 0.2), np.array([0.1, 0.2]), iter([0.1, 0.2])):
        assert library.angle_embedding(angles) == plain
    assert library.angle_embedding(theta).parameters == tuple(theta)
    pairs = library.hardware_efficient(3, 1, entanglement=np.array([[0, 2], [1, 0]]))
    assert [qubits for gate, qubits, *_ in pairs if gate.name == "cx"] == [(0, 2), (1, 0)]


@pytest.mark.parametrize("other", [None, "h", 3, {}], ids=repr)
def test_what_is_no_circuit_is_refused_by_algorithms(other):
    for make in (
        library.deutsch_jozsa,
        lambda unitary: library.phase_estimation(unitary, 2),
        lambda preparation: library.amplitude_estimation(preparation, 0, 2),
    ):
        with pytest.raises(TypeError, match=r"takes a qdist.Circuit, not"):
            make(other)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: library.phase_estimation(Circuit(1), 2.0), "evaluation qubits must be an int"),
        (lambda: library.amplitude_estimation(Circuit(1), 0, "2"), "evaluation qubits must be an int"),
        (lambda: library.amplitude_estimation(Circuit(1), "0", 2), "objective must be an int"),
        (lambda: library.constant_oracle(2, "0"), "the value of a function is 0 or 1; got '0'"),
        (lambda: library.constant_oracle(2, 2), "the value of a function is 0 or 1; got 2"),
        (lambda: library.constant_oracle("2", 1), "qubits must be an int"),
        (lambda: library.parity_oracle(10), "expected a bit string"),
        (lambda: library.bernstein_vazirani(None), "expected a bit string"),
        (lambda: library.grover([1, 2]), "expected a bit string"),
        (lambda: library.hardware_efficient(2, 1, entangler=["cx"]), "is not a gate on 2 qubits"),
        (lambda: library.strongly_entangling_layers(2, 1, [1.5]), "a range must be an int"),
        (lambda: library.random_su(0), "at least one row"),
        (lambda: library.hartree_fock(4, 2), "4 electrons do not fit in 2 spin orbitals"),
        (lambda: library.zz_feature_angles("x"), "features must be real numbers"),
        (lambda: library.zz_feature_angles(0.3), "features must be real numbers"),
        (lambda: library.amplitude_embedding(["a"]), "features must be a vector of numbers"),
    ],
)
def test_what_else_is_refused(make, message):
    with pytest.raises(CircuitError, match=message):
        make()


def test_numbers_of_numpy_are_as_large_as_they_are():
    """Where a shift of a number of eight bits would overflow."""
    assert library.annihilation(np.int8(9)) == library.annihilation(9)
    assert library.ghz(np.int8(100)).num_qubits == 100
    small, plain = library.hardware_efficient(np.uint8(90), np.uint8(2)), library.hardware_efficient(90, 2)
    assert small.num_parameters == plain.num_parameters


@pytest.mark.parametrize("seed", [-1, 1.5, "1", {1}])
def test_what_is_no_seed(seed):
    for make in (
        lambda: library.random_su(2, seed),
        lambda: library.random_circuit(2, 1, seed),
        lambda: library.quantum_volume(2, seed=seed),
    ):
        with pytest.raises(CircuitError, match="a seed is an int >= 0, a NumPy Generator, or None"):
            make()


@pytest.mark.parametrize("graph", [3, None, 1.5, True])
def test_what_is_no_graph(graph):
    for make in (library.maxcut, library.graph_state):
        with pytest.raises(CircuitError, match=r"a graph is a list of edges \(a, b\)"):
            make(graph)


def test_every_public_name_has_a_docstring():
    assert all(getattr(library, name).__doc__ for name in library.__all__)


@pytest.mark.parametrize("package", [library, pauli])
def test_examples_in_docstrings(package):
    for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        assert doctest.testmod(importlib.import_module(module.name)).failed == 0
