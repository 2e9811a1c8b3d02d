"""`python -m mxjax im2rec`: image lists and record files from them, with the options of MXNet's tools/im2rec.py.

    python -m mxjax im2rec --list --recursive --train-ratio 0.9 data/flowers pictures/   # data/flowers_train.lst ...
    python -m mxjax im2rec --resize 256 --num-thread 4 data/flowers pictures/            # .rec and .idx for each list

A list has a line for each picture: number, label (or several), path, with tabs between. Pictures are decoded and
packed by several processes and written in the list's order. An unreadable image is reported, left out and listed in a
`.bad` file. An interrupted run goes on where it stopped (`--resume`).
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":  # started by its path, as MXNet's tools/im2rec.py is
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    sys.argv.insert(1, "im2rec")
    import runpy
    runpy.run_module("mxjax", run_name="__main__", alter_sys=True)
    sys.exit()

import argparse
import collections
import json
import multiprocessing
import random
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple

from .._support.files import numbered_lines, reading, replacing, write_file
from ..base import MXNetError
from ..recordio import IRHeader, MXRecordIO, pack_img
from ..recordio import pack as pack_record

__all__ = ["Item", "add_arguments", "list_images", "main", "make_lists", "pack", "read_list", "write_list"]


class Item(NamedTuple):
    """A line of a list: number, path below the root, labels."""

    number: int
    path: str
    labels: tuple[float, ...]


# -------------------------------------------------------------------- lists
def list_images(root: str, recursive: bool, exts: Iterable[str]) -> Iterator[Item]:
    """The pictures of a folder, sorted by name.

    Args:
        root: the folder.
        recursive: folders below too, each with a label of its own (printed); else all labels are 0.
        exts: endings of names, in lower case.

    Raises:
        MXNetError: there is no such folder.
    """
    if not os.path.isdir(root):
        raise MXNetError(f"im2rec: the folder {root} does not exist")
    exts, count, labels = set(exts), 0, {}
    for folder, below, names in os.walk(root, followlinks=True):
        below.sort()
        for name in sorted(names):
            if os.path.splitext(name)[1].lower() in exts and os.path.isfile(os.path.join(folder, name)):
                label = labels.setdefault(folder, len(labels)) if recursive else 0
                yield Item(count, os.path.relpath(os.path.join(folder, name), root), (float(label),))
                count += 1
        if not recursive:
            break
    for folder, label in labels.items():
        print(os.path.relpath(folder, root), label)


def write_list(path: str, items: Iterable[Item]) -> None:
    """Writes a list."""
    with replacing(path, "w") as file:
        for item in items:
            file.write("\t".join([str(item.number), *(f"{label:f}" for label in item.labels), item.path]) + "\n")


def read_list(path: str) -> Iterator[Item]:
    """The items of a list; lines that are wrong are reported and left out."""
    for number, line in numbered_lines(path, "an image list", "utf-8"):
        fields = [field.strip() for field in line.strip().split("\t")]
        try:
            if len(fields) < 3:
                raise ValueError(f"expected at least 3 fields (number, label, path), got {len(fields)}")
            yield Item(int(fields[0]), fields[-1], tuple(map(float, fields[1:-1])))
        except ValueError as error:
            print(f"{path}, line {number}: {error}", file=sys.stderr)


def make_lists(prefix: str, items: list[Item], *, chunks: int, train_ratio: float, test_ratio: float,
               shuffle: bool) -> list[str]:
    """Writes lists for training, validation and test; returns their paths.

    Args:
        prefix: beginning of the paths; followed by the number of the chunk and by _train, _val, _test.
        items: the pictures.
        chunks: number of equal parts, each with its lists.
        train_ratio, test_ratio: parts for training and test; the rest is for validation.
        shuffle: mix the items (always in the same way).

    Raises:
        MXNetError: ratios or chunks are out of range, or there are no pictures.
    """
    if chunks < 1 or not 0 <= train_ratio <= 1 or not 0 <= test_ratio <= 1 or train_ratio + test_ratio > 1 + 1e-9:
        raise MXNetError(f"im2rec: {chunks} chunks, train ratio {train_ratio}, test ratio {test_ratio}: expected at "
                         "least one chunk, and ratios from 0 to 1 whose sum is at most 1")
    if not items:
        raise MXNetError("im2rec: no images with these extensions (--exts) were found; --recursive searches subfolders")
    items = list(items)
    if shuffle:
        random.Random(100).shuffle(items)
    size, written = -(-len(items) // chunks), []
    for i in range(chunks):
        chunk = items[i * size:(i + 1) * size]
        tests, trains = int(size * test_ratio), int(size * train_ratio)
        parts = {"": chunk} if train_ratio == 1.0 else {
            "_test": chunk[:tests] if test_ratio else None, "_train": chunk[tests:tests + trains],
            "_val": chunk[tests + trains:] if train_ratio + test_ratio < 1.0 else None}
        for part, members in parts.items():
            if members is not None:
                written.append(f"{prefix}{f'_{i}' if chunks > 1 else ''}{part}.lst")
                write_list(written[-1], members)
    return written


# -------------------------------------------------------------------- packing
def _packed(options: dict[str, Any], item: Item) -> tuple[bytes | None, str]:
    """Returns an image's record, or None and the error. Runs in a worker process."""
    path = os.path.join(options["root"], item.path)
    first, *more = item.labels
    header = IRHeader(0, [first, *more] if more and options["pack_label"] else first, item.number, 0)
    try:
        if options["pass_through"]:
            with open(path, "rb") as file:
                return pack_record(header, file.read()), ""
        import cv2
        picture = cv2.imread(path, options["color"]) if os.path.isfile(path) else None
        if picture is None:
            return None, "there is no such file" if not os.path.isfile(path) else "it is no picture, or damaged"
        height, width = picture.shape[:2]
        if options["center_crop"] and height != width:
            side = min(height, width)
            top, left = (height - side) // 2, (width - side) // 2
            picture, height, width = picture[top:top + side, left:left + side], side, side
        if options["resize"]:
            side = options["resize"]
            size = (side, height * side // width) if height > width else (width * side // height, side)
            picture = cv2.resize(picture, size)
        return pack_img(header, picture, quality=options["quality"], img_fmt=options["encoding"]), ""
    except Exception as error:  # whatever is wrong with one picture, the others are to be packed
        return None, f"{type(error).__name__}: {error}"


class _State:
    """The progress of a packing: a small file beside the record file, removed when all is done."""

    def __init__(self, path: str) -> None:
        self.path = path

    def load(self) -> dict[str, Any] | None:
        try:
            with open(self.path, encoding="utf-8") as file:
                result = json.load(file)
        except (OSError, ValueError, RecursionError):
            return None
        return result if isinstance(result, dict) else None

    def save(self, **values: Any) -> None:
        write_file(self.path, json.dumps(values))


def pack(list_path: str, root: str, *, num_thread: int = 1, resize: int = 0, center_crop: bool = False,
         quality: int = 95, color: int = 1, encoding: str = ".jpg", pass_through: bool = False,
         pack_label: bool = False, resume: bool = False, progress: bool = True) -> tuple[int, list[str]]:
    """Writes the .rec and .idx files of a list.

    They are begun anew and grow while packing, so that an interrupted run can go on with them.

    Args:
        list_path: the .lst file; the others lie beside it.
        root: folder that paths in the list begin from.
        num_thread: number of processes that decode and pack.
        resize: length of the shorter edge, pixels; 0: as they are.
        center_crop: crop the square in the center.
        quality: of JPEG, 1 to 100; or the compression of PNG, 1 to 9.
        color: 1 colour, 0 grey, -1 as in the file (with transparency).
        encoding: ".jpg" or ".png".
        pass_through: pack the files as they are.
        pack_label: pack all labels of a line, not only the first.
        resume: continue the files of an interrupted run.
        progress: show how far it is.

    Returns:
        Number of images packed by this run, and the omitted ones with the reasons.

    Raises:
        MXNetError: an option is out of range, or OpenCV is missing.
    """
    most = 9 if encoding == ".png" else 100
    if not 1 <= quality <= most:
        if encoding == ".png" and quality == 95:  # MXNet's default is meant for JPEG
            quality = 3
        else:
            raise MXNetError(f"im2rec: quality {quality}: the quality of {encoding} is from 1 to {most}")
    if resize < 0 or num_thread < 1:
        raise MXNetError(f"im2rec: resize {resize}, {num_thread} threads: expected a length of at least 0 and at least "
                         "one thread")
    if not pass_through:
        try:
            import cv2  # noqa: F401
        except ImportError:
            raise MXNetError("im2rec requires OpenCV: pip install 'mxjax[image]' (or use --pass-through)") from None
    base = os.path.splitext(list_path)[0]
    options = {"root": root, "resize": resize, "center_crop": center_crop, "quality": quality, "color": color,
               "encoding": encoding, "pass_through": pass_through, "pack_label": pack_label}
    items = list(read_list(list_path))
    state = _State(base + ".im2rec")
    start, bad = _begin(base, state, options, len(items), resume)
    packed, report = 0, Progress(os.path.basename(base), start, len(items))
    with _Appender(base + ".rec", "w") as records, open(base + ".idx", "a", encoding="utf-8") as idx:
        for done, (item, (record, problem)) in enumerate(_all_packed(options, items[start:], num_thread), start + 1):
            if record is None:
                bad.append(f"{item.number}\t{item.path}\t{problem}")
                print(f"im2rec: {os.path.join(root, item.path)} is left out: {problem}", file=sys.stderr, flush=True)
            else:
                idx.write(f"{item.number}\t{records.handle.tell()}\n")
                records.write(record)
                packed += 1
            if done % 256 == 0 or done == len(items):
                for file in (records.handle, idx):  # on the disk before the state counts them
                    file.flush()
                    os.fsync(file.fileno())
                state.save(done=done, rec=records.handle.tell(), idx=idx.tell(), bad=bad, options=options,
                           count=len(items))
                if progress:
                    report.show(done)
    if bad:
        write_file(base + ".bad", "".join(line + "\n" for line in bad))
    if os.path.exists(state.path):
        os.remove(state.path)
    return packed, bad


class Progress:
    """Shows how far a packing is: at a terminal in one line that changes, in a log in a line for each tenth."""

    def __init__(self, name: str, start: int, total: int) -> None:
        self._name, self._start, self._total = name, start, total
        self._begun, self._tenths = time.monotonic(), 0

    def show(self, done: int) -> None:
        rate = (done - self._start) / max(time.monotonic() - self._begun, 1e-9)
        text = f"{self._name}: {done} of {self._total} pictures, {rate:.0f} a second"
        if sys.stderr.isatty():
            print(f"\r{text}", end="" if done < self._total else "\n", file=sys.stderr, flush=True)
        elif 10 * done // self._total > self._tenths:
            self._tenths = 10 * done // self._total
            print(text, file=sys.stderr, flush=True)


def _begin(base: str, state: _State, options: dict[str, Any], count: int, resume: bool) -> tuple[int, list[str]]:
    """Prepares the files; returns the number of items that are done, and the omitted ones."""
    result = state.load() if resume else None
    if result is not None:
        if result.get("options") != options or result.get("count") != count:
            raise MXNetError(f"im2rec --resume: {base}.lst or the options have changed since {base}.rec was started")
        with reading(state.path, "how far the packing has come"):
            for ending in ("rec", "idx"):
                with open(f"{base}.{ending}", "r+b") as file:
                    if not 0 <= result[ending] <= os.fstat(file.fileno()).st_size:
                        raise MXNetError(f"{base}.{ending} is shorter than {result[ending]} bytes")
                    file.truncate(result[ending])
            return int(result["done"]), list(result["bad"])
    for path in (base + ".rec", base + ".idx"):
        open(path, "wb").close()
    if os.path.exists(base + ".bad"):
        os.remove(base + ".bad")
    return 0, []


class _Appender(MXRecordIO):
    """A record file that goes on where it ends."""

    def open(self) -> None:
        self.writable, self.pid, self.is_open = True, os.getpid(), True
        self.handle = open(self.uri, "ab")


def _all_packed(options: dict[str, Any], items: list[Item], workers: int) -> Iterator[tuple[Item, tuple]]:
    """Each item with its record, in order; never more than a few hundred records wait."""
    if workers == 1:
        yield from ((item, _packed(options, item)) for item in items)
        return
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        waiting: collections.deque = collections.deque()
        for item in items:
            waiting.append((item, pool.submit(_packed, options, item)))
            if len(waiting) >= 64 * workers:
                first, future = waiting.popleft()
                yield first, future.result()
        for item, future in waiting:
            yield item, future.result()


# -------------------------------------------------------------------- the command
def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments to a parser."""
    parser.add_argument("prefix", help="prefix of the .lst, .rec and .idx files, or a folder of lists")
    parser.add_argument("root", help="folder of images")
    lists = parser.add_argument_group("options for lists")
    lists.add_argument("--list", action="store_true", help="create lists instead of record files")
    lists.add_argument("--exts", nargs="+", default=[".jpeg", ".jpg", ".png"], help="file name extensions of images")
    lists.add_argument("--chunks", type=int, default=1, help="number of chunks, each with separate lists")
    lists.add_argument("--train-ratio", type=float, default=1.0, help="fraction of the images for training")
    lists.add_argument("--test-ratio", type=float, default=0, help="fraction of the images for testing")
    lists.add_argument("--recursive", action="store_true", help="search subfolders, each with a separate label")
    lists.add_argument("--no-shuffle", dest="shuffle", action="store_false", help="do not shuffle the images")
    records = parser.add_argument_group("options for record files")
    records.add_argument("--pass-through", action="store_true", help="pack files as they are")
    records.add_argument("--resize", type=int, default=0,
                         help="resize the shorter edge to this many pixels; 0 keeps the size")
    records.add_argument("--center-crop", action="store_true", help="crop the square in the center")
    records.add_argument("--quality", type=int, default=95, help="JPEG quality, 1-100, or PNG compression, 1-9")
    records.add_argument("--num-thread", type=int, default=1, help="number of processes that decode and pack")
    records.add_argument("--color", type=int, default=1, choices=[-1, 0, 1], help="1 colour, 0 grey, -1 as in the file")
    records.add_argument("--encoding", default=".jpg", choices=[".jpg", ".png"], help="format of the packed images")
    records.add_argument("--pack-label", action="store_true", help="pack all labels of a line")
    records.add_argument("--resume", action="store_true", help="continue an interrupted run")


def main(args: argparse.Namespace) -> int:
    """Runs the command with its parsed arguments; returns the exit status."""
    prefix, root = os.path.abspath(args.prefix), os.path.abspath(args.root)
    if args.list:
        for path in make_lists(prefix, list(list_images(root, args.recursive, args.exts)), chunks=args.chunks,
                               train_ratio=args.train_ratio, test_ratio=args.test_ratio, shuffle=args.shuffle):
            print(path)
        return 0
    folder = prefix if os.path.isdir(prefix) else os.path.dirname(prefix)
    lists = sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".lst") and
                   os.path.join(folder, name).startswith(prefix)) if os.path.isdir(folder) else []
    if not lists:
        raise MXNetError(f"there is no list {prefix}*.lst: create one with --list")
    names = ("num_thread", "resize", "center_crop", "quality", "color", "encoding", "pass_through", "pack_label",
             "resume")
    for path in lists:
        packed, bad = pack(path, root, **{name: getattr(args, name) for name in names})
        print(f"{os.path.splitext(path)[0]}.rec: {packed} pictures" + (f", {len(bad)} left out" if bad else ""))
    return 0
