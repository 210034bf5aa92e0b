"""torch.utils.data's names."""

from ......data import Dataset, Subset, TensorDataset, random_split
from . import distributed
from .distributed import DistributedSampler
from .loader import DataLoader

__all__ = ["DataLoader", "Dataset", "DistributedSampler", "Subset", "TensorDataset", "distributed", "random_split"]
