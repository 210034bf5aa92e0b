"""torch.utils.data's names."""

from ......data import DataLoader, Dataset, Subset, random_split
from . import distributed
from .distributed import DistributedSampler

__all__ = ["DataLoader", "Dataset", "DistributedSampler", "Subset", "distributed", "random_split"]
