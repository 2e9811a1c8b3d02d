"""All optimizers of the current API level, under MXNet's module path."""

from .. import level
from ..ndarray import abs as NDabs  # noqa: N812  one of MXNet's names here
from .updater import Updater, get_updater

if level.fix("mxjax.optimizer") == 2:
    from . import steps
    from .base import create, register
    from .stepping import Optimizer
    from .steps import *  # noqa: F403

    steps.register_all()
    __all__ = ["NDabs", "Optimizer", "Updater", "create", "get_updater", "register", *steps.__all__]
else:
    from .adaptive import FTML, LAMB, LANS, AdaBelief, AdaDelta, AdaGrad, Adam, Adamax, AdamW, Ftrl, Nadam, RMSProp
    from .base import Optimizer, create, register
    from .momentum import DCASGD, LARS, LBSGD, NAG, SGD, SGLD, Signum, ccSGD
    from .testing import Test

    __all__ = ["AdaBelief", "AdaDelta", "AdaGrad", "Adam", "AdamW", "Adamax", "DCASGD", "FTML", "Ftrl", "LAMB", "LANS",
               "LARS", "LBSGD", "NAG", "NDabs", "Nadam", "Optimizer", "RMSProp", "SGD", "SGLD", "Signum", "Test",
               "Updater", "ccSGD", "create", "get_updater", "register"]
