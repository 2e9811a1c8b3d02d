"""Checkpoints: a network and its parameters in files, as MXNet's modules and models save them."""

from __future__ import annotations

import glob
import logging
import os
import re

from . import ndarray as nd
from . import symbol as sym
from ._support.files import together
from .base import MXNetError
from .context import cpu
from .ndarray import NDArray
from .symbol import Symbol

__all__ = ["find_model", "load_checkpoint", "load_named_params", "load_params", "save_checkpoint"]

_PARAMETERS = (".params", ".npz", ".safetensors")


def _pack_params(arg_params: dict[str, NDArray], aux_params: dict[str, NDArray]) -> dict[str, NDArray]:
    """Parameters under the names they have in files."""
    return {f"{kind}:{name}": array.as_in_context(cpu()) for kind, params in (("arg", arg_params), ("aux", aux_params))
            for name, array in params.items()}


def _unpack_params(loaded: dict[str, NDArray], fname: str) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
    """Parameters and auxiliary states of a loaded file.

    Raises:
        ValueError: a name that begins neither with "arg:" nor with "aux:".
    """
    params: dict[str, dict[str, NDArray]] = {"arg": {}, "aux": {}}
    if not loaded:
        logging.warning("parameter file %s is empty", fname)
        return params["arg"], params["aux"]
    if not isinstance(loaded, dict):
        raise ValueError(f"invalid parameter file {fname}: its arrays have no names")
    for full_name, array in loaded.items():
        kind, _, name = full_name.partition(":")
        if kind not in params:
            raise ValueError(f"invalid parameter file {fname}: name {full_name!r} begins neither with arg: nor aux:")
        params[kind][name] = array
    return params["arg"], params["aux"]


def save_checkpoint(prefix: str, epoch: int, symbol: Symbol | None, arg_params: dict[str, NDArray],
                    aux_params: dict[str, NDArray], remove_amp_cast: bool = True) -> None:
    """Save a network and its parameters as `prefix-symbol.json` and `prefix-EPOCH.params` (4 digits).

    Both are on the disk before one is replaced, so that a failure changes neither; the parameters appear last, at once
    after the network.

    Args:
        prefix: beginning of the files' names.
        epoch: number of the epoch.
        symbol: the network; None saves parameters only.
        arg_params, aux_params: parameters and auxiliary states by name.
        remove_amp_cast: leave out the casts that automatic mixed precision put in.
    """
    name = f"{prefix}-{epoch:04d}.params"
    with together():
        if symbol is not None:
            symbol.save(f"{prefix}-symbol.json", remove_amp_cast=remove_amp_cast)
        nd.save(name, _pack_params(arg_params, aux_params))
    logging.info('Saved checkpoint to "%s"', name)


def load_params(prefix: str, epoch: int) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
    """Parameters and auxiliary states of `prefix-EPOCH.params`, by name."""
    name = f"{prefix}-{epoch:04d}.params"
    return _unpack_params(nd.load(name), name)


def load_checkpoint(prefix: str, epoch: int) -> tuple[Symbol, dict[str, NDArray], dict[str, NDArray]]:
    """Returns a checkpoint that `save_checkpoint` saved, here or in MXNet: (symbol, arg_params, aux_params)."""
    return sym.load(f"{prefix}-symbol.json"), *load_params(prefix, epoch)


def find_model(source: str, epoch: int | None = None) -> tuple[str, str | None, str | None]:
    """Finds the files of a saved model.

    Args:
        source: `PREFIX` or `PREFIX:EPOCH`, a graph's `.json` file, a folder with one `-symbol.json` file, or a file of
            parameters alone (`.params`, `.npz`, `.safetensors`).
        epoch: whose parameters; None: those of the newest epoch, or of `PREFIX.params`.

    Returns:
        (prefix, path of the graph or None, path of the parameters or None). With an epoch the last one is its file,
        whether there is one or not.

    Raises:
        MXNetError: there is neither, or a folder has several graphs.

    Example:
        >>> find_model("lenet:10")  # doctest: +SKIP
        ('lenet', 'lenet-symbol.json', 'lenet-0010.params')
    """
    if os.path.isdir(source):
        graphs = glob.glob(os.path.join(glob.escape(source), "*-symbol.json"))
        if len(graphs) != 1:
            raise MXNetError(f"the folder {source} must contain one file NAME-symbol.json, got {len(graphs)}")
        source = graphs[0]
    elif source.endswith(_PARAMETERS):
        if not os.path.isfile(source):
            raise MXNetError(f"there is no such model: no file {source}")
        return re.sub(r"(-\d{4,})?\.\w+$", "", source), None, source
    if epoch is None and (result := re.fullmatch(r"(.+):(\d+)", source)):
        source, epoch = result[1], int(result[2])
    prefix = re.sub(r"(-symbol)?\.json$", "", source)
    graph = source if source.endswith(".json") else f"{prefix}-symbol.json"
    if not os.path.isfile(graph):
        raise MXNetError(f"there is no such model: no file {graph}")
    if epoch is not None:
        return prefix, graph, f"{prefix}-{epoch:04d}.params"
    epochs = [(int(result[1]), path) for path in glob.glob(f"{glob.escape(prefix)}-*.params")
              if (result := re.fullmatch(r"-(\d{4,})\.params", path[len(prefix):]))]
    alone = [prefix + ending for ending in _PARAMETERS if os.path.isfile(prefix + ending)]
    return prefix, graph, max(epochs)[1] if epochs else alone[0] if alone else None


def load_named_params(path: str) -> dict[str, NDArray]:
    """Returns parameters and auxiliary states of a file by name, with or without MXNet's "arg:" and "aux:".

    Raises:
        ValueError: the file's arrays have no names.
    """
    loaded = nd.load(path)
    if not isinstance(loaded, dict):
        if not loaded:
            return {}
        raise ValueError(f"invalid parameter file {path}: its arrays have no names")
    return {re.sub("^(arg|aux):", "", name): value for name, value in loaded.items()}
