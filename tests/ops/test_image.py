"""Operators on images: tensors, parts, colours, decoding."""

import colorsys

import numpy as np
import pytest
from opcall import call, gradients

import mxjax as mx
from mxjax.base import MXNetError

RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (6, 5, 3)).astype("uint8")
FLOATS = PIXELS.astype("float32")


def test_tensors():
    tensor = call("_image_to_tensor", PIXELS)
    np.testing.assert_allclose(tensor, np.moveaxis(FLOATS / 255, 2, 0), rtol=1e-6)
    assert call("_image_to_tensor", np.stack([PIXELS] * 2)).shape == (2, 3, 6, 5)
    out = call("_image_normalize", tensor, mean=(0.1, 0.2, 0.3), std=(2,))
    np.testing.assert_allclose(out, (tensor - np.array([0.1, 0.2, 0.3])[:, None, None]) / 2, rtol=1e-5, atol=1e-6)
    assert (gradients("_image_normalize", tensor, mean=(0,), std=(2,))[0] == 0.5).all()
    with pytest.raises(MXNetError, match="1 or 3 numbers"):
        call("_image_normalize", tensor, mean=(1, 2))


def test_parts():
    np.testing.assert_array_equal(call("_image_crop", PIXELS, x=1, y=2, width=3, height=4), PIXELS[2:6, 1:4])
    np.testing.assert_array_equal(call("_image_flip_left_right", PIXELS), PIXELS[:, ::-1])
    np.testing.assert_array_equal(call("_image_flip_top_bottom", PIXELS), PIXELS[::-1])
    with pytest.raises(MXNetError, match="not inside"):
        call("_image_crop", PIXELS, x=3, y=2, width=3, height=4)
    with pytest.raises(MXNetError, match="3 dimensions"):
        call("_image_flip_left_right", PIXELS[None])


def _turned(pixel, turn):
    hue, light, saturation = colorsys.rgb_to_hls(*pixel / 255)
    return np.array(colorsys.hls_to_rgb(hue + turn, light, saturation)) * 255


COLOURS = {"brightness": lambda x, f: x * f,
           "contrast": lambda x, f: x * f + (1 - f) * (x @ [0.299, 0.587, 0.114]).mean(),
           "saturation": lambda x, f: x * f + (1 - f) * 0.114 * x[..., 2:],
           "hue": lambda x, f: np.apply_along_axis(_turned, 2, x, f)}


@pytest.mark.parametrize("name", COLOURS)
def test_colours(name):
    options = {"min_factor": 0.7, "max_factor": 0.7}
    wanted = COLOURS[name](FLOATS.astype(float), 0.7)
    np.testing.assert_allclose(call(f"_image_random_{name}", FLOATS, **options), wanted, rtol=1e-3, atol=1e-2)
    bytes_ = call(f"_image_random_{name}", PIXELS, **options)
    assert bytes_.dtype == np.uint8 and abs(bytes_ - np.clip(wanted, 0, 255)).max() < 1.01
    assert (gradients(f"_image_random_{name}", FLOATS, **options)[0] == 1).all()
    drawn = call(f"_image_random_{name}", FLOATS, min_factor=0.5, max_factor=0.9)
    assert abs(drawn - FLOATS).max() > 1


def test_lighting_and_jitter():
    added = call("_image_adjust_lighting", FLOATS, alpha=(0.1, 0, 0)) - FLOATS
    np.testing.assert_allclose(added[0, 0], 5.546 * np.array([-0.5675, -0.5808, -0.5836]), rtol=1e-3)
    np.testing.assert_array_equal(call("_image_random_lighting", FLOATS, alpha_std=0), FLOATS)
    same = call("_image_random_color_jitter", PIXELS, brightness=0, contrast=0, saturation=0, hue=0)
    np.testing.assert_array_equal(same, PIXELS)
    assert call("_image_random_color_jitter", PIXELS, brightness=0.5, contrast=0.1, saturation=0.1, hue=0.1).shape == \
        PIXELS.shape


def test_opencv_operators(tmp_path):
    cv2 = pytest.importorskip("cv2")
    cv2.imwrite(str(tmp_path / "image.png"), PIXELS[..., ::-1])
    file = np.frombuffer((tmp_path / "image.png").read_bytes(), "uint8")
    decode = mx.nd._internal._cvimdecode
    np.testing.assert_array_equal(decode(mx.nd.array(file, dtype="uint8")).asnumpy(), PIXELS)
    read = mx.nd._internal._cvimread
    np.testing.assert_array_equal(read(filename=str(tmp_path / "image.png"), to_rgb=False).asnumpy(), PIXELS[..., ::-1])
    image = mx.nd.array(PIXELS, dtype="uint8")
    np.testing.assert_array_equal(mx.nd.image.resize(image, size=(4, 3), interp=0).asnumpy(),
                                  cv2.resize(PIXELS, (4, 3), interpolation=cv2.INTER_NEAREST))
    bordered = mx.nd._internal._cvcopyMakeBorder(image, top=1, bot=0, left=2, right=0, value=9)
    assert bordered.shape == (7, 7, 3) and (bordered.asnumpy()[0] == 9).all()
    graph = mx.sym.image.to_tensor(mx.sym.image.resize(mx.sym.var("x", dtype="uint8"), size=4, keep_ratio=True)) * 2
    assert graph.infer_shape(x=(6, 5, 3))[1] == [(3, 4, 4)]
    assert graph.eval(x=image)[0].shape == (3, 4, 4)
    with pytest.raises(MXNetError, match="couldn't open"):
        read(filename=str(tmp_path / "none.png"))
