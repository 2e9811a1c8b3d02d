"""`mx.sym.<operator>`: the symbolic function of an operator."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .._namespace import document, give_methods, positional, signature
from ..base import WrongKind, _Null, _NullType
from ..ops.method_names import METHODS
from ..ops.registry import Op, find, get
from ._creation import split_v2
from .symbol import Symbol, apply

__all__ = ["make"]


def make(op: Op, name: str) -> Callable[..., Symbol]:
    """The symbolic function of an operator: makes a node."""
    hint = name.lower()
    called = name if find(name) is op else op.name  # `cumsum` makes a classic symbol, of the operator _np_cumsum

    def function(*args: Any, name: str | None = None, attr: dict[str, str] | None = None, out: Any = None,
                 **kwargs: Any) -> Symbol:
        if op.variadic and args and isinstance(args[0], (list, tuple)):
            args = (*args[0], *args[1:])
        count = next((i for i, a in enumerate(args) if not isinstance(a, Symbol)), len(args))
        inputs, rest = list(args[:count]), args[count:]
        names = op.input_names if not op.variadic else []
        if op.variadic and rest:
            raise WrongKind(f"operator {op.name}: positional arguments must be Symbols, got {type(rest[0]).__name__}")
        blanks = max(len(names) - count, 0)
        kwargs.update((key, value) for key, value in zip(names[count:], rest, strict=False) if value is not None)
        for key in names:
            if not isinstance(kwargs.get(key), Symbol | _NullType | None) and key not in op.params:
                raise WrongKind(f"operator {op.name}: input {key} must be a Symbol, got {type(kwargs[key]).__name__}")
        if len(rest) > blanks:
            keywords = _by_position(op, rest[blanks:], {**kwargs, "name": name, "attr": attr})
            name, attr = keywords.pop("name", name), keywords.pop("attr", attr)
            kwargs.update(keywords)
        named = {k: v for k, v in kwargs.items() if isinstance(v, Symbol)}
        left_out = {k for k, p in op.params.items() if p.default is None and not p.required}.union(op.input_names)
        params = {k: v for k, v in kwargs.items() if k not in named and v is not _Null and
                  not (v is None and k in left_out)}
        params.pop("ctx", None) if "ctx" not in op.params else None
        if "ctx" in params:
            params["ctx"] = str(params["ctx"])
        return apply(called, hint, inputs, params, name, attr, named)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = document(op)
    function.__signature__ = signature(op, ("name", "attr", "out"))
    return function


def _by_position(op: Op, values: tuple, named: dict[str, Any]) -> dict[str, Any]:
    """Returns parameters, name and attributes that a call gives by position, after the inputs.

    Raises:
        WrongKind: the name is not text.
        TypeError: there are too many, or one is also in `named`.
    """
    places = (*positional(op), "name", "attr", "out")
    if len(values) > len(places):
        raise TypeError(f"operator {op.name} takes at most {len(op.input_names) + len(places)} positional arguments")
    keywords = dict(zip(places, values, strict=False))
    for key in keywords:
        if named.get(key) is not None:
            raise TypeError(f"operator {op.name}: got multiple values for {'parameter ' * (key in op.params)}{key}")
    if not isinstance(keywords.get("name"), str | None):
        raise WrongKind(f"operator {op.name}: name must be text, got {type(keywords['name']).__name__}")
    keywords.pop("out", None)
    return keywords


def _split_v2(self: Symbol, *args: Any, **kwargs: Any) -> Any:
    """`mx.sym.split_v2` with this symbol as the first argument."""
    return split_v2(self, *args, **kwargs)


@functools.cache
def _function(name: str) -> Callable[..., Symbol]:
    return make(get(name), name)


def _flatten(self: Symbol, inplace: bool = False, **kwargs: Any) -> Symbol:
    """`mx.sym.Flatten` of this symbol; `inplace` means nothing."""
    return _function("Flatten")(self, **kwargs)


def _expand_dims(self: Symbol, axis: int, inplace: bool = False, **kwargs: Any) -> Symbol:
    """`mx.sym.expand_dims` of this symbol; `inplace` means nothing."""
    return _function("expand_dims")(self, axis=axis, **kwargs)


def _squeeze(self: Symbol, axis: int | tuple[int, ...] | None = None, inplace: bool = False,
             **kwargs: Any) -> Symbol:
    """`mx.sym.squeeze` of this symbol; `inplace` means nothing."""
    return _function("squeeze")(self, axis=axis, **kwargs)


Symbol.split_v2, Symbol.flatten, Symbol.expand_dims, Symbol.squeeze = _split_v2, _flatten, _expand_dims, _squeeze
give_methods(Symbol, {**METHODS, "astype": "cast"}, make, "`mx.sym.{}` with this symbol as the first argument.")
