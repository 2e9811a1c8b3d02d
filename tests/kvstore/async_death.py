"""Worker 1 dies; worker 0 goes on with the values that its own servers have."""

import os
import signal
import time

import mxnet as mx

store = mx.kv.create("dist_async")
store.init(0, mx.nd.zeros((2,)))  # key 0 is on worker 0's server
store.set_optimizer(mx.optimizer.create("test"))
store._barrier()
if store.rank == 1:
    store.push(0, mx.nd.ones((2,)))
    store.wait()
    os.kill(os.getpid(), signal.SIGKILL)
while not store.get_num_dead_node(4):
    time.sleep(0.05)
store._barrier()  # of those that are left
store.push(0, mx.nd.ones((2,)) * 2)
out = mx.nd.zeros((2,))
store.pull(0, out)
print(f"goes on: {store.get_num_dead_node(4)} dead, value {out.asnumpy()[0]}", flush=True)
