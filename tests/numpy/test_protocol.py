"""NumPy's functions called with ndarrays, and NumPy's functions for what mx.np has none of its own."""

import numpy as onp
import pytest

import mxjax as mx
from mxjax import np


def test_functions_and_ufuncs_stay_on_the_device():
    a = np.array([1.0, 4.0])
    for got in (onp.mean(a), onp.sqrt(a), onp.concatenate([a, a]), onp.add(a, a), onp.linalg.norm(a)):
        assert type(got) is np.ndarray
    assert onp.sqrt(a).tolist() == [1, 2]


def test_others_go_to_the_host_and_back():
    a = np.array([1.0, 4.0, 2.0])
    assert type(onp.cumprod(a)) is np.ndarray and onp.cumprod(a).tolist() == [1, 4, 8]
    assert type(onp.heaviside(a, 0.5)) is np.ndarray
    assert float(np.nanmax(a)) == 4
    onp.testing.assert_allclose(np.interp(np.array([1.5]), np.array([1.0, 2.0]), np.array([0.0, 1.0])).asnumpy(), [0.5])
    with mx.autograd.record(), pytest.raises(ValueError, match="autograd"):
        onp.cumprod(a)


def test_several_results_come_in_what_numpy_has_them_in():
    a = np.array([1.0, 4.0])
    for name in ("atleast_2d", "broadcast_arrays", "meshgrid"):
        assert type(getattr(onp, name)(a, a)) is type(getattr(onp, name)(onp.ones(2), onp.ones(2)))
        assert type(getattr(np, name)(a, a)) is list


def test_a_ufunc_of_both_kinds_is_refused():
    with pytest.raises(TypeError):
        onp.ones(2) + np.ones(2)


def test_old_names_live_on():
    a = np.array([[3.0, 1.0], [2.0, 4.0]])
    assert np.msort(a).tolist() == [[2, 1], [3, 4]] and bool(np.alltrue(a)) and float(np.trapz(np.ones(3))) == 2
    assert np.in1d(a, np.array([1.0])).tolist() == [False, True, False, False]


def test_keywords_that_numpy_2_renamed():
    x = np.array([[1.0, 2.0, 4.0]])
    assert onp.reshape(x, shape=(3, 1)).shape == (3, 1)
    for function in (onp.percentile, onp.quantile):
        assert isinstance(function(x, 0.5, method="lower"), np.ndarray)
