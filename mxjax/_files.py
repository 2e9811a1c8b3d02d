"""Files: the one way in which the library writes them, and how what is wrong with one that it reads is told."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import sys
import threading
import time
from collections.abc import Iterator
from typing import IO, Any

from .base import FileForFolder, FolderForFile, ForbiddenFile, MissingFile, MXNetError, RefusedFile

if sys.platform != "win32":
    import fcntl

__all__ = ["check_unpacked", "numbered_lines", "read_packed", "reading", "refusals", "replacing", "together", "unpack",
           "write_file"]

_ENDING = ".mxjax-tmp"
_REFUSED = {FileNotFoundError: MissingFile, PermissionError: ForbiddenFile, IsADirectoryError: FolderForFile,
            NotADirectoryError: FileForFolder}
_ABANDONED = 60.0  # seconds without a change after which a temporary file that nobody has locked belongs to the dead


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], mode: str = "wb") -> Iterator[IO[Any]]:
    """A new file that takes the place of `path` when the block ends; where it fails, `path` is as it was.

    The content goes to a file of its own in the same folder, which nobody else can have made, and is on the disk before
    it is renamed: whoever reads `path`, after a crash too, finds the old content or the new. Permissions stay as they
    were, a symbolic link goes on pointing to where it did; other hard links keep the old content. What killed processes
    have left is removed. Devices and pipes are written to as they are.

    Args:
        path: the file, there or not.
        mode: "wb", or "w" for text in UTF-8.

    Raises:
        OSError: the system refuses (the folder must be writable too); `path` is as it was, and nothing is left behind.

    Example:
        >>> with replacing("model.json", "w") as file:
        ...     _ = file.write("{}")
    """
    text = {} if "b" in mode else {"encoding": "utf-8"}
    given = os.fsdecode(path)
    path = os.path.realpath(given)
    old = _status(path)
    if not stat.S_ISREG(old.st_mode) if old else os.path.exists(given):  # such as /dev/stdout, a link to no name
        with open(given, mode, **text) as file:
            yield file
        return
    # renaming would not ask
    if old and not os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    new = _New(path)
    try:
        with new.told(), open(new.create(old), mode, **text) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if _waiting.files is not None:
                new.hold(file)
        if _waiting.files is None:
            new.rename()
    except BaseException:
        new.remove()
        raise
    if _waiting.files is None:
        _sync_folder(new.folder)
    else:
        _waiting.files.append(new)


@contextlib.contextmanager
def together() -> Iterator[None]:
    """A block whose files get their names at its end, in the order of writing; where it fails, all are as they were.

    For files that belong to each other: all are on the disk before the first is renamed, so that only a crash between
    two renames leaves new ones beside old ones. The last should be the one that says that the others are there. In the
    block itself the old files are seen.

    Example:
        >>> with together():
        ...     mx.sym.var("data").save("net-symbol.json")
        ...     mx.nd.save("net-0000.params", {"arg:weight": mx.nd.ones((2,))})
    """
    if _waiting.files is not None:
        yield
        return
    files = _waiting.files = []
    folders = {}
    try:
        yield
        while files:
            files[0].rename()
            folders[files.pop(0).folder] = True
    finally:
        _waiting.files = None
        for new in files:
            new.remove()
        for folder in folders:
            _sync_folder(folder)


def write_file(path: str | os.PathLike[str], content: bytes | str) -> None:
    """Makes `content` (text in UTF-8) the content of a file, as `replacing` does."""
    with replacing(path, "w" if isinstance(content, str) else "wb") as file:
        file.write(content)


def check_unpacked(size: int, packed: int, source: str | os.PathLike[str]) -> None:
    """Refuses content that is much larger than what it is packed into: a few bytes must not fill memory or disk.

    Args:
        size: bytes of the content.
        packed: bytes of the file or archive.
        source: its name, for the message.

    Raises:
        MXNetError: more than 256 MB and 100 times the file, or than the number of bytes in MXJAX_UNPACK_LIMIT.
    """
    given = os.environ.get("MXJAX_UNPACK_LIMIT")
    limit = int(given) if given else max(256 << 20, 100 * packed)
    if size > limit:
        raise MXNetError(f"{os.fspath(source)}: {packed} bytes that unpack to {size} or more; the limit is {limit}. "
                         "For a file you trust, set the environment variable MXJAX_UNPACK_LIMIT to a larger number")


def read_packed(stream: IO[bytes], packed: int, source: str | os.PathLike[str]) -> bytes:
    """What a decompressing stream holds, as far as `check_unpacked` allows.

    Args:
        stream: e.g. a `gzip.GzipFile`.
        packed, source: as in `check_unpacked`.

    Raises:
        MXNetError: it is too much.
    """
    parts, size = [], 0
    while part := stream.read(1 << 20):
        size += len(part)
        check_unpacked(size, packed, source)
        parts.append(part)
    return b"".join(parts)


def unpack(archive: str | os.PathLike[str], folder: str | os.PathLike[str]) -> None:
    """Unpacks the files of a zip or tar archive into a folder, where each appears when it is whole.

    Raises:
        OSError: the system refuses, or a name in the archive leads out of the folder.
        MXNetError: the archive is damaged, or unpacks to too much (`check_unpacked`).
    """
    import tarfile
    import zipfile
    root, packed, size = os.path.realpath(folder), os.path.getsize(archive), 0
    opened = zipfile.ZipFile if zipfile.is_zipfile(archive) else tarfile.open
    with reading(archive, "an archive"), opened(archive) as content:
        if isinstance(content, zipfile.ZipFile):
            files = ((entry.filename, content.open(entry)) for entry in content.infolist() if not entry.is_dir())
        else:
            files = ((entry.name, content.extractfile(entry)) for entry in content if entry.isfile())
        for name, source in files:
            target = os.path.realpath(os.path.join(root, name))
            if os.path.commonpath((root, target)) != root:
                raise OSError(errno.EPERM, f"the name {name!r} leads out of the folder {root}", os.fspath(archive))
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with source, replacing(target) as file:
                while part := source.read(1 << 20):
                    size += len(part)
                    check_unpacked(size, packed, archive)
                    file.write(part)


@contextlib.contextmanager
def refusals(doing: str) -> Iterator[None]:
    """A block in which the system's refusals become MXNetErrors, as where MXNet uses files in C++.

    Args:
        doing: what is tried, for the message, e.g. "cannot write x.params".

    Raises:
        MXNetError: the system refuses; its OSError is the cause.
    """
    try:
        yield
    except OSError as error:
        raise MXNetError(f"{doing}: {error.strerror or error}") from error


@contextlib.contextmanager
def reading(source: str | os.PathLike[str], what: str) -> Iterator[None]:
    """A block that reads a file: whatever damaged content makes its decoder raise becomes an MXNetError with its name.

    Args:
        source: the file, for the message.
        what: what it was read as, for the message, e.g. "a symbol".

    Raises:
        MXNetError: the content is damaged; the decoder's own error is its cause.
        MissingFile, ForbiddenFile, FolderForFile, FileForFolder, RefusedFile: the system refuses; each is an MXNetError
            and the OSError that Python raises.
    """
    try:
        yield
    except MXNetError as error:
        if os.fspath(source) in str(error):
            raise
        raise MXNetError(f"{os.fspath(source)}: {error}") from error
    except Exception as error:
        if isinstance(error, OSError) and error.filename is not None:  # others come of wrong offsets in the content
            if isinstance(error, MXNetError):
                raise
            raise _REFUSED.get(type(error), RefusedFile)(error.errno, error.strerror, error.filename) from None
        told = str(error).strip().split("\n")[0]
        raise MXNetError(f"{os.fspath(source)} cannot be read as {what}: {type(error).__name__}"
                         f"{': ' + told if told else ''}") from error


def numbered_lines(path: str | os.PathLike[str], what: str, encoding: str | None = None) -> Iterator[tuple[int, str]]:
    """The lines of a text file with their numbers, from 1.

    Args:
        path: the file.
        what: what it is read as, for the message.
        encoding: of its text; by default the surroundings'.

    Raises:
        MXNetError: it is no text in that encoding; names file and line.
        MissingFile and its kin, as in `reading`: the system refuses.
    """
    number = 0
    with reading(path, what):
        file = open(path, encoding=encoding)
    with file:
        try:
            for number, line in enumerate(file, start=1):
                yield number, line
        except UnicodeDecodeError as error:  # text is decoded in blocks: some lines further
            raise MXNetError(f"{os.fspath(path)} cannot be read as {what} behind line {number}: {error}") from error


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


class _New:
    """A file that is to take the place of another one."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.folder, self.name = os.path.split(path)
        self.beginning = f".{self.name[:50]}."
        self.temporary = os.path.join(self.folder, f"{self.beginning}{secrets.token_hex(8)}{_ENDING}")
        self._held: int | None = None

    def create(self, old: os.stat_result | None) -> int:
        """Its handle, which this process has locked, with the permissions of the old one."""
        self._sweep()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | \
            getattr(os, "O_BINARY", 0)
        handle = os.open(self.temporary, flags, 0o666 if old is None else stat.S_IMODE(old.st_mode) & 0o700 | 0o200)
        if sys.platform != "win32":
            with contextlib.suppress(OSError):  # file systems without locks
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if old is not None:
                own = os.fstat(handle)
                with contextlib.suppress(OSError):
                    if (old.st_uid, old.st_gid) != (own.st_uid, own.st_gid):
                        os.fchown(handle, old.st_uid, old.st_gid)
                with contextlib.suppress(OSError):  # file systems without modes
                    os.fchmod(handle, stat.S_IMODE(old.st_mode))
        return handle

    def hold(self, file: IO[Any]) -> None:
        """Keeps the lock when the file is closed, until it is renamed or removed."""
        if sys.platform != "win32":
            self._held = os.dup(file.fileno())

    def rename(self) -> None:
        with self.told():
            os.replace(self.temporary, self.path)
        self._release()

    def remove(self) -> None:
        with contextlib.suppress(OSError):
            os.unlink(self.temporary)
        self._release()

    def _release(self) -> None:
        if self._held is not None:
            os.close(self._held)
            self._held = None

    @contextlib.contextmanager
    def told(self) -> Iterator[None]:
        """A block in which the system's errors are about the path."""
        try:
            yield
        except OSError as error:
            if error.errno is not None and error.filename in (None, self.temporary):
                error.filename = self.path
                del error.filename2
            raise

    def _sweep(self) -> None:
        """Removes the temporary files of processes that were killed while they wrote this file."""
        if sys.platform == "win32":
            return
        length = len(os.path.basename(self.temporary))
        with contextlib.suppress(OSError), os.scandir(self.folder) as entries:
            for entry in entries:
                name = entry.name
                if name.startswith(self.beginning) and name.endswith(_ENDING) and len(name) == length:
                    with contextlib.suppress(OSError):
                        self._remove_abandoned(entry)

    @staticmethod
    def _remove_abandoned(entry: os.DirEntry[str]) -> None:
        if time.time() - entry.stat(follow_symlinks=False).st_mtime < _ABANDONED:
            return
        handle = os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # refused while its writer lives
            os.unlink(entry.path)
        finally:
            os.close(handle)


class _Waiting(threading.local):
    """The files of this thread's `together` that are still to be renamed."""

    files: list[_New] | None = None


_waiting = _Waiting()


def _sync_folder(folder: str) -> None:
    """Has the folder's entry of the new file on the disk."""
    if sys.platform == "win32":
        return
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
