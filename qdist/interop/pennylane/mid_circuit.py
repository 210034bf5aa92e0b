"""Mid-circuit measurements, by a walk through the tree of their outcomes.

Every path is run once, however many shots take it: at a measurement the shots divide as their probabilities say, and
outcomes that no shot has are left out. So the results are those of single shots, for the price of few.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pennylane as qml
from numpy.typing import NDArray
from pennylane.measurements import ExpectationMP, MeasurementProcess, ProbabilityMP, Shots, VarianceMP
from pennylane.operation import Operator
from pennylane.ops import Conditional, MidMeasure
from pennylane.tape import QuantumScript
from pennylane.transforms.dynamic_one_shot import gather_mcm

from qdist.state.statevector import StateVector

from .measurements import output_of, qubits_of, read
from .sampling import sample_state, sampled
from .tapes import Compiler, places

__all__ = ["has_branches", "run"]

_LEAST = 1e-12
"""What is less likely is what rounding has left of an outcome that cannot be."""
_MOST_TRIED = 1 << 50
"""Of so many shots at most some must pass the postselections: as many as a double counts, and the generator draws."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """The end of a path: its state, its weight (a number of shots, or a probability), and its outcomes."""

    state: StateVector
    weight: float
    outcomes: dict[MidMeasure, int]


def has_branches(tape: QuantumScript) -> bool:
    """Whether anything in the tape is no unitary operation: a measurement, a condition, or a projector."""
    kinds = set(map(type, tape.operations))
    return any(issubclass(kind, MidMeasure | Conditional | qml.Projector) for kind in kinds)


def run(tape: QuantumScript, compiler: Compiler, wires: Any, rng: Any, postselect_mode: str | None) -> Any:
    """The results of a tape without a batch size."""
    place = places(tape, wires)
    walk = _Walk(tape.operations, place, compiler, rng, postselect_mode)
    # Where measurements were deferred, their outcomes are read from wires as everything else is.
    deferred = not any(isinstance(op, MidMeasure) for op in tape.operations)
    of_outcomes = [mp.mv is not None and not deferred for mp in tape.measurements]
    if not tape.shots:
        leaves = list(walk.leaves(None))
        if not leaves:
            raise qml.exceptions.DeviceError(_IMPOSSIBLE)
        if deferred:
            results = _read_only(tape.measurements, leaves, place, compiler)
        else:
            results = [_mean(mp, leaves, place, compiler) for mp in tape.measurements]
        return results[0] if len(results) == 1 else tuple(results)
    parts = []
    for count in tape.shots:
        leaves = list(walk.leaves(count))
        parts.append(_sampled(tape.measurements, of_outcomes, leaves, place, compiler, rng, postselect_mode, count))
    return tuple(parts) if tape.shots.has_partitioned_shots else parts[0]


class _Walk:
    def __init__(
        self, ops: Sequence[Operator], place: Mapping[Any, int], compiler: Compiler, rng: Any, mode: str | None
    ) -> None:
        self.ops, self.place, self.compiler, self.rng, self.mode = ops, place, compiler, rng, mode

    def leaves(self, shots: int | None) -> Iterator[Leaf]:
        """The ends of all paths that have shots or, without shots, a probability."""
        if shots is not None and self.mode == "fill-shots":
            return self._filled(shots)
        return self._from(0, None, {}, 1.0 if shots is None else shots, False)

    def _filled(self, shots: int) -> Iterator[Leaf]:
        """The ends of so many shots, all of which pass every postselection.

        Those who fail are replaced by others from the start, as what was measured before a postselection is not
        independent of it; those who pass beyond the number asked for are left out at random.
        """
        asked = missing = shots
        while missing:
            leaves = list(self._from(0, None, {}, asked, True))
            counts = np.array([leaf.weight for leaf in leaves], np.int64)
            passed = int(counts.sum())
            if passed > missing:
                counts = self.rng.multivariate_hypergeometric(counts, missing, method="marginals")
            yield from (replace(leaf, weight=int(count)) for leaf, count in zip(leaves, counts) if count)
            missing -= min(passed, missing)
            # A little more than what probably does, so that few go again.
            asked = 1 + int(1.2 * missing * asked / passed) if passed else 16 * asked
            if missing and asked > _MOST_TRIED:
                raise qml.exceptions.DeviceError(_IMPOSSIBLE)

    def _from(
        self, start: int, state: StateVector | None, outcomes: dict[MidMeasure, int], weight: float, fills: bool
    ) -> Iterator[Leaf]:
        """The leaves behind operation number ``start``; the state is this path's own.

        fills: whether all shots take a postselected outcome, as they may as long as there is but this path.
        """
        pending: list[Operator] = []
        for index in range(start, len(self.ops)):
            op = self.ops[index]
            if isinstance(op, Conditional):
                if op.meas_val.concretize(outcomes):
                    pending.append(op.base)
            elif isinstance(op, MidMeasure | qml.Projector):
                state = self._run(pending, state)
                yield from self._measured(index, op, state, outcomes, weight, fills)
                return
            else:
                pending.append(op)
        yield Leaf(self._run(pending, state), weight, outcomes)

    def _run(self, ops: Sequence[Operator], state: StateVector | None) -> StateVector:
        if state is not None and not ops:
            return state
        return self.compiler.applied(ops, self.place, state, state)

    def _measured(
        self,
        index: int,
        op: Any,
        state: StateVector,
        outcomes: dict[MidMeasure, int],
        weight: float,
        fills: bool,
    ) -> Iterator[Leaf]:
        qubits = qubits_of(op.wires, self.place)
        chances = state.probabilities(qubits)
        chances = chances / chances.sum()
        wanted = _wanted(op)
        weights = self._divided(weight, chances, wanted, fills)
        fills = fills and (wanted is not None or np.count_nonzero(chances > _LEAST) == 1)
        taken = [outcome for outcome, one in enumerate(weights) if one > 0]
        for outcome in taken:
            branch = state if outcome == taken[-1] else state.copy()
            branch.collapse(qubits, outcome)
            if isinstance(op, MidMeasure) and op.reset and outcome:
                branch = self._run([qml.PauliX(op.wires)], branch)
            known = {**outcomes, op: outcome} if isinstance(op, MidMeasure) else outcomes
            yield from self._from(index + 1, branch, known, weights[outcome], fills)

    def _divided(self, weight: float, chances: NDArray[Any], wanted: int | None, fills: bool) -> NDArray[Any]:
        """The shots, or the probability, of each outcome."""
        if isinstance(weight, float):
            shares = weight * np.where(chances > 1e-14, chances, 0)
        elif wanted is not None and fills:
            if chances[wanted] <= _LEAST:
                raise qml.exceptions.DeviceError(_IMPOSSIBLE)
            shares = np.full(len(chances), weight)
        else:
            likely = np.where(chances > _LEAST, chances, 0)
            shares = self.rng.multinomial(weight, likely / likely.sum())
        return shares if wanted is None else np.where(np.arange(len(chances)) == wanted, shares, 0)


_IMPOSSIBLE = "postselection on outcomes of probability 0 leaves no state: no run of the circuit has them"


def _wanted(op: Any) -> int | None:
    """The only outcome that goes on, as bits with the last wire lowest."""
    if isinstance(op, MidMeasure):
        return op.postselect
    return int("".join(str(int(bit)) for bit in op.data[0]), 2)


def _sampled(
    measurements: Sequence[MeasurementProcess],
    of_outcomes: Sequence[bool],
    leaves: Sequence[Leaf],
    place: Mapping[Any, int],
    compiler: Compiler,
    rng: Any,
    mode: str | None,
    asked: int,
) -> Any:
    """The results of one part of a shot vector: of the shots that are left after postselection."""
    counts = np.array([int(leaf.weight) for leaf in leaves], np.int64)
    total = int(counts.sum())
    if not total:
        _check_empty(measurements, asked)
    order = rng.permutation(total)
    own = [k for k, one in enumerate(of_outcomes) if not one]

    def draw(rotations: Sequence[Operator]) -> NDArray[np.int64]:
        bits = [sample_state(leaf.state, int(leaf.weight), rotations, place, compiler, rng) for leaf in leaves]
        return np.concatenate(bits)[order] if bits else np.zeros((0, len(place)), np.int64)

    results: list[Any] = [None] * len(measurements)
    if own:
        found = sampled([measurements[k] for k in own], Shots(max(1, total)), place, draw, _no_state, rng)
        for k, result in zip(own, (found,) if len(own) == 1 else found):
            results[k] = result
    if len(own) < len(measurements):
        mcms = {mcm: None for leaf in leaves for mcm in leaf.outcomes}
        samples = {
            mcm: np.repeat([leaf.outcomes.get(mcm, 0) for leaf in leaves], counts)[order][:, None] for mcm in mcms
        }
        for k, mp in enumerate(measurements):
            if of_outcomes[k]:
                results[k] = gather_mcm(mp, samples, np.ones(total, bool))
    if mode == "pad-invalid-samples":
        results = [_padded(mp, result, asked) for mp, result in zip(measurements, results)]
    return results[0] if len(results) == 1 else tuple(results)


def _check_empty(measurements: Sequence[MeasurementProcess], asked: int) -> None:
    """Raises DeviceError where no shot is left and a measurement is a mean over them."""
    for mp in measurements:
        if not isinstance(mp, qml.measurements.SampleMP | qml.measurements.CountsMP):
            raise qml.exceptions.DeviceError(
                f"{mp} has no value: none of {asked} shots has the postselected outcomes, whose probability is small "
                "or 0. Take more shots, or postselect_mode='fill-shots'"
            )


def _padded(mp: MeasurementProcess, result: Any, asked: int) -> Any:
    """Samples filled up to the number of shots asked for with the integer that PennyLane marks invalid ones with."""
    if not isinstance(mp, qml.measurements.SampleMP) or len(result) == asked:
        return result
    missing = np.full((asked - len(result), *np.shape(result)[1:]), np.iinfo(np.int32).min)
    return np.concatenate([result, missing])


def _no_state() -> NDArray[Any]:
    raise qml.exceptions.DeviceError(
        "classical shadows after mid-circuit measurements are not supported with one-shot and tree-traversal: use "
        "mcm_method='deferred'"
    )


def _read_only(
    measurements: Sequence[MeasurementProcess], leaves: Sequence[Leaf], place: Mapping[Any, int], compiler: Compiler
) -> list[Any]:
    """The values in the only state there is: that which projectors leave."""
    outputs = [output_of(mp, place) for mp in measurements]
    return read(measurements, outputs, leaves[0].state, place, compiler)


def _mean(mp: MeasurementProcess, leaves: Sequence[Leaf], place: Mapping[Any, int], compiler: Compiler) -> Any:
    """The exact value over all paths, given that they end."""
    weights = np.array([leaf.weight for leaf in leaves])
    weights = weights / weights.sum()
    if mp.mv is not None:
        return _mean_outcome(mp, leaves, weights)
    if not isinstance(mp, ExpectationMP | VarianceMP | ProbabilityMP):
        raise qml.exceptions.DeviceError(
            f"{mp} after mid-circuit measurements is that of a mixed state, which tree-traversal does not have: use "
            "mcm_method='deferred'"
        )
    inner = ExpectationMP(obs=mp.obs) if isinstance(mp, VarianceMP) else mp
    found = [read([inner], [output_of(inner, place)], leaf.state, place, compiler)[0] for leaf in leaves]
    mean = sum(weight * value for weight, value in zip(weights, found))
    if not isinstance(mp, VarianceMP):
        return mean
    spread = [read([mp], [output_of(mp, place)], leaf.state, place, compiler)[0] for leaf in leaves]
    within = sum(weight * value for weight, value in zip(weights, spread))
    return within + sum(weight * (value - mean) ** 2 for weight, value in zip(weights, found))


def _mean_outcome(mp: MeasurementProcess, leaves: Sequence[Leaf], weights: NDArray[Any]) -> Any:
    if isinstance(mp, ProbabilityMP):
        mvs = mp.mv if isinstance(mp.mv, Sequence) else [mp.mv]
        shape = [len(mv.branches) for mv in mvs]
        result = np.zeros(shape)
        for leaf, weight in zip(leaves, weights):
            key = tuple(list(mv.branches.values()).index(mv.concretize(leaf.outcomes)) for mv in mvs)
            result[key] += weight
        return result.reshape(-1)
    if not isinstance(mp, ExpectationMP | VarianceMP):
        raise qml.exceptions.DeviceError(f"{mp} of mid-circuit measurements needs shots")
    outcomes = np.array([float(mp.mv.concretize(leaf.outcomes)) for leaf in leaves])
    mean = weights @ outcomes
    return np.float64(mean if isinstance(mp, ExpectationMP) else weights @ (outcomes - mean) ** 2)
