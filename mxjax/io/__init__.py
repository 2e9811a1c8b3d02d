"""Data iterators (`mx.io`)."""

from . import io, utils
from .io import *
from .io import __all__
