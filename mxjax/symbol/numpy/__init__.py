"""`mx.sym.np`: the operators of mx.np with the arguments of their registration, and the functions of mx.np."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from ..._namespace import attach as _attach
from ...numpy import fallback as _fallback
from ...numpy._dispatch import SYMBOLIC as _SYMBOLIC
from ...numpy._namespace import functions as _functions
from ...numpy._of_2 import speak as _speak
from ...ops import registry as _registry
from .. import _functions as _front
from . import _internal, linalg, random
from ._symbol import _Symbol

_ARRAYS_ONLY = ("nonzero", "shape")
_all = {k: v for k, v in _functions(_SYMBOLIC).items() if k not in _ARRAYS_ONLY}
_operators = [k for k in _all if _registry.find(f"_np_{k}", load=False) is not None]  # in their place at level 2
_speak(globals(), {k: v for k, v in _all.items() if k not in _operators},
       {**{k: _all[k] for k in _operators}, **{k: getattr(_fallback, k) for k in ("interp", "rollaxis")}},
       kind="symbols")
_attach(globals(), _SYMBOLIC.maker(_front.make), "numpy")
if _TYPE_CHECKING:
    from ...numpy._stubs.multiarray import *
