"""Operators of mx.np as others, for exporters: they compute the same."""

import numpy as np
import pytest

import mxjax as mx
from mxjax.graph.inference import infer_shapes, infer_types
from mxjax.symbol._simpler import FORMS, simpler
from mxjax.symbol.symbol import Symbol

from ..internals import outputs_of

SHAPES = [(), (3,), (2, 3), (2, 3, 4)]
JOINS = [(f"{name}{len(shape)}", lambda x, y, name=name: getattr(mx.sym.np, name)([x, y]), shape, shape)
         for name in ("hstack", "vstack", "dstack") for shape in SHAPES]
CASES = [
    *JOINS, ("column_stack", lambda x, y: mx.sym.np.column_stack([x, y]), (3,), (3, 2)),
    ("roll", lambda x: mx.sym.np.roll(x, (1, -2), axis=(0, 2)), (2, 3, 4)),
    ("moveaxis", lambda x: mx.sym.np.moveaxis(x, (0, -1), (-1, 0)), (2, 3, 4)),
    ("diff", lambda x: mx.sym.np.diff(x, n=2, axis=1), (2, 5)), ("triu", lambda x: mx.sym.np.triu(x, 1), (3, 4)),
    ("tensordot", lambda x, y: mx.sym.np.tensordot(x, y, ([0, 2], [1, 0])), (2, 3, 4), (4, 2, 5)),
    ("tensordot of axes", lambda x, y: mx.sym.np.tensordot(x, y, 2), (2, 3, 4), (3, 4, 5)),
    ("var", lambda x: x.var(axis=1, ddof=1, keepdims=True), (2, 3)), ("std", lambda x: x.std(axis=(0, -1)), (2, 3, 4)),
    ("group_norm", lambda x, y, z: mx.sym.npx.group_norm(x, y, z, num_groups=2, eps=0.01), (2, 4, 3), (4,), (4,)),
    ("group_norm of images", lambda x, y, z: mx.sym.npx.group_norm(x, y, z, num_groups=3), (2, 3, 2, 4), (3,), (3,)),
    ("norm", lambda x: mx.sym.np.linalg.norm(x, axis=1, keepdims=True), (2, 3)),
    ("logaddexp", mx.sym.np.logaddexp, (2, 3), (3,)), ("full_like", lambda x: mx.sym.np.full_like(x, 2.5), (2, 3)),
]


def rewritten(symbol, given, types):
    return simpler(outputs_of(symbol), lambda name: name not in FORMS, lambda outputs: (
        infer_shapes(outputs, given, types), infer_types(outputs, types)))


@pytest.mark.parametrize("make, shapes", [pytest.param(make, shapes, id=name) for name, make, *shapes in CASES])
def test_they_compute_the_same(make, shapes, np_semantics):
    arrays = {name: mx.np.array(np.random.RandomState(i).normal(size=shape).astype("float32"))
              for i, (name, shape) in enumerate(zip("xyz", shapes, strict=False))}
    symbol = make(*(mx.sym.var(name).as_np_ndarray() for name in arrays))
    given, types = {name: array.shape for name, array in arrays.items()}, dict.fromkeys(arrays, "float32")
    outputs = rewritten(symbol, given, types)
    assert outputs is not outputs_of(symbol)
    expected, = symbol.eval(**arrays)
    found, = Symbol(outputs).as_np_ndarray().eval(**arrays)
    assert found.shape == expected.shape and found.dtype == expected.dtype
    np.testing.assert_allclose(found.asnumpy(), expected.asnumpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("make, told", [
    (lambda x: mx.sym.np.roll(x, 1), "operator _np_roll .*: an axis is needed"),
    (lambda x: mx.sym.np.linalg.norm(x, ord="nuc"), "operator _npi_norm .*: only the 2-norm of vectors is simpler"),
    (lambda x: mx.sym.np.moveaxis(x, 0, 1), "the shape of its input is not known")])
def test_what_has_no_simpler_form(make, told, np_semantics):
    symbol = make(mx.sym.var("x").as_np_ndarray())
    with pytest.raises(mx.MXNetError, match=told):
        rewritten(symbol, {} if "shape" in told else {"x": (2, 3)}, {"x": "float32"})
