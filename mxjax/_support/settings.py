"""Settings by environment variables: the single table, from which the documentation is generated.

A setting is read at each use. An invalid value raises an error that names the variable, its text,
and the expected value.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

__all__ = ["TABLE", "Setting"]

Value = TypeVar("Value")
TABLE: dict[str, Setting[Any]] = {}  # by name


class Setting(Generic[Value]):
    """A setting; `NAME()` returns its value.

    Args:
        name: name of the environment variable.
        default: the value without the variable.
        meaning: its meaning, in Markdown, for the documentation.
        parse: function that converts text to the value; raises ValueError.
        expected: description of valid texts, for the error.
        shown: the default in the documentation.
    """

    def __init__(self, name: str, default: Value, meaning: str, parse: Callable[[str], Value], expected: str,
                 shown: str | None = None) -> None:
        self.name, self.default, self.meaning = name, default, meaning
        self._parse, self._expected = parse, expected
        self.shown = shown or _shown(default)
        TABLE[name] = self

    def __call__(self) -> Value:
        """Returns the value.

        Raises:
            MXNetError: the variable's text is invalid.
        """
        text = os.environ.get(self.name)
        if text is None or text == "":
            return self.default
        try:
            return self._parse(text)
        except ValueError:
            from ..base import MXNetError  # it loads NumPy, which `--help` does without
            raise MXNetError(f"{self.name}={text!r}: expected {self._expected}") from None


def _shown(default: object) -> str:
    if default in (None, ""):
        return "-"
    if isinstance(default, bool):
        return str(int(default))
    return f"{default:g}" if isinstance(default, float) else str(default)


def _flag(text: str) -> bool:
    return text not in ("0", "false", "False", "off")


def _switch(name: str, default: bool, meaning: str) -> Setting[bool]:
    return Setting(name, default, meaning, _flag, "0 or 1")


def _number(name: str, default: object, what: str, meaning: str, least: int = 0,
            shown: str | None = None) -> Setting[Any]:
    def parse(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise ValueError
        return int(text)
    return Setting(name, default, meaning, parse, f"a number of {what}{f', {least} or more' if least else ''}", shown)


def _seconds(name: str, default: float, meaning: str) -> Setting[float]:
    def parse(text: str) -> float:
        seconds = float(text)
        if not 0 <= seconds <= threading.TIMEOUT_MAX:
            raise ValueError
        return seconds
    return Setting(name, default, meaning, parse, "a number of seconds, 0 or more")


def _text(name: str, default: str, meaning: str, shown: str | None = None) -> Setting[str]:
    return Setting(name, default, meaning, str, "a text", shown)


def _choice(name: str, default: str, choices: tuple[str, ...], meaning: str) -> Setting[str]:
    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError
        return text
    return Setting(name, default, meaning, parse, f"one of {', '.join(choices)}")


# ------------------------------------------------------------ how programs run
ENFORCE_DETERMINISM = _switch(
    "MXNET_ENFORCE_DETERMINISM", False,
    "1: on CPUs, XLA computes everything from the first call on, so that equal calls have bitwise equal results")
BACKWARD_DO_MIRROR = _switch(
    "MXNET_BACKWARD_DO_MIRROR", False,
    "1: intermediate results are recomputed in the backward pass instead of stored; for single blocks: "
    "`net.hybridize(remat=True)`")
ELIMINATE_COMMON_EXPR = _switch(
    "MXNET_ELIMINATE_COMMON_EXPR", True, "0: the graph of an executor computes common subexpressions each time")
SUBGRAPH_BACKEND = _text(
    "MXNET_SUBGRAPH_BACKEND", "", "name of a registered backend that is applied to graphs when they are bound")
TENSOR_OP_CONVERSION = _switch(
    "MXNET_CUDA_TENSOR_OP_MATH_ALLOW_CONVERSION", False,
    "1: float32 products may be computed in a lower precision on GPUs and TPUs")
CUDA_GRAPHS = _choice(
    "MXJAX_CUDA_GRAPHS", "xla", ("off", "xla", "convolutions", "all"),
    "launches in CUDA graphs on NVIDIA GPUs: `off` none, `xla` those that XLA chooses, `convolutions` also "
    "convolutions, `all` also the iterations of loops")
MKLDNN_ENABLED = _switch("MXNET_MKLDNN_ENABLED", True, "0: convolutions on CPUs use XLA, not oneDNN")
STORAGE_FALLBACK_LOG = _switch(
    "MXNET_STORAGE_FALLBACK_LOG_VERBOSE", True, "0: no warning when an operator converts sparse arrays to dense ones")
PROGRAM_MEMORY = _number(
    "MXJAX_PROGRAM_MEMORY", None, "megabytes",
    "memory limit of compiled programs in megabytes; beyond it, at least half of them are dropped", 1,
    "1024, or an eighth of the memory")
CACHE_DIR = _text(
    "MXJAX_CACHE_DIR", "", "directory, or packed file, of the persistent cache of compiled programs",
    "`~/.cache/mxjax`")
CACHE_MEMORY = _number("MXJAX_CACHE_MEMORY", 2048, "megabytes", "size limit of this directory in megabytes")
TRACEBACK_FILTERING = _switch(
    "MXJAX_TRACEBACK_FILTERING", True,
    "`off`: tracebacks also show the frames of the library; an error that a program catches always contains them")

# ------------------------------------------------------------ host work
ENGINE_TYPE = _text(
    "MXNET_ENGINE_TYPE", "ThreadedEnginePerDevice",
    "the engine for work on the host: `ThreadedEnginePerDevice`, `ThreadedEngine`, or `NaiveEngine` (runs "
    "operations one by one in the calling thread)")
CPU_WORKERS = _number(
    "MXNET_CPU_WORKER_NTHREADS", min(max(os.cpu_count() or 1, 2), 4), "threads",
    "threads of the engine for work on CPUs", 1, "2 to 4, by the number of cores")
CPU_PRIORITY_WORKERS = _number(
    "MXNET_CPU_PRIORITY_NTHREADS", 4, "threads", "threads for high-priority work", 1)
GPU_WORKERS = _number("MXNET_GPU_WORKER_NTHREADS", 2, "threads", "threads for work on each GPU", 1)
GPU_COPY_WORKERS = _number("MXNET_GPU_COPY_NTHREADS", 2, "threads", "threads for copies to and from each GPU", 1)
ENGINE_EXIT_TIMEOUT = _seconds(
    "MXJAX_ENGINE_EXIT_TIMEOUT", 30.0, "seconds to wait for pending host work at exit and before a fork")
OPENCV_THREADS = _number("MXNET_MP_OPENCV_NUM_THREADS", 0, "threads", "OpenCV threads in each worker of a `DataLoader`")

# ------------------------------------------------------------ files and downloads
HOME = _text("MXNET_HOME", "", "directory of models and data sets", "`~/.mxnet`")
GLUON_REPO = _text(
    "MXNET_GLUON_REPO", "https://apache-mxnet.s3-accelerate.dualstack.amazonaws.com/",
    "URL from which models and data sets are downloaded", "the server of MXNet")
UNPACK_LIMIT = _number(
    "MXJAX_UNPACK_LIMIT", None, "bytes",
    "size limit in bytes of a decompressed file; raise it for a file that you trust",
    shown="256 MB, or 100 times the size of the file")

# ------------------------------------------------------------ training on several devices and machines
UPDATE_ON_KVSTORE = _switch(
    "MXNET_UPDATE_ON_KVSTORE", True, "0: the optimizer runs in the worker, not in the kvstore")
BIGARRAY_BOUND = _number(
    "MXNET_KVSTORE_BIGARRAY_BOUND", 1000000, "values", "number of values from which an array is split among servers")
AGGREGATION_SIZE = _number(
    "MXNET_OPTIMIZER_AGGREGATION_SIZE", None, "parameters", "number of parameters that one update call takes",
    shown="256 (MXNet: 4)")
JOIN = _switch("MXJAX_JOIN", False, "1: the process joins its job when mxjax is imported")
JOIN_XLA = _switch("MXJAX_JOIN_XLA", True, "0: the process joins its job without its devices")
JOIN_TIMEOUT = _seconds("MXJAX_JOIN_TIMEOUT", 300.0, "seconds within which all processes must join the job")
HEARTBEAT_TIMEOUT = _seconds(
    "MXJAX_HEARTBEAT_TIMEOUT", 30.0, "seconds without a heartbeat after which a process counts as lost")
FAILURE_GRACE = _seconds(
    "MXJAX_FAILURE_GRACE", 10.0,
    "seconds that a worker has to exit after the death of another process")
KVSTORE_BUCKET = _number(
    "MXJAX_KVSTORE_BUCKET_MB", 64, "megabytes", "megabytes of gradients that workers reduce at a time")
KVSTORE_MOST_BYTES = _number(
    "MXJAX_KVSTORE_MOST_BYTES", None, "bytes",
    "limit in bytes of the arrays that a process accepts from other processes and stores",
    shown="half of the memory")
CLUSTER_TOKEN = _text("MXJAX_CLUSTER_TOKEN", "", "secret of a job over several machines")
CLUSTER_TOKEN_FILE = _text("MXJAX_CLUSTER_TOKEN_FILE", "", "file that contains this secret")

# ------------------------------------------------------------ profiles and tests
PROFILER_AUTOSTART = _switch("MXNET_PROFILER_AUTOSTART", False, "1: profiling starts when mxjax is imported")
PROFILER_MODE = _switch("MXNET_PROFILER_MODE", True, "0: a profile that starts at import records only graphs")
TEST_DEFAULT_CTX = _text(
    "MXNET_TEST_DEFAULT_CTX", "", "context of `mx.test_utils.default_context()`", "the current context")
