"""Run by test_checkpoint.py: trains, saves a checkpoint behind each step while it goes on, resumes from what is there.

    checkpoint_job.py FOLDER STEPS DEVICES SHARDING [LENGTH]

Behind each step, and where it resumes, it prints the step's number and a digest of all parameters and states.
FOLDER "-": saves nothing. DEVICES 0: no mesh, a net with dropout, a loader that shuffles.
"""

import hashlib
import sys

import jax
import numpy as np

folder, sharding = sys.argv[1], sys.argv[4]
steps, devices, length = int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[5]) if len(sys.argv) > 5 else 64
if devices:
    jax.config.update("jax_num_cpu_devices", devices)
import mxjax as mx  # noqa: E402  after the number of devices
from tests.internals import state_arrays_of  # noqa: E402

job = mx.kv.join()
rank, size = (job.rank, job.size) if job else (0, 1)
rng = np.random.RandomState(0)
x, y = rng.randn(16, 24).astype(np.float32), rng.randint(0, 5, 16)
mx.random.seed(5)
np.random.seed(5)
net = mx.gluon.nn.HybridSequential()
net.add(mx.gluon.nn.Dense(64, activation="relu"), mx.gluon.nn.BatchNorm(), mx.gluon.nn.Dense(length),
        mx.gluon.nn.Dense(5))
if not devices:
    net.add(mx.gluon.nn.Dropout(0.2))
net.initialize(mx.init.Uniform(0.3))
trainer = mx.gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01}, kvstore=None)
more = {"mesh": jax.make_mesh((len(jax.devices()),), ("data",)), "sharding": sharding} if devices else {}
step = mx.gluon.TrainStep(net, mx.gluon.loss.SoftmaxCrossEntropyLoss(), trainer, **more)
part = slice(rank * 16 // size, (rank + 1) * 16 // size)
loader = mx.gluon.data.DataLoader(mx.gluon.data.ArrayDataset(x, y), 4, shuffle=True) if not devices else None


def tell(number):
    found = hashlib.sha256()
    for param in net._collect_params_with_prefix().values():
        for array in (param.data(), *state_arrays_of(trainer, param)):
            found.update(array.asnumpy().tobytes())
    print("step", number, found.hexdigest()[:16], flush=True)


done = 0
if folder != "-":
    done = step.restore(folder, data=loader, missing=0)
    if done:
        tell(done)
while done < steps:
    for batch in loader or [(mx.nd.array(x[part]), mx.nd.array(y[part]))]:
        step(*batch)
        done += 1
        if folder != "-":
            step.save(folder, data=loader, keep=3)
        tell(done)
        if done == steps:
            break
