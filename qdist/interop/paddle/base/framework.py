"""Pictures of graphs."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from .core import Graph

__all__ = ["IrGraph"]


class IrGraph:
    """A graph that can be drawn.

    Args:
        graph: of a program.
        for_test: Paddle's; a program says itself whether it trains.
    """

    def __init__(self, graph: Graph, for_test: bool = False) -> None:
        self.graph, self._for_test = graph, for_test

    def is_test(self) -> bool:
        """What for_test was."""
        return self._for_test

    def draw(self, save_path: str | Path, name: str, marked_nodes: Collection[str] = ()) -> Path:
        """Write save_path/name.svg; lines with one of `marked_nodes` in them are red. Returns the path."""
        path = Path(save_path) / f"{name}.svg"
        boxes = [
            box._replace(colour="#e06666") if any(node in box.lines[0] for node in marked_nodes) else box
            for box in self.graph.program.boxes
        ]
        self.graph.program.of("", [("", boxes)]).draw(path)
        return path
