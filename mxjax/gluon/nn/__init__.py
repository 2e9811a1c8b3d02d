"""Layers."""

from ...level import current as _level
from ..block import Block, HybridBlock, SymbolBlock
from .activations import ELU, GELU, SELU, Activation, LeakyReLU, PReLU, SiLU, Swish
from .basic_layers import (
    BatchNorm,
    BatchNormReLU,
    Dense,
    Dropout,
    Embedding,
    Flatten,
    GroupNorm,
    HybridLambda,
    HybridSequential,
    InstanceNorm,
    Lambda,
    LayerNorm,
    Sequential,
)
from .combining import (
    Concatenate,
    HybridConcatenate,
    Identity,
    PixelShuffle1D,
    PixelShuffle2D,
    PixelShuffle3D,
    SyncBatchNorm,
)
from .conv_layers import (
    AvgPool1D,
    AvgPool2D,
    AvgPool3D,
    Conv1D,
    Conv1DTranspose,
    Conv2D,
    Conv2DTranspose,
    Conv3D,
    Conv3DTranspose,
    GlobalAvgPool1D,
    GlobalAvgPool2D,
    GlobalAvgPool3D,
    GlobalMaxPool1D,
    GlobalMaxPool2D,
    GlobalMaxPool3D,
    MaxPool1D,
    MaxPool2D,
    MaxPool3D,
    ReflectionPad2D,
)
from .deformable import DeformableConvolution, ModulatedDeformableConvolution

__all__ = ["ELU", "GELU", "SELU", "Activation", "AvgPool1D", "AvgPool2D", "AvgPool3D", "BatchNorm", "BatchNormReLU",
           "Block", "Concatenate", "Conv1D", "Conv1DTranspose", "Conv2D", "Conv2DTranspose", "Conv3D",
           "Conv3DTranspose", "DeformableConvolution", "Dense", "Dropout", "Embedding", "Flatten", "GlobalAvgPool1D",
           "GlobalAvgPool2D", "GlobalAvgPool3D", "GlobalMaxPool1D", "GlobalMaxPool2D", "GlobalMaxPool3D", "GroupNorm",
           "HybridBlock", "HybridConcatenate", "HybridLambda", "HybridSequential", "Identity", "InstanceNorm",
           "Lambda", "LayerNorm", "LeakyReLU", "MaxPool1D", "MaxPool2D", "MaxPool3D", "ModulatedDeformableConvolution",
           "PReLU", "PixelShuffle1D", "PixelShuffle2D", "PixelShuffle3D", "ReflectionPad2D", "Sequential", "SiLU",
           "Swish", "SymbolBlock", "SyncBatchNorm"]

if _level() == 2:  # MXNet 2 keeps them in these modules
    from . import basic_layers, conv_layers
    for _home, _layers in ((basic_layers, (Concatenate, HybridConcatenate, Identity, SyncBatchNorm)),
                           (conv_layers, (DeformableConvolution, ModulatedDeformableConvolution, PixelShuffle1D,
                                          PixelShuffle2D, PixelShuffle3D))):
        vars(_home).update({_layer.__name__: _layer for _layer in _layers})
