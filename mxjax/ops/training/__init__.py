"""The optimizers' updates."""

from . import optimizer_updates
