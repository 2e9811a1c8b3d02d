"""The `mxnet` alias: `import mxnet` imports mxjax."""

from __future__ import annotations

import collections.abc
import fractions
import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import math
import os
import pkgutil
import runpy
import sys
import time
import types
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import level
from ._numpy_calls import give_calls_back

if TYPE_CHECKING:
    from ..ops.params import DTypeLike

__all__ = ["check_module", "install_mxnet_alias", "run_script"]


# modules that `import mxnet` loads, which scripts look up in `sys.modules`
_LOADED = ("ndarray", "symbol", "ndarray.op", "ndarray._internal", "symbol.op", "symbol._internal")


class _Finder(importlib.abc.MetaPathFinder):
    """Finds `mxnet` with its sub-modules, and `mxnet_predict`, where mxjax has a counterpart.

    Args:
        numpy_names: also give names back to modules that are imported later.
    """

    def __init__(self, numpy_names: bool) -> None:
        self.numpy_names = numpy_names

    def find_spec(self, name: str, path: Sequence[str] | None = None,
                  target: ModuleType | None = None) -> importlib.machinery.ModuleSpec | None:
        if name in _LATER_NAMES and self.numpy_names:
            return _with_names(name, path, target)
        if name not in ("mxnet", "mxnet_predict") and not name.startswith("mxnet."):
            return None
        if name == "mxnet.__main__":  # mxjax's would be found in its folder
            raise ModuleNotFoundError(f"No module named {name}; 'mxnet' is a package and cannot be directly executed",
                                      name=name)
        try:
            level.refuse_gone(name.partition(".")[2].partition(".")[0])
        except AttributeError as error:
            raise ModuleNotFoundError(str(error), name=name) from None
        real = "mxjax.predictor" if name == "mxnet_predict" else "mxjax" + name[len("mxnet"):]
        module = _module(real)
        return None if module is None else importlib.machinery.ModuleSpec(
            name, _Loader(module), is_package=hasattr(module, "__path__"))


class _Loader(importlib.abc.Loader):
    """Gives a module of mxjax itself: importing it under a second name must not change it."""

    def __init__(self, module: types.ModuleType) -> None:
        self._module = module
        self._kept = module.__spec__, getattr(module, "__loader__", None)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return self._module

    def exec_module(self, module: types.ModuleType) -> None:
        module.__spec__, module.__loader__ = self._kept
        _widen_star_import(module)
        if module.__name__ != "mxjax":
            return
        for name in _LOADED:
            # not by importing mxnet.x: a thread that does so holds its lock already, and waits for this import to end
            sys.modules.setdefault(f"mxnet.{name}", importlib.import_module(f"mxjax.{name}"))
        for name in ("ndarray", "symbol"):  # `hybrid_forward` distinguishes its two modes by `F.__name__`
            importlib.import_module(f"mxjax.{name}").__name__ = f"mxnet.{name}"
        # libraries write this name into files, and read no other: gluonts compares it with a list
        importlib.import_module("mxjax.context").Context.__module__ = "mxnet.context"

    def get_code(self, name: str) -> types.CodeType | None:
        """Returns the code that `python -m mxnet.x` runs."""
        loader = self._kept[1]
        return None if loader is None else loader.get_code(self._module.__name__)


# modules without `__all__` in MXNet: names of `from mxnet.x import *` besides those of mxjax's `__all__`
_OF_IMAGES = "io json logging nd np numeric_types os random recordio sys warnings"
_STAR_NAMES = {
    "callback": "logging math save_checkpoint time",
    "gluon.data.vision.transforms": "Block HybridBlock HybridSequential Sequential image np numeric_types random",
    "image": f"{_OF_IMAGES} det detection image",
    "image.detection": f"{_OF_IMAGES} Augmenter ForceResizeAug ImageIter ResizeAug copyMakeBorder fixed_crop",
    "image.image": _OF_IMAGES,
    "initializer": "NDArray json load logging ndarray np random re registry sqrt string_types warnings",
    "lr_scheduler": "cos logging pi",
    "metric": "OrderedDict math ndarray numeric_types numpy registry string_types",
    "model": "Context Uniform cpu io kvs logging metric mx_real_t namedtuple nd np opt os sym time warnings",
    "rnn": "bisect functools init ndarray np numeric_types random string_types symbol warnings",
}
# where such names are if the module does not have them; all others are modules of Python
_STAR_SOURCES = {
    "OrderedDict": "collections:OrderedDict", "cos": "math:cos", "init": "mxjax.initializer", "io": "mxjax.io",
    "kvs": "mxjax.kvstore", "mx_real_t": "mxjax.base:mx_real_t", "namedtuple": "collections:namedtuple",
    "nd": "mxjax.ndarray", "ndarray": "mxjax.ndarray", "np": "numpy", "numeric_types": "mxjax.base:numeric_types",
    "opt": "mxjax.optimizer", "pi": "math:pi", "recordio": "mxjax.recordio", "sqrt": "math:sqrt",
    "string_types": "mxjax.base:string_types", "sym": "mxjax.symbol", "symbol": "mxjax.symbol",
}


def _widen_star_import(module: types.ModuleType) -> None:
    """Gives `from mxnet.x import *` the names that MXNet's module imports itself; scripts rely on them."""
    names = _STAR_NAMES.get(module.__name__.partition(".")[2], "").split()
    for name in names:
        if not hasattr(module, name):
            setattr(module, name, pkgutil.resolve_name(_STAR_SOURCES.get(name, name)))
    if names and hasattr(module, "__all__"):
        vars(module)["__all__"] = sorted({*module.__all__, *names})


def _module(real: str) -> types.ModuleType | None:
    """A module of mxjax by the path of its file or of attributes (`mxjax.nd`); None where there is none."""
    try:
        return importlib.import_module(real)
    except ModuleNotFoundError as error:
        parent, _, attribute = real.rpartition(".")
        if not f"{real}.".startswith(f"{error.name}."):  # something else is missing, which that module needs
            raise
    above = _module(parent)
    result = None if above is None else getattr(above, attribute, None)
    return result if isinstance(result, types.ModuleType) else None


def _from_bytes_or_text(read_text: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """`np.fromstring` as it was: without a separator it takes bytes."""
    def fromstring(string: str | bytes, dtype: DTypeLike = float, count: int = -1, *, sep: str = "") -> np.ndarray:
        if sep:
            return read_text(string, dtype, count, sep=sep)
        return np.frombuffer(string.encode("latin1") if isinstance(string, str) else string, dtype, count).copy()
    return fromstring


# names that NumPy had in MXNet's time
_NUMPY_NAMES = {
    "bool": bool, "int": int, "long": int, "float": float, "complex": complex, "object": object, "str": str,
    "unicode": str, "float_": np.float64, "complex_": np.complex128, "unicode_": np.str_, "string_": np.bytes_,
    "Inf": np.inf, "infty": np.inf, "Infinity": np.inf, "PINF": np.inf, "NINF": -np.inf, "NaN": np.nan,
    "product": np.prod, "cumproduct": np.cumprod, "alltrue": np.all, "sometrue": np.any, "row_stack": np.vstack,
    "asscalar": lambda array: array.item(), "in1d": lambda a, b, **how: np.isin(np.ravel(a), b, **how),
    "asfarray": lambda array, dtype=np.float64: np.asarray(array, dtype), "mat": np.asmatrix, "math": math,
    "msort": lambda array: np.sort(array, axis=0), "round_": np.round, "trapz": np.trapezoid,
    "find_common_type": lambda arrays, scalars: np.result_type(*arrays, *scalars),
    "issubclass_": lambda a, b: isinstance(a, type) and issubclass(a, b),
    "NAN": np.nan, "PZERO": 0.0, "NZERO": -0.0, "bool8": np.bool_, "int0": np.intp, "uint0": np.uintp,
    "cfloat": np.complex128, "singlecomplex": np.complex64, "longfloat": np.longdouble,
    **{name: getattr(np.exceptions, name) for name in ("AxisError", "ComplexWarning", "RankWarning",
                                                        "VisibleDeprecationWarning")},
}
_ArgSpec = collections.namedtuple("ArgSpec", "args varargs keywords defaults")
# names of Python's own modules then
_PYTHON_NAMES: dict[types.ModuleType, dict[str, Any]] = {
    collections: {name: getattr(collections.abc, name) for name in collections.abc.__all__},
    inspect: {"ArgSpec": _ArgSpec, "getargspec": lambda function: _ArgSpec(*inspect.getfullargspec(function)[:4])},
    fractions: {"gcd": math.gcd}, time: {"clock": time.perf_counter},
}
# names of libraries then, by those that have their values; the libraries may be imported later, or not be there
_LATER_NAMES = {"PIL.Image": {"ANTIALIAS": "LANCZOS", "LINEAR": "BILINEAR", "CUBIC": "BICUBIC"}}


def _give_back(module: types.ModuleType) -> None:
    """Sets names that newer versions dropped; a loader may also load other modules (that of a zip file does)."""
    for old, new in _LATER_NAMES.get(module.__name__, {}).items():
        if not hasattr(module, old) and hasattr(module, new):
            setattr(module, old, getattr(module, new))


def _with_names(name: str, path: Sequence[str] | None,
                target: ModuleType | None) -> importlib.machinery.ModuleSpec | None:
    """A library's own module, which has the names of MXNet's time as well once it is loaded."""
    for finder in [f for f in sys.meta_path if not isinstance(f, _Finder) and hasattr(f, "find_spec")]:
        spec = finder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader.exec_module = functools.partial(_load_with_names, spec.loader.exec_module)
            return spec
    return None


def _load_with_names(load: Callable[[types.ModuleType], None], module: types.ModuleType) -> None:
    load(module)
    _give_back(module)


# a folder in which Python finds `mxnet`, for processes that know nothing of a finder in this one
_FOR_CHILDREN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "for_children")


def install_mxnet_alias(numpy_names: bool = True, children: bool = False, api: int | None = None) -> None:
    """Makes `import mxnet` (and `mxnet.x.y`) import mxjax in this process.

    Args:
        numpy_names: also restore names that NumPy and Python have removed (`np.int`, `np.product`,
            `collections.Iterable`, `time.clock` ...) and that scripts and libraries of MXNet's time
            use, bytes in `np.fromstring`, `np.array(x, copy=False)` where a copy is needed,
            lists of different lengths in `np.array`, iterators in `np.stack`, `newshape` and
            `interpolation`. The same applies to Pillow, when it is imported (`Image.ANTIALIAS`).
        children: also install the alias in Python processes that this one starts, through a
            directory in `PYTHONPATH`; `importlib.metadata` then also finds its version. `python -m
            mxjax run` does this. Processes that run the same script, as those of `multiprocessing`,
            need it only if the script does not call this function itself.
        api: level of MXNet's API: 1 (MXNet 1.9.1) or 2 (MXNet 2.0); by default `MXJAX_API`,
            otherwise 1. A process has one level, and its children inherit it.

    Raises:
        RuntimeError: the real MXNet is already imported, or the process uses the other level.
        ValueError: there is no such level.

    Example:
        >>> mxjax.interop.install_mxnet_alias()  # doctest: +SKIP
        >>> import mxnet as mx  # doctest: +SKIP
        >>> mx.__name__  # doctest: +SKIP
        'mxjax'
    """
    known = any(isinstance(f, _Finder) for f in sys.meta_path)
    if not known and "mxnet" in sys.modules:
        raise RuntimeError("mxnet is already imported; install the alias before anything imports it")
    if api is not None:
        level.choose(api)
        os.environ["MXJAX_API"] = str(api)
    if children:
        others = os.environ.get("PYTHONPATH", "")
        if _FOR_CHILDREN not in others.split(os.pathsep):
            os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [_FOR_CHILDREN, others]))
        if _FOR_CHILDREN not in sys.path:
            sys.path.append(_FOR_CHILDREN)
    if known:
        return
    sys.meta_path.insert(0, _Finder(numpy_names))
    if numpy_names:
        for name in _LATER_NAMES:
            if name in sys.modules:
                _give_back(sys.modules[name])
        for module, names in ((np, _NUMPY_NAMES), *_PYTHON_NAMES.items()):
            for name, value in names.items():
                if name not in vars(module):
                    setattr(module, name, value)
        np.fromstring = _from_bytes_or_text(np.fromstring)
        give_calls_back()


def check_module(name: str) -> None:
    """Raises Python's own error for the name of a module that cannot be run.

    Raises:
        ImportError: there is no such module, or it is a package without `__main__`.
    """
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            main = f"{name}.__main__"
            if importlib.util.find_spec(main) is None:
                raise ImportError(f"No module named {main}; {name!r} is a package and cannot be directly executed")
    except ModuleNotFoundError as error:
        if not f"{name}.".startswith(f"{error.name}."):  # something that the package itself imports
            raise
        spec = None
    except ValueError:  # a module without a place of its own
        spec = None
    if spec is None:
        raise ImportError(f"No module named {name}")


def run_script(path: str, args: Sequence[str] = (), module: bool = False) -> dict[str, Any]:
    """Runs a script as `__main__` with the alias installed; returns its global names.

    Args:
        path: the script.
        args: the script's `sys.argv[1:]`.
        module: `path` is the name of a module to run as with `python -m`.

    Raises:
        FileNotFoundError: there is no such script.
        ImportError: there is no such module.
    """
    install_mxnet_alias()
    before = sys.argv, sys.path[:]
    sys.argv = [path, *args]
    try:
        return runpy.run_module(path, run_name="__main__", alter_sys=True) if module else \
            runpy.run_path(path, run_name="__main__")
    finally:
        sys.argv, sys.path[:] = before
