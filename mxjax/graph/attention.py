"""Recognizes attention that a graph expresses operator by operator, so that device-specific kernels can compute it.

While a graph is traced, the product of queries and keys is deferred. `Scores` records the operations on it (a factor, a
bias, a mask, softmax) until it is multiplied by values. Then `attend` (`ops/nn/flash.py`) computes everything. Any
other reader computes it by the original operators. Only half precision is deferred, because other dtypes have no
kernels.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp

from ..ops.common import Array, by_own_rules
from ..ops.nn.flash import HALVES, Parts, attend
from .node import Node

__all__ = ["Later", "forced", "step"]

Run = Callable[[list[Any]], Sequence[Any]]
_LOW = -1e3  # a score whose exp is 0


class Later(ABC):
    """A value that is computed on demand."""

    @abstractmethod
    def value(self) -> Array:
        """The array."""


@dataclass(frozen=True)
class _Later(Later):
    """A value that `run` computes from `inputs`."""

    run: Run
    inputs: list[Any]

    def value(self) -> Array:
        return self.run([forced(x) for x in self.inputs])[0]


@dataclass(frozen=True)
class _Filled(_Later):
    """A constant array."""

    number: float


@dataclass(frozen=True)
class Scores(_Later):
    """Products of queries and keys that become attention weights.

    query, key, scale, bias: see `Parts`; shape: the shape in the graph; second: the operator that multiplies them by
    values; mask: scores are excluded where it is 0; weights: the softmax has been applied; emptied: fully masked rows
    have weights of 0.
    """

    query: Array
    key: Array
    shape: tuple[int, ...]
    scale: float
    second: str
    bias: Array | None = None
    mask: Array | None = None
    weights: bool = False
    emptied: bool = False

    def by(self, factor: float, **changed: object) -> Scores:
        """Returns the scores multiplied by a number."""
        return replace(self, scale=self.scale * factor, bias=None if self.bias is None else self.bias * factor,
                       **changed)


def forced(value: object) -> Any:
    """Returns the array of a value."""
    return value.value() if isinstance(value, Later) else value


@by_own_rules
def step(node: Node, inputs: list[Any], run: Run, alone: bool, train: bool) -> Sequence[Any]:
    """Returns the results of a node, computed by `run` or deferred.

    Args:
        node: an operator.
        inputs: its values, some of them deferred.
        run: function(arrays) -> results.
        alone: whether only one node reads the result.
        train: training mode.
    """
    rule = _RULES.get(node.op.name)
    result = None if rule is None else rule(node, inputs, train)
    if result is None or isinstance(result, Scores) and result.weights and not alone:
        return run([forced(x) for x in inputs])
    if isinstance(result, _Later):
        return [replace(result, run=run, inputs=inputs)]
    parts, give = result
    return [attend(lambda: run([forced(x) for x in inputs])[0], parts, give)]


# ------------------------------------------------------------ the two products
def _rows(array: Array) -> Array:
    """Returns (..., time, size) as (batch, time, heads, size); the second of two leading axes is the heads."""
    return jnp.swapaxes(array if array.ndim == 4 else array.reshape(-1, 1, *array.shape[-2:]), 1, 2)


def _turned(array: Array, whether: object) -> Array:
    return jnp.swapaxes(array, -1, -2) if whether else array


def _part(array: Array, node: Node, parts: int, which: int) -> Array:
    """Returns one part of (time, batch, heads · parts · size) as (batch, time, heads, size)."""
    return jnp.swapaxes(array.reshape(*array.shape[:2], node.params["heads"], parts, -1)[..., which, :], 0, 1)


def _product(node: Node, inputs: list[Any], train: bool) -> Any:
    """A matrix product of queries and keys, or of weights and values."""
    left, right = inputs
    is_scores, p = isinstance(left, Scores), node.params
    if isinstance(right, _Later) or isinstance(left, _Filled) or right.dtype not in HALVES or right.ndim < 3 or \
            right.shape[:-2] != left.shape[:-2] or p.get("transpose_a") or p.get("axis", -2) != -2:
        return None
    if is_scores:
        if not left.weights or left.second != node.op.name or p.get("alpha", 1.0) != 1:
            return None
        value = _rows(_turned(right, p.get("transpose_b")))
        return _parts(left, value), lambda out: jnp.swapaxes(out, 1, 2).reshape(*left.shape[:-1], out.shape[-1])
    if isinstance(left, _Later) or left.dtype != right.dtype:
        return None
    key = _turned(right, not p.get("transpose_b"))
    return Scores(_nothing, [], _rows(left), _rows(key), (*left.shape[:-1], key.shape[-2]), p.get("alpha", 1.0),
                  node.op.name)


def _interleaved(of_query: int, of_key: int, second: str) -> Callable[..., Any]:
    """The first product of interleaved projections, with the number of parts of the inputs for queries and for keys."""
    def rule(node: Node, inputs: list[Any], train: bool) -> Scores | None:
        if any(isinstance(x, _Later) or x.dtype not in HALVES for x in inputs):
            return None
        query, key = _part(inputs[0], node, of_query, 0), _part(inputs[-1], node, of_key, of_key - 2)
        batch, time, heads, size = query.shape
        return Scores(_nothing, [], query, key, (batch * heads, time, key.shape[1]), size ** -0.5, second)
    return rule


def _values(of_key: int) -> Callable[..., Any]:
    """The second product of interleaved projections."""
    def rule(node: Node, inputs: list[Any], train: bool) -> Any:
        source, scores = inputs
        if not isinstance(scores, Scores) or not scores.weights or scores.second != node.op.name or \
                isinstance(source, _Later):
            return None
        return (_parts(scores, _part(source, node, of_key, of_key - 1)),
                lambda out: jnp.swapaxes(out, 0, 1).reshape(out.shape[1], out.shape[0], -1))
    return rule


def _parts(scores: Scores, value: Array) -> Parts:
    mask = None if scores.mask is None else _laid(scores.mask, scores) != 0
    return Parts(scores.query, scores.key, value, scores.scale, scores.bias, mask, scores.emptied)


# ------------------------------------------------------------ operators between the products
def _factor(number: Callable[[float], float]) -> Callable[..., Any]:
    def rule(node: Node, inputs: list[Any], train: bool) -> Any:
        value = inputs[0]
        if isinstance(value, _Filled):
            return replace(value, number=value.number * number(node.params["scalar"]))
        return value.by(number(node.params["scalar"])) if isinstance(value, Scores) and not value.weights else None
    return rule


def _laid(array: Any, scores: Scores) -> Array | None:
    """Returns an operand of the scores as (batch, heads, time of queries, time of keys); lengths of 1 stay."""
    array = forced(array)
    wanted = scores.query.shape[0], scores.query.shape[2], *scores.shape[-2:]
    shape = (1,) * (len(scores.shape) - array.ndim) + array.shape
    if len(shape) > len(scores.shape) or any(n not in (1, m) for n, m in zip(shape, scores.shape, strict=True)):
        return None
    if len(shape) != 4:  # one leading axis combines batch and heads; several without heads are the batch
        leading = shape[:-2]
        if all(n == 1 for n in leading):
            shape = 1, 1, *shape[-2:]
        elif leading == scores.shape[:-2]:
            shape = *wanted[:2], *shape[-2:]
        else:
            return None
    return array.reshape(shape)


def _sum(node: Node, inputs: list[Any], train: bool) -> Scores | None:
    scores, other = inputs if isinstance(inputs[0], Scores) else inputs[::-1]
    if not isinstance(scores, Scores) or scores.weights or isinstance(other, Scores) or scores.mask is not None:
        return None
    bias = _laid(other, scores)
    if bias is None or bias.dtype != scores.query.dtype:
        return None
    return replace(scores, bias=bias if scores.bias is None else scores.bias + bias)


def _masked(node: Node, inputs: list[Any], train: bool) -> Scores | None:
    condition, scores = inputs[:2]
    low = inputs[2].number if len(inputs) > 2 and isinstance(inputs[2], _Filled) else node.params.get("scalar", 0)
    if not isinstance(scores, Scores) or scores.weights or scores.mask is not None or low > _LOW or \
            isinstance(condition, _Later):
        return None
    by_rows = node.op.name == "where" and condition.shape != scores.shape
    return None if by_rows or _laid(condition, scores) is None else replace(scores, mask=condition)


def _softmax(node: Node, inputs: list[Any], train: bool) -> Scores | None:
    scores, p = inputs[0], node.params
    if not isinstance(scores, Scores) or scores.weights or p["axis"] not in (-1, len(scores.shape) - 1):
        return None
    scores = scores.by(1 / (p["temperature"] or 1), weights=True)
    if len(inputs) == 1:
        return scores
    valid = jnp.arange(scores.shape[-1]) < forced(inputs[1])[..., None]
    return replace(scores, mask=valid, emptied=True) if scores.mask is None else None


def _again(node: Node, inputs: list[Any], train: bool) -> Scores | None:
    """Weights multiplied by the mask of the scores: a query that attends to nothing has the result 0."""
    scores, other = inputs if isinstance(inputs[0], Scores) else inputs[::-1]
    again = isinstance(scores, Scores) and scores.weights and other is scores.mask
    return replace(scores, emptied=True) if again else None


def _like(number: float) -> Callable[..., Any]:
    return lambda node, inputs, train: _Filled(_nothing, [], number) if isinstance(inputs[0], Scores) else None


def _same(node: Node, inputs: list[Any], train: bool) -> Any:
    return inputs[0] if isinstance(inputs[0], (Scores, _Filled)) else None


def _dropout(node: Node, inputs: list[Any], train: bool) -> Any:
    active = node.params["p"] > 0 and (train or node.params["mode"] == "always")
    return None if active else _same(node, inputs, train)


def _nothing(inputs: list[Any]) -> Sequence[Any]:
    raise AssertionError("no function was set for the result of this rule")


_SELF, _OTHER = "_contrib_interleaved_matmul_selfatt_valatt", "_contrib_interleaved_matmul_encdec_valatt"
_RULES: dict[str, Callable[[Node, list[Any], bool], Any]] = {
    **dict.fromkeys(("batch_dot", "_linalg_gemm2", "_npi_matmul"), _product),
    "_contrib_interleaved_matmul_selfatt_qk": _interleaved(3, 3, _SELF), _SELF: _values(3),
    "_contrib_interleaved_matmul_encdec_qk": _interleaved(1, 2, _OTHER), _OTHER: _values(2),
    **dict.fromkeys(("_mul_scalar", "_npi_multiply_scalar"), _factor(float)),
    **dict.fromkeys(("_div_scalar", "_npi_true_divide_scalar"), _factor(lambda number: 1 / number)),
    **dict.fromkeys(("elemwise_add", "broadcast_add", "_npi_add"), _sum),
    **dict.fromkeys(("where", "_npi_where", "_npi_where_rscalar"), _masked),
    **dict.fromkeys(("elemwise_mul", "broadcast_mul", "_npi_multiply"), _again),
    **dict.fromkeys(("Cast", "amp_cast"), _same), "softmax": _softmax, "Dropout": _dropout,
    "ones_like": _like(1.0), "zeros_like": _like(0.0)}
