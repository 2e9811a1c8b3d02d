"""More operators that all targets write nearly alike: rounding, logic, ordering, writing at places, linear algebra."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from .shared import Dialect, cast, elementwise, number, reduced_axes, short_axes, slices_text
from .steps import EmittedNode, Ref, Table

__all__ = ["register"]

_NUMPY = """ceil floor rint trunc fix sign square sinh cosh tan arcsin arccos arctan arcsinh arccosh arctanh expm1 log1p
    log2 log10 cbrt reciprocal logical_not degrees radians""".split()  # as _npi_<name> too
_FORMULAS = {"fix": "{lib}.trunc({0})", "trunc": "{lib}.trunc({0})", "degrees": "{lib}.rad2deg({0})",
             "radians": "{lib}.deg2rad({0})", "_contrib_sign_ste": "{lib}.sign({0})", "rcbrt": "1 / ({cbrt})",
             "cbrt": "{cbrt}", "erfinv": "{erfinv}", "gamma": "{gamma}", "gammaln": "{gammaln}",
             "_npi_isnan": "{lib}.isnan({0})", "_npi_isinf": "{lib}.isinf({0})",
             "_npi_isfinite": "{lib}.isfinite({0})", "_npi_isposinf": "{lib}.isposinf({0})",
             "_npi_isneginf": "{lib}.isneginf({0})", "_npi_bitwise_not": "~{0}"}
_PAIRS = {"arctan2": ("_npi_arctan2",), "copysign": ("_npi_copysign",), "hypot": ("_npi_hypot",),
          "bitwise_and": ("_npi_bitwise_and",), "bitwise_or": ("_npi_bitwise_or",),
          "bitwise_xor": ("_npi_bitwise_xor",)}
_ROUNDING = {"rint": "round_half_down", "round": "round_half_away", "_contrib_round_ste": "round_half_away"}


def register(op: Table, d: Dialect) -> None:
    """Adds the operators to a target's table."""
    words = {"{lib}": d.lib, **{f"{{{name}}}": d.tensors[name] for name in ("cbrt", "erfinv", "gamma", "gammaln")}}

    def written(text: str) -> str:
        for word, meant in words.items():
            text = text.replace(word, meant)
        return text
    for name, text in _FORMULAS.items():
        op(name)(lambda c, t=written(text): elementwise(c, t))
    for name, helper in _ROUNDING.items():
        op(name)(lambda c, h=helper: c.raw() if c.dtype().kind in "iu" else elementwise(
            c, f"{h}({{0}})", helper=d.tensors[h]))
    op("logical_not")(lambda c: elementwise(c, cast(d, c, "({0} == 0)")))
    for name in _NUMPY:
        op(f"_npi_{name}")(op.emitters[name])
    for name, names in _PAIRS.items():
        op(*names)(lambda c, n=name: elementwise(c, f"{d.lib}.{n}({{0}}, {{1}})"))
    for name in ("and", "or", "xor"):
        text = f"{d.lib}.logical_{name}({{0}}, {{1}})"
        op(f"_logical_{name}", f"broadcast_logical_{name}")(lambda c, t=text: elementwise(c, cast(d, c, t)))
        op(f"_logical_{name}_scalar")(lambda c, n=name: _logical_scalar(c, d, n))
    op("_mod", "broadcast_mod", "_npi_mod")(lambda c: elementwise(
        c, f"{d.lib}.where({{1}} == 0, 0, {d.lib}.remainder({{0}}, {{1}}))"))
    op("_mod_scalar", "_npi_mod_scalar")(lambda c: elementwise(
        c, f"{d.lib}.remainder({{0}}, {number(c)})" if c.p["scalar"] else f"{d.lib}.zeros_like({{0}})"))
    op("_rmod_scalar", "_npi_rmod_scalar")(lambda c: elementwise(
        c, f"{d.lib}.where({{0}} == 0, 0, {d.lib}.remainder({number(c)}, {{0}}))"))
    op("_hypot_scalar")(lambda c: elementwise(c, f"({{0}} ** 2 + {number(c)} ** 2) ** 0.5"))
    op("_scatter_plus_scalar")(lambda c: elementwise(c, f"{{0}} + {number(c)}"))
    op("_scatter_minus_scalar")(lambda c: elementwise(c, f"{{0}} - {number(c)}"))
    op("_grad_add")(lambda c: elementwise(c, "{0} + {1}"))
    op("_scatter_elemwise_div")(lambda c: elementwise(c, "{0} / {1}"))
    op("_contrib_quadratic")(lambda c: elementwise(
        c, f"({float(c.p['a'])!r} * {{0}} + {float(c.p['b'])!r}) * {{0}} + {float(c.p['c'])!r}"))
    op("_copyto", "cast_storage")(lambda c: c.raw())
    op("_npi_where_lscalar")(lambda c: c.expr(f"{d.lib}.where({{0}} != 0, {number(c)}, {{1}})", *c.refs))
    op("_npi_where_rscalar")(lambda c: c.expr(f"{d.lib}.where({{0}} != 0, {{1}}, {number(c)})", *c.refs))
    op("_npi_around")(lambda c: elementwise(c, f"{d.lib}.round({{0}}, decimals={c.p['decimals']})"))
    op("_npi_nan_to_num")(lambda c: elementwise(c, _nan_to_num(c, d)))
    op("_npi_full_like")(lambda c: elementwise(c, f"{d.lib}.full_like({{0}}, {_plain(c.p['fill_value'])})"))
    for names, function in _SHAPED.items():
        op(*names.split())(lambda c, f=function: f(c, d))


def _plain(value: Any) -> str:
    value = float(value)
    return repr(value) if np.isfinite(value) else f'float("{value}")'


def _nan_to_num(c: EmittedNode, d: Dialect) -> str:
    arguments = [f"{n}={_plain(c.p[n])}" for n in ("nan", "posinf", "neginf") if c.p[n] is not None]
    return f"{d.lib}.nan_to_num({{0}}, {', '.join(arguments)})"


def _logical_scalar(c: EmittedNode, d: Dialect, name: str) -> Ref:
    true = bool(c.p["scalar"])
    fixed = {("and", False): "zeros_like", ("or", True): "ones_like"}.get((name, true))
    if fixed:
        return elementwise(c, f"{d.lib}.{fixed}({{0}})")
    return elementwise(c, cast(d, c, f"({{0}} {'==' if name == 'xor' and true else '!='} 0)"))


def _multicast(c: EmittedNode, d: Dialect) -> list[Ref]:
    floats = sorted({c.dtype(i) for i in range(len(c.node.inputs)) if c.dtype(i).kind == "f"}, key=lambda t: t.itemsize)
    wanted = f"{d.lib}.{floats[0 if c.p['cast_narrow'] else -1].name}" if floats else ""
    return [c.expr(d.tensors["cast"].replace("{dtype}", wanted), c.ref(i)) if c.dtype(i).kind == "f" else c.ref(i)
            for i in range(len(c.node.inputs))]


# ------------------------------------------------------------ reductions
def _at_least_1d(c: EmittedNode, text: str) -> str:
    return f"{text}.reshape(1)" if c.out_shape() == (1,) and c.p.get("keepdims") is not True else text


def _total(c: EmittedNode, d: Dialect) -> Ref:
    """nansum, nanprod: NaN counts as nothing."""
    axes, kept = reduced_axes(c) or tuple(range(c.ndim())), f", {d.keep}=True" if c.p["keepdims"] else ""
    name = c.kind.removeprefix("nan")
    c.need(name != "prod" or len(axes) == 1, "several axes")
    text = f"{d.lib}.where({d.lib}.isnan({{0}}), {int(name == 'prod')}, {{0}})"
    return c.expr(_at_least_1d(c, f"{text}.{name}({short_axes(axes)}{kept})"), c.ref())


def _square_sum(c: EmittedNode, d: Dialect) -> Ref:
    axes, kept = reduced_axes(c) or tuple(range(c.ndim())), f", {d.keep}=True" if c.p["keepdims"] else ""
    return c.expr(f"{d.lib}.square({{0}}).sum({short_axes(axes)}{kept})", c.ref())


def _product(c: EmittedNode, d: Dialect) -> Ref:
    axes, kept = reduced_axes(c), f", {d.keep}=True" if c.p["keepdims"] else ""
    c.need(axes is None and not kept or axes is not None and len(axes) == 1, "several axes, or all of them kept")
    return c.expr(f"{{0}}.prod({'' if axes is None else short_axes(axes)}{kept})", c.ref())


def _spread(c: EmittedNode, d: Dialect) -> Ref:
    axes, kept = reduced_axes(c) or tuple(range(c.ndim())), f", {d.keep}=True" if c.p["keepdims"] else ""
    c.need(c.p["ddof"] < np.prod([c.shape()[a] for a in axes]), f"ddof {c.p['ddof']} of as many values or fewer")
    return c.expr(f"{{0}}.{c.kind.removeprefix('_npi_')}({short_axes(axes)}, {d.tensors['ddof']}={c.p['ddof']}{kept})",
                  c.ref())


def _moments(c: EmittedNode, d: Dialect) -> list[Ref]:
    axes, kept = tuple(c.axis(a) for a in c.p["axes"]), f", {d.keep}=True" if c.p["keepdims"] else ""
    return [c.expr(_at_least_1d(c, text), c.ref()) for text in (
        f"{{0}}.mean({short_axes(axes)}{kept})", f"{{0}}.var({short_axes(axes)}, {d.tensors['ddof']}=0{kept})")]


def _truth(c: EmittedNode, d: Dialect) -> Ref:
    axes, kept = reduced_axes(c) or tuple(range(c.ndim())), f", {d.keep}=True" if c.p["keepdims"] else ""
    return c.expr(f"({{0}} != 0).{c.kind.removeprefix('_np_')}({short_axes(axes)}{kept})", c.ref())


def _position(c: EmittedNode, d: Dialect) -> Ref:
    """argmax, argmin."""
    name, axis = re.sub(r"^_npi_|_channel$", "", c.kind), c.p.get("axis")
    axis = 1 if c.kind == "argmax_channel" else axis
    kept = f", {d.keep}=True" if c.p.get("keepdims") else ""
    c.need(axis is not None or not kept, "all axes, with keepdims")
    text = f"{{0}}.{name}({'' if axis is None else axis}{kept})"
    return c.expr(cast(d, c, _at_least_1d(c, text)), c.ref())


# ------------------------------------------------------------ order
def _sort(c: EmittedNode, d: Dialect) -> Ref:
    data, axis = _flat(c, d)
    text = d.tensors[c.kind.removeprefix("_npi_")].replace("{axis}", str(axis)).replace(
        "{descending}", str(not c.p["is_ascend"]))
    return c.expr(cast(d, c, text) if "argsort" in c.kind else text, data)


def _flat(c: EmittedNode, d: Dialect) -> tuple[Ref, int]:
    """The data and its axis, the flattened data where none is given."""
    if c.p["axis"] is not None:
        return c.ref(), c.axis(c.p["axis"])
    return c.expr("{0}.reshape(-1)", c.ref()), 0


def _topk(c: EmittedNode, d: Dialect) -> Any:
    ret_typ, whole = c.p["ret_typ"], c.p["axis"] is None
    data, axis = _flat(c, d)
    size = int(np.prod(c.shape())) if whole else c.shape()[axis]
    count = size if c.p["k"] < 1 else c.p["k"]
    last = axis == c.ndim() - 1 or whole
    if ret_typ == "value":
        result = d.top(count, axis, last, c.p["is_ascend"])
        if result:  # indices are sorted for: of equal values the first ones count
            return c.expr(result, data)
    places = d.tensors["argsort"].replace("{axis}", str(axis)).replace("{descending}", str(not c.p["is_ascend"]))
    best = c.expr(f"{places}[{':, ' * axis}:{count}]", data)
    if ret_typ == "mask":
        mask = c.expr(d.tensors["mask"].replace("{axis}", str(axis)), data, best)
        return c.expr(f"{{0}}.reshape({', '.join(map(str, c.shape()))})", mask) if whole else mask
    indices = c.expr(d.tensors["cast"].replace("{dtype}", f"{d.lib}.{np.dtype(c.p['dtype']).name}"), best)
    if ret_typ == "indices":
        return indices
    values = c.expr(d.tensors["gather"].replace("{axis}", str(axis)).replace("{places}", "{1}"), data, best)
    return [values, indices] if ret_typ == "both" else values


# ------------------------------------------------------------ shapes
def _reshape_like(c: EmittedNode, d: Dialect) -> Ref:
    left, right = ((c.p[f"{side}_begin"], c.p[f"{side}_end"]) for side in ("lhs", "rhs"))
    if left == right == (None, None):
        return c.expr("{0}.reshape({1}.shape)", *c.refs)

    def ends(begin: int | None, end: int | None, ndim: int) -> tuple[int, int]:
        return (begin or 0) % ndim, ndim if end is None else end + ndim if end < 0 else end
    (first, last), (start, stop) = ends(*left, c.ndim()), ends(*right, c.ndim(1))
    parts = [f"*{{0}}.shape[:{first}]" if first else "", f"*{{1}}.shape[{start or ''}:{stop}]",
             f"*{{0}}.shape[{last}:]" if last < c.ndim() else ""]
    return c.expr(f"{{0}}.reshape({', '.join(p for p in parts if p)})", *c.refs)


def _broadcast_like(c: EmittedNode, d: Dialect) -> Ref:
    if not c.p["lhs_axes"]:
        return c.expr(d.tensors["broadcast_like"], *c.refs)
    taken = dict(zip((c.axis(a) for a in c.p["lhs_axes"]), (c.axis(a, 1) for a in c.p["rhs_axes"]), strict=True))
    sizes = (f"{{1}}.shape[{taken[i]}]" if i in taken else f"{{0}}.shape[{i}]" for i in range(c.ndim()))
    return c.expr(f"{d.lib}.broadcast_to({{0}}, ({', '.join(sizes)},))", *c.refs)


def _crop(c: EmittedNode, d: Dialect) -> Ref:
    room = [a - b for a, b in zip(c.shape()[2:], c.out_shape()[2:], strict=True)]
    starts = [n // 2 for n in room] if c.p["center_crop"] else c.p["offset"]
    cuts = [f"{s or ''}:{s + n}" for s, n in zip(starts, c.out_shape()[2:], strict=True)]
    return c.expr(f"{{0}}[:, :, {', '.join(cuts)}]", c.ref())


def _diagonal(c: EmittedNode, d: Dialect) -> Ref:
    offset, first, second = (c.p.get(n, default) for n, default in (("k", 0), ("axis1", 0), ("axis2", 1)))
    offset = c.p.get("offset", offset)
    if c.ndim() == 1:
        return c.expr(f"{d.lib}.diag({{0}}, {offset})", c.ref())
    result = f"{d.lib}.diagonal({{0}}, {offset}, {c.axis(first)}, {c.axis(second)})"
    return c.expr(f"{result}.sum(-1)" if c.kind == "_np_trace" else result, c.ref())


def _where(c: EmittedNode, d: Dialect) -> Ref:
    row = c.ndim(0) < c.ndim(1) and not c.kind.startswith("_np")
    condition = f"{{0}}.reshape(-1{', 1' * (c.ndim(1) - 1)})" if row else "{0}"
    return c.expr(f"{d.lib}.where({condition} != 0, {{1}}, {{2}})", *c.refs)


def _one_hot(c: EmittedNode, d: Dialect) -> Ref:
    on, off = float(c.p["on_value"]), float(c.p["off_value"])
    hot = d.tensors["one_hot"].replace("{depth}", str(c.p["depth"]))
    if (on, off) == (1, 0):
        return c.expr(cast(d, c, hot), c.ref())
    return c.expr(cast(d, c, f"({hot} * {_plain(on - off)} + {_plain(off)})"), c.ref())


def _batch_take(c: EmittedNode, d: Dialect) -> Ref:
    places = d.tensors["expand_dims"].replace("{0}", d.tensors["index"].replace("{0}", "{1}")).replace("{axis}", "1")
    result = d.tensors["gather"].replace("{axis}", "1").replace("{places}", places)
    return c.expr(f"{result}.squeeze(1)", *c.refs)


def _sequence_reverse(c: EmittedNode, d: Dialect) -> Ref:
    if not c.p["use_sequence_length"]:
        return c.expr(f"{d.lib}.flip({{0}}, (0,))", c.ref())
    return c.expr("sequence_reverse({0}, {1})", *c.refs, helper=d.tensors["sequence_reverse"])


def _sequence_last(c: EmittedNode, d: Dialect) -> Ref:
    time = c.p["axis"]
    if not c.p["use_sequence_length"]:
        return c.expr("{0}[-1]" if time == 0 else "{0}[:, -1]", c.ref())
    last = f"({d.tensors['index'].replace('{0}', '{1}')} - 1)"
    index = d.tensors["at_least"].replace("{0}", last).replace("{n}", "0")
    each = f"{d.lib}.arange({{1}}.shape[0])"
    return c.expr(f"{{0}}[{index}, {each}]" if time == 0 else f"{{0}}[{each}, {index}]", *c.refs)


def _moveaxis(c: EmittedNode, d: Dialect) -> Ref:
    return c.expr(f"{d.lib}.moveaxis({{0}}, {tuple(c.p['source'])}, {tuple(c.p['destination'])})", c.ref())


def _roll(c: EmittedNode, d: Dialect) -> Ref:
    shift, axis = tuple(c.p["shift"]), c.p["axis"]
    if axis is None:
        return c.expr(f"{d.lib}.roll({{0}}, {shift[0]})", c.ref())
    return c.expr(f"{d.lib}.roll({{0}}, {shift * (len(axis) // len(shift))}, {tuple(axis)})", c.ref())


def _cumsum(c: EmittedNode, d: Dialect) -> Ref:
    data, axis = _flat(c, d)
    return c.expr(f"{{0}}.cumsum({axis})", data)


def _stacking(c: EmittedNode, d: Dialect) -> Ref:
    return c.expr(f"{d.lib}.{c.kind.removeprefix('_npi_')}(({{*}},))", *c.refs)


def _triangle(c: EmittedNode, d: Dialect) -> Ref:
    c.need(c.ndim() > 1, "a vector")
    return c.expr(f"{d.lib}.tril({{0}}, {c.p['k']})", c.ref())


def _pad(c: EmittedNode, d: Dialect) -> Ref:
    c.need(c.p["mode"] == "constant", f"mode {c.p['mode']}")
    pairs, value = tuple(tuple(p) for p in c.p["pad_width"]), _plain(c.p["constant_value"])
    return c.expr(d.pad(pairs, value), c.ref())


# ------------------------------------------------------------ writing
def _written(c: EmittedNode, d: Dialect, place: str, values: Sequence[Ref], value: str = "{1}") -> Ref:
    return c.expr(d.tensors["write"].replace("{place}", place).replace("{value}", value), *values,
                  helper=d.tensors["write_helper"])


def _slice_assign(c: EmittedNode, d: Dialect) -> Ref:
    steps = c.p["step"] or (None,) * len(c.p["begin"])
    c.need(d.lib != "torch" or all((s or 1) > 0 for s in steps), "a negative step")
    place = ", ".join(f"slice({a}, {b}, {s})" for a, b, s in zip(c.p["begin"], c.p["end"], steps, strict=True))
    scalar = c.kind.endswith("scalar")
    return _written(c, d, f"({place},)", c.refs, number(c) if scalar else "{1}")


def _index_copy(c: EmittedNode, d: Dialect) -> Ref:
    return _written(c, d, d.tensors["index"].replace("{0}", "{1}"), c.refs, "{2}")


def _scatter(c: EmittedNode, d: Dialect) -> Ref:
    place = f"tuple({d.tensors['index'].replace('{0}', '{1}')})"
    zeros = c.expr(f"{d.lib}.zeros({tuple(c.p['shape'])}, dtype={d.lib}.{c.out_dtype().name})")
    return _written(c, d, place.replace("{1}", "{2}"), [zeros, *c.refs], "{1}")


def _scatter_set(c: EmittedNode, d: Dialect) -> Ref:
    return _written(c, d, f"tuple({d.tensors['index'].replace('{0}', '{2}')})", c.refs)


def _mask_fill(c: EmittedNode, d: Dialect) -> Ref:
    c.need(c.ndim(1) == c.ndim(), "a mask of fewer dimensions")
    return c.expr(f"{d.lib}.where({{1}} != 0, {_plain(c.p['value'])}, {{0}})", *c.refs)


# ------------------------------------------------------------ linear algebra
def _linalg(c: EmittedNode, d: Dialect) -> Any:
    name = c.kind.removeprefix("_linalg_").removeprefix("_npi_")
    if name == "slogdet":
        result = c.expr(f"{d.lib}.linalg.slogdet({{0}})", c.ref(), results=2)
        return [c.expr("{0}.reshape(1)", f) for f in result] if c.out_shape() == (1,) and c.ndim() == 2 else result
    text = f"{d.lib}.linalg.{'inv' if name == 'inverse' else name}({{*}})"
    return c.expr(_at_least_1d(c, text) if name == "det" and c.ndim() == 2 else text, *c.refs)


def _potrf(c: EmittedNode, d: Dialect) -> Ref:
    return c.expr(f"{d.lib}.linalg.cholesky({{0}}{'' if c.p['lower'] else ', upper=True'})", c.ref())


def _potri(c: EmittedNode, d: Dialect) -> Ref:
    return c.expr(f"{d.lib}.linalg.inv({'{0} @ {0}.mT' if c.p['lower'] else '{0}.mT @ {0}'})", c.ref())


def _sum_log_diag(c: EmittedNode, d: Dialect) -> Ref:
    text = f"{d.lib}.log({d.lib}.diagonal({{0}}, 0, -2, -1)).sum(-1)"
    return c.expr(_at_least_1d(c, text) if c.ndim() == 2 else text, c.ref())


def _extract_diag(c: EmittedNode, d: Dialect) -> Ref:
    return c.expr(f"{d.lib}.diagonal({{0}}, {c.p['offset']}, -2, -1)", c.ref())


def _make_diag(c: EmittedNode, d: Dialect) -> Ref:
    c.need(not c.p["offset"], "an offset")
    size = c.shape()[-1]
    return c.expr(f"{d.tensors['expand_dims'].replace('{axis}', '-1')} * {d.lib}.eye({size})", c.ref())


def _scaled(c: EmittedNode, text: str) -> str:
    return text if c.p["alpha"] == 1 else f"{_plain(c.p['alpha'])} * ({text})"


def _syrk(c: EmittedNode, d: Dialect) -> Ref:
    return c.expr(_scaled(c, "{0}.mT @ {0}" if c.p["transpose"] else "{0} @ {0}.mT"), c.ref())


def _trmm(c: EmittedNode, d: Dialect) -> Ref:
    triangle = f"{d.lib}.{'tril' if c.p['lower'] else 'triu'}({{0}}){'.mT' if c.p['transpose'] else ''}"
    return c.expr(_scaled(c, f"{{1}} @ {triangle}" if c.p["rightside"] else f"{triangle} @ {{1}}"), *c.refs)


def _trsm(c: EmittedNode, d: Dialect) -> Ref:
    right, lower = bool(c.p["rightside"]), bool(c.p["lower"])
    turned = bool(c.p["transpose"]) != right  # the matrix as the solver takes it
    solved = d.solve("{1}.mT" if right else "{1}", turned, lower)
    return c.expr(_scaled(c, f"{solved}.mT" if right else solved), *c.refs)


def _tensordot(c: EmittedNode, d: Dialect) -> Ref:
    pair = c.p["axes"] if "axes" in c.p else (list(c.p["a_axes_summed"]), list(c.p["b_axes_summed"]))
    return c.expr(f"{d.lib}.tensordot({{0}}, {{1}}, {pair})", *c.refs)


def _dot(c: EmittedNode, d: Dialect) -> Ref:
    c.need(c.ndim(0) and c.ndim(1), "a number")
    if c.ndim(1) < 3:
        return c.expr("{0} @ {1}", *c.refs)
    return c.expr(f"{d.lib}.tensordot({{0}}, {{1}}, ([{c.ndim() - 1}], [{c.ndim(1) - 2}]))", *c.refs)


def _einsum(c: EmittedNode, d: Dialect) -> Ref:
    c.need(re.fullmatch(r"[A-Za-z,.>\- ]*", c.p["subscripts"]), "subscripts that are none")  # it comes from a file
    return c.expr(f'{d.lib}.einsum("{c.p["subscripts"]}", {{*}})', *c.refs)


# ------------------------------------------------------------ images (height, width, channel) before a network
def _to_tensor(c: EmittedNode, d: Dialect) -> Ref:
    order = (2, 0, 1) if c.ndim() == 3 else (0, 3, 1, 2)
    turned = d.tensors["transpose"].replace("{axes}", ", ".join(map(str, order)))
    return c.expr(f"{d.tensors['cast'].replace('{0}', turned).replace('{dtype}', f'{d.lib}.float32')} / 255", c.ref())


def _normalize(c: EmittedNode, d: Dialect) -> Ref:
    def column(values: Sequence[float]) -> str:
        numbers = tuple(float(v) for v in values)
        return _plain(numbers[0]) if len(set(numbers)) == 1 else f"{d.tensors['array']}({list(numbers)})[:, None, None]"
    return c.expr(f"({{0}} - {column(c.p['mean'])}) / {column(c.p['std'])}", c.ref())


def _image_crop(c: EmittedNode, d: Dialect) -> Ref:
    p = c.p
    cuts = {c.ndim() - 3: (p["y"], p["y"] + p["height"], None), c.ndim() - 2: (p["x"], p["x"] + p["width"], None)}
    return c.expr(slices_text(cuts), c.ref())


def _image_flip(c: EmittedNode, d: Dialect) -> Ref:
    return c.expr(f"{d.lib}.flip({{0}}, ({c.ndim() - (2 if 'left' in c.kind else 3)},))", c.ref())


_SHAPED = {
    "amp_multicast": _multicast,
    "nansum nanprod": _total, "_square_sum": _square_sum, "_np_prod": _product, "_npi_std _npi_var": _spread,
    "moments": _moments, "_np_all _np_any": _truth,
    "argmax argmin argmax_channel _npi_argmax _npi_argmin": _position, "sort argsort": _sort, "topk": _topk,
    "reshape_like": _reshape_like, "broadcast_like": _broadcast_like, "Crop": _crop,
    "diag _np_diag _np_diagonal _np_trace": _diagonal, "where _npi_where": _where, "one_hot": _one_hot,
    "batch_take": _batch_take, "SequenceReverse": _sequence_reverse, "SequenceLast": _sequence_last,
    "_np_moveaxis": _moveaxis, "_np_roll": _roll, "_np_cumsum": _cumsum,
    "_npi_hstack _npi_vstack _npi_dstack _npi_column_stack": _stacking, "_npi_tril": _triangle, "_npi_pad": _pad,
    "_slice_assign _slice_assign_scalar": _slice_assign, "_contrib_index_copy": _index_copy, "scatter_nd": _scatter,
    "_scatter_set_nd": _scatter_set, "_npi_boolean_mask_assign_scalar": _mask_fill,
    "_linalg_det _linalg_inverse _linalg_slogdet _npi_det _npi_slogdet _npi_cholesky _npi_solve": _linalg,
    "_linalg_potrf": _potrf, "_linalg_potri": _potri, "_linalg_sumlogdiag": _sum_log_diag,
    "_linalg_extractdiag": _extract_diag, "_linalg_makediag": _make_diag, "_linalg_syrk": _syrk,
    "_linalg_trmm": _trmm, "_linalg_trsm": _trsm, "_npi_tensordot _npi_tensordot_int_axes": _tensordot,
    "_np_dot": _dot, "_npi_einsum": _einsum, "_image_to_tensor": _to_tensor, "_image_normalize": _normalize,
    "_image_crop": _image_crop, "_image_flip_left_right _image_flip_top_bottom": _image_flip,
}
