"""Plug-ins: Python files that register operators and graph backends."""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import os
import sys

from .base import MXNetError
from .graph.backends import Backend, register_backend
from .ops import registry

__all__ = ["Backend", "compiled_with_gcc_cxx11_abi", "load", "loaded_libs", "register_backend"]

loaded_libs: list[str] = []  # the paths of plug-ins

_log = logging.getLogger(__name__)  # the root logger's first call configures it, which is the script's


def load(path: str, verbose: bool = True) -> None:
    """Runs a plug-in; the operators that it registers are then in `mx.nd`, `mx.sym`, `mx.np` and in loaded graphs.

    A plug-in is a Python file that calls `mx.operator.register_op`, `register`, `register_property` or `from_jax`, or
    `register_backend`.
    Loading a file again does nothing.

    Args:
        path: the file, as an absolute path.
        verbose: log which operators are new.

    Raises:
        MXNetError: there is no such file, the path is not absolute, or it is no Python file (shared libraries are
            built against MXNet's C++ interface, of which there is none here); or the plug-in fails.

    Example:
        >>> load(os.path.abspath("my_operators.py"))  # doctest: +SKIP
        >>> mx.nd.my_gelu(mx.nd.ones((2,)))           # doctest: +SKIP
    """
    if not os.path.exists(path):
        raise MXNetError(f"load path {path} does NOT exist")
    if not os.path.isabs(path):
        raise MXNetError(f"load path {path} is not an absolute path")
    extension = os.path.splitext(path)[1]
    if extension in (".so", ".dll", ".dylib"):
        raise MXNetError(f"load path {path} is a shared library built for MXNet's C++ interface; here a plug-in is a "
                         "Python file: register the operator with mx.operator.register_op (JAX code) or "
                         "mx.operator.register (any code, which may call the library through ctypes)")
    if extension != ".py":
        raise MXNetError(f"load path {path} is NOT a library file: expected a .py file")
    name = "mxjax_plugin_" + hashlib.sha256(os.path.realpath(path).encode()).hexdigest()[:12]
    if name in sys.modules:
        return
    before = set(registry.names())
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise MXNetError(f"load path {path} is not a Python file")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, Exception):
            raise MXNetError(f"plug-in {path} failed: {type(error).__name__}: {error}") from error
        raise
    loaded_libs.append(path)
    if verbose:
        added = sorted(set(registry.names()) - before)
        _log.info("%s: operators %s", path, ", ".join(added) or "none")


def compiled_with_gcc_cxx11_abi() -> int:
    """Returns -1: this package has no C++ library, whose ABI plug-ins would have to match."""
    return -1
