"""Operators that all targets write nearly alike: element by element, shapes, slices, reductions, products.

A target says how in `Dialect`; where channels come last in a target, `alike` gives values in one layout and the axes
there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .steps import EmittedNode, Ref, Table

__all__ = ["Dialect", "cast", "elementwise", "number", "reduced_axes", "register", "short", "short_axes", "slices_text"]


@dataclass(frozen=True)
class Dialect:
    """The functions and arguments of a library.

    lib: its functions' module; dim, keep: what an axis and kept axes are called; tensors: texts of operators, with {0}
    and what else each fills in; functions: names of functions where they are others; top: the largest (count, axis,
    whether it is the last, smallest instead) in order, "" where it has no such function; pad: zeros or another number
    around {0} by axis; solve: the triangular matrix {0}'s equations for a right side (transposed, lower).
    """

    lib: str
    dim: str
    keep: str
    tensors: dict[str, str]
    functions: dict[str, str]
    top: Callable[[int, int, bool, bool], str]
    pad: Callable[[Sequence[tuple[int, int]], str], str]
    solve: Callable[[str, bool, bool], str]


_SAME = """abs ceil floor exp log sqrt sin cos tan sinh cosh tanh sign expm1 log1p log2 log10 square reciprocal
    arcsin arccos arctan arcsinh arccosh arctanh sigmoid relu softsign erf rsqrt""".split()
_NAMED = {"_npi_exp": "exp", "_npi_log": "log", "_npi_sqrt": "sqrt", "_npi_tanh": "tanh", "_npi_absolute": "abs",
          "_npi_sin": "sin", "_npi_cos": "cos", "_npx_relu": "relu", "_npx_sigmoid": "sigmoid"}
_SIGNS = {"+": ("elemwise_add", "broadcast_add", "_npi_add"), "-": ("elemwise_sub", "broadcast_sub", "_npi_subtract"),
          "*": ("elemwise_mul", "broadcast_mul", "_npi_multiply"),
          "/": ("elemwise_div", "broadcast_div", "_npi_true_divide"),
          "**": ("_power", "broadcast_power", "_npi_power")}
_PAIRS = {"maximum": ("_maximum", "broadcast_maximum"), "minimum": ("_minimum", "broadcast_minimum"),
          "hypot": ("_hypot", "broadcast_hypot")}
_NUMBERS = {"{0} + {n}": ("_plus_scalar", "_npi_add_scalar"), "{0} - {n}": ("_minus_scalar", "_npi_subtract_scalar"),
            "{0} * {n}": ("_mul_scalar", "_npi_multiply_scalar"), "{0} / {n}": ("_div_scalar",
                                                                              "_npi_true_divide_scalar"),
            "{0} ** {n}": ("_power_scalar", "_npi_power_scalar"), "{n} - {0}": ("_rminus_scalar",
                                                                                 "_npi_rsubtract_scalar"),
            "{n} / {0}": ("_rdiv_scalar", "_npi_rtrue_divide_scalar"), "{n} ** {0}": ("_rpower_scalar",
                                                                                       "_npi_rpower_scalar")}
_COMPARED = {"==": "equal", "!=": "not_equal", ">": "greater", ">=": "greater_equal", "<": "lesser",
             "<=": "lesser_equal"}
_SELF = ("_copy", "BlockGrad", "MakeLoss", "make_loss", "IdentityAttachKLSparseReg", "_contrib_gradientmultiplier",
         "LinearRegressionOutput", "MAERegressionOutput", "SVMOutput", "_identity_with_attr_like_rhs", "_np_copy")


def short(value: Any) -> Any:
    """(2, 2) as 2."""
    value = tuple(value)
    return value[0] if value and all(v == value[0] for v in value) else value


def register(op: Table, d: Dialect) -> None:
    """Adds the operators to a target's table."""
    op("_contrib_MultiBoxDetection")(lambda c: _detection(c, d))
    for name in _SAME:
        op(name)(lambda c, n=name: elementwise(c, _function(d, n)))
    for name, other in _NAMED.items():
        op(name)(lambda c, n=other: elementwise(c, _function(d, n)))
    for sign, names in _SIGNS.items():
        op(*names)(lambda c, s=sign: elementwise(c, f"{{0}} {s} {{1}}"))
    for name, names in _PAIRS.items():
        op(*names)(lambda c, n=name: elementwise(c, f"{d.lib}.{n}({{0}}, {{1}})"))
    for text, names in _NUMBERS.items():
        op(*names)(lambda c, t=text: elementwise(c, t.replace("{n}", number(c))))
    for sign, name in _COMPARED.items():
        numpy = f"_npi_{name.replace('lesser', 'less')}"
        op(f"_{name}", f"broadcast_{name}", numpy)(lambda c, s=sign: elementwise(c, cast(d, c, f"({{0}} {s} {{1}})")))
        op(f"_{name}_scalar", f"{numpy}_scalar")(
            lambda c, s=sign: elementwise(c, cast(d, c, f"({{0}} {s} {number(c)})")))
    op(*_SELF)(lambda c: c.raw())
    op("negative", "_npi_negative")(lambda c: elementwise(c, "-{0}"))
    op("add_n")(lambda c: elementwise(c, " + ".join(f"{{{i}}}" for i in range(len(c.node.inputs)))))
    op("LogisticRegressionOutput")(lambda c: elementwise(c, _function(d, "sigmoid")))
    op("_maximum_scalar")(lambda c: elementwise(c, d.tensors["at_least"].replace("{n}", number(c))))
    op("_minimum_scalar")(lambda c: elementwise(c, d.tensors["at_most"].replace("{n}", number(c))))
    op("hard_sigmoid")(lambda c: elementwise(c, d.tensors["clip"].replace(
        "{0}", f"({{0}} * {c.p['alpha']:g} + {c.p['beta']:g})").replace("{low}", "0").replace("{high}", "1")))
    op("Cast", "amp_cast")(lambda c: elementwise(c, cast(d, c, "{0}")))
    op("_contrib_div_sqrt_dim")(lambda c: c.expr(f"{{0}} / {c.shape()[-1]} ** 0.5", c.ref()))
    op("zeros_like", "ones_like")(lambda c: elementwise(c, f"{d.lib}.{c.kind}({{0}})"))
    for name, function in _SHAPED.items():
        op(*name.split())(lambda c, f=function: f(c, d))


def _function(d: Dialect, name: str) -> str:
    return f"{d.functions.get(name, f'{d.lib}.{name}')}({{0}})"


def number(c: EmittedNode) -> str:
    """The parameter `scalar` as text."""
    value = c.p["scalar"]
    if not np.isfinite(value):
        return f'float("{float(value)}")'
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e6 else repr(float(value))


def cast(d: Dialect, c: EmittedNode, text: str) -> str:
    """A text in the dtype of the result."""
    return d.tensors["cast"].replace("{0}", text).replace("{dtype}", f"{d.lib}.{c.out_dtype().name}")


def elementwise(c: EmittedNode, text: str, helper: str = "") -> Ref:
    """A formula of all inputs, element by element."""
    values, layout = c.alike()
    return c.expr(text, *values, layout=layout, helper=helper)


def reduced_axes(c: EmittedNode) -> tuple[int, ...] | None:
    """The axes that a reduction's parameters name, None for all."""
    axis = c.p.get("axis")
    axes = None if axis is None or axis == () else tuple(c.axis(a) for a in (
        axis if isinstance(axis, tuple) else (axis,)))
    return tuple(a for a in range(c.ndim()) if a not in axes) if c.p.get("exclude") and axes is not None else axes


def short_axes(axes: tuple[int, ...]) -> str:
    """(1,) as 1."""
    return str(axes[0]) if len(axes) == 1 else str(axes)


def _reduce(c: EmittedNode, d: Dialect) -> Ref:
    name = c.kind.removeprefix("_npi_").removeprefix("_np_")
    axes, kept = reduced_axes(c), c.p["keepdims"]
    (data,), layout = c.alike()
    after = f", {d.keep}=True" if kept else ""
    if axes is None:
        c.need(not kept, "all axes, with keepdims")
        return c.expr(f"{{0}}.{name}(){'.reshape(1)' if c.out_shape() == (1,) else ''}", data)
    if layout and not kept:
        (data,), layout = [c.ref()], ""
    axes = tuple(c.place(a, layout) for a in axes)
    c.need(name != "prod" or len(axes) == 1, "prod over several axes")
    word = d.functions.get(f"reduce_{name}", name)
    return c.expr(f"{{0}}.{word}({short_axes(axes)}{after})", data, layout=layout)


def _norm(c: EmittedNode, d: Dialect) -> Ref:
    axes, kept = reduced_axes(c), f", {d.keep}=True" if c.p["keepdims"] else ""
    where = "" if axes is None else f", {d.dim}={short_axes(axes)}"
    flat = ".reshape(1)" if c.out_shape() == (1,) and axes is None else ""
    return c.expr(f"{d.lib}.linalg.vector_norm({{0}}, ord={c.p['ord']}{where}{kept}){flat}", c.ref())


def open_first(shape: tuple[int, ...], out_shape: tuple[int, ...]) -> tuple[int, ...]:
    """Returns a new shape whose first length is -1 where the first axis keeps its length, so that it may have any."""
    keeps = shape[:1] == out_shape[:1] and len(out_shape) > 1 and 0 not in out_shape
    return (-1, *out_shape[1:]) if keeps else out_shape


def _reshape(c: EmittedNode, d: Dialect) -> Ref:
    """MXNet's codes 0, -1, -2, -3 and -4 in words."""
    if c.kind in ("_np_reshape", "_npx_reshape"):
        return c.expr(f"{{0}}.reshape({', '.join(map(str, open_first(c.shape(), c.out_shape())))})", c.ref())
    c.need(not c.p["reverse"], "reverse=True")
    codes, place, shape = list(c.p["shape"] or c.p["target_shape"]), 0, c.shape()
    free = -1 not in codes  # whether a length may still be left open
    parts: list[str | int] = []  # lengths in words; the number of an axis that stays
    while codes:
        code = codes.pop(0)
        if code == 0:
            parts.append(place)
            place += 1
        elif code == -2:
            parts += range(place, len(shape))
            place = len(shape)
        elif code == -3:
            parts.append("-1" if free and not {-3, -4} & set(codes) else
                         f"{{0}}.shape[{place}] * {{0}}.shape[{place + 1}]")
            place += 2
        elif code == -4:
            sizes = [codes.pop(0), codes.pop(0)]
            alone = "-1" not in parts and -1 not in codes
            parts += [str(n if n > 0 or alone else shape[place] // sizes[1 - i]) for i, n in enumerate(sizes)]
            place += 1
        else:
            parts.append(str(code))
            place += 1
    return c.expr(_reshaped(parts, len(shape), "flatten" in d.tensors), c.ref())


def _reshaped(parts: list[str | int], ndim: int, words: bool) -> str:
    """The text of a reshape; as flatten or unflatten where the library has them and that is all there is to it."""
    front = next((i for i, p in enumerate(parts) if p != i), len(parts))
    back = next((i for i, p in enumerate(parts[::-1]) if p != ndim - 1 - i), len(parts))
    middle, gone = parts[front:len(parts) - back], ndim - front - back
    if words and all(isinstance(p, str) and "shape" not in p for p in middle):
        if middle == ["-1"] and gone > 1:
            return f"{{0}}.flatten({front}{f', {ndim - back - 1}' if back else ''})"
        if len(middle) > 1 and gone == 1:
            return f"{{0}}.unflatten({front}, ({', '.join(map(str, middle))}))"
    sizes, i = [], 0
    while i < len(parts):
        end, start = i + 1, parts[i]
        if isinstance(start, int):
            while end < len(parts) and parts[end] == start + end - i:
                end += 1
            stop = start + end - i
            sizes.append(f"{{0}}.shape[{start}]" if stop == start + 1 else f"*{{0}}.shape[{start or ''}:{stop}]")
        else:
            sizes.append(start)
        i = end
    return f"{{0}}.reshape({', '.join(sizes)})"


def _transpose(c: EmittedNode, d: Dialect) -> Ref:
    axes = tuple(c.axis(a) for a in (c.p["axes"] or range(c.ndim())[::-1]))
    if c.layout() and axes == (0, *range(2, c.ndim()), 1):  # the value's own layout
        return c.relabelled()
    return c.expr(d.tensors["transpose"].replace("{axes}", ", ".join(map(str, axes))), c.ref())


def _swap(c: EmittedNode, d: Dialect) -> Ref:
    return c.expr(f"{{0}}.swapaxes({c.axis(c.p['dim1'])}, {c.axis(c.p['dim2'])})", c.ref())


def _expand_dims(c: EmittedNode, d: Dialect) -> Ref:
    return c.expr(d.tensors["expand_dims"].replace("{axis}", str(c.p["axis"])), c.ref())


def _squeeze(c: EmittedNode, d: Dialect) -> Ref:
    axis = c.p["axis"]
    axes = tuple(i for i, n in enumerate(c.shape()) if n == 1) if axis is None else tuple(
        c.axis(a) for a in (axis if isinstance(axis, tuple) else (axis,)))
    c.need(len(c.out_shape()) == c.ndim() - len(axes), "all axes")
    return c.expr(f"{{0}}.squeeze({short_axes(axes)})", c.ref())


def _flatten(c: EmittedNode, d: Dialect) -> Ref:
    data = c.raw() if c.ndim() > 2 and set(c.shape()[2:]) == {1} else c.ref()  # single pixels lie alike in any layout
    return data if c.ndim() == 2 else c.expr(d.tensors["flat"], data, module=d.tensors.get("flat_module", ""))


def _slices(c: EmittedNode, d: Dialect, parts: dict[int, tuple[Any, Any, Any]]) -> Ref:
    turned = []
    for axis, (begin, end, step) in parts.items():
        places = range(c.shape()[axis])[begin:end:step]
        if (step or 1) < 0 and len(places) and (d.lib == "torch" or len(places) == 1):  # PyTorch has no such slices
            parts = {**parts, axis: (places[-1], places[0] + 1, -step)}
            turned += [axis] * (len(places) > 1)
    text = slices_text({axis: (b, e, None if s == 1 else s) for axis, (b, e, s) in parts.items()})
    return c.expr(f"{text}.flip({short_axes(tuple(turned))})" if turned else text, c.ref())


def slices_text(parts: dict[int, tuple[Any, Any, Any]]) -> str:
    """Returns {0} sliced by (begin, end, step) per axis."""
    def one(part: tuple[Any, Any, Any] | None) -> str:
        begin, end, step = part or (None, None, None)
        return f"{begin or ''}:{'' if end is None else end}{f':{step}' if step not in (None, 1) else ''}"
    return f"{{0}}[{', '.join(one(parts.get(i)) for i in range(max(parts) + 1))}]"


def _slice(c: EmittedNode, d: Dialect) -> Ref:
    steps = c.p["step"] or (None,) * len(c.p["begin"])
    return _slices(c, d, dict(enumerate(zip(c.p["begin"], c.p["end"], steps, strict=True))))


def _slice_axis(c: EmittedNode, d: Dialect) -> Ref:
    return _slices(c, d, {c.axis(c.p["axis"]): (c.p["begin"], c.p["end"], None)})


def _slice_like(c: EmittedNode, d: Dialect) -> Ref:
    axes = [c.axis(a) for a in c.p["axes"]] or list(range(c.ndim()))
    cuts = [f":{{1}}.shape[{i}]" if i in axes else ":" for i in range(max(axes) + 1)]
    return c.expr(f"{{0}}[{', '.join(cuts)}]", *c.refs)


def _concat(c: EmittedNode, d: Dialect) -> Ref:
    values, layout = c.alike()
    given = c.p["axis" if c.kind == "_npi_concatenate" else "dim"]
    c.need(given is not None, "axis must be given")
    axis = c.axis(given)
    if len(values) == 1:
        return values[0]
    return c.expr(f"{d.functions['concat']}(({{*}}), {c.place(axis, layout)})", *values, layout=layout)


def _stack(c: EmittedNode, d: Dialect) -> Ref:
    return c.expr(f"{d.lib}.stack(({{*}}), {c.p['axis']})", *c.refs)


def _split(c: EmittedNode, d: Dialect) -> Any:
    old = c.kind == "SliceChannel"
    axis, count = c.axis(c.p["axis"]), c.p["num_outputs" if old else "sections"]
    if c.p["squeeze_axis"]:
        c.need(count == c.shape()[axis], "squeeze_axis with parts of several")
        return c.expr(d.tensors["unbind"].replace("{axis}", str(axis)), c.ref(), results=count)
    if count == 1:
        return c.ref()
    if count:
        text = d.tensors["split"].replace("{count}", str(count))
    else:
        places = [i for i in c.p["indices"] if i]
        count, text = len(places) + 1, d.tensors["split_at"].replace("{places}", str(tuple(places)))
    return c.expr(text.replace("{axis}", str(axis)), c.ref(), results=count)


def _repeat(c: EmittedNode, d: Dialect) -> Ref:
    axis = c.p["axis"]
    where = "" if axis is None else f", {d.dim}={c.axis(axis)}"
    return c.expr(f"{d.functions['repeat']}({{0}}, {c.p['repeats']}{where})", c.ref())


def _tile(c: EmittedNode, d: Dialect) -> Ref:
    return c.expr(f"{d.lib}.tile({{0}}, {tuple(c.p['reps'])})", c.ref())


def _broadcast(c: EmittedNode, d: Dialect) -> Ref:
    return c.expr(f"{d.lib}.broadcast_to({{0}}, {c.out_shape()})", c.ref())


def _places(c: EmittedNode, d: Dialect, axis: int) -> str:
    """The second input as positions along an axis of the first one."""
    places = d.tensors["index"].replace("{0}", "{1}")
    return f"({places} % {c.shape()[axis]})" if c.p["mode"] == "wrap" else places


def _take(c: EmittedNode, d: Dialect) -> Ref:
    axis = c.axis(c.p["axis"])
    return c.expr(f"{{0}}[{':, ' * axis}{_places(c, d, axis)}]", *c.refs)


def _pick(c: EmittedNode, d: Dialect) -> Ref:
    c.need(c.p["axis"] is not None, "axis must be given")
    axis = c.axis(c.p["axis"])
    places = _places(c, d, axis)
    if c.ndim(1) < c.ndim():
        places = d.tensors["expand_dims"].replace("{0}", places).replace("{axis}", str(axis))
    result = d.tensors["gather"].replace("{axis}", str(axis)).replace("{places}", places)
    return c.expr(result if c.p["keepdims"] else f"{result}.squeeze({axis})", *c.refs)


def _gather_nd(c: EmittedNode, d: Dialect) -> Ref:
    return c.expr(f"{{0}}[tuple({d.tensors['index'].replace('{0}', '{1}')})]", *c.refs)


def _reverse(c: EmittedNode, d: Dialect) -> Ref:
    axis = c.p["axis"]
    axes = range(c.ndim()) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    return c.expr(f"{d.lib}.flip({{0}}, {tuple(c.axis(a) for a in axes)})", c.ref())


def _dot(c: EmittedNode, d: Dialect) -> Ref:
    left, right = (bool(c.p.get(name)) for name in ("transpose_a", "transpose_b"))
    c.need(c.kind != "dot" or c.ndim(0) == c.ndim(1) == 2, "other than two matrices")
    c.need(not c.kind.startswith("_linalg") or c.p["axis"] == -2, "axis other than -2")
    text = f"{{0}}{'.mT' if left else ''} @ {{1}}{'.mT' if right else ''}"
    if c.p.get("alpha", 1) != 1:
        text = f"{c.p['alpha']:g} * ({text})"
    if c.has(2):
        text += " + {2}" if c.p["beta"] == 1 else f" + {c.p['beta']:g} * {{2}}"
    return c.expr(text, *c.refs)


def _softmax(c: EmittedNode, d: Dialect) -> Ref:
    axis = c.axis(c.p["axis"])
    heat = c.p["temperature"]
    text = "{0}" if heat in (None, 1.0) else f"({{0}} / {heat!r})"
    text = f"(-{text})" if c.kind == "softmin" else text
    if c.p.get("use_length"):
        return c.expr(f"masked_softmax({{0}}, {{1}}, {axis})", *c.refs, helper=d.tensors["masked_softmax"])
    (data,), layout = c.alike(1)
    word = d.tensors["log_softmax" if c.kind == "log_softmax" else "softmax"]
    place = c.place(axis, layout)
    return c.expr(word.replace("{0}", text).replace("{axis}", str(-1 if place == c.ndim() - 1 else place)), data,
                  layout=layout)


def _softmax_output(c: EmittedNode, d: Dialect) -> Ref:
    channel = c.p.get("multi_output") or c.p.get("mode") == "channel"
    c.need(channel or c.p.get("preserve_shape") or c.ndim() == 2, "several axes at a time")
    return c.expr(d.tensors["softmax"].replace("{axis}", "1" if channel else "-1"), c.ref())


def _l2_normalization(c: EmittedNode, d: Dialect) -> Ref:
    (data,), layout = c.alike()
    axes = {"instance": range(1, c.ndim()), "channel": [1], "spatial": range(2, c.ndim())}[c.p["mode"]]
    axes = tuple(sorted(c.place(a, layout) for a in axes))
    total = f"{d.lib}.square({{0}}).sum({short_axes(axes)}, {d.keep}=True)"
    return c.expr(f"{{0}} / {d.lib}.sqrt({total} + {float(c.p['eps']):g})", data, layout=layout)


def _sequence_mask(c: EmittedNode, d: Dialect) -> Ref:
    if not c.p["use_sequence_length"]:
        return c.ref()
    value = f", {c.p['value']:g}" if c.p["value"] else ""
    return c.expr(f"sequence_mask({{0}}, {{1}}, {c.p['axis']}{value})", *c.refs, helper=d.tensors["sequence_mask"])


def _scores(c: EmittedNode, d: Dialect) -> Ref:
    own = "selfatt" in c.kind
    name = f"{'self' if own else 'cross'}_attention_scores"
    return c.expr(f"{name}({{*}}, {c.p['heads']})", *c.refs, helper=d.tensors[name])


def _mixture(c: EmittedNode, d: Dialect) -> Ref:
    parts = 3 if "selfatt" in c.kind else 2
    return c.expr(f"attention_values({{*}}, {c.p['heads']}, {parts})", *c.refs, helper=d.tensors["attention_values"])


def _arange_like(c: EmittedNode, d: Dialect) -> Ref:
    c.need(isinstance(c.p["axis"], int) and c.p.get("repeat", 1) == 1, "without axis, or with repeat")
    count, dtype = f"{{0}}.shape[{c.axis(c.p['axis'])}]", f"dtype={d.lib}.{c.out_dtype().name}"
    start, step = float(c.p["start"]), float(c.p["step"])
    text = f"{d.lib}.arange({count}, {dtype})"
    text = text if step == 1 else f"{text} * {step:g}"
    return c.expr(text if start == 0 else f"{text} + {start:g}", c.ref())


def _smooth_l1(c: EmittedNode, d: Dialect) -> Ref:
    squared = float(c.p["scalar"]) ** 2
    return elementwise(c, f"{d.lib}.where({d.lib}.abs({{0}}) < {1 / squared:g}, {0.5 * squared:g} * {{0}} ** 2, "
                           f"{d.lib}.abs({{0}}) - {0.5 / squared:g})")


def _depth_to_space(c: EmittedNode, d: Dialect) -> Ref:
    n, (_, channels, height, width) = c.p["block_size"], c.shape()
    if c.kind == "depth_to_space":
        cut, order = (n, n, channels // n ** 2, height, width), (0, 3, 4, 1, 5, 2)
        shape = (channels // n ** 2, height * n, width * n)
    else:
        cut, order = (channels, height // n, n, width // n, n), (0, 3, 5, 1, 2, 4)
        shape = (channels * n * n, height // n, width // n)
    whole = c.expr(f"{{0}}.reshape(-1, {', '.join(map(str, cut))})", c.ref())
    turned = c.expr(d.tensors["transpose"].replace("{axes}", ", ".join(map(str, order))), whole)
    return c.expr(f"{{0}}.reshape(-1, {', '.join(map(str, shape))})", turned)


_SHAPED = {
    "sum mean max min prod _np_sum _npi_mean _np_max _np_min": _reduce, "norm": _norm,
    "Reshape _np_reshape _npx_reshape": _reshape, "transpose _np_transpose": _transpose, "SwapAxis": _swap,
    "expand_dims": _expand_dims, "squeeze _np_squeeze": _squeeze, "Flatten": _flatten, "slice": _slice,
    "slice_axis": _slice_axis, "slice_like": _slice_like, "Concat _npi_concatenate": _concat,
    "stack _npi_stack": _stack, "SliceChannel _split_v2": _split, "repeat": _repeat, "tile _npi_tile": _tile,
    "broadcast_to broadcast_axis _npi_broadcast_to": _broadcast, "take": _take, "pick": _pick,
    "gather_nd": _gather_nd, "reverse _npi_flip": _reverse,
    "dot batch_dot _npi_matmul _linalg_gemm2 _linalg_gemm": _dot,
    "softmax softmin log_softmax": _softmax, "SoftmaxOutput SoftmaxActivation": _softmax_output,
    "L2Normalization": _l2_normalization, "SequenceMask": _sequence_mask,
    "_contrib_interleaved_matmul_selfatt_qk _contrib_interleaved_matmul_encdec_qk": _scores,
    "_contrib_interleaved_matmul_selfatt_valatt _contrib_interleaved_matmul_encdec_valatt": _mixture,
    "_contrib_arange_like": _arange_like, "smooth_l1": _smooth_l1,
    "depth_to_space space_to_depth": _depth_to_space,
}


def _detection(c: EmittedNode, d: Dialect) -> Ref:
    p = c.p
    c.need(0 < p["nms_threshold"] <= 1, f"nms_threshold {p['nms_threshold']}")
    arguments = (f"threshold={p['threshold']:g}, overlap={p['nms_threshold']:g}, variances={tuple(p['variances'])}, "
             f"clip={p['clip']}, across={p['force_suppress']}, most={p['nms_topk']}")
    return c.expr(f"detect({{0}}, {{1}}, {{2}}, {arguments})", *c.refs, helper=d.tensors["detect"])
