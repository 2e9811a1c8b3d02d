"""Convolution, transposed convolution and pooling in one, two and three dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ... import symbol
from ...base import numeric_types
from ...level import fix
from .._chosen_block import named
from .._parameter import ParameterDict
from ..block import HybridBlock
from .activations import Activation

if TYPE_CHECKING:
    from ...initializer import InitializerLike
    from .._types import Size, Tensor

_LEVEL = fix("mxjax.gluon")

__all__ = ["AvgPool1D", "AvgPool2D", "AvgPool3D", "Conv1D", "Conv1DTranspose", "Conv2D", "Conv2DTranspose", "Conv3D",
           "Conv3DTranspose", "GlobalAvgPool1D", "GlobalAvgPool2D", "GlobalAvgPool3D", "GlobalMaxPool1D",
           "GlobalMaxPool2D", "GlobalMaxPool3D", "MaxPool1D", "MaxPool2D", "MaxPool3D", "ReflectionPad2D"]


def _sizes(value: Size, rank: int, what: str) -> tuple[int, ...]:
    """One size for each of `rank` dimensions.

    Raises:
        AssertionError: it is neither a number nor that many.
    """
    sizes = (value,) * rank if isinstance(value, numeric_types) else tuple(value)
    if len(sizes) != rank:
        raise AssertionError(f"{what} must be a number or a list of {rank} ints, got {value!r}")
    return sizes


def _check_layout(layout: str, allowed: Sequence[str], what: str) -> None:
    if layout not in allowed:
        raise AssertionError(f"{what} supports only the layout{'s' * (len(allowed) > 1)} {', '.join(allowed)}; got "
                             f"{layout!r}")


def _infer_weight_shape(op_name: str, data_shape: tuple[int, ...], kwargs: dict[str, Any]) -> Any:
    """Returns the shapes of data, weight and bias of a convolution; layers of other libraries call it."""
    layer = getattr(symbol, op_name)(symbol.Variable("data"), **kwargs)
    shapes, _, _ = layer.infer_shape_partial(data=data_shape)
    return shapes


class _Conv(HybridBlock):
    """A convolution, or by `op_name="Deconvolution"` a transposed one, of any rank."""

    def __init__(self, channels: int, kernel_size: Sequence[int], strides: Size, padding: Size, dilation: Size,
                 groups: int, layout: str, in_channels: int = 0, activation: str | None = None, use_bias: bool = True,
                 weight_initializer: InitializerLike = None, bias_initializer: InitializerLike = "zeros",
                 op_name: str = "Convolution", adj: Sequence[int] | None = None, prefix: str | None = None,
                 params: ParameterDict | None = None) -> None:
        super().__init__(prefix=prefix, params=params)
        rank = len(kernel_size)
        self._channels, self._in_channels, self._op_name = channels, in_channels, op_name
        self._kwargs = {"kernel": kernel_size, "stride": _sizes(strides, rank, "strides"),
                        "dilate": _sizes(dilation, rank, "dilation"), "pad": _sizes(padding, rank, "padding"),
                        "num_filter": channels, "num_group": groups, "no_bias": not use_bias, "layout": layout}
        if adj is not None:
            self._kwargs["adj"] = adj
        first, other = (channels, in_channels) if op_name.lower() == "convolution" else (in_channels, channels)
        inner = other // groups
        shape = (first, *kernel_size, inner) if layout.endswith("C") else (first, inner, *kernel_size)
        with self._scope:
            self.weight = self._make_parameter("weight", shape=shape, init=weight_initializer, allow_deferred_init=True)
            self.bias = self._make_parameter("bias", shape=(channels,), init=bias_initializer,
                                        allow_deferred_init=True) if use_bias else None
            self.act = None if activation is None else Activation(activation, **named(activation + "_"))

    def _alias(self) -> str:
        return "conv"

    def hybrid_forward(self, F: ModuleType, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:  # noqa: N803
        """Computes the layer's output."""
        inputs = (x, weight) if bias is None else (x, weight, bias)
        out = getattr(F, self._op_name)(*inputs, name="fwd", **self._kwargs)
        return out if self.act is None else self.act(out)

    def __repr__(self) -> str:
        options, rank, shape = self._kwargs, len(self._kwargs["kernel"]), self.weight.shape or (0, 0)
        taken, produced = (shape[1], shape[0]) if _LEVEL == 1 or self._op_name.lower() == "convolution" else shape[:2]
        parts = [f"{taken or None} -> {produced}", f"kernel_size={options['kernel']}", f"stride={options['stride']}"]
        parts += [f"padding={options['pad']}"] * (options["pad"] != (0,) * rank)
        parts += [f"dilation={options['dilate']}"] * (options["dilate"] != (1,) * rank)
        parts += [f"groups={options['num_group']}"] * (options["num_group"] != 1)
        parts += ["bias=False"] * (self.bias is None)
        parts += [str(self.act)] * (self.act is not None)
        return f"{type(self).__name__}({', '.join(parts)})"


class Conv1D(_Conv):
    """Convolution over one axis: x (batch, channels, width).

    Args:
        channels: number of output channels.
        kernel_size, strides, padding, dilation: size of the window, step, zero padding at both
            ends, and spacing.
        groups: number of separate groups of channels.
        layout: "NCW".
        activation: name of an activation function that follows.
        use_bias: add a bias.
        weight_initializer, bias_initializer: initializers.
        in_channels: number of input channels; 0: inferred at the first call.

    Example:
        >>> layer = mx.gluon.nn.Conv1D(1, kernel_size=2, weight_initializer="ones")
        >>> layer.initialize()
        >>> layer(mx.nd.array([[[1, 2, 4]]])).asnumpy()
        array([[[3., 6.]]], dtype=float32)
    """

    def __init__(self, channels: int, kernel_size: Size, strides: Size = 1, padding: Size = 0, dilation: Size = 1,
                 groups: int = 1, layout: str = "NCW", activation: str | None = None, use_bias: bool = True,
                 weight_initializer: InitializerLike = None, bias_initializer: InitializerLike = "zeros",
                 in_channels: int = 0, **kwargs: Any) -> None:
        _check_layout(layout, ("NCW",), "Conv1D")
        super().__init__(channels, _sizes(kernel_size, 1, "kernel_size"), strides, padding, dilation, groups, layout,
                         in_channels, activation, use_bias, weight_initializer, bias_initializer, **kwargs)


class Conv2D(_Conv):
    """Convolution over two axes: x (batch, channels, height, width); layout "NCHW" or "NHWC".

    Arguments as in `Conv1D`.

    Example:
        >>> layer = mx.gluon.nn.Conv2D(4, kernel_size=3, padding=1)
        >>> layer.initialize()
        >>> layer(mx.nd.ones((1, 2, 5, 5))).shape
        (1, 4, 5, 5)
    """

    def __init__(self, channels: int, kernel_size: Size, strides: Size = (1, 1), padding: Size = (0, 0),
                 dilation: Size = (1, 1), groups: int = 1, layout: str = "NCHW", activation: str | None = None,
                 use_bias: bool = True, weight_initializer: InitializerLike = None,
                 bias_initializer: InitializerLike = "zeros", in_channels: int = 0, **kwargs: Any) -> None:
        _check_layout(layout, ("NCHW", "NHWC"), "Conv2D")
        super().__init__(channels, _sizes(kernel_size, 2, "kernel_size"), strides, padding, dilation, groups, layout,
                         in_channels, activation, use_bias, weight_initializer, bias_initializer, **kwargs)


class Conv3D(_Conv):
    """Convolution over three axes: x (batch, channels, depth, height, width); layout "NCDHW" or "NDHWC".

    Arguments as in `Conv1D`.

    Example:
        >>> layer = mx.gluon.nn.Conv3D(2, kernel_size=3, padding=1)
        >>> layer.initialize()
        >>> layer(mx.nd.ones((1, 3, 4, 4, 4))).shape
        (1, 2, 4, 4, 4)
    """

    def __init__(self, channels: int, kernel_size: Size, strides: Size = (1, 1, 1), padding: Size = (0, 0, 0),
                 dilation: Size = (1, 1, 1), groups: int = 1, layout: str = "NCDHW", activation: str | None = None,
                 use_bias: bool = True, weight_initializer: InitializerLike = None,
                 bias_initializer: InitializerLike = "zeros", in_channels: int = 0, **kwargs: Any) -> None:
        _check_layout(layout, ("NCDHW", "NDHWC"), "Conv3D")
        super().__init__(channels, _sizes(kernel_size, 3, "kernel_size"), strides, padding, dilation, groups, layout,
                         in_channels, activation, use_bias, weight_initializer, bias_initializer, **kwargs)


class _Transpose(_Conv):
    """The output padding of transposed convolutions."""

    def __init__(self, rank: int, channels: int, kernel_size: Size, strides: Size, padding: Size, output_padding: Size,
                 *args: Any, **kwargs: Any) -> None:
        adj = _sizes(output_padding, rank, "output_padding")
        kwargs.setdefault("op_name", "Deconvolution")
        super().__init__(channels, _sizes(kernel_size, rank, "kernel_size"), strides, padding, *args, adj=adj, **kwargs)
        self.outpad = adj


class Conv1DTranspose(_Transpose):
    """Transposed convolution over one axis: x (batch, channels, width), layout "NCW".

    Arguments as in `Conv1D`, and output_padding: additional length of the output at one end.

    Example:
        >>> layer = mx.gluon.nn.Conv1DTranspose(1, kernel_size=2, strides=2, weight_initializer="ones")
        >>> layer.initialize()
        >>> layer(mx.nd.array([[[1, 2]]])).asnumpy()
        array([[[1., 1., 2., 2.]]], dtype=float32)
    """

    def __init__(self, channels: int, kernel_size: Size, strides: Size = 1, padding: Size = 0, output_padding: Size = 0,
                 dilation: Size = 1, groups: int = 1, layout: str = "NCW", activation: str | None = None,
                 use_bias: bool = True, weight_initializer: InitializerLike = None,
                 bias_initializer: InitializerLike = "zeros", in_channels: int = 0, **kwargs: Any) -> None:
        _check_layout(layout, ("NCW",), "Conv1DTranspose")
        super().__init__(1, channels, kernel_size, strides, padding, output_padding, dilation, groups, layout,
                         in_channels, activation, use_bias, weight_initializer, bias_initializer, **kwargs)


class Conv2DTranspose(_Transpose):
    """Transposed convolution over two axes: x (batch, channels, height, width); layout "NCHW" or "NHWC".

    Arguments as in `Conv1DTranspose`.

    Example:
        >>> layer = mx.gluon.nn.Conv2DTranspose(2, kernel_size=4, strides=2, padding=1)
        >>> layer.initialize()
        >>> layer(mx.nd.ones((1, 3, 4, 4))).shape
        (1, 2, 8, 8)
    """

    def __init__(self, channels: int, kernel_size: Size, strides: Size = (1, 1), padding: Size = (0, 0),
                 output_padding: Size = (0, 0), dilation: Size = (1, 1), groups: int = 1, layout: str = "NCHW",
                 activation: str | None = None, use_bias: bool = True, weight_initializer: InitializerLike = None,
                 bias_initializer: InitializerLike = "zeros", in_channels: int = 0, **kwargs: Any) -> None:
        _check_layout(layout, ("NCHW", "NHWC"), "Conv2DTranspose")
        super().__init__(2, channels, kernel_size, strides, padding, output_padding, dilation, groups, layout,
                         in_channels, activation, use_bias, weight_initializer, bias_initializer, **kwargs)


class Conv3DTranspose(_Transpose):
    """Transposed convolution over three axes: x (batch, channels, depth, height, width); layout "NCDHW" or "NDHWC".

    Arguments as in `Conv1DTranspose`.

    Example:
        >>> layer = mx.gluon.nn.Conv3DTranspose(2, kernel_size=2, strides=2)
        >>> layer.initialize()
        >>> layer(mx.nd.ones((1, 3, 2, 2, 2))).shape
        (1, 2, 4, 4, 4)
    """

    def __init__(self, channels: int, kernel_size: Size, strides: Size = (1, 1, 1), padding: Size = (0, 0, 0),
                 output_padding: Size = (0, 0, 0), dilation: Size = (1, 1, 1), groups: int = 1, layout: str = "NCDHW",
                 activation: str | None = None, use_bias: bool = True, weight_initializer: InitializerLike = None,
                 bias_initializer: InitializerLike = "zeros", in_channels: int = 0, **kwargs: Any) -> None:
        _check_layout(layout, ("NCDHW", "NDHWC"), "Conv3DTranspose")
        super().__init__(3, channels, kernel_size, strides, padding, output_padding, dilation, groups, layout,
                         in_channels, activation, use_bias, weight_initializer, bias_initializer, **kwargs)


# -------------------------------------------------------------------- pooling
_POOL_LAYOUTS = {1: ("NCW", "NWC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}


class _Pooling(HybridBlock):
    """Pooling of any rank."""

    def __init__(self, pool_size: Sequence[int], strides: Size | None, padding: Size, ceil_mode: bool,
                 global_pool: bool, pool_type: str, layout: str, count_include_pad: bool | None = None,
                 **kwargs: Any) -> None:
        super().__init__(**kwargs)
        rank = len(pool_size)
        _check_layout(layout, _POOL_LAYOUTS[rank], f"{rank}D pooling")
        strides = _sizes(pool_size if strides is None else strides, rank, "strides")
        self._kwargs = {"kernel": pool_size, "stride": strides, "pad": _sizes(padding, rank, "padding"),
                        "global_pool": global_pool, "pool_type": pool_type, "layout": layout,
                        "pooling_convention": "full" if ceil_mode else "valid"}
        if count_include_pad is not None:
            self._kwargs["count_include_pad"] = count_include_pad

    def _alias(self) -> str:
        return "pool"

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Any:  # noqa: N803
        """Pools x."""
        return F.Pooling(x, name="fwd", **self._kwargs)

    def __repr__(self) -> str:
        shown = {"size": "kernel", "stride": "stride", "padding": "pad"}
        parts = [f"{name}={self._kwargs[key]}" for name, key in shown.items()]
        parts.append(f"ceil_mode={self._kwargs['pooling_convention'] == 'full'}")
        parts += [f"{key}={self._kwargs[key]}" for key in ("global_pool", "pool_type", "layout")]
        return f"{type(self).__name__}({', '.join(parts)})"


class MaxPool1D(_Pooling):
    """The largest value in each window of one axis.

    Args:
        pool_size, strides, padding: size of the window, step (None: the size) and padding at both
            ends.
        layout: order of the axes: "NCW" or "NWC".
        ceil_mode: round the output's length up instead of down.

    Example:
        >>> mx.gluon.nn.MaxPool1D()(mx.nd.array([[[1, 2, 4, 3]]])).asnumpy()
        array([[[2., 4.]]], dtype=float32)
    """

    def __init__(self, pool_size: Size = 2, strides: Size | None = None, padding: Size = 0, layout: str = "NCW",
                 ceil_mode: bool = False, **kwargs: Any) -> None:
        super().__init__(_sizes(pool_size, 1, "pool_size"), strides, padding, ceil_mode, False, "max", layout, **kwargs)


class MaxPool2D(_Pooling):
    """The largest value in each window of two axes; layout "NCHW" or "NHWC", arguments as in `MaxPool1D`.

    Example:
        >>> mx.gluon.nn.MaxPool2D()(mx.nd.ones((1, 2, 6, 6))).shape
        (1, 2, 3, 3)
    """

    def __init__(self, pool_size: Size = (2, 2), strides: Size | None = None, padding: Size = 0, layout: str = "NCHW",
                 ceil_mode: bool = False, **kwargs: Any) -> None:
        super().__init__(_sizes(pool_size, 2, "pool_size"), strides, padding, ceil_mode, False, "max", layout, **kwargs)


class MaxPool3D(_Pooling):
    """The largest value in each window of three axes; layout "NCDHW" or "NDHWC", arguments as in `MaxPool1D`.

    Example:
        >>> mx.gluon.nn.MaxPool3D()(mx.nd.ones((1, 2, 4, 4, 4))).shape
        (1, 2, 2, 2, 2)
    """

    def __init__(self, pool_size: Size = (2, 2, 2), strides: Size | None = None, padding: Size = 0,
                 ceil_mode: bool = False, layout: str = "NCDHW", **kwargs: Any) -> None:
        super().__init__(_sizes(pool_size, 3, "pool_size"), strides, padding, ceil_mode, False, "max", layout, **kwargs)


class AvgPool1D(_Pooling):
    """The mean of each window of one axis.

    Args:
        pool_size, strides, padding, layout, ceil_mode: as in `MaxPool1D`.
        count_include_pad: include the padding's zeros in the mean.

    Example:
        >>> mx.gluon.nn.AvgPool1D()(mx.nd.array([[[1, 2, 4, 3]]])).asnumpy()
        array([[[1.5, 3.5]]], dtype=float32)
    """

    def __init__(self, pool_size: Size = 2, strides: Size | None = None, padding: Size = 0, layout: str = "NCW",
                 ceil_mode: bool = False, count_include_pad: bool = True, **kwargs: Any) -> None:
        super().__init__(_sizes(pool_size, 1, "pool_size"), strides, padding, ceil_mode, False, "avg", layout,
                         count_include_pad, **kwargs)


class AvgPool2D(_Pooling):
    """The mean of each window of two axes; layout "NCHW" or "NHWC", arguments as in `AvgPool1D`.

    Example:
        >>> mx.gluon.nn.AvgPool2D()(mx.nd.arange(16).reshape((1, 1, 4, 4))).asnumpy()
        array([[[[ 2.5,  4.5],
                 [10.5, 12.5]]]], dtype=float32)
    """

    def __init__(self, pool_size: Size = (2, 2), strides: Size | None = None, padding: Size = 0,
                 ceil_mode: bool = False, layout: str = "NCHW", count_include_pad: bool = True, **kwargs: Any) -> None:
        super().__init__(_sizes(pool_size, 2, "pool_size"), strides, padding, ceil_mode, False, "avg", layout,
                         count_include_pad, **kwargs)


class AvgPool3D(_Pooling):
    """The mean of each window of three axes; layout "NCDHW" or "NDHWC", arguments as in `AvgPool1D`.

    Example:
        >>> mx.gluon.nn.AvgPool3D()(mx.nd.ones((1, 2, 4, 4, 4))).shape
        (1, 2, 2, 2, 2)
    """

    def __init__(self, pool_size: Size = (2, 2, 2), strides: Size | None = None, padding: Size = 0,
                 ceil_mode: bool = False, layout: str = "NCDHW", count_include_pad: bool = True,
                 **kwargs: Any) -> None:
        super().__init__(_sizes(pool_size, 3, "pool_size"), strides, padding, ceil_mode, False, "avg", layout,
                         count_include_pad, **kwargs)


class GlobalMaxPool1D(_Pooling):
    """The largest value of each channel: (batch, channels, width) -> (batch, channels, 1); layout "NCW" or "NWC".

    Example:
        >>> mx.gluon.nn.GlobalMaxPool1D()(mx.nd.array([[[1, 2, 4, 3]]])).asnumpy()
        array([[[4.]]], dtype=float32)
    """

    def __init__(self, layout: str = "NCW", **kwargs: Any) -> None:
        super().__init__((1,), None, 0, True, True, "max", layout, **kwargs)


class GlobalMaxPool2D(_Pooling):
    """The largest value of each channel over two axes; layout "NCHW" or "NHWC".

    Example:
        >>> mx.gluon.nn.GlobalMaxPool2D()(mx.nd.arange(16).reshape((1, 1, 4, 4))).asnumpy()
        array([[[[15.]]]], dtype=float32)
    """

    def __init__(self, layout: str = "NCHW", **kwargs: Any) -> None:
        super().__init__((1, 1), None, 0, True, True, "max", layout, **kwargs)


class GlobalMaxPool3D(_Pooling):
    """The largest value of each channel over three axes; layout "NCDHW" or "NDHWC".

    Example:
        >>> mx.gluon.nn.GlobalMaxPool3D()(mx.nd.ones((1, 2, 4, 4, 4))).shape
        (1, 2, 1, 1, 1)
    """

    def __init__(self, layout: str = "NCDHW", **kwargs: Any) -> None:
        super().__init__((1, 1, 1), None, 0, True, True, "max", layout, **kwargs)


class GlobalAvgPool1D(_Pooling):
    """The mean of each channel: (batch, channels, width) -> (batch, channels, 1); layout "NCW" or "NWC".

    Example:
        >>> mx.gluon.nn.GlobalAvgPool1D()(mx.nd.array([[[1, 2, 4, 3]]])).asnumpy()
        array([[[2.5]]], dtype=float32)
    """

    def __init__(self, layout: str = "NCW", **kwargs: Any) -> None:
        super().__init__((1,), None, 0, True, True, "avg", layout, **kwargs)


class GlobalAvgPool2D(_Pooling):
    """The mean of each channel over two axes; layout "NCHW" or "NHWC".

    Example:
        >>> mx.gluon.nn.GlobalAvgPool2D()(mx.nd.arange(16).reshape((1, 1, 4, 4))).asnumpy()
        array([[[[7.5]]]], dtype=float32)
    """

    def __init__(self, layout: str = "NCHW", **kwargs: Any) -> None:
        super().__init__((1, 1), None, 0, True, True, "avg", layout, **kwargs)


class GlobalAvgPool3D(_Pooling):
    """The mean of each channel over three axes; layout "NCDHW" or "NDHWC".

    Example:
        >>> mx.gluon.nn.GlobalAvgPool3D()(mx.nd.ones((1, 2, 4, 4, 4))).shape
        (1, 2, 1, 1, 1)
    """

    def __init__(self, layout: str = "NCDHW", **kwargs: Any) -> None:
        super().__init__((1, 1, 1), None, 0, True, True, "avg", layout, **kwargs)


class ReflectionPad2D(HybridBlock):
    """Pads height and width of (batch, channels, height, width) by reflection.

    Args:
        padding: one number for all four sides, or 8 numbers: before and after each axis.

    Raises:
        AssertionError: it is neither.

    Example:
        >>> mx.gluon.nn.ReflectionPad2D(1)(mx.nd.arange(4).reshape((1, 1, 2, 2))).asnumpy()
        array([[[[3., 2., 3., 2.],
                 [1., 0., 1., 0.],
                 [3., 2., 3., 2.],
                 [1., 0., 1., 0.]]]], dtype=float32)
    """

    def __init__(self, padding: Size = 0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if isinstance(padding, numeric_types):
            padding = (0, 0, 0, 0, padding, padding, padding, padding)
        if len(padding) != 8:
            raise AssertionError(f"padding must be one number or 8 numbers, got {padding!r}")
        self._padding = padding

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Any:  # noqa: N803
        """Pads x."""
        return F.pad(x, mode="reflect", pad_width=self._padding)
