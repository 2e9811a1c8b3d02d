"""What notebooks and terminals show: arrays, blocks, bars."""

import contextlib
import io
import logging
import sys
import types

import numpy as np

import mxjax as mx
from mxjax._support.progress import progress


class _Terminal(io.StringIO):
    def isatty(self):
        return True


def test_arrays_in_notebooks():
    shown = mx.nd.array([[1, 2], [3, 4]])._repr_html_()
    assert "2 × 2" in shown and "float32" in shown and "@cpu(0)" in shown and "[[1. 2.]" in shown
    assert "<b>ndarray</b> scalar" in mx.np.array(3.0)._repr_html_()


def test_blocks_in_notebooks():
    net = mx.gluon.nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(mx.gluon.nn.Dense(3, in_units=2, activation="relu"), mx.gluon.nn.Dense(2))
    shown = net._repr_html_()
    assert "<b>HybridSequential</b>" in shown and "net_dense0_weight" in shown and "(3, 2)" in shown
    assert "9 parameters</i>" in shown and "and some with unknown shapes" in shown
    assert shown.count("<details") == shown.count("</details>") == 4


def test_bars_are_for_those_who_look(monkeypatch):
    quiet, terminal = io.StringIO(), _Terminal()
    for stream in (quiet, terminal):
        monkeypatch.setattr(sys, "stderr", stream)
        with progress("counting", 3, "thing") as bar:
            for _ in range(3):
                bar.update()
            bar.set_postfix_str("done")
    assert quiet.getvalue() == "" and "counting" in terminal.getvalue()


def test_fit_shows_one(monkeypatch, caplog):
    terminal = _Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    data = mx.io.NDArrayIter(np.zeros((8, 2), "float32"), np.zeros(8), batch_size=4, label_name="softmax_label")
    net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2), name="softmax")
    with caplog.at_level(logging.INFO):
        mx.mod.Module(net).fit(data, num_epoch=1)
    assert "epoch 0" in terminal.getvalue() and "Train-accuracy" in caplog.text


def test_bars_move_with_each_batch(monkeypatch):
    moved, data = [], np.zeros((8, 2), "float32")

    @contextlib.contextmanager
    def progress(*_, **__):
        yield types.SimpleNamespace(update=lambda: moved.append(1))
    for module in (mx.module.base_module, mx.gluon.contrib.estimator.estimator):
        monkeypatch.setattr(module, "progress", progress)
    net = mx.sym.LinearRegressionOutput(mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=1), name="out")
    mx.mod.Module(net, label_names=["out_label"]).fit(
        mx.io.NDArrayIter(data, np.zeros(8), batch_size=4, label_name="out_label"), eval_metric="mse", num_epoch=2)
    assert len(moved) == 4
    block = mx.gluon.nn.Dense(1, in_units=2)
    block.initialize()
    batches = mx.gluon.data.DataLoader(mx.gluon.data.ArrayDataset(data, np.zeros(8, "float32")), 2)
    mx.gluon.contrib.estimator.Estimator(block, mx.gluon.loss.L2Loss(), mx.metric.MSE()).fit(batches, epochs=1)
    assert len(moved) == 4 + 4
