"""`mx.nd.image`: Image operators."""

from typing import TYPE_CHECKING

from .._namespace import attach as _attach
from ..array import functions

if TYPE_CHECKING:
    from ._stubs.image import *  # noqa: F403

_attach(globals(), functions.make, "image")
