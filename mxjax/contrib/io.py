"""A Gluon DataLoader as a data iterator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .. import ndarray as nd
from ..io import DataDesc, DataIter

if TYPE_CHECKING:
    from ..gluon.data.dataloader import DataLoader

__all__ = ["DataLoaderIter"]


class DataLoaderIter(DataIter):
    """Gives the batches of a `gluon.data.DataLoader`, for Module; a short last batch is filled up with zeros.

    Args:
        loader: gives (data, label).
        data_name, label_name: names of data and label.
        dtype: of both.
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
        """Start from the beginning."""
        self._iter = iter(self._loader)
        self._current_batch: Any = None

    def iter_next(self) -> bool:
        """Go to the next batch; whether there is one."""
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
        """Data of the current batch."""
        return self._filled(0)

    def getlabel(self) -> list[nd.NDArray]:
        """Labels of the current batch."""
        return self._filled(1)

    def getpad(self) -> int:
        """Number of samples at the current batch's end that only fill it."""
        return self.batch_size - self._current_batch[0].shape[0]

    def getindex(self) -> None:
        """Nothing: the batches' samples have no numbers."""
        return None
