"""mx.profiler: traces, statistics, a user's own events."""

import gc
import json
import os
import subprocess
import sys

import jax
import pytest

import mxjax as mx
from mxjax import profiler


@pytest.fixture
def trace(tmp_path):
    """Starts the profiler; reading it ends it and returns the events of the file."""
    path = tmp_path / "trace.json"
    profiler.set_config(profile_all=True, aggregate_stats=True, continuous_dump=False, filename=str(path))
    profiler.dumps(reset=True)
    profiler.set_state("run")

    def read(finished=True):
        profiler.dump(finished)
        return json.loads(path.read_text())["traceEvents"]
    yield read
    profiler.set_state("stop")
    profiler.dumps(reset=True)
    profiler.set_config()


def _times(**how):
    return json.loads(profiler.dumps(format="json", **how))["Time"]


def test_operators_graphs_and_memory_are_recorded(trace):
    x = mx.nd.zeros((3, 4))
    ((x + 1) + 1).sqrt().wait_to_read()
    net = mx.sym.relu(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2)).simple_bind(mx.cpu(), data=(3, 4))
    net.forward()[0].wait_to_read()
    times = _times()
    counts = {name: row["Count"] for name, row in times["operator"].items()}
    assert [counts[name] for name in ("_plus_scalar", "sqrt")] == [2, 1] and counts["_zeros"] >= 1
    assert times["symbolic"]["CachedOp"]["Count"] == 1
    row = times["operator"]["_plus_scalar"]
    assert 0 < row["Min"] <= row["Avg"] <= row["Max"] < row["Total"]
    told = json.loads(profiler.dumps(format="json"))
    assert told["Memory"]["Device Storage"]["Memory: cpu/0"]["Max"] > 0
    assert told["Unit"] == {"Time": "ms", "Memory": "kB"}
    events = trace()
    pairs = [e["ph"] for e in events if e["name"] == "sqrt" and e["cat"] == "operator"]
    assert pairs == ["B", "E"]
    assert any(e["ph"] == "C" and e["name"] == "Memory: cpu/0" for e in events)


@pytest.mark.parametrize("part, categories, memory", [
    ("imperative", {"operator"}, False), ("symbolic", {"symbolic"}, False), ("memory", set(), True),
    ("all", {"operator", "symbolic"}, True)])
def test_parts_are_recorded_alone(trace, part, categories, memory):
    flags = {f"profile_{name}": name == part for name in ("all", "imperative", "symbolic", "memory")}
    profiler.set_config(aggregate_stats=True, continuous_dump=False, **flags)
    (mx.nd.ones((3, 4)) * 3).wait_to_read()
    net = mx.sym.relu(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2)).simple_bind(mx.cpu(), data=(3, 4))
    net.forward()[0].wait_to_read()
    told = json.loads(profiler.dumps(format="json"))
    assert set(told["Time"]) == categories and bool(told["Memory"]) == memory


def test_a_users_events(trace):
    domain = profiler.Domain("input")
    task, frame, event = domain.new_task("decode"), domain.new_frame("epoch"), profiler.Event("check")
    for thing in (task, frame, event):
        thing.start()
        thing.stop()
    task.start()
    task.stop()
    task.stop()  # without a start it means nothing
    counter = domain.new_counter("queue", 3)
    counter += 2
    counter -= 1
    domain.new_marker("here").mark("global")
    with profiler.scope("outer:"), profiler.scope("inner"):
        pass
    assert [str(thing) for thing in (domain, task, event, counter)] == ["input", "decode", "check", "queue"]
    times = _times()
    assert times["input"]["decode"]["Count"] == 2 and times["input,frame"]["epoch"]["Count"] == 1
    assert times["event"]["check"]["Count"] == 1 and set(times["scope"]) == {"outer:", "outer:inner"}
    events = trace()
    assert [e["args"]["queue"] for e in events if e["ph"] == "C" and e["cat"] == "input"] == [3, 5, 4]
    mark = next(e for e in events if e["name"] == "here")
    assert (mark["ph"], mark["s"], mark["cat"]) == ("i", "g", "input,instant_marker")


def test_pause_and_what_is_off_record_nothing(trace):
    x = mx.nd.ones((2,))
    profiler.pause()
    (x * 3).wait_to_read()
    profiler.resume()
    (x - 3).wait_to_read()
    profiler.set_state("stop")
    x.exp().wait_to_read()
    assert set(_times()["operator"]) == {"_ones", "_minus_scalar"}


def test_the_file_grows_and_begins_anew_after_the_last_dump(trace):
    mx.nd.ones((2,)).exp().wait_to_read()
    first = trace(finished=False)
    mx.nd.ones((2,)).log().wait_to_read()
    second = trace()
    assert second[:len(first)] == first and "log" in {e["name"] for e in second[len(first):]}
    profiler.set_state("run")
    mx.nd.ones((2,)).sin().wait_to_read()
    assert {"log", "sin"} & {e["name"] for e in trace()} == {"sin"}


def test_table_and_sorting(trace):
    for _ in range(3):
        mx.nd.ones((2,)).exp()
    mx.nd.ones((2,)).log()
    order = list(_times(sort_by="count")["operator"])
    assert order == ["_ones", "exp", "log"] and list(_times(sort_by="count", ascending=True)["operator"]) == order[::-1]
    lines = profiler.dumps(reset=True).splitlines()
    assert "operator" in lines and any(line.split()[:2] == ["exp", "3"] for line in lines)
    assert _times() == {}


def test_custom_operators_are_a_category(trace):
    class Twice(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):
            self.assign(out_data[0], req[0], in_data[0] * 2)

    @mx.operator.register("profiled_twice")
    class TwiceProp(mx.operator.CustomOpProp):
        def create_operator(self, ctx, shapes, dtypes):
            return Twice()

    mx.nd.Custom(mx.nd.ones((2,)), op_type="profiled_twice").wait_to_read()
    assert {"profiled_twice::pure_python", "profiled_twice::_mul_scalar"} <= set(_times()["Custom Operator"])


def test_wrong_arguments():
    with pytest.raises(mx.MXNetError, match="colour.*known: filename"):
        profiler.set_config(colour="red")
    with pytest.raises(mx.MXNetError, match="dump_period='soon'"):
        profiler.set_config(dump_period="soon")
    with pytest.raises(KeyError):
        profiler.set_state("walk")
    with pytest.raises(mx.MXNetError, match="'town'; known: global"):
        profiler.Domain("d").new_marker("m").mark("town")
    with pytest.raises(AssertionError, match="'table', 'json'"):
        profiler.dumps(format="xml")
    with pytest.raises(mx.MXNetError, match="set_kvstore_handle"):
        profiler.set_state("run", profile_process="server")


def test_autostart(tmp_path):
    script = "import mxjax as mx; mx.nd.ones((2,)).exp().wait_to_read()"
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True, timeout=100,
                   env=dict(_environment(), MXNET_PROFILER_AUTOSTART="1"))
    events = json.loads((tmp_path / "profile.json").read_text())["traceEvents"]
    assert {"exp", "_ones"} <= {e["name"] for e in events}


def _environment():
    import os
    from pathlib import Path
    root = str(Path(mx.__file__).parents[1])
    return dict(os.environ, PYTHONPATH=os.pathsep.join([root, os.environ.get("PYTHONPATH", "")]))


def test_each_device_counts_what_its_allocator_tells_or_what_is_alive():
    """A GPU beside a CPU: what the one tells is not counted once more for the other."""
    host = jax.local_devices(backend="cpu")[0]

    class Telling:
        platform, id = "cuda", 0

        @staticmethod
        def memory_stats():
            return {"bytes_in_use": 77}
    gc.collect()
    before = mx.storage.used([host])[host]
    kept = mx.nd.zeros((1024, 256))
    kept.wait_to_read()
    found = mx.storage.used([host, telling := Telling()])
    assert found[telling] == 77 and found[host] == before + kept.size * 4
    assert mx.storage.live_bytes(mx.cpu()) == found[host]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_child_does_not_wait_for_threads_of_its_parent(tmp_path):
    code = """
import os, sys, threading, time, mxjax as mx
from mxjax import profiler
taken = threading.Event()
def write():
    with profiler._profiler.writing, profiler._profiler.lock, profiler._profiler.switching:
        taken.set()
        time.sleep(600)
threading.Thread(target=write, daemon=True).start()
taken.wait()
child = os.fork()
if child == 0:
    mx.profiler.set_config(filename=sys.argv[1], profile_all=True)
    mx.profiler.set_state("run")
    (mx.nd.ones((2, 2)) + 1).asnumpy()
    mx.profiler.set_state("stop")
    mx.profiler.dump()
    os._exit(7)
end = time.monotonic() + 100
while not os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) and time.monotonic() < end:
    time.sleep(0.01)
os.kill(child, 9)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
os._exit(0)
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code, str(tmp_path / "profile.json")],
                          capture_output=True, text=True)
    assert done.stdout == "7\n", done.stderr[-2000:]
    assert json.loads((tmp_path / "profile.json").read_text())["traceEvents"]
