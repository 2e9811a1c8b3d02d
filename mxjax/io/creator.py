"""Common parts of the iterators that are created by functions of keyword arguments."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from .. import level
from .. import ndarray as nd
from ..array.dense import _from_host
from ..base import MXNetError
from ..context import cpu
from ..ops.params import schema
from ..util import is_np_array
from .base import DataBatch, DataDesc, DataIter
from .state import check_state

__all__ = ["MXDataIter", "Source", "creator"]


# the parameters that decide which samples come in which order
_ORDERING = ("batch_size", "round_batch", "shuffle", "seed", "seed_aug", "num_parts", "part_index",
             "shuffle_chunk_size", "shuffle_chunk_seed")


class Source(Protocol):
    """A source of batches of an `MXDataIter`."""

    batch_size: int
    extent: dict[str, int]  # how much data there is

    def position(self) -> dict[str, Any]:
        """Returns the position of the end of the current batch: numbers by name."""
        ...

    def go_to(self, position: dict[str, Any]) -> None:
        """Restores a `position`, before the batch that follows it; raises ValueError if it is damaged."""

    def reset(self) -> None:
        """Moves before the first batch."""

    def next(self) -> bool:
        """Moves to the next batch; returns whether there is one."""
        ...

    def batch(self) -> tuple[Any, Any, int, np.ndarray]:
        """Data, labels (arrays of any kind), pad, and sample indices of the current batch."""
        ...


class MXDataIter(DataIter):
    """An iterator over files, as `CSVIter` and similar functions return it.

    Args:
        handle: source of the batches.
        data_name, label_name: names of data and label.

    Raises:
        MXNetError: there is no batch.
    """

    kind = "MXDataIter"
    settings: dict[str, Any] = {}

    def __init__(self, handle: Source, data_name: str = "data", label_name: str = "softmax_label", **_: Any) -> None:
        super().__init__(handle.batch_size)
        self.handle = handle
        self._repeat_first = False
        self._of_2 = level.current() == 2
        self._start = handle.position() if hasattr(handle, "position") else None
        self.first_batch: DataBatch | None = None
        try:
            self.first_batch = self.next()
        except StopIteration:
            raise MXNetError("the iterator has no batch: there is no data, there is less than one batch and the last "
                             "one is discarded, or there are fewer records than parts (which are ranges of bytes "
                             "without an index)") from None
        self.provide_data, self.provide_label = (
            [DataDesc(name, array.shape, array.dtype) for array in arrays or ()]
            for name, arrays in ((data_name, self.first_batch.data), (label_name, self.first_batch.label)))

    def debug_skip_load(self) -> None:
        """Returns the current batch repeatedly from now on, to measure the time of everything but loading."""
        self._repeat_first = True
        logging.info("debug_skip_load: from now on, every call returns the current batch")

    def reset(self) -> None:
        self._at_begin = True
        self.first_batch = None
        self.handle.reset()

    _at_begin = True

    def state_dict(self) -> dict[str, Any]:
        """Returns the position in the epoch after the returned batches, including the order of the next epoch.

        The random augmentation of images depends only on `seed` and the position in the epoch, so it continues as well.

        Returns:
            Numbers and texts, which can be stored as JSON.

        Raises:
            TypeError: the source of the batches has no position.
        """
        start = self._first_position()
        position = start if self.first_batch is not None else self.handle.position()
        return {"kind": self.kind, **self.settings, **self.handle.extent, **position}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores the position at which `state_dict` was called.

        Args:
            state: the result of `state_dict` of an iterator over the same data with the same settings.

        Raises:
            TypeError: the source of the batches has no position.
            ValueError: the state belongs to other data or settings; the message names the difference.
        """
        start = self._first_position()
        check_state(self.kind, state, {"kind": self.kind, **self.settings, **self.handle.extent}, start)
        self.handle.go_to({name: state[name] for name in start})
        self.first_batch, self._at_begin = None, True

    def _first_position(self) -> dict[str, Any]:
        """Returns where the source stood before its first batch; raises TypeError if it has no position."""
        if self._start is None:
            raise TypeError(f"{type(self.handle).__name__} has no position(), so it cannot be resumed")
        return self._start

    def next(self) -> DataBatch:
        if self._repeat_first and not self._at_begin:
            return self._batch()
        if self.first_batch is not None:
            batch, self.first_batch = self.first_batch, None
            return batch
        self._at_begin = False
        if not self.handle.next():
            raise StopIteration
        return self._batch()

    def iter_next(self) -> bool:
        return self.first_batch is not None or self.handle.next()

    def _batch(self) -> DataBatch:
        data, label, pad, index = self.handle.batch()
        return DataBatch([self._array(data)], [self._array(label)], pad, index.astype(np.uint64))

    def getdata(self) -> nd.NDArray:
        """Data of the current batch; one array, not a list."""
        return self._array(self.handle.batch()[0])

    def getlabel(self) -> nd.NDArray:
        """Labels of the current batch; one array, not a list."""
        return self._array(self.handle.batch()[1])

    def getindex(self) -> np.ndarray:
        """Indices of the samples of the current batch; zeros if the source does not provide them."""
        return self.handle.batch()[3].astype(np.uint64)

    def getpad(self) -> int:
        return self.handle.batch()[2]

    def _array(self, values: Any) -> nd.NDArray:
        """Values of a batch as an array; at level 2, dense ones are `mx.np.ndarray` under NumPy semantics."""
        array = values if isinstance(values, nd.NDArray) else _from_host(np.ascontiguousarray(values), cpu())
        return array.as_np_ndarray() if self._of_2 and array.stype == "default" and is_np_array() else array



def creator(function: Callable[..., Source], parameters: type | None = None) -> Callable[..., MXDataIter]:
    """Turns a function that returns a Source into one that returns an iterator.

    Its keyword-only arguments are the parameters of the iterator, annotated as in `ops.params`: strings are parsed and
    limits are checked. Further arguments are passed to `MXDataIter`, which ignores unknown ones, as MXNet does.

    Args:
        function: returns the Source.
        parameters: a dataclass of keyword-only parameters; the function accepts an instance of it instead.
    """
    name = function.__name__

    def create(*args: Any, **kwargs: Any) -> MXDataIter:
        if args:
            raise TypeError(f"{name} can only accept keyword arguments")
        params = schema(name, parameters or function)
        missing = [key for key, param in params.items() if param.required and key not in kwargs]
        if missing:
            raise MXNetError(f"{name}: required parameter {missing[0]} is missing ({params[missing[0]]})")
        values = {key: params[key].parse(value) for key, value in kwargs.items() if key in params}
        source = function(parameters(**values)) if parameters else function(**values)
        iterator = MXDataIter(source, **{key: value for key, value in kwargs.items() if key not in params})
        iterator.kind = name
        iterator.settings = {key: values.get(key, params[key].default) for key in _ORDERING if key in params}
        return iterator
    functools.update_wrapper(create, function)
    vars(create).pop("__wrapped__")  # its signature is (*args, **kwargs), as in MXNet; the docstring has the parameters
    create.__annotations__ = {"return": "MXDataIter"}
    return create
