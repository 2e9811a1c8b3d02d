"""MXNet's tutorial "adding an operator": f(x) = a x² + b x + c, by NNVM-style registration.

    python examples/operators/quadratic.py

The name `quadratic` is taken (MXNet ships the result of its tutorial), so this one is `my_quadratic`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from checks import check

import mxjax as mx
from mxjax.ops.infer import unify


class QuadraticParam:
    """The parameters: what the tutorial's parameter struct declares."""

    a: float = 0.0
    b: float = 0.0
    c: float = 0.0


def quadratic_shape(params: dict[str, Any], ins: list, outs: list) -> None:
    """Input and output have one shape; each may tell the other (None: unknown)."""
    ins[0] = outs[0] = unify(ins[0], outs[0])


def quadratic_type(params: dict[str, Any], ins: list, outs: list) -> None:
    """The same for dtypes."""
    ins[0] = outs[0] = ins[0] or outs[0]


def quadratic_forward(data: Any, *, a: float, b: float, c: float) -> Any:
    """The computation: JAX arrays in, JAX array out."""
    return (a * data + b) * data + c


def quadratic_backward(head_grads: tuple, inputs: tuple, outputs: tuple, *, a: float, b: float, c: float) -> Any:
    """dL/dx = dL/dy (2 a x + b). Without this attribute JAX's own derivative would serve."""
    return head_grads[0] * (2 * a * inputs[0] + b)


def register() -> None:
    """The registration, line by line as in the tutorial."""
    (mx.operator.register_op("my_quadratic")
     .describe("a x² + b x + c, element by element")
     .set_attr_parser(QuadraticParam)
     .set_num_inputs(1)
     .set_num_outputs(1)
     .set_attr("FListInputNames", lambda params: ["data"])
     .set_attr("FInferShape", quadratic_shape)
     .set_attr("FInferType", quadratic_type)
     .set_attr("FCompute<cpu>", quadratic_forward)
     .set_attr("FGradient", quadratic_backward)
     .set_attr("FInplaceOption", [(0, 0)])
     .add_argument("data", "NDArray-or-Symbol", "Input"))


def main() -> None:
    register()
    x = np.random.default_rng(0).normal(size=(3, 4)).astype("float32")
    data = mx.nd.array(x)
    check("mx.nd: y = 2 x² + 3 x + 4", mx.nd.my_quadratic(data, a=2, b=3, c=4), 2 * x**2 + 3 * x + 4)
    check("parameters have defaults", mx.nd.my_quadratic(data, b=1), x)

    data.attach_grad()
    with mx.autograd.record():
        y = mx.nd.my_quadratic(data, a=2, b=3)
    y.backward()
    check("autograd: dy/dx = 4 x + 3", data.grad, 4 * x + 3)

    symbol = mx.sym.my_quadratic(mx.sym.Variable("data"), a=2, b=3, c=4, name="q")
    executor = symbol.simple_bind(mx.cpu(), data=x.shape)
    check("mx.sym: the same numbers", executor.forward(is_train=True, data=data)[0], 2 * x**2 + 3 * x + 4)
    executor.backward(mx.nd.ones(x.shape))
    check("mx.sym: the same gradient", executor.grad_dict["data"], 4 * x + 3)
    mx.test_utils.check_numeric_gradient(symbol, [x], rtol=1e-2, atol=1e-2)
    print("ok      the gradient agrees with finite differences")
    check("the graph as JSON and back", mx.sym.load_json(symbol.tojson()).list_arguments(), ["data"])

    check("shapes forwards", symbol.infer_shape(data=(5, 6))[1], [(5, 6)])
    a, b, c = (mx.sym.Variable(name) for name in "abc")
    ins, outs, _ = (a * b + b * c).infer_shape(a=(2, 0), b=(0, 3))
    check("shapes both ways: a (2, 0) and b (0, 3) in a*b + b*c give (2, 3)", (ins, outs), ([(2, 3)] * 3, [(2, 3)]))
    both = mx.sym.my_quadratic(a, a=1) + b
    check("shapes backwards through the operator", both.infer_shape(b=(2, 3))[0], [(2, 3), (2, 3)])
    try:
        mx.nd.my_quadratic(data, a="wide")
    except mx.MXNetError as error:
        check(f"a wrong parameter: {error}", "my_quadratic" in str(error) and "wide" in str(error), True)
    else:
        raise SystemExit("FAILED  a wrong parameter passed")


if __name__ == "__main__":
    main()
