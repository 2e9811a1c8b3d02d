"""Data sets and models as files."""

from __future__ import annotations

import gzip
import logging
import os
import shutil
import struct

import numpy as np

from .._support import download as _download
from .._support.files import read_packed, reading, replacing, unpack
from ..io import MNISTIter


def download(url: str, fname: str | None = None, dirname: str | None = None, overwrite: bool = False,
             retries: int = 5) -> str:
    """Downloads a file (also file:// URLs) unless it exists; logs which of both, and returns its path.

    Args:
        url: URL of the file.
        fname: local name; by default the last part of the URL.
        dirname: directory; by default the current one.
        overwrite: download even if the file exists.
        retries: number of attempts.

    Raises:
        OSError: all attempts failed.
    """
    path = os.path.join(dirname or "", fname or url.split("/")[-1])
    if not overwrite and os.path.exists(path):
        logging.info("%s exists, skipping download", path)
        return path
    path = _download.download(url, path, overwrite, retries=max(retries - 1, 0))
    logging.info("downloaded %s into %s successfully", url, path)
    return path


def download_model(model_name: str, dst_dir: str = "./", meta_info: dict | None = None) -> tuple[str | None, int]:
    """Downloads a checkpoint listed in `meta_info` {name: {"symbol": url, "params": url}}; (prefix, epoch)."""
    meta = (meta_info or {}).get(model_name)
    if meta is None:
        return None, 0
    prefix = os.path.join(dst_dir, model_name)
    download(meta["symbol"], prefix + "-symbol.json")
    download(meta["params"], prefix + "-0000.params")
    return prefix, 0


def get_zip_data(data_dir: str, url: str, data_origin_name: str) -> None:
    """Downloads a zip archive to a directory and unpacks it there, unless it exists."""
    path = os.path.join(data_dir, data_origin_name)
    if not os.path.exists(path):
        download(url, dirname=data_dir, overwrite=False)
        unpack(path, data_dir)


def get_bz2_data(data_dir: str, data_name: str, url: str, data_origin_name: str) -> None:
    """Downloads a bz2 file to a directory and unpacks it as `data_name`, unless it exists."""
    import bz2
    target, packed = os.path.join(data_dir, data_name), os.path.join(data_dir, data_origin_name)
    if not os.path.exists(target):
        download(url, fname=data_origin_name, dirname=data_dir, overwrite=False)
        with bz2.BZ2File(packed, "rb") as source, replacing(target) as file:
            shutil.copyfileobj(source, file)
        os.remove(packed)


_MNIST_FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
                "t10k-labels-idx1-ubyte")
_MNIST_URL = "http://data.mxnet.io/data/mnist/"


def idx(path: str) -> np.ndarray:
    """An array in MNIST's IDX format, packed or not."""
    opener = gzip.open if path.endswith(".gz") else open
    with reading(path, "an array of MNIST's"), opener(path, "rb") as file:
        raw = read_packed(file, os.path.getsize(path), path)
        ndim = raw[3]
        shape = struct.unpack(f">{ndim}I", raw[4:4 + 4 * ndim])
        return np.frombuffer(raw, np.uint8, offset=4 + 4 * ndim).reshape(shape)


def get_mnist(path: str = "data") -> dict[str, np.ndarray]:
    """Returns MNIST as {train_data, train_label, test_data, test_label}; images (n, 1, 28, 28) in [0, 1].

    Files in the current directory or in `path` are used directly; missing files are downloaded to
    the current directory.
    """
    arrays = []
    for name in _MNIST_FILES:
        local = (f"{name}.gz", os.path.join(path, name), os.path.join(path, f"{name}.gz"))
        arrays.append(idx(download(f"{_MNIST_URL}{name}.gz", next(filter(os.path.exists, local), None))))
    images, labels, test_images, test_labels = arrays

    def scaled(pictures: np.ndarray) -> np.ndarray:
        return pictures.reshape(-1, 1, 28, 28).astype(np.float32) / 255
    return {"train_data": scaled(images), "train_label": labels.astype(np.int8),
            "test_data": scaled(test_images), "test_label": test_labels.astype(np.int8)}


def get_mnist_pkl() -> None:
    """Downloads mnist.pkl.gz to ./data, unless it exists."""
    if not os.path.exists("data/mnist.pkl.gz"):
        download("http://deeplearning.net/data/mnist/mnist.pkl.gz", dirname="data")


def get_mnist_ubyte(path: str = "data") -> None:
    """Downloads the four files of MNIST to the directory `path`, unless they exist."""
    if not all(os.path.exists(os.path.join(path, n)) for n in _MNIST_FILES):
        get_zip_data(path, "http://data.mxnet.io/mxnet/data/mnist.zip", "mnist.zip")


def get_cifar10(path: str = "data") -> None:
    """Downloads the record files of CIFAR-10 to the directory `path`/cifar, unless they exist."""
    if not all(os.path.exists(os.path.join(path, "cifar", n)) for n in ("train.rec", "test.rec")):
        get_zip_data(path, "http://data.mxnet.io/mxnet/data/cifar10.zip", "cifar10.zip")


def get_mnist_iterator(batch_size: int, input_shape: tuple, num_parts: int = 1, part_index: int = 0,
                       path: str = "data") -> tuple:
    """Returns (training, validation) iterators over MNIST's files in the directory `path`."""
    get_mnist_ubyte(path)
    flat = len(input_shape) != 3
    paths = [os.path.join(path, n) for n in _MNIST_FILES]
    return tuple(MNISTIter(image=paths[i], label=paths[i + 1], input_shape=input_shape, batch_size=batch_size,
                           shuffle=i == 0, flat=flat, num_parts=num_parts, part_index=part_index) for i in (0, 2))


def get_im2rec_path(home_env: str = "MXNET_HOME") -> str:
    """Returns the path of the script `im2rec.py`, which creates image lists and record files.

    Args:
        home_env: environment variable with the directory of MXNet; this package's directory where it is not set.

    Raises:
        OSError: there is no such script below that directory.
    """
    home = os.environ.get(home_env, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    places = [os.path.join(home, *up, "tools", "im2rec.py") for up in ((), ("..", ".."))]
    for path in places:
        if os.path.isfile(path):
            return path
    raise OSError(f"Could not find path to tools/im2rec.py: neither {' nor '.join(places)} is a file")
