"""Callbacks and the monitor."""

import logging
import time

import mxjax as mx
from mxjax import callback
from mxjax.model import BatchEndParam


def metric_of(values):
    metric = mx.metric.Loss()
    for value in values:
        metric.update(None, [mx.nd.array([value])])
    return metric


def messages(caplog, function, *args):
    caplog.clear()
    with caplog.at_level(logging.INFO):
        function(*args)
    return [record.getMessage() for record in caplog.records]


def test_speedometer(caplog, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    meter = callback.Speedometer(batch_size=10, frequent=2)
    lines = []
    for nbatch in range(5):
        now[0] += 1.0
        metric = metric_of([2.0])
        lines += messages(caplog, meter, BatchEndParam(3, nbatch, metric, None))
    assert lines == ["Epoch[3] Batch [0-2]\tSpeed: 10.00 samples/sec\tloss=2.000000",
                     "Epoch[3] Batch [2-4]\tSpeed: 10.00 samples/sec\tloss=2.000000"]
    assert metric.num_inst == 0, "the metric starts anew"
    assert messages(caplog, meter, BatchEndParam(4, 0, None, None)) == [], "a new epoch only starts the clock"


def test_progress_and_metrics(caplog):
    param = BatchEndParam(1, 50, metric_of([0.5]), None)
    assert messages(caplog, callback.ProgressBar(100, length=10), param) == ["[=====-----] 50%\r"]
    assert messages(caplog, callback.log_train_metric(10), param) == ["Iter[1] Batch[50] Train-loss=0.500000"]
    assert messages(caplog, callback.log_train_metric(7), param) == []
    assert messages(caplog, callback.LogValidationMetricsCallback(), param) == ["Epoch[1] Validation-loss=0.500000"]


def test_checkpoint_periods(monkeypatch):
    saved = []

    class Saving:
        def save_checkpoint(self, *args):
            saved.append(args)

    monkeypatch.setattr("mxjax.callback.save_checkpoint", lambda *args: saved.append(args))
    for epoch in range(4):
        callback.do_checkpoint("p", period=2)(epoch, "sym", {}, {})
        callback.module_checkpoint(Saving(), "m", period=3, save_optimizer_states=True)(epoch)
    assert saved == [("p", 2, "sym", {}, {}), ("m", 3, True), ("p", 4, "sym", {}, {})]


def test_the_lines_of_a_monitor(caplog):
    data = mx.sym.var("data")
    executor = (data * 2).simple_bind(mx.cpu(), data=(1,))
    monitor = mx.mon.Monitor(1, stat_func=lambda x: x)
    monitor.install(executor)
    executor.arg_dict["data"][:] = 0.1
    monitor.tic()
    executor.forward()
    with caplog.at_level("INFO"):
        monitor.toc_print()
    assert f"Batch:       1 {'data':30} 0.1\t" in [record.getMessage() for record in caplog.records]
