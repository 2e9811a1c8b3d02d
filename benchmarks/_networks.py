"""The networks that are compared with flax, in Gluon and in flax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen

from mxjax.gluon import nn, rnn
from mxjax.gluon.model_zoo import vision

__all__ = ["Case", "case", "mean_loss"]

WORDS, WIDTH = 2000, 256  # of the small language models


class Case(NamedTuple):
    """A network in Gluon and in flax.

    net: the Gluon block; module: the flax module, with an attribute `train`; inputs: as Gluon has them, images as
    (batch, channels, height, width); labels: of classes; items: how many of `unit` there are in a batch.
    """

    net: Any
    module: linen.Module
    inputs: np.ndarray
    labels: np.ndarray
    items: int
    unit: str

    @property
    def turned(self) -> np.ndarray:
        """The inputs as flax has them: channels last."""
        return self.inputs.transpose(0, 2, 3, 1) if self.inputs.ndim == 4 else self.inputs


def case(name: str, *, small: bool = False) -> Case:
    """A network with a batch: resnet18, resnet50, mobilenet, ssd, bert, lstm or transformer; `small` for a try."""
    rng = np.random.default_rng(0)
    if name in _IMAGES:
        make, module, classes = _IMAGES[name]
        batch, size = (2, 64) if small else (64, 224)
        images = rng.random((batch, 3, size, size), "float32")
        return Case(make(), module(), images, rng.integers(0, classes, batch).astype("int32"), batch, "images")
    shape, words, net, module = {
        "bert": ((2, 16), 8192, *_bert(1, 768)) if small else ((32, 128), 8192, *_bert(12, 768)),
        "lstm": ((4, 4) if small else (35, 64), WORDS, Language(), FlaxLanguage()),
        "transformer": ((2, 16) if small else (8, 128), WORDS, transformer(), FlaxTransformer())}[name]
    inputs = rng.integers(0, words, shape).astype("int32")
    return Case(net, module, inputs, inputs, inputs.size, "tokens")


def mean_loss(out: Any, labels: Any) -> jax.Array:
    """What the flax modules are trained for: the mean cross-entropy, in float32."""
    return optax.softmax_cross_entropy_with_integer_labels(out.astype(jnp.float32), labels).mean()


# ------------------------------------------------------------ images
def _norm(train: bool, x: Any) -> Any:
    return linen.BatchNorm(use_running_average=not train, momentum=0.9, dtype=x.dtype)(x)


def _conv(x: Any, width: int, size: int, stride: int = 1, groups: int = 1, bias: bool = False) -> Any:
    return linen.Conv(width, (size, size), (stride, stride), padding=size // 2, use_bias=bias,
                      feature_group_count=groups)(x)


class FlaxResNet(linen.Module):
    """ResNet (version 1): blocks of each stage; `deep` for the 50-layer kind of block."""

    stages: Sequence[int]
    classes: int
    deep: bool = False
    train: bool = True

    @linen.compact
    def __call__(self, x: Any) -> Any:
        for x in self.maps(x):  # noqa: B007, B020
            pass
        return linen.Dense(self.classes)(x.mean((1, 2)))

    def maps(self, x: Any) -> Any:
        """The features after each stage."""
        def layer(x: Any, width: int, size: int, stride: int = 1, bias: bool = False) -> Any:
            return _norm(self.train, _conv(x, width, size, stride, bias=bias))
        x = linen.max_pool(linen.relu(layer(x, 64, 7, 2)), (3, 3), (2, 2), ((1, 1), (1, 1)))
        for stage, blocks in enumerate(self.stages):
            for block in range(blocks):
                width, stride = 64 << stage, 2 if stage and not block else 1
                if self.deep:  # the model zoo's has biases there
                    y = linen.relu(layer(linen.relu(layer(x, width, 1, stride, True)), width, 3))
                    y = layer(y, 4 * width, 1, bias=True)
                else:
                    y = layer(linen.relu(layer(x, width, 3, stride)), width, 3)
                x = linen.relu((x if x.shape == y.shape else layer(x, y.shape[-1], 1, stride)) + y)
            yield x


class FlaxMobileNet(linen.Module):
    """MobileNet (version 1, 1.0)."""

    classes: int = 1000
    train: bool = True

    @linen.compact
    def __call__(self, x: Any) -> Any:
        def layer(x: Any, width: int, size: int, stride: int = 1, groups: int = 1) -> Any:
            return linen.relu(_norm(self.train, _conv(x, width, size, stride, groups)))
        x = layer(x, 32, 3, 2)
        for width, stride in [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2),
                              (1024, 1)]:
            x = layer(layer(x, x.shape[-1], 3, stride, x.shape[-1]), width, 1)
        return linen.Dense(self.classes)(x.mean((1, 2)))


_ANCHORS, _KINDS = 4, 21


class Detector(nn.HybridBlock):
    """A single-shot detector on ResNet-18: classes and boxes of the anchors of four scales, as one array."""

    def __init__(self) -> None:
        super().__init__()
        layers = vision.resnet18_v1().features
        self.scales, self.heads = nn.HybridSequential(), nn.HybridSequential()
        for part in (layers[:7], layers[7:8], self._smaller(), self._smaller()):
            self.scales.add(self._of(part))
            self.heads.add(nn.Conv2D(_ANCHORS * (_KINDS + 4), 3, padding=1))

    @staticmethod
    def _of(layers: Any) -> Any:
        net = nn.HybridSequential()
        net.add(*layers)
        return net

    @staticmethod
    def _smaller() -> list[Any]:
        return [nn.Conv2D(128, 1, use_bias=False), nn.BatchNorm(), nn.Activation("relu"),
                nn.Conv2D(256, 3, 2, 1, use_bias=False), nn.BatchNorm(), nn.Activation("relu")]

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """(batch, anchors, classes and box)."""
        found = []
        for scale, head in zip(self.scales, self.heads, strict=True):
            x = scale(x)
            found.append(F.transpose(head(x), (0, 2, 3, 1)).reshape((0, -1, _KINDS + 4)))
        return F.concat(*found, dim=1).mean(axis=1)  # as if for one anchor: its targets are not the network's matter


class FlaxDetector(linen.Module):
    """`Detector` in flax."""

    train: bool = True

    @linen.compact
    def __call__(self, x: Any) -> Any:
        *_, x, last = FlaxResNet((2, 2, 2, 2), 0, train=self.train).maps(x)
        maps = [x, last]
        for _ in range(2):
            x = linen.relu(_norm(self.train, _conv(maps[-1], 128, 1)))
            maps.append(linen.relu(_norm(self.train, _conv(x, 256, 3, 2))))
        found = [linen.Conv(_ANCHORS * (_KINDS + 4), (3, 3), padding=1)(x).reshape(x.shape[0], -1, _KINDS + 4)
                 for x in maps]
        return jnp.concatenate(found, 1).mean(1)


_IMAGES = {
    "resnet18": (lambda: vision.resnet18_v1(classes=10), lambda: FlaxResNet((2, 2, 2, 2), 10), 10),
    "resnet50": (vision.resnet50_v1, lambda: FlaxResNet((3, 4, 6, 3), 1000, deep=True), 1000),
    "mobilenet": (vision.mobilenet1_0, FlaxMobileNet, 1000),
    "ssd": (Detector, FlaxDetector, _KINDS),
}


# ------------------------------------------------------------ words
class Language(nn.HybridBlock):
    """Two LSTM layers over words, (time, batch)."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.lstm = nn.Embedding(WORDS, WIDTH), rnn.LSTM(WIDTH, num_layers=2)
        self.out = nn.Dense(WORDS, flatten=False)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Scores of the next word at each place."""
        return self.out(self.lstm(self.words(x)))


class FlaxLanguage(linen.Module):
    """`Language` in flax."""

    train: bool = True

    @linen.compact
    def __call__(self, x: Any) -> Any:
        x = linen.Embed(WORDS, WIDTH)(x)
        for _ in range(2):
            x = linen.RNN(linen.OptimizedLSTMCell(WIDTH), time_major=True)(x)
        return linen.Dense(WORDS)(x)


class Attention(nn.HybridBlock):
    """A transformer's layer; `first`: normalization before each part, else after it."""

    def __init__(self, width: int, heads: int, first: bool) -> None:
        super().__init__()
        self._heads, self._first = heads, first
        self.into, self.mix = nn.Dense(3 * width, flatten=False), nn.Dense(width, flatten=False)
        self.up, self.down = nn.Dense(4 * width, flatten=False), nn.Dense(width, flatten=False)
        self.one, self.two, self.gelu = nn.LayerNorm(), nn.LayerNorm(), nn.GELU()

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Attention, then the layers between, each added to what comes in."""
        if self._first:
            x = x + self.attend(F, self.one(x))
            return x + self.down(self.gelu(self.up(self.two(x))))
        x = self.one(x + self.attend(F, x))
        return self.two(x + self.down(self.gelu(self.up(x))))

    def attend(self, F: Any, x: Any) -> Any:
        """Each place's mixture of all places."""
        query, key, value = (t.reshape((0, 0, self._heads, -1)).transpose((0, 2, 1, 3)).reshape((-3, 0, 0))
                             for t in F.split(self.into(x), num_outputs=3, axis=2))
        weights = F.softmax(F.batch_dot(query, key, transpose_b=True) / 8)
        mixed = F.batch_dot(weights, value).reshape((-4, -1, self._heads, 0, 0)).transpose((0, 2, 1, 3))
        return self.mix(mixed.reshape((0, 0, -3)))


class FlaxAttention(linen.Module):
    """`Attention` in flax."""

    width: int
    heads: int
    first: bool

    @linen.compact
    def __call__(self, x: Any) -> Any:
        def attend(x: Any) -> Any:
            parts = jnp.split(linen.Dense(3 * self.width)(x), 3, axis=-1)
            query, key, value = (t.reshape(*t.shape[:2], self.heads, -1) for t in parts)
            weights = linen.softmax(jnp.einsum("bqhd,bkhd->bhqk", query, key) / 8)
            return linen.Dense(self.width)(jnp.einsum("bhqk,bkhd->bqhd", weights, value).reshape(x.shape))

        def between(x: Any) -> Any:
            return linen.Dense(self.width)(linen.gelu(linen.Dense(4 * self.width)(x), approximate=False))
        if self.first:
            x = x + attend(linen.LayerNorm()(x))
            return x + between(linen.LayerNorm()(x))
        x = linen.LayerNorm()(x + attend(x))
        return linen.LayerNorm()(x + between(x))


class FlaxWords(linen.Module):
    """Words, layers of attention, scores of words."""

    words: int
    layers: int
    width: int
    heads: int
    first: bool
    train: bool = True

    @linen.compact
    def __call__(self, x: Any) -> Any:
        x = linen.Embed(self.words, self.width)(x)
        for _ in range(self.layers):
            x = FlaxAttention(self.width, self.heads, self.first)(x)
        return linen.Dense(self.words)(x)


def _words(words: int, layers: int, width: int, heads: int, first: bool) -> nn.HybridBlock:
    net = nn.HybridSequential()
    net.add(nn.Embedding(words, width), *[Attention(width, heads, first) for _ in range(layers)],
            nn.Dense(words, flatten=False))
    return net


def transformer() -> nn.HybridBlock:
    """Four layers of attention over words."""
    return _words(WORDS, 4, WIDTH, 4, True)


def FlaxTransformer() -> linen.Module:
    """`transformer` in flax."""
    return FlaxWords(WORDS, 4, WIDTH, 4, True)


def _bert(layers: int, width: int) -> tuple[nn.HybridBlock, linen.Module]:
    """BERT's body and a head over words."""
    return (_words(8192, layers, width, width // 64, False),
            FlaxWords(8192, layers, width, width // 64, False))
