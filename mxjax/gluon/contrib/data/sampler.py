"""Samplers."""

from ...data.sampler import IntervalSampler

__all__ = ["IntervalSampler"]
