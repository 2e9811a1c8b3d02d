"""`mx.sym._internal`: Operators whose names begin with an underscore."""

from typing import TYPE_CHECKING

from .._namespace import attach
from . import _front

if TYPE_CHECKING:
    from ._stubs._internal import *  # noqa: F403

attach(globals(), _front.make, "_internal")
