"""`mx.nd.np`: the operators of mx.np with the arguments of their registration, and the functions of mx.np."""

from ..._namespace import attach as _attach
from ...array import functions as _front
from ...numpy import fallback as _fallback
from ...numpy import random
from ...numpy._dispatch import IMPERATIVE as _IMPERATIVE
from ...numpy._namespace import functions as _functions
from ...numpy._of_2 import speak as _speak
from ...ops import registry as _registry
from . import _internal, linalg

_operators = [k for k in _functions(_IMPERATIVE) if _registry.find(f"_np_{k}") is not None]  # in their place at level 2
_speak(globals(), {k: v for k, v in _functions(_IMPERATIVE).items() if k not in _operators},
       {**{k: _functions(_IMPERATIVE)[k] for k in _operators},
        **{k: getattr(_fallback, k) for k in ("interp", "positive", "rollaxis", "triu_indices_from")}}, kind="classic")
_attach(globals(), _IMPERATIVE.maker(_front.make), "numpy")
