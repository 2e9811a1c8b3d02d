"""NumPy forms of functions of each number beside XLA's programs."""

import itertools

import numpy as np
import pytest

from mxjax.interpret import direct
from mxjax.ops import registry

from .forms import check, leaves_out

rng = np.random.RandomState(0)
SPECIAL = np.array([0, 0.5, -0.5, 1, -1, 1.5, 2.5, -2.5, 0.3, -0.7, 7, -30, np.inf, -np.inf, np.nan], "float32")


def numbers(*shape, dtype="float32"):
    return rng.uniform(0.2, 0.9, shape).astype(dtype)


def test_forms_have_the_names_of_operators():
    direct.form_of("sum")
    names = {name.removesuffix(" in place") for name in direct.forms}
    assert {registry.get(name).name for name in names} == names


SMOOTH = """sigmoid exp expm1 log log2 log10 log1p sqrt rsqrt cbrt reciprocal sin cos tan arcsin arccos arctan sinh cosh
    tanh arcsinh arctanh degrees radians softsign square negative""".split()
STEPS = "ceil floor trunc fix rint round sign relu abs logical_not".split()


@pytest.mark.parametrize("name", [*SMOOTH, *STEPS])
def test_functions_of_one_array(name):
    check(name, [numbers(3, 4)])
    if name in ("sigmoid", "log", "relu", "round", "rint"):
        check(name, [numbers(3, 4, dtype="float64")])


def test_functions_of_numbers_above_one():
    check("arccosh", [1 + numbers(3, 4)])
    check("arccosh", [np.array([1, 0.5, 7, np.inf, np.nan], "float32")])


def test_the_error_function():
    check("erf", [3 * numbers(3, 4) - 1.5])
    leaves_out("erf", [numbers(3, dtype="float64")])


@pytest.mark.parametrize("name", [n for n in [*SMOOTH, *STEPS] if n != "relu"])
def test_functions_of_unusual_numbers(name):
    check(name, [SPECIAL], tolerance=1e-4)


def test_rectifier_of_unusual_numbers():
    check("relu", [SPECIAL], gradients=False)
    check("relu", [SPECIAL[:-1]])
    leaves_out("relu", [SPECIAL], gradient=True)


@pytest.mark.parametrize("name", ["relu", "abs", "negative", "square", "sign", "logical_not", "_copy"])
@pytest.mark.parametrize("dtype", ["int32", "uint8", "int64"])
def test_functions_of_integers(name, dtype):
    check(name, [np.array([0, 1, 5, 127], dtype)], gradients=False)


@pytest.mark.parametrize("name", """_npi_exp _npi_log _npi_sqrt _npi_absolute _npi_negative _npx_relu _npx_sigmoid
    _npi_rint _npi_logical_not _npi_isnan _npi_isinf _npi_isposinf _npi_isneginf _npi_isfinite _npi_around
    _np_copy""".split())
def test_functions_of_numpy(name):
    check(name, [SPECIAL[:-1] if name == "_npx_relu" else SPECIAL])
    check(name, [np.array(0.3, "float32")])


@pytest.mark.parametrize("name", ["BlockGrad", "make_loss", "_copy", "_contrib_div_sqrt_dim"])
def test_identities(name):
    check(name, [numbers(3, 4)])


def test_the_first_of_two():
    check("_identity_with_attr_like_rhs", [numbers(3, 4), numbers(3, 4)])


@pytest.mark.parametrize("params", [{}, {"grad_scale": 2.5, "normalization": "batch"},
                                    {"normalization": "valid", "valid_thresh": 0.5}])
def test_losses_of_numbers(params):
    check("MakeLoss", [numbers(3, 4)], params)


@pytest.mark.parametrize("name, params", [
    ("clip", {"a_min": -0.5, "a_max": 1.5}), ("hard_sigmoid", {}), ("hard_sigmoid", {"alpha": 0.5, "beta": 0.1}),
    ("smooth_l1", {}), ("smooth_l1", {"scalar": 0.7}),
])
def test_functions_with_parameters(name, params):
    check(name, [SPECIAL], params)
    check(name, [numbers(3, 4, dtype="float64")], params)


def test_limits_that_cross_are_left_out():
    leaves_out("clip", [numbers(3)], {"a_min": 1, "a_max": 0})


@pytest.mark.parametrize("old, new", [("float32", "float64"), ("float64", "float32"), ("float32", "int32"),
                                      ("float32", "uint8"), ("float32", "bool"), ("float64", "int32")])
def test_casts(old, new):
    check("Cast", [np.array([0, 1.7, -2.5, 300, -70000], old)], {"dtype": new})


@pytest.mark.parametrize("old, new", [("int32", "float32"), ("int64", "int8"), ("bool", "float32"), ("uint8", "int32")])
def test_casts_of_integers(old, new):
    check("Cast", [np.array([0, 1, 200], old)], {"dtype": new}, gradients=False)


@pytest.mark.parametrize("value", [np.nan, 3e9])
def test_numbers_that_integers_do_not_hold_are_left_out(value):
    leaves_out("Cast", [np.array([1, value], "float32")], {"dtype": "int32"})


# ------------------------------------------------------------ of two arrays
BINARY = ["add", "sub", "mul", "div", "mod", "power", "maximum", "minimum", "hypot"]
TESTS = ["equal", "not_equal", "greater", "greater_equal", "lesser", "lesser_equal", "logical_and", "logical_or",
         "logical_xor"]
PAIRS = np.array(list(itertools.product([0, 1, -1.5, 2, -0.5, np.inf, np.nan], repeat=2)), "float32").T


def classic(name):
    return f"elemwise_{name}" if name in ("add", "sub", "mul", "div") else f"_{name}"


@pytest.mark.parametrize("name", [*BINARY, *TESTS])
def test_functions_of_two_arrays(name):
    check(f"broadcast_{name}", [numbers(2, 1, 4), numbers(2, 3, 1)])
    check(classic(name), [numbers(3, 4), numbers(3, 4)])
    leaves_out(classic(name), [numbers(3, 4), numbers(3, 1)])
    leaves_out(f"broadcast_{name}", [numbers(3, 4), numbers(3, 5)])


@pytest.mark.parametrize("name", [*BINARY, *TESTS])
def test_functions_of_pairs_of_unusual_numbers(name):
    finite = name in ("mod", "power")
    pairs = PAIRS[:, np.isfinite(PAIRS).all(0)] if finite else PAIRS
    check(classic(name), list(pairs))


@pytest.mark.parametrize("name", ["add", "sub", "mul", "maximum", "minimum", *TESTS])
def test_functions_of_two_arrays_of_integers(name):
    arrays = [np.array([[0, 3], [200, 7]], "uint8"), np.array([[1, 3], [100, 0]], "uint8")]
    check(f"broadcast_{name}", arrays, gradients=False)


@pytest.mark.parametrize("name", "add subtract multiply true_divide mod power hypot equal not_equal greater "
                                 "greater_equal less less_equal".split())
@pytest.mark.parametrize("shapes", [((4,), (3, 4)), ((), (3,)), ((), ())])
def test_functions_of_two_arrays_of_numpy(name, shapes):
    check(f"_npi_{name}", [numbers(*shape) for shape in shapes])


def test_arrays_of_several_dtypes_are_left_out():
    leaves_out("broadcast_add", [numbers(3), numbers(3, dtype="float64")])
    leaves_out("_npi_add", [np.arange(3, dtype="int32"), np.arange(3, dtype="int8")])
    leaves_out("broadcast_div", [np.arange(3, dtype="int32")] * 2)


@pytest.mark.parametrize("dtype", ["float16", "int32", "bool"])
@pytest.mark.parametrize("name, count", [("broadcast_mul", 2), ("_plus_scalar", 1), ("add_n", 2), ("relu", 1),
                                         ("_copy", 1), ("sum", 1), ("max", 1), ("Cast", 1)])
def test_gradients_of_other_dtypes_are_left_out(name, count, dtype):
    params = {"Cast": {"dtype": "float32"}, "_plus_scalar": {"scalar": 1}}.get(name)
    leaves_out(name, [np.ones(3, dtype)] * count, params, gradient=True)


# ------------------------------------------------------------ of an array and a number
@pytest.mark.parametrize("name", ["_plus", "_minus", "_rminus", "_mul", "_div", "_rdiv", "_mod", "_rmod", "_power",
                                  "_rpower", "_maximum", "_minimum", "_hypot", *["_" + name for name in TESTS]])
def test_functions_with_a_number(name):
    check(f"{name}_scalar", [numbers(3, 4)], {"scalar": 0.5})
    check(f"{name}_scalar", [numbers(3, dtype="float64")], {"scalar": 0.1}, tolerance=1e-12)


@pytest.mark.parametrize("power", [-1, 0, 0.5, 1, 2, 3])
def test_powers(power):
    check("_power_scalar", [SPECIAL[:-3]], {"scalar": power})


@pytest.mark.parametrize("name", "add subtract rsubtract multiply true_divide rtrue_divide mod rmod power rpower equal "
                                 "not_equal greater greater_equal less less_equal".split())
def test_functions_of_numpy_with_a_number(name):
    check(f"_npi_{name}_scalar", [numbers(3, 4)], {"scalar": 0.5})
    check(f"_npi_{name}_scalar", [numbers()], {"scalar": 0.5})


@pytest.mark.parametrize("name", ["_plus", "_minus", "_rminus", "_mul", "_maximum", "_minimum", "_equal", "_lesser"])
def test_functions_of_integers_with_a_number(name):
    check(f"{name}_scalar", [np.array([0, 2, 3, 127], "int8")], {"scalar": 3}, gradients=False)


@pytest.mark.parametrize("number", [2.5, 300, 1e30, float("nan")])
def test_numbers_that_integers_are_not_left_out(number):
    leaves_out("_plus_scalar", [np.array([1, 2], "int8")], {"scalar": number})


# ------------------------------------------------------------ of several arrays
@pytest.mark.parametrize("count", [1, 2, 3])
def test_sums_of_arrays(count):
    check("add_n", [numbers(3, 4) for _ in range(count)])
    check("add_n", [np.arange(4, dtype="int32")] * count, gradients=False)
