"""Optimizers: how weights change, given their gradients (`mx.optimizer`)."""

from . import contrib, optimizer
from .contrib import GroupAdaGrad
from .optax_wrapper import Optax
from .optimizer import *

__all__ = ["GroupAdaGrad", "Optax", "contrib"]
__all__ += optimizer.__all__
