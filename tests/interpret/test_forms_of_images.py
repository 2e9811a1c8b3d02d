"""NumPy forms of operators on images beside XLA's programs."""

import numpy as np
import pytest

from .forms import check, leaves_out

rng = np.random.RandomState(0)
COLOURS = rng.uniform(0, 255, (5, 4, 3)).astype("float32")
COLOURS[0, 0], COLOURS[1, 1, 1] = 90, 250  # a grey pixel, a green one
GREY = rng.uniform(0, 255, (5, 4, 1)).astype("float32")
BOUNDS = {"min_factor": 0.5, "max_factor": 1.5}


@pytest.mark.parametrize("name", ["brightness", "contrast", "saturation", "hue"])
def test_changes_of_colours(name):
    for image in (COLOURS, GREY, COLOURS.astype("float64")):
        check(f"_image_random_{name}", [image], BOUNDS, tolerance=1e-4, key=(np.float32(0.7),))
    check(f"_image_random_{name}", [COLOURS.astype("uint8")], BOUNDS, tolerance=0.02, gradients=False,
          key=(np.float32(1.4),))
    leaves_out(f"_image_random_{name}", [COLOURS.astype("float16")], BOUNDS)


def test_lighting():
    alpha = np.array([0.1, -0.2, 0.05], "float32")
    check("_image_random_lighting", [COLOURS], tolerance=1e-4, key=(alpha,))
    check("_image_random_lighting", [GREY], key=(alpha,))


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 1, 0, 2)])
def test_changes_in_random_order(order):
    factors = [1.2, 0.8, 1.1, 0.3]
    drawn = np.array([order, factors], "float32")
    strengths = {"brightness": 0.5, "contrast": 0.5, "saturation": 0.5, "hue": 0.5}
    check("_image_random_color_jitter", [COLOURS], strengths, tolerance=1e-4, key=(drawn,))


def test_two_of_the_changes():
    drawn = np.array([[1, 0], [1.2, 0.2]], "float32")
    check("_image_random_color_jitter", [COLOURS], {"brightness": 0.5, "contrast": 0, "saturation": 0, "hue": 0.3},
          tolerance=1e-4, key=(drawn,))


@pytest.mark.parametrize("name", ["random_flip_left_right", "random_flip_top_bottom"])
def test_flips(name):
    for kept in (True, False):
        check(f"_image_{name}", [COLOURS], key=(np.bool_(kept),))
        check(f"_image_{name}", [COLOURS.astype("uint8")], gradients=False, key=(np.bool_(kept),))


def test_tensors():
    check("_image_to_tensor", [COLOURS.astype("uint8")], gradients=False)
    check("_image_to_tensor", [rng.uniform(0, 255, (2, 3, 4, 1))], gradients=False)
    leaves_out("_image_to_tensor", [COLOURS.astype("float16")])


def test_normalization():
    planes = rng.rand(3, 4, 5).astype("float32")
    check("_image_normalize", [planes], {"mean": (0.4, 0.5, 0.6), "std": (0.2, 0.3, 0.1)})
    check("_image_normalize", [planes[None].astype("float64")], {"mean": (0.5,), "std": (0.2,)})
