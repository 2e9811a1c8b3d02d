"""`mx.nd.np`: the operators of mx.np with the arguments of their registration, and the functions of mx.np."""

from ..._namespace import attach as _attach
from ...array import functions as _front
from ...numpy import linalg, random
from ...numpy._dispatch import IMPERATIVE as _IMPERATIVE
from ...numpy._namespace import functions as _functions
from ...numpy._of_2 import speak as _speak
from ...ops import registry as _registry
from . import _internal

_speak(globals(), {k: v for k, v in _functions(_IMPERATIVE).items() if _registry.find(f"_np_{k}") is None})
_attach(globals(), _IMPERATIVE.maker(_front.make), "numpy")
