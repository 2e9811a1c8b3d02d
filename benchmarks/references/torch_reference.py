"""The programs of `make figures` in PyTorch on the CPU, as its users write them.

    python benchmarks/references/torch_reference.py lenet [--compile] [--seconds 5]

--compile: with `torch.compile`, else eagerly. Needs PyTorch. Prints one JSON.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import _timing
import torch
from _timing import ADAM, CLASSES, HEADS, LAYERS, SGD, WIDTH, WORDS
from torch import nn
from torch.nn import functional as F


def multilayer() -> nn.Module:
    """784-128-64-10."""
    return nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, CLASSES))


def lenet() -> nn.Module:
    """Two convolutions, two layers."""
    return nn.Sequential(nn.Conv2d(1, 20, 5), nn.Tanh(), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5), nn.Tanh(),
                         nn.MaxPool2d(2), nn.Flatten(), nn.Linear(800, 500), nn.Tanh(), nn.Linear(500, CLASSES))


def layer(into: int, width: int, size: int, stride: int = 1) -> list[nn.Module]:
    """A convolution and a normalization."""
    return [nn.Conv2d(into, width, size, stride, size // 2, bias=False), nn.BatchNorm2d(width)]


class Block(nn.Module):
    """Two convolutions, added to what comes in."""

    def __init__(self, into: int, width: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(*layer(into, width, 3, stride), nn.ReLU(), *layer(width, width, 3))
        self.past = nn.Sequential(*layer(into, width, 1, stride)) if into != width else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The feature maps."""
        return F.relu(self.past(x) + self.body(x))


def resnet18() -> nn.Module:
    """Version 1."""
    widths = [64, 64, 64, 128, 128, 256, 256, 512, 512]
    blocks = [Block(into, width, 1 if into == width else 2) for into, width in zip(widths, widths[1:], strict=False)]
    return nn.Sequential(*layer(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1), *blocks, nn.AdaptiveAvgPool2d(1),
                         nn.Flatten(), nn.Linear(512, CLASSES))


class Language(nn.Module):
    """Two LSTM layers over words, (time, batch)."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.lstm = nn.Embedding(WORDS, WIDTH), nn.LSTM(WIDTH, WIDTH, num_layers=2)
        self.out = nn.Linear(WIDTH, WORDS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores of words at each place."""
        return self.out(self.lstm(self.words(x))[0])


class Layer(nn.Module):
    """Attention and a network of two layers, each after a normalization and added to what comes in."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.into, self.mix = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.between = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(),
                                     nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, places, width), the same shape out."""
        parts = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in self.into(self.one(x)).chunk(3, -1))
        x = x + self.mix(F.scaled_dot_product_attention(*parts).transpose(1, 2).flatten(2))
        return x + self.between(x)


def transformer() -> nn.Module:
    """Layers of attention over words."""
    return nn.Sequential(nn.Embedding(WORDS, WIDTH), *[Layer() for _ in range(LAYERS)], nn.Linear(WIDTH, WORDS))


NETWORKS = {"mlp": multilayer, "lenet": lenet, "resnet18": resnet18, "lstm": Language, "transformer": transformer}


def make(program: _timing.Program, compiled: bool) -> tuple[Callable[[], Any], Callable[[], int]]:
    """A step and a function that counts what is trained."""
    torch.manual_seed(0)
    net = NETWORKS[program.network]()
    for name, weights in net.named_parameters():  # as in MXNet's programs
        if weights.ndim > 1:
            nn.init.xavier_uniform_(weights)
        elif "bias" in name:
            nn.init.zeros_(weights)
    size = sum(weights.numel() for weights in net.parameters())
    data, labels = (torch.from_numpy(a.copy()) for a in _timing.batch(program))
    labels = labels.long()
    run = torch.compile(net) if compiled else net

    def predict() -> None:
        with torch.inference_mode():
            run(data)
    if not program.train:
        net.eval()
        return predict, lambda: size
    optimizer = torch.optim.Adam(net.parameters(), ADAM["learning_rate"], eps=ADAM["epsilon"]) \
        if program.optimizer == "adam" else torch.optim.SGD(net.parameters(), SGD["learning_rate"], SGD["momentum"])

    def train() -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(run(data).flatten(0, -2), labels.flatten())
        loss.backward()
        optimizer.step()
        return loss.detach()
    return train, lambda: size


def main() -> None:
    """Times one program."""
    parser = _timing.arguments(__doc__)
    parser.add_argument("--compile", action="store_true")
    given = parser.parse_args()
    _timing.report(lambda program: make(program, given.compile), given, torch.__version__)


if __name__ == "__main__":
    main()
