"""Operators that run on the host, on arrays as they are. See README.md."""

from . import graph_sampling, images, storage
