"""Recurrent layers over whole sequences, on the fused RNN operator."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ... import initializer, symbol
from ... import ndarray as nd
from ..._rnn_packing import packed_shapes
from ...level import fix
from ...ndarray import NDArray
from ...numpy import zeros
from ...util import is_np_array
from .._chosen_block import scope_of
from ..block import HybridBlock
from ..parameter import Parameter, tensor_types
from . import rnn_cell

if TYPE_CHECKING:
    from ...initializer import InitializerLike
    from ...ops.params import DTypeLike
    from .._types import Tensor

__all__ = ["GRU", "LSTM", "RNN"]

_LEVEL = fix("mxjax.gluon")  # in MXNet 2 a layer has one parameter
_GATES = {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 4, "gru": 3}
_PARAMETER = re.compile(r"(l|r)(\d+)_(i2h|h2h|h2r)_(weight|bias)\Z")


class _RNNLayer(HybridBlock):
    """A stack of recurrent layers in one or both directions."""

    l0_i2h_weight: Parameter  # of MXNet 1.x's

    def __init__(self, hidden_size: int, num_layers: int, layout: str, dropout: float, bidirectional: bool,
                 input_size: int, i2h_weight_initializer: InitializerLike, h2h_weight_initializer: InitializerLike,
                 i2h_bias_initializer: InitializerLike, h2h_bias_initializer: InitializerLike, mode: str,
                 projection_size: int | None, h2r_weight_initializer: InitializerLike,
                 lstm_state_clip_min: float | None, lstm_state_clip_max: float | None, lstm_state_clip_nan: bool | None,
                 dtype: DTypeLike, use_sequence_length: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if layout not in ("TNC", "NTC"):
            raise AssertionError(f"Invalid layout {layout}; must be one of ['TNC' or 'NTC']")
        self._hidden_size, self._num_layers, self._mode, self._layout = hidden_size, num_layers, mode, layout
        self._projection_size = projection_size or None
        self._dropout, self._dir, self._input_size = dropout, 2 if bidirectional else 1, input_size
        self._initializers = {"i2h_weight_initializer": i2h_weight_initializer,
                              "h2h_weight_initializer": h2h_weight_initializer,
                              "i2h_bias_initializer": i2h_bias_initializer,
                              "h2h_bias_initializer": h2h_bias_initializer}
        self._clip = {"lstm_state_clip_min": lstm_state_clip_min, "lstm_state_clip_max": lstm_state_clip_max,
                      "lstm_state_clip_nan": lstm_state_clip_nan}
        self._dtype, self._use_sequence_length = dtype, use_sequence_length
        self._gates = _GATES[mode]
        self.skip_states: bool | None = None
        if _LEVEL == 2:
            init = initializer.RNNFused(mode, num_layers, hidden_size, bidirectional, self._projection_size,
                                        h2r_weight_initializer=h2r_weight_initializer, **self._initializers)
            self.rnn_param = Parameter("rnn_param", shape=(-1,), init=init, allow_deferred_init=True, dtype=dtype)
            return
        rows, length = self._gates * hidden_size, self._projection_size or hidden_size
        for layer in range(num_layers):
            for side in "lr"[:self._dir]:
                self._add(f"{side}{layer}_i2h_weight", (rows, input_size), i2h_weight_initializer)
                self._add(f"{side}{layer}_h2h_weight", (rows, length), h2h_weight_initializer)
                self._add(f"{side}{layer}_i2h_bias", (rows,), i2h_bias_initializer)
                self._add(f"{side}{layer}_h2h_bias", (rows,), h2h_bias_initializer)
                if self._projection_size:
                    self._add(f"{side}{layer}_h2r_weight", (length, hidden_size), h2r_weight_initializer)
            input_size = length * self._dir

    def infer_shape(self, *args: Any) -> None:
        """Infers the parameters' shapes from inputs."""
        if _LEVEL == 1:
            super().infer_shape(*args)
            return
        if args[0].ndim != 3:
            raise AssertionError("Input data should be rank-3 tensor of dim [sequence length, batch size, input size]")
        self._input_size = args[0].shape[2]
        shapes = packed_shapes(self._gates, self._num_layers, self._input_size, self._hidden_size, self._dir,
                               self._projection_size)
        self.rnn_param.shape = (sum(map(math.prod, shapes.values())),)

    def _packed(self, F: ModuleType, params: dict[str, Any]) -> Any:  # noqa: N803
        """All parameters as one vector."""
        if _LEVEL == 2:
            return params["rnn_param"]
        gates = ("i2h", "h2h", "h2r") if self._projection_size else ("i2h", "h2h")
        names = [f"{side}{layer}_{gate}_{kind}" for kind in ("weight", "bias") for layer in range(self._num_layers)
                 for side in "lr"[:self._dir] for gate in gates if (gate, kind) != ("h2r", "bias")]
        return F._internal._rnn_param_concat(*[params[name].reshape(-1) for name in names], dim=0)

    def _add(self, name: str, shape: tuple[int, ...], init: InitializerLike) -> None:
        param = self._make_parameter(name, shape=shape, init=init, allow_deferred_init=True, dtype=self._dtype)
        setattr(self, name, param)

    def __repr__(self) -> str:
        columns = self._input_size if _LEVEL == 2 else (self.l0_i2h_weight.shape or (0, 0))[1]
        parts = [f"{columns or None} -> {self._hidden_size}", self._layout]
        parts += [f"num_layers={self._num_layers}"] * (self._num_layers != 1)
        parts += [f"dropout={self._dropout}"] * (self._dropout != 0)
        parts += ["bidirectional"] * (self._dir == 2)
        return f"{type(self).__name__}({', '.join(parts)})"

    def _collect_params_with_prefix(self, prefix: str = "") -> dict[str, Parameter]:
        """Parameters under the names of the cells that `_unfuse` makes, as MXNet's files have them."""
        if _LEVEL == 2:
            return super()._collect_params_with_prefix(prefix)
        prefix += "." if prefix else ""
        result = {}
        for name, param in self._reg_params.items():
            match = _PARAMETER.match(name)
            if match is None:  # a subclass's own
                result[prefix + name] = param
                continue
            side, layer, gate, kind = match.groups()
            cell = f".{side}_cell" if self._dir == 2 else ""
            result[f"{prefix}_unfused.{layer}{cell}.{gate}_{kind}"] = param
        for name, child in self._child_items():
            result.update(child._collect_params_with_prefix(prefix + name))
        return result

    def _state_lengths(self) -> list[int]:
        """Length of each state's vectors."""
        return [self._hidden_size]

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Shape, layout and dtype of each state."""
        return [{"shape": (self._num_layers * self._dir, batch_size, length), "__layout__": "LNC",
                 "dtype": self._dtype} for length in self._state_lengths()]

    def begin_state(self, batch_size: int = 0, func: Callable = nd.zeros, **kwargs: Any) -> list[Any]:
        """Returns initial states; arguments as in `RecurrentCell.begin_state`."""
        if _LEVEL == 2:
            func = zeros if func is nd.zeros else func
            return [func(shape=info["shape"], **{"dtype": info["dtype"], **kwargs})
                    for info in self.state_info(batch_size)]
        states = [func(name=f"{self._prefix}h0_{i}", **{**info, **kwargs})
                  for i, info in enumerate(self.state_info(batch_size))]
        return [state.as_np_ndarray() for state in states] if is_np_array() else states

    def _unfuse(self) -> rnn_cell.HybridSequentialRNNCell:
        """The same network as cells, which share this layer's parameters."""
        if self._projection_size:
            raise AssertionError("_unfuse does not support projection layer yet!")
        if self._clip["lstm_state_clip_min"] or self._clip["lstm_state_clip_max"]:
            raise AssertionError("_unfuse does not support state clipping yet!")
        classes = {"lstm": rnn_cell.LSTMCell, "gru": rnn_cell.GRUCell}
        options = {} if self._mode in classes else {"activation": self._mode.removeprefix("rnn_")}
        stack = rnn_cell.HybridSequentialRNNCell(prefix=self._prefix, params=self.params)
        with scope_of(stack):
            input_size = self._input_size
            for layer in range(self._num_layers):
                cells = [classes.get(self._mode, rnn_cell.RNNCell)(
                    self._hidden_size, prefix=f"{side}{layer}_", input_size=input_size, **options,
                    **self._initializers) for side in "lr"[:self._dir]]
                stack.add(rnn_cell.BidirectionalCell(*cells) if self._dir == 2 else cells[0])
                if self._dropout > 0 and layer != self._num_layers - 1:
                    stack.add(rnn_cell.DropoutCell(self._dropout))
                input_size = self._hidden_size * self._dir
        return stack

    def cast(self, dtype: DTypeLike) -> None:
        """Converts the parameters, and states created later, to another dtype."""
        super().cast(dtype)
        self._dtype = dtype

    def __call__(self, inputs: Tensor, states: Tensor | Sequence[Tensor] | None = None,
                 sequence_length: Tensor | None = None, **kwargs: Any) -> Any:
        """Runs the layers over a sequence.

        Args:
            inputs: the sequences, (time, batch, input_size), or (batch, time, input_size) with layout "NTC".
            states: initial state or list of states; by default zeros.
            sequence_length: (batch,) length of each example, if the layer was created with
                use_sequence_length.

        Returns:
            The outputs, or (outputs, list of states) if states were passed.
        """
        if self.skip_states not in (None, states is None):
            self._clear_cached_op()  # a graph has the states among its outputs, or has not
        self.skip_states = states is None
        if states is None:
            if isinstance(inputs, NDArray):
                states = self.begin_state(inputs.shape[self._layout.find("N")], ctx=inputs.context, dtype=inputs.dtype)
            else:
                states = self.begin_state(0, func=symbol.zeros)
        states = [states] if isinstance(states, tensor_types) else states
        more = (sequence_length,) if self._use_sequence_length else ()
        return super().__call__(inputs, states, *more, **kwargs)

    def hybrid_forward(self, F: ModuleType, inputs: Tensor, states: Sequence[Tensor],  # noqa: N803
                       sequence_length: Tensor | None = None, **kwargs: Any) -> Any:
        """Returns the outputs, and also the states if states were passed.

        Raises:
            ValueError: a state has the wrong shape.
        """
        if isinstance(inputs, NDArray):
            for state, info in zip(states, self.state_info(inputs.shape[self._layout.find("N")]), strict=True):
                if isinstance(state, NDArray) and state.shape != info["shape"]:
                    raise ValueError(f"Invalid recurrent state shape. Expecting {info['shape']}, got {state.shape}.")
        if self._layout == "NTC":
            inputs = F.swapaxes(inputs, 0, 1)
        flat = self._packed(F, kwargs)
        more = [sequence_length] if self._use_sequence_length else []
        outputs, *after = F.RNN(
            inputs, flat, *states, *more, use_sequence_length=self._use_sequence_length, state_size=self._hidden_size,
            projection_size=self._projection_size, num_layers=self._num_layers, bidirectional=self._dir == 2,
            p=self._dropout, state_outputs=True, mode=self._mode, **self._clip)
        if self._layout == "NTC":
            outputs = F.swapaxes(outputs, 0, 1)
        return outputs if self.skip_states else (outputs, after)


class RNN(_RNNLayer):
    """Plain recurrent layers, see `RNNCell`.

    Args:
        hidden_size: length of the state.
        num_layers: number of stacked layers.
        activation: "relu" or "tanh".
        layout: order of the axes of inputs and outputs: "TNC" or "NTC".
        dropout: rate of dropout between the layers.
        bidirectional: run in both directions and concatenate the outputs.
        i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer: initializers.
        input_size: length of the input; 0: inferred at the first call.
        dtype: type of parameters and states.
        kwargs: use_sequence_length (accept lengths of the examples), prefix and params.

    Example:
        >>> layer = mx.gluon.rnn.RNN(3, layout="NTC")
        >>> layer.initialize()
        >>> layer(mx.nd.ones((2, 5, 4))).shape
        (2, 5, 3)
    """

    def __init__(self, hidden_size: int, num_layers: int = 1, activation: str = "relu", layout: str = "TNC",
                 dropout: float = 0, bidirectional: bool = False, i2h_weight_initializer: InitializerLike = None,
                 h2h_weight_initializer: InitializerLike = None, i2h_bias_initializer: InitializerLike = "zeros",
                 h2h_bias_initializer: InitializerLike = "zeros", input_size: int = 0, dtype: DTypeLike = "float32",
                 **kwargs: Any) -> None:
        super().__init__(hidden_size, num_layers, layout, dropout, bidirectional, input_size, i2h_weight_initializer,
                         h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer, "rnn_" + activation, None,
                         None, None, None, False, dtype, **kwargs)


class LSTM(_RNNLayer):
    """LSTM layers, see `LSTMCell`.

    Args:
        hidden_size, num_layers, layout, dropout, bidirectional, input_size: as in `RNN`.
        i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer: initializers.
        projection_size: length to which the outputs are projected. Sak et al., 2014,
            arXiv:1402.1128.
        h2r_weight_initializer: initializer of the projection.
        state_clip_min, state_clip_max, state_clip_nan: bounds of the cell state, and whether NaN is
            clipped, too.
        dtype: type of parameters and states.
        kwargs: use_sequence_length (accept lengths of the examples), prefix and params.

    Example:
        >>> layer = mx.gluon.rnn.LSTM(100, 3)
        >>> layer.initialize()
        >>> layer(mx.nd.random.uniform(shape=(5, 3, 10))).shape
        (5, 3, 100)
    """

    def __init__(self, hidden_size: int, num_layers: int = 1, layout: str = "TNC", dropout: float = 0,
                 bidirectional: bool = False, input_size: int = 0, i2h_weight_initializer: InitializerLike = None,
                 h2h_weight_initializer: InitializerLike = None, i2h_bias_initializer: InitializerLike = "zeros",
                 h2h_bias_initializer: InitializerLike = "zeros", projection_size: int | None = None,
                 h2r_weight_initializer: InitializerLike = None, state_clip_min: float | None = None,
                 state_clip_max: float | None = None, state_clip_nan: bool = False, dtype: DTypeLike = "float32",
                 **kwargs: Any) -> None:
        super().__init__(hidden_size, num_layers, layout, dropout, bidirectional, input_size, i2h_weight_initializer,
                         h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer, "lstm", projection_size,
                         h2r_weight_initializer, state_clip_min, state_clip_max, state_clip_nan, dtype, **kwargs)

    def _state_lengths(self) -> list[int]:
        return [self._projection_size or self._hidden_size, self._hidden_size]


class GRU(_RNNLayer):
    """GRU layers, see `GRUCell`.

    Args:
        hidden_size, num_layers, layout, dropout, bidirectional, input_size, dtype, kwargs: as in `RNN`.
        i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer: initializers.

    Example:
        >>> layer = mx.gluon.rnn.GRU(3, num_layers=2, bidirectional=True)
        >>> layer.initialize()
        >>> outputs, states = layer(mx.nd.ones((5, 2, 4)), layer.begin_state(batch_size=2))
        >>> outputs.shape, states[0].shape
        ((5, 2, 6), (4, 2, 3))
    """

    def __init__(self, hidden_size: int, num_layers: int = 1, layout: str = "TNC", dropout: float = 0,
                 bidirectional: bool = False, input_size: int = 0, i2h_weight_initializer: InitializerLike = None,
                 h2h_weight_initializer: InitializerLike = None, i2h_bias_initializer: InitializerLike = "zeros",
                 h2h_bias_initializer: InitializerLike = "zeros", dtype: DTypeLike = "float32", **kwargs: Any) -> None:
        super().__init__(hidden_size, num_layers, layout, dropout, bidirectional, input_size, i2h_weight_initializer,
                         h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer, "gru", None, None, None,
                         None, False, dtype, **kwargs)
