"""Pickles that MXNet 1.9.1 has written: objects in the form in which its classes reduce themselves."""

import copyreg
import pickle

import numpy as np
import pytest

import mxjax as mx


class _Form:
    """Pickles as this function, called with these arguments, and this state."""

    def __init__(self, *form):
        self._form = form

    def __reduce__(self):
        return self._form


def _contexts(protocol):
    state = {"device_typeid": 1, "device_id": 1, "_old_ctx": None}
    how = (copyreg._reconstructor, (mx.Context, object, None)) if protocol < 2 else (mx.Context.__new__, (mx.Context,))
    return pickle.dumps(_Form(*how, state), protocol)


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_contexts(protocol):
    found = pickle.loads(_contexts(protocol))
    assert found == mx.cpu(1) and hash(found) == hash(mx.cpu(1)) and mx.nd.ones(1, ctx=found).context == mx.cpu(1)
    assert mx.Context("cpu", 0).device_id == 0  # the shared objects are as they were
    assert pickle.loads(pickle.dumps(mx.gpu(3), protocol)) is mx.gpu(3)


def test_damaged_contexts_and_those_without_a_type():
    with pytest.raises(mx.MXNetError, match="unknown device type 9"):
        pickle.loads(_contexts(2).replace(b"K\x01X", b"K\x09X", 1))
    with pytest.raises(TypeError, match="device_type"):
        mx.Context()


@pytest.mark.parametrize("make", [
    lambda: mx.nd.array([[0, 1], [2, 0]]), lambda: mx.nd.array([[0, 1], [2, 0]]).tostype("csr"),
    lambda: mx.nd.array([[0, 0], [2, 0]]).tostype("row_sparse"), lambda: mx.np.array([[0, 1], [2, 0]])])
def test_arrays(make):
    array = make()
    dense = array if array.stype == "default" else array.tostype("default")
    found = pickle.loads(pickle.dumps(_Form(type(array), (None,), array.__getstate__())))
    assert type(found) is type(array) and found.stype == array.stype
    np.testing.assert_array_equal(found.asnumpy(), dense.asnumpy())


def test_symbols():
    symbol = mx.sym.FullyConnected(mx.sym.Variable("x"), num_hidden=2, name="fc")
    found = pickle.loads(pickle.dumps(_Form(mx.sym.Symbol, (None,), {"handle": symbol.tojson()})))
    assert found.tojson() == symbol.tojson()
