"""`mx.gluon.probability`: distributions, transformations, divergences, blocks with losses of their own."""

from . import constraint, continuous, discrete, distribution, divergence, multivariate, transformation, utils
from .constraint import *
from .continuous import *
from .discrete import *
from .distribution import *
from .divergence import *
from .multivariate import *
from .stochastic_block import StochasticBlock, StochasticSequential
from .transformation import *
from .utils import *

__all__ = ["StochasticBlock", "StochasticSequential", *constraint.__all__, *continuous.__all__, *discrete.__all__,
           *distribution.__all__, *divergence.__all__, *multivariate.__all__, *transformation.__all__, *utils.__all__]
