"""Data iterators (`mx.io`)."""

from . import io, utils
from .io import *
from .io import __all__
from .utils import _getdata_by_idx, _has_instance, _init_data  # noqa: F401 (programs' iterators call them)
