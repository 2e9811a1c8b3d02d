"""A custom operator, a data set, a `TrainStep`, as users write them."""

from collections.abc import Sequence

import numpy as np

import mxjax as mx
from mxjax import gluon


class Sigmoid(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        x = in_data[0].asnumpy()
        self.assign(out_data[0], req[0], mx.nd.array(1 / (1 + np.exp(-x))))

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        y = out_data[0]
        self.assign(in_grad[0], req[0], out_grad[0] * y * (1 - y))


@mx.operator.register("typed_sigmoid")
class SigmoidProp(mx.operator.CustomOpProp):
    def __init__(self) -> None:
        super().__init__(need_top_grad=True)

    def list_arguments(self) -> list[str]:
        return ["data"]

    def infer_shape(self, in_shape):
        return in_shape, [in_shape[0]], []

    def create_operator(self, ctx, shapes, dtypes):
        return Sigmoid()


class Squares(gluon.data.Dataset):
    def __getitem__(self, idx: int) -> tuple[np.ndarray, float]:
        return np.full(3, idx, "float32"), float(idx ** 2)

    def __len__(self) -> int:
        return 10


def batchify(samples: Sequence[tuple[np.ndarray, float]]) -> tuple[mx.nd.NDArray, mx.nd.NDArray]:
    rows, targets = zip(*samples, strict=True)
    return mx.nd.array(np.stack(rows)), mx.nd.array(targets)


out = mx.nd.Custom(mx.nd.ones((2, 2)), op_type="typed_sigmoid")
loader = gluon.data.DataLoader(Squares().transform_first(lambda row: row * 2), batch_size=5, batchify_fn=batchify,
                               sampler=gluon.data.RandomSampler(10))
net = gluon.nn.Dense(1)
net.initialize()
trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 1e-3})
step = gluon.TrainStep(net, gluon.loss.L2Loss(), trainer)
for rows, targets in loader:
    print(step(rows, targets).mean().asscalar())


def planned() -> int:  # where the device's compiler is installed
    plan = step.plan(mx.nd.ones((4, 3)), mx.nd.ones((4, 1)), on="h100")
    print(plan.fits, plan.bound, f"{plan.step:.3f} s")
    return plan.memory["total"]


store = mx.kv.create("local")
store.init(3, mx.nd.ones((2, 2)))
store.push(3, [mx.nd.ones((2, 2)), mx.nd.ones((2, 2))])
store.pull(3, out=out)
print(store.rank, store.num_workers)
record = mx.recordio.MXIndexedRecordIO("a.idx", "a.rec", "w")
record.write_idx(0, mx.recordio.pack(mx.recordio.IRHeader(0, 1.0, 0, 0), b"bytes"))
record.close()
