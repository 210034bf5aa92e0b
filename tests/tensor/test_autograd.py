"""The graph: backward, grad, hooks, versions, custom functions, recomputation, tracing."""

import copy
import gc
import pickle
import threading
import weakref
from typing import Any

import numpy as np
import pytest

from qdist import nn
from qdist import tensor as qt
from qdist.tensor import Tensor, functional
from qdist.tensor.kernels import shaping
from qdist.tensor.rules import Rule
from qdist.tensor.tensor import apply


def leaf(*values):
    return Tensor(np.array(values, np.float64), requires_grad=True)


def test_gradients_of_a_tensor_used_twice_add_up():
    x = leaf(2.0, 3.0)
    (x * x + x).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [5.0, 7.0])


def test_a_second_backward_pass_accumulates():
    x = leaf(2.0)
    for _ in range(2):
        (3 * x).sum().backward()
    assert x.grad.item() == 6.0


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda z, y: z * y, 2.0),
        (lambda z, y: z * z * y, 12.0),
        (lambda z, y: (z + y) * z, 8.0),
        (lambda z, y: z / y - z, -0.5),
        (lambda z, y: (z * y).exp(), 2 * np.exp(6)),
    ],
)
def test_numbers_of_no_dimensions_have_gradients_that_add_up(function, expected):
    # NumPy makes a number, which is no array, of every operation on them.
    z, y = Tensor(3.0, requires_grad=True), Tensor(2.0)
    for passes in (1, 2):
        function(z, y).backward()
        assert isinstance(z.grad, Tensor)
        assert z.grad.shape == ()
        np.testing.assert_allclose(z.grad.numpy(), passes * expected)
    (g,) = qt.grad(function(z, y), [z])
    np.testing.assert_allclose(g.numpy(), expected)


def test_gradients_of_different_leaves_never_share_memory():
    a, b = leaf(1.0, 2.0), leaf(3.0, 4.0)
    (a + b).sum().backward()
    a.grad.data *= 10
    np.testing.assert_array_equal(b.grad.numpy(), [1.0, 1.0])


def test_a_long_chain_needs_no_recursion():
    x = leaf(1.0)
    y = x
    for _ in range(20_000):
        y = y + 0.001
    y.sum().backward()
    assert x.grad.item() == 1.0
    del y


def test_backward_frees_the_graph_and_says_so():
    x = leaf(2.0)
    y = (x * x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="retain_graph=True"):
        y.backward()


def test_retain_graph_allows_a_second_pass():
    x = leaf(2.0)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.item() == 8.0


def test_what_no_vjp_needs_is_not_kept_alive():
    x = leaf(2.0)
    middle = x + 1
    kept = weakref.ref(middle.data)
    out = middle + 2
    del middle
    gc.collect()
    assert kept() is None
    out.sum().backward()
    assert x.grad.item() == 1.0


def test_second_derivatives_are_refused_clearly():
    x = leaf(2.0)
    y = (x * x).sum()
    with pytest.raises(NotImplementedError, match="gradients of gradients"):
        y.backward(create_graph=True)
    with pytest.raises(NotImplementedError, match="gradients of gradients"):
        qt.grad(y, [x], create_graph=True)


def test_backward_needs_a_graph_and_a_fitting_gradient():
    with pytest.raises(RuntimeError, match="requires_grad=True"):
        Tensor([1.0]).sum().backward()
    x = leaf(1.0, 2.0)
    with pytest.raises(ValueError, match="needs a gradient"):
        (x * 2).backward()
    with pytest.raises(ValueError, match="shape"):
        (x * 2).backward(np.ones(3))


def test_integers_have_no_gradients():
    with pytest.raises(TypeError, match="int64"):
        Tensor([1, 2], requires_grad=True)


def test_no_grad_records_nothing_and_enable_grad_switches_back():
    x = leaf(2.0)
    with qt.no_grad():
        assert not (x * x).requires_grad
        with qt.enable_grad():
            assert (x * x).requires_grad
    assert (x * x).requires_grad


def test_detach_cuts_the_graph_but_shares_data():
    x = leaf(2.0)
    d = x.detach()
    assert d.data is x.data
    assert not d.requires_grad
    (x * d).sum().backward()
    assert x.grad.item() == 2.0


def test_grad_gives_total_derivatives_and_touches_nothing():
    a = leaf(2.0)
    b = a * 3
    c = b * b
    da, db = qt.grad(c.sum(), [a, b])
    assert (da.item(), db.item()) == (36.0, 12.0)
    assert a.grad is None


def test_grad_names_unused_inputs():
    a, b = leaf(2.0), leaf(3.0)
    with pytest.raises(RuntimeError, match=r"\[1\]"):
        qt.grad((a * 2).sum(), [a, b])
    assert qt.grad((a * 2).sum(), [a, b], allow_unused=True)[1] is None


def test_a_hook_sees_and_replaces_the_gradient():
    x = leaf(2.0)
    seen = []
    y = x * 3
    remove = y.register_hook(lambda g: seen.append(g.item()))
    y.register_hook(lambda g: g * 10)
    x.register_hook(lambda g: -g)
    (y * 2).sum().backward()
    assert seen == [2.0]
    assert x.grad.item() == -60.0
    remove()


def test_a_leaf_hook_runs_once_on_the_complete_gradient():
    x = leaf(1.0)
    seen = []
    x.register_hook(lambda g: seen.append(g.item()))
    (x * 2 + x * 3 + x).sum().backward()
    assert seen == [6.0]


def test_post_accumulate_hooks_fire_as_soon_as_each_gradient_is_complete():
    first, second, tied = leaf(1.0), leaf(2.0), leaf(3.0)
    order = []
    for name, p in (("first", first), ("second", second), ("tied", tied)):
        p.register_post_accumulate_hook(lambda p, name=name: order.append((name, p.grad.item())))
    x = tied * first
    y = (x * second) * tied
    y.sum().backward()
    # d/dtied of tied^2 first second is 2 tied first second; it completes only at the start of the chain.
    assert order[0] == ("second", 9.0)
    assert dict(order) == {"second": 9.0, "first": 18.0, "tied": 12.0}
    assert len(order) == 3


def test_post_accumulate_hooks_work_with_recomputation_of_tied_weights():
    w = leaf(2.0)
    fired = []
    w.register_post_accumulate_hook(lambda p: fired.append(p.grad.item()))
    x = leaf(3.0)
    y = qt.checkpoint(lambda v: v * w, x)
    (qt.checkpoint(lambda v: v * w, y) * w).sum().backward()
    assert fired == [3.0 * 3 * 4]  # d/dw of x w^3


def test_retain_grad_keeps_the_gradient_of_a_computed_tensor():
    x = leaf(2.0)
    y = (x * 3).retain_grad()
    (y * y).sum().backward()
    assert y.grad.item() == 12.0


def test_a_leaf_that_is_frozen_after_the_forward_pass_gets_no_gradient():
    w, v = leaf(2.0), leaf(3.0)
    seen = []
    w.register_post_accumulate_hook(seen.append)
    loss = (w * v * v).sum()
    w.requires_grad_(False)
    loss.backward(retain_graph=True)
    assert (w.grad, v.grad.item(), seen) == (None, 12.0, [])
    w.requires_grad_()
    loss.backward()
    assert (w.grad.item(), v.grad.item(), len(seen)) == (9.0, 24.0, 1)


def test_retain_grad_asked_for_again_keeps_the_gradient_once():
    x = leaf(2.0)
    y = (x * 3).retain_grad().retain_grad()
    z = y * y
    z.sum().backward(retain_graph=True)
    assert y.grad.item() == 12.0
    z.sum().backward()
    assert y.grad.item() == 24.0


@pytest.mark.parametrize("first", [True, False])
def test_retain_grad_keeps_what_hooks_leave(first):
    x = leaf(2.0)
    y = x * 3
    if first:
        y.retain_grad()
    remove = y.register_hook(lambda g: g * 10)
    y.register_hook(lambda g: g + 1)
    if not first:
        y.retain_grad()
    (y * 2).sum().backward(retain_graph=True)
    assert (y.grad.item(), x.grad.item()) == (21.0, 63.0)
    remove()
    y.grad = x.grad = None
    (y * 2).sum().backward()
    assert (y.grad.item(), x.grad.item()) == (3.0, 9.0)


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.assign(np.array([9.0])),
        lambda t: setattr(t, "data", np.array([9.0])),
        lambda t: t.__setitem__(0, 9.0),
        lambda t: t.detach().assign(np.array([9.0])),
        lambda t: t.reshape(1, 1).detach().assign(np.array([[9.0]])),
    ],
    ids=["assign", "data", "setitem", "through-detach", "through-view"],
)
def test_changing_a_saved_tensor_before_backward_raises(change):
    x, w = leaf(2.0), leaf(3.0)
    y = (x * w).sum()
    with qt.no_grad():
        change(w)
    with pytest.raises(RuntimeError, match=r"mul .*changed in place"):
        y.backward()


def test_changing_what_no_vjp_saved_is_allowed():
    x, b = leaf(2.0), leaf(3.0)
    y = (x + b).sum()
    b.data -= 1.0
    y.backward()
    assert b.grad.item() == 1.0


def test_data_minus_equals_updates_the_same_memory():
    w = leaf(3.0)
    memory = w.data
    w.data -= 1.0
    assert w.data is memory
    assert w.version == 1


def test_writing_into_the_graph_is_refused():
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match="falsify"):
        x[0] = 5.0
    y = x * 2
    with pytest.raises(RuntimeError, match="falsify"), qt.no_grad():
        y[0] = 5.0


def test_in_place_operators_make_new_tensors():
    x = leaf(1.0)
    y = x
    y += 1
    assert y is not x
    assert x.item() == 1.0


@pytest.mark.parametrize("make", [lambda: leaf(1.0, 2.0), lambda: nn.Parameter(np.ones(2), requires_grad=False)])
@pytest.mark.parametrize(("sign", "name"), [("+=", "add_"), ("-=", "sub_"), ("*=", "mul_"), ("/=", "div_")])
def test_an_update_that_would_change_nothing_is_refused(make, sign, name):
    p, other = make(), qt.Tensor(np.array([3.0, 5.0]))
    want = {"p": p.numpy().copy(), "y": other.numpy()}
    exec(f"p {sign} y", {}, want)
    with qt.no_grad():
        with pytest.raises(TypeError, match=rf"a parameter would stay what it was: p\.{name}\(y\) changes it"):
            exec(f"p {sign} y", {"p": p, "y": other})
        getattr(p, name)(other)
        values = p.detach()
        values += 1
    np.testing.assert_array_equal(p.numpy(), want["p"])


def test_custom_function_with_saved_values_and_attributes():
    cube = qt.custom_function(
        "cube", lambda x, scale: (scale * x**3, (x,)), lambda saved, g, scale: 3 * scale * saved[0] ** 2 * g
    )
    x = leaf(2.0)
    y = cube(x, scale=2.0)
    y.sum().backward()
    assert (y.item(), x.grad.item()) == (16.0, 24.0)


def test_custom_function_with_several_inputs_and_outputs():
    def forward(a, b):
        return [a * b, a + b], (a, b)

    def vjp(saved, g):
        a, b = saved
        product = 0 if g[0] is None else g[0]
        total = 0 if g[1] is None else g[1]
        return product * b + total, product * a + total

    both = qt.custom_function("both", forward, vjp)
    a, b = leaf(2.0), leaf(5.0)
    product, total = both(a, b)
    (product * total).sum().backward()
    assert (a.grad.item(), b.grad.item()) == (5 * 7 + 10, 2 * 7 + 10)
    a.grad = b.grad = None
    both(a, b)[1].sum().backward()
    assert (a.grad.item(), b.grad.item()) == (1.0, 1.0)


def test_custom_function_with_the_wrong_number_of_cotangents_is_named():
    bad = qt.custom_function("bad", lambda a, b: (a + b, ()), lambda saved, g: g)
    with pytest.raises(ValueError, match="vjp of bad gave 1"):
        bad(leaf(1.0), leaf(2.0)).sum().backward()


def test_checkpoint_gives_the_same_gradients_and_dropout_masks():
    w = Tensor(np.random.default_rng(0).standard_normal((6, 6)), requires_grad=True)
    x = Tensor(np.random.default_rng(1).standard_normal((4, 6)), requires_grad=True)

    def block(v):
        return functional.dropout((v @ w).tanh(), 0.5), v * 2

    results = []
    for run in (block, lambda v: qt.checkpoint(block, v)):
        w.grad = x.grad = None
        qt.manual_seed(3)
        a, b = run(x * 1.0)
        after = qt.rand(2).numpy()
        (a.sum() + (a * b).sum()).backward()
        results.append((a.numpy(), after, w.grad.numpy(), x.grad.numpy(), qt.rand(2).numpy()))
    for plain, recomputed in zip(*results):
        np.testing.assert_array_equal(plain, recomputed)


def test_checkpoint_keeps_no_intermediate_values():
    x = Tensor(np.ones(1000), requires_grad=True)
    held = []

    def block(v):
        middle = v.exp()
        held.append(weakref.ref(middle.data))
        return middle.sum()

    out = qt.checkpoint(block, x)
    gc.collect()
    assert held[0]() is None
    out.backward()
    np.testing.assert_allclose(x.grad.numpy(), np.e)
    assert len(held) == 2


def test_what_a_checkpoint_hands_through_gets_its_gradient():
    x, w = qt.Tensor(np.ones(3), True), qt.Tensor(np.full(3, 2.0), True)
    for middle in (w, w * 1.0):
        x.grad = w.grad = None
        doubled, same = qt.checkpoint(lambda a, b: (a * 2, b), x, middle)
        (doubled.sum() + (same * 3).sum()).backward()
        np.testing.assert_array_equal(x.grad, np.full(3, 2.0))
        np.testing.assert_array_equal(w.grad, np.full(3, 3.0))


def test_checkpoints_nest():
    x = leaf(0.5)
    y = qt.checkpoint(lambda v: qt.checkpoint(lambda u: u.sin(), v).exp(), x)
    y.sum().backward()
    np.testing.assert_allclose(x.grad.item(), np.exp(np.sin(0.5)) * np.cos(0.5))


def test_a_node_knows_its_operation_inputs_and_attributes():
    x = leaf(1.0, 2.0)
    y = x.exp().sum(0, keepdims=True)
    assert y.node.rule.name == "sum"
    assert y.node.attributes == {"axis": (0,), "keepdims": True}
    assert y.node.inputs[0].rule.name == "exp"
    assert y.node.inputs[0].inputs == (x,)


def test_tracing_sees_every_operation_in_order_also_without_gradients():
    seen = []
    with qt.tracing(lambda rule, inputs, attributes, output: seen.append((rule.name, output.shape))):
        x = Tensor([[1.0, 2.0]])
        (x.T @ x > 1.0).argmax(0)
    assert seen == [("transpose", (2, 1)), ("matmul", (2, 2)), ("greater", (2, 2)), ("argmax", (2,))]


def test_descent_along_minus_grad_lowers_a_real_loss_of_a_complex_tensor():
    z = Tensor(np.array([1 + 2j, -0.5j]), requires_grad=True)
    loss = (z * z + 1).abs2().sum()
    loss.backward()
    lower = (((z.detach() - 1e-4 * z.grad) ** 2) + 1).abs2().sum()
    assert lower.item() < loss.item()


def test_hooks_of_what_a_checkpoint_uses_run_once():
    x, w = leaf(2.0), leaf(3.0)
    h = x * 1.0
    for tensor in (x, w, h):
        tensor.register_hook(lambda g: g * 10)
    qt.checkpoint(lambda v: v * w, h).sum().backward()
    np.testing.assert_allclose([w.grad.item(), x.grad.item()], [20.0, 300.0])


def test_packing_replaces_what_is_saved_until_it_is_needed():
    x, w = leaf(2.0, 3.0), leaf(5.0, 7.0)
    kept = []

    def pack(array):
        if array is w.data:
            kept.append(array.copy())
            return len(kept) - 1
        return array

    with qt.packing(pack, lambda content: kept[content] * 2 if isinstance(content, int) else content):
        y = x * w
    z = x * w
    (y + z).sum().backward()
    # Only the product inside the block was packed, and what came back was twice what went in.
    np.testing.assert_allclose(x.grad.numpy(), [15.0, 21.0])
    np.testing.assert_allclose(w.grad.numpy(), [4.0, 6.0])
    assert len(kept) == 1


def test_packed_values_need_not_live_while_nobody_needs_them():
    w = leaf(*np.arange(4.0))
    with qt.packing(lambda array: array.tolist(), np.array):
        h = w.exp()
        y = h.sin()
    alive = weakref.ref(h.data)
    del h
    gc.collect()
    assert alive() is None
    y.sum().backward()
    np.testing.assert_allclose(w.grad.numpy(), np.cos(np.exp(np.arange(4.0))) * np.exp(np.arange(4.0)))


def test_callbacks_after_the_backward_pass_see_all_gradients_and_run_once():
    x, w = leaf(2.0), leaf(3.0)
    seen = []
    first = []

    def finish():
        seen.append((x.grad.item(), w.grad.item()))

    for tensor in (x, w):
        tensor.register_post_accumulate_hook(lambda _: first.append(qt.after_backward(finish)))
    qt.checkpoint(lambda: x * w).sum().backward()
    assert (seen, first) == ([(3.0, 2.0)], [True, False])
    qt.grad(x * w, [x])
    with pytest.raises(RuntimeError, match="no backward pass"):
        qt.after_backward(finish)
    remove = w.register_hook(lambda g: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        (w * x).backward()
    remove()
    (x * x).backward()
    assert len(seen) == 2


def test_sums_of_cotangents_change_no_array_that_others_hold() -> None:
    x = Tensor(np.arange(4.0, dtype=np.float32), requires_grad=True)
    seen: list[Tensor] = []
    y = x * 2.0
    y.register_hook(lambda g: seen.append(g))
    # y gets a fresh cotangent, a view of one, the sum's own that z gets too, and one by a reshape.
    z = y + y.reshape(2, 2).exp().reshape(4) + y * 3.0
    w = z + y
    w.register_hook(lambda g: seen.append(g))
    w.sum().backward()
    np.testing.assert_array_equal(seen[0].numpy(), np.ones(4))
    want = 1 + np.exp(2 * np.arange(4.0)) + 3 + 1
    np.testing.assert_allclose(seen[1].numpy(), want, rtol=1e-6)
    np.testing.assert_allclose(x.grad.numpy(), 2 * want, rtol=1e-6)


def test_an_array_that_two_inputs_get_is_added_to_for_neither() -> None:
    def both(xp: Any, g: Any, saved: Any, needs: Any) -> Any:
        shared = g * 1
        return shared, shared

    rule = Rule("both", lambda xp, a, b: (a + b, ()), both)
    a, b = (Tensor(np.ones(3, np.float32), requires_grad=True) for _ in range(2))
    p, q = a * 1.0, b * 1.0
    # Each of p and q is used again, so that something is added to what they got first.
    out = apply(rule, p, q) + p * 5.0 + q * 7.0
    out.sum().backward()
    np.testing.assert_array_equal(a.grad.numpy(), np.full(3, 6.0))
    np.testing.assert_array_equal(b.grad.numpy(), np.full(3, 8.0))


def test_parts_that_lie_side_by_side_are_joined_without_a_copy() -> None:
    whole = np.arange(24.0).reshape(2, 3, 4)
    parts = np.split(whole, [1, 3], axis=2)
    (joined,) = shaping.split_vjp(np, parts, [p.shape for p in parts], [True], (1, 2, 1), 2)
    np.testing.assert_array_equal(joined, whole)
    assert np.shares_memory(joined, whole)
    for others in (parts[::-1], [parts[0], parts[1].copy(), parts[2]], [parts[0], None, parts[2]], [parts[0]] * 3):
        (joined,) = shaping.split_vjp(np, others, [p.shape for p in parts], [True], (1, 2, 1), 2)
        filled = [np.zeros(parts[i].shape) if p is None else p for i, p in enumerate(others)]
        np.testing.assert_array_equal(joined, np.concatenate(filled, axis=2))


def test_hooks_are_of_one_tensor_and_not_of_its_copies():
    torch = pytest.importorskip("torch")
    ours, theirs = leaf(1.0, 2.0), torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    seen = []
    ours.register_hook(lambda g: g * 10)
    ours.register_post_accumulate_hook(seen.append)
    theirs.register_hook(lambda g: g * 10)
    lock = threading.Lock()  # What cannot be copied.
    ours.register_post_accumulate_hook(lambda _: lock.locked())
    for made in (ours, copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        (made * made).sum().backward()
    other = copy.deepcopy(theirs)
    for made in (theirs, other):
        (made * made).sum().backward()
    assert ours.grad.tolist() == theirs.grad.tolist()
    assert copy.deepcopy(ours).grad.tolist() == [20.0, 40.0]
    fresh = copy.deepcopy(ours)
    fresh.grad = None
    (fresh * fresh).sum().backward()
    assert fresh.grad.tolist() == other.grad.tolist() == [2.0, 4.0]
    assert seen == [ours]
