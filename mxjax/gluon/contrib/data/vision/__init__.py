"""Transforms of images with boxes."""

from . import transforms
from .transforms.bbox.bbox import *
from .transforms.bbox.bbox import __all__ as _names

__all__ = ["transforms", *_names]
