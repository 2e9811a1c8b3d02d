"""`mx.sym.npx.random`: random numbers of `mx.npx.random`, as symbols."""

from ...numpy._dispatch import SYMBOLIC as _SYMBOLIC
from ...numpy_extension import random as _random

_random.bind(_SYMBOLIC, globals(), ["bernoulli", "categorical", "multinomial", "normal_n", "uniform_n"])
