import jax
import jax.numpy as jnp
import pytest
from jax import lax

from mxjax._xla.capacity import products, survey


def _loop(x):
    return lax.scan(lambda carry, _: (carry @ carry, None), x, length=7)[0]


@pytest.mark.parametrize("function, shapes, expected", [
    (jnp.matmul, [(3, 5), (5, 2)], 3 * 5 * 2),
    (lambda a, b: lax.dot_general(a, b, (((0,), (1,)), ((), ()))), [(5, 3), (2, 5)], 3 * 5 * 2),
    (lambda a, b: lax.dot_general(a, b, (((0, 2), (1, 0)), ((), ()))), [(5, 3, 4), (4, 5, 2)], 3 * 5 * 4 * 2),
    (lambda a, b: lax.dot_general(a, b, (((1,), (2,)), ((0,), (1,)))), [(4, 5, 3), (2, 4, 5)], 4 * 3 * 5 * 2),
    (lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "VALID"), [(2, 3, 6, 7), (4, 3, 2, 3)],
     2 * 4 * 5 * 5 * 3 * 2 * 3),
    (lambda x, w: lax.conv_general_dilated(x, w, (1,), "VALID", feature_group_count=3), [(2, 3, 6), (3, 1, 2)],
     2 * 3 * 5 * 2),
    (_loop, [(3, 3)], 7 * 27),
    (lambda x: jax.jit(jnp.matmul)(x, x) + x, [(3, 3)], 27),
    (jnp.add, [(3,), (3,)], 0),
])
def test_multiplications_of_products_are_counted(function, shapes, expected):
    for dtype in (jnp.float32, jnp.bfloat16):
        jaxpr = jax.make_jaxpr(function)(*[jax.ShapeDtypeStruct(shape, dtype) for shape in shapes]).jaxpr
        assert products(jaxpr) == ({jnp.dtype(dtype).name: expected} if expected else {})


@jax.jit
def _convolution(x, w):
    """A kernel, such as those that stand for convolutions: its products are theirs."""
    return x @ w


@pytest.mark.parametrize("function, shapes, convolved", [
    (jnp.matmul, [(3, 5), (5, 2)], 0), (_convolution, [(3, 5), (5, 2)], 30),
    (lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "VALID"), [(2, 3, 6, 7), (4, 3, 2, 3)],
     2 * 4 * 5 * 5 * 3 * 2 * 3),
    (jax.jit(lambda x, w: lax.conv_general_dilated(x, w, (1,), "VALID") @ w[:, 0]), [(1, 1, 4), (2, 1, 3)], 2 * 2 * 3),
])
def test_multiplications_of_convolutions(function, shapes, convolved):
    jaxpr = jax.make_jaxpr(function)(*[jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]).jaxpr
    assert survey(jaxpr).convolved == convolved


def test_what_a_program_contains():
    def function(x, y):
        z = jnp.exp(x) + y
        return z.sum(), z * 2, jnp.tanh(z).T, _loop(x)
    found = survey(jax.make_jaxpr(function)(*[jax.ShapeDtypeStruct((4, 4), jnp.float32)] * 2).jaxpr)
    assert (found.shape, found.dtype, found.largest) == ((4, 4), "float32", 64)
    assert (found.curved, found.convolved, found.readers, found.called) == (32, 0, 3, frozenset())
    assert found.arranged == 3 * 16, "sum, transposition, product"
    assert found.operations == 8
