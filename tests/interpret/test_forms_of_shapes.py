"""NumPy forms of functions that move numbers beside XLA's programs."""

import numpy as np
import pytest

from .forms import check

rng = np.random.RandomState(0)


def numbers(*shape, dtype="float32"):
    return rng.uniform(-1, 1, shape).astype(dtype)


SHAPES = [
    ("Reshape", (2, 3, 4), {"shape": (4, -1)}),
    ("Reshape", (2, 3, 4), {"shape": (0, -3)}),
    ("Reshape", (2, 3, 4), {"shape": (-4, 1, 2, -2)}),
    ("Reshape", (8, 3, 2), {"shape": (-1, 0), "reverse": True}),
    ("Reshape", (2, 6), {"target_shape": (0, 3)}),
    ("Flatten", (2, 3, 4), {}),
    ("expand_dims", (2, 3), {"axis": -2}),
    ("squeeze", (1, 3, 1), {}),
    ("squeeze", (1, 3, 1), {"axis": (-1,)}),
    ("_np_reshape", (2, 6), {"newshape": (3, -1)}),
    ("_npx_reshape", (2, 3, 1, 4), {"newshape": (-2, -5, -4)}),
    ("_npx_reshape", (2, 6), {"newshape": (-2, 2, -1, -6), "reverse": True}),
    ("_np_squeeze", (1, 3, 1), {"axis": (0,)}),
    ("transpose", (2, 3, 4), {}),
    ("transpose", (2, 3, 4), {"axes": (1, -1, 0)}),
    ("_np_transpose", (2, 3, 4), {"axes": (1, -1, 0)}),
    ("_np_transpose", (2, 3), {}),
    ("_np_moveaxis", (2, 3, 4, 5), {"source": (0, -1), "destination": (2, 0)}),
    ("SwapAxis", (2, 3, 4), {"dim1": 0, "dim2": -1}),
    ("reverse", (2, 3, 4), {"axis": (0, -1)}),
    ("_npi_flip", (2, 3), {}),
    ("_npi_flip", (2, 3), {"axis": (1,)}),
    ("_np_roll", (3, 4), {"shift": (2,)}),
    ("_np_roll", (3, 4), {"shift": (1, -2), "axis": (0, 1)}),
    ("_npi_rot90", (2, 3, 4), {"k": 3, "axes": (0, 2)}),
    ("depth_to_space", (2, 8, 3, 2), {"block_size": 2}),
    ("space_to_depth", (2, 2, 6, 4), {"block_size": 2}),
    ("slice", (5, 6), {"begin": (1, None), "end": (-1, 5), "step": (1, 2)}),
    ("slice", (5, 6), {"begin": (4,), "end": (None,), "step": (-2,)}),
    ("slice_axis", (5, 6), {"axis": -1, "begin": -3, "end": None}),
    ("Crop", (1, 2, 5, 6), {"h_w": (2, 3), "center_crop": True}),
    ("Crop", (1, 2, 5, 6), {"h_w": (2, 3), "offset": (1, 2)}),
    ("_slice_assign_scalar", (4, 5), {"scalar": 2.5, "begin": (1, 0), "end": (3, None), "step": (1, 2)}),
    ("SliceChannel", (2, 6, 3), {"num_outputs": 3}),
    ("SliceChannel", (2, 3, 4), {"num_outputs": 3, "axis": -2, "squeeze_axis": True}),
    ("_split_v2", (7, 3), {"indices": (0, 2, 3), "axis": 0}),
    ("_split_v2", (7, 3), {"indices": (), "sections": 3, "axis": -2}),
    ("_npi_hsplit", (2, 6), {"indices": (), "sections": 3}),
    ("_npi_dsplit", (2, 3, 5), {"indices": (0, 2)}),
    ("tile", (2, 3), {"reps": (3, 1, 2)}),
    ("tile", (2, 3, 2), {"reps": (2,)}),
    ("_npi_tile", (3,), {"reps": (2, 2)}),
    ("repeat", (2, 3), {"repeats": 2, "axis": -1}),
    ("repeat", (2, 3), {"repeats": 3}),
    ("broadcast_to", (1, 3, 1), {"shape": (2, 0, 4)}),
    ("broadcast_axis", (1, 3, 1), {"axis": (0, 2), "size": (2, 4)}),
    ("_npi_broadcast_to", (3, 1), {"shape": (2, -2, 4)}),
    ("Pad", (1, 2, 3, 4), {"mode": "constant", "pad_width": (0, 0, 0, 0, 1, 2, 0, 3), "constant_value": 1.5}),
    ("Pad", (1, 2, 3, 4), {"mode": "edge", "pad_width": (0, 0, 0, 0, 1, 4, 0, 3)}),
    ("Pad", (1, 2, 3, 4, 3), {"mode": "reflect", "pad_width": (0, 0, 0, 0, 1, 2, 0, 3, 2, 0)}),
    ("_npi_pad", (3, 4), {"mode": "symmetric", "pad_width": ((1, 3), (0, 2))}),
    ("_npi_pad", (3,), {"mode": "constant", "pad_width": ((1, 3),)}),
    ("diag", (3,), {"k": -1}),
    ("diag", (3, 4), {"k": 1}),
    ("diag", (3, 2, 4), {"k": -1, "axis1": 2, "axis2": 0}),
    ("_np_diag", (4, 3), {"k": -2}),
    ("_np_diagflat", (2, 2), {"k": 1}),
    ("_np_diagonal", (3, 2, 4), {"offset": 1, "axis1": 0, "axis2": -1}),
    ("_np_trace", (3, 2, 4), {"offset": 1, "axis1": 0, "axis2": -1}),
    ("_npi_tril", (2, 4, 3), {"k": -1}),
]


@pytest.mark.parametrize("name, shape, options", SHAPES)
def test_moves(name, shape, options):
    check(name, [numbers(*shape)], options)


@pytest.mark.parametrize("name, shape, like, options", [
    ("reshape_like", (2, 6), (3, 4), {}),
    ("reshape_like", (2, 6, 5), (7, 3, 2), {"lhs_begin": 1, "lhs_end": -1, "rhs_begin": 1}),
    ("slice_like", (4, 5), (2, 3), {}),
    ("slice_like", (4, 5, 6), (2, 3), {"axes": (1, -3)}),
    ("broadcast_like", (1, 3), (4, 3), {}),
    ("broadcast_like", (1, 3), (5, 4), {"lhs_axes": (0,), "rhs_axes": (-1,)}),
    ("Crop", (1, 2, 5, 6), (1, 1, 3, 2), {"num_args": 2, "offset": (2, 1)}),
    ("_slice_assign", (4, 5), (2, 3), {"begin": (1, None), "end": (3, None), "step": (1, 2)}),
])
def test_moves_by_the_shape_of_another_array(name, shape, like, options):
    check(name, [numbers(*shape), numbers(*like)], options)


@pytest.mark.parametrize("name, shapes, options", [
    ("Concat", [(2, 3), (2, 1), (2, 4)], {}),
    ("Concat", [(2, 3, 1), (2, 3, 2)], {"dim": -1}),
    ("stack", [(2, 3), (2, 3)], {"axis": -2}),
    ("_npi_concatenate", [(2, 3), (2,)], {"axis": None}),
    ("_npi_concatenate", [(2, 3), (1, 3)], {"axis": 0}),
    ("_npi_vstack", [(3,), (2, 3)], {}),
    ("_npi_hstack", [(2,), (3,)], {}),
    ("_npi_hstack", [(2, 3), (2, 1)], {}),
    ("_npi_dstack", [(2, 3), (2, 3, 2)], {}),
    ("_npi_column_stack", [(3,), (3, 2)], {}),
])
def test_joins(name, shapes, options):
    check(name, [numbers(*shape) for shape in shapes], options)


@pytest.mark.parametrize("dtype", ["float64", "int32", "bool", "float16"])
@pytest.mark.parametrize("name, options", [
    ("Reshape", {"shape": (-1,)}), ("transpose", {}), ("slice", {"begin": (1,), "end": (2,)}),
    ("SliceChannel", {"num_outputs": 2}), ("tile", {"reps": (2, 1)}),
    ("_npi_pad", {"pad_width": ((1, 0), (0, 1)), "mode": "edge"}), ("diag", {"k": 1}),
])
def test_numbers_of_any_dtype_move(name, options, dtype):
    check(name, [(numbers(3, 4) * 5).astype(dtype)], options, gradients=False)


