"""Functions of mx.np and mx.npx that MXNet 2 adds: NumPy's values, MXNet 2.0.0b1's dtypes, gradients and errors."""

import numpy as onp
import pytest

import mxjax as mx
from mxjax import autograd, np, npx

A = onp.array([[1, 2, 3], [4, 5, 6]], "float32")
B = onp.array([[2, 2, 1.5], [4, -4, 5]], "float32")
WHOLE = onp.array([7, -7, 6], "int32")
OTHER = onp.array([2, 3, 4], "int32")
NANS = onp.array([onp.nan, 1, onp.nan], "float32")


def arrays(*values):
    return [np.array(v, dtype=v.dtype) if isinstance(v, onp.ndarray) else v for v in values]


def same(found, expected, dtype=None):
    assert found.shape == expected.shape
    assert found.dtype == (dtype or expected.dtype)
    onp.testing.assert_allclose(found.asnumpy(), expected, 1e-6, 1e-6)


def as_symbols(function, *values):
    """What a function gives of symbols with these values."""
    names = [mx.sym.var(f"x{i}").as_np_ndarray() for i in range(len(values))]
    return function(*names).bind(mx.cpu(), {f"x{i}": v.as_nd_ndarray() for i, v in enumerate(values)}).forward()[0]


# ------------------------------------------------------------ element by element
PAIRS = [
    ("fmax", A, B), ("fmax", WHOLE, OTHER), ("fmax", NANS, NANS[::-1].copy()), ("fmin", A, B), ("fmin", NANS, B[0]),
    ("fmod", A, B), ("fmod", WHOLE, OTHER), ("fmod", WHOLE, 2), ("fmod", 7, A), ("gcd", WHOLE, OTHER),
    ("gcd", WHOLE, 2), ("floor_divide", A, B), ("floor_divide", WHOLE, OTHER), ("floor_divide", 7, OTHER),
    ("logaddexp", A, B), ("logical_and", A, NANS > 0), ("logical_or", A * 0, WHOLE), ("logical_xor", NANS > 0, WHOLE),
    ("logical_and", A - 1, 2.5), ("pow", A, 2), ("atan2", A, B), ("acos", A / 10), ("acosh", A), ("asin", A / 10),
    ("asinh", A), ("atan", A), ("atanh", A / 10), ("bitwise_invert", WHOLE), ("bitwise_left_shift", WHOLE, OTHER),
    ("bitwise_left_shift", 2, OTHER), ("bitwise_right_shift", WHOLE, OTHER), ("bitwise_right_shift", WHOLE, 2),
]
OLD_NAMES = {"pow": "power", "atan2": "arctan2", "acos": "arccos", "acosh": "arccosh", "asin": "arcsin",
             "asinh": "arcsinh", "atan": "arctan", "atanh": "arctanh", "bitwise_invert": "invert",
             "bitwise_left_shift": "left_shift", "bitwise_right_shift": "right_shift"}


@pytest.mark.parametrize(("name", "values"), [(name, values) for name, *values in PAIRS])
def test_it_is_numpys(name, values):
    expected = getattr(onp, OLD_NAMES.get(name, name))(*values)
    same(getattr(np, name)(*arrays(*values)), expected)
    inputs = [v for v in arrays(*values) if isinstance(v, np.ndarray)]
    numbers = [v if not isinstance(v, onp.ndarray) else None for v in values]

    def of_symbols(*symbols):
        rest = iter(symbols)
        return getattr(mx.sym.np, name)(*[next(rest) if n is None else n for n in numbers])
    onp.testing.assert_allclose(as_symbols(of_symbols, *inputs).asnumpy(), expected, 1e-6, 1e-6)


@pytest.mark.parametrize(("name", "first", "second", "dtype"), [
    ("fmax", "int32", 2.5, "float64"), ("logical_or", "int32", 0.5, "bool"),
    ("fmod", "bool", 2, "int64"), ("floor_divide", "float32", "int32", "float32"),
    ("floor_divide", "int8", "int32", "int32"), ("floor_divide", "uint8", 2.5, "float64"),
    ("floor_divide", "bool", 2, "int64"), ("logaddexp", "float16", "float32", "float32"),
    ("logaddexp", "int32", 2, "int32"), ("logical_and", "float16", "int8", "bool"), ("gcd", "uint8", 2, "uint8"),
    ("bitwise_left_shift", "int64", "int32", "int64"), ("bitwise_right_shift", "uint8", 2, "uint8"),
])
def test_dtypes_are_mxnets(name, first, second, dtype):
    a = np.array([1, 0, 1]).astype(first)
    b = np.array([1, 2, 1]).astype(second) if isinstance(second, str) else second
    assert getattr(np, name)(a, b).dtype == dtype


@pytest.mark.parametrize(("name", "first", "second"), [
    ("fmax", "float32", "int32"), ("fmin", "bool", "bool"), ("fmod", "int8", "int32"), ("gcd", "float32", "float32"),
    ("gcd", "bool", "bool"), ("logaddexp", "int32", "int32"), ("logaddexp", "bool", "float32"),
    ("bitwise_left_shift", "float32", "float32"), ("bitwise_right_shift", "bool", "int32"),
    ("floor_divide", "bool", "bool"),
])
def test_dtypes_that_mxnet_refuses(name, first, second):
    with pytest.raises(mx.MXNetError):
        getattr(np, name)(np.ones(2).astype(first), np.ones(2).astype(second)).wait_to_read()


# of the sum, as MXNet 2.0.0b1 has them, except fmod's of the last row: there it has -floor(a / b), for -trunc(a / b);
# where both are equal the gradient of fmax and fmin is the first one's
GRADIENTS = {
    "fmax": ([[0, 1, 1], [1, 1, 1]], [[1, 0, 0], [0, 0, 0]]),
    "fmin": ([[1, 1, 0], [1, 0, 0]], [[0, 0, 1], [0, 1, 1]]),
    "fmod": ([[1, 1, 1], [1, 1, 1]], [[0, -1, -2], [-1, 1, -1]]),
    "logaddexp": ([[0.26894142, 0.5, 0.8175745], [0.5, 0.9998766, 0.73105858]],
                  [[0.7310586, 0.5, 0.1824255], [0.5, 0.0001234, 0.2689414]]),
    "floor_divide": (onp.zeros((2, 3)), onp.zeros((2, 3))),
    "kron": (onp.full((2, 3), 10.5), onp.full((2, 3), 21)),
    "cross": ([[0.5, -0.5, 0], [-9, 1, 8]], [[1, -2, 1], [1, -2, 1]]),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name):
    a, b = arrays(A, B)
    a.attach_grad()
    b.attach_grad()
    with autograd.record():
        made = getattr(np, name)(a, b)
    made.backward()
    for found, expected in zip((a.grad, b.grad), GRADIENTS[name], strict=True):
        onp.testing.assert_allclose(found.asnumpy(), expected, 1e-5, 1e-5)


# ------------------------------------------------------------ matrices
CUBE = onp.arange(24, dtype="float32").reshape(2, 3, 4)
SQUARE = onp.array([[2, 1], [1, 3]], "float32")


@pytest.mark.parametrize(("name", "values", "params"), [
    ("triu", [A], {"k": 1}), ("triu", [WHOLE], {}), ("triu", [CUBE], {"k": -1}), ("kron", [A, B[0]], {}),
    ("kron", [WHOLE, OTHER], {}), ("cross", [A, B], {}),
("cross", [A.T, B.T], {"axis": 0}),
    ("cross", [A.T, B], {"axisa": 0, "axisc": 0}), ("median", [A], {}), ("median", [CUBE], {"axis": (0, 2)}),
    ("median", [A[:, :2]], {"axis": 1, "keepdims": True}),
])
def test_matrices_are_numpys(name, values, params):
    expected = onp.asarray(getattr(onp, name)(*values, **params))
    same(getattr(np, name)(*arrays(*values), **params), expected)
    found = as_symbols(lambda *symbols: getattr(mx.sym.np, name)(*symbols, **params), *arrays(*values))
    onp.testing.assert_allclose(found.asnumpy(), expected, 1e-6)


def test_remainders_of_a_division_by_zero_are_zero():
    zeros = np.array([0, 2])
    assert np.fmod(np.array([2.5, 2.5]), zeros).tolist() == [0, 0.5]
    assert np.fmod(2.5, np.array([0, 1], dtype="bool")).tolist() == [0, 0.5]


def test_cross_products_in_the_plane():
    a, b = arrays(A[:, :2].copy(), B[:, :2].copy())
    assert np.cross(a, b).tolist() == [-2, -36]
    assert np.cross(a[0], np.array(B[0])).tolist() == [3, -1.5, -2]


def test_medians_of_integers_are_float32():
    same(np.median(np.array([1, 2, 4, 9], dtype="int32")), onp.float32(3))


def test_arrays_out_of_nothing():
    same(np.tri(2, 3, 1), onp.tri(2, 3, 1), "float32")
    same(np.tri(3, k=-1, dtype="int32"), onp.tri(3, k=-1, dtype="int32"))
    for found, expected in zip((*np.tril_indices(3, 1, 2), *np.triu_indices(2, 0, 3)),
                               (*onp.tril_indices(3, 1, 2), *onp.triu_indices(2, 0, 3)), strict=True):
        same(found, expected, "int64")


@pytest.mark.parametrize(("shape", "val", "wrap"), [
    ((3, 3), 5, False), ((3, 3), [1, 2, 3], False), ((5, 2), 4, True), ((5, 2), 4, False), ((2, 4), [3, 4, 5], False),
    ((2, 2, 2), 1, False), ((7, 2), [1, 2], True),
])
def test_fill_diagonal_is_numpys(shape, val, wrap):
    expected, found = onp.zeros(shape, "float32"), np.zeros(shape)
    onp.fill_diagonal(expected, val, wrap)
    assert np.fill_diagonal(found, val, wrap) is None
    same(found, expected)


@pytest.mark.parametrize(("shape", "val", "error"), [
    ((3,), 1, mx.MXNetError), ((2, 3, 2), 1, mx.MXNetError), ((2, 2), (1, 2), TypeError), ((2, 2), [], mx.MXNetError)])
def test_fill_diagonal_refuses(shape, val, error):
    with pytest.raises(error):
        np.fill_diagonal(np.zeros(shape), val)


@pytest.mark.parametrize("bad", [(A[:, :1], B[:, :1]), (WHOLE, OTHER), (A, A.astype("float64"))])
def test_cross_refuses(bad):
    with pytest.raises(mx.MXNetError, match="_npi_cross"):
        np.cross(*arrays(*bad)).wait_to_read()


@pytest.mark.parametrize(("name", "args", "expected"), [
    ("matrix_norm", [CUBE], [22.494441, 61.789967]), ("matrix_norm", [SQUARE, "nuc"], 5),
    ("matrix_norm", [SQUARE, 2], 3.618034), ("matrix_norm", [SQUARE, -1], 3), ("matrix_norm", [SQUARE, onp.inf], 4),
    ("svdvals", [SQUARE], [3.618034, 1.381966]), ("trace", [CUBE, 1], [24, 26, 28, 30]),
    ("diagonal", [A, 1], [2, 6]), ("matrix_transpose", [A], A.T), ("outer", [A[0], A[1]], onp.outer(A[0], A[1])),
    ("cross", [A, B], onp.cross(A, B)), ("vecdot", [A, A], 91), ("vecdot", [A[0], A[1], 0], onp.outer(A[0], A[1])),
    ("vector_norm", [A], 9.539392), ("vector_norm", [A, 1, 0], [5, 7, 9]),
    ("vector_norm", [CUBE, 3, (0, 1), True], [[24.328807, 25.826257, 27.345358, 28.885798]]),
    ("vector_norm", [A, 0], 6), ("vector_norm", [A, onp.inf, 1], [3, 6]), ("tensordot", [A, A.T, 1], A @ A.T),
])
def test_names_of_the_array_api_in_linalg(name, args, expected):
    found = getattr(np.linalg, name)(*arrays(*args))
    onp.testing.assert_allclose(found.asnumpy(), expected, 1e-5)


# ------------------------------------------------------------ joins, sets, dtypes
def test_other_names_of_the_array_api():
    a = np.array(A)
    same(np.concat([a, a], axis=None), onp.concatenate([A, A], axis=None))
    same(np.permute_dims(np.array(CUBE), (2, 0, 1)), CUBE.transpose(2, 0, 1))
    x = np.array([3, 1, 3, 2])
    values, places, inverse, counts = np.unique_all(x)
    assert (values.tolist(), places.tolist(), inverse.tolist(), counts.tolist()) == (
        [1, 2, 3], [1, 3, 0], [2, 0, 2, 1], [1, 1, 2])
    assert np.unique_inverse(x).inverse_indices.tolist() == [2, 0, 2, 1]
    assert np.unique_values(x).tolist() == [1, 2, 3]
    assert np.asarray(a) is a
    assert np.asarray(a, dtype="float64").dtype == "float64"
    assert np.asarray(3).dtype == "int64"
    assert np.from_dlpack(a).tolist() == A.tolist()
    same(np.cumprod(a, axis=1), onp.cumprod(A, axis=1))


def test_limits_of_dtypes():
    assert (np.can_cast("int32", "float32"), np.can_cast(np.ones(1), "float64"), np.can_cast(1, "int8")) == (
        False, True, True)
    assert np.iinfo("int8") == (8, 127, -128)
    assert np.type_functions.finfo(np.ones(1)).smallest_normal == 1.1754943508222875e-38
    with pytest.raises(ValueError):
        np.iinfo("float32")
    assert [str(d) for d in np.floating_dtypes] == ["float16", "float32", "float64"]
    assert np.boolean_dtypes == [np.dtype("bool")]
    assert len(np.numeric_dtypes) == 11


# ------------------------------------------------------------ draws
def test_draws_are_mxnets():
    mx.random.seed(3)
    onp.testing.assert_allclose(np.random.laplace(size=4).asnumpy(),
                                [0.18705812, -0.17041464, -0.12467681, -0.4230372], 1e-6)
    mx.random.seed(3)
    onp.testing.assert_allclose(np.random.f(3, 5, size=3).asnumpy(), [0.6391925, 22.044861, 0.09030876], 1e-5)
    many = np.random.laplace(np.array([0, 10]), 2, size=(4000, 2), dtype="float64")
    assert many.dtype == "float64"
    onp.testing.assert_allclose(many.asnumpy().mean(0), [0, 10], atol=0.2)
    onp.testing.assert_allclose(many.asnumpy().std(0), 2 * 2 ** 0.5, rtol=0.1)


def test_laplace_has_no_gradient():
    loc = np.array([1, 2])
    loc.attach_grad()
    with autograd.record():
        drawn = np.random.laplace(loc, 1)
    drawn.backward()
    assert loc.grad.tolist() == [0, 0]


# ------------------------------------------------------------ places
def places(values, dtype="int64"):
    return np.array(values, dtype=dtype)


@pytest.mark.parametrize(("ind", "val", "added", "updated"), [
    ([[0, 1], [1, 2]], [10, 20], [[1, 12, 3], [4, 5, 26]], [[1, 10, 3], [4, 5, 20]]),
    ([[0, 1], [1, 2]], 5, [[1, 7, 3], [4, 5, 11]], [[1, 5, 3], [4, 5, 5]]),
    ([[1]], [10, 20, 30], [[1, 2, 3], [14, 25, 36]], [[1, 2, 3], [10, 20, 30]]),
    ([1], [10, 20, 30], [[1, 2, 3], [14, 25, 36]], [[1, 2, 3], [10, 20, 30]]),
    ([[1, 0]], [[10, 20, 30]], [[11, 22, 33], [14, 25, 36]], [[10, 20, 30], [10, 20, 30]]),
    ([[0, 0], [1, 1]], [10, 20], [[1, 32, 3], [4, 5, 6]], None),
])
def test_values_at_places(ind, val, added, updated):
    a, val = np.array(A), np.array(val)
    for dtype in ("int32", "int64"):
        same(npx.index_add(a, places(ind, dtype), val), onp.array(added, "float32"))
    if updated is not None:
        same(npx.index_update(a, places(ind), val), onp.array(updated, "float32"))
    assert a.tolist() == A.tolist()
    found = as_symbols(mx.sym.npx.index_add, a, places(ind, "int32"), val)
    assert found.asnumpy().tolist() == added


@pytest.mark.parametrize(("function", "of_a"), [("index_add", A), ("index_update", [[1, 0, 3], [4, 5, 0]])])
def test_gradients_at_places(function, of_a):
    a, val = np.array(A), np.array([10, 20])
    a.attach_grad()
    val.attach_grad()
    with autograd.record():
        made = getattr(npx, function)(a, places([[0, 1], [1, 2]]), val) * np.array(A)
    made.backward()
    assert a.grad.tolist() == onp.array(of_a).tolist()
    assert val.grad.tolist() == [2, 6]


@pytest.mark.parametrize(("ind", "val", "error", "says"), [
    ([[2], [0]], [1], IndexError, "index 2 is out of range for axis 0 of size 2"),
    ([[-1], [0]], [1], IndexError, "index -1"),
    ([[0], [0], [0]], [1], IndexError, "leading axes"),
    ([[0, 1], [1, 2]], [1, 2, 3], mx.MXNetError, "broadcast"),
    ([[0]], [[[1, 1, 1]]], mx.MXNetError, "broadcast"),
])
def test_places_that_are_not_there(ind, val, error, says):
    for function in (npx.index_add, npx.index_update):
        with pytest.raises(error, match=says):
            function(np.array(A), places(ind), np.array(val)).asnumpy()


def test_places_and_values_of_other_dtypes():
    with pytest.raises(mx.MXNetError, match="int32 or int64"):
        npx.index_add(np.array(A), places([[0], [0]], "float32"), np.array([1])).wait_to_read()
    with pytest.raises(mx.MXNetError, match="the same dtype"):
        npx.index_add(np.array(A), places([[0], [0]]), places([1])).wait_to_read()


# ------------------------------------------------------------ masked softmax
MASK = onp.array([[1, 0, 1], [0, 0, 0]], bool)


@pytest.mark.parametrize(("params", "expected"), [
    ({}, [[0.11920291, 0, 0.880797], [0, 0, 0]]), ({"temperature": 2.0}, [[0.26894143, 0, 0.731058537], [0, 0, 0]]),
    ({"axis": 0}, [[1, 0, 1], [0, 0, 0]]), ({"normalize": False}, [[0.11920291, 0, 0.880797], [0, 0, 0]]),
])
def test_masked_softmax(params, expected):
    data, mask = arrays(A, MASK)
    same(npx.masked_softmax(data, mask, **params), onp.array(expected, "float32"))
    with onp.errstate(divide="ignore"):
        same(npx.masked_log_softmax(data, mask, **params), onp.log(onp.array(expected, "float32")))
    found = as_symbols(lambda x, m: mx.sym.npx.masked_softmax(x, m, **params), data, mask)
    onp.testing.assert_allclose(found.asnumpy(), expected, 1e-6)


def test_a_mask_broadcasts():
    data, mask = arrays(A, MASK[:1])
    row = [0.11920291, 0, 0.880797]
    same(npx.masked_softmax(data, mask), onp.array([row, row], "float32"))


@pytest.mark.parametrize(("name", "expected"), [
    ("masked_softmax", [[-0.19661191, 0, 0.19661199], [0, 0, 0]]),
    ("masked_log_softmax", [[-0.0378828, 0, 0.0378828], [0, 0, 0]])])
def test_gradients_of_masked_softmax(name, expected):
    data, mask, weights = arrays(A, MASK, A)
    data.attach_grad()
    with autograd.record():
        made = getattr(npx, name)(data, mask, axis=1, temperature=2.0)
        loss = (np.where(mask, made, np.zeros_like(made)) * weights).sum()
    loss.backward()
    onp.testing.assert_allclose(data.grad.asnumpy(), expected, 1e-5, 1e-6)


@pytest.mark.parametrize(("data", "mask", "says"), [
    (A, MASK.astype("float32"), "dtype bool"), (A, MASK[:, :2], "the same number of axes"), (A, MASK[0], "must have"),
    (A.astype("int32"), MASK, "int32")])
def test_masked_softmax_refuses(data, mask, says):
    with pytest.raises(mx.MXNetError, match=says):
        npx.masked_softmax(*arrays(data, mask)).wait_to_read()


# ------------------------------------------------------------ layers and loops
def test_layers_that_moved_to_npx():
    x, ones, zeros = np.arange(8).reshape(1, 4, 2), np.ones(4), np.zeros(4)
    same(npx.group_norm(x, ones, zeros), onp.array([[[-1.5273798, -1.0909855], [-0.6545913, -0.2181971],
                                                     [0.2181971, 0.6545913], [1.0909855, 1.5273798]]], "float32"))
    with_moments = npx.group_norm(np.arange(16).reshape(2, 4, 2), np.array([1, 2, 3, 4]), np.array([0, 0, 1, 1]), 2,
                                  output_mean_var=True)
    onp.testing.assert_allclose(with_moments[0][1].asnumpy(), [[-1.3411044, -0.4470348], [0.8940696, 2.6822088],
                                                               [-3.023313, -0.3411044], [2.7881393, 6.3644176]], 1e-5)
    assert with_moments[1].tolist() == [[1.5, 5.5], [9.5, 13.5]]
    onp.testing.assert_allclose(with_moments[2].asnumpy(), onp.full((2, 2), 1.1184812), 1e-6)
    same(npx.instance_norm(x, ones, zeros), onp.tile(onp.array([-0.998006, 0.998006], "float32"), (1, 4, 1)))
    same(npx.softsign(np.array(A)), A / (1 + A))
    same(npx.broadcast_like(np.ones((1, 3)), np.array(A)), onp.ones((2, 3), "float32"))
    same(npx.add_n(np.array(A), np.array(B)), A + B)
    assert [p.shape for p in npx.slice_channel(np.array(A), num_outputs=3)] == [(2, 1)] * 3
    assert all(isinstance(p, np.ndarray) for p in npx.slice_channel(np.array(A), num_outputs=3))
    same(as_symbols(lambda s: mx.sym.npx.softsign(s), np.array(A)), A / (1 + A))


def test_digamma():
    special = pytest.importorskip("scipy.special")
    x = np.array(A)
    x.attach_grad()
    with autograd.record():
        made = npx.digamma(x)
    made.backward()
    same(made, special.digamma(A))
    onp.testing.assert_allclose(x.grad.asnumpy(), special.polygamma(1, A), 1e-5)


def test_loops_and_branches():
    outs, state = npx.foreach(lambda x, s: (x + s, s * 2), np.array([1, 2, 3]), np.array([1]))
    assert (outs.tolist(), state.tolist()) == ([[2], [4], [7]], [8])
    (outs,), last = npx.while_loop(lambda i, s: i <= 3, lambda i, s: ([i + s], [i + 1, s + i]),
                                   (np.array([0]), np.array([1])), max_iterations=6)
    assert outs.tolist() == [[1], [2], [4], [7], [0], [0]]
    assert [v.tolist() for v in last] == [[4], [7]]
    assert all(isinstance(v, np.ndarray) for v in (outs, state, *last))
    pair = [np.array([1]), np.array([2])]
    assert npx.cond(lambda x, y: x > y, lambda x, y: x + y, lambda x, y: x - y, pair).tolist() == [-1]
    with pytest.raises(ValueError, match="one element"):
        npx.cond(lambda x: x > 0, lambda x: x, lambda x: x, [np.ones(2)])
    with pytest.raises(ValueError, match="list of ndarrays, got int"):
        npx.cond(lambda x: x > 0, lambda x: x, lambda x: x, 3)


def test_a_loop_is_recorded():
    x = np.array([1, 2, 3])
    x.attach_grad()
    with autograd.record():
        _, state = npx.foreach(lambda item, s: (item, s * item), x, np.array(1))
    state.backward()
    assert x.grad.tolist() == [6, 3, 2]


def test_files_and_memory_of_others(tmp_path):
    path = str(tmp_path / "a.params")
    with mx.util.np_shape(True), mx.util.np_array(True):
        npx.savez(path, np.array([1]), weight=np.array([2]))
        assert {k: v.tolist() for k, v in npx.load(path).items()} == {"arr_0": [1], "weight": [2]}
        with pytest.raises(ValueError, match="arr_0"):
            npx.savez(path, np.array([1]), arr_0=np.array([2]))
    assert isinstance(npx.from_numpy(onp.ones(2, "float32")), np.ndarray)
    assert npx.from_dlpack(npx.to_dlpack_for_read(np.array(A))).tolist() == A.tolist()


# ------------------------------------------------------------ devices
OTHER_DEVICE = mx.cpu(1)


@pytest.mark.parametrize("make", [
    lambda **d: np.ones(2, **d), lambda **d: np.array([1], **d), lambda **d: np.empty(2, **d),
    lambda **d: np.eye(2, **d), lambda **d: np.tri(2, **d), lambda **d: np.tril_indices(2, **d)[0],
    lambda **d: np.random.normal(size=2, **d), lambda **d: npx.random.bernoulli(0.5, size=2, **d),
    lambda **d: np.asarray([1], **d), lambda **d: mx.nd.ones((2,), **d), lambda **d: mx.nd.array([1], **d),
    lambda **d: mx.nd.arange(2, **d), lambda **d: mx.nd.random.uniform(shape=(2,), **d),
    lambda **d: mx.nd.random_normal(shape=(2,), **d), lambda **d: mx.nd.zeros((2, 2), stype="csr", **d),
])
def test_device_is_another_name_of_ctx(make):
    assert make(device=OTHER_DEVICE).ctx == OTHER_DEVICE
    assert make(device=None).ctx == mx.cpu()
    with pytest.raises(TypeError, match="two names of one argument"):
        make(device=OTHER_DEVICE, ctx=mx.cpu())


def test_names_of_devices():
    x = np.ones(2)
    assert x.device == x.ctx == mx.cpu() == mx.current_device()
    assert x.to_device(OTHER_DEVICE).device == OTHER_DEVICE
    assert x.to_device(mx.cpu()) is x
    assert mx.device.Device is mx.Device
    assert isinstance(mx.cpu(), mx.Device)
    assert mx.device.num_gpus() == mx.num_gpus()
    with mx.Device("cpu", 1):
        assert np.ones(1).device == mx.current_device() == OTHER_DEVICE


def test_seeds_take_a_device():
    for seed in (np.random.seed, npx.random.seed, mx.random.seed):
        seed(3, device="all")
        onp.testing.assert_allclose(np.random.laplace(size=1).asnumpy(), [0.18705812], 1e-6)


# ------------------------------------------------------------ attention in a window, draws, integers
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("distance", [1, 2])
def test_attention_in_a_window_is_that_of_a_mask(symmetric, distance):
    random = onp.random.RandomState(0)
    query, key, value = (random.normal(size=(2, 8, 2, 4)).astype("float32") for _ in range(3))
    length, width = [8, 5], 2
    dilation = np.array([distance] * 2, dtype="int32")
    inputs = arrays(query, key, value)
    for array in inputs:
        array.attach_grad()
    params = {"w": width, "symmetric": symmetric}
    with autograd.record():
        score = npx.sldwin_atten_score(*inputs[:2], dilation, **params)
        mask = npx.sldwin_atten_mask_like(score, dilation, np.array(length, dtype="int32"), **params)
        out = npx.sldwin_atten_context(score * mask, inputs[2], dilation, **params)
    out.backward()
    seen = onp.zeros((2, 1, 8, 8), "float32")
    for b, i, step in onp.ndindex(2, 8, 2 * width + 1 if symmetric else width + 1):
        j = i + (step - width) * distance
        seen[b, 0, i, j if 0 <= j < length[b] else i] = i < length[b]
    weights = onp.einsum("bihd,bjhd->bhij", query, key) * seen
    back = onp.einsum("bjhd->bhj", value)[:, :, None] * seen
    onp.testing.assert_allclose(out.asnumpy(), onp.einsum("bhij,bjhd->bihd", weights, value), 1e-4, 1e-5)
    onp.testing.assert_allclose(inputs[0].grad.asnumpy(), onp.einsum("bhij,bjhd->bihd", back, key), 1e-4, 1e-5)
    onp.testing.assert_allclose(inputs[1].grad.asnumpy(), onp.einsum("bhij,bihd->bjhd", back, query), 1e-4, 1e-5)


def test_a_window_of_one_as_mxnet_has_it():
    q, one = np.arange(5).reshape(1, 5, 1, 1) + 1, np.ones(1, dtype="int32")
    score = npx.sldwin_atten_score(q, q, one, w=1, symmetric=True)
    assert score[0, :, 0].tolist() == [[0, 1, 2], [2, 4, 6], [6, 9, 12], [12, 16, 20], [20, 25, 0]]
    mask = npx.sldwin_atten_mask_like(score, one, np.array([3], dtype="int32"), w=1, symmetric=True)
    assert mask[0, :, 0].tolist() == [[0, 1, 1], [1, 1, 1], [1, 1, 0], [0, 0, 0], [0, 0, 0]]
    with pytest.raises(mx.MXNetError, match="dilation must be int32"):
        npx.sldwin_atten_score(q, q, np.ones(1), w=1, symmetric=True)


def test_draws_of_classes():
    drawn, logarithms = npx.random.categorical(np.array([[0, 1], [1, 0]]), shape=3, get_prob=True)
    same(drawn, onp.array([[1, 1, 1], [0, 0, 0]], "int32"))
    assert logarithms.tolist() == [[0, 0, 0], [0, 0, 0]]


def test_integers_with_a_range():
    data, low, high = np.array([[1, -2], [3, 4]], dtype="int8"), np.array([-1]), np.array([2])
    turned, least, most = npx.quantized_transpose(data, low, high)
    assert (turned.tolist(), least.tolist(), most.tolist()) == ([[1, 3], [-2, 4]], [-1], [2])
    assert npx.quantized_reshape(data, low, high, newshape=(-1,))[0].tolist() == [1, -2, 3, 4]
    with pytest.raises(mx.MXNetError, match="each axis"):
        npx.quantized_transpose(data, low, high, axes=(0, 0))
