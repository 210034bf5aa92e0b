"""Program: a circuit planned and lowered once, then run many times: bound parameters, batches, adjoint gradients."""

from qdist.program.program import Program, compile, simulate

__all__ = ["Program", "compile", "simulate"]
