"""`import_model` and `get_model_metadata`."""

from ....onnx import get_model_metadata, import_model

__all__ = ["get_model_metadata", "import_model"]
