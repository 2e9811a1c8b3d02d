"""What a process keeps of the memory of arrays that are gone."""

import os
import platform
import subprocess
import sys

import pytest
from marks import sampled

glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the limits are glibc's: for others none is set")

_ADDING = """
import os, resource, mxjax as mx
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])  # with many processors each thread has heaps of its own
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 >> 20
a = mx.nd.ones((MANY, 1024, 1024))
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    b, c = a + 1, a + 2
    mx.nd.waitall()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
print(sorted(faults() for _ in range(30))[15])
most = resident()
del a
mx.nd.waitall()
mx.cpu().empty_cache()
print(most - resident())
"""


def _without_limits():
    return {k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "GLIBC_TUNABLES"))}


def _measured(many=10, **environment):
    code = _ADDING.replace("MANY", str(many))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300,
                          env={**_without_limits(), **environment})
    return list(map(int, done.stdout.split()))


@glibc
def test_large_arrays_take_the_place_of_those_that_are_gone():
    """Results of 40 MB, 10240 pages, lie where earlier ones lay, until the memory is given back: also the second one,
    for which a thread's first heap has no room."""
    faults, returned = _measured()
    assert faults < 1000
    assert returned > 60


@glibc
def test_so_do_those_that_no_heap_of_a_thread_holds():
    """Results of 80 MB, 20480 pages."""
    faults, returned = _measured(20)
    assert faults < 1000
    assert returned > 120


@glibc
@pytest.mark.parametrize("limit", sampled([{"MALLOC_MMAP_THRESHOLD_": "1000000"},
                                           {"MALLOC_TOP_PAD_": "0", "MALLOC_ARENA_MAX": "9"},
                                           {"GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=1000000"}], 3))
def test_limits_in_the_environment_stay(limit):
    assert _measured(**limit)[0] > 9000


def test_each_thread_has_heaps_where_huge_pages_are_asked_for():
    code = "import ctypes, mxjax._xla.host_memory as h\nset = []\n" \
           "class Library:\n    def __init__(self, name): self.mallopt = lambda *limits: set.append(limits)\n" \
           "ctypes.CDLL = Library\nh.os.sched_getaffinity = lambda pid: {0, 1}\nh.keep_freed()\n" \
           "print([n for limit, n in set if limit == -8], len(set))"
    huge = "glibc.malloc.hugetlb="
    for tunables, wanted in ((huge + "1", "[] 3"), (huge + "2", "[] 3"), (huge + "0", "[1] 4"), ("", "[1] 4")):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300,
                              env={**_without_limits(), "GLIBC_TUNABLES": tunables})
        assert done.stdout.strip() == wanted, done.stderr


_FIRST = """
import ctypes, os
import mxjax as mx
real, threads = ctypes.CDLL, []
def names():
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/comm") as file:
            yield file.read()
class Library:
    def __init__(self, name):
        self.mallopt = lambda *limits: threads.append(any("XLA" in name for name in names()))
ctypes.CDLL = lambda name, *rest: Library(name) if name is None else real(name, *rest)
FIRST
mx.nd.ones((2, 2)).asnumpy()
print(threads[0], any("XLA" in name for name in names()))
"""


@glibc
@pytest.mark.parametrize("first", sampled([
    "mx.nd.ones((2, 2))", "mx.nd.array([1, 2])", "mx.sym.var('a').simple_bind(mx.cpu(), a=(2, 2))",
    "mx.random.uniform(shape=(2,))", "mx.context.default_device()", "mx.cpu().jax_device", "mx.nd.waitall()",
    "mx.gluon.nn.Dense(2, in_units=2).initialize()",
    "mx.mod.Module(mx.sym.relu(mx.sym.var('data')), label_names=None).bind([('data', (2, 3))])"]))
def test_limits_are_set_before_jax_has_threads(first):
    """glibc counts heaps when threads first ask for memory."""
    code = _FIRST.replace("FIRST", first)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.split() == ["False", "True"], done.stderr
