"""Reverse-mode differentiation: the graph that operations leave behind, and the walk back through it.

Both are in C++ (native/src/graph): what is done around an operation on small tensors would take longer than the
operation. Here is what the walk does seldom: hooks, sums of cotangents, conversions, errors.

A Node remembers one application of a rule: (rule, inputs, attributes) and what the vjp saved. Its inputs are
edges, not tensors: the Node that made the input, the input itself when it is a leaf that wants a gradient, or
None. So the graph keeps alive what the vjps saved and nothing more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any, NoReturn
from weakref import ref

import numpy as np

from qdist.native import kernels

from .arrays import FLOAT32, Array, is_array, is_half, several_gpus
from .heap import keep_freed_memory
from .rules import Rule
from .versions import Version, digest

Hook = Callable[[Any], Any]


class Mode(threading.local):
    """Per-thread switches: whether operations are recorded, who watches them, what is kept for derivatives."""

    grad = True
    tracer: Callable[..., None] | None = None
    packing: tuple[Callable[[Array], Any], Callable[[Any], Array]] | None = None
    precision: np.dtype | None = None  # Half precision that operations round to: see half.py.
    walks = 0  # under way, one inside the other
    at_end: tuple[Callable[[], None], ...] = ()
    leaves: tuple[Any, ...] = ()  # of the outermost walk under way
    counts: tuple[float, ...] = ()  # of the means that it has come through
    accumulates = False  # whether it adds to the .grad of leaves


mode = Mode()


class Packed:
    """What stands in the place of a saved array: see packing()."""

    __slots__ = ("content",)

    def __init__(self, content: Any) -> None:
        self.content = content


class Node(kernels.NodeFields):
    """One recorded operation: its rule, the edges to its inputs, its attributes, what the vjp saved."""

    __slots__ = ("__weakref__",)
    wide_gradient = False

    def __init__(
        self,
        rule: Rule,
        inputs: tuple[Any, ...],
        attributes: dict[str, Any],
        saved: Any,
        guards: Sequence[tuple[Version, int, Any]],
        xp: ModuleType,
        output: Array | None,
    ) -> None:
        self.rule = rule
        self.inputs = inputs
        self.attributes = attributes
        self.saved = saved
        if mode.packing is not None:
            pack, self.unpack = mode.packing
            self.saved = tuple(Packed(pack(s)) if is_array(s) else s for s in saved)
            guards = [(version, count, None) for version, count, _ in guards]
        # (version, its count when saved, the array or a weak reference to it) of each saved tensor. Without the array,
        # which pack() may have put elsewhere, the count alone is compared.
        self.guards = guards
        self.xp = xp
        if output is not None:  # Of an operation with several outputs each gets a Node of the rule PICK.
            self.shape, self.dtype = output.shape, output.dtype

    def unpacked(self) -> Any:
        """What the vjp saved, as it was."""
        if self.unpack is None:
            return self.saved
        return tuple(self.unpack(s.content) if s.__class__ is Packed else s for s in self.saved)

    def seal(self, version: Version) -> None:
        """Digest what is saved of this version, before others than Tensors can write there."""
        for i, (own, before, array) in enumerate(self.guards):
            array = array() if array.__class__ is ref else array
            if own is version and before == own.count and array is not None:
                self.digests = self.digests or {}
                if i not in self.digests:
                    self.digests[i] = digest(array)

    def __repr__(self) -> str:
        return f"<Node {self.rule.name} {self.shape}>"


def _pick_vjp(xp: Any, g: Array, saved: Any, needs: Any, index: int, total: int) -> Any:
    parts: list[Array | None] = [None] * total
    parts[index] = g
    return (parts,)


# One output of an operation that has several. Its vjp gives a list, which `_add` merges entry by entry.
PICK = Rule("pick", lambda xp, *a, **k: (a, ()), _pick_vjp)


@contextmanager
def no_grad() -> Iterator[None]:
    """Inside the block operations are not recorded."""
    previous, mode.grad = mode.grad, False
    try:
        yield
    finally:
        mode.grad = previous


@contextmanager
def enable_grad() -> Iterator[None]:
    """Inside the block operations are recorded, also within no_grad()."""
    previous, mode.grad = mode.grad, True
    try:
        yield
    finally:
        mode.grad = previous


@contextmanager
def tracing(callback: Callable[[Rule, tuple[Any, ...], dict[str, Any], Any], None]) -> Iterator[None]:
    """Call callback(rule, inputs, attributes, output) after every operation of this thread inside the block.

    `inputs` holds Tensors and Python scalars, `output` a Tensor or a tuple of them. Blocks may be nested: all
    callbacks are called, the outermost first.
    """
    previous = mode.tracer

    def both(*event: Any) -> None:
        if previous is not None:
            previous(*event)
        callback(*event)

    mode.tracer = both
    try:
        yield
    finally:
        mode.tracer = previous


@contextmanager
def packing(pack: Callable[[Array], Any], unpack: Callable[[Any], Array]) -> Iterator[None]:
    """Inside the block, operations keep pack(array) in place of each array that their derivative needs.

    unpack(what pack gave) gives the array back when the backward pass gets there. pack must leave the array as it is;
    returning it keeps it as usual. Blocks do not nest: the innermost counts.
    """
    previous, mode.packing = mode.packing, (pack, unpack)
    try:
        yield
    finally:
        mode.packing = previous


def after_backward(callback: Callable[[], None]) -> bool:
    """Call callback() when the backward pass under way has completed every .grad. To be called from hooks.

    Asked for several times in a pass, it is called once; the first time gives True. A pass that computes grad(), or
    fails, calls none.
    """
    if mode.walks == 0:
        raise RuntimeError("after_backward() is for hooks: no backward pass is under way")
    if callback in mode.at_end:
        return False
    mode.at_end += (callback,)
    return True


def leaves() -> tuple[Any, ...]:
    """The leaves that the backward pass under way, or just completed, has to reach. For callbacks of after_backward."""
    return mode.leaves


def counts() -> tuple[float, ...]:
    """Over how many values the means are, each one number, that the backward pass under way has come through so far."""
    return mode.counts


def accumulates() -> bool:
    """Whether the backward pass under way adds to the .grad of leaves, as backward() does and grad() does not."""
    return mode.accumulates


def fit(xp: ModuleType, g: Array, shape: tuple[int, ...], dtype: np.dtype) -> Array:
    """A cotangent in its input's shape and dtype: broadcast axes summed, the real part of a real one."""
    if g.shape != shape:
        extra = g.ndim - len(shape)
        axes = tuple(range(extra)) + tuple(extra + i for i, n in enumerate(shape) if n == 1 and g.shape[extra + i] != 1)
        if axes:
            # Sums of half precision are taken in float32.
            g = g.sum(axis=axes, keepdims=True, dtype=FLOAT32 if is_half(g.dtype) else None)
        g = g.reshape(shape)
    if g.dtype != dtype:
        g = (g.real if g.dtype.kind == "c" and dtype.kind != "c" else g).astype(dtype, copy=False)
    return g


def _fit_to(xp: ModuleType, g: Array, edge: Any) -> Array:
    """A cotangent in the shape and dtype of a Node's output or of a leaf."""
    shape, dtype = edge.shape, edge.dtype
    if g.shape == shape and g.dtype is dtype:
        return g
    return fit(xp, g, shape, FLOAT32 if edge.wide_gradient else dtype)


def _add(a: Any, b: Any, own_a: bool, own_b: bool) -> Any:
    """a + b: in the place of one that belongs to nobody else, if there is one."""
    if isinstance(a, list):
        return [x if y is None else y if x is None else x + y for x, y in zip(a, b)]
    if own_a and a.dtype == b.dtype:
        a += b
        return a
    if own_b and a.dtype == b.dtype:
        b += a
        return b
    return a + b


def _check(node: Node) -> None:
    if node.freed:
        raise RuntimeError(
            f"the graph was freed by an earlier backward pass (at {node.rule.name}); "
            "pass retain_graph=True to the earlier one to go through it again"
        )
    for version, before, array in node.guards:
        if version.count != before:
            _refuse(node, array, f"in place after use (version {version.count}, saved at version {before})")
    if node.digests is None:
        return
    for i, known in node.digests.items():
        array = node.guards[i][2]
        array = array() if array.__class__ is ref else array
        if array is not None and digest(array) != known:
            how = "after use by a write to its array (through .data, .numpy(), a view, or the array it was made of)"
            _refuse(node, array, how)


def _refuse(node: Node, array: Any, how: str) -> NoReturn:
    shape = f" of shape {array.shape}" if is_array(array) else ""
    raise RuntimeError(
        f"a tensor{shape} that {node.rule.name} needs for its derivative was changed {how}, so the gradient would be "
        "wrong; change it before the forward pass or after backward(), or let the graph have a copy of its own: "
        "x.clone(), or Tensor(array.copy())"
    )


def walk(
    roots: Sequence[tuple[Any, Array]],
    retain_graph: bool,
    targets: Sequence[Any] | None = None,
    barrier: bool = False,
) -> dict[Any, Array]:
    """Carry cotangents from the roots back through the graph.

    Args:
        roots: (edge, cotangent) pairs.
        retain_graph: keep what the vjps saved, for another walk.
        targets: edges (Nodes or leaves) whose cotangents are returned; leaves' own .grad stays as it is. None
            means accumulate into the .grad of every leaf reached.
        barrier: do not look past the targets, even when one depends on another.

    Returns:
        {edge: cotangent} for the targets that were reached.
    """
    keep_freed_memory()
    outer = mode.walks
    mode.walks = outer + 1
    try:
        result = _walk(roots, retain_graph, targets, barrier)
    finally:
        mode.walks = outer
        if not outer:
            callbacks, mode.at_end = mode.at_end, ()
    if not outer:
        try:
            if callbacks and targets is None:
                for callback in callbacks:
                    callback()
        finally:
            mode.leaves = ()
    return result


def _place(g: Any) -> Any:
    """The GPU that a cotangent is on, as a context: new arrays are made there. None for what was moved from a GPU to
    the CPU, which has its cotangent there."""
    part = next(part for part in g if part is not None) if isinstance(g, list) else g
    return None if isinstance(part, np.ndarray) else part.device


def run_on(place: Any, function: Callable[..., Any], arguments: Sequence[Any], attributes: dict[str, Any]) -> Any:
    """Call a function while this GPU is the one that new arrays are made on."""
    with place:
        return function(*arguments, **attributes)


def run_hooks(hooks: list[Hook] | None, g: Array) -> Array:
    """Pass a cotangent through hooks; each gets a Tensor and may return a replacement."""
    if not hooks:
        return g
    from .tensor import Tensor

    for hook in tuple(hooks):
        changed = hook(Tensor(g))
        if changed is not None:
            replacement = changed._data if isinstance(changed, Tensor) else changed
            if replacement.shape != g.shape:
                raise ValueError(f"a gradient hook returned shape {replacement.shape} for a gradient of {g.shape}")
            g = replacement
    return g


def refuse_second_order(create_graph: bool) -> None:
    """Raise when gradients of gradients are asked for."""
    if create_graph:
        raise NotImplementedError(
            "create_graph=True: gradients of gradients are not provided; write the first derivative with "
            "tensor operations, or take finite differences of grad()"
        )


_walk = kernels.make_walk(
    {
        "mode": mode,
        "numpy": np,
        "Node": Node,
        "ndarray": np.ndarray,
        "fit_to": _fit_to,
        "add": _add,
        "run_hooks": run_hooks,
        "check_saved": _check,
        "several_gpus": several_gpus,
        "run_on": run_on,
        "place_of": _place,
    }
)
