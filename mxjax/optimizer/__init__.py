"""Optimizers: how weights change, given their gradients (`mx.optimizer`)."""

import sys as _sys
import types as _types

from .. import level as _level
from . import contrib, optimizer
from .contrib import GroupAdaGrad
from .optax_wrapper import Optax
from .optimizer import *

__all__ = ["GroupAdaGrad", "Optax", "contrib"]
__all__ += optimizer.__all__

if _level.current() == 2:  # MXNet 2 has a module for each of them
    for _name in optimizer.steps.__all__:
        _class = getattr(optimizer, _name)
        _module = _sys.modules.setdefault(_class.__module__, _types.ModuleType(_class.__module__, _class.__doc__))
        setattr(_module, _name, _class)
        globals()[_class.__module__.rpartition(".")[2]] = _module
