"""`mx.nd.image`: Image operators."""

from typing import TYPE_CHECKING

from .._namespace import attach
from ..array import functions

if TYPE_CHECKING:
    from ._stubs.image import *  # noqa: F403

attach(globals(), functions.make, "image")
