"""The operator registry and, a folder per family, the operators themselves. See README.md."""

from . import elementwise, linalg, nn, np, quantized, random, reduce, shape, training, vision
from .npx_names import MOVED as MOVED
from .registry import Op, find, get, names, register
