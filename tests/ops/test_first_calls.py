"""NumPy computes the first calls of a signature where it has XLA's results to the bit, and leaves the rest to XLA."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import mxjax as mx
from mxjax.compile import compiled
from mxjax.compile.compiled import SOME_OF_ONE, Compiled
from mxjax.compile.numpy_forms import by_numpy

by_cpu = pytest.mark.skipif(compiled._options()[0] == compiled._options()[2], reason="everything is compiled in full")
rng = np.random.default_rng(7)
X = rng.normal(size=(4, 3, 5)).astype("float32")
Y = rng.normal(size=(4, 3, 5)).astype("float32")
ODD = np.array([[0, -0.0, np.nan, np.inf, -np.inf, 1e-30], [3e38, -1e30, 0.5, 1.5, -2.5, 7]], "float32")
ONE_ZERO = ODD + 0  # of -0.0 and 0.0 the larger is left to XLA
ZEROS = np.array([[0, -0.0, 2], [-0.0, 0, -3], [np.nan, -0.0, 0]], "float32")
INTS = rng.integers(-9, 9, (4, 3, 5)).astype("int32")
ROWS = np.array([3, 0, -1, 9, 2])

ALIKE = {
    "sum of two": (lambda x, y: x + y, X, Y),
    "difference, then product": (lambda x, y: (x - y) * x, X, Y),
    "quotient": (lambda x, y: x / y, X, Y),
    "quotient by a constant": (lambda x: x / 255, X),
    "quotient by rows": (lambda x, y: x / y[:, :1], X, Y),
    "quotient by a number": (lambda x, y: x / y, X, np.float32(1.7)),
    "square root": (lambda x: jnp.sqrt(jnp.abs(x)), X),
    "remainder": (lax.rem, X, Y),
    "rounding": (lambda x: [jnp.floor(x), jnp.ceil(x), jnp.round(x), lax.round(x), jnp.trunc(x)], ODD),
    "comparisons": (lambda x, y: [x < y, x <= y, x == y, x != y, x > y, x >= y, jnp.isfinite(x)], ODD, ODD[::-1]),
    "extremes": (lambda x, y: [jnp.maximum(x, y), jnp.minimum(x, y), jnp.clip(x, -1, 1), -x, jnp.abs(x)], ONE_ZERO,
                 ONE_ZERO[::-1]),
    "signs": (jnp.sign, ZEROS),
    "sorted zeros": (lambda x: [jnp.sort(x, 1), jnp.argsort(x, 0)], ZEROS),
    "choice": (lambda x, y: jnp.where(x > 0, x, y), X, Y),
    "integers": (lambda x: [x * x + 3, x - 7, jnp.sign(x), x & 3, x | 8, x ^ 5, ~x, x.sum(0), x.cumsum(1)], INTS),
    "floats to integers": (lambda x: [x.astype("int32"), x.astype("int8"), x.astype("uint8"), x.astype(bool)], ODD),
    "integers to floats": (lambda x: [x.astype("float32"), x.astype("int8"), x.astype("uint16")], INTS * 99999),
    "short sums": (lambda x: [x.sum(), x.sum(1), x.sum((0, 2)), x.mean(), x.mean(2), x.prod(1)], X),
    "largest": (lambda x: [x.max(1), x.min((0, 2)), x.argmax(2), x.argmin(0), (x > 0).any(1), (x > 0).all()], X),
    "largest with NaN": (lambda x: [x.max(1), x.min(), x.argmax(1), x.argmin(0)], ONE_ZERO),
    "running extremes": (lambda x: [lax.cummax(x, 1), lax.cummin(x, 0, reverse=True)], X),
    "sorted": (lambda x, y: [jnp.sort(x, 1), jnp.argsort(x, 0), *lax.sort_key_val(x, y)], X, Y),
    "shapes": (lambda x: [x.reshape(5, 12), x.transpose(2, 0, 1), x[:, None], jnp.squeeze(x[:1], 0), x.T.ravel()], X),
    "legacy order": (lambda x: lax.reshape(x, (15, 4), (2, 1, 0)), X),
    "spread": (lambda x: [jnp.broadcast_to(x, (2, 4, 3, 5)), jnp.tile(x, (2, 1, 1)), jnp.repeat(x, 2, 1)], X),
    "parts": (lambda x: [x[1:3, ::2], x[::-1, 2], jnp.flip(x, (0, 2)), *jnp.split(x, [1, 3])], X),
    "joined": (lambda x, y: [jnp.concatenate([x, y], 1), jnp.stack([x, y])], X, Y),
    "padded": (lambda x: [jnp.pad(x, ((1, 0), (0, 2), (0, 0))),
                          lax.pad(x, x[0, 0, 0], ((1, -1, 2), (-1, 0, 0), (0, 3, 1)))], X),
    "ranges": (lambda: [jnp.arange(5), jnp.eye(3), lax.broadcasted_iota("float32", (2, 3), 1)],),
    "windows": (lambda x, i: [lax.dynamic_slice(x, (i, i - 9, i), (2, 2, 2)),
                              lax.dynamic_update_slice(x, x[:2], (i, i, i))], X, np.int32(3)),
    "rows": (lambda x, i: [x[i], x[:, i], jnp.take(x, i, 0, mode="clip"), jnp.take(x, i, 0), x[i, i]], X, ROWS),
    "along an axis": (lambda x, i: jnp.take_along_axis(x, jnp.clip(i, -3, 2), 1), X, INTS),
    "rows of integers": (lambda x, i: jnp.take(x, i, 0), INTS, ROWS),
    "rows written": (lambda x, i: x.at[i[:2]].set(1.0), X, ROWS),
    "rows added": (lambda x, i: [x.at[i].add(1.0), jnp.zeros_like(x).at[:, i, i].add(x[:, 0])], X, ROWS),
    "bits": (lambda x: lax.bitcast_convert_type(x, "int32") << 1, ODD),
    "gradient of parts": (lambda x, g: jax.vjp(lambda x: x[1:3, ::2], x)[1](g), X, X[:2, :2]),
    "gradient of rows": (lambda x, g: jax.vjp(lambda x: x[ROWS[:2]], x)[1](g), X, Y[:2]),
    "gradient of a largest": (lambda x, g: jax.vjp(lambda x: jax.nn.relu(x), x)[1](g), X, Y),
}
OTHERS = {
    "function": (jnp.exp, X),
    "product, then sum": (lambda x, y: x * y + x, X, Y),
    "two sums": (lambda x, y: x + y + 1.5, X, Y),
    "two products": (lambda x, y: x * 3 * y, X, Y),
    "through a call": (lambda x, y: jax.jit(lambda a: a + y)(x * y), X, Y),
    "through a choice": (lambda x, y: jnp.where(x > 0, x * y, x) - y, X, Y),
    "long sum": (lambda x: x.sum(1), np.ones((2, 32), "float32")),
    "running sum": (lambda x: lax.cumsum(x, 1), X),
    "matrix product": (lambda x: x @ x.T, X[0]),
    "division of integers": (lax.div, INTS, INTS),
    "half floats": (lambda x: x + x, X.astype("float16")),
    "loop": (lambda x: lax.fori_loop(0, 3, lambda i, x: -x, x), X),
    "quotient by something made": (lambda x, y: x / y.reshape(1, 60).reshape(x.shape), X, Y),
}


def bits(results):
    return [(r.shape, str(r.dtype), np.where(r == r, r, 0).tobytes(), (r != r).tobytes())  # whatever kind of NaN
            for r in map(np.asarray, jax.tree.leaves(results))]


@by_cpu
@pytest.mark.parametrize("name", ALIKE)
@pytest.mark.parametrize("wide", [False, True])
def test_numpy_has_the_bits_of_xla(name, wide):
    function, *args = ALIKE[name]
    with jax.enable_x64(wide):
        args = [jnp.asarray(a.astype("float64") if wide and a.dtype == "float32" and name != "bits" else a)
                for a in map(np.asarray, args)]
        found = by_numpy(jax.jit(function).trace(*args).jaxpr)
        assert found is not None
        got = found([np.asarray(a) for a in args])
        for level in (1, 2):
            program = Compiled(lambda *a: jax.tree.leaves(function(*a)), most=SOME_OF_ONE)
            assert bits(got) == bits(program._form(level)(*args))


@pytest.mark.parametrize("name", OTHERS)
def test_what_a_compiler_may_round_otherwise_is_compiled(name):
    function, *args = OTHERS[name]
    assert by_numpy(jax.make_jaxpr(function)(*args)) is None


@by_cpu
def test_a_signature_is_compiled_at_its_third_call(compiles):
    program = Compiled(lambda x, more: {"sum": x + more[0], "rest": more})
    for count in (3, 4):
        compiles.clear()
        x = np.arange(count, dtype="float32")
        results = [program(jax.device_put(x), [x, 2]) for _ in range(4)]
        assert len(compiles) == 1
        for result in results:
            np.testing.assert_array_equal(result["sum"], 2 * x)
            np.testing.assert_array_equal(result["rest"][0], x)
            assert result["rest"][1] == 2 and isinstance(result["sum"], jax.Array)
    assert sum(program.forms()) == 2
    program.clear()
    program(jax.device_put(x), [x, 2])
    assert sum(program.forms()) == 0


def test_results_are_nobody_elses_memory():
    x = jnp.arange(6.0)
    program = Compiled(lambda x: (x, x.reshape(2, 3), jnp.broadcast_to(x, (2, 6))))
    results = program(x)
    assert len({r.unsafe_buffer_pointer() for r in (x, *results)}) == 4


def test_denormal_numbers_are_zeros_from_the_first_call():
    for _ in range(4):
        assert (mx.nd.array([1e-40]) * 1).asscalar() == 0
        assert (mx.nd.array([1.5e-38]) * 0.5).asscalar() == 0


@pytest.mark.parametrize("function", [lambda x: jnp.maximum(x, x.T), lambda x: x.min(0), lambda x: lax.cummax(x, 1)])
def test_the_larger_of_two_zeros_is_left_to_xla(function):
    found = by_numpy(jax.make_jaxpr(function)(ZEROS))
    assert found([ZEROS]) is None and found([np.abs(ZEROS)]) is not None


def test_wide_results_of_a_narrow_call():
    for _ in range(4):
        doubled = mx.nd.array([0, 1, 3], dtype="bool") * 2
        assert doubled.dtype == np.int64 and doubled.asnumpy().tolist() == [0, 2, 2]


def test_arrays_on_another_device_and_tracers():
    device = jax.devices()[-1]
    program = Compiled(lambda x: x + x)
    x = jax.device_put(np.ones(3, "float32"), device)
    assert program(x).devices() == {device}
    assert jax.jit(program)(jnp.ones(5)).tolist() == jax.vmap(program)(jnp.ones(5)).tolist() == [2] * 5
    assert program(jnp.ones(5)).tolist() == [2] * 5


def test_the_same_bits_whenever_a_call_comes():
    x, head = mx.nd.array(X), mx.nd.array(Y)
    found = []
    for _ in range(4):
        y = x.copy()
        y.attach_grad()
        with mx.autograd.record():
            z = mx.nd.maximum(y, 0).mean(axis=1)
        z.backward(head[:, 0])
        found.append(bits([z.to_jax(), y.grad.to_jax()]))
    assert found[0] == found[1] == found[2] == found[3]
