"""All data iterators under the path that MXNet keeps them at."""

from .base import DataBatch, DataDesc, DataIter, ResizeIter
from .files import CSVIter, MNISTIter, MXDataIter
from .ndarray_iter import NDArrayIter
from .prefetch import PrefetchingIter

__all__ = ["CSVIter", "DataBatch", "DataDesc", "DataIter", "MNISTIter", "MXDataIter", "NDArrayIter",
           "PrefetchingIter", "ResizeIter"]
