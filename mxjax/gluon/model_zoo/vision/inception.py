"""Inception v3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ....context import cpu
from ....device import with_device
from ... import nn
from ..._chosen_block import named, scope_of
from ...contrib.nn import HybridConcurrent
from ._family import ROOT, Classifier, trained

if TYPE_CHECKING:
    from ....context import Context
    from ..._types import Size

__all__ = ["Inception3", "inception_v3"]


def _convolution(channels: int, kernel: Size, strides: Size = 1, padding: Size = 0) -> nn.HybridSequential:
    out = nn.HybridSequential(**named(""))
    out.add(nn.Conv2D(channels, kernel, strides, padding, use_bias=False), nn.BatchNorm(epsilon=0.001),
            nn.Activation("relu"))
    return out


def _branch(*layers: Any) -> nn.HybridSequential:
    """Layers one after the other: blocks, or convolutions by their arguments."""
    out = nn.HybridSequential(**named(""))
    for layer in layers:
        out.add(_convolution(*layer) if isinstance(layer, tuple) else layer)
    return out


def _side_by_side(*branches: nn.HybridSequential) -> HybridConcurrent:
    out = HybridConcurrent(axis=1, **named(""))
    out.add(*branches)
    return out


def _averaged(channels: int) -> nn.HybridSequential:
    return _branch(nn.AvgPool2D(3, 1, 1), (channels, 1))


def _block(kind: str, size: int = 0) -> list[nn.HybridSequential]:
    """The branches of a block; `size`: the channels that differ between blocks of the kind."""
    wide, high = ((1, 7), 1, (0, 3)), ((7, 1), 1, (3, 0))  # convolutions over 7 pixels in one direction
    if kind == "A":
        return [_branch((64, 1)), _branch((48, 1), (64, 5, 1, 2)), _branch((64, 1), (96, 3, 1, 1), (96, 3, 1, 1)),
                _averaged(size)]
    if kind == "B":
        return [_branch((384, 3, 2)), _branch((64, 1), (96, 3, 1, 1), (96, 3, 2)), _branch(nn.MaxPool2D(3, 2))]
    if kind == "C":
        return [_branch((192, 1)), _branch((size, 1), (size, *wide), (192, *high)),
                _branch((size, 1), (size, *high), (size, *wide), (size, *high), (192, *wide)), _averaged(192)]
    if kind == "D":
        return [_branch((192, 1), (320, 3, 2)), _branch((192, 1), (192, *wide), (192, *high), (192, 3, 2)),
                _branch(nn.MaxPool2D(3, 2))]

    def split() -> HybridConcurrent:
        return _side_by_side(_branch((384, (1, 3), 1, (0, 1))), _branch((384, (3, 1), 1, (1, 0))))
    return [_branch((320, 1)), _branch(_branch((384, 1)), split()),
            _branch(_branch((448, 1), (384, 3, 1, 1)), split()), _averaged(192)]


_BLOCKS = [("A1_", "A", 32), ("A2_", "A", 64), ("A3_", "A", 64), ("B_", "B", 0), ("C1_", "C", 128), ("C2_", "C", 160),
           ("C3_", "C", 160), ("C4_", "C", 192), ("D_", "D", 0), ("E1_", "E", 0), ("E2_", "E", 0)]


def make_aux(classes: int) -> nn.HybridSequential:
    """The auxiliary classifier of the paper; not part of `Inception3`."""
    return _branch(nn.AvgPool2D(5, 3), (128, 1), (768, 5), nn.Flatten(), nn.Dense(classes))


class Inception3(Classifier):
    """Inception v3, for images of 299 x 299. Szegedy et al., 2015, arXiv:1512.00567.

    Args:
        classes: number of classes.
    """

    def __init__(self, classes: int = 1000, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self._scope:
            self.features = _branch((32, 3, 2), (32, 3), (64, 3, 1, 1), nn.MaxPool2D(3, 2), (80, 1), (192, 3),
                                    nn.MaxPool2D(3, 2))
            for prefix, kind, size in _BLOCKS:
                block = HybridConcurrent(axis=1, **named(prefix))
                with scope_of(block):
                    block.add(*_block(kind, size))
                self.features.add(block)
            self.features.add(nn.AvgPool2D(8), nn.Dropout(0.5))
            self.output = nn.Dense(classes)


@with_device
def inception_v3(pretrained: bool = False, ctx: Context | Sequence[Context] | None = cpu(), root: str = ROOT,
                 **kwargs: Any) -> Inception3:
    """Inception v3.

    Args:
        pretrained: load parameters trained on ImageNet.
        ctx: context of the parameters.
        root: directory of the parameter files.
        kwargs: arguments of `Inception3`.
    """
    return trained(Inception3(**kwargs), "inceptionv3", pretrained, ctx, root)
