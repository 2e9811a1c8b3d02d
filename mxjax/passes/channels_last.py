"""Programs of convolutions with channels last inside: images are transposed on entry, and results on exit.

MXNet's images are (batch, channel, space), and so are a program's arguments and results. Convolutions on CPUs are
fastest with channels last. XLA transposes data around each of them, and stores the values in between in either order. A
loop over both orders is several times slower than one over rows. So this pass rewrites the program, starting at the
convolutions (docs/design/0028).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, cast

import jax
from jax import lax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var

from .._xla.capacity import ELEMENTWISE
from .._xla.tracing import aval_of
from .rewriting import CALLS, called

__all__ = ["with_channels_last"]

_REDUCTIONS = ("argmax", "argmin", "reduce_and", "reduce_max", "reduce_min", "reduce_or", "reduce_prod", "reduce_sum")
_BY_AXIS = {  # parameters with a value for each axis
    "pad": ("padding_config",), "slice": ("start_indices", "limit_indices", "strides"),
    **dict.fromkeys(("reduce_window_max", "reduce_window_min", "reduce_window_sum"),
                    ("window_dimensions", "window_strides", "padding", "base_dilation", "window_dilation")),
    "select_and_scatter_add": ("window_dimensions", "window_strides", "padding")}
_OF_AXES = {"concatenate": "dimension", "rev": "dimensions", "split": "axis"}  # parameters that name axes
Atom = Any  # a variable or a literal
Rule = Callable[["_Rewriting", JaxprEqn], bool]


def with_channels_last(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Returns an equivalent program with channels last, starting at the convolutions.

    A program without convolutions is unchanged. So is one with gradients of channel-wise convolutions: these are sums
    of many products over space, which take three times as long with channels last.
    """
    known: dict[Any, Any] = {}
    if not _has(closed.jaxpr, "conv_general_dilated", known) or _has(closed.jaxpr, "reduce", known):
        return closed
    jaxpr, _ = _rewritten(closed.jaxpr, (False,) * len(closed.jaxpr.invars), known, plain=True)
    return ClosedJaxpr(jaxpr, closed.consts)


def _has(jaxpr: Jaxpr, name: str, known: dict[Any, Any]) -> bool:
    """Returns whether a function, or one that it calls, contains an operation."""
    key = id(jaxpr), name
    if key not in known:
        result = any(eqn.primitive.name == name or (inner := called(eqn)) is not None and _has(inner.jaxpr, name, known)
                     for eqn in jaxpr.eqns)
        known[key] = result, jaxpr  # keeps the object alive as long as its id is in use
    return known[key][0]


def _order(dims: int) -> tuple[int, ...]:
    return (0, *range(2, dims), 1)


def _at(axis: int, dims: int) -> int:
    """Returns the position of an axis in the transposed value."""
    return axis if axis == 0 else dims - 1 if axis == 1 else axis - 1


def _turn(values: Sequence[Any]) -> tuple:
    return tuple([values[axis] for axis in _order(len(values))])


@functools.lru_cache(maxsize=4096)
def _turning(shape: tuple[int, ...], dtype: Any, back: bool) -> JaxprEqn | None:
    """Returns the equation that transposes values of a shape, or transposes them back; None if both are the same."""
    dims = len(shape)
    order, (before, after) = _order(dims), (shape, _turn(shape))
    long = [axis for axis in order if shape[axis] != 1]
    if back:
        order, before, after = tuple([_at(axis, dims) for axis in range(dims)]), after, before

    def turn(x: jax.Array) -> jax.Array:
        return lax.reshape(x, after) if long == sorted(long) else lax.transpose(x, order)  # the latter moves values
    eqns = jax.make_jaxpr(turn)(jax.ShapeDtypeStruct(before, dtype)).eqns
    return eqns[0] if eqns else None


class _Value:
    """A value of a program in its original order (`plain`) and with channels last (`turned`), as far as they exist.

    broadcast: the equation that computes it in either order, if it does not exist yet.
    """

    __slots__ = ("plain", "turned", "broadcast")

    def __init__(self, plain: Atom | None = None, turned: Var | None = None, broadcast: JaxprEqn | None = None) -> None:
        self.plain, self.turned, self.broadcast = plain, turned, broadcast


class _Rewriting:
    """The equations of a function while it is rewritten."""

    def __init__(self, known: dict) -> None:
        self.known, self.eqns = known, []
        self.values: dict[Var, _Value] = {}

    # ------------------------------------------------------------ operands of equations
    def is_turned(self, atom: Atom) -> bool:
        """Returns whether a value was computed with channels last."""
        value = None if isinstance(atom, Literal) else self.values[atom]
        return value is not None and value.turned is not None

    def is_plain(self, atom: Atom) -> bool:
        """Returns whether the value exists in its original order."""
        return isinstance(atom, Literal) or self.values[atom].plain is not None

    def plain(self, atom: Atom) -> Atom:
        if isinstance(atom, Literal):
            return atom
        value = self.values[atom]
        if value.plain is None:
            aval = aval_of(atom)
            equation = value.broadcast if value.turned is None else _turning(aval.shape, aval.dtype, True)
            value.plain = self._made(equation, value.turned, atom.aval)
        return value.plain

    def turned(self, atom: Atom) -> Atom:
        value, aval = self.values[atom], atom.aval
        if value.turned is None:
            equation = None if value.broadcast is None else _broadcast_turned(value.broadcast)
            source = None if equation is not None else self.plain(atom)
            value.turned = self._made(equation or _turning(aval.shape, aval.dtype, False), source,
                                      aval.update(shape=_turn(aval.shape)))
        return value.turned

    def _made(self, eqn: JaxprEqn | None, source: Var | None, aval: Any) -> Var:
        """Returns the result of an equation of the source, or of the values that it already reads.

        None stands for the source itself.
        """
        if eqn is None:
            return cast(Var, source)
        new = Var(aval)
        self.eqns.append(eqn.replace(invars=eqn.invars if source is None else [source], outvars=[new]))
        return new

    def read(self, atoms: Sequence[Atom], turned: Sequence[bool]) -> list[Atom]:
        return [self.turned(v) if t else self.plain(v) for v, t in zip(atoms, turned, strict=True)]

    # ------------------------------------------------------------ results of equations
    def emit(self, eqn: JaxprEqn, read: Sequence[Atom], turned: Sequence[bool], **params: Any) -> bool:
        """Adds an equation; `turned`: which of its results have channels last now."""
        outvars = []
        for old, now in zip(eqn.outvars, turned, strict=True):
            new = Var(old.aval.update(shape=_turn(aval_of(old).shape)) if now else old.aval)
            self.values[old] = _Value(None, new) if now else _Value(new)
            outvars.append(new)
        self.eqns.append(eqn.replace(invars=list(read), outvars=outvars, params={**eqn.params, **params}))
        return True

    def equation(self, eqn: JaxprEqn) -> None:
        name = eqn.primitive.name
        rule = _BEGINNINGS.get(name) or (_RULES.get(name) if any(map(self.is_turned, eqn.invars)) else None)
        if rule is None or not rule(self, eqn):
            self.emit(eqn, [self.plain(v) for v in eqn.invars], [False] * len(eqn.outvars))


def _rewritten(jaxpr: Jaxpr, turned_inputs: tuple[bool, ...], known: dict, plain: bool = False) -> tuple[Jaxpr, tuple]:
    """Returns the rewritten function, and which of its results have channels last.

    turned_inputs: which of its arguments have channels last; known: the functions rewritten so far; plain: no result
    may have channels last.
    """
    now = _Rewriting(known)
    invars = []
    for old, turned in zip(jaxpr.invars, turned_inputs, strict=True):
        new = Var(old.aval.update(shape=_turn(aval_of(old).shape))) if turned else old
        now.values[old] = _Value(None, new) if turned else _Value(new)
        invars.append(new)
    now.values.update({v: _Value(v) for v in jaxpr.constvars})
    for eqn in jaxpr.eqns:
        now.equation(eqn)
    turned = tuple([not plain and now.is_turned(v) for v in jaxpr.outvars])
    outvars = [now.turned(v) if t else now.plain(v) for v, t in zip(jaxpr.outvars, turned, strict=True)]
    return jaxpr.replace(invars=invars, outvars=outvars, eqns=now.eqns), turned


# ------------------------------------------------------------ rules: whether an equation has been written anew
def _call(now: _Rewriting, eqn: JaxprEqn) -> bool:
    inner = called(eqn)
    turned_inputs = tuple([now.is_turned(v) for v in eqn.invars])
    if inner is None or not any(turned_inputs) and not _has(inner.jaxpr, "conv_general_dilated", now.known):
        return False
    key = id(inner), turned_inputs
    if key not in now.known:
        jaxpr, turned = _rewritten(inner.jaxpr, turned_inputs, now.known)
        now.known[key] = ClosedJaxpr(jaxpr, inner.consts), turned, inner
    result, turned, _ = now.known[key]
    return now.emit(eqn, now.read(eqn.invars, turned_inputs), turned, **{CALLS[eqn.primitive.name]: result})


def _convolution(now: _Rewriting, eqn: JaxprEqn) -> bool:
    """Rewrites a convolution, whose axes are parameters; gradients by a weight keep their order."""
    numbers, dims = eqn.params["dimension_numbers"], aval_of(eqn.outvars[0]).ndim
    images = numbers.lhs_spec[:2] == numbers.out_spec[:2] == (0, 1) and not now.is_turned(eqn.invars[1])
    turns = [images or now.is_turned(eqn.invars[0]), now.is_turned(eqn.invars[1])]
    if eqn.params["batch_group_count"] > 1:  # its products are over space, so space should be the last axes
        turns = [turn and not now.is_plain(v) for turn, v in zip(turns, eqn.invars, strict=True)]

    def turned(axes: tuple[int, ...], turned: bool) -> tuple[int, ...]:
        return tuple([_at(axis, dims) for axis in axes]) if turned else axes
    new_numbers = lax.ConvDimensionNumbers(turned(numbers.lhs_spec, turns[0]), turned(numbers.rhs_spec, turns[1]),
                                    turned(numbers.out_spec, images))
    return now.emit(eqn, now.read(eqn.invars, turns), [images], dimension_numbers=new_numbers)


def _elementwise(now: _Rewriting, eqn: JaxprEqn, **params: Any) -> bool:
    dims = aval_of(eqn.outvars[0]).ndim
    read = now.read(eqn.invars, [aval_of(v).ndim == dims for v in eqn.invars])  # others are single numbers
    return now.emit(eqn, read, [True] * len(eqn.outvars), **params)


def _barrier(now: _Rewriting, eqn: JaxprEqn) -> bool:
    turned = [now.is_turned(v) for v in eqn.invars]
    return now.emit(eqn, now.read(eqn.invars, turned), turned)


def _broadcast(now: _Rewriting, eqn: JaxprEqn) -> bool:
    """Defers a broadcast until its result is read, and computes it in the order of the reader."""
    (source, *sizes), dims = eqn.invars, aval_of(eqn.outvars[0]).ndim
    if sizes or dims < 3:
        return False
    if now.is_turned(source):
        return aval_of(source).ndim == dims and _elementwise(now, eqn, shape=_turn(eqn.params["shape"]))
    now.values[eqn.outvars[0]] = _Value(broadcast=eqn.replace(invars=[now.plain(source)]))
    return True


def _broadcast_turned(eqn: JaxprEqn) -> JaxprEqn | None:
    """Returns a broadcast with channels last; None if that would move axes."""
    shape = eqn.params["shape"]
    axes = tuple([_at(axis, len(shape)) for axis in eqn.params["broadcast_dimensions"]])
    if list(axes) != sorted(axes):
        return None
    return eqn.replace(params={**eqn.params, "shape": _turn(shape), "broadcast_dimensions": axes})


def _reduction(now: _Rewriting, eqn: JaxprEqn) -> bool:
    dims, axes = aval_of(eqn.invars[0]).ndim, eqn.params["axes"]
    kept = [_at(axis, dims) for axis in range(dims) if axis not in axes]
    if kept != sorted(kept):
        return False
    return now.emit(eqn, [now.turned(eqn.invars[0])], [False], axes=tuple(sorted(_at(axis, dims) for axis in axes)))


def _by_axis(now: _Rewriting, eqn: JaxprEqn) -> bool:
    params = {name: eqn.params[name] for name in _BY_AXIS[eqn.primitive.name]}
    return _elementwise(now, eqn, **{name: value and _turn(value) for name, value in params.items()})


def _of_axes(now: _Rewriting, eqn: JaxprEqn) -> bool:
    name, dims = _OF_AXES[eqn.primitive.name], aval_of(eqn.outvars[0]).ndim
    axes = eqn.params[name]
    return _elementwise(now, eqn, **{name: _at(axes, dims) if isinstance(axes, int) else
                                     tuple([_at(axis, dims) for axis in axes])})


def _transpose(now: _Rewriting, eqn: JaxprEqn) -> bool:
    (source,), order = eqn.invars, eqn.params["permutation"]
    dims = len(order)
    moved = tuple([_at(axis, dims) for axis in order])  # of a value with channels last
    if now.is_turned(source):
        if moved == tuple(range(dims)):
            now.values[eqn.outvars[0]] = _Value(now.turned(source))
            return True
        return now.emit(eqn, [now.turned(source)], [False], permutation=moved)
    if dims < 3 or order != tuple([_at(axis, dims) for axis in range(dims)]):
        return False
    now.values[eqn.outvars[0]] = _Value(None, now.plain(source))  # the program transposes it already
    return True


_BEGINNINGS: dict[str, Rule] = {  # channels may be last even if no input has them there
    **dict.fromkeys(CALLS, _call), "broadcast_in_dim": _broadcast, "conv_general_dilated": _convolution,
    "transpose": _transpose}
_RULES: dict[str, Rule] = {
    **dict.fromkeys(ELEMENTWISE, _elementwise), **dict.fromkeys(_REDUCTIONS, _reduction),
    **dict.fromkeys(_BY_AXIS, _by_axis), **dict.fromkeys(_OF_AXES, _of_axes), "optimization_barrier": _barrier}
