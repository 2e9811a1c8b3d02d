"""Indexing, ordering and sequence operators."""

import functools
import subprocess
import sys

import jax
import numpy as np
import pytest
from opcall import call, check_derivatives, gradients

import mxjax as mx
from mxjax.base import MXNetError
from mxjax.interpret.program import by_numpy
from mxjax.interpret.rules import RULES
from mxjax.kernel import kernel
from mxjax.ops import registry
from mxjax.ops.reduce import _unstable, ordering
from mxjax.ops.shape import indexing
from mxjax.ops.shape._rows import rows

F = np.array([[1, 2], [3, 4], [5, 6]], "float32")
POSITIONS = np.array([0, -1, 5, 1.7], "float32")
STEPS = np.arange(12, dtype="float32").reshape(3, 2, 2)
LENGTHS = np.array([1, 3], "float32")


def test_take():
    assert call("take", F, POSITIONS).tolist() == [[1, 2], [1, 2], [5, 6], [3, 4]]
    assert call("take", F, POSITIONS, mode="wrap").tolist() == [[1, 2], [5, 6], [5, 6], [3, 4]]
    assert call("take", F, np.array([[0], [1]]), axis=1).tolist() == [[[1], [2]], [[3], [4]], [[5], [6]]]
    assert call("take", F, np.array([0, 2]), mode="raise").tolist() == [[1, 2], [5, 6]]
    assert gradients("take", F, np.array([0, 0, 2]))[0].tolist() == [[2, 2], [0, 0], [1, 1]]
    for positions in (POSITIONS, np.array([0, -1])):
        with pytest.raises(MXNetError, match="out of range"):
            call("take", F, positions, mode="raise")


def test_gradients_of_long_rows():
    table, index = np.random.default_rng(0).normal(size=(5, 64)).astype("float32"), np.array([[4, 0, 9], [4, -3, 4]])
    heads = np.random.default_rng(1).normal(size=(2, 3, 64)).astype("float32")
    want = np.zeros_like(table)
    np.add.at(want, index.clip(0, 4), heads)
    for name, inputs, params in (("take", (table, index), {}),
                                 ("Embedding", (index, table), {"input_dim": 5, "output_dim": 64})):
        found = gradients(name, *inputs, heads=[heads], **params)[name == "Embedding"]
        np.testing.assert_allclose(found, want, rtol=1e-6)
    assert gradients("take", table, np.zeros((0,), "int32"))[0].tolist() == np.zeros_like(table).tolist()

    def cubes(x):
        return (rows(x, index) ** 3).sum()
    second = jax.jit(jax.grad(lambda x: (jax.grad(cubes)(x) * 2).sum()))(table)
    np.testing.assert_allclose(second, 12 * table * np.bincount(index.clip(0, 4).ravel(), minlength=5)[:, None],
                               rtol=1e-5, atol=1e-5)


def test_take_in_a_compiled_program_cannot_refuse_but_shows():
    op = registry.get("take")
    compiled = jax.jit(kernel.prepare(op, op.parse({"mode": "raise"}), 2, False).fn)
    assert np.isnan(np.asarray(compiled(F, np.array([9]))[0])).all()


def test_pick_and_batch_take():
    index = np.array([0, 1, 5], "float32")
    assert call("pick", F, index).tolist() == [1, 4, 6]
    assert call("pick", F, np.array([0, -1, 4]), mode="wrap").tolist() == [1, 4, 5]
    assert call("pick", F, np.array([0, 2]), axis=0, keepdims=True).tolist() == [[1, 6]]
    assert call("pick", F, index[:, None], keepdims=True).shape == (3, 1)
    assert call("batch_take", F, index.astype("int32")).tolist() == [1, 4, 6]
    assert gradients("pick", F, index)[0].tolist() == [[1, 0], [0, 1], [0, 1]]


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_derivatives_of_pick(axis):
    data = np.random.default_rng(5).normal(size=(3, 4, 2))
    index = np.random.default_rng(6).integers(-1, 5, np.delete(data.shape, axis))

    def function(x):
        return indexing.pick(jax.numpy.sin(x), index, axis=axis)
    check_derivatives(function, (data,), 2)
    with jax.enable_x64(True):  # forward over backward, as Newton's methods have it
        _, along = jax.jvp(jax.grad(lambda x: function(x).sum()), (data,), (np.ones_like(data),))
        places = np.expand_dims(np.clip(index, 0, data.shape[axis] - 1), axis)
        chosen = np.zeros_like(data)
        np.put_along_axis(chosen, places, 1, axis)
        np.testing.assert_allclose(along, -np.sin(data) * chosen, rtol=1e-6)


def test_one_hot_and_legacy_forms():
    assert call("one_hot", POSITIONS, depth=3).tolist() == [[1, 0, 0], [0, 0, 0], [0, 0, 0], [0, 1, 0]]
    wrapped = call("one_hot", np.array([0, 1]), depth=2, on_value=300.7, off_value=-1, dtype="uint8")
    assert wrapped.tolist() == [[44, 255], [255, 44]]  # recorded from MXNet
    got = call("one_hot", np.array([[0], [1]]), depth=2, on_value=8, off_value=-1, dtype="int32")
    assert got.dtype == np.int32 and got.tolist() == [[[8, -1]], [[-1, 8]]]
    got = call("_onehot_encode", np.array([0, 2], "float32"), np.zeros((2, 3), "float32"))
    assert got.tolist() == [[1, 0, 0], [0, 0, 1]]
    none = np.array([np.nan, np.inf, -np.inf], "float32")  # as in MXNet, NaN is no position
    assert not call("one_hot", none, depth=3).any()
    assert not call("_onehot_encode", none, np.ones((3, 2), "float32")).any()
    filled = call("fill_element_0index", np.zeros((2, 2), "float32"), *np.array([[7, 8], [0, 1]], "float32"))
    assert filled.tolist() == [[7, 0], [0, 8]]


def test_embedding():
    ids = np.array([[0, -1], [5, 1.7]], "float32")
    rows = call("Embedding", ids, F, input_dim=3, output_dim=2)
    assert rows.tolist() == [[[1, 2], [1, 2]], [[5, 6], [3, 4]]]
    assert gradients("Embedding", ids, F, input_dim=3, output_dim=2)[1].tolist() == [[2, 2], [1, 1], [1, 1]]


def test_gather_and_scatter():
    index = np.array([[0, 1, 0], [1, 1, 1]], "float32")
    values = np.array([1, 2, 3], "float32")
    assert call("gather_nd", F, index).tolist() == [2, 4, 2]
    assert call("gather_nd", F, np.array([[0, -1]])).tolist() == [[1, 2], [5, 6]]
    for outside in (9, -4):
        with pytest.raises(IndexError, match=f"gather_nd: index {outside} is out of bounds for axis 0 with size 3"):
            mx.nd.gather_nd(mx.nd.array(F), mx.nd.array([[1, outside]])).asnumpy()
    x, i = mx.sym.var("x"), mx.sym.var("i")
    bound = (mx.sym.gather_nd(x, i) * 2).bind(mx.cpu(), {"x": mx.nd.array(F), "i": mx.nd.array([[0, 9]])})
    assert np.isnan(bound.forward()[0].asnumpy()).tolist() == [[False] * 2, [True] * 2]  # a program cannot raise
    assert call("scatter_nd", values, index, shape=(2, 2)).tolist() == [[0, 3], [0, 2]]
    assert call("_backward_gather_nd", values, index, shape=(2, 2)).tolist() == [[0, 4], [0, 2]]
    assert call("_scatter_set_nd", F[:2], values, index, shape=(2, 2)).tolist() == [[1, 3], [3, 2]]
    assert gradients("scatter_nd", values, index, shape=(2, 2))[0].tolist() == [1, 1, 1]
    assert gradients("gather_nd", F, index)[0].tolist() == [[0, 2], [0, 1], [0, 0]]


def test_where():
    assert call("where", np.array([1, 0, 2]), F, -F).tolist() == [[1, 2], [-3, -4], [5, 6]]
    assert call("where", F > 3, F, -F).tolist() == [[-1, -2], [-3, 4], [5, 6]]


def test_flat_positions():
    coordinates = np.array([[0, 1, 2], [3, -1, 2]], "int32")
    assert call("_ravel_multi_index", coordinates, shape=(3, 4)).tolist() == [3, 3, 10]
    assert call("_unravel_index", np.array([3, 7, 11], "float32"), shape=(3, 4)).tolist() == [[0, 1, 2], [3, 3, 3]]
    big = np.array([2**40 + 5], "int64")
    assert call("_unravel_index", big, shape=(-1, 2**20)).tolist() == [[2**20], [5]]


def test_contrib_rows():
    assert call("_contrib_boolean_mask", F, np.array([1, 0, 1], "float32")).tolist() == [[1, 2], [5, 6]]
    assert call("_contrib_boolean_mask", F, np.zeros(3)).shape == (0, 2)
    slopes = gradients("_contrib_boolean_mask", F, np.array([1, 0, 1], "float32"), heads=[np.ones((2, 2), "float32")])
    assert slopes[0].tolist() == [[1, 1], [0, 0], [1, 1]]
    copied = call("_contrib_index_copy", F, np.array([2, 0]), np.array([[7, 7], [8, 8]], "float32"))
    assert copied.tolist() == [[8, 8], [3, 4], [7, 7]]
    places = call("_contrib_index_array", F, axes=(1,))
    assert places.dtype == np.int64 and places.tolist() == [[[0], [1]]] * 3


def test_histogram():
    data = np.array([0, 0.5, 1, 2, 3], "float32")
    counts, bins = call("_histogram", data, bin_cnt=3, range=(0, 3))
    assert counts.dtype == np.int64 and counts.tolist() == [2, 1, 2] and bins.tolist() == [0, 1, 2, 3]
    assert call("_histogram", data, np.array([0, 1, 2.5], "float32"))[0].tolist() == [2, 2]
    counts, edges = mx.nd.histogram(mx.nd.array(data))
    assert counts.asnumpy().tolist() == [1, 1, 0, 1, 0, 0, 1, 0, 0, 1] and edges.shape == (11,)


def test_sequences():
    masked = call("SequenceMask", STEPS, LENGTHS, use_sequence_length=True, value=-1)
    assert masked[:, 0].tolist() == [[0, 1], [-1, -1], [-1, -1]] and (masked[:, 1] == STEPS[:, 1]).all()
    batch_first = call("SequenceMask", STEPS.swapaxes(0, 1), LENGTHS, use_sequence_length=True, value=-1, axis=1)
    np.testing.assert_array_equal(batch_first, masked.swapaxes(0, 1))
    assert call("SequenceLast", STEPS, LENGTHS, use_sequence_length=True).tolist() == [[0, 1], [10, 11]]
    assert call("SequenceLast", STEPS).tolist() == [[8, 9], [10, 11]]
    back = call("SequenceReverse", STEPS, LENGTHS, use_sequence_length=True)
    assert back[:, 0].tolist() == STEPS[:, 0].tolist() and back[:, 1].tolist() == STEPS[::-1, 1].tolist()
    np.testing.assert_array_equal(call("SequenceReverse", STEPS), STEPS[::-1])
    beyond = call("SequenceReverse", STEPS, np.array([9, 1], "float32"), use_sequence_length=True)
    assert beyond[:, 0].tolist() == STEPS[::-1, 0].tolist() and beyond[:, 1].tolist() == STEPS[:, 1].tolist()


X = np.array([[3, 1, 2], [5, 9, 9]], "float32")


@pytest.mark.parametrize("params, expected", [
    ({"ret_typ": "value"}, [[3, 2], [9, 9]]), ({}, [[0, 2], [1, 2]]), ({"ret_typ": "mask"}, [[1, 0, 1], [0, 1, 1]]),
    ({"is_ascend": True}, [[1, 2], [0, 1]]), ({"axis": None}, [4, 5]), ({"axis": 0, "k": 1}, [[1, 1, 1]]),
    ({"axis": 0, "k": 1, "ret_typ": "mask"}, [[0, 0, 0], [1, 1, 1]])])
@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8"])
def test_topk(params, expected, dtype):
    got = call("topk", X.astype(dtype), **{"k": 2, **params})
    got = got[0] if isinstance(got, list) else got
    assert got.tolist() == expected
    assert got.dtype == (dtype if params.get("ret_typ") else "float32")


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="XLA's operation for CPUs")
def test_topk_of_few_values_does_not_sort_all():
    topk = functools.partial(ordering.topk, k=5, ret_typ="both")
    text = jax.jit(topk).lower(jax.ShapeDtypeStruct((8, 1000), "float32")).compile().as_text()
    assert 'custom_call_target="TopK"' in text and " sort(" not in text


def test_topk_both_and_its_gradient():
    values, positions = call("topk", X, k=0, ret_typ="both", dtype="int64")
    assert values.tolist() == [[3, 2, 1], [9, 9, 5]] and positions.dtype == np.int64
    assert gradients("topk", X, ret_typ="value")[0].tolist() == [[1, 0, 0], [0, 1, 0]]


def test_sorting():
    assert call("sort", X, is_ascend=False).tolist() == [[3, 2, 1], [9, 9, 5]]
    assert call("sort", X, axis=None).tolist() == [1, 2, 3, 5, 9, 9]
    assert call("argsort", X).tolist() == [[1, 2, 0], [0, 1, 2]]
    assert call("argsort", np.array([1, 1, 0, 0]), is_ascend=False, dtype="int32").tolist() == [0, 1, 2, 3]
    assert gradients("sort", X, heads=[np.arange(6.0).reshape(2, 3)])[0].tolist() == [[2, 0, 1], [3, 4, 5]]


def test_nan_is_the_largest_for_every_k():
    values = np.array([[3, np.nan, 1, 2, 0, 5, 4, 8, 7, 6, 9, 10, 11, 12, 13, 14, 15]], "float32")
    for k in (2, 17):
        assert call("topk", values, k=k, ret_typ="value", is_ascend=True)[0, :2].tolist() == [0, 1]
        assert np.isnan(call("topk", values, k=k, ret_typ="value")[0, 0])


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "int8", "uint8", "int32", "uint32", "int64"])
def test_sorting_of_all_types(dtype):
    values = np.random.default_rng(0).integers(0, 255, (3, 50)).astype(dtype)
    if np.dtype(dtype).kind == "f":
        values[0, :8] = [np.nan, -np.inf, np.inf, -0.0, 0.0, -1.5, -np.nan, -7]
    elif np.dtype(dtype).itemsize > 1:
        values[0, :2] = np.iinfo(dtype).min, np.iinfo(dtype).max
    positions = call("argsort", values, dtype="int32")
    np.testing.assert_array_equal(np.sort(positions, -1), np.tile(np.arange(50), (3, 1)))
    np.testing.assert_array_equal(np.take_along_axis(values, positions, -1), np.sort(values, -1))
    np.testing.assert_array_equal(call("sort", values), np.sort(values, -1))
    np.testing.assert_array_equal(call("topk", values, k=0, ret_typ="value"), np.sort(values, -1)[:, ::-1])


TIES = np.arange(40) % 3.0
FIRST = [0, 21, 18, 24, 15, 27, 12, 30, 9, 33, 6, 36, 3, 39]  # the zeros, in the order that MXNet 1.9.1 has on a CPU
ON_A_CPU = pytest.mark.skipif(jax.default_backend() != "cpu", reason="accelerators keep the order of equal values")


@ON_A_CPU
@pytest.mark.parametrize("dtype", ["float32", "int32", "int64", "float64"])
def test_equal_values_are_in_the_order_of_mxnet(dtype):
    """Positions recorded from MXNet 1.9.1, whose sorts are not stable."""
    values = TIES.astype(dtype)
    assert call("argsort", values, dtype="int32").tolist() == [
        *FIRST, 31, 34, 28, 37, 25, 22, 1, 19, 16, 4, 13, 7, 10, 2, 20, 38, 5, 35, 8, 32, 11, 29, 14, 26, 17, 23]
    assert call("topk", values, k=10).tolist() == [29, 20, 17, 23, 14, 26, 11, 8, 32, 5]
    assert call("topk", values, k=5).tolist() == [8, 5, 11, 14, 2]
    assert call("topk", values, k=4, is_ascend=True).tolist() == [6, 3, 9, 0]
    assert call("topk", values[:, None], k=4, is_ascend=True, axis=0).ravel().tolist() == [6, 3, 9, 0]
    rows = np.stack([values, values[::-1]])
    assert np.flatnonzero(call("topk", rows, k=4, ret_typ="mask")).tolist() == [2, 5, 8, 11, 41, 44, 47, 50]
    assert call("argsort", values[:16]).tolist() == np.argsort(values[:16], kind="stable").tolist()
    assert call("argsort", 0 * values[:20]).tolist() == [10, *range(19, 10, -1), 0, *range(9, 0, -1)]


@ON_A_CPU
def test_many_equal_values_are_in_the_order_of_mxnet():
    """Sums that tell orders apart, recorded from MXNet 1.9.1; the last array makes it sort parts by a heap."""
    values, places = np.arange(3000) % 7, np.arange(3000)
    positions = call("argsort", values, is_ascend=False, dtype="int32")
    assert positions[:8].tolist() == [2197, 1308, 2211, 2799, 1315, 909, 328, 1322]
    assert (positions.astype("int64") * places).sum() == 6712156991
    best = call("topk", values, k=100, dtype="int32")
    assert best[:8].tolist() == [216, 272, 286, 34, 251, 342, 125, 475] and (best * places[:100]).sum() == 1844891
    positions = call("argsort", np.minimum(places[:300], places[299::-1]), dtype="int32")
    assert positions[-8:].tolist() == [146, 153, 147, 152, 151, 148, 149, 150]
    assert (positions * places[:300]).sum() == 6708698


def _hard_to_part(size):
    """Numbers of which the median of the second, the middle one and the last is always one of the smallest."""
    half, values = size // 2, np.zeros(size, "int32")
    values[:half:2] = np.arange(1, half + 1, 2)
    values[1:half:2] = half + np.arange(1, half, 2)
    values[half:] = 2 * np.arange(1, size - half + 1)
    return values


@pytest.mark.parametrize("rows", [
    np.random.RandomState(1).randint(-2, 2, (3, 300)), _hard_to_part(5000)[None] // 3,
    pytest.param(np.stack([np.arange(300) % 150, np.arange(300)]), marks=pytest.mark.slow)])
def test_the_host_and_loops_have_one_order(rows):
    keys = rows.astype("int32")
    for count, whole in (keys.shape[-1], True), (keys.shape[-1] - 7, True), (20, False), (2, False):
        if keys.size < 1000 or whole:
            by_loops = jax.jit(functools.partial(_unstable.by_loops, count=count, whole=whole))(keys)
            np.testing.assert_array_equal(_unstable.positions(keys, count, whole), by_loops)


@ON_A_CPU
def test_equal_values_within_transformations_and_without_xla():
    rows = np.stack([TIES, TIES[::-1], np.arange(40)]).astype("float32")
    wanted, function = call("topk", rows, k=4), registry.get("topk").get_attr("FCompute")
    best = functools.partial(function, k=4)
    for form in best, jax.jit(best), jax.vmap(best), jax.jit(jax.vmap(best)):
        np.testing.assert_array_equal(form(rows), wanted)
    without_xla = by_numpy(jax.make_jaxpr(best)(rows), RULES)
    np.testing.assert_array_equal(without_xla([rows])[0], wanted)


@pytest.mark.slow
@ON_A_CPU
def test_many_programs_may_have_equal_values_at_once_on_one_core():
    """Each asks the host; none may wait for a thread of XLA's, of which there are as many as cores."""
    program = """
import os, threading
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
import mxjax as mx, numpy as np
function = mx.gluon.nn.HybridLambda(lambda F, x: F.concat(F.argsort(x), F.argsort(x + 1), dim=0))
function.hybridize()
values = np.arange(200000) % 9
def work():
    for _ in range(3):
        places = function(mx.nd.array(values)).asnumpy().astype(int)
        assert (values[places[:200000]] == np.sort(values)).all() and (places[:200000] == places[200000:]).all()
threads = [threading.Thread(target=work) for _ in range(6)]
[t.start() for t in threads], [t.join() for t in threads]
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)


@ON_A_CPU
def test_gradients_of_equal_values_go_where_those_of_mxnet_go():
    grad, = gradients("sort", TIES[:20].astype("float32"), heads=[np.arange(20.0)])
    assert grad.tolist() == [6, 13, 19, 1, 12, 17, 3, 11, 15, 5, 7, 14, 4, 10, 16, 2, 9, 18, 0, 8]
    grad, = gradients("topk", TIES.astype("float32"), k=4, ret_typ="value", heads=[np.arange(1.0, 5)])
    assert {i: grad[i] for i in np.flatnonzero(grad)} == {2: 4, 5: 2, 8: 1, 11: 3}


@pytest.mark.parametrize("name, arrays, params, message", [
    ("pick", (F, F), {}, "index has shape"), ("pick", (F, POSITIONS), {"axis": None}, "axis"),
    ("batch_take", (F, POSITIONS), {}, "each row"), ("gather_nd", (F, np.zeros((3, 1))), {}, "first axis"),
    ("Embedding", (POSITIONS, F), {"input_dim": 9, "output_dim": 2}, "weight must have shape"),
    ("where", (POSITIONS, F, F), {}, "condition"), ("topk", (X,), {"k": 9}, "larger"),
    ("_ravel_multi_index", (F,), {"shape": (2,)}, "the same number"), ("_unravel_index", (F,), {}, "shape is required"),
    ("_contrib_boolean_mask", (F, POSITIONS), {}, "one number for each row"),
    ("_contrib_index_copy", (F, np.array([0]), F), {}, "new_tensor"), ("_histogram", (F,), {"bin_cnt": 2}, "interval"),
    ("SequenceMask", (STEPS, POSITIONS), {"use_sequence_length": True}, "sequence_length"),
    ("SequenceReverse", (STEPS,), {"axis": 1}, "axis must be 0"), ("SequenceLast", (STEPS,), {"axis": 2}, "0 or 1"),
])
def test_mistakes_are_named(name, arrays, params, message):
    with pytest.raises(MXNetError, match=message):
        call(name, *arrays, **params)
