"""The base of the cells of `mx.rnn`: parameters, states, unrolling, and the arithmetic of RNN, LSTM and GRU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import symbol
from .._rnn_packing import GATES, joined, pieces
from ..base import Precondition, Unfit
from ..symbol import Symbol

__all__ = ["RNNParams", "BaseRNNCell"]


def _normalize_sequence(length: int | None, inputs: Symbol | Sequence[Symbol], layout: str, merge: bool | None,
                        in_layout: str | None = None) -> tuple[Any, int]:
    """A sequence in the wanted form.

    Args:
        length: number of steps.
        inputs: one symbol for all steps, or a list of symbols.
        layout: a letter for each axis of the result; "T" is time.
        merge: True for one symbol, False for a list, None for whatever it is.
        in_layout: layout of `inputs`, where it differs.

    Returns:
        The sequence and the time axis.
    """
    if inputs is None:
        raise Unfit("unroll needs inputs: a symbol or a list of symbols")
    axis = layout.find("T")
    in_axis = axis if in_layout is None else in_layout.find("T")
    if isinstance(inputs, Symbol):
        if merge is False:
            if length is None:
                raise ValueError("unroll needs length, the number of steps, to split one symbol")
            if len(inputs.list_outputs()) != 1:
                raise Unfit("unroll does not accept a group of symbols; pass list(group), or one symbol to split")
            inputs = list(symbol.split(inputs, axis=in_axis, num_outputs=length,
                                       squeeze_axis=1))  # pyright: ignore[reportArgumentType]  the text in MXNet's files
    else:
        if length is not None and len(inputs) != length:
            raise Unfit(f"unroll over {length} steps got {len(inputs)} inputs")
        if merge is True:
            inputs = symbol.Concat(*(symbol.expand_dims(one, axis=axis) for one in inputs), dim=axis)
            in_axis = axis
    if isinstance(inputs, Symbol) and axis != in_axis:
        inputs = symbol.swapaxes(inputs, dim1=axis, dim2=in_axis)
    return inputs, axis


class RNNParams:
    """Variables by name, for cells that share weights.

    Args:
        prefix: prefix of all names.
    """

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._params: dict[str, Symbol] = {}

    def get(self, name: str, **kwargs: Any) -> Symbol:
        """Returns the variable of a name; the first call creates it with the given arguments."""
        name = self._prefix + name
        if name not in self._params:
            self._params[name] = symbol.Variable(name, **kwargs)
        return self._params[name]

    def update(self, other: RNNParams) -> None:
        """Adds the variables of another container, under their names."""
        self._params.update(other._params)


class BaseRNNCell:
    """Base of all cells: `cell(inputs, states)` returns (output, new states) of one time step.

    Args:
        prefix: prefix of the names of parameters and nodes.
        params: parameters shared with other cells.
    """

    _num_hidden: int  # of cells with gates

    def __init__(self, prefix: str = "", params: RNNParams | None = None) -> None:
        self._own_params = params is None
        self._params = RNNParams(prefix) if params is None else params
        self._prefix = prefix
        self._modified = False
        self.reset()

    def reset(self) -> None:
        """Resets the counters of time steps and states, before the cell is used for another graph."""
        self._init_counter = -1
        self._counter = -1
        for cell in getattr(self, "_cells", ()):
            cell.reset()

    def __call__(self, inputs: Symbol, states: list[Symbol]) -> tuple[Symbol, list[Symbol]]:
        """Runs one time step. Args:
            inputs: (batch, ...).
            states: states returned by `begin_state` or the previous step.
        """
        raise NotImplementedError(f"{type(self).__name__} cannot run single steps; use unroll")

    @property
    def params(self) -> RNNParams:
        """The cell's parameters, to share with other cells."""
        self._own_params = False
        return self._params

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """Shape and layout of each state."""
        raise NotImplementedError

    @property
    def state_shape(self) -> list[tuple[int, ...]]:
        """Shape of each state, with 0 for the batch."""
        return [info["shape"] for info in self.state_info]

    @property
    def _gate_names(self) -> tuple[str, ...]:
        """Returns the suffixes of each gate's part of the weights."""
        return ()

    def _check_unmodified(self) -> None:
        if self._modified:
            raise Precondition("this cell belongs to a modifier cell (such as ZoneoutCell); use that one")

    def begin_state(self, func: Callable[..., Symbol] = symbol.zeros, **kwargs: Any) -> list[Symbol]:
        """Creates the initial states. Args:
            func: function that creates a symbol from name, shape and layout: `symbol.zeros`,
                `symbol.Variable`, ...
            **kwargs: further arguments of `func`.
        """
        self._check_unmodified()
        states = []
        for info in self.state_info:
            self._init_counter += 1
            states.append(func(name=f"{self._prefix}begin_state_{self._init_counter}", **{**kwargs, **(info or {})}))
        return states

    def unpack_weights(self, args: dict[str, Any]) -> dict[str, Any]:
        """Returns arrays by name, with this cell's packed weights split by gate."""
        args = dict(args)
        for group in ("i2h", "h2h") if self._gate_names else ():
            for kind in ("weight", "bias"):
                packed, names = args.pop(f"{self._prefix}{group}_{kind}"), self._names_of_parts(group, kind)
                shape = (self._num_hidden, *packed.shape[1:])
                args.update(zip(names, pieces(packed, [shape] * len(names)), strict=True))
        return args

    def pack_weights(self, args: dict[str, Any]) -> dict[str, Any]:
        """Inverse of `unpack_weights`."""
        args = dict(args)
        for group in ("i2h", "h2h") if self._gate_names else ():
            for kind in ("weight", "bias"):
                parts = [args.pop(name) for name in self._names_of_parts(group, kind)]
                args[f"{self._prefix}{group}_{kind}"] = joined(parts, (-1, *parts[0].shape[1:]))
        return args

    def _names_of_parts(self, group: str, kind: str) -> list[str]:
        return [f"{self._prefix}{group}{gate}_{kind}" for gate in self._gate_names]

    def unroll(self, length: int, inputs: Symbol | Sequence[Symbol], begin_state: list[Symbol] | None = None,
               layout: str = "NTC", merge_outputs: bool | None = None) -> tuple[Any, list[Symbol]]:
        """Applies the cell to a sequence.

        Args:
            length: number of steps.
            inputs: a symbol for all steps, or a list with one symbol per step.
            begin_state: initial states; zeros by default.
            layout: one letter per axis of a merged sequence; "T" is time.
            merge_outputs: True for one symbol, False for a list, None for either.

        Returns:
            Outputs, and the states after the last step.
        """
        self.reset()
        inputs, _ = _normalize_sequence(length, inputs, layout, False)
        states = self.begin_state() if begin_state is None else begin_state
        outputs = []
        for one in inputs:
            output, states = self(one, states)
            outputs.append(output)
        return _normalize_sequence(length, outputs, layout, merge_outputs)[0], states

    def _get_activation(self, inputs: Symbol, activation: str | Callable[..., Symbol], **kwargs: Any) -> Symbol:
        if isinstance(activation, str):
            return symbol.Activation(  # the operator refuses a name that it does not know
                inputs, act_type=activation, **kwargs)  # pyright: ignore[reportArgumentType]
        return activation(inputs, **kwargs)


class _GatedCell(BaseRNNCell):
    """A cell whose gates are computed from two projections, of the input and of the last output.

    A subclass defines the projections (`_project`) and, by one of the classes below, their combination (`_combine`).
    """

    _num_states = 1
    _state_shape: tuple[int, ...]
    _state_layout = "NC"
    _activation: Any = "tanh"

    @property
    def state_info(self) -> list[dict[str, Any]]:
        return [{"shape": self._state_shape, "__layout__": self._state_layout} for _ in range(self._num_states)]

    @property
    def _num_gates(self) -> int:
        return len(self._gate_names)

    @property
    def _gate_slices(self) -> dict[str, Any]:
        """Returns further arguments of the operator that splits the projections by gate."""
        return {}

    def _project(self, inputs: Symbol, states: list[Symbol], name: str) -> tuple[Symbol, Symbol]:
        """Returns the projections of the input and of the last output, all gates together."""
        raise NotImplementedError(f"{type(self).__name__} must define _project")

    def _combine(self, i2h: Symbol, h2h: Symbol, states: list[Symbol], name: str) -> tuple[Symbol, list[Symbol]]:
        """Returns the output and the new states."""
        raise NotImplementedError(f"{type(self).__name__} must define _combine")

    def __call__(self, inputs: Symbol, states: list[Symbol]) -> tuple[Symbol, list[Symbol]]:
        self._counter += 1
        name = f"{self._prefix}t{self._counter}_"
        return self._combine(*self._project(inputs, states, name), states, name)


class _RNNArithmetic(_GatedCell):
    """output = activation(i2h + h2h)."""

    @property
    def _gate_names(self) -> tuple[str, ...]:
        return GATES["rnn_tanh"]

    def _combine(self, i2h: Symbol, h2h: Symbol, states: list[Symbol], name: str) -> tuple[Symbol, list[Symbol]]:
        output = self._get_activation(i2h + h2h, self._activation, name=f"{name}out")
        return output, [output]


class _LSTMArithmetic(_GatedCell):
    """cell = forget * cell + in * activation(...); output = out * activation(cell)."""

    _num_states = 2

    @property
    def _gate_names(self) -> tuple[str, ...]:
        return GATES["lstm"]
    def _combine(self, i2h: Symbol, h2h: Symbol, states: list[Symbol], name: str) -> tuple[Symbol, list[Symbol]]:
        gates = symbol.SliceChannel(i2h + h2h, num_outputs=4, name=f"{name}slice", **self._gate_slices)
        in_gate = symbol.Activation(gates[0], act_type="sigmoid", name=f"{name}i")
        forget_gate = symbol.Activation(gates[1], act_type="sigmoid", name=f"{name}f")
        candidate = self._get_activation(gates[2], self._activation, name=f"{name}c")
        out_gate = symbol.Activation(gates[3], act_type="sigmoid", name=f"{name}o")
        cell = symbol._internal._plus(forget_gate * states[1], in_gate * candidate, name=f"{name}state")
        output = symbol._internal._mul(out_gate, self._get_activation(cell, self._activation), name=f"{name}out")
        return output, [output, cell]


class _GRUArithmetic(_GatedCell):
    """output = (1 - update) * activation(i2h + reset * h2h) + update * last output."""

    @property
    def _gate_names(self) -> tuple[str, ...]:
        return GATES["gru"]

    def _combine(self, i2h: Symbol, h2h: Symbol, states: list[Symbol], name: str) -> tuple[Symbol, list[Symbol]]:
        i2h_r, i2h_z, i2h = symbol.SliceChannel(i2h, num_outputs=3, name=f"{name}_i2h_slice")
        h2h_r, h2h_z, h2h = symbol.SliceChannel(h2h, num_outputs=3, name=f"{name}_h2h_slice")
        reset_gate = symbol.Activation(i2h_r + h2h_r, act_type="sigmoid", name=f"{name}_r_act")
        update_gate = symbol.Activation(i2h_z + h2h_z, act_type="sigmoid", name=f"{name}_z_act")
        candidate = self._get_activation(i2h + reset_gate * h2h, self._activation, name=f"{name}_h_act")
        output = symbol._internal._plus((1.0 - update_gate) * candidate, update_gate * states[0], name=f"{name}out")
        return output, [output]
