"""Data sets of images."""

from __future__ import annotations

import gzip
import os
import warnings
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from .... import image, recordio
from .... import ndarray as nd
from .... import numpy as mx_np
from ...._support.download import _get_repo_file_url, check_sha1, download
from ...._support.files import read_packed, reading, unpack
from ....base import MXNetError, data_dir
from ....util import is_np_array
from ..dataset import Dataset, RecordFileDataset, _DownloadedDataset

__all__ = ["CIFAR10", "CIFAR100", "FashionMNIST", "ImageFolderDataset", "ImageListDataset", "ImageRecordDataset",
           "MNIST"]

_File = tuple[str, str]  # name and SHA-1


def _array(values: np.ndarray) -> Any:
    """An NDArray, or mx.np.ndarray where those are in use."""
    if is_np_array():
        return mx_np.array(values, dtype=values.dtype)
    return nd.array(values, dtype=values.dtype)


class MNIST(_DownloadedDataset):
    """Handwritten digits, http://yann.lecun.com/exdb/mnist: (image (28, 28, 1) uint8, label int32).

    Args:
        root: directory of the (compressed) files; missing files are downloaded.
        train: the 60000 training samples, or the 10000 test samples.
        transform: function(image, label) applied to each sample.

    Raises:
        MXNetError: a file is corrupt.
    """

    _namespace = "mnist"
    _files: ClassVar[dict[bool, tuple[_File, _File]]] = {  # images, labels
        True: (("train-images-idx3-ubyte.gz", "6c95f4b05d2bf285e1bfb0e7960c31bd3b3f8a7d"),
               ("train-labels-idx1-ubyte.gz", "2a80914081dc54586dbdf242f9805a6b8d2a15fc")),
        False: (("t10k-images-idx3-ubyte.gz", "c3a25af1f52dad7f726cce8cacb138654b760d48"),
                ("t10k-labels-idx1-ubyte.gz", "763e7fa3757d93b0cdec073cef058b2004252c17"))}

    def __init__(self, root: str = os.path.join(data_dir(), "datasets", "mnist"), train: bool = True,
                 transform: Callable | None = None) -> None:
        self._train = train
        super().__init__(root, transform)

    def _read(self, file: _File, header: int) -> np.ndarray:
        """A file's bytes behind its header."""
        name, sha1 = file
        path = download(_get_repo_file_url(f"gluon/dataset/{self._namespace}", name), self._root, sha1_hash=sha1)
        with reading(path, "packed images or labels"), gzip.open(path) as stream:
            return np.frombuffer(read_packed(stream, os.path.getsize(path), path), np.uint8)[header:]

    def _get_data(self) -> None:
        images, labels = self._files[self._train]
        label = self._read(labels, 8).astype(np.int32)
        pixels = self._read(images, 16)
        if len(pixels) != 784 * len(label):
            raise MXNetError(f"{self._root}: expected {len(label)} images of 28 x 28 pixels, got {len(pixels)} pixels")
        self._data = _array(pixels.reshape(-1, 28, 28, 1))
        self._label = _array(label) if is_np_array() else label


class FashionMNIST(MNIST):
    """Images of clothes in the format of MNIST, https://github.com/zalandoresearch/fashion-mnist;
    same arguments as `MNIST`."""

    _namespace = "fashion-mnist"
    _files: ClassVar[dict[bool, tuple[_File, _File]]] = {
        True: (("train-images-idx3-ubyte.gz", "0cf37b0d40ed5169c6b3aba31069a9770ac9043d"),
               ("train-labels-idx1-ubyte.gz", "236021d52f1e40852b06a4c3008d8de8aef1e40b")),
        False: (("t10k-images-idx3-ubyte.gz", "626ed6a7c06dd17c0eec72fa3be1740f146a2863"),
                ("t10k-labels-idx1-ubyte.gz", "17f9ab60e7257a1620f4ad76bbbaf857c3920701"))}

    def __init__(self, root: str = os.path.join(data_dir(), "datasets", "fashion-mnist"), train: bool = True,
                 transform: Callable | None = None) -> None:
        super().__init__(root, train, transform)


class CIFAR10(_DownloadedDataset):
    """Small photographs of 10 classes: (image (32, 32, 3) uint8, label int32).

    https://www.cs.toronto.edu/~kriz/cifar.html

    Args:
        root: directory of the binary files or their archive; missing files are downloaded.
        train: the 50000 training samples, or the 10000 test samples.
        transform: function(image, label) applied to each sample.

    Raises:
        MXNetError: a file is corrupt.
    """

    _namespace = "cifar10"
    _archive: ClassVar[_File] = ("cifar-10-binary.tar.gz", "fab780a1e191a7eda0f345501ccd62d20f7ed891")
    _files: ClassVar[dict[bool, tuple[_File, ...]]] = {
        True: (("data_batch_1.bin", "aadd24acce27caa71bf4b10992e9e7b2d74c2540"),
               ("data_batch_2.bin", "c0ba65cce70568cd57b4e03e9ac8d2a5367c1795"),
               ("data_batch_3.bin", "1dd00a74ab1d17a6e7d73e185b69dbf31242f295"),
               ("data_batch_4.bin", "aab85764eb3584312d3c7f65fd2fd016e36a258e"),
               ("data_batch_5.bin", "26e2849e66a845b7f1e4614ae70f4889ae604628")),
        False: (("test_batch.bin", "67eb016db431130d61cd03c7ad570b013799c88c"),)}
    _labels, _label_byte = 1, 0  # bytes of labels before an image, and which of them counts

    def __init__(self, root: str = os.path.join(data_dir(), "datasets", "cifar10"), train: bool = True,
                 transform: Callable | None = None) -> None:
        self._train = train
        super().__init__(root, transform)

    def _read_batch(self, filename: str) -> tuple[np.ndarray, np.ndarray]:
        size = 3072 + self._labels
        with reading(filename, "images"):
            rows = np.fromfile(filename, np.uint8)
        if len(rows) % size:
            raise MXNetError(f"{filename} is corrupt: its {len(rows)} bytes are not a multiple of {size}, the size "
                             f"of an image")
        rows = rows.reshape(-1, size)
        images = rows[:, self._labels:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        return images, rows[:, self._label_byte].astype(np.int32)

    def _get_data(self) -> None:
        def there(name: str, sha1: str) -> bool:
            path = os.path.join(self._root, name)
            return os.path.exists(path) and check_sha1(path, sha1)
        if not all(there(*file) for files in self._files.values() for file in files):
            name, sha1 = self._archive
            path = download(_get_repo_file_url(f"gluon/dataset/{self._namespace}", name), self._root, sha1_hash=sha1)
            unpack(path, self._root)
        batches = [self._read_batch(os.path.join(self._root, name)) for name, _ in self._files[self._train]]
        images, labels = (np.concatenate(parts) for parts in zip(*batches, strict=True))
        self._data = _array(images)
        self._label = _array(labels) if is_np_array() else labels


class CIFAR100(CIFAR10):
    """Like `CIFAR10`, with 100 classes in 20 superclasses.

    Args:
        root, train, transform: as in `CIFAR10`.
        fine_label: labels are the classes, not the superclasses.
    """

    _namespace = "cifar100"
    _archive: ClassVar[_File] = ("cifar-100-binary.tar.gz", "a0bb982c76b83111308126cc779a992fa506b90b")
    _files: ClassVar[dict[bool, tuple[_File, ...]]] = {
        True: (("train.bin", "e207cd2e05b73b1393c74c7f5e7bea451d63e08e"),),
        False: (("test.bin", "8fb6623e830365ff53cf14adec797474f5478006"),)}
    _labels = 2

    def __init__(self, root: str = os.path.join(data_dir(), "datasets", "cifar100"), fine_label: bool = False,
                 train: bool = True, transform: Callable | None = None) -> None:
        self._label_byte = int(fine_label)
        super().__init__(root, train, transform)


class ImageRecordDataset(RecordFileDataset):
    """The images of a record file: (image (height, width, channels) uint8, label).

    Args:
        filename: path of the ".rec" file; its ".idx" index must be in the same directory.
        flag: 1 for colour (RGB), 0 for grey.
        transform: function(image, label) applied to each sample.
    """

    def __init__(self, filename: str, flag: int = 1, transform: Callable | None = None) -> None:
        super().__init__(filename)
        self._flag, self._transform = flag, transform

    def __getitem__(self, idx: int) -> Any:
        header, data = recordio.unpack(super().__getitem__(idx))
        try:
            sample = image.imdecode(data, self._flag), header.label
        except MXNetError as error:
            raise MXNetError(f"{self.filename}, record {idx}: {error}") from error
        return sample if self._transform is None else self._transform(*sample)


class ImageFolderDataset(Dataset):
    """The images in the subdirectories of a directory: (image (height, width, channels) uint8,
    index of the subdirectory).

    Args:
        root: the directory.
        flag: 1 for colour (RGB), 0 for grey.
        transform: function(image, label) applied to each sample.

    Attributes:
        synsets: names of the subdirectories, in order.
        items: (path, label) of all images.
    """

    _exts = (".jpg", ".jpeg", ".png")

    def __init__(self, root: str, flag: int = 1, transform: Callable | None = None) -> None:
        self._root, self._flag, self._transform = os.path.expanduser(root), flag, transform
        self.synsets: list[str] = []
        self.items: list[tuple[str, int]] = []
        for folder in sorted(os.listdir(self._root)):
            path = os.path.join(self._root, folder)
            if not os.path.isdir(path):
                warnings.warn(f"Ignoring {path}, which is not a directory.", stacklevel=2)
                continue
            self._add(path)

    def _add(self, folder: str) -> None:
        for name in sorted(os.listdir(folder)):
            path = os.path.join(folder, name)
            ending = os.path.splitext(name)[1]
            if ending.lower() in self._exts:
                self.items.append((path, len(self.synsets)))
            else:
                warnings.warn(f"Ignoring {path} of type {ending}. Only support {', '.join(self._exts)}", stacklevel=3)
        self.synsets.append(os.path.basename(folder))

    def __getitem__(self, idx: int) -> Any:
        path, label = self.items[idx]
        sample = image.imread(path, self._flag), label
        return sample if self._transform is None else self._transform(*sample)

    def __len__(self) -> int:
        return len(self.items)


class ImageListDataset(Dataset):
    """Images from a list: (image (height, width, channels) uint8, label float32).

    Args:
        root: directory to which the paths are relative.
        imglist: a file whose lines contain index, label values and path, separated by tabs; or a
            list of [label values ..., path] or [array, path].
        flag: 1 for colour (RGB), 0 for grey.

    Raises:
        ValueError: `imglist` is neither, or an entry has no label or no path.
    """

    def __init__(self, root: str = ".", imglist: Any = None, flag: int = 1) -> None:
        self._root, self._flag = os.path.expanduser(root), flag
        if isinstance(imglist, str):
            with open(os.path.join(self._root, imglist)) as file:
                rows = [line.strip().split("\t")[1:] for line in file if line.strip()]
        elif isinstance(imglist, list):
            rows = imglist
        else:
            raise ValueError(f"imglist must be the name of a file or a list, got {type(imglist).__name__}")
        self._items = [self._item(i, row) for i, row in enumerate(rows)]

    def _item(self, index: int, row: Sequence[Any]) -> tuple[str, np.ndarray]:
        if len(row) < 2 or not isinstance(row[-1], str):
            raise ValueError(f"imglist: entry {index} must be a label followed by a path, got {row!r}")
        label = row[0] if len(row) == 2 and np.ndim(row[0]) else row[:-1]
        return os.path.join(self._root, row[-1]), np.asarray(label, np.float32)

    def __getitem__(self, idx: int) -> tuple[Any, Any]:
        path, label = self._items[idx]
        return image.imread(path, self._flag), _array(label)

    def __len__(self) -> int:
        return len(self._items)
