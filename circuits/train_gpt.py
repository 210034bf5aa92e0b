"""Train a GPT, or with --llama a LLaMA-like model, on sentences of its own making, on any mesh of ranks.

    python circuits/train_gpt.py --progress --plot gpt.png
    qdist run -n 4 circuits/train_gpt.py --mesh dp=2,tp=2 --zero 1
    qdist run -n 4 circuits/train_gpt.py --mesh cp=2,pp=2 --llama --dtype bfloat16

Sentences are sums written out ("37+8=45."), padded to one length; padding counts nothing in the loss. Losses are those
of one process whatever the mesh, dropout included. Half precision (--dtype) computes in 16 bits with sums in float32
and updates float32 weights. A checkpoint (--save) fits any other mesh (--resume).
"""

from __future__ import annotations

import argparse
import math
from typing import Any

import numpy as np

import qdist as qd
from qdist import nn, optim, training
from qdist.comm import Mesh
from qdist.parallel import Plan, parallelize, share_rows
from qdist.tensor import Tensor, manual_seed, no_grad

LETTERS = "_0123456789+=.-*"  # Sixteen, so that 2, 4 or 8 ranks can divide them.
LENGTH = 16
PADDING = LETTERS.index("_")
LLAMA_LAYERS = {"*.[qkv]": "column", "*.o": "row", "*.gate": "column", "*.up": "column", "*.down": "row"}


class Tokens(nn.Module):
    """Letters to vectors; where they stand is added, or left to rotary positions."""

    def __init__(self, width: int, placed: bool) -> None:
        super().__init__()
        self.tokens = nn.Embedding(len(LETTERS), width)
        self.wpe = nn.Embedding(LENGTH, width) if placed else None

    def forward(self, letters: Any) -> Tensor:
        x = self.tokens(letters)
        return x if self.wpe is None else x + self.wpe(np.arange(x.shape[1]))


def build(args: argparse.Namespace) -> nn.Sequential:
    """(rows, LENGTH) letters to (rows, LENGTH, letters) scores of the next ones."""
    width, heads = args.width, args.heads
    if args.llama:
        blocks: list[nn.Module] = [nn.LlamaBlock(width, heads, max(1, heads // 2)) for _ in range(args.layers)]
        last: nn.Module = nn.RMSNorm(width)
    else:
        blocks = [nn.TransformerBlock(width, heads, dropout=args.dropout, causal=True) for _ in range(args.layers)]
        last = nn.LayerNorm(width)
    head = nn.Linear(width, len(LETTERS), False)
    return nn.Sequential(Tokens(width, not args.llama), *blocks, last, head)


def sentences(step: int, rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Letters, and the letters that follow each; the same on every rank."""
    numbers = np.random.default_rng([seed, step]).integers(0, 100, (rows, 2))
    text = [f"{a}+{b}={a + b}.".ljust(LENGTH + 1, "_") for a, b in numbers]
    letters = np.array([[LETTERS.index(c) for c in line] for line in text])
    return letters[:, :-1], letters[:, 1:]


def mesh_of(text: str, comm: qd.comm.Communicator) -> Mesh:
    """ "dp=2,tp=2" as a Mesh; all ranks along "dp" when nothing is given."""
    try:
        degrees = {axis: int(degree) for axis, _, degree in (part.partition("=") for part in text.split(",") if part)}
    except ValueError:
        raise ValueError(f"--mesh {text}: not degrees of axes, as in dp=2,tp=2") from None
    return Mesh(comm, **(degrees or {"dp": comm.size}))


def plan_of(args: argparse.Namespace, mesh: Mesh) -> Plan:
    layers = {}
    if mesh.shape.get("tp", 1) > 1:
        last = str(args.layers + 2)
        layers = LLAMA_LAYERS if args.llama else {f"[1-{args.layers}]": "block"}
        layers = {**layers, "0.tokens": "vocabulary", last: "column-gather"}
    positions = [] if args.llama else ["0.wpe.weight"]
    precision = None if args.dtype == "float32" else args.dtype
    return Plan(layers, positions=positions, zero=args.zero, micro_batches=args.micro_batches, precision=precision)


def decayed(parameters: Any, lr: float) -> optim.Optimizer:
    """AdamW; weights decay, and norms and biases do not."""
    groups = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": 0.1},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    return optim.AdamW(groups, lr=lr)


def rate(step: int, args: argparse.Namespace) -> float:
    """Warm-up, then a cosine down to a tenth."""
    warm = min(1.0, (step + 1) / max(1, args.warm_up))
    done = max(0, step - args.warm_up) / max(1, args.steps - args.warm_up)
    return args.lr * warm * (0.55 + 0.45 * math.cos(math.pi * min(1.0, done)))


def finish(model: nn.Sequential, question: str) -> str:
    """What the model writes behind a question, letter by letter; a LLaMA-like one keeps keys and values."""
    model.eval()
    layers = list(model)
    caches = [nn.KVCache() if isinstance(layer, nn.LlamaBlock) else None for layer in layers]
    text, given = question, question
    with no_grad():
        while len(text) < LENGTH and not text.endswith("."):
            x: Any = Tensor(np.array([[LETTERS.index(c) for c in given]]))
            for layer, cache in zip(layers, caches):
                x = layer(x) if cache is None else layer(x, cache)
            text += LETTERS[int(x[0, -1].argmax().item())]
            given = text[-1] if any(cache is not None for cache in caches) else text
    return text


def parser() -> argparse.ArgumentParser:
    made = training.parser(__doc__, steps=300, lr=3e-3)
    made.add_argument("--mesh", default="", help='degrees such as "dp=2,tp=2" (default: all ranks along dp)')
    made.add_argument("--llama", action="store_true", help="RMSNorm, rotary positions, grouped queries, SwiGLU")
    made.add_argument(
        "--dtype", default="float32", choices=["float32", "bfloat16", "float16"], help="what the model computes in"
    )
    made.add_argument("--layers", type=training.whole(1), default=2)
    made.add_argument("--width", type=training.whole(1), default=64)
    made.add_argument("--heads", type=training.whole(1), default=4)
    made.add_argument("--dropout", type=training.number(least=0, below=1), default=0.1)
    made.add_argument(
        "--rows", type=training.whole(1), default=32, help="sentences a step, over all ranks (default: 32)"
    )
    made.add_argument("--zero", type=training.whole(0, 3), default=0, help="ZeRO stage over dp and cp (default: 0)")
    made.add_argument("--micro-batches", type=training.whole(1), default=2, help="of a pipeline (default: 2)")
    made.add_argument("--warm-up", type=training.whole(0), default=20, help="steps (default: 20)")
    made.add_argument("--clip", type=training.number(above=0), default=1.0, help="largest gradient norm (default: 1)")
    return made


def train(args: argparse.Namespace, comm: qd.comm.Communicator) -> list[float]:
    """Trains, and gives the loss of every step; rank 0 prints what the model makes of two questions."""
    mesh = mesh_of(args.mesh, comm)
    manual_seed(args.seed)
    model = parallelize(
        build(args),
        mesh,
        plan_of(args, mesh),
        optimizer=lambda parameters: decayed(parameters, args.lr),
        loss=nn.CrossEntropyLoss(ignore_index=PADDING),
    )
    manual_seed(args.seed + 1)

    def step(number: int) -> float:
        batch = sentences(number, args.rows, args.seed)
        for group in model.optimizer.param_groups if model.optimizer is not None else ():
            group["lr"] = rate(number, args)
        mine = share_rows(batch, mesh["dp"]) if "dp" in mesh else batch
        return model.train_batch(*mine, max_norm=args.clip)

    losses = training.train("train_gpt", step, {"model": model}, args, comm)
    whole = build(args)
    whole.load_state_dict(model.state_dict())
    if comm.rank == 0:
        if args.plot:
            training.plot(losses, args.plot, "cross-entropy of a letter")
        print(f"mesh {dict(mesh.shape)}: loss {losses[0]:.4f} to {losses[-1]:.4f}")
        for question in ("12+7=", "40+59="):
            print(finish(whole, question))
    return losses


def main(argv: list[str] | None = None) -> list[float]:
    args = parser().parse_args(argv)
    return train(args, qd.comm.init())


if __name__ == "__main__":
    training.run(main)
