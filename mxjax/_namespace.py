"""Namespaces of functions generated from the operator registry, filled on first use of each name."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from . import level
from .base import MXNetError, _Null
from .ops import manual, registry
from .ops.names_of_2 import READ

__all__ = ["attach", "document", "give_methods", "lend", "lay_out", "public_name", "signature"]

_PREFIXES = {"contrib": "_contrib_", "linalg": "_linalg_", "random": "_random_", "image": "_image_",
             "sparse": "_sparse_", "numpy": "_np_", "numpy._internal": "_npi_", "numpy_extension": "_npx_",
             "numpy_extension.image": "_npx__image_"}


class _Namespace(ModuleType):
    """A module whose `__dict__` has all of its names: scripts look there for operators."""

    @property
    def __dict__(self) -> dict[str, Any]:
        own = super().__dict__
        for name in own["__dir__"]():
            getattr(self, name)
        return own


def lay_out(package: str, modules: dict[str, ModuleType | dict[str, Any]]) -> None:
    """Gives a package the modules that MXNet has there, for names that lie in other files here.

    Args:
        package: the full name of a package that is loaded.
        modules: by name below it ("distributions.normal"), each above those within it: names and their values, or a
            module that is there already.

    A module becomes an attribute of the one above, unless that has the name for something else.
    """
    for path, names in modules.items():
        full = f"{package}.{path}"
        above, _, name = full.rpartition(".")
        module = names if isinstance(names, ModuleType) else sys.modules.get(full)
        if module is None:
            module = ModuleType(full, f"`{full.replace('mxjax', 'mx', 1)}`, as MXNet 2 has it.")
        if not isinstance(names, ModuleType):
            vars(module).update(names)
            if any(other.startswith(f"{path}.") for other in modules):
                module.__path__ = []
        sys.modules[full] = module
        vars(sys.modules[above]).setdefault(name, module)


def public_name(registered: str, kind: str) -> str | None:
    """Returns a family's name of an operator; None where it is not of that family."""
    if kind in ("op", "_internal"):
        return registered if registered.startswith("_") == (kind == "_internal") else None
    prefix = _PREFIXES[kind]
    return registered[len(prefix):] if registered.startswith(prefix) else None


# by prefix of MXNet 2's names that mxjax lacks: the reason, and the alternative
_ABSENT = {"intgemm_": "intgemm is for x86 processors; mx.contrib.quantization makes networks of 8-bit integers",
           "tvm_": "TVM's operators are not here; XLA compiles all of mxjax's"}


def attach(scope: dict[str, Any], make: Callable[[registry.Op, str], Callable], kind: str,
           modules: dict[str, str] | None = None) -> None:
    """Gives a module `__getattr__` (`__all__` included), `__dir__` and `__dict__` that make functions of operators.

    Args:
        scope: the module's `globals()`.
        make: function(op, public name) -> the front-end function.
        kind: "op" (plain names), "_internal" (names with an underscore) or one of the prefixed families.
        modules: submodules to import on first use, by the names they have here.
    """
    prefix, first = _PREFIXES.get(kind, ""), scope.pop("__all__", None)
    module = scope["__name__"]

    def lookup(name: str) -> registry.Op | None:
        if kind == "op" and name.startswith("_") or name.startswith("__"):
            return None
        registered = prefix + name
        value = registry.find(READ.get(registered, registered) if level.current() == 2 else registered)
        if value is None and kind == "sparse":
            value = registry.find(name)
        return value

    def getter(name: str) -> Any:
        if name == "__all__":  # asked for by `from ... import *`
            return [n for n in ([*first, *operators()] if first else names()) if not n.startswith("_")]
        if modules and name in modules:
            return scope.setdefault(name, importlib.import_module(f"{module}.{modules[name]}"))
        op = lookup(name)
        if op is None:
            why = next((f": {text}" for start, text in _ABSENT.items() if name.startswith(start)), "")
            raise AttributeError(f"module {module!r} has no attribute {name!r}{why}")
        function = make(op, name)
        function.__module__ = module
        scope[name] = function
        return function

    def operators() -> list[str]:
        return [n for n in (public_name(r, kind) for r in registry.names()) if n]

    def names() -> list[str]:
        own = [n for n in (*scope, *(modules or ())) if not n.startswith("__")]
        return sorted({*own, *operators()})
    scope["__getattr__"], scope["__dir__"] = getter, names
    sys.modules[module].__class__ = _Namespace


def give_methods(owner: type, names: dict[str, str], make: Callable[[registry.Op, str], Callable], doc: str) -> None:
    """Gives a class methods that call operators' functions, made at the first call; its own methods stay.

    Args:
        owner: the class.
        names: method name -> operator name.
        make: as for `attach`.
        doc: the methods' docstring, with {} for the operator's name.
    """
    def method(name: str, op_name: str) -> Callable[..., Any]:
        made: list[Callable[..., Any]] = []

        def call(self: object, *args: object, **kwargs: object) -> Any:
            if not made:
                made.append(make(registry.get(op_name), op_name))
            return made[0](self, *args, **kwargs)
        call.__name__, call.__qualname__ = name, f"{owner.__name__}.{name}"
        call.__doc__ = doc.format(op_name)
        return call
    for name, op_name in names.items():
        if name not in owner.__dict__:
            setattr(owner, name, method(name, op_name))


def lend(module: Any, *owners: Any) -> None:
    """Gives a module the public functions of others: MXNet keeps them there.

    Raises:
        MXNetError: the module has something else of that name.
    """
    for owner in owners:
        for name in owner.__all__:
            if getattr(module, name, None) not in (None, getattr(owner, name)):
                raise MXNetError(f"{module.__name__} has another {name}")
            setattr(module, name, getattr(owner, name))
        module.__all__ = [*module.__all__, *owner.__all__]


def positional(op: registry.Op) -> list[str]:
    """Returns the names of the parameters that calls may give by position, in order."""
    hidden = op.get_attr("hidden", ())
    return [n for n in op.params if n not in hidden]


def signature(op: registry.Op, last: tuple[str, ...] = ("out", "name")) -> inspect.Signature:
    """Returns the signature for users: inputs, parameters, and common arguments."""
    kind = inspect.Parameter
    hidden = op.get_attr("hidden", ())
    if op.get_attr("opaque"):
        return inspect.Signature([kind("data", kind.VAR_POSITIONAL), kind("kwargs", kind.VAR_KEYWORD)])
    rows = [kind(n, kind.POSITIONAL_OR_KEYWORD, default=None) for n in op.input_names if n not in hidden]
    if op.variadic:
        rows = [kind(op.get_attr("variadic_name", "data"), kind.VAR_POSITIONAL)]
    after = kind.KEYWORD_ONLY if op.variadic else kind.POSITIONAL_OR_KEYWORD
    taken = {r.name for r in rows}
    rows += [kind(n, after, default=_Null) for n in positional(op) if n.isidentifier() and n not in taken]
    rows += [*(kind(n, after, default=None) for n in last), kind("kwargs", kind.VAR_KEYWORD)]
    seen: set[str] = set()
    return inspect.Signature([r for r in rows if not (r.name in seen or seen.add(r.name))])


def document(op: registry.Op) -> str:
    """The docstring: the operator's own, then its parameters, then an example."""
    lines = [op.doc, "", "Parameters", "----------"]
    lines += [f"{n} : NDArray-or-Symbol" for n in op.input_names]
    if op.variadic and not op.input_names:
        lines.append(f"*{op.get_attr('variadic_name', 'data')} : NDArrays or Symbols")
    for name, parameter in op.params.items():
        said = manual.meaning(op.name, name)
        lines += [f"{name} : {parameter}", *([f"    {said}"] if said else [])]
    example = manual.examples(op.name)
    return "\n".join([*lines, *(["", "Examples", "--------", example] if example else [])])
