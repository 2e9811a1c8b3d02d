"""Replacement of operators of `mx.np` by equivalent ones that an exporter supports."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..base import MXNetError
from ..graph.node import Entry, Node, topological
from ..graph.rewriting import rewrite
from ..name import Prefix
from .symbol import Symbol, apply

__all__ = ["simpler"]

_ROUNDS = 4  # a form may be made of operators that have one themselves


class _Given:
    """A node as forms see it: its parameters, the shapes and dtypes of its inputs."""

    def __init__(self, node: Node, shapes: Mapping[Any, Any], types: Mapping[Any, Any]) -> None:
        self.node, self.p = node, node.params
        self._shapes, self._types = shapes, types

    def refusal(self, why: str) -> MXNetError:
        """An error that names the operator and the node."""
        return MXNetError(f"operator {self.node.op.name} (node {self.node.name}): {why}")

    def shape(self, index: int = 0) -> tuple:
        """An input's shape; a dimension that is not known is None."""
        source, i = self.node.inputs[index]
        result = self._shapes[id(source), i]
        if result is None:
            raise self.refusal("the shape of its input is not known")
        return result

    def dtype(self) -> str:
        """The dtype of the first result."""
        return np.dtype(self._types[id(self.node), 0] or "float32").name

    def same_dtype(self) -> bool:
        """Returns whether the inputs have it, too."""
        return all(np.dtype(self._types[id(n), i] or "float32").name == self.dtype() for n, i in self.node.inputs)

    def axes(self) -> tuple[int, ...]:
        """The parameter `axis` as axes counted from the front; all where it is None."""
        axis, ndim = self.p["axis"], len(self.shape())
        return tuple(range(ndim)) if axis is None else tuple(a % ndim for a in np.atleast_1d(axis).tolist())

    def lengths(self, axes: Sequence[int]) -> int:
        """The product of the first input's lengths along axes."""
        results = [self.shape()[a] for a in axes]
        if None in results:
            raise self.refusal(f"the lengths of the axes {axes} are not known")
        return int(np.prod(results, dtype=np.int64))


def _op(name: str, *inputs: Symbol, **params: object) -> Symbol:
    return apply(name, name.strip("_").lower(), inputs, params)


def _mean(x: Symbol, axes: Sequence[int], keepdims: bool) -> Symbol:
    return _op("_npi_mean", x, axis=tuple(axes), keepdims=keepdims)


def _var(c: _Given, x: Symbol) -> Symbol:
    axes = c.axes()
    result = _mean(_op("square", _op("broadcast_sub", x, _mean(x, axes, True))), axes, c.p["keepdims"])
    if not c.p["ddof"]:
        return result
    count = c.lengths(axes)
    return _op("_npi_multiply_scalar", result, scalar=count / (count - c.p["ddof"]))


def _norm(c: _Given, x: Symbol) -> Symbol:
    if c.p["flag"] not in (-1, 0, 1) or c.p["ord"] not in (2, None) or len(c.axes()) > 1 and c.p["flag"] == 1:
        raise c.refusal("only the 2-norm of vectors is simpler")
    return _op("sqrt", _op("_np_sum", _op("square", x), axis=c.axes(), keepdims=c.p["keepdims"]))


def _filled(c: _Given, x: Symbol, value: float) -> Symbol:
    ones = _op("ones_like", x if c.same_dtype() else _op("Cast", x, dtype=c.dtype()))
    return _op("_npi_multiply_scalar", ones, scalar=value)


def _moveaxis(c: _Given, x: Symbol) -> Symbol:
    ndim = len(c.shape())
    source, target = ([int(a) % ndim for a in np.atleast_1d(c.p[k]).tolist()] for k in ("source", "destination"))
    order = [a for a in range(ndim) if a not in source]
    for place, axis in sorted(zip(target, source, strict=True)):
        order.insert(place, axis)
    return _op("transpose", x, axes=tuple(order))


def _roll(c: _Given, x: Symbol) -> Symbol:
    if c.p["axis"] is None:
        raise c.refusal("an axis is needed")
    axes = c.axes()
    for axis, shift in zip(axes, np.broadcast_to(c.p["shift"], len(axes)).tolist(), strict=True):
        cut = -shift % c.lengths([axis])
        if cut:
            x = _op("Concat", _op("slice_axis", x, axis=axis, begin=cut, end=None),
                    _op("slice_axis", x, axis=axis, begin=0, end=cut), dim=axis)
    return x


def _stacked(axis: int, ndim: int) -> Callable[..., Symbol]:
    """`hstack` and its like: inputs of at least `ndim` axes, one after the other."""
    def form(c: _Given, *xs: Symbol) -> Symbol:
        xs = tuple(_at_least(x, len(c.shape(i)), ndim) for i, x in enumerate(xs))
        return _op("Concat", *xs, dim=0 if axis == 1 and ndim == 1 and len(c.shape()) <= 1 else axis)
    return form


def _at_least(x: Symbol, have: int, ndim: int) -> Symbol:
    """As `np.atleast_1d`, `2d` and `3d`."""
    for axis in {0: (0, 0, 2), 1: (None, 0, 2), 2: (None, None, 2)}.get(have, ())[:ndim]:
        if axis is not None:
            x = _op("expand_dims", x, axis=axis)
    return x


def _column_stack(c: _Given, *xs: Symbol) -> Symbol:
    columns = [x if len(c.shape(i)) > 1 else _op("Reshape", x, shape=(-1, 1)) for i, x in enumerate(xs)]
    return _op("Concat", *columns, dim=1)


def _upper(c: _Given, x: Symbol) -> Symbol:
    return _op("_npi_where", _op("_npi_tril", _op("ones_like", x), k=c.p["k"] - 1), _op("zeros_like", x), x)


def _tensordot(c: _Given, a: Symbol, b: Symbol) -> Symbol:
    left, right = len(c.shape(0)), len(c.shape(1))
    if "axes" in c.p:
        ours, theirs = list(range(left - c.p["axes"], left)), list(range(c.p["axes"]))
    else:
        ours = [int(i) % left for i in c.p["a_axes_summed"]]
        theirs = [int(i) % right for i in c.p["b_axes_summed"]]
    letters = [chr(ord("a") + i) for i in range(left + right)]
    first, second = letters[:left], letters[left:]
    for i, k in zip(ours, theirs, strict=True):
        second[k] = first[i]
    out = [x for i, x in enumerate(first) if i not in ours] + [x for k, x in enumerate(second) if k not in theirs]
    return _op("_npi_einsum", a, b, subscripts=f"{''.join(first)},{''.join(second)}->{''.join(out)}")


def _diff(c: _Given, x: Symbol) -> Symbol:
    axis = c.axes()[0]
    for _ in range(c.p["n"]):
        x = _op("elemwise_sub", _op("slice_axis", x, axis=axis, begin=1, end=None),
                _op("slice_axis", x, axis=axis, begin=0, end=-1))
    return x


def _any(name: str) -> Callable[..., Symbol]:
    def form(c: _Given, x: Symbol) -> Symbol:
        truth = _op("Cast", _op("_npi_not_equal_scalar", x, scalar=0), dtype="float32")
        return _op(f"_np_{name}", truth, axis=c.axes(), keepdims=c.p["keepdims"])
    return form


def _logaddexp(c: _Given, a: Symbol, b: Symbol) -> Symbol:
    apart = _op("abs", _op("broadcast_sub", a, b))
    return _op("broadcast_add", _op("broadcast_maximum", a, b), _op("log1p", _op("exp", _op("negative", apart))))


def _group_norm(c: _Given, x: Symbol, gamma: Symbol, beta: Symbol) -> Symbol:
    parts = _op("Reshape", x, shape=(0, -4, c.p["num_groups"], -1, -2))
    axes = tuple(range(2, len(c.shape()) + 1))
    apart = _op("broadcast_sub", parts, _mean(parts, axes, True))
    spread = _op("sqrt", _op("_plus_scalar", _mean(_op("square", apart), axes, True), scalar=c.p["eps"]))
    normal = _op("Reshape", _op("broadcast_div", apart, spread), shape=(0, -3, -2))
    one_each = (1, -1, *[1] * (len(c.shape()) - 2))
    return _op("broadcast_add", _op("broadcast_mul", normal, _op("Reshape", gamma, shape=one_each)),
               _op("Reshape", beta, shape=one_each))


def _same(name: str, *parameters: str) -> Callable[..., Symbol]:
    """An operator that computes the same of floats, with parameters of the same names."""
    def form(c: _Given, *xs: Symbol) -> Symbol:
        left = [k for k, v in c.p.items() if k not in parameters and k != "is_int" and v is not None]
        if left:
            raise c.refusal(f"{', '.join(left)} must not be given")
        if np.dtype(c.dtype()).kind == "f" and not c.same_dtype():
            xs = tuple(_op("Cast", x, dtype=c.dtype()) for x in xs)
        return _op(name, *xs, **{k: c.p[k] for k in parameters})
    return form


FORMS: dict[str, Callable[..., Symbol]] = {
    **{f"_npi_{n}": _same(n) for n in """arccos arccosh arcsin arcsinh arctan arctanh cbrt ceil cosh degrees expm1 fix
       floor log10 log1p log2 logical_not radians reciprocal sign sinh square tan trunc""".split()},
    **{f"_npi_{n}": _same(f"broadcast_{n}") for n in
       "hypot mod logical_and logical_or logical_xor maximum minimum".split()},
    **{f"_npi_{n}_scalar": _same(f"_{n}_scalar", "scalar") for n in
       "mod logical_and logical_or logical_xor maximum minimum".split()},
    "_np_prod": _same("prod", "axis", "keepdims"), "_npi_tile": _same("tile", "reps"),
    "_npi_var": _var, "_npi_std": lambda c, x: _op("sqrt", _var(c, x)), "_npi_norm": _norm,
    "_npi_full_like": lambda c, x: _filled(c, x, c.p["fill_value"]),
    "_npi_where_lscalar": lambda c, m, x: _op("_npi_where", m, _filled(c, x, c.p["scalar"]), x),
    "_npi_where_rscalar": lambda c, m, x: _op("_npi_where", m, x, _filled(c, x, c.p["scalar"])),
    "_npi_where_scalar2": lambda c, m: _op("_npi_where", m, _filled(c, m, c.p["x"]), _filled(c, m, c.p["y"])),
    "_np_moveaxis": _moveaxis, "_np_roll": _roll, "_npi_diff": _diff, "_npi_triu": _upper,
    "_npi_hstack": _stacked(1, 1), "_npi_vstack": _stacked(0, 2), "_npi_dstack": _stacked(2, 3),
    "_npi_column_stack": _column_stack,
    **{f"_np_atleast_{n}d": (lambda c, x, n=n: _at_least(x, len(c.shape()), n)) for n in (1, 2, 3)},
    "_npi_tensordot": _tensordot, "_npi_tensordot_int_axes": _tensordot,
    "_np_all": _any("min"), "_np_any": _any("max"), "_npi_logaddexp": _logaddexp, "_npx_group_norm": _group_norm,
    "_npi_floor_divide": lambda c, a, b: _op("floor", _op("broadcast_div", a, b)),
    "_npi_floor_divide_scalar": lambda c, x: _op("floor", _op("_npi_true_divide_scalar", x, scalar=c.p["scalar"])),
}


def simpler(outputs: Sequence[Entry], knows: Callable[[str], bool],
            infer: Callable[[Sequence[Entry]], tuple[Mapping[Any, Any], Mapping[Any, Any]]]) -> Sequence[Entry]:
    """Returns a graph in which operators that an exporter does not support are replaced if possible.

    Args:
        outputs: the outputs of the graph, which is not modified.
        knows: function(name of an operator) -> whether the exporter supports it.
        infer: function(outputs) -> (shapes, dtypes), by (id of a node, number of its output).

    Returns:
        The outputs of the new graph; the same ones if nothing is replaced.

    Raises:
        MXNetError: an operator's parameters have no simpler form.
    """
    for _ in range(_ROUNDS):
        if not any(node.op.name in FORMS and not knows(node.op.name) for node in _operators(outputs)):
            break
        shapes, types = infer(outputs)

        def rule(node: Node, inputs: list[Entry], shapes: Any = shapes, types: Any = types) -> list[Entry] | None:
            if node.op is None or node.op.name not in FORMS or knows(node.op.name):
                return None
            args = _Given(node, shapes, types)
            with Prefix(f"{node.name}_"):
                replacement = FORMS[node.op.name](args, *(Symbol([entry]) for entry in inputs))
                if not args.same_dtype():
                    replacement = _op("Cast", replacement, dtype=args.dtype())
            last, i = replacement.handle[0]
            if (last, i) not in inputs:  # the result keeps its name
                last = Node(last.op, node.name, last.attrs, last.params, last.inputs, last.subgraphs)
            return [(last, i)]
        outputs = rewrite(outputs, rule)
    return outputs


def _operators(outputs: Sequence[Entry]) -> list[Node]:
    return [node for node in topological(outputs) if node.op is not None]
