"""Counting words."""

from __future__ import annotations

import collections
import re

__all__ = ["count_tokens_from_str"]


def count_tokens_from_str(source_str: str, token_delim: str = " ", seq_delim: str = "\n", to_lower: bool = False,
                          counter_to_update: collections.Counter | None = None) -> collections.Counter:
    """Counts the tokens in a text.

    Args:
        source_str: the text.
        token_delim, seq_delim: regular expressions that separate tokens, and sequences of them.
        to_lower: convert to lower case first.
        counter_to_update: a counter to add to, which is then the result.

    Example:
        >>> sorted(count_tokens_from_str("Life is\\n life", to_lower=True).items())
        [('is', 1), ('life', 2)]
    """
    tokens = [token for token in re.split(f"{token_delim}|{seq_delim}", source_str) if token]
    counter = collections.Counter() if counter_to_update is None else counter_to_update
    counter.update([token.lower() for token in tokens] if to_lower else tokens)
    return counter
