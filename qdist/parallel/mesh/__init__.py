"""All of them at once: a model spread over the axes of a mesh, trained, saved and loaded."""

from qdist.parallel.mesh.forecast import forecast_memory
from qdist.parallel.mesh.mesh_plan import Plan
from qdist.parallel.mesh.parallel_model import ParallelModel, parallelize
from qdist.parallel.mesh.saved import Saved
from qdist.parallel.mesh.saving import load_plain
from qdist.parallel.mesh.seeds import mesh_generator, seed_mesh

__all__ = [
    "ParallelModel",
    "Plan",
    "Saved",
    "forecast_memory",
    "load_plain",
    "mesh_generator",
    "parallelize",
    "seed_mesh",
]
