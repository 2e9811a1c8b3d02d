"""A dictionary that cannot grow for ever."""

import pickle
import threading

from mxjax._support.bounded import Bounded


def test_the_older_half_goes():
    kept = Bounded(4)
    for i in range(5):
        kept[i] = i
    assert dict(kept) == {2: 2, 3: 3, 4: 4} and kept.setdefault(4, 0) == 4 and kept.setdefault(9, 1) == 1
    assert pickle.loads(pickle.dumps(kept)) == kept


def test_threads_may_use_it():
    kept, errors = Bounded(64), []

    def use(k):
        try:
            for i in range(3000):
                kept[k, i % 100] = i
                kept.get((k, i))
        except Exception as error:
            errors.append(error)
    threads = [threading.Thread(target=use, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors and len(kept) <= 64 + 8
