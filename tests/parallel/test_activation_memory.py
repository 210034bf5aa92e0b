"""What a block keeps for its backward pass: the paper's numbers, and the formula against counted bytes."""

import numpy as np
import pytest

from qdist import nn
from qdist.comm import counting_communicator, init
from qdist.parallel import (
    ParallelTransformerBlock,
    activation_bytes,
    recompute,
    recompute_attention,
    saved_bytes,
)
from qdist.tensor import Tensor

GPT3 = {"batch": 1, "sequence": 2048, "features": 12288, "heads": 96}
SIZES = {"batch": 2, "sequence": 16, "features": 24, "heads": 8}


@pytest.mark.parametrize(
    ("options", "mebibytes"),
    [
        ({}, 2736),
        ({"tensor": 8}, 552),
        ({"tensor": 8, "sequence_parallel": True}, 342),
        ({"tensor": 8, "sequence_parallel": True, "recompute": "attention"}, 102),
        ({"tensor": 8, "recompute": "block"}, 48),
    ],
)
def test_gpt3_with_175_billion_parameters(options: dict, mebibytes: int) -> None:
    assert activation_bytes(**GPT3, **options) == mebibytes * 2**20


@pytest.mark.parametrize("hidden", [96, 48])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("what", [None, "attention", "block"])
@pytest.mark.parametrize(("ranks", "sequence"), [(1, False), (4, False), (4, True)])
def test_the_formula_is_what_a_block_keeps(
    ranks: int, sequence: bool, what: str | None, dtype: str, hidden: int
) -> None:
    comm = counting_communicator(ranks, 1) if ranks > 1 else init()
    block = ParallelTransformerBlock(
        24, 8, comm, hidden, dropout=0.1, causal=True, sequence_parallel=sequence, dtype=dtype
    )
    if what == "attention":
        recompute_attention(block)
    elif what == "block":
        recompute(block)
    positions = 16 // ranks if sequence else 16
    x = -Tensor(np.ones((2, positions, 24), dtype), requires_grad=True)  # What an earlier block computed.
    width = np.dtype(dtype).itemsize
    formula = activation_bytes(
        **SIZES, hidden=hidden, tensor=ranks, sequence_parallel=sequence, recompute=what, width=width
    )
    # The formula leaves out the layer norms' deviations, one number a position and norm.
    deviations = 0 if what == "block" else 2 * 2 * positions * width
    assert saved_bytes(block(x)) == formula + deviations


def test_recomputation_takes_memory_for_one_block_at_a_time() -> None:
    plain = nn.Sequential(*(nn.TransformerBlock(24, 8, dropout=0.1) for _ in range(3)))
    again = nn.Sequential(*(recompute(nn.TransformerBlock(24, 8, dropout=0.1)) for _ in range(3)))
    x = -Tensor(np.ones((2, 16, 24), np.float32), requires_grad=True)
    assert saved_bytes(again(x)) == 3 * x.nbytes
    assert saved_bytes(plain(x)) > 20 * saved_bytes(again(x))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"recompute": "all"}, "use None, .attention. or .block."),
        ({"tensor": 5}, "heads is 8"),
        ({"tensor": 8, "hidden": 20}, "hidden is 20"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(options: dict, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        activation_bytes(**SIZES, **options)
