"""Lists of registered operators and their arguments."""

from __future__ import annotations

from typing import NamedTuple

from ..ops import registry

__all__ = ["OperatorArguments", "get_all_registered_operators", "get_all_registered_operators_grouped",
           "get_operator_arguments"]


class OperatorArguments(NamedTuple):
    """Number, names and types of an operator's arguments, inputs first."""

    narg: int
    names: list[str]
    types: list[str]


def get_all_registered_operators() -> list[str]:
    """Returns the names of all operators, including aliases."""
    return registry.names()


def get_all_registered_operators_grouped() -> dict[str, list[str]]:
    """Returns all names of each operator, including its aliases, by the operator's name.

    Example:
        >>> get_all_registered_operators_grouped()["BlockGrad"][:2]
        ['BlockGrad', '_npx_stop_gradient']
    """
    groups: dict[str, list[str]] = {}
    for name in sorted(get_all_registered_operators()):
        groups.setdefault(registry.get(name).name, []).append(name)
    return groups


def get_operator_arguments(op_name: str) -> OperatorArguments:
    """Returns the arguments of an operator.

    Raises:
        MXNetError: there is no such operator.
    """
    op = registry.get(op_name)
    inputs = op.input_names or ([op.get_attr("variadic_name", "data")] if op.variadic else [])
    names = [*inputs, *op.params]
    type_name = "NDArray-or-Symbol[]" if op.variadic and not op.input_names else "NDArray-or-Symbol"
    return OperatorArguments(len(names), names, [type_name] * len(inputs) + [str(p) for p in op.params.values()])
