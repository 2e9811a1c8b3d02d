"""How operators without a name get one: "fullyconnected0", "fullyconnected1", ..."""

from __future__ import annotations

from .attribute import _Scope

__all__ = ["NameManager", "Prefix", "current"]


class NameManager(_Scope):
    """Gives names that count up per kind of operator; a `with` block makes it this thread's current one.

    Example:
        >>> with NameManager() as names:
        ...     names.get(None, "dot"), names.get(None, "dot"), names.get("mine", "dot")
        ('dot0', 'dot1', 'mine')
    """

    def __init__(self) -> None:
        self._counter: dict[str, int] = {}

    def get(self, name: str | None, hint: str) -> str:
        """Returns the name to use.

        Args:
            name: name from the user; used unchanged unless empty.
            hint: start of the generated name, the operator's kind.
        """
        if name:
            return name
        number = self._counter.get(hint, 0)
        self._counter[hint] = number + 1
        return f"{hint}{number}"


class Prefix(NameManager):
    """A name manager that puts a prefix before every name, given or generated.

    Args:
        prefix: text before each name.

    Example:
        >>> Prefix("net_").get(None, "dot")
        'net_dot0'
    """

    def __init__(self, prefix: str) -> None:
        super().__init__()
        self._prefix = prefix

    def get(self, name: str | None, hint: str) -> str:
        """The name `NameManager.get` gives, after the prefix."""
        return self._prefix + super().get(name, hint)


def current() -> NameManager:
    """Returns this thread's current NameManager; MXNet 2's way to ask."""
    return NameManager.innermost()
