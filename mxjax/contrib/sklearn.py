"""Networks as scikit-learn estimators, for pipelines, searches and cross-validation."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import autograd, gluon, initializer
from ..base import MXNetError
from ..context import Context, current_context
from ..gluon.data import ArrayDataset, DataLoader
from ..ndarray import array
from ..random import seed as set_seed

if TYPE_CHECKING:
    pass

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin  # an extra
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as _error:
    raise ImportError("mxjax.contrib.sklearn needs scikit-learn 1.6: pip install 'mxjax[sklearn]'") from _error

__all__ = ["GluonClassifier", "GluonRegressor"]


class _Gluon(BaseEstimator):
    """Base of classifiers and regressors.

    Args:
        net: function that returns a new network; a search can change its keywords by `net_params`. A classifier's
            network has an output for each class, a regressor's one for each target.
        net_params: keywords for `net`.
        optimizer: its name.
        learning_rate: its learning rate.
        epochs, batch_size: how long, and in which pieces.
        random_state: seeds MXNet's and NumPy's global generators before initial values and order are drawn; None: they
            go on.
        ctx: where it is trained; default the current context.
    """

    _loss: Callable

    def __init__(self, net: Callable[..., gluon.Block], net_params: dict[str, Any] | None = None,
                 optimizer: str = "adam", learning_rate: float = 0.001, epochs: int = 10, batch_size: int = 32,
                 random_state: int | None = None, ctx: Context | None = None) -> None:
        self.net, self.net_params, self.optimizer, self.learning_rate = net, net_params, optimizer, learning_rate
        self.epochs, self.batch_size, self.random_state, self.ctx = epochs, batch_size, random_state, ctx

    def _fit(self, x: np.ndarray, y: np.ndarray) -> None:
        if self.random_state is not None:
            set_seed(self.random_state)
            np.random.seed(self.random_state)
        ctx = current_context() if self.ctx is None else self.ctx
        net = self.net(**(self.net_params or {}))
        net.initialize(initializer.Xavier(), ctx=ctx)
        if isinstance(net, gluon.HybridBlock):
            net.hybridize()
        trainer = gluon.Trainer(net.collect_params(), self.optimizer, {"learning_rate": self.learning_rate})
        loss, self.losses_ = self._loss(), []
        batches = DataLoader(ArrayDataset(x, y), min(self.batch_size, len(x)), shuffle=True)
        for _ in range(self.epochs):
            sums = []
            for data, label in batches:
                with autograd.record():
                    value = loss(net(data.as_in_context(ctx)), label.as_in_context(ctx))
                value.backward()
                trainer.step(len(data))
                sums.append(value.sum())
            self.losses_.append(sum(float(part.asscalar()) for part in sums) / len(x))
        self.net_ = net

    def _outputs(self, x: Any) -> np.ndarray:
        check_is_fitted(self, "net_")
        x = validate_data(self, x, dtype=np.float32, allow_nd=True, reset=False)
        ctx = current_context() if self.ctx is None else self.ctx
        return np.concatenate([self.net_(array(x[i:i + self.batch_size], ctx=ctx)).asnumpy()
                               for i in range(0, len(x), self.batch_size)])


class GluonClassifier(ClassifierMixin, _Gluon):
    """A network as a classifier; its loss is the cross entropy of the softmax of its outputs.

    Args:
        net, net_params, optimizer, learning_rate, epochs, batch_size, random_state, ctx: as in
            `_Gluon`: `net` returns a new network with one output per class.

    Example:
        >>> search = GridSearchCV(GluonClassifier(make_net), {"learning_rate": [0.1, 0.01]})  # doctest: +SKIP
        >>> search.fit(x, y).best_score_  # doctest: +SKIP
    """

    _loss = gluon.loss.SoftmaxCrossEntropyLoss

    def fit(self, X: Any, y: Any) -> GluonClassifier:
        """Trains a new network; `losses_` has the mean loss of each epoch.

        Args:
            X: float (samples, ...).
            y: the classes, numbers or strings (samples,).

        Raises:
            ValueError: as in scikit-learn's estimators.
        """
        checked: Any = validate_data(self, X, y, dtype=np.float32, allow_nd=True)
        x, y = checked
        check_classification_targets(y)
        self.classes_, numbers = np.unique(y, return_inverse=True)
        self._fit(x, numbers.astype(np.float32))
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Returns the probability of each class, (samples, classes)."""
        outputs = self._outputs(X)
        if outputs.ndim != 2 or outputs.shape[1] < len(self.classes_):
            raise MXNetError(f"GluonClassifier: the network's outputs have the shape {outputs.shape}, expected "
                             f"(samples, {len(self.classes_)})")
        outputs = np.exp(outputs - outputs.max(axis=1, keepdims=True))
        return (outputs / outputs.sum(axis=1, keepdims=True))[:, :len(self.classes_)]

    def predict(self, X: Any) -> np.ndarray:
        """Returns the most likely class of each sample."""
        likeliest = self.predict_proba(X).argmax(axis=1)
        return self.classes_[likeliest]


class GluonRegressor(RegressorMixin, _Gluon):
    """A network as a regressor; its loss is half the squared error.

    Args:
        net, net_params, optimizer, learning_rate, epochs, batch_size, random_state, ctx: as in
            `_Gluon`: `net` returns a new network with one output per target.

    Example:
        >>> make_pipeline(StandardScaler(), GluonRegressor(make_net)).fit(x, y).score(x, y)  # doctest: +SKIP
    """

    _loss = gluon.loss.L2Loss

    def fit(self, X: Any, y: Any) -> GluonRegressor:
        """Trains a new network; `losses_` has the mean loss of each epoch.

        Args:
            X: float (samples, ...).
            y: float (samples,) or (samples, targets).

        Raises:
            ValueError: as in scikit-learn's estimators.
        """
        checked: Any = validate_data(self, X, y, dtype=np.float32, allow_nd=True, multi_output=True, y_numeric=True)
        x, y = checked
        self._flat = y.ndim == 1
        self._fit(x, y.astype(np.float32))
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Returns the targets of each sample, in the same form as in `fit`."""
        outputs = self._outputs(X)
        return outputs.reshape(len(outputs)) if self._flat else outputs
