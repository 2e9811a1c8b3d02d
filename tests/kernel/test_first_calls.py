"""NumPy computes the first calls of a signature where it has XLA's results to the bit, and leaves the rest to XLA."""

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import mxjax as mx
from mxjax.interpret.exact import by_numpy
from mxjax.kernel import policy, xla
from mxjax.kernel.arguments import kind_of
from mxjax.kernel.compiled import SOME_OF_ONE, Compiled
from mxjax.kernel.policy import VARIED_CALLS
from mxjax.passes.division import with_quotients
from mxjax.passes.rewriting import rewritten

pytestmark = pytest.mark.usefixtures("room")
by_cpu = pytest.mark.skipif(xla._options()[0] == xla._options()[2], reason="everything is compiled in full")
CPU = jax.local_devices(backend="cpu")[0]
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
    "difference of parts, negated": (lambda x, y: -(x[1:] - y[0]), X, Y),
    "products": (lambda x, y: [x * y, x * 1.7, x * y[:, :1], jnp.square(x), x ** 2, 0 * x], X, Y),
    "product with an integer": (lambda x, n: [x * n.astype(x.dtype), x - n.astype(x.dtype)], X, np.int32(-3)),
    "quotient": (lambda x, y: [x / y, 1 / y, jax.jit(lambda a, b: a / b)(x, y)], X, Y),
    "quotient by a constant": (lambda x: x / 255, X),
    "quotient by rows": (lambda x, y: x / y[:, :1], X, Y),
    "quotient by a number": (lambda x, y: x / y, X, np.float32(1.7)),
    "quotient by a number in a call": (lambda x, y: jax.jit(jnp.divide)(x, y), X, np.float32(1.7)),
    "quotient by something made": (lambda x, y: x / y.reshape(1, 60).reshape(x.shape), X, Y),
    "square root": (jnp.sqrt, np.abs(X)),
    "chosen products": (lambda x, y: [jnp.where(x > 0, x * y, y), jnp.maximum(x * y, 0.5), jnp.round(x + y)], X, Y),
    "narrowed": (lambda x: lax.convert_element_type(x, "float32"), X),
    "rounding": (lambda x: [jnp.floor(x), jnp.ceil(x), jnp.round(x), lax.round(x), jnp.trunc(x)], ODD),
    "comparisons": (lambda x, y: [x < y, x <= y, x == y, x != y, x > y, x >= y, jnp.isfinite(x)], ODD, ODD[::-1]),
    "extremes": (lambda x, y: [jnp.maximum(x, y), jnp.minimum(x, y), jnp.clip(x, -1, 1), -x, jnp.abs(x)], ONE_ZERO,
                 ONE_ZERO[::-1]),
    "signs": (jnp.sign, ZEROS),
    "sorted integers": (lambda x: lax.sort(x, is_stable=False), INTS),
    "sorted zeros": (lambda x: [jnp.sort(x, 1), jnp.argsort(x, 0)], ZEROS),
    "choice": (lambda x, y: jnp.where(x > 0, x, y), X, Y),
    "choice of numbers": (lambda x: [jnp.where(x > 0, x, np.nan), jnp.where(x > 0, 0, x)], X),
    "integers": (lambda x: [x * x + 3, x - 7, jnp.sign(x), x & 3, x | 8, x ^ 5, ~x, x.sum(0), x.prod(1)], INTS),
    "floats to integers": (lambda x: [x.astype("int32"), x.astype("int8"), jnp.abs(x).astype("uint8"), x.astype(bool)],
                           INTS.astype("float32") * 0.7),
    "integers to floats": (lambda x: [x.astype("float32"), x.astype("int8"), x.astype("uint16")], INTS * 99999),
    "narrow integers, as floats in one operation": (
        lambda x, y: [x.astype("float32") / 255, x.astype("float32") * 0.1, 1.7 - x.astype("float32"),
                      y.astype("float32") * x.astype("float32")], INTS.astype("int8"), INTS.astype("uint16")),
    "sums of one": (lambda x: [x[:, :1].sum(1), x[:1].prod(0)], X),
    "largest": (lambda x: [x.max(1), x.min((0, 2)), x.argmax(2), x.argmin(0), (x > 0).any(1), (x > 0).all()], X),
    "largest with NaN": (lambda x: [x.max(1), x.min(), x.argmax(1), x.argmin(0)], ONE_ZERO),
    "sorted": (lambda x, y: [jnp.sort(x, 1), jnp.argsort(x, 0), *lax.sort_key_val(x, y)], X, Y),
    "shapes": (lambda x: [x.reshape(5, 12), x.transpose(2, 0, 1), x[:, None], jnp.squeeze(x[:1], 0), x.T.ravel()], X),
    "legacy order": (lambda x: lax.reshape(x, (15, 4), (2, 1, 0)), X),
    "spread": (lambda x: [jnp.broadcast_to(x, (2, 4, 3, 5)), jnp.tile(x, (2, 1, 1)), jnp.repeat(x, 2, 1)], X),
    "parts": (lambda x: [x[1:3, ::2], x[::-1, 2], jnp.flip(x, (0, 2)), *jnp.split(x, [1, 3]),
                         *jnp.unstack(x, axis=1)], X),
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
    "rows added": (lambda x, i: [x.at[i[:2]].add(1.7), jnp.zeros_like(x).at[:, i[3:], i[:2]].add(x[:, 0, :2])], X,
                   ROWS[1:]),
    "rows of integers added": (lambda x, i: x.at[i].add(x[0]), INTS, ROWS),
    "bits": (lambda x: lax.bitcast_convert_type(x, "int32") << 1, ODD),
    "gradient of parts": (lambda x, g: jax.vjp(lambda x: x[1:3, ::2], x)[1](g), X, X[:2, :2]),
    "gradient of rows": (lambda x, g: jax.vjp(lambda x: x[ROWS[:2]], x)[1](g), X, Y[:2]),
    "gradient of a largest": (lambda x, g: jax.vjp(lambda x: jax.nn.relu(x), x)[1](g), X, Y),
}
OTHERS = {
    "function": (jnp.exp, X),
    "product, then sum": (lambda x, y: x * y + x, X, Y),
    "difference, then product": (lambda x, y: (x - y) * x, X, Y),
    "two sums": (lambda x, y: x + y + 1.5, X, Y),
    "two products": (lambda x, y: x * 3 * y, X, Y),
    "two operations with constants": (lambda: jnp.arange(4.0) * 0.1 + 0.3,),
    "converted, then multiplied": (lambda x: x.astype("float32") * 0.1, INTS),
    "narrow integers, two operations": (lambda x: x.astype("float32") / 255 - 0.5, INTS.astype("uint8")),
    "product with a comparison": (lambda x, y: x * (y > 0), X, Y),
    "product with a truth": (lambda x, n: x * (n > 0).astype("int32").astype("float32"), X, np.int32(3)),
    "product with a choice": (lambda x, y: x * jnp.where(y > 0, 1.0, 0.0), X, Y),
    "through a call": (lambda x, y: jax.jit(lambda a: a + y)(x * y), X, Y),
    "through a choice": (lambda x, y: jnp.where(x > 0, x * y, x) - y, X, Y),
    "sum of three": (lambda x: x.sum(1), X),
    "running sum": (lambda x: lax.cumsum(x, 1), X),
    "matrix product": (lambda x: x @ x.T, X[0]),
    "division of integers": (lax.div, INTS, INTS),
    "quotient of a sum": (lambda x, y: (x + y) / y, X, Y),
    "mean": (lambda x: x.mean(), X),
    "half floats": (lambda x: x + x, X.astype("float16")),
    "to half floats": (lambda x: x.astype("bfloat16"), X),
    "complex numbers": (lambda x: lax.complex(x, x), X),
    "random numbers": (lambda x: x + jax.random.uniform(jax.random.key(3), (5,)), X),
    "loop": (lambda x: lax.fori_loop(0, 3, lambda i, x: -x, x), X),
    "unordered": (lambda x, y: lax.sort((x, y), num_keys=1, is_stable=False), X, Y),
    "denormal constant": (lambda x: jnp.where(x > 0, x, np.float32(1e-40)), X),
}
NUMBERS = {  # that are left to XLA
    "larger zero": (lambda x: jnp.maximum(x, x.T), ZEROS, np.abs(ZEROS)),
    "largest zero": (lambda x: x.min(0), ZEROS, np.abs(ZEROS)),
    "sum of zeros": (lambda x: x + 0.0, ZEROS, np.abs(ZEROS)),
    "sum of one": (lambda x: x[:1].sum(0), ZEROS, np.abs(ZEROS)),
    "denormal argument": (lambda x: x > 0, np.float32(1e-40), np.float32(1)),
    "denormal result": (lambda x: x * x, np.float32(1e-20), np.float32(1)),
    "smallest number": (lambda x: x * 0.5, np.float32(2.3509887e-38), np.float32(1)),
    "denormal bits": (lambda x: lax.bitcast_convert_type(x, "float32") > 0, np.int32(1), np.int32(1 << 30)),
    "beyond integers": (lambda x: x.astype("int8"), np.float32(128), np.float32(127.9)),
    "below integers": (lambda x: x.astype("uint8"), np.float32(-1), np.float32(-0.9)),
    "no number": (lambda x: x.astype("int32"), np.float32("nan"), np.float32(-2147483520)),
    "rounded integer": (lambda n: n.astype("float32") * np.ones(2, "float32"), np.int32((1 << 24) + 1),
                        np.int32((1 << 24) + 2)),
    "rows written twice": (lambda i: jnp.zeros(3).at[i].set(jnp.arange(2.0)), np.array([1, 1]), np.array([1, 2])),
    "rows added twice": (lambda i: jnp.zeros(3).at[i].add(np.float32([1, 2])), np.array([1, 1]), np.array([1, 2])),
}


def bits(results):
    return [(r.shape, str(r.dtype), np.where(r == r, r, 0).tobytes(), (r != r).tobytes())  # whatever kind of NaN
            for r in map(np.asarray, jax.tree.leaves(results))]


def traced(function, *args):
    return jax.jit(rewritten(function, with_quotients)).trace(*args).jaxpr


@by_cpu
@pytest.mark.parametrize("name", ALIKE)
@pytest.mark.parametrize("wide", [False, True])
def test_numpy_has_the_bits_of_xla(name, wide):
    function, *args = ALIKE[name]
    with jax.enable_x64(wide):
        args = [jax.device_put(a.astype("float64") if wide and a.dtype == "float32" and name != "bits" else a, CPU)
                for a in map(np.asarray, args)]
        found = by_numpy(traced(function, *args))
        assert found is not None
        got = found([np.asarray(a) for a in args])
        for level in (1, 2):
            program = Compiled(lambda *a: jax.tree.leaves(function(*a)), most=SOME_OF_ONE)
            assert bits(got) == bits(program.xla.form(kind_of(args), level)(*args))


@pytest.mark.parametrize("name", OTHERS)
def test_what_a_compiler_may_round_otherwise_is_compiled(name):
    function, *args = OTHERS[name]
    assert by_numpy(traced(function, *args)) is None


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


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_that_are_left_to_xla(name):
    function, left, taken = NUMBERS[name]
    found = by_numpy(traced(function, left))
    assert found([left]) is None and found([taken]) is not None


@by_cpu
@pytest.mark.parametrize("operation", [jnp.add, jnp.subtract, jnp.multiply, jnp.divide, lambda x, _: jnp.sqrt(x),
                                       lambda x, _: x.astype("float32")])
@pytest.mark.parametrize("wide", [False, True])
def test_one_operation_on_any_numbers(operation, wide):
    dtype = np.dtype("float64" if wide else "float32")
    least, most = (900, 1150) if wide else (64, 191)  # exponents: those of float32, and whose products are
    with jax.enable_x64(wide):
        x, y = (rng.integers(least, most, 4000) << np.finfo(dtype).nmant |
                rng.integers(0, 1 << np.finfo(dtype).nmant, 4000) for _ in range(2))
        x, y = (x.astype(f"uint{8 * dtype.itemsize}").view(dtype) * rng.choice([-1, 1], 4000).astype(dtype)
                for x in (x, y))
        got = by_numpy(traced(operation, x, y))([x, y])
        assert got is not None
        args = jax.device_put((x, y), CPU)
        for level in range(3):
            assert bits(got) == bits(Compiled(operation, most=SOME_OF_ONE).xla.form(kind_of(args), level)(*args))


@by_cpu
def test_a_call_that_is_left_to_xla_compiles_at_once(compiles):
    program = Compiled(lambda x: x * x)
    for x in (1e-20, 1.0, 2.0):
        program(jax.device_put(np.float32(x)))
    assert len(compiles) == 1 and sum(program.forms()) == 1 and program.held


def test_wide_results_of_a_narrow_call():
    for _ in range(4):
        doubled = mx.nd.array([0, 1, 3], dtype="bool") * 2
        assert doubled.dtype == np.int64 and doubled.asnumpy().tolist() == [0, 2, 2]


def test_arrays_on_another_device_and_in_transformations():
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


FIXED = ("shapes", "legacy order", "parts", "spread", "quotient by something made", "rows added", "gradient of parts",
         "gradient of rows")  # functions of one size
GATHERING = ("difference of parts, negated", "products", "quotient by rows")  # parts, where one size may be any


def grown(x, count):
    """An array with `count` rows, those of `x` again and again."""
    x = np.asarray(x)
    return jax.device_put(x if x.ndim == 0 else x[np.arange(count) % len(x)], CPU)


def noting(function):
    """A function compiled for any size, and the shapes of the first arguments that it is traced for."""
    shapes = []

    def noted(*args):
        shapes.append(args[0].shape)
        return function(*args)
    return Compiled(noted, most=SOME_OF_ONE, any_size=True), shapes


@by_cpu
@pytest.mark.parametrize("name", [name for name in ALIKE if name not in FIXED and len(ALIKE[name]) > 1])
def test_new_sizes_have_the_bits_of_xla_without_a_trace(name):
    function, *args = ALIKE[name]
    program, shapes = noting(lambda *a: jax.tree.leaves(function(*a)))
    for count in (4, 5, 7, 8):
        program(*[grown(a, count) for a in args])
    given = [grown(a, 6) for a in args]
    got = program(*given)
    assert len(shapes) == 5 + (name in GATHERING) and not isinstance(shapes[4][0], int)  # each size, and any
    assert bits(got) == bits(program.xla.form(kind_of(given), 1)(*given))


@by_cpu
def test_sizes_that_vary_together_and_apart():
    program, shapes = noting(lambda x, y: {"rows": jnp.concatenate([x, y]), "turned": [x.T, y[::-1]]})
    for rows, more, columns in [(4, 4, 3), (5, 2, 3), (6, 8, 3), (7, 3, 3), (9, 9, 3), (2, 7, 3),  # any rows by now
                                (8, 2, 5), (8, 3, 6), (8, 2, 7), (8, 7, 8), (5, 4, 9), (6, 4, 3),  # any columns
                                (1, 3, 4), (0, 3, 4), (2, 1, 4)]:
        x, y = np.arange(rows * columns, dtype="float32").reshape(rows, columns), np.ones((more, columns), "float32")
        got = program(jax.device_put(x, CPU), jax.device_put(y, CPU))
        np.testing.assert_array_equal(got["rows"], np.concatenate([x, y]))
        np.testing.assert_array_equal(got["turned"][0], x.T)
        assert got["turned"][1].shape == y.shape
    assert [s for s in shapes if all(isinstance(n, int) for n in s)] == [
        (4, 3), (5, 3), (6, 3), (7, 3), (8, 5), (8, 6), (1, 4), (0, 4), (2, 4)]
    with pytest.raises(TypeError):  # as without what was learnt
        program(jnp.ones((3, 4)), jnp.ones((3, 5)))


@by_cpu
@pytest.mark.parametrize("function", [
    lambda x: x[:3] if x.shape[0] > 5 else x[:2], lambda x: x.reshape(-1, 2), lambda x: x * float(x.shape[0]),
    lambda x: jnp.exp(x), lambda x: jnp.squeeze(x)])
def test_what_asks_for_sizes_is_traced_for_each(function):
    program, shapes = noting(function)
    for count in (4, 6, 8, 10, 12, 14):
        x = np.arange(count, dtype="float32")
        np.testing.assert_allclose(program(jax.device_put(x, CPU)), jax.jit(function)(x), rtol=1e-6)
    assert [s for s in shapes if isinstance(s[0], int)] == [(n,) for n in (4, 6, 8, 10, 12, 14)]


@pytest.fixture
def varied_compiles(compiles, monkeypatch):
    """`compiles`, where an operator of many shapes is compiled as late as it is for users."""
    monkeypatch.setattr(policy, "VARIED_CALLS", VARIED_CALLS)
    return compiles


@by_cpu
def test_of_many_sizes_those_that_come_often_are_compiled(varied_compiles):
    program, _ = noting(lambda x: x + x)
    for count in range(2, 30):
        program(jax.device_put(np.ones(count, "float32"), CPU))
    assert not varied_compiles
    for _ in range(VARIED_CALLS):
        assert program(jax.device_put(np.ones(29, "float32"), CPU)).tolist() == [2] * 29
    assert len(varied_compiles) == sum(program.forms()) == 1
    program.clear()
    assert program(jax.device_put(np.ones(3, "float32"), CPU)).tolist() == [2] * 3


@pytest.mark.parametrize("function", [lambda x: x + x, lambda x: x[:3] if x.shape[0] > 5 else x[:2]])
def test_learning_holds_no_arguments(function):
    program, _ = noting(function)
    gc.disable()
    try:
        for count in range(4, 13):
            x = jnp.ones(count)
            held = weakref.ref(x)
            program(x)
            del x
            assert held() is None
    finally:
        gc.enable()


def test_a_users_formula_may_ask_for_a_size():
    @mx.operator.from_jax
    def special_size(x):
        return x * (2 if x.shape[0] == 9 else 3)
    for count in (3, 4, 5, 6, 7, 8, 9, 10):
        assert special_size(mx.nd.ones((count,))).asnumpy().tolist() == [2 if count == 9 else 3] * count


def test_sizes_are_learnt_by_several_threads():
    program, _ = noting(lambda x, y: [x + y, x.T])

    def work(first):
        for rows in range(first, first + 40):
            x = np.full((rows, 3), rows, "float32")
            total, turned = program(jax.device_put(x, CPU), jax.device_put(x, CPU))
            np.testing.assert_array_equal(total, 2 * x)
            np.testing.assert_array_equal(turned, x.T)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, [2, 3, 20, 30]))


def test_a_loop_whose_sizes_depend_on_data_compiles_nothing(varied_compiles):
    starts = np.random.default_rng(3).permutation(60).astype("float32")
    left, kept = mx.np.array(np.stack([starts, starts + 4], 1)), []
    while left.shape[0] > 1:  # intervals: those that overlap with the first by more than two are dropped
        first, rest = left[0], left[1:]
        overlap = mx.np.minimum(first[1], rest[:, 1]) - mx.np.maximum(first[0], rest[:, 0])
        kept.append(first.asnumpy()[0])
        left = rest[mx.np.nonzero(overlap <= 2)[0]]
        if len(kept) == 6:
            varied_compiles.clear()
    assert len(kept) > 12 and min(np.diff(np.sort(kept))) >= 2
    assert not varied_compiles
