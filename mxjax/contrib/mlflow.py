"""MLflow integration: logging metrics to runs, saving blocks as models."""

from __future__ import annotations

import inspect
import json
import os
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import libinfo
from .._support.files import reading, together, write_file
from .._support.frames import columns
from ..base import MXNetError
from ..context import Context, current_context
from ..gluon import HybridBlock, SymbolBlock
from ..ndarray import array
from ..ndarray import load as load_arrays
from ..symbol import load as load_symbol
from ._metric_logger import MetricLogger

__all__ = ["FLAVOR_NAME", "MLflowCallback", "load_model", "log_model", "save_model"]

FLAVOR_NAME = "mxjax"
_DATA, _INPUTS = "data", "inputs.json"


def _mlflow() -> Any:
    try:
        import mlflow  # pyright: ignore[reportMissingImports]  an extra
        import mlflow.artifacts  # pyright: ignore[reportMissingImports]
        import mlflow.models  # pyright: ignore[reportMissingImports]
        import mlflow.pyfunc  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise MXNetError(f"mx.contrib.mlflow needs MLflow ({error}): pip install 'mxjax[mlflow]'") from None
    return mlflow


class MLflowCallback(MetricLogger):
    """A callback for `Module.fit`, or a handler for an `Estimator`, that logs metrics to the active run.

    Args:
        prefix, how: as in `MetricLogger`.

    Raises:
        MXNetError: mlflow is not installed.

    Example:
        >>> with mlflow.start_run():  # doctest: +SKIP
        ...     module.fit(train, val, eval_end_callback=MLflowCallback("validation"))
    """

    def __init__(self, prefix: str | None = None, **how: Any) -> None:
        super().__init__(prefix, **how)
        self._mlflow = _mlflow()

    def log(self, values: dict[str, float], step: int) -> None:
        """Logs the metrics' values."""
        self._mlflow.log_metrics(values, step=step)


def save_model(block: HybridBlock, path: str | os.PathLike[str], mlflow_model: Any = None, signature: Any = None,
               metadata: dict[str, Any] | None = None, pip_requirements: Sequence[str] | None = None) -> None:
    """Saves a block as an MLflow model, which also has the pyfunc flavour (`mlflow.pyfunc.load_model`).

    Args:
        block: a hybridized block that has been called, or a SymbolBlock.
        path: directory, which must be empty or not exist yet.
        mlflow_model: MLflow's description of the model, which MLflow passes itself.
        signature, metadata: as in MLflow's own flavours.
        pip_requirements: packages of the model's environment; by default this version of mxjax.

    Raises:
        MXNetError: mlflow is not installed, or the directory is not empty.
        RuntimeError: the block has not been hybridized and called.
    """
    mlflow = _mlflow()
    path = os.fspath(path)
    if os.path.exists(path) and os.listdir(path):
        raise MXNetError(f"cannot save the model: {path} is not empty")
    model = mlflow.models.Model() if mlflow_model is None else mlflow_model
    if signature is not None:
        model.signature = signature
    if metadata is not None:
        model.metadata = metadata
    beginning = os.path.join(path, _DATA, "model")
    os.makedirs(os.path.dirname(beginning), exist_ok=True)
    block.export(beginning)
    saved = {name.partition(":")[2] for name in load_arrays(f"{beginning}-0000.params")}
    inputs = [name for name in load_symbol(f"{beginning}-symbol.json").list_inputs() if name not in saved]
    model.add_flavor(FLAVOR_NAME, mxjax_version=libinfo.__mxjax_version__, data=_DATA, inputs=inputs)
    mlflow.pyfunc.add_to_model(model, loader_module=__name__, data=_DATA)
    required = [f"mxjax=={libinfo.__mxjax_version__}"] if pip_requirements is None else pip_requirements
    with together():
        write_file(os.path.join(path, "requirements.txt"), "".join(f"{line}\n" for line in required))
        write_file(os.path.join(path, _DATA, _INPUTS), json.dumps(inputs))
    model.save(os.path.join(path, "MLmodel"))


def log_model(block: HybridBlock, name: str = "model", **how: Any) -> Any:
    """Saves a block as a model of the active run; returns MLflow's description of it.

    Args:
        block: as in `save_model`.
        name: the model's name.
        how: arguments of `save_model` or of MLflow's `Model.log`, such as `registered_model_name`.

    Example:
        >>> info = log_model(net)  # doctest: +SKIP
        >>> load_model(info.model_uri)(x)  # doctest: +SKIP
    """
    log = _mlflow().models.Model.log
    newer = "name" in inspect.signature(log).parameters  # which warns of the older keyword
    named = {"artifact_path": None, "name": name} if newer else {"artifact_path": name}
    return log(**named, flavor=sys.modules[__name__], block=block, **how)


def load_model(model_uri: str | os.PathLike[str], ctx: Context | None = None) -> SymbolBlock:
    """Returns the block of a saved model.

    Args:
        model_uri: a directory or an MLflow URI, such as "runs:/ID/model" or "models:/NAME/1".
        ctx: context of its parameters; by default the current one.

    Raises:
        MXNetError: mlflow is not installed, or a file is corrupt or missing.
    """
    model_uri = os.fspath(model_uri)
    folder = model_uri if os.path.isdir(model_uri) else _mlflow().artifacts.download_artifacts(model_uri)
    return _load(os.path.join(folder, _DATA), ctx)[0]


def _load(folder: str, ctx: Context | None = None) -> tuple[SymbolBlock, list[str]]:
    """The block in a folder, and the names of its inputs."""
    file = os.path.join(folder, _INPUTS)
    with reading(file, "the names of a model's inputs"):
        with open(file, encoding="utf-8") as stream:
            inputs = json.load(stream)
        if not inputs or not isinstance(inputs, list) or not all(isinstance(name, str) for name in inputs):
            raise MXNetError(f"expected a list of names, got {inputs!r}")
    beginning = os.path.join(folder, "model")
    return SymbolBlock.imports(f"{beginning}-symbol.json", inputs, f"{beginning}-0000.params",
                               current_context() if ctx is None else ctx), inputs


def _load_pyfunc(path: str) -> _Function:
    """The function that `mlflow.pyfunc` calls; `path` is the folder of data."""
    return _Function(*_load(path))


class _Function:
    """A block as MLflow calls models: NumPy and pandas in, NumPy out.

    Args:
        block: the block.
        inputs: names of its inputs, in their order.
    """

    def __init__(self, block: SymbolBlock, inputs: list[str]) -> None:
        self._block, self._inputs = block, inputs

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> Any:
        """Returns the outputs, an array or a list of arrays.

        Args:
            model_input: for a model with one input, an array or a data frame whose columns are the
                features. For several inputs, a dict of arrays by name or a data frame with columns
                of these names.
            params: must be empty; the model has no parameters.

        Raises:
            MXNetError: an input is missing.
        """
        if params:
            raise MXNetError(f"this model does not accept params, got {sorted(params)}")
        frame = model_input if isinstance(model_input, dict) else columns(model_input)
        if frame is None:
            values = [model_input]
        elif all(name in frame for name in self._inputs):
            values = [frame[name] for name in self._inputs]
        elif len(self._inputs) == 1 and not isinstance(model_input, dict):
            values = [np.stack(list(frame.values()), axis=1)]
        else:
            raise MXNetError(f"this model expects the inputs {self._inputs}, got {list(frame)}")
        if len(values) != len(self._inputs):
            raise MXNetError(f"this model expects the inputs {self._inputs}: pass a dict of arrays")
        result = self._block(*(array(value) for value in values))
        return [part.asnumpy() for part in result] if isinstance(result, list | tuple) else result.asnumpy()
