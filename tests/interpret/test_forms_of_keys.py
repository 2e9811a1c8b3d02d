"""NumPy forms of indexing, of assignment to what a key selects, and of sums of gradients, beside XLA's programs."""

import jax
import numpy as np
import pytest

import mxjax as mx
from mxjax.array import indexing
from mxjax.eager import gradients
from mxjax.interpret.calls import as_buffers
from mxjax.kernel.shape_only import shape_only

from .forms import by_xla, compare

rng = np.random.RandomState(0)
KEYS = [
    (slice(1, 3), slice(2, 4)), (1, slice(None), 2), (slice(None, None, 2), None, slice(3, 0, -1)), (Ellipsis, -1),
    (np.array([2, 0, -1]),), (slice(None), np.array([[1, 0], [3, 1]])),
    (np.array([0, 2]), slice(1, 3), np.array([1, 1])),
    (np.array([0, 2]), None), (None, slice(None), np.array([0, 0])), (np.array([1, 1]), np.array([2, 2]), 3),
]


def numbers(*shape, dtype="float32"):
    return rng.uniform(-1, 1, shape).astype(dtype)


def same(kernel, args, heads=None):
    """Compares a kernel's form with its compiled function, and the form of its gradients."""
    expected = by_xla(kernel.fn, *args)
    compare(kernel.form(args)[0](*args), expected, 1e-6)
    if heads is None:
        return
    wanted = (True, *[False] * (len(args) - 1))
    head = numbers(*expected[0].shape)
    pull = kernel.vjp(wanted, (True,))
    assert kernel.form.reads(wanted) == [False, *[True] * (len(args) - 1)]
    found = pull.form([shape_only(args[0].shape, args[0].dtype), *args[1:], head])[0](
        np.broadcast_to(np.float32(0), args[0].shape), *args[1:], head)
    compare(found, by_xla(pull.fn, *args, head), 1e-6)


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_reading(key):
    data = numbers(3, 4, 5)
    chosen = indexing.selection(key, data.shape)
    kernel = indexing.read_kernel(chosen.kind, chosen.shape, chosen.sizes, chosen.items, len(chosen.arrays))
    same(kernel, [data, *chosen.arrays, *(chosen.starts if chosen.kind == "box" else ())], True)


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_writing(key):
    data = numbers(3, 4, 5)
    chosen = indexing.selection(key, data.shape, writing=True)
    kernel = indexing.write_kernel(chosen.kind, chosen.shape, chosen.sizes, chosen.items, len(chosen.arrays))
    rest = [*chosen.arrays, *(chosen.starts if chosen.kind == "box" else ())]
    reading = indexing.read_kernel(chosen.kind, chosen.shape, chosen.sizes, chosen.items, len(chosen.arrays))
    shape = jax.eval_shape(reading.fn, data, *rest)[0].shape
    for value in (2.5, np.float32(-1), np.full(shape, 0.25, "float32"), np.arange(shape[-1]).astype("int32")):
        same(kernel, [data, value, *rest])


def test_views():
    data = numbers(3, 4)
    same(indexing.view_kernel((2, 4)), [data, np.int32(4)], True)
    same(indexing.view_kernel((4, 3)), [data, np.int32(0)], True)
    for value in (numbers(4), np.float32(3), 2):
        same(indexing.write_view_kernel((2, 4)), [data, value, np.int32(4)])


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "bool"])
def test_filling(dtype):
    for value in (2, numbers(4), numbers(1, 1, 3, 1)):
        same(indexing.fill_kernel((3, 4), dtype), [value])


def test_sums_of_gradients():
    same(gradients.ADD, [numbers(3, 4), numbers(3, 4, dtype="float16")])


def test_floats_beyond_integers_are_written_as_xla_converts_them():
    x = mx.nd.zeros((2, 3), dtype="int32")
    for value in (3e9, -3e9, np.nan):
        source = mx.nd.array([value, 1.9, -1.9])
        x[:] = source
        y = mx.nd.zeros((3, 2), dtype="int32")
        y[:, 0] = source
        assert (x.asnumpy() == x.asnumpy()[0]).all() and (y.asnumpy()[:, 0] == x.asnumpy()[0]).all()
        assert x.asnumpy()[0].tolist()[1:] == [1, -1]


def test_gradients_by_keys_add_up():
    x = mx.nd.array(np.arange(12.0).reshape(3, 4))
    x.attach_grad()
    with mx.autograd.record():
        y = (x[mx.nd.array([2, 2, 0])] * mx.nd.array([[1], [2], [3]])).sum() + x[:, 1].sum() + x[1].sum()
    y.backward()
    assert x.grad.asnumpy().tolist() == [[3, 4, 3, 3], [1, 2, 1, 1], [3, 4, 3, 3]]


def test_results_that_are_one_array_become_buffers_of_their_own():
    array = numbers(3, 4)
    one, other = as_buffers((array, array))
    assert one.unsafe_buffer_pointer() != other.unsafe_buffer_pointer()
