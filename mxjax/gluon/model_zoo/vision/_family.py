"""What the families of networks share."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from ....base import data_dir
from ...block import HybridBlock
from ..model_store import get_model_file

__all__ = ["Classifier", "ROOT", "trained", "variant"]

ROOT = os.path.join(data_dir(), "models")


class Classifier(HybridBlock):
    """A network made of `features` and `output`: x (batch, 3, height, width) -> (batch, classes)."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        """Scores of the classes."""
        return self.output(self.features(x))


def trained(net: HybridBlock, name: str, pretrained: bool, ctx: Any, root: str) -> HybridBlock:
    """The network, with trained parameters if `pretrained`."""
    if pretrained:
        net.load_parameters(get_model_file(name, root=root), ctx=ctx)
    return net


def variant(name: str, what: str, make: Callable[..., HybridBlock], *args: Any, **fixed: Any) -> Callable:
    """The function `name(**kwargs)` that calls `make(*args, **fixed, **kwargs)`."""
    def function(**kwargs: Any) -> HybridBlock:
        return make(*args, **{**kwargs, **fixed})
    function.__name__ = function.__qualname__ = name
    function.__module__ = make.__module__
    function.__doc__ = f"{what}; arguments as in `{make.__name__}`."
    return function
