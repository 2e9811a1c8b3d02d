"""The secret of a job, which authenticates its processes. Every job of several processes has one."""

from __future__ import annotations

import os
import secrets
import stat

from .._support import settings
from ..base import MXNetError

__all__ = ["find", "make", "path"]

_LEAST, _MOST = 16, 4096  # characters; a shorter one could be guessed by whoever has listened to a handshake


def path() -> str:
    """Returns the path of the user's default secret file, which jobs without another secret use."""
    folder = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(folder, "mxjax", "cluster-token")


def make() -> str:
    """Creates the user's secret file, which nobody else can read, and returns its path.

    Raises:
        MXNetError: the file already exists or cannot be written.
    """
    if not _create():
        raise MXNetError(f"{path()} already exists; remove it first to create another secret")
    return path()


def find(local: bool) -> bytes:
    """Returns the secret of this process's job.

    It is MXJAX_CLUSTER_TOKEN (which `mxjax launch` sets), otherwise the content of the file
    MXJAX_CLUSTER_TOKEN_FILE, otherwise that of the user's secret file.

    Args:
        local: all processes are on this machine. The user's secret file is then created if it is
            missing, because all of them can read it.

    Raises:
        MXNetError: there is no secret, it is too short, or others can read the file.
    """
    if settings.CLUSTER_TOKEN():
        return _checked(settings.CLUSTER_TOKEN().encode(), "MXJAX_CLUSTER_TOKEN")
    if settings.CLUSTER_TOKEN_FILE():
        return _read(settings.CLUSTER_TOKEN_FILE())
    if local:
        _create()
    elif not os.path.exists(path()):
        raise MXNetError(
            "a job over several machines needs a secret that only its processes know, and there is none. Choose one: "
            "start the job by `python -m mxjax launch`; or run `python -m mxjax launch --make-token` "
            f"once, which writes {path()}, and copy that file (mode 0600) to all machines; or set "
            f"MXJAX_CLUSTER_TOKEN_FILE to such a file; or set MXJAX_CLUSTER_TOKEN to the same random text of {_LEAST} "
            f"characters or more everywhere")
    return _read(path())


def _create() -> bool:
    """Makes the user's own file; False: there is one. Of several processes that try at once one succeeds."""
    target = path()
    own = f"{target}.{secrets.token_hex(8)}"  # the numbers of processes repeat on machines that share a home
    try:
        if os.path.exists(target):
            return False
        os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
        fd = os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(fd, secrets.token_hex(32).encode() + b"\n")
            os.fsync(fd)
            os.link(own, target)  # whole or not at all, and never over another's
        finally:
            os.close(fd)
            os.unlink(own)
    except FileExistsError:
        return False
    except OSError as error:
        raise MXNetError(f"cannot write a secret to {target} ({error.strerror}): set MXJAX_CLUSTER_TOKEN to a "
                         f"random text of {_LEAST} characters or more, the same for all processes of the job") from None
    return True


def _read(file: str) -> bytes:
    """The secret in a file that only this user can read."""
    try:
        fd = os.open(file, os.O_RDONLY | os.O_NONBLOCK)  # a pipe without a writer must not hold us up
    except OSError as error:
        raise MXNetError(f"the secret of the job, {file}: {error.strerror}") from None
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise MXNetError(f"the secret of the job, {file}: not a file")
        if status.st_uid != os.geteuid():
            raise MXNetError(f"the secret of the job, {file}: it belongs to user {status.st_uid}, not to this one "
                             f"({os.geteuid()})")
        if status.st_mode & 0o077:
            raise MXNetError(f"the secret of the job, {file}: users other than its owner can access it (mode "
                             f"{stat.S_IMODE(status.st_mode):04o}); create a new one and `chmod 600` it")
        return _checked(os.read(fd, _MOST + 1), file)
    finally:
        os.close(fd)


def _checked(secret: bytes, where: str) -> bytes:
    secret = secret.strip()
    if not _LEAST <= len(secret) <= _MOST:
        raise MXNetError(f"{where}: a secret must have {_LEAST} to {_MOST} characters, this one has {len(secret)}; "
                         "`python -c 'import secrets; print(secrets.token_hex(32))'` prints a suitable one")
    return secret
