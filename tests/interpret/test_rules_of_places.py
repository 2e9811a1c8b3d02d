"""Rules for places, numbers and choices: what NumPy computes is what XLA computes, the last bits aside."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from mxjax.interpret.program import by_numpy
from mxjax.interpret.rules import RULES
from mxjax.passes.division import with_quotients
from mxjax.passes.rewriting import rewritten

from .forms import by_xla

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
    "loop": (lambda x: lax.fori_loop(0, 3, lambda i, x: -x, x), X),
    "unordered": (lambda x, y: lax.sort((x, y), num_keys=1, is_stable=False), X, Y),
    "denormal constant": (lambda x: jnp.where(x > 0, x, np.float32(1e-40)), X),
}


def traced(function, *args):
    return jax.jit(rewritten(function, with_quotients)).trace(*args).jaxpr


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("name", [*ALIKE, *OTHERS])
def test_is_as_good_as_xla(name, wide):
    function, *args = {**ALIKE, **OTHERS}[name]
    with jax.enable_x64(wide):
        args = [a.astype("float64") if wide and a.dtype == "float32" and name != "bits" else a
                for a in map(np.asarray, args)]
        found = by_numpy(traced(function, *args), RULES)(args)
        expected = jax.tree.leaves(by_xla(function, *args))
    assert len(found) == len(expected)
    for one, other in zip(found, map(np.asarray, expected), strict=True):
        assert one.shape == other.shape and one.dtype == other.dtype
        rounding = 1e-2 if one.dtype.itemsize == 2 else 1e-5
        if one.dtype.name == "bfloat16":
            one, other = one.astype("float32"), other.astype("float32")
        np.testing.assert_allclose(one, other, rounding, 1e-6)
