"""The level of MXNet's API that a script uses, by names that only one level has."""

from __future__ import annotations

import ast
from typing import NamedTuple

from ..level import GONE, VERSIONS, current

__all__ = ["Signs"]

_NAMES = {2: ("gluon.metric", "gluon.probability", "device", "_deferred_compute", "np.random.default_rng"),
          1: tuple(GONE)}
_METHODS = {2: ("share_parameters", "reset_device", "list_device", "to_device", "current_device"), 1: ("name_scope",)}
_BLOCKS = ("gluon.HybridBlock", "gluon.nn.HybridBlock", "gluon.block.HybridBlock")


class _Sign(NamedTuple):
    line: int
    text: str


class Signs:
    """The names of each level that a script uses."""

    def __init__(self) -> None:
        self._seen: dict[int, list[_Sign]] = {1: [], 2: []}

    def name(self, path: str, line: int) -> None:
        """Takes a name of MXNet's, such as "gluon.metric.Accuracy"."""
        for level, names in _NAMES.items():
            for name in names:
                if f"{path}.".startswith(f"{name}."):
                    self._seen[level].append(_Sign(line, f"mx.{name}"))

    def call(self, node: ast.Call, path: str | None) -> None:
        """Takes a call, of a function of MXNet's if `path` names it."""
        if path is not None and any(keyword.arg == "device" for keyword in node.keywords):
            self._seen[2].append(_Sign(node.lineno, "device="))
        if isinstance(node.func, ast.Attribute):
            for level, methods in _METHODS.items():
                if node.func.attr in methods:
                    self._seen[level].append(_Sign(node.lineno, f"{node.func.attr}()"))

    def block(self, node: ast.ClassDef, bases: list[str | None]) -> None:
        """Takes a class, whose bases of MXNet's are named."""
        methods = {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
        if "hybrid_forward" in methods:
            self._seen[1].append(_Sign(node.lineno, "hybrid_forward"))
        elif "forward" in methods and any(base in _BLOCKS for base in bases):
            self._seen[2].append(_Sign(node.lineno, "forward of a HybridBlock"))

    def advice(self) -> _Sign | None:
        """Returns the first sign that the script speaks another level than this process, with advice; else None."""
        speaks = current()
        other, own = self._seen[3 - speaks], self._seen[speaks]
        if not other:
            return None
        first = min(other)
        if own:
            return _Sign(first.line, f"{first.text} is of MXNet {VERSIONS[3 - speaks]}, {min(own).text} in line "
                         f"{min(own).line} of {VERSIONS[speaks]}: a process speaks one of them")
        return _Sign(first.line, f"{first.text}: a script for MXNet {VERSIONS[3 - speaks]}: python -m mxjax run --api "
                     f"{3 - speaks}, or MXJAX_API={3 - speaks}")
