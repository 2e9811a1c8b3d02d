"""Words and their numbers."""

from ..._text import UNKNOWN_IDX as UNKNOWN_IDX
from ..._text import Vocabulary

__all__ = ["Vocabulary"]
