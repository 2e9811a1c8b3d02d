"""Compiled programs kept in files, so that the next process need not compile them.

They are in JAX's compilation cache, which is looked after here.

JAX finds a program by a digest of the program itself, its options, XLA's flags and version, and the kind of device:
another program never has the same one. A folder is for one kind of machine and one version of jaxlib (XLA compiles for
the processor that is there), so it may lie where several machines see it. JAX writes entries in place; what a process
that was killed has left half is found by its checksum at the next start, and removed. So is what was used longest ago,
once there is more than the limit.

Programs may be packed into one file and shipped. They are machine code: who names such a file trusts who made it.
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
    """Returns a scope in which programs that this thread compiles are not written into JAX's cache."""
    from jax._src.config import persistent_cache_min_compile_time_secs  # every release that was tried has it
    return persistent_cache_min_compile_time_secs(math.inf)


def folder(base: str | os.PathLike[str] | None = None) -> Path:
    """Returns where programs for this machine are: below `base`, else MXJAX_CACHE_DIR, else the user's cache folder."""
    told = [platform.machine(), platform.system(), *map(importlib.metadata.version, ("jax", "jaxlib"))]
    with contextlib.suppress(OSError):  # elsewhere than on Linux the machine's name has to do
        told += next((line for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
                      if line.startswith(("flags", "Features"))), platform.processor()).split()
    return _base(base) / f"programs-{hashlib.sha256(' '.join(told).encode()).hexdigest()[:16]}"


def prepared(base: str | os.PathLike[str] | None = None) -> Path:
    """The folder, made and tidied up, with the programs of a packed file where that is given for a folder.

    Raises:
        MXNetError: it cannot be made, or the limit is no number.
        UserWarning: the packed programs are of another kind of machine or version of JAX.
    """
    most = settings.CACHE_MEMORY() << 20
    result, packed = folder(base), Path(base or settings.CACHE_DIR()).expanduser()
    try:
        if zipfile.is_zipfile(packed) and not result.is_dir():
            unpack(packed, result.parent)
            if not result.is_dir():
                warnings.warn(f"{packed}: its programs are of another kind of machine or another version of JAX; they "
                              "are compiled here", stacklevel=2)
        result.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MXNetError(f"programs cannot be kept in {result}: {error.strerror}; MXJAX_CACHE_DIR names another "
                         "folder") from None
    _tidy(result, most)
    return result


def variables(where: str | os.PathLike[str]) -> dict[str, str]:
    """Returns environment variables by which started processes keep programs in a folder; their own ones stay."""
    given = {"jax_compilation_cache_dir": where, **SETTINGS}
    return {name.upper(): os.environ.get(name.upper(), str(value)) for name, value in given.items()}


def entries(where: Path) -> dict[Path, os.stat_result]:
    """The programs' files in a folder."""
    result = {}
    for path in where.glob("*-cache"):
        with contextlib.suppress(OSError):  # another process has removed it
            result[path] = path.stat()
    return result


def pack(target: str | os.PathLike[str], base: str | os.PathLike[str] | None = None) -> tuple[int, int]:
    """Writes the programs for this machine into one file, which can be given for a folder; returns (count, bytes).

    Raises:
        MXNetError: there are none.
        OSError: the file cannot be written.
    """
    where, count = folder(base), 0
    with replacing(target) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as packed:
        for path in sorted(entries(where)):
            with contextlib.suppress(FileNotFoundError):  # another process has removed it
                packed.write(path, f"{where.name}/{path.name}")
                count += 1
        if not count:
            raise MXNetError(f"there are no programs in {where}: run what needs them once, by python -m mxjax run")
    return count, Path(target).stat().st_size


def clear(base: str | os.PathLike[str] | None = None) -> tuple[int, int]:
    """Removes all programs, of other machines and versions too; returns how many, and their bytes."""
    count = size = 0
    for where in folder(base).parent.glob("programs-*"):
        for path, status in entries(where).items():
            path.unlink(missing_ok=True)
            count, size = count + 1, size + status.st_size
        (where / _CHECKED).unlink(missing_ok=True)
    return count, size


def _tidy(where: Path, most: int) -> None:
    """Removes what is damaged, and what was used longest ago beyond the limit."""
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
    except Exception:  # noqa: BLE001  whatever a packer says of what it cannot read
        return False
    return True
