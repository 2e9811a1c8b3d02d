"""Plans: estimates of memory and time of programs on accelerators that this machine may lack (docs/design/0022)."""

from .estimate import Group, Plan, make_plan
from .program import abstract
from .targets import DEVICES, target

__all__ = ["DEVICES", "Group", "Plan", "abstract", "make_plan", "target"]
