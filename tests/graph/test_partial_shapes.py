"""What is said of outputs whose inputs are not known in full is true whatever the inputs turn out to be.

What is said without evaluation is what evaluation says.
"""

import json
import random
import subprocess
import sys
import zlib

import jax
import numpy as np
import pytest

import mxjax as mx
from mxjax.base import MXNetError
from mxjax.graph import inference
from mxjax.kernel.kernel import prepare
from mxjax.ops import registry
from mxjax.ops.infer import UNKNOWN, NotKnown, Size, exact_outputs, filled, op_types

from ..internals import forget_operator, outputs_of

# operator and parameters; shapes of inputs that fit together, with dtypes other than float32.
# Operators with _np behind their names are asked under NumPy semantics.
TABLE = """
Convolution kernel=(1,1) stride=(16,16) num_filter=4; 2,3,32,40; 4,3,1,1; 4
Convolution kernel=(3,2) stride=(2,1) pad=(1,0) dilate=(1,2) num_filter=4 num_group=2 no_bias=1; 2,4,9,8; 4,2,3,2
Convolution kernel=(3,) num_filter=5 layout=NWC; 2,9,3; 5,3,3; 5
Convolution_v1 kernel=(3,3) num_filter=2; 1,3,7,6; 2,3,3,3; 2
Deconvolution kernel=(3,3) stride=(2,2) pad=(1,1) adj=(1,1) num_filter=2; 1,3,4,5; 3,2,3,3
Deconvolution kernel=(4,4) stride=(2,2) target_shape=(9,11) num_filter=2; 1,3,4,5; 3,2,4,4
Pooling kernel=(1,1) stride=(16,16); 2,3,32,40
Pooling kernel=(3,3) stride=(2,2) pad=(1,1) pool_type=avg pooling_convention=full; 2,3,8,9
Pooling kernel=(3,3) stride=(2,2) pooling_convention=same; 2,3,8,9
Pooling global_pool=1 layout=NHWC; 2,8,9,3
Pooling_v1 kernel=(2,2) stride=(2,2) pad=(1,1) pool_type=sum; 2,3,8,9
FullyConnected num_hidden=4; 2,3,5; 4,15; 4
FullyConnected num_hidden=4 flatten=0 no_bias=1; 2,3,5; 4,5
RNN state_size=4 num_layers=2 mode=lstm bidirectional=1 state_outputs=1; 5,2,3; 736; 4,2,4; 4,2,4
RNN state_size=4 num_layers=1 mode=gru; 5,2,3; 108; 1,2,4
BatchNorm output_mean_var=1; 2,3,4; 3; 3; 3; 3
BatchNorm axis=-1; 2,3,4; 4; 4; 4; 4
LayerNorm output_mean_var=1 axis=1; 2,3,4; 3; 3
GroupNorm num_groups=2 output_mean_var=1; 2,4,3; 2; 2
_npx_group_norm num_groups=2 output_mean_var=1; 2,4,3; 4; 4
InstanceNorm; 2,3,4; 3; 3
L2Normalization mode=channel; 2,3,4
LRN nsize=3; 2,3,4,5
Embedding input_dim=9 output_dim=4; 2,3; 9,4
Dropout p=0.5 mode=always axes=(1,); 2,3,4
LeakyReLU act_type=prelu; 2,3,4; 3
SoftmaxOutput; 2,5; 2
SoftmaxOutput multi_output=1; 2,5,3; 2,3
LinearRegressionOutput; 2,5; 2,5
SVMOutput; 2,5; 2
SequenceMask use_sequence_length=1; 4,2,3; 2
SequenceLast use_sequence_length=1 axis=1; 2,4,3; 2
SequenceReverse use_sequence_length=1; 4,2,3; 2
softmax axis=1 use_length=1; 2,3,4; 2,4
softmax_cross_entropy; 3,5; 3
CTCLoss; 6,2,5; 2,3
MakeLoss; 2,3
elemwise_add; 2,3; 2,3
add_n num_args=3; 2,3; 2,3; 2,3
broadcast_add; 2,1,3; 2,4,1
broadcast_maximum; 3,1; 1,4
broadcast_to shape=(0,4); 2,1
broadcast_axis axis=1 size=4; 2,1,3
broadcast_like; 2,1; 2,4
_npi_add_np; 3,1; 2,1,4
_npi_hypot_np; 3,4; 4
_npi_where_np; 3,1; 4; 2,3,4
where; 2; 2,3; 2,3
Reshape shape=(0,-1); 2,3,4
Reshape shape=(-3,-2); 2,3,4,5
Reshape shape=(-4,1,-1,-2); 2,3
Reshape shape=(-1,6); 4,3,2
_np_reshape_np newshape=(-1,6); 4,3
_npx_reshape_np newshape=(-2,-5,-1); 2,3,4,1
Flatten; 2,3,4
reshape_like; 2,3,4; 6,4
transpose axes=(1,0,2); 2,3,4
SwapAxis dim1=0 dim2=2; 2,3,4
expand_dims axis=1; 2,3
squeeze; 2,1,3,1
squeeze axis=(1,); 2,1,3
_np_squeeze_np; 3,1
reverse axis=(1,); 2,3
tile reps=(2,1,3); 2,3
repeat repeats=3; 2,3
repeat repeats=3 axis=1; 2,3
Pad mode=constant pad_width=(0,0,0,0,1,2,3,4); 2,3,4,5
Pad mode=reflect pad_width=(0,0,0,0,1,2,3,1); 2,3,4,5
_npi_pad_np pad_width=((1,2),(0,3)) mode=constant; 2,3
diag k=1; 4,5
diag k=-1; 4
diag axis1=0 axis2=2; 4,3,5
_np_diag_np k=4; 6,7
_np_diagonal_np offset=1; 4,5,3
_np_trace_np offset=1 axis1=0 axis2=2; 4,5,3
_np_diagflat_np k=2; 2,3
depth_to_space block_size=2; 2,8,3,4
space_to_depth block_size=2; 2,3,4,6
im2col kernel=(2,2) stride=(8,8); 1,3,9,17
slice begin=(1,None) end=(3,5); 5,8
slice begin=(None,) end=(None,) step=(-2,); 7
slice_axis axis=1 begin=1 end=4; 2,6
slice_axis axis=0 begin=-3 end=None; 6
slice_like; 5,6; 3,4
slice_like axes=(1,); 5,6; 3,4
_slice_assign begin=(1,) end=(3,); 5,2; 2,2
Crop num_args=2 center_crop=1; 1,2,7,8; 1,2,3,4
Crop num_args=1 h_w=(3,4) offset=(1,1); 1,2,7,8
SliceChannel num_outputs=3 axis=1; 2,6
SliceChannel num_outputs=3 axis=1 squeeze_axis=1; 2,3
_split_v2 indices=() sections=4 axis=0; 9,2
_split_v2 indices=(0,2,4) axis=1; 2,9
_npi_hsplit_np indices=() sections=2; 3,4
Concat num_args=2 dim=1; 2,3; 2,4
stack num_args=2 axis=1; 2,3; 2,3
_npi_concatenate_np num_args=2 axis=None; 2,3; 4
_npi_vstack_np num_args=2; 3; 2,3
_npi_hstack_np num_args=2; 3; 4
_npi_hstack_np num_args=2; 2,3; 2,4
_npi_dstack_np num_args=2; 2,3; 2,3,4
_npi_column_stack_np num_args=2; 3; 3,2
_np_atleast_1d_np num_args=2; ; 3
_np_atleast_2d_np num_args=3; ; 3; 2,3
_np_atleast_3d_np num_args=4; ; 3; 2,3; 2,3,4
take axis=1; 4,5; 2,3
take axis=-1 mode=wrap; 4,5; 2
pick axis=0; 4,5; 5
pick axis=1 keepdims=1; 4,5; 4,1
batch_take; 4,5; 4
one_hot depth=6; 2,3
gather_nd; 4,5,6; 2,3
scatter_nd shape=(4,5); 3; 2,3
_contrib_index_copy; 5,3; 2; 2,3
_contrib_index_array; 2,3
_ravel_multi_index shape=(4,5); 2,3
_unravel_index shape=(4,5); 3
_npi_diff_np n=2 axis=0; 5,3
_npi_delete_np int_ind=1 axis=0; 5,3
_npi_insert_scalar_np int_ind=1 axis=0 val=2; 5,3
_npi_diag_indices_from_np; 4,4
dot; 2,3; 3,4
dot transpose_a=1; 3,2; 3,4
dot; 3; 3
batch_dot transpose_b=1; 2,3,4; 2,5,4
khatri_rao num_args=2; 2,3; 4,3
_np_dot_np; 2,3; 4,3,5
_np_dot_np; 3; 3
_npi_matmul_np; 2,1,3,4; 5,4,2
_npi_matmul_np; 4; 3,4,2
_npi_tensordot_np a_axes_summed=(0,) b_axes_summed=(1,); 3,4; 2,3,5
_npi_tensordot_int_axes_np axes=1; 4,3; 3,5
_npi_einsum_np num_args=2 subscripts=ij,jk->ik; 2,3; 3,4
_linalg_gemm; 6,2,3,4; 6,2,4,5; 6,2,3,5
_linalg_gemm2 transpose_a=1 transpose_b=1; 6,2,4,3; 6,2,5,4
_linalg_trsm; 6,2,3,3; 6,2,3,4
_linalg_potrf; 6,2,3,3
_linalg_sumlogdiag; 6,2,3,3
_linalg_det; 6,2,3,3
_linalg_slogdet; 6,2,3,3
_linalg_gelqf; 6,2,3,4
_linalg_syrk; 6,2,3,4
_linalg_makediag offset=1; 6,2,3
_linalg_extractdiag offset=1; 6,2,3,3
_linalg_maketrian; 6,2,6
_linalg_extracttrian; 6,2,3,3
_npi_svd_np; 3,4
_npi_solve_np; 3,3; 3,4
_npi_pinv_scalar_rcond_np; 2,3,4
_npi_det_np; 2,3,3
sum axis=(0,2); 2,3,4
sum axis=1 keepdims=1 exclude=1; 2,3,4
mean; 2,3
norm ord=1 axis=1; 2,3
argmax axis=1; 2,3
topk k=2 axis=1 ret_typ=both; 3,5
topk k=30 ret_typ=value; 3,40
sort axis=None; 3,4
argsort axis=0; 3,4
cumsum axis=None; 3,4
moments axes=(0,); 3,4
_histogram bin_cnt=5 range=(0,1); 9
_np_sum_np axis=(0,); 3,4
_npi_percentile_np axis=(0,) q_scalar=50; 5,3
_sample_normal shape=(3,); 2,4; 2,4
_sample_multinomial shape=(3,) get_prob=1; 2,4
_random_pdf_normal; 2,4; 2; 2
_random_pdf_dirichlet; 2,5,3; 2,3
_random_uniform_like; 2,3
_npi_normal_np size=None; 3,1; 4
_npi_uniform_n_np size=(5,); 3,1; 4
_npi_pareto_np size=None; 3,4
_npi_gamma_np size=(2,3); 3; 3
UpSampling scale=2 sample_type=nearest num_args=1; 2,3,4,5
UpSampling scale=4 sample_type=nearest num_args=2 multi_input_mode=concat; 1,2,3,4; 1,5,6,8
UpSampling scale=4 sample_type=nearest num_args=2 multi_input_mode=sum; 1,2,3,4; 1,2,6,8
UpSampling scale=2 sample_type=bilinear num_filter=3 num_args=2; 2,3,4,5; 3,1,4,4
_contrib_BilinearResize2D height=7 width=8; 2,3,4,5
_contrib_BilinearResize2D mode=like; 2,3,4,5; 1,1,6,7
_contrib_BilinearResize2D mode=odd_scale scale_height=2.0 scale_width=0.5; 2,3,5,6
_contrib_BilinearResize2D mode=to_even_up; 2,3,5,6
_contrib_AdaptiveAvgPooling2D output_size=(3,); 2,3,8,9
BilinearSampler; 2,3,4,5; 2,2,6,7
GridGenerator transform_type=affine target_shape=(4,5); 2,6
GridGenerator transform_type=warp; 2,2,4,5
SpatialTransformer target_shape=(4,5) transform_type=affine sampler_type=bilinear; 2,3,6,7; 2,6
ROIPooling pooled_size=(2,3) spatial_scale=1.0; 2,3,8,9; 4,5
Correlation kernel_size=1 max_displacement=2 stride1=2 stride2=2 pad_size=2; 2,3,6,7; 2,3,6,7
_contrib_ROIAlign pooled_size=(2,2) spatial_scale=1.0 sample_ratio=2 position_sensitive=1; 2,8,6,7; 3,5
_contrib_PSROIPooling spatial_scale=1.0 output_dim=2 pooled_size=2; 2,8,6,7; 3,5
_contrib_box_iou; 4,4; 5,4
_contrib_box_nms; 2,7,6
_contrib_bipartite_matching threshold=0.1; 2,4,5
_contrib_box_decode; 2,7,4; 1,7,4
_contrib_MultiBoxPrior sizes=(0.5,0.3) ratios=(1.0,2.0); 1,3,4,5
_contrib_MultiBoxTarget; 1,7,4; 2,3,5; 2,4,7
_contrib_MultiBoxDetection; 2,3,7; 2,28; 1,7,4
_contrib_DeformableConvolution kernel=(2,2) num_filter=2 no_bias=1; 2,4,5,6; 2,8,4,5; 2,4,2,2
_image_to_tensor; 5,6,3
_image_crop x=1 y=1 width=3 height=2; 6,7,3
_image_resize size=(4,3); 6,7,3
_image_resize size=4 keep_ratio=1; 6,7,3
_cvcopyMakeBorder top=1 bot=2 left=3 right=4; 6,7,3
_contrib_interleaved_matmul_selfatt_qk heads=2; 5,2,12
_contrib_interleaved_matmul_encdec_valatt heads=2; 5,2,8; 4,3,5
_contrib_arange_like axis=1; 2,5
_contrib_fft; 2,4
_contrib_count_sketch out_dim=5; 2,4; 1,4; 1,4
shape_array; 2,3
sgd_mom_update lr=0.1; 2,3; 2,3; 2,3
mp_lamb_update_phase1 t=1 wd=0.1; 2,3; 2,3; 2,3; 2,3; 2,3
multi_lars eta=0.1 eps=0.1; 3; 3; 3; 3
multi_sgd_update lrs=(0.1,0.1) wds=(0.0,0.0) num_weights=2; 2,3; 2,3; 4; 4
multi_all_finite num_arrays=2; 3; 2,4
_contrib_quantize; 2,3; 1; 1
_contrib_quantize_v2; 2,3
_contrib_dequantize; 2,3 int8; 1; 1
_contrib_requantize; 2,3 int32; 1; 1
_contrib_quantized_conv kernel=(3,3) stride=(4,4) num_filter=2 no_bias=1; 1,3,9,8 int8; 2,3,3,3 int8; 1; 1; 1; 1
_contrib_quantized_fully_connected num_hidden=4 no_bias=1; 2,3,5 int8; 4,15 int8; 1; 1; 1; 1
_contrib_quantized_pooling kernel=(2,2) stride=(9,9); 2,3,8,19 int8; 1; 1
_contrib_quantized_act act_type=relu; 2,3 int8; 1; 1
_contrib_quantized_flatten; 2,3,4 int8; 1; 1
_contrib_quantized_elemwise_add; 2,3 int8; 2,3 int8; 1; 1; 1; 1
_contrib_quantized_batch_norm min_calib_range=-1 max_calib_range=1; 2,3,4 int8; 3; 3; 3; 3; 1; 1
Activation act_type=relu; 2,3
BatchNorm_v1; 2,3,4; 3; 3; 3; 3
_contrib_BatchNormWithReLU; 2,3,4; 3; 3; 3; 3
_contrib_SyncBatchNorm key=a output_mean_var=1; 2,3,4; 3; 3; 3; 3
SoftmaxActivation mode=channel; 2,3,4
softmax axis=-1; 2,3
log_softmax axis=1; 2,3,4
Cast dtype=float16; 2,3
amp_cast dtype=float16; 2,3
clip a_min=0 a_max=1; 2,3
Dropout output_mask=1; 2,3
LRN nsize=3 output_norm=1; 2,3,4,5
LeakyReLU act_type=rrelu; 2,3,4
SoftmaxOutput preserve_shape=1; 2,3,5; 2,3
MAERegressionOutput; 2,1; 2
SequenceMask axis=1; 2,4,3
SequenceLast; 4,2,3
RNN state_size=4 num_layers=1 mode=lstm projection_size=2 state_outputs=1; 5,2,3; 120; 1,2,2; 1,2,4
_contrib_SparseEmbedding input_dim=9 output_dim=4; 2,3; 9,4
sum axis=1; 2,3,4
max axis=(0,1) exclude=1 keepdims=1; 2,3,4
norm; 2,3
argmin keepdims=1; 2,3
argmax_channel; 2,3,4
_npi_mean_np axis=(0,-1) keepdims=1; 2,3,4
_npi_std_np; 2,3
_npi_argmax_np axis=1 keepdims=1; 2,3
_np_any_np axis=(1,); 2,3
topk axis=None k=2 ret_typ=mask; 2,3
batch_dot; 2,3,4; 2,4,5
dot transpose_b=1; 2,3,4; 5,4
Reshape shape=(-1,0) reverse=1; 2,3,4
squeeze axis=(0,2); 1,3,1
tile reps=(2,); 2,3
Pad mode=edge pad_width=(0,0,0,0,1,2,3,4,1,1); 2,3,4,5,2
Concat num_args=3 dim=-1; 2,3; 2,4; 2,1
broadcast_like lhs_axes=(1,) rhs_axes=(-1,); 2,1,3; 5,4
slice_like axes=(-1,); 5,6; 3,4
pick axis=0 mode=wrap; 4,5; 1,5
_npi_tile_np reps=(2,1); 2,3
_npi_full_like_np fill_value=2; 2,3
_npi_broadcast_to_np shape=(4,-2,3); 2,1
_contrib_interleaved_matmul_selfatt_valatt heads=2; 5,2,12; 4,3,5
_contrib_interleaved_matmul_encdec_qk heads=2; 5,2,4; 3,2,8
_contrib_quantized_pooling kernel=(2,2) pool_type=avg; 2,3,8,9 uint8; 1; 1
"""
MADE = """
_zeros shape=(2,3)
_zeros_without_dtype shape=(2,3)
_ones shape=(2,3) dtype=int8
_full shape=(2,3) value=2
_npi_zeros_np shape=(2,3) dtype=float16
_npi_identity_np shape=(3,3)
_arange start=1 stop=9 step=3 repeat=2 dtype=int32
_random_uniform shape=(2,3)
_random_normal shape=(2,3) dtype=float16
_random_gamma shape=(2,3)
_random_exponential shape=(2,3)
_random_poisson shape=(2,3)
_random_binomial n=4 shape=(2,3)
_random_negative_binomial shape=(2,3)
_random_generalized_negative_binomial shape=(2,3)
_random_randint low=1 high=5 shape=(2,3)
"""
ROWS = [line for line in TABLE.split("\n") if line]
MADE_ROWS = [line for line in MADE.split("\n") if line]


class Row:
    """A graph of one operator, and shapes that fit it."""

    def __init__(self, line):
        head, *shapes = line.split(";")
        name, *params = head.split()
        self.np, name = name.endswith("_np"), name.removesuffix("_np")
        inputs = [s.strip().partition(" ") for s in shapes]
        self.dtypes = [dtype or "float32" for _, _, dtype in inputs]
        self.full, count = [tuple(int(n) for n in s.split(",") if n) for s, _, _ in inputs], len(inputs)
        nodes = [{"op": "null", "name": f"i{k}", "inputs": [], "attrs": {"__dtype__": dtype or "float32"}}
                 for k, (_, _, dtype) in enumerate(inputs)]
        nodes.append({"op": name, "name": "node", "attrs": dict(p.split("=", 1) for p in params),
                      "inputs": [[k, 0, 0] for k in range(count)]})
        graph = {"nodes": nodes, "arg_nodes": list(range(count)), "heads": [[count, 0, 0]],
                 "attrs": {"mxnet_version": ["int", 10901]}}
        whole = mx.sym.load_json(json.dumps(graph)).get_internals()
        self.symbol = mx.sym.Group([s for s in whole if s.name == "node"])

    def known(self, shapes):
        """All that is said for these shapes (None: an unknown dimension or shape), None for what is unknown."""
        unknown = -1 if self.np else 0
        given = {f"i{k}": tuple(unknown if n is None else n for n in s) for k, s in enumerate(shapes) if s is not None}
        with mx.util.np_shape(self.np):
            args, outs, aux = self.symbol.infer_shape_partial(**given)
        named = dict(zip(self.symbol.list_arguments() + self.symbol.list_auxiliary_states(), args + aux, strict=True))
        found = [named[f"i{k}"] for k in range(len(self.full))] + outs
        if self.np:
            return [s and tuple(None if n < 0 else n for n in s) for s in found]
        return [tuple(n or None for n in s) or None for s in found]

    def partial(self):
        """Shapes with one unknown dimension, with unknown inputs, and with nothing known but the numbers of dimensions.
        """
        full, first = self.full, self.full[0]
        for k, shape in enumerate(full[:2]):
            for i in range(len(shape)):
                holed = (*shape[:i], None, *shape[i + 1:])
                yield [holed if j == k else s for j, s in enumerate(full)]
                if k == 0 and len(full) > 1:
                    yield [holed] + [None] * (len(full) - 1)
        yield [(None,) * len(first), *full[1:]]
        yield [(None,) * len(s) for s in full]


@pytest.mark.parametrize("line", ROWS, ids=[line.replace(" ", "-") for line in ROWS])
def test_what_is_known_is_true(line):
    row, rng, compared = Row(line), random.Random(zlib.crc32(line.encode())), 0
    for shapes in row.partial():
        said = row.known(shapes)
        for sizes in ((), (1,), (rng.randint(1, 40),), range(1, 41)):  # those that fit, one for all, or any
            real = [s and tuple((rng.choice(sizes) if sizes else n) if m is None else m
                                for m, n in zip(s, f, strict=True)) for s, f in zip(shapes, row.full, strict=True)]
            try:
                true = row.known(real)
            except MXNetError:  # these do not fit together
                continue
            compared += 1
            for a, b in zip(said, true, strict=True):
                if a is not None and b is not None:
                    assert len(a) == len(b) and all(None in (m, n) or m == n for m, n in zip(a, b, strict=True)), \
                        f"for {shapes} {a} was said, for {real} it is {b}"
    assert compared


@pytest.mark.parametrize("line, shapes, outs", [  # at least what MXNet 1.9.1 says
    ("Convolution kernel=(3,2) num_filter=12 no_bias=1; 8,10,9,7; 12,10,3,2", [(8, None, 9, 7), None], [(8, 12, 7, 6)]),
    ("Convolution kernel=(3,2) num_filter=12 no_bias=1; 8,10,9,7; 12,10,3,2", [(None, 10, None, 7), None],
     [(None, 12, None, 6)]),
    ("Deconvolution kernel=(3,3) stride=(2,2) num_filter=4; 8,3,5,6; 3,4,3,3", [(None, 3, 5, 6), None],
     [(None, 4, 11, 13)]),
    ("Pooling kernel=(2,2) stride=(2,2); 8,3,4,6", [(None, 3, 4, 6)], [(None, 3, 2, 3)]),
    ("Pooling global_pool=1; 8,3,4,6", [(None,) * 4], [(None, None, 1, 1)]),
    ("FullyConnected num_hidden=4 no_bias=1; 2,6; 4,6", [(None, 6), None], [(None, 4)]),
    ("FullyConnected num_hidden=4 flatten=0 no_bias=1; 2,3,6; 4,6", [(2, None, None), None], [(2, None, 4)]),
    ("RNN state_size=4 num_layers=1 mode=gru state_outputs=1; 5,2,3; 108; 1,2,4", [(None, 2, 3), None, None],
     [(None, 2, 4), (1, 2, 4)]),
    ("Embedding input_dim=9 output_dim=4; 2,3; 9,4", [(None, 3), None], [(None, 3, 4)]),
    ("LayerNorm output_mean_var=1; 2,5; 5; 5", [(None, 5), None, None], [(None, 5), (None, 1), (None, 1)]),
    ("broadcast_add; 3,1,2; 3,4,2", [(None, 1, 2), (None, 4, None)], [(None, 4, 2)]),
    ("_npi_add_np; 3,4; 2,3,4", [(None, 4), (2, 3, 4)], [(2, 3, 4)]),
    ("Concat num_args=2 dim=1; 2,3; 2,4", [(None, 3), (None, 4)], [(None, 7)]),
    ("stack num_args=2 axis=1; 2,3; 2,3", [(None, 3), None], [(None, 2, 3)]),
    ("Flatten; 2,3,4", [(None, 3, 4)], [(None, 12)]),
    ("Reshape shape=(-1,12); 2,3,4", [(None, 3, 4)], [(None, 12)]),
    ("batch_dot; 2,3,4; 2,4,5", [(None, 3, 4), (None, 4, 5)], [(None, 3, 5)]),
    ("SequenceLast use_sequence_length=1; 4,2,3; 2", [(None, 2, 3), None], [(2, 3)]),
    ("take; 9,4; 2,3", [(None, 4), (2, None)], [(2, None, 4)]),
    ("slice begin=(0,1) end=(2,4); 5,8", [(None, 8)], [(None, 3)]),
    ("ROIPooling pooled_size=(2,3) spatial_scale=1.0; 2,3,8,9; 4,5", [(None, 3, None, None), (None, 5)],
     [(None, 3, 2, 3)]),
    ("UpSampling scale=2 sample_type=nearest num_args=1; 2,3,4,5", [(None, 3, 4, None)], [(None, 3, 8, None)]),
    ("_contrib_MultiBoxTarget; 1,7,4; 2,3,5; 2,4,7", [(1, 7, 4), (None, 3, 5), (None, 4, 7)],
     [(None, 28), (None, 28), (None, 7)]),
    ("sum axis=1; 2,3,4", [(None, 3, 4)], [(None, 4)]),
    ("transpose axes=(1,0,2); 2,3,4", [(None, 3, None)], [(3, None, None)]),
    ("tile reps=(2,3); 2,3", [(None, 3)], [(None, 9)])])
def test_what_is_known_of_outputs(line, shapes, outs):
    assert Row(line).known(shapes)[len(shapes):] == outs


@pytest.mark.parametrize("operator", [
    lambda x: mx.sym.Convolution(x, kernel=(1, 1), stride=(16, 16), num_filter=4, name="strided"),
    lambda x: mx.sym.Pooling(x, kernel=(1, 1), stride=(16, 16), name="strided")])
def test_a_size_that_is_learnt_after_its_first_use(operator):
    """No window is taken for the only one of a picture whose size is not known yet."""
    x = mx.sym.Variable("x", shape=(0, 4, 0, 0))
    strided = operator(x)
    assert strided.infer_shape_partial()[1] == [(0, 4, 0, 0)]
    both = mx.sym.Group([strided, x + mx.sym.Variable("y")])
    assert both.infer_shape(y=(2, 4, 33, 64))[1] == [(2, 4, 3, 4), (2, 4, 33, 64)]
    executor = both.simple_bind(mx.cpu(), y=(2, 4, 33, 64))
    assert executor.forward()[0].shape == (2, 4, 3, 4)


def test_sizes_that_may_be_equal_are_not_taken_to_differ():
    x = mx.sym.Variable("x")
    assert mx.sym.squeeze(x).infer_shape_partial(x=(2, 0, 3))[1] == [()], "the axis may have size 1"
    assert mx.sym.squeeze(x, axis=0).infer_shape_partial(x=(1, 0, 3))[1] == [(0, 3)]


# ------------------------------------------------------------ without evaluation
def _exact(op):
    formula = op.get_attr("FPartialShape")
    marked = op.get_attr("FInferShape") if formula is None else formula
    return hasattr(marked, "exact") and not op.eager


def _said(op, params, shapes):
    """The outputs' shapes by rules alone, or None where they leave it to evaluation, or refuse the shapes."""
    names, ins, outs = op.inputs(params, len(shapes)), list(shapes), [None] * op.num_outputs(params)
    rule = op.get_attr("FInferShape")
    try:
        if rule is not None:
            rule(params, ins, outs, *[names[:len(ins)]] * hasattr(rule, "wants_names"))
    except Exception:  # its mistake is told before there is any evaluation
        return None
    return exact_outputs(op, params, ins, outs) if ins == list(shapes) else None


def _evaluated(op, params, shapes, dtypes):
    kernel = prepare(op, params, len(shapes), False)
    args = [jax.ShapeDtypeStruct(s, mx.ops.params.np_dtype(t)) for s, t in zip(shapes, dtypes, strict=True)]
    args += [params[n] for n in kernel.dynamic]
    specs = kernel.specs(args + [np.zeros(2, np.uint32), np.uint32(0)] * kernel.uses_key)
    return specs[:kernel.num_outputs]


def _changed(shapes, rng):
    """Shapes of which most do not fit together."""
    for _ in range(3):
        yield [tuple(rng.choice([n, n, n + 1, max(n - 1, 1), 1]) for n in s) for s in shapes]
    for k, shape in enumerate(shapes):
        for other in ((*shape, 2), shape[1:], ()):
            yield [other if i == k else s for i, s in enumerate(shapes)]


def _compare(op, params, shapes, dtypes, np_shape):
    with mx.util.np_shape(np_shape):
        said, true = _said(op, params, shapes), _evaluated(op, params, shapes, dtypes)
        assert said is None or said == [shape for shape, _ in true]
        ins, outs = list(dtypes), [None] * len(true)
        op_types(op, params, ins, outs, op.inputs(params, len(shapes)))
        known_types = [t or next(iter(ins), None) for t in outs]
        assert all(t in (None, str(dtype)) for t, (_, dtype) in zip(known_types, true, strict=True))
        rng = random.Random(zlib.crc32(op.name.encode()))
        for wrong in _changed(shapes, rng):
            guess = _said(op, params, wrong)
            if guess is not None:
                assert guess == [shape for shape, _ in _evaluated(op, params, wrong, dtypes)], wrong
    return said is not None


@pytest.mark.slow
def test_what_rules_say_is_what_evaluation_says():
    """Shapes and dtypes of all operators with exact rules; shapes that do not fit are left to evaluation."""
    told_of = set()
    for line in ROWS + MADE_ROWS:
        row = Row(line)
        node = outputs_of(row.symbol)[0][0]
        if _exact(node.op) and _compare(node.op, node.params, row.full, row.dtypes, row.np):
            told_of.add(node.op)
    others = [op for op in registry.operators() if _exact(op) and op not in told_of]
    assert len(told_of) > 90 and len(others) > 200
    for op in others:  # element by element, all of them: their parameters have defaults
        params = op.parse({op.variadic: 2} if op.variadic else {})
        count = 2 if op.variadic else len(op.inputs(params))
        for dtype in ("float32", "int32"):  # some take whole numbers only
            try:
                _evaluated(op, params, [(2, 3)] * count, [dtype] * count)
            except MXNetError:
                continue
            assert _compare(op, params, [(2, 3)] * count, [dtype] * count, op.name.startswith("_np")), op.name
            break
        else:
            raise AssertionError(f"{op.name} has no row in the table")


def test_no_operator_of_these_networks_is_evaluated(monkeypatch):
    monkeypatch.setattr(inference, "node_specs", None)
    monkeypatch.setattr(inference, "_constants", None)
    x = mx.sym.Variable("data")
    for name, size in ("mobilenetv2_0.25", 224), ("resnet18_v2", 40), ("inceptionv3", 299), ("densenet121", 224):
        net = mx.gluon.model_zoo.vision.get_model(name)
        assert net(x).infer_shape(data=(1, 3, size, size))[1] == [(1, 1000)]
    outs, states = mx.rnn.LSTMCell(7, prefix="lstm_").unroll(5, x, merge_outputs=True)
    assert mx.sym.Group([outs, *states]).infer_shape(data=(2, 5, 3))[1] == [(2, 5, 7), (2, 7), (2, 7)]


# ------------------------------------------------------------ batches
def test_a_network_is_asked_once_for_all_batches(monkeypatch):
    net = mx.gluon.model_zoo.vision.squeezenet1_0(classes=5)(mx.sym.Variable("data"))
    first = net.infer_shape(data=(1, 3, 224, 224))
    monkeypatch.setattr(inference, "_visit", None)
    for batch in (4, 1, 17):
        args, outs, aux = net.infer_shape(data=(batch, 3, 224, 224))
        assert args == [(batch, *first[0][0][1:]), *first[0][1:]] and outs == [(batch, 5)] and aux == first[2]


@pytest.mark.parametrize("line", ROWS, ids=[line.replace(" ", "-") for line in ROWS])
def test_other_batches_get_what_a_new_graph_gets(line):
    row = Row(line)
    if not row.full[0]:
        return
    for batch in (2, 3, 1, 12):
        shapes = [(batch, *s[1:]) if s and s[0] == row.full[0][0] else s for s in row.full]
        answers = []
        for one in (row, Row(line)):
            try:
                answers.append(one.known(shapes))
            except MXNetError as error:
                answers.append(str(error))
        assert answers[0] == answers[1]


def test_a_batch_that_is_asked_for_is_a_number():
    x = mx.sym.Variable("x")
    both = mx.sym.broadcast_add(x, mx.sym.Variable("y", shape=(3, 4)))
    assert both.infer_shape(x=(1, 4))[1] == [(3, 4)]
    assert both.infer_shape(x=(3, 4))[1] == [(3, 4)]
    with pytest.raises(MXNetError, match="cannot be broadcast"):
        both.infer_shape(x=(2, 4))
    half = mx.sym.Reshape(x, shape=(-1, 2, 4))
    assert [half.infer_shape(x=(n, 4))[1] for n in (2, 4, 6)] == [[(1, 2, 4)], [(2, 2, 4)], [(3, 2, 4)]]
    with pytest.raises(MXNetError, match="not divisible"):
        half.infer_shape(x=(3, 4))


def test_sizes_with_a_symbol_answer_what_has_one_answer():
    n = Size()
    assert (3 * n + 6) // 3 - n == 2 and (2 * n + 1) % 2 == 1 and (6 * n) // (2 * n) == 3 and (4 * n) % (2 * n) == 0
    assert n > 0 and not n == 0 and 2 * n != 3 and 2 * n + 2 > n and n and None not in (n,) and (n, 2) == (Size(), 2)
    assert 5 - (n - n) == 5 and -n < 0 and n - 1 >= 0 and 10 - n < 10 and Size(least=2) != 1
    assert (2 * n + 3).at(4) == 11
    for question in (lambda: n == 1, lambda: n > 1, lambda: n < 5, lambda: n % 2, lambda: n // 2, lambda: n * n,
                     lambda: range(n), lambda: (1, 2)[:n], lambda: 7 // n, lambda: 7 % n, lambda: n == UNKNOWN):
        with pytest.raises(NotKnown):
            question()
    assert n + UNKNOWN is UNKNOWN and UNKNOWN * n is UNKNOWN and n // UNKNOWN is UNKNOWN


def test_where_all_is_known_no_symbols_are_needed(monkeypatch):
    x = mx.sym.Variable("x")
    net = mx.sym.tile(mx.sym.FullyConnected(x, num_hidden=3), reps=(1, 2))
    monkeypatch.setattr(inference, "_constants", None)
    assert net.infer_shape(x=(2, 5))[1] == [(2, 6)]
    monkeypatch.undo()
    assert net.infer_shape_partial(x=(0, 5))[1] == [(0, 6)]


def test_mistakes_of_the_user_are_told_before_all_is_known():
    x = mx.sym.Variable("x")
    with pytest.raises(MXNetError, match=r"the_conv.*Convolution.*kernel of 2 axes"):
        mx.sym.Convolution(x, kernel=(3, 3), num_filter=1, name="the_conv").infer_shape_partial(x=(0, 3, 8))
    with pytest.raises(MXNetError, match=r"the_pool.*the kernel \(5\) is larger"):
        mx.sym.Pooling(x, kernel=(5, 5), name="the_pool").infer_shape_partial(x=(0, 3, 8, 4))
    with pytest.raises(MXNetError, match=r"the_sum.*cannot be broadcast"):
        mx.sym.broadcast_add(x, mx.sym.Variable("y"), name="the_sum").infer_shape_partial(x=(0, 3), y=(0, 4))


@pytest.fixture
def with_rules():
    """function(FInferShape, FPartialShape) -> a symbol of an operator that has them, named the_node."""
    def make(rule=None, formula=None):
        op = registry.define("partial_shape_test").set_attr("FCompute", lambda data, weight: data)
        for name, value in (("FInferShape", rule), ("FPartialShape", formula)):
            if value is not None:
                op.set_attr(name, value)
        text = {"nodes": [{"op": "null", "name": "data", "inputs": []}, {"op": "null", "name": "weight", "inputs": []},
                          {"op": op.name, "name": "the_node", "inputs": [[0, 0, 0], [1, 0, 0]]}],
                "arg_nodes": [0, 1], "heads": [[2, 0, 0]]}
        return mx.sym.load_json(json.dumps(text))
    yield make
    forget_operator("partial_shape_test")


def test_formulas_of_inputs_wait_for_what_they_ask(with_rules):
    symbol = with_rules(filled(weight=lambda p, x: (2 * x[0], 5 if x[1] > 3 else 7)))
    assert symbol.infer_shape_partial(data=(0, 4))[0] == [(0, 4), (0, 5)]
    assert symbol.infer_shape_partial(data=(3, 0))[0] == [(3, 0), ()]


@pytest.mark.parametrize("parts", [
    {"rule": filled(weight=lambda p, x: (x[0] + "1",))}, {"rule": filled(weight=lambda p, x: (p["absent"],))},
    {"rule": lambda p, ins, outs: ins.absent}, {"formula": lambda p, x, y: (len(p["absent"]),)},
    {"formula": lambda p, x: x}])
def test_rules_that_are_wrong_are_heard_of(with_rules, parts):
    with pytest.raises(MXNetError, match="the_node.*partial_shape_test.*Error: "):
        with_rules(**parts).infer_shape_partial(data=(3, 0))


def test_an_unknown_size_is_no_number():
    assert (3 * UNKNOWN + 1) // 2 - 1 is UNKNOWN and sum([1, UNKNOWN]) is UNKNOWN
    for question in (bool, int, len, iter, lambda n: n == 1, lambda n: n < 1, lambda n: n[0], lambda n: range(n)):
        with pytest.raises(mx.ops.infer.NotKnown):
            question(UNKNOWN)


def test_flatbuffers_is_not_needed():
    code = """
import sys
sys.modules["flatbuffers"] = None  # as where it is not installed
import mxjax as mx
assert mx.sym.tile(mx.sym.Variable("x"), reps=(1, 2)).infer_shape_partial(x=(0, 5))[1] == [(0, 10)]
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
