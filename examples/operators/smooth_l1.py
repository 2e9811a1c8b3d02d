"""The SimpleOp tutorial: smooth L1 loss, a unary operator with a scalar (Girshick 2015, "Fast R-CNN").

    python examples/operators/smooth_l1.py

With s = scalar:   f(x) = (s x)² / 2 where |x| < 1 / s²,   |x| - 1 / (2 s²) elsewhere.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from checks import check

import mxjax as mx
from mxjax.operator import EnvArguments, Input0, OutputGrad, register_simple_op


def smooth_l1_forward(x: Any, env: EnvArguments) -> Any:
    """The function: the array, and the scalar in `env`."""
    square = env.scalar**2
    return jnp.where(jnp.abs(x) < 1 / square, 0.5 * square * x * x, jnp.abs(x) - 0.5 / square)


def smooth_l1_backward(grad: OutputGrad, x: Input0, env: EnvArguments) -> Any:
    """The gradient; its annotations say that it needs the head gradient and the input, not the output."""
    return grad * jnp.clip(env.scalar**2 * x, -1, 1)


def main() -> None:
    (register_simple_op("my_smooth_l1")
     .set_function(smooth_l1_forward, "kInplaceInOut")
     .set_gradient(smooth_l1_backward, "kInplaceInOut")
     .set_enable_scalar(True)
     .describe("Smooth L1 loss, element by element"))

    x = np.linspace(-2, 2, 9, dtype="float32").reshape(3, 3)
    for scalar in (1.0, 2.0):
        square = scalar**2
        wanted = np.where(np.abs(x) < 1 / square, 0.5 * square * x**2, np.abs(x) - 0.5 / square)
        data = mx.nd.array(x)
        data.attach_grad()
        with mx.autograd.record():
            y = mx.nd.my_smooth_l1(data, scalar=scalar)
        y.backward(mx.nd.full(x.shape, 2))
        check(f"scalar {scalar}: mx.nd", y, wanted)
        check(f"scalar {scalar}: gradient", data.grad, 2 * np.clip(square * x, -1, 1))
        check(f"scalar {scalar}: as MXNet's own operator", mx.nd.smooth_l1(data, scalar=scalar), wanted)
        symbol = mx.sym.my_smooth_l1(mx.sym.Variable("data"), scalar=scalar)
        mx.test_utils.check_symbolic_forward(symbol, [x], [wanted])
        mx.test_utils.check_symbolic_backward(symbol, [x], [np.ones_like(x)], [np.clip(square * x, -1, 1)])
        print(f"ok      scalar {scalar}: mx.sym, forward and backward")
    try:
        mx.nd.my_smooth_l1(data)
    except mx.MXNetError as error:
        check("without the scalar: an error that names it", "scalar" in str(error), True)
    else:
        raise SystemExit("FAILED  the operator worked without its scalar")


if __name__ == "__main__":
    main()
