"""Records for iterators: from an indexed file in any order, or from files read from begin to end; parts of them."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import numpy as np

from ..base import MXNetError
from ..recordio import MXIndexedRecordIO, MXRecordIO
from .state import part_of

__all__ = ["IndexedRecords", "Record", "StreamedRecords", "open_records"]

_MAGIC = np.uint32(0xCED7230A)
_CHUNK = 64 << 20  # bytes of records that are shuffled together where there is no index


class Record(NamedTuple):
    """A record: its bytes, and where they come from, for messages."""

    content: bytes
    file: str
    place: str


class IndexedRecords:
    """One part of the records of an indexed file, in the file's order or shuffled anew each round.

    A round's order follows from the seed and the round's number alone, here as in `StreamedRecords`.
    """

    def __init__(self, path: str, index: str, part_index: int, num_parts: int, shuffle: bool, seed: int) -> None:
        self._file = MXIndexedRecordIO(index, path, "r")
        keys = sorted(self._file.keys, key=self._file.idx.__getitem__)
        self.extent = {"records": len(keys)}
        self._keys = keys[part_of(len(keys), num_parts, part_index)]
        self._seed = seed if shuffle else None

    def round(self, number: int, start: int = 0) -> Iterator[Record]:
        """The records of a round, from one on."""
        order = range(len(self._keys)) if self._seed is None else \
            _random(self._seed, number).permutation(len(self._keys))
        for i in order[start:]:
            key = self._keys[i]
            yield Record(self._file.read_idx(key), self._file.uri, f"record {key}")


def _random(seed: int, number: int) -> np.random.RandomState:
    """The generator of a round."""
    return np.random.RandomState([seed & 0xFFFFFFFF, number])


class StreamedRecords:
    """One part of the bytes of files, from begin to end; in shuffled pieces, shuffled within larger ones."""

    def __init__(self, paths: list[str], part_index: int, num_parts: int, shuffle: bool, seed: int, chunk_size: int,
                 chunk_seed: int) -> None:
        self._paths = paths
        self._ends = np.cumsum([os.path.getsize(path) for path in paths])
        self.extent = {"bytes": int(self._ends[-1])}
        self._seed, self._chunk_seed = seed if shuffle else None, chunk_seed
        pieces = math.ceil(self._ends[-1] * 1.1 / (num_parts * (chunk_size << 20))) if chunk_size else 1
        self._pieces = [(part_index * pieces + i, num_parts * pieces) for i in range(pieces)]
        self._chunk = chunk_size << 17 or _CHUNK

    def round(self, number: int, start: int = 0) -> Iterator[Record]:
        """The records of a round, from one on; those before it are read too."""
        order = range(len(self._pieces)) if len(self._pieces) == 1 else \
            _random(self._chunk_seed, number).permutation(len(self._pieces))
        records = (record for i in order for record in self._read(*self._pieces[i]))
        return islice(records if self._seed is None else self._shuffled(records, _random(self._seed, number)),
                      start, None)

    def _shuffled(self, records: Iterator[Record], random: np.random.RandomState) -> Iterator[Record]:
        held, size = [], 0
        for record in records:
            held.append(record)
            size += len(record.content)
            if size >= self._chunk:
                random.shuffle(held)
                yield from map(Record._make, held)
                held, size = [], 0
        random.shuffle(held)
        yield from map(Record._make, held)

    def _read(self, number: int, count: int) -> Iterator[Record]:
        """The records that begin in piece `number` of `count` equal pieces of all bytes."""
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
                    yield Record(file.read(), path, f"the record at offset {position}")


def _next_record(path: str, position: int) -> int:
    """Where the first record at or behind a position begins; the file's size where there is none."""
    size = os.path.getsize(path)
    if position == 0 or position >= size:
        return position
    words = np.memmap(path, np.dtype("<u4"), "r", shape=(size // 4,))
    for first in range(position // 4, len(words), 1 << 16):
        block = words[first:first + (1 << 16) + 1]
        found = np.flatnonzero((block[:-1] == _MAGIC) & (block[1:] >> 29 <= 1))
        if len(found):
            return (first + int(found[0])) * 4
    return size


def open_records(path: str, index: str, part_index: int, num_parts: int, shuffle: bool, seed: int,
                 chunk_size: int = 0, chunk_seed: int = 0) -> IndexedRecords | StreamedRecords:
    """The records of one part; `round(number)` gives those of a round.

    Args:
        path: the record file; without an index also several, with ";" between them, or a folder.
        index: the index file, or "".
        part_index, num_parts: which part of how many.
        shuffle: another order each round: of all records where there is an index, else of 64 MB at a time.
        seed: of the shuffling.
        chunk_size: without an index: MB of the pieces whose order is shuffled as well; 0: one piece.
        chunk_seed: of that.

    Raises:
        MXNetError: a file is not there, or the part is none.
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
            raise MXNetError(f"cannot open record file {name!r}: there is no such file")
    if not any(map(os.path.getsize, paths)):
        raise MXNetError(f"{path}: there are no records, the files are empty")
    return StreamedRecords(paths, part_index, num_parts, shuffle, seed, chunk_size, chunk_seed)
