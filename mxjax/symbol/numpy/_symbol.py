"""`mx.sym.np._Symbol`: a symbol with NumPy's semantics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from ...base import integer_types
from ...numpy._create import CREATORS
from ...numpy._dispatch import SYMBOLIC, call
from ...numpy._index import sort
from ...numpy._methods import Methods
from ...numpy._namespace import functions
from ...numpy._of_2 import speak
from ..symbol import Symbol, load, load_json, numpy_symbol

speak(globals(), functions(SYMBOLIC), kind="symbols")
__all__ = ["_Symbol", "load", "load_json", *CREATORS]


class _Symbol(Methods, Symbol):  # pyright: ignore[reportIncompatibleMethodOverride]  NumPy's signatures on purpose
    """A symbol whose operators and methods are those of mx.np; `as_nd_ndarray` returns the classic symbol.

    Indexing selects an output if the symbol has several outputs, and slices like an array if it has only one.
    """

    __slots__ = ()
    __hash__ = Symbol.__hash__  # pyright: ignore[reportAssignmentType]  as its base has it
    numpy_semantics = True

    def __getitem__(self, key: Any) -> _Symbol:
        if len(self._outputs) > 1:
            return cast(_Symbol, Symbol.__getitem__(self, key))
        if isinstance(key, tuple) and not key:
            return self
        begin, end, step, shape = [], [], [], []
        for item in key if isinstance(key, tuple) else (key,):
            if isinstance(item, slice):
                if item.step == 0:
                    raise ValueError("slice step cannot be zero")
                row, code = (item.start, item.stop, item.step), -2
            elif isinstance(item, integer_types) and not isinstance(item, bool):
                row, code = (item, None if item == -1 else item + 1, 1), -3
            else:
                raise IndexError(f"Only integer, slice, or tuple of these types are supported! Received key={key!r}; "
                                 "in hybrid_forward write F.np.take for arrays of indices, F.npx.boolean_mask for "
                                 "masks, F.np.expand_dims for None, or do not hybridize() the block")
            for target, value in zip((begin, end, step), row, strict=True):
                target.append(value)
            shape.append(code)
        cut = call("_npi_slice", [self], begin=begin, end=end, step=step)
        return call("_npi_reshape", [cut], newshape=(*shape, -4)) if -3 in shape else cut

    def __repr__(self) -> str:
        if len(self._outputs) == 1:
            return super().__repr__()
        return f"<{type(self).__name__} group [{', '.join(map(repr, self.singles()))}]>"

    def __len__(self) -> int:
        self._refuse_one("does not support len()")
        return len(self._outputs)

    def __iter__(self) -> Iterator[_Symbol]:
        self._refuse_one("is not iterable")
        return iter(self.singles())

    def _refuse_one(self, why: str) -> None:
        if len(self._outputs) == 1:
            raise TypeError(f"{self!r} of one output {why}; in hybrid_forward write F.np.split, or do not hybridize() "
                            "the block")

    def as_np_ndarray(self) -> _Symbol:
        """The symbol itself."""
        return self

    def as_nd_ndarray(self) -> Symbol:
        """The same outputs as a classic symbol."""
        return Symbol(self._outputs)

    def sort(  # pyright: ignore[reportIncompatibleMethodOverride]  NumPy's signature on purpose
            self, axis: int | None = -1, kind: str | None = None, order: str | None = None) -> _Symbol:
        """`np.sort` of this symbol."""
        return sort(self, axis, kind, order)


numpy_symbol.cls = _Symbol
