"""Operators on sparse arrays and graphs against their definitions on dense ones."""

import numpy as np
import pytest
import scipy.sparse
from opcall import call

import mxjax as mx
from mxjax.base import MXNetError

RNG = np.random.default_rng(0)
DENSE = RNG.integers(1, 9, (4, 5)) * (RNG.uniform(size=(4, 5)) < 0.5).astype("float32")


def graph(count=12):
    """A random graph and its dense form; edges are numbered from 1."""
    matrix = scipy.sparse.random(count, count, 0.3, "csr", random_state=0)
    matrix.data[:] = np.arange(1, matrix.nnz + 1)
    return mx.nd.sparse.csr_matrix(matrix).astype("int64"), matrix.toarray().astype(int)


def test_storage():
    csr = mx.nd.cast_storage(mx.nd.array(DENSE), stype="csr")
    assert csr.stype == "csr"
    np.testing.assert_array_equal(csr.asnumpy(), DENSE)
    assert mx.nd.contrib.getnnz(csr).asnumpy().tolist() == [(DENSE > 0).sum()]
    np.testing.assert_array_equal(mx.nd.contrib.getnnz(csr, axis=1).asnumpy(), (DENSE > 0).sum(1))
    u, v = np.array([0, 3, 2, 1]), np.array([1, 4, 2, 0])
    np.testing.assert_array_equal(mx.nd.contrib.edge_id(csr, mx.nd.array(u), mx.nd.array(v)).asnumpy(),
                                  np.where(DENSE > 0, DENSE, -1)[u, v])
    rows = mx.nd.sparse.retain(mx.nd.array(DENSE).tostype("row_sparse"), mx.nd.array([1, 3]))
    np.testing.assert_array_equal(rows.asnumpy()[[1, 3]], DENSE[[1, 3]])
    np.testing.assert_allclose(call("_square_sum", DENSE, axis=1, keepdims=True), (DENSE**2).sum(1, keepdims=True))
    with pytest.raises(MXNetError, match="csr matrix"):
        mx.nd.contrib.getnnz(mx.nd.array(DENSE))


def test_set_value():
    array = mx.nd.zeros((2, 3))
    assert (mx.nd._internal._set_value(3, out=array).asnumpy() == 3).all() and (array.asnumpy() == 3).all()
    with pytest.raises(MXNetError, match="out="):
        mx.nd._internal._set_value(3)


def test_subgraph_and_adjacency():
    csr, dense = graph()
    vertices = np.array([1, 4, 5, 9])
    new, old = mx.nd.contrib.dgl_subgraph(csr, mx.nd.array(vertices, dtype="int64"), return_mapping=True)
    wanted = dense[np.ix_(vertices, vertices)]
    np.testing.assert_array_equal(old.asnumpy(), wanted)
    assert new.data.asnumpy().tolist() == list(range((wanted > 0).sum()))
    adjacency = mx.nd.contrib.dgl_adjacency(csr)
    np.testing.assert_array_equal(adjacency.asnumpy(), (dense > 0).astype("f"))
    assert adjacency.dtype == np.float32


@pytest.mark.parametrize("weighted", [False, True])
def test_sampling(weighted):
    csr, dense = graph()
    seeds, options = mx.nd.array([0, 7], dtype="int64"), {"num_hops": 2, "num_neighbor": 2, "max_num_vertices": 11}
    if weighted:
        likely = np.full(12, 0.01, "f")
        likely[6:] = 1
        vertices, sub, probability, layer = mx.nd.contrib.dgl_csr_neighbor_non_uniform_sample(
            csr, mx.nd.array(likely), seeds, num_args=3, **options)
    else:
        vertices, sub, layer = mx.nd.contrib.dgl_csr_neighbor_uniform_sample(csr, seeds, num_args=2, **options)
    count = int(vertices.asnumpy()[-1])
    chosen = vertices.asnumpy()[:count]
    assert {0, 7} <= set(chosen) and (np.diff(chosen) > 0).all() and layer.asnumpy()[:count].max() <= 2
    assert vertices.shape == (12,) and layer.shape == (11,) and not vertices.asnumpy()[count:-1].any()
    if weighted:
        assert probability.shape == (11,)
        np.testing.assert_array_equal(probability.asnumpy()[:count], likely[chosen])
    found = sub.asnumpy()
    assert found.shape == (11, 12) and ((found > 0).sum(1) <= 2).all()
    for row, vertex in enumerate(chosen):
        kept = found[row] > 0
        np.testing.assert_array_equal(found[row][kept], dense[vertex][kept])
    new, old = mx.nd.contrib.dgl_graph_compact(sub, vertices, graph_sizes=(count,), return_mapping=True)
    assert new.shape == (count, count)
    np.testing.assert_array_equal(old.asnumpy(), found[:count, chosen])
