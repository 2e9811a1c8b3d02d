"""NumPy arrays as buffers: what `jax.device_put` gives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mxjax import _transfer
from mxjax._transfer import to_device

ARRAYS = [np.arange(6, dtype=dtype).reshape(2, 3) for dtype in "bBhHiIefd"] + [
    np.array([True, False]), np.float32(3).reshape(()), np.zeros((0, 4), "int32"), np.arange(6.0, dtype="f4")[::-2],
    np.arange(12, dtype="i4").reshape(3, 4).T, np.array([1, 2], jnp.bfloat16), np.arange(3), np.array([1, 2], ">f4"),
    np.ma.array([1.0, 2.0]).astype("f4").data, np.ones(3, "complex64")]


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("bound", [False, True])
@pytest.mark.parametrize("array", ARRAYS, ids=lambda a: f"{a.dtype}{a.shape}")
def test_like_device_put(array, bound, wide):
    device = jax.devices()[-1] if bound else None
    with jax.enable_x64(wide):
        try:
            expected = jax.device_put(array, device)
        except TypeError:
            with pytest.raises(TypeError):
                to_device(array, device)
            return
        made = to_device(array, device)
    assert made.aval == expected.aval and made.sharding == expected.sharding and made.committed == expected.committed
    np.testing.assert_array_equal(np.asarray(made), np.asarray(expected))


def test_the_default_device_and_transformations():
    one = np.ones(3, "float32")
    with jax.default_device(jax.devices()[-1]):
        assert to_device(one).devices() == {jax.devices()[-1]}
    seen = []
    jax.jit(lambda x: seen.append(type(to_device(one)) is type(jax.device_put(one))) or x)(one)
    assert seen == [True]
    with jax.transfer_guard("disallow"):
        assert to_device(np.ones((20, 6), "float32")).shape == (20, 6)
    with jax.transfer_guard("disallow_explicit"), pytest.raises(jax.errors.JaxRuntimeError, match="Disallowed"):
        to_device(one)


def test_a_release_of_jax_without_the_short_way(monkeypatch):
    monkeypatch.setattr(_transfer, "_fast_put", lambda: None)
    assert to_device(np.ones(3, "float32")).tolist() == [1, 1, 1]


@pytest.mark.parametrize("dtype", ["float64", "int64", "float32"])
def test_64_bit_numbers_go_in_64_bit_mode(dtype, monkeypatch):
    """Else another platform gets them in 32 bits, which only an accelerator would show."""
    with jax.enable_x64(True):
        value = jax.device_put(np.arange(3, dtype=dtype))
    put, modes = jax.device_put, []

    def watched(*args, **kwargs):
        modes.append(jax.config.jax_enable_x64)
        return put(*args, **kwargs)
    monkeypatch.setattr(jax, "device_put", watched)
    assert _transfer.moved(value, jax.devices()[-1]).dtype == dtype
    assert modes == [dtype != "float32"]
