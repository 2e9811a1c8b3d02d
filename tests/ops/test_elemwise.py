"""Unary, binary, broadcasting and scalar element-wise operators."""

import numpy as np
import pytest
import scipy.special
from opcall import call, gradients

import mxjax as mx
from mxjax.base import MXNetError

X = np.array([[0.3, -0.7, 0.9], [0.0, 0.5, -0.2]], "float32")
POSITIVE = np.array([1.3, 2.7, 4.9, 1.1], "float32")
A = np.array([7, -7, 5.5, 0, 2], "float32")
B = np.array([2, 2, -3, 0, 2], "float32")

UNARY = {
    "sigmoid": scipy.special.expit, "softsign": lambda x: x / (1 + abs(x)),
    "log_sigmoid": scipy.special.log_expit, "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "erf": scipy.special.erf,
    "erfinv": scipy.special.erfinv, "exp": np.exp, "expm1": np.expm1, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "arcsin": np.arcsin, "arccos": np.arccos, "arctan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
    "arcsinh": np.arcsinh, "arctanh": np.arctanh, "degrees": np.degrees, "radians": np.radians, "cbrt": np.cbrt,
    "relu": lambda x: np.maximum(x, 0), "abs": np.abs, "sign": np.sign, "negative": np.negative, "square": np.square,
    "logical_not": np.logical_not, "_copy": lambda x: x, "hard_sigmoid": lambda x: np.clip(0.2 * x + 0.5, 0, 1)}
UNARY_POSITIVE = {
    "gamma": scipy.special.gamma, "gammaln": scipy.special.gammaln, "log": np.log, "log10": np.log10,
    "log2": np.log2, "log1p": np.log1p, "sqrt": np.sqrt, "rsqrt": lambda x: x ** -0.5,
    "rcbrt": lambda x: 1 / np.cbrt(x), "reciprocal": lambda x: 1 / x, "arccosh": np.arccosh}


@pytest.mark.parametrize("name", [*UNARY, *UNARY_POSITIVE])
def test_unary_values_and_slopes(name):
    x = X if name in UNARY else POSITIVE
    expected = (UNARY | UNARY_POSITIVE)[name]
    got = call(name, x)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, expected(x), rtol=2e-5, atol=1e-6)
    smooth = np.abs(x) > 0.1
    wide = x.astype("float64")
    slope = (expected(wide + 1e-5) * 1.0 - expected(wide - 1e-5)) / 2e-5
    np.testing.assert_allclose(gradients(name, x)[0][smooth], slope[smooth], rtol=2e-3, atol=1e-4)


def test_rounding_of_halves_and_of_integers():
    halves = np.array([0.5, 1.5, -0.5, -1.5, 2.5], "float32")
    assert call("round", halves).tolist() == [1, 2, -1, -2, 3]
    assert call("rint", halves).tolist() == [0, 1, -1, -2, 2]
    assert call("fix", halves).tolist() == [0, 1, 0, -1, 2]
    for name in ("round", "rint", "floor", "ceil", "trunc", "fix"):
        assert call(name, np.array([50000001], "int32")).tolist() == [50000001]


def test_integers_are_computed_in_float_and_truncated():
    ints = np.array([7, -7, 5, 0], "int32")
    assert call("exp", ints).tolist() == [1096, 0, 148, 1]
    assert call("hard_sigmoid", ints).tolist() == [1, 0, 1, 0]
    assert call("square", ints).dtype == np.int32


@pytest.mark.parametrize("name, point, slope", [
    ("relu", 0.0, 0.0), ("abs", 0.0, 0.0), ("sign", 0.0, 0.0), ("sqrt", 0.0, np.inf), ("gammaln", 0.0, np.inf)])
def test_slopes_at_kinks(name, point, slope):
    assert gradients(name, np.array([point], "float32"))[0] == slope


def test_slopes_of_pairs_at_kinks():
    """The remainder by 0 is 0, but its slopes stay 1 and -floor(a / b); of equal numbers the first is the larger."""
    for a, b, wanted in [(2.5, 0, [1, -np.inf]), (-2.5, 0, [1, np.inf]), (0, 0, [1, np.nan]), (2.5, -1, [1, 3]),
                         (-2.5, 1.5, [1, 2])]:
        pair = np.array([[a]], "float32"), np.array([b, b], "float32")
        np.testing.assert_array_equal(np.concatenate([g.ravel() for g in gradients("broadcast_mod", *pair)]),
                                      [2 * wanted[0], wanted[1], wanted[1]])
        assert gradients("_mod_scalar", pair[0], scalar=b)[0] == 1
    for name in ("maximum", "minimum"):
        for a, b, wanted in [(1, 1, [1, 0]), (1, np.nan, [0, 0]), (np.nan, 1, [0, 0])]:
            pair = np.array([a], "float32"), np.array([b], "float32")
            np.testing.assert_array_equal(call(f"broadcast_{name}", *pair), a + b - 1)
            assert [g.item() for g in gradients(f"broadcast_{name}", *pair)] == wanted


def test_slopes_beside_what_is_no_number():
    x = np.array([np.nan, np.inf, -np.inf, -2], "float32")
    np.testing.assert_array_equal(gradients("abs", x)[0], [0, 1, -1, -1])
    np.testing.assert_array_equal(gradients("smooth_l1", x)[0], [np.nan, 1, -1, -1])
    for name in ("relu", "_npx_relu"):
        np.testing.assert_array_equal(gradients(name, x)[0], [np.nan, 1, 0, 0])
    assert not np.signbit(call("abs", np.array([-0.0], "float32")))


def test_clip_and_smooth_l1():
    x = np.array([-2, -1, 0.5, 1, np.nan], "float32")
    np.testing.assert_array_equal(call("clip", x, a_min=-1, a_max=1), [-1, -1, 0.5, 1, np.nan])
    assert gradients("clip", x, a_min=-1, a_max=1)[0].tolist() == [0, 1, 1, 1, 1]
    assert call("clip", np.array([7, -7], "int32"), a_min=-1.5, a_max=6.7).tolist() == [6, -1]
    np.testing.assert_allclose(call("smooth_l1", x[:4], scalar=2.0), [1.875, 0.875, 0.375, 0.875])
    np.testing.assert_allclose(gradients("smooth_l1", x[:4])[0], [-1, -1, 0.5, 1])


def test_identities_with_their_own_gradients():
    x, head = np.array([[1, 2], [-3, 4]], "float32"), np.full((2, 2), 5, "float32")
    for name, slope, params in [
            ("BlockGrad", 0, {}), ("make_loss", 1, {}), ("MakeLoss", 2, {"grad_scale": 2}),
            ("MakeLoss", 0.5, {"normalization": "batch"}), ("_contrib_sign_ste", 5, {}), ("_contrib_round_ste", 5, {}),
            ("MakeLoss", 1 / 3, {"normalization": "valid"}), ("_contrib_gradientmultiplier", -10, {"scalar": -2})]:
        np.testing.assert_allclose(gradients(name, x, heads=[head], **params)[0], np.full((2, 2), slope), rtol=1e-6)
    for shape, rows in (((3,), 1), ((2, 3, 2), 6)):
        grad = gradients("MakeLoss", np.ones(shape, "float32"), normalization="batch")[0]
        np.testing.assert_allclose(grad, np.full(shape, 1 / rows), rtol=1e-6)
    assert [g.tolist() for g in gradients("_identity_with_attr_like_rhs", x, x)] == [np.ones_like(x).tolist(),
                                                                                    np.zeros_like(x).tolist()]


def test_straight_through_of_integers():
    for name, wanted in (("round", [3, 0]), ("sign", [1, 0])):
        whole = call(f"_contrib_{name}_ste", np.array([3, 0], "uint8"))
        assert whole.dtype == np.uint8 and whole.tolist() == wanted


def test_casts():
    values = np.array([300.7, -1.5, np.nan, -300, 128], "float32")
    assert call("Cast", values, dtype="uint8").tolist() == [44, 255, 0, 212, 128]
    assert call("Cast", values, dtype="int8").tolist() == [44, -1, 0, -44, -128]
    wide = call("Cast", np.array([2**40 + 1], "int64"), dtype="float64")
    assert wide.dtype == np.float64 and wide[0] == 2**40 + 1
    assert call("amp_cast", np.array([1], "int32"), dtype="float16").dtype == np.int32
    assert call("amp_cast", X, dtype="float16").dtype == np.float16
    narrow = [a.dtype.name for a in call("amp_multicast", X, X.astype("float16"), num_outputs=2, cast_narrow=True)]
    assert narrow == ["float16", "float16"]


BINARY = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "maximum": np.maximum, "minimum": np.minimum,
          "hypot": np.hypot, "equal": np.equal, "not_equal": np.not_equal, "greater": np.greater,
          "greater_equal": np.greater_equal, "lesser": np.less, "lesser_equal": np.less_equal,
          "logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor}


@pytest.mark.parametrize("name", BINARY)
def test_binary_families_agree_with_numpy(name):
    expected = BINARY[name](A, B).astype("float32")
    elementwise = f"elemwise_{name}" if name in ("add", "sub", "mul") else f"_{name}"
    scalar = {"add": "_plus_scalar", "sub": "_minus_scalar"}.get(name, f"_{name}_scalar")
    np.testing.assert_allclose(call(elementwise, A, B), expected, rtol=1e-6)
    np.testing.assert_allclose(call(f"broadcast_{name}", A, B), expected, rtol=1e-6)
    np.testing.assert_allclose(call(f"broadcast_{name}", A[:, None], B), BINARY[name](A[:, None], B), rtol=1e-6)
    np.testing.assert_allclose(call(scalar, A, scalar=2), BINARY[name](A, np.float32(2)), rtol=1e-6)


def test_division_remainder_power():
    assert call("_mod", A, B).tolist() == [1, 1, -0.5, 0, 0]
    ints = np.array([7, -7, 5, 0], "int32")
    assert call("_div_scalar", ints, scalar=2).tolist() == [3, -3, 2, 0]
    assert call("_mod_scalar", ints, scalar=3).tolist() == [1, 2, 2, 0]
    assert call("_rmod_scalar", ints, scalar=3).tolist() == [3, -4, 3, 0]
    assert call("_rpower_scalar", ints, scalar=2).tolist() == [128, 0, 32, 1]
    assert call("_rdiv_scalar", A[:3], scalar=2).tolist() == pytest.approx([2 / 7, -2 / 7, 2 / 5.5])
    assert call("_rminus_scalar", np.array([200], "uint8"), scalar=1).tolist() == [57]
    da, db = gradients("_mod", A[:3], B[:3])
    assert da.tolist() == [1, 1, 1] and db.tolist() == [-3, 4, 2]


def test_the_first_of_equals_takes_the_gradient():
    ones = np.ones(2, "float32")
    for name in ("_maximum", "_minimum", "broadcast_maximum"):
        assert [g.tolist() for g in gradients(name, ones, ones)] == [[1, 1], [0, 0]]
    assert gradients("_maximum_scalar", ones, scalar=1)[0].tolist() == [1, 1]


def test_scalar_results_have_the_dtype_of_the_array():
    ints = np.array([1, 2], "int32")
    assert call("_plus_scalar", ints, scalar=1.5).tolist() == [2, 3]
    precise = call("_plus_scalar", ints, scalar=1.5, is_int=False)
    assert precise.dtype == np.float64 and precise.tolist() == [2.5, 3.5]
    assert call("_plus_scalar", np.array([2**40], "int64"), scalar=1).tolist() == [2**40 + 1]
    assert call("_greater_scalar", ints, scalar=1).dtype == np.int32


def test_broadcast_to_shapes():
    x = np.arange(3, dtype="float32").reshape(1, 3)
    assert call("broadcast_to", x, shape=(2, 0)).shape == (2, 3)
    assert call("broadcast_axis", x, axis=0, size=4).shape == (4, 3)
    assert call("broadcast_like", x, np.ones((5, 4), "float32"), lhs_axes=(0,), rhs_axes=(-1,)).shape == (4, 3)
    assert gradients("broadcast_to", x, shape=(2, 3))[0].tolist() == [[2, 2, 2]]


def test_sum_of_arrays():
    assert call("add_n", A, B, A).tolist() == (A + B + A).tolist()


@pytest.mark.parametrize("name, arrays, params, message", [
    ("elemwise_add", (A, A[:2]), {}, "must match"),
    ("elemwise_add", (A, A.astype("int32")), {}, "must have the same dtype"),
    ("add_n", (A, A, A[:1]), {}, "input 2"),
    ("broadcast_add", (A, A[:2]), {}, "cannot be broadcast"),
    ("broadcast_mul", (A, A.astype("float16")), {}, "must have the same dtype"),
    ("broadcast_to", (A,), {"shape": (2, 5)}, "cannot be broadcast"),
    ("broadcast_axis", (A,), {"axis": 0, "size": 3}, "only an axis of size 1"),
    ("clip", (A,), {"a_min": 0}, "a_max"),
    ("amp_multicast", (A,), {"num_outputs": 2}, "num_outputs"),
])
def test_mistakes_are_named(name, arrays, params, message):
    with pytest.raises(MXNetError, match=message):
        call(name, *arrays, **params)


def test_sign_of_minus_zero_and_nan_is_zero():
    found = mx.nd.sign(mx.nd.array([-0.0, float("nan"), -2, 3])).asnumpy()
    np.testing.assert_array_equal(found, [0, 0, -1, 1])
    assert not np.signbit(found[0])


@pytest.mark.parametrize("expression, values", [
    (lambda a: a + 1.5, [1, 2, 2]), (lambda a: 1.5 - a, [1, 0, 0]), (lambda a: a * 2, [0, 2, 2]),
    (lambda a: a > 0.5, [0, 1, 1])])
def test_booleans_and_numbers_make_int64(expression, values):
    found = expression(mx.nd.array([0, 1, 3], dtype="bool"))
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found.asnumpy(), values)


def test_integers_stay_what_they_are_beside_fractions():
    found = mx.nd.array([1, 2], dtype="int32") + 1.5
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found.asnumpy(), [2, 3])


@pytest.mark.parametrize("name, function, slope", [
    ("sigmoid", lambda x: 1 / (1 + np.exp(-x)), lambda x: np.exp(-x) / (1 + np.exp(-x)) ** 2),
    ("expm1", np.expm1, np.exp), ("log2", np.log2, lambda x: 1 / (x * np.log(2))),
    ("rcbrt", lambda x: x ** (-1 / 3), lambda x: -x ** (-4 / 3) / 3)])
def test_half_precision_is_rounded_once(name, function, slope):
    x = np.linspace(0.25, 8, 63).astype("float16") * (-1 if name == "expm1" else 1)
    data = mx.nd.array(x, dtype="float16")
    data.attach_grad()
    with mx.autograd.record():
        value = getattr(mx.nd, name)(data)
    value.backward()
    for found, exact in ((value, function(x.astype(float))), (data.grad, slope(x.astype(float)))):
        assert found.dtype == np.float16
        assert (np.abs(found.asnumpy() - exact) <= 0.52 * np.spacing(np.abs(exact).astype("float16"))).all()
