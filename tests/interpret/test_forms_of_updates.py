"""NumPy forms of optimizers' updates beside XLA's programs."""

import numpy as np
import pytest

from .forms import check

rng = np.random.RandomState(0)
OPTIONS = [{"lr": 0.1}, {"lr": 0.1, "wd": 0.01, "rescale_grad": 0.5, "clip_gradient": 0.2}]


def numbers(count):
    return [rng.uniform(0, 1, (4, 5)).astype("float32") for _ in range(count)]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("name, states, more", [("sgd_update", 0, {}), ("sgd_mom_update", 1, {"momentum": 0.9})])
def test_updates(name, states, more, options):
    check(name, numbers(2 + states), {**options, **more}, gradients=False)
