"""Data sets, samplers and the `DataLoader`."""

from . import batchify, vision
from .dataloader import DataLoader
from .dataset import ArrayDataset, Dataset, RecordFileDataset, SimpleDataset
from .distributed import DistributedSampler
from .sampler import BatchSampler, FilterSampler, IntervalSampler, RandomSampler, Sampler, SequentialSampler

__all__ = ["ArrayDataset", "BatchSampler", "DataLoader", "Dataset", "DistributedSampler", "FilterSampler",
           "IntervalSampler", "RandomSampler", "RecordFileDataset", "Sampler", "SequentialSampler", "SimpleDataset",
           "batchify", "vision"]
