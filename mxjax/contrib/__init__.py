"""`mx.contrib`: what MXNet calls experimental."""

from . import amp, autograd, ndarray, symbol
from . import ndarray as nd
from . import symbol as sym
