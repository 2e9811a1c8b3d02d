"""NumPy forms of activations beside XLA's programs."""

import numpy as np
import pytest

from mxjax.kernel.kernel import prepare
from mxjax.ops import registry

from .forms import check

rng = np.random.RandomState(0)


def numbers(*shape, dtype="float32"):
    return rng.uniform(-3, 3, shape).astype(dtype)


@pytest.mark.parametrize("kind", ["relu", "tanh", "sigmoid", "softsign", "softrelu"])
def test_activations(kind):
    check("Activation", [numbers(5, 7)], {"act_type": kind})


@pytest.mark.parametrize("kind", ["leaky", "elu", "selu", "gelu"])
def test_slopes_of_negative_numbers(kind):
    data = numbers(5, 7)
    data[0] = 0
    check("LeakyReLU", [data], {"act_type": kind, "slope": 0.3})


@pytest.mark.parametrize("shape, slopes", [((4, 3), 3), ((4, 3, 2), 3), ((4, 3, 2), 1)])
def test_learnt_slopes(shape, slopes):
    check("LeakyReLU", [numbers(*shape), numbers(slopes)], {"act_type": "prelu"})


@pytest.mark.parametrize("options", [{}, {"axes": (1,)}, {"output_mask": True}])
def test_dropout_of_what_was_drawn_before(options):
    kept = rng.uniform(size=(4, 1 if "axes" in options else 5)) < 0.5
    check("Dropout", [numbers(4, 5)], {"p": 0.4, **options}, key=(kept,))


def test_dropout_that_is_not_active():
    data, op = numbers(4, 5), registry.get("Dropout")
    kernel = prepare(op, op.parse({"p": 0.5}), 1, False)
    key = np.zeros(2, "uint32"), np.uint32(0)
    assert (kernel.form([data, *key])[0](data, *key)[0] == data).all()
