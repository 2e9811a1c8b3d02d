"""NumPy stands in for XLA where programs meet ever new shapes: as good, but for the last bits."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import mxjax as mx
from mxjax.interpret.exact import by_numpy
from mxjax.interpret.rounded import ROUNDED
from mxjax.kernel import policy, xla
from mxjax.kernel.compiled import SOME_OF_ONE, Compiled
from mxjax.passes.division import with_quotients

pytestmark = pytest.mark.usefixtures("room")
by_cpu = pytest.mark.skipif(xla._options()[0] == xla._options()[2], reason="everything is compiled in full")
rng = np.random.default_rng(11)
X = rng.normal(size=(4, 6, 9, 8)).astype("float32")
POSITIVE = np.abs(X) + 0.5
INTS = np.arange(-6, 6, dtype="int32").reshape(3, 4)
NCHW = ("NCHW", "OIHW", "NCHW")
NHWC = ("NHWC", "HWIO", "NHWC")


def weight(*shape):
    return rng.normal(size=shape).astype("float32")


def convolved(layout=NCHW, **options):
    def function(x, w):
        return lax.conv_general_dilated(x, w, dimension_numbers=layout, **{"window_strides": (1, 1), **options})

    def slopes(x, w):
        return jax.grad(lambda *args: jnp.square(function(*args)).sum(), (0, 1))(x, w)
    return lambda x, w: (function(x, w), slopes(x, w))


def recurrent(x):
    def step(state, row):
        state = state * 0.5 + jnp.tanh(row)
        return state, state.sum()
    return lax.scan(step, x[0], x, reverse=True)


PROGRAMS = {
    "convolution": (convolved(padding="SAME"), X, weight(6, 6, 3, 3)),
    "convolution of strides": (convolved(window_strides=(2, 1), padding=[(0, 1), (2, 0)]), X, weight(5, 6, 3, 2)),
    "dilated convolution": (convolved(padding=[(2, 2), (1, 3)], rhs_dilation=(2, 1)), X, weight(6, 6, 3, 3)),
    "transposed convolution": (convolved(padding=[(2, 2), (1, 3)], lhs_dilation=(2, 3)), X, weight(6, 6, 3, 3)),
    "convolution of groups": (convolved(padding="SAME", feature_group_count=3), X, weight(9, 2, 3, 3)),
    "depthwise convolution": (convolved(padding="SAME", feature_group_count=6), X, weight(6, 1, 3, 3)),
    "channels last": (convolved(NHWC, padding="SAME"), X.transpose(0, 2, 3, 1).copy(), weight(3, 3, 6, 5)),
    "pooling": (lambda x: (
        lax.reduce_window(x, -np.inf, lax.max, (1, 1, 2, 3), (1, 1, 2, 2), [(0, 0), (0, 0), (0, 1), (1, 1)]),
        lax.reduce_window(x, 0.0, lax.add, (1, 1, 3, 3), (1, 1, 2, 2), "SAME"),
        lax.reduce_window(x, np.inf, lax.min, (1, 1, 2, 2), (1, 1, 1, 1), "VALID", None, (1, 1, 2, 1))), X),
    "products of batches": (lambda x, y: lax.dot_general(x, y, (((1, 3), (2, 1)), ((0,), (3,)))),
                            X, weight(5, 8, 6, 4)),
    "matrix and vector": (lambda x, y: (x @ y, y @ x.T), X[0, 0], X[0, 0, 0]),
    "softmax": (lambda x: (jax.nn.softmax(x, 1), jax.grad(lambda y: jax.nn.log_softmax(y, 1)[:, 0].sum())(x)), X),
    "statistics": (lambda x: (jnp.var(x, (0, 2)), jnp.mean(x), jnp.std(x, 0), jnp.prod(x, 3), x.max(0), x.min()), X),
    "sums so far": (lambda x: (jnp.cumsum(x, 1), lax.cumprod(x, 2, reverse=True), lax.cummax(x), lax.cummin(x, 1),
                               lax.cumlogsumexp(x, 1)), X),
    "largest": (lambda x, n: (lax.top_k(x, 3), lax.top_k(n, 2)), X, INTS),
    "powers": (lambda x: (x ** 1.7, x ** 0.5, x ** 3, x ** -1, x ** -2), POSITIVE),
    "functions": (lambda x: [f(0.3 * x) for f in (
        jnp.exp, jnp.exp2, jnp.expm1, jnp.tanh, jnp.sinh, jnp.cosh, jnp.arctan, jnp.sin, jnp.cos, jnp.tan, jnp.arcsinh,
        jax.nn.sigmoid, jax.nn.gelu, jax.nn.silu, jax.nn.softplus, jnp.cbrt, jax.scipy.special.erf,
        jax.scipy.special.erfc)], X),
    "slopes of functions": (lambda x: [jax.grad(lambda y, f=f: f(y).sum())(0.3 * x) for f in (
        jnp.exp2, jnp.expm1, jnp.tanh, jnp.sinh, jnp.arctan, jnp.tan, jnp.arcsinh, jax.nn.sigmoid, jax.nn.gelu,
        jax.nn.silu, jax.nn.softplus, jnp.cbrt, jax.scipy.special.erf, jnp.arcsin, jnp.arctanh, jax.nn.elu)],
                            np.tanh(X)),
    "functions of positive numbers": (lambda x: [f(x) for f in (
        jnp.log, jnp.log2, jnp.log1p, lax.rsqrt, jnp.arccosh, jax.scipy.special.gammaln, jax.scipy.special.digamma)],
                                      POSITIVE + 1),
    "functions of small numbers": (lambda x: [f(x) for f in (
        jnp.arcsin, jnp.arccos, jnp.arctanh, jax.scipy.special.erfinv)], np.tanh(X)),
    "functions of two": (lambda x, y: (jnp.arctan2(x, y), jnp.fmod(x, y), jnp.power(y, x), jnp.clip(x, -0.5, y)),
                         X, POSITIVE),
    "integers": (lambda n: (n // 3, n % 3, lax.div(n, jnp.int32(-4)), lax.rem(n, jnp.int32(4)), jnp.mean(n)), INTS),
    "loop": (lambda x: (recurrent(x), jax.grad(lambda y: recurrent(y)[1].sum())(x)), X),
    "loops that count": (lambda x: lax.fori_loop(0, 3, lambda i, c: c * 1.5 + i, x), X),
    "branches": (lambda x: (lax.cond(x[0, 0, 0, 0] > 0, jnp.sin, jnp.cos, x),
                            lax.switch(x[0, 0, 0, 0].astype(int) + 7, [jnp.exp, jnp.tanh], x)), X),
    "rows of a table": (jax.grad(lambda w, i: jnp.square(w[i]).sum()), X[0, 0], np.array([1, 2, 2, 7, 1])),
    "denormal numbers and zeros": (lambda x: (jnp.maximum(x, 0), x + 0.0, x * 1e-20),
                                   np.array([1e-30, -0.0, 0, 3], "float32")),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_is_as_good_as_xla(name):
    function, *args = PROGRAMS[name]
    found = by_numpy(with_quotients(jax.make_jaxpr(function)(*args)), rules=ROUNDED)(args)
    expected = jax.tree.leaves(jax.jit(function)(*args))
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape and one.dtype == other.dtype
        np.testing.assert_allclose(one, other, 3e-5, 3e-6 * max(1, float(np.abs(other).max())))


def test_what_is_left_to_xla():
    for function, args in [(lambda x: lax.linalg.cholesky(x @ x.T), (X[0, 0],)),
                           (lambda x: x.astype("bfloat16") * 2, (X,)),
                           (lambda x: lax.scan(lambda c, _: (c + 1, None), x, None, 2000)[0], (X[0, 0],))]:
        assert by_numpy(jax.make_jaxpr(function)(*args), rules=ROUNDED) is None
    count = jax.make_jaxpr(lambda x: lax.while_loop(lambda c: c < 1e6, lambda c: c + 1, x))(np.float32(1))
    endless = by_numpy(count, rules=ROUNDED)
    assert endless([np.float32(0)]) is None and endless([np.float32(1e6 - 3)]) == [1e6]
    empty = jax.make_jaxpr(lambda x: lax.reduce(x, -np.inf, lax.max, (0,)))(np.ones((0, 3), np.float32))
    assert by_numpy(empty, rules=ROUNDED)([np.ones((0, 3), np.float32)]) is None
    divided = by_numpy(jax.make_jaxpr(lambda n, m: lax.div(n, m))(INTS, INTS), rules=ROUNDED)
    assert divided([INTS, INTS]) is None  # one is zero: XLA has a rule of its own


# ------------------------------------------------------------ when
def sums(program, counts):
    for count in counts:
        x = rng.normal(size=(count, 3)).astype("float32")
        policy.next_round()
        np.testing.assert_allclose(program(jax.device_put(x)), np.exp(x).sum(0), 1e-5)


@by_cpu
@pytest.mark.parametrize("any_size", [True, False])
def test_ever_new_sizes_compile_nothing(compiles, monkeypatch, any_size):
    program = Compiled(lambda x: jnp.exp(x).sum(0), most=SOME_OF_ONE, any_size=any_size)
    sums(program, [2, 3, 4])
    assert sum(program.forms()) == policy.VARIED_ROUNDS == 3
    compiles.clear()
    sums(program, range(5, 25))
    assert not compiles and sum(program.forms()) == 3
    monkeypatch.setattr(policy, "FEW_CALLS", 5)
    sums(program, [30] * 6)  # what comes often after all is compiled
    assert len(compiles) == 1 and sum(program.forms()) == 4


@by_cpu
def test_the_first_round_of_a_network_is_for_xla():
    program = Compiled(lambda x: jnp.exp(x).sum(0), most=SOME_OF_ONE, any_size=True)
    policy.next_round()
    for count in range(2, 12):
        program(jnp.ones((count, 3)))
    assert sum(program.forms()) == 10
    program = Compiled(lambda x: jnp.exp(x).sum(0), most=SOME_OF_ONE, any_size=True)
    for steps in range(8):  # two sizes in turn
        sums(program, [2 + steps % 2])
    sums(program, [5])
    assert sum(program.forms()) == 3
    program.clear()
    for size in range(2, 8):  # one network after the other
        sums(program, [size] * (policy.SOON + 1))
    assert sum(program.forms()) == 6


def test_batches_that_a_loader_makes_are_one_round():
    class Samples(mx.gluon.data.Dataset):
        def __len__(self):
            return 6

        def __getitem__(self, index):
            return mx.nd.array([index]).asnumpy()
    before = policy._rounds.count
    assert [batch.shape for batch in mx.gluon.data.DataLoader(Samples(), 3)] == [(3, 1)] * 2
    assert policy._rounds.count == before


@by_cpu
def test_many_numbers_and_several_kinds_are_for_xla(monkeypatch):
    program = Compiled(lambda x: jnp.exp(x).sum(0), any_size=True)
    sums(program, [2, 3, 4])
    monkeypatch.setattr(policy, "FEW_NUMBERS", 100)
    sums(program, [50])
    assert sum(program.forms()) == 4
    sums(program, [20])
    policy.next_round()
    program(jnp.ones((9, 3), "int32"))
    assert sum(program.forms()) == 5  # of the integers


DETERMINED = """
import numpy as np, mxjax as mx
values = np.random.default_rng(3).normal(size=400).astype("float32")
def result(count):
    return float((mx.nd.exp(mx.nd.array(values[:count])).mean() * 3).asscalar())
early = result(300)
for count in range(2, 12):
    result(count)
late = [result(n) for n in (299, 301, 302)]
import jax, jax.monitoring
seen = []
jax.monitoring.register_event_duration_secs_listener(lambda event, *_, **__: seen.append(event))
result(303)
print(any(event.endswith("backend_compile_duration") for event in seen))
"""


@by_cpu
@pytest.mark.parametrize("flag", ["0", "1"])
def test_enforced_determinism_compiles_all(flag):
    done = subprocess.run([sys.executable, "-c", DETERMINED], capture_output=True, text=True, check=True, env={
        **os.environ, "MXNET_ENFORCE_DETERMINISM": flag})
    assert done.stdout.split() == [str(flag == "1")]


def test_ever_new_sizes_in_several_threads():
    program = Compiled(lambda x: jnp.exp(x).sum(0), most=SOME_OF_ONE, any_size=True)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda first: sums(program, range(first, first + 15)), (2, 3, 10, 17)))


# ------------------------------------------------------------ a user's loop
def episodes(lengths, after=lambda: None):
    """Gradients of a small network for batches of ever other sizes, beside NumPy's."""
    w = mx.nd.array(weight(4, 3))
    w.attach_grad()
    for step, length in enumerate(lengths):
        x = rng.normal(size=(length, 4)).astype("float32")
        y = rng.integers(0, 3, length)
        with mx.autograd.record():
            logits = mx.nd.dot(mx.nd.array(x), w)
            loss = -mx.nd.pick(mx.nd.log_softmax(logits), mx.nd.array(y)).mean()
        loss.backward()
        scores = x @ w.asnumpy()
        share = np.exp(scores - scores.max(1, keepdims=True))
        share /= share.sum(1, keepdims=True)
        np.testing.assert_allclose(loss.asscalar(), -np.log(share[np.arange(length), y]).mean(), 1e-5)
        np.testing.assert_allclose(w.grad.asnumpy(), x.T @ (share - np.eye(3)[y]) / length, 1e-4, 1e-6)
        if step == 5:
            after()


@by_cpu
def test_training_on_batches_of_ever_new_sizes(compiles):
    episodes(range(3, 24), compiles.clear)
    assert not compiles


@by_cpu
def test_sequences_of_ever_new_lengths(compiles):
    layer = mx.gluon.rnn.LSTM(5)
    layer.initialize(mx.init.Normal(0.3))
    once, outputs = mx.gluon.rnn.LSTM(5, prefix=layer.prefix, params=layer.collect_params()), []
    x = mx.nd.array(rng.normal(size=(16, 2, 4)))
    for length in (3, 5, 6, 7, 9, 11, 12, 14, 15, 16):
        if length == 9:
            compiles.clear()
        outputs.append(layer(x[:length]).asnumpy())
    assert not compiles
    once.hybridize()
    whole = once(x).asnumpy()
    for found in outputs:
        np.testing.assert_allclose(found, whole[:len(found)], 1e-5, 1e-6)
