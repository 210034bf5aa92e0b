"""VQNet's path of `split_data`."""

from .controller import split_data

__all__ = ["split_data"]
