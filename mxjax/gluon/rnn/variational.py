"""Cells with variational dropout and with projected states; unrolling as one loop."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ...base import _as_list
from .._parameter import ParameterDict, tensor_types
from ..parameter import Parameter
from ._sequence import begin_state as _begin_state
from ._sequence import format_sequence, mask
from .rnn_cell import BidirectionalCell, HybridRecurrentCell, ModifierCell, RecurrentCell, SequentialRNNCell

if TYPE_CHECKING:
    from ...initializer import InitializerLike
    from .._types import Tensor

__all__ = ["LSTMPCell", "VariationalDropoutCell", "dynamic_unroll"]


class VariationalDropoutCell(ModifierCell):
    """Dropout with one mask for all steps. Gal and Ghahramani, 2016, arXiv:1512.05287.

    Args:
        base_cell: the cell.
        drop_inputs, drop_states, drop_outputs: dropout rates of the inputs, the first state and the
            outputs.

    Raises:
        AssertionError: dropout of the states of a bidirectional cell.

    Example:
        >>> cell = mx.gluon.contrib.rnn.VariationalDropoutCell(mx.gluon.rnn.RNNCell(3), drop_inputs=0.5)
        >>> cell.initialize()
        >>> outputs, states = cell.unroll(5, mx.nd.ones((2, 5, 4)), merge_outputs=True)
        >>> outputs.shape, len(states)
        ((2, 5, 3), 1)
    """

    def __init__(self, base_cell: RecurrentCell, drop_inputs: float = 0.0, drop_states: float = 0.0,
                 drop_outputs: float = 0.0) -> None:
        stacked = isinstance(base_cell, SequentialRNNCell) and any(
            isinstance(cell, BidirectionalCell) for cell in base_cell._child_blocks())
        if drop_states and (stacked or isinstance(base_cell, BidirectionalCell)):
            raise AssertionError("bidirectional cells do not support variational state dropout; apply "
                                 "VariationalDropoutCell to the cells underneath instead")
        super().__init__(base_cell)
        self.drop_inputs, self.drop_states, self.drop_outputs = drop_inputs, drop_states, drop_outputs

    def _alias(self) -> str:
        return "vardrop"

    def reset(self) -> None:
        """Starts a new sequence with new masks."""
        super().reset()
        self.drop_inputs_mask = self.drop_states_mask = self.drop_outputs_mask = None

    def _drop(self, F: ModuleType, what: str, value: Tensor) -> Any:  # noqa: N803
        """`value` under the mask of inputs, states or outputs, which is drawn at the first step."""
        part = getattr(self, f"drop_{what}")
        if not part:
            return value
        attribute = f"drop_{what}_mask"
        if getattr(self, attribute) is None:
            setattr(self, attribute, F.Dropout(F.ones_like(value), p=part))
        return value * getattr(self, attribute)

    def hybrid_forward(self, F: ModuleType, inputs: Tensor, states: Sequence[Tensor]) -> tuple[Any, Sequence[Any]]:  # noqa: N803
        """Runs one step; returns (output, new states)."""
        states = [self._drop(F, "states", states[0]), *states[1:]]
        output, states = self.base_cell(self._drop(F, "inputs", inputs), states)
        return self._drop(F, "outputs", output), states

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p_out = {self.drop_outputs}, p_state = {self.drop_states})"

    def unroll(self, length: int, inputs: Tensor | Sequence[Tensor], begin_state: Sequence[Tensor] | None = None,
               layout: str = "NTC", merge_outputs: bool | None = None,
               valid_length: Tensor | None = None) -> tuple[Any, Sequence[Any]]:
        """Runs the cell over a sequence; arguments as in `RecurrentCell.unroll`."""
        if self.drop_states:
            return super().unroll(length, inputs, begin_state, layout, merge_outputs, valid_length=valid_length)
        self.reset()
        inputs, axis, F, batch_size = format_sequence(length, inputs, layout, True)  # noqa: N806
        states = _begin_state(self, F, begin_state, inputs, batch_size)
        if self.drop_inputs:
            inputs = F.Dropout(inputs, p=self.drop_inputs, axes=(axis,))
        outputs, states = self.base_cell.unroll(length, inputs, states, layout, merge_outputs=True,
                                                valid_length=valid_length)
        if self.drop_outputs:
            outputs = F.Dropout(outputs, p=self.drop_outputs, axes=(axis,))
        merge = isinstance(outputs, tensor_types) if merge_outputs is None else merge_outputs
        if valid_length is not None:
            return mask(F, outputs, length, valid_length, axis, merge), states
        return format_sequence(length, outputs, layout, merge).data, states


class LSTMPCell(HybridRecurrentCell):
    """Long short-term memory with a projected output. Sak et al., 2014, arXiv:1402.1128.

    States: projected output (batch, projection_size), cell (batch, hidden_size).

    Args:
        hidden_size: length of the cell.
        projection_size: length of the output.
        i2h_weight_initializer, h2h_weight_initializer, h2r_weight_initializer, i2h_bias_initializer,
            h2h_bias_initializer: initializers.
        input_size: length of the input; 0: inferred at the first call.
        prefix, params: see `Block`.

    Example:
        >>> cell = mx.gluon.contrib.rnn.LSTMPCell(3, projection_size=2)
        >>> cell.initialize()
        >>> output, states = cell(mx.nd.ones((1, 4)), cell.begin_state(batch_size=1))
        >>> output.shape, [state.shape for state in states]
        ((1, 2), [(1, 2), (1, 3)])
    """

    i2h_weight: Parameter

    def __init__(self, hidden_size: int, projection_size: int, i2h_weight_initializer: InitializerLike = None,
                 h2h_weight_initializer: InitializerLike = None, h2r_weight_initializer: InitializerLike = None,
                 i2h_bias_initializer: InitializerLike = "zeros", h2h_bias_initializer: InitializerLike = "zeros",
                 input_size: int = 0, prefix: str | None = None, params: ParameterDict | None = None) -> None:
        super().__init__(prefix=prefix, params=params)
        self._hidden_size, self._input_size, self._projection_size = hidden_size, input_size, projection_size
        rows = 4 * hidden_size
        for name, shape, init in (("i2h_weight", (rows, input_size), i2h_weight_initializer),
                                  ("h2h_weight", (rows, projection_size), h2h_weight_initializer),
                                  ("h2r_weight", (projection_size, hidden_size), h2r_weight_initializer),
                                  ("i2h_bias", (rows,), i2h_bias_initializer),
                                  ("h2h_bias", (rows,), h2h_bias_initializer)):
            setattr(self, name, self._make_parameter(name, shape=shape, init=init, allow_deferred_init=True))

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Shape and layout of each state."""
        return [{"shape": (batch_size, size), "__layout__": "NC"} for size in (self._projection_size,
                                                                               self._hidden_size)]

    def _alias(self) -> str:
        return "lstmp"

    def __repr__(self) -> str:
        rows, columns = self.i2h_weight.shape or (0, 0)
        return f"{type(self).__name__}({columns or None} -> {rows} -> {self._projection_size})"

    def hybrid_forward(self, F: ModuleType, inputs: Tensor, states: Sequence[Tensor], i2h_weight: Tensor,  # noqa: N803
                       h2h_weight: Tensor, h2r_weight: Tensor, i2h_bias: Tensor,
                       h2h_bias: Tensor) -> tuple[Any, Sequence[Any]]:
        """Runs one step; returns (output, new states)."""
        t, rows = f"t{self._counter}_", 4 * self._hidden_size
        i2h = F.FullyConnected(inputs, i2h_weight, i2h_bias, num_hidden=rows, name=t + "i2h")
        h2h = F.FullyConnected(states[0], h2h_weight, h2h_bias, num_hidden=rows, name=t + "h2h")
        parts = F.SliceChannel(i2h + h2h, num_outputs=4, name=t + "slice")
        activations = ("sigmoid", "sigmoid", "tanh", "sigmoid")
        write, forget, candidate, read = (F.Activation(parts[i], act_type=activation, name=t + gate)
                                          for i, (activation, gate) in enumerate(zip(activations, "ifco", strict=True)))
        cell = F.elemwise_add(forget * states[1], write * candidate, name=t + "state")
        hidden = F.elemwise_mul(read, F.Activation(cell, act_type="tanh"), name=t + "hidden")
        output = F.FullyConnected(hidden, h2r_weight, num_hidden=self._projection_size, no_bias=True, name=t + "out")
        return output, [output, cell]


def dynamic_unroll(cell: RecurrentCell, inputs: Tensor | Sequence[Tensor], begin_state: list[Any],
                   drop_inputs: float = 0, drop_outputs: float = 0, layout: str = "TNC",
                   valid_length: Tensor | None = None) -> tuple[Any, Sequence[Any]]:
    """Runs a cell over a sequence with one loop operator instead of a copy of the cell per step.

    Args:
        cell: the cell.
        inputs: the sequence: one array with the axes in `layout`, or a list of arrays.
        begin_state: initial states.
        drop_inputs, drop_outputs: dropout rates of inputs and outputs, with one mask for all steps.
        layout: "TNC" (faster) or "NTC".
        valid_length: (batch,) length of each example, as in `RecurrentCell.unroll`.

    Returns:
        (outputs in one array, states after the last valid step).
    """
    inputs, axis, F, _ = format_sequence(None, inputs, layout, True)  # noqa: N806
    if axis:
        inputs = F.swapaxes(inputs, 0, axis)
    if drop_inputs:
        inputs = F.Dropout(inputs, p=drop_inputs, axes=(0,))
    if valid_length is None:
        outputs, states = F.contrib.foreach(cell, inputs, begin_state)
    else:
        def step(data: Tensor, states: list[Any]) -> tuple[Any, Sequence[Any]]:
            *old, number = states
            output, new = cell(data, old)
            valid = F.broadcast_greater(valid_length, number)
            return output, [F.where(valid, after, before) for after, before in zip(new, old, strict=True)] + \
                [number + 1]
        outputs, states = F.contrib.foreach(step, inputs, [*_as_list(begin_state), F.zeros((1,))])
        states = states[:-1]
    if drop_outputs:
        outputs = F.Dropout(outputs, p=drop_outputs, axes=(0,))
    if axis:
        outputs = F.swapaxes(outputs, 0, axis)
    if valid_length is not None:
        outputs = F.SequenceMask(outputs, sequence_length=valid_length, use_sequence_length=True, axis=axis)
    return outputs, states
