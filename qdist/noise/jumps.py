"""Trajectories of any channels, by waiting times.

The first Kraus operator of a channel is what mostly happens, the others are jumps. Without a jump the state goes through
first operators alone, and its squared norm is the probability that there was none so far: a trajectory draws a number
and jumps where the squared norm falls below it. So trajectories without a jump are one run, and after equal jumps at
the same place trajectories are one run again: they are the branches of a tree, which is walked depth first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qdist.circuit import Circuit, PauliSum
from qdist.circuit.channels import Channel, LinearGate
from qdist.circuit.instruction import Instruction
from qdist.comm import Communicator
from qdist.noise.chain import Step, advance, chain_gradient
from qdist.noise.layers import layers_of
from qdist.noise.noisy import Noisy
from qdist.program.program import Program
from qdist.state.statevector import StateVector

__all__ = ["Jumps"]

_Record = tuple[tuple[int, int, int], ...]
"""(layer, channel of the layer, operator) of each jump."""


class _Leaf(NamedTuple):
    """Equal trajectories at the end of the circuit: their normalised state, which are, and what happened to them."""

    state: StateVector
    members: NDArray[np.int64]
    record: _Record


class _Branch(NamedTuple):
    """Equal trajectories on their way. state: after the jumps of ``record`` and what came since, normalised at the last
    of them. place: the next layer, and the next channel in it; -1 before its gates."""

    state: StateVector
    members: NDArray[np.int64]
    record: _Record
    place: tuple[int, int]


class _Numbers:
    """Random numbers of trajectories, each with its own sequence, so that no order of branches changes them."""

    def __init__(self, shots: int, rng: np.random.Generator) -> None:
        self.key = int(rng.integers(1 << 62))
        self._first = rng.random((shots, 4))
        self._used = np.zeros(shots, np.int64)
        self._more: dict[int, np.random.Generator] = {}

    def draw(self, members: NDArray[np.int64]) -> NDArray[np.float64]:
        """The next number of each member."""
        used = self._used[members]
        self._used[members] += 1
        found = self._first[members, np.minimum(used, self._first.shape[1] - 1)]
        for k in np.flatnonzero(used >= self._first.shape[1]):
            member = int(members[k])
            if member not in self._more:
                self._more[member] = np.random.default_rng([self.key, member])
            found[k] = self._more[member].random()
        return found


class Jumps:
    """A noisy circuit, compiled layer by layer."""

    def __init__(self, noisy: Noisy, comm: Communicator | None, device: str, dtype: Any) -> None:
        self._noisy, self._options = noisy, {"comm": comm, "device": device, "dtype": dtype}
        self._n = noisy.circuit.num_qubits
        self._layers = layers_of(noisy.circuit)
        self._calm = [self._compiled([*gates, *_operators(channels)]) for gates, channels in self._layers]
        self._gates: dict[int, Program] = {}
        self._single: dict[tuple[int, int, int], tuple[Program, Program]] = {}

    def values(
        self, observables: Sequence[PauliSum], theta: NDArray[np.float64], shots: int, rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """The exact value of every observable in every trajectory: (shots, observables)."""
        found = np.zeros((shots, len(observables)))
        for leaf in self._leaves(theta, _Numbers(shots, rng)):
            found[leaf.members] = leaf.state.expectations(observables)
        return found

    def sample(self, theta: NDArray[np.float64], shots: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """One basis state a trajectory."""
        found, numbers = np.zeros(shots, np.int64), _Numbers(shots, rng)
        for leaf in self._leaves(theta, numbers):
            seed = [numbers.key, int(leaf.members[0]), 1]
            found[leaf.members] = leaf.state.sample(len(leaf.members), seed)
        return found

    def value_and_gradient(
        self, observable: PauliSum, theta: NDArray[np.float64], shots: int, rng: np.random.Generator
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The value in every trajectory, and an unbiased estimate of the mean's derivatives.

        The probability w of a record of jumps depends on the parameters too: the mean is the sum over records of
        <psi|O|psi> for unnormalised psi, so that a record that was drawn counts with d<psi|O - b|psi> / w. Any b that
        no record changes is right, since the w add up to 1; the value without a jump makes for little variance.
        """
        values, gradient = np.zeros(shots), np.zeros(len(theta))
        base = self._calm_value(observable, theta)
        for leaf in self._leaves(theta, _Numbers(shots, rng)):
            value = float(leaf.state.expectation(observable))
            values[leaf.members] = value
            gradient += len(leaf.members) / shots * self._record_gradient(leaf.record, observable, theta, base)
        return values, gradient

    # The tree --------------------------------------------------------------------------------------------------------

    def _leaves(self, theta: NDArray[np.float64], numbers: _Numbers) -> Iterator[_Leaf]:
        everyone = np.arange(len(numbers._used))
        limits = numbers.draw(everyone)
        waiting = [_Branch(self._start(), everyone, (), (0, -1))]
        while waiting:
            branch = waiting.pop()
            layer, channel = branch.place
            if layer == len(self._layers):
                branch.state.normalize()
                yield _Leaf(branch.state, branch.members, branch.record)
            elif channel < 0:
                waiting += self._through_layer(branch, theta, limits)
            else:
                waiting += self._through_channel(branch, theta, limits, numbers)

    def _through_layer(
        self, branch: _Branch, theta: NDArray[np.float64], limits: NDArray[np.float64]
    ) -> Iterator[_Branch]:
        """All gates and first operators of a layer at once; those who jump in it go from its beginning again."""
        layer, _ = branch.place
        may_jump = bool(self._layers[layer].channels)
        before = branch.state.copy() if may_jump else branch.state
        state = advance(self._calm[layer], theta, branch.state)
        if may_jump:
            jumps = limits[branch.members] > state.norm() ** 2
            if not jumps.all():
                yield branch._replace(state=state, members=branch.members[~jumps], place=(layer + 1, -1))
            if jumps.any():
                # Last, so that they are finished first, and few states wait.
                before = advance(self._gates_of(layer), theta, before)
                yield branch._replace(state=before, members=branch.members[jumps], place=(layer, 0))
        else:
            yield branch._replace(state=state, place=(layer + 1, -1))

    def _through_channel(
        self, branch: _Branch, theta: NDArray[np.float64], limits: NDArray[np.float64], numbers: _Numbers
    ) -> Iterator[_Branch]:
        layer, channel = branch.place
        channels = self._layers[layer].channels
        after = (layer, channel + 1) if channel + 1 < len(channels) else (layer + 1, -1)
        gate, qubits, *_ = channels[channel]
        rho = branch.state.density_matrix(qubits)
        weights = np.einsum("kij,jl,kil->k", gate.data, rho, gate.data.conj()).real.clip(0.0)
        jumps = (limits[branch.members] > weights[0]) & bool(weights[1:].sum() > 0)
        if not jumps.all():
            state = branch.state.copy() if jumps.any() else branch.state
            state = advance(self._operator(layer, channel, 0)[0], theta, state)
            yield branch._replace(state=state, members=branch.members[~jumps], place=after)
        who = branch.members[jumps]
        if not len(who):
            return
        bounds = np.cumsum(weights[1:]) / weights[1:].sum()
        chosen = 1 + np.minimum(np.searchsorted(bounds, numbers.draw(who), side="right"), len(bounds) - 1)
        limits[who] = numbers.draw(who)
        for operator in np.unique(chosen).tolist():
            state = advance(self._operator(layer, channel, operator)[0], theta, branch.state.copy())
            state.normalize()
            record = (*branch.record, (layer, channel, operator))
            yield _Branch(state, who[chosen == operator], record, after)

    def _start(self) -> StateVector:
        device = self._calm[0].device if self._calm else self._options["device"]
        return StateVector(self._n, self._options["dtype"], self._options["comm"], device=device)

    # Gradients -------------------------------------------------------------------------------------------------------

    def _calm_value(self, observable: PauliSum, theta: NDArray[np.float64]) -> float:
        state = self._start()
        for program in self._calm:
            state = advance(program, theta, state)
        return float(state.normalize().expectation(observable)) if state.norm() > 0 else 0.0

    def _record_gradient(
        self, record: _Record, observable: PauliSum, theta: NDArray[np.float64], base: float
    ) -> NDArray[np.float64]:
        shifted = observable - base

        def bra_of(ket: StateVector) -> StateVector:
            squared = ket.norm() ** 2
            bra = ket.apply_pauli_sum(shifted)
            bra.local[:] *= bra.dtype.type(1 / squared)
            return bra

        return chain_gradient(self._steps(record), theta, self._start(), bra_of)

    def _steps(self, record: _Record) -> list[Step]:
        """The circuit with the operators that happened."""
        jumps = {(layer, channel): operator for layer, channel, operator in record}
        steps: list[Step] = []
        for number, (gates, channels) in enumerate(self._layers):
            if gates:
                steps.append(Step(self._gates_of(number)))
            if any(layer == number for layer, _ in jumps):
                found = (self._operator(number, c, jumps.get((number, c), 0)) for c in range(len(channels)))
                steps += [Step(*programs) for programs in found]
            elif channels:
                steps.append(Step(*self._calm_channels(number)))
        return steps

    # Programs --------------------------------------------------------------------------------------------------------

    def _gates_of(self, layer: int) -> Program:
        if layer not in self._gates:
            self._gates[layer] = self._compiled(self._layers[layer].gates)
        return self._gates[layer]

    def _operator(self, layer: int, channel: int, operator: int) -> tuple[Program, Program]:
        """One Kraus operator of a channel, and its adjoint."""
        key = (layer, channel, operator)
        if key not in self._single:
            instruction = self._layers[layer].channels[channel]
            matrix = instruction.gate.data[operator]
            self._single[key] = (
                self._compiled([Instruction(LinearGate(matrix), instruction.qubits)]),
                self._compiled([Instruction(LinearGate(matrix.conj().T), instruction.qubits)]),
            )
        return self._single[key]

    def _calm_channels(self, layer: int) -> tuple[Program, Program]:
        """The first operators of a layer's channels, and their adjoints in reverse order."""
        key = (layer, -1, 0)
        if key not in self._single:
            channels = self._layers[layer].channels
            self._single[key] = (
                self._compiled(_operators(channels)),
                self._compiled(_operators(channels[::-1], adjoint=True)),
            )
        return self._single[key]

    def _compiled(self, instructions: list[Instruction]) -> Program:
        circuit = Circuit(self._n).with_instructions(instructions).with_order(self._noisy.parameters)
        return Program(circuit, **self._options)


def _operators(channels: Sequence[Instruction], adjoint: bool = False) -> list[Instruction]:
    found = []
    for gate, qubits, *_ in channels:
        assert isinstance(gate, Channel)
        matrix = gate.data[0]
        found.append(Instruction(LinearGate(matrix.conj().T if adjoint else matrix), qubits))
    return found
