"""Random numbers drawn as vectors."""

import jax
import numpy as np
import pytest

from mxjax.ops.random import _draw


@pytest.mark.parametrize("shape", [(), (0, 3), (3, 101)])
def test_the_numbers_are_those_of_the_shape(shape):
    key = jax.random.key(3)
    pairs = ((_draw.uniform, jax.random.uniform, "float32"), (_draw.normal, jax.random.normal, "float32"),
             (_draw.integers, jax.random.randint, -5, 9))
    for own, theirs, *of in pairs:
        np.testing.assert_allclose(jax.jit(lambda key, own=own, of=of: own(key, shape, *of))(key),
                                   theirs(key, shape, *of), rtol=1e-6)
    np.testing.assert_array_equal(jax.jit(lambda key: _draw.bernoulli(key, shape, 0.3))(key),
                                  jax.random.bernoulli(key, 0.3, shape))


def test_gamma_has_its_moments_and_knows_where_it_exists():
    alpha = np.repeat(np.float32([0.5, 3, 0, -1, np.inf]), 4000).reshape(5, 4000)
    rows = np.asarray(jax.jit(lambda key: _draw.gamma(key, alpha, alpha.shape, np.float32))(jax.random.key(1)))
    np.testing.assert_allclose(rows[:2].mean(1), [0.5, 3], rtol=0.06)
    np.testing.assert_allclose(rows[:2].var(1), [0.5, 3], rtol=0.15)
    assert (rows[2] == 0).all() and np.isnan(rows[3:]).all()
