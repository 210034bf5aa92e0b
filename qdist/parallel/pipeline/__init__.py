"""Pipeline parallelism: contiguous layers, the stages, on consecutive ranks, fed with micro-batches by a schedule."""

from qdist.parallel.pipeline.draw_schedule import save_schedule_picture, schedule_picture
from qdist.parallel.pipeline.layer_desc import LayerDesc, SharedLayerDesc
from qdist.parallel.pipeline.pipeline import Pipeline
from qdist.parallel.pipeline.schedules import Action, Schedule, ScheduleError, make_schedule
from qdist.parallel.pipeline.stages import cut_into_stages
from qdist.parallel.pipeline.training import PipelineTraining

__all__ = [
    "Action",
    "LayerDesc",
    "Pipeline",
    "PipelineTraining",
    "Schedule",
    "ScheduleError",
    "SharedLayerDesc",
    "cut_into_stages",
    "make_schedule",
    "save_schedule_picture",
    "schedule_picture",
]
