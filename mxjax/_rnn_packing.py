"""The weights of recurrent cells, taken apart gate by gate and put together again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from .array.dense import _from_host
from .ndarray import NDArray, array

__all__ = ["GATES", "Packing", "joined", "packed_shapes", "pieces"]

# suffixes of the names of each gate's part of the weights
GATES = {"rnn_relu": ("",), "rnn_tanh": ("",), "lstm": ("_i", "_f", "_c", "_o"), "gru": ("_r", "_z", "_o")}


def pieces(packed: NDArray, shapes: Sequence[tuple[int, ...]]) -> list[NDArray]:
    """Consecutive pieces of an array, with these shapes; on the host, which compiles nothing for each of them."""
    values, ends = np.asarray(packed.read()).reshape(-1), np.cumsum([prod(shape) for shape in shapes])
    return [array(piece.reshape(shape), packed.context, packed.dtype)
            for piece, shape in zip(np.split(values, ends[:-1]), shapes, strict=True)]


def joined(parts: Sequence[NDArray], shape: tuple[int, ...]) -> NDArray:
    """The inverse of `pieces`."""
    values = np.concatenate([np.asarray(part.read()).reshape(-1) for part in parts])
    return _from_host(values.reshape(shape), parts[0].context)


def packed_shapes(gates: int, num_layers: int, input_size: int, hidden_size: int, directions: int,
                  projection_size: int | None) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of the parts of a fused RNN's parameter, all gates together, by name and in their order.

    Args:
        gates: gates of a cell: 4 of an LSTM's, 3 of a GRU's, else 1.
        num_layers, input_size, hidden_size: sizes.
        directions: 2 of a bidirectional one, else 1.
        projection_size: length that an LSTM's outputs are projected to.
    """
    rows, length = gates * hidden_size, projection_size or hidden_size
    shapes: dict[str, tuple[int, ...]] = {}
    for kind in ("weight", "bias"):
        columns = input_size
        for layer in range(num_layers):
            for side in "lr"[:directions]:
                begin = f"{side}{layer}"
                shapes[f"{begin}_i2h_{kind}"] = (rows, columns) if kind == "weight" else (rows,)
                shapes[f"{begin}_h2h_{kind}"] = (rows, length) if kind == "weight" else (rows,)
                if projection_size and kind == "weight":
                    shapes[f"{begin}_h2r_weight"] = (projection_size, hidden_size)
            columns = length * directions
    return shapes


@dataclass(frozen=True)
class Packing:
    """The layout of the one parameter of a fused RNN.

    Args:
        num_hidden, num_layers, mode, bidirectional: as in `mx.rnn.FusedRNNCell`.
        prefix: beginning of the parts' names.

    Raises:
        ValueError: there is no such mode.
    """

    num_hidden: int
    num_layers: int
    mode: str
    bidirectional: bool = False
    prefix: str = ""

    def __post_init__(self) -> None:
        if self.mode not in GATES:
            raise ValueError(f"mode must be one of {', '.join(GATES)}; got {self.mode!r}")

    @property
    def directions(self) -> str:
        """A letter for each."""
        return "lr" if self.bidirectional else "l"

    def _parts(self, num_input: int) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Returns names and shapes of the packed parts in order: all weights, then all biases."""
        hidden = self.num_hidden
        for kind in ("weight", "bias"):
            for layer in range(self.num_layers):
                inputs = num_input if layer == 0 else hidden * len(self.directions)
                for direction in self.directions:
                    for group, columns in (("i2h", inputs), ("h2h", hidden)):
                        for gate in GATES[self.mode]:
                            yield (f"{self.prefix}{direction}{layer}_{group}{gate}_{kind}",
                                   (hidden, columns) if kind == "weight" else (hidden,))

    def unpack(self, packed: NDArray, name: str = "the parameter") -> dict[str, NDArray]:
        """The parts by name.

        Raises:
            ValueError: the array, which the message calls `name`, has not the size of any input's.
        """
        hidden, directions = self.num_hidden, len(self.directions)
        rows = packed.size // (directions * hidden * len(GATES[self.mode]))
        num_input = rows - (self.num_layers - 1) * (hidden + directions * hidden + 2) - hidden - 2
        names, shapes = zip(*self._parts(num_input), strict=True)
        if sum(map(prod, shapes)) != packed.size:
            raise ValueError(f"{name} has {packed.size} values, this cell packs {sum(map(prod, shapes))}")
        return dict(zip(names, pieces(packed, shapes), strict=True))

    def pack(self, args: dict[str, NDArray]) -> NDArray:
        """The inverse: removes the parts from `args`."""
        num_input = args[f"{self.prefix}l0_i2h{GATES[self.mode][0]}_weight"].shape[1]
        return joined([args.pop(name) for name, _ in self._parts(num_input)], (-1,))
