"""How the ranks of a job are arranged: data, pipeline and model parallel, as fleet.init was told."""

from __future__ import annotations

from .....comm import Communicator, Mesh, init

__all__ = ["DistributedStrategy", "HybridCommunicateGroup", "arrange", "current", "data_place"]

_DEGREES = {"dp_degree": "dp", "pp_degree": "pp", "mp_degree": "mp"}


class DistributedStrategy:
    """What fleet.init is told.

    Attributes:
        hybrid_configs: {"dp_degree", "mp_degree", "pp_degree", "sharding_degree"}: their product is the number of
            ranks. A dp_degree of -1, or none, takes what the others leave. Ranks along "sharding_degree" have rows of
            their own, as those along "dp_degree", and divide the optimiser's state.
        pipeline_configs: {"accumulate_steps": micro-batches of a batch, "micro_batch_size": rows of each}.
    """

    def __init__(self) -> None:
        self.hybrid_configs: dict[str, int] = {}
        self.pipeline_configs: dict[str, int] = {}


class HybridCommunicateGroup:
    """The groups of this rank."""

    def __init__(self, strategy: DistributedStrategy, comm: Communicator) -> None:
        given = dict(strategy.hybrid_configs)
        self.sharding_degree = given.pop("sharding_degree", 1)
        if self.sharding_degree < 1:
            raise ValueError(f"hybrid_configs: sharding_degree={self.sharding_degree}: at least 1")
        if unknown := sorted(set(given) - set(_DEGREES)):
            known = ", ".join((*_DEGREES, "sharding_degree"))
            raise ValueError(f"hybrid_configs: unknown {', '.join(unknown)}; there are {known}")
        unknown = sorted(set(strategy.pipeline_configs) - {"accumulate_steps", "micro_batch_size"})
        if unknown:
            raise ValueError(f"pipeline_configs: unknown {', '.join(unknown)}")
        degrees = {axis: given.get(name, -1 if axis == "dp" else 1) for name, axis in _DEGREES.items()}
        if degrees["dp"] > 0:
            degrees["dp"] *= self.sharding_degree
        self.mesh = Mesh(comm, **degrees)
        replicas, width = self.mesh.shape["dp"], self.sharding_degree
        if replicas % width:
            raise ValueError(
                f"hybrid_configs: sharding_degree={width} does not divide the {replicas} ranks that the others leave"
            )
        sharding = self.mesh["dp"]
        if width < replicas:
            # Neighbours among the replicas.
            parts = [list(range(i, i + width)) for i in range(0, replicas, width)]
            made = sharding.split(parts, name="sharding")
            assert made is not None
            sharding = made
        self._sharding = sharding
        self.pipeline_configs = dict(strategy.pipeline_configs)

    def get_data_parallel_group(self) -> Communicator:
        """Ranks with other rows of the batch, those that divide the optimiser's state among them."""
        return self.mesh["dp"]

    def get_sharding_parallel_group(self) -> Communicator:
        """Ranks that divide the optimiser's state."""
        return self._sharding

    def get_model_parallel_group(self) -> Communicator:
        """Ranks that share every layer."""
        return self.mesh["mp"]

    def get_pipe_parallel_group(self) -> Communicator:
        """Ranks with the other stages."""
        return self.mesh["pp"]

    def get_data_parallel_world_size(self) -> int:
        """How many times the optimiser's state is there: dp_degree."""
        return self.mesh.shape["dp"] // self.sharding_degree

    def get_sharding_parallel_world_size(self) -> int:
        """How many ranks divide the optimiser's state."""
        return self.sharding_degree

    def get_model_parallel_world_size(self) -> int:
        """How many ranks share a layer."""
        return self.mesh.shape["mp"]

    def get_pipe_parallel_world_size(self) -> int:
        """How many stages there are."""
        return self.mesh.shape["pp"]


_current: HybridCommunicateGroup | None = None


def arrange(strategy: DistributedStrategy | None) -> HybridCommunicateGroup:
    """Arrange the ranks as a strategy says; all of them data parallel without one. Collective."""
    global _current
    _current = HybridCommunicateGroup(strategy or DistributedStrategy(), init())
    return _current


def current() -> HybridCommunicateGroup:
    """How the ranks are arranged; RuntimeError before fleet.init()."""
    if _current is None:
        raise RuntimeError("the ranks are not arranged yet: call fleet.init(is_collective=True, strategy=...) first")
    return _current


def data_place(rank: int) -> tuple[int, int]:
    """(which replica a rank of the job is in, how many there are); every rank one of its own before fleet.init()."""
    comm = init()
    if _current is None:
        return rank, comm.size
    inner = _current.mesh.shape["pp"] * _current.mesh.shape["mp"]
    return rank // inner, _current.mesh.shape["dp"]


def reset() -> None:
    """Forget the arrangement, as before fleet.init()."""
    global _current
    _current = None
