"""Testing tools: comparisons, numeric gradients, random arrays, data sets.

Programs use `from mxnet.test_utils import *` and then rely on the modules that MXNet's own
`test_utils` imports, so these names are also available here.
"""
# ruff: noqa: F401
import bz2
import errno
import gzip
import json
import logging
import numbers
import os
import platform
import struct
import sys
import time
import traceback
import zipfile
from collections import OrderedDict
from contextlib import contextmanager

import numpy as np
import numpy.random as rnd
import numpy.testing as npt

import mxjax as mx

from .. import ndarray as nd
from .. import symbol as sym
from ..context import Context, Device, current_context, current_device
from ..runtime import Features
from ..symbol import Symbol
from ..symbol import numpy as np_symbol
from ..util import get_cuda_compute_capability, getenv, setenv, use_np, use_np_default_dtype
from ._arrays import (
    assign_each,
    assign_each2,
    collapse_sum_like,
    create_2d_np_tensor,
    create_2d_tensor,
    create_sparse_array,
    create_sparse_array_zd,
    create_vector,
    get_identity_mat,
    get_identity_mat_batch,
    new_matrix_with_real_eigvals_2d,
    new_matrix_with_real_eigvals_nd,
    new_orthonormal_matrix_2d,
    new_sym_matrix_with_real_eigvals_2d,
    new_sym_matrix_with_real_eigvals_nd,
    np_reduce,
    rand_coord_2d,
    rand_ndarray,
    rand_shape_2d,
    rand_shape_3d,
    rand_shape_nd,
    rand_sparse_ndarray,
    random_arrays,
    random_sample,
    random_uniform_arrays,
    shuffle_csr_column_indices,
)
from ._compare import (
    almost_equal,
    assert_allclose,
    assert_almost_equal,
    assert_almost_equal_ignore_nan,
    assert_almost_equal_with_err,
    assert_exception,
    checkShapes,
    compare_ndarray_tuple,
    compare_optimizer,
    compare_optimizer_noise_seeded,
    locationError,
    same,
    same_array,
    same_symbol_structure,
)
from ._defaults import (
    default_atols,
    default_context,
    default_device,
    default_dtype,
    default_numeric_eps,
    default_rtols,
    effective_dtype,
    get_atol,
    get_etol,
    get_rtol,
    get_tolerance,
    get_tols,
    set_default_context,
    set_default_device,
)
from ._files import (
    download,
    download_model,
    get_bz2_data,
    get_cifar10,
    get_im2rec_path,
    get_mnist,
    get_mnist_iterator,
    get_mnist_pkl,
    get_mnist_ubyte,
    get_zip_data,
)
from ._generators import (
    chi_square_check,
    gen_buckets_probs_with_ppf,
    mean_check,
    var_check,
    verify_generator,
)
from ._surroundings import (
    DummyIter,
    discard_stderr,
    environment,
    has_tvm_ops,
    is_aarch64_run,
    is_cd_run,
    is_op_runnable,
    list_gpus,
    retry,
)
from ._symbols import (
    check_consistency,
    check_gluon_hybridize_consistency,
    check_numeric_gradient,
    check_speed,
    check_symbolic_backward,
    check_symbolic_forward,
    numeric_grad,
    simple_forward,
)

array = nd.array
