"""NumPy forms of functions of each number beside XLA's programs."""

import numpy as np
import pytest

from .forms import check

rng = np.random.RandomState(0)


def numbers(*shape):
    return rng.uniform(0.2, 0.9, shape).astype("float32")


@pytest.mark.parametrize("name", ["tanh", "sigmoid", "relu", "exp", "square"])
def test_functions_of_one_array(name):
    check(name, [numbers(3, 4)])


@pytest.mark.parametrize("name", ["add", "sub", "mul"])
@pytest.mark.parametrize("shapes", [((3, 4), (3, 4)), ((3, 1), (1, 4)), ((2, 1, 4), (2, 3, 1))])
def test_functions_of_two_arrays(name, shapes):
    check(f"broadcast_{name}", [numbers(*shape) for shape in shapes])
    if shapes[0] == shapes[1]:
        check(f"elemwise_{name}", [numbers(*shape) for shape in shapes])
