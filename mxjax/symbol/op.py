"""`mx.sym.op`: All operators with a public name."""

from typing import TYPE_CHECKING

from .._namespace import attach
from . import _functions

if TYPE_CHECKING:
    from ._stubs.op import *  # noqa: F403

attach(globals(), _functions.make, "op")
