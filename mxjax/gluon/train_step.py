"""TrainStep: a training step as one compiled program."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import jax
import numpy as np
from jax.core import Tracer
from jax.experimental import multihost_utils

from .. import autograd
from .. import ndarray as nd
from .._support.bounded import Bounded
from ..base import MXNetError
from ..eager.chunk import forget
from ..eager.mesh_trace import MeshTrace
from ..eager.modes import Collecting
from ..eager.promise import HostValue, Promise
from ..eager.trace import Trace
from ..kernel.policy import training
from ..ndarray import NDArray
from ..plan import Plan
from ._checkpoint import restore, save
from ._checkpoint_files import Writer
from ._formats import flatten, regroup
from ._plan import plan_of
from ._replay import Loop, Replay, Watch
from ._sharding import Sharding, Shardings
from .block import HybridBlock
from .parameter import Parameter
from .trainer import Trainer
from .utils import clip_global_norm

__all__ = ["TrainStep"]

_MANY_SHAPES = 8


class TrainStep:
    """Compiles forward pass, backward pass, optimizer and auxiliary states into one XLA program,
    which updates memory in place.

    A call is equivalent to this loop body, with the same numbers:

        with mx.autograd.record():
            loss = loss_fn(net(data), label)
        loss.backward()
        trainer.step(data.shape[0])

    The gradients exist only inside the program; `Parameter.grad()` does not change. Each new shape
    or dtype of the inputs is compiled once. Networks and losses are hybridized if they can be.

    Args:
        net: the network; its inputs are all arguments of a call except the last.
        loss: function or block of (output of the network, label). None if the network itself
            returns the loss; then all arguments are its inputs.
        trainer: trainer of the parameters, which must be on one context.
        mesh: devices that share the work: each one receives an equal part of the batch and all
            parameters. The numbers are those of one device (batch normalization uses the whole
            batch). Reading a parameter gathers it. The mesh may span several processes
            (`mx.kv.join()`): each process passes its own part of the batch, and the initial
            parameters are those of process 0.
        axis: the mesh axis over which batches are split; by default the first.
        sharding: sharding of parameters and their optimizer states over the mesh. "replicated":
            every device has all of them. "fsdp": each one is split over `axis` along its longest
            divisible dimension (small ones are not split) and gathered where it is used. {regular
            expression: PartitionSpec}: the first expression that is found in a parameter's name
            decides; parameters without one are sharded as with "fsdp". `Parameter.sharding`
            overrides this for one parameter.
        accumulate: number of equal parts of a batch, whose gradients are added before a single
            update. The result is that of the whole batch (except that batch normalization uses each
            part), but only the activations of one part are in memory at a time.
        clip_norm: upper bound of the global 2-norm of the gradients, divided by the batch size;
            larger gradients are scaled down.

    Raises:
        TypeError, ValueError: an argument is invalid, the trainer has several contexts, or a
            parameter cannot be sharded according to its rule.

    Example:
        >>> net = mx.gluon.nn.Dense(1, in_units=2)
        >>> net.initialize()
        >>> trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
        >>> step = mx.gluon.TrainStep(net, mx.gluon.loss.L2Loss(), trainer)
        >>> step(mx.nd.ones((4, 2)), mx.nd.ones((4, 1))).shape
        (4,)
    """

    def __init__(self, net: Callable[..., Any], loss: Callable[..., Any] | None, trainer: Trainer, *,
                 mesh: jax.sharding.Mesh | None = None, axis: str | None = None,
                 sharding: str | Mapping[str, Any] = "replicated", accumulate: int = 1,
                 clip_norm: float | None = None) -> None:
        if not isinstance(trainer, Trainer):
            raise TypeError(f"TrainStep: trainer must be a gluon.Trainer, got {type(trainer).__name__}")
        if len(trainer.contexts) > 1:
            raise ValueError(f"TrainStep: the parameters are on {len(trainer.contexts)} contexts; initialize them on "
                             "one context and pass a mesh of devices")
        for name, part in (("net", net), ("loss", loss)):
            if not (callable(part) or name == "loss" and part is None):
                raise TypeError(f"TrainStep: {name} must be callable, got {type(part).__name__}")
            if isinstance(part, HybridBlock) and not part._active:
                part.hybridize()
        self._net, self._loss, self._trainer, self._mesh = net, loss, trainer, mesh
        if mesh is None and (axis is not None or sharding != "replicated"):
            raise ValueError("TrainStep: axis and sharding require a mesh")
        if mesh is not None and axis is not None and axis not in mesh.shape:
            raise ValueError(f"TrainStep: the mesh {dict(mesh.shape)} has no axis {axis!r}")
        if clip_norm is not None and not clip_norm > 0:
            raise ValueError(f"TrainStep: clip_norm must be positive, got {clip_norm!r}")
        self.axis, self.sharding = axis, None
        if mesh is not None:
            self.axis = first = axis or cast(str, mesh.axis_names[0])
            self.sharding = Sharding(mesh, sharding, first, (net, loss))
        if not (isinstance(accumulate, int) and accumulate > 0):
            raise ValueError(f"TrainStep: accumulate must be a number of parts, 1 or more, got {accumulate!r}")
        self._accumulate, self._clip_norm = accumulate, clip_norm
        self._shapes: set[Any] = set()
        self._replays: dict[tuple | None, Replay | None] = Bounded(64)  # by signature of steps that were done in full
        self._rows: dict[tuple, tuple | None] = Bounded(64)  # signatures of steps by the form of rows in `run`
        self._begun = False
        self._split: list[Parameter] = []  # those in parts, once it has begun
        self._writer = Writer()

    @property
    def net(self) -> Callable[..., Any]:
        """The network."""
        return self._net

    @property
    def loss(self) -> Callable[..., Any] | None:
        """The loss function; None if the network returns the loss."""
        return self._loss

    @property
    def trainer(self) -> Trainer:
        """The trainer of the parameters."""
        return self._trainer

    def __call__(self, *inputs: NDArray, batch_size: int | None = None) -> Any:
        """Runs one step.

        Args:
            inputs: the network's inputs, then the label, all on one context.
            batch_size: divisor of the gradients; by default the length of the first input (times
                the number of processes of a mesh).

        Returns:
            The value of the loss, before the update.

        Raises:
            TypeError: an input is not an NDArray.
            MXNetError: shapes do not fit.
            UserWarning: the loss does not depend on one of the trainer's parameters.
        """
        signature = _signature(inputs)
        replay = self._replays.get(signature)
        if replay is not None and signature is not None:
            done = replay(inputs, batch_size or signature[0].shape[0])
            if done is not None:
                return done[0]
            self._replays[signature] = None
        self._check(inputs)
        self._initialize(inputs)
        trainer, watch = self._trainer, None
        if self._mesh is None or self.sharding is None:
            trace = Trace(1 << 30, trials=0)
            if signature in self._replays and self._accumulate == 1 and \
                    Watch.possible(self._net, self._loss, trainer, inputs):
                watch = Watch(self._net, self._loss, trainer, inputs)
        else:
            self.sharding.place(trainer, self._split)
            trace = MeshTrace(self._mesh, self.sharding.axis)
        parts = [[trace.spread(a) for a in part] for part in self._divided(inputs)]  # kept: they are not given away
        out = self._record(trace, parts, batch_size)
        if watch is not None:
            watch.sources(trace)
        trace.run()
        if signature is not None:
            self._replays[signature] = None if watch is None else watch.replay(trace, out)
        return out

    def run(self, *inputs: NDArray, batch_size: int | None = None) -> Any:
        """Runs one step per row of the inputs, so that one call runs many steps.

        From the second call with inputs of the same shapes, and after the first steps of the
        training, all steps are one program, which loops on the device. This is faster for small
        networks, whose steps take longer on the host than on the device. The numbers are the same
        as with single calls `step(...)`. If a step needs more than its program (a mesh,
        `accumulate`, a network in plain Python, a store), the steps run one by one.

        Args:
            inputs: as in a call, each with an additional first axis: (steps, batch, ...).
            batch_size: as in a call; by default the length of the second axis.

        Returns:
            The losses of all steps, with the steps as the first axis.

        Raises:
            TypeError: an input is not an NDArray.
            MXNetError: the inputs have different numbers of steps, or no steps.

        Example:
            >>> net = mx.gluon.nn.Dense(1, in_units=2)
            >>> net.initialize()
            >>> trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
            >>> step = mx.gluon.TrainStep(net, mx.gluon.loss.L2Loss(), trainer)
            >>> step.run(mx.nd.ones((10, 4, 2)), mx.nd.ones((10, 4, 1))).shape
            (10, 4)
        """
        self._check_kinds(inputs)
        steps = {array.shape[0] if array.ndim > 1 else 0 for array in inputs}
        if len(steps) > 1 or 0 in steps:
            raise MXNetError("TrainStep.run: each input must have the shape (steps, batch, ...) with the same number "
                             f"of steps, at least 1; got {[array.shape for array in inputs]}")
        form = tuple([(array.shape[1:], array.dtype, type(array)) for array in inputs])
        replay = self._replays.get(self._rows.get(form))
        outs: list[Any] = []
        done = 0
        if replay is not None and not training.young:
            replay.loop = replay.loop or Loop(replay)
            result = replay.loop(inputs, batch_size or inputs[0].shape[1]) if replay.loop.possible else None
            if result is not None:
                outs, done = [result[0]], result[1]
        for i in range(done, inputs[0].shape[0]):
            batch = [array[i].copy() for array in inputs]
            self._rows[form] = _signature(batch)
            out = self(*batch, batch_size=batch_size)
            flat, regrouped = flatten(out, "output")
            outs.append(regroup([a.expand_dims(0) for a in flat], regrouped))
        return outs[0] if len(outs) == 1 else _stacked(outs)

    def plan(self, *inputs: NDArray, on: str, batch_size: int | None = None, mesh: Mapping[str, int] | None = None,
             sharding: str | Mapping[str, Any] | None = None) -> Plan:
        """Estimates memory and time of a step on devices that this machine may lack. No step runs,
        and parameters without values are not initialized, so networks that exceed this machine's
        memory can be planned.

        Args:
            inputs: as in a call; only their shapes and dtypes matter. Several devices share the first axis.
            on: the devices: "h100", "h200", "a100", "l4", "h100x8"; "v5e:1x1" ... "v5e:16x16", "v6e:2x2" ...
            batch_size: as in a call.
            mesh: names and lengths of the mesh axes, {"data": 8, "model": 2}; batches are split
                over the first. By default there is one axis.
            sharding: as for the class; by default the sharding of this step.

        Returns:
            Memory per device, operations, bytes moved, launches, collectives, and a roofline
            estimate of the time.

        Raises:
            TypeError: an input is not an NDArray.
            MXNetError: the devices are unknown, or their compiler (mxjax[cuda12], mxjax[cuda13],
                mxjax[plan-tpu]) is not installed or rejects the step.

        Example:
            >>> print(step.plan(data, label, on="v5e:4x4"))  # doctest: +SKIP
        """
        self._check(inputs)
        return plan_of(self, inputs, on, batch_size, mesh, sharding)

    def save(self, directory: str | os.PathLike[str], step: int | None = None, *, data: Any = None,
             keep: int | None = None, wait: bool = False) -> None:
        """Saves a checkpoint of the whole training state in the background, while training continues.

        The checkpoint contains the parameters (each process writes the shards of its devices), the
        optimizer's states and counts, learning rate and schedule, AMP's loss scale, this thread's
        random number states (of MXNet, NumPy and Python) and the data positions. It does not
        contain gradients, attributes of parameters (`lr_mult`), or attributes of optimizer and
        schedule that are not numbers or strings. A checkpoint receives its name when it is
        complete; the next writer removes leftovers of killed processes. All processes of a mesh
        must call this together and share the directory.

        Args:
            directory: checkpoint directory, created if it does not exist; bucket names ("gs://...")
                also work.
            step: number of the checkpoint, larger than the existing ones; by default the number of
                updates.
            data: a loader, sampler or iterator whose position is saved (anything with `state_dict`
                and `load_state_dict`), or a list or dict of these.
            keep: number of latest checkpoints to keep; by default all.
            wait: return only after the checkpoint is written.

        Raises:
            MXNetError: the checkpoint cannot be written, the previous one could not be, parameters
                are sparse, or a package is missing (mxjax[checkpoint]).
            RuntimeError: parameters are not initialized.
            TypeError, ValueError: an argument is invalid. Example:
            >>> step.save("checkpoints", data=loader, keep=3)  # doctest: +SKIP
        """
        save(self, self._writer, directory, step, data, keep, wait)

    def wait(self) -> None:
        """Waits until the checkpoint that `save` started is written.

        Raises:
            MXNetError: writing it failed.

        Example:
            >>> step.wait()  # doctest: +SKIP
        """
        self._writer.wait()

    def restore(self, directory: str | os.PathLike[str], step: int | None = None, *, data: Any = None,
                missing: int | None = None) -> int:
        """Restores the training state that `save` saved; the next steps are the same as those after `save`.

        Everything is checked and read before anything changes. Each device reads its own shards, so
        the mesh, the sharding and the number of processes may differ from those of `save`.
        Parameters with deferred initialization receive their shapes and need no memory before. The
        settings of the optimizer (weight decay, momentum ...) are restored, too.

        Args:
            directory: checkpoint directory.
            step: number of the checkpoint; by default the last complete one.
            data: the `data` of `save`, or the part of it to resume.
            missing: value to return if the directory does not exist or has no checkpoint yet; by
                default that is an error.

        Returns:
            The checkpoint's number.

        Raises:
            MXNetError: there is no checkpoint; names, shapes, dtypes or the optimizer differ; or
                the files are corrupt.
            ValueError: a position does not fit the data, or a sharding rule does not fit a shape.
            UserWarning: a directory is skipped because it is not a complete checkpoint.

        Example:
            >>> begin = step.restore("checkpoints", data=loader, missing=0)  # doctest: +SKIP
        """
        return restore(self, self._writer, directory, step, data, missing)

    def _record(self, trace: Trace, parts: Sequence[Sequence[NDArray]], batch_size: int | None) -> Any:
        """Defers a step on the parts of a batch to a trace; returns the pending loss."""
        trainer, batch_size = self._trainer, batch_size or sum(part[0].shape[0] for part in parts)
        unwanted = [(grad.chunk, grad.chunk.peek()) for param in self._trained if param.grad_req == "write"
                    for grad in param.list_grad() if grad.stype == "default"]
        with Collecting(trace):
            try:
                out = self._gradients_of(parts)
                if isinstance(trace, MeshTrace) and self.sharding is not None:
                    for param in self._split:
                        for grad in param._grad or ():  # if it is read before the update
                            trace.lay(grad.chunk, self.sharding.of(param))
                trace.updating()
                if self._clip_norm is not None:
                    grads = [grad for p in self._trained if p.grad_req != "null" for grad in p.list_grad()]
                    clip_global_norm(grads, self._clip_norm * batch_size / trainer._scale, check_isfinite=False)
                trainer.step(batch_size)
            finally:
                if len(parts) > 1:
                    self._mark("write")
            for chunk, value in unwanted:
                chunk.defer(value) if isinstance(value, Promise) else chunk.write(value)
        return out

    def _gradients_of(self, parts: Sequence[Sequence[NDArray]]) -> Any:
        """Computes the gradients of a batch in parts; returns the loss."""
        outs = []
        for number, part in enumerate(parts):
            if len(parts) > 1 and number < 2:  # before the first part, too: programs order parameters by last mark
                self._mark("add" if number else "write")
            with autograd.record():
                out = self._net(*part) if self._loss is None else self._loss(self._net(*part[:-1]), part[-1])
            autograd.backward(flatten(out, "output")[0])
            outs.append(out)
        return outs[0] if len(parts) == 1 else _joined(outs, [part[0].shape[0] for part in parts])

    def shardings(self) -> Shardings:
        """Returns the sharding of each parameter: a list of (name, shape, dtype, spec, bytes per device).

        Returns:
            The list, which prints as a table.

        Raises:
            ValueError: there is no mesh.
            RuntimeError: parameters are not initialized.

        Example:
            >>> net = mx.gluon.nn.Dense(4, in_units=2)
            >>> net.initialize()
            >>> trainer = mx.gluon.Trainer(net.collect_params(), "sgd")
            >>> mesh = jax.make_mesh((1,), ("data",))
            >>> step = mx.gluon.TrainStep(net, mx.gluon.loss.L2Loss(), trainer, mesh=mesh)
            >>> len(step.shardings())
            2
        """
        if self.sharding is None:
            raise ValueError("TrainStep.shardings: there is no mesh")
        return self.sharding.table(self._params())

    def _divided(self, inputs: Sequence[NDArray]) -> list[Sequence[NDArray]]:
        """The parts of a batch whose gradients are added up."""
        count = self._accumulate
        if count == 1:
            return [inputs]
        for array in inputs:
            if not array.shape or array.shape[0] % count:
                raise MXNetError(f"TrainStep: an input of shape {array.shape} cannot be divided into {count} equal "
                                 "parts")
        length = inputs[0].shape[0] // count
        return [[array[i * length:(i + 1) * length] for array in inputs] for i in range(count)]

    def _mark(self, req: str) -> None:
        """Sets the grad_req of parameters whose grad_req is "write"."""
        for param in self._trained:
            if param.grad_req == "write" and param._data is not None and param._grad is not None:
                autograd.mark_variables(param._data, param._grad, req)

    @property
    def _trained(self) -> list[Parameter]:
        """The trainer's parameters."""
        return self._trainer._params

    def _params(self) -> list[Parameter]:
        """The trainer's parameters, and the others of the network and the loss."""
        blocks: list[Any] = [block for block in (self._net, self._loss) if hasattr(block, "collect_params")]
        results = [*self._trained, *[p for block in blocks for p in block.collect_params().values()]]
        return list({id(param): param for param in results}.values())

    def _check_kinds(self, inputs: Sequence[NDArray]) -> None:
        wrong = next((a for a in inputs if not isinstance(a, NDArray)), None)
        if wrong is not None or not inputs:
            raise TypeError(f"TrainStep: inputs must be NDArrays, got {type(wrong).__name__}")

    def _check(self, inputs: Sequence[NDArray]) -> None:
        """Checks the inputs' kinds, and warns of a program that is compiled again and again."""
        self._check_kinds(inputs)
        form = tuple([(a.shape, a.dtype) for a in inputs])
        if form not in self._shapes:
            self._shapes.add(form)
            if len(self._shapes) == _MANY_SHAPES:
                warnings.warn(f"TrainStep was compiled for {_MANY_SHAPES} different shapes of its inputs, the last "
                              f"{[shape for shape, _ in form]}: pad or bucket batches so that there are fewer shapes",
                              stacklevel=3)

    def _initialize(self, inputs: Sequence[NDArray]) -> None:
        """Finishes deferred initialization and makes the optimizer's states, so that all steps are one program."""
        trainer = self._trainer
        if any(param.waits_for_shape for param in self._trained):
            self._infer(inputs)
            if isinstance(self._net, HybridBlock):
                for param in self._net.collect_params().values():
                    param._finish_deferred_init()
                    if self.sharding is not None:  # before the next one takes memory
                        self.sharding.place(trainer, [param])
        trainer._prepare()
        if self._mesh is not None and self.sharding is not None and not self._begun:
            self._begin_alike(self._mesh)
            self._split = self.sharding.split(self._params())
        self._begun = True
        for param in self._states():
            if self.sharding is not None:  # before the next one takes memory
                self.sharding.place(trainer, [param])
                forget(param.all_arrays()[0].chunk)

    def _infer(self, inputs: Sequence[NDArray]) -> None:
        """Infers the shapes of parameters; blocks that can only be run get their values as well."""
        data = inputs if self._loss is None else inputs[:-1]
        as_given = type(self._net).__call__ is HybridBlock.__call__  # layers of recurrent networks add states
        if isinstance(self._net, HybridBlock) and as_given:
            self._net._deferred_infer_shape(*data)
        else:
            with autograd.pause():
                self._net(*data)

    def _states(self) -> Iterator[Parameter]:
        """Makes the states that the optimizer keeps of parameters; gives those, one after the other."""
        trainer = self._trainer
        for i, param in enumerate(self._trained):
            if param.grad_req != "null" and not trainer._update_on_kvstore:
                trainer._updaters[0].prepare([i], [param.all_arrays()[0]])
                yield param

    def _begin_alike(self, mesh: jax.sharding.Mesh) -> None:
        """Gives all processes of the mesh the parameters of the first."""
        if len({device.process_index for device in mesh.devices.flat}) == 1:
            return
        store = self._trainer._kvstore
        if store is not None and self._trainer._distributed:
            raise ValueError("TrainStep: a program on a mesh of several processes already sums over them; create the "
                             f"trainer with kvstore=None, not {store.type!r}")
        for param in self._trained:
            for array in param.list_data():
                if not getattr(array.chunk.peek(), "stays", False):  # parts were made everywhere of the same numbers
                    array[:] = np.asarray(multihost_utils.broadcast_one_to_all(array.asnumpy()))


def _joined(outs: Sequence[Any], lengths: Sequence[int]) -> Any:
    """Returns the loss of a batch from the losses of its parts: rows after each other, other things' mean."""
    rows = [flatten(out, "output") for out in outs]
    results = []
    for arrays in zip(*[flat for flat, _ in rows], strict=True):
        if all(a.shape and a.shape[0] == n for a, n in zip(arrays, lengths, strict=True)):
            results.append(nd.concat(*arrays, dim=0))
        else:
            results.append(nd.add_n(*arrays) / len(arrays))
    return regroup(results, rows[0][1])


def _stacked(outs: Sequence[Any]) -> Any:
    """Returns losses of several steps, each with an axis of steps, as one."""
    rows = [flatten(out, "output") for out in outs]
    results = []
    for arrays in zip(*[flat for flat, _ in rows], strict=True):
        joined = nd.concat(*[array.as_nd_ndarray() for array in arrays], dim=0)
        results.append(joined if type(arrays[0]) is NDArray else joined.as_np_ndarray())
    return regroup(results, rows[0][1])


def _signature(inputs: Sequence[Any]) -> tuple | None:
    """Shapes and dtypes, and the class, of plain arrays that are there; None where they are something else."""
    results: list[Any] = []
    for array in inputs:
        if not isinstance(array, NDArray) or not array.dense or array.region is not None or array.entry is not None:
            return None
        chunk = array.chunk
        value = chunk.buffer
        if value is None:
            value = chunk.pending
            if type(value) is not HostValue:
                return None
        elif isinstance(value, Tracer):
            return None
        results.append(value.aval)
    return *results, *map(type, inputs)
