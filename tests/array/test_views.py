"""Views share memory in both directions; in-place writes reuse memory exactly where nobody else holds it."""

import threading

import numpy as np
import pytest

import mxjax as mx
from mxjax.base import MXNetError

SIZE = 1 << 12


def pointer(array):
    return array.to_jax().unsafe_buffer_pointer()


VIEWS = {
    "row": lambda a: a[1], "rows": lambda a: a[1:3], "row of rows": lambda a: a[1:3][1],
    "reshape": lambda a: a.reshape((2, 6)),
    "flat part": lambda a: a.reshape((12,))[3:9], "part of a row": lambda a: a[2][0:2], "element": lambda a: a[1, 2],
    "reshape of rows": lambda a: a[2:4].reshape((3, 2)), "detach": lambda a: a.detach(), "all": lambda a: a[:],
    "expand": lambda a: a.expand_dims(0, inplace=True), "flatten": lambda a: a.flatten(inplace=True)}
COPIES = {
    "column": lambda a: a[:, 1], "columns": lambda a: a[:, 0:2], "steps": lambda a: a[::2], "T": lambda a: a.T,
    "slice_axis": lambda a: mx.nd.slice_axis(a, axis=0, begin=1, end=3), "expand_dims": lambda a: a.expand_dims(0),
    "flatten": lambda a: a.flatten(), "advanced": lambda a: a[[0, 1]], "copy": lambda a: a.copy(),
    "operator": lambda a: mx.nd.reshape(a, shape=(2, 6)), "astype": lambda a: a.astype("float32")}


@pytest.mark.parametrize("name", VIEWS)
def test_views_share_in_both_directions(name):
    base, plain = mx.nd.array(np.arange(12).reshape(4, 3)), np.arange(12).reshape(4, 3)
    view = VIEWS[name](base)
    shadow = {"element": lambda a: a[1, 2:3], "detach": lambda a: a, "expand": lambda a: a[None],
              "flatten": lambda a: a}.get(name, VIEWS[name])(plain)
    base += 100
    plain += 100
    np.testing.assert_array_equal(view.asnumpy(), shadow)
    view[:] = -1
    shadow[...] = -1
    np.testing.assert_array_equal(base.asnumpy(), plain)
    view += 3
    shadow += 3
    base[0] = 7
    plain[0] = 7
    np.testing.assert_array_equal(base.asnumpy(), plain)
    np.testing.assert_array_equal(view.asnumpy(), shadow)
    mx.nd.broadcast_mul(view, mx.nd.array([2]), out=view)
    shadow *= 2
    np.testing.assert_array_equal(base.asnumpy(), plain)


@pytest.mark.parametrize("name", COPIES)
def test_copies_do_not_share(name):
    base = mx.nd.array(np.arange(12).reshape(4, 3))
    copy = COPIES[name](base)
    before = copy.asnumpy()
    base[:] = -1
    np.testing.assert_array_equal(copy.asnumpy(), before)
    copy[:] = 5
    assert (base.asnumpy() == -1).all()


def test_views_outlive_their_base():
    view = mx.nd.arange(6)[2:5]
    other = view[1:]
    other[:] = 9
    np.testing.assert_array_equal(view.asnumpy(), [2, 9, 9])


def test_long_random_story_of_views():
    """Views of views, written in any order, against NumPy."""
    rng = np.random.default_rng(3)
    base, plain = mx.nd.array(np.arange(24).reshape(4, 6)), np.arange(24, dtype="float32").reshape(4, 6)
    pairs = [(base, plain)]
    for step in range(120):
        array, shadow = pairs[rng.integers(len(pairs))]
        kind = rng.integers(4)
        if kind == 0 and len(pairs) < 10:
            low = int(rng.integers(0, len(shadow)))
            high = int(rng.integers(low + 1, len(shadow) + 1))
            pairs.append((array[low:high], shadow[low:high]))
        elif kind == 1 and len(pairs) < 10:
            pairs.append((array.reshape((-1,)), shadow.reshape(-1)))
        elif kind == 2:
            i = int(rng.integers(len(shadow)))
            array[i] = step
            shadow[i] = step
        else:
            array += 1
            shadow += 1
        for got, wanted in pairs:
            np.testing.assert_array_equal(got.asnumpy(), wanted)


# ------------------------------------------------------------------ donation
def in_place_operator(a):
    a += 1


def assignment(a):
    a[5:50] = 3


def column_assignment(a):
    a.reshape((64, -1))[:, 2] = 3


def out(a):
    mx.nd.broadcast_add(a, a.copy(), out=a)


def unary_out(a):
    mx.nd.negative(a, out=a)


def optimizer(a):
    mx.nd.sgd_update(a, mx.nd.ones((SIZE,)), lr=0.1, out=a)


def mutated(a):
    weight = mx.nd.ones((SIZE,))
    mx.nd.sgd_mom_update(weight, mx.nd.ones((SIZE,)), a, lr=0.1, momentum=0.9, out=weight)


WRITES = [in_place_operator, assignment, out, unary_out, optimizer, mutated]


@pytest.mark.usefixtures("at_once")  # NumPy reuses nothing
@pytest.mark.parametrize("write", WRITES, ids=lambda f: f.__name__)
def test_memory_is_reused(write):
    for _ in range(3):
        a = mx.nd.ones((SIZE,)) * 1
        before = pointer(a)
        write(a)
    assert pointer(a) == before
    assert not np.array_equal(a.asnumpy(), np.ones(SIZE))


@pytest.mark.parametrize("write", WRITES + [column_assignment], ids=lambda f: f.__name__)
def test_memory_that_others_hold_is_left_alone(write):
    a = mx.nd.ones((SIZE,))
    held, other = a.to_jax(), mx.nd.zeros((SIZE,))
    other[:] = a
    lent = np.from_dlpack(a)
    write(a)
    assert not held.is_deleted()
    for value in (np.asarray(held), other.asnumpy(), lent):
        np.testing.assert_array_equal(value, np.ones(SIZE))


def test_the_old_buffer_is_gone():
    import weakref
    a = mx.nd.ones((SIZE,))
    old = weakref.ref(a.chunk.buffer)
    a += 1
    assert old() is None


def test_the_tape_keeps_what_it_needs():
    w, x = mx.nd.full((4,), 3.0), mx.nd.full((4,), 2.0)
    w.attach_grad()
    with mx.autograd.record():
        y = w * x
    x += 100    # not part of the graph, but the product needs its old value
    y.backward()
    np.testing.assert_array_equal(w.grad.asnumpy(), [2, 2, 2, 2])


# ------------------------------------------------------------------ out=
def test_out():
    a, target = mx.nd.array([1, 4]), mx.nd.zeros((2,))
    assert mx.nd.sqrt(a, out=target) is target
    np.testing.assert_array_equal(target.asnumpy(), [1, 2])
    halves = [mx.nd.zeros((1,)), mx.nd.zeros((1,))]
    mx.nd.split(a, num_outputs=2, axis=0, out=halves)
    assert [h.asscalar() for h in halves] == [1, 4]
    base = mx.nd.zeros((3, 2))
    mx.nd.sqrt(a, out=base[1])
    np.testing.assert_array_equal(base.asnumpy(), [[0, 0], [1, 2], [0, 0]])
    integers = mx.nd.zeros((2,), dtype="int32")
    mx.nd.broadcast_add(a, a, out=integers)
    np.testing.assert_array_equal(integers.asnumpy(), [2, 8])
    with pytest.raises(MXNetError, match=r"\(3,\).*\(2,\)"):
        mx.nd.sqrt(a, out=mx.nd.zeros((3,)))
    with pytest.raises(MXNetError, match="out"):
        mx.nd.split(a, num_outputs=2, axis=0, out=[mx.nd.zeros((1,))])


@pytest.mark.parametrize("dtype", ["uint8", "int64", "float16", "float32", "bool"])
@pytest.mark.parametrize("make", [mx.nd.array, mx.np.array])
def test_parts_are_copies_of_what_the_array_is_now(make, dtype):
    values = (np.arange(24).reshape(4, 3, 2) % 7).astype(dtype)
    array = make(values, dtype=dtype)
    row, rows = array[1], array[1:3]
    part = row.asnumpy()
    np.testing.assert_array_equal(part, values[1])
    assert part.dtype == values.dtype and part.flags.writeable
    part[:] = 5
    np.testing.assert_array_equal(rows.asnumpy(), values[1:3])
    array[1] = 3
    values[1] = 3
    np.testing.assert_array_equal(row.asnumpy(), values[1])
    row[2] = 0
    values[1, 2] = 0
    np.testing.assert_array_equal(rows.asnumpy(), values[1:3])


def test_a_look_at_a_part_does_not_make_writing_a_copy(at_once):
    array, places = mx.nd.zeros((SIZE, 3)), set()
    for i in range(35):
        assert array[2].asnumpy().tolist() == [0 if i < 3 else 2] * 3
        array[i] = i
        places.add(pointer(array))
    assert len(places) < 4


def test_a_look_at_parts_while_another_thread_writes():
    array, torn, done = mx.nd.zeros((8, 50)), [], threading.Event()

    def write():
        for i in range(3000):
            array[5] = i
        done.set()
    writer = threading.Thread(target=write)
    writer.start()
    while not done.is_set():
        part = array[5].asnumpy()
        if (part != part[0]).any():
            torn.append(part)
    writer.join()
    assert not torn and array[5].asnumpy()[0] == 2999


def test_elements_are_scalars_under_numpy_shapes():
    v, x = mx.nd.array([1., 2, 3]), mx.nd.array([[1., 2], [3, 4]])
    for scalars, shape in ((False, (1,)), (True, ())):
        with mx.util.np_shape(scalars):
            for element in (v[0], x[0, 1], x[0][1], next(iter(v)), x[:, 0][0], x[::1, 0][1], v._at(-1)):
                assert element.shape == element.asnumpy().shape == shape
            assert mx.nd.stack(v[0], v[1]).shape == (2, *shape)
            assert v[0].expand_dims(0).shape == (1, *shape) and v[1:2].shape == v[[0]].shape == (1,)
            assert v[0].reshape(()).shape == () and v._slice(1, 3).shape == (2,)
            with pytest.raises(ValueError, match="size 3 into shape"):
                v.reshape(())
    with mx.util.np_shape():
        v[0] = 7
        v[1] = v[0]
        assert v.asnumpy().tolist() == [7, 7, 3] and mx.nd.full((), 3).shape == ()
        v.attach_grad()
        with mx.autograd.record():
            twice = v[1] * 2
        twice.backward()
        assert v.grad.asnumpy().tolist() == [0, 2, 0]
    with pytest.raises(mx.MXNetError, match="full: the shape"):
        mx.nd.full((), 3)
    with pytest.raises(mx.MXNetError, match="out of range"):
        v._at(3)


@pytest.mark.usefixtures("at_once")
def test_another_shape_of_all_elements_is_compiled_too():
    x = mx.nd.arange(6)
    view = x.reshape((2, 3))
    assert (view * 1).asnumpy().tolist() == view.asnumpy().tolist() == [[0, 1, 2], [3, 4, 5]]
    view[:] = view * 2
    assert x.asnumpy().tolist() == [0, 2, 4, 6, 8, 10]
    x.attach_grad()
    with mx.autograd.record():
        squares = x.reshape((2, 3)) ** 2
    squares.backward()
    assert x.grad.asnumpy().tolist() == [0, 4, 8, 12, 16, 20]
