"""`mx.sym.linalg`: Linear algebra operators."""

from typing import TYPE_CHECKING

from .._namespace import attach as _attach
from . import _functions

if TYPE_CHECKING:
    from ._stubs.linalg import *  # noqa: F403

_attach(globals(), _functions.make, "linalg")
