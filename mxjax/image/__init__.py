"""`mx.image` (`mx.img`): reading, transforming and iterating over images."""

from . import detection, image
from . import detection as det
from .detection import *
from .image import *

__all__ = image.__all__ + detection.__all__
