"""Optimizers: how weights change, given their gradients (`mx.optimizer`)."""

from . import contrib, optimizer
from .contrib import GroupAdaGrad
from .optax_wrapper import Optax
from .optimizer import *
from .optimizer import __all__ as _names

__all__ = [*_names, "GroupAdaGrad", "Optax", "contrib"]
