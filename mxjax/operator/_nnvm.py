"""Registration of operators in NNVM's style, by fluent calls on a registry entry."""

from __future__ import annotations

from ..ops import registry

__all__ = ["register_op"]


def register_op(name: str) -> registry.Op:
    """Registers a new operator, which fluent calls describe; see `mxjax.ops.registry.Op` for the attributes.

    Raises:
        MXNetError: the name is taken.

    Example:
        (mx.operator.register_op("my_quadratic")
         .describe("a x² + b x + c")
         .set_attr_parser(QuadraticParam)          # a class with annotated fields, or a function's signature
         .set_num_inputs(1).set_num_outputs(1)
         .set_attr("FInferShape", mxjax.ops.infer.elementwise)
         .set_attr("FCompute", lambda data, *, a, b, c: (a * data + b) * data + c)
         .add_argument("data", "NDArray-or-Symbol", "Input"))
    """
    return registry.define(name)
