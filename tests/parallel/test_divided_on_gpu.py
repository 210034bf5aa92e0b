"""Divided layers on CuPy arrays give what they give on NumPy arrays."""

import numpy as np
import pytest

from qdist import nn
from qdist.comm import counting_communicator, cuda_devices
from qdist.parallel import (
    ParallelTransformerBlock,
    SequenceDropout,
    VocabParallelEmbedding,
    ring_attention,
    shard_sequence,
    vocab_parallel_cross_entropy,
)
from qdist.tensor import Tensor, functional, manual_seed

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(cuda_devices() == 0, reason="no CUDA device")]
CASES = ["tensor", "sequence", "context", "tensor and context"]


def results(case: str, device: str) -> list[np.ndarray]:
    """Output and gradients of a block on one rank of four; the others bring nothing, which is the same everywhere."""
    comm, other = counting_communicator(4, 1), counting_communicator(2, 1)
    sequence = case == "sequence"
    manual_seed(1)
    block = ParallelTransformerBlock(
        16,
        8,
        None if case == "context" else comm,
        causal=True,
        sequence_parallel=sequence,
        context=other if "context" in case else None,
        dtype=np.float64,
    ).to(device)
    x = Tensor(np.random.default_rng(0).normal(size=(2, 8, 16)), requires_grad=True, device=device)
    y = block(x)
    y.backward(Tensor(np.random.default_rng(1).normal(size=y.shape), device=device))
    assert y.device.startswith(device)
    return [y.numpy(), x.grad.numpy(), *(p.grad.numpy() for p in block.parameters())]


@pytest.mark.parametrize("case", CASES)
def test_a_block(case: str) -> None:
    for got, want in zip(results(case, "cuda"), results(case, "cpu"), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("causal", [True, False])
def test_a_ring(causal: bool) -> None:
    def ring(device: str) -> list[np.ndarray]:
        rng = np.random.default_rng(2)
        parts = [Tensor(t, requires_grad=True, device=device) for t in rng.normal(size=(3, 2, 3, 8, 4))]
        out = ring_attention(*parts, counting_communicator(3, 1), causal=causal)
        out.backward(Tensor(np.ones(out.shape), device=device))
        return [out.numpy(), *(t.grad.numpy() for t in parts)]

    for got, want in zip(ring("cuda"), ring("cpu"), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-11)


def test_the_vocabulary() -> None:
    def loss(device: str) -> list[np.ndarray]:
        comm = counting_communicator(4, 1)
        manual_seed(3)
        table = VocabParallelEmbedding(24, 8, comm, dtype=np.float64).to(device)
        tokens = Tensor(np.array([[0, 7, 23], [5, 8, 6]]), device=device)
        found = table(tokens)
        value = vocab_parallel_cross_entropy(
            found[..., :6], Tensor(np.array([[0, 7, 11], [6, 8, 23]]), device=device), comm
        )
        value.backward()
        return [found.numpy(), value.numpy(), table.weight.grad.numpy()]

    for got, want in zip(loss("cuda"), loss("cpu"), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-11)


def test_masks_of_a_slice_are_slices_of_the_mask() -> None:
    x = np.ones((3, 16, 5))
    manual_seed(3)
    whole = functional.dropout(Tensor(x, device="cuda"), 0.4).numpy()
    manual_seed(3)
    dropout = SequenceDropout(0.4, counting_communicator(4, 2))
    np.testing.assert_array_equal(dropout(Tensor(x[:, :4], device="cuda")).numpy(), whole[:, 8:12])


def test_slices_of_a_sequence() -> None:
    x = np.arange(32.0).reshape(2, 16)
    part = shard_sequence(Tensor(x, device="cuda"), counting_communicator(4, 1))
    np.testing.assert_array_equal(part.numpy(), x[:, [2, 3, 12, 13]])


def test_plain_attention_is_unchanged() -> None:
    x = np.random.default_rng(4).normal(size=(2, 6, 8))
    manual_seed(5)
    layer = nn.MultiHeadAttention(8, 2, dtype=np.float64)
    want = layer(Tensor(x), causal=True).numpy()
    got = layer.to("cuda")(Tensor(x, device="cuda"), causal=True).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-11)
