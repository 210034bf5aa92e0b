"""In half precision, tensor, sequence and context parallelism send half precision; what it sums up to, on ranks."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qdist.comm import Mesh, Message, counting_communicator

sys.path.append(str(Path(__file__).parents[1] / "ranks"))
from half_models import BLOCKS, LENGTH, ROWS, TOKENS, spread

needs_bfloat16 = pytest.mark.skipif(find_spec("ml_dtypes") is None, reason="bfloat16 needs ml_dtypes")
HALVES = ["float16", pytest.param("bfloat16", marks=needs_bfloat16)]
SEQUENCE: dict[str, Any] = {"layers": {**BLOCKS, "3": "norm"}, "sequence_parallel": True}


def sent(kind: str, axis: str, size: int, precision: str | None, **options: Any) -> list[Message]:
    """What a rank sends in a step, without the few numbers of losses and agreements, and gradients of parameters, which
    stay float32 in one process too."""
    mesh = Mesh(counting_communicator(size), **{axis: size})
    model = spread(kind, mesh, precision, **options)
    tokens = np.random.default_rng(0).integers(1, TOKENS, (ROWS, LENGTH + 1))
    with mesh[axis].recording() as messages:
        model.train_batch(tokens[:, :-1], tokens[:, 1:])
    large = [message for message in messages if message.bytes >= 16 * LENGTH]
    return [message for message in large if axis == "tp" or message.op != "all_reduce"]


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize(
    ("kind", "axis", "size", "options", "share"),
    [
        ("gpt", "tp", 2, {}, 0.5),
        ("gpt", "tp", 4, SEQUENCE, 0.5),
        ("llama", "tp", 2, {}, 0.5),
        # Gradients of keys and values are sums that go round: float32. Keys and values go round twice.
        ("gpt", "cp", 2, {}, 2 / 3),
        ("llama", "cp", 4, {}, 2 / 3),
    ],
)
def test_half_the_bytes_travel(kind: str, axis: str, size: int, options: Any, share: float, half: str) -> None:
    wide, narrow = (sum(m.wire_bytes for m in sent(kind, axis, size, p, **options)) for p in (None, half))
    assert wide > 16 * ROWS * LENGTH
    assert narrow <= 1.03 * share * wide
