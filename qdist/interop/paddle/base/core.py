"""A program's description as a graph."""

from __future__ import annotations

from ....parallel.auto.run.program_text import ProgramText

__all__ = ["Graph"]


class Graph:
    """Of what `program.desc` gives."""

    def __init__(self, desc: ProgramText) -> None:
        if not isinstance(desc, ProgramText):
            raise TypeError(f"Graph takes program.desc, not {type(desc).__name__}")
        self.program = desc
