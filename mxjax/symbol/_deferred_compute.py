"""`mx._deferred_compute`: MXNet 2's names for `_recorder.py`."""

from ._recorder import clear, get_symbol, set_variable
from ._recorder import is_recording as is_deferred_compute
from ._recorder import recording as context
from ._recorder import set_recording as set_deferred_compute

__all__ = ["clear", "context", "get_symbol", "is_deferred_compute", "set_deferred_compute", "set_variable"]
