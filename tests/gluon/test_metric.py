"""`mx.gluon.metric`, against numbers that MXNet 2.0.0b1 gave."""

import json
import math
import re

import numpy as np
import pytest

import mxjax as mx
from mxjax.gluon import metric as M


def array(values):
    return mx.np.array(np.array(values, "float32"))


BITS = array([0, 1, 1, 0, 1, 1]), array([[.3, .7], [0, 1], [.4, .6], [.8, .2], [.55, .45], [.9, .1]])
MORE_BITS = array([1, 1, 0]), array([[.1, .9], [.6, .4], [.7, .3]])
PROBS_OF_ONE = BITS[0], array([.7, 1, .6, .2, .45, .1])
CLASSES = array([1, 2, 0, 1, 0]), array([[.1, .5, .4], [.3, .3, .4], [.8, .1, .1], [.2, .2, .6], [.6, .3, .1]])
TAGS = array([[1, 0, 1], [0, 0, 1], [1, 1, 0]]), array([[.6, .2, .3], [.7, .4, .9], [.8, .1, .2]])
PAIRS = array([[3, -.5], [2, 7], [1.5, .25]]), array([[2.5, 0], [2, 8], [1, 1]])
SINGLE = array([3, -.5, 2, 7]), array([2.5, 0, 2, 8])
SQUARE = array([[.1, .5, .4], [.3, .3, .4], [.8, .1, .1]])

# metric, updates, what MXNet 2.0.0b1 gives
TABLE = {
    "accuracy": (M.Accuracy(), [CLASSES], 0.8),
    "accuracy axis": (M.Accuracy(axis=0), [(CLASSES[0], CLASSES[1].T)], 0.8),
    "top 2": (M.TopKAccuracy(2), [CLASSES], 1.0),
    "f1": (M.F1(), [BITS, MORE_BITS], 0.6),
    "f1 of probabilities": (M.F1(), [PROBS_OF_ONE], 0.5714285714285715),
    "f1 threshold": (M.F1(threshold=.65), [BITS], 0.3333333333333333),
    "f1 macro": (M.F1(average="macro"), [BITS, MORE_BITS], 0.6),
    "f1 classes": (M.F1(class_type="multiclass"), [CLASSES], 0.8),
    "f1 classes macro": (M.F1(class_type="multiclass", average="macro"), [CLASSES], 0.7777777),
    "f1 tags": (M.F1(class_type="multilabel"), [TAGS], 0.6666666666666665),
    "f1 tags macro": (M.F1(class_type="multilabel", average="macro"), [TAGS], 0.48888888),
    "fbeta": (M.Fbeta(beta=2), [BITS], 0.5263157894736842),
    "fbeta tags": (M.Fbeta(class_type="multilabel", beta=.5, average="macro"), [TAGS], 0.515873),
    "fbeta thresholds": (M.Fbeta(class_type="multilabel", beta=2, threshold=array([.5, .3, .25])), [TAGS], 0.769230769),
    "binary accuracy": (M.BinaryAccuracy(), [PROBS_OF_ONE], 0.5),
    "binary accuracy threshold": (M.BinaryAccuracy(threshold=.3), [PROBS_OF_ONE], 0.6666666666666666),
    "mcc": (M.MCC(), [BITS, MORE_BITS], 0.15811388300841897),
    "mae": (M.MAE(), [PAIRS, SINGLE], 0.5178571343421936),
    "mse": (M.MSE(), [PAIRS, SINGLE], 0.3794642984867096),
    "rmse": (M.RMSE(), [PAIRS, SINGLE], 0.6160067357478404),
    "distance": (M.MeanPairwiseDistance(), [PAIRS], 0.8694982528686523),
    "distance p": (M.MeanPairwiseDistance(p=4), [PAIRS, SINGLE], 0.6255965232849121),
    "cosine": (M.MeanCosineSimilarity(), [PAIRS, SINGLE], 0.9481068849563599),
    "cross entropy": (M.CrossEntropy(), [CLASSES], 0.790569007396698),
    "cross entropy ignoring": (M.CrossEntropy(ignore_label=0), [CLASSES], 1.0729585886001587),
    "cross entropy logits": (M.CrossEntropy(from_logits=True), [CLASSES], 0.9544833898544312),
    "cross entropy eps": (M.CrossEntropy(eps=.45), [CLASSES], 0.6048263311386108),
    "perplexity": (M.Perplexity(), [CLASSES], 2.204650531884187),
    "perplexity ignoring": (M.Perplexity(ignore_label=1), [CLASSES], 1.7334030510415561),
    "perplexity axis": (M.Perplexity(axis=0), [(array([1, 2, 0]), SQUARE)], 4.36790225535822),
    "pearson": (M.PearsonCorrelation(), [PAIRS, (array([[1, 2]]), array([[4, 3]]))], 0.8925302473350865),
    "pcc": (M.PCC(), [CLASSES, MORE_BITS], 0.6668859288553503),
    "loss": (M.Loss(), [PAIRS[:1] * 2], 2.2083333333333335),
    "torch": (M.Torch(), [PAIRS[:1] * 2], 2.2083333333333335),
    "function": (M.CustomMetric(lambda y, p: mx.np.abs(y - p).mean()), [PAIRS], 0.5416666865348816),
    "function of sums": (M.np(lambda y, p: (mx.np.abs(y - p).sum(), 4)), [PAIRS], 0.8125),
}

@pytest.mark.parametrize("row", TABLE.values(), ids=TABLE)
def test_numbers(row):
    """NaN before an update, the value of all updates after, NaN again after a reset."""
    metric, updates, expected = row
    metric.reset()
    for _ in range(2):
        assert math.isnan(metric.get()[1])
        for label, pred in updates:
            metric.update([label], [pred])
        assert type(metric.get()[1]) is float
        np.testing.assert_allclose(metric.get()[1], expected, rtol=2e-6)
        np.testing.assert_allclose(metric.get_global()[1], expected, rtol=2e-6)
        metric.reset()


def test_scores_of_each_class():
    metric = M.F1(class_type="multiclass", average=None)
    for _ in range(2):
        metric.update(*CLASSES)
    assert isinstance(metric.get()[1], mx.np.ndarray)
    np.testing.assert_allclose(metric.get()[1].asnumpy(), [1, 2 / 3, 2 / 3])


@pytest.mark.parametrize("name", ["acc", "f1", "fbeta", "binaryaccuracy", "mcc", "ce", "perplexity", "pearsonr", "pcc",
                                  "mae", "rmse", "meanpairwisedistance", "meancosinesimilarity", "torch"])
def test_configurations(name):
    metric = M.create(name)
    again = M.create(json.dumps(metric.get_config()))
    assert type(again) is type(metric) and again.get_config() == metric.get_config()
    assert isinstance(metric, mx.metric.EvalMetric)


def test_registries_are_apart():
    """A name means MXNet 2's class in `gluon.metric` and 1.9.1's in `mx.metric`, in composites too."""
    assert type(M.create(["f1"]).metrics[0]) is M.F1 and type(mx.metric.create(["f1"]).metrics[0]) is mx.metric.F1
    both = M.CompositeEvalMetric(["mae"])
    both.add("rmse")
    assert [type(metric) for metric in both.metrics] == [M.MAE, M.RMSE]
    with pytest.raises(ValueError, match="nll_loss"):
        M.create("nll_loss")


def test_own_metric():
    """A subclass of the base that keeps its sums itself, as MXNet 2's programs have them."""
    @M.register
    class Largest(M.EvalMetric):
        def reset(self):
            self.num_inst, self.sum_metric = 0, 0.0

        def update(self, labels, preds):
            self.sum_metric, self.num_inst = max(self.sum_metric, float(preds.max())), 1

    metric = M.create("largest", name="top")
    metric.update(None, SINGLE[1])
    assert metric.get() == metric.get_global() == ("top", 8.0)


def test_thresholds_and_one_hot():
    assert M.predict_with_threshold(BITS[1], array([.1, .65])).asnumpy().tolist() == [
        [True, True], [False, True], [True, False], [True, False], [True, False], [True, False]]
    rows = M.one_hot(array([0, 2]), 3)
    assert rows.dtype == np.int32 and rows.asnumpy().tolist() == [[1, 0, 0], [0, 0, 1]]


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda: M.predict_with_threshold(BITS[1], 1), ValueError, "float or an array"),
    (lambda: M.predict_with_threshold(BITS[1], array([.1, .2, .3])), AssertionError,
     "one threshold per class (2,), got (3,)"),
    (lambda: M.F1().update(array([0, 2]), array([.1, .2])), ValueError, "0 or 1, got 2"),
    (lambda: M.F1().update(BITS[0][:5], CLASSES[1]), ValueError, "(5, 3)"),
    (lambda: M.F1(class_type="three").update(*BITS), ValueError, "'three'"),
    (lambda: M.F1(class_type="multilabel").update(*BITS), AssertionError, "(6, 2)"),
    (lambda: M.F1(class_type="multiclass").update(array([5]), array([[.1, .2]])), AssertionError,
     "the largest label is 5"),
    (lambda: M.CrossEntropy().update([array([1, 2])], [CLASSES[1]]), AssertionError, "(5, 3)"),
])
def test_errors(call, error, message):
    with pytest.raises(error, match=re.escape(message)):
        call()


def test_number_of_classes_stays():
    metric = M.F1(class_type="multiclass")
    metric.update(*CLASSES)
    with pytest.raises(AssertionError, match="expected predictions of 3 classes, as before, got 2"):
        metric.update(*BITS)
