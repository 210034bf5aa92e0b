"""Textbook algorithms. None of them measures: sample the final state, or add measurements with `measure`."""

import math
from collections.abc import Iterable

from qdist.hints import hinted

from ..circuit import Circuit, checked_circuit
from ..errors import CircuitError
from ..wires import check_count
from .arguments import bit_string, integer, listed


@hinted
def qft(num_qubits: int, inverse: bool = False, swaps: bool = True) -> Circuit:
    """The quantum Fourier transform |j> -> 2^(-n/2) sum_k exp(2 pi i j k / 2^n) |k> (Coppersmith, 1994).

    Args:
        num_qubits: the number of qubits.
        inverse: build the inverse transform.
        swaps: end with (the inverse: begin with) the swaps that put the result in order; without them it has
            its qubits reversed.
    """
    circuit = Circuit(num_qubits)
    for target in reversed(range(num_qubits)):
        circuit.h(target)
        for control in reversed(range(target)):
            circuit.cp(math.ldexp(math.pi, control - target), control, target)
    if swaps:
        for qubit in range(num_qubits // 2):
            circuit.swap(qubit, num_qubits - 1 - qubit)
    return circuit.inverse() if inverse else circuit


@hinted
def constant_oracle(num_qubits: int, value: int) -> Circuit:
    """The oracle |x>|y> -> |x>|y ^ value> of a constant function; x is on qubits 0 to n - 1, y on qubit n."""
    num_qubits = check_count(num_qubits, "qubits")
    if value not in (0, 1):
        raise CircuitError(f"the value of a function is 0 or 1; got {value!r}")
    circuit = Circuit(num_qubits + 1)
    if value:
        circuit.x(num_qubits)
    return circuit


@hinted
def parity_oracle(mask: str) -> Circuit:
    """The oracle |x>|y> -> |x>|y ^ (mask . x)>, a balanced function unless the mask is 0.

    The inner product is modulo 2.

    Args:
        mask: a bit string, highest qubit first. x is on qubits 0 to n - 1, y on qubit n = len(mask).
    """
    num_qubits = len(bit_string(mask))
    circuit = Circuit(num_qubits + 1)
    for qubit, bit in enumerate(reversed(mask)):
        if bit == "1":
            circuit.cx(qubit, num_qubits)
    return circuit


@hinted
def deutsch_jozsa(oracle: Circuit) -> Circuit:
    """The Deutsch-Jozsa algorithm: is a function constant or balanced? (Proc. R. Soc. A 439, 553 (1992).)

    Args:
        oracle: |x>|y> -> |x>|y ^ f(x)> with y on its last qubit, as `constant_oracle` and `parity_oracle`
            make.

    At the end qubits 0 to n - 1 are all 0 if f is constant, and never all 0 if it is balanced.
    """
    inputs = range(checked_circuit(oracle, "deutsch_jozsa").num_qubits - 1)
    circuit = Circuit(oracle.num_qubits)
    circuit.x(len(inputs))
    circuit.h(range(oracle.num_qubits))
    circuit.compose(oracle, inplace=True)
    circuit.h(inputs)
    return circuit


@hinted
def bernstein_vazirani(secret: str) -> Circuit:
    """The Bernstein-Vazirani algorithm (SIAM J. Comput. 26, 1411 (1997)) for f(x) = secret . x.

    Args:
        secret: a bit string, highest qubit first. At the end qubits 0 to len(secret) - 1 hold it with
            certainty.
    """
    return deutsch_jozsa(parity_oracle(secret))


@hinted
def grover(marked: Iterable[str], iterations: int | None = None) -> Circuit:
    """Grover's search for marked bit strings (quant-ph/9605043; several: Boyer et al., quant-ph/9605034).

    Args:
        marked: different bit strings of one length, highest qubit first.
        iterations: how often to amplify; when not given, the number that makes finding a marked string most
            likely.

    >>> grover(["101"]).num_qubits
    3
    """
    strings = [bit_string(string) for string in listed(marked, "marked", "bit strings")]
    lengths = {len(string) for string in strings}
    if len(lengths) != 1 or len(set(strings)) != len(strings):
        raise CircuitError(f"marked strings must be different and equally long, got {strings}")
    (num_qubits,) = lengths
    if iterations is None:
        angle = math.asin(math.sqrt(len(strings) / 2**num_qubits))
        iterations = round(math.pi / (4 * angle) - 0.5)
    step = Circuit(num_qubits)
    for string in strings:
        _flip_phase(step, string)
    step.h(range(num_qubits))
    _flip_phase(step, "0" * num_qubits)
    step.h(range(num_qubits))
    circuit = Circuit(num_qubits)
    circuit.h(range(num_qubits))
    return circuit.compose(step.repeat(iterations))


@hinted
def phase_estimation(unitary: Circuit, num_evaluation: int, preparation: Circuit | None = None) -> Circuit:
    """Phase estimation (Kitaev, quant-ph/9511026; in the form of Cleve et al., quant-ph/9708016).

    For an eigenstate with eigenvalue exp(2 pi i phi), qubits 0 to t - 1 end up as an integer near 2^t phi.

    Args:
        unitary: the circuit whose phase is estimated; it moves to qubits t to t + n - 1.
        num_evaluation: the number t of evaluation qubits, which is the number of bits of phi. The unitary is
            used 2^t - 1 times.
        preparation: prepares the eigenstate, or a superposition of some, on the qubits of the unitary.
    """
    num_evaluation = check_count(num_evaluation, "evaluation qubits")
    num_qubits = num_evaluation + checked_circuit(unitary, "phase_estimation").num_qubits
    system = range(num_evaluation, num_qubits)
    circuit = Circuit(num_qubits)
    if preparation is not None:
        circuit.compose(preparation, system, inplace=True)
    circuit.h(range(num_evaluation))
    controlled = unitary.controlled()
    for qubit in range(num_evaluation):
        circuit.compose(controlled.repeat(2**qubit), (qubit, *system), inplace=True)
    return circuit.compose(qft(num_evaluation, inverse=True), range(num_evaluation))


@hinted
def amplitude_estimation(preparation: Circuit, objective: int, num_evaluation: int) -> Circuit:
    """Amplitude estimation (Brassard et al., quant-ph/0005055): the probability a that a qubit is 1.

    Phase estimation of the Grover operator Q = A (2|0><0| - 1) A^-1 (1 - 2 good), whose eigenvalues exp(+-2i
    theta) have a = sin^2(theta). Qubits 0 to t - 1, read as an integer y, end up where sin^2(pi y / 2^t) is
    near a.

    Args:
        preparation: the circuit A; it moves to qubits t to t + n - 1.
        objective: the qubit of A that is 1 in good states.
        num_evaluation: the number t of evaluation qubits. A and its inverse are used 2^t - 1 times each.
    """
    num_evaluation = check_count(num_evaluation, "evaluation qubits")
    checked_circuit(preparation, "amplitude_estimation")
    if not 0 <= integer(objective, "objective") < preparation.num_qubits:
        raise CircuitError(f"objective {objective} is not a qubit of a preparation on {preparation.num_qubits}")
    num_qubits = num_evaluation + preparation.num_qubits
    system = range(num_evaluation, num_qubits)
    # Only the reflections are controlled: where they do not act, A and its inverse cancel.
    step = Circuit(1 + preparation.num_qubits)
    step.cz(0, 1 + objective)
    step.compose(preparation.inverse(), range(1, step.num_qubits), inplace=True)
    _flip_phase(step, "0" * preparation.num_qubits + "1")
    step.z(0)
    step.compose(preparation, range(1, step.num_qubits), inplace=True)
    circuit = Circuit(num_qubits).compose(preparation, system)
    circuit.h(range(num_evaluation))
    for qubit in range(num_evaluation):
        circuit.compose(step.repeat(2**qubit), (qubit, *system), inplace=True)
    return circuit.compose(qft(num_evaluation, inverse=True), range(num_evaluation))


def _flip_phase(circuit: Circuit, string: str) -> None:
    """Add a gate that changes the sign of one basis state of all the qubits of the circuit."""
    *controls, target = range(circuit.num_qubits)
    # The gate acts where its target is 1; around it, X makes that the wanted value.
    if string[0] == "0":
        circuit.x(target)
    circuit.mcp(math.pi, controls, target, ctrl_state=string[1:])
    if string[0] == "0":
        circuit.x(target)
