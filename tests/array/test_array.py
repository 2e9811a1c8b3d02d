"""NDArrays: making them, their dtypes, arithmetic, conversions, and Python's protocols."""

import copy
import operator
import pickle
import time

import jax
import ml_dtypes
import numpy as np
import pytest

import mxjax as mx
from mxjax.base import MXNetError
from mxjax.executor import _cached_op

RNG = np.random.default_rng(0)
DTYPES = ["float16", "float32", "float64", "bfloat16", "int8", "uint8", "int32", "int64", "bool"]


def numpy_dtype(name):
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


# ------------------------------------------------------------------ making
@pytest.mark.parametrize("made, wanted", [
    (lambda: mx.nd.zeros((2, 3)), np.zeros((2, 3), "float32")),
    (lambda: mx.nd.ones(2, dtype="int64"), np.ones(2, "int64")),
    (lambda: mx.nd.full((2, 2), 7.5, dtype="float64"), np.full((2, 2), 7.5)),
    (lambda: mx.nd.arange(2, 5, 0.5), np.arange(2, 5, 0.5, dtype="float32")),
    (lambda: mx.nd.arange(0, 3, repeat=2, dtype="int32"), np.repeat(np.arange(3, dtype="int32"), 2)),
    (lambda: mx.nd.linspace(0, 1, 5), np.linspace(0, 1, 5, dtype="float32")),
    (lambda: mx.nd.eye(2, 3, 1), np.eye(2, 3, 1, dtype="float32")),
    (lambda: mx.nd.array([[1, 2], [3, 4]]), np.array([[1, 2], [3, 4]], "float32")),
    (lambda: mx.nd.array(np.arange(3)), np.arange(3, dtype="float32")),
    (lambda: mx.nd.array(np.arange(3), dtype=np.int64), np.arange(3)),
    (lambda: mx.nd.array(mx.nd.array([1.5], dtype="float64")), np.array([1.5])),
    (lambda: mx.nd.zeros_like(mx.nd.ones((2, 1))), np.zeros((2, 1), "float32")),
    (lambda: mx.nd.concatenate([mx.nd.ones((1, 2)), mx.nd.zeros((2, 2))]), np.float32([[1, 1], [0, 0], [0, 0]])),
    (lambda: mx.nd.moveaxis(mx.nd.zeros((2, 3, 4)), 0, 2), np.zeros((3, 4, 2), "float32"))])
def test_made(made, wanted):
    array = made()
    assert array.dtype == wanted.dtype and array.shape == wanted.shape
    np.testing.assert_array_equal(array.asnumpy(), wanted)


@pytest.mark.parametrize("dtype", ["float16", "float32", "int64", "uint8"])
def test_numpy_knows_an_arrays_dtype(dtype):
    """`numpy.dtype` of the array itself, as scripts ask for the bytes of an element."""
    array = mx.nd.ones((2, 2), dtype=dtype)
    for one in (array, mx.np.ones(2, dtype=dtype)) + ((array.tostype("csr"),) if "float" in dtype else ()):
        assert np.dtype(one) == np.dtype(dtype) and np.zeros(1, one).dtype == dtype


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_is_kept(dtype):
    wanted = np.array([[0, 1, 3], [100, 2, 1]]).astype(numpy_dtype(dtype))
    array = mx.nd.array(wanted, dtype=dtype)
    assert array.dtype == wanted.dtype.type and array.to_jax().dtype == wanted.dtype
    for same in (array.copy(), array[1:].reshape((1, 3)), mx.nd.concat(array, array, dim=0), array.T,
                 array.as_in_context(mx.cpu(1)), array[:, 1:], array[mx.nd.array([1, 0])],
                 pickle.loads(pickle.dumps(array)), mx.nd.zeros((2,), dtype=dtype)):
        assert same.dtype == wanted.dtype.type
    np.testing.assert_array_equal(array.asnumpy(), wanted)
    np.testing.assert_array_equal(array[1, 0].asnumpy(), wanted[1, 0:1])
    if dtype not in ("bool", "float16", "bfloat16"):
        np.testing.assert_array_equal((array + array).asnumpy(), wanted + wanted)
    assert array.astype("float64").dtype == np.float64


def test_64_bits_are_kept_without_a_global_setting():
    big = 2**53 + 1
    integers = mx.nd.array(np.array([big, -big]), dtype="int64")
    floats = mx.nd.array(np.array([1 + 2.0**-50]), dtype="float64")
    view = integers[0:1]
    integers += 1
    assert not jax.config.jax_enable_x64
    np.testing.assert_array_equal(integers.asnumpy(), [big + 1, -big + 1])
    np.testing.assert_array_equal((view * 2).asnumpy(), [2 * big + 2])
    np.testing.assert_array_equal((floats * floats - 1).asnumpy(), [(1 + 2.0**-50)**2 - 1])
    floats.attach_grad()
    with mx.autograd.record():
        y = floats * floats * 3
    y.backward()
    np.testing.assert_array_equal(floats.grad.asnumpy(), 6 * floats.asnumpy())
    assert "9007199254740994" in repr(integers)


# ------------------------------------------------------------------ arithmetic
A, B = RNG.uniform(1, 4, (2, 3)).astype("float32"), RNG.uniform(1, 4, (2, 1)).astype("float32")
BINARY = [operator.add, operator.sub, operator.mul, operator.truediv, operator.mod, operator.pow, operator.eq,
          operator.ne, operator.lt, operator.le, operator.gt, operator.ge]


@pytest.mark.parametrize("function", BINARY, ids=lambda f: f.__name__)
def test_operators_of_python(function):
    a, b = mx.nd.array(A), mx.nd.array(B)
    for got, wanted in ((function(a, b), function(A, B)), (function(a, 2), function(A, np.float32(2))),
                        (function(2, a), function(np.float32(2), A)),
                        (function(a, np.float64(1.5)), function(A, np.float32(1.5)))):
        assert got.dtype == np.float32
        np.testing.assert_allclose(got.asnumpy(), wanted, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["iadd", "isub", "imul", "itruediv", "imod"])
def test_in_place_operators(name):
    function, plain = getattr(operator, name), getattr(operator, name[1:])
    a = mx.nd.array(A)
    same = alias = a
    for other, value in ((mx.nd.array(B), B), (3, np.float32(3))):
        wanted = plain(a.asnumpy(), value)
        same = function(same, other)
        assert same is alias is a
        np.testing.assert_allclose(alias.asnumpy(), wanted, rtol=1e-5, atol=1e-6)


def test_operands_that_do_not_fit():
    a = mx.nd.ones((2, 3))
    with pytest.raises(MXNetError, match=r"broadcast_add.*\(2, 3\).*\(2, 2\)"):
        a + mx.nd.ones((2, 2))
    for other in (np.ones((2, 3)), "text", None):
        with pytest.raises(TypeError):
            a + other
    with pytest.raises(TypeError):
        a == None  # noqa: E711
    with pytest.raises(TypeError, match="__iadd__"):
        a += np.ones((2, 3))
    with pytest.raises(MXNetError, match=r"FullyConnected.*\(2, 3\).*\(4, 5\)"):
        mx.nd.FullyConnected(a, mx.nd.ones((4, 5)), num_hidden=4, no_bias=True)


# ------------------------------------------------------------------ conversions and places
def test_copies_and_contexts():
    a = mx.nd.array(A)
    b = a.copy()
    b[:] = 0
    np.testing.assert_array_equal(a.asnumpy(), A)
    target = mx.nd.zeros((2, 3), ctx=mx.cpu(1), dtype="float64")
    assert a.copyto(target) is target
    assert target.context == mx.cpu(1) and target.dtype == np.float64
    np.testing.assert_array_equal(target.asnumpy(), A)
    moved = a.as_in_context(mx.cpu(2))
    assert moved is not a and moved.context == mx.cpu(2) and a.as_in_context(a.context) is a
    moved += 1
    np.testing.assert_array_equal(a.asnumpy(), A)
    assert a.astype("float32", copy=False) is a and a.astype("float32") is not a
    with pytest.raises(MXNetError, match="shapes"):
        a.copyto(mx.nd.zeros((3, 2)))
    with pytest.raises(TypeError, match="copyto"):
        a.copyto("somewhere")
    with mx.cpu(3):
        assert mx.nd.zeros((1,)).context == mx.cpu(3)


def test_asnumpy_is_a_writable_copy():
    a = mx.nd.array(A)
    value = a.asnumpy()
    value[:] = 0
    np.testing.assert_array_equal(a.asnumpy(), A)


def test_scalars():
    assert mx.nd.array([2.5]).asscalar() == 2.5 and float(mx.nd.array([[2.5]])) == 2.5
    assert int(mx.nd.array([3])) == 3 and [10, 20][mx.nd.array([1], dtype="int32")] == 20
    assert bool(mx.nd.array([1])) and not mx.nd.array([0])
    assert 2 in mx.nd.array([1, 2]) and 5 not in mx.nd.array([1, 2])
    for wrong in (lambda: mx.nd.ones(2).asscalar(), lambda: bool(mx.nd.ones(2))):
        with pytest.raises(ValueError, match="scalar|ambiguous"):
            wrong()
    with pytest.raises(TypeError):
        operator.index(mx.nd.array([1.0]))


def test_numpy_protocol():
    a = mx.nd.array(A)
    np.testing.assert_array_equal(np.asarray(a), A)
    assert np.array(a, dtype="float64").dtype == np.float64
    np.testing.assert_allclose(np.mean(a.asnumpy()), A.mean())
    assert isinstance(np.float64(2) * a, mx.nd.NDArray), "a NumPy scalar on the left does not take over"
    assert len(a) == 2 and [row.shape for row in a] == [(3,), (3,)]


@pytest.mark.parametrize("dtype", ["float32", "int64", "float16"])
def test_dlpack(dtype):
    torch_like = mx.nd.array(np.arange(6).reshape(2, 3), dtype=dtype)
    other = np.from_dlpack(torch_like)
    assert other.dtype == np.dtype(dtype) and other.ctypes.data == torch_like.to_jax().unsafe_buffer_pointer()
    torch_like += 1    # the memory that was handed out is left alone
    np.testing.assert_array_equal(other, np.arange(6).reshape(2, 3))
    np.testing.assert_array_equal(torch_like.asnumpy(), np.arange(6).reshape(2, 3) + 1)
    capsule = mx.nd.array(A).to_dlpack_for_read()
    np.testing.assert_array_equal(mx.nd.from_dlpack(capsule).asnumpy(), A)
    for wrong in (capsule, 3):
        with pytest.raises(AssertionError, match="capsule that nobody has consumed"):
            mx.nd.from_dlpack(wrong)


def test_from_numpy():
    source = A.copy()
    a = mx.nd.from_numpy(source, zero_copy=False)
    source[:] = 0
    np.testing.assert_array_equal(a.asnumpy(), A)


@pytest.mark.parametrize("made", [
    lambda: mx.nd.array(A), lambda: mx.nd.array(A)[1], lambda: mx.nd.array([1, 2], dtype="int64"),
    lambda: mx.nd.empty((0, 3)), lambda: mx.nd.array([[1.5]], dtype="bfloat16")])
def test_pickle_and_copy(made):
    a = made()
    for same in (pickle.loads(pickle.dumps(a)), copy.copy(a), copy.deepcopy(a)):
        assert same.dtype == a.dtype and same.shape == a.shape
        np.testing.assert_array_equal(same.asnumpy(), a.asnumpy())
        same += 1
        assert not a.size or (same.asnumpy() != a.asnumpy()).all()


def test_printing():
    assert repr(mx.nd.array([[1, 2], [3, 4]])) == "\n[[1. 2.]\n [3. 4.]]\n<NDArray 2x2 @cpu(0)>"
    assert str(mx.nd.empty((0,), dtype="int32")) == "\n[]\n<NDArray 0 @cpu(0)>"


def test_methods_are_the_operators():
    a = mx.nd.array(A)
    np.testing.assert_allclose(a.sum(axis=1).asnumpy(), A.sum(1), rtol=1e-6)
    np.testing.assert_allclose(a.log().exp().sqrt().asnumpy(), np.sqrt(A), rtol=1e-5)
    np.testing.assert_array_equal(a.clip(2, 3).asnumpy(), A.clip(2, 3))
    np.testing.assert_array_equal(a.argmax(axis=1).asnumpy(), A.argmax(1))
    np.testing.assert_array_equal(a.slice_axis(axis=1, begin=1, end=None).asnumpy(), A[:, 1:])
    with pytest.raises(AttributeError):
        a.no_such_method()


@pytest.mark.parametrize("given, shape", [
    ((3, 2), (3, 2)), ((-1,), (6,)), ((0, -1), (2, 3)), ((-2,), (2, 3)), ((-3,), (6,)), ((-4, 1, 2, -2), (1, 2, 3))])
def test_reshape_codes(given, shape):
    a = mx.nd.array(A)
    assert a.reshape(given).shape == a.reshape(*given).shape == a.reshape(shape=given).shape == shape


def test_out_may_come_by_position():
    """Behind the parameters, as in MXNet's signatures."""
    x, out = mx.nd.array([[1.0, 2], [3, 4]]), mx.nd.zeros((2, 2))
    for _ in range(2):
        assert mx.nd.square(x, out) is out and out.asnumpy().tolist() == [[1, 4], [9, 16]]
        assert x.square(out) is out
        assert mx.nd.dot(x, x, False, True, None, out) is out and out.asnumpy().tolist() == [[5, 11], [11, 25]]
    with pytest.raises(TypeError, match="at most"):
        mx.nd.dot(x, x, False, True, None, out, "name", 1)


def test_reshape_errors():
    for wrong, kind in ((lambda a: a.reshape((4, 2)), mx.MXNetError), (lambda a: a.reshape((5,)), ValueError),
                        (lambda a: a.reshape((-1, -1)), ValueError), (lambda a: a.reshape(), AssertionError)):
        with pytest.raises(kind):
            wrong(mx.nd.array(A))
    with pytest.raises(TypeError, match="speed"):
        mx.nd.array(A).reshape(2, 3, speed=1)


def test_making_arrays_of_new_shapes_compiles_nothing(compiles):
    for n in range(1, 20):
        mx.nd.array(np.ones((n, 3))).wait_to_read()
        mx.nd.zeros((n, 5)).wait_to_read()
    assert compiles == []


def test_one_number_in_a_numpy_array_is_a_number():
    one = mx.nd.array([[2.5]]).asnumpy()
    assert float(one) == 2.5 and int(one) == 2 and float(one * 2) == 5 and f"{one.item():.1f} {one}" == "2.5 [[2.5]]"
    assert isinstance(one, np.ndarray) and repr(one) == "array([[2.5]], dtype=float32)"
    assert type(pickle.loads(pickle.dumps(one))) is np.ndarray
    assert type(mx.nd.ones((2,)).asnumpy()) is np.ndarray
    with pytest.raises(TypeError):
        float(one + np.ones(3))


def test_columns_of_numbers():
    column = mx.nd.array([[1.5], [2.5], [-3]]).asnumpy()
    assert [float(x) for x in column] == [float(x) for x in column[[0, 1, 2]]] == [1.5, 2.5, -3]
    assert int(column[2]) == -3 and float((column + 1)[1]) == 3.5 and float(column.max(0)) == 2.5
    assert type(column.sum()) is type(column.mean()) is np.float32
    assert type(column * np.ones(4)) is type(mx.nd.ones((3, 2)).asnumpy()) is np.ndarray
    assert type(pickle.loads(pickle.dumps(column))) is np.ndarray
    with pytest.raises(TypeError):
        float(column)


def test_waitall_names_a_failed_value_and_passes_over_donated_ones(monkeypatch):
    class Value:
        """A buffer whose program has failed, or that another program has taken."""

        shape, dtype = (2,), np.dtype("float32")

        def __init__(self, deleted):
            self.deleted = deleted

        def block_until_ready(self):
            raise RuntimeError("it was taken" if self.deleted else "the program failed")

        def is_deleted(self):
            return self.deleted
    values = [Value(True)]
    monkeypatch.setattr("mxjax.array.creation.live_arrays", lambda: values)
    mx.nd.waitall()
    values.append(Value(False))
    with pytest.raises(mx.MXNetError, match="waitall.*the program failed"):
        mx.nd.waitall()


def test_waitall_waits_for_results_that_nobody_keeps():
    x = mx.nd.ones((1200, 1200))
    mx.nd.dot(x, x).wait_to_read()
    before = time.perf_counter()
    mx.nd.dot(mx.nd.dot(mx.nd.dot(x, x), x), x).wait_to_read()
    kept = time.perf_counter() - before
    mx.nd.waitall()
    before = time.perf_counter()
    mx.nd.dot(mx.nd.dot(mx.nd.dot(x, x), x), x)
    mx.nd.waitall()
    assert time.perf_counter() - before > kept / 50  # not waiting takes a thousandth


@pytest.mark.parametrize("shape", [(), (0,), (2, 0), 0])
@pytest.mark.parametrize("make", [mx.nd.zeros, mx.nd.ones])
def test_unknown_shapes_are_refused_outside_of_np_shape(make, shape):
    with pytest.raises(mx.MXNetError, match=f"mx.nd.{make.__name__}: the shape .* is unknown"):
        make(shape)
    with mx.np_shape():
        assert make(shape).size == (shape == ())
    assert mx.nd.empty(shape).size == (shape == ())


def test_a_histogram_without_a_range_is_numpys():
    counts, edges = found = mx.nd.histogram(mx.nd.array([0.0, 1.0, 1.0, 4.0]), bins=2)
    assert type(found) is tuple and counts.dtype == edges.dtype == np.float32
    assert counts.asnumpy().tolist() == [3, 1] and edges.asnumpy().tolist() == [0, 2, 4]


def test_arrays_of_the_host_and_of_an_accelerator_do_not_mix(monkeypatch):
    """`cpu(1)` stands for an accelerator: only its name says where it is."""
    monkeypatch.setattr(mx.Context, "memory", property(lambda self: f"memory {self.device_id}"))
    for module in (mx.eager.dispatch, _cached_op):
        monkeypatch.setattr(module, "accelerators", {1})
    here, there = mx.nd.ones((3, 3)), mx.nd.ones((3, 3), ctx=mx.cpu(1))
    for mix in (lambda: here + there, lambda: mx.nd.dot(there, here), lambda: here.__iadd__(there),
                lambda: mx.nd.concat(here, here, there), lambda: mx.nd.dot(here, there, out=mx.nd.zeros((3, 3)))):
        with pytest.raises(mx.MXNetError, match=r"input 0 is on cpu\(.\), input . on cpu\(.\)"):
            mix()
    assert (there + there).context == mx.cpu(1)
    here[:] = there  # what copies may
    here[1:2] = there[0:1]
    assert here[mx.nd.array([1, 2], ctx=mx.cpu(1))].context == mx.cpu(0)
    net = mx.gluon.nn.Dense(2, in_units=3)
    net.initialize(ctx=mx.cpu(1))
    net.hybridize()
    with pytest.raises(mx.MXNetError, match=r"CachedOp.* on cpu\(.\), input . on cpu\(.\)"):
        net(here)


@pytest.mark.parametrize("call", [
    lambda x: x.astype("foo"), lambda x: mx.nd.cast(x, dtype=mx.cpu()),
    lambda x: mx.sym.cast(mx.sym.var("x"), dtype="foo"), lambda x: mx.nd.topk(x, dtype="foo"),
    lambda x: mx.nd.random.uniform(dtype="foo"), lambda x: mx.np.arange(3, dtype="foo")])
def test_what_is_no_dtype_is_a_type_error(call):
    """As in MXNet, where NumPy raises it; and an MXNetError, which names the operator."""
    with pytest.raises(TypeError, match="must be dtype.*, got"):
        call(mx.nd.ones((2,)))
    with pytest.raises(mx.MXNetError):
        call(mx.nd.ones((2,)))


@pytest.mark.parametrize("number", [2**31 - 1, 2**31, -2**31, -2**31 - 1])
def test_numbers_about_the_bounds_of_int32(number):
    array = mx.nd.array([1, 2], dtype="int64")
    for made in (array + number, number - array, array * number):
        assert made.dtype == np.int64
    assert (array + number).asnumpy().tolist() == [number + 1, number + 2]
    assert (array * number).asnumpy().tolist() == [number, 2 * number]
    array -= number
    assert array.asnumpy().tolist() == [1 - number, 2 - number]


def test_histogram_with_the_range_of_the_values():
    counts, edges = mx.nd.histogram(mx.nd.array([1, 2, 3, 4, 10, 2.5]))
    assert counts.asnumpy().tolist() == [1, 2, 1, 1, 0, 0, 0, 0, 0, 1]
    assert np.array_equal(edges.asnumpy(), np.linspace(1, 10, 11).astype("float32"))  # MXNet's, to the last bit
    counts, edges = mx.nd.histogram(mx.nd.ones(3), bins=2)
    assert counts.asnumpy().tolist() == [0, 3] and edges.asnumpy().tolist() == [0.5, 1, 1.5]


def test_inputs_of_operators_that_take_any_number_by_their_numbers():
    arrays = {f"arg{i}": mx.nd.array([i]) for i in (3, 10, 0, 2, 1, 9)}
    assert mx.nd.concat(**arrays, dim=0).asnumpy().tolist() == [0, 1, 2, 3, 9, 10]


def test_functions_of_two_take_arrays_and_numbers_on_either_side():
    rows, column = np.array([[1, 2, 5], [3, 2, 1]], "float32"), np.array([[2], [3]], "float32")
    for name, other in {"add": None, "subtract": None, "multiply": None, "divide": None, "true_divide": None,
                        "modulo": "mod", "maximum": None, "minimum": None, "equal": None, "not_equal": None,
                        "greater": None, "greater_equal": None, "lesser": "less", "lesser_equal": "less_equal"}.items():
        function, expected = getattr(mx.nd, name), getattr(np, other or name)
        for left, right in ((rows, column), (rows, 2), (2, rows)):
            found = function(*(mx.nd.array(v) if isinstance(v, np.ndarray) else v for v in (left, right)))
            np.testing.assert_array_equal(found.asnumpy(), expected(left, right).astype("float32"), err_msg=name)
        assert function(3, 2) == expected(3, 2) and function(2, 2) == expected(2, 2), name


def test_the_result_array_follows_the_public_parameters_by_position():
    x, out = mx.nd.ones((2,)), mx.nd.zeros((2,))
    assert mx.nd.Dropout(x, 0.5, "training", (0,), False, out) is out
    assert out.asnumpy().tolist() == [1, 1]


def error_of(call, *args, **kwargs):
    """Returns "type: message" of the error that a call raises."""
    with pytest.raises(Exception) as caught:  # noqa: PT011  the caller checks both
        call(*args, **kwargs)
    return f"{type(caught.value).__name__}: {caught.value}"


def test_numbers_out_of_range_wrap_around():
    """As with NumPy 1, which MXNet 1.9.1 uses."""
    for values, dtype, wanted in (([1e10, -1e10, 3.7], "int32", [1410065408, -1410065408, 3]),
                                  ([1e10, 3.7, 300], "uint8", [0, 3, 44]), ([2**40 + 5], "int32", [5]),
                                  (1e10, "int32", 1410065408), ([[300, -1]], "uint8", [[44, 255]])):
        made = mx.nd.array(values, dtype=dtype)
        assert made.dtype == np.dtype(dtype) and made.asnumpy().tolist() == wanted
    for values in ([1e20], [2**70], [float("nan")], [[1, 2], [3]], "abc"):
        assert error_of(mx.nd.array, values, dtype="int32").startswith("TypeError: source_array must be array like: ")


def test_arrays_of_arrays_and_of_sparse_arrays():
    one, two = mx.nd.array([1, 2]), mx.nd.array([3, 4])
    made = mx.nd.array((one, two, [5, 6]), dtype="int32")  # MXNet refuses a list of arrays
    assert made.dtype == np.int32 and made.asnumpy().tolist() == [[1, 2], [3, 4], [5, 6]]
    for stype in ("csr", "row_sparse"):
        stored = mx.nd.array([[0, 1], [2, 0]], dtype="float64").tostype(stype)
        assert (mx.nd.array(stored).stype, mx.nd.array(stored).dtype) == (stype, np.float64)
        assert mx.nd.array(stored, dtype="int32").asnumpy().tolist() == [[0, 1], [2, 0]]
    one.attach_grad()
    with mx.autograd.record():
        total = (mx.nd.array(one * 2, dtype="float64") * 3).sum()
    total.backward()
    assert total.dtype == np.float64 and one.grad.asnumpy().tolist() == [6, 6]


@pytest.mark.parametrize("call, told", [
    (lambda x: mx.nd.moveaxis(x, 0, [0, 1]), "ValueError: `source` and `destination` arguments must have the same"),
    (lambda x: mx.nd.moveaxis(x, 0, 3), "ValueError: destination: axis 3 is out of bounds for array of dimension 2"),
    (lambda x: mx.nd.moveaxis(x, [0, 0], [0, 1]), "ValueError: repeated axis"),
    (lambda x: mx.nd.concatenate([]), "AssertionError: concatenate requires at least one array"),
    (lambda x: mx.nd.split_v2(x, 2, axis=1), "ValueError: array split does not result in an equal division: 3 by 2"),
    (lambda x: mx.nd.split_v2(x, "a"), "ValueError: indices_or_sections must be int or tuple of ints"),
    (lambda x: mx.nd.histogram(x, 2.5), "ValueError: bins argument should be either an integer or an NDArray"),
    (lambda x: mx.nd.from_numpy(A.T), "ValueError: Only c-contiguous arrays are supported for zero-copy"),
    (lambda x: mx.nd.save("x", {1: x}), "TypeError: save only accepts dict"),
    (lambda x: mx.nd.save("x", "abc"), "ValueError: data needs to either be a NDArray, dict of str"),
    (lambda x: mx.nd.save("x", [1]), "TypeError: save only accepts dict str->NDArray or list of NDArray"),
    (lambda x: mx.nd.load(3), "TypeError: fname required to be a string"),
    (lambda x: mx.nd.load_frombuffer(3), "TypeError: buf required to be a string or bytes"),
    (lambda x: x.copyto(3), "TypeError: copyto expects an NDArray or a context"),
    (lambda x: mx.nd.maximum("a", "b"), "TypeError: maximum: types str and str are not supported"),
    (lambda x: mx.nd.add(None, x), "TypeError: add: types NoneType and NDArray are not supported"),
    (lambda x: x == "a", "TypeError: __eq__: type str is not supported"),
    (lambda x: x.broadcast_to((2, 4)), "ValueError: operands could not be broadcast together with remapped shapes"),
    (lambda x: x.broadcast_to((3,)), "ValueError: operands could not be broadcast together with remapped shapes"),
    (lambda x: x.expand_dims(0).tostype("csr"), "ValueError: only matrices can be stored as csr, got shape (1, 2, 3)"),
    (lambda x: x.squeeze(axis=0), "MXNetError: operator squeeze: axis=(0,) must contain"),
    (lambda x: bool(x), "ValueError: The truth value of an NDArray with multiple elements is ambiguous"),
    (lambda x: mx.nd.zeros(2, ctx="cpu"), "WrongContext: expected a context such as mx.cpu()"),
    (lambda x: mx.nd.zeros((2, -1)), "MXNetError: operator _zeros: a shape must not contain negative sizes"),
    (lambda x: mx.nd.zeros("a"), "MXNetError: operator _zeros: shape must be an int or a tuple of ints, got 'a'"),
    (lambda x: mx.nd.FullyConnected(x, x, data=x), "TypeError: operator FullyConnected: got multiple values for input"),
    (lambda x: mx.nd.FullyConnected(x, 3, num_hidden=2, no_bias=True), "WrongKind: operator FullyConnected: input "
     "weight must be an NDArray, got int"),
    (lambda x: mx.nd.FullyConnected(data=x, weight=3, num_hidden=2, no_bias=True), "WrongKind: operator FullyConnected"
     ": input weight must be an NDArray, got int"),
    (lambda x: mx.nd.expand_dims(x, 0, axis=1), "TypeError: operator expand_dims: got multiple values for parameter"),
    (lambda x: len(mx.nd.array(5)), "TypeError: len() of an array with no dimensions"),
    (lambda x: x[np.array(["a"])], "IndexError: an index array must contain integers, got dtype <U1"),
    (lambda x: mx.nd.save("x", mx.nd.array(5)), "MXNetError: an array of shape () can only be saved under NumPy shape"),
    (lambda x: [1, 2][mx.nd.array([1])], "TypeError: only integer arrays with one element can be converted"),
    (lambda x: float(x), "TypeError: float() requires an array with one element, got 6 elements"),
    (lambda x: mx.nd.add_n([x, 3]), "TypeError: operator add_n: inputs must be NDArrays, got int"),
    (lambda x: mx.nd.add_n(x, 3), "WrongKind: operator add_n: positional arguments must be NDArrays, got int"),
])
def test_mistakes_are_named(call, told, tmp_path, monkeypatch):
    """The types are MXNet's, or derived from them."""
    monkeypatch.chdir(tmp_path)
    assert error_of(call, mx.nd.array([[1, 2, 3], [4, 5, 6]])).startswith(told)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("call, wanted", [
    (lambda x, v: mx.nd.moveaxis(mx.nd.zeros((2, 3, 4)), [0, -1], [-1, 0]).shape, (4, 3, 2)),
    (lambda x, v: mx.nd.concatenate([v], always_copy=False) is v, True),
    (lambda x, v: mx.nd.concatenate([v]) is v, False),
    (lambda x, v: mx.nd.concatenate([x, x], axis=1), [[1, 2, 3, 1, 2, 3], [4, 5, 6, 4, 5, 6]]),
    (lambda x, v: mx.nd.split_v2(v, 3), [[3], [1], [2]]), (lambda x, v: mx.nd.split_v2(v, (1,)), [[3], [1, 2]]),
    (lambda x, v: x.split_v2(3, axis=1, squeeze_axis=True), [[1, 4], [2, 5], [3, 6]]),
    (lambda x, v: mx.nd.maximum(2, 3), 3), (lambda x, v: mx.nd.power(2, 3), 8), (lambda x, v: mx.nd.equal(1, 2), 0),
    (lambda x, v: mx.nd.histogram(v, mx.nd.array([0, 1, 2, 4])), [[0, 1, 2], [0, 1, 2, 4]]),
    (lambda x, v: mx.nd.from_numpy(A.T, zero_copy=False), A.T.tolist()),
    (lambda x, v: mx.nd.from_dlpack(mx.nd.to_dlpack_for_write(x)), [[1, 2, 3], [4, 5, 6]]),
    (lambda x, v: mx.nd.NDArray._basic_indexing_slice_is_contiguous((slice(1, 2), slice(0, 2)), (3, 4)), True),
    (lambda x, v: mx.nd.NDArray._basic_indexing_slice_is_contiguous((slice(0, 2), slice(0, 2)), (3, 4)), False),
    (lambda x, v: bool(mx.nd.empty((0, 3))), False), (lambda x, v: [1, 2][mx.nd.array([1], dtype="int32")], 2),
    (lambda x, v: x.reshape_view(3, 2), [[1, 2], [3, 4], [5, 6]]),
    (lambda x, v: v + jax.numpy.ones(3), [4, 2, 3]), (lambda x, v: v - jax.numpy.ones(3), [2, 0, 1]),
    (lambda x, v: v.__rsub__(jax.numpy.ones(3)), [-2, 0, -1]),
    (lambda x, v: v.writable, True), (lambda x, v: x.reshape(3, -1), [[1, 2], [3, 4], [5, 6]]),
    (lambda x, v: x.reshape_like(mx.nd.zeros((3, 2))), [[1, 2], [3, 4], [5, 6]]),
    (lambda x, v: mx.nd.zeros((1, 3, 1)).squeeze(0).shape, (3, 1)),
    (lambda x, v: v.broadcast_to((2, 3)), [[3, 1, 2]] * 2),
    (lambda x, v: mx.nd.array([[1], [2]]).broadcast_like(x), [[1] * 3, [2] * 3]),
    (lambda x, v: x.diag(), [1, 5]), (lambda x, v: x.diag(1), [2, 6]),
    (lambda x, v: x.slice_assign(mx.nd.array([[8, 9]]), (0, 1), (1, 3), (1, 1)), [[1, 8, 9], [4, 5, 6]]),
    (lambda x, v: x.slice_assign_scalar(7, (0, 0), (2, 3), (1, 2)), [[7, 2, 7], [7, 5, 7]]),
    (lambda x, v: mx.nd.add_n([x, x]), [[2, 4, 6], [8, 10, 12]]),  # MXNet takes no list
    (lambda x, v: mx.nd.full(2, 3, out=mx.nd.zeros(2)), [3, 3]), (lambda x, v: mx.nd.zeros(2, ctx="cpu(0)"), [0, 0]),
    (lambda x, v: mx.nd.random.uniform(ctx="cpu(0)", shape=(1,)).shape, (1,)),
])
def test_results_of_mxnet(call, wanted):
    found = call(mx.nd.array([[1, 2, 3], [4, 5, 6]]), mx.nd.array([3, 1, 2]))
    plain = [part.asnumpy().tolist() for part in found] if isinstance(found, list) else \
        found.asnumpy().tolist() if isinstance(found, mx.nd.NDArray) else found
    assert plain == wanted


def test_results_in_out_and_in_place():
    x = mx.nd.array([[1, 2, 3], [4, 5, 6]])
    assert x.slice_assign_scalar(0, (0, 0), (1, 1), (1, 1)) is x and x[0, 0].asscalar() == 0
    for out, made in ((mx.nd.ones(2), mx.nd.zeros), (mx.nd.zeros(2), mx.nd.ones)):
        before = out.asnumpy()
        assert made(2, out=out) is out and (out.asnumpy() == 1 - before).all()
    row = mx.nd.zeros((1, 3, 1))
    row.squeeze(inplace=True)[:] = 5  # a view
    assert row.asnumpy().tolist() == [[[5], [5], [5]]]
    v = mx.nd.ones(2)
    assert v._fresh_grad is False and "attach_grad" in error_of(setattr, v, "_fresh_grad", True)
    v.attach_grad()
    v._fresh_grad = True
    assert v._fresh_grad is True


def test_images_are_decoded():
    """By the function from before `mx.image`; in MXNet 1.9.1 it fails for all arguments."""
    cv2 = pytest.importorskip("cv2")
    pixels = np.arange(60, dtype="uint8").reshape(4, 5, 3) * 4
    encoded = cv2.imencode(".png", pixels)[1].tobytes()
    found = mx.nd.imdecode(encoded)
    assert found.dtype == np.float32 and found.asnumpy().tolist() == pixels.transpose(2, 0, 1).tolist()
    out = mx.nd.zeros((2, 3, 3, 2))
    assert mx.nd.imdecode(encoded, (1, 1, 3, 4), out, 1, mean=mx.nd.full((3, 3, 2), 2)) is out
    assert out[1].asnumpy().tolist() == (pixels[1:4, 1:3].transpose(2, 0, 1) - 2.0).tolist()
    assert not out[0].asnumpy().any()
    assert mx.nd.imdecode(encoded, channels=1).shape == (1, 4, 5)


@pytest.mark.parametrize("values, bins, interval, counts, edges", [
    ("int32", 3, (1, 7), [1, 0, 2], [1, 3, 5, 7]), ("int64", 7, (-3, 12), [0, 0, 1, 0, 1, 1, 0],
                                                    [-3, 0, 1, 3, 5, 7, 9, 12]),
    ("int32", 7, (-0.3, 7.2), [0, 0, 1, 0, 0, 1, 1], [0, 0, 1, 2, 3, 5, 6, 7]),
    ("uint8", 7, (0, 255), [3, 0, 0, 0, 0, 0, 0], [0, 36, 72, 109, 145, 182, 218, 255]),
    ("float64", 4, (0.1, 10.1), [1, 1, 1, 0], [0.1, 2.6, 5.1, 7.6, 10.1]),
    ("int32", 3, (5.5, 7.5), [0, 0, 1], [5, 6, 6, 7]), ("float32", 4, (5, 5), [0, 0, 1, 0], [4.5, 4.75, 5, 5.25, 5.5])])
def test_histogram_of_an_interval(values, bins, interval, counts, edges):
    """Results of MXNet 1.9.1: integers have rounded edges, and doubles the edges of an interval of doubles."""
    found = mx.nd.histogram(mx.nd.array([1, 5, 7], dtype=values), bins, range=interval)
    assert [part.asnumpy().tolist() for part in found] == [counts, edges]


@pytest.mark.parametrize("shape, value, gradient", [((2,), [6, 12], [6, 6]), ((2, 2), [[6, 12]] * 2, [12, 12])])
def test_gradients_pass_through_assignments_of_the_whole(shape, value, gradient):
    """Results of MXNet 1.9.1, which refuses other assignments while recording, as mxjax does."""
    x, target = mx.nd.array([1, 2]), mx.nd.zeros(shape)
    x.attach_grad()
    with mx.autograd.record():
        target[:] = x * 2
        total = target * 3
    total.backward()
    assert total.asnumpy().tolist() == value and x.grad.asnumpy().tolist() == gradient
    with mx.autograd.record(), pytest.raises(mx.MXNetError, match="not supported when recording"):
        target[0] = x * 2


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("stype", ["csr", "row_sparse"])
def test_sparse_values_may_be_assigned(stype, dtype):
    """Which MXNet refuses."""
    value = np.array([[0, 1], [2, 0]], "float32")
    stored, target = mx.nd.array(value).tostype(stype), mx.nd.zeros((2, 2), dtype=dtype)
    target[:] = stored
    assert target.asnumpy().tolist() == value.tolist() and target.dtype == np.dtype(dtype)
    cube = mx.nd.zeros((2, 2, 2))
    cube[1] = stored
    cube[:, 1:] = stored[:1] if stype == "csr" else 5
    assert cube.asnumpy().tolist() == ([[[0, 0], [0, 1]], [[0, 1], [0, 1]]] if stype == "csr" else
                                       [[[0, 0], [5, 5]], [[0, 1], [5, 5]]])
