"""`mx.base` and `mx.util`: helpers that scripts took from there. Results of MXNet 1.9.1."""

import array
import ctypes
import os
import types

import numpy as np
import pytest

import mxjax as mx
from mxjax import base, util


def test_documentation_of_parameters():
    parts = ["a", "b", "a", "num_args"], ["int", "float", "x", "y"], ["first", "", "dup", "n"]
    assert base.build_param_doc(*parts) == "Parameters\n----------\na : int\n    first\nb : float\n"
    assert base.build_param_doc(*parts, remove_dup=False).endswith("b : float\na : x\n    dup\n")


def test_classes():
    class Meta(type):
        kind = 3

    class Own(base.with_metaclass(Meta, dict)):
        @base.classproperty
        def name(cls):
            return cls.__name__
    assert Own.kind == 3 and Own.__bases__ == (dict,) and Own({1: 2}) == {1: 2}
    assert Own.name == Own().name == "Own"


def test_values_of_c():
    numbers = array.array("i", [1, 2])
    shared = base.c_array_buf(ctypes.c_int, numbers)
    shared[0] = 5
    assert numbers[0] == 5 and list(base.c_array(ctypes.c_int, [1, 2])) == [1, 2]
    assert base.c_str("ab").value == b"ab" and list(base.c_str_array(["a", "b"])) == [b"a", b"b"]
    assert list(base.c_handle_array([numbers])) == [id(numbers)]
    text = ctypes.create_string_buffer(b"abc")
    assert base.ctypes2buffer(ctypes.cast(text, ctypes.POINTER(ctypes.c_char)), 2) == bytearray(b"ab")
    floats = (ctypes.c_float * 4)(1, 2, 3, 4)
    found = base.ctypes2numpy_shared(ctypes.cast(floats, base.mx_float_p), (2, 2))
    found[1, 0] = 9
    assert floats[2] == 9 and found.tolist() == [[1, 2], [9, 4]]
    for call, error in ((base.ctypes2buffer, TypeError), (base.ctypes2numpy_shared, RuntimeError)):
        with pytest.raises(error, match="expected (char|float) pointer, got int"):
            call(3, (3,))


def test_what_was_not_given():
    assert repr(base._Null) == "_Null" and not base._Null
    with pytest.raises(mx.MXNetError, match=r"len \(namely operator 'b'\) with arguments \(int, str\) is not"):
        raise base.NotSupportedForSparseNDArray(len, "b", 1, "x")
    assert base.py_str(b"a") == "a" and base._as_list(3) == [3] and base._as_list((1,)) == (1,)


def test_options_of_ufuncs():
    one = util.wrap_np_unary_func(lambda x, out=None: (x, out))
    two = util.wrap_np_binary_func(lambda x1, x2, out=None: (x1, x2))
    assert one(1, dtype=None, where=True, casting="same_kind", subok=True, order="K", out=2) == (1, 2)
    assert two(x1=1, x2=2, order="K") == (1, 2)
    for options, error, told in (({"dtype": "float32"}, NotImplementedError, "dtype=float32 is not implemented yet"),
                                 ({"where": False}, NotImplementedError, "where=False is not implemented yet"),
                                 ({"order": "F"}, NotImplementedError, "order=F is not implemented yet"),
                                 ({"casting": "bad"}, TypeError, "casting=bad not understood"),
                                 ({"order": 5}, TypeError, "order=5 not understood"),
                                 ({"foo": 3}, TypeError, "foo is an invalid keyword to function '<lambda>'")):
        with pytest.raises(error, match=told):
            one(1, **options)
    for key, value, legal in (("where", 3, True), ("casting", "safe", True), ("casting", "x", False),
                              ("order", "C", True), ("order", 5, False), ("dtype", "float32", True),
                              ("dtype", np.float16, True), ("dtype", "x", False), ("subok", True, True),
                              ("subok", 1, False), ("foo", 1, False)):
        assert util.np_ufunc_legal_option(key, value) is legal, (key, value)


def test_arguments_by_older_names():
    def given(**now):
        return now
    assert util.wrap_ctx_to_device_func(given)(ctx=1) == {"device": 1} and util.wrap_ctx_to_device_func(given)() == {}
    assert util.wrap_data_api_statical_func(given)(ddof=1, axis=2) == {"correction": 1, "axis": 2}
    linalg = util.wrap_data_api_linalg_func(given)
    assert [linalg(UPLO="U"), linalg(UPLO="L"), linalg(rcond=2), linalg(tol=3), linalg(tol=None)] == [
        {"upper": True}, {"upper": False}, {"rtol": 2}, {"rtol": 3}, {}]
    sort = util.wrap_sort_functions(given)
    assert [sort(kind="stable"), sort(kind="quicksort"), sort(order=None)] == [
        {"stable": True}, {"stable": False}, {}]
    with pytest.raises(NotImplementedError, match="order not supported here"):
        sort(order="a")


def test_dtypes_of_numbers():
    found = [util.dtype_from_number(n) for n in (1, 2**63, 1.5, 1e300, float("inf"), np.int8(1))]
    assert found == [np.int64, np.uint64, np.float32, np.float64, np.float32, np.int8]
    with pytest.raises(OverflowError, match="does not fit"):
        util.dtype_from_number(2**64)
    with pytest.raises(TypeError, match="expected a number, got str"):
        util.dtype_from_number("1")


def test_the_machine(monkeypatch):
    monkeypatch.delenv("MXJAX_NOTHING", raising=False)
    util.setenv("MXJAX_NOTHING", "a")
    assert util.getenv("MXJAX_NOTHING") == os.environ["MXJAX_NOTHING"] == "a"
    util.setenv("MXJAX_NOTHING", None)
    util.setenv("MXJAX_NOTHING", None)
    assert util.getenv("MXJAX_NOTHING") is None
    assert util.get_gpu_count() == mx.context.num_gpus()
    for wrong in (mx.cpu(), 3):
        with pytest.raises(ValueError, match="Expecting a gpu context to get cuda compute capability"):
            util.get_cuda_compute_capability(wrong)


@pytest.mark.parametrize("stats", [None, {}, {"bytes_in_use": 3, "bytes_limit": 10}])
def test_the_memory_of_a_gpu(monkeypatch, stats):
    device = types.SimpleNamespace(memory_stats=lambda: stats)
    monkeypatch.setattr(mx.context, "gpu", lambda device_id: types.SimpleNamespace(jax_device=device))
    if stats:
        assert mx.context.gpu_memory_info(1) == (7, 10)
    else:
        with pytest.raises(mx.MXNetError, match=r"gpu\(1\) provides no memory statistics"):
            mx.context.gpu_memory_info(1)


@pytest.mark.parametrize("decorate, inside", [(util.use_np_shape, (True, False)), (util.use_np_array, (False, True)),
                                              (util.use_np, (True, True))])
def test_decorators(decorate, inside):
    def semantics():
        return util.is_np_shape(), util.is_np_array()
    assert decorate(semantics)() == inside and semantics() == (False, False)

    class Base:
        def method(self):
            return semantics()

        @property
        def value(self):
            return semantics()
    assert decorate(type("Own", (Base,), {}))().method() == inside == decorate(Base)().value
    with pytest.raises(TypeError, match="only functions and classes can be decorated, got int"):
        decorate(3)
