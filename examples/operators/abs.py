"""NNVM's tutorial operator: abs, with its gradient given as the attribute FGradient.

    python examples/operators/abs.py
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from checks import check

import mxjax as mx
from mxjax.ops.infer import elementwise

calls = []


def sign_times_head(head_grads: tuple, inputs: tuple, outputs: tuple) -> Any:
    """d|x|/dx = sign(x), 0 at 0."""
    calls.append("gradient")
    return head_grads[0] * jnp.sign(inputs[0])


def main() -> None:
    op = (mx.operator.register_op("my_abs")
          .describe("|x|, element by element")
          .set_num_inputs(1)
          .set_attr("FInferShape", elementwise)
          .set_attr("FCompute", lambda data: jnp.abs(data))
          .set_attr("FGradient", sign_times_head)
          .set_attr("colour", "any attribute may be set")
          .add_alias("my_absolute"))
    check("attributes can be read back", op.get_attr("colour"), "any attribute may be set")

    x = np.array([[-2.0, 0.0, 3.0]], "float32")
    data = mx.nd.array(x)
    data.attach_grad()
    with mx.autograd.record():
        y = mx.nd.my_abs(data)
        z = mx.nd.my_absolute(y * data)
    z.backward()
    check("mx.nd, under both names", z, x**2)
    check("its gradient: d|x|x|/dx = 2 |x|, sign included", data.grad, 2 * np.abs(x) * np.sign(x))
    check("the registered gradient was used", calls != [], True)

    symbol = mx.sym.my_abs(mx.sym.Variable("data"))
    mx.test_utils.check_symbolic_forward(symbol, [x], [np.abs(x)])
    mx.test_utils.check_symbolic_backward(symbol, [x], [np.full_like(x, 3)], [3 * np.sign(x)])
    print("ok      mx.sym, forward and backward")


if __name__ == "__main__":
    main()
