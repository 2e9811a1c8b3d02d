"""Functions of the C library on NumPy arrays."""

import math

import ml_dtypes
import numpy as np
import pytest

from mxjax._support import c_math

X = np.linspace(-4, 4, 33)
ERF = [math.erf(x) for x in X]


@pytest.mark.parametrize("dtype, rtol", [(np.float64, 1e-15), (np.float32, 1e-6), (np.float16, 2e-3),
                                         (ml_dtypes.bfloat16, 2e-2)])
def test_the_error_function(dtype, rtol):
    result = c_math.erf(X.astype(dtype))
    assert result.dtype == dtype
    np.testing.assert_allclose(result.astype(np.float64), ERF, rtol, rtol)


def test_sizes_of_floats_by_name():
    assert c_math.c_function("erf")(X).dtype == np.float64  # its name ends as those of float32's functions do
    assert c_math.c_function("logf")(np.float32(2)).dtype == np.float32
    np.testing.assert_allclose(c_math.c_function("erf")(X), ERF, 1e-15)


def test_without_numpys_table(monkeypatch):
    monkeypatch.setattr(c_math, "_ufunc", lambda name, inputs: (_ for _ in ()).throw(AttributeError(name)))
    c_math.c_function.cache_clear()
    try:
        np.testing.assert_allclose(c_math.erf(X), ERF, 1e-12)
        np.testing.assert_allclose(c_math.erf(X.astype(np.float32)), ERF, 1e-6)
    finally:
        c_math.c_function.cache_clear()
