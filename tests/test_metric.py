"""Metrics, against NumPy, SciPy and scikit-learn."""

import json
import math

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics

import mxjax as mx
from mxjax import metric as M

RNG = np.random.RandomState(3)
CLASSES = RNG.randint(0, 4, 20)
PROBS = RNG.dirichlet(np.ones(4), 20)
BITS = RNG.randint(0, 2, 20)
BIT_PROBS = RNG.dirichlet(np.ones(2), 20)
REALS, GUESSES = RNG.randn(20, 2), RNG.randn(20, 2)
LOGS = -np.log(PROBS[np.arange(20), CLASSES])

# metric, label, prediction, expected value
TABLE = {
    "accuracy": (M.Accuracy(), CLASSES, PROBS, (PROBS.argmax(1) == CLASSES).mean()),
    "accuracy of classes": (M.Accuracy(), CLASSES, PROBS.argmax(1), (PROBS.argmax(1) == CLASSES).mean()),
    "accuracy axis": (M.Accuracy(axis=0), CLASSES, PROBS.T, (PROBS.argmax(1) == CLASSES).mean()),
    "top 2": (M.TopKAccuracy(2), CLASSES, PROBS, sklearn.metrics.top_k_accuracy_score(CLASSES, PROBS, k=2)),
    "f1": (M.F1(), BITS, BIT_PROBS, sklearn.metrics.f1_score(BITS, BIT_PROBS.argmax(1))),
    "f1 micro": (M.F1(average="micro"), BITS, BIT_PROBS, sklearn.metrics.f1_score(BITS, BIT_PROBS.argmax(1))),
    "mcc": (M.MCC(), BITS, BIT_PROBS, sklearn.metrics.matthews_corrcoef(BITS, BIT_PROBS.argmax(1))),
    "pcc": (M.PCC(), CLASSES, PROBS, sklearn.metrics.matthews_corrcoef(CLASSES, PROBS.argmax(1))),
    "perplexity": (M.Perplexity(None), CLASSES, PROBS, np.exp(LOGS.mean())),
    "perplexity ignoring": (M.Perplexity(1), CLASSES, PROBS, np.exp(LOGS[CLASSES != 1].mean())),
    "mae": (M.MAE(), REALS, GUESSES, np.abs(REALS - GUESSES).mean()),
    "mse": (M.MSE(), REALS[:, 0], GUESSES[:, :1], ((REALS - GUESSES)[:, 0] ** 2).mean()),
    "rmse": (M.RMSE(), REALS, GUESSES, np.sqrt(((REALS - GUESSES) ** 2).mean())),
    "cross-entropy": (M.CrossEntropy(), CLASSES, PROBS, LOGS.mean()),
    "nll": (M.NegativeLogLikelihood(), CLASSES[:, None], PROBS, LOGS.mean()),
    "pearson": (M.PearsonCorrelation(), REALS, GUESSES, scipy.stats.pearsonr(REALS.ravel(), GUESSES.ravel())[0]),
    "pearson micro": (M.PearsonCorrelation(average="micro"), REALS, GUESSES,
                      scipy.stats.pearsonr(REALS.ravel(), GUESSES.ravel())[0]),
    "loss": (M.Loss(), None, REALS, REALS.mean()),
    "torch": (M.Torch(), None, REALS, REALS.mean()),
    "caffe": (M.Caffe(), None, REALS, REALS.mean()),
    "custom": (M.np(lambda y, p: (np.sum(y == p.argmax(1)), len(y))), CLASSES, PROBS,
               (PROBS.argmax(1) == CLASSES).mean()),
}


@pytest.mark.parametrize("row", TABLE.values(), ids=TABLE)
def test_contract(row):
    """Before any update NaN; the value; `reset_local` keeps the global one; `reset` forgets all."""
    metric, label, pred, expected = row
    metric.reset()
    labels = None if label is None else [mx.nd.array(label)]
    assert math.isnan(metric.get()[1])
    metric.update(labels, [mx.nd.array(pred)])
    name, value = metric.get()
    assert isinstance(name, str)
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    assert metric.get_name_value() == [(name, value)]
    if not isinstance(metric, M.PearsonCorrelation):  # has no global form of its own
        metric.reset_local()
        assert math.isnan(metric.get()[1])
        np.testing.assert_allclose(metric.get_global()[1], expected, rtol=1e-5)
    metric.update(labels, [mx.nd.array(pred)])
    metric.reset()
    assert math.isnan(metric.get_global()[1])


@pytest.mark.parametrize("name, kwargs", [
    ("acc", {"axis": 0}), ("top_k_acc", {"top_k": 3}), ("f1", {}), ("mcc", {}), ("perplexity", {"ignore_label": -1}),
    ("mae", {}), ("mse", {}), ("rmse", {}), ("ce", {"eps": 1e-3}), ("nll_loss", {}), ("pearsonr", {}), ("pcc", {}),
    ("loss", {}), ("torch", {}), ("caffe", {})])
def test_config_round_trip(name, kwargs):
    config = mx.metric.create(name, **kwargs).get_config()
    if name == "top_k_acc":
        config["name"] = "top_k_accuracy"  # it appends k itself
    again = mx.metric.create(json.dumps(config)).get_config()
    assert {**again, "name": config["name"]} == config


def test_composite():
    metric = mx.metric.create(["acc", mx.metric.create("ce"), lambda label, pred: 1.0])
    metric.update([mx.nd.array(CLASSES)], [mx.nd.array(PROBS)])
    names, values = metric.get()
    assert names[:2] == ["accuracy", "cross-entropy"] and len(values) == 3
    assert metric.get_metric(1).name == "cross-entropy"
    with pytest.raises(ValueError, match="out of range"):
        metric.get_metric(9)
    with pytest.raises(NotImplementedError):
        metric.get_config()


def test_names_choose_the_arrays():
    metric = M.Accuracy(output_names=["out"], label_names=["y"])
    metric.update_dict({"y": mx.nd.array(CLASSES), "z": None}, {"other": None, "out": mx.nd.array(PROBS)})
    assert metric.num_inst == 20


def test_averages_differ():
    macro, micro = M.F1(average="macro"), M.F1(average="micro")
    halves = [(BITS[:5], BIT_PROBS[:5]), (BITS[5:], BIT_PROBS[5:])]
    for metric in (macro, micro):
        for label, pred in halves:
            metric.update([mx.nd.array(label)], [mx.nd.array(pred)])
    each = [sklearn.metrics.f1_score(label, pred.argmax(1)) for label, pred in halves]
    np.testing.assert_allclose(macro.get()[1], np.mean(each))
    np.testing.assert_allclose(micro.get()[1], sklearn.metrics.f1_score(BITS, BIT_PROBS.argmax(1)))


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="number of labels 2 does not match number of predictions 1"):
        M.Accuracy().update([1, 2], [1])
    with pytest.raises(ValueError, match="requires two classes"):
        M.F1().update([np.arange(3)], [np.zeros((3, 2))])
    with pytest.raises(ValueError, match="shape of labels"):
        M.PearsonCorrelation().update([REALS], [GUESSES[:5]])
    with pytest.raises(AssertionError, match="do not match"):
        M.Perplexity(None).update([np.zeros(3)], [np.zeros((2, 2))])
    with pytest.raises(AssertionError, match="use Accuracy"):
        M.TopKAccuracy(1)
    with pytest.raises(ValueError, match="not registered"):
        mx.metric.create("nothing")


@pytest.mark.parametrize("make, labels, predictions", [
    (M.Accuracy, [[0, 2, 1]], [[[0.1, 0.7, 0.2], [0.2, 0.1, 0.7], [0.3, 0.4, 0.3]]]),
    (M.Accuracy, [[[0], [2]]], [[[0.1, 0.7, 0.2], [0.2, 0.1, 0.7]]]),
    (M.Accuracy, [[1, 0]], [[1, 1]]),
    (lambda: M.Perplexity(0), [[[0, 1], [2, 9]]], [[[[0.1, 0.7, 0.2], [0.2, 0.1, 0.7]], [[0.3, 0.4, 0.3]] * 2]]),
    (lambda: M.Perplexity(None, axis=0), [[0, 1]], [[[0.1, 0.7], [0.9, 0.3]]]),
    (M.Loss, [[0]], [[1.5, 2.5, 4]])])
@pytest.mark.parametrize("of_numpy", [False, True])
def test_what_is_far_is_made_less_first(make, labels, predictions, of_numpy, monkeypatch):
    """On an accelerator the device picks or sums, and not all predictions are brought to the host."""
    array = mx.np.array if of_numpy else mx.nd.array
    near, far = make(), make()
    near.update([array(label) for label in labels], [array(p) for p in predictions])
    monkeypatch.setattr(M, "_far", lambda given: isinstance(given, mx.nd.NDArray))
    far.update([array(label) for label in labels], [array(p) for p in predictions])
    assert far.get()[1] == pytest.approx(near.get()[1], rel=1e-6)


@pytest.mark.parametrize("make, labels, predictions, value", [
    (M.Accuracy, [[0, 1]], [[[0.9, 0.1], [0.8, 0.2]]], 0.5),
    (lambda: M.Perplexity(None), [[0]], [[[0.5, 0.5]]], 2),
    (M.Loss, [[0]], [[1, 3]], 2)])
def test_lists_are_arrays(make, labels, predictions, value):
    metric = make()
    metric.update(labels, predictions)
    assert metric.get()[1] == pytest.approx(value)


@pytest.mark.parametrize(("metric", "kind", "said"), [
    (M.F1(), IndexError, r"f1: predictions must have the shape \(batch, 2\).*got \(3,\)"),
    (M.MCC(), ValueError, r"mcc: predictions"), (M.CrossEntropy(), IndexError, r"cross-entropy: .*\(batch, classes\)"),
    (M.NegativeLogLikelihood(), ValueError, "nll-loss")])
def test_predictions_of_one_axis(metric, kind, said):
    with pytest.raises(kind, match=said):
        metric.update([mx.nd.array([0, 1, 1])], [mx.nd.array([0.2, 0.7, 0.6])])


def test_labels_that_no_class_has():
    with pytest.raises(IndexError, match="the labels range from 0.0 to 2.0, but the predictions have 2 classes"):
        M.CrossEntropy().update([mx.nd.array([0, 2])], [mx.nd.ones((2, 2))])
    with pytest.raises(ValueError, match="number of labels 3 does not match"):
        M.PCC().update([mx.nd.zeros(3)], [mx.nd.ones((2, 2))])


def test_subclasses_of_f1_read_its_counts():
    class Precision(mx.metric.F1):
        def update(self, labels, preds):
            for label, pred in zip(labels, preds, strict=True):
                self.metrics.update_binary_stats(label, pred)
            self.num_inst = self.metrics.total_examples
            self.sum_metric = self.metrics.precision * self.num_inst

    labels, preds = [mx.nd.array([0, 1, 1, 0])], [mx.nd.array([[0.3, 0.7], [0.2, 0.8], [0.9, 0.1], [0.6, 0.4]])]
    metric = Precision(average="micro")
    metric.update(labels, preds)
    assert metric.get() == ("f1", 0.5)
    counts = metric.metrics
    assert (counts.true_positives, counts.false_positives, counts.false_negatives, counts.true_negatives) == (1,) * 4
    metric.reset_local()
    assert counts.recall == 0 and counts.global_recall == counts.global_fscore == 0.5 and counts.total_examples == 0
    metric.reset()
    assert counts.global_total_examples == 0
    with pytest.raises(ValueError, match="two classes"):
        counts.update_binary_stats(mx.nd.array([0, 1, 2]), mx.nd.ones((3, 2)))
