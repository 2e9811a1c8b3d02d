"""The functions of mx.npx in MXNet 2: named arguments with plain defaults, in its own order.

Each calls the operator that has the same name at level 1.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from .. import level
from .._namespace import document
from .._support.functions import define
from ..numpy._dispatch import call
from ..ops import registry

__all__ = ["maker"]

_WINDOW = ("num_filter=1, num_group=1, workspace=1024, no_bias=False, cudnn_tune=None, cudnn_off=False, layout=None")
# inputs, optional ones last; other arguments; the list of inputs if it depends on these
_FORMS: dict[str, tuple[str, str, str]] = {
    "activation": ("data", "act_type='relu', **kwargs", ""),
    "arange_like": ("data", "start=0.0, step=1.0, repeat=1, ctx=None, axis=None", ""),
    "batch_dot": ("a, b", "transpose_a=False, transpose_b=False, forward_stype='default'", ""),
    "batch_norm": ("x, gamma, beta, running_mean, running_var",
                   "eps=0.001, momentum=0.9, fix_gamma=True, use_global_stats=False, output_mean_var=False, axis=1, "
                   "cudnn_off=False, min_calib_range=None, max_calib_range=None, **kwargs", ""),
    "broadcast_like": ("lhs, rhs", "lhs_axes=None, rhs_axes=None", ""),
    "convolution": ("data=None, weight=None, bias=None", f"kernel=None, stride=None, dilate=None, pad=None, {_WINDOW}",
                    "[data, weight] if no_bias else [data, weight, bias]"),
    "deconvolution": ("data=None, weight=None, bias=None",
                      f"kernel=None, stride=None, dilate=None, pad=None, adj=None, target_shape=None, {_WINDOW}",
                      "[data, weight] if no_bias else [data, weight, bias]"),
    "dropout": ("data", "p=0.5, mode='training', axes=None, cudnn_off=False, **kwargs", ""),
    "embedding": ("data, weight", "input_dim=None, output_dim=None, dtype='float32', sparse_grad=False, **kwargs", ""),
    "fully_connected": ("x, weight, bias=None", "num_hidden=None, no_bias=True, flatten=True, **kwargs",
                        "[x, weight] if no_bias else [x, weight, bias]"),
    "layer_norm": ("data=None, gamma=None, beta=None", "axis=None, eps=None, output_mean_var=None", ""),
    "leaky_relu": ("data=None, gamma=None",
                   "act_type='leaky', slope=0.25, lower_bound=0.125, upper_bound=0.334, **kwargs",
                   "[data, gamma] if act_type == 'prelu' else [data]"),
    "log_softmax": ("data, axis=-1, length=None", "temperature=None, use_length=False, dtype=None",
                    "[data, length] if use_length else [data]"),
    "one_hot": ("data", "depth=None, on_value=1.0, off_value=0.0, dtype='float32'", ""),
    "pick": ("data, index", "axis=-1, mode='clip', keepdims=False", ""),
    "pooling": ("data=None", "kernel=None, stride=None, pad=None, pool_type='max', pooling_convention='valid', "
                "global_pool=False, cudnn_off=False, p_value=None, count_include_pad=None, layout=None, **kwargs", ""),
    "rnn": ("data=None, parameters=None, state=None, state_cell=None, sequence_length=None",
            "mode=None, state_size=None, num_layers=None, bidirectional=False, state_outputs=False, p=0.0, "
            "use_sequence_length=False, projection_size=None, lstm_state_clip_min=None, lstm_state_clip_max=None, "
            "lstm_state_clip_nan=None",
            "[data, parameters, state] + [state_cell] * (mode == 'lstm') + [sequence_length] * use_sequence_length"),
    "softmax": ("data, length=None", "axis=-1, temperature=None, use_length=False, dtype=None",
                "[data, length] if use_length else [data]"),
    "topk": ("data", "axis=-1, k=1, ret_typ='indices', is_ascend=False, dtype='float32'", ""),
}
_NO_INPUT = ("axis",)  # among the first arguments, as MXNet orders them


def maker(make: Callable[[registry.Op, str], Callable]) -> Callable[[registry.Op, str], Callable]:
    """Returns a maker of functions for a namespace (`_namespace.attach`) at the level of the process.

    Args:
        make: maker of the functions of level 1, and of those that are equal in MXNet 2.
    """
    def at_level(op: registry.Op, name: str) -> Callable[..., Any]:
        return _made(op, name) if level.current() == 2 and name in _FORMS else make(op, name)
    return at_level


def _made(op: registry.Op, name: str) -> Callable[..., Any]:
    first, rest, inputs = _FORMS[name]
    head, _, more = rest.partition("**")
    arguments = ", ".join([first, *([head.rstrip(", ")] if head else []), "out=None", *(["**kwargs"] if more else [])])
    names = [part.partition("=")[0].strip() for part in first.split(",")]
    taken = [n for n in names if n in _NO_INPUT] + [p.partition("=")[0].strip() for p in head.split(", ") if p]
    passed = "".join(f", {n}={n}" for n in taken) + (", **kwargs" if more else "")
    inputs = inputs or f"[{', '.join(names)}]"
    body = ("kwargs.pop('name', None); " if more else "") + f"return call('_npx_{name}', {inputs}, out{passed})"
    function = define(name, arguments, body, call=call)
    function.__doc__ = document(op)
    shown = inspect.signature(function)
    function.__signature__ = shown.replace(parameters=[p for p in shown.parameters.values() if p.name != "out"])
    return function
