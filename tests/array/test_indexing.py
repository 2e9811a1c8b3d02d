"""Reading and writing through keys, against NumPy: a table of kinds of keys, and random combinations of them."""

import numpy as np
import pytest

import mxjax as mx
from mxjax.base import MXNetError
from mxjax.kernel.kernel import Kernel

SHAPE = (4, 3, 5)
VALUES = np.arange(60, dtype="float32").reshape(SHAPE)
KEYS = [
    0, -1, slice(None), slice(1, 3), slice(3, 1), slice(None, None, 2), slice(None, None, -1), slice(-3, None),
    Ellipsis, None, (1, 2), (1, 2, 3), (slice(1, 3), 0), (0, slice(None), slice(1, 4)), (slice(None), slice(None), 2),
    (..., 1), (1, ..., slice(0, 2)), (None, 1), (slice(None), None, 2), (slice(0, 4, 3), slice(None), slice(4, 0, -2)),
    [0, 2], [[0, 1], [2, 3]], [-1, 0], ([0, 1], [1, 2]), (slice(None), [0, 2]), ([0, 3], slice(None), [1, 4]),
    (1, [0, 2]), ([[0], [3]], [0, 2]), (..., [0, 0, 1]), np.array([3, 0]), (np.array([1, 2]), 1, slice(0, 2)),
    range(2), (range(2), [0, 2]),
    (slice(None), range(2, 0, -1)), np.int64(2)]
MASKS = [VALUES % 7 == 0, np.array([True, False, True, False]), (slice(None), np.array([True, False, True]))]


def random_keys(count, seed):
    """Tuples of random items, of the kinds that NumPy and MXNet read in the same way."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        key = []
        for size in SHAPE[:rng.integers(1, 4)]:
            kind = rng.integers(4)
            if kind == 0:
                key.append(int(rng.integers(-size, size)))
            elif kind == 1:
                key.append(slice(*sorted(rng.integers(0, size + 1, 2).tolist())))
            elif kind == 2:
                key.append(slice(None, None, int(rng.choice([-2, -1, 1, 2]))))
            else:
                key.append(slice(None))
        yield tuple(key)


ALL = KEYS + list(random_keys(25, 1))


def expected(key):
    """What NumPy selects; a single element has shape (1,) in `mx.nd`."""
    found = VALUES[key]
    return found.reshape(1) if found.ndim == 0 else found


@pytest.mark.parametrize("key", ALL, ids=str)
def test_read(key):
    got = mx.nd.array(VALUES)[key]
    assert got.shape == expected(key).shape
    np.testing.assert_array_equal(got.asnumpy(), expected(key))


@pytest.mark.parametrize("key", ALL, ids=str)
def test_write(key):
    wanted, selected = VALUES.copy(), VALUES[key]
    array = mx.nd.array(VALUES)
    wanted[key] = -1
    array[key] = -1
    np.testing.assert_array_equal(array.asnumpy(), wanted)
    new = -np.arange(1, selected.size + 1, dtype="float32").reshape(selected.shape)
    wanted[key] = new
    array[key] = mx.nd.array(new) if selected.ndim else float(new)
    np.testing.assert_array_equal(array.asnumpy(), wanted)


ROWS, COLUMNS = np.array([1, 0]), np.array([2, 1])


@pytest.mark.parametrize("key,same,shape", [  # as MXNet 1.9.1: new axes stay where the key has them without its arrays
    ((ROWS, None), ROWS, (1, 2, 3, 5)), ((ROWS, slice(None), None), ROWS, (2, 1, 3, 5)),
    ((ROWS, ..., None), ROWS, (2, 3, 1, 5)), ((None, ROWS, None), ROWS, (1, 1, 2, 3, 5)),
    ((slice(None), ROWS, None), (slice(None), ROWS), (4, 1, 2, 5)),
    ((ROWS, COLUMNS, None), (ROWS, COLUMNS), (1, 2, 5)), ((ROWS, None, COLUMNS), (ROWS, COLUMNS), (2, 1, 5))], ids=str)
def test_new_axes_beside_index_arrays(key, same, shape):
    array = mx.nd.array(VALUES)
    np.testing.assert_array_equal(array[key].asnumpy(), VALUES[same].reshape(shape))
    wanted = VALUES.copy()
    wanted[same] = wanted[same][::-1] * 2
    array[key] = array[same][::-1] * 2  # the value may have them or not
    np.testing.assert_array_equal(array.asnumpy(), wanted)
    array[key] = array[same].reshape(shape) * 3
    wanted[same] *= 3
    np.testing.assert_array_equal(array.asnumpy(), wanted)


def test_an_assignment_to_arrays_apart_has_their_axes_first():
    array, wanted, value = mx.nd.array(VALUES), VALUES.copy(), np.arange(8, dtype="float32").reshape(2, 4)
    array[:, ROWS, None, COLUMNS] = value
    wanted[:, ROWS, COLUMNS] = value.T
    np.testing.assert_array_equal(array.asnumpy(), wanted)
    array[:, ROWS, None, COLUMNS] = value[:, :, None] * 2
    wanted[:, ROWS, COLUMNS] *= 2
    np.testing.assert_array_equal(array.asnumpy(), wanted)


@pytest.mark.parametrize("key", MASKS, ids=["all", "rows", "columns"])
def test_masks(key):
    """In arrays of mx.np; classic ones take booleans for the positions 0 and 1, as MXNet's do."""
    wanted, array, classic = VALUES.copy(), mx.np.array(VALUES), mx.nd.array(VALUES)
    np.testing.assert_array_equal(array[key].asnumpy(), VALUES[key])
    wanted[key] = array[key] = -1
    np.testing.assert_array_equal(array.asnumpy(), wanted)
    whole = tuple(k.astype(int) if isinstance(k, np.ndarray) else k for k in key) if isinstance(key, tuple) else \
        key.astype(int)
    np.testing.assert_array_equal(classic[key].asnumpy(), VALUES[whole])
    wanted = VALUES.copy()
    wanted[whole] = classic[key] = -1
    np.testing.assert_array_equal(classic.asnumpy(), wanted)


def test_a_boolean_is_a_position_in_classic_arrays():
    assert mx.nd.array([10, 11])[True].asnumpy().tolist() == [11]
    assert mx.nd.array([10, 11, 12])[[True, False, True]].asnumpy().tolist() == [11, 10, 11]


@pytest.mark.parametrize("key", [(1, 2), slice(1, 2), (slice(None), 1), [0, 1], (slice(None), slice(None, None, 2))],
                         ids=str)
def test_write_through_a_view(key):
    """A key applied to a view of the middle of an array."""
    base, wanted = mx.nd.array(VALUES), VALUES.copy()
    view = base[1:3]
    view[key] = -5
    wanted[1:3][key] = -5
    np.testing.assert_array_equal(base.asnumpy(), wanted)
    np.testing.assert_array_equal(view.asnumpy(), wanted[1:3])


def test_write_broadcasts_and_casts():
    array, wanted = mx.nd.array(VALUES, dtype="int32"), VALUES.astype("int32")
    for key, value in ((slice(0, 2), np.float32([1.9, 2.2, -3.7, 4, 5])), ((slice(None), 1), np.arange(5)),
                       (3, [[9]]), ((0, 0), [[1, 2, 3, 4, 5]])):
        wanted[key] = np.asarray(value).astype("int32")
        array[key] = mx.nd.array(value) if isinstance(value, np.ndarray) else value
        np.testing.assert_array_equal(array.asnumpy(), wanted)


def test_index_arrays_as_ndarrays():
    array = mx.nd.array(VALUES)
    rows = mx.nd.array([2, 0], dtype="int32")
    np.testing.assert_array_equal(array[rows].asnumpy(), VALUES[[2, 0]])
    np.testing.assert_array_equal(array[rows, 1:].asnumpy(), VALUES[[2, 0], 1:])
    array[rows] = 0
    assert (array.asnumpy()[[0, 2]] == 0).all() and (array.asnumpy()[[1, 3]] == VALUES[[1, 3]]).all()


def test_the_whole_of_an_array_is_the_array():
    """With its gradient; other selections of everything are views."""
    array = mx.nd.ones((2, 2))
    array.attach_grad()
    for same in (array[:], array[::1], array[()], array.as_np_ndarray()[:].as_nd_ndarray()):
        assert same.grad is array.grad
    for view in (array[:, :], array[0:2], array[...], array[::1, :]):
        assert view is not array and view.grad is None


def test_gradient_flows_through_indexing():
    array = mx.nd.array(VALUES)
    array.attach_grad()
    with mx.autograd.record():
        y = (array[1] * 2).sum() + array[:, 0, ::2].sum() + array[[0, 0, 3]].sum() + array[1:3][0, 1].sum()
    y.backward()
    wanted = np.zeros(SHAPE)
    wanted[1] += 2
    wanted[:, 0, ::2] += 1
    np.add.at(wanted, [0, 0, 3], 1)
    wanted[1, 1] += 1
    np.testing.assert_array_equal(array.grad.asnumpy(), wanted)


@pytest.mark.parametrize("key", [4, -5, (0, 3), (0, 0, 0, 0), [0, 4], (..., ...), (0, [5])], ids=str)
def test_wrong_keys(key):
    array = mx.nd.array(VALUES)
    for use in (lambda: array[key], lambda: array.__setitem__(key, 0)):
        with pytest.raises((IndexError, MXNetError)):
            use()


@pytest.mark.parametrize("key", ["text", 1.5, (0, "text"), (slice(None), 1.5), {}], ids=str)
def test_keys_of_another_kind(key):
    for array in (mx.nd.array(VALUES), mx.np.array(VALUES)):
        with pytest.raises(ValueError, match="an index must be"):
            array[key]
        with pytest.raises(ValueError, match="an index must be"):
            array[key] = 0


def test_values_that_do_not_fit():
    array = mx.nd.array(VALUES)
    for key, value in ((0, np.zeros((2, 2))), (slice(None), np.zeros(4)), ((0, 0), [1, 2]),
                       ([0, 1], np.zeros((3, 3, 5)))):
        for kind in (ValueError, MXNetError):  # the one in MXNet 1.9.1, the other in 2.0
            with pytest.raises(kind, match="to a selection of shape"):
                array[key] = value
    with pytest.raises(TypeError, match="assign"):
        array[0] = object()
    np.testing.assert_array_equal(array.asnumpy(), VALUES)


def test_positions_compile_once(monkeypatch):
    """A loop over positions uses one program for reading and one for writing."""
    from mxjax.array import indexing
    made = []
    monkeypatch.setattr(indexing, "Kernel", lambda name, *args, **options: made.append(name) or Kernel(
        name, *args, **options))
    array = mx.nd.zeros((50, 7))
    for i in range(1, 40):
        array[i, 2:4] = i
        array[i:i + 3, 1].asnumpy()
    assert len(made) <= 3
    np.testing.assert_array_equal(array.asnumpy()[1:40, 2], np.arange(1, 40))


def test_a_slice_that_moves_stays_right_when_its_beginning_becomes_an_argument():
    x = mx.nd.arange(60).reshape((2, 30))
    x.attach_grad()
    for begin in range(25):
        with mx.autograd.record():
            y = mx.nd.slice_axis(x, axis=-1, begin=begin, end=begin + 3)
        y.backward()
        np.testing.assert_array_equal(y.asnumpy(), x.asnumpy()[:, begin:begin + 3])
        assert x.grad.asnumpy().sum() == 6 and x.grad.asnumpy()[:, begin:begin + 3].all()
    with pytest.raises(MXNetError, match="begin=26, end=31 is not a valid range for an axis of size 30"):
        mx.nd.slice_axis(x, axis=1, begin=26, end=31)


@pytest.mark.parametrize("dtype, value, wanted", [
    ("uint8", -1, 255), ("uint8", 300, 44), ("uint8", -1.7, 255), ("uint8", float("nan"), 0), ("int8", 2**40, 0),
    ("int32", 2**40, -2**31), ("int32", float("nan"), -2**31), ("int64", 1e20, -2**63),
    ("int64", 2**53 + 1, 2**53 + 1)])
def test_numbers_become_integers_as_in_c(dtype, value, wanted):
    """The numbers are MXNet's."""
    for key in (0, slice(None), (slice(0, 1),), mx.nd.array([0], dtype="int32")):
        array = mx.nd.zeros((1,), dtype=dtype)
        array[key] = value
        assert array.asnumpy().tolist() == [wanted]
    assert mx.nd.full((2,), value, dtype=dtype).asnumpy().tolist() == [wanted] * 2


def test_lists_become_integers_as_in_c():
    array = mx.nd.zeros((2,), dtype="uint8")
    array[:] = [-1, 300]
    assert array.asnumpy().tolist() == [255, 44]


def test_the_gradient_has_the_flavour_of_the_handle():
    array = mx.nd.ones((2,))
    array.attach_grad()
    other = array.as_np_ndarray()
    assert type(other.grad) is mx.np.ndarray and type(array.grad) is mx.nd.NDArray
    with mx.autograd.record():
        product = array * 3
    product.backward()
    assert other.grad.asnumpy().tolist() == array.grad.asnumpy().tolist() == [3, 3]


def test_out_that_is_no_array():
    with pytest.raises(TypeError, match="out= must be an NDArray, got int"):
        mx.nd.elemwise_mul(mx.nd.ones(2), mx.nd.ones(2), out=3)


@pytest.mark.parametrize("key, expected", [
    (True, [9, 9, 9, 9, 9, 9]), (False, [9, 9, 9, 9, 9, 9]), ((True,), [9, 9, 9, 9, 9, 9]),
    ((0, True), [9, 9, 9, 3, 4, 5]), ((True, 0), [9, 9, 9, 3, 4, 5]), ((False, 1), [0, 1, 2, 9, 9, 9]),
    ((slice(None), True), [9, 9, 9, 9, 9, 9]), ((True, slice(1, None)), [0, 1, 2, 9, 9, 9]),
    ((False, [0, 1]), [9, 9, 9, 9, 9, 9])])
def test_true_and_false_say_nothing_in_keys_of_classic_arrays_that_are_written(key, expected):
    x = mx.nd.arange(6).reshape((2, 3))
    x[key] = 9
    assert x.asnumpy().ravel().tolist() == expected


@pytest.mark.parametrize("key, expected", [
    (True, [3, 4, 5]), (False, [0, 1, 2]), ((0, True), [1]), ((True, 0), [3]), ((True,), [[0, 1, 2], [3, 4, 5]]),
    ((slice(None), True), [[0, 1, 2], [3, 4, 5]]), ((True, slice(1, None)), [[3, 4, 5]]),
    ((True, [0, 1]), [[0, 1, 2], [3, 4, 5]])])
def test_true_and_false_are_numbers_only_among_numbers_that_are_read(key, expected):
    assert mx.nd.arange(6).reshape((2, 3))[key].asnumpy().tolist() == expected


@pytest.mark.parametrize("key", [np.True_, (np.True_, 0)])
def test_booleans_of_numpy_are_no_keys_of_classic_arrays(key):
    x = mx.nd.zeros((2, 3))
    with pytest.raises(ValueError, match="does not support slicing with key True"):
        x[key]
    with pytest.raises(ValueError, match="does not support slicing with key True"):
        x[key] = 1


@pytest.mark.parametrize("value", [1j, [1j, 2, 3], "a", {}, object()])
@pytest.mark.parametrize("make", [mx.nd.zeros, mx.np.zeros])
def test_what_cannot_be_assigned_is_named(make, value):
    x = make((2, 3))
    for key in (0, slice(None), [0]):
        with pytest.raises(TypeError, match=r"float32 and shape \((2, )?3,?\) does not support .* of type"):
            x[key] = value
    assert not x.asnumpy().any()


@pytest.mark.parametrize("make", [mx.nd.zeros, mx.np.zeros])
def test_none_is_nan_and_no_integer(make):
    x = make((2, 3))
    x[0] = None
    np.testing.assert_array_equal(x.asnumpy(), [[np.nan] * 3, [0] * 3])
    with pytest.raises(TypeError, match="int32 .* with None of type"):
        make((2, 3), dtype="int32")[0] = None


def test_full_takes_what_can_be_assigned():
    assert mx.nd.full((2, 3), np.array([1, 2, 3])).asnumpy().tolist() == [[1, 2, 3]] * 2
    assert mx.nd.full((2,), mx.nd.array([4])).asnumpy().tolist() == [4, 4]
    with pytest.raises(TypeError, match="with 1j of type"):
        mx.nd.full((2,), 1j)


@pytest.mark.parametrize(("key", "shape"), [
    ((slice(None), None), (2, 3)), ((slice(None), None), (2, 1)), ((Ellipsis, None, None), (2, 3)),
    ((None, slice(None, None, 2)), (1, 3)), ((slice(None), None), (2, 1, 3)), ((None,), (1, 2, 3))])
def test_new_axes_that_a_value_does_not_have_are_ignored(key, shape):
    array = mx.nd.zeros((2, 3))
    array[key] = mx.nd.ones(shape)
    rows = [1, 0] if key[1:] == (slice(None, None, 2),) else [1, 1]
    np.testing.assert_array_equal(array.asnumpy(), np.outer(rows, np.ones(3)))
