"""`python -m mxjax rec FILE.rec OUTPUT --to tar`: records for programs that do not know MXNet.

tar: shards of WebDataset, OUTPUT-000000.tar ..., for each record its data (NUMBER.jpg, .png or .bin) and its label
(NUMBER.cls, or NUMBER.json of several labels). arrayrecord: shards that grain reads, the records as they are, for
`mxjax.recordio.unpack`. folder: a file for each record, OUTPUT/data.lst is the list from which
`im2rec --pass-through --pack-label OUTPUT/data OUTPUT` makes the record file again.

Each shard is written whole, read back, and compared with its records by SHA-256; OUTPUT.json tells what there is, and
a run that was interrupted goes on behind it.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import itertools
import json
import os
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from .._support.files import reading, replacing, write_file
from .._support.progress import progress
from ..base import MXNetError
from ..recordio import IRHeader, MXRecordIO, pack, unpack

__all__ = ["add_arguments", "main"]

_KINDS = {b"\xff\xd8\xff": "jpg", b"\x89PNG": "png"}  # how files begin
Record = tuple[int, bytes]  # its number and its bytes in the record file


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("source", metavar="FILE.rec")
    parser.add_argument("output", help="the output folder, or the prefix of the names of shards")
    parser.add_argument("--to", required=True, choices=list(FORMATS))
    parser.add_argument("--per-shard", type=int, default=10000, help="number of records in a shard")


def main(args: argparse.Namespace) -> int:
    """Runs the command with its parsed arguments; returns the exit status."""
    if args.per_shard < 1:
        raise MXNetError(f"rec: --per-shard must be 1 or more, got {args.per_shard}")
    source, output = Path(args.source), str(args.output).rstrip("/")
    with reading(source, "a record file"):
        size = source.stat().st_size
    Path(output).parent.mkdir(parents=True, exist_ok=True)
    what = {"source": source.name, "bytes": size, "to": args.to, "per shard": args.per_shard}
    known = _known(Path(f"{output}.json"), what)
    write, read = FORMATS[args.to]
    records = records_of(source)
    with progress(source.name, size, "B", unit_scale=True) as bar:
        for number in itertools.count():
            part = list(itertools.islice(records, args.per_shard))
            if not part:
                break
            bar.update(sum(len(record) for _, record in part))
            if number < len(known["shards"]):  # it is there, and was compared when it was written
                continue
            digest = _digest(part)
            names = write(output, number, part)
            if _digest(read(output, names, part)) != digest:
                raise MXNetError(f"rec: {names[0]} does not contain the records that were written to it")
            known["shards"].append({"files": names[:1], "records": len(part), "sha256": digest})
            write_file(f"{output}.json", json.dumps(known, indent=1))
    total = sum(shard["records"] for shard in known["shards"])
    if args.to == "folder":
        _list(output, total)
    known |= {"records": total, "sha256": hashlib.sha256("".join(s["sha256"] for s in known["shards"]).encode(
        )).hexdigest()}
    write_file(f"{output}.json", json.dumps(known, indent=1))
    print(f"{total} records in {len(known['shards'])} shards of {args.to}, compared; {output}.json has their "
          "checksums")
    return 0


def _known(path: Path, what: dict[str, Any]) -> dict[str, Any]:
    """Returns the shards that an earlier run has written from the same source."""
    if not path.exists():
        return {**what, "shards": []}
    with reading(path, "a list of shards"):
        known = json.loads(path.read_text(encoding="utf-8"))
        shards = known["shards"]
    if {key: known.get(key) for key in what} != what:
        raise MXNetError(f"rec: {path} belongs to another run ({known.get('source')}, {known.get('bytes')} bytes, to "
                         f"{known.get('to')}, {known.get('per shard')} a shard): remove it, or choose another output")
    return {**what, "shards": shards}


def records_of(source: Path) -> Iterator[Record]:
    with MXRecordIO(source, "r") as file:
        for number in itertools.count():
            record = file.read()
            if record is None:
                return
            yield number, record


def _digest(records: Iterable[Record]) -> str:
    """Of labels and data, in order."""
    digest = hashlib.sha256()
    for _, record in records:
        header, data = unpack(record)
        digest.update(np.asarray(header.label, np.float32).tobytes() + len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def _ending(data: bytes) -> str:
    return next((ending for start, ending in _KINDS.items() if data.startswith(start)), "bin")


# ---------------------------------------------------------------- formats: write(output, number, records) -> names
def _tar(output: str, number: int, records: list[Record]) -> list[str]:
    name = f"{output}-{number:06d}.tar"
    with replacing(name) as file, tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for place, record in records:
            header, data = unpack(record)
            labels = np.asarray(header.label, np.float32)
            plain = labels.ndim == 0 and float(labels).is_integer()
            about = str(int(labels)) if plain else json.dumps({"label": labels.tolist(), "id": header.id})
            for ending, content in ((_ending(data), data), ("cls" if plain else "json", about.encode())):
                member = tarfile.TarInfo(f"{place:09d}.{ending}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return [name]


def _member(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    if file is None:
        raise MXNetError(f"rec: {member.name} in {archive.name!r} is no file")
    return file.read()


def _read_tar(output: str, names: list[str], records: list[Record]) -> Iterator[Record]:
    with tarfile.open(names[0]) as archive:
        for first, second in zip(*[iter(archive)] * 2, strict=True):
            content = _member(archive, second)
            label = json.loads(content)["label"] if second.name.endswith("json") else float(content)
            yield int(first.name.partition(".")[0]), pack(IRHeader(0, label, 0, 0), _member(archive, first))


def _folder(output: str, number: int, records: list[Record]) -> list[str]:
    """Files, and a part of the list."""
    lines = []
    for place, record in records:
        header, data = unpack(record)
        path = f"{place // 10000:05d}/{place:09d}.{_ending(data)}"
        (Path(output, path).parent).mkdir(parents=True, exist_ok=True)
        write_file(Path(output, path), data)
        labels = "\t".join(repr(float(n)) for n in np.atleast_1d(np.asarray(header.label, np.float32)))
        lines.append(f"{place}\t{labels}\t{path}\n")
    name = _part(output, number)
    write_file(name, "".join(lines))
    return [name]


def _read_folder(output: str, names: list[str], records: list[Record]) -> Iterator[Record]:
    for line in Path(names[0]).read_text(encoding="utf-8").splitlines():
        place, *labels, path = line.split("\t")
        label = [float(n) for n in labels]
        header = IRHeader(0, label if len(label) > 1 else label[0], 0, 0)
        yield int(place), pack(header, Path(output, path).read_bytes())


def _part(output: str, number: int) -> str:
    return str(Path(output, f"data-{number:06d}.part"))


def _list(output: str, total: int) -> None:
    """One list of the parts', which are removed then."""
    parts = sorted(Path(output).glob("data-*.part"))
    if parts:
        with replacing(Path(output, "data.lst"), "w") as file:
            for part in parts:
                file.write(part.read_text(encoding="utf-8"))
        for part in parts:
            part.unlink()


def _array_record() -> Any:
    try:
        return import_module("array_record.python.array_record_module")
    except ImportError:
        raise MXNetError("rec: --to arrayrecord requires pip install 'mxjax[arrayrecord]'") from None


def _shard(output: str, number: int, records: list[Record]) -> list[str]:
    name, module = f"{output}-{number:06d}.arrayrecord", _array_record()
    with tempfile.TemporaryDirectory(dir=Path(name).resolve().parent, prefix=".rec-") as folder:
        path = str(Path(folder, "shard"))  # its writer wants a name
        writer = module.ArrayRecordWriter(path, "group_size:1")
        for _, record in records:
            writer.write(record)
        writer.close()
        with open(path, "rb") as file:
            os.fsync(file.fileno())
        os.replace(path, name)
    return [name]


def _read_shard(output: str, names: list[str], records: list[Record]) -> Iterator[Record]:
    reader = _array_record().ArrayRecordReader(names[0])
    try:
        yield from ((place, bytes(record)) for (place, _), record in zip(records, reader.read_all(), strict=True))
    finally:
        reader.close()


FORMATS: dict[str, tuple[Callable[..., list[str]], Callable[..., Iterable[Record]]]] = {
    "tar": (_tar, _read_tar), "folder": (_folder, _read_folder), "arrayrecord": (_shard, _read_shard)}
