"""Products and decompositions of matrices."""

from . import count_sketch, decompositions, dot
