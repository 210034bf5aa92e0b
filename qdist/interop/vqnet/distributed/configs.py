"""VQNet's programs take the ranks' numbers from `distributed.configs.comm`."""

from . import controller as comm

__all__ = ["comm"]
