"""`mx.npx.image`: image operators for ndarrays, and the names of `mx.image`."""

from typing import TYPE_CHECKING

from .._namespace import attach as _attach
from .._support import providers as _providers
from ..array import functions
from ..numpy._dispatch import IMPERATIVE

if TYPE_CHECKING:
    from ._stubs.image import *  # noqa: F403

_attach(globals(), IMPERATIVE.maker(functions.make), "numpy_extension.image")
_operator, _operators = globals()["__getattr__"], globals()["__dir__"]


def _lent():
    """Returns the module `mx.image` and those of its names that this one has too."""
    images = _providers.of_images[-1]()
    return images, {*images.__all__, "det", "detection", "image"}


def __getattr__(name):
    if name == "__all__":
        return sorted({*_operator(name), *_lent()[1]})
    try:
        return _operator(name)
    except AttributeError:
        if name.startswith("_"):
            raise
        images, names = _lent()
        if name not in names:
            raise
    return globals().setdefault(name, getattr(images, name))


def __dir__():
    return sorted({*_operators(), *_lent()[1]})
