"""`mx.nd.np._internal`: the operators that the functions of mx.np call."""

from ..._namespace import attach
from ...numpy._dispatch import IMPERATIVE
from .. import _front

attach(globals(), IMPERATIVE.maker(_front.make), "numpy._internal")
