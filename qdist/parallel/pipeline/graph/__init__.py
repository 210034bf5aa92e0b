"""Pipelines of models that are no list of layers: their forward pass is traced, and cut into stages by its steps."""

from qdist.parallel.pipeline.graph.traced_model import TracedModel

__all__ = ["TracedModel"]
