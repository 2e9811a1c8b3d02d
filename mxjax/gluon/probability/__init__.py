"""`mx.gluon.probability`: distributions, transformations, divergences, and blocks with internal losses."""

import re as _re

from ..._namespace import lay_out as _lay_out
from . import (
           constraint,
           continuous,
           discrete,
           distribution,
           divergence,
           multivariate,
           stochastic_block,
           transformation,
           utils,
)
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

_OTHERS = {"ExponentialFamily": "exp_family", "FisherSnedecor": "fishersnedecor", "StudentT": "studentT"}
_kinds = [n for _m in (continuous, discrete, multivariate, distribution) for n in _m.__all__ if n != "Distribution"]
_modules = {_OTHERS.get(n) or _re.sub("(?<=[a-z])(?=[A-Z])", "_", n).lower(): n for n in _kinds}
_lay_out(__name__, {
    "block": {"StochasticBlock": StochasticBlock, "StochasticSequential": StochasticSequential},
    "block.stochastic_block": stochastic_block,
    "distributions": {n: globals()[n] for n in [*_kinds, "Distribution", *divergence.__all__, *utils.__all__]},
    **{f"distributions.{_m.__name__.rpartition('.')[2]}": _m for _m in (constraint, distribution, divergence, utils)},
    **{f"distributions.{_m}": {n: globals()[n]} for _m, n in _modules.items()},
    "transformation.transformation": transformation, "transformation.domain_map": transformation})
