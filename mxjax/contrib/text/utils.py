"""Counting words."""

from ..._support.text import count_tokens_from_str

__all__ = ["count_tokens_from_str"]
