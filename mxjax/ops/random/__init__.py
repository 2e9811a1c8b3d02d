"""Draws of random numbers."""

from . import from_arrays, from_numbers
