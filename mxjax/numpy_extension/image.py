"""`mx.npx.image`: image operators for ndarrays."""

from typing import TYPE_CHECKING

from .._namespace import attach as _attach
from ..array import functions
from ..numpy._dispatch import IMPERATIVE

if TYPE_CHECKING:
    from ._stubs.image import *  # noqa: F403

_attach(globals(), IMPERATIVE.maker(functions.make), "numpy_extension.image")
