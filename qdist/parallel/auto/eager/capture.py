"""Capture: writes down what operations a function runs, as seen from above: global shapes, no local parts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from qdist.tensor import Rule, tracing

__all__ = ["ANNOTATE", "Note", "capturing", "current_mesh", "is_capturing", "note", "on_mesh", "on_stage", "paused"]

Note = Callable[..., None]


def _never(*args: Any, **kwargs: Any) -> Any:
    raise RuntimeError("an annotation is not an operation that runs")


# Stands in a capture for shard_tensor() and reshard() of a computed tensor.
ANNOTATE = Rule("annotate", _never, None)


class _State(threading.local):
    receiver: Note | None = None
    paused = False
    stage: Any = None
    mesh: Any = None


_state = _State()


@contextmanager
def capturing(receiver: Note) -> Iterator[None]:
    """Call receiver(rule, inputs, attributes, output, pinned, stage) for every operation inside the block.

    `pinned` holds the splits that the user asked for, `stage` the mesh of a pipeline stage; both may be None.
    What DistTensors do on local parts is not told.
    """
    previous, _state.receiver = _state.receiver, receiver
    try:
        with tracing(lambda rule, inputs, attributes, made: note(rule, inputs, attributes, made)):
            yield
    finally:
        _state.receiver = previous


@contextmanager
def paused() -> Iterator[None]:
    """Inside the block nothing is told."""
    previous, _state.paused = _state.paused, True
    try:
        yield
    finally:
        _state.paused = previous


def note(rule: Rule, inputs: Any, attributes: dict[str, Any], made: Any, pinned: Any = None) -> None:
    """Tell whoever captures of one operation."""
    if _state.receiver is not None and not _state.paused:
        _state.receiver(rule, tuple(inputs), attributes, made, pinned, _state.stage)


def is_capturing() -> bool:
    """Whether somebody captures."""
    return _state.receiver is not None


@contextmanager
def on_stage(stage: Any) -> Iterator[None]:
    """Operations inside the block belong to this pipeline stage, a row of a mesh."""
    previous, _state.stage = _state.stage, stage
    try:
        yield
    finally:
        _state.stage = previous


@contextmanager
def on_mesh(mesh: Any) -> Iterator[None]:
    """Operations inside the block run on this mesh."""
    previous, _state.mesh = _state.mesh, mesh
    try:
        yield
    finally:
        _state.mesh = previous


def current_mesh() -> Any:
    """The mesh that operations run on now whatever their inputs; None where the inputs decide."""
    return _state.mesh
