"""Records for iterators: from an indexed file in any order, or from files that are read sequentially; also parts."""

from __future__ import annotations

import math
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from .._random.mersenne import Words, below, limits_of_order, order, words_of
from ..base import MXNetError
from ..recordio import MXIndexedRecordIO, MXRecordIO
from .state import part_of

__all__ = ["Contents", "IndexedRecords", "Record", "StreamedRecords", "open_records"]

_MAGIC = np.uint32(0xCED7230A)
_CHUNK = 8 << 20  # bytes of records that are shuffled together where there is no index, as in MXNet
_HEADER = 8  # bytes of a record's
_SEED_OF_PIECES = 666  # MXNet adds it to the seed


class Record(NamedTuple):
    """A record: its bytes, or where it is in its file (offset, bytes to the next one that is known); where it comes
    from, for messages; and its number in its chunk, where there is no index.
    """

    content: bytes | tuple[int, int]
    file: str
    place: str
    number: int | None = None


class Contents:
    """Gives records' bytes, to several threads; in another process it opens the files anew."""

    def __init__(self) -> None:
        self._files: dict[str, MXRecordIO] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple:
        return Contents, ()

    def __call__(self, record: Record) -> bytes:
        """Returns the bytes of a record.

        Raises:
            MXNetError: the file is damaged; the message names the place.
        """
        if isinstance(record.content, bytes):
            return record.content
        with self._lock:
            file = self._files.get(record.file)
            if file is None:
                file = self._files[record.file] = MXRecordIO(record.file, "r")
        return file.read_at(*record.content)


class _Rounds(ABC):
    """One part of records, in the order of the files or shuffled anew each round, as MXNet shuffles them.

    A twister gives the orders of one round after the other, so a round's follows from the seed and the round's number.

    Args:
        seed: of the twister; None: nothing is shuffled.
    """

    def __init__(self, seed: int | None) -> None:
        self._seed = seed
        self._at: int | None = None  # the round whose orders the words give next
        self._words: Words

    @abstractmethod
    def round(self, number: int, start: int = 0) -> Iterator[Record]:
        """The records of a round, from one on."""

    @abstractmethod
    def _lengths(self, number: int) -> Iterable[int]:
        """Returns how many records are shuffled together, in turn, in a round."""

    def _twister(self, number: int, seed: int) -> Words:
        """Yields the random words for the orders of rounds; a caller that takes all of them sets `_at`."""
        if self._at is None or number < self._at:
            self._words, self._at = words_of(seed), 0
        while self._at < number:
            for length in self._lengths(self._at):
                below(self._words, limits_of_order(length))
            self._at += 1
        self._at = None
        return self._words


class IndexedRecords(_Rounds):
    """The records of an indexed file, shuffled as a whole."""

    def __init__(self, path: str, index: str, part_index: int, num_parts: int, shuffle: bool, seed: int) -> None:
        super().__init__(seed if shuffle else None)
        with MXIndexedRecordIO(index, path, "r") as file:
            self._path, keys = file.uri, sorted(file.keys, key=file.idx.__getitem__)
            begins = [file.idx[key] for key in keys]
        self.extent = {"records": len(keys)}
        step = -(-len(keys) // num_parts)  # as MXNet, where that leaves no part empty
        part = slice(part_index * step, (part_index + 1) * step) if step * (num_parts - 1) < len(keys) else \
            part_of(len(keys), num_parts, part_index)
        self._keys = keys[part]
        self._spans = [(begin, end - begin) for begin, end in zip(begins, begins[1:] + begins[-1:], strict=True)][part]

    def round(self, number: int, start: int = 0) -> Iterator[Record]:
        """The records of a round, from one on."""
        places: Sequence[int] = range(len(self._keys))
        if self._seed is not None:
            places = order(self._twister(number, self._seed), len(places))
            self._at = number + 1
        for i in places[start:]:
            yield Record(self._spans[i], self._path, f"record {self._keys[i]}")

    def _lengths(self, number: int) -> Iterable[int]:
        return [len(self._keys)]


class StreamedRecords(_Rounds):
    """The records of files, from begin to end; in shuffled pieces, and shuffled within chunks of these."""

    def __init__(self, paths: list[str], part_index: int, num_parts: int, shuffle: bool, seed: int, chunk_size: int,
                 chunk_seed: int) -> None:
        super().__init__(seed if shuffle else None)
        self._paths = paths
        self._ends = np.cumsum([os.path.getsize(path) for path in paths])
        self.extent = {"bytes": int(self._ends[-1])}
        pieces = math.ceil(self._ends[-1] * 1.1 / (num_parts * (chunk_size << 20))) if chunk_size else 1
        self.pieces = [(part_index * pieces + i, num_parts * pieces) for i in range(pieces)]
        self._seed_of_pieces = _SEED_OF_PIECES + part_index + num_parts + pieces + chunk_seed
        self._order_of: int | None = None  # the round whose order of pieces the next is
        self._counts: dict[int, list[int]] = {}  # of the records in a piece's chunks, where they are known

    def round(self, number: int, start: int = 0) -> Iterator[Record]:
        """The records of a round, from one on; those before it are read too."""
        words = None if self._seed is None else self._twister(number, self._seed)
        for i in self._order(number):
            for chunk in self.chunks(i):
                places = range(len(chunk)) if words is None else order(words, len(chunk))
                for place in places[start:]:
                    yield chunk[place]._replace(number=place)
                start = max(start - len(chunk), 0)
        self._at = number + 1

    def _lengths(self, number: int) -> Iterable[int]:
        for i in self._order(number):
            if i not in self._counts:
                for _ in self.chunks(i):
                    pass
            yield from self._counts[i]

    def _order(self, number: int) -> list[int]:
        """Returns the order of the pieces in a round, which is that of the round before, shuffled."""
        if self._order_of is None or number < self._order_of:
            self._order_of, self._next = -1, list(range(len(self.pieces)))
            self._words_of_pieces = words_of(self._seed_of_pieces)
        while self._order_of < number:
            self._next = [self._next[i] for i in order(self._words_of_pieces, len(self._next))]
            self._order_of += 1
        return self._next

    def chunks(self, piece: int) -> Iterator[list[Record]]:
        """Returns the groups that are shuffled: records that begin within so many bytes, but for the last of them.

        MXNet reads that one in part, and begins the next chunk with it, unless nothing comes behind it.
        """
        chunk: list[Record] = []
        begins: list[int] = []
        counts, room, end = [], _CHUNK, 0
        damage: list[MXNetError] = []
        for result in chain(_as_far_as_possible(self._read(piece), damage), [None]):
            reach = end + 1 if result is None else result[0] + _HEADER
            while chunk and reach > begins[0] + room:
                if len(chunk) == 1:
                    room *= 2
                    continue
                yield chunk[:-1]
                counts.append(len(chunk) - 1)
                chunk, begins, room = chunk[-1:], begins[-1:], _CHUNK
            if result is not None:
                begin, end, record = result
                begins.append(begin)
                chunk.append(record)
        if chunk:
            yield chunk
            counts.append(len(chunk))
        if damage:
            raise damage[0]
        self._counts[piece] = counts

    def _read(self, piece: int) -> Iterator[tuple[int, int, Record]]:
        """(place in all files, that of its end, the record) of those that begin in a piece."""
        number, count = self.pieces[piece]
        total = int(self._ends[-1])
        step = math.ceil(total / count / 4) * 4
        begin, end = min(step * number, total), min(step * (number + 1), total)
        for path, file_end in zip(self._paths, self._ends.tolist(), strict=True):
            file_begin = file_end - os.path.getsize(path)
            if begin >= file_end or end <= file_begin:
                continue
            with MXRecordIO(path, "r") as file:
                file.handle.seek(_next_record(path, max(begin - file_begin, 0)))
                while (position := file.handle.tell()) < min(end, file_end) - file_begin:
                    data = file.read()
                    if data is None:  # the file has become shorter
                        break
                    record = Record(data, path, f"the record at offset {position}")
                    yield file_begin + position, file_begin + file.handle.tell(), record


def _as_far_as_possible(items: Iterator[Any], damage: list[MXNetError]) -> Iterator[Any]:
    """Yields the records before damage, which is added to a list."""
    try:
        yield from items
    except MXNetError as error:
        damage.append(error)


def _next_record(path: str, position: int) -> int:
    """Returns where the first record at or behind a position begins; the file's size where there is none."""
    size = os.path.getsize(path)
    if position == 0 or position >= size:
        return position
    words = np.memmap(path, np.dtype("<u4"), "r", shape=(size // 4,))
    for first in range(position // 4, len(words), 1 << 16):
        block = words[first:first + (1 << 16) + 1]
        result = np.flatnonzero((block[:-1] == _MAGIC) & (block[1:] >> 29 <= 1))
        if len(result):
            return (first + int(result[0])) * 4
    return size


def open_records(path: str, index: str, part_index: int, num_parts: int, shuffle: bool, seed: int,
                 chunk_size: int = 0, chunk_seed: int = 0) -> IndexedRecords | StreamedRecords:
    """Opens the records of one part; `round(number)` returns those of a round.

    Args:
        path: the record file; without an index also several files, separated by ";", or a directory.
        index: the index file, or "".
        part_index, num_parts: index of the part, and number of parts.
        shuffle: whether to shuffle in each round: all records if there is an index, else within chunks of 64 MB.
        seed: seed of the shuffling, including MXNet's offset to the seed of the user.
        chunk_size: without an index: MB of the pieces whose order is shuffled as well; 0: one piece.
        chunk_seed: of that.

    Raises:
        MXNetError: a file is missing, or the part is invalid.
    """
    if not 0 <= part_index < num_parts:
        raise MXNetError(f"part_index must be from 0 to {num_parts - 1}, got {part_index}")
    if index:
        return IndexedRecords(path, index, part_index, num_parts, shuffle, seed)
    paths: list[str] = []
    for name in path.split(";"):
        if os.path.isdir(name):
            paths += sorted(os.path.join(name, inner) for inner in os.listdir(name))
        elif os.path.exists(name):
            paths.append(name)
        else:
            raise MXNetError(f"cannot open record file {name!r}: the file does not exist")
    if not any(map(os.path.getsize, paths)):
        raise MXNetError(f"{path}: there are no records; the files are empty")
    return StreamedRecords(paths, part_index, num_parts, shuffle, seed, chunk_size, chunk_seed)
