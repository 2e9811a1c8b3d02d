"""`mx.nd.linalg`: Linear algebra operators."""

from typing import TYPE_CHECKING

from .._namespace import attach
from . import _front

if TYPE_CHECKING:
    from ._stubs.linalg import *  # noqa: F403

attach(globals(), _front.make, "linalg")
