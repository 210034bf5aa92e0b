"""Programs as graphs that can be drawn."""

from . import core, framework

__all__ = ["core", "framework"]
