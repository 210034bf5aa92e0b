"""The GPT of gpt_bench.py in torch, with the names that qdist's has: data parallel, sharded and tensor parallel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

__all__ = ["step_of"]


class Attention(nn.Module):
    """One layer for queries, keys and values, or three, which tensor parallelism divides by heads."""

    def __init__(self, width: int, heads: int, together: bool) -> None:
        super().__init__()
        self.head = width // heads
        self.together = together
        if together:
            self.qkv = nn.Linear(width, 3 * width)
        else:
            self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.qkv(x).chunk(3, -1) if self.together else (self.q(x), self.k(x), self.v(x))
        q, k, v = (part.unflatten(-1, (-1, self.head)).transpose(1, 2) for part in parts)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, width: int, heads: int, together: bool) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, together)
        self.expand, self.shrink = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.shrink(functional.gelu(self.expand(self.norm2(x))))


class Tokens(nn.Module):
    def __init__(self, tokens: int, length: int, width: int) -> None:
        super().__init__()
        self.tokens, self.wpe = nn.Embedding(tokens, width), nn.Embedding(length, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.tokens(x) + self.wpe.weight[: x.shape[1]]


def build(size: Any, state: dict[str, np.ndarray], together: bool) -> nn.Sequential:
    """The model with the given weights."""
    blocks = [Block(size.width, size.heads, together) for _ in range(size.layers)]
    head = nn.Linear(size.width, size.tokens, bias=False)
    model = nn.Sequential(Tokens(size.tokens, size.length, size.width), *blocks, nn.LayerNorm(size.width), head)
    values: dict[str, torch.Tensor] = {}
    for name, array in state.items():
        if together or ".qkv." not in name:
            values[name] = torch.from_numpy(array.copy())
        else:
            for letter, part in zip("qkv", np.split(array, 3)):
                values[name.replace(".qkv.", f".{letter}.")] = torch.from_numpy(part.copy())
    model.load_state_dict(values)
    return model


def step_of(way: str, size: Any, state: dict[str, np.ndarray], ranks: int, lr: float) -> Callable[[Any, Any], Any]:
    """A training step: (tokens, targets) of this rank to the loss of the batch, a tensor on this rank alone in "dp"
    and "zero"; `way` as in gpt_bench.py."""
    model: Any = build(size, state, way != "tp")
    if way == "dp":
        model = DistributedDataParallel(model)
    else:
        mesh = init_device_mesh("cpu", (ranks,))
        blocks = list(model)[1:-2]
        if way == "zero":
            for block in blocks:
                fully_shard(block, mesh=mesh)
            fully_shard(model, mesh=mesh)
        else:
            names = {f"attention.{letter}": ColwiseParallel() for letter in "qkv"}
            plan = {
                **names,
                "attention.out": RowwiseParallel(),
                "expand": ColwiseParallel(),
                "shrink": RowwiseParallel(),
            }
            for block in blocks:
                parallelize_module(block, mesh, plan)
    sharded = [p for p in model.parameters() if isinstance(p, DTensor)]
    plain = [p for p in model.parameters() if not isinstance(p, DTensor)]
    optimizers = [torch.optim.AdamW(ps, lr=lr, weight_decay=0.1, fused=True) for ps in (sharded, plain) if ps]

    def step(x: np.ndarray, y: np.ndarray) -> Any:
        for optimizer in optimizers:
            optimizer.zero_grad()
        scores = model(torch.from_numpy(x))
        loss = functional.cross_entropy(scores.flatten(0, 1), torch.from_numpy(y).flatten())
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        return loss.detach()

    return step
