"""Transforms of images with boxes; at level 2 also loaders of images."""

from ..... import level
from . import transforms
from .transforms.bbox.bbox import *
from .transforms.bbox.bbox import __all__ as _names

__all__ = ["transforms", *_names]

if level.fix("mxjax.gluon") == 2:
    from . import dataloader
    from .dataloader import *  # noqa: F403

    __all__ += ["dataloader", *dataloader.__all__]
