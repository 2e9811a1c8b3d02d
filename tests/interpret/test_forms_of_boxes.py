"""The NumPy forms of operators on boxes beside XLA's programs."""

import numpy as np
import pytest
from marks import sampled

from .forms import check, leaves_out


def boxes(*shape, seed=0, classes=3):
    """Boxes (..., n, 6): class, score, corners."""
    rng = np.random.RandomState(seed)
    low, size = rng.rand(*shape, 2), rng.rand(*shape, 2)
    return np.concatenate([rng.randint(0, classes, (*shape, 1)), rng.rand(*shape, 1), low, low + size], -1).astype("f4")


@pytest.mark.parametrize("params", sampled([
    {}, {"overlap_thresh": 0.3, "valid_thresh": 0.4}, {"topk": 5}, {"id_index": 0, "background_id": 1},
    {"id_index": 0, "force_suppress": True}, {"in_format": "center", "id_index": 0},
    {"out_format": "center"}, {"in_format": "center", "out_format": "corner", "overlap_thresh": 0.2}]))
def test_suppression(params):
    for shape in ((9,), (2, 3, 8)):
        check("_contrib_box_nms", [boxes(*shape)], params)


def test_ties_and_empty_boxes():
    data = boxes(8)
    data[::2, 1] = 0.5
    data[3, 2:] = data[5, 2:] = 0.25
    check("_contrib_box_nms", [data], {"overlap_thresh": 0.1})
    check("_contrib_box_nms", [data], {"valid_thresh": 2.0})


def test_what_is_left_out():
    data = boxes(4)
    leaves_out("_contrib_box_nms", [data], {"topk": 0})
    data[1, 3] = np.nan
    leaves_out("_contrib_box_nms", [data])


def anchors(count, seed=0):
    rng = np.random.RandomState(seed)
    low = rng.uniform(0, 0.7, (1, count, 2))
    return np.concatenate([low, low + rng.uniform(0.05, 0.4, low.shape)], -1).astype("f4")


def labels():
    """Labels of three images: two objects and padding, three objects, none."""
    rows = np.full((3, 3, 6), -1, "f4")
    rows[0, :2], rows[1] = boxes(2, seed=1), boxes(3, seed=2)
    rows[0, :2, 1:5], rows[1, :, 1:5] = anchors(2, 3)[0], anchors(3, 4)[0] + 0.01
    return rows


@pytest.mark.parametrize("params", [
    {}, {"overlap_threshold": 0.2, "ignore_label": -2.0, "variances": (0.1, 0.1, 0.3, 0.2)},
    {"negative_mining_ratio": 2.5, "negative_mining_thresh": 0.3}, {"overlap_threshold": -1.0},
    {"negative_mining_ratio": 1e38, "negative_mining_thresh": 0.3}])
def test_targets(params):
    scores = np.random.RandomState(5).normal(size=(3, 4, 20)).astype("f4")
    check("_contrib_MultiBoxTarget", [anchors(20), labels(), scores], params)


def test_targets_of_equal_overlaps():
    prior = np.tile(anchors(3), (1, 3, 1))
    label = np.concatenate([np.arange(3, dtype="f4")[None, :, None], prior[:, [0, 0, 1]]], -1)
    check("_contrib_MultiBoxTarget", [prior, label, np.zeros((1, 2, 9), "f4")],
          {"negative_mining_ratio": 1.0, "negative_mining_thresh": 0.9})


@pytest.mark.parametrize("params", [
    {}, {"threshold": 0.3, "nms_threshold": 0.2, "clip": False}, {"nms_topk": 6, "variances": (0.2, 0.1, 0.3, 0.4)},
    {"force_suppress": True, "nms_threshold": 0.3}, {"nms_threshold": -1.0}, {"threshold": 2.0}])
def test_detections(params):
    rng = np.random.RandomState(6)
    scores = np.round(rng.dirichlet(np.ones(4), (2, 30)).transpose(0, 2, 1), 1).astype("f4")  # some are equal
    check("_contrib_MultiBoxDetection", [scores, rng.normal(size=(2, 120)).astype("f4"), anchors(30)], params)


def test_boxes_that_are_not_finite_are_left_out():
    prior, scores, places = anchors(4), np.ones((1, 3, 4), "f4"), np.zeros((1, 16), "f4")
    places[0, 3] = np.inf
    leaves_out("_contrib_MultiBoxDetection", [scores, places, prior])
    label = np.full((1, 2, 5), np.nan, "f4")
    leaves_out("_contrib_MultiBoxTarget", [prior, label, scores])
