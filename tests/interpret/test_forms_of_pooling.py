"""NumPy forms of pooling and enlarging beside XLA's programs."""

import numpy as np
import pytest

from mxjax.interpret.program import Unknown

from .forms import check

rng = np.random.RandomState(0)


def numbers(*shape, dtype="float32"):
    return rng.uniform(-1, 1, shape).astype(dtype)


GEOMETRIES = [
    ((9,), {"kernel": (3,), "stride": (2,), "pad": (1,)}),
    ((8, 9), {"kernel": (2, 2), "stride": (2, 2)}),
    ((8, 9), {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1), "pooling_convention": "full"}),
    ((8, 9), {"kernel": (3, 2), "stride": (3, 2), "pooling_convention": "same"}),
    ((8, 9), {"global_pool": True}),
    ((4, 5, 6), {"kernel": (2, 3, 2), "stride": (2, 1, 2), "pad": (0, 1, 1)}),
]


@pytest.mark.parametrize("kind", ["max", "avg", "sum", "lp"])
@pytest.mark.parametrize("space, options", GEOMETRIES)
def test_pooling(space, options, kind):
    check("Pooling", [numbers(2, 3, *space)], {"pool_type": kind, **options}, 1e-4)


def test_padding_that_does_not_count():
    options = {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1), "pool_type": "avg", "count_include_pad": False}
    check("Pooling", [numbers(2, 3, 6, 7)], options)
    check("Pooling", [numbers(2, 3, 6, 7)], {**options, "pooling_convention": "full"})


def test_channels_last():
    check("Pooling", [numbers(2, 6, 7, 3)], {"kernel": (2, 3), "layout": "NHWC"})
    check("Pooling", [numbers(2, 6, 7, 3)], {"global_pool": True, "layout": "NHWC", "pool_type": "avg"})


@pytest.mark.parametrize("power", [1, 3])
def test_powers(power):
    check("Pooling", [numbers(2, 3, 6, 7)], {"kernel": (2, 2), "pool_type": "lp", "p_value": power}, 1e-3)


@pytest.mark.parametrize("options", [{"kernel": (3, 3), "pad": (1, 1)}, {"kernel": (2, 2), "stride": (2, 2)},
                                     {"kernel": (10, 9)}, {"global_pool": True}])
def test_equal_maxima(options):
    data = rng.randint(0, 3, (2, 3, 12, 11)).astype("float32")
    check("Pooling", [data], options)


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_maxima_of_no_numbers_are_left_to_the_formula(value):
    with pytest.raises(Unknown):
        check("Pooling", [np.full((1, 1, 4, 4), value, "float32")], {"kernel": (2, 2)})


def test_images_in_parts(monkeypatch):
    from mxjax.interpret.operators import pooling
    monkeypatch.setattr(pooling, "_CACHE", 1 << 9)
    for kind in "max", "avg":
        check("Pooling", [numbers(3, 5, 6, 7)], {"kernel": (3, 3), "pad": (1, 1), "pool_type": kind})


@pytest.mark.parametrize("mode, shapes", [("concat", [(2, 3, 4, 5)]), ("concat", [(2, 3, 2, 3), (2, 1, 4, 6)]),
                                          ("sum", [(2, 3, 2, 3), (2, 3, 1, 6)])])
def test_enlarged(mode, shapes):
    check("UpSampling", [numbers(*shape) for shape in shapes], {
        "scale": 2, "sample_type": "nearest", "multi_input_mode": mode, "num_args": len(shapes)})
