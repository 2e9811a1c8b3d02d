"""Programs of convolutions with channels last inside, and oneDNN's convolutions: the numbers of those without."""

import functools
import os
import subprocess
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from marks import needs_onednn, sampled

from mxjax.kernel.compiled import Compiled
from mxjax.passes import channels_last, convolutions, onednn
from mxjax.passes.rewriting import rewritten

RANDOM = np.random.default_rng(11)


def normal(*shape):
    return jnp.asarray(RANDOM.normal(size=shape).astype("float32"))


DATA, WEIGHT, MORE, VECTOR = normal(3, 4, 8, 7), normal(4, 4, 3, 3), normal(3, 4, 8, 7), normal(4)
WEIGHT = WEIGHT / 6  # results of about 1: sines of larger ones depend on how a processor's sums are rounded
LARGE = normal(1, 1, 12, 12)


def conv(x, w=WEIGHT):
    return lax.conv_general_dilated(x, w, (1, 1), [(1, 1), (1, 1)])


def maximum(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 3), (1, 1, 2, 1), [(0, 0), (0, 0), (1, 0), (0, 2)])


def orders(closed):
    """How many equations turn images."""
    inner = [e.params["jaxpr"].jaxpr.eqns if "jaxpr" in e.params else [e] for e in closed.jaxpr.eqns]
    return sum(e.primitive is lax.transpose_p and e.outvars[0].aval.ndim == 4 for eqns in inner for e in eqns)


CASES = {
    "two in a row": lambda x: conv(jnp.tanh(conv(x))),
    "with what is not turned": lambda x: conv(x) * MORE + jnp.exp(MORE),
    "with vectors and numbers": lambda x: jnp.where(conv(x) > VECTOR[:, None, None], conv(x) * 2,
                                                    VECTOR.reshape(4, 1, 1)),
    "clipped": lambda x: lax.clamp(np.float32(-1), conv(x), np.float32(1)),
    "moments": lambda x: (conv(x) - conv(x).mean((0, 2, 3), keepdims=True)).sum((0, 2, 3)),
    "sums over channels": lambda x: (conv(x).sum(1), conv(x).max(2), conv(x).min((1, 3)), conv(x).argmax(1)),
    "flat": lambda x: conv(x).reshape(3, -1) @ jnp.ones((224, 2)),
    "a picture's mean": lambda x: conv(x).mean((2, 3), keepdims=True).reshape(3, 4),
    "slices and padding": lambda x: jnp.pad(conv(x)[:, 1:3, ::2, 1:], ((0, 0), (1, 0), (0, 2), (3, 1)),
                                              constant_values=2.),
    "put together": lambda x: jnp.concatenate([conv(x), MORE, x], 1),
    "taken apart": lambda x: [conv(part) for part in jnp.split(jnp.concatenate([conv(x), x], 1), 2, 1)],
    "turned around": lambda x: lax.rev(conv(x), (1, 3)),
    "pooled": lambda x: maximum(conv(x)),
    "by the user": lambda x: jnp.transpose(jnp.tanh(jnp.transpose(conv(x), (0, 2, 3, 1))) * VECTOR, (0, 3, 1, 2)),
    "in other orders": lambda x: jnp.transpose(conv(x), (1, 0, 3, 2)) + 0,
    "gathered": lambda x: conv(x)[:, jnp.array([2, 0]), 1],
    "behind a barrier": lambda x: lax.optimization_barrier((conv(x), x, x.sum()))[0] + 1,
    "functions": lambda x: jax.jit(lambda a, b: (a + b, a.sum((2, 3)), b))(conv(x), MORE),
    "in a loop": lambda x: lax.fori_loop(0, 3, lambda _, y: conv(y) * .1, conv(x)),
    "grouped": lambda x: lax.conv_general_dilated(conv(x), WEIGHT[:, :2], (2, 1), "SAME", feature_group_count=2),
    "moved and dilated": lambda x: lax.conv_general_dilated(conv(x), WEIGHT, (2, 3), [(0, 2), (2, 1)],
                                                            rhs_dilation=(2, 1)),
    "spread": lambda x: lax.conv_general_dilated(conv(x), WEIGHT, (1, 1), [(2, 1), (1, 2)], lhs_dilation=(2, 3)),
    "weights of its own making": lambda x: conv(x, conv(WEIGHT)),
    "channels last by itself": lambda x: lax.conv_general_dilated(
        jnp.transpose(conv(x), (0, 2, 3, 1)), WEIGHT, (1, 1), "SAME", dimension_numbers=("NHWC", "OIHW", "NHWC")),
    "one place": lambda x: conv(conv(x)[:, :, :1, :1]) * VECTOR.reshape(1, 4, 1, 1),
    "nothing of it": lambda x: (conv(x), x, MORE)[1:],
}


def close(found, expected):
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert one.shape == other.shape and one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", sampled(CASES))
def test_numbers_and_gradients(name):
    function = CASES[name]
    close(jax.jit(rewritten(function, channels_last.with_channels_last))(DATA), function(DATA))

    def value(x):
        return sum(jnp.sum(jnp.sin(leaf)) for leaf in jax.tree.leaves(function(x)) if leaf.dtype == np.float32)
    if name != "nothing of it":
        close(Compiled(jax.grad(value))(DATA), jax.grad(value)(DATA))


def test_images_are_turned_once_each_way():
    def network(x):
        for _ in range(3):
            x = conv(jax.nn.relu(x * VECTOR[:, None, None] + x.mean((0, 2, 3), keepdims=True)))
        return maximum(x)
    closed = channels_last.with_channels_last(jax.make_jaxpr(network)(DATA))
    assert orders(closed) == 2
    assert closed.out_avals == jax.make_jaxpr(network)(DATA).out_avals


def test_programs_without_convolutions_and_those_of_channels_by_themselves_stay():
    closed = jax.make_jaxpr(lambda x: jnp.tanh(x).sum((2, 3)))(DATA)
    assert channels_last.with_channels_last(closed) is closed
    products = jax.make_jaxpr(lambda x: lax.reduce((conv(x), x), (0., 0.), lambda a, b: (a[0] + b[0], a[1] + b[1]),
                                                   (0, 2, 3)))(DATA)
    assert channels_last.with_channels_last(products) is products


def by_library(monkeypatch, function):
    """The function in the forms that oneDNN is among, and for how many convolutions it was asked."""
    asked = []
    monkeypatch.setattr(convolutions, "by_onednn", lambda *args: asked.append(1) or onednn.by_onednn(*args))
    return jax.jit(rewritten(function, functools.partial(convolutions.with_fast_convolutions, library=True))), asked


@needs_onednn
@pytest.mark.parametrize("data, weight, numbers, given", [
    ((2, 5, 9, 7), (4, 5, 3, 2), ("NCHW", "OIHW", "NCHW"), dict(window_strides=(1, 2), padding=[(1, 0), (0, 2)])),
    ((2, 9, 7, 5), (4, 3, 2, 5), ("NHWC", "OHWI", "NHWC"), dict(window_strides=(3, 1), padding=[(1, 0), (0, 2)])),
    ((9, 7, 5, 2), (3, 2, 5, 4), ("HWCN", "HWIO", "CHNW"),
     dict(window_strides=(2, 2), padding=[(1, 0), (0, 2)], rhs_dilation=(2, 3))),
    ((2, 6, 9), (4, 3, 3), ("NCW", "OIW", "NCW"), dict(window_strides=(2,), padding=[(1, 1)], feature_group_count=2)),
    ((2, 6, 9, 8, 7), (4, 6, 3, 2, 3), ("NCDHW", "OIDHW", "NCDHW"),
     dict(window_strides=(2, 1, 1), padding=[(1, 1), (0, 0), (2, 2)])),
    ((2, 6, 9, 8), (12, 1, 3, 3), ("NCHW", "OIHW", "NCHW"),
     dict(window_strides=(1, 1), padding=[(4, 4), (0, 9)], feature_group_count=6)),
    ((1, 1, 1, 1), (1, 1, 1, 1), ("NCHW", "OIHW", "NCHW"), dict(window_strides=(1, 1), padding=[(0, 0), (0, 0)])),
])
def test_onednn(monkeypatch, data, weight, numbers, given):
    def function(x, w):
        return lax.conv_general_dilated(x, w, dimension_numbers=numbers, **given)
    x, w = normal(*data), normal(*weight)
    compiled, asked = by_library(monkeypatch, function)
    close(compiled(x, w), function(x, w))
    assert asked


@needs_onednn
def test_what_onednn_is_not_asked_for(monkeypatch):
    """It would end the process, or be slow: other dtypes, nothing, zeros in between, what is cut off, large kernels."""
    for function in (lambda: conv(DATA.astype("float16"), WEIGHT.astype("float16")),
                     lambda: conv(DATA[:0]), lambda: conv(DATA[:, :0], WEIGHT[:, :0]),
                     lambda: lax.conv_general_dilated(DATA, WEIGHT, (1, 1), [(1, 2)] * 2, (2, 1), (1, 2)),
                     lambda: lax.conv_general_dilated(DATA, WEIGHT, (1, 1), [(-1, 0), (0, 0)]),
                     lambda: lax.conv_general_dilated(LARGE, LARGE, (1, 1), "SAME")):
        compiled, asked = by_library(monkeypatch, function)
        close(compiled(), function())
        assert not asked


@needs_onednn
def test_threads_share_onednns_convolutions():
    function = Compiled(lambda x: conv(jnp.tanh(conv(x))))
    expected, wrong = np.asarray(function(DATA)), []

    def work():
        for _ in range(30):
            if not np.array_equal(function(DATA), expected):
                wrong.append(1)
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong and not any(thread.is_alive() for thread in threads)


def test_mxnets_switch(monkeypatch):
    """MXNET_MKLDNN_ENABLED=0, and releases of jaxlib that nobody has tried."""
    onednn.available.cache_clear()
    try:
        monkeypatch.setenv("MXNET_MKLDNN_ENABLED", "0")
        assert not onednn.available()
        onednn.available.cache_clear()
        monkeypatch.delenv("MXNET_MKLDNN_ENABLED")
        monkeypatch.setattr(onednn.jaxlib, "__version__", "9.1.0")
        assert not onednn.available()
    finally:
        onednn.available.cache_clear()


DIVIDED = """
import jax, jax.numpy as jnp, numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from mxjax.kernel.compiled import Compiled
function = Compiled(lambda x, w: jnp.tanh(lax.conv_general_dilated(x, w, (1, 1), "SAME")))
x, w = (np.random.default_rng(i).normal(size=n).astype("f") for i, n in enumerate(((4, 4, 6, 6), (4, 4, 3, 3))))
whole = function(x, w)  # on one device first: what is made then is not for several
mesh = Mesh(np.array(jax.devices()), ("batch",))
lies = NamedSharding(mesh, PartitionSpec("batch"))
found = function(jax.device_put(x, lies), jax.device_put(w, NamedSharding(mesh, PartitionSpec())))
np.testing.assert_allclose(found, whole, rtol=1e-5, atol=1e-5)
assert found.sharding.is_equivalent_to(lies, 4), found.sharding
"""


def test_on_several_devices_images_stay_divided():
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, "-c", DIVIDED], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
