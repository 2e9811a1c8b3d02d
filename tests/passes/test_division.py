"""Division divides: XLA would multiply with the reciprocal of what is constant or broadcast, and join two divisions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import mxjax as mx
from mxjax.kernel.compiled import SOME_OF_ONE, Compiled
from mxjax.passes import division

from ..internals import forget_calls, forms_of, has_programs

rng = np.random.default_rng(3)
X = (10 * rng.normal(size=(50, 70))).astype("float32")
ROW = (rng.random((50, 1)) + 0.3).astype("float32")
Y = (rng.random((50, 70)) + 0.1).astype("float32")
ODD, BY = np.array([np.inf, -1, 0, -0.0, np.nan, 5, 0], "f"), np.array([3, np.inf, 0, 2, 1, np.nan, -7], "f")
C = np.float32(41)


def twice(x):
    return lax.scan(lambda carry, _: (carry / C, None), x, None, length=2)[0]


def either(x):
    return lax.cond(x[0, 0] < 1e9, lambda v: v / C, lambda v: v, x)


PROGRAMS = {
    "by a constant": (lambda x: x / 41, lambda x: x / C, X),
    "by a number": (lambda x, c: x / c, lambda x, c: x / c, X, C),
    "by a column": (jnp.divide, np.divide, X, ROW),
    "again by a constant": (lambda x, y: x / y / 41, lambda x, y: x / y / C, X, Y),
    "by a quotient": (lambda x, y: x / (y / 41), lambda x, y: x / (y / C), X, Y),
    "by a root": (lambda x, y: x / jnp.sqrt(y), lambda x, y: x / np.sqrt(y), X, ROW),
    "a product": (lambda x, y: x * 3 / y, lambda x, y: x * np.float32(3) / y, X, ROW),
    "in a loop": (twice, lambda x: x / C / C, X),
    "in a branch": (either, lambda x: x / C, X),
    "in a call": (lambda x: jax.jit(lambda v: v / C)(x), lambda x: x / C, X),
    "odd numbers": (lambda x, y: jnp.stack([x / y, x / 2, x / -3]),
                    lambda x, y: np.stack([x / y, x / np.float32(2), x / np.float32(-3)]), ODD, BY),
    "half floats": (lambda x: x / 41, lambda x: (x.astype("float32") / C).astype("float16"), X.astype("float16")),
    "the derivative of a quotient": (jax.grad(lambda x: (x / 41).sum()), lambda x: np.full_like(x, 1 / C), X),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore:(divide by zero|invalid value)")
def test_quotients_are_rounded_as_ieee_754_says(name):
    program, formula, *args = PROGRAMS[name]
    expected = formula(*args)
    for most in (1, SOME_OF_ONE):  # graphs, operators
        found = np.asarray(Compiled(program, most=most)(*args))
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(np.signbit(found[found == 0]), np.signbit(expected[expected == 0]))


@pytest.mark.filterwarnings("ignore:(divide by zero|invalid value)")
def test_how_gpus_divide():
    """By doubles: the formula is exact on any device, and no division, of which LLVM would make one of floats."""
    many = (X * np.float32(2) ** rng.integers(-60, 60, X.shape)).astype("f").ravel()
    for x, y in ((many, Y.ravel()), (np.arange(1, 513, dtype="f")[:, None], np.arange(1, 513, dtype="f")), (X, ROW),
                 (ODD[:, None], np.concatenate([ODD, BY]))):
        found, expected = np.asarray(jax.jit(division.by_doubles)(x, y)), x / y
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(np.signbit(found[found == 0]), np.signbit(expected[expected == 0]))
    program = str(division.with_quotients(jax.make_jaxpr(PROGRAMS["by a constant"][0])(X)))
    assert "'cuda'" in program and "f64" in program


def test_integers_are_divided_as_before():
    np.testing.assert_array_equal(Compiled(lax.div)(np.int32([7, -7]), np.int32([2, 2])), [3, -3])


@pytest.mark.parametrize("hybridize", [False, True])
def test_a_number_divided_by_itself(hybridize):
    """What MXNet gives; by reciprocals 41 / 41 would be 0.99999994, and its floor 0."""
    class Net(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return x / 41, (x / 41).floor(), F.mean(x / x), F.broadcast_div(x, F.max(x))
    net = Net()
    if hybridize:
        net.hybridize()
    for size in (1, 41):
        for found in net(mx.nd.full((size,), 41)):
            np.testing.assert_array_equal(found.asnumpy(), np.ones(found.shape, "f"))
    assert (mx.np.full((41,), 41) / 41).mean().item() == 1
    x = mx.sym.var("x")
    executor = mx.sym.mean(x / 41).simple_bind(mx.cpu(), x=(41,))
    executor.arg_dict["x"][:] = 41
    assert executor.forward()[0].asscalar() == 1


@pytest.mark.usefixtures("at_once")
def test_the_sums_under_a_softmax_are_not_written_for_each_element():
    """On a CPU, softmax needs no array beside its result: the exponentials lie in that."""
    x = np.ones((512, 1024), "f")
    compiled = Compiled(lambda x: jax.nn.softmax(x, -1), SOME_OF_ONE)
    np.testing.assert_allclose(compiled(x), np.full(x.shape, 1 / 1024, "f"))
    [form] = [f for f in forms_of(compiled).values() if has_programs(f)]
    assert form.lower(x).compile().memory_analysis().temp_size_in_bytes < x.nbytes / 2


def test_calls_of_the_quotient_stay_calls_where_jit_is_off():
    forget_calls(division)
    with jax.disable_jit():
        quotient = division.equation_of((2, 3), (2, 1), np.dtype("float32"), True, True)
    assert division.is_quotient(quotient) and len(quotient.outvars) == 1
