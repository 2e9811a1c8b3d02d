"""Checkpoint directories: orbax writes them atomically in the background; any devices can read them.

A directory contains a subdirectory per step, named by the step's number. Its file `state` is JSON
with names, shapes and plain values. `arrays` contains the arrays in the shards of the devices.
Values that differ between processes are stored as one row of bytes per process.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec, Sharding

from .._support.files import reading
from .._xla.x64 import x64_mode
from ..base import MXNetError

__all__ = ["Found", "Target", "Writer", "find"]

_ROWS = "processes"
# Python 3.12.0 to 3.12.2 begin no thread once the program has come to its end (CPython issue 113964); orbax needs some
_ENDS_EARLY = (3, 12) <= sys.version_info < (3, 12, 3)


def _package() -> Any:
    try:
        import orbax.checkpoint  # here: it is optional, and takes half a second
        return orbax.checkpoint
    except ImportError as error:
        raise MXNetError("checkpoints of a step need orbax-checkpoint: pip install 'mxjax[checkpoint]'") from error


def _root(directory: str | os.PathLike[str]) -> str:
    path = os.fspath(directory)
    return path if "://" in path else os.path.abspath(path)  # a bucket's name is whole


def _of_processes() -> NamedSharding:
    """A row for each process, on its first device."""
    firsts: dict[int, Any] = {}
    for device in sorted(jax.devices(), key=lambda device: device.id):
        firsts.setdefault(device.process_index, device)
    return NamedSharding(Mesh([firsts[i] for i in sorted(firsts)], ("process",)), PartitionSpec("process"))


def _rows(text: bytes) -> Any:
    """Each process's bytes as a row of one array, filled up with spaces."""
    row = np.frombuffer(text, np.uint8)[None]
    if jax.process_count() == 1:
        return row
    longest = int(np.max(multihost_utils.process_allgather(np.int32(row.shape[1]))))
    row = np.pad(row, ((0, 0), (0, longest - row.shape[1])), constant_values=ord(" "))
    return jax.make_array_from_process_local_data(_of_processes(), row)


class Writer:
    """Writes checkpoints one at a time in the background. The next call raises the error of a failed write.

    A checkpoint in progress is completed before the program exits or this object is deleted.
    """

    def __init__(self) -> None:
        self._opened: tuple[str | None, int | None] = None, None  # folder, and how many stay
        self._manager: Any = None
        self._failure_text = ""
        self._close: Any = None

    def write(self, directory: str | os.PathLike[str], number: int, arrays: Mapping[str, Mapping[str, Any]],
              own: dict[str, Any], state: dict[str, Any], keep: int | None) -> None:
        """Starts to write a checkpoint; returns as soon as the arrays may be overwritten.

        Args:
            directory: checkpoint directory; created if it does not exist.
            number: the step's number.
            arrays: groups of arrays by name. They are on the devices of all processes, or NumPy
                arrays, of which process 0 writes its own.
            own: plain values of this process.
            state: plain values of all processes.
            keep: number of checkpoints to keep; None: all.

        Raises:
            MXNetError: the checkpoint cannot be written, the previous one could not be, or one of
                this step or a later one exists.
        """
        orbax, root = _package(), _root(directory)
        self.wait()
        with self._failing(f"the checkpoint of step {number} in {root} cannot be written"):
            if self._opened != (root, keep):
                self._forget()
                self._open(orbax, root, keep)
            latest = self._manager.latest_step()
            if latest is not None and number <= latest:
                raise MXNetError(f"{root} already has a checkpoint of step {latest}, and training resumes from the "
                                 f"last one: to continue from step {number}, move the later one away or save to "
                                 f"another directory")
            rows = _rows(json.dumps(own).encode())
            content, state = {**arrays, _ROWS: {"rows": rows}}, {**state, "rows": list(rows.shape)}
            self._failure_text = f"the checkpoint of step {number} in {root} could not be written"
            with x64_mode(True):  # else orbax's slices of 64-bit arrays have 32
                self._manager.save(number, force=True, args=orbax.args.Composite(  # force: at every step, if asked to
                    arrays=orbax.args.PyTreeSave(content), state=orbax.args.JsonSave(state)))
            while _ENDS_EARLY and self._manager.is_saving_in_progress():
                time.sleep(0.005)

    def wait(self) -> None:
        """Waits until the checkpoint in progress is written.

        Raises:
            MXNetError: writing it failed.
        """
        if self._manager is not None:
            with self._failing(self._failure_text):
                self._manager.wait_until_finished()

    def _open(self, orbax: ModuleType, root: str, keep: int | None) -> None:
        options = orbax.CheckpointManagerOptions(
            preservation_policy=orbax.checkpoint_managers.LatestN(keep), save_root_metadata=False,
            cleanup_tmp_directories=True)  # leftovers of killed processes
        self._manager = orbax.CheckpointManager(root, options=options)
        self._opened = root, keep
        self._close = weakref.finalize(self, self._manager.close)
        if not _writers:
            # private, and the only way: when `atexit` comes, Python has shut down the threads that orbax writes with
            threading._register_atexit(_finish)  # type: ignore[attr-defined]
        _writers.add(self)

    def writes_to(self, root: str) -> bool:
        """Returns whether the writer writes to this directory."""
        return self._opened[0] == root

    def _forget(self) -> None:
        manager, close = self._manager, self._close
        self._manager, self._opened, self._close = None, (None, None), None
        if manager is not None:
            close.detach()
            manager.close()

    @contextlib.contextmanager
    def _failing(self, what: str) -> Iterator[None]:
        """A block whose failures are raised with the message `what`; the next save starts anew."""
        try:
            yield
        except MXNetError:
            raise
        except Exception as error:
            with contextlib.suppress(Exception):  # it would raise the same error again
                self._forget()
            raise MXNetError(f"{what}: {type(error).__name__}: {str(error).strip().split(chr(10))[0]}") from error


_writers: weakref.WeakSet[Writer] = weakref.WeakSet()


def _finish() -> None:
    """Waits for all that is being written, when the program ends."""
    for writer in list(_writers):
        try:
            writer.wait()
        except MXNetError as error:  # there is no caller to catch it
            logging.getLogger(__name__).error("%s", error)


class Target(NamedTuple):
    """An array to be read: its shape, dtype and sharding."""

    shape: tuple[int, ...]
    dtype: np.dtype
    sharding: Sharding


class Found(NamedTuple):
    """An existing checkpoint. state: its plain values, if they are a dict."""

    path: str
    number: int
    state: dict[str, Any]
    manager: Any

    def read(self, targets: Mapping[str, Mapping[str, Target]], rows: tuple[int, int]) -> tuple[dict[str, Any], Any]:
        """Returns the arrays, with each shard on its device, and this process's plain values.

        Args:
            targets: expected shapes, dtypes and shardings of the groups' arrays.
            rows: shape of the array that has a row for each process.

        Raises:
            MXNetError: the files are corrupt or contain other arrays.
        """
        orbax = _package()
        wanted = {group: dict(named) for group, named in targets.items()}
        alike = rows[0] == jax.process_count() > 1
        with reading(self.path, "a checkpoint"), x64_mode(True):
            arguments = jax.tree.map(lambda t: orbax.ArrayRestoreArgs(
                restore_type=jax.Array, sharding=t.sharding, global_shape=t.shape, dtype=t.dtype), wanted,
                is_leaf=lambda t: isinstance(t, Target))
            if alike:
                own = orbax.ArrayRestoreArgs(restore_type=jax.Array, sharding=_of_processes(), global_shape=rows,
                                             dtype=np.uint8)
            else:
                own = orbax.RestoreArgs(restore_type=np.ndarray)
            arguments[_ROWS] = {"rows": own}
            item = jax.tree.map(lambda _: 0, arguments, is_leaf=lambda a: isinstance(a, orbax.RestoreArgs))
            read = self.manager.restore(self.number, args=orbax.args.Composite(
                arrays=orbax.args.PyTreeRestore(item=item, restore_args=arguments)))["arrays"]
            row = read.pop(_ROWS)["rows"]
            if row.shape != rows:
                raise MXNetError(f"it has rows of {row.shape[0]} processes, expected {rows[0]}")
            row = np.asarray(row.addressable_shards[0].data if alike else row)[0]
            for group, named in wanted.items():
                for name, target in named.items():
                    if (read[group][name].shape, read[group][name].dtype) != (target.shape, target.dtype):
                        raise MXNetError(f"the array {group}/{name} does not match its description in `state`")
            return read, json.loads(row.tobytes())


def find(directory: str | os.PathLike[str], number: int | None) -> Found | None:
    """Finds a checkpoint in a directory.

    Args:
        directory: the checkpoint directory.
        number: the step's number; None: the last complete checkpoint, if any. A warning names each
            incomplete one that is skipped.

    Raises:
        MXNetError: there is no checkpoint with this number.
    """
    orbax, root = _package(), _root(directory)
    if "://" not in root and not os.path.isdir(root):
        if number is None:
            return None
        raise MXNetError(f"cannot restore a checkpoint: the directory {root} does not exist")
    for writer in list(_writers):
        if writer.writes_to(root):
            writer.wait()
    options = orbax.CheckpointManagerOptions(create=False, save_root_metadata=False)
    with reading(root, "a checkpoint directory"):
        manager = orbax.CheckpointManager(root, options=options)
        numbers = sorted(manager.all_steps(), reverse=True)
    if number is not None and number not in numbers:
        raise MXNetError(f"{root} has no checkpoint of step {number}; it has {numbers or 'none'}")
    for one in numbers if number is None else [number]:
        path = os.path.join(root, str(one))
        try:
            with reading(path, "a checkpoint"):
                state = manager.restore(one, args=orbax.args.Composite(state=orbax.args.JsonRestore()))["state"]
                if not isinstance(state, dict) or "mxjax" not in state:
                    raise MXNetError("it contains no state of a training step")
        except (MXNetError, OSError) as error:
            if number is not None:
                raise MXNetError(f"{path} is not a complete checkpoint of a training step: {error}") from error
            warnings.warn(f"{path} is skipped because it is not a complete checkpoint of a training step: "
                          f"{error}", stacklevel=4)
            continue
        return Found(path, one, state, manager)
    return None
