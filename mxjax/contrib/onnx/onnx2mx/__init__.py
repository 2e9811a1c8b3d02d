"""The modules in which MXNet keeps the import of ONNX files."""

from . import import_model, import_onnx, import_to_gluon
