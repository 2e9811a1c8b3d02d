"""Partial shape and type inference for one operator: both ways, unknowns allowed.

A shape is a tuple in which None is an unknown dimension; None is also an unknown shape. A dtype is a name or None.

An operator's rule (attribute FInferShape or FInferType) is `rule(params, ins, outs)`. It refines the two lists in place
with `unify` and need not infer the forward direction: once all inputs are known, the outputs come from abstract
evaluation of the operator's function, and before that from evaluation with symbols for unknown sizes. An operator whose
function needs numbers has a formula (FPartialShape): `formula(params, *shapes of the inputs)` returns the shape of the
outputs, or a list of shapes. In formulas UNKNOWN represents unknown values, without special treatment.

Evaluation takes milliseconds. So rules and formulas may be marked `exact`: if all inputs are known, they infer
everything that evaluation would, and raise the same errors.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard, overload

from ..base import MXNetError

if TYPE_CHECKING:
    from .registry import Op

__all__ = ["UNKNOWN", "NotKnown", "Size", "agree", "broadcasted", "check_types", "computed", "elementwise", "exact",
           "filled", "first", "known", "need_numbers", "op_types", "outputs", "partial_formula", "same_inputs", "tied",
           "exact_outputs", "typed", "unify"]

Shape = tuple[int | None, ...] | None


def known(shape: Shape) -> TypeGuard[tuple[int, ...]]:
    """Returns whether every dimension is known (`None` stands for an unknown shape, `None` items for unknown
    dimensions).
    """
    return shape is not None and None not in shape


@overload
def unify(a: tuple[int | None, ...], b: Shape, what: str = "shape") -> tuple[int | None, ...]: ...
@overload
def unify(a: Shape, b: tuple[int | None, ...], what: str = "shape") -> tuple[int | None, ...]: ...
@overload
def unify(a: Shape, b: Shape, what: str = "shape") -> Shape: ...
def unify(a: Shape, b: Shape, what: str = "shape") -> Shape:
    """Merges the known dimensions of two partial shapes.

    Raises:
        MXNetError: they contradict each other.
    """
    if a is None or b is None:
        return b if a is None else a
    if len(a) != len(b):
        raise MXNetError(f"{what}: {a} and {b} have different numbers of dimensions")
    merged = []
    for x, y in zip(a, b, strict=True):
        if x is not None and y is not None and x != y:
            raise MXNetError(f"{what}: {a} and {b} do not match")
        merged.append(y if x is None else x)
    return tuple(merged)


# ------------------------------------------------------------ formulas
class NotKnown(Exception):
    """A formula needs the value of an unknown or symbolic size."""


class _Unknown:
    """An unknown dimension or shape: results computed from it are unknown as well, and comparisons raise NotKnown."""

    __slots__ = ()

    def _unknown(self, *_: Any) -> _Unknown:
        return self

    def _question(self, *_: Any) -> Any:
        raise NotKnown

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __floordiv__ = __rfloordiv__ = _unknown
    __mod__ = __rmod__ = __neg__ = _unknown
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _question
    __bool__ = __int__ = __index__ = __float__ = __hash__ = __iter__ = __len__ = __getitem__ = _question

    def __repr__(self) -> str:
        return "unknown"


UNKNOWN: Any = _Unknown()


class Size(_Unknown):
    """times · n + more, where n is any number from `least` on. Questions with one answer for all n have it."""

    __slots__ = ("times", "more", "least")

    def __init__(self, times: int = 1, more: int = 0, least: int = 1) -> None:
        self.times, self.more, self.least = times, more, least

    def at(self, n: int) -> int:
        """The size for this n."""
        return self.times * n + self.more

    def _made(self, times: int, more: int) -> Any:
        return Size(times, more, self.least) if times else more

    def __add__(self, other: Any) -> Any:
        if other is UNKNOWN:
            return other
        times, more = _linear(other)
        return self._made(self.times + times, self.more + more)

    __radd__ = __add__

    def __mul__(self, other: Any) -> Any:
        if other is UNKNOWN or type(other) is int:
            return other if other is UNKNOWN else self._made(self.times * other, self.more * other)
        raise NotKnown

    __rmul__ = __mul__

    def __neg__(self) -> Any:
        return self * -1

    def __sub__(self, other: Any) -> Any:
        return self + other * -1

    def __rsub__(self, other: Any) -> Any:
        return self * -1 + other

    def __floordiv__(self, other: Any) -> Any:
        if other is UNKNOWN:
            return other
        times, more = _linear(other)
        if times:  # a multiple of it
            if other and self.times % times == 0 and self.more == self.times // times * more:
                return self.times // times
        elif more and self.times % more == 0:
            return self._made(self.times // more, self.more // more)
        raise NotKnown

    def __mod__(self, other: Any) -> Any:
        if other is UNKNOWN:
            return other
        if type(other) is int and other and self.times % other == 0:
            return self.more % other
        return self - self // other * other

    def __rfloordiv__(self, other: Any) -> Any:
        return self._question()

    __rmod__ = __rfloordiv__

    def _signs(self, other: Any) -> tuple[bool, bool, bool]:
        """Returns whether the difference to a number or size may be negative, zero, positive."""
        apart = self - other
        if not isinstance(apart, Size):
            return apart < 0, apart == 0, apart > 0
        times, more, edge = apart.times, apart.more, apart.at(self.least)
        zero = -more % times == 0 and -more // times >= self.least
        return times < 0 or edge < 0, zero, times > 0 or edge > 0

    def __eq__(self, other: Any) -> bool:
        if other is None or not isinstance(other, (int, Size)):
            return self._question() if other is UNKNOWN else False
        negative, zero, positive = self._signs(other)
        return _one(zero, negative or positive)

    def __ne__(self, other: Any) -> bool:
        return not self == other

    def __lt__(self, other: Any) -> bool:
        negative, zero, positive = self._signs(other)
        return _one(negative, zero or positive)

    def __gt__(self, other: Any) -> bool:
        negative, zero, positive = self._signs(other)
        return _one(positive, zero or negative)

    def __le__(self, other: Any) -> bool:
        return not self > other

    def __ge__(self, other: Any) -> bool:
        return not self < other

    def __bool__(self) -> bool:
        return self != 0

    def __hash__(self) -> int:
        return hash((self.times, self.more, self.least, "size"))

    def __repr__(self) -> str:
        return f"{self.times}n + {self.more}"


def _linear(number: Any) -> tuple[int, int]:
    if isinstance(number, Size):
        return number.times, number.more
    if type(number) is int:
        return 0, number
    raise NotKnown


def _one(yes: bool, no: bool) -> bool:
    """The answer, if there is but one."""
    if yes == no:
        raise NotKnown
    return yes


def need_numbers(shapes: Sequence[Shape]) -> None:
    """Raises NotKnown if a size is a symbol."""
    if any(isinstance(n, Size) for s in shapes if s for n in s):
        raise NotKnown


def outputs(formula: Callable[..., Any], params: dict[str, Any], ins: Sequence[Shape], count: int) -> list[Shape]:
    """Returns the shapes of `count` outputs by a formula (FPartialShape), as far as it determines them.

    Raises:
        MXNetError: a dimension would be negative.
        NotKnown: it does not depend on a symbol alone.
    """
    try:
        result = formula(params, *[UNKNOWN if s is None else tuple([UNKNOWN if n is None else n for n in s])
                                   for s in ins])
    except NotKnown:
        need_numbers(ins)
        return [None] * count
    return [_answer(s) for s in (result if isinstance(result, list) else [result] * count)]


def _answer(shape: Any) -> Shape:
    if shape is None or shape is UNKNOWN:
        return None
    dims = tuple([None if n is UNKNOWN else n for n in shape])
    if any(n is not None and n < 0 for n in dims):
        raise MXNetError(f"the result would have the invalid shape {dims}: the inputs are too small")
    return dims


def computed(function: Callable[..., Any], *sizes: Any) -> Any:
    """A function of sizes in a formula, which is called once all of them are known."""
    return UNKNOWN if any(n is UNKNOWN for n in sizes) else function(*sizes)


def mark(rule: Callable[..., Any], **marks: Any) -> None:
    """Marks a rule or formula as `exact`, `partly`, `complete` or `wants_names`."""
    vars(rule).update(marks)


def exact(formula: Callable[..., Any], fits: Callable[..., bool] | None = None,
          partly: bool = True) -> Callable[..., Any]:
    """Returns the formula (FPartialShape) with the mark that it replaces evaluation where all inputs are known.

    Args:
        formula: the formula.
        fits: function(params, *known shapes) -> whether the operator takes them, so far as neither the formula nor
            the operator's FInferShape refuses the others. Other shapes are evaluated, whose error names the mistake.
        partly: whether it is asked where sizes are unknown, too. There MXNet leaves results of some operators
            unknown; these are evaluated with symbols.
    """
    def marked(params: dict[str, Any], *shapes: Any) -> Any:
        return formula(params, *shapes)
    mark(marked, exact=fits or _always, partly=partly)
    return marked


def partial_formula(op: Op) -> Callable[..., Any] | None:
    """Returns the operator's formula for inputs that are partly unknown, if it has one."""
    formula = op.get_attr("FPartialShape")
    return formula if getattr(formula, "partly", True) else None


def _always(*_: Any) -> bool:
    return True


def _never(*_: Any) -> bool:
    return False


def exact_outputs(op: Op, params: dict[str, Any], ins: Sequence[Shape], outs: Sequence[Shape]) -> list[Shape] | None:
    """Returns the shapes of the outputs for known inputs by exact rules only; None if these do not determine them.

    outs: shapes from the operator's FInferShape, if it has one, for these inputs.
    """
    formula = op.get_attr("FPartialShape")
    if formula is not None:
        fits = getattr(formula, "exact", _never)
        try:
            outs = outputs(formula, params, ins, len(outs)) if fits(params, *ins) else [None]
        except Exception:  # evaluation raises an error that names the mistake
            return None
    elif not getattr(op.get_attr("FInferShape"), "exact", False):
        return None
    if any(s is None or None in s or 0 in s for s in [*ins, *outs]):  # many operators refuse arrays without elements
        return None
    return list(outs)


def first(params: dict[str, Any], shape: Any, *others: Any) -> Any:
    """All outputs have the shape of the first input (FPartialShape)."""
    return shape


def broadcasted(params: dict[str, Any], *shapes: Any) -> tuple:
    """The broadcast shape of arrays (FPartialShape).

    Raises:
        MXNetError: the shapes do not broadcast.
    """
    columns = itertools.zip_longest(*(reversed(s) for s in shapes), fillvalue=1)
    return tuple([_stretched(shapes, column) for column in columns])[::-1]


mark(broadcasted, exact=_always)  # its errors are those of operators that do not fit


def _stretched(shapes: Sequence[Any], column: Sequence[Any]) -> Any:
    sizes = {n for n in column if n is not UNKNOWN and n != 1}
    if len(sizes) > 1:
        raise MXNetError(f"shapes {' and '.join(map(str, shapes))} cannot be broadcast together")
    return sizes.pop() if sizes else UNKNOWN if any(n is UNKNOWN for n in column) else 1


# ------------------------------------------------------------ rules
def elementwise(params: dict[str, Any], ins: list[Shape], outs: list[Shape]) -> None:
    """All inputs and outputs have one shape (FInferShape)."""
    shape: Shape = None
    for other in [*ins, *outs]:
        shape = unify(shape, other)
    ins[:], outs[:] = [shape] * len(ins), [shape] * len(outs)


mark(elementwise, complete=True, exact=True)  # there is nothing else to be known


def same_inputs(params: dict[str, Any], ins: list[Shape], outs: list[Shape]) -> None:
    """All inputs have one shape, the outputs another (FInferShape)."""
    shape: Shape = None
    for other in ins:
        shape = unify(shape, other)
    ins[:] = [shape] * len(ins)


def filled(back: Callable[..., Shape] | None = None, /, **rules: Callable[..., Shape]) -> Callable[..., None]:
    """Returns a rule from formulas: each names an input and computes its shape from (params, shape of the first input).

    Applied once the first input's number of dimensions is known; a formula that asks for a dimension which is not
    is skipped, and so are inputs that are absent. `back(params, first input, first output)` tells what the output says
    of the first input.

        infer_shape=filled(weight=lambda p, x: (p["num_hidden"], x[1]), bias=lambda p, x: (p["num_hidden"],))
    """
    def rule(params: dict[str, Any], ins: list[Shape], outs: list[Shape], names: Sequence[str] = ()) -> None:
        if back is not None and ins[0] is not None and outs[0] is not None:
            ins[0] = unify(ins[0], outputs(back, params, (ins[0], outs[0]), 1)[0], "first input")
        if ins[0] is None:
            return
        for i, name in enumerate(names):
            if name in rules and i < len(ins):
                ins[i] = unify(ins[i], outputs(rules[name], params, ins[:1], 1)[0], f"input {name}")
    mark(rule, wants_names=True)
    return rule


def agree(types: Sequence[str | None], names: Sequence[str] = ()) -> str | None:
    """Returns the dtype of those that are known; `names` are those of the inputs, for the error.

    Raises:
        MXNetError: they differ. MXNet never promotes.
    """
    kinds = [t for t in types if t]
    if len(set(kinds)) > 1:
        exact_outputs = [f"{name} {t}".strip() for name, t in itertools.zip_longest(names, types, fillvalue="") if t]
        raise MXNetError(f"all inputs must have the same dtype, got {', '.join(exact_outputs)}")
    return kinds[0] if kinds else None


def tied(rule: Callable[..., None], *which: int) -> Callable[..., None]:
    """A type rule for which the inputs with the numbers `which`, or all, have one dtype."""
    def checked(params: dict[str, Any], ins: list[str | None], outs: list[str | None]) -> None:
        agree([ins[i] for i in which] if which else ins)
        rule(params, ins, outs)
    return checked


def op_types(op: Op, params: dict[str, Any], ins: list[str | None], outs: list[str | None],
             names: Sequence[str]) -> None:
    """Completes the dtypes of an operator's inputs (with these names) and outputs, in place, as far as they are known.

    The operator's own rule (FInferType) decides. Without one all inputs have one dtype, and the outputs that of the
    parameter `dtype`, or of the inputs.

    Raises:
        MXNetError: dtypes contradict each other.
    """
    rule = op.get_attr("FInferType")
    if rule is not None:
        if getattr(rule, "wants_names", False):
            rule(params, ins, outs, names)
        else:
            rule(params, ins, outs)
        return
    param = op.params.get("dtype")
    fixed = params["dtype"] if param is not None and param.kind == "dtype" else None
    common = agree(ins, names)
    if common is None and fixed is None:
        common = next((t for t in outs if t), None)
    if common is not None:
        ins[:] = [t or common for t in ins]
    if fixed is not None:
        outs[:] = [t or fixed for t in outs]


def check_types(op: Op, params: dict[str, Any], ins: Sequence[str | None], names: Sequence[str]) -> None:
    """Raises MXNetError, which names the operator, if it does not accept this combination of dtypes."""
    try:
        op_types(op, params, list(ins), [None] * op.num_outputs(params), names)
    except MXNetError as error:
        text = str(error)
        raise MXNetError(text if text.startswith("operator ") else f"operator {op.name}: {text}") from None


def typed(result: str | None = None, /, **dtypes: str) -> Callable[..., None]:
    """A type rule: the named inputs have these dtypes where nothing else is known; the others agree with the first
    of them, and so do the outputs unless they have a dtype of their own.

        infer_type=typed(label="float32", indices="int32")
    """
    def rule(params: dict[str, Any], ins: list[str | None], outs: list[str | None], names: Sequence[str] = ()) -> None:
        alike = [(t, n) for t, n in zip(ins, names, strict=False) if n not in dtypes]
        common = agree([t for t, _ in alike], [n for _, n in alike]) or \
            next((t for t in outs if t), None)
        for i, name in enumerate(names):
            if ins[i] is None:
                ins[i] = dtypes.get(name) or common
        outs[:] = [t or result for t in outs]
    mark(rule, wants_names=True)
    return rule
