"""Checkpoints: a network and its parameters in files, as MXNet's modules and models save them."""

from __future__ import annotations

import logging

from . import ndarray as nd
from . import symbol as sym
from ._support.files import together
from .context import cpu
from .ndarray import NDArray
from .symbol import Symbol

__all__ = ["load_checkpoint", "load_params", "save_checkpoint"]


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
    """What `save_checkpoint` saved, here or in MXNet: (symbol, arg_params, aux_params)."""
    return sym.load(f"{prefix}-symbol.json"), *load_params(prefix, epoch)
