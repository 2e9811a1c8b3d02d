"""mxjax: Apache MXNet's Python API on JAX and XLA, that of 1.9.1 or (`MXJAX_API=2`) of 2.0.

    import mxjax as mx

Importing it changes no JAX setting and starts no device; JAX is loaded with the first name that needs it.
"""

import importlib as _importlib
import multiprocessing.pool as _pool  # noqa: F401  scripts use multiprocessing.pool, which MXNet has imported
import os as _os
import sys as _sys
from typing import TYPE_CHECKING as _TYPE_CHECKING

from . import level as _level_of_api
from . import libinfo as _libinfo
from . import log as log  # before anything that imports JAX
from ._support import providers as _providers
from ._support import settings as _settings
from ._support import tracebacks as _tracebacks
from ._support.loading import loading as _loading
from .libinfo import __version__ as __version__  # `as`: type checkers take it as this package's own

if _TYPE_CHECKING:  # loaded when first used, see __getattr__
    from . import (
        autograd,
        base,
        context,
        gluon,
        image,
        io,
        metric,
        ndarray,
        numpy,
        numpy_extension,
        optimizer,
        random,
        symbol,
    )
    from . import kvstore as kv
    from . import module as mod
    from . import ndarray as nd
    from . import numpy as np
    from . import numpy_extension as npx
    from . import symbol as sym
    from .base import MXNetError as MXNetError
    from .context import (
        Context,
        Device,
        cpu,
        cpu_pinned,
        current_context,
        current_device,
        gpu,
        gpu_memory_info,
        num_gpus,
        num_tpus,
        tpu,
    )

_MODULES = """
    attribute autograd base callback context contrib device engine error executor executor_manager gluon image
    initializer interop io kvstore kvstore_server libinfo library log lr_scheduler metric misc model module
    monitor name ndarray numpy numpy_dispatch_protocol numpy_extension numpy_op_fallback numpy_op_signature
    onnx operator optimizer predictor profiler random recordio registry resource rnn rtc runtime storage symbol
    test_utils util visualization
""".split()
_ALIASES = {"nd": "ndarray", "sym": "symbol", "np": "numpy", "npx": "numpy_extension", "kv": "kvstore", "mod": "module",
            "init": "initializer", "mon": "monitor", "viz": "visualization", "rnd": "random", "img": "image",
            "opt": "optimizer", "np_symbol": "symbol.numpy", "amp": "contrib.amp",
            "_deferred_compute": "symbol._deferred_compute"}
_NAMES = {"AttrScope": "attribute", "is_np_array": "util", "is_np_shape": "util", "np_array": "util",
          "np_shape": "util", "set_np_shape": "util", "use_np": "util", "use_np_array": "util",
          "use_np_shape": "util", "is_np_default_dtype": "util", "np_default_dtype": "util",
          "use_np_default_dtype": "util", "NDArray": "ndarray", "Symbol": "symbol", "clear_caches": "kernel.compiled",
          "MXNetError": "base", "Context": "context", "cpu": "context", "cpu_pinned": "context", "gpu": "context",
          "tpu": "context", "num_gpus": "context", "num_tpus": "context", "gpu_memory_info": "context",
          "current_context": "context", "Device": "context", "current_device": "context"}
__all__ = ["Context", "MXNetError", "base", "context", "cpu", "cpu_pinned", "current_context", "gpu", "gpu_memory_info",
           "libinfo", "log", "num_gpus", "num_tpus", "tpu"]


def _speak(api):
    global __version__
    __version__ = _libinfo.__version__ = _level_of_api.VERSIONS[api]
    if api == 2:
        _sys.modules[__name__].__class__ = _level_of_api.PackageOf2


_level_of_api.follow(_speak)


def __getattr__(name):
    _level_of_api.refuse_gone(name)
    if name in _NAMES:
        with _loading():
            value = getattr(_importlib.import_module(f"{__name__}.{_NAMES[name]}"), name)
    elif name in _ALIASES or name in _MODULES:
        module = f"{__name__}.{_ALIASES.get(name, name)}"
        try:
            with _loading():
                value = _importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name != module:
                raise
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def _load_operators():
    from . import host_operators, operator  # noqa: F401  they register theirs


def _load_storages():
    from . import ndarray  # noqa: F401  it brings sparse arrays; symbols do without it until one is asked for


def _library():
    from ._c_functions import Library  # it loads arrays and symbols, and few scripts ask for it
    return Library()


def _images():
    from . import image  # iterators and augmenters, which few programs need
    return image


_tracebacks.install()
_providers.of_images.append(_images)
_providers.of_operators.append(_load_operators)
_providers.of_storages.append(_load_storages)
_providers.of_library.append(_library)


def __dir__():
    return sorted({*globals(), *_MODULES, *_ALIASES, *_NAMES})


if _settings.PROFILER_AUTOSTART():
    from . import profiler
    profiler.autostart()
if _os.environ.get("DMLC_ROLE") in ("server", "scheduler") and "MXJAX_SERVES" not in _os.environ:
    from .kvstore import kvstore_server as _kvstore_server  # as in MXNet, the script's process becomes one
    _kvstore_server.become_role()
elif _os.environ.get("DMLC_ROLE") == "worker" and "DMLC_PS_ROOT_URI" in _os.environ or \
        _settings.JOIN():  # before JAX starts its devices
    from .kvstore import cluster as _cluster
    _cluster.join()
