"""Vocabularies: mappings between words and indices."""

from ..._support.text import UNKNOWN_IDX as UNKNOWN_IDX
from ..._support.text import Vocabulary

__all__ = ["Vocabulary"]
