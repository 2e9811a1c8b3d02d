"""Adapter from Gluon DataLoaders to data iterators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .. import ndarray as nd
from ..io import DataDesc, DataIter

if TYPE_CHECKING:
    from ..gluon.data.dataloader import DataLoader

__all__ = ["DataLoaderIter"]


class DataLoaderIter(DataIter):
    """Iterates over the batches of a `gluon.data.DataLoader`, for Module; a short last batch is padded with zeros.

    Args:
        loader: DataLoader that yields (data, label).
        data_name, label_name: names of data and label.
        dtype: dtype of both.
    """

    def __init__(self, loader: DataLoader, data_name: str = "data", label_name: str = "softmax_label",
                 dtype: str = "float32") -> None:
        super().__init__()
        self._loader, self.dtype = loader, dtype
        self.reset()
        data, label = next(self._iter)
        self.batch_size = data.shape[0]
        self.provide_data = [DataDesc(data_name, data.shape, dtype)]
        self.provide_label = [DataDesc(label_name, label.shape, dtype)]
        self.reset()

    def reset(self) -> None:
        """Restarts from the beginning."""
        self._iter = iter(self._loader)
        self._current_batch: Any = None

    def iter_next(self) -> bool:
        """Moves to the next batch; returns whether there is one."""
        self._current_batch = next(self._iter, None)
        return self._current_batch is not None

    def _filled(self, part: int) -> list[nd.NDArray]:
        array = self._current_batch[part]
        if not self.getpad():
            return [array.astype(self.dtype)]
        full = np.zeros((self.batch_size, *array.shape[1:]), self.dtype)
        full[:len(array)] = array.asnumpy()
        return [nd.array(full, dtype=self.dtype)]

    def getdata(self) -> list[nd.NDArray]:
        """Returns the data of the current batch."""
        return self._filled(0)

    def getlabel(self) -> list[nd.NDArray]:
        """Returns the labels of the current batch."""
        return self._filled(1)

    def getpad(self) -> int:
        """Returns the number of padding samples at the end of the current batch."""
        return self.batch_size - self._current_batch[0].shape[0]

    def getindex(self) -> None:
        """Returns None, because the samples have no indices."""
        return None
