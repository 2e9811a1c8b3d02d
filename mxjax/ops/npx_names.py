"""Names of `mx.npx` for classic operators, which MXNet 2 moved there."""

from __future__ import annotations

from .registry import alias

MOVED = {
    "_contrib_BatchNormWithReLU": "batch_norm_with_relu",
    "_contrib_bipartite_matching": "bipartite_matching",
    "_contrib_box_decode": "box_decode",
    "_contrib_box_encode": "box_encode",
    "_contrib_box_iou": "box_iou",
    "_contrib_box_nms": "box_nms",
    "_contrib_calibrate_entropy": "contrib_calibrate_entropy",
    "_contrib_DeformableConvolution": "deformable_convolution",
    "_contrib_interleaved_matmul_encdec_qk": "interleaved_matmul_encdec_qk",
    "_contrib_interleaved_matmul_encdec_valatt": "interleaved_matmul_encdec_valatt",
    "_contrib_interleaved_matmul_selfatt_qk": "interleaved_matmul_selfatt_qk",
    "_contrib_interleaved_matmul_selfatt_valatt": "interleaved_matmul_selfatt_valatt",
    "_contrib_ModulatedDeformableConvolution": "modulated_deformable_convolution",
    "_contrib_quantize": "contrib_quantize",
    "_contrib_quantize_v2": "contrib_quantize_v2",
    "_contrib_quantized_act": "quantized_act",
    "_contrib_quantized_conv": "quantized_conv",
    "_contrib_quantized_elemwise_add": "quantized_elemwise_add",
    "_contrib_quantized_elemwise_mul": "quantized_elemwise_mul",
    "_contrib_quantized_embedding": "quantized_embedding",
    "_contrib_quantized_flatten": "quantized_flatten",
    "_contrib_quantized_fully_connected": "quantized_fully_connected",
    "_contrib_quantized_pooling": "quantized_pooling",
    "_contrib_requantize": "requantize",
    "_contrib_round_ste": "round_ste",
    "_contrib_sign_ste": "sign_ste",
    "_contrib_SyncBatchNorm": "sync_batch_norm",
    "_random_poisson": "scalar_poisson",
    "_sample_multinomial": "_random_categorical",
    "_sample_poisson": "tensor_poisson",
    "add_n": "add_n",
    "BlockGrad": "stop_gradient",
    "broadcast_greater": "broadcast_greater",
    "broadcast_like": "broadcast_like",
    "CTCLoss": "ctc_loss",
    "InstanceNorm": "instance_norm",
    "norm": "norm",
    "Pad": "pad",
    "SequenceLast": "sequence_last",
    "SequenceReverse": "sequence_reverse",
    "SliceChannel": "slice_channel",
    "slice_like": "slice_like",
    "softsign": "softsign",
}
for _classic, _name in MOVED.items():
    alias(_classic, f"_npx_{_name}")
