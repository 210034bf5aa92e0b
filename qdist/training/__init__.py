"""Training that survives: a loop with checkpoints, signals and a log, and what the programs in circuits/ share."""

from qdist.options import new_file
from qdist.training.batches import Batches
from qdist.training.endings import EXIT_REQUEUE, EXIT_SAVE_FAILED, Preempted, SaveFailed
from qdist.training.loop import Loop, Step, steps
from qdist.training.programs import SAVE_EVERY, descend, new_picture, number, parser, plot, run, train, whole

__all__ = [
    "EXIT_REQUEUE",
    "EXIT_SAVE_FAILED",
    "SAVE_EVERY",
    "Batches",
    "Loop",
    "Preempted",
    "SaveFailed",
    "Step",
    "descend",
    "new_file",
    "new_picture",
    "number",
    "parser",
    "plot",
    "run",
    "steps",
    "train",
    "whole",
]
