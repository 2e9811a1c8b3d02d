"""Models defined by files with the functions of SageMaker's MXNet containers, which handle whole requests."""

from __future__ import annotations

import inspect
import io
import json
import os
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from ..base import MXNetError
from ..interop import install_mxnet_alias
from ..io import NDArrayIter
from ..module import BaseModule
from ..ndarray import NDArray, array, concat, zeros
from .served import module_of

__all__ = ["Handler", "UnknownType", "is_handler"]

JSON, CSV, NPY = "application/json", "text/csv", "application/x-npy"


class UnknownType(MXNetError):
    """The model does not support the content type of a request or reply."""


class Handler:
    """A file with `model_fn(model_dir)` that answers the requests of `/invocations`.

    It may define `transform_fn(model, content, content_type, accept)`, or some of
    `input_fn(content, content_type)`, `predict_fn(data, model)` and `output_fn(prediction,
    accept)`. A reply is the content, or (content, its type). By default JSON, CSV and NumPy files
    are converted to an array for the model, and the result is converted back. `import mxnet`
    imports mxjax in the file. name: name of the model in the service.

    Args:
        path: the file; `model_dir` is its directory, or the parent if that directory is named
            `code`.
        name: by default the name of the file.

    Raises:
        MXNetError: the file cannot be loaded, or has no `model_fn`.

    Example:
        >>> handler = mxjax.serving.Handler("model/code/inference.py")  # doctest: +SKIP
        >>> handler.warm()  # doctest: +SKIP
        >>> handler.transform(b"[[1, 2, 3, 4]]", "application/json", "application/json")  # doctest: +SKIP
        (b'[[0.2, 0.8]]', 'application/json')
    """

    def __init__(self, path: str, name: str | None = None) -> None:
        self.name = name or os.path.basename(path).removesuffix(".py")
        install_mxnet_alias()
        self._code = module_of(path)
        if not callable(getattr(self._code, "model_fn", None)):
            raise MXNetError(f"{path} has no function model_fn")
        folder = os.path.dirname(os.path.abspath(path))
        self._folder = os.path.dirname(folder) if os.path.basename(folder) == "code" else folder
        self._model: Any = None

    def warm(self) -> None:
        """Loads the model.

        Raises:
            MXNetError: `model_fn` raised.
        """
        try:
            self._model = self._code.model_fn(self._folder)
        except Exception as error:
            raise MXNetError(f"{self.name}: model_fn raised {type(error).__name__}: {error}") from error

    def transform(self, content: bytes, content_type: str, accept: str) -> tuple[bytes, str]:
        """Answers a request.

        Args:
            content: body of the request; the functions receive JSON and CSV as text.
            content_type: its type.
            accept: content type of the reply.

        Returns:
            (content, its type).

        Raises:
            UnknownType: the functions do not support a content type.
        """
        body = content.decode() if _plain(content_type) in (JSON, CSV) else content
        if hasattr(self._code, "transform_fn"):
            answer = self._code.transform_fn(self._model, body, content_type, accept)
        else:
            read = self._step("input_fn", _read)
            more = [self._model] if "model" in inspect.signature(read).parameters else []  # as the containers do
            data = read(body, content_type, *more)
            prediction = self._step("predict_fn", _predict)(data, self._model)
            answer = self._step("output_fn", _write)(prediction, accept)
        answer, media_type = answer if isinstance(answer, tuple) else (answer, accept)
        return answer.encode() if isinstance(answer, str) else bytes(answer), media_type

    def _step(self, name: str, default: object) -> Any:
        return getattr(self._code, name, default)

    def __call__(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Answers requests of a `Batcher`, with one row of content, type and accepted type per request."""
        answers = [self.transform(*row) for row in inputs["request"]]
        pairs = np.empty((len(answers), 2), object)
        pairs[:] = answers
        return {"answer": pairs}


def is_handler(source: str) -> bool:
    """Returns whether a model's source is a file with SageMaker's functions.

    Args:
        source: any form of a model. Its code is not executed.

    Returns:
        True if it is a `.py` file that defines or imports `model_fn`.

    Example:
        >>> is_handler("lenet:10")
        False
    """
    if not source.endswith(".py") or not os.path.isfile(source):
        return False
    with open(source, encoding="utf-8") as file:
        return re.search(r"^(def|from\b.*\bimport\b.*)\s+model_fn\b", file.read(), re.MULTILINE) is not None


def _plain(media_type: str) -> str:
    """A type of content without its parameters."""
    return media_type.partition(";")[0].strip().lower()


def _read(content: Any, content_type: str) -> NDArray:
    media_type = _plain(content_type)
    try:
        if media_type == JSON:
            return array(np.asarray(json.loads(content), "float32"))
        if media_type == CSV:
            return array(np.loadtxt(io.StringIO(content), "float32", delimiter=",", ndmin=2))
        if media_type == NPY:
            return array(np.load(io.BytesIO(content), allow_pickle=False))
    except (ValueError, TypeError, EOFError, OSError) as error:
        raise ValueError(f"the request is not an array in {content_type}: {error}") from None
    raise UnknownType(f"the type of a request must be {JSON}, {CSV} or {NPY}, got {content_type}")


def _predict(data: NDArray, model: BaseModule | Callable[..., Any]) -> Any:
    if not isinstance(model, BaseModule):
        return model(data)
    bound = model.data_shapes[0].shape  # the module runs batches of this shape alone
    data = data.reshape((-1, *bound[1:]))  # rows of CSV are flat
    rows = data.shape[0]
    filled = concat(data, zeros((-rows % bound[0], *bound[1:])), dim=0) if rows % bound[0] else data
    return model.predict(NDArrayIter(filled, batch_size=bound[0]))[:rows]


def _write(prediction: NDArray, accept: str) -> tuple[bytes, str]:
    value, stream = prediction.asnumpy(), io.BytesIO()
    accepted = [JSON if media_type == "*/*" else media_type for media_type in map(_plain, accept.split(","))]
    media_type = next((media_type for media_type in accepted if media_type in (JSON, CSV, NPY)), "")
    if media_type == JSON:
        stream.write(json.dumps(value.tolist()).encode())
    elif media_type == CSV:
        np.savetxt(stream, np.atleast_2d(value), delimiter=",", fmt="%.9g")
    elif media_type == NPY:
        np.save(stream, value)
    else:
        raise UnknownType(f"the type of a reply must be {JSON}, {CSV} or {NPY}, asked for {accept}")
    return stream.getvalue(), media_type
