"""Fused optimizer updates: each returns the new weight and the new values of its states."""

from __future__ import annotations

from ._common import Array
from .infer import elementwise
from .params import Scalar
from .registry import register

