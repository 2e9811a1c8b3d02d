"""Copies of sparse arrays are recorded; the gradients are MXNet 1.9.1's."""

import numpy as np
import pytest

import mxjax as mx

WEIGHT = [[1, 2, 3], [4, 5, 6]]
COPIES = {"copy": lambda x: x.copy(), "astype": lambda x: x.astype("float32"), "context": lambda x: x.copyto(mx.cpu(1)),
          "as_in_context": lambda x: x.as_in_context(mx.cpu(1)), "itself": lambda x: x.astype("float32", copy=False),
          "copyto": lambda x: x.copyto(mx.nd.sparse.zeros(x.stype, (2, 3))), "float64": lambda x: x.astype("float64")}


@pytest.mark.parametrize("stype", ["row_sparse", "csr"])
@pytest.mark.parametrize("name", COPIES)
def test_gradients_go_through_copies(stype, name):
    x = mx.nd.array([[1, 0, 2], [0, 3, 0]]).tostype(stype)
    x.attach_grad()
    with mx.autograd.record():
        made = COPIES[name](x)
        head = (made.tostype("default").as_in_context(mx.cpu()).astype("float32") * mx.nd.array(WEIGHT)).sum()
    head.backward()
    assert made.stype == x.grad.stype == stype and x.grad.dtype == np.float32
    assert x.grad.asnumpy().tolist() == WEIGHT


def test_copies_of_what_is_computed():
    x = mx.nd.array([[1, 0, 2], [0, 3, 0]]).tostype("csr")
    x.attach_grad()
    with mx.autograd.record():
        head = mx.nd.sparse.dot((x.copy() * 2).copy(), mx.nd.array([[1, 2], [3, 4], [5, 6]])).sum()
    head.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), [[6, 14, 22]] * 2)


def test_a_detached_copy_has_no_gradient():
    x = mx.nd.ones((2, 3)).tostype("row_sparse")
    x.attach_grad()
    with mx.autograd.record():
        made = x.detach().copy()
    with pytest.raises(mx.MXNetError, match="computational graph"):
        made.backward()
