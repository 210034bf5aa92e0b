"""What the training programs share: their options, the loop with its bar and its checkpoints, and the loss curve."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from qdist.comm import Communicator
from qdist.options import new_picture, number, whole
from qdist.tensor import Tensor
from qdist.training.loop import steps

_log = logging.getLogger("qdist.training")

SAVE_EVERY = 10
"""Steps between two checkpoints; the last step always makes one."""


def parser(description: str | None, steps: int, lr: float | None = None) -> argparse.ArgumentParser:
    """The options that all programs have, with these defaults (--lr where there is one); each adds its own."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--steps", type=whole(1), default=steps, help=f"training steps (default: {steps})")
    if lr is not None:
        made.add_argument("--lr", type=number(least=0), default=lr, help=f"learning rate (default: {lr})")
    made.add_argument("--seed", type=whole(0), default=0, help="of everything that is random (default: 0)")
    made.add_argument(
        "--progress",
        action=argparse.BooleanOptionalAction,
        help="show a progress bar, or not (default: where stderr is a terminal)",
    )
    made.add_argument("--plot", type=new_picture, help="save the loss curve to this PNG")
    made.add_argument(
        "--save",
        type=Path,
        metavar="FOLDER",
        help=f"a checkpoint every {SAVE_EVERY} steps and at the end, and a log; go on from the newest that is there",
    )
    made.add_argument("--resume", type=Path, metavar="PATH", help="start from a checkpoint, or the newest of a folder")
    return made


def run(main: Callable[[], object]) -> None:
    """Calls a program's main: what was asked for and cannot be ends it with exit code 2 and one line on stderr.

    Such are a state that memory does not hold, a file or a package that is not there, ranks that a mesh does not
    divide. The traceback is in the log with ``QDIST_LOG=debug``.
    """
    try:
        main()
    except (ImportError, OSError, MemoryError, ValueError) as error:
        _log.debug("refused", exc_info=True)
        told = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else str(error)
        print(f"{Path(sys.argv[0]).name}: {told}", file=sys.stderr)
        raise SystemExit(2) from None


def train(
    what: str,
    step: Callable[[int], float],
    parts: dict[str, Any],
    args: argparse.Namespace,
    comm: Communicator,
) -> list[float]:
    """Takes steps until there are args.steps of them, those of a resumed checkpoint included.

    Args:
        what: the name beside the bar.
        step: takes the number of the step and gives the loss before it.
        parts: what a checkpoint holds beside the losses, by name, as for `steps`.
        args: of `parser`.
        comm: all ranks take all steps.

    Returns the losses of all steps.
    """
    loop = steps(
        args.steps,
        parts,
        args.save,
        every=SAVE_EVERY if args.save else None,
        resume=args.resume or True,
        progress=args.progress,
        name=what,
        comm=comm,
    )
    for at in loop:
        at.record(loss=step(at))
    return loop.history.values.get("loss", [])


def descend(loss: Tensor, optimizer: Any, comm: Communicator | None = None) -> float:
    """One step of an optimiser down a loss, which it returns.

    comm: ranks that each have rows of the batch, as many each: the loss that is returned is the whole batch's. Their
    gradients are averaged by DataParallel.
    """
    optimizer.zero_grad()
    loss.backward()
    value = loss.item()
    if comm is not None and comm.size > 1:
        value = sum(comm.all_gather_object(value)) / comm.size
    optimizer.step()
    return value


def plot(losses: list[float], path: Path, ylabel: str, goal: float | None = None) -> None:
    """Saves a loss curve as a PNG, with a line at the goal; without matplotlib says so and leaves it out."""
    try:
        import matplotlib
    except ImportError:
        print(f"{path} is not written: it needs matplotlib (pip install 'qdist[plot]')", file=sys.stderr)
        return
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.figure()
    plt.plot(range(1, len(losses) + 1), losses)
    if goal is not None:
        plt.axhline(goal, color="gray", linestyle="--")
    plt.locator_params("x", integer=True, min_n_ticks=1)
    plt.xlabel("step")
    plt.ylabel(ylabel)
    plt.savefig(path, dpi=150)
    plt.close()
