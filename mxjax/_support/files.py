"""Files: the library's only writer, and errors for files that cannot be read."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import IO, Any, Protocol, cast

from ..base import FileForFolder, FolderForFile, ForbiddenFile, MissingFile, MXNetError, RefusedFile
from . import settings

if sys.platform != "win32":
    import fcntl

__all__ = ["check_unpacked", "numbered_lines", "read_packed", "reading", "refusals", "replacing", "together", "unpack",
           "write_file"]

ENDING = ".mxjax-tmp"
_REFUSED = {FileNotFoundError: MissingFile, PermissionError: ForbiddenFile, IsADirectoryError: FolderForFile,
            NotADirectoryError: FileForFolder}
_PATIENCE = 2.0  # seconds that a copy waits for another one
_NO_ROOM = errno.ENOSPC, errno.EFBIG, errno.EDQUOT
_HANDLES = "/proc/self/fd", "/dev/fd"  # folders in which this process's handles have their numbers as names
_ABANDONED = 60.0  # seconds without a change after which an unlocked temporary file is abandoned


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], mode: str = "wb") -> Iterator[IO[Any]]:
    """Atomically replaces the content of `path` at the end of the block; if the block fails, `path` does not change.

    The content is written to a new file in the same directory and flushed to disk before that file
    is renamed. Readers of `path` find either the old or the new content, even after a crash.
    Permissions and symbolic links are preserved. Leftovers of killed processes are removed.

    Files that are known by more than their name are overwritten in place instead, so that other
    users see the new content: empty files (as created by `tempfile`), files with other hard links,
    and files that are open in this process. Disk space is reserved before the first byte changes,
    but a crash meanwhile leaves a partial file. Devices and pipes are written directly.

    Args:
        path: the file, which may exist.
        mode: "wb", or "w" for text in UTF-8.

    Raises:
        OSError: the system rejects the operation (the directory must be writable, too, unless the
            file is overwritten in place). `path` does not change, and no temporary file remains.

    Example:
        >>> with replacing("model.json", "w") as file:
        ...     _ = file.write("{}")
    """
    encoding = None if "b" in mode else "utf-8"
    given = os.fsdecode(path)
    path = os.path.realpath(given)
    old = _status(path)
    if not stat.S_ISREG(old.st_mode) if old else os.path.exists(given):  # such as /dev/stdout, a link to no name
        with open(given, mode, encoding=encoding) as file:
            yield file
        return
    # renaming would not ask
    if old and not os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    new = _New(path, given)
    try:
        with new.naming_path(), open(new.create(old), mode, encoding=encoding) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            new.hold(file)
        if _waiting.files is None:
            new.take_place()
    except BaseException:
        new.remove()
        raise
    if _waiting.files is None:
        _sync_folder(new.folder)
    else:
        _waiting.files.append(new)


@contextlib.contextmanager
def together() -> Iterator[None]:
    """A block whose files are all replaced at its end, in the order of writing; if it fails, none of them changes.

    Use it for files that belong together. All are on disk before the first is renamed, so only a
    crash between two renames can leave new files next to old ones. The last file should be the one
    that refers to the others. Within the block, the old files are visible.

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
            files[0].take_place()
            folders[files.pop(0).folder] = True
    finally:
        _waiting.files = None
        for new in files:
            new.remove()
        for folder in folders:
            _sync_folder(folder)


def write_file(path: str | os.PathLike[str], content: bytes | str) -> None:
    """Writes `content` (text in UTF-8) to a file, like `replacing`."""
    with replacing(path, "w" if isinstance(content, str) else "wb") as file:
        file.write(content)


def check_unpacked(size: int, packed: int, source: str | os.PathLike[str]) -> None:
    """Rejects content that is much larger than its compressed form, so that a few bytes cannot fill memory or disk.

    Args:
        size: bytes of the content.
        packed: bytes of the file or archive.
        source: its name for error messages.

    Raises:
        MXNetError: the content exceeds both 256 MB and 100 times the size of the file, or the
            number of bytes in MXJAX_UNPACK_LIMIT.
    """
    limit = settings.UNPACK_LIMIT() or max(256 << 20, 100 * packed)
    if size > limit:
        raise MXNetError(f"{os.fspath(source)}: {packed} bytes that decompress to {size} or more; the limit is "
                         f"{limit}. "
                         "For a file you trust, set the environment variable MXJAX_UNPACK_LIMIT to a larger number")


class _Stream(Protocol):
    """A file, or a decompressing one."""

    def read(self, size: int = -1, /) -> bytes:
        """Returns at most the given number of bytes."""
        ...


def read_packed(stream: _Stream, packed: int, source: str | os.PathLike[str]) -> bytes:
    """Returns the content of a decompressing stream, within the limits of `check_unpacked`.

    Args:
        stream: e.g. a `gzip.GzipFile`.
        packed, source: as in `check_unpacked`.

    Raises:
        MXNetError: the content exceeds the limits.
    """
    parts, size = [], 0
    while part := stream.read(1 << 20):
        size += len(part)
        check_unpacked(size, packed, source)
        parts.append(part)
    return b"".join(parts)


def unpack(archive: str | os.PathLike[str], folder: str | os.PathLike[str]) -> None:
    """Unpacks the files of a zip or tar archive to a directory, where each file appears only when it is complete.

    Raises:
        OSError: the system rejects an operation, or a name in the archive points outside the
            directory.
        MXNetError: the archive is corrupt, or its content is too large (`check_unpacked`).
    """
    import tarfile
    import zipfile
    root, packed, size = os.path.realpath(folder), os.path.getsize(archive), 0
    opened = zipfile.ZipFile if zipfile.is_zipfile(archive) else tarfile.open
    with reading(archive, "an archive"), opened(archive) as content:
        if isinstance(content, zipfile.ZipFile):
            files = ((entry.filename, content.open(entry)) for entry in content.infolist() if not entry.is_dir())
        else:
            files = ((entry.name, cast(IO[bytes], content.extractfile(entry))) for entry in content if entry.isfile())
        for name, source in files:
            target = os.path.realpath(os.path.join(root, name))
            if os.path.commonpath((root, target)) != root:
                raise OSError(errno.EPERM, f"the name {name!r} points outside the directory {root}", os.fspath(archive))
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with source, replacing(target) as file:
                while part := source.read(1 << 20):
                    size += len(part)
                    check_unpacked(size, packed, archive)
                    file.write(part)


@contextlib.contextmanager
def refusals(doing: str) -> Iterator[None]:
    """A block that converts OSErrors to MXNetErrors, as MXNet raises them for files in C++.

    Args:
        doing: beginning of the message, e.g. "cannot write x.params".

    Raises:
        MXNetError: an OSError was raised, which is the cause.
    """
    try:
        yield
    except OSError as error:
        raise MXNetError(f"{doing}: {error.strerror or error}") from error


@contextlib.contextmanager
def reading(source: str | os.PathLike[str], what: str) -> Iterator[None]:
    """A block that reads a file; errors of its decoder become an MXNetError that names the file.

    Args:
        source: the file, for error messages.
        what: kind of the file for error messages, e.g. "a symbol".

    Raises:
        MXNetError: the content is corrupt; the decoder's error is the cause.
        MissingFile, ForbiddenFile, FolderForFile, FileForFolder, RefusedFile: the system rejects
            the access; each is both an MXNetError and the OSError that Python raises.
    """
    one = object()
    being_read[one] = os.path.realpath(source)
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
        first_line = str(error).strip().split("\n")[0]
        raise MXNetError(f"{os.fspath(source)} cannot be read as {what}: {type(error).__name__}"
                         f"{': ' + first_line if first_line else ''}") from error
    finally:
        del being_read[one]


def numbered_lines(path: str | os.PathLike[str], what: str, encoding: str | None = None) -> Iterator[tuple[int, str]]:
    """Yields the lines of a text file with their numbers, from 1.

    Args:
        path: the file.
        what: kind of the file for error messages.
        encoding: encoding of the text; by default that of the locale.

    Raises:
        MXNetError: it is not text in that encoding; the message names file and line.
        MissingFile and the other errors of `reading`: the system rejects the access.
    """
    number = 0
    with reading(path, what):
        file = open(path, encoding=encoding)
    with file:
        try:
            for number, line in enumerate(file, start=1):
                yield number, line
        except UnicodeDecodeError as error:  # text is decoded in blocks: some lines further
            raise MXNetError(f"{os.fspath(path)} cannot be read as {what} after line {number}: {error}") from error


being_read: dict[object, str] = {}  # the paths of files that the library's readers are in


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


class _New:
    """The new content of a file."""

    def __init__(self, path: str, given: str) -> None:
        self.path, self.given = path, given  # the latter may be the number of an open file
        self.folder, self.name = os.path.split(path)
        self.beginning = f".{self.name[:50]}."
        self.temporary = os.path.join(self.folder, f"{self.beginning}{secrets.token_hex(8)}{ENDING}")
        self._locked_copy: int | None = None
        self._nameless = False

    def create(self, old: os.stat_result | None) -> int:
        """Creates the locked file for the content, with the permissions of the old file."""
        self._sweep()
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | \
            getattr(os, "O_BINARY", 0)
        try:
            handle = os.open(self.temporary, flags, 0o666 if old is None else stat.S_IMODE(old.st_mode) & 0o700 | 0o200)
        except OSError:
            if old is None or not _is_known_otherwise(old, self.path):
                raise
            self._nameless = True  # the folder takes no other file, and none is needed there
            with tempfile.TemporaryFile() as room:
                return os.dup(room.fileno())
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
        """Keeps the lock after the file is closed, until its content is in place or removed."""
        self._locked_copy = os.dup(file.fileno())

    def take_place(self) -> None:
        """Moves the content to the target file."""
        with self.naming_path():
            old = _status(self.path)
            if self._nameless or old is not None and _is_known_otherwise(old, self.path):
                self._copy()
                self.remove()
                return
            if sys.platform == "win32":  # which renames no open file
                self._release()
            os.replace(self.temporary, self.path)
        self._release()

    def _copy(self) -> None:
        """Writes it into the file that is there."""
        target = os.open(self.given, os.O_WRONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0))
        try:
            _lock(target)  # two copies at once would be mixed
            locked_copy = cast(int, self._locked_copy)  # `hold` has been called
            _make_room(target, os.fstat(locked_copy).st_size)
            os.ftruncate(target, 0)  # so that a part is seen to be one
            for handle in (target, locked_copy):
                os.lseek(handle, 0, os.SEEK_SET)
            while part := os.read(locked_copy, 1 << 20):
                while part:
                    part = part[os.write(target, part):]
            with contextlib.suppress(OSError):  # such as files that the system itself makes up
                os.fsync(target)
        finally:
            os.close(target)

    def remove(self) -> None:
        if not self._nameless:
            with contextlib.suppress(OSError):
                os.unlink(self.temporary)
        self._release()

    def _release(self) -> None:
        if self._locked_copy is not None:
            os.close(self._locked_copy)
            self._locked_copy = None

    @contextlib.contextmanager
    def naming_path(self) -> Iterator[None]:
        """A block that makes OSErrors refer to the path."""
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
                if name.startswith(self.beginning) and name.endswith(ENDING) and len(name) == length:
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


def _is_known_otherwise(old: os.stat_result, path: str) -> bool:
    """Returns whether the file of this status is used elsewhere: it has other links or is open."""
    if not stat.S_ISREG(old.st_mode):
        return False
    if old.st_size == 0 or old.st_nlink > 1:
        return True
    handles = -list(being_read.values()).count(path)  # the library's own readers want the old content or the new
    for folder in _HANDLES:
        with contextlib.suppress(OSError):
            for number in os.listdir(folder):
                with contextlib.suppress(OSError):  # closed meanwhile
                    one = os.fstat(int(number))
                    handles += (one.st_dev, one.st_ino) == (old.st_dev, old.st_ino)
            break
    return handles > 0


def _make_room(handle: int, size: int) -> None:
    """Refuses before anything changes where the disk has no room for an open file of so many bytes."""
    before = os.fstat(handle).st_size
    if size <= before or not hasattr(os, "posix_fallocate"):
        return
    try:
        os.posix_fallocate(handle, 0, size)
    except OSError as error:
        if error.errno not in _NO_ROOM:  # some file systems do not support it
            return
        os.ftruncate(handle, before)
        raise


def _lock(handle: int) -> None:
    """Locks a file, unless its lock is another's for longer than a copy takes."""
    if sys.platform == "win32":
        return
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        try:
            return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.01)
        except OSError:  # file systems without locks
            return


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
