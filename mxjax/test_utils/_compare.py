"""Comparisons of arrays, symbols and optimizers."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import ndarray as nd
from .. import random
from ..ndarray import NDArray
from ..ops.params import np_dtype
from ..symbol import Symbol
from ._arrays import rand_ndarray
from ._defaults import default_context, get_atol, get_etol, get_rtol, get_tols

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from ..ops.params import DTypeLike
    from ..optimizer.base import Optimizer
    from ._defaults import Tolerance


def _numpy(value: Any) -> np.ndarray:
    return value.asnumpy() if hasattr(value, "asnumpy") else np.asarray(value)


def _comparable(value: Any) -> np.ndarray:
    array = _numpy(value)
    return array.astype(np.float32) if array.dtype == np_dtype("bfloat16") else array


def same(a: ArrayLike, b: ArrayLike) -> bool:
    """Returns whether two arrays are equal, element by element."""
    return bool(np.array_equal(_numpy(a), _numpy(b)))


def checkShapes(a: Any, b: Any) -> None:  # noqa: N802
    """Raises AssertionError if shapes differ."""
    if a.shape != b.shape:
        raise AssertionError(f"a.shape = {a.shape} and b.shape = {b.shape} are not equal")


def almost_equal(a: ArrayLike, b: ArrayLike, rtol: float | None = None, atol: float | None = None,
                 equal_nan: bool = False, use_broadcast: bool = True) -> bool:
    """Returns whether two arrays are equal within tolerances (None: those of float64)."""
    a, b = _numpy(a), _numpy(b)
    rtol, atol = get_rtol(rtol), get_atol(atol)
    if not use_broadcast:
        checkShapes(a, b)
    return bool(np.allclose(_comparable(a), _comparable(b), rtol=rtol, atol=atol, equal_nan=equal_nan))


def locationError(a: np.ndarray, b: np.ndarray, index: tuple, names: Sequence[str],  # noqa: N802
                  maxError: bool = False) -> str:  # noqa: N803
    """Returns a message with the values of two arrays at an index."""
    kind = "maximum " if maxError else ""
    return f"Location of {kind}error: {index}, {names[0]}={a[index]:.8f}, {names[1]}={b[index]:.8f}"


def _plainly_close(x: np.ndarray, y: np.ndarray, rtol: float, atol: float) -> bool:
    """Returns whether floats are close by the bare formula: a fifth of the time of `allclose`, which asks about
    infinities.
    """
    if x.dtype != y.dtype or x.dtype.kind != "f":
        return False
    with np.errstate(all="ignore"):
        distance = np.abs(x - y)
        return bool((distance <= atol + rtol * np.abs(y)).all() and np.isfinite(distance).all())


def assert_almost_equal(a: ArrayLike, b: ArrayLike, rtol: Tolerance = None, atol: Tolerance = None,
                        names: tuple[str, str] = ("a", "b"), equal_nan: bool = False, use_broadcast: bool = True,
                        mismatches: tuple[int, int] = (10, 10)) -> None:
    """Raises AssertionError if two arrays differ by more than atol + rtol |b|.

    Args:
        a, b: NDArrays, NumPy arrays or numbers.
        rtol, atol: numbers, dictionaries by dtype, or None for the defaults by dtype.
        names: their names in the message.
        equal_nan: NaNs are equal.
        use_broadcast: shapes may differ as in broadcasting.
        mismatches: number of differing elements of each kind to show in the message.
    """
    first, second = _numpy(a), _numpy(b)
    if not use_broadcast:
        checkShapes(first, second)
    relative, absolute = get_tols(first, second, rtol, atol)
    x, y = _comparable(first), _comparable(second)
    if _plainly_close(x, y, relative, absolute) or np.allclose(x, y, rtol=relative, atol=absolute, equal_nan=equal_nan):
        return
    x, y = np.broadcast_arrays(x, y)
    x64, y64 = x.astype(np.float64), y.astype(np.float64)
    with np.errstate(all="ignore"):
        excess = np.abs(x64 - y64) / (absolute + relative * np.abs(y64) + 1e-300)
    bad = ~np.isclose(x64, y64, rtol=relative, atol=absolute, equal_nan=equal_nan)
    excess = np.where(bad, np.nan_to_num(excess, nan=np.inf), 0)
    worst = np.unravel_index(int(np.argmax(excess)), excess.shape)
    shown = [locationError(x64, y64, tuple(i), names) for i in np.argwhere(bad)[:mismatches[0]]]
    raise AssertionError("\n".join([
        f"{int(bad.sum())} of {bad.size} elements differ by more than rtol={relative:e}, atol={absolute:e}; "
        f"worst is {excess[worst]:.6g} times the tolerance",
        locationError(x64, y64, worst, names, maxError=True), *shown]))


def assert_allclose(a: ArrayLike, b: ArrayLike, rtol: float = 1e-07, atol: float = 0, equal_nan: bool = True) -> None:
    """Like `assert_almost_equal`, with NumPy's defaults."""
    assert_almost_equal(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)


def assert_almost_equal_with_err(a: ArrayLike, b: ArrayLike, rtol: Tolerance = None, atol: Tolerance = None,
                                 etol: float | None = None, names: tuple[str, str] = ("a", "b"),
                                 equal_nan: bool = False, mismatches: tuple[int, int] = (10, 10)) -> None:
    """Like `assert_almost_equal`, but a fraction `etol` of the elements may differ."""
    etol = get_etol(etol)
    if etol <= 0:
        assert_almost_equal(a, b, rtol, atol, names, equal_nan, mismatches=mismatches)
        return
    x, y = _comparable(a), _comparable(b)
    relative, absolute = get_tols(x, y, rtol, atol)
    share = 1 - np.isclose(x, y, rtol=relative, atol=absolute, equal_nan=equal_nan).mean()
    if share > etol:
        raise AssertionError(f"{share:.3%} of the elements of {names[0]} and {names[1]} differ, allowed {etol:.3%}")


def assert_almost_equal_ignore_nan(a: ArrayLike, b: ArrayLike, rtol: Tolerance = None, atol: Tolerance = None,
                                   names: tuple[str, str] = ("a", "b")) -> None:
    """Like `assert_almost_equal`, for the elements that are NaN in neither array."""
    x, y = np.array(_comparable(a)), np.array(_comparable(b))
    nan = np.isnan(x) | np.isnan(y)
    x[nan] = y[nan] = 0
    assert_almost_equal(x, y, rtol, atol, names)


def assert_exception(f: Callable, exception_type: type[BaseException], *args: Any, **kwargs: Any) -> None:
    """Raises AssertionError unless f(*args, **kwargs) raises `exception_type`."""
    try:
        f(*args, **kwargs)
    except exception_type:
        return
    raise AssertionError(f"{f} did not raise {exception_type.__name__}")


def compare_ndarray_tuple(t1: Sequence[Any] | NDArray | None, t2: Sequence[Any] | NDArray | None,
                          rtol: Tolerance = None, atol: Tolerance = None) -> None:
    """Applies `assert_almost_equal` to nested tuples; None is skipped."""
    if t1 is None or t2 is None:
        return
    if isinstance(t1, tuple):
        for a, b in zip(t1, t2, strict=False):
            compare_ndarray_tuple(a, b, rtol, atol)
    else:
        assert_almost_equal(t1, t2, rtol=rtol, atol=atol)


def compare_optimizer(opt1: Optimizer, opt2: Optimizer, shape: Any, dtype: DTypeLike,
                      w_stype: str = "default", g_stype: str = "default", rtol: float = 1e-4, atol: float = 1e-5,
                      compare_states: bool = True, ntensors: int = 1) -> None:
    """Checks that two optimizers update weights (and states) identically."""
    _compare_optimizers(opt1, opt2, shape, dtype, None, w_stype, g_stype, rtol, atol, compare_states, ntensors)


def compare_optimizer_noise_seeded(opt1: Optimizer, opt2: Optimizer, shapes: list[tuple[int, ...]], dtype: DTypeLike,
                                   noise_seed: int, w_stype: str = "default", g_stype: str = "default",
                                   rtol: float = 1e-4, atol: float = 1e-5, compare_states: bool = True) -> None:
    """Like `compare_optimizer`, for optimizers that draw random numbers: sets the seed before each update."""
    _compare_optimizers(opt1, opt2, shapes, dtype, noise_seed, w_stype, g_stype, rtol, atol, compare_states, 1)


def _compare_optimizers(opt1: Optimizer, opt2: Optimizer, shape: Any, dtype: DTypeLike,
                        noise_seed: int | None, w_stype: str, g_stype: str, rtol: float, atol: float,
                        compare_states: bool, ntensors: int) -> None:
    shapes = shape if isinstance(shape, list) else [shape] * ntensors
    if not isinstance(shape, list) and ntensors == 1:
        shapes = [shape]
    weights, grads = [], []
    for s in shapes:
        if w_stype == "default":
            weights.append(nd.random.uniform(shape=s, ctx=default_context(), dtype=dtype))
        else:
            weights.append(rand_ndarray(s, w_stype, density=1, dtype=dtype))
        if g_stype == "default":
            grads.append(nd.random.uniform(shape=s, ctx=default_context(), dtype=dtype))
        else:
            grads.append(rand_ndarray(s, g_stype, density=0.3, dtype=dtype))
    dense = [[a.tostype("default") for a in arrays] for arrays in (weights, grads)]  # arguments of the reference
    states = [[o.create_state_multi_precision(i, w) for i, w in enumerate(own)]
              for o, own in ((opt1, dense[0]), (opt2, weights))]
    if compare_states:
        for a, b in zip(*states, strict=True):
            compare_ndarray_tuple(_as_tuple(a), _as_tuple(b))
    indices = list(range(len(shapes)))
    if noise_seed is not None:
        random.seed(noise_seed)
    if opt1.takes_lists:
        opt1.update_multi_precision(indices, dense[0], dense[1], states[0])
    else:
        for i, (w, g, state) in enumerate(zip(*dense, states[0], strict=True)):
            opt1.update_multi_precision(i, w, g, state)
    if noise_seed is not None:
        random.seed(noise_seed)
    if ntensors == 1 and not isinstance(shape, list) and not opt2.takes_lists:
        opt2.update_multi_precision(0, weights[0], grads[0], states[1][0])
    else:
        opt2.update_multi_precision(indices, weights, grads, states[1])
    if compare_states:
        for a, b in zip(*states, strict=True):
            compare_ndarray_tuple(_as_tuple(a), _as_tuple(b), rtol, atol)
    for a, b in zip(dense[0], weights, strict=True):
        assert_almost_equal(a, b, rtol=rtol, atol=atol)


def _as_tuple(value: Any) -> tuple:
    return value if isinstance(value, tuple) else (value,)


def same_array(array1: NDArray, array2: NDArray) -> bool:
    """Returns whether two arrays share memory: a change of one changes the other."""
    array1[:] += 1
    if not same(array1, array2):
        array1[:] -= 1
        return False
    array1[:] -= 1
    return same(array1, array2)


def same_symbol_structure(sym1: Symbol, sym2: Symbol) -> bool:
    """Returns whether two graphs have the same operators in the order of their files, up to the end of the shorter one.

    Parameters, connections, names, and casts of mixed precision between operators are ignored.
    """
    first, second = ([node["op"] for node in json.loads(sym.tojson())["nodes"]] for sym in (sym1, sym2))
    return all(map(operator.eq, first, second))
