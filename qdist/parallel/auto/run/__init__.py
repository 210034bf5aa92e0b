"""Engine: a planned graph trained on a mesh, with what a Strategy adds."""

from qdist.parallel.auto.run.engine import DistModel, Engine, InputSpec, to_static
from qdist.parallel.auto.run.metrics import Accuracy
from qdist.parallel.auto.run.strategy import Strategy

__all__ = ["Accuracy", "DistModel", "Engine", "InputSpec", "Strategy", "to_static"]
