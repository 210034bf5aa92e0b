"""Layers of LLaMA-like, recurrent and convolutional models beside torch, generation with a cache, and hooks."""

import numpy as np
import pytest

from qdist import nn
from qdist.tensor import Tensor, functional, manual_seed

torch = pytest.importorskip("torch")


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(list(shape)).normal(size=shape)


def both(ours, theirs, x: np.ndarray, names: dict[str, str] | None = None, atol: float = 1e-10) -> None:
    """Outputs, and gradients of the input and of all parameters, are equal. names: torch's for ours, if they differ."""
    theirs = theirs.double()
    known = dict(theirs.named_parameters()) | dict(theirs.named_buffers())
    ours.load_state_dict({name: known[(names or {}).get(name, name)].detach().numpy() for name in ours.state_dict()})
    a, b = Tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    y, z = ours(a), theirs(b)
    y, z = (y[0], z[0]) if isinstance(y, tuple) else (y, z)
    np.testing.assert_allclose(y.numpy(), z.detach().numpy(), atol=atol)
    g = np.random.default_rng(1).normal(size=y.shape)
    y.backward(g)
    z.backward(torch.tensor(g))
    np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), atol=atol)
    for name, parameter in ours.named_parameters():
        want = dict(theirs.named_parameters())[(names or {}).get(name, name)].grad.numpy()
        np.testing.assert_allclose(parameter.grad.numpy(), want, atol=atol, err_msg=name)
    for name, buffer in ours.named_buffers():
        np.testing.assert_allclose(buffer.numpy(), dict(theirs.named_buffers())[name].numpy(), atol=atol)


@pytest.mark.parametrize(
    ("ours", "theirs", "shape"),
    [
        (nn.RMSNorm(6, dtype=np.float64), lambda: torch.nn.RMSNorm(6, eps=1e-6), (3, 5, 6)),
        (nn.SiLU(), lambda: torch.nn.SiLU(), (3, 4)),
        (nn.Identity(), lambda: torch.nn.Identity(), (3, 4)),
        (
            nn.Conv1d(4, 6, 3, 2, 1, 2, 2, dtype=np.float64),
            lambda: torch.nn.Conv1d(4, 6, 3, 2, 1, 2, 2),
            (2, 4, 11),
        ),
        (
            nn.ConvTranspose1d(4, 6, 3, 2, 1, 1, 2, dtype=np.float64),
            lambda: torch.nn.ConvTranspose1d(4, 6, 3, 2, 1, 1, 2),
            (2, 4, 5),
        ),
        (
            nn.ConvTranspose2d(4, 6, (3, 2), (2, 1), (1, 0), 0, 2, dtype=np.float64),
            lambda: torch.nn.ConvTranspose2d(4, 6, (3, 2), (2, 1), (1, 0), 0, 2),
            (2, 4, 5, 3),
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else "",
)
def test_layers_are_those_of_torch(ours, theirs, shape) -> None:
    both(ours, theirs(), normal(*shape))


@pytest.mark.parametrize("shape", [(6, 4), (3, 4, 5)])
def test_batch_norm_of_vectors_and_of_sequences(shape) -> None:
    ours, theirs = nn.BatchNorm1d(4, dtype=np.float64), torch.nn.BatchNorm1d(4).double()
    x = normal(*shape)
    y, z = ours(Tensor(x)), theirs(torch.tensor(x))
    np.testing.assert_allclose(y.numpy(), z.detach().numpy(), atol=1e-10)
    np.testing.assert_allclose(ours.running_var.numpy(), theirs.running_var.numpy(), atol=1e-10)
    y, z = ours.eval()(Tensor(x)), theirs.eval()(torch.tensor(x))
    np.testing.assert_allclose(y.numpy(), z.detach().numpy(), atol=1e-10)


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_recurrent_layers_are_those_of_torch(kind: str) -> None:
    ours = getattr(nn, kind)(5, 7, 2, dtype=np.float64)
    theirs = getattr(torch.nn, kind)(5, 7, 2, batch_first=True)
    names = {n: f"{n.split('.')[2]}_l{n.split('.')[1]}" for n, _ in ours.named_parameters()}
    both(ours, theirs, normal(3, 6, 5), names)
    # Going on from a state is as if the sequence had not been cut.
    x = Tensor(normal(3, 6, 5))
    whole, end = ours(x)
    first, state = ours(x[:, :4])
    second, last = ours(x[:, 4:], state)
    np.testing.assert_allclose(np.concatenate([first.numpy(), second.numpy()], 1), whole.numpy(), atol=1e-12)
    for a, b in zip(last if kind == "LSTM" else (last,), end if kind == "LSTM" else (end,)):
        np.testing.assert_allclose(a.numpy(), b.numpy(), atol=1e-12)


def torch_grouped(layer: nn.GroupedQueryAttention, x: np.ndarray) -> np.ndarray:
    """Written once more with torch's attention and complex rotations."""
    b, t, f = x.shape
    width = f // layer.heads
    q, k, v = (
        (torch.tensor(x) @ torch.tensor(m.weight.numpy()).T).reshape(b, t, -1, width).transpose(1, 2)
        for m in (layer.q, layer.k, layer.v)
    )
    angles = torch.outer(torch.arange(t), layer.base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width))
    turn = torch.polar(torch.ones_like(angles), angles)

    def turned(z):
        half = width // 2
        pairs = torch.complex(z[..., :half], z[..., half:]) * turn
        return torch.cat([pairs.real, pairs.imag], -1)

    k, v = (z.repeat_interleave(layer.heads // layer.kv_heads, 1) for z in (turned(k), v))
    y = torch.nn.functional.scaled_dot_product_attention(turned(q), k, v, is_causal=True)
    return (y.transpose(1, 2).reshape(b, t, f) @ torch.tensor(layer.o.weight.numpy()).T).numpy()


@pytest.mark.parametrize("kv_heads", [4, 2, 1])
def test_grouped_query_attention_and_its_cache(kv_heads: int) -> None:
    manual_seed(0)
    layer = nn.GroupedQueryAttention(24, 4, kv_heads, dtype=np.float64)
    x = normal(2, 7, 24)
    whole = layer(Tensor(x)).numpy()
    np.testing.assert_allclose(whole, torch_grouped(layer, x), atol=1e-10)
    cache = nn.KVCache()
    parts = [layer(Tensor(x[:, a:b]), cache).numpy() for a, b in ((0, 3), (3, 4), (4, 7))]
    assert len(cache) == 7
    assert cache.keys.shape == (2, kv_heads, 7, 6)
    np.testing.assert_allclose(np.concatenate(parts, 1), whole, atol=1e-10)


def test_gated_perceptrons_have_the_gates_of_torch() -> None:
    x = normal(3, 6)
    for name, gate in (("silu", "silu"), ("gelu", "gelu"), ("sigmoid", "sigmoid"), ("relu", "relu")):
        layer = nn.GatedMLP(6, 8, name, dtype=np.float64)
        a, b, c = (torch.tensor(m.weight.numpy()) for m in (layer.gate, layer.up, layer.down))
        act = getattr(torch, gate) if gate == "sigmoid" else getattr(torch.nn.functional, gate)
        want = (act(torch.tensor(x) @ a.T) * (torch.tensor(x) @ b.T)) @ c.T
        np.testing.assert_allclose(layer(Tensor(x)).numpy(), want.numpy(), atol=1e-10)
    with pytest.raises(ValueError, match="activation 'tanh' is not known"):
        nn.GatedMLP(4, 4, "tanh")


def test_modules_by_name() -> None:
    parts = nn.ModuleDict({"a": nn.Linear(2, 3), "b": nn.Identity()})
    assert list(parts) == ["a", "b"]
    assert [name for name, _ in parts.named_parameters()] == ["a.weight", "a.bias"]
    assert "b" in parts
    assert "c" not in parts
    del parts["b"]
    assert len(parts) == 1
    with pytest.raises(KeyError, match="there are a"):
        parts["b"]
    with pytest.raises(ValueError, match="cannot be named 'forward'"):
        parts["forward"] = nn.Identity()


def test_hooks_see_and_change_what_passes() -> None:
    layer = nn.Linear(2, 3, dtype=np.float64)
    x = Tensor(normal(4, 2), requires_grad=True)
    plain = layer(x).numpy()
    seen: list[tuple] = []
    removes = [
        layer.register_forward_pre_hook(lambda module, inputs: (inputs[0] * 2,)),
        layer.register_forward_hook(lambda module, inputs, output: output + 1),
        layer.register_full_backward_hook(lambda module, into, out: seen.append((into, out))),
    ]
    y = layer(x)
    want = 2 * plain - layer.bias.numpy() + 1
    np.testing.assert_allclose(y.numpy(), want, atol=1e-12)
    y.sum().backward()
    ((into, out),) = seen
    np.testing.assert_array_equal(out[0].numpy(), np.ones((4, 3)))
    np.testing.assert_allclose(into[0].numpy(), np.ones((4, 3)) @ layer.weight.numpy(), atol=1e-12)
    for remove in removes:
        remove()
    np.testing.assert_array_equal(layer(x).numpy(), plain)
    assert functional.silu(Tensor([0.0])).item() == 0.0
