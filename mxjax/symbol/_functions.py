"""`mx.sym.<operator>`: the symbolic function of an operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._namespace import document, give_methods, signature
from ..base import WrongKind, _Null, _NullType
from ..ops.method_names import METHODS
from ..ops.registry import Op, find
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
        for place, value in enumerate(rest[:blanks]):
            if value is not None and not isinstance(value, Symbol):
                raise WrongKind(f"operator {op.name}: input {names[count + place]} must be a Symbol, got "
                                f"{type(value).__name__}")
            if value is not None:
                kwargs[names[count + place]] = value
        for key, value in zip(op.params, rest[blanks:], strict=False):
            if key in kwargs:
                raise TypeError(f"operator {op.name}: got multiple values for parameter {key}")
            kwargs[key] = value
        for key in names:
            if not isinstance(kwargs.get(key), Symbol | _NullType | None) and key not in op.params:
                raise WrongKind(f"operator {op.name}: input {key} must be a Symbol, got {type(kwargs[key]).__name__}")
        name, attr = _further(op, rest[blanks + len(op.params):], name, attr)
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


def _further(op: Op, values: tuple, name: str | None, attr: dict[str, str] | None) -> tuple:
    """Returns (name, attr), which may be the arguments after an operator's parameters; `out` is the third."""
    if len(values) > 3:
        raise TypeError(f"operator {op.name} takes at most {len(op.input_names) + len(op.params) + 3} positional "
                        "arguments")
    given = {"name": name, "attr": attr}
    for key, value in zip(given, values, strict=False):
        if given[key] is not None:
            raise TypeError(f"operator {op.name}: got multiple values for {key}")
        given[key] = value
    if not isinstance(given["name"], str | None):
        raise WrongKind(f"operator {op.name}: name must be text, got {type(given['name']).__name__}")
    return given["name"], given["attr"]


give_methods(Symbol, {**METHODS, "astype": "cast", "flatten": "Flatten"}, make,
             "`mx.sym.{}` with this symbol as the first argument.", ignored="inplace")


def _split_v2(self: Symbol, *args: Any, **kwargs: Any) -> Any:
    """`mx.sym.split_v2` with this symbol as the first argument."""
    return split_v2(self, *args, **kwargs)


Symbol.split_v2 = _split_v2
