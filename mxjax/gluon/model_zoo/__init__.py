"""Networks of the literature, and where their trained parameters are kept."""

from . import model_store, vision

__all__ = ["model_store", "vision"]
