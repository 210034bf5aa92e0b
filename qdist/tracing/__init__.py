"""Seeing inside a run: a timeline of all ranks in Chrome's trace format, and a table of where the time goes."""

from qdist.tracing.session import trace

__all__ = ["trace"]
