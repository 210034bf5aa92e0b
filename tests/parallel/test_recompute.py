"""Recomputed parts give the same numbers, with dropout, in training and evaluation."""

import copy

import numpy as np
import pytest

from qdist import nn
from qdist.parallel import recompute, recompute_attention
from qdist.tensor import Tensor, manual_seed, no_grad, random


def net() -> nn.Sequential:
    manual_seed(1)
    return nn.Sequential(*(nn.TransformerBlock(8, 2, dropout=0.3, causal=True, dtype=np.float64) for _ in range(2)))


def trained(model: nn.Module) -> tuple[np.ndarray, dict[str, np.ndarray], dict]:
    manual_seed(9)
    x = Tensor(np.random.default_rng(0).normal(size=(2, 5, 8)), requires_grad=True)
    y = model(x)
    (y * y).sum().backward()
    gradients = {name: p.grad.numpy() for name, p in model.named_parameters()} | {"x": x.grad.numpy()}
    return y.numpy(), gradients, random.get_state()


def blocks(model: nn.Sequential) -> nn.Module:
    for block in model:
        recompute(block)
    return model


@pytest.mark.parametrize("change", [blocks, recompute_attention, recompute], ids=["blocks", "attention", "all"])
@pytest.mark.parametrize("copied", [False, True])
def test_numbers_masks_and_the_random_state_stay(change, copied: bool) -> None:
    model = change(net())
    if copied:
        model = copy.deepcopy(model)
    y, gradients, state = trained(model)
    want, want_gradients, want_state = trained(net())
    np.testing.assert_array_equal(y, want)
    assert gradients.keys() == want_gradients.keys()
    for name, gradient in want_gradients.items():
        np.testing.assert_allclose(gradients[name], gradient, rtol=1e-12, atol=1e-13, err_msg=name)
    assert state == want_state


def test_a_copy_recomputes_with_its_own_weights() -> None:
    model = recompute(net())
    other = copy.deepcopy(model)
    with no_grad():
        for parameter in other.parameters():
            parameter.assign(parameter.numpy() * 0)
    x = Tensor(np.ones((1, 5, 8)))
    assert not np.allclose(model.eval()(x).numpy(), x.numpy())
    np.testing.assert_array_equal(other.eval()(x).numpy(), x.numpy())


def test_nothing_to_recompute_is_an_error() -> None:
    with pytest.raises(ValueError, match="Linear has no MultiHeadAttention"):
        recompute_attention(nn.Linear(2, 2))
