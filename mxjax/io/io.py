"""All data iterators, under their path in MXNet."""

from .base import DataBatch, DataDesc, DataIter, ResizeIter
from .creator import MXDataIter
from .files import CSVIter, MNISTIter
from .image_record import (
    ImageDetRecordIter,
    ImageRecordInt8Iter,
    ImageRecordIter,
    ImageRecordIter_v1,
    ImageRecordUInt8Iter,
    ImageRecordUInt8Iter_v1,
)
from .libsvm import LibSVMIter
from .ndarray_iter import NDArrayIter
from .prefetch import PrefetchingIter
from .utils import (  # noqa: F401 (programs' iterators call them)
    _getdata_by_idx,
    _has_instance,
    _init_data,
    _slice_along_batch_axis,
)

__all__ = ["CSVIter", "DataBatch", "DataDesc", "DataIter", "ImageDetRecordIter", "ImageRecordInt8Iter",
           "ImageRecordIter", "ImageRecordIter_v1", "ImageRecordUInt8Iter", "ImageRecordUInt8Iter_v1", "LibSVMIter",
           "MNISTIter", "MXDataIter", "NDArrayIter", "PrefetchingIter", "ResizeIter"]
