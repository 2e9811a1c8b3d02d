"""Factories: classes looked up by name, with optional arguments, from text or JSON."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from .base import NotRegistered, WrongKind

__all__ = ["get_registry", "get_register_func", "get_alias_func", "get_create_func"]

_REGISTRY: dict[type, dict[str, type]] = {}
_Class = TypeVar("_Class", bound=type)


class _Register(Protocol):
    """Registers a class, and returns it."""

    def __call__(self, klass: _Class, name: str | None = None) -> _Class:
        """Registers `klass` under `name` or its own name in lower case."""
        ...


def get_registry(base_class: type) -> dict[str, type]:
    """The registered subclasses of `base_class`, by lower-case name; a copy."""
    return dict(_REGISTRY.setdefault(base_class, {}))


def forget(base_class: type, name: str) -> None:
    """Removes a registered name; does nothing if there is no such name."""
    _REGISTRY.get(base_class, {}).pop(name.lower(), None)


def get_register_func(base_class: type, nickname: str) -> _Register:
    """Returns a function `register(klass, name=None)` that adds a subclass of `base_class` under a name.

    Args:
        base_class: base of every registered class.
        nickname: name of such classes in messages ("optimizer", "metric", ...).

    Returns:
        The function; usable as a class decorator. It warns when a name is taken, and the newer class wins.
    """
    known = _REGISTRY.setdefault(base_class, {})

    def register(klass: _Class, name: str | None = None) -> _Class:
        if not (isinstance(klass, type) and issubclass(klass, base_class)):
            raise WrongKind(f"only a subclass of {base_class.__name__} can be registered as {nickname}, got {klass!r}")
        name = (name or klass.__name__).lower()
        if known.get(name, klass) is not klass:
            old = known[name]
            warnings.warn(f"new {nickname} {klass.__module__}.{klass.__name__} registered as {name!r} is overriding "
                          f"existing {nickname} {old.__module__}.{old.__name__}", UserWarning, stacklevel=2)
        known[name] = klass
        return klass

    register.__doc__ = f"Registers a class as {nickname}, under `name` or its own name in lower case."
    return register


def get_alias_func(base_class: type, nickname: str) -> Callable[..., Callable[[_Class], _Class]]:
    """A class decorator `alias(*names)` that registers under further names; arguments as `get_register_func`."""
    register = get_register_func(base_class, nickname)

    def alias(*aliases: str) -> Callable[[_Class], _Class]:
        def decorate(klass: _Class) -> _Class:
            for name in aliases:
                register(klass, name)
            return klass
        return decorate

    alias.__doc__ = f"Registers a {nickname} under further names."
    return alias


def get_create_func(base_class: type, nickname: str) -> Callable[..., Any]:
    """A function that makes an instance of a registered class; arguments as `get_register_func`.

    Returns:
        `create(name, *args, **kwargs)`. Instead of a name it takes an instance (returned as it is), a dict with
        the name under `nickname`, or such a dict or a pair [name, arguments] as JSON text.
    """
    known = _REGISTRY.setdefault(base_class, {})

    def create(*args: Any, **kwargs: Any) -> Any:
        if args:
            what, args = args[0], args[1:]
        elif nickname in kwargs:
            what = kwargs.pop(nickname)
        else:
            raise KeyError(f"which {nickname}? Expected its name, one of {', '.join(sorted(known))}")
        complete = isinstance(what, (base_class, dict)) or (isinstance(what, str) and what[:1] in ("[", "{"))
        if complete and (args or kwargs):
            raise AssertionError(f"{nickname} {what!r} is complete already; further arguments are not taken")
        if isinstance(what, base_class):
            return what
        if complete:
            config = json.loads(what) if isinstance(what, str) else what
            if isinstance(config, dict):
                return create(**config)
            name, arguments = config
            return create(name, **arguments)
        if not isinstance(what, str):
            raise WrongKind(f"{nickname} must be a name or an instance of {base_class.__name__}, got {what!r}")
        if what.lower() not in known:
            raise NotRegistered(f"{nickname} {what!r} is not registered; known: {', '.join(sorted(known))}")
        return known[what.lower()](*args, **kwargs)

    create.__doc__ = (f"Makes a {nickname} from its registered name and arguments, from JSON, or returns the instance"
                      f" given.\n\nRaises:\n    ValueError: no {nickname} has that name.")
    return create
