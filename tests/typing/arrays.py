"""NDArrays, as users write them."""

import numpy as np

import mxjax as mx
from mxjax import nd

a = mx.nd.array([[1, 2], [3, 4]], dtype="float32", ctx=mx.cpu())
b = nd.ones((2, 2)) + a * 2 - 1 / (a + 1) ** 2
c = 3 - b % 2
a += 1
a[0] = 5
a[:, 1] = nd.zeros(2)
mask = (a > 1) * (b <= 3)
total = (mask * c).sum(axis=1, keepdims=True)
print(total.asnumpy().tolist(), total.asscalar() if total.size == 1 else None, a.shape[0], a.dtype, a.context, len(a))
d = nd.dot(a, b.T).reshape((-1, 4)).astype("int32").expand_dims(0)
e = nd.concat(a, b, dim=0)
f = nd.stack(a, b, axis=1)
g = nd.random.normal(0, 1, shape=(3, 3), ctx=mx.cpu())
h = nd.softmax(g, axis=-1).argmax(axis=1)
i = g.slice_axis(axis=0, begin=0, end=2).transpose((1, 0)).clip(0, 1)
j = nd.broadcast_add(g, nd.arange(3).reshape((1, 3)))
k = nd.where(g > 0, g, nd.zeros_like(g))
values, places = nd.topk(g, k=2, ret_typ="both")
parts = g.split(num_outputs=3, axis=1)
nd.save("arrays.nd", {"a": a, "b": b})
loaded = nd.load("arrays.nd")
nd.elemwise_add(a, b, out=a)
s = nd.sparse.csr_matrix((np.ones(2), np.array([0, 1]), np.array([0, 1, 2])), shape=(2, 2))
t = s.tostype("default")
a.attach_grad()
with mx.autograd.record(train_mode=True):
    loss = (a * a).mean()
loss.backward()
gradient = a.grad
if gradient is not None:
    print(gradient.asnumpy())
u = nd.Convolution(nd.ones((1, 1, 3, 3)), nd.ones((1, 1, 2, 2)), kernel=(2, 2), num_filter=1, no_bias=True)
v = nd.contrib.box_nms(nd.ones((1, 4, 6)), overlap_thresh=0.5)
w = nd.linalg.gemm2(a, b, transpose_b=True)
numpy_array: np.ndarray = a.asnumpy()
copy: nd.NDArray = a.copyto(mx.cpu())
nd.waitall()
