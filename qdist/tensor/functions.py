"""Functions over the graph: gradients of chosen tensors, operations of one's own, recomputation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from weakref import ref

from qdist.native import kernels

from . import random
from .arrays import is_array, module_of
from .autograd import Node, enable_grad, mode, no_grad, refuse_second_order, tracing, walk
from .half import computing_in
from .rules import Rule
from .tensor import Tensor, apply, pick_outputs
from .versions import shares


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Sequence[Tensor],
    cotangents: Any = None,
    *,
    retain_graph: bool = False,
    create_graph: bool = False,
    allow_unused: bool = False,
) -> tuple[Tensor | None, ...]:
    """Derivatives of outputs with respect to inputs, without touching any .grad.

    Args:
        outputs: one tensor or several, whose derivatives are added up.
        inputs: leaves or computed tensors, all with requires_grad.
        cotangents: one for each output; 1 for a single element when not given.
        retain_graph: keep the graph for another pass.
        create_graph: gradients of gradients are not provided; True raises NotImplementedError.
        allow_unused: give None for an input that no output depends on, instead of raising.

    Returns:
        One tensor for each input.
    """
    refuse_second_order(create_graph)
    outs = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    given = [cotangents] if isinstance(outputs, Tensor) else list(cotangents or [None] * len(outs))
    roots = [(out._edge(), out._cotangent(g)) for out, g in zip(outs, given, strict=True)]
    edges = [x._edge() for x in inputs]
    found = walk(roots, retain_graph, edges)
    missing = [i for i, edge in enumerate(edges) if edge not in found]
    if missing and not allow_unused:
        raise RuntimeError(f"no output depends on input(s) {missing}; pass allow_unused=True to get None for them")
    return tuple(Tensor(found[edge]) if edge in found else None for edge in edges)


def custom_function(name: str, forward: Callable[..., tuple[Any, Any]], vjp: Callable[..., Any]) -> Callable[..., Any]:
    """An operation of one's own, used like any other.

    Args:
        name: what errors and traces call it.
        forward: forward(*arrays, **attributes) -> (output, saved); arrays are NumPy or CuPy arrays, which it leaves as
            they are and keeps nowhere but in `saved`, a tuple of anything that vjp needs. A list as output means
            several outputs.
        vjp: vjp(saved, cotangent, **attributes) -> the cotangent of the input, or a tuple of one for each
            input, None where there is none. With several outputs the cotangent is a list, None where nothing
            depends on one.

    Returns:
        A function of Tensors (and attributes by keyword) that gives a Tensor, or a tuple with several
            outputs.

    Example:
        cube = custom_function("cube", lambda x: (x**3, (x,)), lambda saved, g: 3 * saved[0] ** 2 * g)
    """

    def rule_forward(xp: Any, *arrays: Any, **attributes: Any) -> Any:
        output, saved = forward(*arrays, **attributes)
        made = [_apart(o, arrays) for o in output] if isinstance(output, list) else _apart(output, arrays)
        return made, saved

    def rule_vjp(xp: Any, g: Any, saved: Any, needs: Any, **attributes: Any) -> Any:
        cotangents = vjp(saved, g, **attributes)
        if not isinstance(cotangents, tuple):
            cotangents = (cotangents,)
        if len(cotangents) != len(needs):
            raise ValueError(f"the vjp of {name} gave {len(cotangents)} cotangent(s) for {len(needs)} input(s)")
        # A caller may keep what it returned, so the walk must not take it as its own: hand out views.
        return tuple(None if c is None else xp.asarray(c)[...] for c in cotangents)

    rule = Rule(name, rule_forward, rule_vjp)

    def function(*inputs: Any, **attributes: Any) -> Any:
        return apply(rule, *inputs, **attributes)

    function.__name__ = function.__qualname__ = name
    return function


def _apart(output: Any, arrays: Sequence[Any]) -> Any:
    """An output with memory of its own: where it shares an input's, changes of one would not count for the other."""
    return output.copy() if is_array(output) and any(shares(output, a) for a in arrays if is_array(a)) else output


def checkpoint(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """fn(*args, **kwargs), keeping no intermediate values: they are computed again during the backward pass.

    The random state at the call is restored for the second run, so dropout masks are equal. Gradients reach
    the arguments and everything else that fn uses (parameters of a module). fn must return a Tensor or a
    tuple of Tensors and must do the same the second time.
    """
    if not mode.grad:
        return fn(*args, **kwargs)
    # Arrays weakly: parameters that are sharded have their whole values for a moment only.
    sources: dict[Tensor, ref[Any]] = {}

    def note(rule: Rule, inputs: tuple[Any, ...], attributes: dict, output: Any) -> None:
        for x in inputs:
            if isinstance(x, Tensor) and x.requires_grad:
                sources[x] = ref(x._data)

    state, place, precision = random.get_state(), random.place(), mode.precision
    with no_grad(), tracing(note):
        result = fn(*args, **kwargs)
    results = [result] if isinstance(result, Tensor) else list(result)
    # What fn hands through was made outside and wants its gradient as well.
    sources.update((r, ref(r._data)) for r in results if r.requires_grad)
    if not sources:
        return result
    edges = [x._edge() for x in sources]
    # The second run takes all arguments, also those without gradients.
    given = (x for x in (*args, *kwargs.values()) if isinstance(x, Tensor))
    arguments = {x: ref(x._data) for x in given if x not in sources}

    def vjp(xp: Any, g: Any, saved: Any, needs: Any) -> Any:
        with random.placed(place):
            after = random.get_state()
            random.set_state(state)
            try:
                with enable_grad(), computing_in(precision):
                    again = fn(*args, **kwargs)
            finally:
                random.set_state(after)
        outputs = [again] if isinstance(again, Tensor) else list(again)
        roots = [(out._edge(), c) for out, c in zip(outputs, g, strict=True) if c is not None and out.requires_grad]
        found = walk(roots, False, edges, barrier=True)
        return tuple(found[edge][...] if edge in found else None for edge in edges)

    # Recorded by hand and not by apply(), which would look at the sources' values: they may be elsewhere by now.
    rule = Rule("checkpoint", lambda xp, *arrays: ([r._data for r in results], ()), vjp)
    guards = [(x._version, x._version.count, array) for x, array in {**sources, **arguments}.items()]
    xp = module_of(results[0]._data)
    # The vjp finds its arguments by itself; those that were computed are listed, so that what a graph keeps can be
    # counted.
    kept = tuple(x._data for x in sources if x._node is not None)
    node = Node(rule, tuple(edges), {}, kept, guards, xp, None)
    kernels.watch_saved(node)
    made = tuple(r.detach() for r in results)
    pick_outputs(node, made, xp)
    if mode.tracer is not None:
        mode.tracer(rule, tuple(sources), {}, made)
    return made[0] if isinstance(result, Tensor) else made
