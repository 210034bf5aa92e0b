"""Classical parallelism: each module a small file, a client of the communicator and the tensor core."""

from .pipeline import Pipeline
from .pipeline_config import PipelineTraining
from .pipeline_picture import save_schedule_picture, schedule_picture
from .schedules import Action, Schedule, ScheduleError, make_schedule
from .stages import cut_into_stages

__all__ = [
    "Action",
    "Pipeline",
    "PipelineTraining",
    "Schedule",
    "ScheduleError",
    "cut_into_stages",
    "make_schedule",
    "save_schedule_picture",
    "schedule_picture",
]
