"""Metrics handed on to MLflow, Weights & Biases, TensorBoard and Optuna; MLflow's models; scikit-learn's estimators."""

import math

import numpy as np
import pytest

import mxjax as mx
from mxjax import gluon
from mxjax.callback import BatchEndParam
from mxjax.contrib._metric_logger import MetricLogger
from mxjax.gluon.contrib.estimator import Estimator

X = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
Y = (X[:, 0] + X[:, 1] > 0).astype(np.float32)


class Kept(MetricLogger):
    """Keeps what it gets."""

    def __init__(self, *args, **how):
        super().__init__(*args, **how)
        self.rows = []

    def log(self, values, step):
        self.rows.append((step, values))


def network(units=2, hidden=0):
    net = gluon.nn.HybridSequential()
    if hidden:
        net.add(gluon.nn.Dense(hidden, activation="tanh"))
    net.add(gluon.nn.Dense(units))
    return net


def param(epoch, right):
    metric = mx.metric.Accuracy()
    metric.update([mx.nd.array([1, 1])], [mx.nd.array([[0, 1], [0, 1] if right else [1, 0]])])
    return BatchEndParam(epoch, 0, metric, {})


def fit(*callbacks, epochs=2):
    """A Module's training."""
    symbol = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2), name="softmax")
    module = mx.mod.Module(symbol)
    module.fit(mx.io.NDArrayIter(X, Y, 20), mx.io.NDArrayIter(X, Y, 20), num_epoch=epochs,
               eval_end_callback=list(callbacks))


def estimate(*handlers, validate=True, epochs=2):
    net = network()
    net.initialize()
    loader = gluon.data.DataLoader(gluon.data.ArrayDataset(X, Y), 20)
    Estimator(net, gluon.loss.SoftmaxCrossEntropyLoss(), train_metrics=mx.metric.Accuracy(),
              trainer=gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5})).fit(
        loader, loader if validate else None, epochs=epochs, event_handlers=list(handlers))


def test_steps_are_epochs_or_calls():
    every, third = Kept("train"), Kept(period=3)
    for epoch in range(2):
        for right in (True, False):
            every(param(epoch, right))
            third(param(epoch, right))
    assert every.rows == [(e, {"train-accuracy": a}) for e in (0, 1) for a in (1.0, 0.5)]
    assert third.rows == [(3, {"accuracy": 1.0})]
    every(BatchEndParam(0, 0, None, {}))
    assert len(every.rows) == 4
    with pytest.raises(mx.MXNetError, match="period must be 1 or more, got 0"):
        Kept(period=0)


def test_in_module_and_estimator():
    kept = Kept()
    fit(kept)
    assert [step for step, _ in kept.rows] == [0, 1] and list(kept.rows[0][1]) == ["accuracy"]
    kept = Kept("a")
    estimate(kept)
    assert [step for step, _ in kept.rows] == [0, 1]
    assert list(kept.rows[1][1]) == ["a-training accuracy", "a-validation accuracy"]
    assert kept.rows[1][1]["a-validation accuracy"] > 0.5
    kept = Kept()
    estimate(kept, validate=False)
    assert all(not math.isnan(value) and "validation" not in name for name, value in kept.rows[0][1].items())


def test_tensorboard_in_an_estimator(monkeypatch):
    from mxjax.contrib import tensorboard
    written = []

    class Writer:
        def add_scalar(self, name, value, global_step):
            written.append((name, global_step))
    monkeypatch.setattr(tensorboard, "_summary_writer", lambda folder: Writer())
    estimate(tensorboard.LogMetricsCallback("logs", prefix="p"))
    assert ("p-training accuracy", 0) in written and ("p-validation accuracy", 1) in written


def test_a_trial_is_pruned():
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize", pruner=optuna.pruners.ThresholdPruner(lower=2))
    study.optimize(lambda trial: fit(mx.contrib.optuna.PruningCallback(trial, "accuracy")), n_trials=1)
    study.optimize(lambda trial: estimate(mx.contrib.optuna.PruningCallback(trial, "validation accuracy")), n_trials=1)
    for trial in study.trials:
        assert trial.state == optuna.trial.TrialState.PRUNED and list(trial.intermediate_values) == [0]
    callback = mx.contrib.optuna.PruningCallback(study.ask(), "top")
    with pytest.raises(mx.MXNetError, match=r"there is no metric 'top'; known: accuracy"):
        callback(param(0, True))


def test_wandb(tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb")
    callback = mx.contrib.wandb.WandbCallback(prefix="p")
    with pytest.raises(mx.MXNetError, match="there is no run"):
        callback(param(0, True))
    rows = []

    class Run:
        def log(self, values):
            rows.append(values)
    monkeypatch.setattr(wandb, "run", Run())
    callback(param(3, False))
    mx.contrib.wandb.WandbCallback(Run())(param(4, True))
    assert rows == [{"p-accuracy": 0.5, "p-step": 3}, {"accuracy": 1.0, "step": 4}]


@pytest.fixture
def tracking(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    pytest.importorskip("pandas")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    return mlflow


def test_mlflow_metrics(tracking):
    with tracking.start_run() as run:
        fit(mx.contrib.mlflow.MLflowCallback("val"))
    history = tracking.MlflowClient().get_metric_history(run.info.run_id, "val-accuracy")
    assert [metric.step for metric in history] == [0, 1] and all(0 <= metric.value <= 1 for metric in history)


def test_mlflow_models(tracking, tmp_path):
    import pandas
    net = network(hidden=4)
    net.initialize(mx.init.Xavier())
    with pytest.raises(RuntimeError, match="hybridize"):
        mx.contrib.mlflow.save_model(net, tmp_path / "early")
    net.hybridize()
    expected = net(mx.nd.array(X)).asnumpy()
    with tracking.start_run():
        info = mx.contrib.mlflow.log_model(net, "net", pip_requirements=["mxjax"])
    np.testing.assert_array_equal(mx.contrib.mlflow.load_model(info.model_uri)(mx.nd.array(X)).asnumpy(), expected)
    folder = tmp_path / "model"
    mx.contrib.mlflow.save_model(net, folder, metadata={"of": "a test"})
    block = mx.contrib.mlflow.load_model(folder)
    np.testing.assert_array_equal(block(mx.nd.array(X)).asnumpy(), expected)
    function = tracking.pyfunc.load_model(str(folder))
    assert function.metadata.metadata == {"of": "a test"}
    for given in (X, {"data": X}, pandas.DataFrame(X, columns=["a", "b", "c"])):
        np.testing.assert_allclose(function.predict(given), expected, rtol=1e-6)
    with pytest.raises(mx.MXNetError, match=r"this model expects the inputs \['data'\], got \['x'\]"):
        function.predict({"x": X})
    with pytest.raises(mx.MXNetError, match="is not empty"):
        mx.contrib.mlflow.save_model(net, folder)
    (folder / "data" / "inputs.json").write_text('{"data": 1}')
    with pytest.raises(mx.MXNetError, match="inputs.json: a list of names was expected"):
        mx.contrib.mlflow.load_model(folder)


def test_a_classifier_in_pipeline_and_search():
    pytest.importorskip("sklearn")
    from sklearn.base import clone
    from sklearn.exceptions import NotFittedError
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    names = np.where(Y > 0, "yes", "no")
    one = mx.contrib.sklearn.GluonClassifier(network, {"hidden": 4}, learning_rate=0.05, random_state=3)
    with pytest.raises(NotFittedError):
        one.predict(X)
    pipeline = make_pipeline(StandardScaler(), one).fit(X, names)
    assert pipeline.score(X, names) > 0.9 and set(pipeline.predict(X)) == {"yes", "no"}
    chances = pipeline.predict_proba(X)
    assert chances.shape == (60, 2)
    np.testing.assert_allclose(chances.sum(axis=1), 1, rtol=1e-5)
    trained = pipeline[-1]
    assert len(trained.losses_) == 10 and trained.losses_[-1] < trained.losses_[0]
    again = clone(one).fit(StandardScaler().fit_transform(X), names)
    assert again.losses_ == trained.losses_ and list(again.classes_) == ["no", "yes"]
    search = GridSearchCV(one, {"learning_rate": [0.05, 1e-9], "net_params": [{"hidden": 3}]}, cv=2).fit(X, names)
    assert search.best_params_["learning_rate"] == 0.05
    with pytest.raises(ValueError, match="3 features"):
        again.predict(X[:, :2])
    with pytest.raises(mx.MXNetError, match=r"outputs have the shape \(60, 1\), expected \(samples, 2\)"):
        mx.contrib.sklearn.GluonClassifier(network, {"units": 1}, epochs=0).fit(X, names).predict(X)


def test_a_regressor():
    pytest.importorskip("sklearn")
    target = X @ [1.0, -2.0, 0.5] + 3
    one = mx.contrib.sklearn.GluonRegressor(network, {"units": 1}, learning_rate=0.1, epochs=60, random_state=0)
    assert one.fit(X, target).score(X, target) > 0.99 and one.predict(X).shape == (60,)
    two = mx.contrib.sklearn.GluonRegressor(network, learning_rate=0.1, epochs=60, random_state=0)
    both = np.stack([target, -target], axis=1)
    assert two.fit(X, both).score(X, both) > 0.99 and two.predict(X).shape == (60, 2)
