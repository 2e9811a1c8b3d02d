"""Predictions on CPUs: oneDNN computes a convolution together with the operations after it, and values that depend only
on weights are cached.

Normalization by moving averages, a bias, a shortcut and a `relu` after a convolution each cost a pass over the image.
oneDNN adds vectors and images and clips while a result is still in registers; factors are multiplied into the weights.
This, and the transposition of weights to the order that oneDNN reads fastest, depends only on weights. It is a separate
program, whose results are reused as long as the same arrays are passed (docs/design/0029).
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var

from .._xla.capacity import LOOPS
from .._xla.tracing import aval_of
from .convolutions import CONVOLUTION_PARAMS, computed_by_library
from .onednn import by_onednn, in_no_file, is_convolution
from .rewriting import called

__all__ = ["WeightCache", "Split", "SplitProgram", "split", "with_epilogues"]

_MOST = 6  # operators after a convolution that are examined
Atom = Any  # a variable or a literal


# ------------------------------------------------------------ convolutions with their epilogues
def with_epilogues(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Returns a program whose convolutions include the element-wise operations after them; programs of training are
    unchanged."""
    known: dict[int, Any] = {}
    convolves, trains = _convolves(closed.jaxpr, known)
    if not convolves or trains:
        return closed
    shallow = _inlined(closed, lambda eqn: (inner := called(eqn)) is not None and _convolves(inner.jaxpr, known)[0],
                       False)
    jaxpr = shallow.jaxpr
    users, _ = _read(jaxpr)
    follow = {id(eqn) for first in filter(_takes_more, jaxpr.eqns) for eqn in _following(first, jaxpr, users)}
    if not follow:
        return closed
    flat = _inlined(shallow, lambda eqn: id(eqn) in follow, True)
    jaxpr = flat.jaxpr
    users, makers = _read(jaxpr)
    gone: set[int] = set()
    instead: dict[int, list[JaxprEqn]] = {}
    for i, eqn in enumerate(jaxpr.eqns):
        if _takes_more(eqn):
            chain = _chain(eqn, jaxpr.eqns, users, makers, gone)
            if chain.places:
                gone.update((i, *chain.places))
                instead[max(chain.places)] = chain.equations(eqn)
    eqns = []
    for i, eqn in enumerate(jaxpr.eqns):
        eqns += instead.get(i, () if i in gone else (eqn,))
    return ClosedJaxpr(jaxpr.replace(eqns=eqns), flat.consts)


def _convolves(jaxpr: Jaxpr, known: dict[int, Any]) -> tuple[bool, bool]:
    """Returns whether the program contains convolutions, and whether one is a gradient."""
    if id(jaxpr) not in known:
        some, trains = False, False
        for eqn in jaxpr.eqns:
            inner = called(eqn)
            if eqn.primitive is lax.conv_general_dilated_p:
                some, trains = True, trains or eqn.params["dimension_numbers"].lhs_spec[1] == 0
            elif inner is not None:
                more = _convolves(inner.jaxpr, known)
                some, trains = some or more[0], trains or more[1]
        known[id(jaxpr)] = some, trains, jaxpr  # keeps the object alive as long as its id is in use
    return known[id(jaxpr)][:2]


def _inlined(closed: ClosedJaxpr, chosen: Callable[[JaxprEqn], bool], deeply: bool) -> ClosedJaxpr:
    """Returns a program with the functions that these equations call inlined; `deeply`: and all functions that those
    call."""
    eqns: list[JaxprEqn] = []
    constants = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))

    def put(jaxpr: Jaxpr, values: dict[Var, Atom], all_of_it: bool) -> list[Atom]:
        def seen(atom: Atom) -> Atom:
            return atom if isinstance(atom, Literal) else values.get(atom, atom)
        for eqn in jaxpr.eqns:
            operands, inner = [seen(v) for v in eqn.invars], called(eqn)
            if inner is not None and (all_of_it or chosen(eqn)):
                own = [Var(v.aval) for v in inner.jaxpr.constvars]
                constants.update(zip(own, inner.consts, strict=True))
                results = put(inner.jaxpr, dict(zip((*inner.jaxpr.constvars, *inner.jaxpr.invars), (*own, *operands),
                                                    strict=True)), deeply)
                values.update(zip(eqn.outvars, results, strict=True))
            else:
                new = [Var(v.aval) for v in eqn.outvars]
                values.update(zip(eqn.outvars, new, strict=True))
                eqns.append(eqn.replace(invars=operands, outvars=new))
        return [seen(v) for v in jaxpr.outvars]
    outvars = put(closed.jaxpr, {}, False)
    return ClosedJaxpr(closed.jaxpr.replace(eqns=eqns, outvars=outvars, constvars=list(constants)),
                       list(constants.values()))


def _read(jaxpr: Jaxpr) -> tuple[dict[Var, list[int]], dict[Var, JaxprEqn]]:
    """Returns which equations read each value, -1 for the results of the program, and which one computes it."""
    users: dict[Var, list[int]] = {}
    for place, atoms in [*enumerate([eqn.invars for eqn in jaxpr.eqns]), (-1, jaxpr.outvars)]:
        for atom in atoms:
            if isinstance(atom, Var):
                users.setdefault(atom, []).append(place)
    return users, {v: eqn for eqn in jaxpr.eqns for v in eqn.outvars}


def _following(eqn: JaxprEqn, jaxpr: Jaxpr, users: dict[Var, list[int]]) -> list[JaxprEqn]:
    """Returns the element-wise equations after a convolution, each the only reader of the previous one."""
    results: list[JaxprEqn] = []
    while len(results) < _MOST:
        readers = users.get(eqn.outvars[0], ())
        if len(readers) != 1 or readers[0] < 0 or not _loops(jaxpr.eqns[readers[0]]):
            break
        eqn = jaxpr.eqns[readers[0]]
        results.append(eqn)
    return results


def _loops(eqn: JaxprEqn) -> bool:
    """Returns whether an equation, or the function that it calls, is element-wise."""
    inner = called(eqn)
    return eqn.primitive.name in LOOPS if inner is None else all(map(_loops, inner.jaxpr.eqns))


def _takes_more(eqn: JaxprEqn) -> bool:
    """Returns whether this is a convolution with channels last that oneDNN computes."""
    if eqn.primitive is not lax.conv_general_dilated_p or not computed_by_library(eqn):
        return False
    numbers, dims = eqn.params["dimension_numbers"], aval_of(eqn.outvars[0]).ndim
    return numbers.lhs_spec == numbers.out_spec == (0, dims - 1, *range(1, dims - 1))


class _Chain(NamedTuple):
    """An operation on a convolution's result.

    steps: (name, position of the vector in `vectors`, or a number) in order: "mul", "add", "sub"; vectors: of any
    shape, with one number per channel or a single one; image: the image that is added afterwards, or None. clips:
    whether negative values become 0; places: positions of the equations; last: the last result.
    """

    steps: list[tuple[str, Any]]
    vectors: list[Var]
    image: Var | None
    clips: bool
    places: list[int]
    last: Var

    def equations(self, eqn: JaxprEqn) -> list[JaxprEqn]:
        """Returns the convolution with these operations."""
        data, weight = eqn.invars
        images = [] if self.image is None else [self.image]
        params = tuple((name, eqn.params[name]) for name in CONVOLUTION_PARAMS)
        jaxpr = fused(tuple(self.steps), self.image is not None, self.clips, aval_of(data).shape,
                       aval_of(weight).shape, tuple([aval_of(v).shape for v in self.vectors]),
                       aval_of(self.last).shape, params)
        values: dict[Var, Atom] = dict(zip(jaxpr.invars, (data, weight, *self.vectors, *images), strict=True))
        eqns = []
        for inner in jaxpr.eqns:
            new = [self.last if v is jaxpr.outvars[0] else Var(v.aval) for v in inner.outvars]
            values.update(zip(inner.outvars, new, strict=True))
            eqns.append(inner.replace(invars=[v if isinstance(v, Literal) else values[v] for v in inner.invars],
                                      outvars=new, source_info=eqn.source_info))
        return eqns


def _chain(eqn: JaxprEqn, eqns: Sequence[JaxprEqn], users: dict[Var, list[int]],
           makers: dict[Var, JaxprEqn], gone: set[int]) -> _Chain:
    """Returns the operations that a convolution can include, from the equations after it.

    Each of them is the only reader of the previous one.
    """
    steps: list[tuple[str, Any]] = []
    vectors: list[Var] = []
    image, clips, places, value = None, False, [], eqn.outvars[0]
    while not clips:
        readers = users.get(value, ())
        if len(readers) != 1 or readers[0] < 0 or readers[0] in gone:
            break
        reader = eqns[readers[0]]
        name = reader.primitive.name
        if name not in ("add", "add_any", "sub", "mul", "max") or name == "sub" and reader.invars[0] is not value:
            break
        other = reader.invars[1 if reader.invars[0] is value else 0]
        if name == "max":
            clips = isinstance(other, Literal) and np.ndim(other.val) == 0 and bool(other.val == 0)
            if not clips:
                break
        else:
            vector = _by_channel(other, makers) if image is None else None
            if isinstance(vector, Var):
                steps.append((name, (len(vectors),)))
                vectors.append(vector)
            elif vector is not None:
                steps.append((name, float(vector)))
            elif name.startswith("add") and image is None and isinstance(other, Var) and \
                    aval_of(other).shape == aval_of(value).shape:
                image = other
            else:
                break
        places.append(readers[0])
        value = reader.outvars[0]
    return _Chain(steps, vectors, image, clips, places, value)


def _by_channel(atom: Atom, makers: dict[Var, JaxprEqn]) -> Atom | float | None:
    """Returns the vector that was broadcast along all axes except the last, or a number. None: it is a different image.
    """
    if isinstance(atom, Literal):
        return atom.val if np.ndim(atom.val) == 0 else None
    if all([size == 1 for size in aval_of(atom).shape[:-1]]):
        return atom
    maker = makers.get(atom)
    if maker is None or maker.primitive is not lax.broadcast_in_dim_p or len(maker.invars) != 1:
        return None
    source, axes = maker.invars[0], maker.params["broadcast_dimensions"]
    if isinstance(source, Literal):
        return source.val if np.ndim(source.val) == 0 else None
    sizes, last = zip(aval_of(source).shape, axes, strict=True), aval_of(atom).ndim - 1
    return source if all([size == 1 or axis == last for size, axis in sizes]) else None


@functools.lru_cache(maxsize=1024)
def fused(steps: tuple, adds: bool, clips: bool, data: tuple, weight: tuple, vectors: tuple, out_shape: tuple,
           params: tuple) -> Jaxpr:
    """Returns the convolution as a function of data, weight, vectors and the image that is added."""
    p = dict(params)
    numbers, dims = p["dimension_numbers"], len(data)
    turn = p["feature_group_count"] == 1

    def function(data: jax.Array, weight: jax.Array, *more: jax.Array) -> jax.Array:
        def vector(step: Any) -> jax.Array:
            if not isinstance(step, tuple):
                return lax.full(out_shape[-1:], step, np.float32)
            value = more[step[0]]
            if value.size > 1:
                return lax.reshape(value, out_shape[-1:])
            return lax.broadcast(lax.reshape(value, ()), out_shape[-1:])
        factor: Any = None
        bias: Any = None
        for name, step in steps:
            value = vector(step)
            if name == "mul":
                factor = value if factor is None else lax.mul(factor, value)
                bias = None if bias is None else lax.mul(bias, value)
            elif bias is None:
                bias = lax.neg(value) if name == "sub" else value
            else:
                bias = (lax.sub if name == "sub" else lax.add)(bias, value)
        spec = numbers.rhs_spec
        if factor is not None:
            weight = lax.mul(weight, lax.broadcast_in_dim(factor, weight.shape, spec[:1]))
        if turn:  # oneDNN stores the filters last, too
            weight = lax.transpose(weight, (*spec[2:], spec[1], spec[0]))
            spec = (dims - 1, dims - 2, *range(dims - 2))
        operations = ["BIAS"] * (bias is not None) + ["BINARY_ADD"] * adds + ["RELU"] * clips
        return by_onednn(data, weight, out_shape, {**p, "dimension_numbers": lax.ConvDimensionNumbers(
            numbers.lhs_spec, spec, numbers.out_spec)}, operations,
            [*[bias] * (bias is not None), *more[len(vectors):]])
    shapes = (data, weight, *vectors, *[out_shape] * adds)
    return jax.make_jaxpr(function)(*[jax.ShapeDtypeStruct(s, np.float32) for s in shapes]).jaxpr


# ------------------------------------------------------------ values of weights only
class Split(NamedTuple):
    """A program in two parts: `before`, of the arguments at `places`; `rest`, of those at `others` and the results of
    `before`."""

    places: tuple[int, ...]
    before: ClosedJaxpr
    others: tuple[int, ...]
    rest: ClosedJaxpr


def split(closed: ClosedJaxpr) -> Split | None:
    """Splits a program into the part that depends only on the weights of convolutions, and the rest; None if the first
    is empty.

    Weights are the arguments that reach a convolution as its weight, not as its data, without another convolution in
    between.
    """
    jaxpr = closed.jaxpr
    makers = {v: eqn for eqn in jaxpr.eqns for v in eqn.outvars}
    library = [eqn for eqn in jaxpr.eqns if is_convolution(eqn)]
    images = _sources([eqn.invars[0] for eqn in library], makers)
    weights = _sources([v for eqn in library for v in eqn.invars[1:] if v is eqn.invars[1] or
                        aval_of(v).ndim != aval_of(eqn.invars[0]).ndim], makers) - images
    places = tuple([i for i, v in enumerate(jaxpr.invars) if v in weights])
    constants = set(jaxpr.constvars)
    standing, before, rest = {jaxpr.invars[i] for i in places}, [], []
    for eqn in jaxpr.eqns:
        reads = [v for v in eqn.invars if isinstance(v, Var) and v not in constants]
        of_weights = reads and all([v in standing for v in reads]) and not eqn.effects and not is_convolution(eqn)
        (before if of_weights else rest).append(eqn)
        if of_weights:
            standing.update(eqn.outvars)
    read = {v for v in (*[v for eqn in rest for v in eqn.invars], *jaxpr.outvars) if isinstance(v, Var)}
    derived = [v for eqn in before for v in eqn.outvars if v in read]
    if not derived:
        return None
    others = tuple([i for i, v in enumerate(jaxpr.invars) if v in read])
    inputs = [jaxpr.invars[i] for i in places]
    return Split(places, ClosedJaxpr(jaxpr.replace(invars=inputs, outvars=derived, eqns=before), closed.consts), others,
                 ClosedJaxpr(jaxpr.replace(invars=[*[jaxpr.invars[i] for i in others], *derived], eqns=rest),
                             closed.consts))


def _sources(atoms: Iterable[Atom], makers: dict[Var, JaxprEqn]) -> set[Var]:
    """Returns the values that these depend on, back to arguments and to results of convolutions."""
    members: set[Var] = set()
    todo = [v for v in atoms if isinstance(v, Var)]
    while todo:
        value = todo.pop()
        if value not in members:
            members.add(value)
            maker = makers.get(value)
            if maker is not None and not is_convolution(maker):
                todo += [v for v in maker.invars if isinstance(v, Var)]
    return members


class WeightCache:
    """A cache of the arrays that a program computes from weights, valid as long as the same arrays are passed.

    It does not prevent donation of a weight: the entry is dropped together with the array.

    Args:
        places: positions of the weights among the arguments.
        before: the program, jitted.
    """

    def __init__(self, places: Sequence[int], before: Any) -> None:
        self._places, self.before = places, before
        self.kept: tuple[list[weakref.ref], Sequence[jax.Array]] | None = None

    def __call__(self, args: Sequence[Any]) -> Sequence[jax.Array]:
        weights, kept = [args[i] for i in self._places], self.kept  # other threads may change it
        if kept is not None and all([ref() is array for ref, array in zip(kept[0], weights, strict=True)]):
            return kept[1]
        result = self.before(*weights)
        if all([isinstance(array, jax.Array) for array in weights]):
            forget = functools.partial(_forget, weakref.ref(self))
            self.kept = [weakref.ref(array, forget) for array in weights], result
        return result


def _forget(derived: weakref.ref, gone: weakref.ref) -> None:
    one = derived()
    kept = None if one is None else one.kept
    if one is not None and kept is not None and any([ref is gone for ref in kept[0]]):
        one.kept = None


class SplitProgram:
    """A program in two parts, of which the first depends only on weights.

    Args:
        derived: the first part.
        parts: both parts as jaxprs.
        rest: the second part, jitted.
        called: the targets of the library calls in it.
        results: the tree of its results.
        nested: whether an argument is a tree of arrays.
        effort: the level at which `rest` is compiled.
    """

    def __init__(self, derived: WeightCache, parts: Split, rest: Any, called: Iterable[str], results: Any,
                 nested: bool, effort: int) -> None:
        self.effort = effort
        self._derived, self._others, self._results, self._nested = derived, parts.others, results, nested
        self._jitted, self._rest = rest, in_no_file(rest, called)
        self._places, self._made = parts.places, list(map(aval_of, parts.before.jaxpr.outvars))

    def __call__(self, *args: Any) -> Any:
        leaves = jax.tree.leaves(args) if self._nested else args
        result = self._rest(*[leaves[i] for i in self._others], *self._derived(leaves))
        return jax.tree.unflatten(self._results, result)

    def lower(self, args: Sequence[Any]) -> list[Any]:
        """Returns both parts lowered for these arguments."""
        leaves = jax.tree.leaves(args)
        weights = [leaves[i] for i in self._places]
        place = next((w.sharding for w in weights if isinstance(w, jax.Array) and w.committed), None)
        specs = [jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=place, weak_type=a.weak_type) for a in self._made]
        return [self._derived.before.lower(*weights), self._jitted.lower(*[leaves[i] for i in self._others], *specs)]
