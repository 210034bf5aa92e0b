"""VQNet's `utils`: the seed, and the initialisers of parameters."""

from . import initializer
from .seed import set_random_seed

__all__ = ["initializer", "set_random_seed"]
