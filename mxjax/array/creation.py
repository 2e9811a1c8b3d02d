"""Creation, saving and loading of arrays."""

from __future__ import annotations

import ctypes
import math
import os
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import engine
from .._support.c_math import c_number
from .._support.images import decode
from .._support.signals import later_signals
from .._xla.capacity import refuse_result
from .._xla.devices import JaxDevice
from .._xla.process import forked, live_arrays, waits
from .._xla.x64 import x64_mode
from ..base import MXNetError, Unfit, UnknownArgument, integer_types, numeric_types
from ..context import Context, as_context, chosen, current_context, devices_in_use, takes_device
from ..eager import after_fork  # noqa: F401  the first is for what it does
from ..eager.array_types import Storage, storage, storages, wrap
from ..eager.dispatch import call
from ..eager.modes import state
from ..eager.promise import zeros as promised_zeros
from ..eager.trace import flush
from ..kernel.compiled import budget
from ..kernel.kernel import mistake, watched
from ..kernel.policy import next_round
from ..ops import registry
from ..ops.params import DTypeLike, ShapeLike, np_dtype
from ..util import is_np_shape
from . import file_format  # noqa: F401  the first is for what it does
from .dense import NDArray, _from_host, context_of

__all__ = ["arange", "array", "concatenate", "empty", "eye", "from_dlpack", "from_jax", "from_numpy", "full",
           "imdecode", "linspace", "load", "load_frombuffer", "moveaxis", "ones", "onehot_encode", "save", "split_v2",
           "to_dlpack_for_read", "to_dlpack_for_write", "waitall", "zeros", "histogram"]


def _shape(shape: ShapeLike, operator: str = "array") -> tuple[int, ...]:
    if isinstance(shape, integer_types):
        shape = (shape,)
    try:
        lengths = tuple([int(n) for n in shape])
    except (TypeError, ValueError):
        raise MXNetError(f"operator {operator}: shape must be an int or a tuple of ints, got {shape!r}") from None
    if any(n < 0 for n in lengths):
        raise MXNetError(f"operator {operator}: a shape must not contain negative sizes, got {lengths}")
    return lengths


_CONSTANTS: dict[float, str] = {0: "_zeros", 1: "_ones"}  # operators that fill with one value


def _constant(value: float, shape: ShapeLike, ctx: Context | None, dtype: DTypeLike) -> NDArray:
    """Returns an array of one value."""
    name, ctx = _CONSTANTS.get(value, "_full"), chosen(_operator_context(ctx))
    if state.recorder is not None:
        more = {"value": value} if name == "_full" else {}
        return call(registry.get(name), [], {"shape": _shape(shape, name), "dtype": np_dtype(dtype), **more},
                    ctx=ctx)
    return watched(name, _filled, "imperative")(value, _shape(shape, name), ctx, np_dtype(dtype))


def _operator_context(ctx: Context | str | None) -> Any:
    """Returns a context in the notation of MXNet's operators: text such as "cpu(0)" is valid, "cpu" is not."""
    return as_context(ctx) if isinstance(ctx, str) and "(" in ctx else ctx


def _filled(value: float, shape: tuple[int, ...], ctx: Context, dtype: np.dtype) -> NDArray:
    """Creates the array on the host if that is cheap, because XLA would compile a program for each shape."""
    if ctx.device_type.startswith("cpu") or math.prod(shape) <= 1 << 18:
        refuse_result(shape, dtype)
        return _from_host(np.full(shape, c_number(value, dtype), dtype) if value else np.zeros(shape, dtype), ctx)
    with x64_mode(dtype):
        return wrap(jnp.full(shape, c_number(value, dtype), dtype, device=ctx.jax_device), ctx)


def zeros_later(shape: tuple[int, ...], ctx: Context, dtype: DTypeLike) -> NDArray:
    """Returns zeros that need no memory until they are read, for arrays that are usually written first."""
    return wrap(promised_zeros(tuple(shape), np_dtype(dtype), ctx), ctx)


@takes_device
def zeros(shape: ShapeLike, ctx: Context | None = None, dtype: DTypeLike = None, stype: str | None = None,
          **kwargs: object) -> NDArray:
    """An array of zeros.

    Args:
        shape: int or tuple of ints.
        ctx: context; default the current one.
        dtype: default float32.
        stype: storage type: None or "default", "csr", "row_sparse".

    Raises:
        MXNetError: a shape without axes or with lengths of 0 outside of `mx.np_shape`, where they mean unknown.
    """
    if stype not in (None, "default"):
        return _into(storage(stype).zeros(_shape(shape, "_zeros"), ctx, dtype), kwargs)
    return _into(_constant(0, _known(shape, "zeros"), ctx, dtype), kwargs)


def _known(shape: ShapeLike, function: str) -> tuple[int, ...]:
    """Returns a shape that must be known."""
    shape = _shape(shape, f"_{function}")
    if not (shape and all(shape)) and not is_np_shape():
        raise MXNetError(f"mx.nd.{function}: the shape {shape} is unknown: outside mx.np_shape(), an empty shape and "
                         "sizes of 0 mean unknown; create scalars and empty arrays within mx.np_shape()")
    return shape


def _into(result: NDArray, kwargs: dict[str, Any]) -> NDArray:
    out = kwargs.pop("out", None)
    for unused in ("name", "__layout__"):  # the shape that symbols of the same call would have
        kwargs.pop(unused, None)
    if kwargs:
        raise UnknownArgument(f"unknown arguments: {', '.join(kwargs)}")
    if out is None:
        return result
    out[:] = result
    return out


@takes_device
def ones(shape: ShapeLike, ctx: Context | None = None, dtype: DTypeLike = None, **kwargs: object) -> NDArray:
    """Returns an array of ones; arguments as in `zeros`."""
    return _into(_constant(1, _known(shape, "ones"), ctx, dtype), kwargs)


@takes_device
def full(shape: ShapeLike, val: Any, ctx: Context | None = None, dtype: DTypeLike = np.float32,
         out: NDArray | None = None) -> NDArray:
    """Returns an array filled with `val`, a number or a value that can be assigned to the array; shape and dtype as in
    `zeros`.

    Lengths of 0 are known.
    """
    plain = isinstance(val, numeric_types) and not np.iscomplexobj(val)
    number: Any = val if plain else 0
    if out is None:
        out = _constant(number, shape if shape else _known(shape, "full"), ctx, dtype)
        if plain:
            return out
    out[:] = val
    return out


@takes_device
def empty(shape: ShapeLike, ctx: Context | None = None, dtype: DTypeLike = None, stype: str | None = None) -> NDArray:
    """Returns an array with unspecified values (zeros), of any shape; arguments as in `zeros`."""
    return zeros(shape, ctx, dtype, stype) if stype not in (None, "default") else _constant(0, shape, ctx, dtype)


@takes_device
def array(source_array: object, ctx: Context | None = None, dtype: DTypeLike = None) -> NDArray:
    """Returns an array with the values of a NumPy array, NDArray, SciPy matrix, number or nested list.

    Args:
        source_array: the values.
        ctx: context; default the current one.
        dtype: default the source's if it is an NDArray, else float32.

    Raises:
        TypeError: the values do not form an array.
    """
    ctx = chosen(ctx)
    if isinstance(source_array, NDArray):
        if getattr(source_array, "stype", "default") != "default":
            return storage(source_array.stype).array(source_array, ctx, dtype)
        dtype = np_dtype(source_array.dtype if dtype is None else dtype)
        if state.recording and source_array.entry is not None:
            return source_array.as_nd_ndarray().astype(dtype).as_in_context(ctx)
        source = source_array.asnumpy()
        return _from_host(source if source.dtype == dtype else source.astype(dtype), ctx)
    if hasattr(source_array, "tocsr") and hasattr(source_array, "nnz"):
        return storage("csr").array(source_array, ctx, dtype)
    if dtype is None:
        dtype = np.float32
    try:
        values = host_values(source_array, np_dtype(dtype))
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"source_array must be array like: {error}") from None
    return _from_host(values, ctx)


def host_values(source: object, dtype: np.dtype) -> np.ndarray:
    """Returns a NumPy array of a dtype; numbers out of its range wrap around, as before NumPy 2."""
    try:
        return np.array(source, dtype=dtype)
    except OverflowError:
        values = np.array(source)
        if values.dtype.kind == "f":
            if not abs(values).max() < 2.0**63:
                raise
            values = values.astype(np.int64)  # by way of which floats wrap around as well
        return values.astype(dtype)


@takes_device
def arange(start: float, stop: float | None = None, step: float = 1.0, repeat: int = 1,
           infer_range: bool | None = None, ctx: Context | None = None, dtype: DTypeLike = np.float32) -> NDArray:
    """Evenly spaced values in [start, stop), each `repeat` times."""
    return call(registry.get("_arange"), [], {"start": start, "stop": stop, "step": step, "repeat": repeat,
                                              "infer_range": bool(infer_range), "dtype": dtype}, ctx=ctx)


@takes_device
def linspace(start: float, stop: float, num: int, endpoint: bool = True, ctx: Context | None = None,
             dtype: DTypeLike = np.float32) -> NDArray:
    """`num` evenly spaced values from start to stop."""
    return call(registry.get("_linspace"), [], {"start": start, "stop": stop, "num": num, "endpoint": endpoint,
                                                "dtype": dtype}, ctx=ctx)


@takes_device
def eye(N: int, M: int = 0, k: int = 0, ctx: Context | None = None, dtype: DTypeLike = None,  # noqa: N803
        **kwargs: object) -> NDArray:
    """An N x M matrix (M = 0: square) with ones on the k-th diagonal."""
    return _into(call(registry.get("_eye"), [], {"N": N, "M": M, "k": k, "dtype": np_dtype(dtype)}, ctx=ctx), kwargs)


def moveaxis(tensor: NDArray, source: int | Sequence[int], destination: int | Sequence[int]) -> NDArray:
    """Moves axes to other positions; the rest keep their order.

    Raises:
        ValueError: an axis is out of range or named twice.
    """
    source = (source,) if isinstance(source, int) else tuple(source)
    destination = (destination,) if isinstance(destination, int) else tuple(destination)
    if len(source) != len(destination):
        raise ValueError("`source` and `destination` arguments must have the same number of elements")
    try:
        order = np.moveaxis(np.empty((1,) * tensor.ndim), source, destination)  # checks the axes
        del order
    except ValueError as error:
        raise ValueError(str(error)) from None
    axes = [n for n in range(tensor.ndim) if n not in [s % tensor.ndim for s in source]]
    for place, axis in sorted(zip([d % tensor.ndim for d in destination], [s % tensor.ndim for s in source],
                                  strict=True)):
        axes.insert(place, axis)
    return tensor.transpose(axes)


def concatenate(arrays: Sequence[NDArray], axis: int = 0, always_copy: bool = True) -> NDArray:
    """Joins arrays along an axis; a single array is returned itself unless `always_copy`.

    Raises:
        AssertionError: there is no array.
    """
    if not len(arrays):
        raise AssertionError("concatenate requires at least one array")
    if len(arrays) == 1 and not always_copy:
        return arrays[0]
    return call(registry.get("Concat"), list(arrays), {"dim": axis})


def split_v2(ary: NDArray, indices_or_sections: int | Sequence[int], axis: int = 0,
             squeeze_axis: bool = False) -> Any:
    """Splits into equal sections, or at the given indices, along an axis.

    Raises:
        ValueError: `indices_or_sections` is neither an int nor a tuple of ints.
    """
    indices, sections = [], 0
    if isinstance(indices_or_sections, int):
        sections = indices_or_sections
        if ary.shape[axis] % sections:
            raise ValueError(f"array split does not result in an equal division: {ary.shape[axis]} by {sections}")
    elif isinstance(indices_or_sections, (tuple, list)):
        indices = [0, *indices_or_sections]
    else:
        raise ValueError("indices_or_sections must be int or tuple of ints")
    return call(registry.get("_split_v2"), [ary], {"indices": indices, "axis": axis, "squeeze_axis": squeeze_axis,
                                                   "sections": sections})


def histogram(a: NDArray, bins: NDArray | int = 10, range: tuple | None = None) -> Any:
    """Counts of values per bin, and the bins' edges; `bins` is their number (with `range`) or an array of edges."""
    if isinstance(bins, NDArray):
        return call(registry.get("_histogram"), [a, bins], {})
    if not isinstance(bins, integer_types):
        raise ValueError("bins argument should be either an integer or an NDArray")
    if range is None:  # as NumPy in MXNet; with Python floats, because NumPy 2 computes edges of float32 in float32
        values = a.asnumpy()
        counts, edges = np.histogram(values, bins, (float(values.min()), float(values.max())) if a.size else None)
        return array(counts), array(edges)
    return call(registry.get("_histogram"), [a], {"bin_cnt": bins, "range": range})


def onehot_encode(indices: NDArray, out: NDArray) -> NDArray:
    """Writes the one-hot rows of `indices` to `out` of shape (len(indices), depth); returns it."""
    return call(registry.get("one_hot"), [indices], {"depth": out.shape[1], "dtype": out.dtype}, out)


def imdecode(str_img: bytes, clip_rect: tuple = (0, 0, 0, 0), out: NDArray | None = None, index: int = 0,
             channels: int = 3, mean: NDArray | None = None) -> NDArray:
    """Decodes an image to (channels, height, width) floats, cropped to `clip_rect` (x0, y0, x1, y1), minus `mean`."""
    pixels = decode(str_img, int(channels == 3), to_rgb=False)
    image = array(pixels, dtype=pixels.dtype)
    x0, y0, x1, y1 = clip_rect
    if (x1, y1) != (0, 0):
        image = image[y0:y1, x0:x1]
    image = image.astype(np.float32).transpose((2, 0, 1))
    if mean is not None:
        image = image - mean
    if out is None:
        return image
    out[index] = image
    return out


def from_numpy(ndarray: np.ndarray, zero_copy: bool = True, array_cls: type = NDArray) -> NDArray:
    """An array with the values of a C-contiguous NumPy array.

    With `zero_copy`, the memory may be shared if the device is the host, and the NumPy array becomes read-only.

    Raises:
        ValueError: zero_copy of an array that is not C-contiguous.
    """
    if zero_copy:
        if not ndarray.flags["C_CONTIGUOUS"]:
            raise ValueError("Only c-contiguous arrays are supported for zero-copy")
        ndarray.flags["WRITEABLE"] = False
        result = _from_host(ndarray, current_context(), array_cls)
        result.chunk.lent = True
        return result
    return _from_host(np.array(ndarray, order="C"), current_context(), array_cls)


def from_jax(value: jax.Array, ctx: Context | None = None) -> NDArray:
    """A `jax.Array` (or tracer) as an NDArray, without a copy; writes to the NDArray do not change it.

    Example:
        >>> import jax.numpy as jnp
        >>> (mx.nd.from_jax(jnp.ones(3)) + 1).asnumpy()
        array([2., 2., 2.], dtype=float32)
    """
    return wrap(value, ctx or context_of(value))


def from_dlpack(dlpack: object) -> NDArray:
    """An array that shares the memory of a DLPack capsule or of an object with `__dlpack__`."""
    if not hasattr(dlpack, "__dlpack__"):
        dlpack = _Capsule(dlpack)
    with x64_mode(True):
        value = jax.dlpack.from_dlpack(dlpack)
    result = wrap(value, context_of(value))
    result.chunk.lent = True
    return result


class _Capsule:
    """Wraps a bare capsule of the older protocol for `from_dlpack`.

    Raises:
        Unfit: it is not a capsule, or has been consumed.
    """

    def __init__(self, capsule: object) -> None:
        if not _is_valid(capsule, b"dltensor"):
            raise Unfit(f"from_dlpack: expected a DLPack capsule that nobody has consumed yet, got {capsule!r}")
        self._capsule = capsule
        self._device = tuple(_Tensor.from_address(_pointer(capsule, b"dltensor")).device)

    def __dlpack__(self, **_: object) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device


class _Tensor(ctypes.Structure):
    """The beginning of a DLTensor (dlpack.h, of all versions without a version in the struct)."""

    _fields_ = (("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2))


_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi))


def to_dlpack_for_read(data: NDArray) -> Any:
    """`data.to_dlpack_for_read()`."""
    return data.to_dlpack_for_read()


def to_dlpack_for_write(data: NDArray) -> Any:
    """`data.to_dlpack_for_write()`."""
    return data.to_dlpack_for_write()


def waitall() -> None:
    """Waits until all work is done; raises the first error that has not been raised yet."""
    flush()
    engine.get().wait_for_all()
    if forked():  # everything was finished before
        return
    waits()
    next_round()
    arrays = live_arrays()
    try:
        jax.block_until_ready(arrays)
    except RuntimeError:  # one has been donated meanwhile, or has failed: find out which
        for value in arrays:
            try:
                value.block_until_ready()
            except RuntimeError as error:
                if not value.is_deleted():
                    raise mistake("waitall", [value], error) from None
    # dropped results are not live arrays, but finish before a small program at the end of their device's queue
    jax.block_until_ready([_tick(device) for device in list(devices_in_use)
                           if budget.compiled or device.platform != "cpu"])


_ticking: dict[Any, jax.Array] = {}
_add_one = jax.jit(lambda x: x + 1)


def _tick(device: JaxDevice) -> jax.Array:
    if device not in _ticking:
        _ticking[device] = jax.device_put(np.zeros(1, np.float32), device)
        with later_signals():  # JAX may load its compiler for it
            return _add_one(_ticking[device])
    return _add_one(_ticking[device])


def save(fname: str | os.PathLike, data: object) -> None:
    """Saves an array, a list of arrays or a dictionary of named arrays in MXNet's format.

    Under a name that ends in ".safetensors" a dictionary of dense arrays is written in that format.

    A file of that name is replaced when the new one is whole and on the disk.

    Raises:
        TypeError, ValueError: the data is something else.
        MXNetError: the file cannot be written; an existing file is unchanged.
    """
    if isinstance(data, NDArray):
        data = [data]
        names: list[str] = []
    elif isinstance(data, dict):
        names, data = list(data), list(data.values())
        if any(not isinstance(n, str) for n in names):
            raise TypeError("save only accepts dictionaries with text keys")
    elif isinstance(data, (list, tuple)):
        names, data = [], list(data)
    else:
        raise ValueError("data needs to either be a NDArray, dict of str, NDArray pairs or a list of NDarrays.")
    if any(not isinstance(a, NDArray) for a in data):
        raise TypeError("save only accepts dict str->NDArray or list of NDArray")
    file_format.write(os.fspath(fname), data, names)


def load(fname: str | os.PathLike) -> Any:
    """Returns the arrays of a file: a list, or a dictionary if named. Reads MXNet's format, `.npz`, `.npy` and
    safetensors.

    Raises:
        MXNetError: the file is damaged; the message names the file and the offset.
    """
    if not isinstance(fname, (str, os.PathLike)):
        raise TypeError("fname required to be a string")
    return file_format.read_file(os.fspath(fname))


def load_frombuffer(buf: bytes) -> Any:
    """As `load`, from bytes."""
    if not isinstance(buf, (bytes, bytearray, memoryview)):
        raise TypeError("buf required to be a string or bytes")
    return file_format.read(memoryview(buf), "buffer")


storages["default"] = Storage(zeros=lambda shape, ctx, dtype: _constant(0, shape, ctx, dtype),
                              of_dense=lambda source: source.copy(), array=array,
                              of_parts=lambda parts, shape, dtype: array(parts[0], dtype=dtype))
