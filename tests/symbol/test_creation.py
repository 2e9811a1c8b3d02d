"""`mx.sym.zeros`, `arange` ...: functions without inputs take every argument of their counterparts in `mx.nd`."""

import numpy as np
import pytest

import mxjax as mx


@pytest.mark.parametrize("name, arguments, options", [
    ("zeros", [(2, 3)], {"dtype": "int32"}), ("ones", [(2,)], {"dtype": "float64"}), ("zeros", [2], {}),
    ("full", [(2, 2), 1.5], {"dtype": "float16"}), ("full", [(2,), 3], {}),
    ("eye", [3], {}), ("eye", [2, 4, 1], {"dtype": "int32"}), ("eye", [3], {"M": 2, "k": -1}),
    ("arange", [3], {}), ("arange", [1, 7, 2], {"dtype": "int32"}), ("arange", [5, 1], {"step": -1.5, "repeat": 2}),
    ("linspace", [1, 2, 5], {}), ("linspace", [3, -1, 4], {"endpoint": False, "dtype": "float64"})])
def test_constants_are_those_of_arrays(name, arguments, options):
    graph = getattr(mx.sym, name)(*arguments, **options, name="made")
    result, expected = graph.eval()[0], getattr(mx.nd, name)(*arguments, **options)
    assert graph.list_outputs() == ["made_output"] and result.dtype == expected.dtype
    np.testing.assert_array_equal(result.asnumpy(), expected.asnumpy())
