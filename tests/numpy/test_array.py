"""`mx.np.ndarray`: indexing, dtypes, views, conversions, errors; against NumPy."""

import operator
import pickle

import numpy as onp
import pytest

import mxjax as mx
from mxjax import np
from mxjax.base import MXNetError

CUBE = onp.arange(24, dtype="float32").reshape(2, 3, 4)
KEYS = [True, False, (True, 1), CUBE > 3, CUBE[:, 0, 0] > 3,
        (slice(None), CUBE[0, :, 0] > 3), (Ellipsis, CUBE[0, 0] > 1), (0, CUBE[0] > 3), (None, CUBE > 3),
        ([0, 1], [1, 2]), ([0, 1], slice(None), [1, 2]), ([0, 1], None, [1, 2]), (onp.array([[0], [1]]), [1, 2]),
        (slice(None), [0, 2]), 1, -1, slice(None, None, -1), (0, slice(1, 3)), (Ellipsis, None, 0), (), Ellipsis, None,
        (1, 2, 3), slice(0, 0), onp.array(1), onp.zeros((0,), int), onp.int64(1)]


@pytest.mark.parametrize("key", KEYS, ids=[str(i) for i in range(len(KEYS))])
def test_indexing(key):
    got = np.array(CUBE)[key]
    assert type(got) is np.ndarray
    onp.testing.assert_array_equal(got.asnumpy(), CUBE[key])
    changed, expected = np.array(CUBE), CUBE.copy()
    changed[key] = 7
    expected[key] = 7
    onp.testing.assert_array_equal(changed.asnumpy(), expected)


def test_index_arrays_may_be_ndarrays_of_any_dtype():
    a = np.array(CUBE)
    onp.testing.assert_array_equal(a[np.array([1.0, 0.0])].asnumpy(), CUBE[[1, 0]])
    onp.testing.assert_array_equal(a[a > 5].asnumpy(), CUBE[CUBE > 5])
    onp.testing.assert_array_equal(a[np.array([0, 1], dtype="int64"), [1, 1]].asnumpy(), CUBE[[0, 1], [1, 1]])


def test_mask_of_another_shape_is_refused():
    with pytest.raises(IndexError, match="boolean index"):
        np.array(CUBE)[np.zeros((3,), dtype=bool)]


def test_slices_are_views_and_reshape_copies():
    a = np.zeros((3, 4))
    a[1][2:] = 5
    assert a[1, 3] == 5
    assert np.shares_memory(a, a[1:])
    assert not np.shares_memory(a[:1], a[1:])
    a.reshape(-1)[0] = 9
    assert a[0, 0] == 0


def test_no_dimensions_and_no_elements():
    a = np.arange(3)
    assert a.sum().shape == () and a[1].shape == () and float(a[2]) == 2.0
    assert np.zeros((2, 0)).sum() == 0 and np.ones((0, 3)).shape == (0, 3)
    with pytest.raises(mx.MXNetError, match="no element"):
        np.max(np.zeros((0,)))
    with pytest.raises(TypeError):
        len(a[0])
    with pytest.raises(TypeError):
        float(a)


DTYPES = ["bool", "int8", "uint8", "int32", "int64", "float16", "float32", "float64"]
# of left (rows) and right (columns) operands, as MXNet 1.9.1 has them; "-" is an error
SUMS = {
    "bool": "bool int8 uint8 int32 int64 float16 float32 float64", "int8": "int8 int8 - int32 int64 float16 float32 "
    "float64", "uint8": "uint8 - uint8 int32 int64 float16 float32 float64",
    "int32": "int32 int32 int32 int32 int64 float16 float32 float64",
    "int64": "int64 int64 int64 int64 int64 float16 float32 float64",
    "float16": "float16 float16 float16 float16 float16 float16 float32 float64",
    "float32": "float32 float32 float32 float32 float32 float32 float32 float64",
    "float64": "float64 float64 float64 float64 float64 float64 float64 float64"}


@pytest.mark.parametrize("left", DTYPES)
def test_dtypes_of_sums(left):
    for right, expected in zip(DTYPES, SUMS[left].split(), strict=True):
        a, b = np.ones((2,), dtype=left), np.ones((2,), dtype=right)
        if expected == "-":
            with pytest.raises(mx.MXNetError):
                a + b
        else:
            assert (a + b).dtype == expected


@pytest.mark.parametrize("dtype", DTYPES[1:])
def test_dtypes_with_numbers_and_of_quotients(dtype):
    a = np.ones((2,), dtype=dtype)
    wide = dtype if dtype.startswith("float") else "float32"
    assert (a + 2).dtype == (a * 2.5).dtype == (2 - a).dtype == dtype
    assert (a / 2).dtype == (a / a).dtype == wide
    assert (a > 1).dtype == (a == a).dtype == bool
    assert a.sum().dtype == dtype and a.mean().dtype == wide and np.argmax(a).dtype == "int64"


def test_booleans_count_as_int64():
    mask = np.array(onp.array([True, False, True]))
    assert mask.sum() == 2 and mask.sum().dtype == "int64" and (mask + 1).dtype == "int64"
    assert np.array([True]).dtype == "float32"  # as in MXNet: only NumPy arrays say what they are


def test_classic_and_numpy_arrays_do_not_mix():
    a = np.ones(2)
    for other in (mx.nd.ones(2), onp.ones(2), [1, 2], None, "a"):
        with pytest.raises(TypeError, match="not supported"):
            a + other
        with pytest.raises(TypeError):
            a == other
    with pytest.raises(ValueError, match="as_np_ndarray"):
        np.array(mx.nd.ones(2))


def test_conversions_share_memory():
    a = np.zeros(2)
    classic = a.as_nd_ndarray()
    classic[:] = 3
    assert type(classic) is mx.nd.NDArray and type(classic.as_np_ndarray()) is np.ndarray
    assert a.tolist() == [3, 3]


@pytest.mark.parametrize("make, text", [
    (lambda: np.ones((2,)), "array([1., 1.])"),
    (lambda: np.ones((2,), dtype="int64"), "array([1, 1], dtype=int64)"),
    (lambda: np.ones((2,), dtype="float64"), "array([1., 1.], dtype=float64)"),
    (lambda: np.array(1.5), "array(1.5)"),
    (lambda: np.ones((2,)) > 0, "array([ True,  True])"),
    (lambda: np.zeros((2, 0)), "array([], shape=(2, 0))"),
])
def test_repr(make, text):
    assert repr(make()) == text


def test_in_place_operators_and_out():
    a = b = np.ones((2, 3))
    a += 1
    a *= np.array([1.0, 2.0, 3.0])
    assert b.tolist() == [[2, 4, 6]] * 2
    out = np.zeros(2)
    assert np.sum(a, axis=1, out=out) is out and out.tolist() == [12, 12]
    with mx.autograd.record():
        a.attach_grad()
        c = a * 2
        with pytest.raises(mx.MXNetError, match="Inplace"):
            c += 1


def test_gradients_are_ndarrays():
    a = np.array([1.0, -2.0, 3.0])
    a.attach_grad()
    with mx.autograd.record():
        loss = (a[a > 0] ** 2).sum() + a[1] * 3
    loss.backward()
    assert type(a.grad) is np.ndarray and a.grad.tolist() == [2, 3, 6]


def test_pickle_and_copies():
    for a in (np.arange(3), np.array(2.0), np.zeros((0, 2), dtype="int32")):
        b = pickle.loads(pickle.dumps(a))
        assert type(b) is np.ndarray and b.dtype == a.dtype and b.shape == a.shape and b.tolist() == a.tolist()
    assert str(np.ndarray) == "<class 'mxjax.numpy.ndarray'>"
    a = np.arange(3)
    b = a.copy()
    b[0] = 9
    assert a[0] == 0 and a.astype("float32", copy=False) is a and a.astype("int8").dtype == "int8"
    assert a.astype("int8").astype(None).dtype == "float32"


def test_scalar_protocols():
    a = np.array([2.5])
    assert f"{a[0]:.2f}" == "2.50" and int(a) == 2 and bool(a) and round(a).tolist() == [2.0]
    assert np.array([7], dtype="int32").item() == 7 and [1, 2, 3][np.array(1, dtype="int32")] == 2
    with pytest.raises(ValueError, match="ambiguous"):
        bool(np.ones(2))
    with pytest.raises(AttributeError):
        a.asscalar()


@pytest.mark.parametrize("dtype, ctx", [(None, None), ("float64", None), (None, mx.cpu(1))])
def test_an_array_of_an_array_is_recorded(dtype, ctx):
    x = np.array([1.0, 2.0])
    x.attach_grad()
    with mx.autograd.record():
        y = np.array(x, dtype=dtype, ctx=ctx)
        loss = y * 3
    loss.backward()
    assert x.grad.tolist() == [3, 3] and y.dtype == (dtype or "float32") and y.ctx == (ctx or mx.cpu())
    y[0] = 7
    assert x.tolist() == [1, 2]


def test_booleans_meet_numbers_as_booleans():
    """The answers are MXNet's: a comparison makes a boolean of the number, arithmetic int64 of the booleans."""
    flags = mx.np.array([1.0, 0.0]) > 0
    assert (flags == 0.5).asnumpy().tolist() == (flags == 3).asnumpy().tolist() == [True, False]
    assert (flags > 0.5).asnumpy().tolist() == [False, False]
    assert (flags >= 3).asnumpy().tolist() == [True, False]
    total = flags + 3
    assert total.dtype == onp.int64 and total.asnumpy().tolist() == [4, 3]


def test_in_place_results_keep_the_dtype():
    """Where MXNet raises, for the result has another one."""
    for own, other, step in (("float32", "float64", "iadd"), ("int32", "float32", "imul"), ("int32", "int64", "imul"),
                             ("int32", "int32", "itruediv"), ("bool", "int32", "iadd")):
        array = np.array([4, 6], dtype=own)
        with pytest.raises(MXNetError, match=f"__{step}__: cannot store a result of dtype .* array of dtype {own}"):
            getattr(operator, step)(array, np.array([2, 1], dtype=other))
        assert array.dtype == own
    with pytest.raises(MXNetError, match="array of dtype bool"):
        operator.iadd(np.array([True, False], dtype="bool"), 2)
    wide = np.array([4.0, 6.0], dtype="float64")
    wide += np.array([1, 2], dtype="float32")
    assert wide.dtype == "float64" and wide.tolist() == [5, 8]
    integers = np.array([5, 6], dtype="int32")
    integers *= 2
    assert integers.dtype == "int32" and integers.tolist() == [10, 12]


def test_negated_booleans_are_integers():
    found = -np.array([True, False], dtype="bool")
    assert found.dtype == "int64" and found.tolist() == [-1, 0]
    assert (-np.array([1, 0, 3], dtype="uint8")).tolist() == [255, 0, 253]


def test_shapes_are_integers():
    for shape in ((2.0, 2), 4.0, (onp.float64(2), 2)):
        with pytest.raises(MXNetError, match=r"must be Shape\(tuple\)"):
            np.reshape(np.arange(4), shape)
    assert np.reshape(np.arange(4), (onp.int64(2), 2)).shape == (2, 2)
