"""Engine: a planned graph trained on a mesh, with what a Strategy adds."""

from qdist.parallel.auto.run.callbacks import Callback, LossMonitor, ModelCheckpoint
from qdist.parallel.auto.run.dist_model import DistModel, to_static
from qdist.parallel.auto.run.engine import Engine
from qdist.parallel.auto.run.input_spec import InputSpec
from qdist.parallel.auto.run.metrics import Accuracy
from qdist.parallel.auto.run.strategy import Strategy

__all__ = [
    "Accuracy",
    "Callback",
    "DistModel",
    "Engine",
    "InputSpec",
    "LossMonitor",
    "ModelCheckpoint",
    "Strategy",
    "to_static",
]
