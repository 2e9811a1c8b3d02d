"""All optimizers under the path that MXNet keeps them at."""

from .adaptive import FTML, LAMB, AdaDelta, AdaGrad, Adam, Adamax, Ftrl, Nadam, RMSProp
from .base import Optimizer, create, register
from .momentum import DCASGD, LARS, LBSGD, NAG, SGD, SGLD, Signum, ccSGD
from .testing import Test
from .updater import Updater, get_updater

__all__ = ["AdaDelta", "AdaGrad", "Adam", "Adamax", "DCASGD", "FTML", "Ftrl", "LAMB", "LARS", "LBSGD", "NAG", "Nadam",
           "Optimizer", "RMSProp", "SGD", "SGLD", "Signum", "Test", "Updater", "ccSGD", "create", "get_updater",
           "register"]
