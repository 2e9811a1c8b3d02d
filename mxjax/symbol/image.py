"""`mx.sym.image`: Image operators."""

from typing import TYPE_CHECKING

from .._namespace import attach as _attach
from . import _functions

if TYPE_CHECKING:
    from ._stubs.image import *  # noqa: F403

_attach(globals(), _functions.make, "image")
