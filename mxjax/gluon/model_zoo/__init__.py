"""Networks from the literature and their pretrained parameters."""

from . import model_store, vision

__all__ = ["model_store", "vision"]
