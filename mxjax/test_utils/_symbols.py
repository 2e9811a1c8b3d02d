"""Running and differentiating symbols, and comparisons with expected values."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from .. import autograd, level
from .. import ndarray as nd
from .. import symbol as sym
from .._random.streams import next_key
from .._xla.x64 import x64_mode
from ..context import Context
from ..kernel.compiled import Compiled
from ..ndarray import NDArray
from ..ops.common import by_own_rules
from ..ops.params import np_dtype
from ..symbol import Symbol
from ._compare import _numpy, assert_almost_equal
from ._defaults import default_atols, default_context, default_numeric_eps, default_rtols, get_tolerance

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from ..executor._executor import Executor, GradReq
    from ..ops.params import DTypeLike
    from ._defaults import Tolerance

Named: TypeAlias = dict[str, Any] | Sequence[Any]  # values by name, or in the order of the names
_rng = np.random.RandomState(1234)


def simple_forward(sym: Symbol, ctx: Context | None = None, is_train: bool = False, **inputs: np.ndarray) -> Any:
    """Binds NumPy arrays by name, runs forward and returns the outputs as NumPy arrays (one, or a list)."""
    ctx = ctx or default_context()
    executor = sym.bind(ctx, args={k: nd.array(v, ctx=ctx) for k, v in inputs.items()})
    outputs = [o.asnumpy() for o in executor.forward(is_train=is_train)]
    return outputs[0] if len(outputs) == 1 else outputs


def _by_name(what: str, names: list[str], values: Named, ctx: Context,
             dtype: DTypeLike) -> dict[str, NDArray]:
    """Values given by name, or in the order of `names`, as NDArrays of a dtype (None: each value's own)."""
    if not isinstance(values, dict):
        values = dict(zip(names, values, strict=False))
    elif set(values) != set(names):
        raise ValueError(f"the symbol's {what} are {names}, got {list(values)}")
    return {name: _placed(value, ctx, dtype) for name, value in values.items()}


def _placed(value: ArrayLike, ctx: Context, dtype: DTypeLike) -> NDArray:
    if isinstance(value, NDArray):
        return value.as_in_context(ctx)
    value = np.asarray(value)
    return nd.array(value, ctx=ctx, dtype=value.dtype if dtype is None or dtype == "asnumpy" else dtype)


def _location(symbol: Symbol, location: Named, ctx: Context,
              dtype: DTypeLike) -> dict[str, NDArray]:
    return _by_name("arguments", symbol.list_arguments(), location, ctx, dtype)


def _aux(symbol: Symbol, states: Named | None, ctx: Context,
         dtype: DTypeLike) -> dict[str, NDArray] | None:
    return None if states is None else _by_name("auxiliary states", symbol.list_auxiliary_states(), states, ctx, dtype)


def numeric_grad(executor: Executor, location: dict[str, NDArray], aux_states: dict[str, NDArray] | None = None,
                 eps: float = 1e-4, use_forward_train: bool = True,
                 dtype: DTypeLike = np.float32) -> dict[str, np.ndarray]:
    """Computes gradients of the sum of an executor's first output by central differences, which are
    summed after the subtraction.

    Args:
        executor: bound executor.
        location: arguments by name; those of a floating dtype are varied.
        aux_states: auxiliary states, reset before each evaluation.
        eps: step.
        use_forward_train: run in training mode.
        dtype: dtype of the result.
    """
    for name, array in location.items():
        executor.arg_dict[name][:] = array
    varied = [name for name, array in location.items()
              if np.dtype(array.dtype).kind == "f" or np.dtype(array.dtype) == np_dtype("bfloat16")]
    if executor._one_program:
        for name, state in (aux_states or {}).items():
            executor.aux_dict[name][:] = state
        return _differences(executor, varied, eps, use_forward_train, dtype)

    def values() -> np.ndarray:
        for name, state in (aux_states or {}).items():
            executor.aux_dict[name][:] = state
        return executor.forward(is_train=use_forward_train)[0].asnumpy().astype(np.float64)
    result = {}
    for name in varied:
        array = location[name]
        base = array.asnumpy()
        grad = np.zeros(base.shape, dtype)
        point = base.copy()
        for index in np.ndindex(*base.shape):
            differences = []
            for sign in (1, -1):
                point[index] = base[index] + sign * eps / 2
                executor.arg_dict[name][:] = nd.array(point, dtype=array.dtype)
                differences.append(values())
            point[index] = base[index]
            grad[index] = (differences[0] - differences[1]).sum() / eps
        executor.arg_dict[name][:] = array
        result[name] = grad
    return result


def _differences(executor: Executor, varied: list[str], eps: float, train: bool,
                 dtype: DTypeLike) -> dict[str, np.ndarray]:
    """The work of `numeric_grad` as one compiled loop over all elements: a call for each would cost far more."""
    graph = executor._graph
    args = {name: array.read() for name, array in executor.arg_dict.items()}
    aux = [array.read() for array in executor.aux_arrays]
    key = next_key(executor._ctx, len(graph.steps)) if graph.random else ()
    with x64_mode(graph.x64([*args.values(), *aux], train)):
        @Compiled
        @by_own_rules
        def all_differences(args: dict[str, Any], aux: list[Any], key: tuple, eps: jax.Array) -> dict[str, Any]:
            flat, restored = ravel_pytree({name: args[name] for name in varied})

            def difference(index: jax.Array) -> Any:
                def value(step: jax.Array) -> Any:
                    point = {**args, **restored(flat.at[index].add(step.astype(flat.dtype)))}
                    return graph.call([point[name] for name in graph.args], aux, key, train)[0][0]
                ahead, behind = jax.lax.map(value, jnp.stack([eps, -eps]) / 2)
                return (ahead.astype(eps.dtype) - behind.astype(eps.dtype)).sum() / eps
            return restored(jax.lax.map(difference, jnp.arange(flat.size)))
        result = all_differences(args, aux, key, np.promote_types(np.float32, np.dtype(dtype)).type(eps))
        return {name: np.asarray(result[name]).astype(dtype) for name in varied}


def check_numeric_gradient(sym: Symbol, location: Named,
                           aux_states: Named | None = None, numeric_eps: float | None = None,
                           rtol: Tolerance = None,
                           atol: Tolerance = None,
                           grad_nodes: Sequence[str] | dict[str, str] | None = None, use_forward_train: bool = True,
                           ctx: Context | None = None, grad_stype_dict: dict | None = None,
                           dtype: DTypeLike = np.float32) -> None:
    """Compares a symbol's gradients with finite differences of a random projection of its output.

    Args:
        sym: symbol with one output.
        location: NumPy arrays of the arguments, a list or a dictionary.
        aux_states: NumPy arrays of the auxiliary states.
        numeric_eps: step.
        rtol, atol: tolerances.
        grad_nodes: names of the arguments to check (or a dictionary of their grad_req); by default
            all.
        use_forward_train: run in training mode.
        ctx: context.
        grad_stype_dict: storage types of gradients by name.
        dtype: float16, float32 or float64.

    Raises:
        AssertionError: they differ.
    """
    ctx = ctx or default_context()
    if dtype not in (np.float16, np.float32, np.float64):
        raise ValueError(f"dtype must be float16, float32 or float64, got {dtype}")
    eps = default_numeric_eps()[np.dtype(dtype)] if numeric_eps is None else numeric_eps
    arguments = _location(sym, location, ctx, dtype)
    states = _aux(sym, aux_states, ctx, dtype)
    if grad_nodes is None:
        requests = dict.fromkeys(sym.list_arguments(), "write")
    elif isinstance(grad_nodes, dict):
        requests = dict(grad_nodes)
    else:
        requests = dict.fromkeys(grad_nodes, "write")
    shapes = {k: v.shape for k, v in arguments.items()}
    shape = sym.infer_shape(**shapes)[1][0]
    weights = np.asarray(_rng.rand(*shape), dtype) + np.asarray(0.1, dtype)
    projected = _weighted(sym)
    args = {**arguments, "__random_proj": nd.array(weights, ctx=ctx, dtype=dtype)}
    wanted = {**requests, "__random_proj": "write"}
    grads = {k: nd.array(_rng.normal(size=args[k].shape), ctx=ctx, dtype=args[k].dtype) for k, r in wanted.items()
             if r != "null"}
    for k, stype in (grad_stype_dict or {}).items():
        if k in grads and stype != "default":
            grads[k] = grads[k].tostype(stype)
    before = {k: v.asnumpy() for k, v in grads.items()}
    executor = projected.bind(ctx, args={k: v.copy() for k, v in args.items()}, args_grad=grads, grad_req=wanted,
                              aux_states={k: v.copy() for k, v in (states or {}).items()})
    executor.forward(is_train=True)
    executor.backward()
    symbolic = {k: v.asnumpy() for k, v in executor.grad_dict.items() if v is not None}
    numeric = numeric_grad(executor, arguments, states, eps, use_forward_train, dtype)
    for name, request in requests.items():
        if request == "null" or name not in numeric:
            continue
        expected = numeric[name] + (before[name] if request == "add" else 0)
        if request not in ("write", "add"):
            raise ValueError(f"Invalid grad_req {request} for {name}")
        assert_almost_equal(expected, symbolic[name], 1e-3 if rtol is None else rtol, atol,
                            (f"NUMERICAL_{name}", f"BACKWARD_{name}"))


def _weighted(symbol: Symbol) -> Symbol:
    return sym.make_loss(symbol * sym.Variable("__random_proj"))


def check_symbolic_forward(sym: Symbol, location: Named,
                           expected: Named, rtol: Tolerance = None,
                           atol: Tolerance = None,
                           aux_states: Named | None = None, ctx: Context | None = None,
                           equal_nan: bool = False, dtype: DTypeLike = np.float32) -> list[NDArray]:
    """Compares a symbol's outputs with expected ones; returns them.

    Args:
        sym: the symbol.
        location: NumPy arrays of the arguments, a list or a dictionary.
        expected: the outputs, a list or a dictionary by output name.
        rtol, atol, equal_nan: tolerances.
        aux_states: NumPy arrays of the auxiliary states.
        ctx, dtype: context and dtype of the arrays.

    Raises:
        AssertionError: they differ.
    """
    ctx = ctx or default_context()
    args = _location(sym, location, ctx, dtype)
    if isinstance(expected, dict):
        expected = [expected[k] for k in sym.list_outputs()]
    executor = sym.bind(ctx, args=args, args_grad={k: nd.empty(v.shape, ctx, v.dtype) for k, v in args.items()},
                        aux_states=_aux(sym, aux_states, ctx, dtype))
    outputs = executor.forward(is_train=False)
    for name, want, got in zip(sym.list_outputs(), expected, outputs, strict=False):
        assert_almost_equal(want, got, rtol, atol, (f"EXPECTED_{name}", f"FORWARD_{name}"), equal_nan=equal_nan)
    return executor.outputs


def check_symbolic_backward(sym: Symbol, location: Named,
                            out_grads: Named, expected: Named,
                            rtol: Tolerance = None,
                            atol: Tolerance = None,
                            aux_states: Named | None = None, grad_req: GradReq = "write",
                            ctx: Context | None = None, grad_stypes: dict | None = None, equal_nan: bool = False,
                            dtype: DTypeLike = np.float32) -> dict[str, NDArray]:
    """Compares a symbol's gradients with expected ones; returns the gradient arrays by argument.

    Args:
        sym, location, rtol, atol, aux_states, ctx, equal_nan, dtype: as in `check_symbolic_forward`.
        out_grads: gradients of the outputs, an array, a list or a dictionary.
        expected: gradients of the arguments, a list or a dictionary (None: not compared).
        grad_req: one for all, a list or a dictionary.
        grad_stypes: storage types of gradients by name.

    Raises:
        AssertionError: they differ.
    """
    ctx = ctx or default_context()
    args = _location(sym, location, ctx, dtype)
    if not isinstance(expected, dict):
        expected = dict(zip(sym.list_arguments(), expected, strict=False))
    if isinstance(grad_req, str):
        requests = dict.fromkeys(sym.list_arguments(), grad_req)
    elif isinstance(grad_req, dict):
        requests = grad_req
    else:
        requests = dict(zip(sym.list_arguments(), grad_req, strict=True))
    before = {k: _rng.normal(size=np.shape(_numpy(v))) for k, v in expected.items()
              if v is not None and requests.get(k, "null") != "null"}
    grads = {}
    for k, v in before.items():
        grads[k] = nd.array(v, ctx=ctx, dtype=args[k].dtype if dtype == "asnumpy" or dtype is None else dtype)
        stype = (grad_stypes or {}).get(k, "default")
        if stype != "default":
            grads[k] = nd.sparse.cast_storage(grads[k], stype)
    before = {k: v.asnumpy() for k, v in grads.items()}
    executor = sym.bind(ctx, args=args, args_grad=grads, aux_states=_aux(sym, aux_states, ctx, dtype),
                        grad_req=requests)
    outputs = executor.forward(is_train=True)
    if isinstance(out_grads, dict):
        out_grads = [out_grads[k] for k in sym.list_outputs()]
    if isinstance(out_grads, (list, tuple)):
        heads: Any = [_placed(v, ctx, o.dtype if dtype is None or dtype == "asnumpy" else dtype)
                      for v, o in zip(out_grads, outputs, strict=False)]  # more heads than outputs are ignored
    elif out_grads is None:
        heads = None
    else:
        heads = _placed(out_grads, ctx, dtype)
    executor.backward(heads)
    for name, want in expected.items():
        request = requests.get(name, "null")
        if want is None or request == "null":
            continue
        got = executor.grad_dict[name].asnumpy()
        want = _numpy(want) + (before[name] if request == "add" else 0)
        assert_almost_equal(want, got, rtol, atol, (f"EXPECTED_{name}", f"BACKWARD_{name}"), equal_nan=equal_nan)
    return grads


def check_speed(sym: Symbol, location: dict | None = None, ctx: Context | None = None, N: int = 20,  # noqa: N803
                grad_req: GradReq | None = None, typ: str = "whole", **kwargs: Any) -> float:
    """Returns the mean seconds of N runs of a symbol.

    Args:
        sym, location, ctx, grad_req: as in `check_symbolic_backward`; random arguments of the
            shapes in kwargs if location is None.
        N: number of runs.
        typ: "whole" (forward and backward) or "forward".
    """
    ctx = ctx or default_context()
    request = "write" if grad_req is None else grad_req
    if location is None:
        executor = sym.simple_bind(ctx, grad_req=request, **kwargs)
        location = {k: _rng.normal(size=v.shape, scale=1.0) for k, v in executor.arg_dict.items()}
    else:
        executor = sym.simple_bind(ctx, grad_req=request, **{k: v.shape for k, v in location.items()})
    for name, value in location.items():
        executor.arg_dict[name][:] = value
    if typ not in ("whole", "forward"):
        raise ValueError("typ can only be 'whole' or 'forward'.")

    def step() -> None:
        outputs = executor.forward(is_train=typ == "whole")
        if typ == "whole":
            executor.backward(outputs)
        else:
            outputs[0].wait_to_read()
    step()
    nd.waitall()
    start = time.perf_counter()
    for _ in range(N):
        step()
    nd.waitall()
    return (time.perf_counter() - start) / N


def _fill(executors: Sequence[Any], arguments: dict, states: dict, scale: float, use_uniform: bool,
          rand_type: DTypeLike) -> None:
    """Gives executors the same arguments, random where there are none, and zeros as gradients."""
    for name, array in executors[0].arg_dict.items():
        if name not in arguments:
            draw = np.random.uniform(-scale, scale, array.shape) if use_uniform else \
                np.random.normal(size=array.shape, scale=scale)
            arguments[name] = np.asarray(draw).astype(rand_type)
    for name, array in executors[0].aux_dict.items():
        states.setdefault(name, np.zeros(array.shape))
    for executor in executors:
        for values, arrays in ((arguments, executor.arg_dict), (states, executor.aux_dict)):
            for name, array in arrays.items():
                array[:] = _numpy(values[name]).astype(array.dtype)
        for array in executor.grad_dict.values():
            if array is not None:
                array[:] = 0


def _results(executor: Executor, names: Sequence[str], gradients: bool) -> dict[str, Any]:
    """Returns an executor's outputs by name, and its gradients by argument."""
    results = dict(zip(names, executor.outputs, strict=True))
    if gradients:
        results.update({k: v for k, v in executor.grad_dict.items() if v is not None})
    return results


def check_consistency(sym: Symbol | Sequence[Symbol], ctx_list: Sequence[dict], scale: float = 1.0,
                      grad_req: GradReq = "write", arg_params: dict | None = None, aux_params: dict | None = None,
                      rtol: Tolerance = None, atol: Tolerance = None,
                      raise_on_err: bool = True, ground_truth: dict | None = None, equal_nan: bool = False,
                      use_uniform: bool = False, rand_type: DTypeLike = np.float64) -> dict:
    """Checks that a symbol computes the same on several contexts and dtypes.

    Args:
        sym: a symbol, or one per context.
        ctx_list: dictionaries with "ctx", shapes by name, and "type_dict".
        scale: scale of the random arguments.
        grad_req: grad_req of all arguments; "null" compares only the forward pass.
        arg_params, aux_params: values instead of random ones.
        rtol, atol: tolerances (None: by dtype).
        raise_on_err: raise at the first difference; otherwise print it.
        ground_truth: arrays to compare with, as returned by this function; by default those of the
            most precise dtype.
        equal_nan: NaNs are equal.
        use_uniform: uniform instead of normal arguments.
        rand_type: dtype in which the random arguments are drawn.

    Returns:
        The ground truth: arrays by name.
    """
    symbols = [sym] * len(ctx_list) if isinstance(sym, Symbol) else list(sym)
    names, arguments = symbols[0].list_outputs(), symbols[0].list_arguments()
    executors = []
    for s, setting in zip(symbols, ctx_list, strict=True):
        if s.list_arguments() != arguments or s.list_outputs() != names:
            raise AssertionError("the symbols have different arguments or outputs")
        executors.append(s.simple_bind(grad_req=grad_req, **setting))
    _fill(executors, dict(arg_params or {}), dict(aux_params or {}), scale, use_uniform, rand_type)
    dtypes = [np.dtype(e.outputs[0].dtype) for e in executors]
    best = int(np.argmax([d.itemsize for d in dtypes]))

    def compare(truth: dict, gradients: bool) -> None:
        for number, executor in enumerate(executors):
            if number == best and ground_truth is None:
                continue
            for name, value in _results(executor, names, gradients).items():
                want = _numpy(truth[name]).astype(dtypes[number])
                try:
                    assert_almost_equal(value.asnumpy(), want, get_tolerance(want, rtol, default_rtols()),
                                        get_tolerance(want, atol, default_atols()), equal_nan=equal_nan)
                except AssertionError as error:
                    print(f"{ctx_list[number]} against {ctx_list[best]}, {name}: {error}")
                    if raise_on_err:
                        raise
    for executor in executors:
        executor.forward(is_train=False)
    truth = ground_truth or {n: o.asnumpy() for n, o in _results(executors[best], names, False).items()}
    if ground_truth is None or grad_req == "null":
        compare(truth, False)
    if grad_req != "null":
        for executor in executors:
            executor.forward(is_train=True)
            executor.backward(executor.outputs)
        if ground_truth is None:
            truth = {n: o.asnumpy() for n, o in _results(executors[best], names, True).items()}
        compare(truth, True)
    return truth


def check_gluon_hybridize_consistency(net_builder: Callable, data_l: Sequence[Any], numpy_func: Callable | None = None,
                                      test_grad: bool = True, rtol: float = 1e-4, atol: float = 1e-4) -> None:
    """Checks that a Gluon network computes the same values with and without hybridization."""
    saved: dict[str, np.ndarray] = {}
    first_out: np.ndarray | None = None
    first_grads: list[np.ndarray] = []
    for hybridize in (False, True):
        net = net_builder(**({"prefix": "net_"} if level.current() == 1 else {}))
        net.initialize()
        if hybridize:
            net.hybridize()
        inputs = [d.copy() for d in data_l]
        for d in inputs:
            d.attach_grad()
        with autograd.record():
            net(*inputs)
        for name, parameter in net.collect_params().items():
            if hybridize:
                parameter.set_data(nd.array(saved[name]) if type(data_l[0]) is NDArray else
                                   parameter.data().__class__(nd.array(saved[name]).chunk))
            else:
                saved[name] = parameter.data().asnumpy()
        with autograd.record(train_mode=test_grad):
            out = net(*inputs)
            if test_grad:
                out.backward(out)
        grads = [d.grad.asnumpy() for d in inputs] if test_grad else []
        if first_out is None:
            first_out, first_grads = np.asarray(out.asnumpy()), grads
            if numpy_func is not None:
                assert_almost_equal(first_out, numpy_func(*[d.asnumpy() for d in data_l]), rtol=rtol, atol=atol)
        else:
            assert_almost_equal(first_out, out.asnumpy(), rtol=rtol, atol=atol)
            for a, b in zip(first_grads, grads, strict=True):
                assert_almost_equal(a, b, rtol=rtol, atol=atol)
