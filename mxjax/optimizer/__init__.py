"""Optimizers, which update weights from their gradients (`mx.optimizer`)."""

from .. import level as _level
from .._namespace import lay_out as _lay_out
from . import contrib, optimizer
from .contrib import GroupAdaGrad
from .optax_wrapper import Optax
from .optimizer import *

__all__ = ["GroupAdaGrad", "Optax", "contrib"]
__all__ += optimizer.__all__

if _level.current() == 2:  # MXNet 2 has a module for each of them
    for _name in optimizer.steps.__all__:
        _class = getattr(optimizer, _name)
        _lay_out(__name__, {_class.__module__.rpartition(".")[2]: {_name: _class}})
