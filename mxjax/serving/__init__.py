"""Model serving, which groups requests into batches of precompiled sizes. See README.md."""

from .batching import Batcher, Overloaded, TooLate
from .handler import Handler, is_handler
from .served import Served, versions_of

__all__ = ["Batcher", "Handler", "Overloaded", "Served", "TooLate", "is_handler", "versions_of"]
