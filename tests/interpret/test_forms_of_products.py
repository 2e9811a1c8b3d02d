"""NumPy forms of layers beside XLA's programs."""

import numpy as np
import pytest

from .forms import check

rng = np.random.RandomState(0)


def numbers(*shape, dtype="float32"):
    return rng.uniform(-1, 1, shape).astype(dtype)


@pytest.mark.parametrize("flatten", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_dense(bias, flatten):
    width = 12 if flatten else 4
    arrays = [numbers(5, 3, 4), numbers(6, width), *[numbers(6)] * bias]
    check("FullyConnected", arrays, {"num_hidden": 6, "no_bias": not bias, "flatten": flatten})


@pytest.mark.parametrize("kind", ["relu", "tanh", "sigmoid", "softsign", "softrelu"])
def test_activations(kind):
    check("Activation", [numbers(5, 7) * 4], {"act_type": kind})
