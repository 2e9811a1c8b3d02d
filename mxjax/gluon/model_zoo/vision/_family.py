"""Helpers that the families of networks share."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from .... import level, ndarray
from ....base import data_dir
from ....context import Context
from ....device import with_device
from ...block import HybridBlock
from ...nn import HybridSequential
from ..model_store import get_model_file

if TYPE_CHECKING:
    from ..._types import Tensor

__all__ = ["Classifier", "ROOT", "computes", "named", "scope", "trained", "variant", "with_device"]

_API = level.fix("mxjax.gluon")
Net = TypeVar("Net", bound=HybridBlock)

ROOT = os.path.join(data_dir(), "models")


def named(make: Callable[..., HybridBlock], prefix: str, *args: Any, **kwargs: Any) -> HybridBlock:
    """Creates a block with a prefix, if blocks have one at the process's level."""
    return make(*args, prefix=prefix, **kwargs) if _API == 1 else make(*args, **kwargs)


def scope(block: HybridBlock) -> AbstractContextManager:
    """Returns the block's name scope, if blocks have one at the process's level."""
    return block.name_scope() if _API == 1 else nullcontext()


def computes(cls: type) -> type:
    """Makes a block call its `_compute(F, ...)` in `hybrid_forward` or, in MXNet 2, in `forward`."""
    compute = cls._compute
    if _API == 1:
        cls.hybrid_forward = compute
    else:
        def forward(self: HybridBlock, x: Tensor) -> Any:
            return compute(self, ndarray, x)
        forward.__doc__ = compute.__doc__
        cls.forward = forward
    return cls


@computes
class Classifier(HybridBlock):
    """A network of `features` and `output`: x (batch, 3, height, width) -> (batch, classes)."""

    features: HybridSequential
    output: HybridBlock

    def _compute(self, F: ModuleType, x: Tensor) -> Any:  # noqa: N803
        """Scores of the classes."""
        return self.output(self.features(x))


def trained(net: Net, name: str, pretrained: bool, ctx: Context | Sequence[Context] | None, root: str) -> Net:
    """Returns the network, with pretrained parameters if `pretrained`."""
    if pretrained:
        net.load_parameters(get_model_file(name, root=root), ctx=ctx)
    return net


def variant(name: str, what: str, make: Callable[..., HybridBlock], *args: Any, **fixed: Any) -> Callable:
    """Creates the function `name(**kwargs)` that calls `make(*args, **fixed, **kwargs)`."""
    def function(**kwargs: Any) -> HybridBlock:
        return make(*args, **{**kwargs, **fixed})
    function.__name__ = function.__qualname__ = name
    function.__module__ = make.__module__
    function.__doc__ = f"{what}; arguments as in `{make.__name__}`."
    return function
