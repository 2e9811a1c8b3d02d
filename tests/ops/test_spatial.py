"""Images: enlarging, cropping, sampling, pooling of regions, correlation."""

import numpy as np
import pytest
import scipy.ndimage
from opcall import call, check_derivatives, gradients, partial_shapes

from mxjax.base import MXNetError
from mxjax.ops.vision import spatial

RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 3, 4, 5)).astype("float32")


def test_nearest_upsampling():
    double = X.repeat(2, 2).repeat(2, 3)
    np.testing.assert_array_equal(call("UpSampling", X, scale=2, sample_type="nearest"), double)
    big = RNG.normal(size=(2, 1, 8, 10)).astype("float32")
    np.testing.assert_array_equal(call("UpSampling", X, big, scale=2, sample_type="nearest", num_args=2),
                                  np.concatenate([double, big], 1))
    np.testing.assert_array_equal(call("UpSampling", X, double, scale=2, sample_type="nearest", num_args=2,
                                       multi_input_mode="sum"), double + double)
    with pytest.raises(MXNetError, match="must divide"):
        call("UpSampling", X, X[:, :, :3], scale=2, sample_type="nearest", num_args=2)


def test_bilinear_upsampling():
    line = np.array([0.25, 0.75, 0.75, 0.25], "float32")
    weight = np.broadcast_to(np.outer(line, line), (3, 1, 4, 4))
    flat = call("UpSampling", np.ones_like(X), weight, scale=2, sample_type="bilinear", num_filter=3, num_args=2)
    assert flat.shape == (2, 3, 8, 10) and np.allclose(flat[:, :, 1:-1, 1:-1], 1)
    assert partial_shapes("UpSampling", [X.shape, None], scale=3, sample_type="bilinear")[0][1] == (3, 1, 5, 5)


def test_crop():
    np.testing.assert_array_equal(call("Crop", X, h_w=(2, 3), offset=(1, 2)), X[:, :, 1:3, 2:5])
    np.testing.assert_array_equal(call("Crop", X, X[:, :1, :2, :3], center_crop=True, num_args=2), X[:, :, 1:3, 1:4])
    with pytest.raises(MXNetError, match="not inside"):
        call("Crop", X, h_w=(2, 3), offset=(3, 0))


def test_sampling():
    y, x = RNG.uniform(-1, 4, (2, 2, 6, 7))
    grid = np.stack([x * 2 / 4 - 1, y * 2 / 3 - 1], 1).astype("float32")
    wanted = [[scipy.ndimage.map_coordinates(X[n, c], [y[n], x[n]], order=1, mode="grid-constant") for c in range(3)]
              for n in range(2)]
    np.testing.assert_allclose(call("BilinearSampler", X, grid), wanted, rtol=1e-4, atol=1e-5)
    check_derivatives(spatial.sample, (X.astype("float64"), grid.astype("float64")), 1, eps=1e-6)


def test_affine_maps():
    same, mirrored = [1, 0, 0, 0, 1, 0], [-1, 0, 0, 0, 1, 0]
    theta = np.array([same, mirrored], "float32")
    options = {"target_shape": (4, 5), "transform_type": "affine"}
    np.testing.assert_allclose(call("SpatialTransformer", X, theta, sampler_type="bilinear", **options),
                               [X[0], X[1, :, :, ::-1]], rtol=1e-4, atol=1e-5)
    grid = call("GridGenerator", theta, **options)
    np.testing.assert_allclose(grid[0, :, 0, 0], [-1, -1])
    np.testing.assert_allclose(grid[1, :, 3, 0], [1, 1])
    flow = np.zeros((1, 2, 4, 5), "float32")
    flow[:, 0] = 2
    np.testing.assert_allclose(call("GridGenerator", flow, transform_type="warp")[0, :, 0],
                               [[0, 0.5, 1, 1.5, 2], [-1] * 5], atol=1e-6)
    assert partial_shapes("SpatialTransformer", [X.shape, None], sampler_type="bilinear", **options)[0][1] == (2, 6)


def test_roi_pooling():
    image = np.arange(2 * 6 * 6, dtype="float32").reshape(2, 1, 6, 6)
    rois = np.array([[0, 0, 0, 3, 3], [1, 2, 2, 3, 2], [1, 0, 0, 11, 11], [5, 0, 0, 3, 3]], "float32")
    out = call("ROIPooling", image, rois, pooled_size=(2, 2), spatial_scale=1.0)
    assert out[0, 0].tolist() == [[7, 9], [19, 21]]
    assert out[1, 0].tolist() == [[50, 51], [50, 51]]
    assert out[2, 0].tolist() == [[71, 0], [0, 0]], "parts outside of the image are 0"
    assert not out[3].any(), "no such image"
    slope = gradients("ROIPooling", np.zeros_like(image), rois[:1], pooled_size=(2, 2), spatial_scale=1.0)[0]
    assert slope[0, 0].nonzero()[0].tolist() == [0, 0, 2, 2], "the first of equal values"
    assert slope[0, 0].nonzero()[1].tolist() == [0, 2, 0, 2]


def test_roi_pooling_of_many_shapes():
    """Against a loop over the pixels of each part; with positions that are no numbers, and pixels that are none."""
    image = RNG.normal(size=(2, 3, 9, 11)).astype("float32")
    image[1, 1, 2:5] = np.nan
    corners = RNG.uniform(-3, 12, size=(12, 2))
    rois = np.hstack([RNG.integers(0, 2, size=(12, 1)), corners, corners + RNG.uniform(0, 9, size=(12, 2))])
    rois = rois.astype("float32")
    out = call("ROIPooling", image, np.vstack([rois, np.full((2, 5), np.nan, "float32")]), pooled_size=(3, 2),
               spatial_scale=0.7)
    assert out.shape == (14, 3, 3, 2)
    head, slope = RNG.normal(size=(12, 3, 3, 2)).astype("float32"), np.zeros(image.shape)
    for (number, *box), found, given in zip(rois, out, head, strict=False):
        x1, y1, x2, y2 = np.floor(np.abs(np.float32(0.7) * np.float32(box)) + 0.5) * np.sign(box)
        for c, i, j in np.ndindex(3, 3, 2):
            (top, bottom), (left, right) = [
                [int(np.clip(edge + low, 0, size)) for edge in (np.floor(k * part), np.ceil((k + 1) * part))]
                for k, low, part, size in ((i, y1, max(y2 - y1 + 1, 1) / 3, 9), (j, x1, max(x2 - x1 + 1, 1) / 2, 11))]
            pixels = image[int(number), c, top:bottom, left:right]
            numbers = np.nan_to_num(pixels, nan=-np.inf)
            if not pixels.size:
                assert found[c, i, j] == 0
            elif np.isinf(numbers).all():
                assert found[c, i, j] == np.finfo("float32").min
            else:
                assert found[c, i, j] == numbers.max()
                y, x = np.unravel_index(numbers.argmax(), numbers.shape)
                slope[int(number), c, top + y, left + x] += given[c, i, j]
    np.testing.assert_allclose(gradients("ROIPooling", image, rois, heads=[head], pooled_size=(3, 2),
                                         spatial_scale=0.7)[0], slope, rtol=1e-5, atol=1e-6)
    with pytest.raises(MXNetError, match="ROIPooling"):
        call("ROIPooling", np.ones((1, 1, 4, 4), "int32"), rois, pooled_size=(3, 2), spatial_scale=1.0)


@pytest.mark.parametrize("multiply", [True, False])
def test_correlation(multiply):
    a, b = RNG.normal(size=(2, 1, 2, 5, 6)).astype("float32")
    params = {"kernel_size": 3, "max_displacement": 2, "stride1": 2, "stride2": 2, "pad_size": 2,
              "is_multiply": multiply}
    pa, pb = (np.pad(x[0], [(0, 0), (2, 2), (2, 2)]) for x in (a, b))
    out = call("Correlation", a, b, **params)
    assert out.shape == (1, 9, 2, 2)
    for k, (dy, dx) in enumerate((dy, dx) for dy in (-2, 0, 2) for dx in (-2, 0, 2)):
        for i in range(2):
            for j in range(2):
                y, x = 2 * i + 2, 2 * j + 2
                one, two = pa[:, y:y + 3, x:x + 3], pb[:, y + dy:y + dy + 3, x + dx:x + dx + 3]
                np.testing.assert_allclose(out[0, k, i, j], (one * two if multiply else abs(one - two)).mean(),
                                           rtol=1e-4, atol=1e-6)
    check_derivatives(lambda *v: spatial.correlation(*v, **params), (a.astype("float64"), b.astype("float64")), 1,
                      eps=1e-6)
    with pytest.raises(MXNetError, match="odd"):
        call("Correlation", a, b, kernel_size=2)


@pytest.mark.parametrize("size, reach, stride", [((4, 37), 3, 2), ((2, 16), 1, 1), ((3, 5), 7, 3)])
def test_correlation_of_rows_in_blocks(size, reach, stride):
    a, b = RNG.normal(size=(2, 2, 3, *size)).astype("float32")
    out = call("Correlation", a, b, max_displacement=reach, stride2=stride, pad_size=reach)
    padded = np.pad(b, [(0, 0), (0, 0), (reach, reach), (reach, reach)])
    steps = range(reach - reach // stride * stride, 2 * reach + 1, stride)
    expected = [(a * padded[:, :, dy:dy + size[0], dx:dx + size[1]]).mean(1) for dy in steps for dx in steps]
    np.testing.assert_allclose(out, np.stack(expected, 1), rtol=1e-4, atol=1e-6)
