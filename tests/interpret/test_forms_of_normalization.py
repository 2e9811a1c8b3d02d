"""NumPy forms of normalizations beside XLA's programs."""

import numpy as np
import pytest

from .forms import check

rng = np.random.RandomState(0)


def numbers(*shape, dtype="float32"):
    return rng.uniform(0.2, 1, shape).astype(dtype)


@pytest.mark.parametrize("options", [{}, {"fix_gamma": False}, {"fix_gamma": False, "use_global_stats": True}])
@pytest.mark.parametrize("shape", [(4, 3, 5, 2), (6, 3)])
def test_batch(shape, options):
    check("BatchNorm", [numbers(*shape), *[numbers(3) for _ in range(4)]], {"momentum": 0.8, **options}, 1e-4)


@pytest.mark.parametrize("name", ["BatchNorm", "BatchNorm_v1"])
def test_batch_with_moments(name):
    options = {"output_mean_var": True, "fix_gamma": False, **({"axis": -1} if name == "BatchNorm" else {})}
    shape = (4, 2, 3) if name == "BatchNorm" else (4, 3, 2)
    check(name, [numbers(*shape), *[numbers(3) for _ in range(4)]], options, 1e-4)


@pytest.mark.parametrize("options", [{}, {"axis": 1}, {"axis": 0, "output_mean_var": True}])
def test_layer(options):
    size = (4, 5, 6)[options.get("axis", -1)]
    check("LayerNorm", [numbers(4, 5, 6), numbers(size), numbers(size)], options, 1e-4)


@pytest.mark.parametrize("options", [{"num_groups": 2}, {"num_groups": 4, "output_mean_var": True}])
def test_group(options):
    check("GroupNorm", [numbers(3, 4, 5, 2), *[numbers(options["num_groups"]) for _ in range(2)]], options, 1e-4)


def test_instance():
    check("InstanceNorm", [numbers(3, 4, 5, 2), numbers(4), numbers(4)], {"eps": 1e-2}, 1e-4)


@pytest.mark.parametrize("mode", ["instance", "channel", "spatial"])
def test_sum_of_squares(mode):
    check("L2Normalization", [numbers(3, 4, 5)], {"mode": mode, "eps": 0.1})


@pytest.mark.parametrize("size", [1, 4, 5, 21])
def test_neighbouring_channels(size):
    check("LRN", [numbers(3, 8, 4, 2)], {"nsize": size, "alpha": 0.5, "beta": 0.6, "knorm": 1.5})
