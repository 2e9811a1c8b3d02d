"""Data-parallel training that survives: checkpoints, and a restart that ends at the same parameters, bit for bit.

    python -m mxjax launch -n 4 examples/distributed/train.py --checkpoints /tmp/run

Kill a worker in mid-epoch (or let one kill itself: `--die 2:30`, worker 2 before step 30): the others end with an
error that names it. The same command again goes on from the last checkpoint; `launch --restarts 3` gives it again by
itself. Each step's batch depends on nothing but its number and the worker's, so an undisturbed run and a restarted one
print the same digest at the end.
"""

import argparse
import json
import os
import signal

import numpy as np

import mxjax as mx
from mxjax import autograd, gluon


def batch(step, rank, size=16):
    """A worker's data and labels in a step: points in the plane, and whether they lie in the circle."""
    points = np.random.RandomState(1000 * step + rank).uniform(-1, 1, (size, 2)).astype("float32")
    return mx.nd.array(points), mx.nd.array(np.square(points).sum(1) < 0.6)


def save(folder, step, net, trainer):
    """Writes a checkpoint; it counts only once all of it is there."""
    prefix = os.path.join(folder, f"step-{step:06d}")
    net.save_parameters(prefix + ".params")
    trainer.save_states(prefix + ".states")
    with open(os.path.join(folder, "latest.tmp"), "w", encoding="utf-8") as file:
        json.dump({"step": step, "prefix": prefix}, file)
    os.replace(os.path.join(folder, "latest.tmp"), os.path.join(folder, "latest.json"))


def restore(folder, net, trainer):
    """Loads the last checkpoint; returns the number of the next step."""
    try:
        with open(os.path.join(folder, "latest.json"), encoding="utf-8") as file:
            latest = json.load(file)
    except FileNotFoundError:
        return 0
    net.load_parameters(latest["prefix"] + ".params")
    trainer.load_states(latest["prefix"] + ".states")
    return latest["step"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kvstore", default="dist_sync")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--checkpoints", default="", help="folder that all workers see; none: no checkpoints")
    parser.add_argument("--every", type=int, default=20, help="steps between checkpoints")
    parser.add_argument("--die", default="", help="RANK:STEP, a worker that kills itself if there is no checkpoint yet")
    given = parser.parse_args()

    store = mx.kv.create(given.kvstore)
    mx.random.seed(0)
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(16, in_units=2, activation="tanh"), gluon.nn.Dense(2, in_units=16))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5, "momentum": 0.9}, kvstore=store,
                            update_on_kvstore=False)
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    begin = 0
    if given.checkpoints:
        os.makedirs(given.checkpoints, exist_ok=True)
        begin = restore(given.checkpoints, net, trainer)
    if begin:
        print(f"worker {store.rank} goes on from step {begin}", flush=True)
    doomed = tuple(map(int, given.die.split(":"))) if given.die and not begin else None
    for step in range(begin, given.steps):
        if (store.rank, step) == doomed:
            os.kill(os.getpid(), signal.SIGKILL)
        data, label = batch(step, store.rank)
        with autograd.record():
            loss = loss_of(net(data), label)
        loss.backward()
        trainer.step(data.shape[0] * store.num_workers)
        if given.checkpoints and (step + 1) % given.every == 0 and store.rank == 0:
            save(given.checkpoints, step + 1, net, trainer)
    digest = mx.kv.same_everywhere(net)
    print(f"worker {store.rank} of {store.num_workers}: loss {loss.mean().asscalar():.4f}, parameters {digest[:16]}",
          flush=True)


if __name__ == "__main__":
    main()
