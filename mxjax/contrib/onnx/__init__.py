"""`mx.contrib.onnx`: MXNet's module for the import of ONNX files, and originally the export (now `mx.onnx`)."""

from ...onnx import export_model, get_model_metadata, import_model, import_to_gluon
from . import onnx2mx

# MXNet's wrappers have the plain names, the functions that they call have these
export_model_, get_model_metadata_ = export_model, get_model_metadata
import_model_, import_to_gluon_ = import_model, import_to_gluon
