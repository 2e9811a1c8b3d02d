"""The environment of a test: variables, devices, retries."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from ..context import num_gpus
from ..io import DataIter
from ..util import getenv, setenv


def retry(n: int) -> Callable[[Callable], Callable]:
    """A decorator that runs a test up to n times until it passes."""
    if n <= 0:
        raise AssertionError("n must be positive")

    def decorate(function: Callable) -> Callable:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> None:
            for attempt in range(n):
                try:
                    function(*args, **kwargs)
                    return
                except AssertionError:
                    if attempt == n - 1:
                        raise
        return wrapper
    return decorate


@contextlib.contextmanager
def environment(*args: Any) -> Iterator[None]:
    """A `with` scope with environment variables: (name, value) or a dictionary; None removes a variable."""
    wanted = dict([args]) if len(args) == 2 else dict(args[0])
    before = {k: getenv(k) for k in wanted}
    try:
        for k, v in wanted.items():
            setenv(k, v)
        yield
    finally:
        for k, v in before.items():
            setenv(k, v)


@contextlib.contextmanager
def discard_stderr() -> Iterator[None]:
    """A `with` scope that discards stderr, including that of native code."""
    sys.stderr.flush()
    saved = os.dup(2)
    with open(os.devnull, "w") as sink:
        try:
            os.dup2(sink.fileno(), 2)
            yield
        finally:
            os.dup2(saved, 2)
            os.close(saved)


class _Described(Protocol):
    """An iterator with descriptions of its batches."""

    batch_size: int

    @property
    def provide_data(self) -> Sequence[Any]: ...

    @property
    def provide_label(self) -> Sequence[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


class DummyIter(DataIter):
    """An iterator that repeats the first batch of another iterator forever, to exclude data loading from timings."""

    def __init__(self, real_iter: _Described) -> None:
        super().__init__()
        self.real_iter = real_iter
        self.provide_data, self.provide_label = real_iter.provide_data, real_iter.provide_label
        self.batch_size = real_iter.batch_size
        self.the_batch = next(iter(real_iter))

    def __iter__(self) -> DummyIter:
        return self

    def next(self) -> Any:
        """Returns the batch."""
        return self.the_batch


def list_gpus() -> range:
    """Returns the indices of the GPUs that JAX sees."""
    return range(num_gpus())


def is_cd_run() -> bool:
    """Returns whether this is a run of MXNet's own continuous delivery (CD_JOB)."""
    return os.environ.get("CD_JOB", "0") == "1"


def is_aarch64_run() -> bool:
    """Returns whether this is a 64-bit ARM machine."""
    import platform
    return platform.machine() == "aarch64"


def is_op_runnable() -> bool:
    """Returns whether operators that need a new GPU (or none) can run."""
    return True


def has_tvm_ops() -> bool:
    """Returns False, because XLA compiles all operators instead of TVM."""
    return False
