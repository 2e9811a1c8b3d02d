"""Shape manipulation, slicing, joining, products."""

import numpy as np
import pytest
from opcall import call, gradients, partial_shapes

from mxjax.base import MXNetError
from mxjax.ops.shape.rearranging import reshaped
from mxjax.util import np_shape

X = np.arange(24, dtype="float32").reshape(2, 3, 4)
ROW = np.arange(6, dtype="float32")


@pytest.mark.parametrize("source, codes, reverse, expected", [
    ((2, 3, 4), (4, 0, 2), False, (4, 3, 2)), ((2, 3, 4), (6, 1, -1), False, (6, 1, 4)),
    ((2, 3, 4), (-2,), False, (2, 3, 4)), ((2, 3, 4), (-3, 4), False, (6, 4)), ((2, 3, 4), (0, -3), False, (2, 12)),
    ((2, 3, 4), (-4, 1, 2, -2), False, (1, 2, 3, 4)), ((2, 3, 4), (2, -4, -1, 3, -2), False, (2, 1, 3, 4)),
    ((8, 3, 3, 3, 4, 4), (-1, 0), True, (864, 4)), ((10, 5, 4), (-1, 0), True, (50, 4)),
    ((None, 3), (0, -1), False, (None, None)), ((None, 3, 4), (0, -3), False, (None, 12)),
    ((0, 3), (0, -1), False, (0, 0)),
])
def test_reshape_codes(source, codes, reverse, expected):
    assert reshaped(source, codes, reverse) == expected


@pytest.mark.parametrize("codes", [(5, 5), (-1, -1), (0, 0, 0, 0), (-3, -3), (-4, 3), (-4, -1, -1, -2), (-7,), (7, -1)])
def test_reshape_refuses(codes):
    with pytest.raises(MXNetError, match="Reshape"):
        reshaped((2, 3, 4), codes)


def test_reshape_operator_and_inference():
    assert call("Reshape", X, shape=(0, -1)).shape == (2, 12)
    assert call("Reshape", X, target_shape=(2, 0)).shape == (2, 12)
    assert partial_shapes("Reshape", [(None, 3)], shape=(4, 3))[0] == [(4, 3)]
    assert partial_shapes("Reshape", [(None, 3, 4)], shape=(0, -3))[1] == [(None, 12)]
    like = np.zeros((3, 2, 4), "float32")
    assert call("reshape_like", X, like).shape == (3, 2, 4)
    assert call("reshape_like", np.zeros((30, 7)), np.zeros((15, 2, 4)), lhs_end=1, rhs_end=2).shape == (15, 2, 7)


@pytest.mark.parametrize("name, params, expected", [
    ("Flatten", {}, X.reshape(2, 12)), ("transpose", {}, X.T), ("transpose", {"axes": (1, 0, 2)}, X.transpose(1, 0, 2)),
    ("SwapAxis", {"dim1": 0, "dim2": 2}, X.swapaxes(0, 2)), ("expand_dims", {"axis": -1}, X[..., None]),
    ("reverse", {"axis": (0, 2)}, X[::-1, :, ::-1]), ("tile", {"reps": (2, 1)}, np.tile(X, (2, 1))),
    ("repeat", {"repeats": 2}, np.repeat(X, 2)), ("repeat", {"repeats": 2, "axis": 1}, np.repeat(X, 2, 1)),
    ("shape_array", {}, [2, 3, 4]), ("size_array", {}, [24]), ("diag", {"k": 1}, np.diagonal(X, 1)),
    ("slice", {"begin": (0, None), "end": (None, -1)}, X[0:, :-1]),
    ("slice", {"begin": (None, None, 3), "end": (None, None, None), "step": (None, -1, -2)}, X[:, ::-1, 3::-2]),
    ("slice_axis", {"axis": -1, "begin": -3, "end": None}, X[..., -3:]),
    ("_slice_assign_scalar", {"begin": (1,), "end": (2,), "scalar": 7}, np.stack([X[0], np.full((3, 4), 7)])),
])
def test_movements_agree_with_numpy(name, params, expected):
    np.testing.assert_array_equal(call(name, X, **params), expected)


def test_squeeze():
    assert call("squeeze", X[:, :1]).shape == (2, 4)
    assert call("squeeze", np.ones((1, 1))).shape == (1,)
    assert call("squeeze", np.ones((1, 1, 3)), axis=0).shape == (1, 3)


def test_diag_of_a_vector():
    np.testing.assert_array_equal(call("diag", ROW, k=-1), np.diag(ROW, -1))


def test_blocks_and_patches():
    image = np.arange(96, dtype="float32").reshape(2, 3, 4, 4)
    deep = call("space_to_depth", image, block_size=2)
    assert deep.shape == (2, 12, 2, 2)
    np.testing.assert_array_equal(call("depth_to_space", deep, block_size=2), image)
    columns = call("im2col", image, kernel=(3, 3), pad=(1, 1))
    assert columns.shape == (2, 27, 16)
    assert columns[0, 4].tolist() == image[0, 0].ravel().tolist()  # the centre of each window
    sums = call("col2im", np.ones_like(columns), output_size=(4, 4), kernel=(3, 3), pad=(1, 1))
    assert sums[0, 0].tolist() == [[4, 6, 6, 4], [6, 9, 9, 6], [6, 9, 9, 6], [4, 6, 6, 4]]
    padded = call("Pad", image, mode="constant", pad_width=(0, 0, 0, 0, 1, 0, 0, 2), constant_value=5)
    np.testing.assert_array_equal(padded, np.pad(image, ((0, 0), (0, 0), (1, 0), (0, 2)), constant_values=5))


def test_slices_of_other_arrays():
    assert call("slice_like", X, np.zeros((1, 2)), axes=(0, 1)).shape == (1, 2, 4)
    np.testing.assert_array_equal(call("_slice_assign", X, X[:, :1] * 0, begin=(0, 1), end=(2, 2))[:, 1], 0)
    image = np.arange(16, dtype="float32").reshape(1, 1, 4, 4)
    assert call("Crop", image, h_w=(2, 2), center_crop=True).ravel().tolist() == [5, 6, 9, 10]
    assert call("Crop", image, np.zeros((1, 1, 1, 2), "float32"), offset=(3, 1)).ravel().tolist() == [13, 14]
    assert gradients("slice", ROW, begin=(1,), end=(5,), step=(2,))[0].tolist() == [0, 1, 0, 1, 0, 0]


def test_splits():
    first, second = call("SliceChannel", X, num_outputs=2, axis=0, squeeze_axis=True)
    np.testing.assert_array_equal(np.stack([first, second]), X)
    assert [p.tolist() for p in call("_split_v2", ROW, indices=(0, 1, 4), axis=0)] == [[0], [1, 2, 3], [4, 5]]
    assert [len(p) for p in call("_split_v2", ROW, indices=(), sections=4, axis=0)] == [2, 2, 1, 1]
    ins, outs = partial_shapes("SliceChannel", [(None, 6)], num_outputs=2, axis=1)
    assert ins == [(None, 6)] and outs == [(None, 3)] * 2
    ins, outs = partial_shapes("SliceChannel", [(None, None)], [(5, 3), None], num_outputs=2, axis=1)
    assert ins == [(5, 6)] and outs == [(5, 3)] * 2


def test_joins():
    np.testing.assert_array_equal(call("Concat", X, X, dim=-1), np.concatenate([X, X], -1))
    for axis in ({}, {"axis": 0}, {"axis": 1}, {"axis": -1}, {"axis": None}):  # the default is 0, as in MXNet
        np.testing.assert_array_equal(call("_npi_concatenate", X, X, **axis), np.concatenate([X, X], **axis))
    np.testing.assert_array_equal(call("stack", X, X, axis=1), np.stack([X, X], 1))
    assert partial_shapes("Concat", [(2, None), (None, 3)], [(None, 8)], dim=1) == ([(2, 5), (2, 3)], [(2, 8)])
    assert partial_shapes("_rnn_param_concat", [(None,), (None,), (2,)], [(8,)], dim=0)[0] == [(3,), (3,), (2,)]
    assert partial_shapes("stack", [(2, 3), None], axis=1) == ([(2, 3)] * 2, [(2, 2, 3)])


@pytest.mark.parametrize("name", ["stack", "_npi_stack"])
def test_stack_reads_all_in_the_shape_of_the_first(name):
    column = X[0, :, :1]
    np.testing.assert_array_equal(call(name, column[:, 0], column), np.stack([column[:, 0]] * 2))
    np.testing.assert_array_equal(gradients(name, column[:, 0], column)[1], np.ones_like(column))
    assert partial_shapes(name, [(3, 1), (3,)]) == ([(3, 1), (3,)], [(2, 3, 1)])
    with pytest.raises(MXNetError, match="stack"):
        call(name, X[0], X[0, 1:])
    with pytest.raises(MXNetError, match="dimensions"):
        partial_shapes(name, [(3, 1), (3, 0, 2)])


def test_two_way_shapes_of_axes():
    assert partial_shapes("transpose", [None], [(2, 3)])[0] == [(3, 2)]
    assert partial_shapes("transpose", [(2, None, 4)], [(None, 2, 3)], axes=(2, 0, 1)) == ([(2, 3, 4)], [(4, 2, 3)])
    assert partial_shapes("expand_dims", [None], [(2, 1, 3)], axis=1)[0] == [(2, 3)]
    assert partial_shapes("slice_axis", [(None, 6)], axis=1, begin=1, end=3)[1] == [(None, 2)]
    assert partial_shapes("slice", [(None, 6)], begin=(0, 1), end=(2, 3))[1] == [(None, 2)]


def test_products():
    np.testing.assert_allclose(call("dot", X, X[0].T), np.tensordot(X, X[0].T, (2, 0)))
    np.testing.assert_allclose(call("dot", X[0], X[1], transpose_a=True), X[0].T @ X[1])
    np.testing.assert_allclose(call("dot", X[0], X[1], transpose_b=True), X[0] @ X[1].T)
    assert call("dot", ROW, ROW).tolist() == [55]
    np.testing.assert_allclose(call("batch_dot", X, X, transpose_b=True), X @ X.swapaxes(1, 2))
    a, b = np.array([[1, 2], [3, 4]], "float32"), np.array([[5, 6]], "float32")
    assert call("khatri_rao", a, b).tolist() == [[5, 12], [15, 24]]
    assert call("dot", np.full((1, 4096), 0.5, "float16"), np.ones((4096, 1), "float16")).tolist() == [[2048]]


@pytest.mark.parametrize("name, arrays, params, message", [
    ("Reshape", (X,), {"shape": (5, 5)}, "does not match"), ("transpose", (X,), {"axes": (0, 0, 1)}, "a permutation"),
    ("squeeze", (X,), {"axis": 0}, "size 1"), ("slice", (X,), {"begin": (0,), "end": (1, 2)}, "the same length"),
    ("slice_axis", (X,), {"axis": 0, "begin": 1, "end": 5}, "not a valid range"), ("Concat", (X, ROW), {}, "oncat"),
    ("SliceChannel", (X,), {"num_outputs": 2, "axis": 1}, "cannot be split"), ("dot", (X, X), {}, "do not match"),
    ("batch_dot", (X, X[:1]), {}, "batch dimensions"), ("diag", (X,), {"k": 9}, "no diagonal"),
    ("Pad", (X,), {"mode": "edge", "pad_width": (0, 0)}, "pad_width"),
    ("expand_dims", (X,), {"axis": 9}, "out of range"),
    ("depth_to_space", (X,), {"block_size": 2}, "block_size"), ("reshape_like", (X, ROW), {}, "cannot be reshaped"),
    ("slice_like", (X, ROW), {}, "the same number of dimensions"), ("Crop", (X[None],), {"h_w": (9, 9)}, "not inside"),
    ("Concat", (X, X.astype("float16")), {}, "the same dtype"),
    ("_split_v2", (ROW,), {"indices": (4, 1), "axis": 0}, "increase"),
    ("khatri_rao", (X[0], X[0].T), {}, "columns"), ("im2col", (X[None],), {"kernel": (9, 9)}, "larger"),
    ("space_to_depth", (np.zeros((1, 4, 0, 2)),), {"block_size": 2}, "block_size"),
    ("tile", (X,), {"reps": (1, 0)}, "reps"), ("_npi_tile", (X,), {"reps": (-1,)}, "reps"),
])
def test_mistakes_are_named(name, arrays, params, message):
    with pytest.raises(MXNetError, match=message):
        call(name, *arrays, **params)


@pytest.mark.parametrize("dtype, given, expected", [
    ("int32", (1.3, 10.6, 2.6), [1, 3, 5, 7]), ("int64", (0, 2, 0.7), [0, 0, 0]), ("uint8", (2, -2, -1.5), [2, 1, 0]),
    ("float32", (1, 2, 0.25), [1, 1.25, 1.5, 1.75])])
def test_arange_of_integers_cuts_start_and_step(dtype, given, expected):
    start, stop, step = given
    np.testing.assert_array_equal(call("_arange", start=start, stop=stop, step=step, dtype=dtype), expected)


def test_nothing_repeated_under_np_shape():
    with np_shape(True):
        assert call("tile", np.ones((5, 3)), reps=(2, 0)).shape == (10, 0)
