"""`import_to_gluon`."""

from ....onnx import import_to_gluon

__all__ = ["import_to_gluon"]
