"""Importers of ONNX operators, one line for a simple one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from ..ops.nn.recurrent import pieces
from ..symbol import Symbol, zeros
from ._export import package
from ._import import IMPORTERS, Call, Derived, importer
from ._to_rnn import _GATES

_FAR = 2**31 - 1


def _plain(kind: str, **params: Any) -> Callable[[Call], Symbol]:
    return lambda c: c.op(kind, c.sym(0), **params)


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
importer("GlobalAveragePool")(_plain("Pooling", kernel=(1, 1), global_pool=True, pool_type="avg"))
importer("GlobalLpPool")(lambda c: _lp_pooling(c, c.sym(0), kernel=(1, 1), global_pool=True))
importer("GlobalMaxPool")(_plain("Pooling", kernel=(1, 1), global_pool=True, pool_type="max"))
importer("HardSigmoid")(lambda c: c.op("hard_sigmoid", c.sym(0), alpha=c.attr("alpha", 0.2), beta=c.attr("beta", 0.5)))
importer("LRN")(lambda c: c.op("LRN", c.sym(0), alpha=c.attr("alpha", 1e-4), beta=c.attr("beta", 0.75),
                               knorm=c.attr("bias", 1.0), nsize=c.attr("size")))
importer("InstanceNormalization")(lambda c: c.op("InstanceNorm", c.sym(0), c.sym(1), c.sym(2),
                                                 eps=c.attr("epsilon", 1e-5)))
importer("Sum")(lambda c: reduce(lambda a, b: c.op("broadcast_add", a, b), _all(c)))
importer("Mean")(lambda c: reduce(lambda a, b: c.op("broadcast_add", a, b), _all(c)) / len(c.inputs))
importer("MatMul")(lambda c: c.op("_npi_matmul", c.sym(0), c.sym(1)))
importer("MaxRoiPool")(lambda c: c.op("ROIPooling", c.sym(0), c.sym(1), pooled_size=c.attr("pooled_shape"),
                                      spatial_scale=c.attr("spatial_scale", 1.0)))


importer("HardSwish")(lambda c: c.sym(0) * c.op("hard_sigmoid", c.sym(0), alpha=1 / 6, beta=0.5))
importer("Mish")(lambda c: c.sym(0) * c.op("tanh", c.op("Activation", c.sym(0), act_type="softrelu")))
importer("Swish")(lambda c: c.sym(0) * c.op("sigmoid", c.sym(0) * c.attr("alpha", 1.0)))
importer("IsNaN")(lambda c: c.op("_npi_isnan", c.sym(0)))
importer("ThresholdedRelu")(lambda c: c.sym(0) * (c.sym(0) > c.attr("alpha", 1.0)))
importer("Einsum")(lambda c: c.op("_npi_einsum", *_all(c), subscripts=c.attr("equation").replace(" ", "")))


@importer("Dropout")
def _dropout(c: Call) -> Symbol:
    trains = c.known(2) if c.has(2) else np.False_
    c.need(trains is not None and not trains.any(), "training_mode")
    return c.op("_copy", c.sym(0))


@importer("Selu")
def _selu(c: Call) -> Symbol:
    if not {"alpha", "gamma"} & set(c.attrs):
        return c.op("LeakyReLU", c.sym(0), act_type="selu")
    return c.op("LeakyReLU", c.sym(0), act_type="elu", slope=c.attr("alpha", 1.67326319)) * c.attr("gamma", 1.05070102)


@importer("Celu")
def _celu(c: Call) -> Symbol:
    alpha = c.attr("alpha", 1.0)
    return c.op("LeakyReLU", c.sym(0) / alpha, act_type="elu", slope=1.0) * alpha


@importer("Gelu")
def _gelu(c: Call) -> Symbol:
    if c.attr("approximate", "none") == "none":
        return c.op("LeakyReLU", c.sym(0), act_type="gelu")
    x = c.sym(0)
    return x * (c.op("tanh", (x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)) + 1) * 0.5


# ---------------------------------------------------------------- drawn numbers
def _drawn(name: str, names: dict[str, tuple[str, float]], like: bool) -> Callable[[Call], Symbol]:
    def convert(c: Call) -> Symbol:
        params = {new: c.attr(old, default) for old, (new, default) in names.items()}
        if like:
            c.need("dtype" not in c.attrs, "dtype other than that of the input")
            return c.op(f"_random_{name}_like", c.sym(0), **params)
        return c.op(f"_random_{name}", shape=c.attr("shape"), dtype=_named(c, c.attr("dtype", 1)), **params)
    return convert


for _onnx, _kind, _names in (("Uniform", "uniform", {"low": ("low", 0.0), "high": ("high", 1.0)}),
                             ("Normal", "normal", {"mean": ("loc", 0.0), "scale": ("scale", 1.0)})):
    importer(f"Random{_onnx}")(_drawn(_kind, _names, False))
    importer(f"Random{_onnx}Like")(_drawn(_kind, _names, True))


@importer("Multinomial")
def _multinomial(c: Call) -> Symbol:
    """Of logarithms of probabilities, which need not add up to 1."""
    chances = c.op("softmax", c.sym(0), axis=-1)
    result = c.op("_sample_multinomial", chances, shape=(c.attr("sample_size", 1),), dtype="int32")
    return c.op("Cast", result, dtype=_named(c, c.attr("dtype", 6)))


def _all(c: Call) -> list[Symbol]:
    return [c.sym(i) for i in range(len(c.inputs))]


# ---------------------------------------------------------------- constants and shapes
def _number(c: Call) -> np.ndarray:
    for name in ("value_float", "value_int", "value_floats", "value_ints"):
        if name in c.attrs:
            return np.asarray(c.attrs[name], np.int64 if "int" in name else np.float32)
    return package().numpy_helper.to_array(c.attrs["value"])


importer("Constant")(_number)


def _of_shape(c: Call, take: Callable[[tuple[int, ...]], Any], make: Callable[[], Symbol]) -> Any:
    """A number or a list of the first input's shape."""
    sizes = c.sized(0)
    if c.known(0) is not None and not c.derives(0):
        return np.array(take(c.given(c.shape(0), "a constant of an unknown shape")), np.int64)
    return make() if sizes is None else Derived([np.array(take(s), np.int64) for s in sizes], make)


@importer("Shape")
def _shape(c: Call) -> Any:
    some = slice(c.attr("start", 0), c.attr("end"))

    def make() -> Symbol:
        whole = c.op("shape_array", c.sym(0))
        return whole if some == slice(0, None) else c.op("slice", whole, begin=(some.start,), end=(some.stop,))
    return _of_shape(c, lambda shape: shape[some], make)


@importer("Size")
def _size(c: Call) -> Any:
    return _of_shape(c, math.prod, lambda: c.op("size_array", c.sym(0)))


_MOST_FOLDED = 1 << 20  # shapes are computed that way, which are short


def _folding(compute: Callable[..., Any]) -> Callable[[Callable], Callable]:
    """The importer of an operator that is also computed at once where all inputs are constant integers.

    `compute` gets the call and the inputs' values, and returns the result, or the list of results. Other numbers than
    integers are computed too where they are single, or derive from shapes.
    """
    def decorate(function: Callable[[Call], Any]) -> Callable[[Call], Any]:
        def convert(c: Call) -> Any:
            places = [i for i in range(len(c.inputs)) if c.has(i)]
            derives = any(c.derives(i) for i in places)
            if not all(_short(c, i, derives) for i in places):
                return function(c)
            results = c.for_each_size(lambda: _arrays(compute(c, *(c.known(i) for i in places))))
            if not derives:
                return results[0] if len(results[0]) > 1 else results[0][0]
            made: list[Symbol] = []

            def make(number: int) -> Symbol:
                if not made:
                    items = function(c)
                    made.extend(items if isinstance(items, (list, tuple, Symbol)) else [_symbol(c, items)])
                return made[number]
            items = [Derived(versions, lambda n=n: make(n)) for n, versions in enumerate(zip(*results, strict=True))]
            return items if len(items) > 1 else items[0]
        return convert
    return decorate


def _short(c: Call, index: int, derives: bool) -> bool:
    values = [c.known(index)] if not c.derives(index) else c.for_each_size(lambda: c.known(index))
    return all(v is not None and v.size <= _MOST_FOLDED and (v.dtype.kind in "iub" or v.size == 1 or derives)
               for v in values)


def _arrays(found: Any) -> list[np.ndarray]:
    return [np.asarray(f) for f in (found if isinstance(found, list) else [found])]


def _symbol(c: Call, found: Any) -> Symbol:
    return found.make() if isinstance(found, Derived) else c.param(found, "constant")


def _filled(c: Call) -> tuple[float, np.dtype]:
    fill = package().numpy_helper.to_array(c.attrs["value"]) if "value" in c.attrs else np.zeros(1, np.float32)
    return fill.reshape(-1)[0], fill.dtype


def _full(c: Call, shape: np.ndarray) -> np.ndarray:
    c.make(math.prod(shape.tolist()))
    return np.full(shape.tolist(), *_filled(c))


@importer("ConstantOfShape")
@_folding(_full)
def _constant_of_shape(c: Call) -> Any:
    if not c.derives(0):
        return _full(c, c.value(0))
    shape, dynamic = _dynamic(c.for_each_size(lambda: c.value(0).tolist()))
    return c.stretched(c.param(_full(c, np.array(shape)), "value"), dynamic)


def _dynamic(shapes: Sequence[Sequence[int]]) -> tuple[list[int], dict[int, list[int]]]:
    """(a shape with 1 for dynamic sizes, {axis: its size for each set of sizes})."""
    dynamic = {axis: list(sizes) for axis, sizes in enumerate(zip(*shapes, strict=True)) if len(set(sizes)) > 1}
    return [1 if axis in dynamic else n for axis, n in enumerate(shapes[0])], dynamic


def _numbers(c: Call, start: np.ndarray, stop: np.ndarray, step: np.ndarray) -> np.ndarray:
    c.make((stop.item() - start.item()) / step.item() if step.item() else math.inf)
    return np.arange(start.item(), stop.item(), step.item(), dtype=start.dtype)


@importer("Range")
@_folding(_numbers)
def _range(c: Call) -> Any:
    if c.derives(1) and c.known(1) is None:
        start, step = c.value(0).item(), c.value(2).item()
        c.need((start, step) == (0, 1), "a dynamic end, and another start than 0 or step than 1")
        return c.op("Cast", c.counted(c.for_each_size(lambda: c.value(1).item())), dtype=c.value(0).dtype.name)
    return _numbers(c, *(c.value(i) for i in range(3)))


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


def _two(tensor: str) -> Callable[[Call], Symbol]:
    def convert(c: Call) -> Symbol:
        left, right = c.known(0), c.known(1)
        if c.kind in _SCALARS and right is not None and right.size == 1 and right.ndim <= len(c.shape(0) or (1,) * 9):
            return c.op(_SCALARS[c.kind], c.sym(0), scalar=right.item())
        if c.kind in _TURNED and left is not None and left.size == 1 and left.ndim <= len(c.shape(1) or (1,) * 9):
            return c.op(_TURNED[c.kind], c.sym(1), scalar=left.item())
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
        _converter = _folding(lambda c, a, b, f=_NUMPY[_onnx]: f(a, b))(_converter)
    importer(_onnx)(_converter)


for _onnx, _function in {"Max": np.maximum, "Min": np.minimum}.items():
    importer(_onnx)(_folding(lambda c, *all, f=_function: reduce(f, all))(
        lambda c, kind=f"broadcast_{_function.__name__}": reduce(lambda a, b: c.op(kind, a, b), _all(c))))
for _onnx, _function in {"Abs": np.abs, "Neg": np.negative, "Not": np.logical_not, "Floor": np.floor, "Ceil": np.ceil,
                         "Sqrt": np.sqrt, "Identity": np.copy}.items():
    importer(_onnx)(_folding(lambda c, x, f=_function: f(x))(IMPORTERS[_onnx]))


@importer("Mod")
@_folding(lambda c, a, b: (np.fmod if c.attr("fmod", 0) else np.mod)(a, b))
def _mod(c: Call) -> Symbol:
    if not c.attr("fmod", 0):
        return _two("broadcast_mod")(c)
    size = c.op("broadcast_mod", c.op("abs", c.sym(0)), c.op("abs", c.sym(1)))  # the sign is that of the dividend
    return c.op("broadcast_mul", c.op("sign", c.sym(0)), size)


@importer("Where")
@_folding(lambda c, chosen, a, b: np.where(chosen, a, b))
def _where(c: Call) -> Symbol:
    return c.op("_npi_where", c.op("_not_equal_scalar", c.sym(0), scalar=0), c.sym(1), c.sym(2))


def _dtype(c: Call) -> np.dtype:
    return np.dtype(package().helper.tensor_dtype_to_np_dtype(c.attr("to")))


def _named(c: Call, kind: int) -> str:
    return np.dtype(package().helper.tensor_dtype_to_np_dtype(kind)).name


@importer("Cast")
@_folding(lambda c, x: x.astype(_dtype(c)))
def _cast(c: Call) -> Symbol:
    dtype = _dtype(c)
    if dtype.kind == "b":
        return c.op("_not_equal_scalar", c.sym(0), scalar=0)
    return c.op("Cast", c.sym(0), dtype=dtype.name)


@importer("Clip")
def _clip(c: Call) -> Symbol:
    low, high = (c.value(i).item() if c.has(i) else c.attr(name, default)
                 for i, name, default in ((1, "min", -np.finfo(np.float32).max), (2, "max", np.finfo(np.float32).max)))
    return c.op("clip", c.sym(0), a_min=float(low), a_max=float(high))


@importer("PRelu")
def _prelu(c: Call) -> Symbol:
    slope, data = c.shape(1), c.shape(0)
    channels = slope is not None and all(n == 1 for n in slope[1:]) and (len(slope) > 1 or slope == (1,))
    if slope and data and data[1:2] == slope and data[-1] not in (1, *slope):
        channels, data = True, None  # as MXNet wrote it: by ONNX's rules it would not fit
    if channels and (slope is None or data is None or len(slope) in (1, len(data) - 1)):
        return c.op("LeakyReLU", c.sym(0), c.op("Reshape", c.sym(1), shape=(-1,)), act_type="prelu")
    least = c.op("broadcast_mul", c.op("_minimum_scalar", c.sym(0), scalar=0), c.sym(1))
    return c.op("broadcast_add", c.op("relu", c.sym(0)), least)


# ---------------------------------------------------------------- shapes
def _sized(c: Call) -> list[tuple[int, ...]]:
    """The data's shape for each set of sizes."""
    return c.given(c.sized(0), "dynamic sizes and data of an unknown shape")


def _filled_in(c: Call, shape: tuple[int, ...], wanted: Sequence[int]) -> tuple[int, ...]:
    """A wanted shape, in which 0 stood for the size that the data has there."""
    kept = not c.attr("allowzero", 0)
    c.need(not kept or all(n or i < len(shape) for i, n in enumerate(wanted)), f"shape {wanted} of data {shape}")
    return tuple(shape[i] if n == 0 and kept else n for i, n in enumerate(wanted))


@importer("Reshape")
@_folding(lambda c, x, shape: x.reshape(_filled_in(c, x.shape, shape.tolist())))
def _reshape(c: Call) -> Symbol:
    if not c.derives(1) or c.known(1) is not None:
        shape = c.listed(1, "shape")
        c.need(not c.attr("allowzero", 0) or 0 not in shape, "a size of 0 with allowzero")
        return c.op("Reshape", c.sym(0), shape=shape)
    wanted, shapes = c.for_each_size(lambda: c.value(1).reshape(-1).tolist()), _sized(c)
    c.need(len({len(w) for w in wanted}) == 1, "the number of dimensions depends on dynamic sizes")
    wanted = [_resolved(c, shape, w) for shape, w in zip(shapes, wanted, strict=True)]
    old, new = (list(zip(*versions, strict=True)) for versions in (shapes, wanted))
    return c.op("Reshape", c.sym(0), shape=_spelled(c, old, new))


def _resolved(c: Call, shape: tuple[int, ...], wanted: list[int]) -> tuple[int, ...]:
    """A wanted shape with all its sizes."""
    known = _filled_in(c, shape, wanted)
    rest = math.prod(shape) // max(math.prod(n for n in known if n != -1), 1)
    return tuple(rest if n == -1 else n for n in known)


def _spelled(c: Call, sizes: Sequence[tuple], wanted: Sequence[tuple]) -> tuple[int, ...]:
    """A wanted shape in the language of MXNet's Reshape.

    0 keeps a size, -3 merges two of them, -4 splits one in two, -1 follows from the others. Sizes are tuples: one for
    each set of dynamic sizes.
    """
    def product(first: tuple, second: tuple) -> tuple:
        return tuple(a * b for a, b in zip(first, second, strict=True))

    def number(size: tuple, otherwise: int = -1) -> int:
        return size[0] if len(set(size)) == 1 else otherwise
    old, new, spelled, followers = list(sizes), list(wanted), [], 0
    while new:
        size = new.pop(0)
        if old and size == old[0]:
            spelled.append(number(size, 0))
        elif len(old) > 1 and size == product(*old[:2]):
            spelled.append(-3)
            del old[0]
        elif old and new and product(size, new[0]) == old[0] and number(size) + number(new[0]) > -2:
            spelled += [-4, number(size), number(new.pop(0))]
        else:
            spelled.append(number(size))
            followers += number(size) == -1
        del old[:1]
    c.need(followers < 2, "more than one dynamic size that the data has not")
    return tuple(spelled)


@importer("Flatten")
def _flatten(c: Call) -> Symbol:
    axis = c.attr("axis", 1)
    if axis == 1:
        return c.op("Flatten", c.sym(0))
    shape = c.given(c.shape(0), "axis other than 1 of an unknown shape")
    return c.op("Reshape", c.sym(0), shape=(math.prod(shape[:axis]), -1))


@importer("Transpose")
@_folding(lambda c, x: np.transpose(x, c.attr("perm")))
def _transpose(c: Call) -> Symbol:
    return c.op("transpose", c.sym(0), axes=c.attr("perm", ()))


@importer("Unsqueeze")
@_folding(lambda c, x, *axes: np.expand_dims(x, c.listed(1, "axes")))
def _unsqueeze(c: Call) -> Symbol:
    axes = c.listed(1, "axes")
    if any(a < 0 for a in axes) and len(axes) > 1:
        ndim = len(c.shape(0) or ()) + len(axes)
        axes = [a % ndim for a in axes]
    return reduce(lambda x, a: c.op("expand_dims", x, axis=a), sorted(axes), c.sym(0))


@importer("Squeeze")
@_folding(lambda c, x, *axes: np.squeeze(x, c.listed(1, "axes")))
def _squeeze(c: Call) -> Symbol:
    return c.op("squeeze", c.sym(0), axis=c.listed(1, "axes"))


@importer("Concat")
@_folding(lambda c, *parts: np.concatenate(parts, c.attr("axis")))
def _concat(c: Call) -> Symbol:
    return c.op("Concat", *_all(c), dim=c.attr("axis"))


def _ends(c: Call) -> tuple[int, ...]:
    """Returns the end of a slice; a dynamic end must be that of the axis."""
    if not c.derives(2) or c.known(2) is not None:
        return c.listed(2, "ends")
    ends = c.for_each_size(lambda: c.value(2).reshape(-1).tolist())
    axes = c.listed(3, "axes") or range(len(ends[0]))
    shapes = c.given(c.sized(0), "dynamic ends of an unknown shape")
    results = []
    for axis, sizes in zip(axes, zip(*ends, strict=True), strict=True):
        whole = all(n >= shape[axis] for n, shape in zip(sizes, shapes, strict=True))
        c.need(whole or len(set(sizes)) == 1, "a dynamic end inside an axis")
        results.append(_FAR if whole else sizes[0])
    return tuple(results)


def _parts(c: Call) -> dict[int, tuple]:
    """{axis: (begin, end, step)} of a slice; None where it is an end."""
    begins, ends = c.listed(1, "starts"), _ends(c)
    axes = c.listed(3, "axes") or range(len(begins))
    steps = c.listed(4, "steps") or (1,) * len(begins)
    return {a: (None if s < 0 and b >= _FAR else b, None if e >= _FAR or e <= -_FAR else e, s)
            for a, b, e, s in zip(axes, begins, ends, steps, strict=True)}


def _cut(c: Call, x: np.ndarray, *rest: np.ndarray) -> np.ndarray:
    parts = _parts(c)
    return x[tuple(slice(*parts.get(i, (None,))) for i in range(x.ndim))]


@importer("Slice")
@_folding(_cut)
def _slice(c: Call) -> Symbol:
    parts, shape = _parts(c), c.shape(0)
    if min(parts, default=0) < 0 and shape is None:
        c.need(all(step == 1 for _, _, step in parts.values()),
               "steps along an axis from the end of an unknown shape")
        return reduce(lambda x, item: c.op("slice_axis", x, axis=item[0], begin=item[1][0] or 0, end=item[1][1]),
                      parts.items(), c.sym(0))
    ndim = len(shape) if shape else max(parts, default=0) + 1
    parts = {a % ndim: part for a, part in parts.items()}
    columns = [parts.get(i, (None, None, None)) for i in range(max(parts, default=0) + 1)]
    return c.op("slice", c.sym(0), **dict(zip(("begin", "end", "step"), map(tuple, zip(*columns, strict=True)),
                                             strict=True)))


def _pieces(c: Call, x: np.ndarray, *sizes: np.ndarray) -> list[np.ndarray]:
    parts = c.listed(1, "split") or _even(x.shape[c.attr("axis", 0)], len(c.outputs))
    return np.split(x, np.cumsum(parts)[:-1], c.attr("axis", 0))


def _even(length: int, count: int) -> list[int]:
    """Lengths of parts that are equal, but for a last one that is smaller."""
    each = -(-length // count)
    return [min(each, length - begin) for begin in range(0, length, each)]


@importer("Split")
@_folding(_pieces)
def _split(c: Call) -> Any:
    axis, sizes, shape = c.attr("axis", 0), c.listed(1, "split"), c.shape(0)
    if "num_outputs" in c.attrs and shape is not None and shape[axis] % len(c.outputs):  # the last part is smaller
        sizes = _even(shape[axis], len(c.outputs))
    if not sizes or len(set(sizes)) == 1:
        return c.op("SliceChannel", c.sym(0), axis=axis, num_outputs=len(c.outputs))
    starts = [0, *np.cumsum(sizes).tolist()]
    return [c.op("slice_axis", c.sym(0), axis=axis, begin=a, end=b)
            for a, b in zip(starts, starts[1:], strict=False)]


@importer("Gather")
@_folding(lambda c, x, i: np.take(x, i, c.attr("axis", 0)))
def _gather(c: Call) -> Symbol:
    axis, places = c.attr("axis", 0), c.known(1)
    if places is not None and places.ndim == 0:
        end = places.item() + 1
        part = c.op("slice_axis", c.sym(0), axis=axis, begin=places.item(), end=end or None)
        return c.op("squeeze", part, axis=axis)
    inside = places is not None and (not places.size or places.min() >= 0)
    return c.op("take", c.sym(0), c.sym(1), axis=axis, mode="clip" if inside else "wrap")


@importer("GatherND")
@_folding(lambda c, x, places: x[tuple(np.moveaxis(places, -1, 0))])
def _gather_nd(c: Call) -> Symbol:
    shape = c.given(None if c.attr("batch_dims", 0) else c.shape(1), "indices of unknown shape, or batch_dims")
    axes = (len(shape) - 1, *range(len(shape) - 1))
    return c.op("gather_nd", c.sym(0), c.op("transpose", c.sym(1), axes=axes))


def _scattered(c: Call, x: np.ndarray, places: np.ndarray, values: np.ndarray) -> np.ndarray:
    c.need(c.attr("reduction", "none") == "none", "a reduction")
    x = x.copy()
    x[tuple(np.moveaxis(places, -1, 0))] = values
    return x


@importer("ScatterND")
@_folding(_scattered)
def _scatter_nd(c: Call) -> Symbol:
    shape = c.given(c.shape(1), "places of unknown shape")
    c.need(c.attr("reduction", "none") == "none", "a reduction")
    places = c.op("transpose", c.sym(1), axes=(len(shape) - 1, *range(len(shape) - 1)))
    return c.op("_scatter_set_nd", c.sym(0), c.sym(2), places, shape=c.shape(0) or ())


def _wide(c: Call, x: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    shape = np.broadcast_shapes(x.shape, wanted.tolist())
    c.make(math.prod(shape))
    return np.broadcast_to(x, shape)


@importer("Expand")
@_folding(_wide)
def _expand(c: Call) -> Symbol:
    shape = c.shape(0)
    if c.derives(1) and c.known(1) is None:
        return _expand_dynamic(c)
    wanted = c.listed(1, "shape")
    if shape is not None:
        return c.op("_npi_broadcast_to", c.sym(0), shape=np.broadcast_shapes(shape, wanted))
    return c.op("broadcast_mul", c.sym(0), c.op("_ones", shape=wanted))


def _expand_dynamic(c: Call) -> Symbol:
    wanted, shapes = c.for_each_size(lambda: c.value(1).tolist()), _sized(c)
    shapes = [shape or (1,) for shape in shapes]  # so long is a parameter without dimensions
    wide = [np.broadcast_shapes(shape, w) for shape, w in zip(shapes, wanted, strict=True)]
    data = c.sym(0)
    for _ in range(len(wide[0]) - len(shapes[0])):
        data = c.op("expand_dims", data, axis=0)
    offset = len(wide[0]) - len(shapes[0])
    target, dynamic = _dynamic(wide)
    for axis in list(dynamic):
        if axis >= offset and [shape[axis - offset] for shape in shapes] == dynamic[axis]:
            target[axis] = 0  # broadcast_to keeps the size
            del dynamic[axis]
    return c.stretched(c.op("broadcast_to", data, shape=tuple(target)), dynamic)


def _repeated(c: Call, x: np.ndarray, repeats: np.ndarray) -> np.ndarray:
    c.make(x.size * math.prod(repeats.tolist()))
    return np.tile(x, repeats.tolist())


@importer("Tile")
@_folding(_repeated)
def _tile(c: Call) -> Symbol:
    return c.op("tile", c.sym(0), reps=c.listed(1, "repeats"))


def _with_borders(c: Call, x: np.ndarray, *rest: np.ndarray) -> np.ndarray:
    pads = c.listed(1, "pads")
    c.make(x.size + sum(map(abs, pads)) if x.ndim == 1 else _MOST_FOLDED)
    c.need(min(pads, default=0) >= 0 and c.attr("mode", "constant") == "constant", "such padding of a constant")
    sides = list(zip(pads[:len(pads) // 2], pads[len(pads) // 2:], strict=True))
    return np.pad(x, sides, constant_values=rest[1].item() if len(rest) > 1 else c.attr("value", 0))


@importer("Pad")
@_folding(_with_borders)
def _pad(c: Call) -> Symbol:
    pads = c.listed(1, "pads")
    width = [n for pair in zip(pads[:len(pads) // 2], pads[len(pads) // 2:], strict=True) for n in pair]
    value = c.value(2).item() if c.has(2) else c.attr("value", 0.0)
    return c.op("Pad", c.sym(0), mode=c.attr("mode", "constant"), pad_width=tuple(width), constant_value=value)


@importer("OneHot")
def _one_hot(c: Call) -> Symbol:
    c.need(c.attr("axis", -1) == -1, "axis other than -1")
    off, on = c.value(2).tolist()
    return c.op("one_hot", c.sym(0), depth=int(c.value(1).item()), on_value=on, off_value=off,
                dtype=c.value(2).dtype.name)


@importer("DepthToSpace")
def _depth_to_space(c: Call) -> Symbol:
    return _blocks(c, "depth_to_space")


@importer("SpaceToDepth")
def _space_to_depth(c: Call) -> Symbol:
    return _blocks(c, "space_to_depth")


def _blocks(c: Call, kind: str) -> Symbol:
    if c.attr("mode", "DCR") == "DCR":
        return c.op(kind, c.sym(0), block_size=c.attr("blocksize"))
    block = c.attr("blocksize")
    n, depth, height, width = c.given(c.shape(0), "mode CRD of an unknown shape")
    if kind == "depth_to_space":
        parts, axes = (n, depth // block ** 2, block, block, height, width), (0, 1, 4, 2, 5, 3)
        result = (n, depth // block ** 2, height * block, width * block)
    else:
        parts, axes = (n, depth, height // block, block, width // block, block), (0, 1, 3, 5, 2, 4)
        result = (n, depth * block ** 2, height // block, width // block)
    return c.op("Reshape", c.op("transpose", c.op("Reshape", c.sym(0), shape=parts), axes=axes), shape=result)


@importer("ReverseSequence")
def _reverse_sequence(c: Call) -> Symbol:
    c.need((c.attr("batch_axis", 1), c.attr("time_axis", 0)) == (1, 0), "time_axis other than 0")
    return c.op("SequenceReverse", c.sym(0), c.sym(1), use_sequence_length=True)


@importer("Trilu")
def _trilu(c: Call) -> Symbol:
    k = int(c.value(1).item()) if c.has(1) else 0
    if not c.attr("upper", 1):
        return c.op("_npi_tril", c.sym(0), k=k)
    below = c.op("_npi_tril", c.op("ones_like", c.sym(0)), k=k - 1)
    return c.op("_npi_where_lscalar", below, c.sym(0), scalar=0)


@importer("Hardmax")
def _hardmax(c: Call) -> Symbol:
    axis, shape = c.attr("axis", -1 if c.opset >= 13 else 1), c.given(c.shape(0), "an unknown shape")
    axis %= len(shape)
    if c.opset < 13:  # all axes from this one on are one
        flat = c.op("Reshape", c.sym(0), shape=(math.prod(shape[:axis]), -1))
        one = c.op("one_hot", c.op("argmax", flat, axis=1), depth=math.prod(shape[axis:]))
        return c.op("Reshape", one, shape=shape)
    one = c.op("one_hot", c.op("argmax", c.sym(0), axis=axis), depth=shape[axis])
    order = list(range(len(shape) - 1))
    return c.op("transpose", one, axes=(*order[:axis], len(shape) - 1, *order[axis:]))


@importer("CumSum")
def _cumsum(c: Call) -> Symbol:
    c.need(not c.attr("exclusive", 0) and not c.attr("reverse", 0), "exclusive or reverse")
    return c.op("_np_cumsum", c.sym(0), axis=int(c.value(1).item()))


@importer("TopK")
def _topk(c: Call) -> Symbol:
    count = int(c.value(1).item()) if c.has(1) else c.attr("k")
    return c.op("topk", c.sym(0), k=count, axis=c.attr("axis", -1), ret_typ="both", is_ascend=not c.attr("largest", 1),
                dtype="int64")


@importer("NonMaxSuppression")
def _nms(c: Call) -> Symbol:
    """Rows (batch, class, box) of what is kept, each class's in order of score: as many as the values say."""
    most = int(c.value(2).item()) if c.has(2) else 0
    shape = c.given(c.shape(1) if most > 0 else None,
                    "an unknown number of boxes, or max_output_boxes_per_class of 0")
    overlap, least = (float(c.value(i).item()) if c.has(i) else d for i, d in ((3, 0.0), (4, -3e38)))
    scores, boxes = c.op("expand_dims", c.sym(1), axis=3), c.sym(0)
    if not c.attr("center_point_box", 0):  # two corners, any two
        ends = [c.op("slice_axis", boxes, axis=2, begin=i, end=i + 2) for i in (0, 2)]
        boxes = c.op("Concat", c.op("broadcast_minimum", *ends), c.op("broadcast_maximum", *ends), dim=2)
    boxes = c.op("broadcast_like", c.op("expand_dims", boxes, axis=1), scores, lhs_axes=(1,), rhs_axes=(1,))
    numbers = [c.op("Reshape", c.op("_contrib_arange_like", scores, axis=axis), shape=place)
               for axis, place in enumerate([(-1, 1, 1, 1), (1, -1, 1, 1), (1, 1, -1, 1)])]
    rows = c.op("Concat", scores, boxes, *[c.op("broadcast_like", n, scores) for n in numbers], dim=3)
    form = "center" if c.attr("center_point_box", 0) else "corner"
    kept = c.op("_contrib_box_nms", rows, overlap_thresh=overlap, valid_thresh=least, coord_start=1, score_index=0,
                in_format=form, out_format=form)
    kept = c.op("slice_axis", kept, axis=2, begin=0, end=min(most, shape[2]))  # what is not kept is -1, at the end
    kept = c.op("Reshape", c.op("slice_axis", kept, axis=3, begin=5, end=8), shape=(-1, 3))
    there = c.op("Reshape", c.op("slice_axis", kept, axis=1, begin=0, end=1), shape=(-1,))
    there = c.op("_greater_equal_scalar", there, scalar=0)
    return c.op("Cast", c.op("_contrib_boolean_mask", kept, there), dtype="int64")


# ---------------------------------------------------------------- reductions
def _reduced(kind: str, before: str | None = None, after: str | None = None) -> Callable[[Call], Symbol]:
    def convert(c: Call) -> Symbol:
        axes = c.listed(1, "axes")
        data = c.sym(0) if before is None else c.op(before, c.sym(0))
        result = c.op(kind, data, axis=axes or (), keepdims=bool(c.attr("keepdims", 1)))
        return result if after is None else c.op(after, result)
    return convert


for _onnx, _args in {"ReduceSum": ("sum",), "ReduceMean": ("mean",), "ReduceMax": ("max",), "ReduceMin": ("min",),
                     "ReduceProd": ("prod",), "ReduceSumSquare": ("sum", "square"), "ReduceL1": ("sum", "abs"),
                     "ReduceL2": ("sum", "square", "sqrt"), "ReduceLogSum": ("sum", None, "log"),
                     "ReduceLogSumExp": ("sum", "exp", "log")}.items():
    importer(_onnx)(_reduced(*_args))
for _onnx, _function in {"ReduceSum": np.sum, "ReduceMax": np.max, "ReduceMin": np.min, "ReduceProd": np.prod}.items():
    importer(_onnx)(_folding(lambda c, x, *axes, f=_function: f(
        x, c.listed(1, "axes"), keepdims=bool(c.attr("keepdims", 1))))(IMPORTERS[_onnx]))


@importer("ArgMax", "ArgMin")
def _arg(c: Call) -> Symbol:
    axis, data = c.attr("axis", 0), c.sym(0)
    shape = c.given(c.shape(0), "select_last_index of an unknown shape") if c.attr("select_last_index", 0) else None
    if shape is not None:
        data = c.op("reverse", data, axis=(axis % len(shape),))
    result = c.op("Cast", c.op(c.kind.lower(), data, axis=axis, keepdims=bool(c.attr("keepdims", 1))), dtype="int64")
    return result if shape is None else c.op("_rminus_scalar", result, scalar=shape[axis] - 1)


@importer("Softmax", "LogSoftmax")
def _softmax(c: Call) -> Symbol:
    axis, shape = c.attr("axis", -1 if c.opset >= 13 else 1), c.shape(0)
    kind = "softmax" if c.kind == "Softmax" else "log_softmax"
    if c.opset >= 13 or axis == -1 or shape is not None and axis % len(shape) == len(shape) - 1:
        return c.op(kind, c.sym(0), axis=axis)
    if axis < 0:
        axis %= len(c.given(shape, "an axis from the end of an unknown shape"))
    flat = c.op("Reshape", c.sym(0), shape=(*(0,) * axis, -1))  # all axes from this one on are one
    return c.op("reshape_like", c.op(kind, flat, axis=-1), c.sym(0))


@importer("LpNormalization")
def _lp_normalization(c: Call) -> Symbol:
    norm = c.op("norm", c.sym(0), ord=c.attr("p", 2), axis=c.attr("axis", -1), keepdims=True)
    return c.op("broadcast_div", c.sym(0), norm + (norm == 0))  # nothing stays nothing


# ---------------------------------------------------------------- layers
def _padded(c: Call, kernel: Sequence[int], fill: float = 0.0) -> tuple[Symbol, tuple[int, ...]]:
    """(data, padding): what is not the same on both sides is put around the data beforehand."""
    dims, mode = len(kernel), c.attr("auto_pad", "NOTSET")
    pads = c.attr("pads", (0,) * (2 * dims))
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        shape = c.given(c.shape(0), f"auto_pad {mode} of an unknown shape")
        strides, dilations = (c.attr(name, (1,) * dims) for name in ("strides", "dilations"))
        total = [max((math.ceil(n / s) - 1) * s + (k - 1) * d + 1 - n, 0)
                 for n, k, s, d in zip(shape[2:], kernel, strides, dilations, strict=True)]
        small, large = [t // 2 for t in total], [t - t // 2 for t in total]
        pads = (*small, *large) if mode == "SAME_UPPER" else (*large, *small)
    if pads[:dims] == pads[dims:]:
        return c.sym(0), tuple(pads[:dims])
    width = [0, 0, 0, 0, *(n for pair in zip(pads[:dims], pads[dims:], strict=True) for n in pair)]
    return c.op("Pad", c.sym(0), mode="constant", pad_width=tuple(width), constant_value=fill), (0,) * dims


@importer("Conv")
def _conv(c: Call) -> Symbol:
    weight = c.given(c.shape(1), "weights of an unknown shape")
    kernel = c.attr("kernel_shape", weight[2:])
    data, pad = _padded(c, kernel)
    rest = [c.sym(i) for i in range(1, len(c.inputs)) if c.has(i)]
    return c.op("Convolution", data, *rest, kernel=kernel, stride=c.attr("strides", ()), pad=pad,
                dilate=c.attr("dilations", ()), num_filter=weight[0], num_group=c.attr("group", 1),
                no_bias=len(rest) == 1)


@importer("ConvTranspose")
def _conv_transpose(c: Call) -> Symbol:
    weight = c.given(c.shape(1), "weights of an unknown shape")
    kernel = c.attr("kernel_shape", weight[2:])
    pads = c.attr("pads", (0,) * (2 * len(kernel)))
    c.need(pads[:len(kernel)] == pads[len(kernel):] and c.attr("auto_pad", "NOTSET") == "NOTSET"
           and "output_shape" not in c.attrs, "uneven padding, auto_pad or output_shape")
    rest = [c.sym(i) for i in range(1, len(c.inputs)) if c.has(i)]
    return c.op("Deconvolution", c.sym(0), *rest, kernel=kernel, stride=c.attr("strides", ()),
                pad=pads[:len(kernel)], dilate=c.attr("dilations", ()), adj=c.attr("output_padding", ()),
                num_filter=weight[1] * c.attr("group", 1), num_group=c.attr("group", 1), no_bias=len(rest) == 1)


@importer("MaxPool", "AveragePool", "LpPool")
def _pool(c: Call) -> Symbol:
    kind = {"MaxPool": "max", "AveragePool": "avg", "LpPool": "lp"}[c.kind]
    kernel = c.attr("kernel_shape")
    data, pad = _padded(c, kernel, -3e38 if kind == "max" else 0.0)
    counted = bool(c.attr("count_include_pad", 0))
    c.need(kind == "max" or data is c.sym(0) or counted, "uneven padding that does not count")
    c.need(set(c.attr("dilations", (1,))) == {1}, "dilations")
    strides, full = c.attr("strides", (1,) * len(kernel)), bool(c.attr("ceil_mode", 0))
    window = {"kernel": kernel, "stride": strides, "pad": pad, "pooling_convention": "full" if full else "valid"}
    if kind == "lp":
        result = _lp_pooling(c, data, **window)
    else:
        extra = {"count_include_pad": counted} if kind == "avg" else {}
        result = c.op("Pooling", data, pool_type=kind, **window, **extra)
    if not full or all(k >= s + p for k, s, p in zip(kernel, strides, pad, strict=True)):
        return result  # no window can begin behind the image
    c.need(c.shape(0) is not None, "ceil_mode with such strides and an unknown shape")
    _, outs, _ = data.infer_shape_partial(**{k: v for k, v in c.shapes.items() if k in data.list_inputs()})
    for axis, (n, k, s, p) in enumerate(zip(outs[0][2:], kernel, strides, pad, strict=True), 2):
        count = -(-(n + 2 * p - k) // s) + 1
        if (count - 1) * s >= n + p:  # MXNet's last window, but not ONNX's, may begin behind the image
            result = c.op("slice_axis", result, axis=axis, begin=0, end=count - 1)
    return result


def _lp_pooling(c: Call, data: Symbol, **window: Any) -> Symbol:
    """The p-th root of the sum of |x|^p."""
    power = c.attr("p", 2)
    total = c.op("Pooling", c.op("_power_scalar", c.op("abs", data), scalar=power), pool_type="sum", **window)
    return c.op("_power_scalar", total, scalar=1 / power)


@importer("BatchNormalization")
def _batch_norm(c: Call) -> Symbol:
    result = c.op("BatchNorm", *(c.sym(i) for i in range(5)), fix_gamma=False, eps=c.attr("epsilon", 1e-5),
                  momentum=c.attr("momentum", 0.9))
    return result[0]


@importer("LayerNormalization")
def _layer_norm(c: Call) -> Symbol:
    c.need(c.attr("axis", -1) == -1 or (c.shape(0) or ())[c.attr("axis"):] == (c.shape(0) or (0,))[-1:], "several axes")
    beta = c.sym(2) if c.has(2) else \
        c.param(np.zeros(c.given(c.shape(1), "a scale of an unknown shape"), np.float32), "beta")
    return c.op("LayerNorm", c.sym(0), c.sym(1), beta, axis=-1, eps=c.attr("epsilon", 1e-5))


@importer("GroupNormalization")
def _group_norm(c: Call) -> Symbol:
    groups, eps = c.attr("num_groups"), c.attr("epsilon", 1e-5)
    if c.shape(1) == (groups,):
        return c.op("GroupNorm", c.sym(0), c.sym(1), c.sym(2), num_groups=groups, eps=eps)
    shape = c.given(c.shape(0), "factors for channels of an unknown shape")
    one, nothing = (c.param(np.full(groups, n, np.float32), name) for n, name in ((1, "gamma"), (0, "beta")))
    scale, shift = (c.op("Reshape", c.sym(i), shape=(1, -1, *(1,) * (len(shape) - 2))) for i in (1, 2))
    normal = c.op("GroupNorm", c.sym(0), one, nothing, num_groups=groups, eps=eps)
    return c.op("broadcast_add", c.op("broadcast_mul", normal, scale), shift)


@importer("RoiAlign")
def _roi_align(c: Call) -> Symbol:
    mode = c.attr("coordinate_transformation_mode", "half_pixel" if c.opset >= 16 else "output_half_pixel")
    c.need(c.attr("mode", "avg") == "avg", "mode max")
    batch = c.op("expand_dims", c.op("Cast", c.sym(2), dtype="float32"), axis=1)
    return c.op("_contrib_ROIAlign", c.sym(0), c.op("Concat", batch, c.sym(1), dim=1),
                pooled_size=(c.attr("output_height", 1), c.attr("output_width", 1)),
                spatial_scale=c.attr("spatial_scale", 1.0), sample_ratio=c.attr("sampling_ratio", 0) or -1,
                aligned=mode == "half_pixel")


@importer("Gemm")
def _gemm(c: Call) -> Symbol:
    alpha, beta = c.attr("alpha", 1.0), c.attr("beta", 1.0)
    left, right, weight = bool(c.attr("transA", 0)), bool(c.attr("transB", 0)), c.shape(1)
    bias = c.shape(2) if c.has(2) else None
    if alpha == beta == 1 and right and not left and weight is not None and bias in (None, weight[:1]):
        rest = [c.sym(i) for i in range(1, 2 + c.has(2))]
        return c.op("FullyConnected", c.sym(0), *rest, num_hidden=weight[0], no_bias=not c.has(2), flatten=False)
    product = c.op("dot", c.sym(0), c.sym(1), transpose_a=left, transpose_b=right) * alpha
    return c.op("broadcast_add", product, c.sym(2) * beta) if c.has(2) else product


@importer("Resize", "Upsample")
def _resize(c: Call) -> Symbol:
    what = "data of an unknown shape, or not of 4 dimensions"
    shape, last = c.given(c.shape(0), what), len(c.inputs) - 1
    c.need(len(shape) == 4, what)
    if c.has(3):
        size = c.value(3)[2:].tolist()
    else:
        scales = c.value(last) if last else np.asarray(c.attr("scales"))
        size = [int(n * s) for n, s in zip(shape[2:], scales[2:].tolist(), strict=True)]
    default = "half_pixel" if c.opset >= 11 else "asymmetric"
    places = c.attr("coordinate_transformation_mode", default)
    if c.attr("mode", "nearest") == "nearest":
        rounding = c.attr("nearest_mode", "round_prefer_floor" if c.opset >= 11 else "floor")
        c.need((places, rounding) == ("asymmetric", "floor") or places == "half_pixel" and rounding.startswith("round"),
               f"nearest neighbours with {places} and {rounding}")
        c.need(size[0] // shape[2] == size[1] // shape[3] and not size[0] % shape[2] and not size[1] % shape[3],
               f"nearest neighbours from {shape[2:]} to {size}")
        return c.op("UpSampling", c.sym(0), scale=size[0] // shape[2], sample_type="nearest", num_args=1)
    c.need(c.attr("mode") == "linear" and places in ("half_pixel", "align_corners") and not c.attr("antialias", 0),
           f"mode {c.attr('mode')} with {places}")
    return c.op("_contrib_BilinearResize2D", c.sym(0), height=size[0], width=size[1],
                align_corners=places == "align_corners")


def _whole(c: Call) -> bool:
    """Returns whether all sequences of a recurrent layer are as long as the data."""
    sizes = c.sized(0)
    if not c.has(4):
        return True
    if sizes is None or not c.derives(4) and c.known(4) is None:
        return False
    lengths = c.for_each_size(lambda: c.known(4))
    return all((n == shape[0]).all() for n, shape in zip(lengths, sizes, strict=True))


_MODES = {"LSTM": "lstm", "GRU": "gru", "RNN": "rnn_tanh"}


@importer("LSTM", "GRU", "RNN")
def _recurrent(c: Call) -> list[Symbol]:
    mode, size = _MODES[c.kind], c.attr("hidden_size")
    activations = {a.decode() if isinstance(a, bytes) else a for a in c.attr("activations", ())}
    if c.kind == "RNN" and activations:
        c.need(len(activations) == 1, "different activations")
        mode = f"rnn_{activations.pop().lower()}"
    c.need(c.kind != "GRU" or c.attr("linear_before_reset", 0) == 1, "linear_before_reset=0")
    c.need(c.attr("direction", "forward") != "reverse" and _whole(c) and not c.attr("layout", 0),
           "direction reverse, lengths of sequences, or layout 1")
    inputs, hidden = c.value(1), c.value(2)
    directions, gates, width = inputs.shape
    bias = c.value(3) if c.has(3) else np.zeros((directions, 2 * gates), inputs.dtype)
    back = np.argsort(_GATES[mode])

    def ordered(matrix: np.ndarray) -> np.ndarray:
        parts = np.split(np.asarray(matrix), len(back))
        return np.concatenate([parts[i] for i in back])
    tables = {"i2h_weight": inputs, "h2h_weight": hidden, "i2h_bias": bias[:, :gates], "h2h_bias": bias[:, gates:]}
    flat = [ordered(tables[piece.name][piece.direction]).reshape(-1)
            for piece in pieces(mode, width, size, 1, directions, None)]
    starts = [c.sym(i) if c.has(i) else zeros((directions, 0, size)) for i in ((5, 6) if mode == "lstm" else (5,))]
    out = c.op("RNN", c.sym(0), c.param(np.concatenate(flat), "parameters"), *starts, state_size=size, num_layers=1,
               bidirectional=directions == 2, mode=mode, state_outputs=True)
    sequence = c.op("Reshape", out[0], shape=(0, 0, directions, size))
    return [c.op("transpose", sequence, axes=(0, 2, 1, 3)), *list(out)[1:]]
