"""A GPT in Gluon, from one CPU to 256 chips: the same network and step, by flags.

    python examples/large/gpt.py                                          # one device, a minute
    XLA_FLAGS=--xla_force_host_platform_device_count=8 python examples/large/gpt.py --mesh data=8 --sharding fsdp
    python -m mxjax launch -n 2 python examples/large/gpt.py --mesh data=2
    python examples/large/gpt.py --checkpoint saved --every 20     # a second time: goes on from there
    python examples/large/gpt.py --size 7b --plan v5e:16x16 --sharding fsdp        # needs mxjax[plan-tpu]

It learns the text of Python's standard library, letter by letter. A decoder of Radford et al., "Language Models are
Unsupervised Multitask Learners" (2019), with normalization before each part.
"""

import argparse
import hashlib
import itertools
import math
import os
import re
import time
from pathlib import Path

import jax
import numpy as np
from jax.sharding import PartitionSpec as P

import mxjax as mx
from mxjax.gluon import nn

SIZES = {  # layers, width, heads, words (GPT-2's 50257 and some that it has not, to be divided), length of a text
    "tiny": (2, 64, 4, 128, 64),
    "small": (12, 768, 12, 50304, 1024),  # 124 M parameters
    "medium": (24, 1024, 16, 50304, 1024),  # 355 M
    "xl": (48, 1600, 25, 50304, 1024),  # 1.5 B
    "7b": (32, 4096, 32, 32000, 2048),  # 6.7 B
}


class Attention(nn.HybridBlock):
    """Each position looks at those before it."""

    def __init__(self, width, heads, **kwargs):
        super().__init__(**kwargs)
        self._heads = heads
        with self.name_scope():
            self.qkv = nn.Dense(3 * width, flatten=False, prefix="qkv_")
            self.out = nn.Dense(width, flatten=False, prefix="out_")

    def hybrid_forward(self, F, x, mask):
        # (batch, length, heads, 3, width of a head): a split of the rows of the weight is one of the heads
        qkv = F.reshape(self.qkv(x), (0, 0, self._heads, 3, -1))
        q, k, v = (F.reshape(F.transpose(F.squeeze(part, axis=3), (0, 2, 1, 3)), (-3, -2)) for part in F.split(
            qkv, num_outputs=3, axis=3))
        scores = F.broadcast_add(F.batch_dot(F.contrib.div_sqrt_dim(q), k, transpose_b=True), mask)
        seen = F.batch_dot(F.softmax(scores, axis=-1), v)
        seen = F.transpose(F.reshape(seen, (-4, -1, self._heads, -2)), (0, 2, 1, 3))
        return self.out(F.reshape(seen, (0, 0, -3)))


class Layer(nn.HybridBlock):
    """Attention, then two layers for each position by itself."""

    def __init__(self, width, heads, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.before, self.between = nn.LayerNorm(), nn.LayerNorm()
            self.attention = Attention(width, heads)
            self.up = nn.Dense(4 * width, flatten=False, prefix="up_")
            self.down = nn.Dense(width, flatten=False, prefix="down_")

    def hybrid_forward(self, F, x, mask):
        x = x + self.attention(self.before(x), mask)
        return x + self.down(F.LeakyReLU(self.up(self.between(x)), act_type="gelu"))


class GPT(nn.HybridBlock):
    """Words to the scores of the words that follow: (batch, length) -> (batch, length, words)."""

    def __init__(self, layers, width, heads, words, length, **kwargs):
        super().__init__(**kwargs)
        self._length = length
        with self.name_scope():
            self.words = nn.Embedding(words, width, prefix="words_")
            self.positions = self.params.get("positions", shape=(1, length, width), init=mx.init.Normal(0.02))
            self.layers = [Layer(width, heads) for _ in range(layers)]
            for layer in self.layers:
                self.register_child(layer)
            self.last = nn.LayerNorm()
            self.head = nn.Dense(words, flatten=False, use_bias=False, prefix="head_")

    def hybrid_forward(self, F, x, positions):
        place = F.contrib.arange_like(x, axis=1)
        later = F.broadcast_lesser(F.expand_dims(place, 1), F.expand_dims(place, 0))
        mask = F.expand_dims(F.cast(later, "float32") * -1e9, 0)  # (1, length, length)
        y = F.broadcast_add(self.words(x), F.slice_like(positions, F.expand_dims(x, 2), axes=(1,)))
        for layer in self.layers:
            y = layer(y, mask)
        return self.head(self.last(y))


RULES = {  # tensor parallelism along the axis "model", beside splitting along "data"
    "qkv_weight|up_weight|words_weight|head_weight": P("model", "data"), "out_weight|down_weight": P("data", "model")}


def texts(length, batch, rank, workers, first):
    """Endless batches of letters out of the standard library, and the letters that follow; each worker has its own.

    They follow from their number, so that training can go on with any of them.
    """
    library = sorted(Path(os.__file__).parent.glob("*.py"))[:40]
    letters = np.concatenate([np.frombuffer(path.read_bytes(), np.uint8) for path in library])
    letters = np.minimum(letters, 127).astype(np.int32)
    for number in itertools.count(first):
        starts = np.random.default_rng(number).integers(0, len(letters) - length - 1, batch * workers)[rank::workers]
        rows = np.stack([letters[s:s + length + 1] for s in starts])
        yield mx.nd.array(rows[:, :-1], dtype="int32"), mx.nd.array(rows[:, 1:], dtype="int32")


def digest(net):
    """Tells these values of the parameters from others."""
    found = hashlib.sha256()
    for _, param in sorted(net._collect_params_with_prefix().items()):
        found.update(param.data().asnumpy().tobytes())
    return found.hexdigest()[:16]


def main():
    """Trains or plans."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="tiny")
    parser.add_argument("--batch", type=int, default=16, help="texts in a step, of each process")
    parser.add_argument("--length", type=int, help="letters of a text")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--mesh", help="the devices: data=8, or data=4,model=2")
    parser.add_argument("--sharding", choices=("replicated", "fsdp", "tensor"), default="replicated")
    parser.add_argument("--remat", action="store_true", help="keep only the inputs of layers for the backward pass")
    parser.add_argument("--checkpoint", metavar="FOLDER", help="go on from the last one there, save new ones meanwhile")
    parser.add_argument("--every", type=int, default=20, help="steps between two checkpoints")
    parser.add_argument("--plan", metavar="DEVICES", help="what a step would do on v5e:4x4, h100x8 ...; nothing is run")
    given = parser.parse_args()
    layers, width, heads, words, longest = SIZES[given.size]
    length = given.length or longest
    lengths = {name: int(n) for name, n in re.findall(r"(\w+)=(\d+)", given.mesh or "")}
    job = mx.kv.join()  # None where it is the only process
    rank, workers = (job.rank, job.size) if job else (0, 1)
    mx.random.seed(1)
    net = GPT(layers, width, heads, words, length)
    net.initialize(mx.init.Normal(0.02))
    net.hybridize(remat=given.remat)
    trainer = mx.gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 3e-3}, kvstore=None)
    rule = RULES if given.sharding == "tensor" else given.sharding
    loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    if given.plan:
        step = mx.gluon.TrainStep(net, loss, trainer)
        x = mx.nd.zeros((given.batch, length), dtype="int32")
        print(step.plan(x, x, on=given.plan, mesh=lengths or None, sharding=rule))
        return
    mesh = jax.make_mesh(tuple(lengths.values()), tuple(lengths)) if lengths else None
    step = mx.gluon.TrainStep(net, loss, trainer, **({"mesh": mesh, "sharding": rule} if mesh else {}))
    first = step.restore(given.checkpoint, missing=0) if given.checkpoint else 0
    started, batches = time.time(), texts(length, given.batch, rank, workers, first)
    for number in range(first, given.steps):
        value = step(*next(batches)).mean().asscalar()
        if number % 10 == 0 or number == given.steps - 1:
            print(f"step {number}: {value / math.log(2):.3f} bits a letter")
        if given.checkpoint and (number + 1) % given.every == 0:
            step.save(given.checkpoint, number + 1, keep=3)
    if mesh is not None:
        print(step.shardings())
    print(f"parameters {digest(net)}")
    print(f"{(given.steps - first) * given.batch * workers * length / (time.time() - started):.0f} letters a second")


if __name__ == "__main__":
    main()
