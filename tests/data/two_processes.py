"""Run by `mxjax launch`: each process reads its part twice; the second time it goes on from a state after one batch."""

import json
import sys

import mxjax as mx

LENGTH = 23


def loader():
    return mx.gluon.data.DataLoader(range(LENGTH), 3, sampler=mx.gluon.data.DistributedSampler(LENGTH, seed=1))


def values(batch):
    return batch.asnumpy().tolist()


place = mx.kv.join()
batches = loader()
first = [values(batch) for batch in batches]
second = [values(next(iter(batches)))]
resumed = loader()
resumed.load_state_dict(json.loads(json.dumps(batches.state_dict())))
second += [values(batch) for batch in resumed]

records = mx.io.ImageRecordIter(path_imgrec=sys.argv[1], data_shape=(3, 8, 8), batch_size=2, round_batch=False,
                                shuffle=True, verbose=False, num_parts=place.size, part_index=place.rank)
labels = [int(x) for batch in records for x in batch.label[0].asnumpy()[:2 - batch.pad]]
with open(f"{sys.argv[2]}.{place.rank}", "w", encoding="utf-8") as file:
    json.dump({"size": place.size, "epochs": [sum(first, []), sum(second, [])], "records": labels}, file)
