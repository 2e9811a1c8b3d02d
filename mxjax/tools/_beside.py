"""A converted model beside mxjax: both run on random inputs, also with another length of the first axis."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from ..base import MXNetError
from ..graph.node import topological
from ..kernel.xla import by_effort
from ._model import Model

__all__ = ["Inputs", "Run", "compared", "each", "expected", "may_be_open", "measured", "random_inputs", "written"]

Inputs = dict[str, np.ndarray]
Run = Callable[[list[Inputs]], list[list[np.ndarray]]]  # sets of inputs by name -> the outputs of each

_AGREES = 1e-3  # largest difference, relative to the largest value, that rounding explains


def random_inputs(model: Model, length: int | None = None) -> Inputs:
    """Returns random inputs: places in a table where they look something up, else numbers.

    Args:
        model: the checkpoint.
        length: of the first axes, instead of that of the model's shapes.
    """
    rng, counts = np.random.default_rng(0), {}
    for node in topological(model.symbol.handle):
        if node.op is not None and node.op.name in ("Embedding", "one_hot", "take"):
            source = node.inputs[1 if node.op.name == "take" else 0][0]
            while source.op is not None and source.inputs:
                source = source.inputs[0][0]
            count = node.params.get("input_dim") or node.params.get("depth")
            if count:
                counts[source.name] = min(count, counts.get(source.name, count))
    sizes = {n: s if length is None else (length, *s[1:]) for n, s in model.shapes.items()}
    return {name: (rng.integers(0, counts.get(name, 2), shape) if name in counts or dtype.kind in "iub" else
                   rng.standard_normal(shape)).astype(dtype) for name, (shape, dtype) in
            ((n, (sizes[n], model.dtypes[n])) for n in sizes)}


def expected(model: Model, values: Inputs) -> list[np.ndarray]:
    """Returns the outputs that mxjax computes of these inputs."""
    inputs = [values[n] for n in model.shapes]
    with jax.default_device(jax.local_devices(backend="cpu")[0]):
        traced = jax.make_jaxpr(model.function()[0])(*inputs)
        jaxpr = traced.jaxpr  # weights become arguments: XLA would compute with constants while it compiles
        jaxpr = jaxpr.replace(constvars=(), invars=[*jaxpr.constvars, *jaxpr.invars])
        once = jax.jit(jaxpr_as_fun(ClosedJaxpr(jaxpr, ())), compiler_options=by_effort()[1])  # it runs once
        return [np.asarray(value) for value in once(*traced.consts, *inputs)]


def compared(wanted: list[np.ndarray], results: list[np.ndarray], what: str) -> tuple[str, bool]:
    """Compares the outputs of mxjax with those of another program.

    Args:
        wanted: mxjax's.
        results: the others.
        what: name of the other program for messages.

    Returns:
        The text to print, and whether they agree.
    """
    worst, size = 0.0, 0.0
    for ours, theirs in zip(wanted, results, strict=True):
        if ours.shape != theirs.shape:
            return f"{what} gives the shape {theirs.shape}, mxjax {ours.shape}", False
        if ours.size:
            ours, theirs = ours.astype("float64"), theirs.astype("float64")
            with np.errstate(invalid="ignore"):
                same = (ours == theirs) | np.isnan(ours) & np.isnan(theirs)
                worst = float(np.maximum(worst, np.where(same, 0, np.abs(ours - theirs)).max()))  # NaN stays
            size = max(size, float(np.abs(ours[np.isfinite(ours)]).max(initial=0)))
    good = worst <= _AGREES * max(size, 1e-30)
    return (f"largest difference to mxjax {worst:.2g}, of values up to {size:.3g}"
            f"{'' if good else ': they do not agree'}", good)


def each(call: Callable[[Inputs], Iterable[Any]]) -> Run:
    """Returns a `Run` that calls a function for each set of inputs."""
    return lambda sets: [[np.asarray(value) for value in call(values)] for values in sets]


def may_be_open(model: Model) -> bool:
    """Returns whether the inputs' first axes have one length, which may then be any."""
    lengths = {s[0] if s else None for s in model.shapes.values()}
    return len(lengths) == 1 and None not in lengths


def measured(model: Model, run: Run, what: str, is_open: bool) -> tuple[str, bool]:
    """Runs a converted model and compares its outputs with mxjax's.

    Args:
        model: the checkpoint.
        run: runs the converted one.
        what: name of the converted model for messages.
        is_open: it takes first axes of any length: another one is tried, too.

    Returns:
        The text to print, of the given length where all is well, and whether all is well.
    """
    sets = [random_inputs(model)]
    if is_open:
        sets.insert(0, random_inputs(model, next(iter(model.shapes.values()))[0] + 1))
    report, good = "", True
    for values, result in zip(sets, run(sets), strict=True):
        report, good = compared(expected(model, values), result, what)
        if not good:
            break
    return report, good


def written(model: Model, batch: str, write: Callable[[bool], tuple[str, bool]]) -> tuple[str, bool]:
    """Writes a converted model, its first axis open where the network allows that.

    Args:
        model: the checkpoint.
        batch: "open": the first axis must have any length; "fixed": the given one; "": any where possible.
        write: writes it with the first axis open or not, runs it, and returns the text to print and whether all is
            well.

    Returns:
        The text to print, and whether all is well.

    Raises:
        MXNetError: it cannot be written.
    """
    def attempt(any_length: bool) -> tuple[str, bool]:
        report, good = write(any_length)
        return f"{report} (first axis: {'any length' if any_length else 'the given length'})", good
    *before, last = {"open": [True], "fixed": [False]}.get(batch) or ([True, False] if may_be_open(model) else [False])
    for any_length in before:
        with contextlib.suppress(Exception):  # exporters and runtimes have errors of many kinds
            result = attempt(any_length)
            if result[1]:
                return result
    try:
        return attempt(last)
    except MXNetError:
        raise
    except Exception as error:  # noqa: BLE001
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise MXNetError(f"the graph cannot be converted: {reason}") from error
