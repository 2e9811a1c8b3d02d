"""Splitting batches over devices, clipping gradients, downloading files, and small helpers of Gluon."""

from __future__ import annotations

import hashlib
import os
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import numpy as np

from .. import ndarray as nd
from .._files import replacing
from ..context import Context
from ..ndarray import NDArray
from ..util import is_np_array, is_np_shape

__all__ = ["HookHandle", "check_sha1", "clip_global_norm", "download", "replace_file", "shape_is_known",
           "split_and_load", "split_data"]


# -------------------------------------------------------------------- batches
def split_data(data: NDArray, num_slice: int, batch_axis: int = 0, even_split: bool = True) -> list[NDArray]:
    """Splits an array into parts along an axis.

    Args:
        data: the batch.
        num_slice: number of parts.
        batch_axis: axis to split.
        even_split: insist on parts of equal length; otherwise the first ones may be one longer.

    Raises:
        ValueError: `even_split` is set and the length is no multiple of `num_slice`.

    Example:
        >>> [part.shape for part in split_data(mx.nd.zeros((5, 2)), 2, even_split=False)]
        [(3, 2), (2, 2)]
    """
    size = data.shape[batch_axis]
    if even_split and size % num_slice:
        raise ValueError(f"data of shape {data.shape} cannot be split evenly into {num_slice} slices along axis "
                         f"{batch_axis}: use a batch size that is a multiple of {num_slice}, or even_split=False")
    least, longer = divmod(size, num_slice)
    ends = np.cumsum([least + (i < longer) for i in range(num_slice)]).tolist()
    spans = zip([0, *ends], ends, strict=False)
    if batch_axis == 0:
        return [data[begin:end] for begin, end in spans]
    return [nd.slice_axis(data, axis=batch_axis, begin=begin, end=end) for begin, end in spans]


def split_and_load(data: Any, ctx_list: Sequence[Context], batch_axis: int = 0,
                   even_split: bool = True) -> list[NDArray]:
    """Splits a batch along an axis and puts one part on each context.

    Args:
        data: array, or anything `mx.nd.array` takes.
        ctx_list: contexts.
        batch_axis, even_split: as in `split_data`.
    """
    if not isinstance(data, NDArray):
        data = nd.array(data, ctx=ctx_list[0])
        data = data.as_np_ndarray() if is_np_array() else data
    if len(ctx_list) == 1:
        return [data.as_in_context(ctx_list[0])]
    slices = split_data(data, len(ctx_list), batch_axis, even_split)
    return [part.as_in_context(ctx) for part, ctx in zip(slices, ctx_list, strict=True)]


def clip_global_norm(arrays: Sequence[NDArray], max_norm: float, check_isfinite: bool = True) -> float | NDArray:
    """Scales arrays in place so that the 2-norm of all of them together is at most `max_norm`.

    Args:
        arrays: arrays, usually gradients, on any contexts.
        max_norm: bound of the norm.
        check_isfinite: wait for the norm and warn where it is infinite or no number.

    Returns:
        The norm before scaling: a float, or without `check_isfinite` an NDArray of shape (1,).

    Raises:
        ValueError: there are no arrays.
    """
    if not arrays:
        raise ValueError("clip_global_norm: there are no arrays")
    ctx = arrays[0].context
    by_place: dict[tuple, list[NDArray]] = {}
    for array in arrays:
        by_place.setdefault((array.context, array.dtype, array.stype), []).append(array)
    squares = []
    for (_, _, stype), group in by_place.items():
        if stype == "default":
            sums = nd.multi_sum_sq(*group, num_arrays=len(group)).sum()
        else:
            sums = nd.add_n(*[array.norm().square() for array in group])
        squares.append(sums.astype("float32", copy=False).as_in_context(ctx))
    total = nd.sqrt(nd.add_n(*squares))
    if check_isfinite and not np.isfinite(total.asscalar()):
        warnings.warn("nan or inf is detected. Clipping results will be undefined.", UserWarning, stacklevel=2)
    scale = nd.minimum(max_norm / (total + 1e-8), 1.0)
    for array in arrays:
        array *= scale.as_in_context(array.context).astype(array.dtype, copy=False)
    return total.asscalar() if check_isfinite else total


# -------------------------------------------------------------------- files
def check_sha1(filename: str, sha1_hash: str) -> bool:
    """Whether a file's SHA-1 is `sha1_hash` (hexadecimal digits)."""
    with open(filename, "rb") as file:
        return hashlib.file_digest(file, "sha1").hexdigest() == sha1_hash


def replace_file(src: str, dst: str) -> None:
    """Moves a file over another in one step; `src` is removed where that fails.

    Raises:
        OSError: it could not be moved.
    """
    try:
        os.replace(src, dst)
    except OSError as error:
        if os.path.exists(src):
            os.remove(src)
        raise OSError(f"moving the downloaded file {src} to {dst} failed; please retry the download") from error


def download(url: str, path: str | None = None, overwrite: bool = False, sha1_hash: str | None = None,
             retries: int = 5, verify_ssl: bool = True) -> str:
    """Downloads a file, unless it is there already.

    Args:
        url: address, of a web server or of a file (file://).
        path: file or existing folder to store to; by default the current folder, under the name in the address.
        overwrite: download even if the file is there.
        sha1_hash: expected SHA-1; a file with another one is downloaded again.
        retries: how often to try again after a failure.
        verify_ssl: check the server's certificate.

    Returns:
        The file's path.

    Raises:
        ValueError: the address ends in no file name and `path` names no file, or `retries` is negative.
        OSError: all attempts failed, or the content does not have the hash. Failures of the network are the
            subclasses of it in `requests.exceptions`.
    """
    name = url.split("/")[-1]
    target = os.path.expanduser(path) if path is not None else name
    if os.path.isdir(target):
        target = os.path.join(target, name)
    if not target:
        raise ValueError(f"download: {url} ends in no file name; say where to store it by path=")
    if retries < 0:
        raise ValueError(f"download: retries must not be negative, got {retries}")
    if not verify_ssl:
        warnings.warn("Unverified HTTPS request: nobody checks the server's certificate (verify_ssl=False)",
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
    url = os.environ.get("MXNET_GLUON_REPO", "https://apache-mxnet.s3-accelerate.dualstack.amazonaws.com/")
    return url if url.endswith("/") else url + "/"


def _get_repo_file_url(namespace: str, filename: str) -> str:
    """Address of a file in that repository."""
    return f"{_get_repo_url()}{namespace}/{filename}"


# -------------------------------------------------------------------- helpers
class HookHandle:
    """What `register_forward_hook` and the like return: `detach()` (or leaving its `with` block) removes the hook."""

    def __init__(self) -> None:
        self._hooks_dict_ref: weakref.ref | None = None
        self._id: int | None = None

    def attach(self, hooks_dict: OrderedDict, hook: Callable) -> None:
        """Adds a hook to a block's hooks; once per handle."""
        if self._hooks_dict_ref is not None:
            raise AssertionError("a handle cannot be attached twice")
        self._id = id(hook)
        hooks_dict[self._id] = hook
        self._hooks_dict_ref = weakref.ref(hooks_dict)

    def detach(self) -> None:
        """Removes the hook; does nothing the second time."""
        hooks = self._hooks_dict_ref()
        if hooks is not None:
            hooks.pop(self._id, None)

    def __getstate__(self) -> tuple:
        return self._hooks_dict_ref(), self._id

    def __setstate__(self, state: tuple) -> None:
        self._hooks_dict_ref = weakref.ref(OrderedDict() if state[0] is None else state[0])
        self._id = state[1]

    def __enter__(self) -> HookHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.detach()


def shape_is_known(shape: Sequence[int] | None) -> bool:
    """Whether all dimensions of a shape are known; unknown ones are 0, or -1 under NumPy shape semantics."""
    if shape is None:
        return False
    unknown = -1 if is_np_shape() else 0
    if any(size < unknown for size in shape):
        raise AssertionError(f"a dimension cannot be less than {unknown}, got the shape {tuple(shape)}")
    return unknown not in shape and (len(shape) > 0 or unknown == -1)


def _indent(text: str, width: int) -> str:
    """All lines but the first moved right."""
    return text.replace("\n", "\n" + " " * width)


def _brief_print_list(names: Iterable[Any], limit: int = 7) -> str:
    """Names in quotes, the middle ones left out where there are many."""
    quoted = [f"'{name}'" for name in names]
    if len(quoted) > limit:
        quoted[limit // 2:-((limit + 1) // 2)] = ["..."]
    return ", ".join(quoted)
