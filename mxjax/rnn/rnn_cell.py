"""Symbolic recurrent cells, the predecessors of `mx.gluon.rnn`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from .. import initializer, symbol
from .._rnn_packing import GATES, Packing
from ..base import Unfit, numeric_types
from ..symbol import Symbol
from .base_cell import (
    BaseRNNCell,
    RNNParams,
    _GatedCell,
    _GRUArithmetic,
    _LSTMArithmetic,
    _normalize_sequence,
    _RNNArithmetic,
)
from .conv_cell import BaseConvRNNCell, ConvGRUCell, ConvLSTMCell, ConvRNNCell

__all__ = ["RNNParams", "BaseRNNCell", "RNNCell", "LSTMCell", "GRUCell", "FusedRNNCell", "SequentialRNNCell",
           "BidirectionalCell", "DropoutCell", "ModifierCell", "ZoneoutCell", "ResidualCell", "BaseConvRNNCell",
           "ConvRNNCell", "ConvLSTMCell", "ConvGRUCell"]

_Mode = Literal["rnn_relu", "rnn_tanh", "lstm", "gru"]


class _DenseCell(_GatedCell):
    """A cell whose projections are matrix products."""

    _projection_prefix = ""

    def __init__(self, num_hidden: int, prefix: str, params: RNNParams | None, **bias: Any) -> None:
        super().__init__(prefix=prefix, params=params)
        self._num_hidden = num_hidden
        self._state_shape = (0, num_hidden)
        self._iW = self.params.get("i2h_weight")
        self._iB = self.params.get("i2h_bias", **bias)
        self._hW = self.params.get("h2h_weight")
        self._hB = self.params.get("h2h_bias")

    def _project(self, inputs: Symbol, states: list[Symbol], name: str) -> tuple[Symbol, Symbol]:
        size, name = self._num_hidden * self._num_gates, name + self._projection_prefix
        return (symbol.FullyConnected(data=inputs, weight=self._iW, bias=self._iB, num_hidden=size, name=f"{name}i2h"),
                symbol.FullyConnected(data=states[0], weight=self._hW, bias=self._hB, num_hidden=size,
                                      name=f"{name}h2h"))


class RNNCell(_RNNArithmetic, _DenseCell):
    """A plain recurrent cell.

    Args:
        num_hidden: size of output and state.
        activation: name of an activation, or a function of symbols.
        prefix: prefix of the names of parameters and nodes.
        params: parameters shared with other cells.
    """

    def __init__(self, num_hidden: int, activation: str | Callable[..., Symbol] = "tanh", prefix: str = "rnn_",
                 params: RNNParams | None = None) -> None:
        super().__init__(num_hidden, prefix, params)
        self._activation = activation


class LSTMCell(_LSTMArithmetic, _DenseCell):
    """A long short-term memory cell.

    Args:
        num_hidden: size of output and states.
        prefix: prefix of the names of parameters and nodes.
        params: parameters shared with other cells.
        forget_bias: initial value of the forget gate's bias.

    Source:
        Hochreiter & Schmidhuber, 1997.
    """

    def __init__(self, num_hidden: int, prefix: str = "lstm_", params: RNNParams | None = None,
                 forget_bias: float = 1.0) -> None:
        super().__init__(num_hidden, prefix, params, init=initializer.LSTMBias(forget_bias=forget_bias))


class GRUCell(_GRUArithmetic, _DenseCell):
    """A gated recurrent unit, in cuDNN's variant.

    Args:
        num_hidden: size of output and state.
        prefix: prefix of the names of parameters and nodes.
        params: parameters shared with other cells.

    Source:
        Cho et al., 2014.
    """

    _projection_prefix = "_"

    def __init__(self, num_hidden: int, prefix: str = "gru_", params: RNNParams | None = None) -> None:
        super().__init__(num_hidden, prefix, params)


class FusedRNNCell(BaseRNNCell):
    """Several layers as one `RNN` operator with one packed parameter vector.

    Args:
        num_hidden: size of outputs and states, per direction.
        num_layers: number of layers.
        mode: "rnn_relu", "rnn_tanh", "lstm" or "gru".
        bidirectional: also run backward in time and concatenate the outputs.
        dropout: probability of dropping an output between layers.
        get_next_state: whether `unroll` returns the last states.
        forget_bias: initial value of the forget gates' biases.
        prefix: prefix of the names of parameters and nodes; the mode by default.
        params: parameters shared with other cells.
    """

    def __init__(self, num_hidden: int, num_layers: int = 1, mode: _Mode = "lstm", bidirectional: bool = False,
                 dropout: float = 0.0, get_next_state: bool = False, forget_bias: float = 1.0,
                 prefix: str | None = None, params: RNNParams | None = None) -> None:
        super().__init__(prefix=f"{mode}_" if prefix is None else prefix, params=params)
        self._packing = Packing(num_hidden, num_layers, mode, bidirectional, self._prefix)
        self._num_hidden = num_hidden
        self._num_layers = num_layers
        self._mode: _Mode = mode
        self._bidirectional = bidirectional
        self._dropout = dropout
        self._get_next_state = get_next_state
        self._directions = self._packing.directions
        self._parameter_name = f"{self.params._prefix}parameters"
        self._parameter = self.params.get("parameters", init=initializer.FusedRNN(
            None, num_hidden, num_layers, mode, bidirectional, forget_bias))

    @property
    def state_info(self) -> list[dict[str, Any]]:
        shape = (len(self._directions) * self._num_layers, 0, self._num_hidden)
        return [{"shape": shape, "__layout__": "LNC"} for _ in range(2 if self._mode == "lstm" else 1)]

    @property
    def _gate_names(self) -> tuple[str, ...]:
        return GATES[self._mode]

    def unpack_weights(self, args: dict[str, Any]) -> dict[str, Any]:
        args = dict(args)
        packed = args.pop(self._parameter_name)
        return {**args, **self._packing.unpack(packed, self._parameter_name)}

    def pack_weights(self, args: dict[str, Any]) -> dict[str, Any]:
        args = dict(args)
        packed = self._packing.pack(args)
        return {**args, self._parameter_name: packed}

    def unroll(self, length: int, inputs: Symbol | Sequence[Symbol], begin_state: list[Symbol] | None = None,
               layout: str = "NTC", merge_outputs: bool | None = None) -> tuple[Any, list[Symbol]]:
        self.reset()
        merged, axis = _normalize_sequence(length, inputs, layout, True)
        if axis not in (0, 1):
            raise Unfit(f"unsupported layout {layout!r}: time must be the first or second axis")
        if axis == 1:
            warnings.warn("FusedRNNCell is faster with layout TNC than with NTC", UserWarning, stacklevel=2)
            merged = symbol.swapaxes(merged, dim1=0, dim2=1)
        states = self.begin_state() if begin_state is None else begin_state
        states = dict(zip(("state", "state_cell") if self._mode == "lstm" else ("state",), states, strict=False))
        rnn = symbol.RNN(data=merged, parameters=self._parameter, state_size=self._num_hidden,
                         num_layers=self._num_layers, bidirectional=self._bidirectional, p=self._dropout,
                         state_outputs=self._get_next_state, mode=self._mode, name=f"{self._prefix}rnn", **states)
        outputs, last = (rnn[0], [rnn[i + 1] for i in range(len(states))]) if self._get_next_state else (rnn, [])
        for state in last:
            state._set_attr(__layout__="LNC")
        if axis == 1:
            outputs = symbol.swapaxes(outputs, dim1=0, dim2=1)
        return _normalize_sequence(length, outputs, layout, merge_outputs)[0], last

    def unfuse(self) -> SequentialRNNCell:
        """Returns the same network as a stack of single cells. To convert parameters, call
        `unpack_weights` and then the stack's `pack_weights`."""
        make = {"rnn_relu": lambda prefix: RNNCell(self._num_hidden, "relu", prefix),
                "rnn_tanh": lambda prefix: RNNCell(self._num_hidden, "tanh", prefix),
                "lstm": lambda prefix: LSTMCell(self._num_hidden, prefix),
                "gru": lambda prefix: GRUCell(self._num_hidden, prefix)}[self._mode]
        stack = SequentialRNNCell()
        for i in range(self._num_layers):
            cells = [make(f"{self._prefix}{direction}{i}_") for direction in self._directions]
            stack.add(BidirectionalCell(*cells, output_prefix=f"{self._prefix}bi_l{i}_") if self._bidirectional
                      else cells[0])
            if self._dropout > 0 and i < self._num_layers - 1:
                stack.add(DropoutCell(self._dropout, prefix=f"{self._prefix}_dropout{i}_"))
        return stack


class _CompositeCell(BaseRNNCell):
    """A cell made of others, in `_cells`; it has their states and parameters."""

    def __init__(self, prefix: str = "", params: RNNParams | None = None) -> None:
        super().__init__(prefix, params)
        self._override_cell_params = params is not None
        self._cells: list[BaseRNNCell] = []

    def _take(self, cell: BaseRNNCell) -> None:
        if self._override_cell_params:
            if not cell._own_params:
                raise Unfit(f"either {type(self).__name__} or its cells may have params, not both")
            cell.params.update(self.params)
        self.params.update(cell.params)
        self._cells.append(cell)

    @property
    def state_info(self) -> list[dict[str, Any]]:
        return [info for cell in self._cells for info in cell.state_info]

    def begin_state(  # pyright: ignore[reportIncompatibleMethodOverride]  MXNet's signature
            self, **kwargs: Any) -> list[Symbol]:
        self._check_unmodified()
        return [state for cell in self._cells for state in cell.begin_state(**kwargs)]

    def unpack_weights(self, args: dict[str, Any]) -> dict[str, Any]:
        for cell in self._cells:
            args = cell.unpack_weights(args)
        return args

    def pack_weights(self, args: dict[str, Any]) -> dict[str, Any]:
        for cell in self._cells:
            args = cell.pack_weights(args)
        return args

    def _with_states(self, states: list[Symbol]) -> Iterator[tuple[BaseRNNCell, list[Symbol]]]:
        """The cells, each with its states."""
        begin = 0
        for cell in self._cells:
            end = begin + len(cell.state_info)
            yield cell, states[begin:end]
            begin = end


class SequentialRNNCell(_CompositeCell):
    """Stacks cells.

    Args:
        params: parameters shared with other cells.
    """

    def __init__(self, params: RNNParams | None = None) -> None:
        super().__init__("", params)

    def add(self, cell: BaseRNNCell) -> None:
        """Appends a cell."""
        self._take(cell)

    def __call__(self, inputs: Symbol, states: list[Symbol]) -> tuple[Symbol, list[Symbol]]:
        self._counter += 1
        following = []
        for cell, own in self._with_states(states):
            inputs, own = cell(inputs, own)
            following += own
        return inputs, following

    def unroll(self, length: int, inputs: Symbol | Sequence[Symbol], begin_state: list[Symbol] | None = None,
               layout: str = "NTC", merge_outputs: bool | None = None) -> tuple[Any, list[Symbol]]:
        self.reset()
        last = []
        for cell, states in self._with_states(self.begin_state() if begin_state is None else begin_state):
            inputs, states = cell.unroll(length, inputs=inputs, begin_state=states, layout=layout,
                                         merge_outputs=merge_outputs if cell is self._cells[-1] else None)
            last += states
        return inputs, last


class BidirectionalCell(_CompositeCell):
    """Runs one cell forward and one backward and concatenates their outputs. Supports only `unroll`.

    Args:
        l_cell, r_cell: the forward and the backward cell.
        params: parameters shared with other cells.
        output_prefix: prefix of the outputs' names.
    """

    def __init__(self, l_cell: BaseRNNCell, r_cell: BaseRNNCell, params: RNNParams | None = None,
                 output_prefix: str = "bi_") -> None:
        super().__init__("", params)
        self._output_prefix = output_prefix
        self._take(l_cell)
        self._take(r_cell)

    def unroll(self, length: int, inputs: Symbol | Sequence[Symbol], begin_state: list[Symbol] | None = None,
               layout: str = "NTC", merge_outputs: bool | None = None) -> tuple[Any, list[Any]]:
        """Like `unroll` of `BaseRNNCell`; the last states are a pair of lists, of the forward and the backward cell."""
        self.reset()
        inputs, axis = _normalize_sequence(length, inputs, layout, False)
        states = self.begin_state() if begin_state is None else begin_state
        sides, last = [], []
        for (cell, own), sequence in zip(self._with_states(states), (inputs, list(reversed(inputs))), strict=True):
            outputs, own = cell.unroll(length, inputs=sequence, begin_state=own, layout=layout,
                                       merge_outputs=merge_outputs)
            sides.append(outputs)
            last.append(own)
        if merge_outputs is None:
            merge_outputs = all(isinstance(side, Symbol) for side in sides)
        if merge_outputs:
            return symbol.Concat(sides[0], symbol.reverse(sides[1], axis=axis), dim=2,
                                 name=f"{self._output_prefix}out"), last
        forward, backward = (_normalize_sequence(length, side, layout, False)[0] for side in sides)
        return [symbol.Concat(f, b, dim=1, name=f"{self._output_prefix}t{i}")
                for i, (f, b) in enumerate(zip(forward, reversed(backward), strict=True))], last


class DropoutCell(BaseRNNCell):
    """Applies dropout to its input; it has no states.

    Args:
        dropout: probability of dropping a value.
        prefix: ignored, because the cell has no parameters.
        params: ignored.
    """

    def __init__(self, dropout: float, prefix: str = "dropout_", params: RNNParams | None = None) -> None:
        super().__init__(prefix, params)
        if not isinstance(dropout, numeric_types):
            raise Unfit(f"dropout must be a number, got {dropout!r}")
        self.dropout = dropout

    @property
    def state_info(self) -> list[dict[str, Any]]:
        return []

    def __call__(self, inputs: Symbol, states: list[Symbol]) -> tuple[Symbol, list[Symbol]]:
        return (symbol.Dropout(data=inputs, p=self.dropout) if self.dropout > 0 else inputs), states

    def unroll(self, length: int, inputs: Symbol | Sequence[Symbol], begin_state: list[Symbol] | None = None,
               layout: str = "NTC", merge_outputs: bool | None = None) -> tuple[Any, list[Symbol]]:
        self.reset()
        inputs, _ = _normalize_sequence(length, inputs, layout, merge_outputs)
        if isinstance(inputs, Symbol):
            return self(inputs, [])
        return super().unroll(length, inputs, begin_state, layout, merge_outputs)


class ModifierCell(BaseRNNCell):
    """Base of cells that modify another cell and use its parameters and states.

    Args:
        base_cell: the other cell, which must no longer be used directly.
    """

    def __init__(self, base_cell: BaseRNNCell) -> None:
        super().__init__()
        base_cell._modified = True
        self.base_cell = base_cell

    @property
    def params(self) -> RNNParams:
        self._own_params = False
        return self.base_cell.params

    @property
    def state_info(self) -> list[dict[str, Any]]:
        return self.base_cell.state_info

    def reset(self) -> None:
        super().reset()
        if hasattr(self, "base_cell"):
            self.base_cell.reset()

    def begin_state(  # pyright: ignore[reportIncompatibleMethodOverride]  MXNet's name of the argument
            self, init_sym: Callable[..., Symbol] = symbol.zeros, **kwargs: Any) -> list[Symbol]:
        """Creates the initial states; `init_sym` (or `func`) is the `func` of `BaseRNNCell`."""
        self._check_unmodified()
        with _released(self.base_cell):
            return self.base_cell.begin_state(**{"func": init_sym, **kwargs})

    def unpack_weights(self, args: dict[str, Any]) -> dict[str, Any]:
        return self.base_cell.unpack_weights(args)

    def pack_weights(self, args: dict[str, Any]) -> dict[str, Any]:
        return self.base_cell.pack_weights(args)


@contextmanager
def _released(cell: BaseRNNCell) -> Iterator[None]:
    """A scope in which a modified cell may be called."""
    cell._modified = False
    try:
        yield
    finally:
        cell._modified = True


class ZoneoutCell(ModifierCell):
    """Randomly keeps values of the previous step in outputs and states.

    Args:
        base_cell: the cell; it must support single steps.
        zoneout_outputs, zoneout_states: probabilities of keeping a value.

    Source:
        Krueger et al., Zoneout, 2017.
    """

    def __init__(self, base_cell: BaseRNNCell, zoneout_outputs: float = 0.0, zoneout_states: float = 0.0) -> None:
        inner = base_cell._cells if isinstance(base_cell, SequentialRNNCell) else [base_cell]
        if any(isinstance(cell, FusedRNNCell | BidirectionalCell) for cell in inner):
            raise Unfit("ZoneoutCell needs a cell that can run single steps: unfuse a FusedRNNCell, or apply "
                        "ZoneoutCell to the cells in a BidirectionalCell")
        super().__init__(base_cell)
        self.zoneout_outputs = zoneout_outputs
        self.zoneout_states = zoneout_states

    def reset(self) -> None:
        super().reset()
        self.prev_output: Symbol | None = None

    def __call__(self, inputs: Symbol, states: list[Symbol]) -> tuple[Symbol, list[Symbol]]:
        def mixed(probability: float, new: Symbol, old: Symbol) -> Symbol:
            if probability == 0:
                return new
            return symbol.where(symbol.Dropout(symbol.ones_like(new), p=probability), new, old)

        output, following = self.base_cell(inputs, states)
        previous = symbol.zeros((0, 0)) if self.prev_output is None else self.prev_output
        output = self.prev_output = mixed(self.zoneout_outputs, output, previous)
        return output, [mixed(self.zoneout_states, new, old) for new, old in zip(following, states, strict=True)]


class ResidualCell(ModifierCell):
    """Adds the input to the output.

    Args:
        base_cell: the cell; its output must have the input's size.

    Source:
        Wu et al., Google's Neural Machine Translation System, 2016.
    """

    def __init__(self, base_cell: BaseRNNCell) -> None:
        super().__init__(base_cell)

    def _add(self, output: Symbol, inputs: Symbol) -> Symbol:
        return symbol.elemwise_add(output, inputs, name=f"{output.name}_plus_residual")

    def __call__(self, inputs: Symbol, states: list[Symbol]) -> tuple[Symbol, list[Symbol]]:
        output, states = self.base_cell(inputs, states)
        return self._add(output, inputs), states

    def unroll(self, length: int, inputs: Symbol | Sequence[Symbol], begin_state: list[Symbol] | None = None,
               layout: str = "NTC", merge_outputs: bool | None = None) -> tuple[Any, list[Symbol]]:
        self.reset()
        with _released(self.base_cell):
            outputs, states = self.base_cell.unroll(length, inputs=inputs, begin_state=begin_state, layout=layout,
                                                    merge_outputs=merge_outputs)
        merged = isinstance(outputs, Symbol)
        added, _ = _normalize_sequence(length, inputs, layout, merged)
        if merged:
            return self._add(outputs, added), states
        return [self._add(output, one) for output, one in zip(outputs, added, strict=True)], states
