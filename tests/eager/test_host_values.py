"""Values that NumPy has computed stay NumPy arrays until a program of XLA needs them."""

import gc
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mxjax as mx
from mxjax.eager.dispatch import invoke
from mxjax.kernel import promise
from mxjax.kernel.compiled import clear_caches
from mxjax.kernel.kernel import Kernel
from mxjax.kernel.policy import training
from mxjax.kernel.promise import HostValue

from ..internals import chunk_of


@pytest.fixture(autouse=True)
def _first_calls():
    """Nothing is compiled yet, and no training has begun."""
    clear_caches()
    training.begin()


def _value(*shape, dtype="float32", start=0):
    """An array whose value NumPy has computed, and the same for NumPy."""
    plain = np.arange(start, start + np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    array = mx.nd.array(plain, dtype=dtype) + mx.nd.zeros(shape, dtype=dtype)
    assert type(chunk_of(array).pending) is HostValue
    return array, plain


def _on_host(array):
    return type(chunk_of(array).pending) is HostValue


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "uint8", "int8", "int32", "int64"])
def test_calls_pass_them_on_until_a_buffer_is_needed(dtype):
    a, plain = _value(2, 3, dtype=dtype)
    a.wait_to_read()
    b = a * a
    c = b.reshape((3, 2))[1:]
    assert _on_host(b) and np.dtype(b.dtype) == dtype
    np.testing.assert_array_equal((c + c).asnumpy(), 2 * (plain * plain).reshape(3, 2)[1:])
    assert _on_host(a) and _on_host(b)
    buffer = b.to_jax()
    assert isinstance(buffer, jax.Array) and buffer.dtype == dtype and not _on_host(b)
    assert b.to_jax() is buffer
    np.testing.assert_array_equal(b.asnumpy(), plain * plain)


def test_a_program_that_overwrites_a_buffer_leaves_its_views(at_once):
    for n in (4, 1 << 17):  # XLA takes over the memory of large arrays
        whole = np.arange(n, dtype="float32")
        value = HostValue(whole)
        view = HostValue.of(value.numpy().reshape(2, -1))
        assert view.numpy().base is whole
        del whole
        array, other = mx.nd.NDArray(value.get()), mx.nd.NDArray(view.get())
        del value
        for _ in range(3):
            array += 1
        np.testing.assert_array_equal(view.numpy().ravel(), np.arange(n))
        np.testing.assert_array_equal(other.asnumpy().ravel(), np.arange(n))
        np.testing.assert_array_equal(array.asnumpy(), np.arange(n) + 3.0)


def test_changes_in_place_do_not_reach_other_arrays():
    a, plain = _value(3, 4)
    flat, same, part = a.reshape((12,)).copy(), a.copy(), mx.nd.slice(a, begin=(0, 0), end=(2, 4))
    a += 1
    a[1] = 0
    a *= 2
    mx.nd.sgd_update(a, a.copy(), out=a, lr=0.5)
    expected = (plain + 1) * 2
    expected[1] = 0
    np.testing.assert_array_equal(a.asnumpy(), expected / 2)
    np.testing.assert_array_equal(flat.asnumpy(), plain.ravel())
    np.testing.assert_array_equal(same.asnumpy(), plain)
    np.testing.assert_array_equal(part.asnumpy(), plain[:2])
    mx.nd.sqrt(same, out=same)
    np.testing.assert_allclose(same.asnumpy(), np.sqrt(plain))


@pytest.mark.parametrize("n", [4, 1 << 17])
def test_a_change_in_place_by_xla_leaves_a_copy_with_the_same_buffer(n, request):
    a, plain = _value(n)
    b, c = mx.nd.zeros(n), mx.nd.zeros(n)
    a.copyto(b)
    c[:] = a
    request.getfixturevalue("at_once")
    a += 1
    b *= 2
    np.testing.assert_array_equal(a.asnumpy(), plain + 1)
    np.testing.assert_array_equal(b.asnumpy(), plain * 2)
    np.testing.assert_array_equal(c.asnumpy(), plain)


def test_views_write_through():
    a, plain = _value(4, 3)
    row = a[1]
    row[:] = 7
    a[2:4] += 1
    plain[1], plain[2:4] = 7, plain[2:4] + 1
    np.testing.assert_array_equal(a.asnumpy(), plain)
    np.testing.assert_array_equal(row.asnumpy(), plain[1])
    np.testing.assert_array_equal((row + a[3]).asnumpy(), plain[1] + plain[3])
    a[:] = 0
    np.testing.assert_array_equal((row + 1).asnumpy(), 1)


def test_a_part_does_not_keep_the_whole():
    value = HostValue(np.zeros((1000, 100), "float32"))
    assert HostValue.of(value.numpy()[:10]).numpy().base is None
    assert HostValue.of(value.numpy()[:600]).numpy().base is value.numpy()
    assert HostValue.of(value.numpy().T).numpy().flags.c_contiguous
    assert HostValue.of(np.asarray(jnp.zeros(4))[1:]).numpy().base is None  # nor memory of a buffer


def test_threads_that_ask_at_once_get_the_same_numbers():
    for _ in range(20):
        a, plain = _value(64, 65)
        barrier, results = threading.Barrier(4), []

        def ask(a=a, barrier=barrier, results=results):
            barrier.wait()
            results.append(np.asarray(a.to_jax()))
        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(results) == 4 and all(np.array_equal(result, plain) for result in results)
        a += 1
        assert np.array_equal(a.asnumpy(), plain + 1) and np.array_equal(results[0], plain)


def test_transformations_of_jax_read_them_without_keeping_tracers():
    a, plain = _value(2, 2)
    np.testing.assert_array_equal(jax.jit(lambda x: x + a.to_jax())(jnp.ones((2, 2))), plain + 1)
    b, plain = _value(2, 2, start=4)
    np.testing.assert_array_equal(jax.grad(lambda x: (x * b[1].to_jax()).sum())(jnp.ones(2)), plain[1])
    c, _ = _value(2, 2)
    np.testing.assert_array_equal(jax.vmap(lambda x: (mx.nd.NDArray(x) + c).to_jax())(jnp.ones((3, 2, 2)))[1],
                                  c.asnumpy() + 1)
    gc.collect()
    for array in (a, b, c):
        assert not isinstance(array.to_jax(), jax.core.Tracer)


def test_gradients_and_updates_are_passed_on():
    x, w = mx.nd.array(np.ones((4, 3))), mx.nd.array(np.full((2, 3), 0.5))
    w.attach_grad()
    for _ in range(3):
        with mx.autograd.record():
            y = (mx.nd.dot(x, w, transpose_b=True) ** 2).sum()
        y.backward()
        assert _on_host(w.grad)
        before = w.asnumpy()
        np.testing.assert_allclose(w.grad.asnumpy(), np.full((2, 3), 8 * before.sum(1)[0]), rtol=1e-6)
        mx.nd.sgd_update(w, w.grad, lr=0.01, out=w)
        np.testing.assert_allclose(w.asnumpy(), before - 0.01 * w.grad.asnumpy(), rtol=1e-6)
    assert w.grad.to_jax().shape == (2, 3)


def test_results_on_another_cpu_stay_there(monkeypatch):
    device = jax.devices("cpu")[0]
    a = mx.nd.NDArray(jax.device_put(np.ones(3, "float32"), device))  # committed
    b = a + a
    assert b.to_jax().committed and b.to_jax().devices() == {device}
    assert not (mx.nd.ones(3) + mx.nd.ones(3)).to_jax().committed


def test_gradients_of_sparse_arrays_are_added():
    a = mx.nd.array([[1, 0], [0, 2]]).tostype("csr")
    a.attach_grad("add")
    for _ in range(2):
        with mx.autograd.record():
            b = mx.nd.flatten(a) * 3
        b.backward()
    np.testing.assert_array_equal(a.grad.asnumpy(), np.full((2, 2), 6))


def test_an_array_that_another_thread_has_obtained_is_copied(monkeypatch):
    """Otherwise a program that overwrites the buffer would change it."""
    whole = np.zeros(1 << 20, "uint8")
    start = -whole.ctypes.data % 64  # XLA takes over memory at such an address
    value = HostValue(np.array(whole[start:start + 64]))
    seen = []
    waits = threading.Thread(target=lambda: seen.append(value.numpy()))

    def transfer(array, device):
        waits.start()  # after the check of the owners
        waits.join(0.2)
        assert not seen and waits.is_alive()
        return original(array, device)
    original = promise.to_device
    monkeypatch.setattr(promise, "to_device", transfer)
    buffer = value.get()
    waits.join()
    assert seen[0].tolist() == [0] * 64 == buffer.tolist()


def test_a_failed_transfer_leaves_the_value(monkeypatch):
    value = HostValue(np.arange(3))

    def fails(array, device):
        raise KeyboardInterrupt
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(promise, "to_device", fails)
        value.get()
    assert value.numpy().tolist() == value.get().tolist() == [0, 1, 2]


def test_new_sizes_of_operators_without_a_form_need_no_trace():
    traces = []

    def formula(x):
        traces.append(x.shape)
        return (jnp.cosh(x) * 2,)
    kernel = Kernel("formula", formula, 1, 1, options={"any_size": True})
    for n in range(2, 12):
        result = invoke(kernel, [_value(n, 3)[0] / 100])
        assert _on_host(result)
        np.testing.assert_allclose(result.asnumpy(), 2 * np.cosh(np.arange(3.0 * n).reshape(n, 3) / 100), rtol=1e-5)
    assert len(traces) <= 6
