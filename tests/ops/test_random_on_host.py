"""Gamma, Poisson, negative binomial numbers, classes, orders and augmentations of images are MXNet's on CPUs.

The numbers and checksums wanted are MXNet 1.9.1's own.
"""

import zlib

import numpy as np
import pytest

import mxjax as mx

SIZES = {42: (1, 5, 64, 65, 70000), 0: (5, 65), -3: (5, 65)}
ALPHA, BETA = [0.3, 1, 2.5, 20], [1, 2, 0.5, 3]
WHOLE_ALPHA, WHOLE_BETA = [1, 2, 5, 20], [1, 2, 4, 3]
IMAGE = (np.arange(6 * 4 * 3).reshape(6, 4, 3) * 3).astype("uint8")


def checksum(draw, sizes=None):
    """Of two draws for each seed and size, and of draws from both sources after them, which show where these stand."""
    value = 0
    for seed, counts in (sizes or SIZES).items():
        for n in counts:
            mx.random.seed(seed)
            for drawn in (draw(n), draw(n), mx.nd.random.uniform(shape=70), mx.np.random.uniform(size=3)):
                for array in drawn if isinstance(drawn, (list, tuple)) else [drawn]:
                    value = zlib.crc32(array.asnumpy().tobytes(), value)
    return value


NUMBERS = {  # name: draw(n, dtype)
    "gamma(0.3)": lambda n, d: mx.nd.random.gamma(0.3, 2, shape=n, dtype=d),
    "gamma(4.5)": lambda n, d: mx.nd.random.gamma(4.5, 0.7, shape=n, dtype=d),
    "poisson(0)": lambda n, d: mx.nd.random.poisson(0, shape=n, dtype=d),
    "poisson(4)": lambda n, d: mx.nd.random.poisson(4, shape=n, dtype=d),
    "poisson(131.24)": lambda n, d: mx.nd.random.poisson(131.24, shape=n, dtype=d),
    "negative_binomial": lambda n, d: mx.nd.random.negative_binomial(3, 0.4, shape=n, dtype=d),
    "generalized(0.3)": lambda n, d: mx.nd.random.generalized_negative_binomial(20, 0.3, shape=n, dtype=d),
    "generalized(0)": lambda n, d: mx.nd.random.generalized_negative_binomial(2, 0, shape=n, dtype=d),
}


def arrays(kind):
    both = (WHOLE_ALPHA, WHOLE_BETA) if kind == "int32" else (ALPHA, BETA)
    return [mx.nd.array(values, dtype=kind) for values in both]


def chance(b):
    return b if b.dtype == np.int32 else b / 4


SAMPLES = {  # name: draw(shape, dtype, dtype of the parameters, *parameters)
    "gamma": lambda n, d, kind, a, b: mx.nd.sample_gamma(a, b, shape=n, dtype=d),
    "poisson": lambda n, d, kind, a, b: mx.nd.sample_poisson(a, shape=n, dtype=d),
    "negative_binomial": lambda n, d, kind, a, b: mx.nd.sample_negative_binomial(a, chance(b), shape=n, dtype=d),
    "generalized": lambda n, d, kind, a, b: mx.nd.sample_generalized_negative_binomial(a, b, shape=n, dtype=d),
    "uniform": lambda n, d, kind, a, b: mx.nd.sample_uniform(a, a + b, shape=n, dtype=d),
    "normal": lambda n, d, kind, a, b: mx.nd.sample_normal(a, b, shape=n, dtype=d),
    "exponential": lambda n, d, kind, a, b: mx.nd.sample_exponential(a, shape=n, dtype=d),
}
KINDS = ("float32", "float64", "float16", "int32")
CLASSES = mx.nd.array([[0.1, 0.2, 0.3, 0.4], [0.7, 0.1, 0.1, 0.1], [0, 0.5, 0.5, 0]])

CHOICES = {  # name: (draw(n), sizes by seed)
    "shuffle": (lambda n: mx.nd.random.shuffle(mx.nd.arange(n)), {42: (1, 2, 999, 1000, 70000), -3: (5,)}),
    "shuffle rows": (lambda n: mx.nd.random.shuffle(mx.nd.arange(3 * n).reshape((n, 3))), {42: (1, 2, 70), -3: (5,)}),
    "multinomial": (lambda n: mx.nd.sample_multinomial(CLASSES, shape=n), {42: (1, 2, 7, 70000), 0: (5,), -3: (5,)}),
    "multinomial of one": (lambda n: mx.nd.sample_multinomial(CLASSES[0], shape=(2, n), dtype="float64"), {42: (1, 9)}),
    "multinomial of many": (lambda n: mx.nd.sample_multinomial(mx.nd.ones((n, 4)) / 4), {42: (1, 500)}),
    "zipfian": (lambda n: mx.nd._internal._sample_unique_zipfian(50000, shape=(n, 70)), {42: (1, 3, 1100), -3: (2,)}),
    "all of zipfian": (lambda n: mx.nd._internal._sample_unique_zipfian(n, shape=(2, n)), {42: (1, 12)}),
}

IMAGES = {  # name: draw(image); uint8 and no sums, so that each pixel is MXNet's
    "flip left right": mx.nd.image.random_flip_left_right,
    "flip top bottom": mx.nd.image.random_flip_top_bottom,
    "brightness": lambda x: mx.nd.image.random_brightness(x, 0.5, 1.5),
    "saturation": lambda x: mx.nd.image.random_saturation(x, 0.5, 1.5),
    "lighting": lambda x: mx.nd.image.random_lighting(x, 0.1),
    "jitter": lambda x: mx.nd.image.random_color_jitter(x, brightness=0.4, contrast=0, saturation=0.3, hue=0),
}

# three numbers for the seed 42, checksums in float32, float64, float16
NUMBERS_WANTED = {
    "gamma(0.3)": ([0.4750904, 0.09368204, 0.06603937], [831811848, 270502387, 754465885]),
    "gamma(4.5)": ([3.740461, 6.75907, 3.353], [2542072676, 2279092359, 3222543545]),
    "poisson(0)": ([0.0, 0.0, 0.0], [4030719551, 3196092265, 3877783019]),
    "poisson(4)": ([8.0, 2.0, 4.0], [2501431751, 2595731709, 1065001526]),
    "poisson(131.24)": ([121.0, 114.0, 136.0], [4131593876, 449601912, 3005359111]),
    "negative_binomial": ([7.0, 7.0, 1.0], [2859498899, 191169103, 1481038788]),
    "generalized(0.3)": ([26.0, 22.0, 12.0], [3185327856, 248388145, 3607728598]),
    "generalized(0)": ([4.0, 3.0, 1.0], [1301521690, 4031623509, 2182417451]),
}

# checksums in these dtypes for parameters of each of KINDS
SAMPLES_WANTED = {
    "gamma": ((2066040848, 2515149829, 1038607652),
        (1739125794, 1465865907, 2232008970),
        (3364714908, 2529169843, 1349329878),
        (1932133860, 2570184992, 1060775537)),
    "poisson": ((2191625918, 489862689, 2995956091),
        (2191625918, 489862689, 2995956091),
        (2191625918, 489862689, 2995956091),
        (3579987177, 1688017963, 1698063462)),
    "negative_binomial": ((316775457, 1141399383, 3386043942),
        (316775457, 1141399383, 3386043942),
        (24917959, 3837486839, 2202921102),
        (415496903, 823143084, 3670453968)),
    "generalized": ((1930097249, 1653692999, 3338242373),
        (1930097249, 1653692999, 3338242373),
        (2909900135, 2988172210, 3637703588),
        (1535988797, 2612071167, 3212224312)),
    "uniform": ((2215806408, 3993746626, 3606275305),
        (2466721126, 3847483563, 3606275305),
        (2257116625, 1405954302, 4128989381),
        (3799140659, 340292433, 3250754234)),
    "normal": ((1886077809, 1136961407, 2366964560),
        (1450308283, 2507863482, 2366964560),
        (2991157123, 2074431437, 1459612483),
        (903810505, 2604081550, 1499327247)),
    "exponential": ((204633226, 1117401137, 464916648),
        (1327544107, 404405228, 464916648),
        (1096623075, 3222245399, 3356901040),
        (1383474301, 2617971197, 1620777248)),
}

OTHERS_WANTED = {
    "shuffle": 9421029, "shuffle rows": 1094169176, "multinomial": 3430919335, "multinomial of one": 1048362458,
    "multinomial of many": 535755314, "zipfian": 2417520625, "all of zipfian": 4199418751,
    "flip left right": 1937034748, "flip top bottom": 2115082406, "brightness": 433841457, "saturation": 1906497903,
    "lighting": 1705253180, "jitter": 3888777967,
}
EACH_WANTED = {"gamma": 3497272891, "poisson": 352539101, "mixture": 1059830060}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers(name):
    first, checksums = NUMBERS_WANTED[name]
    draw = NUMBERS[name]
    mx.random.seed(42)
    np.testing.assert_allclose(draw(3, "float32").asnumpy(), first, rtol=1e-6)
    assert [checksum(lambda n, d=d: draw(n, d)) for d in KINDS[:3]] == checksums


@pytest.mark.parametrize("name", SAMPLES)
def test_samples_for_arrays_of_parameters(name):
    for kind, wanted in zip(KINDS, SAMPLES_WANTED[name], strict=True):
        for dtype, value in zip(KINDS, wanted, strict=False):
            found = checksum(lambda n, d=dtype, k=kind: SAMPLES[name](n, d, k, *arrays(k)), {42: (1, 300)})
            assert found == value, (kind, dtype)


def test_each_number_has_its_own_parameters():
    alpha, rate = mx.nd.array(np.linspace(0.2, 9, 300)), mx.nd.array(np.linspace(1, 40, 300))
    draws = {"gamma": lambda n: mx.nd.sample_gamma(alpha, rate), "poisson": lambda n: mx.nd.sample_poisson(rate),
             "mixture": lambda n: mx.nd.sample_generalized_negative_binomial(rate, alpha)}
    assert {name: checksum(draw, {42: (1,)}) for name, draw in draws.items()} == EACH_WANTED


@pytest.mark.parametrize("name", CHOICES)
def test_choices(name):
    assert checksum(*CHOICES[name]) == OTHERS_WANTED[name]


@pytest.mark.parametrize("name", IMAGES)
def test_augmentations(name):
    image = mx.nd.array(IMAGE, dtype="uint8")
    assert checksum(lambda n: [IMAGES[name](image) for _ in range(n)], {42: (1, 3), -3: (3,)}) == OTHERS_WANTED[name]


def test_impossible_parameters_give_no_number_and_no_endless_loop():
    alpha = mx.nd.array([-1, np.nan, np.inf, 2])
    drawn = mx.nd.sample_gamma(alpha, mx.nd.ones(4), shape=3).asnumpy()
    assert np.isnan(drawn[:3]).all() and (drawn[3] > 0).all()
    assert mx.nd.sample_poisson(alpha, shape=3).shape == (4, 3)
    assert np.isnan(mx.nd.sample_negative_binomial(alpha, mx.nd.ones(4) / 2).asnumpy()[1])
    assert mx.nd.random.gamma(shape=(0, 3)).shape == (0, 3)


def test_samples_for_arrays_are_float32_and_integers_are_no_bytes():
    """The numbers are MXNet's: its parameters may be integers, and high below low."""
    mx.random.seed(3)
    low, high = mx.nd.array([3, 1, 2], dtype="uint8"), mx.nd.array([1, 4, 2], dtype="uint8")
    drawn = mx.nd.sample_uniform(low, high, shape=2)
    np.testing.assert_allclose(drawn.asnumpy().ravel()[:4], [1.8293955, 2.1566849, 2.3241732, 1.9825814], rtol=1e-6)
    for dtype in ("float16", "float64"):
        assert mx.nd.sample_normal(low.astype(dtype), high.astype(dtype)).dtype == np.float32
    assert mx.nd.sample_normal(low, high, dtype="float16").dtype == np.float16
    with pytest.raises(mx.MXNetError, match="length of 0"):
        mx.nd.sample_poisson(low, shape=(0,))
    with pytest.raises(mx.MXNetError, match="dtype must be"):
        mx.nd.sample_multinomial(mx.nd.array([0.5, 0.5]), dtype="int64")


def test_gradients_of_logarithms_of_classes():
    chances = mx.nd.array([[0.2, 0.8], [0.5, 0.5]])
    chances.attach_grad()
    with mx.autograd.record():
        classes, logs = mx.nd.sample_multinomial(chances, get_prob=True)
    logs.backward()
    rows = np.arange(2)
    picked = chances.asnumpy()[rows, classes.asnumpy()]
    np.testing.assert_allclose(logs.asnumpy(), np.log(picked), rtol=1e-6)
    np.testing.assert_allclose(chances.grad.asnumpy()[rows, classes.asnumpy()], 1 / picked, rtol=1e-6)
