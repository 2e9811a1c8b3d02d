"""`mx.nd.linalg`: Linear algebra operators."""

from typing import TYPE_CHECKING

from .._namespace import attach as _attach
from ..array import functions

if TYPE_CHECKING:
    from ._stubs.linalg import *  # noqa: F403

_attach(globals(), functions.make, "linalg")
