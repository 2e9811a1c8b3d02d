"""The import of ONNX files, under MXNet's module names."""

from . import import_model, import_onnx, import_to_gluon
