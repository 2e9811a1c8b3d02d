"""Importers of ONNX operators: element-wise operators, reductions; one line for a simple one."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from ..symbol import Symbol
from ._export import package
from ._folding import every_input, folding
from ._import import IMPORTERS, ImportedNode, importer


def _plain(name: str, **params: Any) -> Callable[[ImportedNode], Symbol]:
    return lambda c: c.op(name, c.sym(0), **params)


for _onnx, _kind in {
        "Abs": "abs", "Ceil": "ceil", "Floor": "floor", "Round": "_npi_around", "Exp": "exp", "Log": "log",
        "Sqrt": "sqrt",
        "Sin": "sin", "Cos": "cos", "Tan": "tan", "Asin": "arcsin", "Acos": "arccos", "Atan": "arctan", "Sinh": "sinh",
        "Cosh": "cosh", "Tanh": "tanh", "Asinh": "arcsinh", "Acosh": "arccosh", "Atanh": "arctanh", "Erf": "erf",
        "Sigmoid": "sigmoid", "Relu": "relu", "Neg": "negative", "Reciprocal": "reciprocal", "Sign": "sign",
        "Softsign": "softsign", "Identity": "_copy", "Not": "logical_not"}.items():
    importer(_onnx)(_plain(_kind))
importer("Softplus")(_plain("Activation", act_type="softrelu"))
importer("Elu")(lambda c: c.op("LeakyReLU", c.sym(0), act_type="elu", slope=c.attr("alpha", 1.0)))
importer("LeakyRelu")(lambda c: c.op("LeakyReLU", c.sym(0), act_type="leaky", slope=c.attr("alpha", 0.01)))
importer("HardSigmoid")(lambda c: c.op("hard_sigmoid", c.sym(0), alpha=c.attr("alpha", 0.2), beta=c.attr("beta", 0.5)))
importer("Sum")(lambda c: reduce(lambda a, b: c.op("broadcast_add", a, b), every_input(c)))
importer("Mean")(lambda c: reduce(lambda a, b: c.op("broadcast_add", a, b), every_input(c)) / len(c.inputs))
importer("HardSwish")(lambda c: c.sym(0) * c.op("hard_sigmoid", c.sym(0), alpha=1 / 6, beta=0.5))
importer("Mish")(lambda c: c.sym(0) * c.op("tanh", c.op("Activation", c.sym(0), act_type="softrelu")))
importer("Swish")(lambda c: c.sym(0) * c.op("sigmoid", c.sym(0) * c.attr("alpha", 1.0)))
importer("IsNaN")(lambda c: c.op("_npi_isnan", c.sym(0)))
importer("ThresholdedRelu")(lambda c: c.sym(0) * (c.sym(0) > c.attr("alpha", 1.0)))


@importer("Dropout")
def _dropout(c: ImportedNode) -> Symbol:
    trains = c.known(2) if c.has(2) else np.False_
    c.need(trains is not None and not trains.any(), "training_mode")
    return c.op("_copy", c.sym(0))


@importer("Selu")
def _selu(c: ImportedNode) -> Symbol:
    if not {"alpha", "gamma"} & set(c.attrs):
        return c.op("LeakyReLU", c.sym(0), act_type="selu")
    return c.op("LeakyReLU", c.sym(0), act_type="elu", slope=c.attr("alpha", 1.67326319)) * c.attr("gamma", 1.05070102)


@importer("Celu")
def _celu(c: ImportedNode) -> Symbol:
    alpha = c.attr("alpha", 1.0)
    return c.op("LeakyReLU", c.sym(0) / alpha, act_type="elu", slope=1.0) * alpha


@importer("Gelu")
def _gelu(c: ImportedNode) -> Symbol:
    if c.attr("approximate", "none") == "none":
        return c.op("LeakyReLU", c.sym(0), act_type="gelu")
    x = c.sym(0)
    return x * (c.op("tanh", (x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)) + 1) * 0.5


@importer("Clip")
def _clip(c: ImportedNode) -> Symbol:
    low, high = (c.value(i).item() if c.has(i) else c.attr(name, default)
                 for i, name, default in ((1, "min", -np.finfo(np.float32).max), (2, "max", np.finfo(np.float32).max)))
    return c.op("clip", c.sym(0), a_min=float(low), a_max=float(high))


@importer("PRelu")
def _prelu(c: ImportedNode) -> Symbol:
    slope, data = c.shape(1), c.shape(0)
    channels = slope is not None and all(n == 1 for n in slope[1:]) and (len(slope) > 1 or slope == (1,))
    if slope and data and data[1:2] == slope and data[-1] not in (1, *slope):
        channels, data = True, None  # as MXNet wrote it: by ONNX's rules it would not fit
    if channels and (slope is None or data is None or len(slope) in (1, len(data) - 1)):
        return c.op("LeakyReLU", c.sym(0), c.op("Reshape", c.sym(1), shape=(-1,)), act_type="prelu")
    least = c.op("broadcast_mul", c.op("_minimum_scalar", c.sym(0), scalar=0), c.sym(1))
    return c.op("broadcast_add", c.op("relu", c.sym(0)), least)


def _dtype(c: ImportedNode) -> np.dtype:
    return np.dtype(package().helper.tensor_dtype_to_np_dtype(c.attr("to")))


@importer("Cast")
@folding(lambda c, x: x.astype(_dtype(c)))
def _cast(c: ImportedNode) -> Symbol:
    dtype = _dtype(c)
    if dtype.kind == "b":
        return c.op("_not_equal_scalar", c.sym(0), scalar=0)
    return c.op("Cast", c.sym(0), dtype=dtype.name)


# ---------------------------------------------------------------- two operands
_SCALARS = {"Add": "_plus_scalar", "Sub": "_minus_scalar", "Mul": "_mul_scalar", "Div": "_div_scalar",
            "Pow": "_power_scalar", "Greater": "_greater_scalar", "Less": "_lesser_scalar", "Equal": "_equal_scalar",
            "GreaterOrEqual": "_greater_equal_scalar", "LessOrEqual": "_lesser_equal_scalar"}
_TURNED = {"Add": "_plus_scalar", "Sub": "_rminus_scalar", "Mul": "_mul_scalar", "Div": "_rdiv_scalar",
           "Pow": "_rpower_scalar"}
_NUMPY = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Pow": np.power, "Equal": np.equal,
          "Div": lambda a, b: a // b if np.asarray(a).dtype.kind in "iu" else a / b, "Greater": np.greater,
          "Less": np.less, "GreaterOrEqual": np.greater_equal, "LessOrEqual": np.less_equal, "And": np.logical_and,
          "Or": np.logical_or, "Xor": np.logical_xor}


def _two(tensor: str) -> Callable[[ImportedNode], Symbol]:
    def convert(c: ImportedNode) -> Symbol:
        left, right = c.known(0), c.known(1)
        if c.op_type in _SCALARS and right is not None and right.size == 1 and \
                right.ndim <= len(c.shape(0) or (1,) * 9):
            return c.op(_SCALARS[c.op_type], c.sym(0), scalar=right.item())
        if c.op_type in _TURNED and left is not None and left.size == 1 and left.ndim <= len(c.shape(1) or (1,) * 9):
            return c.op(_TURNED[c.op_type], c.sym(1), scalar=left.item())
        return c.op(tensor, c.sym(0), c.sym(1))
    return convert


for _onnx, _kind in {
        "Add": "broadcast_add", "Sub": "broadcast_sub", "Mul": "broadcast_mul", "Div": "broadcast_div",
        "Pow": "broadcast_power", "Equal": "broadcast_equal", "Greater": "broadcast_greater",
        "Less": "broadcast_lesser", "GreaterOrEqual": "broadcast_greater_equal",
        "LessOrEqual": "broadcast_lesser_equal", "And": "broadcast_logical_and", "Or": "broadcast_logical_or",
        "Xor": "broadcast_logical_xor"}.items():
    _converter = _two(_kind)
    if _onnx in _NUMPY:
        _converter = folding(lambda c, a, b, f=_NUMPY[_onnx]: f(a, b))(_converter)
    importer(_onnx)(_converter)


for _onnx, _function in {"Max": np.maximum, "Min": np.minimum}.items():
    importer(_onnx)(folding(lambda c, *all, f=_function: reduce(f, all))(
        lambda c, kind=f"broadcast_{_function.__name__}": reduce(lambda a, b: c.op(kind, a, b), every_input(c))))
for _onnx, _function in {"Abs": np.abs, "Neg": np.negative, "Not": np.logical_not, "Floor": np.floor, "Ceil": np.ceil,
                         "Sqrt": np.sqrt, "Identity": np.copy}.items():
    importer(_onnx)(folding(lambda c, x, f=_function: f(x))(IMPORTERS[_onnx]))


@importer("Mod")
@folding(lambda c, a, b: (np.fmod if c.attr("fmod", 0) else np.mod)(a, b))
def _mod(c: ImportedNode) -> Symbol:
    if not c.attr("fmod", 0):
        return _two("broadcast_mod")(c)
    size = c.op("broadcast_mod", c.op("abs", c.sym(0)), c.op("abs", c.sym(1)))  # the sign is that of the dividend
    return c.op("broadcast_mul", c.op("sign", c.sym(0)), size)


@importer("Where")
@folding(lambda c, chosen, a, b: np.where(chosen, a, b))
def _where(c: ImportedNode) -> Symbol:
    return c.op("_npi_where", c.op("_not_equal_scalar", c.sym(0), scalar=0), c.sym(1), c.sym(2))


# ---------------------------------------------------------------- reductions
def _reduced(name: str, before: str | None = None, after: str | None = None) -> Callable[[ImportedNode], Symbol]:
    def convert(c: ImportedNode) -> Symbol:
        axes = c.listed(1, "axes")
        data = c.sym(0) if before is None else c.op(before, c.sym(0))
        result = c.op(name, data, axis=axes or (), keepdims=bool(c.attr("keepdims", 1)))
        return result if after is None else c.op(after, result)
    return convert


for _onnx, _args in {"ReduceSum": ("sum",), "ReduceMean": ("mean",), "ReduceMax": ("max",), "ReduceMin": ("min",),
                     "ReduceProd": ("prod",), "ReduceSumSquare": ("sum", "square"), "ReduceL1": ("sum", "abs"),
                     "ReduceL2": ("sum", "square", "sqrt"), "ReduceLogSum": ("sum", None, "log"),
                     "ReduceLogSumExp": ("sum", "exp", "log")}.items():
    importer(_onnx)(_reduced(*_args))
for _onnx, _function in {"ReduceSum": np.sum, "ReduceMax": np.max, "ReduceMin": np.min, "ReduceProd": np.prod}.items():
    importer(_onnx)(folding(lambda c, x, *axes, f=_function: f(
        x, c.listed(1, "axes"), keepdims=bool(c.attr("keepdims", 1))))(IMPORTERS[_onnx]))


@importer("ArgMax", "ArgMin")
def _arg(c: ImportedNode) -> Symbol:
    axis, data = c.attr("axis", 0), c.sym(0)
    shape = c.given(c.shape(0), "select_last_index of an unknown shape") if c.attr("select_last_index", 0) else None
    if shape is not None:
        data = c.op("reverse", data, axis=(axis % len(shape),))
    result = c.op("Cast", c.op(c.op_type.lower(), data, axis=axis, keepdims=bool(c.attr("keepdims", 1))), dtype="int64")
    return result if shape is None else c.op("_rminus_scalar", result, scalar=shape[axis] - 1)


@importer("CumSum")
def _cumsum(c: ImportedNode) -> Symbol:
    c.need(not c.attr("exclusive", 0) and not c.attr("reverse", 0), "exclusive or reverse")
    return c.op("_np_cumsum", c.sym(0), axis=int(c.value(1).item()))


@importer("TopK")
def _topk(c: ImportedNode) -> Symbol:
    count = int(c.value(1).item()) if c.has(1) else c.attr("k")
    return c.op("topk", c.sym(0), k=count, axis=c.attr("axis", -1), ret_typ="both", is_ascend=not c.attr("largest", 1),
                dtype="int64")
