"""Batches of records, decoded ahead of their use: by threads, or, where there are many, by processes."""

from __future__ import annotations

import logging
import multiprocessing
import os
import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from .._support import images as _host
from .._xla.process import check_home
from ..base import MXNetError
from ..workers.pool import ProcessPool
from ..workers.transport import Shared
from ._draws import Draws, Random
from .image_parameters import DetParameters, ImageParameters
from .record_source import Contents, Record, open_records
from .state import READ_AHEAD, check_count, filled_ahead

__all__ = ["Load", "RecordBatches"]

Load = Callable[[bytes, Draws | Random, np.ndarray, np.ndarray], int]  # a record, its row of data, of labels -> index

_log = logging.getLogger(__name__)
_THREADS = 4  # more wait for Python's lock: 4 decode 2050 pictures a second, 8 1570; 15 processes 7310
_BEGUN = 2  # batches that were asked for, when processes are started: they take a second, and memory
_COPIED = 8 << 20  # bytes of a batch up to which it is copied out of shared memory, which takes file descriptors
_PATIENCE = 600.0  # seconds for one request to a process
_MORE = 4  # batches that a script may have beside those that are loaded ahead, whose memory is used again
_ALIGN = 64


class _Arrays(NamedTuple):
    """The arrays of a batch."""

    data: np.ndarray
    label: np.ndarray
    numbers: np.ndarray  # of the samples


class _Share(NamedTuple):
    """The part of a batch that one decoder makes: records, (round, number in it) of each, and the row of the first."""

    records: list[Record]
    numbers: list[tuple[int, int]]
    first: int
    memory: Shared | None = None  # the batch, for another process

    def __repr__(self) -> str:
        return f"{self.records[0].file}: {self.records[0].place} to {self.records[-1].place}"


class _Decoder:
    """Fills rows of batches.

    Args:
        p: the iterator's parameters.
        label_width: values of a label.
        load: function that fills a row.
        dtype: of the data.
    """

    def __init__(self, p: ImageParameters | DetParameters, label_width: int, load: Load, dtype: Any) -> None:
        self._p, self._load, self._contents = p, load, Contents()
        parts = [((p.batch_size, *p.data_shape), np.dtype(dtype)), ((p.batch_size, label_width), np.dtype(np.float32)),
                 ((p.batch_size,), np.dtype(np.uint64))]
        self._layout, self._size = [], 0
        for shape, part_dtype in parts:
            self._layout.append((self._size, shape, part_dtype))
            self._size += -(-int(np.prod(shape)) * part_dtype.itemsize // _ALIGN) * _ALIGN

    def arrays(self, memory: Shared | None = None) -> _Arrays:
        """Returns the arrays of a new batch of zeros, or of a batch in shared memory."""
        return _Arrays(*[np.zeros(shape, dtype) if memory is None else memory.array(offset, shape, dtype)
                         for offset, shape, dtype in self._layout])

    def room(self, known: deque[Shared]) -> Shared:
        """Returns memory for a batch: that of a dropped batch, or new memory."""
        for memory in list(known):
            if memory.is_free:
                known.remove(memory)
                return memory
        return Shared(self._size)

    def __getitem__(self, share: _Share) -> None:
        """Fills the share's rows, as a data set does in a worker process."""
        self.fill(self.arrays(share.memory), share)

    def fill(self, batch: _Arrays, share: _Share) -> None:
        """Fills the share's rows."""
        p = self._p
        for i, (record, (turn, number)) in enumerate(zip(share.records, share.numbers, strict=True)):
            row = share.first + i
            rng = Random(f"{p.seed}/{turn}/{number}") if p.seed_aug is None else \
                Draws(p.added_to_seed + p.seed_aug + self._place(record, row))
            try:
                batch.numbers[row] = self._load(self._contents(record), rng, batch.data[row], batch.label[row])
            except (MXNetError, ValueError, _host.cv2().error) as error:
                raise MXNetError(f"{record.file}, {record.place}: {error}") from error

    def _place(self, record: Record, row: int) -> int:
        """MXNet's number for a record among those that it reads together: a batch with an index, else a chunk.

        A chunk is counted from the row of the batch that it begins in; or behind the batch, where it is shuffled.
        """
        if record.number is None:
            return row
        return record.number + (self._p.batch_size if self._p.shuffle else (row - record.number) % self._p.batch_size)


class _Loading:
    """A batch that is being filled.

    Args:
        arrays: to be filled.
        pad: number of filling samples.
        wrapped: whether they are the next round's first ones.
        end: (round, number in it) of the record behind the batch.
        memory: where the arrays lie, if other processes fill them.
    """

    def __init__(self, arrays: _Arrays, pad: int, wrapped: bool, end: tuple[int, int], memory: Shared | None) -> None:
        self.arrays, self.pad, self.wrapped, self.end, self.memory = arrays, pad, wrapped, end, memory
        self.parts: list[Callable[[], Any]] = []  # wait for each
        self.drop: list[Callable[[], Any]] = []  # for results that nobody requests

    def wait(self) -> None:
        """Comes back when it is filled, and lies in memory of its own, or much of it."""
        for part in self.parts:
            part()
        if self.memory is not None and self.arrays.data.nbytes < _COPIED:
            self.arrays = _Arrays(*map(np.copy, self.arrays))


def _decoded(processes: ProcessPool, number: int, what: str) -> None:
    """Waits for a process; not a method, so that dropping an iterator ends its processes at once."""
    try:
        processes.get(number, _PATIENCE)
    except multiprocessing.TimeoutError:
        raise MXNetError(f"{what}: a process has not decoded its share of a batch within {_PATIENCE:.0f} seconds"
                         ) from None


def _shut_down(*pools: ThreadPoolExecutor) -> None:
    for pool in pools:
        pool.shutdown(wait=False, cancel_futures=True)


class RecordBatches:
    """Batches of the records in files; a `Source`.

    Args:
        p: the iterator's parameters.
        label_width: values of a label.
        load: function that fills a row of data and label; each record has its own random numbers.
        dtype: of the data.
        owner: name of the iterator, for messages.
    """

    def __init__(self, p: ImageParameters | DetParameters, label_width: int, load: Load, dtype: Any,
                 owner: str) -> None:
        self.batch_size, self._p, self._owner = p.batch_size, p, owner
        self._decoder = _Decoder(p, label_width, load, dtype)
        self._records = open_records(p.path_imgrec, p.path_imgidx, p.part_index, p.num_parts, p.shuffle,
                                     p.added_to_seed + p.seed, p.shuffle_chunk_size, p.shuffle_chunk_seed)
        self._home, self._threads = os.getpid(), min(p.threads, _THREADS)
        self._reader = ThreadPoolExecutor(1, "records")
        self._decoders = ThreadPoolExecutor(self._threads, "decode")
        weakref.finalize(self, _shut_down, self._reader, self._decoders)
        self._processes: ProcessPool | None = None
        self._first: int | None = None  # first request to the processes, until it is done
        # where batches were, in memory that is mapped already; only whole ones: of others some process may
        # still be writing rows
        self._rooms: deque[Shared] = deque(maxlen=max(p.prefetch_buffer, 1) + _MORE)
        self._given = 0
        self.extent = self._records.extent
        self._ahead: deque[Future] = deque()
        self._current: _Loading | None = None
        self._end, self._wrapped = (0, 0), False  # end of the requested rows, and whether it ends the epoch
        self._begin_round(0)  # from here on the reader's thread keeps the round: it is ahead
        self._ended = False
        self._read_ahead()

    def _read_ahead(self) -> None:
        while len(self._ahead) < max(self._p.prefetch_buffer, 1):
            self._ahead.append(self._reader.submit(self._read))

    def _read(self) -> _Loading | None:
        """Reads the next batch's records and has them decoded; None if the round is over. In the reader's thread."""
        if self._ended:
            return None
        records = list(islice(self._round, self.batch_size))
        missing = self.batch_size - len(records)
        if missing:
            self._ended = True
        if not records:
            return None
        wrapped = bool(missing) and self._p.round_batch
        numbers = self._take_numbers(len(records))
        if wrapped:
            self._begin_round(self._rounds + 1)
            rest = list(islice(self._round, missing))
            if len(rest) < missing:
                raise MXNetError(f"number of input images must be bigger than the batch size {self.batch_size} in "
                                 f"{self._p.path_imgrec}")
            records += rest
            numbers += self._take_numbers(len(rest))
        processes = self._processes if self._started() else None
        memory = None if processes is None else self._decoder.room(self._rooms)
        batch = _Loading(self._decoder.arrays(memory), missing, wrapped, (self._rounds, self._number), memory)
        for array in batch.arrays:
            array[len(records):] = 0
        size = -(-len(records) // (self._threads if processes is None else self._p.threads))
        for begin in range(0, len(records), size):
            share = _Share(records[begin:begin + size], numbers[begin:begin + size], begin, memory)
            if processes is None:
                batch.parts.append(self._decoders.submit(self._decoder.fill, batch.arrays, share).result)
            else:
                number = processes.submit([share])
                batch.parts.append(partial(_decoded, processes, number, f"{self._owner} of {self._p.path_imgrec}"))
                batch.drop.append(partial(processes.drop, number))
        return batch

    def _started(self) -> bool:
        """Returns whether there are processes that decode; they are started where that is worth while, and take a
        while.
        """
        if self._processes is None and (self._p.threads <= _THREADS or self._given < _BEGUN):
            return False
        try:
            if self._processes is None:
                self._processes = ProcessPool(self._p.threads, self._decoder, len,  # they return a number
                                              self._p.threads * max(self._p.prefetch_buffer, 1), self._owner)
                weakref.finalize(self, self._processes.close)
                self._first = self._processes.submit([])
            if self._first is not None and self._processes.is_done(self._first):
                self._processes.get(self._first, 0)
                self._first = None
        except (MXNetError, OSError, TypeError) as error:  # there can be none here
            _log.warning("%s decodes with %d threads instead of processes: %s", self._owner, self._threads, error)
            if self._processes is not None:
                self._processes.close()
            self._processes, self._first, self._given = None, None, -sys.maxsize
        return self._processes is not None and self._first is None

    def _take_numbers(self, count: int) -> list[tuple[int, int]]:
        """(round, number in it) of the next records."""
        first = self._number
        self._number += count
        return [(self._rounds, number) for number in range(first, self._number)]

    def _begin_round(self, number: int, start: int = 0) -> None:
        self._round: Iterator[Record] = self._records.round(number, start)
        self._rounds, self._number = number, start

    def next(self) -> bool:
        """Moves to the next batch; returns whether there is one."""
        check_home(self._home, f"{self._owner} cannot go on")
        self._read_ahead()
        batch = self._ahead.popleft().result()
        if batch is None:
            return False
        self._current = batch
        self._end, self._wrapped = batch.end, batch.wrapped
        self._given += 1
        batch.wait()
        if batch.memory is not None:
            self._rooms.append(batch.memory)
        self._read_ahead()
        return True

    def batch(self) -> tuple[np.ndarray, np.ndarray, int, np.ndarray]:
        """Data, labels, number of filling samples, and the samples' numbers."""
        if self._current is None:
            raise MXNetError(f"{self._owner} has no current batch: call next() first")
        data, label, index = self._current.arrays
        return data, label[:, 0] if label.shape[1] == 1 else label, self._current.pad, index

    def position(self) -> dict[str, Any]:
        """The round and the number in it of the record behind the current batch; whether the epoch is over there."""
        return {"round": self._end[0], "number": self._end[1], "wrapped": self._wrapped}

    def go_to(self, position: dict[str, Any]) -> None:
        """Moves to the position after a batch."""
        turn, number = (check_count("an iterator over records", name, position[name]) for name in ("round", "number"))
        self._restart(turn, number, bool(position["wrapped"]))

    def reset(self) -> None:
        """Moves before the first batch; after the samples that filled the last one, if there were any."""
        turn, number = self._end
        if not self._wrapped:
            turn, number = turn + 1, self._filled_ahead() if self._p.round_batch else 0
        self._restart(turn, number, False)

    def _filled_ahead(self) -> int:
        """Returns how many of the next round's records prefetching has used in the last batch of this round."""
        def left() -> int:  # in the reader's thread
            records = islice(self._records.round(*self._end), (READ_AHEAD + 1) * self.batch_size)
            try:
                return sum(1 for _ in records)
            except MXNetError:  # a damaged record that was not reached
                return 0
        for ahead in self._ahead:
            ahead.cancel()
        return filled_ahead(self._reader.submit(left).result(), self.batch_size)

    def _restart(self, turn: int, number: int, ended: bool) -> None:
        """Reads on from a record of a round, or nothing where the epoch is over there."""
        check_home(self._home, f"{self._owner} cannot go on")
        def begin() -> None:  # in the reader's thread
            self._begin_round(turn, number)
            self._ended = ended
        for ahead in self._ahead:
            ahead.cancel()
        self._reader.submit(begin).result()
        for ahead in self._ahead:  # the reader is done with all of them
            batch = None if ahead.cancelled() or ahead.exception() else ahead.result()
            for drop in batch.drop if batch is not None else ():
                drop()
        self._ahead.clear()
        self._current, self._end, self._wrapped = None, (turn, number), ended
        self._read_ahead()
