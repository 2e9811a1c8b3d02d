import jax
import jax.numpy as jnp
import pytest
from jax import lax

from mxjax._xla.capacity import products


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
