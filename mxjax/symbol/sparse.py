"""`mx.sym.sparse`: Operators with sparse storage."""

from typing import TYPE_CHECKING

from .._namespace import attach
from . import _functions

if TYPE_CHECKING:
    from ._stubs.sparse import *  # noqa: F403

attach(globals(), _functions.make, "sparse")
