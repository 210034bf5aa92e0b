"""Data: datasets, samplers, loaders, readers and transforms of images."""

from . import transforms
from .dataset import ArrayDataset, DataPartitioner, Dataset, Subset, TensorDataset, random_split, split_data
from .loader import DataLoader, collate
from .readers import cifar10, digits, mnist, read_idx
from .sampler import BatchSampler, DistributedSampler, RandomSampler, SequentialSampler

__all__ = [
    "ArrayDataset",
    "BatchSampler",
    "DataLoader",
    "DataPartitioner",
    "Dataset",
    "DistributedSampler",
    "RandomSampler",
    "SequentialSampler",
    "Subset",
    "TensorDataset",
    "cifar10",
    "collate",
    "digits",
    "mnist",
    "random_split",
    "read_idx",
    "split_data",
    "transforms",
]
