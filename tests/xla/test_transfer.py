"""NumPy arrays as buffers: what `jax.device_put` gives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mxjax._xla import transfer as _transfer
from mxjax._xla.transfer import to_device

CPU = jax.devices("cpu")[0]
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


@pytest.fixture
def parts(monkeypatch):
    """The sizes of the parts in which arrays of 4 KB or more go to a CPU, as those of 8 MB do to a GPU."""
    for name, value in (("_IN_PARTS", {"cpu"}), ("_PART", 2048), ("_LARGEST", 1 << 20)):
        monkeypatch.setattr(_transfer, name, value)
    monkeypatch.setattr(_transfer, "_ways", {})
    split, sizes = np.array_split, []

    def watched(array, count):
        made = split(array, count)
        sizes.append([part.nbytes for part in made])
        return made
    monkeypatch.setattr(np, "array_split", watched)
    return sizes


@pytest.mark.parametrize("made", [None, jax.device_put], ids=["array", "buffer"])
def test_large_arrays_go_in_parts_from_the_third_time_on(made, parts):
    for turn in range(4):
        value = np.arange(2310, dtype="f4").reshape(7, 11, 30) + turn
        there = _transfer.moved(made(value, CPU), CPU) if made is jax.device_put else to_device(value, CPU)
        assert there.devices() == {CPU} and there.committed and len(parts) == max(turn - 1, 0)
        np.testing.assert_array_equal(np.asarray(there), value)
    assert parts[-1] == [2312, 2312, 2308, 2308]
    for many in (900, 300000):
        for _ in range(4):
            to_device(np.zeros(many, "f4"), CPU)
    assert len(parts) == 2, "too small an array, too large a one"


@pytest.mark.parametrize("value", [np.ones((64, 64), "f4").T[::2], np.ones((64, 64), "c8"), np.ones((64, 64), "?"),
                                   np.ones((64, 64), jnp.bfloat16)], ids=str)
def test_arrays_of_any_kind_in_parts(value, parts):
    for _ in range(4):
        made, expected = to_device(value, CPU), jax.device_put(value, CPU)
        assert made.aval == expected.aval and made.sharding == expected.sharding
        np.testing.assert_array_equal(np.asarray(made), np.asarray(expected))


def test_a_buffer_that_went_in_parts_can_be_overwritten(parts):
    """What is on its way keeps its numbers; afterwards the memory is used again."""
    value = jax.block_until_ready(jax.device_put(np.arange(2048, dtype="f4"), CPU) + 0)  # or it goes as a whole
    place = value.unsafe_buffer_pointer()
    there = [_transfer.moved(value, CPU) for _ in range(4)][2:]
    jax.block_until_ready(there)
    value = jax.jit(lambda x: x + 1, donate_argnums=0)(value)
    assert value.unsafe_buffer_pointer() == place
    assert all(np.asarray(t).tolist() == list(range(2048)) for t in there) and len(parts) == 2


def test_where_there_is_no_room_for_parts_an_array_goes_as_it_is(parts, monkeypatch):
    def full(*parts):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED")
    monkeypatch.setattr(_transfer, "_ways", {((2048,), np.dtype("f4")): full})
    assert to_device(np.ones(2048, "f4"), CPU).tolist() == [1.0] * 2048 and len(parts) == 1


def test_transformations_do_not_see_parts(parts):
    value = jax.device_put(np.ones(2048, "f4"), CPU)
    for _ in range(4):
        made = jax.jit(lambda x: _transfer.moved(x, CPU) * 2 + to_device(np.ones(2048, "f4"), CPU))(value)
    assert made.tolist() == [3.0] * 2048 and not parts
