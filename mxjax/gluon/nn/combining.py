"""Concurrent layers, embeddings with sparse gradients, synchronized batch normalization, pixel shuffle."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ... import context
from ... import ndarray as nd
from ...base import numeric_types
from .._parameter import ParameterDict
from ..block import Block, HybridBlock
from .basic_layers import BatchNorm, HybridSequential, Sequential

if TYPE_CHECKING:
    from ...initializer import InitializerLike
    from ...ndarray import NDArray
    from ...ops.params import DTypeLike
    from .._types import Tensor

__all__ = ["Concatenate", "Concurrent", "HybridConcatenate", "HybridConcurrent", "Identity", "PixelShuffle1D",
           "PixelShuffle2D", "PixelShuffle3D", "SparseEmbedding", "SyncBatchNorm"]


class Concurrent(Sequential):
    """Runs all its blocks on the same input and concatenates their outputs.

    Args:
        axis: along which to concatenate.
        prefix, params: see `Block`.

    Example:
        >>> both = Concurrent(axis=1)
        >>> both.add(Identity(), Identity())
        >>> both(mx.nd.ones((1, 2))).shape
        (1, 4)
    """

    def __init__(self, axis: int = -1, prefix: str | None = None, params: ParameterDict | None = None) -> None:
        super().__init__(prefix=prefix, params=params)
        self.axis = axis

    def forward(self, x: Tensor) -> Any:
        """Returns the concatenated outputs."""
        return nd.concat(*[block(x) for block in self._child_blocks()], dim=self.axis)


class HybridConcurrent(HybridSequential):
    """`Concurrent` for hybrid blocks.

    Args:
        axis: along which to concatenate.
        prefix, params: see `Block`.

    Example:
        >>> both = mx.gluon.contrib.nn.HybridConcurrent(axis=1)
        >>> both.add(mx.gluon.contrib.nn.Identity(), mx.gluon.nn.Activation("relu"))
        >>> both(mx.nd.array([[-1, 2]])).asnumpy()
        array([[-1.,  2.,  0.,  2.]], dtype=float32)
    """

    _in_turn = False

    def __init__(self, axis: int = -1, prefix: str | None = None, params: ParameterDict | None = None) -> None:
        super().__init__(prefix=prefix, params=params)
        self.axis = axis

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Any:  # noqa: N803
        """Returns the concatenated outputs."""
        return F.concat(*[block(x) for block in self._child_blocks()], dim=self.axis)


class Concatenate(Concurrent):
    """MXNet 2's name of `Concurrent`; same arguments.

    Example:
        >>> both = Concatenate(axis=0)
        >>> both.add(Identity(), Identity())
        >>> both(mx.nd.ones((1, 2))).shape
        (2, 2)
    """


class HybridConcatenate(HybridConcurrent):
    """MXNet 2's name of `HybridConcurrent`; same arguments."""


class Identity(HybridBlock):
    """Returns its input unchanged.

    Args:
        prefix, params: see `Block`.

    Example:
        >>> mx.gluon.contrib.nn.Identity()(mx.nd.array([-1, 2])).asnumpy()
        array([-1.,  2.], dtype=float32)
    """

    def __init__(self, prefix: str | None = None, params: ParameterDict | None = None) -> None:
        super().__init__(prefix=prefix, params=params)

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Any:  # noqa: N803
        """Returns x."""
        return x


class SparseEmbedding(Block):
    """Maps indices to vectors of a row_sparse weight, of which only the rows in use are fetched and updated.

    Args:
        input_dim: number of indices.
        output_dim: length of a vector.
        dtype: of the weight.
        weight_initializer: initializer.

    Example:
        >>> layer = mx.gluon.contrib.nn.SparseEmbedding(5, 3)
        >>> layer.initialize()
        >>> trainer = mx.gluon.Trainer(layer.collect_params(), "sgd")
        >>> layer(mx.nd.array([2, 0])).shape
        (2, 3)
    """

    def __init__(self, input_dim: int, output_dim: int, dtype: DTypeLike = "float32",
                 weight_initializer: InitializerLike = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._kwargs = {"input_dim": input_dim, "output_dim": output_dim, "dtype": dtype, "sparse_grad": True}
        self.weight = self._make_parameter(
            "weight", shape=(input_dim, output_dim), init=weight_initializer, dtype=dtype, grad_stype="row_sparse",
            stype="row_sparse")

    def forward(self, x: NDArray) -> Any:
        """Returns the vectors of the indices x, shape x.shape + (output_dim,)."""
        return nd.Embedding(x, self.weight.row_sparse_data(x), name="fwd", **self._kwargs)

    def __repr__(self) -> str:
        return "{}({input_dim} -> {output_dim}, {dtype})".format(type(self).__name__, **self._kwargs)


class SyncBatchNorm(BatchNorm):
    """Batch normalization with statistics of the batch on all devices. Zhang et al., arXiv:1803.08904.

    Args:
        in_channels: number of channels; 0: inferred at the first call.
        num_devices: number of devices; by default the number of GPUs.
        momentum, epsilon, center, scale, use_global_stats, beta_initializer, gamma_initializer,
            running_mean_initializer, running_variance_initializer: as in `nn.BatchNorm`.

    Example:
        >>> layer = mx.gluon.contrib.nn.SyncBatchNorm(num_devices=1)
        >>> layer.initialize()
        >>> with mx.autograd.train_mode():
        ...     layer(mx.nd.array([[1, 2], [3, 6]])).asnumpy().round(2)
        array([[-1., -1.],
               [ 1.,  1.]], dtype=float32)
    """

    def __init__(self, in_channels: int = 0, num_devices: int | None = None, momentum: float = 0.9,
                 epsilon: float = 1e-5, center: bool = True, scale: bool = True, use_global_stats: bool = False,
                 beta_initializer: InitializerLike = "zeros", gamma_initializer: InitializerLike = "ones",
                 running_mean_initializer: InitializerLike = "zeros",
                 running_variance_initializer: InitializerLike = "ones", **kwargs: Any) -> None:
        super().__init__(1, momentum, epsilon, center, scale, use_global_stats, beta_initializer, gamma_initializer,
                         running_mean_initializer, running_variance_initializer, in_channels, **kwargs)
        if num_devices is None:
            warnings.warn("Caution using SyncBatchNorm: if not using all the GPUs, please manually set num_devices",
                          UserWarning, stacklevel=2)
            num_devices = max(context.num_gpus(), 1)
        self._kwargs = {"eps": epsilon, "momentum": momentum, "fix_gamma": not scale,
                        "use_global_stats": use_global_stats, "ndev": num_devices, "key": self._unique}

    def hybrid_forward(self, F: ModuleType, x: Tensor, gamma: Tensor, beta: Tensor, running_mean: Tensor,  # noqa: N803
                       running_var: Tensor) -> Any:
        """Normalizes x."""
        return F.contrib.SyncBatchNorm(x, gamma, beta, running_mean, running_var, name="fwd", **self._kwargs)


class _PixelShuffle(HybridBlock):
    """(batch, channels * factors, sizes ...) -> (batch, channels, sizes * factors ...), in any number of axes."""

    _rank = 0

    def __init__(self, factor: int | Sequence[int]) -> None:
        super().__init__()
        factors = (factor,) * self._rank if isinstance(factor, numeric_types) else tuple(factor)
        if len(factors) != self._rank:
            raise AssertionError(f"{type(self).__name__} needs {self._rank} factors, got {len(factors)}")
        self._factors = tuple(map(int, factors))

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Any:  # noqa: N803
        """Rearranges x."""
        rank = self._rank
        x = F.reshape(x, (0, -4, -1, math.prod(self._factors)) + (0,) * rank)
        for i, factor in enumerate(self._factors[:-1]):  # (batch, channels, factors ..., sizes ...)
            rest = math.prod(self._factors[i + 1:])
            x = F.reshape(x, (0,) * (2 + i) + (-4, factor, rest) + (0,) * rank)
        pairs = [axis for i in range(rank) for axis in (2 + rank + i, 2 + i)]
        return F.reshape(F.transpose(x, (0, 1, *pairs)), (0, 0) + (-3,) * rank)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._factors})"


class PixelShuffle1D(_PixelShuffle):
    """Rearranges (batch, channels * factor, width) to (batch, channels, width * factor).

    Args:
        factor: upscaling factor.

    Example:
        >>> PixelShuffle1D(2)(mx.nd.zeros((1, 8, 3))).shape
        (1, 4, 6)
    """

    _rank = 1

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._factors[0]})"


class PixelShuffle2D(_PixelShuffle):
    """Rearranges (batch, channels * f1 * f2, height, width) to (batch, channels, height * f1, width
    * f2). Shi et al., 2016, arXiv:1609.05158.

    Args:
        factor: (f1, f2), or a number for both.

    Example:
        >>> mx.gluon.contrib.nn.PixelShuffle2D((1, 2))(mx.nd.arange(4).reshape((1, 2, 2, 1))).asnumpy()
        array([[[[0., 2.],
                 [1., 3.]]]], dtype=float32)
    """

    _rank = 2


class PixelShuffle3D(_PixelShuffle):
    """Like `PixelShuffle2D`, over three axes.

    Args:
        factor: (f1, f2, f3), or a number for all.

    Example:
        >>> mx.gluon.contrib.nn.PixelShuffle3D(2)(mx.nd.zeros((1, 8, 3, 3, 3))).shape
        (1, 1, 6, 6, 6)
    """

    _rank = 3
