"""`mx.contrib`: MXNet's experimental features."""

from importlib import import_module as _import_module

from . import amp, autograd, ndarray, symbol
from . import ndarray as nd
from . import symbol as sym

_LATER = ("io", "mlflow", "onnx", "optuna", "quantization", "sklearn", "svrg_optimization", "tensorboard", "text",
          "wandb")
_ALIASES = {"quant": "quantization"}


def __getattr__(name: str) -> object:
    """Imports a sub-package on first use."""
    module = f"{__name__}.{_ALIASES.get(name, name)}"
    if name in _LATER or name in _ALIASES:
        try:
            return _import_module(module)
        except ModuleNotFoundError as error:
            if error.name != module:
                raise
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
