"""The contents of a training step's checkpoint, from which training resumes exactly.

Parameters are stored under their attribute paths ("net.0.weight"), because prefixed names depend on
how many blocks the process has created.
"""

from __future__ import annotations

import os
import random as python_random
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import SingleDeviceSharding

from .._random import streams as _random_streams
from .._xla.x64 import x64_mode
from ..array.creation import zeros_later
from ..base import MXNetError
from ..eager.promise import Promise, zeros
from ..eager.trace import TracePromise
from ..io.state import need_state, plain
from ..libinfo import __mxjax_version__
from ..ndarray import NDArray
from ..ops.params import np_dtype
from ._checkpoint_files import Found, Target, Writer, find
from ._parameter import Parameter, _in_numpy_mode, is_dense
from ._sharding import arrays as arrays_of
from .block import Block

if TYPE_CHECKING:
    from ..optimizer import Updater
    from .train_step import TrainStep
    from .trainer import Trainer

__all__ = ["restore", "save"]

_FORMAT = 1


def save(step: TrainStep, writer: Writer, directory: str | os.PathLike[str], number: int | None, data: Any,
         keep: int | None, wait: bool) -> None:
    """See `TrainStep.save`."""
    count: int = step.trainer.optimizer.num_update if number is None else number
    for name, value, least in (("step", count, 0), ("keep", 1 if keep is None else keep, 1)):
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
            raise ValueError(f"TrainStep.save: {name} must be an integer, {least} or more, got {value!r}")
    own = _own(data)
    writer.wait()  # before memory is taken for another copy
    arrays = _arrays(step)
    state = {"mxjax": __mxjax_version__, "format": _FORMAT, **_shared(step),
             **{group: {name: [list(a.shape), np.dtype(a.dtype).name] for name, a in named.items()}
                for group, named in arrays.items()}}
    writer.write(directory, int(count), {group: {name: _value(a) for name, a in named.items()}
                                          for group, named in arrays.items()}, own, state, keep)
    if wait:
        writer.wait()


def restore(step: TrainStep, writer: Writer, directory: str | os.PathLike[str], number: int | None, data: Any,
            missing: int | None) -> int:
    """See `TrainStep.restore`."""
    sources = _sources(data)
    writer.wait()
    result = find(directory, number)
    if result is None:
        if missing is not None:
            return missing
        raise MXNetError(f"{os.fspath(directory)} contains no checkpoint of a training step")
    if result.state.get("format") != _FORMAT:
        raise MXNetError(f"{result.path}: the format {result.state.get('format')!r} was written by another version "
                         f"of mxjax, "
                         f"{result.state['mxjax']!r}; this is {__mxjax_version__}, which reads {_FORMAT}")
    try:
        _restore(step, result, sources)
    except (KeyError, TypeError, AttributeError, IndexError) as error:  # the state has another structure
        raise MXNetError(f"{result.path}: its state is corrupt: {type(error).__name__}: {error}") from error
    return result.number


def _restore(step: TrainStep, checkpoint: Found, sources: dict[str, Any]) -> None:
    """Checks first, then reads, then changes."""
    trainer, state = step.trainer, checkpoint.state
    params = _named(step)
    saved = {group: {name: (tuple(map(_integer, shape)), np_dtype(dtype))
                     for name, (shape, dtype) in state[group].items()} for group in ("parameters", "states")}
    _check_parameters(checkpoint.path, params, saved["parameters"])
    attributes = list(_new_attributes(step, state, checkpoint.path))
    states = _new_states(step, params, saved, checkpoint.path)
    by_name = {name: key for name, param in params.items() if (key := trainer.index_of(param)) is not None}
    counts = {by_name[name]: _integer(count) for name, count in state["counts"].items()}
    repeated, count, longest = map(_integer, [state["repeated"], *state["rows"]])
    for name, (shape, _) in saved["parameters"].items():
        params[name].shape = shape  # known now, where it was not

    places = {name: _place(step, param) for name, param in params.items()}
    targets = {
        "parameters": {name: Target(*spec, places[name]) for name, spec in saved["parameters"].items()},
        "states": {name: Target(*spec, places[_owner(name)] if spec[0] == saved["parameters"][_owner(name)][0] else
                                _whole(params[_owner(name)])) for name, spec in saved["states"].items()}}
    read, own = checkpoint.read(targets, (count, longest))
    lacking = [name for name in sources if name not in own["data"]]
    if lacking:
        raise MXNetError(f"{checkpoint.path} has no data position for {lacking}, only for {list(own['data'])}: pass "
                         "the same data as to `save`")
    for name, source in sources.items():
        source.load_state_dict(own["data"][name])
    _take_random(checkpoint.path, own)
    for name, param in params.items():
        if param._data is None:
            param.imagine(param.list_device()[0])
        _set(param.all_arrays()[0], read["parameters"][name])
    updater, optimizer = _updater(trainer), trainer.optimizer
    updater.states.clear()
    updater.states_synced.clear()
    for name, state_arrays in states.items():
        for i, array in enumerate(arrays_of(state_arrays)):
            _set(array, read["states"][f"{name}.{i}"])
        updater.states[by_name[name]], updater.states_synced[by_name[name]] = state_arrays, True
    # it goes another way after some updates of the same parameters, whose results differ in their last bits
    updater.repeated = [i for i, param in enumerate(trainer._params) if param.grad_req != "null"], repeated
    for owner, values in attributes:
        vars(owner).update(values)
    optimizer.resume_training(trainer.contexts[0].device_id, counts)
    trainer._prepare()
    _named(step)  # which refuses a store that updates


# ------------------------------------------------------------ names and arrays
def _named(step: TrainStep) -> dict[str, Parameter]:
    """The step's parameters by name; one that blocks share is there once."""
    result: dict[int, tuple[str, Parameter]] = {}
    for what, part in (("net", step.net), ("loss", step.loss)):
        if isinstance(part, Block):
            for name, param in part._collect_params_with_prefix().items():
                result.setdefault(id(param), (f"{what}.{name}", param))
    for param in step._params():
        result.setdefault(id(param), (f"other.{param.name}", param))
    sparse = next((param.name for _, param in result.values() if not is_dense(param)), None)
    if sparse is not None:
        raise MXNetError(f"a checkpoint of a step can store only dense parameters; {sparse!r} is sparse: use "
                         f"save_parameters")
    if step.trainer.updates_on_store:
        raise MXNetError("the kvstore owns the optimizer's states: create the trainer with update_on_kvstore=False, or "
                         "use its save_states")
    return dict(sorted(result.values(), key=lambda pair: pair[0]))


def _updater(trainer: Trainer) -> Updater:
    """Returns the updater of the trainer's only context."""
    return trainer._updaters[0]


def _integer(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TypeError(f"expected an integer, 0 or more, got {value!r}")
    return value


def _owner(state: str) -> str:
    return state.rpartition(".")[0]


def _arrays(step: TrainStep) -> dict[str, dict[str, NDArray]]:
    """Parameters by name, and the optimizer's states as `name.0`, `name.1` ..."""
    trainer, params = step.trainer, _named(step)
    states = {}
    for name, param in params.items():
        optimizer_state = _updater(trainer).states.get(trainer.index_of(param))
        states.update({f"{name}.{i}": array for i, array in enumerate(arrays_of(optimizer_state))})
    kept = next((key for key, value in vars(trainer.optimizer).items() if _has_arrays(value)), None)
    if kept is not None:
        raise MXNetError(f"{type(trainer.optimizer).__name__} keeps arrays in its attribute {kept!r}, which a "
                         "checkpoint would lose")
    return {"parameters": {name: param.data() for name, param in params.items()}, "states": states}


def _has_arrays(value: object) -> bool:
    return isinstance(value, NDArray) or isinstance(value, dict) and any(map(_has_arrays, value.values()))


def _value(array: NDArray) -> Any:
    """Returns an array's value, on all its devices. Each of several processes has its own; process 0's is saved.

    The next step writes over it, so it has to be copied. From accelerators orbax does that before it comes back; CPUs'
    memory it would look at meanwhile, and a step that cannot have it is another program, which has to be compiled.
    """
    buffer = array.chunk.peek()
    value = buffer.buffer_or_none() if isinstance(buffer, Promise) else buffer
    if value is None:
        value = array.chunk.read()
    if jax.process_count() > 1 and value.is_fully_addressable:
        return np.array(value)
    if next(iter(value.sharding.device_set)).platform != "cpu":
        return value
    with x64_mode(array.chunk.x64):
        return jnp.copy(value)


def _whole(param: Parameter) -> SingleDeviceSharding:
    return SingleDeviceSharding(param.list_device()[0].jax_device)


def _place(step: TrainStep, param: Parameter) -> Any:
    """Returns how a parameter lies: in parts, or whole on its context, from where a step on a mesh brings it to all
    devices.
    """
    sharding = None if step.sharding is None else step.sharding.of(param)
    return _whole(param) if sharding is None or sharding.is_fully_replicated else sharding


def _set(array: NDArray, value: jax.Array) -> None:
    """Gives an array a value that lies where it is to."""
    if len(value.sharding.device_set) > 1:
        array.chunk.defer(TracePromise.of_sharded(value))
    else:
        array.chunk.write(value)


def _check_parameters(path: str, params: Mapping[str, Parameter], saved: Mapping[str, tuple]) -> None:
    missing, extra = sorted(set(params) - set(saved)), sorted(set(saved) - set(params))
    if missing or extra:
        raise MXNetError(f"{path} belongs to another network: " + "; ".join(
            f"{what} {', '.join(names[:5])}{', ...' if len(names) > 5 else ''}"
            for what, names in (("it lacks", missing), ("it also has", extra)) if names))
    for name, (shape, dtype) in saved.items():
        own, own_dtype = params[name]._shape, np_dtype(params[name].dtype)
        if own is not None and (len(own) != len(shape) or any(n not in (0, -1, m) for n, m in
                                                              zip(own, shape, strict=True))):
            raise MXNetError(f"{path}: parameter {name!r} has the shape {shape} in the checkpoint, expected "
                             f"{tuple(own)}")
        if own_dtype != dtype:
            raise MXNetError(f"{path}: parameter {name!r} has the dtype {dtype.name} in the checkpoint, expected "
                             f"{own_dtype.name}")


def _new_states(step: TrainStep, params: Mapping[str, Parameter], saved: Mapping[str, Mapping[str, tuple]],
                path: str) -> dict[str, Any]:
    """States as the optimizer makes them, for those parameters that had some; their arrays take no memory yet."""
    trainer, created = step.trainer, {}
    for name in dict.fromkeys(map(_owner, saved["states"])):
        param = params.get(name)
        key = None if param is None else trainer.index_of(param)
        if param is None or key is None:
            raise MXNetError(f"{path} has states of parameter {name!r}, which this trainer does not train")
        ctx = param.list_device()[0]
        shape, dtype = saved["parameters"][name]
        weight = _in_numpy_mode(zeros_later(shape, ctx, dtype))
        created[name] = trainer.optimizer.create_state_multi_precision(key, weight)
        own = arrays_of(created[name])
        for array in own:
            array.chunk.defer(zeros(array.shape, np_dtype(array.dtype), ctx))
        there = [saved["states"].get(f"{name}.{i}") for i in range(len(own) + 1)]
        here = [*((tuple(a.shape), np_dtype(a.dtype)) for a in own), None]
        if there != here:
            raise MXNetError(f"{path}: the optimizer's states of parameter {name!r} are {_specs_text(there)} in the "
                             f"checkpoint, expected {_specs_text(here)}: the optimizer has other arguments")
    return created


def _specs_text(specs: list[tuple | None]) -> str:
    return ", ".join(f"{dtype.name} {shape}" for shape, dtype in filter(None, specs)) or "none"


# ------------------------------------------------------------ plain values
def _shared(step: TrainStep) -> dict[str, Any]:
    """Returns the state that all processes share."""
    trainer, optimizer = step.trainer, step.trainer.optimizer
    counts = optimizer.update_counts(trainer.contexts[0].device_id)
    return {"repeated": _updater(trainer).repeated[1],
            "counts": {name: counts[key] for name, param in _named(step).items()
                       if (key := trainer.index_of(param)) in counts},
            "attributes": {what: None if owner is None else {"kind": type(owner).__name__, "values": _plain(owner)}
                           for what, owner in _owners(step)}}


def _owners(step: TrainStep) -> Iterator[tuple[str, Any]]:
    """The objects whose plain attributes are kept."""
    trainer = step.trainer
    yield "optimizer", trainer.optimizer
    yield "scheduler", trainer.optimizer.lr_scheduler
    yield "AMP's loss scale", getattr(trainer, "_amp_loss_scaler", None)


def _plain(owner: object) -> dict[str, Any]:
    """An object's attributes that are numbers, texts, or lists of them; the others are as the script makes them."""
    values = {name: plain(value) for name, value in vars(owner).items()}
    return {name: value for name, value in values.items() if _kind(value) is not None}


def _kind(value: object) -> str | None:
    if isinstance(value, list | tuple):
        return "list" if all(item is not None and _kind(item) in ("number", "text") for item in value) else None
    return "number" if isinstance(value, bool | int | float | None) else "text" if isinstance(value, str) else None


def _new_attributes(step: TrainStep, state: Mapping[str, Any], path: str) -> Iterator[tuple[Any, dict[str, Any]]]:
    """(object, its new attributes)."""
    for what, owner in _owners(step):
        there = state["attributes"][what]
        if there is None and what == "AMP's loss scale":
            continue  # a new one
        classes = [None if there is None else there["kind"], None if owner is None else type(owner).__name__]
        if classes[0] != classes[1]:
            raise MXNetError(f"{path}: the {what} is {classes[0]} in the checkpoint, expected {classes[1]}"
                             + (": call amp.init_trainer(trainer) first" if what.startswith("AMP") else ""))
        values = {}
        for name, value in (there["values"] if there else {}).items():
            own = getattr(owner, name, owner)
            if own is owner or None not in (own, value) and _kind(plain(own)) != _kind(value) or _kind(value) is None:
                raise MXNetError(f"{path}: {classes[0]}.{name} is {value!r} in the checkpoint, expected "
                                 f"a value like {own!r}")
            values[name] = tuple(value) if isinstance(own, tuple) else value
        if owner is not None:
            yield owner, values


def _sources(data: Any) -> dict[str, Any]:
    """Returns the objects that have a position in the data, by name."""
    named = {} if data is None else data if isinstance(data, Mapping) else \
        dict(enumerate(data)) if isinstance(data, list | tuple) else {"": data}
    for source in named.values():
        need_state("TrainStep", source)
    return {str(name): source for name, source in named.items()}


def _own(data: Any) -> dict[str, Any]:
    """Returns the state that may differ between processes."""
    return {"data": {name: plain(source.state_dict()) for name, source in _sources(data).items()},
            "random": _random_streams.state_dict(), "numpy": plain(np.random.get_state(legacy=False)),
            "python": python_random.getstate()}


def _take_random(path: str, own: Mapping[str, Any]) -> None:
    """Has random numbers go on from a state."""
    try:
        _random_streams.load_state_dict(own["random"])
        numpy = own["numpy"]
        inner = {key: np.array(value, np.uint64 if max(value) >> 32 else np.uint32)
                 if isinstance(value, list) else value for key, value in numpy["state"].items()}
        np.random.set_state({**numpy, "state": inner})
        version, words, following = own["python"]
        python_random.setstate((version, tuple(words), following))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise MXNetError(f"{path}: its random number state is corrupt: {error}") from error
