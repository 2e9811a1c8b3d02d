"""What a worker under another launcher does: it joins when it asks for a store (too late with `late`).

With `die`, worker 0 kills itself, and worker 1 waits for it.
"""

import os
import signal
import sys

import mxjax as mx

if "late" in sys.argv:
    mx.nd.ones((3,)).asnumpy()
store = mx.kv.create("dist_sync")
if "die" in sys.argv:
    store._barrier()
    if store.rank == 0:
        os.kill(os.getpid(), signal.SIGKILL)
store.init(0, mx.nd.zeros((3,)))
store.push(0, mx.nd.ones((3,)) * (store.rank + 1))
out = mx.nd.zeros((3,))
store.pull(0, out)
print(f"worker {store.rank} of {store.num_workers} has {out.asnumpy().tolist()}")
