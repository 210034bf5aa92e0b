"""VQNet's path of the controller and its companions."""  # noqa: N999

from .controller import CommController, get_host_name, get_local_rank, get_rank, init_group

__all__ = ["CommController", "get_host_name", "get_local_rank", "get_rank", "init_group"]
