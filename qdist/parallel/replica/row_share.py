"""What part of a batch a forward pass has, and what its gradients count for in those of the whole batch."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from qdist.comm import Communicator
from qdist.parallel.loss_terms import WHOLE
from qdist.tensor import Generator, random
from qdist.tensor.autograd import accumulates, counts
from qdist.tensor.random import Place

__all__ = ["RowShare", "Share"]


class Share(Place):
    """The part of a batch that one forward pass has, where others know which it is."""

    _weight: float | None = None

    @property
    def weight(self) -> float:
        """What this rank's gradients are multiplied by, so that the plain mean over ranks is the whole batch's."""
        assert self._weight is not None, "fix() comes before the backward pass"
        return self._weight

    def fix(self, weight: float) -> None:
        """Say what the weight is."""
        self._weight = weight

    def settle(self) -> None:
        """A backward pass is over. A rank without any gradient has not asked for its weight, which takes all ranks."""
        self.weight  # noqa: B018


class RowShare(Share):
    """The rows of one forward pass on this rank, in the order of ranks.

    Args:
        comm: the ranks that share the batch.
        rows: of this rank.
        reduction: of the loss: "mean" or "sum".

    Ranks draw from the first rank's generator, so that masks are those of one process whatever seeds ranks have.
    """

    def __init__(self, comm: Communicator, rows: int, reduction: str) -> None:
        super().__init__()
        self._comm, self._own, self._reduction = comm, rows, reduction
        self._state = random.get_state()
        # Under way during the forward pass: who draws nothing at random waits for it in the backward pass only.
        mine = np.array([rows, *self._state["key"], self._state["draw"]], np.uint64)
        self._gathering = comm.all_gather(mine, async_op=True)

    @cached_property
    def _everyone(self) -> list[list[int]]:
        return self._gathering.wait().tolist()

    @cached_property
    def _span(self) -> tuple[int, int, int]:
        held = [entry[0] for entry in self._everyone]
        first = sum(held[: self._comm.rank])
        return first, first + self._own, sum(held)

    @property
    def rows(self) -> tuple[int, int, int]:
        return self._span

    @cached_property
    def _drawn_from(self) -> Generator | None:
        _, first, second, draw = self._everyone[0]
        if [first, second] == self._state["key"] and draw == self._state["draw"]:
            return None
        generator = Generator()
        generator.load_state_dict({"key": [first, second], "draw": draw})
        return generator

    @property
    def generator(self) -> Generator | None:
        return self._drawn_from

    @property
    def weight(self) -> float:
        """What this rank's gradients are multiplied by, so that the plain mean over ranks is the whole batch's.

        Collective when first asked for in a backward pass. Raises ValueError where a loss has means over different
        shares of what the ranks have.
        """
        _, _, rows = self.rows  # What is under way is waited for.
        if WHOLE in counts():
            return 1.0
        if self._weight is None and self._reduction == "mean" and not accumulates():
            return self._own * self._comm.size / max(1, rows)  # For grad(), which any rank may call alone.
        if self._weight is None:
            self._weight = float(self._comm.size) if self._reduction == "sum" else self._of_the_mean()
        return self._weight

    def settle(self) -> None:
        super().settle()
        self._weight = None  # The next pass through the same forward pass may come from another loss.

    def _of_the_mean(self) -> float:
        # Means over what is not masked count as many values as there are; without one, rows.
        passed = counts() or (self._own,)
        # The first, and one that is different: two numbers tell whether all are alike.
        mine = np.array([passed[0], next((n for n in passed if n != passed[0]), passed[0])], np.float64)
        shares = mine / np.maximum(self._comm.all_reduce(mine), 1e-300)
        if not np.isclose(shares[1], shares[0], rtol=1e-9, atol=1e-12):
            raise ValueError(
                f"the loss has means over {' and '.join(f'{n:g}' for n in mine)} values here, which are different "
                "shares of what all ranks have, so no one factor makes their gradients those of the whole batch: give "
                "each mean as a numerator and a denominator by model.loss(), and add those up"
            )
        return float(shares[0] * self._comm.size)
