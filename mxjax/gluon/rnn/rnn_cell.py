"""Recurrent cells: one step of a recurrent network, and combinations of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from ... import ndarray as nd
from ... import symbol
from ...base import numeric_types
from ...level import fix
from ...numpy import zeros
from .._chosen_block import named
from .._parameter import ParameterDict, tensor_types
from ..block import Block, HybridBlock
from ..nn import LeakyReLU
from ..parameter import Parameter
from ..utils import _indent, any_arguments
from ._sequence import begin_arrays, format_arrays, format_sequence, mask, mask_arrays, reverse
from ._sequence import begin_state as _begin_state

if TYPE_CHECKING:
    from ...initializer import InitializerLike
    from ...ndarray import NDArray
    from .._types import Activation, Tensor

__all__ = ["BidirectionalCell", "DropoutCell", "GRUCell", "HybridRecurrentCell", "HybridSequentialRNNCell", "LSTMCell",
           "ModifierCell", "RNNCell", "RecurrentCell", "ResidualCell", "SequentialRNNCell", "ZoneoutCell"]


LEVEL = fix("mxjax.gluon")
# MXNet's names, because cells of users that unroll themselves call them; MXNet 2's know no F
_reverse_sequences = reverse
if LEVEL == 1:
    _format_sequence, _get_begin_state, _mask_sequence_variable_length = format_sequence, _begin_state, mask
else:
    _format_sequence, _get_begin_state, _mask_sequence_variable_length = format_arrays, begin_arrays, mask_arrays


class RecurrentCell(Block):
    """Base of recurrent cells: `output, states = cell(inputs, states)` is one step, `unroll` a sequence of them.

    Args:
        prefix, params: see `Block`.
    """

    def __init__(self, prefix: str | None = None, params: ParameterDict | None = None) -> None:
        super().__init__(prefix=prefix, params=params)
        self._modified = False
        self.reset()

    def _cells(self) -> list[RecurrentCell]:
        """The cells directly in this one."""
        return self._child_blocks()  # pyright: ignore[reportReturnType]  a cell's children are cells

    def reset(self) -> None:
        """Starts a new sequence and resets the counters in the operators' names."""
        self._init_counter = self._counter = -1
        for cell in self._cells():
            cell.reset()

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Shape and layout of each state."""
        raise NotImplementedError(f"{type(self).__name__} must define state_info")

    def _check_not_modified(self) -> None:
        if self._modified:
            raise AssertionError("After applying modifier cells (e.g. ZoneoutCell) the base cell cannot be called "
                                 "directly. Call the modifier cell instead.")

    def begin_state(self, batch_size: int = 0, func: Callable = nd.zeros, **kwargs: Any) -> list[Any]:
        """Returns initial states.

        Args:
            batch_size: size of the batch; 0 for symbols whose batch size is unknown.
            func: function that creates a state from name, shape and `kwargs`, e.g. `mx.sym.zeros`.
            kwargs: further arguments of `func`.

        Raises:
            AssertionError: the cell is inside a modifier cell.
        """
        self._check_not_modified()
        states = []
        for info in self.state_info(batch_size):
            self._init_counter += 1
            if LEVEL == 2:
                make = zeros if func is nd.zeros else func
                options = {**(info or {}), **kwargs}
                states.append(make(**{k: v for k, v in options.items() if not k.startswith("__")}))
                continue
            states.append(func(name=f"{self._prefix}begin_state_{self._init_counter}", **(info or {}), **kwargs))
        return states

    def unroll(self, length: int, inputs: Tensor | Sequence[Tensor], begin_state: Sequence[Tensor] | None = None,
               layout: str = "NTC", merge_outputs: bool | None = None,
               valid_length: Tensor | None = None) -> tuple[Any, Sequence[Any]]:
        """Runs the cell over a sequence.

        Args:
            length: number of steps.
            inputs: one array with the axes in `layout`, or a list of arrays (batch, ...), one per
                step.
            begin_state: initial states; by default `begin_state()`.
            layout: "NTC" or "TNC": batch, time, channels.
            merge_outputs: return the outputs as one array (True), as a list (False), or in either
                form (None).
            valid_length: (batch,) length of each example. Outputs beyond it are zero, and the
                returned states are those of the last valid step.

        Returns:
            (outputs, states after the last step).
        """
        self.reset()
        inputs, axis, F, batch_size = format_sequence(length, inputs, layout, False)  # noqa: N806
        states = _begin_state(self, F, begin_state, inputs, batch_size)
        outputs, history = [], []
        for step in range(length):
            output, states = self(inputs[step], states)
            outputs.append(output)
            history.append(states)
        if valid_length is not None:
            states = [F.SequenceLast(F.stack(*steps, axis=0), sequence_length=valid_length, use_sequence_length=True,
                                     axis=0) for steps in zip(*history, strict=True)]
            outputs = mask(F, outputs, length, valid_length, axis, True)
        return format_sequence(length, outputs, layout, merge_outputs).data, states

    def _get_activation(self, F: ModuleType, inputs: Tensor, activation: Activation, **kwargs: Any) -> Any:  # noqa: N803
        """An activation function, given by name, as a block or as a function, of `inputs`."""
        if isinstance(activation, str):
            if activation in ("tanh", "relu", "sigmoid", "softsign"):
                return getattr(F, activation)(inputs, **kwargs)
            return F.Activation(inputs, act_type=activation, **kwargs)
        if isinstance(activation, LeakyReLU):
            return F.LeakyReLU(inputs, act_type="leaky", slope=activation._alpha, **kwargs)
        return activation(inputs, **kwargs)

    def forward(self, inputs: Tensor, states: Sequence[Tensor]) -> tuple[Any, Sequence[Any]]:
        """Runs one step; returns (output, new states)."""
        self._counter += 1
        return super().forward(inputs, states)


class HybridRecurrentCell(RecurrentCell, HybridBlock):
    """Base of recurrent cells that can be hybridized.

    Args:
        prefix, params: see `Block`.
    """

    def __init__(self, prefix: str | None = None, params: ParameterDict | None = None) -> None:
        super().__init__(prefix=prefix, params=params)

    def infer_shape(self, *args: Any) -> None:
        """Infers the parameters' shapes from (inputs, states), or from the arguments of MXNet 2.

        Args:
            args: inputs of the cell; or the layer's index, its input and whether it is
                bidirectional.
        """
        if isinstance(args[0], int):
            self._infer_from(*args)
        else:
            super().infer_shape(*args)

    def _infer_from(self, layer: int, inputs: NDArray, bidirectional: bool) -> None:
        for cell in self._child_blocks():
            if isinstance(cell, HybridRecurrentCell):
                cell.infer_shape(layer, inputs, bidirectional)

    def hybrid_forward(self, F: ModuleType, x: Tensor, *args: Any, **kwargs: Any) -> Any:  # noqa: N803
        """Runs one step; returns (output, new states)."""
        raise NotImplementedError(f"{type(self).__name__} must define hybrid_forward")


# -------------------------------------------------------------------- cells with weights
class _GatedCell(HybridRecurrentCell):
    """The common part of cells with weights: projections of input ("i2h") and state ("h2h"), for all gates together."""

    _gates = 1
    _num_states = 1
    i2h_weight: Parameter

    def _make(self, hidden_size: int, input_size: int, i2h_weight_initializer: InitializerLike,
              h2h_weight_initializer: InitializerLike, i2h_bias_initializer: InitializerLike,
              h2h_bias_initializer: InitializerLike) -> None:
        self._hidden_size, self._input_size = hidden_size, input_size
        rows = self._gates * hidden_size
        for name, shape, init in (("i2h_weight", (rows, input_size), i2h_weight_initializer),
                                  ("h2h_weight", (rows, hidden_size), h2h_weight_initializer),
                                  ("i2h_bias", (rows,), i2h_bias_initializer),
                                  ("h2h_bias", (rows,), h2h_bias_initializer)):
            setattr(self, name, self._make_parameter(name, shape=shape, init=init, allow_deferred_init=True))

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Shape and layout of each state."""
        return [{"shape": (batch_size, self._hidden_size), "__layout__": "NC"} for _ in range(self._num_states)]

    def _infer_from(self, layer: int, inputs: NDArray, bidirectional: bool) -> None:
        length = inputs.shape[-1] if layer == 0 else self._hidden_size * (1 + bool(bidirectional))
        self.i2h_weight.shape = (self._gates * self._hidden_size, length)

    def __repr__(self) -> str:
        rows, columns = self.i2h_weight.shape or (0, 0)
        return f"{type(self).__name__}({columns or None} -> {rows})"

    def _project(self, F: ModuleType, inputs: Tensor, state: Tensor, i2h_weight: Tensor, h2h_weight: Tensor,  # noqa: N803
                 i2h_bias: Tensor, h2h_bias: Tensor) -> tuple[Any, Any, str]:
        """(i2h, h2h, beginning of the step's operator names)."""
        prefix, rows = f"t{self._counter}_", self._gates * self._hidden_size
        return (F.FullyConnected(inputs, i2h_weight, i2h_bias, num_hidden=rows, name=prefix + "i2h"),
                F.FullyConnected(state, h2h_weight, h2h_bias, num_hidden=rows, name=prefix + "h2h"), prefix)


class RNNCell(_GatedCell):
    """A plain recurrent cell: h' = activation(W_i x + b_i + W_h h + b_h).

    Args:
        hidden_size: length of the state.
        activation: name of the activation function, or a block or function.
        i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer: initializers.
        input_size: length of the input; 0: inferred at the first call.
        prefix, params: see `Block`.

    Example:
        >>> cell = mx.gluon.rnn.RNNCell(3)
        >>> cell.initialize()
        >>> output, states = cell(mx.nd.ones((2, 4)), cell.begin_state(batch_size=2))
        >>> output.shape, len(states)
        ((2, 3), 1)
    """

    def __init__(self, hidden_size: int, activation: Activation = "tanh",
                 i2h_weight_initializer: InitializerLike = None, h2h_weight_initializer: InitializerLike = None,
                 i2h_bias_initializer: InitializerLike = "zeros", h2h_bias_initializer: InitializerLike = "zeros",
                 input_size: int = 0, prefix: str | None = None, params: ParameterDict | None = None) -> None:
        super().__init__(prefix=prefix, params=params)
        self._activation = activation
        self._make(hidden_size, input_size, i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer,
                   h2h_bias_initializer)

    def _alias(self) -> str:
        return "rnn"

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, {self._activation})"

    def hybrid_forward(self, F: ModuleType, inputs: Tensor, states: Sequence[Tensor], i2h_weight: Tensor,  # noqa: N803
                       h2h_weight: Tensor, i2h_bias: Tensor, h2h_bias: Tensor) -> tuple[Any, Sequence[Any]]:
        """Runs one step; returns (output, new states)."""
        i2h, h2h, t = self._project(F, inputs, states[0], i2h_weight, h2h_weight, i2h_bias, h2h_bias)
        total = F.elemwise_add(i2h, h2h, name=t + "plus0")
        output = self._get_activation(F, total, self._activation, name=t + "out")
        return output, [output]


class LSTMCell(_GatedCell):
    """Long short-term memory. Hochreiter and Schmidhuber, Neural Computation 9, 1997.

    Gates in the order input, forget, candidate, output; states: output h and cell c.

    Args:
        hidden_size: length of the states.
        i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer: initializers.
        input_size: length of the input; 0: inferred at the first call.
        prefix, params: see `Block`.
        activation: function of candidate and cell, see `RNNCell`.
        recurrent_activation: function of the gates.

    Example:
        >>> cell = mx.gluon.rnn.LSTMCell(3)
        >>> cell.initialize()
        >>> outputs, states = cell.unroll(5, mx.nd.ones((2, 5, 4)), merge_outputs=True)
        >>> outputs.shape, [state.shape for state in states]
        ((2, 5, 3), [(2, 3), (2, 3)])
    """

    _gates = 4
    _num_states = 2

    def __init__(self, hidden_size: int, i2h_weight_initializer: InitializerLike = None,
                 h2h_weight_initializer: InitializerLike = None, i2h_bias_initializer: InitializerLike = "zeros",
                 h2h_bias_initializer: InitializerLike = "zeros", input_size: int = 0, prefix: str | None = None,
                 params: ParameterDict | None = None, activation: Activation = "tanh",
                 recurrent_activation: Activation = "sigmoid") -> None:
        super().__init__(prefix=prefix, params=params)
        self._activation, self._recurrent_activation = activation, recurrent_activation
        self._make(hidden_size, input_size, i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer,
                   h2h_bias_initializer)

    def _alias(self) -> str:
        return "lstm"

    def hybrid_forward(self, F: ModuleType, inputs: Tensor, states: Sequence[Tensor], i2h_weight: Tensor,  # noqa: N803
                       h2h_weight: Tensor, i2h_bias: Tensor, h2h_bias: Tensor) -> tuple[Any, Sequence[Any]]:
        """Runs one step; returns (output, new states)."""
        i2h, h2h, t = self._project(F, inputs, states[0], i2h_weight, h2h_weight, i2h_bias, h2h_bias)
        parts = F.SliceChannel(F.elemwise_add(i2h, h2h, name=t + "plus0"), num_outputs=4, name=t + "slice")
        gate_activation = self._recurrent_activation
        activations = [gate_activation, gate_activation, self._activation, gate_activation]
        write, forget, candidate, read = (self._get_activation(F, parts[i], activation, name=t + gate)
                                          for i, (activation, gate) in enumerate(zip(activations, "ifco", strict=True)))
        cell = F.elemwise_add(F.elemwise_mul(forget, states[1], name=t + "mul0"),
                              F.elemwise_mul(write, candidate, name=t + "mul1"), name=t + "state")
        seen = self._get_activation(F, cell, self._activation, name=t + "activation0")
        output = F.elemwise_mul(read, seen, name=t + "out")
        return output, [output, cell]


class GRUCell(_GatedCell):
    """Gated recurrent unit, in cuDNN's form (reset after the product). Cho et al., 2014, arXiv:1406.1078.

    Gates in the order reset, update, candidate.

    Args:
        hidden_size: length of the state.
        i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer: initializers.
        input_size: length of the input; 0: inferred at the first call.
        prefix, params: see `Block`.
        activation: function of the candidate, see `RNNCell`.
        recurrent_activation: function of the gates.

    Example:
        >>> cell = mx.gluon.rnn.GRUCell(3)
        >>> cell.initialize()
        >>> output, states = cell(mx.nd.ones((2, 4)), cell.begin_state(batch_size=2))
        >>> output.shape, len(states)
        ((2, 3), 1)
    """

    _gates = 3

    def __init__(self, hidden_size: int, i2h_weight_initializer: InitializerLike = None,
                 h2h_weight_initializer: InitializerLike = None, i2h_bias_initializer: InitializerLike = "zeros",
                 h2h_bias_initializer: InitializerLike = "zeros", input_size: int = 0, prefix: str | None = None,
                 params: ParameterDict | None = None, activation: Activation = "tanh",
                 recurrent_activation: Activation = "sigmoid") -> None:
        super().__init__(prefix=prefix, params=params)
        self._activation, self._recurrent_activation = activation, recurrent_activation
        self._make(hidden_size, input_size, i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer,
                   h2h_bias_initializer)

    def _alias(self) -> str:
        return "gru"

    def _activated(self, F: ModuleType, inputs: Tensor, activation: Activation, name: str) -> Any:  # noqa: N803
        if isinstance(activation, str):
            return F.Activation(inputs, act_type=activation, name=name)
        return self._get_activation(F, inputs, activation, name=name)

    def hybrid_forward(self, F: ModuleType, inputs: Tensor, states: Sequence[Tensor], i2h_weight: Tensor,  # noqa: N803
                       h2h_weight: Tensor, i2h_bias: Tensor, h2h_bias: Tensor) -> tuple[Any, Sequence[Any]]:
        """Runs one step; returns (output, new states)."""
        i2h, h2h, t = self._project(F, inputs, states[0], i2h_weight, h2h_weight, i2h_bias, h2h_bias)
        from_input = F.SliceChannel(i2h, num_outputs=3, name=t + "i2h_slice")
        from_state = F.SliceChannel(h2h, num_outputs=3, name=t + "h2h_slice")
        reset, update = (self._activated(F, F.elemwise_add(from_input[i], from_state[i], name=f"{t}plus{i}"),
                                         self._recurrent_activation, f"{t}{gate}_act") for i, gate in enumerate("rz"))
        kept = F.elemwise_mul(reset, from_state[2], name=t + "mul0")
        candidate = self._activated(F, F.elemwise_add(from_input[2], kept, name=t + "plus2"), self._activation,
                                    t + "h_act")
        rest = F.elemwise_sub(F.ones_like(update, name=t + "ones_like0"), update, name=t + "minus0")
        output = F.elemwise_add(F.elemwise_mul(rest, candidate, name=t + "mul1"),
                                F.elemwise_mul(update, states[0], name=t + "mul20"), name=t + "out")
        return output, [output]


# -------------------------------------------------------------------- combinations
class _Combined(RecurrentCell):
    """The common part of cells that contain others: their states are all those cells' states, in order."""

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Shape and layout of each state."""
        return [info for cell in self._cells() for info in cell.state_info(batch_size)]

    @any_arguments
    def begin_state(self, **kwargs: Any) -> list[Any]:
        """Returns initial states; arguments as in `RecurrentCell.begin_state`."""
        self._check_not_modified()
        return [state for cell in self._cells() for state in cell.begin_state(**kwargs)]

    def _with_states(self, states: Sequence[Tensor]) -> Iterable[tuple[RecurrentCell, Sequence[Any]]]:
        """Each cell with the part of the states that belongs to it."""
        begin = 0
        for cell in self._cells():
            count = len(cell.state_info())
            yield cell, states[begin:begin + count]
            begin += count


class _Stack(_Combined):
    """Stacks cells."""

    def infer_shape(self, *args: Any) -> None:
        """Infers the parameters' shapes; in MXNet 2 from (any number, inputs, whether it is bidirectional)."""
        if isinstance(args[0], int):
            for layer, cell in enumerate(self._cells()):
                cast(HybridRecurrentCell, cell).infer_shape(layer, args[1], False)
        else:  # only those that are hybrid have another
            super().infer_shape(*args)  # pyright: ignore[reportAttributeAccessIssue]

    def __init__(self, prefix: str | None = None, params: ParameterDict | None = None) -> None:
        super().__init__(prefix=prefix, params=params)

    def __repr__(self) -> str:
        rows = "\n".join(f"({i}): {_indent(repr(cell), 2)}" for i, cell in self._child_items())
        return f"{type(self).__name__}(\n{rows}\n)"

    def add(self, cell: RecurrentCell) -> None:
        """Appends a cell."""
        self.register_child(cell)

    def __getitem__(self, i: int) -> RecurrentCell:
        return cast(RecurrentCell, dict(self._child_items())[str(i)])

    def __len__(self) -> int:
        return len(self._children)

    def __call__(self, inputs: Tensor, states: Sequence[Tensor]) -> tuple[Any, Sequence[Any]]:
        """Runs one step; returns (output, new states)."""
        self._counter += 1
        if any(isinstance(cell, BidirectionalCell) for cell in self._child_blocks()):
            raise AssertionError("a BidirectionalCell cannot run single steps; use unroll")
        after: list[Any] = []
        for cell, own in self._with_states(states):
            inputs, own = cell(inputs, own)
            after += own
        return inputs, after

    def unroll(self, length: int, inputs: Tensor | Sequence[Tensor], begin_state: Sequence[Tensor] | None = None,
               layout: str = "NTC", merge_outputs: bool | None = None,
               valid_length: Tensor | None = None) -> tuple[Any, Sequence[Any]]:
        """Runs the cells over a sequence, one cell after another; see `RecurrentCell.unroll`."""
        self.reset()
        inputs, _, F, batch_size = format_sequence(length, inputs, layout, None)  # noqa: N806
        states = _begin_state(self, F, begin_state, inputs, batch_size)
        after: list[Any] = []
        for i, (cell, own) in enumerate(self._with_states(states), 1):
            inputs, own = cell.unroll(length, inputs=inputs, begin_state=own, layout=layout,
                                      merge_outputs=merge_outputs if i == len(self) else None,
                                      valid_length=valid_length)
            after += own
        return inputs, after


class SequentialRNNCell(_Stack, RecurrentCell):
    """Stacks cells.

    Args:
        prefix, params: see `Block`.

    Example:
        >>> stack = mx.gluon.rnn.SequentialRNNCell()
        >>> stack.add(mx.gluon.rnn.LSTMCell(3))
        >>> stack.add(mx.gluon.rnn.GRUCell(2))
        >>> stack.initialize()
        >>> output, states = stack(mx.nd.ones((1, 4)), stack.begin_state(batch_size=1))
        >>> output.shape, len(states)
        ((1, 2), 3)
    """

    def hybrid_forward(self, *args: Any, **kwargs: Any) -> Any:
        """Not supported; `HybridSequentialRNNCell` can be hybridized."""
        raise NotImplementedError("SequentialRNNCell cannot be hybridized; HybridSequentialRNNCell can")


class HybridSequentialRNNCell(_Stack, HybridRecurrentCell):
    """Stacks hybrid cells.

    Args:
        prefix, params: see `Block`.

    Example:
        >>> stack = mx.gluon.rnn.HybridSequentialRNNCell()
        >>> stack.add(mx.gluon.rnn.RNNCell(3))
        >>> stack.add(mx.gluon.rnn.DropoutCell(0.5))
        >>> stack.initialize()
        >>> output, states = stack(mx.nd.ones((2, 4)), stack.begin_state(batch_size=2))
        >>> output.shape, len(states)
        ((2, 3), 1)
    """

    def hybrid_forward(self, F: ModuleType, inputs: Tensor, states: Sequence[Tensor]) -> tuple[Any, Sequence[Any]]:  # noqa: N803
        """Runs one step; returns (output, new states)."""
        return self(inputs, states)


class BidirectionalCell(_Combined, HybridRecurrentCell):
    """Runs one cell forwards and one backwards and concatenates their outputs. Supports only `unroll`.

    Args:
        l_cell, r_cell: the forward and the backward cell.
        output_prefix: prefix of the outputs' names.

    Example:
        >>> cell = mx.gluon.rnn.BidirectionalCell(mx.gluon.rnn.RNNCell(3), mx.gluon.rnn.RNNCell(3))
        >>> cell.initialize()
        >>> outputs, states = cell.unroll(5, mx.nd.ones((2, 5, 4)), merge_outputs=True)
        >>> outputs.shape, len(states)
        ((2, 5, 6), 2)
    """

    def __init__(self, l_cell: RecurrentCell, r_cell: RecurrentCell, output_prefix: str = "bi_") -> None:
        super().__init__(**named(""))
        self.register_child(l_cell, "l_cell")
        self.register_child(r_cell, "r_cell")
        self._output_prefix = output_prefix

    def _infer_from(self, layer: int, inputs: NDArray, bidirectional: bool) -> None:
        super()._infer_from(layer, inputs, True)

    def __call__(self, inputs: Tensor, states: Sequence[Tensor]) -> Any:
        """Raises NotImplementedError, because a bidirectional cell cannot run single steps."""
        raise NotImplementedError("Bidirectional cannot be stepped. Please use unroll")

    def __repr__(self) -> str:
        return "{}(forward={l_cell}, backward={r_cell})".format(type(self).__name__, **dict(self._child_items()))

    def unroll(self, length: int, inputs: Tensor | Sequence[Tensor], begin_state: Sequence[Tensor] | None = None,
               layout: str = "NTC", merge_outputs: bool | None = None,
               valid_length: Tensor | None = None) -> tuple[Any, Sequence[Any]]:
        """Runs the cells over a sequence, see `RecurrentCell.unroll`."""
        self.reset()
        steps, axis, F, batch_size = format_sequence(length, inputs, layout, False)  # noqa: N806
        states = _begin_state(self, F, begin_state, steps, batch_size)
        (l_cell, l_states), (r_cell, r_states) = self._with_states(states)
        l_out, l_states = l_cell.unroll(length, inputs=steps, begin_state=l_states, layout=layout,
                                        merge_outputs=merge_outputs, valid_length=valid_length)
        r_out, r_states = r_cell.unroll(length, inputs=reverse(steps, length, valid_length), begin_state=r_states,
                                        layout=layout, merge_outputs=False, valid_length=valid_length)
        r_out = reverse(r_out, length, valid_length)
        if merge_outputs is None:
            merge_outputs = isinstance(l_out, tensor_types)
        if merge_outputs:
            outputs = F.concat(l_out, F.stack(*r_out, axis=axis), dim=2, name=f"{self._output_prefix}out")
        else:
            outputs = [F.concat(left, right, dim=1, name=f"{self._output_prefix}t{i}")
                       for i, (left, right) in enumerate(zip(l_out, r_out, strict=True))]
        if valid_length is not None:
            outputs = mask(F, outputs, length, valid_length, axis, merge_outputs)
        return outputs, [*l_states, *r_states]


class DropoutCell(HybridRecurrentCell):
    """Dropout on the input, as a cell without states.

    Args:
        rate, axes: see `mx.gluon.nn.Dropout`.
        prefix, params: see `Block`.

    Example:
        >>> cell = mx.gluon.rnn.DropoutCell(0.2)
        >>> with mx.autograd.train_mode():
        ...     output, states = cell(mx.nd.ones((2, 4)), cell.begin_state(batch_size=2))
        >>> output.asnumpy()
        array([[1.25, 1.25, 1.25, 0.  ],
               [1.25, 0.  , 1.25, 0.  ]], dtype=float32)
    """

    def __init__(self, rate: float, axes: tuple[int, ...] = (), prefix: str | None = None,
                 params: ParameterDict | None = None) -> None:
        super().__init__(prefix, params)
        if not isinstance(rate, numeric_types):
            raise AssertionError(f"rate must be a number, got {rate!r}")
        self._rate, self._axes = rate, axes

    def __repr__(self) -> str:
        return f"{type(self).__name__}(rate={self._rate}, axes={self._axes})"

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """The empty list, because there are no states."""
        return []

    def _alias(self) -> str:
        return "dropout"

    def hybrid_forward(self, F: ModuleType, inputs: Tensor, states: Sequence[Tensor]) -> tuple[Any, Any]:  # noqa: N803
        """Returns (inputs with dropped values, unchanged states)."""
        if self._rate > 0:
            inputs = F.Dropout(data=inputs, p=self._rate, axes=self._axes, name=f"t{self._counter}_fwd")
        return inputs, states

    def unroll(self, length: int, inputs: Tensor | Sequence[Tensor], begin_state: Sequence[Tensor] | None = None,
               layout: str = "NTC", merge_outputs: bool | None = None,
               valid_length: Tensor | None = None) -> tuple[Any, Sequence[Any]]:
        """Processes a sequence that is one array in a single call; see `RecurrentCell.unroll`."""
        self.reset()
        inputs, _, F, _ = format_sequence(length, inputs, layout, merge_outputs)  # noqa: N806
        if isinstance(inputs, tensor_types):
            return self.hybrid_forward(F, inputs, begin_state or [])
        return super().unroll(length, inputs, begin_state, layout, merge_outputs)


# -------------------------------------------------------------------- modifiers
class ModifierCell(HybridRecurrentCell):
    """Base of cells that modify another cell, which must no longer be called itself.

    Args:
        base_cell: the cell.

    Raises:
        AssertionError: the cell is already modified.
    """

    def __init__(self, base_cell: RecurrentCell) -> None:
        if base_cell._modified:
            raise AssertionError(f"Cell {base_cell._name} is already modified. One cell cannot be modified twice")
        base_cell._modified = True
        super().__init__(**named(f"{base_cell._prefix}{self._alias()}"))
        self.base_cell = base_cell

    @property
    def params(self) -> ParameterDict:
        """The base cell's parameters."""
        return self.base_cell.params

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Shape and layout of each of the base cell's states."""
        return self.base_cell.state_info(batch_size)

    @any_arguments
    def begin_state(self, func: Callable = symbol.zeros, **kwargs: Any) -> list[Any]:
        """Returns the base cell's initial states; arguments as in `RecurrentCell.begin_state`."""
        self._check_not_modified()
        with _Released(self.base_cell):
            return self.base_cell.begin_state(func=func, **kwargs)

    def hybrid_forward(self, F: ModuleType, inputs: Tensor, states: Sequence[Tensor]) -> tuple[Any, Sequence[Any]]:  # noqa: N803
        """Runs one step; returns (output, new states)."""
        raise NotImplementedError(f"{type(self).__name__} must define hybrid_forward")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_cell})"


class _Released:
    """A scope in which a modified cell may be called."""

    def __init__(self, cell: RecurrentCell) -> None:
        self._cell = cell

    def __enter__(self) -> None:
        self._cell._modified = False

    def __exit__(self, *exc: object) -> None:
        self._cell._modified = True


class ZoneoutCell(ModifierCell):
    """Randomly keeps values of the previous step. Krueger et al., 2017, arXiv:1606.01305.

    Args:
        base_cell: the cell; not a bidirectional one.
        zoneout_outputs, zoneout_states: probabilities of keeping the previous value of an output,
            of a state.

    Raises:
        AssertionError: the cell is bidirectional.

    Example:
        >>> cell = mx.gluon.rnn.ZoneoutCell(mx.gluon.rnn.RNNCell(3), zoneout_states=0.5)
        >>> cell.initialize()
        >>> outputs, states = cell.unroll(5, mx.nd.ones((2, 5, 4)), merge_outputs=True)
        >>> outputs.shape, len(states)
        ((2, 5, 3), 1)
    """

    def __init__(self, base_cell: RecurrentCell, zoneout_outputs: float = 0.0, zoneout_states: float = 0.0) -> None:
        if isinstance(base_cell, BidirectionalCell):
            raise AssertionError("BidirectionalCell doesn't support zoneout since it doesn't support step. Please add "
                                 "ZoneoutCell to the cells underneath instead.")
        super().__init__(base_cell)
        self.zoneout_outputs, self.zoneout_states = zoneout_outputs, zoneout_states
        self._prev_output = None

    def __repr__(self) -> str:
        return (f"{type(self).__name__}(p_out={self.zoneout_outputs}, p_state={self.zoneout_states}, "
                f"{self.base_cell})")

    def _alias(self) -> str:
        return "zoneout"

    def reset(self) -> None:
        """Starts a new sequence."""
        super().reset()
        self._prev_output = None

    def hybrid_forward(self, F: ModuleType, inputs: Tensor, states: Sequence[Tensor]) -> tuple[Any, Sequence[Any]]:  # noqa: N803
        """Runs one step; returns (output, new states)."""
        def zoned(rate: float, new: Tensor, old: Tensor) -> Any:
            return F.where(F.Dropout(F.ones_like(new), p=rate), new, old) if rate else new
        output, after = self.base_cell(inputs, states)
        before = F.zeros_like(output) if self._prev_output is None else self._prev_output
        self._prev_output = output = zoned(self.zoneout_outputs, output, before)
        return output, [zoned(self.zoneout_states, new, old) for new, old in zip(after, states, strict=True)]


class ResidualCell(ModifierCell):
    """Adds the input to the output. He et al., 2015, arXiv:1512.03385.

    Args:
        base_cell: the cell; its output must have the input's shape.

    Example:
        >>> cell = mx.gluon.rnn.ResidualCell(mx.gluon.rnn.RNNCell(4, i2h_weight_initializer="zeros"))
        >>> cell.initialize()
        >>> outputs, states = cell.unroll(2, mx.nd.ones((1, 2, 4)), merge_outputs=True)
        >>> outputs.asnumpy(), states[0].asnumpy()
        (array([[[1., 1., 1., 1.],
                [1., 1., 1., 1.]]], dtype=float32), array([[0., 0., 0., 0.]], dtype=float32))
    """

    def __init__(self, base_cell: RecurrentCell) -> None:
        super().__init__(base_cell)

    def hybrid_forward(self, F: ModuleType, inputs: Tensor, states: Sequence[Tensor]) -> tuple[Any, Sequence[Any]]:  # noqa: N803
        """Runs one step; returns (output, new states)."""
        output, states = self.base_cell(inputs, states)
        return F.elemwise_add(output, inputs, name=f"t{self._counter}_fwd"), states

    def unroll(self, length: int, inputs: Tensor | Sequence[Tensor], begin_state: Sequence[Tensor] | None = None,
               layout: str = "NTC", merge_outputs: bool | None = None,
               valid_length: Tensor | None = None) -> tuple[Any, Sequence[Any]]:
        """Runs the base cell over a sequence and adds the inputs; see `RecurrentCell.unroll`."""
        self.reset()
        with _Released(self.base_cell):
            outputs, states = self.base_cell.unroll(length, inputs=inputs, begin_state=begin_state, layout=layout,
                                                    merge_outputs=merge_outputs, valid_length=valid_length)
        merge = isinstance(outputs, tensor_types) if merge_outputs is None else merge_outputs
        inputs, axis, F, _ = format_sequence(length, inputs, layout, merge)  # noqa: N806
        if valid_length is not None:
            inputs = mask(F, inputs, length, valid_length, axis, merge)
        if merge:
            return F.elemwise_add(outputs, inputs), states
        return [F.elemwise_add(a, b) for a, b in zip(outputs, inputs, strict=True)], states
