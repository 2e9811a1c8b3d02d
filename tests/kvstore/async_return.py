"""Worker 1 dies, is started again, and finds the values on the servers as the others have made them."""

import os
import signal

import mxnet as mx

store = mx.kv.create("dist_async")
store.init(0, mx.nd.zeros((2,)) + (100 if store.is_recovery else 0))  # who returns changes nothing
store.set_optimizer(mx.optimizer.create("test"))
if not store.is_recovery:
    store.push(0, mx.nd.ones((2,)))
    store.wait()
    if store.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
else:
    store.push(0, mx.nd.ones((2,)) * 10)
    store.wait()
while True:
    out = mx.nd.zeros((2,))
    store.pull(0, out)
    if out.asnumpy()[0] == 12:
        break
print(f"sees 12, returned: {store.is_recovery}, dead: {store.get_num_dead_node(4)}", flush=True)
