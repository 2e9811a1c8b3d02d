"""Names and values of the inputs of backward operators that a monitor receives, as in MXNet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..graph.node import Node

__all__ = ["reads"]

# g: gradient of an output, x: input, y: output, by number; absent inputs are omitted
_READS = {
    **dict.fromkeys(("FullyConnected", "Deconvolution", "elemwise_mul", "elemwise_div", "broadcast_mul",
                     "broadcast_div", "broadcast_maximum", "broadcast_minimum", "broadcast_power", "dot", "batch_dot"),
                    "g0 x0 x1"),
    "Convolution": "g0 x0 x1 x2", "BatchNorm": "g0 y1 y2 x0 x1 x2 x3 x4", "LayerNorm": "g0 x0 x1 y1 y2",
    "SoftmaxOutput": "y0 x1", "LinearRegressionOutput": "x1 y0", "LogisticRegressionOutput": "x1 y0",
    "MAERegressionOutput": "x1 y0", "Activation": "g0 y0 x0", "SoftmaxActivation": "g0 y0", "Dropout": "g0 y1",
    "clip": "g0 x0", "where": "g0 x0", "Concat": "g0 x*", "exp": "g0 y0",
    **dict.fromkeys(("square", "abs", "cos", "smooth_l1", "sin", "log"), "g0 x0"),
    **dict.fromkeys(("Flatten", "Reshape", "transpose", "expand_dims", "sum", "elemwise_add", "elemwise_sub",
                     "negative", "_mul_scalar", "_div_scalar", "_plus_scalar", "_minus_scalar", "_copy"), "g0"),
}
_OF_TWO = ("exp", "square", "abs", "cos", "smooth_l1", "sin", "log")  # products of the gradient and a value


def reads(node: Node, out_grads: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any]) -> Iterator[tuple]:
    """Returns (name, value) of each array that the backward pass of a node reads, with a variable's own name first.

    Operators that are not listed here have none.

    Args:
        node: the operator.
        out_grads: gradients of its outputs; None for zeros.
        inputs, outputs: its input and output arrays.
    """
    known = _READS.get(node.op.name, "").replace("x*", " ".join(f"x{i}" for i in range(len(inputs))))
    if node.op.name == "Activation" and node.params["act_type"] == "relu":
        known = "g0 x0"
    number = 0
    for group, *digits in known.split():
        place = int("".join(digits))
        values = {"g": out_grads, "x": inputs, "y": outputs}[group]
        if group == "x" and place >= len(inputs):
            continue
        label = ("lhs", "rhs")[number] if node.op.name in _OF_TWO else f"input{number}"
        number += 1
        value = values[place] if place < len(values) else None
        if group == "x" and node.inputs[place][0].op is None:
            yield node.inputs[place][0].name, value
        yield f"{node.name}_backward_{label}", value
