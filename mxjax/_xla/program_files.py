"""A cache of compiled programs in files, so that later processes need not compile them.

It is JAX's compilation cache, which this module configures and cleans up.

JAX finds a program by a digest of the program, its options, XLA's flags and version, and the kind
of device, so different programs never collide. Each directory is for one kind of machine and one
version of jaxlib, because XLA compiles for the present processor; several machines may therefore
share the parent directory. JAX writes entries in place. On startup, partial entries of killed
processes are found by their checksums and removed. The least recently used entries are removed if
the cache exceeds its limit.

Programs can be packed into one file and distributed. They are machine code, so use only files from
    sources that you trust.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import importlib.util
import json
import math
import os
import platform
import warnings
import zipfile
import zlib
from pathlib import Path

from .._support import settings
from .._support.files import replacing, unpack, write_file
from ..base import MXNetError

__all__ = ["SETTINGS", "clear", "entries", "folder", "kept_in_no_file", "pack", "prepared", "variables"]

_SHORT = 0.05  # seconds of compilation that are not worth a file
SETTINGS = {"jax_persistent_cache_min_compile_time_secs": _SHORT, "jax_persistent_cache_min_entry_size_bytes": 0,
            "jax_persistent_cache_enable_xla_caches": ""}  # XLA's have no bound, and their path would be in the digest
_CHECKED = "checked.json"  # names and sizes of entries that were found to be whole


def _base(base: str | os.PathLike[str] | None) -> Path:
    """`base`, else MXJAX_CACHE_DIR, else the user's cache folder; for a packed file, where it is unpacked."""
    users = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "mxjax")
    given = Path(base or settings.CACHE_DIR() or users).expanduser()
    if not zipfile.is_zipfile(given):
        return given
    with given.open("rb") as file:
        return users / f"packed-{hashlib.file_digest(file, 'sha256').hexdigest()[:16]}"


def kept_in_no_file() -> contextlib.AbstractContextManager[None]:
    """Returns a scope in which programs that this thread compiles are not written to JAX's cache."""
    from jax._src.config import persistent_cache_min_compile_time_secs  # every release that was tried has it
    return persistent_cache_min_compile_time_secs(math.inf)


def folder(base: str | os.PathLike[str] | None = None) -> Path:
    """Returns the directory of programs for this machine: below `base`, otherwise MXJAX_CACHE_DIR,
    otherwise the user's cache directory."""
    machine = [platform.machine(), platform.system(), *map(importlib.metadata.version, ("jax", "jaxlib"))]
    with contextlib.suppress(OSError):  # elsewhere than on Linux the machine's name has to do
        machine += next((line for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
                      if line.startswith(("flags", "Features"))), platform.processor()).split()
    return _base(base) / f"programs-{hashlib.sha256(' '.join(machine).encode()).hexdigest()[:16]}"


def prepared(base: str | os.PathLike[str] | None = None) -> Path:
    """Creates and cleans up the directory; if a packed file is passed instead, unpacks its programs.

    Raises:
        MXNetError: the directory cannot be created, or the limit is not a number.
        UserWarning: the packed programs are for another kind of machine or version of JAX.
    """
    most = settings.CACHE_MEMORY() << 20
    result, packed = folder(base), Path(base or settings.CACHE_DIR()).expanduser()
    try:
        if zipfile.is_zipfile(packed) and not result.is_dir():
            unpack(packed, result.parent)
            if not result.is_dir():
                warnings.warn(f"{packed}: its programs are for another kind of machine or another version of JAX, so "
                              "this process compiles its programs", stacklevel=2)
        result.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MXNetError(f"programs cannot be cached in {result}: {error.strerror}; set MXJAX_CACHE_DIR to another "
                         "directory") from None
    _tidy(result, most)
    return result


def variables(where: str | os.PathLike[str]) -> dict[str, str]:
    """Returns environment variables that make child processes use a directory; existing variables are kept."""
    given = {"jax_compilation_cache_dir": where, **SETTINGS}
    return {name.upper(): os.environ.get(name.upper(), str(value)) for name, value in given.items()}


def entries(where: Path) -> dict[Path, os.stat_result]:
    """Returns the program files in a directory."""
    result = {}
    for path in where.glob("*-cache"):
        with contextlib.suppress(OSError):  # another process has removed it
            result[path] = path.stat()
    return result


def pack(target: str | os.PathLike[str], base: str | os.PathLike[str] | None = None) -> tuple[int, int]:
    """Packs the programs for this machine into one file, which can be used instead of a directory;
    returns (count, bytes).

    Raises:
        MXNetError: there are no programs.
        OSError: the file cannot be written.
    """
    where, count = folder(base), 0
    with replacing(target) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as packed:
        for path in sorted(entries(where)):
            with contextlib.suppress(FileNotFoundError):  # another process has removed it
                packed.write(path, f"{where.name}/{path.name}")
                count += 1
        if not count:
            raise MXNetError(f"there are no programs in {where}: first run your script once with python -m mxjax run")
    return count, Path(target).stat().st_size


def clear(base: str | os.PathLike[str] | None = None) -> tuple[int, int]:
    """Removes all programs, including those of other machines and versions; returns (count, bytes)."""
    count = size = 0
    for where in folder(base).parent.glob("programs-*"):
        for path, status in entries(where).items():
            path.unlink(missing_ok=True)
            count, size = count + 1, size + status.st_size
        (where / _CHECKED).unlink(missing_ok=True)
    return count, size


def _tidy(where: Path, most: int) -> None:
    """Removes damaged files, and the least recently used files beyond the limit."""
    checked: dict[str, int] = {}
    with contextlib.suppress(OSError, ValueError, AttributeError):
        checked = dict(json.loads((where / _CHECKED).read_text(encoding="utf-8")).items())
    whole, room = {}, most
    for path, status in sorted(entries(where).items(), key=lambda row: -max(row[1].st_atime, row[1].st_mtime)):
        room -= status.st_size
        if room < 0 or checked.get(path.name) != status.st_size and not _whole(path):
            path.unlink(missing_ok=True)
        else:
            whole[path.name] = status.st_size
    if whole != checked:
        with contextlib.suppress(OSError):  # a full disk: they are looked at again the next time
            write_file(where / _CHECKED, json.dumps(whole))


def _whole(path: Path) -> bool:
    """Returns whether an entry can be unpacked."""
    try:
        content = path.read_bytes()
        if content[:4] != b"\x28\xb5\x2f\xfd":
            zlib.decompress(content)
        elif importlib.util.find_spec("zstandard"):  # JAX packs with it where it is installed
            importlib.import_module("zstandard").ZstdDecompressor().decompress(content)
        else:
            importlib.import_module("compression.zstd").decompress(content)
    except Exception:  # noqa: BLE001  a decompressor's error about damaged data
        return False
    return True
