"""The level of MXNet's API that a process speaks: 1 is that of MXNet 1.9.1, 2 that of MXNet 2.0.

A process has one level. It is chosen by `MXJAX_API=2`, `install_mxnet_alias(api=2)` or `python -m mxjax run --api 2`,
and is fixed when something that depends on it is loaded, such as Gluon. Names that mean the same at both levels do not
ask.
"""

from __future__ import annotations

import os
import types
from collections.abc import Callable

__all__ = ["choose", "current", "fix", "follow"]

VERSIONS = {1: "1.9.1", 2: "2.0.0"}
# modules of MXNet 1.x that 2.0 does not have, and their replacements there
GONE = {"mod": "mx.gluon", "module": "mx.gluon", "rnn": "mx.gluon.rnn", "metric": "mx.gluon.metric",
        "mon": "HybridBlock.register_op_hook", "monitor": "HybridBlock.register_op_hook",
        "executor_manager": "mx.gluon", "kvstore_server": "", "misc": "mx.lr_scheduler"}

_followers: list[Callable[[int], None]] = []


def _from_environment() -> int:
    text = os.environ.get("MXJAX_API", "1") or "1"
    if text not in ("1", "2"):
        raise ValueError(f"MXJAX_API must be 1 (MXNet 1.9.1) or 2 (MXNet 2.0), got {text!r}")
    return int(text)


_level = _from_environment()
_fixed_by: str | None = None


def current() -> int:
    """Returns the level, 1 or 2; it may still change before `fix`."""
    return _level


def fix(by: str) -> int:
    """Returns the level, which is fixed from now on.

    Args:
        by: the feature that depends on it, for the error of a later `choose`.
    """
    global _fixed_by
    _fixed_by = _fixed_by or by
    return _level


def choose(api: int) -> None:
    """Sets the level of this process.

    Args:
        api: 1 or 2.

    Raises:
        ValueError: there is no such level.
        RuntimeError: the process speaks the other level already.
    """
    global _level
    if api not in VERSIONS:
        raise ValueError(f"api must be 1 (MXNet 1.9.1) or 2 (MXNet 2.0), got {api!r}")
    if api == _level:
        return
    if _fixed_by is not None:
        raise RuntimeError(f"this process uses MXNet {VERSIONS[_level]} since {_fixed_by} was loaded; a process has "
                           f"one level: choose api={api} before, by MXJAX_API={api} or python -m mxjax run --api {api}")
    _level = api
    for follower in _followers:
        follower(api)


def follow(follower: Callable[[int], None]) -> None:
    """Has `follower(level)` called at once, and again when the level is chosen."""
    _followers.append(follower)
    follower(_level)


def refuse_gone(name: str) -> None:
    """Raises AttributeError for a module that MXNet 2 has no more, at level 2."""
    if _level == 2 and name in GONE:
        instead = f"; {GONE[name]} stands for it" if GONE[name] else ""
        raise AttributeError(f"mx.{name} belongs to MXNet 1.x, but this process uses MXNet 2{instead}. For the API of "
                             "1.9.1: MXJAX_API=1, or python -m mxjax run without --api 2")


def _gone(name: str) -> property:
    def get(module: types.ModuleType) -> None:
        refuse_gone(name)

    def ignore(module: types.ModuleType, value: object) -> None:
        """Keeps the import of a submodule, which the library itself may need, from setting its name."""
    return property(get, ignore)


class PackageOf2(types.ModuleType):
    """The package at level 2: the modules that MXNet 2 has no more are refused, loaded or not."""

    locals().update({name: _gone(name) for name in GONE})

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name not in GONE]
