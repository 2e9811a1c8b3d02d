"""`gluon.contrib.data.vision`: images with boxes; numbers of MXNet 2.0.0b1."""

import random

import numpy as np
import pytest

import mxjax as mx
from mxjax.gluon.contrib.data import vision
from mxjax.gluon.contrib.data.vision.transforms.bbox import utils

BOXES = np.array([[1, 2, 5, 6, 7], [4, 4, 9, 8, 1], [0, 0, 2, 1, 3]], "float32")
IMAGE = np.arange(8 * 10 * 3).reshape(8, 10, 3).astype("uint8")


@pytest.mark.parametrize(("found", "expected"), [
    (lambda: utils.bbox_crop(BOXES, (2, 2, 4, 4)), [[0, 0, 3, 4, 7], [2, 2, 4, 4, 1]]),
    (lambda: utils.bbox_crop(BOXES, (2, 2, 4, 4), False), [[0, 0, 3, 4, 7]]),
    (lambda: utils.bbox_crop(BOXES, (None, 3, None, None)), [[1, 0, 5, 3, 7], [4, 1, 9, 5, 1]]),
    (lambda: utils.bbox_crop(BOXES), BOXES),
    (lambda: utils.bbox_flip(BOXES, (10, 8), True, True), [[5, 2, 9, 6, 7], [1, 0, 6, 4, 1], [8, 7, 10, 8, 3]]),
    (lambda: utils.bbox_resize(BOXES, (10, 8), (20, 24)), [[2, 6, 10, 18, 7], [8, 12, 18, 24, 1], [0, 0, 4, 3, 3]]),
    (lambda: utils.bbox_translate(BOXES, 3, -1), [[4, 1, 8, 5, 7], [7, 3, 12, 7, 1], [3, -1, 5, 0, 3]]),
    (lambda: utils.bbox_iou(BOXES, BOXES[:2]), [[1, 0.0588235], [0.0588235, 1], [0, 0]]),
    (lambda: utils.bbox_iou(BOXES, BOXES[:2], 1), [[1, 0.122449], [0.122449, 1], [0, 0]]),
    (lambda: utils.bbox_xywh_to_xyxy((1, 2, 3, 0)), (1, 2, 3, 2)),
    (lambda: utils.bbox_xywh_to_xyxy(BOXES[:, :4]), [[1, 2, 5, 7], [4, 4, 12, 11], [0, 0, 1, 0]]),
    (lambda: utils.bbox_xyxy_to_xywh((1, 2, 3, 5)), (1, 2, 3, 4)),
    (lambda: utils.bbox_xyxy_to_xywh(BOXES[:, :4]), [[1, 2, 5, 5], [4, 4, 6, 5], [0, 0, 3, 2]]),
    (lambda: utils.bbox_clip_xyxy((-1, 2, 30, 5), 10, 4), (0, 2, 9, 3)),
    (lambda: utils.bbox_clip_xyxy(BOXES[:, :4], 4, 4)[0], [1, 2, 3, 3]),
])
def test_arithmetic(found, expected):
    np.testing.assert_allclose(found(), expected, rtol=1e-5)


@pytest.mark.parametrize("numpy_arrays", [False, True])
def test_transforms(numpy_arrays):
    with mx.util.np_array(numpy_arrays), mx.util.np_shape(numpy_arrays):
        make = mx.np.array if numpy_arrays else mx.nd.array
        image, boxes = make(IMAGE, dtype="uint8"), make(BOXES)
        out, moved = vision.ImageBboxRandomFlipLeftRight(1)(image, boxes)
        np.testing.assert_array_equal(out.asnumpy(), IMAGE[:, ::-1])
        assert moved.asnumpy().tolist() == [[5, 2, 9, 6, 7], [1, 4, 6, 8, 1], [8, 0, 10, 1, 3]]
        assert type(moved) is type(boxes) and boxes.asnumpy().tolist() == BOXES.tolist()
        assert vision.ImageBboxRandomFlipLeftRight(0)(image, boxes) == (image, boxes)
        out, moved = vision.ImageBboxCrop((2, 2, 4, 4))(image, boxes)
        np.testing.assert_array_equal(out.asnumpy(), IMAGE[2:6, 2:6])
        assert moved.asnumpy().tolist() == [[0, 0, 3, 4, 7]]
        assert vision.ImageBboxCrop((2, 2, 8, 6))(image, boxes) == (image, boxes)  # as in MXNet: not less than all
        out, moved = vision.ImageBboxResize(20, 24)(image, boxes)
        assert out.shape == (24, 20, 3) and moved[0].asnumpy().tolist() == [2, 6, 10, 18, 7]


def test_expansion():
    random.seed(3)
    image, boxes = mx.nd.array(IMAGE, dtype="uint8"), mx.nd.array(BOXES)
    out, moved = vision.ImageBboxRandomExpand(1, 3, [7, 8, 9], keep_ratio=False)(image, boxes)
    left, top = (moved[0, :2].asnumpy() - BOXES[0, :2]).astype(int)
    out = out.asnumpy()
    assert out.dtype == np.uint8 and out.shape[0] > 8 and out.shape[1] > 10
    np.testing.assert_array_equal(out[top:top + 8, left:left + 10], IMAGE)
    out[top:top + 8, left:left + 10] = [7, 8, 9]
    assert (out == [7, 8, 9]).all()
    np.testing.assert_array_equal(moved.asnumpy()[:, 2:], BOXES[:, 2:] + [left, top, 0])


def test_random_parts():
    """The part is within the image and has a box's center; the boxes are those of the part."""
    random.seed(5)
    parts = set()
    for _ in range(50):
        boxes, part = utils.bbox_random_crop_with_constraints(BOXES, (10, 8))
        left, top, width, height = part
        assert left >= 0 and top >= 0 and left + width <= 10 and top + height <= 8
        np.testing.assert_array_equal(boxes, utils.bbox_crop(BOXES, part, False))
        assert len(boxes)
        parts.add(part)
    assert len(parts) > 10
    assert len(utils.bbox_random_crop_with_constraints(BOXES[:0], (10, 8))[0]) == 0
    out, moved = vision.ImageBboxRandomCropWithConstraints(1)(mx.nd.array(IMAGE), mx.nd.array(BOXES))
    assert out.shape[2] == 3 and moved.shape[1] == 5


@pytest.mark.parametrize(("call", "error"), [
    (lambda: utils.bbox_flip(BOXES, (1, 2, 3)), ValueError), (lambda: utils.bbox_crop(BOXES, (1, 2)), ValueError),
    (lambda: utils.bbox_iou(BOXES[:, :3], BOXES), IndexError), (lambda: utils.bbox_clip_xyxy(3, 1, 1), TypeError),
    (lambda: utils.bbox_clip_xyxy((1, 2), 1, 1), IndexError),
    (lambda: vision.ImageBboxCrop((0, 0, 0, 4)), AssertionError),
    (lambda: vision.ImageBboxRandomExpand(1, 3, [1, 2])(mx.nd.array(IMAGE), mx.nd.array(BOXES)), ValueError),
    (lambda: vision.ImageBboxResize(2, 2)(mx.nd.ones((2, 2)), mx.nd.array(BOXES)), NotImplementedError),
])
def test_errors(call, error):
    with pytest.raises(error):
        call()
