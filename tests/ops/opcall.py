"""Calls registered operators on NumPy arrays, without NDArray, for the tests of this folder."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax.test_util import check_grads

import mxjax as mx
from mxjax._xla.x64 import needs_x64
from mxjax.kernel import kernel
from mxjax.ops import registry

KEY = (np.array([0, 7], "uint32"), np.uint32(3))


def call(name: str, *arrays: Any, train: bool = False, **params: Any) -> Any:
    """The visible results of an operator as NumPy arrays: one, or a list of several."""
    prepared, args, x64 = _prepared(name, arrays, train, params)
    outs = [np.asarray(o) for o in kernel.run(prepared, args, x64)][:prepared.num_visible]
    return outs[0] if len(outs) == 1 else outs


def gradients(name: str, *arrays: Any, heads: Any = None, **params: Any) -> list[np.ndarray]:
    """Gradients of all inputs in training mode for these head gradients (default: ones for the first output)."""
    prepared, args, x64 = _prepared(name, arrays, True, params)
    if heads is None:
        heads = [np.ones(*prepared.specs(args)[0])]
    given = tuple(i < len(heads) for i in range(prepared.num_outputs))
    backward = prepared.vjp((True,) * len(arrays), given)
    return [np.asarray(g) for g in kernel.run(backward, args + [_buffer(h) for h in heads], x64)]


def check_derivatives(function: Any, arrays: Any, order: int = 1, **options: Any) -> None:
    """Compares a function's backward derivatives with finite differences; compiled whole, not call by call."""
    with jax.enable_x64(True):
        check_grads(jax.jit(function), tuple(arrays), order, modes=["rev"], **options)


def _buffer(array: Any) -> jax.Array:
    with jax.enable_x64(True):
        return jax.numpy.asarray(array)


def _prepared(name: str, arrays: Any, train: bool, params: Any) -> tuple[kernel.Kernel, list, bool]:
    op = registry.get(name)
    canonical = op.parse(params)
    prepared = kernel.prepare(op, canonical, len(arrays), train)
    buffers = [_buffer(a) for a in arrays]
    args = buffers + [canonical[d] for d in prepared.dynamic]
    if prepared.uses_key:
        args += KEY
    return prepared, args, any(needs_x64(b.dtype) for b in buffers)


def partial_shapes(name: str, ins: list, outs: list | None = None, **params: Any) -> tuple[list, list]:
    """Input and output shapes after the operator's own partial inference rule."""
    op = registry.get(name)
    rule, canonical = op.get_attr("FInferShape"), op.parse(params)
    ins, outs = list(ins), list(outs or [None] * op.num_outputs(canonical))
    names = {"names": op.inputs(canonical, len(ins))} if getattr(rule, "wants_names", False) else {}
    rule(canonical, ins, outs, **names)
    return ins, outs


def of_arrays(names, inputs):
    """Yields (name, symbol) of operators of one or two arrays, called with these symbols of shape (2, 3).

    Left out are those that need more parameters or other shapes, random ones, and those whose result has no axes.
    """
    shapes = dict.fromkeys(mx.sym.Group(inputs).list_arguments(), (2, 3))
    for name in names:
        op = registry.get(name)
        required = {key for key, parameter in op.params.items() if parameter.required}
        count = 2 if op.variadic else len(op.input_names)
        if not required <= {"scalar", "axis"} or count not in (1, 2) or "random" in name or "sample" in name:
            continue
        function = getattr(mx.sym, name, None) or getattr(mx.sym._internal, name)
        try:
            symbol = function(*inputs[:count], **dict.fromkeys(required, 0.75 if "scalar" in required else 1))
            _, found, _ = symbol.infer_shape(**{key: shapes[key] for key in symbol.list_arguments() if key in shapes})
        except mx.MXNetError:
            continue
        if found and found[0]:
            yield name, symbol if len(found) == 1 else symbol[0]
