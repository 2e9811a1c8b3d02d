"""Transforms of images with boxes, and the arithmetic of boxes."""

from . import bbox as _transforms
from . import utils
from .bbox import *
from .utils import *

__all__ = ["utils", *_transforms.__all__, *utils.__all__]
