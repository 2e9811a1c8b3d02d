"""Convolutional recurrent cells. Shi et al., 2015, arXiv:1506.04214.

There are three kinds of cells, each in one, two and three dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .._parameter import ParameterDict
from ..nn.conv_layers import _sizes
from ..parameter import Parameter
from .rnn_cell import HybridRecurrentCell

if TYPE_CHECKING:
    from ...initializer import InitializerLike
    from .._types import Activation, Size, Tensor

__all__ = ["Conv1DGRUCell", "Conv1DLSTMCell", "Conv1DRNNCell", "Conv2DGRUCell", "Conv2DLSTMCell", "Conv2DRNNCell",
           "Conv3DGRUCell", "Conv3DLSTMCell", "Conv3DRNNCell"]

_LAYOUTS = {1: "NCW", 2: "NCHW", 3: "NCDHW"}


class _ConvCell(HybridRecurrentCell):
    """Base of the cells: the convolutions of input ("i2h") and state ("h2h"), for all gates together."""

    _gates = 1
    _num_states = 1
    i2h_weight: Parameter

    def _make(self, rank: int, input_shape: Sequence[int], hidden_channels: int, i2h_kernel: Size, h2h_kernel: Size,
              i2h_pad: Size, i2h_dilate: Size, h2h_dilate: Size, initializers: dict[str, Any], conv_layout: str,
              activation: Activation) -> None:
        self._hidden_channels, self._input_shape = hidden_channels, tuple(input_shape)
        self._conv_layout, self._activation = conv_layout, activation
        kernel, dilate = _sizes(h2h_kernel, rank, "h2h_kernel"), _sizes(h2h_dilate, rank, "h2h_dilate")
        if any(size % 2 == 0 for size in kernel):
            raise AssertionError(f"Only support odd number, get h2h_kernel= {h2h_kernel}")
        rows = hidden_channels * self._gates
        shared = {"num_filter": rows, "stride": (1,) * rank, "layout": conv_layout}
        self._h2h = {**shared, "kernel": kernel, "dilate": dilate,
                     "pad": tuple(d * (k - 1) // 2 for d, k in zip(dilate, kernel, strict=True))}
        self._i2h = {**shared, "kernel": _sizes(i2h_kernel, rank, "i2h_kernel"),
                     "dilate": _sizes(i2h_dilate, rank, "i2h_dilate"), "pad": _sizes(i2h_pad, rank, "i2h_pad")}
        self._channel_axis = axis = conv_layout.find("C")
        channels_first = axis == 1
        sizes = input_shape[1:] if channels_first else input_shape[:-1]
        windows = zip(sizes, self._i2h["kernel"], self._i2h["pad"], self._i2h["dilate"], strict=True)
        sizes = tuple(n + 2 * p - d * (k - 1) if n else 0 for n, k, p, d in windows)
        self._state_shape = (hidden_channels, *sizes) if channels_first else (*sizes, hidden_channels)

        def weight(channels: int, kernel: tuple[int, ...]) -> tuple[int, ...]:
            return (rows, channels, *kernel) if channels_first else (rows, *kernel, channels)
        shapes = {"i2h_weight": weight(input_shape[axis - 1], self._i2h["kernel"]),
                  "h2h_weight": weight(hidden_channels, kernel), "i2h_bias": (rows,), "h2h_bias": (rows,)}
        for name, shape in shapes.items():
            param = self._make_parameter(name, shape=shape, init=initializers[name], allow_deferred_init=True)
            setattr(self, name, param)

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Shape and layout of each state."""
        return [{"shape": (batch_size, *self._state_shape), "__layout__": self._conv_layout}
                for _ in range(self._num_states)]

    def __repr__(self) -> str:
        shape = self.i2h_weight.shape or (0, 0)
        channels = shape[1 if self._channel_axis == 1 else -1] or None
        return f"{type(self).__name__}({channels} -> {shape[0]}, {self._activation}, {self._conv_layout})"

    def hybrid_forward(self, F: ModuleType, inputs: Tensor, states: Sequence[Tensor], i2h_weight: Tensor,  # noqa: N803
                       h2h_weight: Tensor, i2h_bias: Tensor, h2h_bias: Tensor) -> tuple[Any, Sequence[Any]]:
        """Runs one step; returns (output, new states)."""
        t = f"t{self._counter}_"
        i2h = F.Convolution(data=inputs, weight=i2h_weight, bias=i2h_bias, name=t + "i2h", **self._i2h)
        h2h = F.Convolution(data=states[0], weight=h2h_weight, bias=h2h_bias, name=t + "h2h", **self._h2h)
        return self._step(F, i2h, h2h, states, t)

    def _step(self, F: ModuleType, i2h: Tensor, h2h: Tensor, states: Sequence[Tensor], t: str) -> tuple[Any, list[Any]]:  # noqa: N803
        """The step from the two convolutions; `t` begins the operators' names."""
        raise NotImplementedError(f"{type(self).__name__} must define _step")

    def _split(self, F: ModuleType, data: Tensor, name: str) -> Any:  # noqa: N803
        return F.SliceChannel(data, num_outputs=self._gates, axis=self._channel_axis, name=name)


class _ConvRNN(_ConvCell):
    """A plain recurrent cell: h' = activation(W_i * x + b_i + W_h * h + b_h)."""

    def _alias(self) -> str:
        return "conv_rnn"

    def _step(self, F: ModuleType, i2h: Tensor, h2h: Tensor, states: Sequence[Tensor], t: str) -> tuple[Any, list[Any]]:  # noqa: N803
        output = self._get_activation(F, i2h + h2h, self._activation, name=t + "out")
        return output, [output]


class _ConvLSTM(_ConvCell):
    """Long short-term memory; gates in the order input, forget, candidate, output."""

    _gates = 4
    _num_states = 2

    def _alias(self) -> str:
        return "conv_lstm"

    def _step(self, F: ModuleType, i2h: Tensor, h2h: Tensor, states: Sequence[Tensor], t: str) -> tuple[Any, list[Any]]:  # noqa: N803
        parts = self._split(F, i2h + h2h, t + "slice")
        write, forget, read = (F.Activation(parts[i], act_type="sigmoid", name=t + gate)
                               for i, gate in ((0, "i"), (1, "f"), (3, "o")))
        candidate = self._get_activation(F, parts[2], self._activation, name=t + "c")
        cell = F.elemwise_add(forget * states[1], write * candidate, name=t + "state")
        output = F.elemwise_mul(read, self._get_activation(F, cell, self._activation), name=t + "out")
        return output, [output, cell]


class _ConvGRU(_ConvCell):
    """Gated recurrent unit; gates in the order reset, update, candidate."""

    _gates = 3

    def _alias(self) -> str:
        return "conv_gru"

    def _step(self, F: ModuleType, i2h: Tensor, h2h: Tensor, states: Sequence[Tensor], t: str) -> tuple[Any, list[Any]]:  # noqa: N803
        from_input, from_state = self._split(F, i2h, t + "i2h_slice"), self._split(F, h2h, t + "h2h_slice")
        reset, update = (F.Activation(from_input[i] + from_state[i], act_type="sigmoid", name=f"{t}{gate}_act")
                         for i, gate in enumerate("rz"))
        candidate = self._get_activation(F, from_input[2] + reset * from_state[2], self._activation, name=t + "h_act")
        output = F.elemwise_add((1.0 - update) * candidate, update * states[0], name=t + "out")
        return output, [output]


def _of_rank(name: str, cls: type[_ConvCell], rank: int) -> type:
    """Returns the class of the cells of `cls` in `rank` dimensions."""
    def __init__(self: Any, input_shape: Sequence[int], hidden_channels: int, i2h_kernel: Size, h2h_kernel: Size,  # noqa: N807
                 i2h_pad: Size = (0,) * rank, i2h_dilate: Size = (1,) * rank, h2h_dilate: Size = (1,) * rank,
                 i2h_weight_initializer: InitializerLike = None, h2h_weight_initializer: InitializerLike = None,
                 i2h_bias_initializer: InitializerLike = "zeros", h2h_bias_initializer: InitializerLike = "zeros",
                 conv_layout: str = _LAYOUTS[rank], activation: Activation = "tanh", prefix: str | None = None,
                 params: ParameterDict | None = None) -> None:
        cls.__init__(self, prefix=prefix, params=params)
        initializers = {"i2h_weight": i2h_weight_initializer, "h2h_weight": h2h_weight_initializer,
                        "i2h_bias": i2h_bias_initializer, "h2h_bias": h2h_bias_initializer}
        self._make(rank, input_shape, hidden_channels, i2h_kernel, h2h_kernel, i2h_pad, i2h_dilate, h2h_dilate,
                   initializers, conv_layout, activation)
    shape = (2, *(4,) * rank)
    document = f"""{cls.__doc__} With convolutions in {rank} dimension{'s' * (rank > 1)}.

    Args:
        input_shape: shape of an input without the batch axis, e.g. {("(C, W)", "(C, H, W)", "(C, D, H, W)")[rank - 1]}.
        hidden_channels: channels of a state.
        i2h_kernel, i2h_pad, i2h_dilate: kernel, padding and dilation of the input's convolution.
        h2h_kernel, h2h_dilate: kernel (odd sizes) and dilation of the state's convolution.
        i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer: initializers.
        conv_layout: order of the axes.
        activation: name of the activation function, or a block or function.
        prefix, params: see `Block`.

    Raises:
        AssertionError: a size has the wrong length, or `h2h_kernel` is even.

    Example:
        >>> cell = mx.gluon.contrib.rnn.{name}({shape}, 3, i2h_kernel=3, h2h_kernel=3, i2h_pad=1)
        >>> cell.initialize()
        >>> output, states = cell(mx.nd.ones({(1, *shape)}), cell.begin_state(batch_size=1))
        >>> output.shape, len(states)
        ({(1, 3, *shape[1:])}, {cls._num_states})
    """
    return type(name, (cls,), {"__init__": __init__, "__doc__": document, "__module__": __name__})


Conv1DRNNCell = _of_rank("Conv1DRNNCell", _ConvRNN, 1)
Conv2DRNNCell = _of_rank("Conv2DRNNCell", _ConvRNN, 2)
Conv3DRNNCell = _of_rank("Conv3DRNNCell", _ConvRNN, 3)
Conv1DLSTMCell = _of_rank("Conv1DLSTMCell", _ConvLSTM, 1)
Conv2DLSTMCell = _of_rank("Conv2DLSTMCell", _ConvLSTM, 2)
Conv3DLSTMCell = _of_rank("Conv3DLSTMCell", _ConvLSTM, 3)
Conv1DGRUCell = _of_rank("Conv1DGRUCell", _ConvGRU, 1)
Conv2DGRUCell = _of_rank("Conv2DGRUCell", _ConvGRU, 2)
Conv3DGRUCell = _of_rank("Conv3DGRUCell", _ConvGRU, 3)
