"""Transforms of images with boxes."""

from . import bbox
from .bbox import *

__all__ = ["bbox", *bbox.__all__]
