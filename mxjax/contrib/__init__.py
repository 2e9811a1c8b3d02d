"""`mx.contrib`: what MXNet calls experimental."""

from . import autograd, ndarray, symbol
from . import ndarray as nd
from . import symbol as sym
