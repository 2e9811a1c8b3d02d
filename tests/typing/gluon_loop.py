"""A Gluon training loop, as users write it."""

from typing import Any

import mxjax as mx
from mxjax import autograd, gluon, init
from mxjax.gluon import nn


class Block(nn.HybridBlock):
    def __init__(self, channels: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.conv = nn.Conv2D(channels, kernel_size=3, padding=1, use_bias=False)
            self.norm = nn.BatchNorm()
            self.scale = self.params.get("scale", shape=(1,), init=init.One())

    def hybrid_forward(self, F, x, scale):
        out = F.Activation(self.norm(self.conv(x)), act_type="relu")
        return F.broadcast_mul(out, scale) + x


def accuracy(net: gluon.Block, loader: gluon.data.DataLoader, ctx: mx.Context) -> float:
    metric = mx.metric.Accuracy()
    for data, label in loader:
        out = net(data.as_in_context(ctx))
        metric.update(label, out)
    name, value = metric.get()
    print(name, value)
    return float(value)


ctx = mx.gpu(0) if mx.context.num_gpus() else mx.cpu()
net = nn.HybridSequential(prefix="net_")
with net.name_scope():
    net.add(nn.Conv2D(8, 3, activation="relu"), nn.MaxPool2D(2), Block(8), nn.GlobalAvgPool2D(), nn.Flatten())
    net.add(nn.Dropout(0.5))
    net.add(nn.Dense(10))
net.initialize(mx.init.Xavier(magnitude=2.24), ctx=ctx)
net.hybridize(static_alloc=True)
schedule = mx.lr_scheduler.FactorScheduler(step=100, factor=0.5)
optimizer = mx.optimizer.SGD(learning_rate=0.1, momentum=0.9, lr_scheduler=schedule)
trainer = gluon.Trainer(net.collect_params(), optimizer)
loss_fn = gluon.loss.SoftmaxCrossEntropyLoss()
data = gluon.data.ArrayDataset(mx.nd.random.uniform(shape=(32, 1, 28, 28)), mx.nd.zeros((32,)))
loader = gluon.data.DataLoader(data, batch_size=8, shuffle=True, num_workers=0, last_batch="keep")
for epoch in range(2):
    total = 0.0
    for x, y in loader:
        x, y = x.as_in_context(ctx), y.as_in_context(ctx)
        with autograd.record():
            out = net(x)
            loss = loss_fn(out, y)
        loss.backward()
        trainer.step(x.shape[0])
        total += loss.mean().asscalar()
    print(epoch, total, accuracy(net, loader, ctx))
net.save_parameters("net.params")
net.load_parameters("net.params", ctx=ctx)
net.export("net", epoch=0)
weights = {name: param.data().asnumpy() for name, param in net.collect_params().items()}
for param in net.collect_params(".*weight").values():
    print(param.name, param.shape, param.grad_req, param.grad().norm().asscalar())
resnet = gluon.model_zoo.vision.resnet18_v1(classes=10)
parts = gluon.utils.split_and_load(mx.nd.ones((4, 3)), [mx.cpu(0), mx.cpu(1)])
cell = gluon.rnn.LSTM(16, num_layers=2)
