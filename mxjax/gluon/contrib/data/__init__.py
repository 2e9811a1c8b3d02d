"""Data sets and samplers."""

from . import sampler, text, vision
from .sampler import IntervalSampler

__all__ = ["IntervalSampler", "text", "vision"]
