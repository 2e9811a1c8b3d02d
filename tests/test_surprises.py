"""The list of surprises: where MXNet, NumPy and JAX differ and a port goes wrong. Silently wrong ones first.

Every expected value is what MXNet 1.9.1 answers, unless the test's docstring says otherwise.
"""

import numpy as np
import pytest

import mxjax as mx
from mxjax.base import MXNetError


def nd(values, dtype="float32"):
    return mx.nd.array(values, dtype=dtype)


# ------------------------------------------------------------------ silently wrong: numbers
@pytest.mark.parametrize("compute, dtype, wanted", [
    pytest.param(lambda: nd([1, 2]) * np.float64(0.5), "float32", [0.5, 1], id="a numpy.float64 does not widen"),
    pytest.param(lambda: np.float64(2) * nd([1, 2]), "float32", [2, 4], id="nor from the left"),
    pytest.param(lambda: np.int64(2) - nd([1, 2]), "float32", [1, 0], id="nor does a numpy.int64"),
    pytest.param(lambda: nd([2**40 + 1], "int64") + 1, "int64", [2**40 + 2], id="64-bit integers stay exact"),
    pytest.param(lambda: nd([1], "int64") + (2**53 + 1), "int64", [2**53 + 1], id="but a scalar is a double"),
    pytest.param(lambda: nd([1 / 3], "float64") * 3, "float64", [1.0], id="64-bit floats stay exact"),
    pytest.param(lambda: nd([1], "int32") + 1.5, "int32", [2], id="an integer array stays one"),
    pytest.param(lambda: nd([7, -7], "int32") / 2, "int32", [3, -3], id="integer division truncates"),
    pytest.param(lambda: nd([-7], "int32") % 3, "int32", [2], id="modulo has the divisor's sign"),
    pytest.param(lambda: nd([-7.0]) % 3, "float32", [2], id="for floats too"),
    pytest.param(lambda: nd([200], "uint8") + 100, "uint8", [44], id="unsigned bytes wrap around"),
    pytest.param(lambda: nd([100, 100], "int8").sum(), "int8", [-56], id="a sum of bytes is a byte"),
    pytest.param(lambda: nd([1, 2], "int32").mean(), "int32", [1], id="a mean of integers is an integer"),
    pytest.param(lambda: nd([300.7, -1.2]).astype("uint8"), "uint8", [44, 255], id="a cast to bytes wraps around"),
    pytest.param(lambda: mx.nd.round(nd([0.5, 1.5, 2.5, -0.5])), "float32", [1, 2, 3, -1], id="round: away from zero"),
    pytest.param(lambda: mx.nd.rint(nd([0.5, 1.5, 2.5, -0.5])), "float32", [0, 1, 2, -1], id="rint: halves downwards"),
    pytest.param(lambda: mx.nd.relu(nd([np.nan, -1])), "float32", [np.nan, 0], id="relu keeps NaN"),
    pytest.param(lambda: mx.nd.take(nd([1, 2]), nd([5, -1])), "float32", [2, 1], id="take clips its indices"),
    pytest.param(lambda: nd([1, 2]).argmax(axis=0), "float32", [1], id="argmax gives floats"),
    pytest.param(lambda: mx.nd.array(np.array([1, 2])), "float32", [1, 2], id="array() makes float32 of anything"),
    pytest.param(lambda: nd([1, 2, 3])[1], "float32", [2], id="one element has shape (1,)"),
    pytest.param(lambda: nd([10, 20])[nd([1, 0])], "float32", [20, 10], id="a float index array selects"),
    pytest.param(lambda: nd([1, 2]) == 2, "float32", [0, 1], id="comparisons give floats"),
    pytest.param(lambda: mx.nd.arange(0, 1, 0.1).sum(), "float32", [4.5], id="arange does not overshoot"),
    pytest.param(lambda: nd([[2, 3]]).sum(), "float32", [5], id="a full sum has shape (1,)")])
def test_numbers(compute, dtype, wanted):
    result = compute()
    assert result.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(result.asnumpy(), np.asarray(wanted, dtype))


@pytest.mark.parametrize("compute, negative", [
    (lambda: nd([0.0]) * -1, True), (lambda: -nd([0.0]), True), (lambda: nd([-0.0]) + 0, False),
    (lambda: nd([-0.0]) * 1, True), (lambda: nd([-0.0]).copy(), True), (lambda: 0 - nd([0.0]), False),
    (lambda: mx.nd.sqrt(nd([-0.0])), True), (lambda: nd([[-0.0]])[0], True)], ids=range(8))
def test_negative_zero(compute, negative):
    value = compute().asnumpy()
    assert value == 0 and np.signbit(value[0]) == negative


def test_a_scalar_parameter_is_no_constant_of_the_program(compiles):
    x = nd([1, 2])
    (x * 0.5).wait_to_read()
    compiles.clear()
    for factor in (0.25, 3, 7.0, np.float32(2), np.int64(4)):
        np.testing.assert_array_equal((x * factor).asnumpy(), [float(factor), 2 * float(factor)])
    assert len(compiles) <= 1, "one program for ints, one for floats"


# ------------------------------------------------------------------ silently wrong: memory
def test_a_slice_is_a_view_and_a_column_is_a_copy():
    a = mx.nd.zeros((3, 2))
    row, column = a[1], a[:, 0]
    row[:] = 5
    column[:] = 9
    np.testing.assert_array_equal(a.asnumpy(), [[0, 0], [5, 5], [0, 0]])


def test_reshape_is_a_view_and_the_operator_is_a_copy():
    a = mx.nd.zeros((2, 2))
    a.reshape((4,))[3] = 1
    mx.nd.reshape(a, shape=(4,))[0] = 7
    np.testing.assert_array_equal(a.asnumpy(), [[0, 0], [0, 1]])


def test_plus_equals_changes_every_handle():
    a = mx.nd.zeros((2,))
    alias, copy = a, a.copy()
    a += 1
    np.testing.assert_array_equal(alias.asnumpy(), [1, 1])
    np.testing.assert_array_equal(copy.asnumpy(), [0, 0])


def test_two_contexts_on_one_device_do_not_share_memory():
    a = mx.nd.ones((3,), ctx=mx.cpu(0))
    b = a.as_in_context(mx.cpu(1))
    c = mx.nd.zeros((3,), ctx=mx.cpu(2))
    a.copyto(c)
    b += 1
    c *= 5
    a -= 1
    for array, value in ((a, 0), (b, 2), (c, 5)):
        np.testing.assert_array_equal(array.asnumpy(), [value] * 3)


def test_a_numpy_array_given_away_can_be_changed():
    for size in (4, 1 << 16):    # large arrays are where a runtime shares memory
        source = np.ones(size, "float32")
        a, b = mx.nd.array(source), mx.nd.zeros((size,))
        b[:] = source
        source[:] = 0
        assert a.asnumpy().min() == b.asnumpy().min() == 1


def test_the_value_at_the_time_of_the_call():
    """Calls are asynchronous; what they read is what was there when they were made."""
    a = mx.nd.ones((1 << 16,))
    sums = []
    for _ in range(20):
        sums.append(a.sum())
        a += 1
    assert [s.asscalar() / (1 << 16) for s in sums] == list(range(1, 21))


# ------------------------------------------------------------------ silently wrong: gradients
def test_gradients_of_losses_are_not_mathematical_ones():
    x = nd([[1, 2, 3]])
    x.attach_grad()
    with mx.autograd.record():
        y = mx.nd.SoftmaxOutput(x, nd([2]))
    y.backward(mx.nd.full((1, 3), 100))    # ignored: the loss is its own head
    e = np.exp([1, 2, 3])
    np.testing.assert_allclose(x.grad.asnumpy(), [e / e.sum() - [0, 0, 1]], rtol=1e-5)


@pytest.mark.parametrize("function, at, wanted", [
    (mx.nd.relu, 0, 0), (mx.nd.abs, 0, 0), (mx.nd.sqrt, 4, 0.25), (lambda x: mx.nd.clip(x, 0, 1), 1, 1),
    (lambda x: mx.nd.maximum(x, 1), 1, 1), (mx.nd.sign, 3, 0), (lambda x: mx.nd.where(x > 0, x, -x), -2, -1)],
    ids=["relu", "abs", "sqrt", "clip", "maximum", "sign", "where"])
def test_gradients_at_corners(function, at, wanted):
    x = nd([at])
    x.attach_grad()
    with mx.autograd.record():
        y = function(x)
    y.backward()
    assert x.grad.asscalar() == pytest.approx(wanted)


def test_batchnorm_fixes_gamma_by_default_and_learns_statistics_in_the_backward_pass():
    x, gamma, beta = nd([[1.0], [3.0]]), nd([10]), nd([0])
    mean, var = mx.nd.zeros((1,)), mx.nd.ones((1,))
    beta.attach_grad()
    with mx.autograd.record():
        y = mx.nd.BatchNorm(x, gamma, beta, mean, var, eps=1e-5)
    np.testing.assert_allclose(y.asnumpy(), [[-1], [1]], rtol=1e-4)
    assert gamma.asscalar() == 1 and mean.asscalar() == 0
    y.backward()
    assert mean.asscalar() == pytest.approx(0.2), "momentum 0.9 is the weight of the old value"


def test_dropout_is_off_outside_of_training():
    np.testing.assert_array_equal(mx.nd.Dropout(mx.nd.ones((50,)), p=0.9).asnumpy(), np.ones(50))


# ------------------------------------------------------------------ raises
@pytest.mark.parametrize("wrong, error", [
    (lambda: bool(nd([1, 2])), ValueError), (lambda: nd([1]) == None, TypeError),  # noqa: E711
    (lambda: nd([1, 2]) + np.ones(2), TypeError), (lambda: mx.nd.elemwise_add(nd([1]), nd([1, 2])), MXNetError),
    (lambda: nd([1, 2])[5], IndexError), (lambda: mx.sym.Variable("x") + nd([1]), TypeError),
    (lambda: mx.nd.concat(nd([1]), nd([[1]]), dim=0), MXNetError), (lambda: nd([1, 2]).reshape((1,)), ValueError),
    (lambda: [1, 2][nd([1.0])], TypeError)], ids=range(9))
def test_raises(wrong, error):
    with pytest.raises(error):
        wrong()


# ------------------------------------------------------------------ known differences
def test_denormals_are_zero(at_once):
    """XLA flushes numbers below 1.2e-38 to zero on CPU, MXNet and the first calls by NumPy keep them."""
    assert (nd([1e-40]) * 1).asscalar() == 0 and (nd([1e-40], "float64") * 1).asscalar() == 1e-40


def test_a_cast_of_too_large_a_float_gives_the_least_integer(at_once):
    """As x86 processors do, to which MXNet leaves it; integers of 8 bits are cut out of 32."""
    values = nd([3e9, -3e9, np.inf, np.nan, 300, -1.7])
    np.testing.assert_array_equal(values.astype("int32").asnumpy(), [-2**31] * 4 + [300, -1])
    np.testing.assert_array_equal(values.astype("uint8").asnumpy(), [0] * 4 + [44, 255])
    np.testing.assert_array_equal((nd([15, 7], dtype="int32") ** 9).asnumpy(), [-2**31, 40353608])  # in float32


@pytest.mark.parametrize("function, grad", [
    (lambda x: 0 ** x, [-np.inf, np.nan, np.nan]), (lambda x: x ** 0, [np.nan, 0, 0]), (lambda x: x ** 3, [0, 3, 12]),
    (lambda x: mx.nd.broadcast_power(x * 0, x), [np.nan] * 3)], ids=["0 ** x", "x ** 0", "x ** 3", "broadcast"])
def test_gradients_of_powers_follow_the_formulas_at_zero_too(function, grad):
    """b * a ** (b - 1) and a ** b * log(a), without a case for 0 (values of MXNet 1.9.1)."""
    x = nd([0, 1, 2])
    x.attach_grad()
    with mx.autograd.record():
        out = function(x)
    out.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), grad)


@pytest.mark.parametrize("module, names", [
    ("ndarray", ["FullyConnected", "NDArray", "broadcast_add", "contrib", "random", "waitall", "zeros"]),
    ("ndarray.ndarray", ["NDArray", "maximum", "zeros"]), ("symbol", ["FullyConnected", "Variable", "linalg", "zeros"]),
    ("symbol.symbol", ["Symbol", "zeros"]), ("random", ["normal", "seed", "uniform"]), ("gluon", ["block", "nn"]),
    ("autograd", ["NDArray", "record"]), ("test_utils", ["assert_almost_equal", "mx", "np"])])
def test_star_imports_give_what_mxnet_gives(module, names):
    scope = {}
    exec(f"from mxjax.{module} import *", scope)
    assert [name for name in names if name not in scope] == []
    assert not [name for name in scope if name.startswith("_") and name != "__builtins__"]


@pytest.mark.parametrize("mod, slope", [
    (lambda a: mx.nd.broadcast_mod(a, mx.nd.array([3, 4], dtype=a.dtype)), 1), (lambda a: a % 2, 1),
    (lambda a: a.as_np_ndarray() % 2, 1), (lambda a: 11 % a, -2)])
@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_remainders_of_integers_have_no_gradient(mod, slope, dtype):
    a = mx.nd.array([5, 4], dtype=dtype)
    a.attach_grad()
    with mx.autograd.record():
        out = mod(a)
    out.backward()
    assert a.grad.asnumpy().tolist() == [slope * (dtype == "float32")] * 2


def test_remainders_of_an_integer_and_a_float_have_the_gradient_of_the_float():
    a, b = mx.np.array([5, 7, -3], dtype="int32"), mx.np.array([2.0, 3, 2])
    for arrays, grads in (((a, b), ([0, 0, 0], [-2, -2, 2])), ((b, a), ([1, 1, 1], [0, 0, 0]))):
        for array in arrays:
            array.attach_grad()
        with mx.autograd.record():
            out = mx.np.mod(*arrays)
        out.backward()
        assert [array.grad.tolist() for array in arrays] == list(grads)


@pytest.mark.parametrize("hybridize", [False, True])
def test_one_of_several_boolean_arrays_has_a_gradient(hybridize):
    x, y = mx.sym.var("x"), mx.sym.var("y")
    a, b = (mx.np.array(v, dtype="bool") for v in ([True, False], [True, True]))
    b.attach_grad()
    call = mx.nd.CachedOp(mx.sym.np.concatenate([x.as_np_ndarray(), y.as_np_ndarray()])) if hybridize else \
        lambda *arrays: mx.np.concatenate(arrays)
    with mx.autograd.record():
        out = call(a, b)
    out.backward()
    assert out.dtype == np.bool_ and b.grad.asnumpy().tolist() == [True, True]


@pytest.mark.parametrize(("call", "kind", "said"), [
    (lambda: mx.nd.zeros("abc"), mx.MXNetError, "operator _zeros: shape must be an int or a tuple of ints, got 'abc'"),
    (lambda: mx.np.ones(2) + mx.nd.ones(2), TypeError, "as_np_ndarray"),
    (lambda: mx.gluon.nn.Dense(3)(mx.nd.ones((2, 2))), RuntimeError, r"initialize\(\)"),
    (lambda: mx.sym.Variable("x").asnumpy(), mx.MXNetError, "hybridize"),
], ids=["shape", "flavours", "uninitialized", "symbol"])
def test_errors_say_what_to_do(call, kind, said):
    with pytest.raises(kind, match=said):
        call()


def test_trained_parameters_without_a_network(tmp_path, monkeypatch):
    monkeypatch.setenv("MXNET_GLUON_REPO", (tmp_path / "nothing").as_uri())
    with pytest.raises(OSError, match="resnet18_v1-a0666292.params .SHA-1 a0666292.*MXNET_GLUON_REPO"):
        mx.gluon.model_zoo.vision.resnet18_v1(pretrained=True, root=str(tmp_path))


def test_features_that_work_are_on():
    features = mx.runtime.Features()
    assert all(features.is_enabled(name) for name in ("DIST_KVSTORE", "LAPACK", "PROFILER", "XLA"))
