"""torch.utils: of it `data`."""

from . import data

__all__ = ["data"]
