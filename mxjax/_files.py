"""Files: the one way in which the library writes them, and how what is wrong with one that it reads is told."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import sys
import time
from collections.abc import Iterator
from typing import IO, Any

from .base import MXNetError

if sys.platform != "win32":
    import fcntl

__all__ = ["reading", "replacing", "write_file"]

_ENDING = ".mxjax-tmp"
_ABANDONED = 60.0  # seconds without a change after which a temporary file that nobody has locked belongs to the dead


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], mode: str = "wb") -> Iterator[IO[Any]]:
    """A new file that takes the place of `path` when the block ends; where it fails, `path` is as it was.

    The content goes to a file of its own in the same folder, which nobody else can have made, and is on the disk before
    it is renamed: whoever reads `path`, after a crash too, finds the old content or the new. Permissions stay as they
    were, a symbolic link goes on pointing to where it did. What killed processes have left is removed. Devices and
    pipes are written to as they are.

    Args:
        path: the file, there or not.
        mode: "wb", or "w" for text in UTF-8.

    Raises:
        OSError: the system refuses; `path` is as it was, and nothing is left behind.

    Example:
        >>> with replacing("model.json", "w") as file:
        ...     json.dump(graph, file)
    """
    text = {} if "b" in mode else {"encoding": "utf-8"}
    path = os.path.realpath(os.fspath(path))
    old = _status(path)
    if old is not None and not stat.S_ISREG(old.st_mode):
        with open(path, mode, **text) as file:
            yield file
        return
    folder, name = os.path.split(path)
    _sweep(folder, name)
    temporary = _temporary(folder, name)
    try:
        with open(_create(temporary, old), mode, **text) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError):
            if error.filename in (None, temporary):
                error.filename, error.filename2 = path, None
        raise
    _sync_folder(folder)


def write_file(path: str | os.PathLike[str], content: bytes | str) -> None:
    """Makes `content` (text in UTF-8) the content of a file, as `replacing` does."""
    with replacing(path, "w" if isinstance(content, str) else "wb") as file:
        file.write(content)


@contextlib.contextmanager
def reading(source: str | os.PathLike[str], what: str) -> Iterator[None]:
    """A block that reads a file: whatever damaged content makes its decoder raise becomes an MXNetError.

    Args:
        source: the file, for the message.
        what: what it was read as, for the message, e.g. "a symbol".

    Raises:
        MXNetError: the content is damaged; the decoder's own error is its cause.
        OSError: the system refuses (no such file, no permission ...).
    """
    try:
        yield
    except MXNetError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        told = str(error).strip().split("\n")[0]
        raise MXNetError(f"{os.fspath(source)} cannot be read as {what}: {type(error).__name__}"
                         f"{': ' + told if told else ''}") from error


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _temporary(folder: str, name: str) -> str:
    return os.path.join(folder, f".{name[:50]}.{secrets.token_hex(8)}{_ENDING}")


def _create(temporary: str, old: os.stat_result | None) -> int:
    """A new file that this process has locked, with the permissions of the old one."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | \
        getattr(os, "O_BINARY", 0)
    handle = os.open(temporary, flags, 0o666 if old is None else stat.S_IMODE(old.st_mode) & 0o700 | 0o200)
    if sys.platform != "win32":
        with contextlib.suppress(OSError):  # file systems without locks
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if old is not None:
            with contextlib.suppress(OSError):
                if (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
                    os.fchown(handle, old.st_uid, old.st_gid)
            os.fchmod(handle, stat.S_IMODE(old.st_mode))
    return handle


def _sweep(folder: str, name: str) -> None:
    """Removes the temporary files of processes that were killed while they wrote this file."""
    if sys.platform == "win32":
        return
    beginning, length = f".{name[:50]}.", len(_temporary("", name))
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder or "."):
            if not (entry.name.startswith(beginning) and entry.name.endswith(_ENDING) and len(entry.name) == length):
                continue
            with contextlib.suppress(OSError):
                if time.time() - entry.stat(follow_symlinks=False).st_mtime < _ABANDONED:
                    continue
                handle = os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW)
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # refused while its writer lives
                    os.unlink(entry.path)
                finally:
                    os.close(handle)


def _sync_folder(folder: str) -> None:
    """Has the folder's entry of the new file on the disk."""
    if sys.platform == "win32":
        return
    with contextlib.suppress(OSError):
        handle = os.open(folder or ".", os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
