"""Signatures of the functions of mx.np: they are written with their functions, so there is nothing to replace here."""

from . import numpy as mx_np  # noqa: F401  names that MXNet's module has
from . import numpy_extension as mx_npx  # noqa: F401
