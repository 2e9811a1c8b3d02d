"""Operators that make, move, cut and pick elements."""

from . import creation, indexing, rearranging, sequence, slicing
