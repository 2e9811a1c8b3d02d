"""`mx.np` and `mx.npx`, as users write them."""

import mxjax as mx
from mxjax import autograd, gluon, np, npx

npx.set_np()
a = np.ones((2, 3))
b = np.array([1.0, 2.0, 3.0], dtype="float32")
c = a + b * 2 - np.arange(3)
print(c.sum(), c.mean(axis=0).shape, (a > 0).all(), c.T.reshape(-1).astype("int32").item(0))
d = np.concatenate([a, c], axis=0)
e = np.dot(a, b) @ np.ones(2) if a.ndim == 1 else np.einsum("ij,j->i", a, b)
f = np.random.normal(0, 1, size=(4, 4))
g = np.linalg.inv(f + np.eye(4))
h = npx.softmax(f, axis=-1)
i = npx.relu(np.where(f > 0, f, -f))
a[0, :] = 4
a.attach_grad()
with autograd.record():
    loss = (a ** 2).sum()
loss.backward()
host = a.asnumpy()
net = gluon.nn.Dense(3)
net.initialize()
out = net(np.zeros((1, 4)))
npx.save("a.npz", {"a": a})
npx.waitall()
npx.reset_np()
print(mx.util.is_np_array())
