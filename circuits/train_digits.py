"""Train a perceptron or a convolutional net on scikit-learn's handwritten digits.

    python circuits/train_digits.py --model cnn --progress --plot digits.png

The same seed gives the same numbers. A checkpoint (--save) holds everything needed to go on (--resume).
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

# Nets this small only lose by sharing each product among cores. BLAS reads this when NumPy is loaded.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from qdist import data, nn, optim, tensor, training
from qdist.tensor import functional

EPOCHS = {"mlp": 60, "cnn": 15}


def build(name: str) -> nn.Module:
    """The model: (n, 1, 8, 8) images to (n, 10) scores."""
    if name == "mlp":
        return nn.Sequential(
            nn.Flatten(),
            nn.Linear(64, 128),
            nn.ReLU(),
            nn.Dropout(0.2),
            nn.Linear(128, 64),
            nn.ReLU(),
            nn.Linear(64, 10),
        )
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.3),
        nn.Linear(32 * 16, 10),
    )


def accuracy(model: nn.Module, x: np.ndarray, y: np.ndarray) -> float:
    """The fraction of images that get the right label."""
    model.eval()
    with tensor.no_grad():
        guess = model(tensor.Tensor(x)).argmax(1).numpy()
    model.train()
    return float((guess == y).mean())


def train(
    name: str,
    epochs: int,
    seed: int,
    progress: bool = False,
    save: Path | None = None,
    resume: Path | None = None,
) -> tuple[list[float], float]:
    """Train a model; gives the mean loss of every epoch and the accuracy on held-out images."""
    x, y, x_test, y_test = data.digits(seed=seed)
    x, x_test = x[:, None], x_test[:, None]
    tensor.manual_seed(seed)
    model = build(name)
    loader = data.DataLoader(data.ArrayDataset(x, y), 64, shuffle=True, seed=seed, drop_last=True)
    optimizer = optim.AdamW(model.parameters(), lr=6e-3)
    schedule = optim.CosineLR(optimizer, epochs * len(loader))
    batches = training.Batches(loader)
    parts = {"model": model, "optimizer": optimizer, "schedule": schedule, "batches": batches}
    count = len(loader)
    loop = training.steps(
        epochs * count,
        parts,
        save,
        every=count if save else None,
        resume=resume or True,
        progress=progress,
        name=name,
    )
    for step in loop:
        images, labels = next(batches)
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        schedule.step()
        step.record(loss=loss.item())
    recorded = loop.history.values["loss"]  # Also those of a checkpoint from behind the end.
    losses = [float(np.mean(recorded[i : i + count])) for i in range(0, len(recorded), count)]
    return losses, accuracy(model, x_test, y_test)


def plot(curves: dict[str, list[float]], path: Path) -> None:
    """Save the loss curves as a PNG."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        sys.exit("--plot needs matplotlib: pip install qdist[plot]")
    for name, losses in curves.items():
        plt.semilogy(range(1, len(losses) + 1), losses, label=name)
    plt.locator_params("x", integer=True, min_n_ticks=1)
    plt.xlabel("epoch")
    plt.ylabel("training loss")
    plt.legend()
    plt.savefig(path, dpi=150)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=["mlp", "cnn", "both"], default="both")
    parser.add_argument("--epochs", type=training.whole(1), help="default: 60 for the mlp, 15 for the cnn")
    parser.add_argument("--seed", type=training.whole(0), default=0)
    parser.add_argument("--progress", action="store_true", help="show a progress bar (also on a terminal)")
    parser.add_argument("--plot", type=training.new_picture, help="save the loss curves to this PNG")
    parser.add_argument(
        "--save", type=Path, metavar="FOLDER", help="write a checkpoint after every epoch (one model only)"
    )
    parser.add_argument("--resume", type=Path, help="go on from a checkpoint (one model only)")
    args = parser.parse_args(argv)
    if args.model == "both" and (args.save or args.resume):
        parser.error("--save and --resume need --model mlp or --model cnn")
    curves = {}
    for name in ("mlp", "cnn") if args.model == "both" else (args.model,):
        start = time.perf_counter()
        progress = args.progress or sys.stderr.isatty()
        epochs = args.epochs or EPOCHS[name]
        curves[name], score = train(name, epochs, args.seed, progress, args.save, args.resume)
        seconds = time.perf_counter() - start
        print(f"{name}: loss {curves[name][-1]:.6f}, test accuracy {100 * score:.2f}%, {seconds:.1f} s")
    if args.plot:
        plot(curves, args.plot)


if __name__ == "__main__":
    training.run(main)
