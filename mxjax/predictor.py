"""`mx.predictor`: a trained model for inference only, like MXNet's C predict API and its `mxnet_predict` module."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ._support.files import check_unpacked
from .base import MXNetError
from .context import Context
from .ndarray import NDArray, array, empty, load, load_frombuffer
from .symbol import Group, Symbol, load_json
from .symbol import load as load_symbol

__all__ = ["Predictor", "load_ndarray_file"]


def load_ndarray_file(nd_bytes: bytes) -> dict[str, np.ndarray] | list[np.ndarray]:
    """Loads NumPy arrays from the content of a `.params` file: a dictionary if they have names, otherwise a list."""
    result = load_frombuffer(nd_bytes)
    for one in result.values() if isinstance(result, dict) else result:
        if one.stype != "default":  # which may stand for much more than is stored
            check_unpacked(math.prod(one.shape) * np.dtype(one.dtype).itemsize, len(nd_bytes), "buffer")
    return {k: v.asnumpy() for k, v in result.items()} if isinstance(result, dict) else [v.asnumpy() for v in result]


def _symbol(source: Symbol | str | os.PathLike) -> Symbol:
    if isinstance(source, Symbol):
        return source
    return load_json(source) if isinstance(source, str) and source.lstrip().startswith("{") else load_symbol(source)


def _params(source: object) -> dict[str, NDArray]:
    if isinstance(source, (bytes, bytearray)):
        source = load_frombuffer(bytes(source))
    elif isinstance(source, (str, os.PathLike)):
        source = load(os.fspath(source))
    if not isinstance(source, Mapping):
        raise MXNetError(f"parameters must be a dictionary, a file or its content, got {type(source).__name__}")
    return {k.removeprefix("arg:").removeprefix("aux:"): v for k, v in source.items()}


class Predictor:
    """A model with its parameters, compiled for given shapes.

    Args:
        symbol: symbol, its JSON text or file.
        params: dictionary of parameters and auxiliary states (with or without the prefixes "arg:"
            and "aux:"), their file, or its content.
        shapes: shapes of the inputs by name; other inputs, such as labels, are zeros.
        dev_type, dev_id: type and id of the device.
        type_dict: dtypes of inputs by name; by default float32.
        outputs: names of inner outputs to return instead of the symbol's own, e.g.
            ("flatten0_output",); later layers are not computed.

    Raises:
        MXNetError: shapes do not fit, a parameter is missing, or there is no such output.

    Example:
        >>> net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, no_bias=True, name="fc")
        >>> params = {"arg:fc_weight": mx.nd.array([[1, 2, 3], [4, 5, 6]])}
        >>> predictor = mx.predictor.Predictor(net.tojson(), params, {"data": (1, 3)})
        >>> predictor.forward(data=np.ones((1, 3)))
        >>> predictor.get_output(0)
        array([[ 6., 15.]], dtype=float32)
    """

    def __init__(self, symbol: Symbol | str | os.PathLike, params: object, shapes: Mapping[str, Sequence[int]],
                 dev_type: str = "cpu", dev_id: int = 0, type_dict: Mapping[str, Any] | None = None,
                 outputs: Sequence[str] = ()) -> None:
        self.symbol = _symbol(symbol)
        if outputs:
            internals = self.symbol.get_internals()
            known = internals.list_outputs()
            missing = [name for name in outputs if name not in known and f"{name}_output" not in known]
            if missing:
                raise MXNetError(f"unknown output {', '.join(missing)}; known: {', '.join(known)}")
            self.symbol = Group([internals[n if n in known else f"{n}_output"] for n in outputs])
        self.context = Context(dev_type, dev_id)
        names = set(self.symbol.list_inputs())
        self._params = {k: v.as_in_context(self.context) for k, v in _params(params).items() if k in names}
        self._types = dict(type_dict or {})
        self.reshape(shapes)

    def reshape(self, shapes: Mapping[str, Sequence[int]]) -> None:
        """Changes the shapes of the inputs; the parameters stay, and the inputs are reset to zeros.

        Raises:
            MXNetError: an input does not exist, or its shape does not fit.
        """
        args, auxs = self.symbol.list_arguments(), self.symbol.list_auxiliary_states()
        unknown = [n for n in shapes if n not in args or n in self._params]
        if unknown:
            raise MXNetError(f"unknown input {', '.join(unknown)}; known: "
                             f"{', '.join(n for n in args if n not in self._params)}")
        result = self.symbol.infer_shape_partial(**{n: tuple(s) for n, s in shapes.items()},
                                                 **{n: v.shape for n, v in self._params.items()})
        self.output_shapes = [tuple(s) for s in result[1]]
        sizes = dict(zip([*args, *auxs], [*result[0], *result[2]], strict=True))
        lacking = [n for n in [*args, *auxs] if n not in self._params and (not sizes[n] or 0 in sizes[n])]
        if lacking:
            raise MXNetError(f"the shape of {', '.join(lacking)} is not known: pass its shape, or its value among the "
                             "parameters")
        self._inputs = {n: empty(sizes[n], self.context, self._types.get(n, "float32")) for n in [*args, *auxs]
                        if n not in self._params}
        values = {**self._params, **self._inputs}
        self._executor = self.symbol.bind(self.context, {n: values[n] for n in args}, grad_req="null",
                                          aux_states={n: values[n] for n in auxs})

    @property
    def output_names(self) -> list[str]:
        """Names of the outputs."""
        return self.symbol.list_outputs()

    def set_input(self, name: str, value: Any) -> None:
        """Sets an input to a NumPy array or NDArray of its shape.

        Raises:
            MXNetError: there is no such input, or the shape does not fit.
        """
        if name not in self._inputs:
            raise MXNetError(f"unknown input {name}; known: {', '.join(self._inputs)}")
        target = self._inputs[name]
        if tuple(np.shape(value)) != target.shape:
            raise MXNetError(f"input {name} must have the shape {target.shape}, got {tuple(np.shape(value))}; see "
                             "reshape")
        target[:] = value if isinstance(value, NDArray) else array(value, self.context, target.dtype)

    def forward(self, **inputs: object) -> None:
        """Sets inputs by name and runs the model."""
        for name, value in inputs.items():
            self.set_input(name, value)
        self._executor.forward(is_train=False)

    def get_output(self, index: int = 0) -> np.ndarray:
        """Returns an output of the last `forward` as a NumPy array.

        Raises:
            MXNetError: there is no output with this index.
        """
        if not 0 <= index < len(self._executor.outputs):
            raise MXNetError(f"there is no output {index}; the model has {len(self._executor.outputs)} outputs")
        return self._executor.outputs[index].asnumpy()
