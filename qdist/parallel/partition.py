"""How a parameter is divided over ranks, and the whole model's state from the parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from qdist.comm import Communicator
from qdist.nn import Module, Parameter
from qdist.nn.deferred import DeferredParameter
from qdist.parallel.collectives import join_rows, slice_of
from qdist.tensor import Tensor
from qdist.tensor.arrays import Array

__all__ = ["Partition", "check_divides", "copied", "divided", "load_whole_state_dict", "whole_state_dict"]


@dataclass(frozen=True)
class Partition:
    """Each rank of `comm` has an equal slice along `axis`, in the order of ranks.

    With several blocks the axis is that many equal blocks one behind the other (queries, keys and values), and a rank
    has a slice of each.
    """

    comm: Communicator
    axis: int
    blocks: int = 1

    def part(self, whole: Array) -> Array:
        """This rank's part of a whole array, copied."""
        axis = self.axis
        check_divides(f"axis {axis} of shape {whole.shape}", whole.shape[axis], self.comm.size, self.blocks)
        cut = whole.reshape(*whole.shape[:axis], self.blocks, -1, *whole.shape[axis + 1 :])
        own = slice_of(cut, self.comm.rank, self.comm.size, axis + 1)
        # A copy: a view would keep the whole array alive.
        return own.reshape(*whole.shape[:axis], -1, *whole.shape[axis + 1 :]).copy()

    def whole(self, part: Array) -> Array:
        """The whole array of the ranks' parts, on every rank. Collective."""
        axis = self.axis
        cut = part.reshape(*part.shape[:axis], self.blocks, -1, *part.shape[axis + 1 :])
        joined = join_rows(self.comm.all_gather(cut), axis + 1)
        return joined.reshape(*part.shape[:axis], -1, *part.shape[axis + 1 :])


def divided(parameter: Parameter, partition: Partition) -> Parameter:
    """A new parameter: this rank's part of a whole one; without values as long as that has none."""
    if isinstance(parameter, DeferredParameter):
        shape, axis = list(parameter.shape), partition.axis
        check_divides(f"axis {axis} of shape {parameter.shape}", shape[axis], partition.comm.size, partition.blocks)
        shape[axis] //= partition.comm.size
        later = DeferredParameter(tuple(shape), parameter.dtype)
        later.draw_later(lambda _: partition.part(parameter.values()), random=False)
        later.requires_grad = parameter.requires_grad
        part: Parameter = later
    else:
        part = Parameter(partition.part(parameter.data), parameter.requires_grad)
    part.partition = partition
    return part


def copied(parameter: Parameter) -> Parameter:
    """A new parameter with the same values, frozen if that one is."""
    return Parameter(parameter.data.copy(), parameter.requires_grad)


def check_divides(what: str, length: int, ranks: int, blocks: int = 1) -> None:
    """Raises ValueError unless a length of that many blocks can be divided over the ranks."""
    if length % (ranks * blocks):
        in_blocks = f" in {blocks} blocks" if blocks > 1 else ""
        raise ValueError(
            f"{what} is {length}, which cannot be divided over {ranks} ranks{in_blocks}: take a multiple of "
            f"{ranks * blocks}, or a group whose size divides it"
        )


def whole_state_dict(model: Module) -> dict[str, Tensor]:
    """The state of the undivided model, by the same names, on every rank. Collective over the groups it is divided
    over."""
    partitions = _partitions(model)
    return {
        name: Tensor(partitions[name].whole(value.data)) if name in partitions else value
        for name, value in model.state_dict().items()
    }


def load_whole_state_dict(model: Module, state: dict[str, Any], strict: bool = True) -> None:
    """Give every rank its part of the undivided model's state.

    Raises ValueError, as load_state_dict, for names and shapes that do not fit. Nothing is sent.
    """
    own, parts = model.state_dict(), dict(state)
    for name, partition in _partitions(model).items():
        # What has the wrong number of axes is named by load_state_dict.
        if name in parts and Tensor(parts[name]).ndim == own[name].ndim:
            parts[name] = partition.part(Tensor(parts[name]).data)
    model.load_state_dict(parts, strict)


def _partitions(model: Module) -> dict[str, Partition]:
    """How each divided parameter is divided, by all names that it has."""
    found = {id(p.data): p.partition for p in model.parameters() if p.partition is not None}
    return {name: found[id(value.data)] for name, value in model.state_dict().items() if id(value.data) in found}
