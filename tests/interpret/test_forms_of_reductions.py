"""NumPy forms of sums and the like, positions and order beside XLA's programs."""

import numpy as np
import pytest

from .forms import check, leaves_out

rng = np.random.RandomState(0)
WITH_NAN = np.array([[1, -2, 3], [np.nan, 5, -6], [0, np.nan, np.inf]], "float32")
AXES = [{}, {"axis": -1}, {"axis": (0, 2), "keepdims": True}]


def numbers(*shape, dtype="float32"):
    return rng.permutation(np.linspace(0.2, 0.9, int(np.prod(shape)))).reshape(shape).astype(dtype)


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "nansum", "max", "min"])
@pytest.mark.parametrize("params", [*AXES, {"axis": 1, "exclude": True}, {"axis": (), "keepdims": True}])
def test_reductions(name, params):
    check(name, [numbers(2, 3, 4)], params)


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "max", "min", "norm"])
def test_reductions_of_wide_floats(name):
    check(name, [numbers(2, 3, dtype="float64")], {"axis": 1}, tolerance=1e-12)


@pytest.mark.parametrize("name", ["sum", "mean", "nansum", "max", "min", "norm"])
@pytest.mark.parametrize("params", [{}, {"axis": 1}])
def test_reductions_of_unusual_numbers(name, params):
    check(name, [WITH_NAN], params)


@pytest.mark.parametrize("name", ["max", "min", "_np_max"])
def test_equal_extremes_take_the_whole_gradient(name):
    check(name, [np.array([[1, 3, 3], [2, 2, 2]], "float32")], {"axis": 1})


@pytest.mark.parametrize("name", ["sum", "max", "min", "_np_sum"])
def test_reductions_of_integers(name):
    check(name, [np.array([[100, 120], [7, -3]], "int8")], {"axis": 1}, gradients=False)


@pytest.mark.parametrize("name", ["_np_sum", "_npi_mean", "_np_prod", "_np_max", "_np_min", "_npi_var", "_npi_std"])
@pytest.mark.parametrize("params", AXES)
def test_reductions_of_numpy(name, params):
    check(name, [numbers(2, 3, 4)], params)


@pytest.mark.parametrize("name, params", [("_npi_var", {"axis": 0, "ddof": 1}), ("_np_sum", {"dtype": "float32"})])
def test_more_of_numpy(name, params):
    check(name, [numbers(3, 4)], params)


@pytest.mark.parametrize("name, shape, params", [
    ("max", (0, 3), {}), ("mean", (0,), {}), ("sum", (2, 3), {"axis": 2}), ("sum", (2, 3), {"axis": (0, 0)}),
    ("_np_sum", (2, 3), {"dtype": "float64"}), ("_np_sum", (2, 3), {"axis": ()}), ("_npi_var", (2,), {"ddof": 2}),
    ("norm", (2, 3), {"out_dtype": "float64"}), ("argmax", (0, 2), {}),
    ("L2Normalization", (2, 3), {"mode": "channel"}),
])
def test_calls_that_are_left_out(name, shape, params):
    leaves_out(name, [np.ones(shape, "float32")], params)


def test_products_with_a_zero_are_left_out_in_the_gradient():
    check("prod", [np.array([1, 0, 3], "float32")], gradients=False)
    leaves_out("prod", [np.array([0], "float32")], gradient=True)


def test_long_rows_and_columns():
    for params in {"axis": 1}, {"axis": 0}, {}:
        check("sum", [numbers(40, 700)], params)
        check("sum", [numbers(700, 40)], params)
        check("sum", [np.asfortranarray(numbers(30, 40))], params)
    for name in "sum", "mean", "max", "norm":
        check(name, [numbers(5)], {"keepdims": True})
        check(name, [numbers(5)])


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("params", AXES)
def test_norms(order, params):
    check("norm", [numbers(2, 3, 4) - 0.5], {"ord": order, **params})


def test_norms_of_zeros():
    check("norm", [np.zeros((2, 3), "float32")], {"axis": 1})
    check("norm", [np.array([[0, -1, 2]], "float32")], {"axis": 1, "ord": 1})


@pytest.mark.parametrize("mode", ["instance", "channel", "spatial"])
def test_unit_lengths(mode):
    check("L2Normalization", [numbers(2, 3, 4, 2)], {"mode": mode})
    if mode == "instance":
        check("L2Normalization", [numbers(2, 5)], {"mode": mode, "eps": 0.1})


@pytest.mark.parametrize("axis", [None, 0, -1])
def test_running_sums(axis):
    check("_np_cumsum", [numbers(3, 4)], {"axis": axis})


# ------------------------------------------------------------ positions and order
@pytest.mark.parametrize("name", ["argmax", "argmin", "_npi_argmax", "_npi_argmin"])
@pytest.mark.parametrize("params", [{}, {"axis": 1}, {"axis": -2, "keepdims": True}, {"keepdims": True}])
def test_positions_of_extremes(name, params):
    check(name, [WITH_NAN], params)
    check(name, [np.array([[2, 7], [7, 2]], "int32")], params, gradients=False)


def test_positions_along_channels():
    check("argmax_channel", [numbers(2, 3, 4)])


@pytest.mark.parametrize("params", [{}, {"axis": 0, "is_ascend": False}, {"axis": None}])
def test_order(params):
    check("sort", [numbers(5, 20)], params)
    check("argsort", [numbers(5, 20)], params)
    check("argsort", [numbers(5, 3)], {**params, "dtype": "int32"})


@pytest.mark.parametrize("kind", ["value", "indices", "both"])
@pytest.mark.parametrize("params", [{"k": 1}, {"k": 3, "axis": 0, "is_ascend": True}, {"k": 0}, {"axis": None, "k": 4}])
def test_largest_numbers(kind, params):
    check("topk", [numbers(5, 20)], {**params, "ret_typ": kind})


@pytest.mark.parametrize("name, params", [("argsort", {}), ("topk", {"k": 2, "is_ascend": True}), ("topk", {"k": 0})])
@pytest.mark.parametrize("numbers", [[1, 2, 1], [0.0, -0.0, 1], [np.nan, np.nan, np.nan]])
def test_positions_of_equal_numbers_are_left_out(name, params, numbers):
    leaves_out(name, [np.array(numbers, "float32")], params)


@pytest.mark.parametrize("numbers", [[1, 2, 1], [1, np.nan, 2]])
@pytest.mark.parametrize("is_ascend", [False, True])
def test_equal_numbers_in_order(numbers, is_ascend):
    check("sort", [np.array(numbers, "float32")], {"is_ascend": is_ascend}, gradients=False)
    leaves_out("sort", [np.array(numbers, "float32")], {"is_ascend": is_ascend}, gradient=True)


def test_equal_numbers_beyond_the_chosen_ones():
    check("topk", [np.array([[1, 5, 1, 4], [2, 2, 3, 9]], "float32")], {"k": 2, "ret_typ": "both"})
    leaves_out("topk", [np.array([[1, 5, 1, 4], [2, 2, 3, 9]], "float32")], {"k": 3})
    leaves_out("topk", [np.array([5, 1, 2, 3, 8, 0, 4, 6, 8], "float32")], {"k": 1})
    leaves_out("topk", [np.array([5, 1, 2, 3, np.nan, 0, 4, 6, 8], "float32")], {"k": 1})
    leaves_out("topk", [np.array([1, 2], "float32")], {"k": 3})
    leaves_out("topk", [np.array([1, 2], "float32")], {"ret_typ": "mask"})
