"""The `DataLoader`: batches of a data set's samples, loaded in this thread, in worker threads or in
worker processes."""

from __future__ import annotations

import multiprocessing
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import level
from ...array.dense import _from_host
from ...context import cpu_pinned, current_context
from ...io.state import check_state
from ...kernel.policy import same_round
from ...ndarray import NDArray, stack
from ...numpy import ndarray
from ...util import is_np_array
from ...workers.pool import ProcessPool, ThreadPool
from ...workers.pool import begin_thread as _thread_worker_initializer  # noqa: F401 (libraries take it from here)
from ._protocol import (
    ConnectionWrapper,
    Queue,
    SimpleQueue,
    _as_in_context,
    fetcher_loop_v1,
    rebuild_ndarray,
    rebuild_np_ndarray,
    reduce_ndarray,
    reduce_np_ndarray,
    worker_loop_v1,
)
from ._protocol import ForkingPickler as ForkingPickler  # this and the following: libraries take them from here
from ._protocol import _MultiWorkerIter as _MultiWorkerIter
from ._protocol import _thread_worker_fn as _thread_worker_fn
from ._protocol import _worker_fn as _worker_fn
from ._protocol import _worker_initializer as _worker_initializer
from ._state import has_state, need_state
from ._stream import End, Stream, StreamBatches, StreamBatchify, is_stream
from .dataset import Dataset
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

if TYPE_CHECKING:
    from .._types import Indexed

__all__ = ["ConnectionWrapper", "DataLoader", "DataLoaderV1", "Queue", "SimpleQueue", "default_batchify_fn",
           "default_mp_batchify_fn", "fetcher_loop_v1", "rebuild_ndarray", "rebuild_np_ndarray", "reduce_ndarray",
           "reduce_np_ndarray", "worker_loop_v1"]


def default_batchify_fn(data: Sequence[Any]) -> Any:
    """Combines samples into a batch: stacks arrays along a new first axis, samples of several parts part by part.

    Args:
        data: samples: NDArrays, tuples, numbers, or anything that NumPy converts to arrays. Dicts
            become a dict of batches, named tuples a named tuple of the same class, strings and
            bytes a list.

    Raises:
        TypeError: NumPy cannot convert the samples to an array of numbers, or dicts have different
            keys.
    """
    first = data[0]
    if isinstance(first, Mapping):
        for number, sample in enumerate(data):
            if sample.keys() != first.keys():
                raise TypeError(f"sample {number} of the batch has the keys {list(sample)}, the first one has "
                                f"{list(first)}: pass the DataLoader a batchify_fn")
        return {name: default_batchify_fn([sample[name] for sample in data]) for name in first}
    if isinstance(first, str | bytes):
        return list(data)
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(default_batchify_fn(part) for part in zip(*data, strict=True)))
    if isinstance(first, tuple):
        return [default_batchify_fn(part) for part in zip(*data, strict=True)]
    if isinstance(first, NDArray):
        if first.context.device_type in ("gpu", "tpu"):
            return stack(*data)
        # on the host without XLA, which would compile a program for each batch size
        return _from_host(np.stack([np.asarray(sample.read()) for sample in data]), first.context, type(first))
    values = np.asarray(data)
    if values.dtype.kind not in "biufV":
        raise TypeError(f"samples of type {type(first).__name__} cannot be converted to an array (dtype "
                        f"{values.dtype}); pass the DataLoader a batchify_fn")
    return _from_host(values, current_context(), _array_class())


default_mp_batchify_fn = default_batchify_fn


def _array_class() -> type:
    return ndarray if is_np_array() else NDArray


class _Progress:
    """The progress of a round.

    It has no reference to the loader, which would keep its workers alive after an abandoned round.
    """

    def __init__(self, sampler: Any) -> None:
        self._sampler, self._has_state = sampler, has_state(sampler)
        self.state: Any = None  # the sampler's state after the returned batches; None: the round has not begun

    def _changes(self) -> int:
        return getattr(self._sampler, "_changes", 0)

    def begin(self) -> Iterator[Any]:
        """Returns the order of a new epoch."""
        self._began = self._changes()
        order = iter(self._sampler)
        self.state = self.now()
        return order

    def now(self) -> Any:
        """Returns the sampler's current state; False if it has none."""
        return self._has_state and self._sampler.state_dict()

    def is_stale(self) -> bool:
        """Returns whether the sampler was set to another epoch since this one began."""
        return self.state is not None and self._began != self._changes()


class _Batches:
    """The batches of one round, each loaded when it is asked for."""

    def __init__(self, loader: DataLoader) -> None:
        self._loader, self.progress = loader, _Progress(loader._batch_sampler)

    def __iter__(self) -> Iterator[Any]:
        loader = self._loader
        for indices in self.progress.begin():
            state = self.progress.now()
            with same_round():  # samples may be looked at one by one
                batch = loader._placed(loader._batchify_fn([loader._dataset[i] for i in indices]))
            if isinstance(batch, End):
                loader._finish()
                return
            self.progress.state = state
            yield batch


class _BatchesAhead(_Batches):
    """The batches of one round, loaded by a pool ahead of their use; the sampler is as far ahead."""

    def __init__(self, loader: DataLoader, pool: ThreadPool | ProcessPool) -> None:
        self._pool = pool
        self._pending: list[tuple[Any, Any]] = []  # the pool's handle of a batch, and the sampler's state after it
        super().__init__(loader)
        self._order = self.progress.begin()
        for _ in range(loader._prefetch):
            self._load_next()

    def _load_next(self) -> None:
        indices = next(self._order, None)
        if indices is not None:
            self._pending.append((self._pool.submit(indices), self.progress.now()))

    def __del__(self) -> None:
        for number, _ in self._pending:
            self._pool.drop(number)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        loader = self._loader
        self._load_next()
        if not self._pending:
            raise StopIteration
        number, state = self._pending.pop(0)
        try:
            batch = self._pool.get(number, loader._timeout)
        except multiprocessing.TimeoutError:
            raise multiprocessing.TimeoutError(
                f"a DataLoader worker {self._pool.kind} returned no batch within {loader._timeout} seconds: the "
                "data set or its transforms are slow (raise timeout=) or hang") from None
        if isinstance(batch, End):
            for number, _ in self._pending:
                self._pool.drop(number)
            self._pending, self._order = [], iter(())
            loader._finish()
            raise StopIteration
        self.progress.state = state
        return loader._placed(batch)

    next = __next__

    def __len__(self) -> int:
        return len(self._loader._batch_sampler)


class DataLoader:
    """Iterates over a data set in batches.

    Args:
        dataset: a Dataset, or anything with `__len__` and `__getitem__`. Or an iterable data set
            (WebDataset, grain's IterDataset, Hugging Face's IterableDataset), which has its own
            order, at most one worker and no known number of batches. Resuming it skips the samples
            that were consumed.
        batch_size: samples in a batch.
        shuffle: draw a new order each epoch.
        sampler: the order, instead of `shuffle`.
        last_batch: "keep", "discard" or "rollover", as in `BatchSampler`.
        batch_sampler: yields the indices of the batches; replaces the four arguments above.
        batchify_fn: function(list of samples) -> batch; default `default_batchify_fn`.
        num_workers: number of workers that load batches ahead of time; 0: batches are loaded on
            demand.
        pin_memory: place the arrays on the context `cpu_pinned(pin_device_id)`.
        pin_device_id: device id of that context.
        prefetch: number of batches to load ahead; by default 2 per worker.
        thread_pool: use threads as workers. By default workers are new processes, or forks of this
            one if the data set cannot be pickled. Each process has a copy of the data set and
            returns batches through shared memory.
        timeout: seconds to wait for a batch.
        auto_reload: prefetch the next epoch's first batches now and at the end of each epoch.
        try_nopython: MXNet 2's switch for its C++ loader. mxjax always loads in Python. As with the
            C++ loader, workers convert NumPy arrays and lists to float32, and the parts of a batch
            are a tuple, unless this is False.
            Ignored at level 1.

    Raises:
        ValueError: arguments conflict, or one is missing.
        AssertionError: `timeout` is not positive.

    The iterator re-raises errors of the data set, with the worker's traceback as the cause. It
    raises MXNetError if a worker dies, and `multiprocessing.TimeoutError` if one is too slow.

    Example:
        >>> [batch.asnumpy().tolist() for batch in DataLoader([1, 2, 3], batch_size=2)]
        [[1, 2], [3]]
    """

    def __init__(self, dataset: Indexed | Iterable[Any], batch_size: int | None = None, shuffle: bool = False,
                 sampler: Sampler | None = None, last_batch: str | None = None, batch_sampler: Sampler | None = None,
                 batchify_fn: Callable | None = None, num_workers: int = 0, pin_memory: bool = False,
                 pin_device_id: int = 0, prefetch: int | None = None, thread_pool: bool = False, timeout: float = 120,
                 auto_reload: bool = False, try_nopython: bool | None = None) -> None:
        self._worker_pool: ThreadPool | ProcessPool | None = None
        if timeout <= 0:
            raise AssertionError(f"timeout must be positive, got {timeout}")
        self._dataset: Any = dataset
        source: Any = dataset  # of the samples
        self._timeout, self._thread_pool = timeout, thread_pool
        self._native = False  # whether MXNet 2 would load with C++: in float32, parts of a batch as a tuple
        self._pin_memory, self._pin_device_id = pin_memory, pin_device_id
        self._batchify_fn = batchify_fn or default_batchify_fn
        self._num_workers = max(num_workers, 0)
        if is_stream(source):
            batches = _stream_batches(source, batch_size, shuffle, sampler, last_batch, batch_sampler)
            self._batch_sampler: Sampler = batches
            self._dataset = source = Stream(source)
            self._batchify_fn = StreamBatchify(self._batchify_fn, batches.size, last_batch or "keep")
            self._num_workers = min(self._num_workers, 1)
        else:
            self._batch_sampler = _batch_sampler(source, batch_size, shuffle, sampler, last_batch, batch_sampler)
            if self._num_workers and try_nopython is not False and level.current() == 2 and self._suits_native():
                source = self._as_native(source)
        self._prefetch = max(0, int(prefetch) if prefetch is not None else 2 * self._num_workers)
        if self._num_workers:
            pool_type = ThreadPool if thread_pool else ProcessPool
            self._worker_pool = pool_type(self._num_workers, source, self._batchify_fn, self._prefetch)
            weakref.finalize(self, self._worker_pool.close)
        self.auto_reload = auto_reload
        self._iter: _Batches | None = None  # begun ahead
        self._round: _Progress | None = None  # of the batches being handed out
        if auto_reload:
            self.refresh()

    def _finish(self) -> None:
        """Raises the end of a data set that can only be iterated over."""
        if isinstance(self._batch_sampler, StreamBatches):
            self._batch_sampler.finish()

    def _suits_native(self) -> bool:
        """Returns whether MXNet 2's loader in C++ supports this sampler and batchify function."""
        batches = self._batch_sampler
        return (type(batches) is BatchSampler and type(batches._sampler) in (SequentialSampler, RandomSampler) and
                (self._batchify_fn is default_batchify_fn or getattr(self._batchify_fn, "_in_cpp", False)))

    def _as_native(self, source: Any) -> Any:
        """Returns the samples as MXNet 2's loader in C++ reads them, or as they are if it cannot."""
        floats = source.in_float32() if isinstance(source, Dataset) else None
        self._native = floats is not None
        return source if floats is None else floats

    def _placed(self, batch: Any) -> Any:
        if self._native and isinstance(batch, list):
            batch = tuple(batch)
        return _as_in_context(batch, cpu_pinned(self._pin_device_id)) if self._pin_memory else batch

    def __iter__(self) -> Iterator[Any]:
        batches = self._iter
        if batches is None or batches.progress.is_stale():
            batches = self._begun()
        self._iter = None  # used once
        self._round = batches.progress
        yield from batches
        self._round = None
        if self._iter is None and self.auto_reload:
            self.refresh()

    def __len__(self) -> int:
        return len(self._batch_sampler)

    def refresh(self) -> None:
        """Starts to load the next epoch's first batches."""
        self._iter = self._begun()

    def _begun(self) -> _Batches:
        """The batches of a new round."""
        return _Batches(self) if self._worker_pool is None else _BatchesAhead(self, self._worker_pool)

    def clean(self) -> None:
        """Discards the batches that were prefetched for the next epoch."""
        self._iter = None

    def state_dict(self) -> dict[str, Any]:
        """Returns the position in the epoch: after the last batch returned, regardless of prefetched batches.

        The state does not include the random numbers of the data set's transforms, and each
        DataLoader seeds its workers anew. Resumed batches are identical bit for bit if a sample
        depends only on its index.

        Returns:
            The data set's length and the samplers' states, as JSON-compatible numbers, strings and
            lists.

        Raises:
            TypeError: a sampler has no `state_dict`; the message names it.

        Example:
            >>> loader = DataLoader([1, 2, 3, 4], batch_size=2, shuffle=True)
            >>> first = next(iter(loader))
            >>> state = loader.state_dict()
            >>> resumed = DataLoader([1, 2, 3, 4], batch_size=2, shuffle=True)
            >>> resumed.load_state_dict(state)
            >>> rest = [batch.asnumpy().tolist() for batch in resumed]
            >>> len(rest), sorted(rest[0] + first.asnumpy().tolist())
            (1, [1, 2, 3, 4])
        """
        sampler = need_state(self._batch_sampler)
        for progress in (self._round, self._iter and self._iter.progress):
            if progress is not None and progress.state is not None and not progress.is_stale():
                return {**self._settings(), "sampler": progress.state}
        return {**self._settings(), "sampler": sampler.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Makes the next iteration return the batches that were left when `state_dict` was called.
        Later epochs are complete.

        Args:
            state: result of `state_dict` of a loader with the same data set and settings. Settings
                that do not change the batches, such as `num_workers`, may differ.

        Raises:
            TypeError: a sampler has no `load_state_dict`; the message names it.
            ValueError: the state belongs to another length or other settings; the message names what
                differs.
        """
        sampler = need_state(self._batch_sampler)
        check_state("DataLoader", state, self._settings(), ("sampler",))
        sampler.load_state_dict(state["sampler"])
        self._round = None
        self.clean()  # and no batch is requested ahead, since the sampler's round may still be set

    def _settings(self) -> dict[str, Any]:
        return {"kind": "DataLoader", "length": len(self._dataset) if hasattr(self._dataset, "__len__") else None}


def _batch_sampler(dataset: Indexed, batch_size: int | None, shuffle: bool, sampler: Sampler | None,
                   last_batch: str | None, batch_sampler: Sampler | None) -> Sampler:
    """Returns the sampler of batches that a DataLoader's arguments describe."""
    if batch_sampler is not None:
        if batch_size is not None or shuffle or sampler is not None or last_batch is not None:
            raise ValueError("batch_size, shuffle, sampler and last_batch must not be specified if batch_sampler is "
                             "specified")
        return batch_sampler
    if batch_size is None:
        raise ValueError("batch_size must be specified unless batch_sampler is specified")
    if sampler is None:
        sampler = RandomSampler(len(dataset)) if shuffle else SequentialSampler(len(dataset))
    elif shuffle:
        raise ValueError("shuffle must not be specified if sampler is specified")
    return BatchSampler(sampler, batch_size, last_batch or "keep")


def _stream_batches(dataset: Iterable[Any], batch_size: int | None, shuffle: bool, sampler: Sampler | None,
                    last_batch: str | None, batch_sampler: Sampler | None) -> StreamBatches:
    """The same for a data set that can only be iterated over."""
    if shuffle or sampler is not None or batch_sampler is not None:
        raise ValueError(f"{type(dataset).__name__} is an iterable data set, which defines its own order: shuffle, "
                         "sampler and batch_sampler must not be specified")
    if batch_size is None or batch_size < 1:
        raise ValueError(f"batch_size must be specified, 1 or more; got {batch_size}")
    if last_batch not in (None, "keep", "discard"):
        raise ValueError(f"{type(dataset).__name__} is an iterable data set: last_batch must be 'keep' or "
                         f"'discard', got {last_batch!r}")
    return StreamBatches(batch_size)


class DataLoaderV1(DataLoader):
    """The name and arguments of the first version; see `DataLoader`."""

    def __init__(self, dataset: Indexed | Iterable[Any], batch_size: int | None = None, shuffle: bool = False,
                 sampler: Sampler | None = None, last_batch: str | None = None, batch_sampler: Sampler | None = None,
                 batchify_fn: Callable | None = None, num_workers: int = 0, pin_memory: bool = False,
                 pin_device_id: int = 0) -> None:
        super().__init__(dataset, batch_size, shuffle, sampler, last_batch, batch_sampler, batchify_fn, num_workers,
                         pin_memory, pin_device_id)
