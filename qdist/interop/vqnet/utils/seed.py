"""The seed of the numbers that parameters start from."""

from ....tensor import manual_seed

__all__ = ["set_random_seed"]


def set_random_seed(seed: int) -> None:
    """Restarts the generator that parameters are drawn from."""
    manual_seed(seed)
