"""How many layers each stage of a pipeline gets, so that no stage is much heavier than the others."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from qdist.nn import Embedding, Module
from qdist.parallel.pipeline.flops import counting_flops
from qdist.tensor import Tensor, no_grad, random

__all__ = ["WAYS", "Costs", "balanced", "costs_of_layers", "stage_sizes"]

WAYS = ("balanced", "parameters", "flops", "time", "count")
_SHARES = 10**9  # Whole numbers, so that all ranks come to the same cut.
_TIMES = 3


class Costs(NamedTuple):
    """Of each layer."""

    parameters: list[int]
    """Bytes; what layers share counts for the first."""
    flops: list[float]
    seconds: list[float] | None
    """Measured; None if there was nothing to measure with."""


def stage_sizes(costs: Costs, stages: int, by: str | Sequence[int]) -> list[int]:
    """How many consecutive layers each of `stages` stages gets.

    Args:
        by: "balanced" makes the stages' shares of flops and of parameters as even as they can be together (the least
            sum of squares); "parameters", "flops" and "time" make the largest share of these alone as small as it can
            be; "count" gives all equally many layers, the first ones one more; a list of numbers gives each stage so
            many.

    Raises ValueError for numbers that do not fit, and for "time" without measurements.
    """
    layers = len(costs.parameters)
    if not 1 <= stages <= layers:
        raise ValueError(
            f"{layers} layers do not make {stages} stages: every stage needs at least one layer; take fewer ranks "
            "or virtual stages, or smaller layers"
        )
    if not isinstance(by, str):
        sizes = [int(size) for size in by]
        if len(sizes) != stages or min(sizes) < 1 or sum(sizes) != layers:
            raise ValueError(f"partition {sizes}: {stages} positive numbers are needed that add up to {layers} layers")
        return sizes
    if by == "count":
        return [layers // stages + (s < layers % stages) for s in range(stages)]
    if by == "time" and costs.seconds is None:
        raise ValueError("stages by 'time' are measured: give an example of the inputs (example=...)")
    kinds: dict[str, list[Sequence[float]]] = {
        "balanced": [costs.flops, costs.parameters],
        "parameters": [costs.parameters],
        "flops": [costs.flops],
        "time": [costs.seconds or []],
    }
    if by not in kinds:
        raise ValueError(
            f"partition {by!r} is not known: use {', '.join(map(repr, WAYS))}, a list of layers a stage or, for a "
            "model's modules, a list of the names with which stages begin"
        )
    return _evenest([_shares(weights) for weights in kinds[by]], stages)


def balanced(weights: Sequence[int], parts: int) -> list[int]:
    """Sizes of `parts` contiguous parts, none empty, whose heaviest is as light as possible."""
    return _evenest([list(weights)], parts)


def _shares(weights: Sequence[float]) -> list[int]:
    total = sum(weights)
    return [round(_SHARES * weight / total) if total else 0 for weight in weights]


def _evenest(kinds: list[list[int]], parts: int) -> list[int]:
    """Sizes of contiguous parts, none empty, as even as they can be.

    Of one kind of weights the heaviest part is as light as possible, and the others are even too: the sum of squares is
    the least. Of several kinds the sum of squares decides: of one that a single layer has nearly all of, the largest
    share hardly depends on the cut, and must not decide on the others. Among equals the numbers of layers are even.
    """
    totals = [[0, *accumulate(weights)] for weights in kinds]
    layers = len(kinds[0])
    # best[n]: for the first n layers in the parts so far, (largest share of the only kind, sum of squares of shares, of
    # numbers of layers, sizes).
    best: dict[int, tuple[int, int, int, list[int]]] = {0: (0, 0, 0, [])}
    for part in range(1, parts + 1):
        reached: dict[int, tuple[int, int, int, list[int]]] = {}
        for end in range(part, layers - (parts - part) + 1):
            for start, (largest, squares, counts, sizes) in best.items():
                if start < end:
                    shares = [total[end] - total[start] for total in totals]
                    heaviest = max(largest, shares[0]) if len(shares) == 1 else 0
                    size = end - start
                    together = squares + sum(s * s for s in shares)
                    entry = heaviest, together, counts + size * size, [*sizes, size]
                    reached[end] = min(reached.get(end, entry), entry)
        best = reached
    return best[layers][3]


def costs_of_layers(layers: Sequence[Any], example: Any = None) -> Costs:
    """Of layers that run one after the other.

    example: inputs of the first, to count flops and measure time with. Without, flops are estimated: two for each
    parameter and position, none for a table that is looked up.
    """
    parameters, seen = [], set[int]()
    for layer in layers:
        own = list(layer.parameters()) if isinstance(layer, Module) else []
        parameters.append(sum(p.nbytes for p in own if id(p) not in seen))
        seen |= {id(p) for p in own}
    if example is None:
        return Costs(parameters, [_estimated(layer) for layer in layers], None)
    flops, seconds = _measured(layers, example)
    return Costs(parameters, flops, seconds)


def _estimated(layer: Any) -> float:
    modules = layer.modules() if isinstance(layer, Module) else ()
    return float(
        sum(
            2 * p.size
            for module in modules
            if not isinstance(module, Embedding)
            for p in module._parameters.values()
            if p is not None
        )
    )


def _measured(layers: Sequence[Any], example: Any) -> tuple[list[float], list[float]]:
    values = example if isinstance(example, tuple) else (example,)
    values = tuple(x if isinstance(x, Tensor) else Tensor(x) for x in values)
    flops, seconds = [], []
    state = random.get_state()
    with no_grad():
        for layer in layers:
            training = layer.training if isinstance(layer, Module) else False
            if isinstance(layer, Module):
                layer.eval()  # Running averages stay as they are.
            times = []
            for _ in range(_TIMES):
                begin = time.perf_counter()
                with counting_flops() as count:
                    made = layer(*values)
                times.append(time.perf_counter() - begin)
            if isinstance(layer, Module):
                layer.train(training)
            values = made if isinstance(made, tuple) else (made,)
            flops.append(count.flops)
            seconds.append(min(times))
    random.set_state(state)
    return flops, seconds
