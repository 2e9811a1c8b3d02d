"""The operator registry and, a folder per family, the operators themselves. See README.md."""

from . import constant as constant
from . import elementwise, linalg, nn, np, quantized, random, reduce, shape, training, vision
from . import names_of_2 as names_of_2
from .npx_names import MOVED as MOVED
from .registry import Op, find, get, names, register
