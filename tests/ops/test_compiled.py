"""Programs of few numbers are compiled with less effort; their results and their use inside JAX do not change."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mxjax as mx
from mxjax.ops import compiled
from mxjax.ops.compiled import Compiled

reducing = pytest.mark.skipif(not all(compiled._reduced_options()),
                              reason="this JAX has no options to compile with less effort")


@reducing
def test_effort_by_the_number_of_elements():
    program = Compiled(lambda x, more: jnp.tanh(x) + sum(jax.tree.leaves(more)))
    for count, forms in ((10, (0, 0, 1)), (250, (0, 0, 2)), (300, (0, 1, 2)), (20000, (1, 1, 2)), (10, (1, 1, 2))):
        x = np.linspace(-2, 2, count, dtype="float32")
        np.testing.assert_allclose(program(jnp.asarray(x), {"a": [1.0], "b": 2}), np.tanh(x) + 3, rtol=1e-5)
        assert program.forms() == forms
    tree = Compiled(lambda values: values[0].sum() + values[1])
    assert tree([np.ones(20000, "float32"), 1.0]) == 20001 and tree.forms() == (1, 0, 0)


@reducing
def test_a_program_that_makes_many_numbers_of_few_is_compiled_in_full():
    program = Compiled(lambda x: jnp.broadcast_to(x, (200, 200)))
    assert program(jnp.ones(1)).shape == (200, 200)
    assert program.forms() == (1, 0, 0)


def test_inside_transformations():
    program = Compiled(lambda x: x * x)
    x = jnp.arange(3.0)
    assert jax.jit(lambda x: program(x) + program(jnp.ones(3)))(x).tolist() == [1, 2, 5]
    assert jax.grad(lambda x: program(x).sum())(x).tolist() == [0, 2, 4]
    assert jax.vmap(program)(x).tolist() == [0, 1, 4]


def test_mistakes_pass_through():
    def refuse(x):
        raise ValueError("no such thing")
    with pytest.raises(ValueError, match="no such thing"):
        Compiled(refuse)(jnp.ones(2))
    with pytest.raises(mx.MXNetError, match="operator dot"):
        mx.nd.dot(mx.nd.ones((2, 3)), mx.nd.ones((2, 3)))
