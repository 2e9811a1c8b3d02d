"""The loops of `benchmarks/new_shapes.py` in PyTorch on the CPU, eagerly, as its users write them.

    python benchmarks/references/torch_new_shapes.py [NAME ...]

Needs PyTorch. Seconds of each loop.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

rng = np.random.RandomState(0)


def trained(blocks: Sequence[nn.Module], batches: Iterable[Callable[[], torch.Tensor]]) -> None:
    """Steps with Adam."""
    optimizer = torch.optim.Adam([p for block in blocks for p in block.parameters()])
    for loss_of in batches:
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        optimizer.step()
        loss.item()


def words(*shape: int) -> torch.Tensor:
    """Numbers of words."""
    return torch.from_numpy(rng.randint(0, 100, shape))


def labels(count: int, classes: int = 5) -> torch.Tensor:
    """Classes."""
    return torch.from_numpy(rng.randint(0, classes, count))


def lstm() -> None:
    """40 lengths."""
    embed, layer, out = nn.Embedding(100, 32), nn.LSTM(32, 64), nn.Linear(64, 5)

    def of(length: int) -> Callable[[], torch.Tensor]:
        x, y = words(length, 8), labels(8)
        return lambda: F.cross_entropy(out(layer(embed(x))[0][-1]), y)
    trained([embed, layer, out], [of(int(length)) for length in rng.permutation(40) + 5])


def bags_of_words() -> None:
    """60 lengths."""
    embed, out = nn.Embedding(100, 32), nn.Linear(32, 5)

    def of(length: int) -> Callable[[], torch.Tensor]:
        x, y = words(8, length), labels(8)
        return lambda: F.cross_entropy(out(embed(x).mean(1)), y)
    trained([embed, out], [of(int(length)) for length in rng.permutation(60) + 5])


def attention() -> None:
    """40 lengths."""
    maps = [nn.Linear(32, 32, bias=False) for _ in range(3)]
    embed, out = nn.Embedding(100, 32), nn.Linear(32, 5)

    def of(length: int) -> Callable[[], torch.Tensor]:
        x, y = words(4, length), labels(4)

        def value() -> torch.Tensor:
            query, key, values = [each(embed(x)) for each in maps]
            scores = torch.softmax(query @ key.transpose(1, 2) / 32 ** 0.5, -1)
            return F.cross_entropy(out((scores @ values).amax(1)), y)
        return value
    trained([*maps, embed, out], [of(int(length)) for length in rng.permutation(40) + 5])


def episodes() -> None:
    """60 lengths."""
    net = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 2))

    def of(steps: int) -> Callable[[], torch.Tensor]:
        states, actions = torch.from_numpy(rng.randn(steps, 4).astype("f")), labels(steps, 2)
        gains = torch.from_numpy(rng.randn(steps).astype("f"))
        gains = (gains - gains.mean()) / ((gains - gains.mean()) ** 2).mean().sqrt()
        return lambda: -(torch.log_softmax(net(states), -1).gather(1, actions[:, None])[:, 0] * gains).sum()
    trained([net], (of(int(steps)) for steps in rng.permutation(100)[:60] + 10))


def prefixes() -> None:
    """100 prefixes."""
    x = torch.from_numpy(rng.randn(300).astype("f"))
    for count in range(2, 300, 3):
        part = x[:count]
        ((part - part.mean()) ** 2).mean().sqrt().item()
        torch.exp(-part * part).sum().item()


def products() -> None:
    """49 products."""
    a, b = torch.from_numpy(rng.randn(100, 40).astype("f")), torch.from_numpy(rng.randn(40, 100).astype("f"))
    for count in range(2, 100, 2):
        (a[:count] @ b[:, :count]).sum().item()


def pictures() -> None:
    """10 sizes."""
    layers, into = [], 3
    for channels in (8, 16, 32):
        layers += [nn.Conv2d(into, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU(), nn.MaxPool2d(2)]
        into = channels
    net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 5)).eval()
    with torch.no_grad():
        for size in range(32, 72, 4):
            net(torch.from_numpy(rng.randn(1, 3, size, size + 8).astype("f"))).sum().item()


LOOPS = {f.__name__: f for f in (lstm, bags_of_words, attention, episodes, prefixes, products, pictures)}

if __name__ == "__main__":
    torch.optim.Adam([nn.Parameter(torch.zeros(1))])  # it loads its modules on first use
    for name in sys.argv[1:] or LOOPS:
        rng.seed(0)
        start = time.perf_counter()
        LOOPS[name]()
        print(f"{name:20s}{time.perf_counter() - start:8.2f} s", flush=True)
