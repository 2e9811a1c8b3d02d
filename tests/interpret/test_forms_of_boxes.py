"""The NumPy form of box suppression beside XLA's program."""

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
