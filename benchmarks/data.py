"""Input pipelines against MXNet 1.9.1, and what reading pictures beside it leaves of a ResNet-18 step's speed.

    python benchmarks/data.py --mxnet /path/to/python/that/has/mxnet --out table.md

Works as `operators.py`. 512 JPEGs of 256x256; seconds for all of them, steps for batches of 16.
"""

# ruff: noqa: B905  (it runs under the Python 3.9 of an MXNet installation, too)
from __future__ import annotations

import fnmatch
import importlib
import os
import tempfile
import time

import _measure
import numpy as np

COUNT, BATCH = 512, 32


def pictures(mx, folder):
    """Writes the record file; its path."""
    import cv2
    path = os.path.join(folder, "pictures")
    noise = np.random.RandomState(0).randint(0, 255, (8, 8, 3), dtype=np.uint8)
    writer = mx.recordio.MXIndexedRecordIO(path + ".idx", path + ".rec", "w")
    for i in range(COUNT):
        picture = cv2.resize(np.roll(noise, i, axis=0), (256, 256), interpolation=cv2.INTER_CUBIC)
        writer.write_idx(i, mx.recordio.pack_img(mx.recordio.IRHeader(0, float(i % 10), i, 0), picture, quality=90))
    writer.close()
    return path + ".rec"


def records(mx, path, size=224, batch=BATCH):
    """An ImageRecordIter with random crops and flips, two threads."""
    return mx.io.ImageRecordIter(path_imgrec=path, data_shape=(3, size, size), batch_size=batch, shuffle=True,
                                 rand_crop=True, rand_mirror=True, preprocess_threads=2)


def epoch_of_records(mx, path):
    """All pictures through an ImageRecordIter."""
    batches = records(mx, path)

    def epoch():
        batches.reset()
        for batch in batches:
            batch.data[0].wait_to_read()
    return epoch


def epoch_of_loader(threads):
    """All pictures through a DataLoader with two workers and Gluon's transforms."""
    def make(mx, path):
        transforms = mx.gluon.data.vision.transforms
        chain = transforms.Compose([transforms.RandomResizedCrop(224), transforms.RandomFlipLeftRight(),
                                    transforms.ToTensor(), transforms.Normalize(0.5, 0.25)])
        loader = mx.gluon.data.DataLoader(mx.gluon.data.vision.ImageRecordDataset(path).transform_first(chain), BATCH,
                                          num_workers=2, thread_pool=threads)

        def epoch():
            for data, _ in loader:
                data.wait_to_read()
        return epoch
    return make


CASES = {"ImageRecordIter, 2 threads": epoch_of_records, "DataLoader, 2 processes": epoch_of_loader(False),
         "DataLoader, 2 threads": epoch_of_loader(True)}


def steps(mx, path):
    """Seconds of a ResNet-18 step on one batch of 16 again and again, and on batches that are read meanwhile."""
    net = mx.gluon.model_zoo.vision.resnet18_v1(classes=10)
    net.initialize()
    net.hybridize()
    loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01})

    def step(batch):
        with mx.autograd.record():
            value = loss(net(batch.data[0].as_in_context(mx.cpu())), batch.label[0].as_in_context(mx.cpu()))
        value.backward()
        trainer.step(16)
        value.wait_to_read()
    batches = records(mx, path, 112, 16)
    first = batches.next()
    for _ in range(3):
        step(first)
    found = []
    for feed in (lambda: [first] * (COUNT // 16), lambda: batches):
        batches.reset()
        start = time.perf_counter()
        for batch in feed():
            step(batch)
        found.append((time.perf_counter() - start) / (COUNT // 16))
    return found


def measure(package, only, seconds):
    """Yields (pipeline, [seconds of an epoch]) and ("steps", [seconds on one batch, seconds on batches being read])."""
    mx = importlib.import_module(package)
    with tempfile.TemporaryDirectory() as folder:
        path = pictures(mx, folder)
        for name, make in CASES.items():
            # MXNet fails when several threads read a record file
            unsafe = package == "mxnet" and name == "DataLoader, 2 threads"
            if fnmatch.fnmatch(name, only) and not unsafe:
                yield name, [_measure.best(make(mx, path), seconds) / 1e3]
        if fnmatch.fnmatch("steps", only):
            yield "steps", steps(mx, path)


def show(ours, theirs):
    """The Markdown table."""
    lines = ["| pipeline | mxjax pictures/s | MXNet pictures/s | mxjax / MXNet |", "|---|---|---|---|"]
    for name in CASES:
        if name in ours:
            rate, other = (COUNT / side[name][0] if name in side else None for side in (ours, theirs))
            both = f"{other:.0f} | {rate / other:.2f}" if other else "- | -"
            lines.append(f"| {name} | {rate:.0f} | {both} |")
    for side, name in ((ours, "mxjax"), (theirs, "MXNet")):
        if "steps" in side:
            alone, fed = side["steps"]
            lines.append(f"\n{name}: a ResNet-18 step of 16 pictures takes {alone * 1e3:.0f} ms, and {fed * 1e3:.0f} "
                         f"ms ({fed / alone:.2f}) while the next ones are read.")
    return "\n".join(lines)


if __name__ == "__main__":
    _measure.main(__file__, __doc__, measure, show)
