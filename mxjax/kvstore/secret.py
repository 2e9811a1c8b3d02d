"""The secret of a job: who knows it may take part. There is no job of several processes without one."""

from __future__ import annotations

import os
import secrets
import stat

from .._support import settings
from ..base import MXNetError

__all__ = ["find", "make", "path"]

_LEAST, _MOST = 16, 4096  # characters; a shorter one could be guessed by whoever has listened to a handshake


def path() -> str:
    """The user's own file, from which all jobs take their secret that are not told another."""
    folder = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(folder, "mxjax", "cluster-token")


def make() -> str:
    """Makes the user's own file, which nobody else can read; returns its path.

    Raises:
        MXNetError: it is there already, or cannot be written.
    """
    if not _create():
        raise MXNetError(f"{path()} is there already; remove it first to have another secret")
    return path()


def find(local: bool) -> bytes:
    """The secret of this process's job.

    It is MXJAX_CLUSTER_TOKEN (`mxjax launch` sets it), else what the file MXJAX_CLUSTER_TOKEN_FILE holds, else the
    user's own file.

    Args:
        local: all processes are on this machine: the user's own file is made where it is missing, for they all see it.

    Raises:
        MXNetError: there is none; or others can read the file, or it is too short.
    """
    if settings.CLUSTER_TOKEN():
        return _checked(settings.CLUSTER_TOKEN().encode(), "MXJAX_CLUSTER_TOKEN")
    if settings.CLUSTER_TOKEN_FILE():
        return _read(settings.CLUSTER_TOKEN_FILE())
    if local:
        _create()
    elif not os.path.exists(path()):
        raise MXNetError(
            "a job over several machines needs a secret that only its processes know, and there is none. Any of these "
            "gives it one: start the job by `python -m mxjax launch`; or run `python -m mxjax launch --make-token` "
            f"once, which writes {path()}, and have that file (mode 0600) on all machines; or set "
            "MXJAX_CLUSTER_TOKEN_FILE to such a file; or set MXJAX_CLUSTER_TOKEN to the same random text, "
            f"{_LEAST} characters or more, everywhere")
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
        raise MXNetError(f"no secret can be written to {target} ({error.strerror}): set MXJAX_CLUSTER_TOKEN to a "
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
            raise MXNetError(f"the secret of the job, {file}: others than its owner may use it (mode "
                             f"{stat.S_IMODE(status.st_mode):04o}); make a new one and `chmod 600` it")
        return _checked(os.read(fd, _MOST + 1), file)
    finally:
        os.close(fd)


def _checked(secret: bytes, where: str) -> bytes:
    secret = secret.strip()
    if not _LEAST <= len(secret) <= _MOST:
        raise MXNetError(f"{where}: a secret has {_LEAST} to {_MOST} characters, this one {len(secret)}; "
                         "`python -c 'import secrets; print(secrets.token_hex(32))'` prints a good one")
    return secret
