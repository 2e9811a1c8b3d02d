"""Counterparts of MXNet's names in JAX, flax or optax, and in PyTorch.

A table written by hand (`counterparts.txt`), and then the source that `convert` writes for operators of one formula.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..base import MXNetError
from ..ops import registry
from .source import flax_emitter, torch_emitter
from .source.writer import Target

__all__ = ["Counterpart", "find", "table"]


class Counterpart(NamedTuple):
    """Names or formulas that replace one of MXNet's; `note`: differences that matter when you change over."""

    jax: str
    torch: str
    note: str = ""


# other names of MXNet's modules, and those that MXNet 2 moved
_MODULES = {"ndarray": "nd", "symbol": "sym", "numpy": "np", "numpy_extension": "npx", "initializer": "init",
            "module": "mod", "kvstore": "kv", "visualization": "viz", "img": "image", "device": "context",
            "gluon.metric": "metric", "amp": "contrib.amp", "onnx": "contrib.onnx", "mon": "monitor"}
_PREFIXES = {"nd": "", "nd.contrib": "_contrib_", "nd.linalg": "_linalg_", "nd.image": "_image_", "np": "_npi_",
             "npx": "_npx_"}


@functools.cache
def table() -> dict[str, Counterpart]:
    """Returns the table by name, without `mx.`; names of methods begin with a point.

    Raises:
        MXNetError: a line has another form, or a name comes twice.
    """
    result: dict[str, Counterpart] = {}
    text = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8")
    for number, line in enumerate(text.splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        names, *parts = (part.strip() for part in line.split("|"))
        if not 1 <= len(parts) <= 3 or not names:
            raise MXNetError(f"counterparts.txt, line {number}: expected NAMES | JAX | PYTORCH | NOTE, got {line!r}")
        for name in names.split():
            parts = [*parts, "", ""][:3]
            jax, torch = (part.replace("*", name.rpartition(".")[2]) for part in parts[:2])
            if name in result:
                raise MXNetError(f"counterparts.txt, line {number}: {name} is listed twice")
            result[name] = Counterpart(", ".join(_words(jax)), ", ".join(_words(torch)), parts[2])
    return result


def _words(text: str) -> list[str]:
    """Splits names; text in parentheses is one."""
    return re.findall(r"\([^)]*\)|\S+", text)


def find(name: str) -> Counterpart | None:
    """Returns the counterpart of a name such as "nd.softmax" or "gluon.nn.Dense", None if there is none.

    Example:
        >>> find("sym.FullyConnected").torch
        'torch.nn.functional.linear'
    """
    if name.startswith("."):
        return table().get(name)
    module, _, last = name.rpartition(".")
    for spelled in dict.fromkeys((module, _short(module), _short(module).replace("sym", "nd", 1))):
        exact = table().get(f"{spelled}.{last}".strip("."))
        if exact is not None:
            return exact
    return _of_operator(_short(module).replace("sym", "nd", 1), last)


def _short(module: str) -> str:
    """A module by its shortest name: "nd.contrib" for "ndarray.contrib"."""
    for long, short in _MODULES.items():
        if f"{module}.".startswith(f"{long}."):
            return short + module[len(long):]
    return module


def _of_operator(module: str, last: str) -> Counterpart | None:
    op = registry.find(_PREFIXES[module] + last) if module in _PREFIXES else None
    return None if op is None else _by_operator().get(op) or _formulas(op)


@functools.cache
def _by_operator() -> dict[registry.Op, Counterpart]:
    """Returns the table by operator: an alias has the entry of its main name."""
    result: dict[registry.Op, Counterpart] = {}
    for name, counterpart in table().items():
        module, _, last = name.rpartition(".")
        op = registry.find(_PREFIXES[module] + last) if module in _PREFIXES else None
        if op is not None:
            result.setdefault(op, counterpart)
    return result


@functools.cache
def _formulas(op: registry.Op) -> Counterpart | None:
    """Returns the formula that `convert` writes for an operator; None where it writes none."""
    jax, torch = (_written(op, target) for target in (flax_emitter.TARGET, torch_emitter.TARGET))
    return Counterpart(jax, torch) if jax or torch else None


def _written(op: registry.Op, target: Target) -> str:
    emitter = target.table.emitters.get(op.name)
    if emitter is None:
        return ""
    formula = _Formula(op)
    try:
        emitter(formula)
    except (_NoFormula, AttributeError, KeyError, TypeError, IndexError):  # it wants a graph: shapes, values
        return ""
    text = re.sub(r"\{(\d+)\}", lambda m: "xyzabc"[int(m[1])], formula.text)
    text = re.sub(r"\((x [=!<>]+ [y0])\)", r"\1", text)
    for short, long in {"jnp.": "jax.numpy.", "F.": "torch.nn.functional.", "nnx.": "flax.nnx."}.items():
        text = re.sub(rf"(?<![\w.]){re.escape(short)}", long, text)
    return "" if text == "x" else text


class _NoFormula(Exception):
    """An emitter asks for more than a formula has."""


class _Formula:
    """Stands for an emitter's `Call`: inputs without shapes, which only a formula can do with."""

    def __init__(self, op: registry.Op) -> None:
        self.kind, self.text = op.name, ""
        self.p: dict[str, Any] = {name: p.default for name, p in op.params.items() if name != "scalar"}
        self._inputs = list(range(len(op.input_names)))

    def alike(self) -> tuple[list[int], str]:
        return self._inputs, ""

    def dtype(self, index: int = 0) -> np.dtype:
        return np.dtype("float32")

    out_dtype = dtype

    def expr(self, call: str, *inputs: int, layout: str = "", helper: str = "") -> int:
        if helper or self.text:
            raise _NoFormula
        self.text = re.sub(r"\.(?:to|astype)\((?:torch|jnp)\.float32\)$", "", call)
        return 0
