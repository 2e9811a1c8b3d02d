"""Helpers of Gluon: splitting batches over devices, clipping gradients, hooks."""

from __future__ import annotations

import math
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

import numpy as np

from .. import level
from .. import ndarray as nd
from .._rnn_packing import GATES, packed_shapes
from .._support.download import _get_repo_file_url as _get_repo_file_url
from .._support.download import _get_repo_url as _get_repo_url
from .._support.download import check_sha1, download, replace_file
from ..context import Context
from ..ndarray import NDArray
from ..util import is_np_array, is_np_shape

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = ["HookHandle", "check_sha1", "clip_global_norm", "download", "replace_file", "shape_is_known",
           "split_and_load", "split_data", "split_rnn_params"]

Result = TypeVar("Result")


# -------------------------------------------------------------------- batches
def split_data(data: NDArray, num_slice: int, batch_axis: int = 0, even_split: bool = True) -> list[NDArray]:
    """Splits an array into parts along an axis.

    Args:
        data: the batch.
        num_slice: number of parts.
        batch_axis: axis to split.
        even_split: require parts of equal length; otherwise the first ones may be longer by one.

    Raises:
        ValueError: there are no slices, or `even_split` is set and the length is not a multiple of `num_slice`.

    Example:
        >>> [part.shape for part in split_data(mx.nd.zeros((5, 2)), 2, even_split=False)]
        [(3, 2), (2, 2)]
    """
    size = data.shape[batch_axis]
    if num_slice < 1:
        raise ValueError(f"num_slice={num_slice}: data of shape {data.shape} needs at least one slice")
    if even_split and size % num_slice:
        raise ValueError(f"data of shape {data.shape} cannot be split evenly into {num_slice} slices along axis "
                         f"{batch_axis}: use a batch size that is a multiple of {num_slice}, or even_split=False")
    least, longer = divmod(size, num_slice)
    ends = np.cumsum([least + (i < longer) for i in range(num_slice)]).tolist()
    spans = zip([0, *ends], ends, strict=False)
    if batch_axis == 0:
        return [data[begin:end] for begin, end in spans]
    return [nd.slice_axis(data, axis=batch_axis, begin=begin, end=end) for begin, end in spans]


def split_and_load(data: ArrayLike, ctx_list: Sequence[Context], batch_axis: int = 0,
                   even_split: bool = True) -> list[NDArray]:
    """Splits a batch along an axis and copies one part to each context.

    Args:
        data: array, or anything that `mx.nd.array` accepts.
        ctx_list: contexts.
        batch_axis, even_split: as in `split_data`.

    Raises:
        ValueError: there are no contexts; otherwise as in `split_data`.
    """
    if not ctx_list:
        raise ValueError("ctx_list is empty: name at least one context for the data, such as mx.cpu()")
    array = data if isinstance(data, NDArray) else nd.array(data, ctx=ctx_list[0])
    if array is not data and is_np_array():
        array = array.as_np_ndarray()
    if len(ctx_list) == 1:
        return [array.as_in_context(ctx_list[0])]
    slices = split_data(array, len(ctx_list), batch_axis, even_split)
    return [part.as_in_context(ctx) for part, ctx in zip(slices, ctx_list, strict=True)]


def clip_global_norm(arrays: Sequence[NDArray], max_norm: float, check_isfinite: bool = True) -> float | NDArray:
    """Scales arrays in place so that the 2-norm of all of them together is at most `max_norm`.

    Args:
        arrays: arrays, usually gradients, on any contexts.
        max_norm: bound of the norm.
        check_isfinite: wait for the norm and warn if it is infinite or NaN.

    Returns:
        The norm before scaling: a float, or without `check_isfinite` an NDArray of shape (1,).

    Raises:
        AssertionError: there are no arrays.
    """
    if len(arrays) == 0:
        raise AssertionError("clip_global_norm: there are no arrays")
    ctx = arrays[0].context
    by_place: dict[tuple, list[NDArray]] = {}
    for array in arrays:
        by_place.setdefault((array.context, array.dtype, array.stype), []).append(array)
    squares = []
    for (_, _, stype), group in by_place.items():
        if stype == "default":
            sums = nd.multi_sum_sq(*group, num_arrays=len(group)).sum()
        else:
            sums = nd.add_n(*[array.norm().square() for array in group])
        squares.append(sums.astype("float32", copy=False).as_in_context(ctx))
    total = nd.sqrt(nd.add_n(*squares))
    norm = total.asnumpy().reshape(-1)[0] if check_isfinite else total
    if check_isfinite and not np.isfinite(norm):
        warnings.warn("nan or inf is detected. Clipping results will be undefined.", UserWarning, stacklevel=2)
    scale = nd.minimum(max_norm / (total + 1e-8), 1.0)
    for array in arrays:
        array *= scale.as_in_context(array.context).astype(array.dtype, copy=False)
    if level.current() == 2:
        return norm.item() if check_isfinite else norm.reshape((1,))
    return norm


# -------------------------------------------------------------------- helpers
class HookHandle:
    """The handle of a registered hook: `detach()` (or leaving its `with` block) removes the hook."""

    def __init__(self) -> None:
        self._hooks_dict_ref: weakref.ref[OrderedDict] | None = None
        self._id: int | None = None

    def attach(self, hooks_dict: OrderedDict, hook: Callable) -> None:
        """Adds a hook to a block's hooks. A handle can be attached only once."""
        if self._hooks_dict_ref is not None:
            raise AssertionError("a handle cannot be attached twice")
        self._id = id(hook)
        hooks_dict[self._id] = hook
        self._hooks_dict_ref = weakref.ref(hooks_dict)

    def detach(self) -> None:
        """Removes the hook; does nothing the second time."""
        hooks = self._hooks()
        if hooks is not None:
            hooks.pop(self._id, None)

    def _hooks(self) -> OrderedDict | None:
        """The hooks that it is attached to; None where there are none, or no longer."""
        return None if self._hooks_dict_ref is None else self._hooks_dict_ref()

    def __getstate__(self) -> tuple:
        return self._hooks(), self._id

    def __setstate__(self, state: tuple) -> None:
        self._hooks_dict_ref = weakref.ref(OrderedDict() if state[0] is None else state[0])
        self._id = state[1]

    def __enter__(self) -> HookHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.detach()


def any_arguments(method: Callable[..., Result]) -> Callable[..., Result]:
    """Returns a method unchanged. For type checkers it accepts any arguments, so that subclasses may declare others."""
    return method


def shape_is_known(shape: Sequence[int] | None) -> TypeGuard[tuple[int, ...]]:
    """Returns whether all dimensions of a shape are known; unknown ones are 0, or -1 under NumPy shape semantics."""
    if shape is None:
        return False
    unknown = -1 if is_np_shape() else 0
    if any(size < unknown for size in shape):
        raise AssertionError(f"a dimension cannot be less than {unknown}, got the shape {tuple(shape)}")
    return unknown not in shape and (len(shape) > 0 or unknown == -1)


def _indent(text: str, width: int) -> str:
    """All lines but the first moved right."""
    return text.replace("\n", "\n" + " " * width)


def _brief_print_list(names: Iterable[Any], limit: int = 7) -> str:
    """Names in quotes, the middle ones left out where there are many."""
    quoted = [f"'{name}'" for name in names]
    if len(quoted) > limit:
        quoted[limit // 2:-((limit + 1) // 2)] = ["..."]
    return ", ".join(quoted)


def split_rnn_params(param: NDArray, mode: str, num_layers: int, input_size: int, hidden_size: int,
                     bidirectional: bool = False, projection_size: int | None = None) -> dict[str, NDArray]:
    """Splits the parameter of one of MXNet 2's recurrent layers into matrices and biases.

    Args:
        param: the value of its `rnn_param`, a vector.
        mode: "rnn_relu", "rnn_tanh", "lstm" or "gru".
        num_layers, input_size, hidden_size, bidirectional, projection_size: of the layer.

    Returns:
        Arrays by name: "l0_i2h_weight" (gates * hidden_size, input_size), "l0_h2h_weight", "r0_i2h_weight" ...

    Raises:
        ValueError: unknown mode, or a vector of another length.
    """
    if mode not in GATES:
        raise ValueError(f"mode must be one of {', '.join(GATES)}; got {mode!r}")
    shapes = packed_shapes(len(GATES[mode]), num_layers, input_size, hidden_size, 1 + bool(bidirectional),
                           projection_size)
    size = sum(map(math.prod, shapes.values()))
    if size != param.size:
        raise ValueError(f"param has {param.size} values, expected {size} for this layer")
    parts, begin = {}, 0
    for name, shape in shapes.items():
        end = begin + math.prod(shape)
        parts[name] = param[begin:end].reshape(shape)
        begin = end
    return parts
