"""A compiled circuit that is run many times: values bound to it, runs, batches, gradients."""

from qdist.program.program import Program, compile, simulate

__all__ = ["Program", "compile", "simulate"]
