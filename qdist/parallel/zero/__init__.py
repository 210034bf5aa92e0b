"""ZeRO: data parallelism with the optimiser's state, the gradients and the parameters divided over the ranks."""

from qdist.parallel.zero.sharded_model import Zero

__all__ = ["Zero"]
