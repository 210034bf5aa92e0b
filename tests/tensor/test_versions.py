"""Values that a derivative needs and that were changed before it: every way of changing them ends in an error."""

import gc

import numpy as np
import pytest

import qdist.tensor as qt
from qdist import nn, optim
from qdist.data import ArrayDataset, DataLoader
from qdist.tensor import autograd, versions


def made(xp, *shape, seed=0):
    return xp.asarray(np.random.default_rng(seed).normal(size=shape or (3, 4)).astype(np.float32))


# Each gets a Tensor of shape (3, 4) that is saved by then, and changes one element or all.
WAYS = {
    "element of .data": lambda a: a.data.__setitem__((1, 2), 9.0),
    "all of .data": lambda a: a.data.__setitem__(slice(None), 9.0),
    "data -=": lambda a: setattr(a, "data", a.data.__isub__(1.0)),
    "data = new": lambda a: setattr(a, "data", a.data + 1.0),
    "fill": lambda a: a.data.fill(7.0),
    "out=": lambda a: np.add(a.data, 1.0, out=a.data),
    "in-place operator on the array": lambda a: a.data.__imul__(2.0),
    "a view of the array": lambda a: a.data.T[1:].__setitem__(0, 9.0),
    "detach().data": lambda a: a.detach().data.__setitem__(0, 9.0),
    "a Tensor that is a view": lambda a: a.reshape(-1).data.__setitem__(-1, 9.0),
    "a Tensor of the Tensor": lambda a: qt.Tensor(a).data.__setitem__((0, 0), 9.0),
    "assign": lambda a: no_grad(lambda: a.assign(qt.Tensor(a.data * 2))),
    "item assignment": lambda a: no_grad(lambda: a.__setitem__(0, 9.0)),
    "reversed in place": lambda a: a.data.__setitem__(slice(None), a.data[::-1, ::-1].copy()),
}
ON_CPU = {
    "copyto": lambda a: np.copyto(a.data, 3.0),
    "numpy()": lambda a: a.numpy().__setitem__((2, 3), 9.0),
    "asarray": lambda a: np.asarray(a).__setitem__((2, 3), 9.0),
    "shuffle": lambda a: np.random.default_rng(3).shuffle(a.data),
    "sort": lambda a: a.data.sort(axis=1),
    "a memory view": lambda a: memoryview(a.data).cast("B").__setitem__(5, 3),
}


def no_grad(change):
    with qt.no_grad():
        change()


@pytest.mark.parametrize("way", [*WAYS, *ON_CPU])
@pytest.mark.parametrize("held", [False, True], ids=["inside", "held from the start"])
def test_every_way_of_changing_a_saved_tensor_is_an_error(xp, way, held):
    if way in ON_CPU and xp is not np:
        pytest.skip("NumPy's own")
    memory = made(xp)
    a = qt.Tensor(memory if held else memory.copy(), requires_grad=True)
    b = qt.Tensor(made(xp, seed=1), requires_grad=True)
    loss = (a * b).sum()
    {**WAYS, **ON_CPU}[way](a)
    with pytest.raises(RuntimeError, match=r"mul needs.*changed.*after use.*clone\(\)"):
        loss.backward()
    assert a.grad is None
    assert b.grad is None


def test_the_array_a_tensor_was_made_of_may_not_change_either(xp):
    array = made(xp)
    weight = qt.Tensor(made(xp, seed=1), requires_grad=True)
    loss = (qt.Tensor(array) * weight).sum()
    array[0, 0] += 1.0
    with pytest.raises(RuntimeError, match=r"shape \(3, 4\) that mul needs.*write to its array"):
        loss.backward()


def test_a_part_of_a_larger_array_is_told_apart_from_the_rest(xp):
    rows = made(xp, 6, 4)
    weight = qt.Tensor(made(xp, seed=1), requires_grad=True)
    loss = (qt.Tensor(rows[:3]) * weight).sum()
    rows[3:] = 0.0
    loss.backward()
    loss = (qt.Tensor(rows[:3]) * weight).sum()
    rows[2] = 0.0
    with pytest.raises(RuntimeError, match="changed"):
        loss.backward()


def test_an_array_taken_before_the_forward_pass_is_watched(xp):
    a = qt.Tensor(made(xp).copy(), requires_grad=True)
    early = a.data
    loss = (a * a).sum()
    early[0] = 0.0
    with pytest.raises(RuntimeError, match="changed"):
        loss.backward()


def test_a_result_may_not_be_changed_where_its_derivative_needs_it(xp):
    a = qt.Tensor(made(xp).copy(), requires_grad=True)
    y = a.exp()
    loss = y.sum()
    y.data[...] = 0.0
    with pytest.raises(RuntimeError, match="exp needs"):
        loss.backward()


def test_indices_are_values_too(xp):
    table = qt.Tensor(made(xp), requires_grad=True)
    rows = xp.asarray([0, 2])
    loss = (table[rows] * 2.0).sum()
    rows[0] = 1
    with pytest.raises(RuntimeError, match="index needs"):
        loss.backward()


@pytest.mark.parametrize("size", [5, 1 << 14, (1 << 15) + 3, 100_003])
def test_digests_see_one_bit_and_every_exchange(xp, size):
    a = xp.arange(size, dtype=np.float32)
    before = versions.digest(a)
    assert versions.digest(a.copy()) == before
    for i in (0, size // 2, size - 1):
        a.view(np.uint8)[4 * i] ^= 1
        assert versions.digest(a) != before
        a.view(np.uint8)[4 * i] ^= 1
    for i, j in ((0, size - 1), (1, 2), (0, min(size - 1, 1024))):
        a[[i, j]] = a[[j, i]]
        assert versions.digest(a) != before
        a[[i, j]] = a[[j, i]]
    assert versions.digest(a) == before
    assert versions.digest(a[::-1]) != before


def test_what_no_derivative_needs_may_change_at_any_time(xp):
    a, b = (qt.Tensor(made(xp, seed=i), requires_grad=True) for i in range(2))
    loss = (a + b).sum()
    a.data[:] = 0.0
    loss.backward()
    assert (a.grad.data == 1).all()


def test_changes_before_forward_and_after_backward_are_free(xp):
    a, b = (qt.Tensor(made(xp, seed=i), requires_grad=True) for i in range(2))
    for value in (1.0, 2.0, 3.0):
        a.data[:] = value
        b.grad = None
        loss = (a * b).sum()
        loss.backward()
        a.data[0] = -1.0
        assert (b.grad.data == value).all()


def test_clones_and_copies_are_the_way_out(xp):
    array = made(xp)
    b = qt.Tensor(made(xp, seed=1), requires_grad=True)
    a = qt.Tensor(array, requires_grad=True)
    loss = (a.clone() * b).sum() + (qt.Tensor(array.copy()) * b).sum()
    array[:] = 0.0
    loss.backward()
    np.testing.assert_allclose(qt.Tensor(b.grad).numpy(), 2 * qt.Tensor(made(xp)).numpy())
    assert a.grad is not None


def test_graphs_that_are_never_walked_stand_in_nobodys_way(xp):
    model = nn.Linear(4, 2)
    if xp is not np:
        model.to("cuda")
    kept = model(qt.Tensor(made(xp))).sum()
    model.weight.data[:] = 0.0
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    model(qt.Tensor(made(xp))).sum().backward()
    optimizer.step()
    with pytest.raises(RuntimeError, match="linear needs"):
        kept.backward()


def test_recomputed_functions_find_arguments_that_changed(xp):
    scale = qt.Tensor(made(xp, seed=2))
    a = qt.Tensor(made(xp), requires_grad=True)
    loss = qt.checkpoint(lambda x, s: (x * s).tanh(), a, scale).sum()
    scale.data[0, 0] = 5.0
    with pytest.raises(RuntimeError, match="checkpoint needs"):
        loss.backward()


def test_custom_functions_that_give_their_input_back_do_not_share_it(xp):
    same = qt.custom_function("same", lambda x: (x, ()), lambda saved, g: g)
    a = qt.Tensor(made(xp), requires_grad=True)
    y = (a * a).sum() + same(a).sum()
    b = same(a)
    b.data[:] = 0.0
    y.backward()
    np.testing.assert_allclose(qt.Tensor(a.grad).numpy(), 2 * qt.Tensor(made(xp)).numpy() + 1, rtol=1e-6)


def test_a_training_loop_digests_nothing(monkeypatch):
    count = 0

    def counting(array):
        nonlocal count
        count += 1
        return versions.digest(array)

    monkeypatch.setattr(autograd, "digest", counting)
    rng = np.random.default_rng(0)
    data = ArrayDataset(rng.normal(size=(64, 8)).astype(np.float32), rng.integers(0, 3, 64))
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Dropout(0.1), nn.Linear(16, 3))
    optimizer = optim.Adam(model.parameters(), lr=1e-2)
    loss_of = nn.CrossEntropyLoss()
    for x, y in DataLoader(data, 16, shuffle=True):
        optimizer.zero_grad()
        loss = loss_of(model(x), y)
        loss.backward()
        optim.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        loss.item(), [p.data.std() for p in model.parameters()]
    loss_of(model(qt.Tensor(rng.normal(size=(4, 8)).astype(np.float32))), qt.Tensor(np.zeros(4, int))).backward()
    assert count == 0
    x = rng.normal(size=(4, 8)).astype(np.float32)  # Held here, so it has to be compared: twice.
    model(qt.Tensor(x)).sum().backward()
    assert count == 2


def test_graphs_that_are_gone_are_forgotten():
    frozen = qt.Tensor(np.ones(3, np.float32))
    a = qt.Tensor(np.ones(3, np.float32), requires_grad=True)
    for _ in range(200):
        (a * frozen).sum().backward()
    gc.collect()
    assert len(frozen._version._savers) <= 33
