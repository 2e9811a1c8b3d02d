"""Downloading files."""

from __future__ import annotations

import hashlib
import os
import time
import warnings
from collections.abc import Iterator
from urllib.parse import urlsplit
from urllib.request import url2pathname

from . import settings
from .files import replacing

__all__ = ["check_sha1", "download", "replace_file"]

_FIRST_WAIT, _LONGEST_WAIT = 0.2, 5.0  # seconds between attempts: each twice the last


def check_sha1(filename: str, sha1_hash: str) -> bool:
    """Returns whether a file's SHA-1 is `sha1_hash` (hexadecimal digits)."""
    with open(filename, "rb") as file:
        return hashlib.file_digest(file, "sha1").hexdigest() == sha1_hash


def replace_file(src: str, dst: str) -> None:
    """Atomically replaces a file by another; `src` is removed if that fails.

    Raises:
        OSError: the file cannot be moved.
    """
    try:
        os.replace(src, dst)
    except OSError as error:
        if os.path.exists(src):
            os.remove(src)
        raise OSError(f"moving the downloaded file {src} to {dst} failed; please retry the download") from error


def download(url: str, path: str | None = None, overwrite: bool = False, sha1_hash: str | None = None,
             retries: int = 5, verify_ssl: bool = True) -> str:
    """Downloads a file, unless it exists already.

    Args:
        url: URL of a web server or a file (file://).
        path: target file or existing directory; by default the current directory, under the name in
            the URL.
        overwrite: download even if the file exists.
        sha1_hash: expected SHA-1; a file with another one is downloaded again.
        retries: number of retries after a failure.
        verify_ssl: check the server's certificate.

    Returns:
        The file's path.

    Raises:
        ValueError: neither the URL nor `path` contains a file name, or `retries` is negative.
        OSError: all attempts failed, or the content does not match the hash. Network failures are
            its subclasses in `requests.exceptions`.
    """
    name = url.split("/")[-1]
    target = os.path.expanduser(path) if path is not None else name
    if os.path.isdir(target):
        target = os.path.join(target, name)
    if not target:
        raise ValueError(f"download: {url} does not end in a file name; pass the target as path=")
    if retries < 0:
        raise ValueError(f"download: retries must not be negative, got {retries}")
    if not verify_ssl:
        warnings.warn("Unverified HTTPS request: the server's certificate is not checked (verify_ssl=False)",
                      stacklevel=2)
    if not overwrite and os.path.exists(target) and (not sha1_hash or check_sha1(target, sha1_hash)):
        return target
    os.makedirs(os.path.dirname(os.path.abspath(target)), exist_ok=True)
    for left in range(retries, -1, -1):
        try:
            _fetch(url, target, sha1_hash, verify_ssl)
            break
        except OSError as error:
            if left <= 0:
                raise
            print(f"download of {url} failed ({error!r}), trying again, {left} attempt{'s' * (left > 1)} left")
            if not url.startswith("file:"):
                time.sleep(min(_FIRST_WAIT * 2 ** (retries - left), _LONGEST_WAIT))
    return target


def _fetch(url: str, target: str, sha1_hash: str | None, verify_ssl: bool) -> None:
    """Downloads a file, which takes the target's place when it is complete and as expected."""
    print(f"Downloading {target} from {url}...")
    digest = hashlib.sha1()
    with replacing(target) as file:
        for block in _blocks(url, verify_ssl):
            digest.update(block)
            file.write(block)
        if sha1_hash and digest.hexdigest() != sha1_hash:
            raise OSError(f"the content of {url} does not have the SHA-1 {sha1_hash}: the repository may be outdated, "
                          "or the download incomplete")


def _blocks(url: str, verify_ssl: bool) -> Iterator[bytes]:
    """The content at an address, in blocks."""
    if url.startswith("file:"):
        with open(url2pathname(urlsplit(url).path), "rb") as source:
            yield from iter(lambda: source.read(1 << 20), b"")
    else:
        import requests  # takes 0.1 s to import
        with requests.get(url, stream=True, verify=verify_ssl, timeout=60) as response:  # seconds without an answer
            response.raise_for_status()
            yield from response.iter_content(1 << 20)


def _get_repo_url() -> str:
    """Address of the repository of data sets and models: MXNET_GLUON_REPO, else MXNet's own."""
    url = settings.GLUON_REPO()
    return url if url.endswith("/") else url + "/"


def _get_repo_file_url(namespace: str, filename: str) -> str:
    """Address of a file in that repository."""
    return f"{_get_repo_url()}{namespace}/{filename}"
