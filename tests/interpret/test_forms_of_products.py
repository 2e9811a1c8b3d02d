"""NumPy forms of layers beside XLA's programs."""

import numpy as np
import pytest

from .forms import check

rng = np.random.RandomState(0)


def numbers(*shape, dtype="float32"):
    return rng.uniform(-1, 1, shape).astype(dtype)


@pytest.mark.parametrize("flatten", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_dense(bias, flatten):
    width = 12 if flatten else 4
    arrays = [numbers(5, 3, 4), numbers(6, width), *[numbers(6)] * bias]
    check("FullyConnected", arrays, {"num_hidden": 6, "no_bias": not bias, "flatten": flatten})


@pytest.mark.parametrize("shapes, options", [
    (((4, 3), (3, 5)), {}),
    (((3, 4), (5, 3)), {"transpose_a": True, "transpose_b": True}),
    (((2, 3, 4), (4, 3, 2)), {}),
    (((4, 2, 3), (5, 2, 4)), {"transpose_a": True, "transpose_b": True}),
    (((4,), (4,)), {}),
    (((4,), (4, 3)), {}),
    (((2, 4), (4,)), {}),
])
def test_dot(shapes, options):
    check("dot", [numbers(*shape) for shape in shapes], options)


@pytest.mark.parametrize("shapes", [((4, 3), (3, 5)), ((2, 3, 4), (5, 4, 3)), ((4,), (4,)), ((2, 3), (3,))])
def test_dot_of_numpy(shapes):
    check("_np_dot", [numbers(*shape) for shape in shapes])


@pytest.mark.parametrize("name, shapes, options", [
    ("_npi_tensordot", ((2, 3, 4), (5, 4, 2)), {"a_axes_summed": (0, 2), "b_axes_summed": (-1, 1)}),
    ("_npi_tensordot_int_axes", ((2, 3, 4), (3, 4, 5)), {"axes": 2}),
    ("_npi_tensordot_int_axes", ((2, 3), (4,)), {"axes": 0}),
    ("_npi_matmul", ((2, 1, 3, 4), (5, 4, 2)), {}),
    ("_npi_matmul", ((3, 4), (4, 2)), {}),
    ("linalg_gemm2", ((2, 3, 4), (2, 4, 5)), {"alpha": 0.5}),
    ("linalg_gemm2", ((3, 4), (5, 3)), {"transpose_a": True, "transpose_b": True}),
    ("linalg_gemm", ((2, 3, 4), (2, 4, 5), (2, 3, 5)), {"alpha": 0.5, "beta": 2}),
    ("_contrib_div_sqrt_dim", ((3, 4),), {}),
])
def test_products(name, shapes, options):
    check(name, [numbers(*shape) for shape in shapes], options)


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_products_of_batches(transpose_a, transpose_b):
    first, second = (2, 5, 3) if transpose_a else (2, 3, 5), (2, 4, 5) if transpose_b else (2, 5, 4)
    check("batch_dot", [numbers(*first), numbers(*second)], {"transpose_a": transpose_a, "transpose_b": transpose_b})


@pytest.mark.parametrize("name, shapes", [
    ("selfatt_qk", [(5, 2, 24)]),
    ("selfatt_valatt", [(5, 2, 24), (4, 5, 5)]),
    ("encdec_qk", [(5, 2, 8), (3, 2, 16)]),
    ("encdec_valatt", [(3, 2, 16), (4, 5, 3)]),
])
def test_attention(name, shapes):
    check(f"_contrib_interleaved_matmul_{name}", [numbers(*shape) for shape in shapes], {"heads": 2})
