"""`mx.gluon`: blocks, layers, losses and the trainer."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING

from . import block, loss, metric, nn, parameter, rnn, trainer, utils
from .block import Block, HybridBlock, SymbolBlock
from .parameter import Constant, DeferredInitializationError, Parameter, tensor_types
from .train_step import TrainStep
from .trainer import Trainer

if _TYPE_CHECKING:
    from . import contrib, data, model_zoo, probability
    from .parameter import ParameterDict

__all__ = ["Block", "Constant", "DeferredInitializationError", "HybridBlock", "Parameter",
           "SymbolBlock", "TrainStep", "Trainer", "block", "contrib", "data", "loss", "metric", "model_zoo", "nn",
           "parameter", "probability", "rnn", "tensor_types", "trainer", "utils"]
if hasattr(parameter, "ParameterDict"):  # MXNet 2 has none
    ParameterDict = parameter.ParameterDict
    __all__ += ["ParameterDict"]


def __getattr__(name: str) -> object:
    """Imports a sub-package on first use."""
    if name not in ("contrib", "data", "model_zoo", "probability"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _import_module(f"{__name__}.{name}")
