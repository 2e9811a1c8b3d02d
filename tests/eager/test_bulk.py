"""`mx.engine.bulk`: deferred calls give the numbers of plain ones, and compile a fixed number of programs."""

import numpy as np
import pytest

import mxjax as mx
from mxjax.base import MXNetError

X = np.linspace(-1, 2, 6, dtype="float32").reshape(2, 3)


def chain(x, w):
    y = mx.nd.tanh(x * 2 + w)
    z = y.sum(axis=1)
    y += 1
    y[0] = 7
    mx.nd.sqrt(mx.nd.abs(y), out=y)
    return [y, z, mx.nd.dot(y, w, transpose_b=True), y.reshape((3, 2))[1] * z[0].asscalar()]


def random_program(rng, x, count):
    """A few arrays changed by random operators; the same for the same generator."""
    arrays = [x, x + 1]
    for _ in range(count):
        a, b = (arrays[rng.integers(len(arrays))] for _ in range(2))
        kind = rng.integers(6)
        if kind == 0:
            arrays.append(a + b)
        elif kind == 1:
            arrays.append(mx.nd.tanh(a))
        elif kind == 2:
            a *= 0.5
        elif kind == 3:
            a[1] = b[0]
        elif kind == 4:
            mx.nd.broadcast_maximum(a, b, out=a)
        else:
            arrays.append(a.astype("float64").astype("float32"))
    return [a.asnumpy() for a in arrays]


@pytest.mark.parametrize("size", [1, 2, 5, 100])
def test_same_numbers(size):
    wanted = [a.asnumpy() for a in chain(mx.nd.array(X), mx.nd.array(X + 1))]
    for _ in range(4):    # call by call at first, compiled later
        with mx.engine.bulk(size):
            got = chain(mx.nd.array(X), mx.nd.array(X + 1))
        for g, w in zip(got, wanted, strict=True):
            np.testing.assert_allclose(g.asnumpy(), w, rtol=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_random_programs(seed):
    wanted = random_program(np.random.default_rng(seed), mx.nd.array(X), 25)
    for _ in range(4):
        with mx.engine.bulk(8):
            got = random_program(np.random.default_rng(seed), mx.nd.array(X), 25)
        for g, w in zip(got, wanted, strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-6)


def test_autograd_inside():
    slopes = []
    for size in (0, 10, 10, 10, 10):
        x = mx.nd.array(X)
        x.attach_grad()
        with mx.engine.bulk(size):
            with mx.autograd.record():
                y = (mx.nd.exp(x) * x).sum()
            y.backward()
            x -= 0.1 * x.grad
        slopes.append((x.grad.asnumpy(), x.asnumpy()))
    for grad, after in slopes:
        np.testing.assert_allclose(grad, np.exp(X) * (1 + X), rtol=1e-5)
        np.testing.assert_allclose(after, X - 0.1 * grad, rtol=1e-5)


def test_random_numbers_are_the_same():
    draws = []
    for size in (0, 20):
        mx.random.seed(3)
        with mx.engine.bulk(size):
            draws.append((mx.nd.random.uniform(shape=(4,)) + 1).asnumpy())
    np.testing.assert_array_equal(*draws)


def test_one_program_for_a_repeated_segment(compiles):
    x = mx.nd.array(X)
    for step in range(8):
        if step == 4:
            compiles.clear()
        with mx.engine.bulk(30):
            y = x
            for _ in range(12):
                y = mx.nd.tanh(y) * (1 + step / 10)
        y.wait_to_read()
    assert compiles == []


def test_a_changing_program_is_not_compiled_as_a_whole(compiles):
    x = mx.nd.array(X)
    for _ in range(4):  # the first calls are by NumPy
        (mx.nd.tanh(x) + x).wait_to_read()
    compiles.clear()
    for length in range(1, 15):
        with mx.engine.bulk(100):
            y = x
            for _ in range(length):
                y = mx.nd.tanh(y) + x
        y.wait_to_read()
    assert compiles == []


def test_64_bits_and_32_bits_mixed():
    with mx.engine.bulk(10):
        wide = mx.nd.array([2.0**53 - 1], dtype="float64") + 0
        narrow = mx.nd.array([1.5]) * 2
        both = wide + narrow.astype("float64")
    assert both.dtype == np.float64 and both.asscalar() == 2.0**53 + 2


def test_errors_come_where_the_call_is():
    with mx.engine.bulk(10):
        x = mx.nd.ones((2, 3)) * 2
        with pytest.raises(MXNetError, match=r"\(2, 3\).*\(2, 4\)"):
            x + mx.nd.ones((2, 4))
        y = x + 1
    np.testing.assert_array_equal(y.asnumpy(), np.full((2, 3), 3))


def test_the_scope_ends_by_an_exception():
    with pytest.raises(ZeroDivisionError), mx.engine.bulk(10):
        x = mx.nd.ones((2,)) + 1
        1 / 0
    np.testing.assert_array_equal(x.asnumpy(), [2, 2])
