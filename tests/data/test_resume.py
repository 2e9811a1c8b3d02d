"""Tests of state_dict and load_state_dict: what is resumed gives the batches that the undisturbed loop gives."""

import json
import random
import weakref

import numpy as np
import pytest

import mxjax as mx
from mxjax.gluon import data

LENGTH = 23


def copied(state):
    """A state as it comes out of a file."""
    return json.loads(json.dumps(state))


def numbers(batch):
    """What tells a batch from others: its values, and its pad if it has one."""
    if isinstance(batch, mx.io.DataBatch):
        return [array.asnumpy().tolist() for array in [*batch.data, *batch.label]], batch.pad
    return batch.asnumpy().tolist()


def check(make, moments, rounds, begin=None):
    """Compares loops that are broken off and resumed, twice in a row, with an undisturbed one.

    Args:
        make: function() -> something to iterate over; drawn numbers are seeded before.
        moments: after how many batches of the second epoch to break off, and after how many more the second time.
        rounds: whether a further epoch must be the same too.
        begin: function(iterator), called before each epoch but the first.
    """
    begin = begin or (lambda _: None)

    def epochs(one, count=1):
        found = []
        for _ in range(count):
            found.append([numbers(batch) for batch in one])
            begin(one)
        return found
    seed()
    undisturbed = epochs(make(), 3)
    for moment in moments:
        seed()
        one = make()
        first, = epochs(one)
        second, batches = [], iter(one)
        for _ in range(moment):
            second.append(numbers(next(batches)))
        for _ in range(2):
            state, drawn = copied(one.state_dict()), (random.getstate(), np.random.get_state())
            seed(5)
            one = make()
            one.load_state_dict(state)
            assert copied(one.state_dict()) == state
            random.setstate(drawn[0])
            np.random.set_state(drawn[1])
            batches = iter(one)
            for _ in range(2):
                if len(second) < len(undisturbed[1]) - 1:
                    second.append(numbers(next(batches)))
        second += [numbers(batch) for batch in batches]
        begin(one)
        assert [first, second] == undisturbed[:2], moment
        if rounds:
            assert epochs(one) == undisturbed[2:], moment


def seed(number=0):
    np.random.seed(number)
    random.seed(number)


SAMPLERS = {"sequence": lambda: data.SequentialSampler(LENGTH), "random": lambda: data.RandomSampler(LENGTH),
            "filter": lambda: data.FilterSampler(lambda x: x % 3, range(LENGTH)),
            "distributed": lambda: data.DistributedSampler(LENGTH, 2, 1, seed=2),
            "padded": lambda: data.DistributedSampler(LENGTH, 3, 1, last="pad")}


# -------------------------------------------------------------------- samplers and the DataLoader
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_samplers(sampler):
    def check_order(make):
        seed()
        one = make()
        list(one)
        order = list(one)
        for k in (1, 2, len(order) - 1, len(order)):
            seed()
            one = make()
            list(one)
            it = iter(one)
            for _ in range(k):
                next(it)
            state, again = copied(one.state_dict()), make()
            again.load_state_dict(state)
            assert list(again) == order[k:] and list(it) == order[k:]
    check_order(SAMPLERS[sampler])
    for last in ("keep", "discard", "rollover"):
        check_order(lambda last=last: data.BatchSampler(SAMPLERS[sampler](), 3, last))


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("last", ["keep", "discard", "rollover"])
def test_loader(sampler, last):
    for workers in (0, 2):
        def make(workers=workers):
            return data.DataLoader(range(LENGTH), 2, sampler=SAMPLERS[sampler](), last_batch=last,
                                   num_workers=workers, thread_pool=True, prefetch=3)
        check(make, (0, 1, 3, len(make()) - 1, len(make())), rounds=True)


def test_loader_with_processes():
    made = []

    def make():  # one loader with workers, and one without to go on
        made.append(data.DataLoader(range(LENGTH), 3, shuffle=True, num_workers=2 * (not made)))
        return made[-1]
    loader = make()
    batches = iter(loader)
    seen = [numbers(next(batches)) for _ in range(2)]
    resumed = make()
    resumed.load_state_dict(copied(loader.state_dict()))
    rest = [numbers(batch) for batch in batches]
    assert [numbers(batch) for batch in resumed] == rest and sorted(sum(seen + rest, [])) == list(range(LENGTH))
    loader.load_state_dict(copied(loader.state_dict()))  # at the end
    assert sorted(sum(map(numbers, loader), [])) == list(range(LENGTH))


def test_loader_that_loads_the_next_round_ahead():
    def make():
        return data.DataLoader(range(LENGTH), 4, sampler=data.DistributedSampler(LENGTH, 2, 0), num_workers=1,
                               thread_pool=True, auto_reload=True)
    check(make, (0, 1, 2, 3), rounds=True)


def test_loop_that_says_its_epochs():
    """As scripts have it: `for epoch in range(first, 3): sampler.set_epoch(epoch); for batch in loader: ...`."""
    def run(stop=None, state=None):
        sampler = data.DistributedSampler(LENGTH, 2, 1)
        loader = data.DataLoader(range(LENGTH), 2, sampler=sampler, num_workers=1, thread_pool=True)
        if state is not None:
            loader.load_state_dict(state["loader"])
        seen = []
        for epoch in range(state["epoch"] if state else 0, 3):
            sampler.set_epoch(epoch)
            for batch in loader:
                seen.append(numbers(batch))
                if len(seen) == stop:
                    return seen, copied({"epoch": epoch, "loader": loader.state_dict()})
        return seen, None
    whole, _ = run()
    for stop in range(1, len(whole)):
        begin, state = run(stop)
        assert begin + run(state=state)[0] == whole, stop


def test_failed_batches_are_not_counted():
    samples = list(range(6))
    broken = data.SimpleDataset(samples).transform(lambda x: x if x != 2 else 1 // 0)
    for workers in (0, 1):
        loader = data.DataLoader(broken, 2, num_workers=workers, thread_pool=True)
        with pytest.raises(ZeroDivisionError):
            list(loader)
        resumed = data.DataLoader(samples, 2)
        resumed.load_state_dict(loader.state_dict())
        assert [numbers(batch) for batch in resumed] == [[2, 3], [4, 5]]


class Own(data.Sampler):
    """The odd numbers below 9; from a position on if it has one."""

    def __iter__(self):
        return iter(range(1, 9, 2))

    def __len__(self):
        return 4


class OwnWithState(Own):
    at = 1

    def __iter__(self):
        for number in range(self.at, 9, 2):
            self.at = number + 2
            yield number
        self.at = 1

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.at = state["at"]


class Reversed(data.SequentialSampler):
    def __iter__(self):
        return iter(list(super().__iter__())[::-1])


@pytest.mark.parametrize("options,name", [
    ({"batch_size": 2, "sampler": Own()}, "Own"), ({"batch_size": 2, "sampler": Reversed(9)}, "Reversed"),
    ({"batch_sampler": data.BatchSampler(Own(), 2)}, "Own"), ({"batch_sampler": [[0, 1], [2]]}, "list")])
def test_samplers_without_a_state_are_named(options, name):
    loader = data.DataLoader(range(9), **options)
    assert list(loader)  # all the same
    for function in (loader.state_dict, lambda: loader.load_state_dict({})):
        with pytest.raises(TypeError, match=rf"^{name} does not define state_dict\(\)"):
            function()


def test_own_samplers_with_a_state():
    loader = data.DataLoader(range(9), 2, sampler=OwnWithState(), num_workers=1, thread_pool=True)
    first = next(iter(loader))
    resumed = data.DataLoader(range(9), 2, sampler=OwnWithState())
    resumed.load_state_dict(copied(loader.state_dict()))
    assert numbers(first) == [1, 3] and [numbers(batch) for batch in resumed] == [[5, 7]]


def test_the_generator_need_not_be_the_usual_one():
    sampler = data.RandomSampler(9)
    before = np.random.get_bit_generator()
    np.random.set_bit_generator(np.random.PCG64(1))
    try:
        it = iter(sampler)
        first = [int(next(it)) for _ in range(4)]
        state = copied(sampler.state_dict())
    finally:
        np.random.set_bit_generator(before)
    again = data.RandomSampler(9)
    again.load_state_dict(state)
    assert sorted(first + list(again)) == list(range(9))


def test_workers_end_with_an_abandoned_loader():
    """A loader keeps how far a round is, but not itself."""
    loader = data.DataLoader(range(9), 2, num_workers=1, thread_pool=True)
    for _ in loader:
        break
    gone = weakref.ref(loader)
    del loader, _
    assert gone() is None


# -------------------------------------------------------------------- iterators
ROWS = np.arange(2 * LENGTH).reshape(LENGTH, 2)


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("last", ["pad", "discard", "roll_over"])
def test_ndarray_iter(last, shuffle):
    def make():
        return mx.io.NDArrayIter(ROWS, np.arange(LENGTH), 5, shuffle, last)
    check(make, (0, 1, 3, 4), rounds=True, begin=lambda one: one.reset())
    check(lambda: mx.io.PrefetchingIter(make()), (0, 1, 4), rounds=False, begin=lambda one: one.reset())
    check(lambda: mx.io.ResizeIter(make(), 6), (0, 1, 5, 6), rounds=not shuffle, begin=lambda one: one.reset())


def test_batches_larger_than_the_data():
    one = mx.io.NDArrayIter(ROWS[:3], batch_size=8, last_batch_handle="roll_over")
    again = mx.io.NDArrayIter(ROWS[:3], batch_size=8, last_batch_handle="roll_over")
    for _ in range(4):  # three samples an epoch, which roll over
        again.load_state_dict(copied(one.state_dict()))
        found = [[numbers(batch) for batch in it] for it in (one, again)]
        assert found[0] == found[1]
        one.reset()
        again.reset()


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    cv2 = pytest.importorskip("cv2")
    folder, drawn = tmp_path_factory.mktemp("records"), np.random.RandomState(0)
    with mx.recordio.MXIndexedRecordIO(folder / "a.idx", folder / "a.rec", "w") as plain, \
            mx.recordio.MXIndexedRecordIO(folder / "b.idx", folder / "b.rec", "w") as objects:
        for i in range(11):
            image = drawn.randint(0, 256, (12, 10, 3)).astype(np.uint8)
            (folder / f"{i}.png").write_bytes(cv2.imencode(".png", image)[1].tobytes())
            plain.write_idx(i, mx.recordio.pack_img((0, float(i), i, 0), image, 1, ".png"))
            objects.write_idx(i, mx.recordio.pack_img((0, [2, 5, i, 0.1, 0.1, 0.5, 0.6], i, 0), image, 1, ".png"))
    (folder / "x.lst").write_text("".join(f"{i}\t{i}\t{i}.png\n" for i in range(11)))
    return folder


@pytest.mark.parametrize("round_batch", [True, False])
@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("indexed", [True, False])
def test_image_record_iter(records, indexed, shuffle, round_batch):
    def make():
        index = {"path_imgidx": str(records / "a.idx")} if indexed else {}
        return mx.io.ImageRecordIter(path_imgrec=str(records / "a.rec"), data_shape=(3, 8, 8), batch_size=2,
                                     shuffle=shuffle, round_batch=round_batch, seed=3, rand_crop=True,
                                     rand_mirror=True, brightness=0.3, preprocess_threads=2, verbose=False,
                                     num_parts=2, part_index=1, **index)
    check(make, (0, 1, 2), rounds=True, begin=lambda one: one.reset())
    check(lambda: mx.io.PrefetchingIter(make()), (0, 1), rounds=True, begin=lambda one: one.reset())


def test_record_iter_before_its_first_batch(records):
    def make():
        return mx.io.ImageDetRecordIter(path_imgrec=str(records / "b.rec"), data_shape=(3, 8, 8), batch_size=3,
                                        shuffle=True, rand_mirror_prob=0.5, verbose=False)
    whole, again = make(), make()
    again.load_state_dict(copied(whole.state_dict()))
    assert [numbers(batch) for batch in again] == [numbers(batch) for batch in whole]
    check(make, (0, 1, 3), rounds=True, begin=lambda one: one.reset())


def test_iterators_over_rows(tmp_path):
    np.savetxt(tmp_path / "x.csv", ROWS, delimiter=",", fmt="%d")
    (tmp_path / "x.svm").write_text("".join(f"{i} 0:{i}\n" for i in range(11)))
    for round_batch in (True, False):
        check(lambda r=round_batch: mx.io.CSVIter(data_csv=str(tmp_path / "x.csv"), data_shape=(2,), batch_size=5,
                                                  round_batch=r), (0, 1, 4), rounds=True, begin=lambda one: one.reset())
        check(lambda r=round_batch: mx.io.LibSVMIter(data_libsvm=str(tmp_path / "x.svm"), data_shape=(1,), batch_size=4,
                                                     round_batch=r), (0, 1, 2), rounds=True,
              begin=lambda one: one.reset())


@pytest.mark.parametrize("last", ["pad", "discard", "roll_over"])
@pytest.mark.parametrize("source", ["stream", "index", "list", "objects"])
def test_image_iter(records, source, last):
    files = {"stream": {"path_imgrec": str(records / "a.rec")},
             "index": {"path_imgrec": str(records / "a.rec"), "path_imgidx": str(records / "a.idx"), "shuffle": True,
                       "num_parts": 2, "part_index": 1},
             "list": {"path_imglist": str(records / "x.lst"), "path_root": str(records), "shuffle": True},
             "objects": {"path_imgrec": str(records / "b.rec"), "path_imgidx": str(records / "b.idx")}}[source]
    kind = mx.image.ImageDetIter if source == "objects" else mx.image.ImageIter

    def make(**options):
        return kind(4, (3, 8, 8), last_batch_handle=last, **files, **options)
    length = 1 if source == "index" and last != "pad" else 2
    check(make, range(length + 1), rounds=True, begin=lambda one: one.reset())
    if last != "roll_over":  # images that are left over are read, and drawn for, again
        crop = 0.5 if source == "objects" else True
        check(lambda: make(rand_crop=crop, rand_mirror=True), (0, 1), rounds=False, begin=lambda one: one.reset())


def test_prefetching_of_several_iterators():
    def make():
        return mx.io.PrefetchingIter([mx.io.NDArrayIter(ROWS, np.arange(LENGTH), 5),
                                      mx.io.NDArrayIter(ROWS + 100, batch_size=5, data_name="more")])
    check(make, (0, 1, 4, 5), rounds=True, begin=lambda one: one.reset())
    ahead = make()
    next(ahead)
    state = ahead.state_dict()
    state["iters"][1]["length"] = 7
    with pytest.raises(ValueError, match="length is 7 there and 23 here"):
        ahead.load_state_dict(state)
    assert numbers(next(ahead))[0][0][0] == [10, 11]  # both are where they were

    class Plain(mx.io.DataIter):
        provide_data, provide_label = [("data", (1, 2))], []

        def next(self):
            raise StopIteration
    for outer in (mx.io.PrefetchingIter(Plain()), mx.io.ResizeIter(Plain(), 2)):
        with pytest.raises(TypeError, match="Plain has no state_dict"):
            outer.state_dict()


# -------------------------------------------------------------------- refusals
def loader(length=9, size=2, sampler=None, **options):
    return data.DataLoader(range(length), size, sampler=sampler, **options)


@pytest.mark.parametrize("one,other,words", [
    (loader, lambda: loader(8), "DataLoader: .* length is 9 there and 8 here"),
    (loader, lambda: loader(size=3), "batch_size is 2 there and 3 here"),
    (loader, lambda: loader(last_batch="discard"), "last_batch is 'keep' there and 'discard' here"),
    (loader, lambda: loader(shuffle=True), "kind is 'SequentialSampler' there and 'RandomSampler' here"),
    (lambda: data.SequentialSampler(3), lambda: data.SequentialSampler(3, 1), "start is 0 there and 1 here"),
    (lambda: data.DistributedSampler(9, 3, 1), lambda: data.DistributedSampler(9, 2, 1, seed=4, last="pad"),
     "num_parts is 3 there and 2 here; seed is 0 there and 4 here; last is 'keep' there and 'pad' here"),
    (lambda: mx.io.NDArrayIter(ROWS, batch_size=2), lambda: mx.io.NDArrayIter(ROWS[1:], None, 2, True),
     "length is 23 there and 22 here; shuffle is False there and True here"),
    (loader, lambda: mx.io.NDArrayIter(ROWS), "cursor is not there")])
def test_states_that_do_not_fit(one, other, words):
    one, other = one(), other()
    before = other.state_dict()
    with pytest.raises(ValueError, match=words):
        other.load_state_dict(copied(one.state_dict()))
    assert other.state_dict() == before
    with pytest.raises(ValueError, match="got str"):
        other.load_state_dict("state")


def test_states_of_other_files(records):
    def make(name="a.rec", index="", **options):
        return mx.io.ImageRecordIter(path_imgrec=str(records / name), data_shape=(3, 8, 8), batch_size=2,
                                     verbose=False, **({"path_imgidx": str(records / index)} if index else {}),
                                     **{"label_width": 7 if name == "b.rec" else 1, **options})
    state = make().state_dict()
    for other, words in ((make("b.rec"), "bytes is .* there and .* here"),
                         (make(index="a.idx"), "records is not there"),
                         (make(seed=2, num_parts=2), "seed is 0 there and 2 here; num_parts is 1 there and 2 here")):
        with pytest.raises(ValueError, match=words):
            other.load_state_dict(state)
    images, larger = (mx.image.ImageIter(size, (3, 8, 8), path_imglist=str(records / "x.lst"), path_root=str(records),
                                         shuffle=True) for size in (2, 3))
    with pytest.raises(ValueError, match="batch_size is 3 there and 2 here"):
        images.load_state_dict(larger.state_dict())
    with pytest.raises(ValueError, match="order in this state"):
        images.load_state_dict({**images.state_dict(), "order": list(range(1, 12))})


@pytest.mark.parametrize("damage,words", [
    ({"position": 10}, "position .* at most 9, got 10"), ({"position": -1}, "got -1"), ({"position": "x"}, "got 'x'"),
    ({"drawn_by": "abc"}, "state is corrupt"), ({"drawn_by": [0] * 9}, "each number from 0 to 8 exactly once")])
def test_damaged_states(damage, words):
    sampler = data.RandomSampler(9)
    next(iter(sampler))
    with pytest.raises(ValueError, match=words):
        sampler.load_state_dict({**sampler.state_dict(), **damage})
