"""The functions of mx.np as MXNet 2 has them: `device` in place of `ctx`, no dtype by default, other arguments.

`_namespace` uses these at level 2. Each wraps the function of level 1 with another list of arguments; this module
computes nothing.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import level
from .._support.functions import define
from ..context import Context
from ..ops.np.dtypes import promoted
from ..ops.params import DTypeLike, ShapeLike
from ..util import check_ufunc_options, is_np_default_dtype, wrap_data_api_linalg_func
from . import _create, _elemwise, _matrix, _operators_of_2, _reduce
from ._dispatch import ArrayOrSymbol, Axes, Operand, call, is_array, is_number

__all__ = ["argmax", "argmin", "argsort", "mean", "sort", "speak"]

_EXTREME = "a, axis=None, out=None, keepdims=False"
_TOTAL = "a, axis=None, dtype=None, out=None, keepdims=False"
_SPREAD = "a, axis=None, dtype=None, out=None, correction=0, keepdims=False"
_TRIANGLE = "a, upper=False"
# arguments by function, with their names at level 1 if these differ
_ARGUMENTS: dict[str, tuple[str, dict[str, str]]] = {
    **dict.fromkeys(("all", "any", "max", "min", "amax", "amin"), (_EXTREME, {})),
    **dict.fromkeys(("prod", "product"), (_TOTAL, {})),
    **dict.fromkeys(("std", "var"), (_SPREAD, {"ddof": "correction"})),
    "eye": ("N, M=None, k=0, dtype=None, device=None, **kwargs", {"ctx": "device"}),
    "linalg.pinv": ("a, rtol=None, hermitian=False", {"rcond": "1e-15 if rtol is None else rtol"}),
    **dict.fromkeys(("linalg.eigh", "linalg.eigvalsh"), (_TRIANGLE, {"UPLO": "'U' if upper else 'L'"})),
}
# those of `mx.nd.np` and `mx.sym.np` that are others there; None: as at level 1
_CLASSIC_SPREAD = "a, axis=None, dtype=None, out=None, ddof=0, keepdims=False"
_CLASSIC: dict[str, tuple[str, dict[str, str]] | None] = {
    **dict.fromkeys(("std", "var"), (_CLASSIC_SPREAD, {})),
    "prod": ("a, axis=None, dtype=None, out=None, keepdims=False, initial=None", {}),
    **dict.fromkeys(("linalg.eigh", "linalg.eigvalsh", "linalg.pinv")),
    "squeeze": ("x, axis=None", {"a": "x"}), **dict.fromkeys(("diag", "diagflat"), ("v, k=0", {"array": "v"})),
}
_SYMBOLS: dict[str, tuple[str, dict[str, str]] | None] = {
    **_CLASSIC, "prod": ("a, axis=None, dtype=None, keepdims=False, initial=None, output=None", {"out": "output"}),
    "eye": ("N, M=None, k=0, dtype=None, ctx=None, **kwargs", {}), **dict.fromkeys(("argsort", "sort", "empty_like")),
}

# names of arguments in MXNet 1.x, which are still accepted
_OLD_KEYWORDS = {"ctx": "device", "ddof": "correction", "rcond": "rtol", "tol": "rtol", "UPLO": "upper"}


def _form(function: Callable[..., Any], arguments: str, meant: dict[str, str]) -> Callable[..., Any]:
    """`function` with other arguments.

    Args:
        function: function that is called with keywords.
        arguments: the parameters as a `def` has them.
        meant: by parameter of `function` the expression it gets; without one it gets the argument of its name.

    Returns:
        A function of these arguments, which takes those of `_OLD_KEYWORDS` as well, by keyword.
    """
    name = function.__name__
    shown = inspect.signature(define(name, arguments))
    starred = [p.name for p in shown.parameters.values() if p.kind is p.VAR_KEYWORD]
    plain = [n for n in shown.parameters if n not in starred]
    read = re.findall(r"\w+", " ".join(meant.values()))
    given = {n: n for n in plain if n not in read}
    given.update(meant)
    old = {k: v for k, v in _OLD_KEYWORDS.items()
           if k in meant and v in shown.parameters and k not in shown.parameters}
    if old:
        head, _, tail = arguments.partition(", **")
        starless = ", ".join(f"{k}=None" for k in old)
        arguments = f"{head}, *, {starless}{', **' + tail if tail else ''}"
        given |= {k: f"({given[k]}) if {k} is None else {k}" for k in old}
    passed = ", ".join([f"{k}={v}" for k, v in given.items()] + [f"**{s}" for s in starred])
    made: Any = functools.update_wrapper(define(name, arguments, f"return function({passed})", function=function),
                                         function)
    del made.__wrapped__
    made.__doc__ = function.__doc__ and function.__doc__.replace("        ctx: ", "        device: ").replace(
        "        ddof: ", "        correction: ")
    made.__signature__ = shown
    return made


def _with_device(function: Callable[..., Any], device: str) -> Callable[..., Any]:
    """`function` with `device` in place of `ctx`, or `ctx` and `device`, and a dtype of None by default."""
    parameters = inspect.signature(function).parameters.values()
    texts = []
    for p in parameters:
        default = None if p.name == "dtype" else p.default
        text = device if p.name == "ctx" else p.name
        texts.append(f"**{p.name}" if p.kind is p.VAR_KEYWORD else f"*{p.name}" if p.kind is p.VAR_POSITIONAL
                     else text if p.default is p.empty else f"{text}={default!r}")
    if device == "device":
        return _form(function, ", ".join(texts), {"ctx": device})
    keywords = [texts.pop()] if texts[-1].startswith("**") else []
    star = [] if any(text.startswith("*") for text in texts) else ["*"]
    return _form(function, ", ".join([*texts, *star, "device=None", *keywords]),
                 {"ctx": "ctx if device is None else device"})


def sum(a: ArrayOrSymbol, axis: Axes = None, dtype: DTypeLike = None, out: ArrayOrSymbol | None = None,
        keepdims: bool | None = None, initial: float | None = None, where: ArrayOrSymbol | None = None) -> Any:
    """Sum over axes.

    Args:
        a: ndarray or symbol.
        axis: int or tuple of ints; None for all axes.
        dtype: dtype of the result; defaults to that of `a`, int64 for booleans.
        out: ndarray to write to.
        keepdims: keep reduced axes with size 1.
        initial: start value of the sum.
        where: only None or True.

    Returns:
        An ndarray without the reduced axes.

    Raises:
        ValueError: `where` is given.
        MXNetError: an axis is out of range.
    """
    if where is not None and where is not True:
        raise ValueError("sum: only where=None and where=True are supported")
    return _reduce.sum(a, axis, dtype, bool(keepdims), initial, out)


def mean(a: ArrayOrSymbol, axis: Axes = None, dtype: DTypeLike = None, out: ArrayOrSymbol | None = None,
         keepdims: bool = False) -> Any:
    """Mean over axes.

    Args:
        a: ndarray or symbol.
        axis: int or tuple of ints; None for all axes.
        dtype: dtype of the result; defaults to float32 for every `a`, or to float64 if that is the default dtype.
        out: ndarray to write to.
        keepdims: keep reduced axes with size 1.

    Returns:
        An ndarray without the reduced axes.

    Raises:
        MXNetError: an axis is out of range.
    """
    if dtype is None:
        dtype = "float64" if is_np_default_dtype() else "float32"
    return _reduce.mean(a, axis, dtype, out, keepdims)


def argmax(a: ArrayOrSymbol, axis: int | None = None, out: ArrayOrSymbol | None = None, keepdims: bool = False) -> Any:
    """The index of the first maximum along an axis.

    Args:
        a: ndarray or symbol.
        axis: the axis; None for the flattened array.
        out: ndarray to write to.
        keepdims: keep the axis with size 1.

    Returns:
        An int64 ndarray of indices.

    Raises:
        MXNetError: the axis is not an int, or is out of range.
    """
    return call("_npi_argmax", [a], out, axis=axis, keepdims=keepdims)


def argmin(a: ArrayOrSymbol, axis: int | None = None, out: ArrayOrSymbol | None = None, keepdims: bool = False) -> Any:
    """The index of the first minimum along an axis; the arguments are those of `argmax`.

    Returns:
        An int64 ndarray of indices.
    """
    return call("_npi_argmin", [a], out, axis=axis, keepdims=keepdims)


def _check_old(name: str, old: dict[str, Any]) -> None:
    unknown = next((k for k in old if k not in ("kind", "order")), None)
    if unknown:
        raise TypeError(f"{name} got an unexpected keyword argument {unknown!r}")
    if old.get("order") is not None:
        raise NotImplementedError("order not supported here")


def sort(a: ArrayOrSymbol, axis: int | None = -1, descending: bool = False, stable: bool = True, **old: object) -> Any:
    """A sorted copy.

    Args:
        a: ndarray or symbol.
        axis: the axis to sort along; None for the flattened array.
        descending: whether to sort in descending order.
        stable: has no effect.
        old: `kind`, which has no effect, and `order`, which must be None.

    Returns:
        An ndarray.

    Raises:
        NotImplementedError: `order` is given.
        MXNetError: the axis is out of range.
    """
    _check_old("sort", old)
    return call("_npi_sort", [a], axis="None" if axis is None else axis, is_ascend=not descending)


def argsort(a: ArrayOrSymbol, axis: int | None = -1, descending: bool = False, stable: bool = True,
            **old: object) -> Any:
    """The indices (int64) that sort an array; the arguments are those of `sort`.

    Returns:
        An ndarray of indices.
    """
    _check_old("argsort", old)
    return call("_npi_argsort", [a], axis="None" if axis is None else axis, is_ascend=not descending, dtype="int64")


def empty_like(prototype: ArrayOrSymbol, dtype: DTypeLike = None, device: Context | str | None = None, order: str = "C",
               subok: bool = False, shape: ShapeLike | None = None) -> Any:
    """An array like another one, with unspecified values.

    Args:
        prototype: ndarray or symbol.
        dtype: dtype of the result; defaults to that of the prototype.
        device: has no effect; the result is on the device of the prototype.
        order: "C".
        subok, shape: only False and None.

    Returns:
        An ndarray of the prototype's shape.

    Raises:
        NotImplementedError: `order` is not "C", or `subok` or `shape` is given.
    """
    return _create.empty_like(prototype, dtype, order, subok, shape)


def cholesky(a: ArrayOrSymbol, upper: bool = False) -> Any:
    """The Cholesky factor of symmetric positive definite matrices.

    Args:
        a: ndarray or symbol (..., n, n).
        upper: whether to return the upper factor U with a = Uᵀ·U instead of the lower factor L with a = L·Lᵀ.

    Returns:
        An ndarray of the shape of `a`.

    Raises:
        MXNetError: a matrix is not positive definite.
    """
    factor = call("_npi_cholesky", [a])
    return _matrix.swapaxes(factor, -1, -2) if upper else factor


def positive(x: ArrayOrSymbol, out: ArrayOrSymbol | None = None, **kwargs: Any) -> Any:
    """+x, a copy.

    Args:
        x: ndarray, symbol or number; for a number the result is a number.
        out: ndarray to write to.
        kwargs: NumPy's ufunc options (`where`, `order`, ...); only their defaults are supported.

    Returns:
        An ndarray.

    Raises:
        TypeError: x is of another type, such as a list, or an option is unknown.
        NotImplementedError: an option does not have its default value.
    """
    check_ufunc_options("positive", kwargs)
    return np.positive(x) if is_number(x) else call("_np_copy", [x], out)


def result_type(*arrays_and_dtypes: Any) -> np.dtype:
    """The dtype to which the given arrays and dtypes promote.

    Args:
        arrays_and_dtypes: ndarrays and dtypes.

    Returns:
        A dtype.

    Raises:
        ValueError: there is no argument, or one is neither an ndarray nor a dtype.
    """
    given = [np.dtype(v.dtype) if is_array(v) else v for v in arrays_and_dtypes]
    if not given or not all(isinstance(v, np.dtype) for v in given):
        raise ValueError("Inputs of result_type must be ndarrays or dtypes")
    return functools.reduce(promoted, given)


def _with_options(name: str) -> Callable[..., Any]:
    """A function of two arrays that takes NumPy's ufunc options as well, at their defaults."""
    function = getattr(_elemwise, name)

    @functools.wraps(function)
    def call(x1: Operand, x2: Operand, out: ArrayOrSymbol | None = None, **kwargs: Any) -> Any:
        if kwargs:
            check_ufunc_options(name, kwargs)
        return function(x1, x2, out)
    return call


def _changed(name: str, function: Callable[..., Any], kind: str) -> Callable[..., Any]:
    """The function of MXNet 2 for one of level 1, which may be the same."""
    own, forms = _OWN.get(name), {"classic": _CLASSIC, "symbols": _SYMBOLS}.get(kind, {})
    if own is not None and name not in forms:
        own.__module__ = function.__module__
        return own
    form = forms.get(name, _ARGUMENTS.get(name))
    if form is not None:
        return _form(function, *form)
    if "ctx" in inspect.signature(function).parameters:
        return _with_device(function, "ctx" if kind == "symbols" else "device")
    return function


for _function in (sort, argsort):  # names that are only accepted are not shown
    _shown = [p for p in inspect.signature(_function).parameters.values() if p.kind is not p.VAR_KEYWORD]
    _function.__signature__ = inspect.Signature(_shown)
_OWN = {**{name: _with_options(name) for name in ("floor_divide", "logical_and", "logical_or", "logical_xor")},
        "empty_like": empty_like, "sum": sum, "mean": mean, "argmax": argmax, "argmin": argmin, "sort": sort,
        "argsort": argsort, "positive": positive, "result_type": result_type, "linalg.cholesky": cholesky,
        **{name: wrap_data_api_linalg_func(f) if name == "linalg.matrix_rank" else f
           for name, f in _operators_of_2.FUNCTIONS.items()}}


def speak(namespace: dict[str, Any], functions: dict[str, Callable[..., Any]],
          besides: dict[str, Callable[..., Any]] | None = None, prefix: str = "", kind: str = "arrays") -> None:
    """Puts functions into a namespace as the process's level has them, and again when the level is chosen.

    Args:
        namespace: the variables of a module.
        functions: by name, as MXNet 1.9.1 has them.
        besides: others that it has at level 2.
        prefix: "linalg." for those of `mx.np.linalg`.
        kind: "arrays", "classic" for `mx.nd.np`, "symbols" for `mx.sym.np`, whose arguments are other ones.
    """
    def fill(api: int) -> None:
        namespace.update(functions if api == 1 else
                         {n: _changed(prefix + n, f, kind) for n, f in {**functions, **(besides or {})}.items()})
    level.follow(fill)
