"""Attention written operator by operator: what devices' kernels are given, and when they are not asked."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas

import mxjax as mx
from mxjax.executor.jax_function import JaxFunction
from mxjax.ops.nn import flash
from mxjax.passes.rewriting import rewritten, without_kernels

HEADS, BATCH, TIME, SIZE = 2, 3, 4, 8
sym, var = mx.sym, mx.sym.var
QKV = {name: (BATCH * HEADS, TIME, SIZE) for name in "qkv"}


@pytest.fixture
def calls(monkeypatch):
    """A kernel for CPUs; its calls."""
    found = []

    def kernel(query, key, value, bias, *, scale):
        found.append(None if bias is None else bias.shape)
        scores = jnp.einsum("bthd,bshd->bhts", query, key, preferred_element_type=jnp.float32) * scale
        weights = jax.nn.softmax(scores if bias is None else scores + jax.lax.stop_gradient(bias), axis=-1)
        return jnp.einsum("bhts,bshd->bthd", weights, value.astype(jnp.float32)).astype(value.dtype)
    monkeypatch.setattr(flash, "KERNELS", {"cpu": (lambda parts: True, kernel)})
    return found


def products(scores=lambda s: s, weights=lambda w: w, **softmax):
    """batch_dot, softmax, batch_dot."""
    first = sym.batch_dot(var("q"), var("k"), transpose_b=True) / SIZE ** 0.5
    return sym.batch_dot(weights(sym.softmax(scores(first), **softmax)), var("v")), QKV


def after_masking(then):
    """Scores that something happens to after they have been masked."""
    out, shapes = products(lambda s: then(sym.where(var("mask"), s, -1e4 * sym.ones_like(s))))
    return out, {**shapes, "mask": (BATCH * HEADS, TIME, TIME), "bias": (BATCH * HEADS, TIME, TIME)}


def by_gemm(first, **options):
    """Products by operators of which one may do more."""
    weights = sym.softmax(first(var("q"), var("k"), transpose_b=True))
    return sym.linalg.gemm2(weights, var("v"), **options), QKV


def interleaved(scores=lambda s: s):
    x = var("x")
    weights = sym.softmax(scores(sym.contrib.interleaved_matmul_selfatt_qk(x, heads=HEADS)))
    out = sym.contrib.interleaved_matmul_selfatt_valatt(x, weights, heads=HEADS)
    return out, {"x": (TIME, BATCH, 3 * HEADS * SIZE)}


def decoder():
    q, kv = var("q"), var("kv")
    weights = sym.softmax(sym.contrib.interleaved_matmul_encdec_qk(q, kv, heads=HEADS))
    out = sym.contrib.interleaved_matmul_encdec_valatt(kv, weights, heads=HEADS)
    return out, {"q": (TIME, BATCH, HEADS * SIZE), "kv": (6, BATCH, 2 * HEADS * SIZE)}


def masked(number=-1e4, again=True):
    """As Gluon NLP masks."""
    mask = var("mask")
    out, shapes = products(lambda s: sym.where(mask, s, number * sym.ones_like(s)),
                           lambda w: w * mask if again else w, axis=-1)
    return out, {**shapes, "mask": (BATCH * HEADS, TIME, TIME)}


def four_axes():
    """As Gluon NLP 1.0: NumPy's operators, (batch, heads, time, size)."""
    q, k, v = (var(n).as_np_ndarray() for n in "qkv")
    weights = mx.sym.npx.softmax(mx.sym.npx.batch_dot(q, k, transpose_b=True) * 0.25, temperature=2.0)
    return mx.sym.npx.batch_dot(weights, v).as_nd_ndarray(), {n: (BATCH, HEADS, TIME, SIZE) for n in "qkv"}


def added(shape):
    out, shapes = interleaved(lambda s: sym.broadcast_add(s, var("bias")) * 2)
    return out, {**shapes, "bias": shape}


def lengths():
    out, shapes = products(length=var("length"), use_length=True)
    return out, {**shapes, "length": (BATCH * HEADS, TIME)}


def turned():
    out = sym.batch_dot(sym.Dropout(sym.softmax(sym.batch_dot(var("q"), var("k"))), p=0.0), var("v"), transpose_b=True)
    return out, {"q": (2, TIME, SIZE), "k": (2, SIZE, 6), "v": (2, SIZE, 6)}


def run(graph, shapes, *, kernels, dtype="bfloat16", train=True):
    """Results and gradients of the float arguments."""
    function, rng = JaxFunction(graph, kernels=kernels), np.random.default_rng(0)
    made = {"mask": lambda s: (rng.random(s) < 0.6) * (np.arange(s[1]) > 0)[:, None], "length": lambda s: rng.integers(
        0, TIME + 1, s).astype("int32")}
    given = {n: jnp.asarray(made.get(n, rng.standard_normal)(shapes[n])) for n in function.arg_names}
    given = {n: a if n == "length" else a.astype(dtype) for n, a in given.items()}
    wanted = [n for n in given if n not in made]

    @jax.jit
    def all_of(*values):
        def forward(*values):
            return function({**given, **dict(zip(wanted, values, strict=True))}, rng=jax.random.key(0), train=train)[0]
        out, pull = jax.vjp(forward, *values)
        return out, pull([jnp.full_like(o, 0.5) for o in out])
    return jax.tree.leaves(all_of(*[given[n] for n in wanted]))


def trace(graph, shapes):
    function = JaxFunction(graph, kernels=True)
    given = {n: jax.ShapeDtypeStruct(shapes[n], jnp.bfloat16) for n in function.arg_names}
    jax.eval_shape(lambda given: function(given, rng=jax.random.key(0), train=True)[0], given)


@pytest.mark.parametrize(("made", "bias"), [
    (products, None), (interleaved, None), (decoder, None),
    *[pytest.param(made, None, marks=pytest.mark.slow) for made in (four_axes, turned)],
    (masked, (BATCH * HEADS, 1, TIME, TIME)), (lambda: masked(again=False), (BATCH * HEADS, 1, TIME, TIME)),
    (lambda: added((BATCH * HEADS, TIME, TIME)), (BATCH, HEADS, TIME, TIME)),
    (lambda: added((1, TIME, TIME)), (1, 1, TIME, TIME)), (lambda: added((1, 1, TIME)), (1, 1, 1, TIME)),
    (lengths, (BATCH * HEADS, 1, TIME, TIME)),
], ids=["products", "interleaved", "decoder", "four axes", "transposed", "masked", "masked once", "bias", "one bias",
        "bias of keys", "lengths"])
def test_a_kernel_gives_what_the_operators_give(calls, made, bias):
    graph, shapes = made()
    wanted = run(graph, shapes, kernels=False)
    assert calls == []
    got = run(graph, shapes, kernels=True)
    assert set(calls) == {bias}
    for a, b in zip(wanted, got, strict=True):
        a, b = np.asarray(a, "float32"), np.asarray(b, "float32")
        np.testing.assert_allclose(b, a, rtol=0.05, atol=0.02 * np.abs(a).max())


@pytest.mark.parametrize(("made", "options"), [
    (products, {"dtype": "float32"}),
    (lambda: products(weights=lambda w: sym.Dropout(w, p=0.5)), {}),
    (lambda: masked(-1.0), {}), (lambda: products(axis=1), {}),
    (lambda: products(weights=lambda w: w + 1), {}),
], ids=["float32", "dropout", "small number", "other axis", "changed weights"])
def test_what_is_not_attention_is_left_as_written(calls, made, options):
    graph, shapes = made()
    assert all(np.isfinite(np.asarray(a, "float32")).all() for a in run(graph, shapes, kernels=True, **options))
    assert calls == []


@pytest.mark.parametrize("made", [
    lambda: products(weights=lambda w: w * 2), lambda: products(weights=sym.softmax), lambda: products(sym.relu),
    lambda: products(lambda s: s + s), lambda: after_masking(lambda s: s + var("bias")),
    lambda: after_masking(lambda s: sym.where(var("mask"), s, -1e4 * sym.ones_like(s))),
    lambda: by_gemm(sym.batch_dot), lambda: by_gemm(sym.linalg.gemm2, alpha=2.0),
], ids=["scaled weights", "weights of weights", "changed scores", "scores and scores", "added after the mask",
        "masked twice", "another product", "a product with a factor"])
def test_what_else_is_not_attention(calls, made):
    trace(*made())
    assert calls == []
    trace(*by_gemm(sym.linalg.gemm2))
    assert calls == [None]


def test_dropout_that_is_not_active_is_nothing(calls):
    graph, shapes = products(weights=lambda w: sym.Dropout(w, p=0.5))
    run(graph, shapes, kernels=True, train=False)
    assert calls == [None]


def test_weights_that_are_looked_at_are_computed_once(calls):
    graph, shapes = products()
    inner = graph.get_internals()
    weights = inner[next(n for n in inner.list_outputs() if "softmax" in n)]
    out, shown = run(sym.Group([graph, weights]), shapes, kernels=True)[:2]
    assert calls == [] and out.shape == (BATCH * HEADS, TIME, SIZE)
    np.testing.assert_allclose(np.asarray(shown, "float32").sum(-1), 1, rtol=0.02)


def test_several_devices_have_operators(calls):
    def attention(x):
        return flash.attend(lambda: x * 0, flash.Parts(x, x, x, 1.0), lambda out: out)
    x = jnp.ones((2, 4, 1, 8), jnp.bfloat16)
    kernel = jax.make_jaxpr(attention)(x).jaxpr
    assert {e.primitive.name for e in kernel.eqns} >= {"platform_index", "cond"}
    assert float(jax.jit(attention)(x).sum()) == 64
    plain = jax.jit(rewritten(lambda x: jax.lax.platform_dependent(
        x, cpu=lambda x: pallas.pallas_call(_ones, x, interpret=True)(x),
        default=lambda x: x * 0), without_kernels))
    assert float(plain(x).sum()) == 0


def _ones(given, out):
    out[...] = given[...]


def test_hybridized_blocks_on_cpus_have_no_kernels():
    class Net(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, q, k, v):
            return F.batch_dot(F.softmax(F.batch_dot(q, k, transpose_b=True)), v)
    net, inputs = Net(), [mx.nd.random.uniform(shape=(2, 128, 16)).astype("float16") for _ in range(3)]
    plain = net(*inputs).asnumpy()
    net.hybridize()
    for array in inputs:
        array.attach_grad()
    with mx.autograd.record():
        out = net(*inputs)
    out.backward()
    np.testing.assert_allclose(out.asnumpy(), plain, rtol=2e-3, atol=1e-3)
    assert inputs[0].grad.dtype == np.float16 and np.isfinite(inputs[0].grad.asnumpy()).all()
