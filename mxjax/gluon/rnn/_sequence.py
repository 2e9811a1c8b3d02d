"""Conversions of sequences between one array with a time axis and a list of arrays, one per step."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from ... import ndarray as nd
from ... import symbol
from ...base import _as_list
from ...ndarray import NDArray
from ...symbol import Symbol
from ..parameter import tensor_types

if TYPE_CHECKING:
    from .._types import Tensor
    from .rnn_cell import RecurrentCell

__all__ = ["Formatted", "begin_arrays", "begin_state", "format_arrays", "format_sequence", "mask", "mask_arrays",
           "reverse"]


class Formatted(NamedTuple):
    """A sequence in the requested form. axis: the time axis; F: `mx.nd` or `mx.sym`; batch_size: 0 for symbols."""

    data: Any
    axis: int
    F: Any
    batch_size: int


def format_sequence(length: int | None, inputs: Tensor | Sequence[Tensor], layout: str,
                    merge: bool | None, in_layout: str | None = None) -> Formatted:
    """Merges a sequence into one array (`merge` True), splits it into a list (False) or leaves it unchanged (None).

    Args:
        length: number of steps; None: that of the inputs.
        inputs: one array, or a list.
        layout: order of the array's axes: "NTC" or "TNC".
        merge: the requested form.
        in_layout: order of the axes that the array has; by default `layout`.

    Raises:
        AssertionError: there are no inputs, or not `length` of them.
    """
    if inputs is None:
        raise AssertionError("unroll(inputs=None) has been deprecated. Please create input variables outside unroll.")
    if in_layout not in (None, layout):
        data = format_sequence(length, inputs, in_layout, merge)
        swapped = isinstance(data.data, tensor_types)
        return data._replace(axis=layout.find("T"), data=data.F.swapaxes(data.data, 0, 1) if swapped else data.data)
    axis = layout.find("T")
    single, steps, batch_size = True, None, 0
    if isinstance(inputs, Symbol):
        if merge is False and len(inputs.list_outputs()) != 1:
            raise AssertionError("unroll doesn't allow grouped symbol as input. Please convert to list with "
                                 "list(inputs) first or let unroll handle splitting.")
    elif isinstance(inputs, NDArray):
        steps, batch_size = inputs.shape[axis], inputs.shape[layout.find("N")]
    else:
        single, steps = False, len(inputs)
        batch_size = 0 if isinstance(inputs[0], Symbol) else inputs[0].shape[0]
    F = _namespace(inputs if single else inputs[0])  # noqa: N806
    if length is not None and steps not in (None, length) and (merge is False or not single):
        raise AssertionError(f"unroll: expected a sequence of {length} steps, got {steps}")
    if merge is False and isinstance(inputs, tensor_types):
        inputs = _steps(F, inputs, steps or length or 0, axis)
    elif not single and merge is True:
        inputs = F.stack(*inputs, axis=axis)
    return Formatted(inputs, axis, F, batch_size)


def _namespace(data: object) -> Any:
    """The operators on a symbol, or on an array."""
    return symbol if isinstance(data, Symbol) else nd


def _steps(F: ModuleType, data: Tensor, count: int, axis: int) -> list[Any]:  # noqa: N803
    """An array split into its steps."""
    parts = F.split(data, num_outputs=count, axis=axis, squeeze_axis=True)
    return list(parts) if F is symbol else list(_as_list(parts))


def mask(F: ModuleType, data: Tensor | Sequence[Tensor], length: int, valid_length: Tensor, axis: int,  # noqa: N803
         merge: bool) -> Any:
    """Sets a sequence to zero beyond the valid lengths."""
    merged = data if isinstance(data, tensor_types) else F.stack(*data, axis=axis)
    merged = F.SequenceMask(merged, sequence_length=valid_length, use_sequence_length=True, axis=axis)
    return merged if merge else _steps(F, merged, length, axis)


def reverse(sequence: Sequence[Tensor], length: int, valid_length: Tensor | None = None) -> list[Any]:
    """Reverses a list of steps, each example within its valid length."""
    if valid_length is None:
        return list(reversed(sequence))
    F = _namespace(sequence[0])  # noqa: N806
    turned = F.SequenceReverse(F.stack(*sequence, axis=0), sequence_length=valid_length, use_sequence_length=True)
    return _steps(F, turned, length, 0)


def begin_state(cell: RecurrentCell, F: ModuleType, states: Sequence[Tensor] | None,  # noqa: N803
                inputs: Tensor | Sequence[Tensor], batch_size: int) -> Sequence[Any]:
    """Returns the given states, or the cell's initial states on the inputs' context."""
    if states is not None:
        return states
    first = inputs if isinstance(inputs, tensor_types) else inputs[0]
    if isinstance(first, Symbol):
        return cell.begin_state(func=F.zeros, batch_size=batch_size)
    with first.context:
        return cell.begin_state(func=F.zeros, batch_size=batch_size)


# -------------------------------------------------------------------- the same as MXNet 2 has them
def format_arrays(length: int | None, inputs: NDArray | Sequence[NDArray], layout: str, merge: bool | None,
                  in_layout: str | None = None) -> tuple[Any, int, int]:
    """Returns the sequence as `format_sequence` makes it, the time axis, and the size of the batch."""
    data, axis, _, batch_size = format_sequence(length, inputs, layout, merge, in_layout)
    return data, axis, batch_size


def mask_arrays(data: NDArray | Sequence[NDArray], length: int, valid_length: NDArray, time_axis: int,
                merge: bool) -> Any:
    """Sets a sequence to zero beyond the valid lengths."""
    return mask(nd, data, length, valid_length, time_axis, merge)


def begin_arrays(cell: RecurrentCell, states: Sequence[NDArray] | None, inputs: NDArray | Sequence[NDArray],
                 batch_size: int) -> Sequence[Any]:
    """Returns the given states, or the cell's initial states on the inputs' context."""
    return begin_state(cell, nd, states, inputs, batch_size)
