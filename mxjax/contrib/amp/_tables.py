"""The precision of each operator, by registered name; aliases follow from the registry.

LOW: matrix products and convolutions, where 16 bits are fast and safe. FP32: operators that lose
too much precision in 16 bits. WIDEST: operators that need all inputs in one dtype and use the
widest. All others run in the dtype of their inputs. Fewer operators run in bfloat16 than in
float16, as in MXNet.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from ... import level
from ...ops import registry
from ...ops.params import DTypeLike, dtype_name

__all__ = ["CONDITIONAL", "LOSSES", "TARGETS", "canonical", "spelled", "table", "target_name"]

TARGETS = ("float16", "bfloat16")
CONDITIONAL = [("Activation", "act_type", ["softrelu"]), ("LeakyReLU", "act_type", ["elu", "selu"])]
LOSSES = ["SoftmaxOutput", "LinearRegressionOutput", "LogisticRegressionOutput", "MAERegressionOutput"]
FP32_INPUTS = {name: ["", "gamma", "beta", "moving_mean", "moving_var"] for name in ("BatchNorm", "BatchNormWithReLU")}

_LOW = {"float16": ["Convolution", "Deconvolution", "FullyConnected", "RNN"],
        "bfloat16": ["Convolution", "FullyConnected"]}

_FP32 = """CTCLoss Convolution_v1 Custom GroupNorm IdentityAttachKLSparseReg InstanceNorm L2Normalization LRN LayerNorm
LinearRegressionOutput LogisticRegressionOutput MAERegressionOutput MakeLoss SVMOutput SoftmaxActivation SoftmaxOutput
_contrib_DeformableConvolution _contrib_DeformablePSROIPooling _contrib_MultiBoxDetection _contrib_MultiBoxPrior
_contrib_MultiBoxTarget _contrib_SyncBatchNorm _contrib_count_sketch _contrib_fft _contrib_hawkesll _hypot
_hypot_scalar _linalg_det _linalg_extractdiag _linalg_extracttrian _linalg_gelqf _linalg_gemm _linalg_gemm2
_linalg_inverse _linalg_makediag _linalg_maketrian _linalg_potrf _linalg_potri _linalg_slogdet _linalg_sumlogdiag
_linalg_syevd _linalg_syrk _linalg_trmm _linalg_trsm _power _power_scalar _rdiv_scalar _rpower_scalar _square_sum
arccos arcsin arctanh argsort broadcast_hypot broadcast_power cosh erfinv exp expm1 gamma gammaln khatri_rao log log10
log1p log2 log_softmax make_loss mean moments nanprod nansum norm prod rcbrt reciprocal rsqrt sinh smooth_l1 softmax
softmax_cross_entropy softmin square sum tan topk""".split()

_WIDEST = """Concat Correlation _contrib_MultiProposal _contrib_PSROIPooling _contrib_Proposal _contrib_ROIAlign
_contrib_box_iou _contrib_box_nms _contrib_interleaved_matmul_encdec_qk _contrib_interleaved_matmul_encdec_valatt
_contrib_interleaved_matmul_selfatt_qk _contrib_interleaved_matmul_selfatt_valatt _equal _greater _greater_equal _lesser
_lesser_equal _logical_and _logical_or _logical_xor _maximum _minimum _mod _not_equal _random_pdf_dirichlet
_random_pdf_exponential _random_pdf_gamma _random_pdf_generalized_negative_binomial _random_pdf_negative_binomial
_random_pdf_normal _random_pdf_poisson _random_pdf_uniform _scatter_elemwise_div add_n batch_dot broadcast_add
broadcast_div broadcast_equal broadcast_greater broadcast_greater_equal broadcast_lesser broadcast_lesser_equal
broadcast_logical_and broadcast_logical_or broadcast_logical_xor broadcast_maximum broadcast_minimum broadcast_mod
broadcast_mul broadcast_not_equal broadcast_sub dot elemwise_add elemwise_div elemwise_mul elemwise_sub stack
where""".split()

# the operators of `mx.np`, which MXNet 2 has in its lists
_NP_LOW = ["_linalg_gemm", "_linalg_gemm2", "_npi_einsum", "_npi_matmul"]
_NP_FP32 = """_np_cumsum _np_prod _np_sum _np_trace _npi_arccos _npi_arcsin _npi_arctanh _npi_average _npi_cholesky
_npi_cosh _npi_eig _npi_eigh _npi_eigvals _npi_eigvalsh _npi_exp _npi_expm1 _npi_ldexp _npi_ldexp_scalar _npi_log
_npi_log10 _npi_log1p _npi_log2 _npi_logaddexp _npi_logaddexp_scalar _npi_mean _npi_norm _npi_pinv
_npi_pinv_scalar_rcond _npi_polyval _npi_power _npi_power_scalar _npi_reciprocal _npi_rldexp_scalar _npi_rpower_scalar
_npi_sinh _npi_solve _npi_square _npi_std _npi_svd _npi_tan _npi_tensorinv _npi_tensorsolve _npi_var""".split()
_NP_WIDEST = """_np_dot _npi_column_stack _npi_copysign _npi_cross _npi_dstack _npi_ediff1d _npi_equal _npi_fmax
_npi_fmin _npi_fmod _npi_greater _npi_greater_equal _npi_hstack _npi_hypot _npi_kron _npi_less _npi_less_equal
_npi_logical_and _npi_logical_or _npi_logical_xor _npi_not_equal _npi_tensordot _npi_tensordot_int_axes _npi_vstack
_npi_where _npx_index_add _npx_index_update""".split()

if level.fix("mxjax.contrib.amp") == 2:
    _FP32 = [name for name in _FP32 if name not in _NP_LOW] + _NP_FP32
    _LOW["float16"] += _NP_LOW
    _WIDEST += _NP_WIDEST

# with bfloat16 all others are in float32
_BF16_BOTH = """Activation BatchNorm Concat LRN LeakyReLU Pooling _contrib_BatchNormWithReLU
_contrib_interleaved_matmul_encdec_qk _contrib_interleaved_matmul_encdec_valatt _contrib_interleaved_matmul_selfatt_qk
_contrib_interleaved_matmul_selfatt_valatt _shuffle abs amp_cast amp_multicast clip elemwise_add relu sqrt square
tanh""".split()
_BF16_NOT_WIDEST = {"Concat", "broadcast_mul", *(n for n in _WIDEST if "interleaved" in n)}


def target_name(dtype: DTypeLike) -> str:
    """Returns the name of a 16-bit dtype.

    Raises:
        AssertionError: it is another dtype, or unknown.
    """
    name = ""
    with contextlib.suppress(TypeError):
        name = dtype_name(dtype)
    if name not in TARGETS:
        raise AssertionError(f"AMP supports the target_dtype {' and '.join(TARGETS)}, got {dtype!r}")
    return name


def table(dtype: DTypeLike, which: str) -> list[str]:
    """Returns the registered names of a kind for a 16-bit dtype: "low", "fp32", "widest", or "both" (all others).

    Raises:
        AssertionError: unknown dtype.
    """
    name = target_name(dtype)
    low = _LOW[name]
    widest = [n for n in _WIDEST if name == "float16" or n not in _BF16_NOT_WIDEST]
    every = [op.name for op in registry.operators() if "backward" not in op.name
             and not op.name.startswith(("_np", "_contrib_quantize", "_contrib_dequantize"))]
    if name == "float16":
        fp32 = list(_FP32)
    else:
        fp32 = [n for n in every if n not in {*low, *widest, *_BF16_BOTH}]
    known = {*low, *widest, *fp32, *(op for op, _, _ in CONDITIONAL)}
    return {"low": low, "fp32": fp32, "widest": widest, "both": [n for n in every if n not in known]}[which]


def canonical(names: Iterable[str]) -> set[str]:
    """Converts names and aliases to registered names, and drops unknown ones.

    At level 2, "Concat" and "stack" are also the operators of `mx.np`, as in MXNet 2.
    """
    operators = {op.name for op in map(registry.find, names) if op is not None}
    if level.current() == 2:
        operators |= {"_npi_concatenate"} if "Concat" in operators else set()
        operators |= {"_npi_stack"} if "stack" in operators else set()
    return operators


def spelled(names: Iterable[str]) -> list[str]:
    """Returns names with all their aliases."""
    return [spelling for name in names if (op := registry.find(name)) for spelling in (op.name, *op.aliases)]
