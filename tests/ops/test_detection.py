"""Boxes, single shot detection, proposals, pooling of regions, deformable convolution."""

import numpy as np
import pytest
from opcall import call, check_derivatives, gradients, partial_shapes

import mxjax as mx
from mxjax.base import MXNetError
from mxjax.ops.vision import deformable, roi

RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 4, 6, 7)).astype("float32")
DETECTIONS = np.array([[0, 0.5, 0.1, 0.1, 0.2, 0.2], [1, 0.4, 0.1, 0.1, 0.2, 0.2], [0, 0.3, 0.1, 0.1, 0.14, 0.14],
                       [2, 0.6, 0.5, 0.5, 0.7, 0.8]], "float32")
NONE = [-1] * 6


def iou(a, b):
    """Intersection over union of two boxes by corners."""
    sides = np.maximum(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0)
    area = [np.prod(x[2:] - x[:2]) for x in (a, b)]
    return sides.prod() / (sum(area) - sides.prod())


# -------------------------------------------------------------------- boxes
@pytest.mark.parametrize(("options", "kept"), [
    ({"overlap_thresh": 0.1, "force_suppress": True, "id_index": 0}, [3, 0]),
    ({"overlap_thresh": 0.1, "id_index": 0}, [3, 0, 1]),
    ({"overlap_thresh": 0.9, "topk": 2}, [3, 0]),
    ({"overlap_thresh": 0.1, "id_index": 0, "background_id": 2}, [0, 1]),
    ({"valid_thresh": 0.45}, [3, 0]), ({"valid_thresh": 1}, [])])
def test_box_nms(options, kept):
    np.testing.assert_array_equal(call("_contrib_box_nms", DETECTIONS, **options),
                                  [*DETECTIONS[kept], *[NONE] * (4 - len(kept))])
    head = np.arange(24, dtype="float32").reshape(4, 6)
    wanted = np.zeros_like(head)
    wanted[kept] = head[:len(kept)]
    np.testing.assert_array_equal(gradients("_contrib_box_nms", DETECTIONS, heads=[head], **options)[0], wanted)


def test_overlaps_at_the_threshold():
    """Boxes whose overlap is a half but for rounding; recorded from MXNet 1.9.1, which rounds each product."""
    boxes = np.array([[[10, 6, 19, 18], [12, 6, 21, 15]], [[4, 7, 6, 16], [3, 10, 6, 16]],
                      [[2, 9, 9, 18], [1, 9, 13, 16]], [[2, 2, 14, 6], [5, 3, 13, 6]],
                      [[9, 3, 13, 8], [8, 3, 13, 11]], [[8, 9, 10, 21], [8, 11, 11, 23]]], "float32") / np.float32(30)
    scores = np.tile(np.array([[0, 0.9], [0, 0.8]], "float32"), (6, 1, 1))
    best = call("_contrib_box_nms", np.concatenate([scores, boxes], -1))
    assert (best[:, 1, 1] > 0).tolist() == [True, False, True, True, True, True]
    labels = np.pad(boxes[:, 1:], ((0, 0), (0, 0), (1, 0)))
    targets = [call("_contrib_MultiBoxTarget", pair[None, ::-1], label[None], np.zeros((1, 2, 2), "float32"))[2]
               for pair, label in zip(boxes, labels, strict=True)]
    assert np.ravel(targets).tolist() == [1, 0, 1, 1, 1, 0, 1, 0, 1, 0, 1, 0]
    probability = np.array([[[0.1, 0.2], [0.9, 0.8]]], "float32")
    found = [call("_contrib_MultiBoxDetection", probability, np.zeros((1, 8), "float32"), pair[None])[0, 1, 0]
             for pair in boxes]
    assert found == [-1, -1, 0, 0, -1, 0]


def test_box_formats():
    out = call("_contrib_box_nms", DETECTIONS[3:], out_format="center")
    np.testing.assert_allclose(out, [[2, 0.6, 0.6, 0.65, 0.2, 0.3]], rtol=1e-6)
    np.testing.assert_allclose(call("_contrib_box_nms", out, in_format="center", out_format="corner"), DETECTIONS[3:],
                               rtol=1e-6)
    with pytest.raises(MXNetError, match="score_index"):
        call("_contrib_box_nms", DETECTIONS, score_index=3)


def test_box_iou_is_the_definition():
    low = RNG.uniform(0, 1, (5, 2))
    boxes = np.concatenate([low, low + RNG.uniform(0.1, 1, (5, 2))], 1).astype("float32")
    wanted = [[iou(a, b) for b in boxes[:3]] for a in boxes]
    np.testing.assert_allclose(call("_contrib_box_iou", boxes, boxes[:3]), wanted, rtol=1e-5, atol=1e-7)
    assert not gradients("_contrib_box_iou", boxes, boxes[:3])[0].any()


def test_bipartite_matching():
    scores = np.array([[0.5, 0.6], [0.1, 0.2], [0.3, 0.4]], "float32")
    rows, columns = call("_contrib_bipartite_matching", scores, threshold=1e-12)
    assert rows.tolist() == [1, -1, 0] and columns.tolist() == [2, 0]
    rows, columns = call("_contrib_bipartite_matching", -scores, threshold=-0.35, is_ascend=True)
    assert rows.tolist() == [1, -1, -1] and columns.tolist() == [-1, 0]


def test_encoding_and_decoding_are_inverse():
    anchors = np.array([[[0.1, 0.1, 0.3, 0.4], [0.5, 0.2, 0.9, 0.8]]], "float32")
    refs = np.array([[[0.2, 0.2, 0.5, 0.5], [0.4, 0.3, 0.8, 0.9]]], "float32")
    std = np.array([0.1, 0.1, 0.2, 0.2], "float32")
    targets, masks = call("_contrib_box_encode", np.ones((1, 2), "f"), np.array([[1, 0]], "f"), anchors, refs,
                          np.zeros(4, "f"), std)
    back = call("_contrib_box_decode", targets, anchors, std0=0.1, std1=0.1, std2=0.2, std3=0.2, format="corner")
    np.testing.assert_allclose(back, refs[:, ::-1], rtol=1e-5)
    shapes = partial_shapes("_contrib_box_encode", [(1, 2), (1, 2), anchors.shape, refs.shape, None, None])[0]
    assert masks.all() and shapes[4:] == [(4,), (4,)]


# -------------------------------------------------------------------- single shot detection
def test_priors():
    boxes = call("_contrib_MultiBoxPrior", X, sizes=(0.5, 0.25), ratios=(1, 4))
    assert boxes.shape == (1, 6 * 7 * 3, 4)
    x, y, width, height = 0.5 / 7, 0.5 / 6, 0.25 * 6 / 7, 0.25
    np.testing.assert_allclose(boxes[0, 0], [x - width, y - height, x + width, y + height], rtol=1e-5)
    sides = boxes[0, 2, 2:] - boxes[0, 2, :2]
    np.testing.assert_allclose(sides, [0.5 * 6 / 7 * 2, 0.5 / 2], rtol=1e-5)
    assert call("_contrib_MultiBoxPrior", X, sizes=(2,), clip=True).max() == 1


ANCHORS = np.array([[[0.1, 0.1, 0.4, 0.4], [0.5, 0.5, 0.9, 0.9], [0, 0, 0.1, 0.1], [0.1, 0.1, 0.4, 0.3]]], "float32")


def test_targets():
    labels = np.array([[[2, 0.1, 0.1, 0.4, 0.45], NONE[:5]], [NONE[:5]] * 2], "float32")
    scores = np.zeros((2, 3, 4), "float32")
    scores[:, 0, 1], scores[:, 0, 2] = -1, 1
    offsets, masks, classes = call("_contrib_MultiBoxTarget", ANCHORS, labels, scores)
    assert classes.tolist() == [[3, 0, 0, 3], [-1] * 4]
    assert masks.reshape(2, 4, 4)[:, :, 0].tolist() == [[1, 0, 0, 1], [0] * 4]
    np.testing.assert_allclose(offsets[0, :4], [0, 0.025 / 0.3 / 0.1, 0, np.log(0.35 / 0.3) / 0.2], rtol=1e-4,
                               atol=1e-5)
    mined = call("_contrib_MultiBoxTarget", ANCHORS, labels, scores, negative_mining_ratio=0.5)[2]
    assert mined.tolist() == [[3, 0, -1, 3], [-1] * 4]  # the harder of the two negatives


def test_detections():
    probability = np.array([[[0.1, 0.2, 0.9, 0.3], [0.8, 0.1, 0.1, 0.1], [0.1, 0.7, 0, 0.6]]], "float32")
    found = call("_contrib_MultiBoxDetection", probability, np.zeros((1, 16), "f"), ANCHORS, threshold=0.5)[0]
    np.testing.assert_allclose(found[:3, :2], [[0, 0.8], [1, 0.7], [1, 0.6]])
    np.testing.assert_allclose(found[0, 2:], ANCHORS[0, 0], rtol=1e-5)
    forced = call("_contrib_MultiBoxDetection", probability, np.zeros((1, 16), "f"), ANCHORS, threshold=0.5,
                  force_suppress=True)[0]
    assert forced[:, 0].tolist() == [0, 1, -1, -1]


def test_proposals():
    height, width, count = 4, 5, 2
    scores = RNG.uniform(size=(2, 2 * count, height, width)).astype("float32")
    deltas = np.zeros((2, 4 * count, height, width), "float32")
    info = np.array([[64, 80, 1]] * 2, "float32")
    options = {"scales": (2.0,), "ratios": (0.5, 2.0), "rpn_post_nms_top_n": 6, "output_score": True, "rpn_min_size": 4}
    boxes, found = call("_contrib_MultiProposal", scores, deltas, info, **options)
    assert boxes.shape == (12, 5) and boxes[:, 0].tolist() == [0] * 6 + [1] * 6
    assert found[0] == scores[0, count:].max() and (np.diff(found[:6, 0]) <= 0).all()
    one = call("_contrib_Proposal", scores[1:], deltas[1:], info[1:], **options)[0]
    np.testing.assert_array_equal(one[:, 1:], boxes[6:, 1:])
    assert all(iou(a[1:] + [0, 0, 1, 1], b[1:] + [0, 0, 1, 1]) <= 0.7 for i, a in enumerate(one) for b in one[:i])
    with pytest.raises(MXNetError, match="one image"):
        call("_contrib_Proposal", scores, deltas, info, **options)


# -------------------------------------------------------------------- regions
ROIS = np.array([[0, 0, 0, 10, 8], [1, 4, 2, 11, 9]], "float32")


def test_roi_align_of_a_ramp():
    """Of a linear image the average over a part is its value in the middle."""
    ramp = np.broadcast_to(np.arange(7.0) + 10 * np.arange(6.0)[:, None], (2, 1, 6, 7)).astype("float32")
    out = call("_contrib_ROIAlign", ramp, ROIS, pooled_size=(2, 2), spatial_scale=0.5)
    for number, (_, x1, y1, x2, y2) in enumerate(ROIS / 2):
        x, y = x1 + (x2 - x1) * np.array([0.25, 0.75]), y1 + (y2 - y1) * np.array([0.25, 0.75])
        np.testing.assert_allclose(out[number, 0], x + 10 * y[:, None], rtol=1e-5)
    turned = np.array([[0, 6, 6, 4, 6, 90]], "float32")
    upright = np.array([[0, 3, 4, 9, 8]], "float32")
    a = call("_contrib_RROIAlign", X, turned, pooled_size=(2, 2), spatial_scale=0.5, sampling_ratio=2)
    b = call("_contrib_ROIAlign", X, upright, pooled_size=(2, 2), spatial_scale=0.5, sample_ratio=2)
    np.testing.assert_allclose(np.rot90(a, axes=(2, 3)), b, rtol=1e-4, atol=1e-5)


def test_box_nms_of_thousands_begins_without_the_compiler(compilers, monkeypatch):
    monkeypatch.setenv("MXNET_ENFORCE_DETERMINISM", "0")
    boxes = np.random.default_rng(1).random((1, 8000, 6), "float32")
    boxes[..., 4:] = boxes[..., 2:4] + 0.1
    kept = mx.nd.contrib.box_nms(mx.nd.array(boxes), topk=100, valid_thresh=0.1).asnumpy()[0]
    assert not compilers and 10 < (kept[:, 1] > 0).sum() <= 100


@pytest.mark.parametrize("options", [{}, {"sample_ratio": 2, "position_sensitive": True}])
def test_roi_align_gradient(options):
    options = {"pooled_size": (2, 2), "spatial_scale": 0.5, **options}
    head = RNG.normal(size=call("_contrib_ROIAlign", X, ROIS, **options).shape).astype("float32")
    grad = gradients("_contrib_ROIAlign", X, ROIS, heads=[head], **options)[0]
    change = RNG.normal(size=X.shape).astype("float32")
    wanted = call("_contrib_ROIAlign", change, ROIS, **options) * head  # the operator is linear
    np.testing.assert_allclose((grad * change).sum(), wanted.sum(), rtol=1e-3)


def test_position_sensitive_pooling():
    options = {"spatial_scale": 0.5, "output_dim": 1, "pooled_size": 2}
    out = call("_contrib_PSROIPooling", X, ROIS[:1], **options)
    np.testing.assert_allclose(out[0, 0, 0, 1], X[0, 1, 0:3, 2:6].mean(), rtol=1e-5)
    flat = np.broadcast_to(np.arange(4.0, dtype="f")[:, None, None], X.shape)
    shift = np.zeros((2, 2, 2, 2), "float32")
    moved = call("_contrib_DeformablePSROIPooling", flat, ROIS, shift, group_size=2, part_size=2, trans_std=0.1,
                 **options)
    np.testing.assert_allclose(moved, np.broadcast_to([[0, 1], [2, 3]], (2, 1, 2, 2)))

    def pooled(data, shift):
        return roi.deformable_psroi_pooling(data, ROIS, shift, spatial_scale=0.5, output_dim=1, group_size=2,
                                            pooled_size=2, part_size=2, sample_per_part=2, trans_std=0.1)[0]
    check_derivatives(pooled, (X.astype("float64"), RNG.uniform(0.1, 0.3, shift.shape)), 1, eps=1e-6)


# -------------------------------------------------------------------- deformable convolution
def test_deformable_convolution_without_offsets():
    weight = RNG.normal(size=(4, 2, 3, 3)).astype("float32")
    options = {"kernel": (3, 3), "num_filter": 4, "num_group": 2, "pad": (1, 1), "stride": (2, 2), "no_bias": True}
    wanted = call("Convolution", X, weight, **options)
    offset = np.zeros((2, 36, *wanted.shape[2:]), "float32")
    found = call("_contrib_DeformableConvolution", X, offset, weight, num_deformable_group=2, **options)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    mask = np.full((2, 18, *wanted.shape[2:]), 0.5, "float32")
    np.testing.assert_allclose(call("_contrib_ModulatedDeformableConvolution", X, offset, mask, weight,
                                    num_deformable_group=2, **options), wanted / 2, rtol=1e-4, atol=1e-5)
    with pytest.raises(MXNetError, match="offset must have the shape"):
        call("_contrib_DeformableConvolution", X, offset[:, 1:], weight, num_deformable_group=2, **options)


@pytest.mark.parametrize("masked", [False, True])
def test_deformable_gradients(masked):
    shapes = [X[:1, :2].shape, (1, 8, 5, 6), *([(1, 4, 5, 6)] if masked else []), (2, 2, 2, 2), (2,)]
    arrays = [RNG.uniform(0.1, 0.9, s) for s in shapes]
    function = deformable.modulated_deformable_convolution if masked else deformable.deformable_convolution
    check_derivatives(lambda *a: function(*a, kernel=(2, 2), num_filter=2), arrays, 1, eps=1e-6)


def test_aligned_regions_of_no_picture_are_zeros():
    picture = np.arange(1, 65, dtype="float32").reshape(1, 1, 8, 8)
    regions = np.array([[-1, 0, 0, 5, 5], [0, 0, 0, 4, 4], [-1, -1, -1, -1, -1]], "float32")
    pooled = call("_contrib_ROIAlign", picture, regions, pooled_size=(2, 2), spatial_scale=1.0, sample_ratio=2)
    assert not pooled[[0, 2]].any() and pooled[1, 0].tolist() == [[10, 12], [26, 28]]
