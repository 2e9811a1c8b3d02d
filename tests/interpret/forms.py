"""Comparison of operators' NumPy forms with what XLA makes of their formulas."""

import itertools

import jax
import numpy as np
import pytest

from mxjax._xla.x64 import needs_x64
from mxjax.interpret.direct import form_of
from mxjax.interpret.program import Unknown
from mxjax.kernel.kernel import prepare
from mxjax.kernel.shape_only import shape_only
from mxjax.kernel.xla import by_effort
from mxjax.ops import registry

__all__ = ["by_xla", "check", "compare", "leaves_out"]


def by_xla(function, *args):
    """Returns the results of a function that XLA compiles without optimization, which takes half the time."""
    return jax.jit(function, compiler_options=by_effort()[-1])(*args)


def check(name, arrays, params=None, tolerance=1e-5, gradients=True, seed=0, pack=False, train=True, key=None,
          choices=None):
    """Compares outputs, gradients for each choice of wanted ones, and what the gradients are said to read.

    Args:
        name: of the operator.
        arrays: NumPy arrays.
        params: parameters as a user writes them.
        tolerance: relative and absolute.
        gradients: whether there are some.
        pack: numbers among the parameters are one vector, as in calls of an operator by itself.
        train: the mode.
        choices: for each comparison of gradients, of which arrays they are wanted; by default all choices.
        key: what was drawn, alone in a tuple, of an operator that draws; by default JAX's key and a counter.
    """
    op = registry.get(name)
    assert form_of(op.name) is not None, f"{op.name} has no NumPy form"
    values = op.parse(params or {})
    kernel = prepare(op, values, len(arrays), train, pack)
    assert kernel.form is not None
    x64 = kernel.x64 or any(needs_x64(a.dtype) for a in arrays)
    extras = kernel.extras(values, x64)
    if kernel.uses_key:
        extras += key or (np.zeros(2, "uint32"), np.uint32(1))
    with jax.enable_x64(x64), np.errstate(all="ignore"):
        _check(kernel, arrays, extras, tolerance, gradients, seed, choices)


def _check(kernel, arrays, extras, tolerance, gradients, seed, choices):
    made = kernel.form([*arrays, *extras])
    assert made is not None, "the form is not for these arrays"
    outputs = made[0](*arrays, *extras)
    expected = by_xla(kernel.fn, *arrays, *extras)
    compare(outputs, expected, tolerance)
    if not gradients:
        return
    floats = [a.dtype.kind == "f" for a in arrays]
    rng = np.random.RandomState(seed)
    heads = [rng.uniform(-3, 3, o.shape).astype(o.dtype) for o in expected[:kernel.num_outputs]]
    visible = tuple([i < kernel.num_visible for i in range(kernel.num_outputs)])
    heads = [h for h, v in zip(heads, visible, strict=True) if v]
    everything = None if choices else _gradients(kernel, floats, visible, arrays, extras, heads)
    for wanted in choices or itertools.product([False, True], repeat=len(arrays)):
        if not any(wanted) or any(w and not f for w, f in zip(wanted, floats, strict=True)):
            continue
        full = (*wanted, *(False,) * len(extras))
        backward = kernel.vjp(full, visible)
        assert backward.form is not None, "the form has no gradients"
        reads = kernel.form.reads(full)
        given = [a if r else np.zeros_like(a) for a, r in zip(arrays, reads or itertools.repeat(True), strict=False)]
        forms = [a if r else shape_only(a.shape, a.dtype) for a, r in
                 zip(arrays, reads or itertools.repeat(True), strict=False)]
        function = backward.form([*forms, *extras, *heads])[0]
        expected = everything or _gradients(kernel, wanted, visible, arrays, extras, heads)
        compare(function(*given, *extras, *heads), [expected[i] for i, w in enumerate(wanted) if w], tolerance)


def _gradients(kernel, wanted, visible, arrays, extras, heads):
    """Returns XLA's gradients of the arrays, by number."""
    if not any(wanted):
        return {}
    backward = kernel.vjp((*wanted, *(False,) * len(extras)), visible)
    results = by_xla(backward.fn, *arrays, *extras, *heads)
    return dict(zip([i for i, w in enumerate(wanted) if w], results, strict=True))


def leaves_out(name, arrays, params=None, gradient=False):
    """Asserts that a call, or that of its gradients, is left to the operator's own formula."""
    op = registry.get(name)
    values = op.parse(params or {})
    kernel = prepare(op, values, len(arrays), True)
    args = [*arrays, *kernel.extras(values, False)]
    if gradient:
        kernel, args = kernel.vjp((True,) * len(arrays), (True,)), [*args, arrays[0]]
    made = kernel.form(args)
    if made is not None:
        with pytest.raises(Unknown), np.errstate(all="ignore"):
            made[0](*args)


def compare(found, expected, tolerance):
    """Asserts that two sequences of arrays agree, in shapes and dtypes, too."""
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape and one.dtype == other.dtype, (one.shape, one.dtype, other.shape, other.dtype)
        other = np.asarray(other)
        finite = np.abs(other[np.isfinite(other)])
        np.testing.assert_allclose(one, other, tolerance, tolerance * max(1.0, float(finite.max(initial=0))))
