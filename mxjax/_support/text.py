"""Counting of words, and vocabularies."""

from __future__ import annotations

import collections
import numbers
import re
from collections.abc import Hashable
from typing import Any

from ..util import set_module

__all__ = ["UNKNOWN_IDX", "Vocabulary", "count_tokens_from_str"]

UNKNOWN_IDX = 0


@set_module("mxjax.contrib.text.utils")
def count_tokens_from_str(source_str: str, token_delim: str = " ", seq_delim: str = "\n", to_lower: bool = False,
                          counter_to_update: collections.Counter | None = None) -> collections.Counter:
    """Counts the tokens in a text.

    Args:
        source_str: the text.
        token_delim, seq_delim: regular expressions that separate tokens, and sequences of them.
        to_lower: convert to lower case first.
        counter_to_update: a counter to update and return.

    Example:
        >>> sorted(count_tokens_from_str("Life is\\n life", to_lower=True).items())
        [('is', 1), ('life', 2)]
    """
    tokens = [token for token in re.split(f"{token_delim}|{seq_delim}", source_str) if token]
    counter = collections.Counter() if counter_to_update is None else counter_to_update
    counter.update([token.lower() for token in tokens] if to_lower else tokens)
    return counter


@set_module("mxjax.contrib.text.vocab")  # where pickles and users find it
class Vocabulary:
    """Assigns indices to tokens: 0 to the unknown token, then to reserved tokens, then to counted
    tokens by descending frequency.

    Args:
        counter: frequencies of the tokens.
        most_freq_count: maximum number of counted tokens, without reserved ones.
        min_freq: minimum frequency of a token.
        unknown_token: represents all tokens that are not in the vocabulary.
        reserved_tokens: tokens that are always in the vocabulary.

    Raises:
        AssertionError: `min_freq` is not positive, reserved tokens contain duplicates or the
            unknown token, or `counter` is not a Counter.

    Example:
        >>> import collections
        >>> words = Vocabulary(collections.Counter("abcab"), reserved_tokens=["<pad>"])
        >>> words.to_indices(["a", "?"])
        [2, 0]
    """

    def __init__(self, counter: collections.Counter | None = None, most_freq_count: int | None = None,
                 min_freq: int = 1, unknown_token: Hashable = "<unk>",
                 reserved_tokens: list[Hashable] | None = None) -> None:
        if min_freq <= 0:
            raise AssertionError(f"`min_freq` must be set to a positive value, got {min_freq}.")
        if counter is not None and not isinstance(counter, collections.Counter):
            raise AssertionError(f"`counter` must be an instance of collections.Counter, got {type(counter).__name__}.")
        fixed = [unknown_token, *(reserved_tokens or ())]
        if unknown_token in fixed[1:]:
            raise AssertionError("`reserved_token` cannot contain `unknown_token`.")
        if len(set(fixed)) != len(fixed):
            raise AssertionError("`reserved_tokens` cannot contain duplicate reserved tokens.")
        self._unknown_token = unknown_token
        self._reserved_tokens = None if reserved_tokens is None else list(reserved_tokens)
        self._idx_to_token = fixed
        room = len(counter or ()) if most_freq_count is None else most_freq_count
        by_frequency = sorted((counter or {}).items(), key=lambda item: item[0])
        by_frequency.sort(key=lambda item: -item[1])
        taken = set(fixed)
        counted = [token for token, count in by_frequency if count >= min_freq and token not in taken]
        self._idx_to_token = fixed + counted[:max(room, 0)]
        self._token_to_idx = {token: i for i, token in enumerate(self._idx_to_token)}

    def __len__(self) -> int:
        return len(self._idx_to_token)

    @property
    def token_to_idx(self) -> dict[Hashable, int]:
        """Indices by token."""
        return self._token_to_idx

    @property
    def idx_to_token(self) -> list[Hashable]:
        """Tokens by index."""
        return self._idx_to_token

    @property
    def unknown_token(self) -> Hashable:
        """The token that represents unknown tokens."""
        return self._unknown_token

    @property
    def reserved_tokens(self) -> list[Hashable] | None:
        """The reserved tokens."""
        return self._reserved_tokens

    def to_indices(self, tokens: object) -> Any:
        """Converts a token, or a list of tokens, to indices."""
        if isinstance(tokens, list):
            return [self._token_to_idx.get(token, UNKNOWN_IDX) for token in tokens]
        return self._token_to_idx.get(tokens, UNKNOWN_IDX)

    def to_tokens(self, indices: Any) -> Any:
        """Converts an index, or a list of indices, to tokens.

        Raises:
            ValueError: an index is out of range, or no integer.
            TypeError: an index is no number.
        """
        many = indices if isinstance(indices, list) else [indices]
        for index in many:
            if not isinstance(index, int) or index >= len(self):
                error = ValueError if isinstance(index, numbers.Number) else TypeError
                raise error(f"Token index {index} in the provided `indices` is invalid.")
        tokens = [self._idx_to_token[index] for index in many]
        return tokens if isinstance(indices, list) else tokens[0]
