"""Checkpoints of networks with cells. Weights are saved gate by gate, so that fused and unfused
cells can share them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .. import symbol as sym
from .._checkpoints import load_checkpoint, save_checkpoint
from .._support.files import reading
from .base_cell import BaseRNNCell

if TYPE_CHECKING:
    from ..ndarray import NDArray
    from ..symbol import Symbol

__all__ = ["rnn_unroll", "save_rnn_checkpoint", "load_rnn_checkpoint", "do_rnn_checkpoint"]


def rnn_unroll(cell: BaseRNNCell, length: int, inputs: Symbol | Sequence[Symbol] | None = None,
               begin_state: list[Symbol] | None = None, input_prefix: str = "",
               layout: str = "NTC") -> tuple[Any, list[Symbol]]:
    """Deprecated form of `cell.unroll`; without inputs it creates variables named `<input_prefix>t<i>_data`."""
    warnings.warn("rnn_unroll is deprecated; call cell.unroll", DeprecationWarning, stacklevel=2)
    if inputs is None:
        inputs = [sym.Variable(f"{input_prefix}t{i}_data") for i in range(length)]
    return cell.unroll(length, inputs, begin_state=begin_state, layout=layout)


def _as_list(cells: BaseRNNCell | list[BaseRNNCell]) -> list[BaseRNNCell]:
    return [cells] if isinstance(cells, BaseRNNCell) else cells


def save_rnn_checkpoint(cells: BaseRNNCell | list[BaseRNNCell], prefix: str, epoch: int, symbol: Symbol,
                        arg_params: dict[str, NDArray], aux_params: dict[str, NDArray]) -> None:
    """Saves a checkpoint like `mx.model.save_checkpoint`, with the cells' weights unpacked.

    Args:
        cells: the network's cell or cells.
        prefix, epoch, symbol, arg_params, aux_params: as in `mx.model.save_checkpoint`.
    """
    for cell in _as_list(cells):
        arg_params = cell.unpack_weights(arg_params)
    save_checkpoint(prefix, epoch, symbol, arg_params, aux_params)


def load_rnn_checkpoint(cells: BaseRNNCell | list[BaseRNNCell], prefix: str,
                        epoch: int) -> tuple[Symbol, dict[str, NDArray], dict[str, NDArray]]:
    """Loads a checkpoint of `save_rnn_checkpoint`: returns (symbol, arg_params, aux_params) with
    the cells' weights packed."""
    symbol, arg_params, aux_params = load_checkpoint(prefix, epoch)
    with reading(f"{prefix}-{epoch:04d}.params", "the weights of these cells"):
        for cell in _as_list(cells):
            arg_params = cell.pack_weights(arg_params)
    return symbol, arg_params, aux_params


def do_rnn_checkpoint(cells: BaseRNNCell | list[BaseRNNCell], prefix: str, period: int = 1) -> Callable[..., None]:
    """Creates an epoch-end callback that calls `save_rnn_checkpoint` every `period` epochs."""
    period = max(1, int(period))

    def callback(iter_no: int, sym: Any = None, arg: Any = None, aux: Any = None) -> None:
        if (iter_no + 1) % period == 0:
            save_rnn_checkpoint(cells, prefix, iter_no + 1, sym, arg, aux)

    return callback
