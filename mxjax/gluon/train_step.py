"""TrainStep: a training step as one compiled program."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from .. import autograd
from .._bounded import Bounded
from ..array.mesh_segment import MeshSegment
from ..array.segment import Segment
from ..array.state import Collecting
from ..ndarray import NDArray
from ..plan import Plan
from ._formats import flatten
from ._plan import plan_of
from ._replay import Replay, Watch
from .block import HybridBlock
from .trainer import Trainer

__all__ = ["TrainStep"]

_MANY_SHAPES = 8


class TrainStep:
    """Forward, backward, optimizer and auxiliary states as one XLA program, which updates all memory in place.

    A call does what this loop's body does, with the same numbers:

        with mx.autograd.record():
            loss = loss_fn(net(data), label)
        loss.backward()
        trainer.step(data.shape[0])

    The gradients exist only inside the program: `Parameter.grad()` keeps what it had. Each new shape or dtype of the
    inputs is compiled once. A network or loss that can be hybridized is.

    Args:
        net: the network; its inputs are all arguments of a call but the last.
        loss: function or block of (output of the network, label); None where the network returns the loss itself, and
            all arguments are its inputs.
        trainer: the optimizer of the parameters, which are on one context.
        mesh: devices to share the work: each gets an equal part of the batch and all parameters. The numbers are
            those of one device (batch normalization sees the whole batch). Parameters are gathered when looked at.
            It may span several processes (`mx.kv.join()`): each gives its own part of the batch; parameters begin with
            those of process 0.
        axis: the mesh axis along which batches are split; default the first.

    Raises:
        TypeError, ValueError: an argument is of another kind; the trainer has several contexts.

    Example:
        >>> net = mx.gluon.nn.Dense(1, in_units=2)
        >>> net.initialize()
        >>> trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
        >>> step = mx.gluon.TrainStep(net, mx.gluon.loss.L2Loss(), trainer)
        >>> step(mx.nd.ones((4, 2)), mx.nd.ones((4, 1))).shape
        (4,)
    """

    def __init__(self, net: Callable[..., Any], loss: Callable[..., Any] | None, trainer: Trainer, *,
                 mesh: jax.sharding.Mesh | None = None, axis: str | None = None) -> None:
        if not isinstance(trainer, Trainer):
            raise TypeError(f"TrainStep: trainer must be a gluon.Trainer, got {type(trainer).__name__}")
        if len(trainer._contexts) > 1:
            raise ValueError(f"TrainStep: the parameters are on {len(trainer._contexts)} contexts; initialize them on "
                             "one and give a mesh of devices")
        for name, part in (("net", net), ("loss", loss)):
            if not (callable(part) or name == "loss" and part is None):
                raise TypeError(f"TrainStep: {name} must be callable, got {type(part).__name__}")
            if isinstance(part, HybridBlock) and not part._active:
                part.hybridize()
        self._net, self._loss, self._trainer, self._mesh = net, loss, trainer, mesh
        self._axis = axis or (mesh.axis_names[0] if mesh is not None else None)
        self._shapes: set[Any] = set()
        self._seen: dict[tuple, bool] = Bounded(256)  # signatures of steps that were done in full
        self._replays: dict[tuple, Replay] = Bounded(64)
        self._begun = False

    def __call__(self, *inputs: NDArray, batch_size: int | None = None) -> Any:
        """Does one step.

        Args:
            inputs: the network's inputs, then the label, all on one context.
            batch_size: what gradients are divided by; default the length of the first input (times the number of
                processes of a mesh).

        Returns:
            What the loss returned, before the update.

        Raises:
            TypeError: an input is no NDArray.
            MXNetError: shapes do not fit.
            UserWarning: the loss does not depend on one of the trainer's parameters.
        """
        signature = _signature(inputs)
        replay = self._replays.get(signature)
        if replay is not None:
            done = replay(inputs, batch_size or signature[0].shape[0])
            if done is not None:
                return done[0]
            del self._replays[signature]
        self._check(inputs)
        self._initialize(inputs)
        trainer, watch = self._trainer, None
        if self._mesh is None:
            segment = Segment(1 << 30, trials=0)
            if signature in self._seen and Watch.possible(self._net, self._loss, trainer, inputs):
                watch = Watch(self._net, self._loss, trainer, inputs)
        else:
            segment = MeshSegment(self._mesh, self._axis)
            inputs = [segment.spread(a) for a in inputs]
        out = self._record(segment, inputs, batch_size)
        if watch is not None:
            watch.sources(segment)
        segment.run()
        if watch is not None and (replay := watch.replay(segment, out)) is not None:
            self._replays[signature] = replay
        if signature is not None:
            self._seen[signature] = True
        return out

    def plan(self, *inputs: NDArray, on: str, batch_size: int | None = None) -> Plan:
        """What a step needs and does on devices, which need not be here; no step is taken.

        As before a first step, parameters get their shapes and values, and the optimizer its states.

        Args:
            inputs: as in a call; only their shapes and dtypes matter. Several devices share the first axis.
            on: the devices: "h100", "a100", "l4", "h100x8"; "v5e:1x1" ... "v5e:16x16", "v6e:2x2" ...
            batch_size: as in a call.

        Returns:
            Memory of a device, operations, bytes moved, launches, collectives, and a roofline of the time.

        Raises:
            TypeError: an input is no NDArray.
            MXNetError: the devices are unknown, their compiler (mxjax[cuda12], mxjax[cuda13], mxjax[plan-tpu]) is not
                installed, or refuses the step.

        Example:
            >>> print(step.plan(data, label, on="v5e:4x4"))  # doctest: +SKIP
        """
        self._check(inputs)
        self._initialize(inputs)
        return plan_of(self, inputs, on, batch_size)

    def _record(self, segment: Segment, inputs: Sequence[NDArray], batch_size: int | None) -> Any:
        """Defers a step to a segment; returns what the loss will be."""
        unwanted = [(grad._chunk, grad._chunk.read()) for param in self._trainer._params if param.grad_req == "write"
                    for grad in param.list_grad() if grad.stype == "default"]
        with Collecting(segment):
            with autograd.record():
                out = self._net(*inputs) if self._loss is None else self._loss(self._net(*inputs[:-1]), inputs[-1])
            autograd.backward(flatten(out, "output")[0])
            self._trainer.step(batch_size or inputs[0].shape[0])
            for chunk, value in unwanted:
                chunk.write(value)
        return out

    def _check(self, inputs: Sequence[NDArray]) -> None:
        """Checks the inputs' kinds, and warns of a program that is compiled again and again."""
        wrong = next((a for a in inputs if not isinstance(a, NDArray)), None)
        if wrong is not None or not inputs:
            raise TypeError(f"TrainStep: inputs must be NDArrays, got {type(wrong).__name__}")
        form = tuple([(a.shape, a.dtype) for a in inputs])
        if form not in self._shapes:
            self._shapes.add(form)
            if len(self._shapes) == _MANY_SHAPES:
                warnings.warn(f"TrainStep was compiled for {_MANY_SHAPES} different shapes of its inputs, the last "
                              f"{[shape for shape, _ in form]}: pad or bucket batches so that shapes are few",
                              stacklevel=3)

    def _initialize(self, inputs: Sequence[NDArray]) -> None:
        """Finishes deferred initialization and makes the optimizer's states, so that all steps are one program."""
        trainer = self._trainer
        if any(param._deferred_init for param in trainer._params):
            given = inputs if self._loss is None else inputs[:-1]
            if isinstance(self._net, HybridBlock):
                self._net._deferred_infer_shape(*given)
                for param in self._net.collect_params().values():
                    param._finish_deferred_init()
            else:
                with autograd.pause():
                    self._net(*given)
        trainer._prepare()
        if self._mesh is not None and not self._begun:
            self._begin_alike()
        self._begun = True
        if not trainer._update_on_kvstore:
            trained = [(i, p) for i, p in enumerate(trainer._params) if p.grad_req != "null"]
            trainer._updaters[0]._prepare([i for i, _ in trained], [p._data[0] for _, p in trained])

    def _begin_alike(self) -> None:
        """Gives all processes of the mesh the parameters of the first."""
        if len({device.process_index for device in self._mesh.devices.flat}) == 1:
            return
        if self._trainer._distributed:
            raise ValueError("TrainStep: a program on a mesh of several processes sums over them by itself; make the "
                             f"trainer with kvstore=None, not {self._trainer._kvstore.type!r}")
        arrays = [array for param in self._trainer._params for array in param.list_data()]
        values = multihost_utils.broadcast_one_to_all([array.asnumpy() for array in arrays])
        for array, value in zip(arrays, values, strict=True):
            array[:] = np.asarray(value)


def _signature(inputs: Sequence[Any]) -> tuple | None:
    """Shapes and dtypes of plain arrays that are there; None where they are something else."""
    found = []
    for array in inputs:
        if type(array) is not NDArray or array._view is not None or array._entry is not None:
            return None
        held = array._chunk.buffer
        if held is None or isinstance(held, jax.core.Tracer):
            return None
        found.append(held.aval)
    return tuple(found)
