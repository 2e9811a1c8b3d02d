"""Inputs whose gradients are zero whatever the head gradients are: a backward pass ends there, as in MXNet.

Otherwise the zeros would be multiplied by the derivatives of the operators before, and 0 * inf is NaN: the square root
of a distance of zero, only compared with a margin, would spoil all weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from . import elementwise, nn, np, reduce, shape, vision  # noqa: F401  they register the operators named below
from .registry import get

__all__: list[str] = []


def _all(params: dict[str, Any], names: Sequence[str]) -> Sequence[str]:
    return names


def _only(*constant: str) -> Callable[[dict[str, Any], Sequence[str]], Sequence[str]]:
    return lambda params, names: constant


_COMPARISONS = ("equal", "not_equal", "greater", "greater_equal")
_LOGIC = ("logical_and", "logical_or", "logical_xor")
_CLASSIC = (*_COMPARISONS, "lesser", "lesser_equal", *_LOGIC)
_NUMPY = (*_COMPARISONS, "less", "less_equal", *_LOGIC, "bitwise_and", "bitwise_or", "bitwise_xor", "lcm")
_UNARY = ("ceil", "fix", "floor", "rint", "trunc", "logical_not")

for _name in (
        "BlockGrad", "round", *_UNARY, "zeros_like", "ones_like", "one_hot", "argmax", "argmin", "argmax_channel",
        "argsort", "shape_array", "size_array", "_ravel_multi_index", "_unravel_index", "_histogram",
        "_contrib_arange_like", "_contrib_index_array", "_contrib_box_encode", "_contrib_box_decode",
        *[text.format(name) for name in _CLASSIC for text in ("_{}", "_{}_scalar", "broadcast_{}")],
        *[text.format(name) for name in _NUMPY for text in ("_npi_{}", "_npi_{}_scalar")],
        *[f"_npi_{name}" for name in (*_UNARY, "isnan", "isinf", "isposinf", "isneginf", "isfinite", "argmax", "argmin",
                                      "around", "bitwise_not", "full_like", "diag_indices_from")],
        "_np_all", "_np_any"):
    get(_name).set_attr("FConstant", _all)
get("topk").set_attr("FConstant", lambda params, names: names if params["ret_typ"] in ("indices", "mask") else ())
for _name, _rule in (
        ("broadcast_like", _only("rhs")), ("reshape_like", _only("rhs")), ("where", _only("condition")),
        ("_npi_where", _only("condition")), ("_npi_where_lscalar", _only("condition")),
        ("_npi_where_rscalar", _only("condition")), ("pick", _only("index")), ("gather_nd", _only("indices")),
        ("take", _only("indices")), ("batch_take", _only("indices")), ("Embedding", _only("data")),
        ("SequenceMask", _only("sequence_length")), ("SequenceLast", _only("sequence_length")),
        ("SequenceReverse", _only("sequence_length"))):
    get(_name).set_attr("FConstant", _rule)
