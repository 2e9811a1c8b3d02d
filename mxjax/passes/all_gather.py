"""Arguments that are sharded over the devices of a mesh, and gathered where they are used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax import lax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal
from jax.extend.core.primitives import remat_p
from jax.sharding import NamedSharding, PartitionSpec

__all__ = ["gathered"]

_CALLS = ("jit", "pjit")
_KEEPING = ("convert_element_type", "copy", "transpose")  # operations that apply to shards before the gather


class _Parts:
    """A sharded value. `users`: how often the argument that it is computed from has been gathered."""

    def __init__(self, value: Any, lies: NamedSharding, whole: NamedSharding, users: list[int]) -> None:
        self.value, self.lies, self.whole, self.users = value, lies, whole, users

    def together(self, beside: Any) -> Any:
        """The whole value.

        Each use gathers the value itself, so that its memory is freed early: the backward pass gathers again instead of
        keeping the value of the forward pass. XLA would merge both gathers if the later one did not depend on the
        values that it is used with.
        """
        value = self.value
        if self.users[0] and beside is not None:
            value, _ = lax.optimization_barrier((value, beside))
            value = lax.with_sharding_constraint(value, self.lies)  # else it might wait after the gather
        self.users[0] += 1
        return lax.with_sharding_constraint(value, self.whole)


def gathered(function: Callable[..., Any],
             ways: Sequence[tuple[NamedSharding, NamedSharding] | None]) -> Callable[..., Any]:
    """Returns a function of sharded arguments.

    Args:
        function: of arrays; returns a tuple of arrays.
        ways: the sharding of each argument, and its sharding where it is used; None: unchanged.
    """
    def call(*args: Any) -> tuple:
        closed = jax.make_jaxpr(function)(*args)
        values = [a if way is None else _Parts(a, *way, [0]) for a, way in zip(args, ways, strict=True)]
        return tuple([v.value if isinstance(v, _Parts) else v for v in _run(closed.jaxpr, closed.consts, values)])
    return call


def _run(jaxpr: Jaxpr, consts: Sequence[Any], args: Sequence[Any]) -> list[Any]:
    known: dict[Any, Any] = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *args], strict=True))
    for eqn in jaxpr.eqns:
        values = [v.val if isinstance(v, Literal) else known[v] for v in eqn.invars]
        parts = [v for v in values if isinstance(v, _Parts)]
        inner = eqn.params.get("jaxpr")
        if parts and eqn.primitive.name in _CALLS and isinstance(inner, ClosedJaxpr):
            results = _run(inner.jaxpr, inner.consts, values)
        elif parts and eqn.primitive is remat_p:
            results = _run(eqn.params["jaxpr"], (), _waiting(values) if eqn.params["differentiated"] else values)
        elif parts and eqn.primitive.name in _KEEPING:
            lies, whole = _turned(parts[0].lies, eqn), _turned(parts[0].whole, eqn)
            results = [_Parts(_bound(eqn, [parts[0].value])[0], lies, whole, parts[0].users)]
        else:
            beside = next((v for v in values if not isinstance(v, _Parts) and getattr(v, "ndim", 0)), None)
            results = _bound(eqn, [v.together(beside) if isinstance(v, _Parts) else v for v in values])
        known.update(zip(eqn.outvars, results, strict=True))
    return [v.val if isinstance(v, Literal) else known[v] for v in jaxpr.outvars]


def _waiting(values: Sequence[Any]) -> list[Any]:
    """Returns values for recomputation in the backward pass, available only when all of them are; shards stay
    shards."""
    ready = lax.optimization_barrier([v.value if isinstance(v, _Parts) else v for v in values])
    return [_Parts(lax.with_sharding_constraint(now, v.lies), v.lies, v.whole, v.users)
            if isinstance(v, _Parts) else now for v, now in zip(values, ready, strict=True)]


def _turned(lies: NamedSharding, eqn: JaxprEqn) -> NamedSharding:
    """Returns the sharding of the result of an operation in `_KEEPING`."""
    order = eqn.params.get("permutation")
    if order is None:
        return lies
    names = [*lies.spec, *[None] * (len(order) - len(lies.spec))]
    return NamedSharding(lies.mesh, PartitionSpec(*[names[i] for i in order]))


def _bound(eqn: JaxprEqn, values: Sequence[Any]) -> list[Any]:
    result = eqn.primitive.bind(*values, **eqn.primitive.get_bind_params(eqn.params))
    return list(result) if eqn.primitive.multiple_results else [result]
