"""Barriers that prevent XLA's fusion on a CPU from recomputing a value for each reader.

Cell states of recurrent networks are long chains of cheap operators: each is read by the next step and by its own
gates. Without barriers, every fused step recomputes all previous steps, so time and code grow with the square of the
number of steps (docs/design/0011).

Programs of few numbers are compiled without optimization. There, two loops round `x * 1.1 + 0.3` differently, so that a
maximum would not be equal to any of the values of which it is one: `x == max(x)`, `argmax`, gradients of maxima.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import jax
from jax import lax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal

from .._xla.tracing import aval_of
from .rewriting import CALLS, called

__all__ = ["BARRIER_OPTIONS", "FEW", "with_barriers"]

# jaxlib < 0.12 drops barriers before fusion; and a small loop, compiled as one kernel, could not contain any
BARRIER_OPTIONS = {"xla_disable_hlo_passes": "cse_barrier_expander,small-while-loop-hoisting"}

FEW = 256  # elements of all arguments of a program up to which it is compiled without optimization
_SELECT = frozenset("""
    argmax argmin cummax cummin reduce reduce_max reduce_min reduce_window_max reduce_window_min sort top_k
""".split())  # operations whose results are elements of their arguments, or positions of elements
_LONGEST = 12  # cheap operators in a row that several readers may each compute
_CHEAP = frozenset("""
    abs add add_any and broadcast_in_dim ceil clamp concatenate convert_element_type copy dynamic_slice eq expand_dims
    floor gather ge gt imag integer_pow iota is_finite le lt max min mul ne neg not or pad real reduce_precision reshape
    rev round select_n sign slice split square squeeze stop_gradient sub transpose xor
""".split())  # operations that XLA's fusion considers cheap
_Path = tuple[int, ...]  # position of an equation in the program, in the function called there, and so on


def with_barriers(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Returns a program for CPUs with barriers in long chains of cheap operators, and before values are selected."""
    return _with_barriers(closed, (), _places(closed.jaxpr))


def _flat(jaxpr: Jaxpr, ids: dict[Any, Any], path: _Path) -> Iterator[tuple[JaxprEqn, _Path, list, list]]:
    """Returns all equations, with called functions inlined, and their variables under common names."""
    for i, eqn in enumerate(jaxpr.eqns):
        read = [None if isinstance(v, Literal) else ids[v] for v in eqn.invars]
        inner = called(eqn)
        if inner is None:
            wrote: list[Any] = [(*path, i, k) for k in range(len(eqn.outvars))]
            yield eqn, (*path, i), read, wrote
        else:
            inside = dict(zip(inner.jaxpr.invars, read, strict=True))
            inside.update(dict.fromkeys(inner.jaxpr.constvars))
            yield from _flat(inner.jaxpr, inside, (*path, i))
            wrote = [None if isinstance(v, Literal) else inside[v] for v in inner.jaxpr.outvars]
        ids.update(zip(eqn.outvars, wrote, strict=True))


def _places(jaxpr: Jaxpr) -> set[_Path]:
    """Returns the equations that need a barrier after them, and the calls that contain them."""
    ids: dict[Any, Any] = dict.fromkeys((*jaxpr.invars, *jaxpr.constvars))
    equations = list(_flat(jaxpr, ids, ()))
    readers = Counter(name for _, _, read, _ in equations for name in set(read))
    readers.update({ids[v] for v in jaxpr.outvars if not isinstance(v, Literal)})
    shapes = [aval_of(v).shape for v in jaxpr.invars]
    few = all(isinstance(n, int) for shape in shapes for n in shape) and sum(map(math.prod, shapes)) <= FEW
    lengths: dict[Any, int] = {}
    places: set[_Path] = set()
    for eqn, path, read, wrote in equations:
        if few and eqn.primitive.name in _SELECT:
            for name in read:
                if name is not None and readers[name] > 1:  # a position of an equation, and the number of its result
                    places.update(name[:k] for k in range(1, len(name)))
        if eqn.primitive.name not in _CHEAP:
            continue
        length = 1 + max([lengths.get(name, 0) for name in read], default=0)
        if length >= _LONGEST and max(readers[name] for name in wrote) > 1:
            places.update(path[:k] for k in range(1, len(path) + 1))
            length = 0
        lengths.update(dict.fromkeys(wrote, length))
    return places


def _with_barriers(closed: ClosedJaxpr, path: _Path, places: set[_Path]) -> ClosedJaxpr:
    eqns = []
    for i, eqn in enumerate(closed.jaxpr.eqns):
        here = (*path, i)
        inner = called(eqn)
        if here not in places:
            eqns.append(eqn)
        elif inner is not None:
            name = CALLS[eqn.primitive.name]
            eqns.append(eqn.replace(params={**eqn.params, name: _with_barriers(inner, here, places)}))
        else:
            barrier = jax.make_jaxpr(lambda *values: lax.optimization_barrier(values))(*(v.aval for v in eqn.outvars))
            eqns += [eqn.replace(outvars=barrier.jaxpr.invars), barrier.eqns[0].replace(outvars=eqn.outvars)]
    return ClosedJaxpr(closed.jaxpr.replace(eqns=eqns), closed.consts)
