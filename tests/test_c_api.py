"""What scripts do with MXNet's C functions and handles by `ctypes`."""

import ctypes
import subprocess
import sys
import threading

import numpy as np
import pytest

import mxjax as mx
from mxjax.base import (
    _LIB,
    NDArrayHandle,
    SymbolHandle,
    c_str,
    c_str_array,
    check_call,
    get_last_ffi_error,
    mx_uint,
    py_str,
)
from mxjax.graph import backends
from mxjax.graph.node import topological

from .internals import outputs_of


def _graph():
    data = mx.sym.var("data", shape=(2, 3))
    return mx.sym.tanh(mx.sym.FullyConnected(mx.sym.exp(data, name="exp"), num_hidden=4, name="fc"))


def _operators(symbol):
    return [node.op.name for node in topological(outputs_of(symbol)) if node.op is not None]


def test_numbers_are_written_through_pointers():
    number = ctypes.c_int()
    check_call(_LIB.MXGetVersion(ctypes.byref(number)))
    assert number.value == 10901
    check_call(_LIB.MXGetGPUCount(ctypes.pointer(number)))
    assert number.value == mx.num_gpus()
    before = mx.engine.set_bulk_size(7)
    check_call(_LIB.MXEngineSetBulkSize(ctypes.c_int(before), ctypes.byref(number)))
    assert number.value == 7 and mx.engine.set_bulk_size(before) == before
    count, names = mx_uint(), ctypes.POINTER(ctypes.c_char_p)()
    check_call(_LIB.MXListAllOpNames(ctypes.byref(count), ctypes.byref(names)))
    assert {"Convolution", "sgd_update"} <= {py_str(names[i]) for i in range(count.value)}


def test_seeds_are_those_of_the_library():
    drawn = []
    for seed in (lambda: mx.random.seed(5), lambda: check_call(_LIB.MXRandomSeed(ctypes.c_int(5)))):
        seed()
        drawn.append(mx.nd.random.uniform(shape=3).asnumpy().tolist())
    check_call(_LIB.MXNDArrayWaitAll())
    assert drawn[0] == drawn[1]


def test_arrays_and_pointers():
    a = mx.nd.arange(6).reshape((2, 3))
    handle = ctypes.cast(a[1], NDArrayHandle)
    with pytest.raises(mx.MXNetError, match="existing NDArray"):  # the view is gone
        mx.nd.NDArray(handle)
    b = mx.nd.NDArray(ctypes.cast(a, NDArrayHandle), writable=False)
    a[1] = 7
    assert b.asnumpy().tolist() == [[0, 1, 2], [7, 7, 7]]
    with pytest.raises(mx.MXNetError, match="existing Symbol"):
        mx.sym.Symbol(ctypes.cast(a, SymbolHandle))


def test_monitors_may_take_handles():
    seen = {}

    def callback(name, array):
        seen[py_str(name)] = mx.nd.NDArray(ctypes.cast(array, NDArrayHandle), writable=False).asnumpy()
    executor = _graph().simple_bind(mx.cpu(), grad_req="null")
    executor.set_monitor_callback(callback)
    executor.forward()
    np.testing.assert_array_equal(seen["exp_output"], np.ones((2, 3)))
    assert len(seen) == 3


def test_dlpack_by_hand():
    x = mx.nd.arange(6).reshape((2, 3))
    capsule = ctypes.py_object(mx.nd.to_dlpack_for_read(x))
    python = ctypes.PyDLL(None)
    python.PyCapsule_GetPointer.restype = ctypes.c_void_p
    tensor = ctypes.c_void_p(python.PyCapsule_GetPointer(capsule, b"dltensor"))
    handle = NDArrayHandle()
    check_call(_LIB.MXNDArrayFromDLPack(tensor, ctypes.byref(handle)))
    python.PyCapsule_SetName(capsule, c_str("used_dltensor"))
    python.PyCapsule_SetDestructor(capsule, None)
    assert mx.nd.NDArray(handle=handle).asnumpy().tolist() == [[0, 1, 2], [3, 4, 5]]


def test_memory_is_copied_to_and_from_arrays():
    def place(values):
        return values.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(values.size)
    x = mx.nd.arange(12).reshape((3, 4))
    found = np.zeros(4, "float32")
    for array, expected in ((x[1], [4, 5, 6, 7]), (x[:2, :2].T, [0, 4, 1, 5])):
        check_call(_LIB.MXNDArrayWaitToRead(array.handle))
        check_call(_LIB.MXNDArraySyncCopyToCPU(array.handle, *place(found)))
        assert found.tolist() == expected
    row = x[2]
    check_call(_LIB.MXNDArraySyncCopyFromCPU(row.handle, *place(np.float32([1, 2, 3, 4]))))
    check_call(_LIB.MXNDArrayWaitToWrite(row.handle))
    assert x.asnumpy()[1:].tolist() == [[4, 5, 6, 7], [1, 2, 3, 4]]
    with pytest.raises(mx.MXNetError, match="12 elements, and the memory 4"):
        check_call(_LIB.MXNDArraySyncCopyToCPU(x.handle, *place(found)))
    with pytest.raises(mx.MXNetError, match="dense"):
        check_call(_LIB.MXNDArraySyncCopyFromCPU(mx.nd.sparse.zeros("csr", (2, 2)).handle, *place(found)))


def test_the_types_that_everybody_sees_in_ctypes_stay_until_the_library_is_asked_for():
    script = """
import ctypes
functions = [getattr(ctypes.pythonapi, "PyCapsule_" + name)
             for name in ("New", "GetPointer", "IsValid", "SetName", "SetDestructor")]
before = [(f.restype, f.argtypes, getattr(f, "errcheck", None)) for f in functions]
import mxjax as mx
assert mx.nd.from_dlpack(mx.nd.to_dlpack_for_read(mx.nd.ones((2,)))).asnumpy().tolist() == [1, 1]
assert [(f.restype, f.argtypes, getattr(f, "errcheck", None)) for f in functions] == before, functions
mx.base._LIB.MXNDArrayWaitAll()
capsule = ctypes.py_object(mx.nd.to_dlpack_for_read(mx.nd.ones((2,))))
pointer = ctypes.c_void_p(ctypes.pythonapi.PyCapsule_GetPointer(capsule, b"dltensor"))  # as MXNet's scripts do
handle = mx.base.NDArrayHandle()
mx.base.check_call(mx.base._LIB.MXNDArrayFromDLPack(pointer, ctypes.byref(handle)))
assert mx.nd.NDArray(handle=handle).asnumpy().tolist() == [1, 1]
ctypes.pythonapi.PyCapsule_SetName(capsule, b"used_dltensor")
ctypes.pythonapi.PyCapsule_SetDestructor(capsule, None)
assert [f.restype for f in functions[2:]] == [b[0] for b in before[2:]]
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=100)


@pytest.mark.parametrize("backend", ["default", "default_v2"])
def test_parts_of_graphs_by_names_of_operators(backend, monkeypatch):
    symbol, names = _graph(), ["exp", "FullyConnected"]
    chosen = c_str(backend), mx_uint(len(names)), c_str_array(names)
    handle = SymbolHandle()
    check_call(_LIB.MXBuildSubgraphByOpNames(symbol.handle, *chosen, ctypes.byref(handle)))
    part = mx.sym.Symbol(handle)
    assert _operators(part) == ["_CachedOp", "tanh"] and part.list_inputs() == symbol.list_inputs()
    executor = symbol.simple_bind(mx.cpu(), grad_req="null")
    for array in executor.arg_arrays:
        array[:] = np.random.RandomState(0).rand(*array.shape)
    expected = executor.forward()[0].asnumpy()
    check_call(_LIB.MXSetSubgraphPropertyOpNamesV2(*chosen))
    try:
        assert _operators(symbol.optimize_for(backend)) == ["_CachedOp", "tanh"]
        check_call(_LIB.MXGenBackendSubgraph(symbol.handle, c_str(backend), ctypes.byref(handle)))
        assert _operators(mx.sym.Symbol(handle)) == ["_CachedOp", "tanh"]
        monkeypatch.setenv("MXNET_SUBGRAPH_BACKEND", backend)
        for bound in (symbol.bind(mx.cpu(), executor.arg_dict, grad_req="null"),
                      symbol.simple_bind(mx.cpu(), grad_req="null")):
            assert _operators(bound.get_optimized_symbol()) == ["_CachedOp", "tanh"]
            bound.copy_params_from(executor.arg_dict)
            np.testing.assert_allclose(bound.forward()[0].asnumpy(), expected, rtol=1e-6)
    finally:
        check_call(_LIB.MXRemoveSubgraphPropertyOpNamesV2(c_str(backend)))
    assert _operators(symbol.optimize_for(backend)) == ["exp", "FullyConnected", "tanh"]


def test_shapes_are_inferred_through_parts():
    weight = mx.sym.var("weight", shape=(1, 0, 2, 2))
    symbol = mx.sym.Convolution(mx.sym.var("data", shape=(3, 3, 10, 10)), mx.sym.sin(weight), kernel=(2, 2),
                                num_filter=1, no_bias=True)
    handle = SymbolHandle()
    check_call(_LIB.MXBuildSubgraphByOpNames(symbol.handle, c_str("default"), 1, c_str_array(["sin"]),
                                             ctypes.byref(handle)))
    part = mx.sym.Symbol(handle)
    assert part.infer_shape()[0] == symbol.infer_shape()[0] == [(3, 3, 10, 10), (1, 3, 2, 2)]
    assert part.infer_type(data="float16")[0] == symbol.infer_type(data="float16")[0]


def test_errors_are_raised_by_check_call_in_the_thread_that_made_them():
    number = SymbolHandle()
    result = _LIB.MXGenBackendSubgraph(_graph().handle, c_str("nobody"), ctypes.byref(number))
    assert result == -1
    found = []
    thread = threading.Thread(target=lambda: found.append(get_last_ffi_error()))
    thread.start()
    thread.join()
    assert "no C call has failed" in str(found[0])
    with pytest.raises(mx.MXNetError, match="nobody is not found"):
        check_call(result)
    with pytest.raises(AttributeError, match="no C library.* not MXNoSuchThing"):
        _LIB.MXNoSuchThing()


def test_backends_of_ones_own_choose_their_operators_themselves():
    @backends.register_backend("own_choice")
    class Own(backends.Backend):
        pass
    with pytest.raises(mx.MXNetError, match="own_choice selects its operators itself"):
        check_call(_LIB.MXSetSubgraphPropertyOpNames(c_str("own_choice"), 1, c_str_array(["exp"])))


def test_places_in_record_files(tmp_path):
    """As MXNet's tools/rec2idx.py and its copies ask for them."""
    path, place = str(tmp_path / "a.rec"), ctypes.c_size_t()

    def told(function, handle):
        check_call(function(handle, ctypes.byref(place)))
        return place.value
    with mx.recordio.MXIndexedRecordIO(str(tmp_path / "a.idx"), path, "w") as writer:
        for i in range(5):
            assert told(_LIB.MXRecordIOWriterTell, writer.handle) == writer.tell()
            writer.write_idx(i, b"x" * (7 * i))
    with mx.recordio.MXIndexedRecordIO(str(tmp_path / "a.idx"), path, "r") as index:
        places = [index.idx[i] for i in range(5)]
    with mx.recordio.MXRecordIO(path, "r") as reader:
        found = []
        while True:
            found.append(told(_LIB.MXRecordIOReaderTell, reader.handle))
            if reader.read() is None:
                break
        assert found[:-1] == places and len(found) == 6
        check_call(_LIB.MXRecordIOReaderSeek(reader.handle, ctypes.c_size_t(places[3])))
        assert reader.read() == b"x" * 21
    with pytest.raises(mx.MXNetError, match="is not open"):
        check_call(_LIB.MXRecordIOReaderTell(reader.handle, ctypes.byref(place)))
