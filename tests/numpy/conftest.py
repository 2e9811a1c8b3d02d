"""Shared by the tests of mx.np."""

import pytest

from mxjax import util


@pytest.fixture
def np_semantics():
    """NumPy semantics for shapes and arrays, in this thread."""
    with util.np_shape(), util.np_array():
        yield
