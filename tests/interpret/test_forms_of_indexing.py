"""NumPy forms of look-ups, choices and sequences beside XLA's programs."""

import numpy as np
import pytest

from mxjax.interpret.direct import form_of
from mxjax.interpret.program import Unknown

from .forms import check, leaves_out

rng = np.random.RandomState(0)


def numbers(*shape, dtype="float32"):
    return rng.uniform(-1, 1, shape).astype(dtype)


def places(*shape, most=5, least=0, dtype="float32"):
    return rng.randint(least, most, shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("shape, index, options", [
    ((5, 3), (2, 4), {}), ((5,), (6,), {}), ((5, 70), (9,), {}), ((2, 5, 3), (4, 2), {"axis": 1}),
    ((3, 5), (7,), {"axis": -1, "mode": "wrap"}), ((5, 2), (1,), {"mode": "wrap"}),
])
def test_take(shape, index, options, dtype):
    check("take", [numbers(*shape), places(*index, least=-7, most=12, dtype=dtype)], options)


def test_take_of_positions_in_range():
    check("take", [numbers(3, 5), places(2, 4)], {"axis": 1, "mode": "raise"})
    leaves_out("take", [numbers(3), np.array([0, 3])], {"mode": "raise"})
    leaves_out("take", [numbers(3), np.array([-1, 2])], {"mode": "raise"})


@pytest.mark.parametrize("options", [{"int_ind": -1}, {"int_ind": 1, "axis": 1}, {"start": 0, "stop": 3, "step": 2,
                                                                               "axis": 1}])
def test_delete_and_insert(options):
    check("_npi_delete", [numbers(2, 4)], options, gradients=False)
    kind = "scalar" if "int_ind" in options else "slice"
    check(f"_npi_insert_{kind}", [numbers(2, 4)], {**options, "val": 7.5}, gradients=False)
    check(f"_npi_insert_{kind}", [numbers(2, 4), numbers(1)], options, gradients=False)


def test_delete_and_insert_at_an_array_of_positions():
    data, index = numbers(2, 4), np.array([3, 0])
    delete = form_of("_npi_delete").forward
    none = dict.fromkeys(("start", "stop", "step", "int_ind", "val"))
    np.testing.assert_array_equal(delete({**none, "axis": 1}, data, index), data[:, 1:3])
    insert = form_of("_npi_insert_tensor").forward
    np.testing.assert_array_equal(insert({**none, "axis": 1}, data, np.float32([[8], [9]]), index),
                                  np.insert(data, index, [[8], [9]], 1))


@pytest.mark.parametrize("width", [1, 3, 70])
@pytest.mark.parametrize("name", ["Embedding", "_contrib_SparseEmbedding"])
def test_embedding(name, width):
    check(name, [places(4, 6, most=9, least=-2), numbers(7, width)], {"input_dim": 7, "output_dim": width})


def test_embedding_of_different_rows():
    check("Embedding", [np.array([4, 0, 2], "int32"), numbers(7, 3)], {"input_dim": 7, "output_dim": 3})


@pytest.mark.parametrize("options", [{"axis": 1}, {"axis": 1, "keepdims": True}, {"axis": -1, "mode": "wrap"}])
def test_pick(options):
    shape = (2, 3) if options["axis"] == -1 else (2, 4)
    check("pick", [numbers(2, 3, 4), places(*shape, least=-2, most=7)], options)


def test_pick_with_the_axis_of_size_1_in_the_index():
    check("pick", [numbers(3, 4), places(3, 1, most=4)], {})


def test_batch_take():
    check("batch_take", [numbers(4, 3), places(4, least=-1, most=5, dtype="int32")])


@pytest.mark.parametrize("options", [{"depth": 4}, {"depth": 3, "on_value": 5, "off_value": -1, "dtype": "int32"}])
def test_one_hot(options):
    check("one_hot", [places(2, 3, least=-2, most=6)], options)


@pytest.mark.parametrize("index", [[[1, 0, 1, -1]], [[1, 0, 1, -1], [2, 2, 2, 0]]])
def test_look_ups_at_coordinates(index):
    index = np.array(index, "int32")
    check("gather_nd", [numbers(3, 4, 2), index])
    values = numbers(4, *(3, 4, 2)[len(index):])
    check("_backward_gather_nd", [values, index], {"shape": (3, 4, 2)})
    index[:, 2] = 2, *[1] * (len(index) - 1)  # a place once
    check("scatter_nd", [values, index.astype("float32")], {"shape": (3, 4, 2)})
    check("_scatter_set_nd", [numbers(3, 4, 2), values, index], {"shape": (3, 4, 2)}, gradients=False)


def test_index_copy():
    check("_contrib_index_copy", [numbers(5, 2), np.array([3, 0], "int32"), numbers(2, 2)])


@pytest.mark.parametrize("options", [{}, {"axes": (1, 0)}])
def test_index_array(options):
    check("_contrib_index_array", [numbers(2, 3)], options)


@pytest.mark.parametrize("shape", [(3, 4), (3,)])
def test_where(shape):
    check("where", [places(*shape, most=2), numbers(3, 4), numbers(3, 4)])


def test_where_of_numpy():
    check("_npi_where", [places(3, 1, most=2, dtype="int32"), numbers(4), numbers(3, 4)])
    check("_npi_where_lscalar", [places(3, 1, most=2), numbers(3, 4)], {"scalar": 2.5})
    check("_npi_where_rscalar", [places(3, 4, most=2), numbers(4)], {"scalar": 2.5})
    check("_npi_where_scalar2", [places(3, 4, most=2)], {"x": 2.5, "y": 1}, gradients=False)
    check("_npi_boolean_mask_assign_scalar", [numbers(3, 4, 2), places(4, most=2, dtype="bool")],
          {"value": 2.5, "start_axis": 1}, gradients=False)


LENGTHS = [np.array([2, 5, 1], "float32"), np.array([1, 3, 4], "int32")]


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("name", ["SequenceMask", "SequenceLast", "SequenceReverse"])
def test_sequences_of_different_lengths(name, axis, lengths):
    if name == "SequenceReverse" and axis:
        pytest.skip("SequenceReverse takes no other axis than the first")
    shape = (5, 3, 2) if axis == 0 else (3, 5, 2)
    check(name, [numbers(*shape), lengths],
          {"use_sequence_length": True, "axis": axis, **({"value": -1.5} if name == "SequenceMask" else {})})


@pytest.mark.parametrize("name", ["SequenceMask", "SequenceLast", "SequenceReverse"])
def test_sequences_of_full_length(name):
    check(name, [numbers(5, 3)])


@pytest.mark.parametrize("name", ["shape_array", "size_array"])
def test_sizes(name):
    check(name, [numbers(2, 3)])


@pytest.mark.parametrize("name, arrays, options", [
    ("take", [numbers(3), np.array([np.nan], "float32")], {"axis": 0, "mode": "clip"}),
    ("take", [numbers(3), np.array([1e12], "float32")], {"axis": 0, "mode": "clip"}),
    ("gather_nd", [numbers(3), np.array([[3]], "int32")], {}),
    ("SequenceLast", [numbers(3, 1), np.array([4], "int32")], {"axis": 0, "use_sequence_length": True}),
    ("where", [numbers(2), numbers(3), numbers(3)], {}),
])
def test_what_is_left_to_the_formula(name, arrays, options):
    with pytest.raises(Unknown):
        form_of(name).forward(options, *arrays)
