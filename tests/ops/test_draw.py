"""Random numbers drawn as vectors."""

import jax
import numpy as np
import pytest

from mxjax.ops import _draw


@pytest.mark.parametrize("shape", [(), (0, 3), (7,), (3, 5, 2, 101)])
def test_the_numbers_are_those_of_the_shape(shape):
    key = jax.random.key(3)
    pairs = ((_draw.uniform, jax.random.uniform, "float32"), (_draw.normal, jax.random.normal, "float32"),
             (_draw.integers, jax.random.randint, -5, 9))
    for own, theirs, *of in pairs:
        np.testing.assert_allclose(own(key, shape, *of), theirs(key, shape, *of), rtol=1e-6)
    np.testing.assert_array_equal(_draw.bernoulli(key, shape, 0.3), jax.random.bernoulli(key, 0.3, shape))
