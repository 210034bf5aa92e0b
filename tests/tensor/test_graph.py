"""The graph in C++: what it holds is let go, and what is no graph is refused."""

import gc
import sys
import threading
import weakref
from typing import Any

import numpy as np
import pytest

from qdist import tensor as qt
from qdist.native import kernels
from qdist.tensor.autograd import Node, mode
from qdist.tensor.rules import Rule
from qdist.tensor.tensor import Tensor, apply


def leaf(*values: float) -> Tensor:
    return Tensor(np.array(values), requires_grad=True)


def test_a_long_chain_is_freed_without_a_deep_stack() -> None:
    x, chains = leaf(1.0), []

    def make_and_free() -> None:
        for keep in (True, False):
            y = x
            for _ in range(20_000):
                y = y + 0.0
            if keep:
                y.backward()
            del y
            chains.append(keep)

    # 26 bytes a node: less than a call takes.
    usual = threading.stack_size(512 << 10)
    try:
        thread = threading.Thread(target=make_and_free)
        thread.start()
    finally:
        threading.stack_size(usual)
    thread.join()
    assert chains == [True, False]
    assert x.grad.tolist() == [1.0]


def test_nothing_of_a_graph_is_left() -> None:
    x, scale = leaf(1.0, 2.0), leaf(3.0, 4.0)
    y = (x * scale).exp()
    nodes = [weakref.ref(y.node), weakref.ref(y.node.inputs[0])]
    saved = weakref.ref(y._data)
    before = sys.getrefcount(x), sys.getrefcount(scale)
    del y
    assert [node() for node in nodes] == [None, None]
    assert saved() is None
    assert (sys.getrefcount(x), sys.getrefcount(scale)) == (before[0] - 1, before[1] - 1)  # the edges of the product


@pytest.mark.parametrize("way", ["forward", "backward", "grad", "attributes", "scalars", "several", "failing"])
def test_repeated_operations_hold_nothing(way: str) -> None:
    x, y = leaf(1.0, 2.0), leaf(0.5, 0.25)

    def fail(xp: Any, *arrays: Any) -> Any:
        raise RuntimeError("on purpose")

    failing = Rule("failing", lambda xp, a: (a + 1, (a,)), fail)

    def once() -> None:
        if way == "forward":
            x * y + x / y
        elif way == "backward":
            (x * y + x / y).sum().backward()
        elif way == "grad":
            qt.grad((x * y).sum(), [x, y])
        elif way == "attributes":
            (x * y).sum(axis=0, keepdims=True).reshape(1, 1).backward()
        elif way == "scalars":
            (2.0 * x + np.float64(1.5)).sum().backward()
        elif way == "several":
            first, second = (x * y).split(1)
            (first * second).backward()
        else:
            with pytest.raises(RuntimeError, match="on purpose"):
                apply(failing, x).sum().backward()
            with pytest.raises(KeyError):
                apply("no such operation", x)

    def held() -> tuple[int, ...]:
        gc.collect()
        counted = (x, y, x._data, y._data, None, True, Tensor, Node, mode)
        return (len(gc.get_objects()), *(sys.getrefcount(thing) for thing in counted))

    for _ in range(50):
        once()
    before = held()
    for _ in range(200):
        once()
    after = held()
    # Fewer may be held, where a collection came late.
    assert max(later - earlier for earlier, later in zip(before, after)) < 100, (before, after)


def test_a_cycle_through_a_hook_is_collected() -> None:
    x = leaf(1.0)
    y = (x * 2.0).retain_grad()  # The hook holds y, its Node holds the hook.
    node = weakref.ref(y.node)
    del y
    gc.collect()
    assert node() is None


def test_threads_have_graphs_of_their_own() -> None:
    shared = leaf(1.0, 2.0)
    found: dict[int, list[float]] = {}

    def work(k: int) -> None:
        total = shared * float(k)
        for _ in range(200):
            total = total + shared * shared
        found[k] = qt.grad(total.sum(), [shared])[0].tolist()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {k: [k + 400.0, k + 800.0] for k in range(6)}


def test_nodes_have_fields_and_no_others() -> None:
    node = (leaf(1.0) * 2.0).node
    assert isinstance(node, Node)
    assert isinstance(node, kernels.NodeFields)
    assert (node.rule.name, node.attributes, node.shape, node.dtype) == ("mul", {}, (1,), np.float64)
    assert (node.hooks, node.unpack, node.digests, node.freed) == (None, None, None, False)
    assert (leaf(1.0) * 2.0).node.sequence > node.sequence
    with pytest.raises(AttributeError):
        node.sequence = 3
    with pytest.raises(AttributeError):
        node.something_else = 3
    empty = kernels.NodeFields()
    assert (empty.rule, empty.inputs, empty.saved, empty.freed) == (None, None, None, False)


def test_what_is_no_operation_is_refused() -> None:
    x = leaf(1.0)
    with pytest.raises(TypeError, match="the name of an operation"):
        apply()
    with pytest.raises(TypeError, match="at least one input"):
        apply("add")
    with pytest.raises(KeyError):
        apply("no such operation", x)
    with pytest.raises(TypeError, match=r"\(output, saved\)"):
        apply(Rule("one", lambda xp, a: a, None), x)
    with pytest.raises(TypeError):
        apply("add", x, x, no_such_attribute=1)
    with pytest.raises(TypeError):
        apply("add", x, "text")


def test_what_is_no_graph_is_refused() -> None:
    walk = qt.autograd._walk
    y = leaf(1.0) * 2.0
    with pytest.raises(TypeError, match="roots, retain_graph, targets, barrier"):
        walk([])
    with pytest.raises(TypeError, match="a root is"):
        walk([y.node], False, None, False)
    with pytest.raises(TypeError):
        walk(3, False, None, False)
    y.node.inputs = [x for x in y.node.inputs]  # not a tuple
    with pytest.raises(TypeError, match="tuple"):
        y.backward()
    with pytest.raises(TypeError):
        kernels.watch_saved(y)
    y.node.guards = None
    with pytest.raises(TypeError):
        kernels.watch_saved(y.node)
    y.node.inputs = tuple(y.node.inputs)
    with pytest.raises(TypeError):
        y.backward()
    with pytest.raises(KeyError):
        kernels.make_apply({})
    with pytest.raises(KeyError):
        kernels.make_walk({})


def test_vjps_that_give_lists_or_fewer_cotangents() -> None:
    x, y = leaf(1.0), leaf(2.0)
    as_list = Rule("as_list", lambda xp, a, b: (a * b, (a, b)), lambda xp, g, saved, needs: [g * saved[1], None])
    apply(as_list, x, y).backward()
    assert x.grad.tolist() == [2.0]
    assert y.grad is None
    nothing = Rule("nothing", lambda xp, a: (a + 1, ()), lambda xp, g, saved, needs: None)
    with pytest.raises(TypeError):
        apply(nothing, x).backward()
