"""How many bytes of activations a transformer block keeps for its backward pass: by formula, and counted.

The formulas are those of Korthikanti et al. (arXiv 2205.05198), written for w bytes a number instead of 2; masks of
dropped elements take one byte. With batch b, sequence s, features h, a heads and t ranks, a block keeps

- 4 w s b h of inputs of its two layer norms and two column-parallel layers, and 2 s b h of dropout masks: outside of
  the parts that tensor parallelism divides, so that only sequence parallelism divides them by t;
- 4 w s b h of queries, keys, values and the attention's result, and 2 w s b (hidden) of inputs of the activation and
  of the last layer: divided by t;
- (2 w + 1) a s s b of attention weights, dropped weights and their mask: divided by t, and recomputed when selective.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from qdist.nn import Module, Parameter
from qdist.parallel.partition import check_divides
from qdist.tensor import Node, Tensor
from qdist.tensor.arrays import is_array
from qdist.tensor.autograd import Packed

__all__ = ["activation_bytes", "frozen_arrays", "saved_bytes"]


def activation_bytes(
    *,
    batch: int,
    sequence: int,
    features: int,
    heads: int,
    hidden: int | None = None,
    tensor: int = 1,
    sequence_parallel: bool = False,
    recompute: str | None = None,
    width: int = 2,
) -> int:
    """Bytes that one rank keeps of one TransformerBlock with dropout, between its forward and its backward pass.

    Args:
        batch, sequence, features, heads, hidden: of the whole block; hidden is 4 features when not given.
        tensor: ranks of tensor parallelism.
        sequence_parallel: whether they divide the sequence too.
        recompute: None, "attention" (`recompute_attention`) or "block" (`recompute` of the block).
        width: bytes a number: 2 in half precision.

    Raises:
        ValueError: for another `recompute`, or sizes that the ranks do not divide.

    The means and variances of layer norms, 2 numbers a position, are not counted, as in the paper.
    """
    if recompute not in (None, "attention", "block"):
        raise ValueError(f'recompute={recompute!r}: use None, "attention" or "block"')
    hidden = 4 * features if hidden is None else hidden
    check_divides("heads", heads, tensor)
    check_divides("hidden", hidden, tensor)
    if sequence_parallel:
        check_divides("sequence", sequence, tensor)
    tokens = batch * sequence
    between = tokens // tensor if sequence_parallel else tokens
    if recompute == "block":
        return width * between * features
    outside = (4 * width + 2) * between * features
    inside = width * tokens * (4 * features + 2 * hidden) // tensor
    weights = 0 if recompute == "attention" else (2 * width + 1) * heads * sequence * tokens // tensor
    return outside + inside + weights


def saved_bytes(*outputs: Tensor, besides: Iterable[Any] = ()) -> int:
    """Bytes of all arrays that the graph behind `outputs` keeps for the backward pass, parameters left out, and arrays
    that share memory with one of `besides`, such as the batch.

    Arrays that share memory count once.
    """
    parameters: set[int] = {id(_owner(array)) for array in besides}
    found: dict[int, int] = {}
    for node in _graph(outputs):
        # Of parameters that are sharded a graph keeps the places alone.
        owned = (edge for edge in node.inputs if isinstance(edge, Parameter) and edge.replicated)
        parameters.update(id(_owner(edge._data)) for edge in owned)
        for array in _arrays(node.saved):
            owner = _owner(array)
            found[id(owner)] = owner.nbytes
    return sum(size for key, size in found.items() if key not in parameters)


def frozen_arrays(module: Module) -> list[Any]:
    """Buffers, and parameters that are not trained: a graph may keep them, and they are counted with the model. Of the
    trained ones a graph tells by itself."""
    frozen = (p for p in module.parameters() if not p.requires_grad and p.replicated)
    return [tensor._data for tensor in (*frozen, *module.buffers())]


def _graph(outputs: tuple[Tensor, ...]) -> Iterator[Node]:
    waiting: list[Any] = [output.node for output in outputs]
    seen: set[Node] = set()
    while waiting:
        node = waiting.pop()
        if isinstance(node, Node) and node not in seen:
            seen.add(node)
            yield node
            waiting.extend(node.inputs)


def _arrays(saved: Any) -> Iterator[Any]:
    if is_array(saved):
        yield saved
    elif isinstance(saved, (tuple, list)):
        for item in saved:
            yield from _arrays(item)
    elif isinstance(saved, Packed) and is_array(saved.content):
        yield saved.content


def _owner(array: Any) -> Any:
    """The array whose memory this one looks into."""
    while is_array(array.base):
        array = array.base
    return array
