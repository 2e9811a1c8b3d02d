"""Data sets and samplers."""

from . import sampler, text
from .sampler import IntervalSampler

__all__ = ["IntervalSampler", "text"]
