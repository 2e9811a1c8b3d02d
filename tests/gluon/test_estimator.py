"""Tests of the estimator and its event handlers."""

import logging
import os

import numpy as np
import pytest

import mxjax as mx
from mxjax.gluon.contrib.estimator import (
    BatchProcessor,
    CheckpointHandler,
    EarlyStoppingHandler,
    EpochEnd,
    Estimator,
    LoggingHandler,
    ValidationHandler,
)

loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()


def loader(batch_size=4):
    random = np.random.RandomState(0)
    x = random.rand(12, 3).astype(np.float32)
    return mx.gluon.data.DataLoader(mx.gluon.data.ArrayDataset(x, (x[:, 0] > x[:, 1]).astype(np.float32)), batch_size)


def estimator(rate=0.5, **options):
    net = mx.gluon.nn.Dense(2, in_units=3)
    net.initialize(mx.init.Zero())
    net.hybridize()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": rate})
    made = Estimator(net, loss, trainer=trainer, context=mx.cpu(), **options)
    made.logger.handlers.clear()
    return made


class Lines(logging.Handler):
    def __init__(self):
        super().__init__()
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())


class Count(EpochEnd):
    """Counts the epochs."""

    epochs = 0

    def epoch_end(self, estimator, *args, **kwargs):
        self.epochs += 1
        return False


def test_training_and_validation():
    made, lines, count = estimator(), Lines(), Count()
    made.logger.addHandler(lines)
    made.fit(loader(), loader(), epochs=40, event_handlers=[count])
    assert count.epochs == 40
    assert [metric.name for metric in made.train_metrics] == ["training accuracy", "training softmaxcrossentropyloss"]
    assert [metric.name for metric in made.val_metrics] == ["validation accuracy", "validation softmaxcrossentropyloss"]
    assert made.val_metrics[0].get()[1] > 0.8 and made.val_metrics[1].get()[1] < 0.6
    assert lines.lines[1] == "Train for 40 epochs." and "Validation Begin" in lines.lines
    assert lines.lines[-1].startswith("Train finished using total")


def test_batches_and_intervals():
    made, lines = estimator(), Lines()
    made.logger.addHandler(lines)
    made.fit(loader(), batches=5, event_handlers=LoggingHandler(2, metrics=made.train_metrics))
    progress = [line for line in lines.lines if "[Samples" in line]
    assert [line.split(" time")[0] for line in progress] == [
        "[Epoch 0][Batch 0][Samples 4]", "[Epoch 0][Batch 2][Samples 12]", "[Epoch 1][Batch 0][Samples 16]"]
    made, lines = estimator(), Lines()
    made.logger.addHandler(lines)
    made.fit(loader(), batches=1, event_handlers=LoggingHandler(1, metrics=[]))
    assert lines.lines[-2].endswith("s") and lines.lines[-1].endswith("epochs."), "no comma where no metric follows"


def test_validation_by_batches():
    calls = []
    handler = ValidationHandler(loader(), lambda **options: calls.append(options), epoch_period=None, batch_period=2)
    estimator().fit(loader(), batches=5, event_handlers=[handler])
    assert len(calls) == 2 and calls[0]["batch_axis"] == 0


def test_own_batch_processor():
    class Processor(BatchProcessor):
        seen = 0

        def fit_batch(self, estimator, train_batch, batch_axis=0):
            self.seen += 1
            return super().fit_batch(estimator, train_batch, batch_axis)
    processor = Processor()
    estimator(batch_processor=processor).fit(loader(), epochs=1)
    assert processor.seen == 3
    with pytest.raises(ValueError, match="fit_batch"):
        estimator(batch_processor=object())


@pytest.mark.parametrize("options,words", [({"epochs": 1, "batches": 1}, "one and only one"), ({}, "one and only one")])
def test_bad_lengths(options, words):
    with pytest.raises(ValueError, match=words):
        estimator().fit(loader(), **options)


def test_bad_arguments():
    with pytest.raises(ValueError, match="DataLoader"):
        estimator().fit([1], epochs=1)
    with pytest.raises(ValueError, match="must be a Loss"):
        Estimator(mx.gluon.nn.Dense(1), "l2")
    with pytest.raises(ValueError, match="must be an EventHandler"):
        estimator().fit(loader(), epochs=1, event_handlers=[3])
    with pytest.raises(ValueError, match="outside of the known"):
        estimator().fit(loader(), epochs=1, event_handlers=[LoggingHandler(metrics=mx.metric.Accuracy())])
    with pytest.warns(UserWarning, match="No trainer"):
        Estimator(mx.gluon.nn.Dense(1), loss)


# -------------------------------------------------------------------- checkpoints
def test_checkpoints(tmp_path):
    made = estimator()
    made.fit(loader(), epochs=4, event_handlers=[CheckpointHandler(
        str(tmp_path), "x", made.train_metrics[1], save_best=True, mode="min", max_checkpoints=2)])
    assert sorted(os.listdir(tmp_path)) == [
        "x-best.params", "x-best.states", "x-epoch2batch9.params", "x-epoch2batch9.states", "x-epoch3batch12.params",
        "x-epoch3batch12.states", "x-symbol.json"]


def test_resuming(tmp_path):
    whole = estimator()
    whole.fit(loader(), epochs=4)
    first, second = estimator(), estimator()
    options = {"model_dir": str(tmp_path), "resume_from_checkpoint": True}
    first.fit(loader(), epochs=2, event_handlers=[CheckpointHandler(**options)])
    count = Count()
    second.fit(loader(), epochs=4, event_handlers=[CheckpointHandler(**options), count])
    assert count.epochs == 2
    assert np.array_equal(second.net.weight.data().asnumpy(), whole.net.weight.data().asnumpy())
    with pytest.raises(ValueError, match="maximum number of epoch 4 reached"):
        second.fit(loader(), epochs=4, event_handlers=[CheckpointHandler(**options)])
    with pytest.raises(AssertionError, match="same type of period"):
        second.fit(loader(), batches=4, event_handlers=[CheckpointHandler(**options)])


# -------------------------------------------------------------------- early stopping
@pytest.mark.parametrize("mode,epochs", [("max", 2), ("min", 6)])
def test_early_stopping(mode, epochs):
    made, count = estimator(), Count()
    made.fit(loader(), epochs=6, event_handlers=[EarlyStoppingHandler(made.train_metrics[1], patience=1, mode=mode),
                                                 count])
    assert count.epochs == epochs  # the loss falls: no improvement if greater were better


def test_improvement_by_name():
    with pytest.warns(UserWarning, match="greater"):
        assert EarlyStoppingHandler(mx.metric.Accuracy()).monitor_op is np.greater
    with pytest.warns(UserWarning, match="smaller"):
        assert EarlyStoppingHandler(mx.metric.Loss()).monitor_op is np.less
    with pytest.warns(UserWarning, match="greater"), pytest.warns(RuntimeWarning, match="unknown"):
        EarlyStoppingHandler(mx.metric.Accuracy(), mode="most")
    with pytest.raises(ValueError, match="CompositeEvalMetric"):
        EarlyStoppingHandler(mx.metric.CompositeEvalMetric())
