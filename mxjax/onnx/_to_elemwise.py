"""Export of operators that work element by element."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..graph.rewriting import copied
from ..ndarray import empty
from ..symbol import Symbol, var
from ._export import ExportedNode, converter

# one ONNX operator, the same inputs
_SAME = {
    "abs": "Abs", "ceil": "Ceil", "floor": "Floor", "exp": "Exp", "log": "Log", "sqrt": "Sqrt",
    "sin": "Sin", "cos": "Cos", "tan": "Tan", "arcsin": "Asin", "arccos": "Acos", "arctan": "Atan", "sinh": "Sinh",
    "cosh": "Cosh", "tanh": "Tanh", "arcsinh": "Asinh", "arccosh": "Acosh", "arctanh": "Atanh", "sigmoid": "Sigmoid",
    "relu": "Relu", "negative": "Neg", "reciprocal": "Reciprocal", "erf": "Erf", "sign": "Sign", "softsign": "Softsign",
    "_copy": "Identity", "BlockGrad": "Identity", "MakeLoss": "Identity", "make_loss": "Identity",
    "IdentityAttachKLSparseReg": "Identity", "_identity_with_attr_like_rhs": "Identity",
    "_contrib_gradientmultiplier": "Identity", "elemwise_add": "Add", "elemwise_sub": "Sub", "elemwise_mul": "Mul",
    "elemwise_div": "Div", "broadcast_add": "Add", "broadcast_sub": "Sub", "broadcast_mul": "Mul",
    "broadcast_div": "Div", "_maximum": "Max", "_minimum": "Min", "broadcast_maximum": "Max",
    "broadcast_minimum": "Min", "_power": "Pow", "broadcast_power": "Pow", "add_n": "Sum", "_npi_add": "Add",
    "_npi_subtract": "Sub",
    "_npi_multiply": "Mul", "_npi_true_divide": "Div", "_npi_power": "Pow", "_npi_negative": "Neg", "_npi_exp": "Exp",
    "_npi_log": "Log", "_npi_sqrt": "Sqrt", "_npi_tanh": "Tanh", "_npi_absolute": "Abs", "_npi_sin": "Sin",
    "_npi_cos": "Cos", "_npx_relu": "Relu", "_npx_sigmoid": "Sigmoid", "_np_copy": "Identity",
}
_ONE_INPUT = {"_identity_with_attr_like_rhs"}


def _alike(c: ExportedNode, first: int = 0) -> list[str]:
    """The inputs from number `first` on in the dtype of the result, as ONNX wants them."""
    return [name if c.dtype(i) == c.out_dtype() else c.cast(name, c.out_dtype())
            for i, name in enumerate(c.inputs) if i >= first]


def _same(onnx_name: str) -> Callable[[ExportedNode], str]:
    def convert(c: ExportedNode) -> str:
        return c.op(onnx_name, *_alike(c)[:1 if c.op_type in _ONE_INPUT else None])
    return convert


for _name, _onnx in _SAME.items():
    converter(_name)(_same(_onnx))

# a number as the second operand, or the first one
_SCALAR = {
    "_plus_scalar": "Add", "_minus_scalar": "Sub", "_mul_scalar": "Mul", "_div_scalar": "Div", "_power_scalar": "Pow",
    "_maximum_scalar": "Max", "_minimum_scalar": "Min", "_npi_add_scalar": "Add", "_npi_subtract_scalar": "Sub",
    "_npi_multiply_scalar": "Mul", "_npi_true_divide_scalar": "Div", "_npi_power_scalar": "Pow",
    "_scatter_plus_scalar": "Add", "_scatter_minus_scalar": "Sub",
}
_REVERSED = {"_rminus_scalar": "Sub", "_rdiv_scalar": "Div", "_rpower_scalar": "Pow", "_npi_rsubtract_scalar": "Sub",
             "_npi_rtrue_divide_scalar": "Div", "_npi_rpower_scalar": "Pow"}


def _with_number(onnx_name: str, turned: bool) -> Callable[[ExportedNode], str]:
    def convert(c: ExportedNode) -> str:
        data = c.inputs[0] if c.out_dtype() == c.dtype() else c.cast(c.inputs[0], c.out_dtype())
        operands = [data, c.scalar(c.p["scalar"], c.out_dtype())]
        return c.op(onnx_name, *(operands[::-1] if turned else operands))
    return convert


for _table, _turned in ((_SCALAR, False), (_REVERSED, True)):
    for _name, _onnx in _table.items():
        converter(_name)(_with_number(_onnx, _turned))

# comparisons and logic: booleans in ONNX, numbers of the inputs' dtype in MXNet
_COMPARED = {"equal": ("Equal", False), "not_equal": ("Equal", True), "greater": ("Greater", False),
             "greater_equal": ("GreaterOrEqual", False), "lesser": ("Less", False),
             "lesser_equal": ("LessOrEqual", False)}
_NUMPY_NAMES = {"lesser": "less", "lesser_equal": "less_equal"}


def _compared(onnx_name: str, negated: bool) -> Callable[[ExportedNode], str]:
    def convert(c: ExportedNode) -> str:
        right = c.inputs[1] if c.has(1) else c.scalar(c.p["scalar"])
        result = c.op(onnx_name, c.inputs[0], right)
        return c.cast(c.op("Not", result) if negated else result, c.out_dtype())
    return convert


for _name, (_onnx, _negated) in _COMPARED.items():
    _numpy = f"_npi_{_NUMPY_NAMES.get(_name, _name)}"
    converter(f"_{_name}", f"broadcast_{_name}", f"_{_name}_scalar", _numpy, f"{_numpy}_scalar")(
        _compared(_onnx, _negated))


def _logic(onnx_name: str) -> Callable[[ExportedNode], str]:
    def convert(c: ExportedNode) -> str:
        operands = [c.cast(name, "bool") for name in c.inputs]
        if len(operands) == 1:
            operands.append(c.const(bool(c.p["scalar"]), bool))
        return c.cast(c.op(onnx_name, *operands), c.out_dtype())
    return convert


for _name, _onnx in (("and", "And"), ("or", "Or"), ("xor", "Xor")):
    converter(f"_logical_{_name}", f"broadcast_logical_{_name}", f"_logical_{_name}_scalar")(_logic(_onnx))


@converter("logical_not")
def _logical_not(c: ExportedNode) -> str:
    return c.cast(c.op("Not", c.cast(c.inputs[0], "bool")), c.out_dtype())


# a formula of several steps
def _scaled(op_type: str, factor: float) -> Callable[[ExportedNode], str]:
    return lambda c: c.op("Mul", c.op(op_type, c.inputs[0]), c.scalar(factor))


converter("log2")(_scaled("Log", 1 / math.log(2)))
converter("log10")(_scaled("Log", 1 / math.log(10)))
converter("degrees")(_scaled("Identity", 180 / math.pi))
converter("radians")(_scaled("Identity", math.pi / 180))
converter("log1p")(lambda c: c.op("Log", c.op("Add", c.inputs[0], c.scalar(1))))
converter("expm1")(lambda c: c.op("Sub", c.op("Exp", c.inputs[0]), c.scalar(1)))
converter("square")(lambda c: c.op("Mul", c.inputs[0], c.inputs[0]))
converter("rsqrt")(lambda c: c.op("Reciprocal", c.op("Sqrt", c.inputs[0])))
converter("_contrib_div_sqrt_dim")(lambda c: c.op("Div", c.inputs[0], c.op("Sqrt", c.cast(
    c.dims(c.inputs[0], [c.ndim() - 1]), c.dtype()))))
converter("_npi_einsum")(lambda c: c.op("Einsum", *c.inputs, equation=c.p["subscripts"].replace(" ", "")))
for _name, _onnx in (("_npi_isnan", "IsNaN"), ("_npi_isinf", "IsInf")):
    converter(_name)(lambda c, n=_onnx: c.op(n, c.inputs[0]))
for _name, _upper in (("_npi_triu", 1), ("_npi_tril", 0)):
    converter(_name)(lambda c, u=_upper: c.op("Trilu", c.inputs[0], c.const(c.p["k"]), upper=u))


converter("Cast", "amp_cast")(lambda c: c.cast(c.inputs[0], c.out_dtype()))


@converter("cbrt")
def _cbrt(c: ExportedNode) -> str:
    return c.op("Mul", c.op("Sign", c.inputs[0]), c.op("Pow", c.op("Abs", c.inputs[0]), c.scalar(1 / 3)))


@converter("trunc", "fix")
def _trunc(c: ExportedNode) -> str:
    return c.op("Mul", c.op("Sign", c.inputs[0]), c.op("Floor", c.op("Abs", c.inputs[0])))


@converter("round")
def _round(c: ExportedNode) -> str:
    """Halves away from zero."""
    up = c.op("Floor", c.op("Add", c.op("Abs", c.inputs[0]), c.scalar(0.5)))
    return c.op("Mul", c.op("Sign", c.inputs[0]), up)


@converter("rint")
def _rint(c: ExportedNode) -> str:
    """Halves go down."""
    low, high = c.op("Floor", c.inputs[0]), c.op("Ceil", c.inputs[0])
    below = c.op("LessOrEqual", c.op("Sub", c.inputs[0], low), c.op("Sub", high, c.inputs[0]))
    return c.op("Where", below, low, high)


@converter("_mod", "broadcast_mod", "_mod_scalar")
def _mod(c: ExportedNode) -> str:
    """The remainder has the sign of the divisor, and is 0 where that is 0."""
    dtype = c.out_dtype()
    left = c.inputs[0] if dtype == c.dtype() else c.cast(c.inputs[0], dtype)
    right, zero = c.inputs[1] if c.has(1) else c.scalar(c.p["scalar"], dtype), c.scalar(0, dtype)
    nothing = c.op("Equal", right, zero)
    right = c.op("Where", nothing, c.scalar(1, dtype), right)
    result = c.op("Mod", left, right, fmod=int(dtype.kind not in "iu"))
    if dtype.kind not in "iu":  # the sign is that of the dividend
        apart = c.op("Equal", c.op("Mul", c.op("Sign", result), c.op("Sign", right)), c.scalar(-1, dtype))
        result = c.op("Where", apart, c.op("Add", result, right), result)
    return c.op("Where", nothing, zero, result)


@converter("_hypot", "broadcast_hypot")
def _hypot(c: ExportedNode) -> str:
    return c.op("Sqrt", c.op("Add", *(c.op("Mul", name, name) for name in c.inputs)))


@converter("clip")
def _clip(c: ExportedNode) -> str:
    return c.op("Clip", c.inputs[0], c.scalar(c.p["a_min"]), c.scalar(c.p["a_max"]))


@converter("hard_sigmoid")
def _hard_sigmoid(c: ExportedNode) -> str:
    return c.op("HardSigmoid", c.inputs[0], alpha=float(c.p["alpha"]), beta=float(c.p["beta"]))


@converter("where", "_npi_where")
def _where(c: ExportedNode) -> str:
    condition = c.cast(c.inputs[0], "bool")
    if c.ndim(0) == 1 and c.ndim(1) > 1 and c.op_type == "where":  # a condition for each row
        condition = c.op("Unsqueeze", condition, c.const(list(range(1, c.ndim(1)))))
    return c.op("Where", condition, *_alike(c, 1))


@converter("smooth_l1")
def _smooth_l1(c: ExportedNode) -> str:
    squared = c.p["scalar"] ** 2
    size = c.op("Abs", c.inputs[0])
    inside = c.op("Mul", c.op("Mul", size, size), c.scalar(0.5 * squared))
    return c.op("Where", c.op("Less", size, c.scalar(1 / squared)), inside, c.op("Sub", size, c.scalar(0.5 / squared)))


@converter("amp_multicast")
def _amp_multicast(c: ExportedNode) -> list[str]:
    return [c.cast(name, c.out_dtype(i)) for i, name in enumerate(c.inputs)]


# reductions
_REDUCED = {"sum": "ReduceSum", "mean": "ReduceMean", "max": "ReduceMax", "min": "ReduceMin", "prod": "ReduceProd",
            "_np_sum": "ReduceSum", "_npi_mean": "ReduceMean", "_np_max": "ReduceMax", "_np_min": "ReduceMin"}


def reduce(c: ExportedNode, op_type: str, data: str, axes: list[int] | None, keepdims: bool) -> str:
    """A reduction; ReduceSum takes its axes as an input, the others as an attribute."""
    if op_type == "ReduceSum":
        return c.op(op_type, data, *([] if axes is None else [c.const(axes)]), keepdims=int(keepdims))
    return c.op(op_type, data, axes=axes, keepdims=int(keepdims))


def axes_of(c: ExportedNode) -> list[int] | None:
    """The axes that a reduction's parameters name, None for all."""
    axis = c.p.get("axis")
    axes = None if axis is None or axis == () else [c.axis(a) for a in (axis if isinstance(axis, tuple) else (axis,))]
    if c.p.get("exclude") and axes is not None:
        axes = [a for a in range(c.ndim()) if a not in axes]
    return axes


def _reduced(onnx_name: str) -> Callable[[ExportedNode], str]:
    def convert(c: ExportedNode) -> str:
        axes = axes_of(c)
        result = reduce(c, onnx_name, c.inputs[0], axes, c.p["keepdims"])
        whole = axes is None and not c.p["keepdims"] and len(c.out_shape()) == 1
        return c.op("Reshape", result, c.const([1])) if whole else result
    return convert


for _name, _onnx in _REDUCED.items():
    converter(_name)(_reduced(_onnx))


@converter("norm")
def _norm(c: ExportedNode) -> str:
    c.need(c.p["ord"] in (1, 2), f"ord must be 1 or 2, is {c.p['ord']}")
    return _reduced({1: "ReduceL1", 2: "ReduceL2"}[c.p["ord"]])(c)


@converter("argmax", "argmin", "_npi_argmax", "_npi_argmin")
def _arg(c: ExportedNode) -> str:
    op_type = {"argmax": "ArgMax", "argmin": "ArgMin"}[c.op_type.removeprefix("_npi_")]
    data, axis = c.inputs[0], c.p["axis"]
    if axis is None:
        data, axis = c.op("Reshape", data, c.const([-1])), 0
    result = c.op(op_type, data, axis=axis, keepdims=int(c.p["keepdims"] or c.p["axis"] is None))
    return c.cast(result, c.out_dtype())


@converter("argmax_channel")
def _argmax_channel(c: ExportedNode) -> str:
    return c.cast(c.op("ArgMax", c.inputs[0], axis=-1, keepdims=0), c.out_dtype())


def folded(c: ExportedNode) -> str:
    """The operator's result as a constant: it depends on shapes and parameters only."""
    shapes = [c.static(c.shape(i), "the shape of an input") for i in range(len(c.inputs))]
    extra = {"shape": c.static(c.out_shape())} if "shape" in c.p else {}
    node = copied(c.node, [var(f"input{i}").handle[0] for i in range(len(c.inputs))], **extra)
    values = {f"input{i}": empty(shape, dtype=c.dtype(i)) for i, shape in enumerate(shapes)}
    return c.const(Symbol([(node, 0)]).eval(None, **values)[0].asnumpy(), c.out_dtype())


for _name in ("_zeros", "_ones", "_full", "_eye", "_arange", "_linspace", "_contrib_MultiBoxPrior",
              "_contrib_index_array", "_npi_zeros", "_npi_ones", "_npi_arange"):
    converter(_name)(folded)


_DRAWN = {"uniform": ("RandomUniform", {"low": "low", "high": "high"}),
          "normal": ("RandomNormal", {"loc": "mean", "scale": "scale"})}


def _drawn(name: str, names: dict[str, str], like: bool) -> Callable[[ExportedNode], str]:
    """Numbers of the runtime's own, which are others each time."""
    def convert(c: ExportedNode) -> str:
        attrs: dict[str, Any] = {new: float(c.p[old]) for old, new in names.items()}
        attrs["dtype"] = 1  # half precision is not known
        if like:
            return c.cast(c.op(f"{name}Like", c.inputs[0], **attrs), c.out_dtype())
        return c.cast(c.op(name, shape=list(c.static(c.out_shape())), **attrs), c.out_dtype())
    return convert


for _name, (_onnx, _attrs) in _DRAWN.items():
    converter(f"_random_{_name}")(_drawn(_onnx, _attrs, False))
    converter(f"_random_{_name}_like")(_drawn(_onnx, _attrs, True))


@converter("_sample_multinomial")
def _sample_multinomial(c: ExportedNode) -> str:
    c.need(not c.p["get_prob"], "get_prob=True")
    chances = c.op("Reshape", c.cast(c.inputs[0], "float32"), c.const([-1, *c.static(c.shape()[-1:])]))
    result = c.op("Multinomial", c.op("Log", chances), sample_size=math.prod(c.p["shape"]), dtype=6)
    return c.op("Reshape", c.cast(result, c.out_dtype()), c.const(c.static(c.out_shape())))


@converter("zeros_like", "ones_like")
def _like(c: ExportedNode) -> str:
    if None not in c.shape():
        return folded(c)
    fill = c.const(np.full((), c.op_type == "ones_like"), c.dtype())
    return c.op("Expand", fill, c.op("Shape", c.inputs[0]))
