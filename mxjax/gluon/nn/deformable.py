"""Deformable convolutions, whose sampling points a second convolution computes."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .._chosen_block import named
from .._parameter import ParameterDict
from ..block import Block, HybridBlock
from .activations import Activation
from .conv_layers import _check_layout, _sizes

if TYPE_CHECKING:
    from ...initializer import InitializerLike
    from .._types import Size, Tensor

__all__ = ["DeformableConvolution", "ModulatedDeformableConvolution"]


class DeformableConvolution(HybridBlock):
    """Convolution whose sampling points are shifted by learned offsets. Dai et al., 2017, arXiv:1703.06211.

    Args:
        channels: number of output channels.
        kernel_size, strides, padding, dilation, groups: as in `nn.Conv2D`, for both convolutions.
        num_deformable_group: number of groups of input channels with separate offsets.
        layout: "NCHW" or "NHWC".
        use_bias: add a bias.
        in_channels: number of input channels; 0: inferred at the first call.
        activation: name of an activation function that follows.
        weight_initializer, bias_initializer: initializers.
        offset_weight_initializer, offset_bias_initializer: initializers of the convolution that
            computes the offsets.
        offset_use_bias: whether that convolution has a bias.
        op_name: accepted for compatibility with MXNet.
        adj: further options of both operators.
        prefix, params: see `Block`.
    """

    _per_point = 2  # numbers for a point: two coordinates
    _order = ("offset", "deformable_conv")  # of the parameters, as MXNet registers them

    def __init__(self, channels: int, kernel_size: Size = (1, 1), strides: Size = (1, 1), padding: Size = (0, 0),
                 dilation: Size = (1, 1), groups: int = 1, num_deformable_group: int = 1, layout: str = "NCHW",
                 use_bias: bool = True, in_channels: int = 0, activation: str | None = None,
                 weight_initializer: InitializerLike = None, bias_initializer: InitializerLike = "zeros",
                 offset_weight_initializer: InitializerLike = "zeros",
                 offset_bias_initializer: InitializerLike = "zeros", offset_use_bias: bool = True,
                 op_name: str = "DeformableConvolution", adj: Sequence[int] | None = None, prefix: str | None = None,
                 params: ParameterDict | None = None) -> None:
        super().__init__(prefix=prefix, params=params)
        _check_layout(layout, ("NCHW", "NHWC"), type(self).__name__)
        kernel = _sizes(kernel_size, 2, "kernel_size")
        self._channels, self._in_channels, self._op_name = channels, in_channels, op_name
        points = kernel[0] * kernel[1] * num_deformable_group
        self.offset_split_index = 2 * points
        shared = {"kernel": kernel, "stride": _sizes(strides, 2, "strides"),
                  "dilate": _sizes(dilation, 2, "dilation"), "pad": _sizes(padding, 2, "padding"),
                  "num_group": groups, "layout": layout}
        if adj:
            shared["adj"] = adj
        self._kwargs_offset = {**shared, "num_filter": self._per_point * points, "no_bias": not offset_use_bias}
        self._kwargs_deformable_conv = {**shared, "num_filter": channels, "no_bias": not use_bias,
                                        "num_deformable_group": num_deformable_group}
        inner = in_channels // groups
        offset_shape = (self._per_point * points, *kernel, inner) if layout == "NHWC" else \
            (self._per_point * points, inner, *kernel)
        with self._scope:
            def get(name: str, shape: tuple[int, ...], init: InitializerLike) -> Any:
                return self._make_parameter(name, shape=shape, init=init, allow_deferred_init=True)
            for name in self._order:
                if name == "offset":
                    self.offset_weight = get("offset_weight", offset_shape, offset_weight_initializer)
                    self.offset_bias = get("offset_bias", offset_shape[:1], offset_bias_initializer) \
                        if offset_use_bias else None
                else:
                    self.deformable_conv_weight = get("deformable_conv_weight", (channels, 0, *kernel),
                                                      weight_initializer)
                    self.deformable_conv_bias = get("deformable_conv_bias", (channels,), bias_initializer) \
                        if use_bias else None
            self.act = Activation(activation, **named(activation + "_")) if activation else None

    def _alias(self) -> str:
        return "deformable_conv"

    def _convolve(self, F: ModuleType, x: Tensor, offset: Tensor, weights: dict[str, Any]) -> Any:  # noqa: N803
        return F.contrib.DeformableConvolution(data=x, offset=offset, name="fwd", **weights,
                                               **self._kwargs_deformable_conv)

    def hybrid_forward(self, F: ModuleType, x: Tensor, offset_weight: Tensor, deformable_conv_weight: Tensor,  # noqa: N803
                       offset_bias: Tensor | None = None, deformable_conv_bias: Tensor | None = None) -> Any:
        """Computes the layer's output."""
        inputs = (x, offset_weight) if offset_bias is None else (x, offset_weight, offset_bias)
        offset = F.Convolution(*inputs, cudnn_off=True, **self._kwargs_offset)
        weights = {"weight": deformable_conv_weight}
        if deformable_conv_bias is not None:
            weights["bias"] = deformable_conv_bias
        out = self._convolve(F, x, offset, weights)
        return out if self.act is None else self.act(out)

    def __repr__(self) -> str:
        options, shape = self._kwargs_deformable_conv, self.deformable_conv_weight.shape
        parts = [f"{shape[1] or None} -> {shape[0]}", f"kernel_size={options['kernel']}", f"stride={options['stride']}"]
        parts += [f"padding={options['pad']}"] * (options["pad"] != (0, 0))
        parts += [f"dilation={options['dilate']}"] * (options["dilate"] != (1, 1))
        parts += [f"groups={options['num_group']}"] * (options["num_group"] != 1)
        parts += ["bias=False"] * (self.deformable_conv_bias is None)
        parts += [str(self.act)] * (self.act is not None)
        return f"{type(self).__name__}({', '.join(parts)})"


class ModulatedDeformableConvolution(DeformableConvolution):
    """`DeformableConvolution` whose points also have learned weights. Zhu et al., 2018, arXiv:1811.11168.

    Same arguments as `DeformableConvolution`.
    """

    _per_point = 3
    __repr__ = Block.__repr__
    _order = ("deformable_conv", "offset")

    def __init__(self, channels: int, kernel_size: Size = (1, 1), strides: Size = (1, 1), padding: Size = (0, 0),
                 dilation: Size = (1, 1), groups: int = 1, num_deformable_group: int = 1, layout: str = "NCHW",
                 use_bias: bool = True, in_channels: int = 0, activation: str | None = None,
                 weight_initializer: InitializerLike = None, bias_initializer: InitializerLike = "zeros",
                 offset_weight_initializer: InitializerLike = "zeros",
                 offset_bias_initializer: InitializerLike = "zeros", offset_use_bias: bool = True,
                 op_name: str = "ModulatedDeformableConvolution", adj: Sequence[int] | None = None,
                 prefix: str | None = None, params: ParameterDict | None = None) -> None:
        super().__init__(channels, kernel_size, strides, padding, dilation, groups, num_deformable_group, layout,
                         use_bias, in_channels, activation, weight_initializer, bias_initializer,
                         offset_weight_initializer, offset_bias_initializer, offset_use_bias, op_name, adj, prefix,
                         params)

    def _alias(self) -> str:
        return "modulated_deformable_conv"

    def _convolve(self, F: ModuleType, x: Tensor, offset: Tensor, weights: dict[str, Any]) -> Any:  # noqa: N803
        moved = F.slice_axis(offset, axis=1, begin=0, end=self.offset_split_index)
        mask = F.sigmoid(F.slice_axis(offset, axis=1, begin=self.offset_split_index, end=None)) * 2
        return F.contrib.ModulatedDeformableConvolution(data=x, offset=moved, mask=mask, name="fwd", **weights,
                                                        **self._kwargs_deformable_conv)
