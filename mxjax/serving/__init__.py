"""Models as services: requests are put together in batches of sizes that are compiled before. See README.md."""

from .batching import Batcher, Overloaded, TooLate
from .served import Served

__all__ = ["Batcher", "Overloaded", "Served", "TooLate"]
