"""Programs for accelerators compute float32 products in float32, unless somebody asks for less."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from mxjax.kernel.arguments import kind_of
from mxjax.kernel.compiled import Compiled
from mxjax.passes.precision import with_precision

X = jnp.ones((2, 2))


def _precisions(function, *args):
    text = str(with_precision(jax.make_jaxpr(function)(*args)))
    return text.count("HIGHEST"), text.count("dot_general") + text.count("conv_general_dilated")


def _looped(x):
    return lax.fori_loop(0, 3, lambda _, v: lax.cond(v.sum() > 0, lambda u: u @ x, lambda u: u, v), x)


@pytest.mark.parametrize("function", [
    lambda x: x @ x, jax.jit(lambda x: x @ x), _looped, jax.grad(lambda x: (x @ x).sum()),
    lambda x: lax.conv(x[None, None], x[None, None], (1, 1), "SAME")])
def test_products_of_float32(function):
    in_full, products = _precisions(function, X)
    assert products and in_full >= products


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int32"])
def test_others_stay(dtype):
    assert _precisions(lambda x: x @ x, X.astype(dtype)) == (0, 1)


def test_a_precision_that_was_chosen_stays():
    assert _precisions(lambda x: jnp.dot(x, x, precision="high"), X)[0] == 0
    with jax.default_matmul_precision("tensorfloat32"):
        assert _precisions(lambda x: x @ x, X)[0] == 0


@pytest.mark.parametrize("value, in_full", [("1", 0), ("0", 2), ("", 2)])
def test_the_switch_of_mxnet(monkeypatch, value, in_full):
    monkeypatch.setenv("MXNET_CUDA_TENSOR_OP_MATH_ALLOW_CONVERSION", value)
    assert _precisions(lambda x: x @ x, X) == (in_full, 1)


def test_programs_for_cpus_need_none():
    program, x = Compiled(lambda x: x @ x), jax.device_put(X, jax.local_devices(backend="cpu")[0])
    np.testing.assert_allclose(program(x), 2 * np.ones((2, 2)))
    assert "HIGHEST" not in str(program.xla.form(kind_of((x,)), 0).trace(x).jaxpr)
    assert "HIGHEST" in str(program.xla.form(None, 0).trace(x).jaxpr)
