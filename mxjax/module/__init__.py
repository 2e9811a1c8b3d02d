"""Modules, which combine a network with parameters, optimizer and training loop (`mx.mod`)."""

from . import base_module, bucketing_module, executor_group, module, python_module, sequential_module
from .base_module import *
from .bucketing_module import *
from .module import *
from .python_module import *
from .sequential_module import *
