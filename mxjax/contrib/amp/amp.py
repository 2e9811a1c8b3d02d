"""Mixed precision for symbolic models: casts put into a graph by lists of operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base import MXNetError
from ...ndarray import NDArray
from ...ops import registry
from ...ops.params import dtype_name
from ...symbol import Symbol
from ...symbol._node import Entry, Node, topological
from . import lists

__all__ = ["convert_model", "convert_symbol", "list_conditional_fp32_ops", "list_fp32_ops", "list_lp16_ops",
           "list_widest_type_cast"]

_TARGETS = ("float16", "bfloat16")


def list_lp16_ops(target_dtype: str = "float16") -> list[str]:
    """Operators that run in the 16-bit dtype."""
    return list(lists.TARGET)


def list_fp32_ops(target_dtype: str = "float16") -> list[str]:
    """Operators that run in float32."""
    return list(lists.FP32)


def list_conditional_fp32_ops(target_dtype: str = "float16") -> list[tuple[str, str, list[str]]]:
    """Operators that run in float32 for some values of a parameter: (operator, parameter, values)."""
    return list(lists.CONDITIONAL_FP32)


def list_widest_type_cast(target_dtype: str = "float16") -> list[str]:
    """Operators that run in the widest dtype of their inputs."""
    return list(lists.WIDEST)


def convert_symbol(sym: Symbol, target_dtype: str = "float16", target_dtype_ops: Sequence[str] | None = None,
                   fp32_ops: Sequence[str] | None = None,
                   conditional_fp32_ops: Sequence[tuple[str, str, list[str]]] | None = None,
                   excluded_sym_names: Sequence[str] | None = None, data_names: Sequence[str] | None = None,
                   cast_optional_params: bool = False) -> Symbol:
    """A float32 graph with casts for mixed precision.

    Args:
        sym: the graph.
        target_dtype: "float16" or "bfloat16".
        target_dtype_ops, fp32_ops, conditional_fp32_ops: lists of operators instead of the default ones.
        excluded_sym_names: nodes left as they are.
        data_names: names of the inputs (the casts follow from the lists; kept for MXNet's sake).
        cast_optional_params: parameters that are only used in 16 bits get that dtype themselves.

    Raises:
        MXNetError: the dtype is none of these, or an excluded name is not in the graph.
    """
    target = dtype_name(target_dtype)
    if target not in _TARGETS:
        raise MXNetError(f"target_dtype must be one of {', '.join(_TARGETS)}, got {target_dtype!r}")
    excluded = set(excluded_sym_names or ())
    nodes = topological(sym._outputs)
    unknown = excluded - {n.name for n in nodes}
    if unknown:
        raise MXNetError(f"excluded_sym_names: there is no node {', '.join(sorted(unknown))}")
    low = set(lists.TARGET if target_dtype_ops is None else target_dtype_ops)
    high = set(lists.FP32 if fp32_ops is None else fp32_ops)
    conditional = lists.CONDITIONAL_FP32 if conditional_fp32_ops is None else conditional_fp32_ops

    def wanted(node: Node) -> str | None:
        """The dtype a node's inputs are cast to."""
        if node.name in excluded or node.op is None:
            return None
        if any(node.op.name == op and str(node.params.get(p)) in values for op, p, values in conditional):
            return "float32"
        return target if node.op.name in low else "float32" if node.op.name in high else None
    made: dict[int, Node] = {}
    casts: dict[tuple[int, int, str], Entry] = {}

    def cast(entry: Entry, dtype: str) -> Entry:
        key = (id(entry[0]), entry[1], dtype)
        if key not in casts:
            name = f"{entry[0].name}_{entry[1]}_amp_cast_{dtype}"
            casts[key] = (Node(registry.get("amp_cast"), name, {"dtype": dtype}, {"dtype": dtype}, [entry]), 0)
        return casts[key]
    for node in nodes:
        inputs = [(made[id(n)], i) for n, i in node.inputs]
        dtype = wanted(node)
        states = set(node.mutated())
        if dtype is not None:
            inputs = [e if k in states else cast(e, dtype) for k, e in enumerate(inputs)]
        elif node.op is not None and node.op.name in lists.WIDEST and node.name not in excluded and len(inputs) > 1:
            op = registry.get("amp_multicast")
            params = op.parse({"num_outputs": len(inputs)})
            widest = Node(op, f"{node.name}_amp_multicast", {"num_outputs": str(len(inputs))}, params, inputs)
            inputs = [(widest, k) for k in range(len(inputs))]
        made[id(node)] = Node(node.op, node.name, dict(node.attrs), dict(node.params), inputs, node.subgraphs)
    result = Symbol([(made[id(n)], i) for n, i in sym._outputs])
    if cast_optional_params:
        for node in _only_low(result, target):
            node.attrs["__dtype__"] = "2" if target == "float16" else "12"
    return result


def _only_low(symbol: Symbol, target: str) -> list[Node]:
    """Variables that are only used through a cast to the 16-bit dtype."""
    uses: dict[int, tuple[Node, list[bool]]] = {}
    for node in topological(symbol._outputs):
        for source, _ in node.inputs:
            if source.op is None:
                cast = node.op.name == "amp_cast" and node.params["dtype"] == target
                uses.setdefault(id(source), (source, []))[1].append(cast)
    return [node for node, casts in uses.values() if all(casts)]


def convert_model(sym: Symbol, arg_params: dict[str, NDArray], aux_params: dict[str, NDArray],
                  target_dtype: str = "float16", target_dtype_ops: Any = None, fp32_ops: Any = None,
                  conditional_fp32_ops: Any = None, excluded_sym_names: Any = None,
                  cast_optional_params: bool = False) -> tuple[Symbol, dict[str, NDArray], dict[str, NDArray]]:
    """A checkpoint's graph and parameters for mixed precision; arguments as in `convert_symbol`.

    Returns:
        (symbol, arguments, auxiliary states); with `cast_optional_params` arguments used only in 16 bits are cast.
    """
    converted = convert_symbol(sym, target_dtype, target_dtype_ops, fp32_ops, conditional_fp32_ops, excluded_sym_names,
                               None, cast_optional_params)
    low = {n.name for n in _only_low(converted, dtype_name(target_dtype))} if cast_optional_params else set()
    args = {k: v.astype(target_dtype) if k in low else v.copy() for k, v in arg_params.items()}
    return converted, args, {k: v.copy() for k, v in aux_params.items()}
