"""`mx.nd.op`: All operators with a public name."""

from typing import TYPE_CHECKING

from .._namespace import attach
from ..array import functions
from ..executor._cached_op import CachedOp as CachedOp

if TYPE_CHECKING:
    from ._stubs.op import *  # noqa: F403

attach(globals(), functions.make, "op")
