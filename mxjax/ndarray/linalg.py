"""`mx.nd.linalg`: Linear algebra operators."""

from typing import TYPE_CHECKING

from .._namespace import attach
from ..array import functions

if TYPE_CHECKING:
    from ._stubs.linalg import *  # noqa: F403

attach(globals(), functions.make, "linalg")
