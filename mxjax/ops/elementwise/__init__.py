"""Operators that compute each element by itself."""

from . import binary, broadcast, scalar, unary
