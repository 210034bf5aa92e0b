"""Loss curves of circuits/train_gpt.py on one process and on meshes of 2, 4 and 8 ranks, which lie on each other.

    python benchmarks/loss_curves.py [--steps 40] [--dtype bfloat16] [--llama] [--save]

Every mesh trains the same GPT on the same sentences, with dropout, padding that counts nothing, warm-up and clipping.
Printed is how far each curve is from that of one process; --save draws all of them, and those distances, into
benchmarks/results/loss_curves.png (or loss_curves-bfloat16.png ...), with the numbers in a JSON file beside it.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

import qdist as qd

ROOT = Path(__file__).resolve().parents[1]
sys.path += [str(ROOT / "benchmarks"), str(ROOT / "circuits")]

MESHES: dict[int, list[tuple[str, int]]] = {
    1: [("dp=1", 0)],
    2: [("dp=2", 0), ("dp=2", 1), ("dp=2", 2), ("dp=2", 3), ("tp=2", 0), ("pp=2", 0), ("cp=2", 0)],
    4: [
        *(("dp=2,tp=2", 1), ("dp=2,pp=2", 0), ("dp=2,cp=2", 2), ("tp=2,pp=2", 0), ("tp=2,cp=2", 0), ("pp=2,cp=2", 0)),
        *(("dp=4", 3), ("tp=4", 0), ("pp=4", 0), ("cp=4", 0)),
    ],
    8: [
        *(("dp=2,tp=2,pp=2", 1), ("dp=2,tp=2,cp=2", 3), ("dp=2,pp=2,cp=2", 0), ("tp=2,pp=2,cp=2", 0)),
        *(("dp=8", 2), ("dp=4,tp=2", 0)),
    ],
}
"""By the number of ranks: a mesh and a ZeRO stage."""


def curves(options: list[str], meshes: list[tuple[str, int]]) -> list[list[float]]:
    """On a rank: the losses of every mesh."""
    import train_gpt

    comm, found = qd.comm.world(), []
    for mesh, zero in meshes:
        args = train_gpt.parser().parse_args([*options, "--mesh", mesh, "--zero", str(zero)])
        with open(os.devnull, "w") as nowhere:  # What the model writes is not wanted here.
            shown, sys.stdout = sys.stdout, nowhere
            try:
                found.append(train_gpt.train(args, comm))
            finally:
                sys.stdout = shown
    return found


def draw(path: Path, found: dict[str, list[float]], title: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (above, below) = plt.subplots(2, 1, figsize=(8, 8), height_ratios=(2, 1), sharex=True)
    (_, one), *others = found.items()
    steps = range(1, len(one) + 1)
    for name, losses in others:
        above.plot(steps, losses, linewidth=1, alpha=0.6, label=name)
        below.semilogy(steps, [max(abs(a - b), 1e-9) for a, b in zip(losses, one)], linewidth=1, alpha=0.6)
    above.plot(steps, one, "k:", linewidth=2, label="one process")
    above.set(ylabel="cross-entropy of a letter", title=title)
    above.legend(fontsize=6, ncols=2)
    below.set(xlabel="step", ylabel="distance from one process")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--ranks", type=int, nargs="+", default=list(MESHES), choices=list(MESHES))
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16", "float16"])
    parser.add_argument("--llama", action="store_true", help="a LLaMA-like model")
    parser.add_argument("--save", action="store_true", help="write a picture and numbers to benchmarks/results")
    options = parser.parse_args()
    from common import RESULTS, machine_line, save, table

    given = ["--steps", str(options.steps), "--dtype", options.dtype, "--layers", "6", "--width", "32"]
    # A LLaMA-like model has half as many heads of keys, which tp=4 divides.
    given += ["--heads", "8" if options.llama else "4", "--rows", "16", "--warm-up", "8"]
    given += ["--llama"] if options.llama else []
    found: dict[str, list[float]] = {}
    for ranks in sorted({1, *options.ranks}):
        losses = qd.spawn(curves, ranks, (given, MESHES[ranks]))[0]
        names = [f"{mesh} zero={zero}" if zero else mesh for mesh, zero in MESHES[ranks]]
        found |= dict(zip(names, losses, strict=True))
    one = next(iter(found.values()))
    rows: list[list[Any]] = [
        [name, losses[0], losses[-1], max(abs(a - b) for a, b in zip(losses, one))] for name, losses in found.items()
    ]
    print(f"{machine_line()}; {options.steps} steps in {options.dtype}\n")
    print(table(["mesh", "first loss", "last loss", "furthest from one process"], rows))
    if options.save:
        name = "-".join(["loss_curves", *([options.dtype] if options.dtype != "float32" else [])])
        name += "-llama" if options.llama else ""
        kind = "LLaMA-like model" if options.llama else "GPT"
        draw(RESULTS / f"{name}.png", found, f"{kind} in {options.dtype} on {len(found)} meshes of 1 to 8 ranks")
        print(save(name, {"steps": options.steps, "dtype": options.dtype, "losses": found}))


if __name__ == "__main__":
    main()
