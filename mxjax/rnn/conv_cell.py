"""Convolutional cells."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .. import symbol
from ..base import Unfit
from ..symbol import Symbol
from .base_cell import RNNParams, _GatedCell, _GRUArithmetic, _LSTMArithmetic, _RNNArithmetic

if TYPE_CHECKING:
    from ..initializer import InitializerLike

__all__ = ["BaseConvRNNCell", "ConvRNNCell", "ConvLSTMCell", "ConvGRUCell"]

_LEAKY = functools.partial(symbol.LeakyReLU, act_type="leaky", slope=0.2)


class BaseConvRNNCell(_GatedCell):
    """Base of the convolutional cells.

    Args:
        input_shape: shape of an input, including the batch axis.
        num_hidden: channels of output and states.
        h2h_kernel, h2h_dilate: kernel and dilation of the state's convolution, which preserves
            height and width; kernels must be odd.
        i2h_kernel, i2h_stride, i2h_pad, i2h_dilate: arguments of the input's convolution.
        i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer: initializers.
        activation: name of an activation, or a function of symbols.
        prefix: prefix of the names of parameters and nodes.
        params: parameters shared with other cells.
        conv_layout: layout of inputs and states.

    Source:
        Shi et al., Convolutional LSTM Network, 2015.
    """

    def __init__(self, input_shape: tuple[int, ...], num_hidden: int, h2h_kernel: tuple[int, int],
                 h2h_dilate: tuple[int, int], i2h_kernel: tuple[int, int], i2h_stride: tuple[int, int],
                 i2h_pad: tuple[int, int], i2h_dilate: tuple[int, int], i2h_weight_initializer: InitializerLike,
                 h2h_weight_initializer: InitializerLike, i2h_bias_initializer: InitializerLike,
                 h2h_bias_initializer: InitializerLike, activation: str | Callable[..., Symbol], prefix: str = "",
                 params: RNNParams | None = None, conv_layout: str = "NCHW") -> None:
        super().__init__(prefix=prefix, params=params)
        if any(size % 2 == 0 for size in h2h_kernel):
            raise Unfit(f"h2h_kernel must be odd, so that the states keep their size; got {h2h_kernel}")
        self._num_hidden = num_hidden
        self._input_shape = input_shape
        self._activation = activation
        self._state_layout = conv_layout
        self._i2h = {"kernel": i2h_kernel, "stride": i2h_stride, "pad": i2h_pad, "dilate": i2h_dilate,
                     "layout": conv_layout}
        same = tuple(dilate * (kernel - 1) // 2 for dilate, kernel in zip(h2h_dilate, h2h_kernel, strict=True))
        self._h2h = {"kernel": h2h_kernel, "dilate": h2h_dilate, "pad": same, "stride": (1, 1),
                     "layout": conv_layout}
        convolved = symbol.Convolution(data=symbol.Variable("data"), num_filter=num_hidden, **self._i2h)
        self._state_shape = (0, *convolved.infer_shape(data=input_shape)[1][0][1:])
        self._iW = self.params.get("i2h_weight", init=i2h_weight_initializer)
        self._hW = self.params.get("h2h_weight", init=h2h_weight_initializer)
        self._iB = self.params.get("i2h_bias", init=i2h_bias_initializer)
        self._hB = self.params.get("h2h_bias", init=h2h_bias_initializer)

    def _project(self, inputs: Symbol, states: list[Symbol], name: str) -> tuple[Symbol, Symbol]:
        filters = self._num_hidden * self._num_gates
        return (symbol.Convolution(data=inputs, weight=self._iW, bias=self._iB, num_filter=filters,
                                   name=f"{name}i2h", **self._i2h),
                symbol.Convolution(data=states[0], weight=self._hW, bias=self._hB, num_filter=filters,
                                   name=f"{name}h2h", **self._h2h))


def _define(name: str, arithmetic: type, summary: str) -> type:
    """A convolutional cell; the three differ in nothing but their arithmetic."""
    def __init__(self: BaseConvRNNCell, input_shape: tuple[int, ...], num_hidden: int,
                 h2h_kernel: tuple[int, int] = (3, 3), h2h_dilate: tuple[int, int] = (1, 1),
                 i2h_kernel: tuple[int, int] = (3, 3), i2h_stride: tuple[int, int] = (1, 1),
                 i2h_pad: tuple[int, int] = (1, 1), i2h_dilate: tuple[int, int] = (1, 1),
                 i2h_weight_initializer: InitializerLike = None, h2h_weight_initializer: InitializerLike = None,
                 i2h_bias_initializer: InitializerLike = "zeros", h2h_bias_initializer: InitializerLike = "zeros",
                 activation: str | Callable[..., Symbol] = _LEAKY, prefix: str = f"{name.removesuffix('Cell')}_",
                 params: RNNParams | None = None, conv_layout: str = "NCHW") -> None:
        BaseConvRNNCell.__init__(self, input_shape, num_hidden, h2h_kernel, h2h_dilate, i2h_kernel, i2h_stride,
                                 i2h_pad, i2h_dilate, i2h_weight_initializer, h2h_weight_initializer,
                                 i2h_bias_initializer, h2h_bias_initializer, activation, prefix, params, conv_layout)

    __init__.__qualname__ = f"{name}.__init__"
    return type(name, (arithmetic, BaseConvRNNCell),
                {"__init__": __init__, "__module__": __name__,
                 "__doc__": f"{summary} of images; arguments as in `BaseConvRNNCell`."})


class _ConvLSTMArithmetic(_LSTMArithmetic):
    @property
    def _gate_slices(self) -> dict[str, Any]:
        return {"axis": self._state_layout.find("C")}


ConvRNNCell = _define("ConvRNNCell", _RNNArithmetic, "A plain recurrent cell")
ConvLSTMCell = _define("ConvLSTMCell", _ConvLSTMArithmetic, "An LSTM cell")
ConvGRUCell = _define("ConvGRUCell", _GRUArithmetic, "A GRU cell")
