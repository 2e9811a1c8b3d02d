"""The dependency engine, which runs functions in the order that their read and written variables require.

It can be used independently, for any kind of work: files, web requests, transforms. See README.md
    in this directory.

>>> from mxjax import engine
>>> eng = engine.get()
>>> text, count = eng.new_variable("text"), eng.new_variable("count")
>>> done = []
>>> eng.push(lambda run_ctx: done.append("text read"), (), (text,))
>>> eng.push(lambda run_ctx: done.append("words counted"), (text,), (count,))
>>> eng.wait_for_var(count)
>>> done
['text read', 'words counted']
"""

from __future__ import annotations

import os
import threading

from .._support import settings
from ..base import MXNetError
from .base import Engine, running
from .bulking import bulk, bulk_size, on_bulk_exit, set_bulk_size
from .naive import NaiveEngine
from .operation import Operator, RunContext
from .threaded import ThreadedEngine, ThreadedEnginePerDevice
from .var import Var

__all__ = ["get", "Engine", "ThreadedEnginePerDevice", "ThreadedEngine", "NaiveEngine", "Operator", "RunContext", "Var",
           "bulk", "set_bulk_size", "bulk_size", "on_bulk_exit", "running"]

_TYPES = {kind.__name__: kind for kind in (ThreadedEnginePerDevice, ThreadedEngine, NaiveEngine)}
_engine: Engine | None = None
_engine_lock = threading.Lock()


def get() -> Engine:
    """Returns the engine of this process, which is created on first use.

    The environment variable MXNET_ENGINE_TYPE selects its type: ThreadedEnginePerDevice (default),
        ThreadedEngine
    or NaiveEngine.

    Raises:
        MXNetError: MXNET_ENGINE_TYPE has another value.
    """
    global _engine
    if _engine is None:
        with _engine_lock:
            if _engine is None:
                name = settings.ENGINE_TYPE()
                if name not in _TYPES:
                    raise MXNetError(f"MXNET_ENGINE_TYPE={name!r}: expected one of {', '.join(_TYPES)}")
                _engine = _TYPES[name]()
    return _engine
