"""Tests of augmenters and the iterator for object detection."""

import random

import numpy as np
import pytest

import mxjax as mx

cv2 = pytest.importorskip("cv2")
pixels = np.random.RandomState(0).randint(0, 256, (20, 30, 3)).astype(np.uint8)
image = mx.nd.array(pixels, dtype="uint8")


def objects():
    return np.array([[1, 0.1, 0.2, 0.5, 0.6], [2, 0.4, 0.4, 0.9, 0.9]], np.float32)


def test_mirror():
    flipped, label = mx.image.DetHorizontalFlipAug(1)(image, objects())
    assert np.array_equal(flipped.asnumpy(), pixels[:, ::-1])
    np.testing.assert_allclose(label, [[1, 0.5, 0.2, 0.9, 0.6], [2, 0.1, 0.4, 0.6, 0.9]], rtol=1e-6)


def test_crop_keeps_objects():
    random.seed(0)
    crop = mx.image.DetRandomCropAug(min_object_covered=0.5, area_range=(0.3, 0.9))
    for _ in range(20):
        part, label = crop(image, objects())
        height, width = part.shape[:2]
        assert 1 <= len(label) <= 2 and (label[:, 1:] >= 0).all() and (label[:, 1:] <= 1).all()
        sizes = (label[:, 3] - label[:, 1]) * width * (label[:, 4] - label[:, 2]) * height
        assert (sizes > 0.3 * 0.16 * 600 - 1e-3).all()


def test_crop_moves_objects():
    random.seed(0)
    crop = mx.image.DetRandomCropAug(min_object_covered=0.1, area_range=(0.3, 0.8))
    rows, columns = np.indices(pixels.shape[:2])
    places = mx.nd.array(np.stack([rows, columns, rows], axis=2), dtype="uint8")
    given, shapes = np.c_[objects(), [7, 8]], set()
    for _ in range(20):
        part, label = crop(places, given)
        (y, x, _), (height, width, _) = part.asnumpy()[0, 0].tolist(), part.shape
        shapes.add(part.shape)
        before = given[np.isin(given[:, 0], label[:, 0])]
        expected = (before[:, 1:5] * (30, 20, 30, 20) - (x, y, x, y)) / (width, height, width, height)
        np.testing.assert_allclose(label[:, 1:5], np.clip(expected, 0, 1), atol=1e-5)
        assert np.array_equal(label[:, 5], before[:, 5])  # what else a label has stays
    assert len(shapes) > 3


def test_pad_moves_objects():
    random.seed(0)
    padded, label = mx.image.DetRandomPadAug(area_range=(2.0, 3.0), pad_val=9)(image, objects())
    height, width = padded.shape[:2]
    assert 1.9 * 600 < height * width < 3.1 * 600
    left, top = label[0, 1] * width - 0.1 * 30, label[0, 2] * height - 0.2 * 20
    x, y = round(left), round(top)
    assert np.array_equal(padded.asnumpy()[y:y + 20, x:x + 30], pixels)


def test_selection_and_descriptions():
    both = mx.image.CreateMultiRandCropAugmenter(min_object_covered=[0.1, 0.5], max_attempts=3, skip_prob=1)
    assert len(both.aug_list) == 2 and both(image, objects())[0] is image
    assert both.dumps()[0] == "detrandomselectaug"
    chain = mx.image.CreateDetAugmenter((3, 12, 16), resize=18, rand_crop=0.5, rand_pad=0.5, rand_mirror=True,
                                        mean=True, brightness=0.1)
    out, label = image, objects()
    for augmenter in chain:
        out, label = augmenter(out, label)
    assert out.shape == (12, 16, 3) and out.dtype == np.float32 and label.shape[1] == 5
    with pytest.raises(AssertionError, match="the same length"):
        mx.image.CreateMultiRandCropAugmenter([0.1, 0.2], max_attempts=[1, 2, 3])
    with pytest.warns(UserWarning, match="does nothing"):
        mx.image.DetRandomCropAug(area_range=(2, 1))
    with pytest.raises(TypeError, match="invalid Augmenter"):
        mx.image.DetBorrowAug(3)


@pytest.fixture
def records(tmp_path):
    with mx.recordio.MXIndexedRecordIO(tmp_path / "x.idx", tmp_path / "x.rec", "w") as writer:
        for i in range(3):
            label = np.concatenate([[2, 5], objects()[:1 + i % 2].ravel()])
            writer.write_idx(i, mx.recordio.pack_img((0, label, i, 0), pixels[:, :, ::-1], 3, ".png"))
    return {"path_imgrec": str(tmp_path / "x.rec"), "path_imgidx": str(tmp_path / "x.idx")}


def test_iterator(records):
    batches = mx.image.ImageDetIter(2, (3, 20, 30), **records)
    assert batches.provide_label == [("label", (2, 2, 5))]
    first, second = batches
    np.testing.assert_allclose(first.label[0].asnumpy()[1], objects(), rtol=1e-6)
    assert (first.label[0].asnumpy()[0, 1] == -1).all() and second.pad == 1
    assert np.array_equal(first.data[0].asnumpy()[0], pixels.transpose(2, 0, 1))


@pytest.mark.parametrize("raw, words", [
    ([2, 5, 1, 0.1, 0.1, 0.5], "invalid: .6,.; a label must have"), ([np.nan, 5, 1, 0.1, 0.1, 0.5, 0.5], "invalid"),
    ([2, np.inf, 1, 0.1, 0.1, 0.5, 0.5], "invalid"), ([1, 5, 1, 0.1, 0.1, 0.5, 0.5], "header 1"),
    ([2, 4, 1, 0.1, 0.1, 0.5], "invalid"), ([2, 4, 1, 0.1, 0.1, 0.5, 1, 2, 3, 4], "width 4"),
    ([2, 5, 1, 0.1, 0.1, 0.5, 0.5, 2], "inconsistent"), ([2, 5, 1, 0.5, 0.1, 0.5, 0.5], "no valid label"),
    ([2, 5, 1, 0.1, 0.5, 0.5, 0.5], "no valid label")])
def test_labels_that_are_none(records, raw, words):
    batches = mx.image.ImageDetIter(1, (3, 20, 30), **records)
    with pytest.raises(mx.MXNetError, match=words):
        batches._parse_label(np.array(raw, np.float32))


def test_shapes_of_labels(records):
    batches, other = (mx.image.ImageDetIter(2, (3, 20, 30), **records) for _ in range(2))
    batches.reshape(data_shape=(3, 10, 10), label_shape=(4, 5))
    assert batches.provide_data == [("data", (2, 3, 10, 10))]
    assert batches.sync_label_shape(other).label_shape == (4, 5)
    with pytest.raises(ValueError, match="reduce label count from 4 to 1"):
        batches.reshape(label_shape=(1, 5))


def test_drawing(records):
    batches = mx.image.ImageDetIter(1, (3, 20, 30), **records)
    drawn = list(batches.draw_next(color=(255, 0, 0), thickness=1))
    assert len(drawn) == 3 and drawn[0].dtype == np.uint8
    assert drawn[0][4, 3].tolist() == [0, 0, 255]  # BGR
