"""Data sets, samplers and the `DataLoader`."""

from . import vision
from .dataloader import DataLoader
from .dataset import ArrayDataset, Dataset, RecordFileDataset, SimpleDataset
from .distributed import DistributedSampler
from .sampler import BatchSampler, FilterSampler, RandomSampler, Sampler, SequentialSampler

__all__ = ["ArrayDataset", "BatchSampler", "DataLoader", "Dataset", "DistributedSampler", "FilterSampler",
           "RandomSampler", "RecordFileDataset", "Sampler", "SequentialSampler", "SimpleDataset", "vision"]
