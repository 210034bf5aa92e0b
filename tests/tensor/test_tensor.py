"""Tensor itself: dtypes, devices, indexing, conversions, errors."""

import math

import numpy as np
import pytest
import torch

import qdist as qd
from qdist import tensor as qt
from qdist.tensor import Tensor, functional

OPERATORS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "pow": lambda a, b: a**b,
    "radd": lambda a, b: b + a,
    "rsub": lambda a, b: b - a,
    "rmul": lambda a, b: b * a,
    "rdiv": lambda a, b: b / a,
    "rpow": lambda a, b: b**a,
    "maximum": qt.maximum,
    "where": lambda a, b: qt.where(Tensor([True, False]), a, b),
}


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (1.5, np.float32),
        ([1.5, 2.0], np.float32),
        (1, np.int64),
        (True, np.bool_),
        (1j, np.complex64),
        (np.ones(2), np.float64),
        (np.ones(2, np.complex128), np.complex128),
        (np.float64(2), np.float64),
    ],
)
def test_default_dtypes(value, dtype):
    assert Tensor(value).dtype == dtype


@pytest.mark.parametrize("scalar", [2, 2.0, True, np.float64(2), np.float32(2), np.int64(2)], ids=repr)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
@pytest.mark.parametrize("name", OPERATORS)
def test_a_scalar_never_changes_precision(name, dtype, scalar):
    if name == "maximum" and np.dtype(dtype).kind == "c":
        pytest.skip("complex numbers have no order")
    x = Tensor(np.array([1.5, 2.5], dtype), requires_grad=True)
    y = OPERATORS[name](x, scalar)
    assert y.dtype == dtype
    y.backward(np.ones(2, dtype))
    assert x.grad.dtype == dtype


@pytest.mark.parametrize("scalar", [2j, np.complex128(2j)], ids=repr)
def test_a_complex_scalar_gives_the_complex_dtype_of_the_same_precision(scalar):
    assert (Tensor(np.ones(2, np.float32)) * scalar).dtype == np.complex64
    assert (Tensor(np.ones(2, np.float64)) * scalar).dtype == np.complex128
    x = Tensor(np.ones(2, np.float32), requires_grad=True)
    (x * scalar).abs2().sum().backward()
    assert x.grad.dtype == np.float32


def test_integers_give_way_to_the_floats_they_meet():
    i = Tensor([1, 2])
    assert (i * 1.5).dtype == np.float32
    assert (i / 2).dtype == np.float32
    assert i.exp().dtype == i.mean().dtype == np.float32
    assert (i * Tensor(np.ones(2, np.float32))).dtype == np.float32
    assert (i * Tensor(np.ones(2, np.float64))).dtype == np.float64
    assert (i + 1).dtype == np.int64
    assert (Tensor([True]) + 1).dtype == np.int64


@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64", "bool"])
def test_bounds_of_integers_are_torchs(dtype):
    values = np.array([0, 1, 1, 0] if dtype == "bool" else [0, 1, 5, 7], dtype)
    for low, high in ((1, 6), (0.5, None), (None, 1.5), (np.float64(0.5), np.int64(6)), (np.int64(1), None)):
        if dtype == "bool" and float not in (type(low), type(high)):
            continue  # torch has none.
        bounds = [None if b is None else np.asarray(b).item() for b in (low, high)]
        wanted = torch.tensor(values).clamp(*bounds).numpy()
        found = Tensor(values).clip(low, high)
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found.numpy(), wanted)
    x = Tensor(np.array([0.2, 0.7], np.float32), requires_grad=True)
    y = x.clip(np.float64(0.5))
    y.backward(np.ones(2, np.float32))
    assert y.dtype == x.grad.dtype == np.float32


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int32", "int64"])
def test_running_sums_of_integers_are_sums(dtype):
    values = np.array([[1, 0, 1], [1, 1, 1]], dtype) * np.array(1 if dtype == "bool" else 120, dtype)
    x = Tensor(values)
    for axis in (0, 1):
        np.testing.assert_array_equal(x.cumsum(axis).numpy(), np.cumsum(values.astype(np.int64), axis))
        last = x.cumsum(axis)[-1] if axis == 0 else x.cumsum(axis)[:, -1]
        assert last.dtype == x.sum(axis).dtype
        np.testing.assert_array_equal(last.numpy(), x.sum(axis).numpy())


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "int64"])
def test_integers_are_rounded_already(dtype):
    x = Tensor(np.array([0, 1, 1], dtype))
    for rounded in (x.round(), x.floor(), x.ceil()):
        assert rounded.dtype == dtype
        assert rounded.tolist() == x.tolist()
        assert not np.shares_memory(rounded.numpy(), x.numpy())


def test_shapes_are_numbers_or_a_tuple_of_them():
    for make in (qt.zeros, qt.ones, qt.rand, qt.randn):
        for given in ((2, 3), ((2, 3),), ([2, 3],)):
            assert make(*given).shape == (2, 3)
        assert make().shape == make(()).shape == ()
        assert make(4, dtype="float64").dtype == np.float64


def test_a_choice_between_two_numbers_takes_their_dtype():
    for condition in ([True, False], np.array([1.5, 0.0]), np.array([2, 0]), True):
        chosen = Tensor(condition)
        for a, b, dtype in (
            (1, 0, "i8"),
            (1.0, 0, "f4"),
            (0, 0.5, "f4"),
            (True, False, "?"),
            (1j, 2, "c8"),
            (np.float64(1), 2, "f4"),
        ):
            found = qt.where(chosen, a, b)
            assert found.dtype == dtype
            assert not found.requires_grad
            np.testing.assert_array_equal(found.numpy(), np.where(np.asarray(condition), a, b))


@pytest.mark.parametrize("other", [np.float64, np.complex128])
@pytest.mark.parametrize("mine", [np.float32, np.complex64])
def test_single_and_double_precision_do_not_mix(mine, other):
    with pytest.raises(TypeError, match="do not mix"):
        Tensor(np.ones(2, mine)) + Tensor(np.ones(2, other))
    with pytest.raises(TypeError, match="do not mix"):
        Tensor(np.ones((2, 2), mine)) @ np.ones((2, 2), other)


def test_functions_of_plain_numbers_give_tensors():
    assert functional.relu(-2.0).item() == 0.0
    assert qt.maximum(1.0, 2.0).dtype == np.float32


def test_arrays_on_the_left_defer_to_the_tensor():
    assert isinstance(np.ones(2, np.float32) + Tensor([1.0, 2.0]), Tensor)
    assert isinstance(np.ones((2, 2), np.float32) @ Tensor([1.0, 2.0]), Tensor)


def test_zero_dimensional_results_are_arrays():
    x = Tensor(2.0)
    assert isinstance((x + x).data, np.ndarray)
    assert isinstance(x.exp().data, np.ndarray)


def test_conversions():
    x = Tensor([[1.0, 2.0]])
    assert x.tolist() == [[1.0, 2.0]]
    assert x[0, 1].item() == 2.0
    assert float(x[0, 0]) == 1.0
    assert np.asarray(x).dtype == np.float32
    assert np.shares_memory(x.numpy(), x.data)
    assert len(x) == 1
    assert [row.shape for row in x] == [(2,)]
    with pytest.raises(ValueError, match="exactly one"):
        x.item()
    for wrong in (["a"], np.array(["a"]), np.array([None, 1.0]), np.datetime64("2020"), np.array([1], "m8[s]")):
        with pytest.raises(TypeError, match="a tensor holds numbers"):
            Tensor(wrong)
    assert repr(Tensor([1.0, 2.0], requires_grad=True)) == "Tensor([1., 2.], requires_grad=True)"


def test_dlpack_shares_memory_both_ways():
    torch = pytest.importorskip("torch")
    x = Tensor([1.0, 2.0])
    t = torch.from_dlpack(x)
    t[0] = 5.0
    assert x[0].item() == 5.0
    back = qt.from_dlpack(torch.arange(3.0))
    assert back.dtype == np.float32
    assert back.tolist() == [0.0, 1.0, 2.0]
    with pytest.raises(BufferError, match="detach"):
        torch.from_dlpack(Tensor([1.0], requires_grad=True))


def test_devices():
    x = Tensor([1.0])
    assert x.device == "cpu"
    assert x.to("cpu") is x
    assert x.to(np.float32) is x
    with pytest.raises(ValueError, match="unknown device"):
        Tensor([1.0], device="tpu")


@pytest.mark.gpu
def test_gradients_cross_devices():
    pytest.importorskip("cupy")
    x = Tensor([1.0, 2.0], requires_grad=True)
    y = x.to("cuda:0")
    assert y.device == "cuda:0"
    with pytest.raises(TypeError, match="cpu and cuda"):
        x + y
    (y * y).sum().backward()
    assert x.grad.device == "cpu"
    assert x.grad.tolist() == [2.0, 4.0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: x.sum(3), "out of range"),
        (lambda x: x.sum((0, -2)), "twice"),
        (lambda x: x.transpose(0), "all 2 axes"),
        (lambda x: x.squeeze(0), "not 1"),
        (lambda x: x.split([1, 1], 1), "do not add up"),
        (lambda x: x.pad([(1, 1)]), "each of 2 axes"),
        (lambda x: x.var(ddof=6), "more than 6"),
        (lambda x: x.gather(Tensor([[0], [0], [0]]), 1), "indices of shape .3, 1. do not fit a tensor of shape .2, 3."),
        (lambda x: x.gather(Tensor([0]), 1), "as many axes"),
        (lambda x: x.scatter_add(Tensor([[0, 0, 0, 0]]), x, 0), "along all but axis 0 at most its sizes"),
        (lambda x: x.scatter_add(Tensor([[0, 0, 0]]), x[:, :2], 0), r"a source of shape \(2, 2\) does not fit"),
        (lambda x: x.scatter_add(Tensor([[0, 0, 0]]), x[0, :2], 0), r"a source of shape \(2,\) does not fit"),
        (lambda x: functional.softmax(x, 2), "out of range"),
        (lambda x: functional.dropout(x, 1.0), "not in"),
        (lambda x: functional.mse_loss(x, x.sum()), "differ in shape"),
        (lambda x: functional.cross_entropy(x, Tensor([0, 1, 2])), "integer targets"),
        (lambda x: functional.layer_norm(x, (2,)), "does not fit"),
        (lambda x: functional.conv2d(x, x), "4-dimensional"),
        (
            lambda x: functional.conv2d(x.reshape(1, 1, 2, 3), Tensor(np.ones((1, 1, 3, 3), np.float32))),
            "does not fit",
        ),
        (lambda x: functional.attention(x, x, x.T), "do not fit together"),
        (lambda x: qt.einsum("ij,jk->ik", x), "names 2 operand"),
        (lambda x: qt.einsum("ijk->i", x), "does not fit"),
        (lambda x: qt.concatenate([]), "at least one"),
    ],
)
def test_wrong_arguments_are_explained(call, message):
    with pytest.raises(ValueError, match=message):
        call(Tensor(np.ones((2, 3), np.float32)))


def test_targets_outside_the_classes_are_refused():
    with pytest.raises(IndexError, match="3 classes"):
        functional.cross_entropy(Tensor(np.ones((2, 3), np.float32)), Tensor([0, 3]))


@pytest.mark.parametrize("index", [3, -1])
def test_indices_outside_an_embedding_are_refused(index):
    with pytest.raises(IndexError, match="3 rows"):
        functional.embedding(Tensor(np.ones((3, 2), np.float32)), Tensor([0, index]))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize(
    ("shape", "axis", "means"),
    [((0, 3), None, ()), ((0, 3), 0, (3,)), ((0, 3), 1, (0,)), ((2, 0, 3), (0, 1), (3,)), ((2, 0, 3), 1, (2, 3))],
)
def test_a_mean_of_nothing_is_no_number_and_warns_of_nothing(dtype, shape, axis, means):
    values = Tensor(np.ones(shape, dtype), requires_grad=True)
    mean = values.mean(axis)
    assert (mean.shape, mean.dtype) == (means, np.dtype(dtype))
    assert np.isnan(mean.numpy()).all()
    mean.abs2().sum().backward()
    assert values.grad.shape == shape
    if axis is not None:
        assert values.mean(axis, keepdims=True).size == math.prod(means)


def test_targets_that_count_nothing_have_to_be_named():
    logits = Tensor(np.ones((2, 3), np.float32))
    with pytest.raises(IndexError, match=r"targets go from -100 to 1, but there are 3 classes; .*ignore_index=-100"):
        functional.cross_entropy(logits, Tensor([1, -100]))
    assert functional.cross_entropy(logits, Tensor([1, -100]), ignore_index=-100).item() == pytest.approx(np.log(3))
    # Where nothing counts there is no mean, but nothing has a gradient.
    logits = Tensor(np.ones((2, 3)), requires_grad=True)
    with np.errstate(invalid="ignore"):
        loss = functional.cross_entropy(logits, Tensor([-100, -100]), ignore_index=-100)
    loss.backward()
    assert np.isnan(loss.item())
    assert not logits.grad.data.any()
    with pytest.raises(IndexError, match="'column-gather', or take vocab_parallel_cross_entropy"):
        functional.cross_entropy(logits, Tensor([1, 5]))


@pytest.mark.parametrize(
    "call",
    [
        lambda r, c: functional.linear(r, r, c[0]),
        lambda r, c: r.scatter_add(Tensor([[0, 1]] * 2), c, 1),
        lambda r, c: qt.concatenate([r, c]),
        lambda r, c: qt.where(Tensor([True, False]), r, c),
        lambda r, c: r @ c,
    ],
    ids=["linear", "scatter_add", "concatenate", "where", "matmul"],
)
def test_real_and_complex_tensors_work_together(call):
    r = Tensor(np.ones((2, 2), np.float32), requires_grad=True)
    c = Tensor(np.ones((2, 2), np.complex64), requires_grad=True)
    out = call(r, c)
    assert out.dtype == np.complex64
    out.abs2().sum().backward()
    assert (r.grad.dtype, c.grad.dtype) == (np.float32, np.complex64)


def test_float_indices_are_refused():
    with pytest.raises(TypeError, match="integers or a mask"):
        Tensor([1.0, 2.0])[Tensor([0.0])]


def test_masks_are_no_indices_along_an_axis_or_of_rows():
    x, mask = Tensor(np.ones((2, 2), np.float32)), Tensor([[True, False], [False, True]])
    for call in (
        lambda i: functional.embedding(x, i),
        lambda i: x.gather(i, 1),
        lambda i: x.scatter_add(i, x, 1),
    ):
        for indices in (mask, mask.to(np.float32)):
            with pytest.raises(TypeError, match=f"takes integer indices, got {indices.dtype}"):
                call(indices)


def test_an_empty_list_picks_nothing():
    x = Tensor(np.ones((2, 3), np.float32), requires_grad=True)
    for key in ([], (slice(None), []), [[], []]):
        picked = x[key]
        assert picked.shape == x.numpy()[key].shape
        picked.sum().backward()
    assert not x.grad.numpy().any()
    with pytest.raises(TypeError, match="integers or a mask"):
        x[Tensor([])]


def test_attention_that_may_see_nothing_gives_zeros_and_finite_gradients():
    q = qt.randn(1, 2, 4).requires_grad_()
    out = functional.attention(q, q, q, Tensor([[True, True], [False, False]]))
    assert out.numpy()[0, 1].tolist() == [0.0] * 4
    out.sum().backward()
    assert np.isfinite(q.grad.numpy()).all()


def test_single_precision_gelu_is_exact_to_rounding():
    x = np.linspace(-8, 8, 4001)
    torch = pytest.importorskip("torch")
    exact = torch.tensor(x, requires_grad=True)
    y = torch.nn.functional.gelu(exact)
    y.sum().backward()
    mine = Tensor(x.astype(np.float32), requires_grad=True)
    out = functional.gelu(mine)
    out.sum().backward()
    np.testing.assert_allclose(out.numpy(), y.detach().numpy(), atol=1e-6, rtol=3e-7)
    np.testing.assert_allclose(mine.grad.numpy(), exact.grad.numpy(), atol=5e-7)


def test_large_arrays_take_the_threaded_path_with_equal_results():
    x = np.random.default_rng(0).standard_normal((300, 400)).astype(np.float32)
    results = []
    before = qt.num_threads()
    for threads in (1, 3):
        qt.set_num_threads(threads)
        t = Tensor(x, requires_grad=True)
        out = functional.softmax(functional.gelu(functional.layer_norm(t, (400,))))
        out.backward(x)
        results.append((out.numpy(), t.grad.numpy()))
    qt.set_num_threads(before)
    np.testing.assert_array_equal(results[0][0], results[1][0])
    np.testing.assert_array_equal(results[0][1], results[1][1])
    with pytest.raises(ValueError, match="at least 1"):
        qt.set_num_threads(0)


def test_changes_in_place_are_torchs():
    values = np.array([[1.0, -2.0], [3.0, 4.0]])
    for name, other in (("add_", 2.0), ("sub_", values.T), ("mul_", -3.0), ("div_", 4.0), ("copy_", values.T)):
        ours, theirs = Tensor(values.copy()), torch.tensor(values)
        got = getattr(ours, name)(Tensor(other.copy()) if isinstance(other, np.ndarray) else other)
        getattr(theirs, name)(torch.tensor(other))
        assert got is ours
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())
        assert ours.version == 1
    assert Tensor(values).zero_().fill_(5).tolist() == [[5, 5], [5, 5]]
    assert Tensor(values).numel() == 4
    counter = Tensor(np.array([1]))
    assert counter.add_(100).dtype == np.int64
    whole = Tensor(np.array([1, 2]))
    assert (whole.float().dtype, whole.double().dtype, whole.double().long().dtype) == ("f4", "f8", "i8")
    assert whole.long() is whole.cpu() is whole
    leaf = Tensor(values, requires_grad=True)
    with pytest.raises(RuntimeError, match="would falsify its gradient"):
        (leaf * 2).add_(1)


@pytest.mark.parametrize(
    ("dtype", "other"),
    [("int64", 1.5), ("int32", np.ones(2)), ("uint8", np.ones(2, np.complex64)), ("float32", 1j), ("bool", 2)],
)
@pytest.mark.parametrize("name", ["add_", "sub_", "mul_", "div_"])
def test_no_change_in_place_cuts_numbers_off(name, dtype, other):
    x = Tensor(np.zeros(2, dtype))
    if name != "sub_" or dtype != "bool":  # Which torch has not.
        with pytest.raises(RuntimeError, match="can't be cast"):
            getattr(torch.zeros(2, dtype=getattr(torch, dtype)), name)(
                torch.tensor(other) if isinstance(other, np.ndarray) else other
            )
    with pytest.raises(TypeError, match=f"a tensor of {dtype} changed in place stays {dtype}"):
        getattr(x, name)(other)
    assert not x.numpy().any()
    assert x.version == 0


def test_quotients_of_integers_do_not_fit_integers():
    with pytest.raises(TypeError, match="the result is float64"):
        Tensor([1, 2, 3]).div_(2)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "float16", "float32", "float64", "complex64"])
def test_squares_are_products_and_powers(dtype):
    x = Tensor(np.array([0, 1, 3, 20], dtype))
    for square, other in ((x * x, x * x.clone()), (x**2, x**3)):
        assert square.dtype == other.dtype
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal((x * x).numpy(), (x * x.clone()).numpy())
        np.testing.assert_array_equal((x**2).numpy(), x.numpy() ** 2)


@pytest.mark.parametrize("target", ["gpu", torch.float32, torch.device("cpu")])
def test_what_is_neither_a_dtype_nor_a_device_is_named(target):
    with pytest.raises(TypeError, match=r"neither a dtype, such as 'float32'.* nor a device"):
        Tensor([1.0]).to(target)


def test_a_seed_is_a_whole_number():
    with pytest.raises(TypeError, match="whole numbers, got seed='a'"):
        qt.manual_seed("a")


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128, np.int64])
def test_assigned_numbers_have_the_precision_of_the_tensor(dtype):
    numbers = [0.1, -1 / 3, 1e-9] if np.dtype(dtype).kind != "i" else [2**53 + 1, -3, 0]
    t = qt.Tensor(np.zeros(3, dtype))
    np.testing.assert_array_equal(t.assign(numbers).numpy(), np.array(numbers, dtype))
    one = qt.Tensor(np.zeros((), dtype))
    assert one.assign(numbers[0]).item() == np.array(numbers[0], dtype)
    np.testing.assert_array_equal(t.assign(qt.Tensor(np.array(numbers[::-1], dtype))).numpy(), t.numpy())


@pytest.mark.parametrize("dtype", ["str", "U5", object, "datetime64[s]", "S3"])
def test_dtypes_of_what_are_no_numbers_are_refused(dtype):
    for make in (
        lambda: qt.Tensor([1], dtype=dtype),
        lambda: qt.Tensor(np.ones(2), dtype=dtype),
        lambda: qt.Tensor(np.float64(1), dtype=dtype),
        lambda: qt.Tensor([1.0]).to(dtype),
    ):
        with pytest.raises(TypeError, match="holds numbers"):
            make()


@pytest.mark.parametrize("letters", ["f2", "f4", "f8", "c8", "c16", "i4", "u2"])
def test_numbers_of_the_other_byte_order_are_taken_in_this_machines(letters: str) -> None:
    given = np.arange(6).reshape(2, 3).astype(letters)
    swapped = given.astype(given.dtype.newbyteorder("S"))
    changed = Tensor(np.zeros((2, 3)))
    changed.data = swapped
    asked = Tensor(given, dtype=swapped.dtype)
    read = next(iter(qd.data.DataLoader(qd.data.ArrayDataset(swapped), 2)))[0]
    for tensor in (Tensor(swapped), changed, asked, asked.to(swapped.dtype), read):
        assert tensor.dtype == given.dtype
        np.testing.assert_array_equal((tensor + tensor * 2).numpy(), 3 * given)


def test_layers_take_data_of_the_other_byte_order() -> None:
    data = np.random.default_rng(0).normal(size=(4, 3)).astype("<f4")
    circuit = qd.Circuit(3)
    for q, x in enumerate(qd.ParameterVector("x", 3)):
        circuit.rx(x, q)
    for layer in (qd.nn.Linear(3, 2), qd.nn.QuantumLayer(circuit, ["Z0 Z2"], inputs=circuit.parameters)):
        want = layer(Tensor(data)).numpy()
        np.testing.assert_array_equal(layer(Tensor(data.astype(">f4"))).numpy(), want)
    np.testing.assert_array_equal(layer(data.astype(">f4")).numpy(), want)  # A circuit takes arrays as they are.


@pytest.mark.parametrize("axes", [(0, 1), (-2, -1), (0, -1)])
def test_two_axes_that_torch_would_exchange_are_not_left_in_silence(axes):
    x = Tensor(np.arange(4.0).reshape(2, 2))
    with pytest.raises(ValueError, match=r"which is the old one: swapaxes\(0, 1\) and .T exchange"):
        x.transpose(*axes)
    assert x.transpose(1, 0).tolist() == x.T.tolist() == torch.tensor(x.numpy()).transpose(*axes).tolist()
    assert x.transpose(axes).tolist() == x.tolist()
