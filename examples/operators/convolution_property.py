"""MXNet's first operator interface, OperatorProperty and Operator, with its own example: a convolution.

    python examples/operators/convolution_property.py

The property describes the operator (parameters, arguments, shapes, what the backward pass needs, resources) and
creates the operator, whose forward and backward are written with the usual `mx.nd` functions: unfold the image into
columns in a temporary space, multiply, fold back. All of it is traced into one compiled program.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from checks import check

import mxjax as mx
from mxjax.operator import Operator, OperatorProperty, ResourceRequest, assign, register_property

DATA, WEIGHT, BIAS = 0, 1, 2


class ConvolutionOp(Operator):
    """Two-dimensional convolution as a matrix product. Arrays: data (n, c, h, w), weight (f, c, kh, kw), bias (f,)."""

    def __init__(self, param: dict[str, Any]) -> None:
        self.param = param
        self.window = {"kernel": param["kernel"], "stride": param["stride"], "pad": param["pad"]}

    def columns(self, ctx: Any, data: mx.nd.NDArray) -> mx.nd.NDArray:
        """The image unfolded: (c kh kw, n positions), in the temporary space that was asked for."""
        unfolded = mx.nd.im2col(data, **self.window).transpose((1, 0, 2)).reshape((0, -1))
        space = ctx.requested[0].get_space(unfolded.shape)
        space[:] = unfolded
        return space

    def forward(self, ctx: Any, in_data: list, req: list, out_data: list, aux_states: list) -> None:
        data, weight = in_data[DATA], in_data[WEIGHT]
        n, filters, height, width = out_data[0].shape
        out = mx.nd.dot(weight.reshape((filters, -1)), self.columns(ctx, data))
        out = out.reshape((filters, n, height, width)).transpose((1, 0, 2, 3))
        if not self.param["no_bias"]:
            out = mx.nd.broadcast_add(out, in_data[BIAS].reshape((1, -1, 1, 1)))
        assign(out_data[0], req[0], out)

    def backward(self, ctx: Any, out_grad: list, in_data: list, out_data: list, req: list, in_grad: list,
                 aux_states: list) -> None:
        if out_data[0] is not None:
            raise mx.MXNetError("the output was not declared as a dependency, so it must not have been kept")
        data, weight, head = in_data[DATA], in_data[WEIGHT], out_grad[0]
        n, filters = head.shape[:2]
        flat = head.transpose((1, 0, 2, 3)).reshape((filters, -1))
        weights = weight.reshape((filters, -1))
        folded = mx.nd.dot(weights, flat, transpose_a=True).reshape((weights.shape[1], n, -1)).transpose((1, 0, 2))
        assign(in_grad[DATA], req[DATA], mx.nd.col2im(folded, output_size=data.shape[2:], **self.window))
        assign(in_grad[WEIGHT], req[WEIGHT],
               mx.nd.dot(flat, self.columns(ctx, data), transpose_b=True).reshape(weight.shape))
        if not self.param["no_bias"]:
            assign(in_grad[BIAS], req[BIAS], flat.sum(axis=1))


@register_property("my_convolution")
class ConvolutionProp(OperatorProperty):
    """Convolution(data, weight, bias); parameters kernel, stride, pad, num_filter, no_bias."""

    def init(self, kwargs: dict[str, str]) -> None:
        def pair(name: str, default: str) -> tuple[int, ...]:
            return tuple(int(n) for n in kwargs.pop(name, default).strip("()").split(","))
        kwargs = dict(kwargs)
        if not {"kernel", "num_filter"} <= set(kwargs):
            raise mx.MXNetError("my_convolution: kernel and num_filter are required")
        self.param = {"kernel": pair("kernel", ""), "stride": pair("stride", "1,1"), "pad": pair("pad", "0,0"),
                      "num_filter": int(kwargs.pop("num_filter")), "no_bias": kwargs.pop("no_bias", "False") == "True"}
        if kwargs:
            raise mx.MXNetError(f"my_convolution: unknown parameters {', '.join(kwargs)}")

    def get_params(self) -> dict[str, str]:
        return {name: str(value) for name, value in self.param.items()}

    def list_arguments(self) -> list[str]:
        return ["data", "weight"] if self.param["no_bias"] else ["data", "weight", "bias"]

    def infer_shape(self, in_shape: list, out_shape: list, aux_shape: list) -> bool:
        if in_shape[DATA] is None or None in in_shape[DATA]:
            return False
        if len(in_shape[DATA]) != 4:
            raise mx.MXNetError(f"my_convolution: data must be (n, c, h, w), got shape {in_shape[DATA]}")
        n, channels, *size = in_shape[DATA]
        p = self.param
        in_shape[WEIGHT] = (p["num_filter"], channels, *p["kernel"])
        if not p["no_bias"]:
            in_shape[BIAS] = (p["num_filter"],)
        out_shape[0] = (n, p["num_filter"], *((length + 2 * pad - kernel) // stride + 1 for length, kernel, stride, pad
                                              in zip(size, p["kernel"], p["stride"], p["pad"], strict=True)))
        return True

    def declare_backward_dependency(self, out_grad: list[int], in_data: list[int], out_data: list[int]) -> list[int]:
        return [out_grad[0], in_data[DATA], in_data[WEIGHT]]

    def forward_inplace_option(self, in_data: list[int], out_data: list[int]) -> list[tuple[int, int]]:
        return []   # an output element reads many inputs: nothing may be overwritten

    def forward_resource(self, in_shape: list) -> list[ResourceRequest]:
        return [ResourceRequest("temp_space")]

    def backward_resource(self, in_shape: list) -> list[ResourceRequest]:
        return [ResourceRequest("temp_space")]

    def create_operator(self, ctx: mx.Context) -> Operator:
        return ConvolutionOp(self.param)


def main() -> None:
    rng = np.random.default_rng(0)
    params = {"kernel": (3, 3), "stride": (2, 1), "pad": (1, 0), "num_filter": 4}
    x = rng.normal(size=(2, 3, 7, 6)).astype("float32")

    data = mx.sym.Variable("data")
    own = mx.sym.my_convolution(data, name="conv", **params)
    builtin = mx.sym.Convolution(data, name="conv", **params)
    check("arguments are made by their names", own.list_arguments(), ["data", "conv_weight", "conv_bias"])
    check("shapes as the built-in operator", own.infer_shape(data=x.shape), builtin.infer_shape(data=x.shape))

    shapes = dict(zip(own.list_arguments(), own.infer_shape(data=x.shape)[0], strict=True))
    values = {name: mx.nd.array(rng.normal(size=shape)) for name, shape in shapes.items()}
    executors = [symbol.simple_bind(mx.cpu(), data=x.shape) for symbol in (own, builtin)]
    head = None
    for executor in executors:
        executor.copy_params_from(values)
        executor.forward(is_train=True)
        head = mx.nd.array(rng.normal(size=executor.outputs[0].shape)) if head is None else head
        executor.backward([head])
    check("mx.sym: forward as mx.sym.Convolution", executors[0].outputs[0], executors[1].outputs[0].asnumpy(), 1e-4)
    for name in shapes:
        check(f"mx.sym: gradient of {name}", executors[0].grad_dict[name], executors[1].grad_dict[name].asnumpy(), 1e-4)

    arrays = [values[name] for name in shapes]
    gradients = []
    for function in (mx.nd.my_convolution, mx.nd.Convolution):
        for array in arrays:
            array.attach_grad()
        with mx.autograd.record():
            y = function(*arrays, **params)
        y.backward(head)
        gradients.append([array.grad.asnumpy() for array in arrays])
    for name, got, wanted in zip(("data", "weight", "bias"), *gradients, strict=True):
        check(f"mx.nd: gradient of {name}", mx.nd.array(got), wanted, 1e-4)
    plain = mx.nd.my_convolution(arrays[0], arrays[1], no_bias=True, **params)
    check("without bias", plain, mx.nd.Convolution(arrays[0], arrays[1], no_bias=True, **params).asnumpy(), 1e-4)


if __name__ == "__main__":
    main()
