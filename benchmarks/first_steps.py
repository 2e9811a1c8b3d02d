"""What a new network costs: its first step, and all steps until the 50th, each program in a process of its own.

    python benchmarks/first_steps.py [--package mxjax mxnet torch] [--steps 50] [NAME ...]

Seconds of the wall's clock from the network's making on, imports left out; the median of three processes. PyTorch runs
eagerly. `--python` names the interpreter of each package where they are not installed together.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import subprocess
import sys
import time

import numpy as np

rng = np.random.RandomState(0)
WORDS = 2000
BATCHES = {  # inputs, classes
    "mlp": (rng.rand(64, 784), 10), "lenet": (rng.rand(64, 1, 28, 28), 10), "resnet18": (rng.rand(16, 3, 112, 112), 10),
    "prediction": (rng.rand(16, 3, 112, 112), 10), "lstm": (rng.randint(0, WORDS, (35, 32)), None),
    "transformer": (rng.randint(0, WORDS, (8, 128)), None)}


# ------------------------------------------------------------ MXNet's API
def gluon_net(mx, name):
    """The network in Gluon."""
    nn = mx.gluon.nn
    net = nn.HybridSequential()
    if name == "mlp":
        net.add(nn.Dense(128, activation="relu"), nn.Dense(64, activation="relu"), nn.Dense(10))
    elif name == "lenet":
        net.add(nn.Conv2D(20, 5, activation="tanh"), nn.MaxPool2D(2, 2), nn.Conv2D(50, 5, activation="tanh"),
                nn.MaxPool2D(2, 2), nn.Flatten(), nn.Dense(500, activation="tanh"), nn.Dense(10))
    elif name in ("resnet18", "prediction"):
        net = importlib.import_module(mx.__name__ + ".gluon.model_zoo.vision").resnet18_v1(classes=10)
    elif name == "lstm":
        net.add(nn.Embedding(WORDS, 256), mx.gluon.rnn.LSTM(256, num_layers=2), nn.Dense(WORDS, flatten=False))
    else:
        class Layer(mx.gluon.HybridBlock):
            def __init__(self):
                super().__init__()
                self.qkv, self.out = nn.Dense(768, flatten=False), nn.Dense(256, flatten=False)
                self.up, self.down = nn.Dense(1024, flatten=False), nn.Dense(256, flatten=False)
                self.norm1, self.norm2 = nn.LayerNorm(), nn.LayerNorm()

            def hybrid_forward(self, F, x):
                def heads(t):
                    return F.reshape(F.transpose(F.reshape(t, shape=(0, 0, 4, 64)), axes=(0, 2, 1, 3)),
                                     shape=(-3, 0, 0))
                q, k, v = F.split(self.qkv(self.norm1(x)), num_outputs=3, axis=2)
                weights = F.softmax(F.batch_dot(heads(q), heads(k), transpose_b=True) / 8.0)
                mixed = F.reshape(F.batch_dot(weights, heads(v)), shape=(-4, -1, 4, 0, 0))
                x = x + self.out(F.reshape(F.transpose(mixed, axes=(0, 2, 1, 3)), shape=(0, 0, -3)))
                return x + self.down(F.LeakyReLU(self.up(self.norm2(x)), act_type="gelu"))
        net.add(nn.Embedding(WORDS, 256), *[Layer() for _ in range(4)], nn.Dense(WORDS, flatten=False))
    return net


def gluon_step(mx, name):
    """A function that makes the network, and gives its step."""
    data, classes = BATCHES[name]
    x = mx.nd.array(data)
    y = mx.nd.array(np.arange(len(data)) % classes) if classes else x
    mx.nd.waitall()

    def make():
        net = gluon_net(mx, name)
        net.initialize()
        net.hybridize()
        if name == "prediction":
            return lambda: net(x).asnumpy()
        loss_of = mx.gluon.loss.SoftmaxCrossEntropyLoss()
        options = {"learning_rate": 0.001} if name == "transformer" else {"learning_rate": 0.01, "momentum": 0.9}
        trainer = mx.gluon.Trainer(net.collect_params(), "adam" if name == "transformer" else "sgd", options)

        def step():
            with mx.autograd.record():
                loss = loss_of(net(x), y)
            loss.backward()
            trainer.step(x.shape[0])
            mx.nd.waitall()
        return step
    return make


# ------------------------------------------------------------ PyTorch
def torch_net(torch, name):
    """The network in PyTorch."""
    nn = torch.nn
    if name == "mlp":
        return nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))
    if name == "lenet":
        return nn.Sequential(nn.Conv2d(1, 20, 5), nn.Tanh(), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5), nn.Tanh(),
                             nn.MaxPool2d(2), nn.Flatten(), nn.Linear(800, 500), nn.Tanh(), nn.Linear(500, 10))
    if name in ("resnet18", "prediction"):
        class Block(nn.Module):
            def __init__(self, before, width, stride):
                super().__init__()
                self.body = nn.Sequential(
                    nn.Conv2d(before, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
                    nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width))
                self.short = nn.Identity() if before == width else nn.Sequential(
                    nn.Conv2d(before, width, 1, stride, bias=False), nn.BatchNorm2d(width))

            def forward(self, x):
                return torch.relu(self.body(x) + self.short(x))
        layers, before = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(),
                          nn.MaxPool2d(3, 2, 1)], 64
        for stage in range(4):
            for block in range(2):
                layers.append(Block(before, 64 << stage, 2 if stage and not block else 1))
                before = 64 << stage
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))
    if name == "lstm":
        class Language(nn.Module):
            def __init__(self):
                super().__init__()
                self.words, self.lstm = nn.Embedding(WORDS, 256), nn.LSTM(256, 256, 2)
                self.out = nn.Linear(256, WORDS)

            def forward(self, x):
                return self.out(self.lstm(self.words(x))[0])
        return Language()
    layer = nn.TransformerEncoderLayer(256, 4, 1024, 0.0, "gelu", batch_first=True, norm_first=True)
    return nn.Sequential(nn.Embedding(WORDS, 256), nn.TransformerEncoder(layer, 4, enable_nested_tensor=False),
                         nn.Linear(256, WORDS))


def torch_step(torch, name):
    """As `gluon_step`."""
    data, classes = BATCHES[name]
    x = torch.tensor(data, dtype=torch.float32 if classes else torch.long)
    y = torch.arange(len(data)) % classes if classes else x

    def make():
        net = torch_net(torch, name)
        if name == "prediction":
            net.eval()

            def predict():
                with torch.no_grad():
                    net(x).numpy()
            return predict
        optimizer = torch.optim.Adam(net.parameters(), 1e-3) if name == "transformer" else \
            torch.optim.SGD(net.parameters(), 0.01, 0.9)
        loss_of = torch.nn.CrossEntropyLoss()

        def step():
            optimizer.zero_grad()
            out = net(x)
            loss_of(out.reshape(-1, out.shape[-1]), y.reshape(-1)).backward()
            optimizer.step()
        return step
    return make


def measured(package, name, steps):
    """(Seconds of the first step, of all steps, of the last ones, each.)"""
    module = importlib.import_module(package)
    make = (torch_step if package == "torch" else gluon_step)(module, name)
    if package != "torch":
        importlib.import_module(package + ".gluon")  # modules that are loaded when they are needed
    start = time.perf_counter()
    step = make()
    times = []
    for _ in range(steps):
        step()
        times.append(time.perf_counter() - start)
    last = times[-5:]
    return times[0], times[-1], (last[-1] - last[0]) / (len(last) - 1) if steps > 5 else 0.0


def main() -> None:
    """Prints a row for each program and package."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BATCHES))
    parser.add_argument("--package", nargs="+", default=["mxjax"], choices=["mxjax", "mxnet", "torch"])
    parser.add_argument("--python", nargs="+", default=[], help="PACKAGE=INTERPRETER")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measured(arguments.package[0], arguments.one, arguments.steps)))
        return
    pythons = dict(pair.split("=", 1) for pair in arguments.python)
    print(f"{'program':12s} {'package':8s} {'first':>8s} {'all':>8s} {'steady':>8s}   s")
    for name in arguments.names or BATCHES:
        runs = {package: [] for package in arguments.package}
        for _ in range(arguments.times):
            for package in runs:
                done = subprocess.run(
                    [pythons.get(package, sys.executable), "-W", "ignore", __file__, "--package", package, "--one",
                     name, "--steps", str(arguments.steps)], capture_output=True, text=True, check=True)
                runs[package].append(json.loads(done.stdout.splitlines()[-1]))
        for package, rows in runs.items():
            first, total, steady = map(statistics.median, zip(*rows, strict=True))
            print(f"{name:12s} {package:8s} {first:8.3f} {total:8.3f} {steady:8.4f}", flush=True)


if __name__ == "__main__":
    main()
