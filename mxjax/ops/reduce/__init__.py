"""Operators that sum up, sort and rank."""

from . import ordering, reductions
