"""Symbols and modules, as users write them."""

import logging

import numpy as np

import mxjax as mx

logging.basicConfig(level=logging.INFO)
data = mx.sym.Variable("data")
label = mx.sym.var("softmax_label", shape=(32,))
hidden = mx.sym.FullyConnected(data=data, num_hidden=64, name="fc1")
hidden = mx.symbol.Activation(hidden, act_type="relu", name="relu1")
hidden = mx.sym.Dropout(hidden, p=0.5) * 2 + 1 - hidden / 3
out = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(hidden, num_hidden=10), label, name="softmax")
print(out.list_arguments(), out.list_outputs(), out.name, out.attr("name"))
arguments, outputs, states = out.infer_shape(data=(32, 100))
both = mx.sym.Group([out, hidden])
out.save("net-symbol.json")
again = mx.sym.load("net-symbol.json")
text = again.tojson()

train = mx.io.NDArrayIter(np.zeros((64, 100), "float32"), np.zeros(64), batch_size=32, shuffle=True,
                          label_name="softmax_label")
module = mx.mod.Module(out, data_names=["data"], label_names=["softmax_label"], context=[mx.cpu(0)])
module.bind(data_shapes=train.provide_data, label_shapes=train.provide_label, for_training=True)
module.init_params(initializer=mx.init.Xavier())
module.init_optimizer(kvstore="local", optimizer="sgd", optimizer_params={"learning_rate": 0.1, "momentum": 0.9})
module.fit(train, eval_metric="acc", num_epoch=2, batch_end_callback=mx.callback.Speedometer(32, 10),
           epoch_end_callback=mx.callback.do_checkpoint("net"))
metric = mx.metric.create(["acc", "ce"])
train.reset()
for batch in train:
    module.forward(batch, is_train=True)
    module.update_metric(metric, batch.label)
    module.backward()
    module.update()
    print(module.get_outputs()[0].shape)
symbol, arg_params, aux_params = mx.model.load_checkpoint("net", 2)
print(arg_params["fc1_weight"].asnumpy().mean(), dict(metric.get_name_value()))
executor = out.simple_bind(mx.cpu(), data=(32, 100), grad_req="write")
executor.arg_dict["data"][:] = 1
executor.forward(is_train=True)
executor.backward()
print(executor.outputs[0].asnumpy(), executor.grad_dict["fc1_weight"].shape)
features = mx.sym.np.concatenate([data.as_np_ndarray(), mx.sym.np.ones((32, 2))], axis=1)
noise = mx.sym.np.random.normal(0, 1, size=(2,)) + mx.sym.np.linalg.norm(features)
