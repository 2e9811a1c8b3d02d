"""Kernels: an operator with its parameters fixed, compiled, differentiable, and callable on plain buffers.

This is the only module that calls compiled operator functions, so 64-bit scoping, error translation
and abstract evaluation are implemented once, here.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Sequence
from itertools import repeat
from operator import is_not
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from .._random.mersenne import Source
from .._support.bounded import Bounded
from .._xla.process import when_closed
from .._xla.tracing import settings
from .._xla.x64 import X64_NAMES, x64_mode
from ..base import MXNetError
from ..engine import Var
from ..interpret.calls import interpreting
from ..interpret.rules import Eager
from ..ops.by_device import traced_for
from ..ops.common import by_own_rules, no_gradient
from ..ops.infer import check_types, exact_outputs, op_types
from ..ops.random._draw import Drawn
from ..ops.registry import Op
from .ahead import Later
from .arguments import kind_of
from .bound_form import BoundForm, FunctionForm, bound
from .compiled import SOME_OF_ONE, Compiled, Reordered
from .promise import on_devices
from .shape_only import ShapeOnly, shape_only
from .symbolic_shapes import SymbolicTraces

__all__ = ["USER_MISTAKES", "Kernel", "as_numbers", "cotangent", "never", "prepare", "run",
           "run_program", "watch", "watched"]

Spec = tuple[tuple[int, ...], np.dtype]
# errors of JAX and NumPy for invalid arguments, or missing memory for the result
USER_MISTAKES = (TypeError, ValueError, IndexError, ZeroDivisionError, NotImplementedError, OverflowError, MemoryError,
                  jax.errors.JaxRuntimeError)


_OURS = __name__.partition(".")[0] + "."  # modules whose formulas do not depend on particular sizes


class Kernel:
    """A pure function `fn(*arrays, *extras) -> tuple` with its compiled forms. It is immutable.

    Within programs it is called as `once`, which JAX traces, differentiates and lowers once per
    signature.

    Args:
        name: name for messages.
        fn: the function. The first `num_arrays` arguments are arrays; the others (dynamic scalars,
            random key and counter) are never differentiated.
        num_outputs: number of outputs, without new values of mutated inputs.
        num_visible: number of outputs that users see; by default all.
        x64: the function computes 64-bit values for all inputs.
        mutated: positions of the inputs whose new values follow the outputs.
        eager: run the function directly, never compiled.
        symbolic: the function is a graph, not a single operator.
        options: further arguments of `Compiled`.
        operators: function(*extras) that returns the nodes of the call in a graph: a sequence of
            (operator, parameters).
        op, params: the operator and its canonical parameters, for a single operator.
        dynamic, packed: its parameters among the extras: one each, and (name, length or 0) of those
            packed in a first vector.
        uses_key: the extras end with a random key and counter, or with the result of `draw`.
        by_rows: the gradient of the second input, a table, may be row_sparse.
        keeps_result: a recorded call keeps its result instead of its only input.
        check: function(parameters) that returns None or the exception to raise when a result is
            read.
        refuses: the same, as a function(inputs, outputs).
        draw: function(source, parameters, inputs) that draws on the host and returns an array or
            None (see the attribute FDraw).
        smooth: function(dtype) that returns a differentiable `fn` with a result of this dtype.
        like: for each result an argument with its shape and dtype, if known without a trace.
        parts: it only calls kernels, by their `within`.
        constant: positions of the inputs whose gradients are zero, so that a backward pass ends there.
        starts: backward passes start here even if only zeros reach it: of a loss, or a graph with one.
        form: NumPy form of the operator or function.
        pullback: for a graph of parts, function(arguments, needs_grad, once) that returns (results, function
            that maps gradients of outputs to those of arguments), on NumPy arrays; once: the latter is called once.

    `rules` caches shapes and dtypes that `mxjax.graph.inference` has computed with the operator's
    rules.
    """

    __slots__ = ("name", "fn", "num_arrays", "num_outputs", "num_visible", "x64", "mutated", "eager", "symbolic",
                 "options", "operators", "op", "params", "dynamic", "packed", "uses_key", "by_rows", "keeps_result",
                 "check", "refuses", "draw", "smooth", "like", "in_place", "parts", "form", "pullback",
                 "constant", "starts", "simple", "direct", "jitted", "_once", "_vjps", "_specs",
                 "_needs", "donors", "derivatives", "rules", "__weakref__")

    def __init__(self, name: str, fn: Callable[..., tuple], num_arrays: int, num_outputs: int, *,
                 num_visible: int | None = None, x64: bool = False, mutated: tuple[int, ...] = (),
                 eager: bool = False, symbolic: bool = False, options: dict[str, Any] | None = None,
                 operators: Callable[..., list[tuple[str, dict]]] | None = None, op: Op | None = None,
                 params: dict[str, Any] | None = None, dynamic: tuple[str, ...] = (),
                 packed: tuple[tuple[str, int], ...] = (), uses_key: bool = False, by_rows: bool = False,
                 keeps_result: bool = False,
                 check: Callable[[dict[str, Any]], Exception | None] | None = None,
                 refuses: Callable[[Sequence[Any], Sequence[Any]], Exception | None] | None = None,
                 draw: Callable[..., Any] | None = None,
                 smooth: Callable[[str], Callable[..., tuple]] | None = None, like: tuple[int, ...] | None = None,
                 in_place: Kernel | None = None, parts: bool = False,
                 constant: frozenset[int] = frozenset(), starts: bool = False,
                 form: BoundForm | FunctionForm | None = None, pullback: Callable[..., Any] | None = None) -> None:
        values = {key: value for key, value in locals().items() if key != "self"}
        values["num_visible"] = num_outputs if num_visible is None else num_visible
        values["options"], values["params"] = options or {}, params or {}
        # simple: nothing but a call: one result, no key, no check; direct: nothing but compiled code
        values["direct"] = not (eager or uses_key or check or refuses or draw)
        values["simple"] = num_outputs == 1 and not (mutated or uses_key or check or refuses)
        values["options"] = options = {**(options or {}), **({"parts": True} if parts else {}),
                                       **({"by_numpy": form} if form else {})}
        values["jitted"] = Eager(fn, form) if eager else Compiled(fn, patient=True, **options)
        values.update(_once=None, _vjps=Bounded(256), _specs=Bounded(1024), _needs=Bounded(1024), donors=Bounded(64),
                      derivatives=Bounded(64), rules=Bounded(256))
        for key, value in values.items():
            object.__setattr__(self, key, value)

    @property
    def once(self) -> Callable[..., tuple]:
        """The kernel as part of programs that JAX traces: a function that is traced once per signature."""
        once: Any = self._once
        if once is None:
            once = jax.jit(self.fn)
            object.__setattr__(self, "_once", once)
        return once

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"kernels are immutable; {name} is an argument of the class")

    def __reduce__(self) -> tuple:
        """Supports pickling; other processes compile the kernel again."""
        fields = {name: getattr(self, name) for name in inspect.signature(Kernel).parameters}
        return functools.partial(Kernel, **fields), ()

    def extras(self, values: dict[str, Any], x64: bool) -> tuple:
        """Returns the arguments after the arrays for these dynamic parameters.

        Several numbers are packed in one vector, because each separate argument would cost as much
            as a small array.
        """
        rest = tuple([values[n] for n in self.dynamic])
        if not self.packed:
            return rest
        numbers: list[float] = []
        for name, length in self.packed:
            numbers += values[name] if length else (values[name],)
        return (np.array(numbers, np.float64 if x64 or self.x64 else np.float32), *rest)

    def numbers(self, extras: Sequence[Any]) -> dict[str, Any]:
        """Returns the dynamic parameters from the result of `extras`."""
        result = {}
        if self.packed:
            numbers, extras = iter(extras[0].tolist()), extras[1:]
            for name, length in self.packed:
                result[name] = tuple([next(numbers) for _ in range(length)]) if length else next(numbers)
        return {**result, **dict(zip(self.dynamic, extras, strict=False))}

    def donating(self, positions: tuple[int, ...]) -> Compiled | Eager:
        """Returns the compiled function that may reuse the memory of the arguments at these positions."""
        cached = self.donors.get(positions)
        if cached is None:
            own = [place for place in positions if place not in self.mutated]  # separate arguments, one per output
            places = [*own, *self.mutated] if len(own) == self.num_outputs else []
            order = sorted(range(len(places)), key=places.__getitem__)
            options = {"donate_argnums": positions, "patient": True, **self.options}
            if self.eager:
                cached = self.jitted
            elif order == sorted(order):
                cached = Compiled(self.fn, **options)
            else:
                cached = Reordered(self.fn, order, **options)
            self.donors[positions] = cached
        return cached

    def begin(self, args: Sequence[Any], x64: bool, program: Compiled | None = None) -> Var:
        """Starts to compile a program (by default that of a call) for arguments, or for shapes and
        dtypes, in other threads.

        Returns:
            The engine's variable, which becomes available when the program is compiled.
        """
        with x64_mode(x64, self.x64):
            return (program or self.jitted).begin(args)

    def within(self, *args: object) -> tuple:
        """Computes the kernel's results within a program that JAX traces or NumPy computes."""
        if not interpreting():
            return self.once(*args)
        return self.jitted.within(*args)

    def specs(self, args: Sequence[Any], part: bool = False) -> tuple[Spec, ...]:
        """Returns shapes and dtypes of all results for arguments given as arrays, scalars or ShapeDtypeStructs.

        part: the call will be part of a program, which is not traced again; otherwise it is a
            separate program.
        """
        if self.like is not None:
            return tuple([(args[i].shape, np.dtype(args[i].dtype)) for i in self.like])
        key = tuple((a.shape, a.dtype) if hasattr(a, "shape") else type(a) for a in args)
        cached = self._specs.get(key)
        if cached is None and part:
            cached = self._specs_by_rules(args)
            if cached is not None:
                self._specs[key] = cached
        if cached is None:
            structs = [jax.ShapeDtypeStruct(a.shape, a.dtype) if hasattr(a, "shape") else a for a in args]
            try:
                with x64_mode(self.x64, *structs):
                    if part and not self.eager:
                        cached = self.jitted.interpreter.sizes.specs(structs)
                        if cached is not None:
                            self._specs[key] = cached
                            return cached
                    if self.eager:
                        result = jax.eval_shape(self.fn, *structs)
                    elif part:  # traced like most programs
                        with traced_for(kind_of(args)):
                            result = jax.eval_shape(self.once, *structs)
                    else:
                        result = self.jitted.eval_shape(*structs)
            except (MXNetError, *USER_MISTAKES) as error:
                raise _named(self, args, error) from None
            cached = self._specs[key] = tuple((r.shape, np.dtype(r.dtype)) for r in result)
        return cached

    def _specs_by_rules(self, args: Sequence[Any]) -> tuple[Spec, ...] | None:
        """Returns the same by the rules of the operator, without a trace; None if they are incomplete."""
        op, arrays = self.op, args[:self.num_arrays]
        names = () if op is None else op.inputs(self.params, self.num_arrays)
        if len(names) != self.num_arrays or not arrays or any([a.dtype != np.float32 for a in arrays]):
            return None
        ins, types = [tuple(a.shape) for a in arrays], ["float32"] * len(arrays)
        outs: list[Any] = [None] * op.num_outputs(self.params)
        dtypes: list[Any] = [None] * len(outs)
        try:
            rule = op.get_attr("FInferShape")
            if rule is not None:
                rule(self.params, ins, outs)
            shapes = exact_outputs(op, self.params, ins, outs)
            op_types(op, self.params, types, dtypes, names)
        except Exception:  # a trace reports the error
            return None
        if shapes is None or None in dtypes or len(shapes) != self.num_outputs:
            return None
        specs: list[Any] = [(tuple(shape), np.dtype(dtype)) for shape, dtype in zip(shapes, dtypes, strict=True)]
        return (*specs, *[(tuple(arrays[i].shape), arrays[i].dtype) for i in self.mutated])

    def vjp(self, needs_grad: tuple[bool, ...], has_grad: tuple[bool, ...]) -> Kernel:
        """Returns the backward kernel: fn(*args, *head gradients) -> gradients of the requested array inputs.

        Args:
            needs_grad: for each array input, whether its gradient is requested.
            has_grad: for each output, whether its gradient is passed (the others are zero).
        """
        key = (needs_grad, has_grad)
        cached = self._vjps.get(key)
        if cached is None:
            cached = self._vjps[key] = self._make_vjp(needs_grad, has_grad)
        return cached

    def _make_vjp(self, needs_grad: tuple[bool, ...], has_grad: tuple[bool, ...]) -> Kernel:
        positions = [i for i, w in enumerate(needs_grad) if w]
        present, num_outputs = [i for i, h in enumerate(has_grad) if h], self.num_outputs
        flat = self.op is not None and self.op.get_attr("flat_in_integers")

        def backward(*args: Any) -> tuple:
            if self.constant.issuperset(positions):
                return tuple([jnp.zeros(args[i].shape, args[i].dtype) for i in positions])
            inputs = [jnp.zeros(a.shape, a.dtype) if isinstance(a, ShapeOnly) else a
                      for a in args[:len(args) - len(present)]]
            head_grads = args[len(args) - len(present):]
            forward = self.smooth(_float().__name__) if self.smooth else self.fn

            def differentiated(inputs: Sequence[Any], places: Sequence[int]) -> tuple[Any, Callable]:
                def of_wanted(*values: object) -> tuple:
                    full = list(inputs)
                    for i, value in zip(places, values, strict=True):
                        full[i] = value
                    outputs = forward(*full)[:num_outputs]
                    return tuple(outputs[i] for i in present)
                return jax.vjp(of_wanted, *[_differentiable(inputs[i]) for i in places])
            # MXNet differentiates integer arrays too: through the same function of floats, rounded at the end
            integers = {inputs[i].dtype for i in positions if not jnp.issubdtype(inputs[i].dtype, jnp.inexact)}
            places = positions
            try:
                outputs, pull = differentiated(inputs, places)
            except MXNetError:
                if not integers:
                    raise
                try:  # the operator requires inputs of the same dtype
                    outputs, pull = differentiated([_differentiable(x) if getattr(x, "dtype", None) in integers else x
                                                    for x in inputs], places)
                except MXNetError:  # or integers, such as positions in an array
                    places = [i for i in positions if inputs[i].dtype not in integers]
                    outputs, pull = differentiated(inputs, places)
            grads = dict(zip(places, pull(tuple(cotangent(g, o) for g, o in zip(head_grads, outputs, strict=True))),
                             strict=True))
            return tuple(jnp.zeros_like(inputs[i]) if i not in grads or flat and inputs[i].dtype in integers
                         else grads[i].astype(inputs[i].dtype) for i in positions)

        backward.__name__ = self.name + "_backward"
        return Kernel(backward.__name__, backward, self.num_arrays, len(positions), x64=self.x64,
                      eager=self.eager, form=self.form and self.form.of_gradients(needs_grad, has_grad),
                      options={"trains": True, **{n: self.options[n] for n in ("most", "any_size")
                                                  if n in self.options}})

    def needs_grad(self, parents: Sequence[Any]) -> tuple[bool, ...]:
        """Returns for each argument whether its gradient must be computed.

        Args:
            parents: for each argument a value that is None if its gradient is not requested.
        """
        if self.constant:
            return tuple([parent is not None and i not in self.constant for i, parent in enumerate(parents)])
        return tuple(map(is_not, parents, repeat(None)))

    def kept(self, args: Sequence[Any], parents: Sequence[Any]) -> Sequence[Any]:
        """Returns the arguments, with those that the backward pass does not read replaced by `ShapeOnly`.

        Args:
            args: all arguments.
            parents: for each argument a value that is None if its gradient is not requested.
        """
        needs_grad = self.needs_grad(parents)
        reads_all = self._needs.get(needs_grad)
        if reads_all:
            return args
        key: list[Any] = [needs_grad]
        for a in args:
            key.append(getattr(a, "aval", None) or ((a.shape, a.dtype) if hasattr(a, "shape") else type(a)))
        known = self._needs.get(tuple(key))
        if known is None:
            needs = self.needs(args, needs_grad, (True,) * self.num_outputs)
            known = []
            for i, (a, needed) in enumerate(zip(args, needs, strict=True)):
                if not needed and hasattr(a, "shape"):
                    known.append((i, shape_only(a.shape, a.dtype)))
            self._needs[tuple(key)] = known
            if reads_all is None:
                self._needs[needs_grad] = not known
        if not known:
            return args
        kept = list(args)
        for i, missing in known:
            kept[i] = missing
        return kept

    def needs(self, args: Sequence[Any], needs_grad: tuple[bool, ...], has_grad: tuple[bool, ...]) -> tuple[bool, ...]:
        """Returns the arguments of the forward pass that the backward pass reads, by dead-code
        elimination of its jaxpr."""
        if self.eager:
            return (True,) * len(args)
        reads = self.form.reads(needs_grad) if self.form is not None else None
        if reads is not None:
            return (*reads, *(True,) * (len(args) - len(reads)))
        key = (needs_grad, has_grad, tuple((a.shape, a.dtype) if hasattr(a, "shape") else type(a) for a in args))
        cached = self._needs.get(key)
        if cached is None:
            structs = [jax.ShapeDtypeStruct(a.shape, a.dtype) if hasattr(a, "shape") else a for a in args]
            with x64_mode(self.x64, *structs):
                cached = self._live(structs, needs_grad, has_grad)
            if self.form is not None:  # it unpacks all parameters
                cached = (*cached[:self.num_arrays], *(True,) * (len(args) - self.num_arrays))
            self._needs[key] = cached
        return cached

    def _live(self, structs: Sequence[Any], needs_grad: tuple[bool, ...],
              has_grad: tuple[bool, ...]) -> tuple[bool, ...]:
        """Returns which of these arguments a backward pass reads."""
        trace = self._needs.get((needs_grad, has_grad))
        if trace is None:
            def gradients(*args: object) -> tuple:
                outs = jax.eval_shape(self.fn, *args)
                out_grads = [jnp.zeros(o.shape, o.dtype) for o, h in zip(outs, has_grad, strict=False) if h]
                return self.vjp(needs_grad, has_grad).fn(*args, *out_grads)
            trace = self._needs[needs_grad, has_grad] = SymbolicTraces(gradients, self.options.get("any_size", False))
        general = trace.general(structs)
        if general is None:
            jaxpr = jax.make_jaxpr(trace.function)(*structs).jaxpr
        elif general in self._needs:
            return self._needs[general]
        else:
            jaxpr = general.closed.jaxpr
        live = tuple(_live_inputs(jaxpr, [True] * len(jaxpr.outvars)))
        if general is not None:
            self._needs[general] = live
        return live

    def reads_out_grad(self, args: Sequence[Any], needs_grad: tuple[bool, ...], index: int) -> bool:
        """Returns whether the backward pass reads the gradient of this output."""
        if self.eager:
            return True
        # no formula asks for a size but whether it is 0 or 1
        forms = [(tuple([min(n, 2) for n in a.shape]), a.dtype) if hasattr(a, "shape") else type(a) for a in args]
        key = "out_grads", needs_grad, tuple(forms)
        reads = self._needs.get(key)
        if reads is None:
            specs = self.specs(args)[:self.num_outputs]
            structs = [jax.ShapeDtypeStruct(a.shape, a.dtype) if hasattr(a, "shape") else a for a in args]
            structs += [jax.ShapeDtypeStruct(*spec) for spec in specs]
            with x64_mode(self.x64, *structs):
                jaxpr = jax.make_jaxpr(self.vjp(needs_grad, (True,) * len(specs)).fn)(*structs).jaxpr
            reads = self._needs[key] = tuple(_live_inputs(jaxpr, [True] * len(jaxpr.outvars))[-len(specs):])
        return reads[index]


def _differentiable(value: Any) -> Any:
    if jnp.issubdtype(value.dtype, jnp.inexact):
        return value
    return value.astype(_float())


def _float() -> Any:
    return np.float64 if settings.jax_enable_x64 else np.float32


def cotangent(gradient: Any, output: Any) -> Any:
    """Converts a head gradient to the form that JAX expects for this output; gradients of integers are ignored."""
    if not jnp.issubdtype(output.dtype, jnp.inexact):
        return np.zeros(output.shape, jax.dtypes.float0)
    return gradient.astype(output.dtype) if gradient.dtype != output.dtype else gradient


def _live_inputs(jaxpr: Any, used: list[bool]) -> list[bool]:
    """Returns which inputs of a jaxpr its used outputs depend on, looking into called sub-programs."""
    live = {v for v, u in zip(jaxpr.outvars, used, strict=True) if u and not hasattr(v, "val")}
    for eqn in reversed(jaxpr.eqns):
        outs = [v in live for v in eqn.outvars]
        if not any(outs) and not eqn.effects:
            continue
        inner = eqn.params.get("jaxpr") if eqn.primitive.name in ("pjit", "jit", "closed_call", "remat") else None
        inner = getattr(inner, "jaxpr", inner)
        if inner is not None and len(inner.invars) == len(eqn.invars):
            inner_live = _live_inputs(inner, outs)
        else:
            inner_live = [True] * len(eqn.invars)
        live.update(v for v, w in zip(eqn.invars, inner_live, strict=True) if w and not hasattr(v, "val"))
    return [v in live for v in jaxpr.invars]


_observer: Callable[..., Any] | None = None


def watch(observer: Callable[..., Any] | None) -> None:
    """Makes `observer(name, kind, call, *args)` run all compiled calls (for the profiler); None: no observer."""
    global _observer
    _observer = observer


def _guard(gate: Callable[[], None]) -> None:
    """Makes all compiled calls pass the gate first."""
    def guarded(name: str, kind: str, call: Callable[..., Any], *args: object) -> Any:
        gate()
        return call(*args)
    watch(guarded)


when_closed(_guard)


def watched(name: str, function: Callable[..., Any], kind: str = "symbolic") -> Callable[..., Any]:
    """Returns a function that runs through the observer, if there is one; kind: "symbolic" (a whole
    graph) or "imperative"."""
    return function if _observer is None else functools.partial(_observer, name, kind, function)


def run(kernel: Kernel, args: Sequence[Any], x64: bool,
        program: Compiled | Eager | Callable[..., Any] | None = None, delivered: list[tuple] | None = None,
        patient: bool = False, host: bool = False) -> Sequence[Any]:
    """Calls the compiled kernel on buffers, in 64-bit mode if `x64`; invalid arguments raise an MXNetError.

    `delivered` receives the results before Python handles signals, so that Ctrl-C cannot lose donated
    arguments.

    host: arguments and results may also be values of the host (`HostValue`).

    Raises:
        Later: the caller is `patient` and the kernel must be compiled first.
    """
    call: Any = program or kernel.jitted
    executable = call
    if host and (_observer is not None or type(call) is Eager):
        args, host = on_devices(args), False
    if _observer is not None:
        call = functools.partial(_observer, kernel.name, "symbolic" if kernel.symbolic else "imperative", call)
    try:
        if x64 or kernel.x64:
            with x64_mode(True):
                if delivered is not None:
                    return _delivered(call, args, delivered, host)
                return executable.anywhere(args) if host else call(*args)
        if delivered is not None:
            if type(call) is not Compiled:
                return _delivered(call, args, delivered, host)
            call.deliver(delivered, args, host)
            return delivered[0]
        return executable.anywhere(args) if host else call(*args)
    except Later:
        if patient:
            raise
    except (MXNetError, *USER_MISTAKES) as error:
        if _guarded(error):
            with jax.transfer_guard("allow"):
                return run(kernel, args, x64, executable, delivered, False, host)
        raise _named(kernel, args, error) from None
    return run(kernel, args, x64, executable, delivered, False, host)  # it compiles


def run_program(name: str, program: Callable[..., Any], args: Sequence[Any], x64: bool,
                blamed: Sequence[Any] = ()) -> Any:
    """Calls the compiled form of a graph, in 64-bit mode if `x64`.

    Args:
        name: name for the profiler and for error messages.
        program: the compiled function.
        args: its arguments.
        blamed: the inputs that the message shows.
    """
    try:
        with x64_mode(x64):
            return watched(name, program)(*args)
    except MXNetError:
        raise
    except USER_MISTAKES as error:
        if _guarded(error):
            with jax.transfer_guard("allow"):
                return run_program(name, program, args, x64, blamed)
        raise mistake(name, blamed, error) from None


def _guarded(error: BaseException) -> bool:
    """Returns whether a user's `jax.transfer_guard` rejected the parameters of an operator, before anything ran.
    """
    return isinstance(error, jax.errors.JaxRuntimeError) and "Disallowed host-to-device transfer" in str(error)


def _delivered(call: Callable[..., tuple], args: Sequence[Any], delivered: list[tuple], host: bool) -> tuple:
    if isinstance(call, Compiled):
        call.deliver(delivered, args, host)
    else:
        delivered.append(call(*args))
    return delivered[0]


def _named(kernel: Kernel, args: Sequence[Any], error: BaseException) -> BaseException:
    """Returns the error for the user: an MXNetError that names the operator."""
    if isinstance(error, MXNetError):
        complete = kernel.op is None or "operator " in str(error) or str(error).startswith(kernel.name)
        if complete or type(error) is not MXNetError:
            return error
    return mistake(kernel.name, args, error)


_MOST_INPUTS_SHOWN = 12  # inputs in an error message: a network as one program has hundreds
_IN_PLAIN_WORDS = {  # messages of JAX: messages of mxjax
    r"dot_general requires contracting dimensions to have the same shape, got (.*) and (.*)\.":
        r"the axes that are multiplied and summed have different sizes, \1 and \2",
    r"(?:lax\.)?\w+ requires arguments to have the same dtypes, got ([^.]*)\..*":
        r"its arrays have different dtypes, \1",
    r"(?:lax\.)?conv_general_dilated": "the convolution",
    r"dot_general requires lhs batch dimensions and rhs batch dimensions to have the same shape, got (.*) and (.*)\.":
        r"the batches have different sizes, \1 and \2",
    r"Received incompatible devices for jitted computation\..*? with shape (\S+) .*?ids \[(.*?)\] on platform (\w+).*? "
    r"with shape (\S+) .*?ids \[(.*?)\] on platform (\w+).*":
        r"its arrays must be on one device; one of \1 is on \3 \2, one of \4 on \6 \5",
}


def mistake(name: str, args: Sequence[Any], error: BaseException) -> MXNetError:
    """Returns the error for invalid arguments of operator `name`."""
    arrays = [a for a in args if hasattr(a, "shape")]
    got = ", ".join([f"{np.dtype(a.dtype).name}{tuple(a.shape)}" for a in arrays[:_MOST_INPUTS_SHOWN]])
    if len(arrays) > _MOST_INPUTS_SHOWN:
        got += f" and {len(arrays) - _MOST_INPUTS_SHOWN} more"
    first, *more = str(error).strip().split("\n")
    reason = f"{first} {more[0].strip()}" if more and first.endswith(":") else first  # XLA's newer errors have headings
    for pattern, words in _IN_PLAIN_WORDS.items():
        reason = re.sub(pattern, words, reason)
    return MXNetError(f"operator {name}: {reason} [inputs: {got}]")


def prepare(op: Op, params: dict[str, Any], present: int | tuple[bool, ...], train: bool,
            pack: bool = False) -> Kernel:
    """Returns the kernel of an operator with canonical parameters.

    Args:
        op: the operator.
        params: canonical parameters (`op.parse`); dynamic ones are not part of the cache key.
        present: number of inputs, or for each declared input whether it is present.
        train: training mode (part of the key only if the operator depends on it).
        pack: pack the extras, for imperative calls, which pass `Kernel.extras` repeatedly.
    """
    dynamic = tuple([n for n in params if n in op.dynamic_names and params[n] is not None])
    static = tuple([item for item in params.items() if item[0] not in dynamic])
    packed: tuple[tuple[str, int], ...] = ()
    if pack and dynamic and op.get_attr("FCheck") is None:
        packed = tuple([(n, 0 if type(params[n]) is float else len(params[n])) for n in dynamic
                        if type(params[n]) in (float, tuple)])
        packed = packed if sum(length or 1 for _, length in packed) > 1 else ()
        dynamic = tuple(n for n in dynamic if n not in dict(packed))
    key = (static, dynamic, packed, present, train and op.trains(params))
    kernel = op.kernels.get(key)
    if kernel is None:
        kernel = op.kernels[key] = _build(op, params, dynamic, packed, present, train)
    return kernel


def _build(op: Op, params: dict[str, Any], dynamic: tuple[str, ...], packed: tuple[tuple[str, int], ...],
           present: int | tuple[bool, ...], train: bool, function: Callable[..., Any] | None = None) -> Kernel:
    """Returns the kernel of an operator with its parameters; `function`: replaces the operator's formula."""
    in_place = op.get_attr("FInPlace") if function is None else None
    function = function or op.get_attr("FCompute")
    if function is None:
        raise MXNetError(f"operator {op.name} has no FCompute")
    count = present if isinstance(present, int) else sum(present)
    mask = None if isinstance(present, int) else present
    static = {k: v for k, v in params.items() if k not in dynamic and k not in dict(packed)}
    if op.uses_train:
        static["_train"] = train
    names = op.inputs(params, count)
    if mask is not None:
        names = [n for n, m in zip(op.input_names, mask, strict=False) if m]
    fn = _formula(op, params, function, static, dynamic, packed, mask, count, names)
    smooth: Callable[[str], Callable[..., tuple]] | None = None
    draw: Callable[[Source, dict[str, Any], Sequence[Any]], Any] | None = None
    if "dtype" in params and op.params["dtype"].kind == "dtype" and "int" in (params["dtype"] or ""):
        # in MXNet gradients pass a cast to integers
        def cast(dtype: str) -> Callable[..., tuple]:
            return _build(op, {**params, "dtype": dtype}, dynamic, packed, present, train).fn
        smooth = cast
    drawing = op.get_attr("FDraw")
    if drawing is not None:
        def drawn(source: Source, values: dict[str, Any], inputs: Sequence[Any]) -> Any:
            return drawing(source, values, inputs, train)
        draw = drawn
    mutated = tuple(names.index(n) for n in op.mutates(params) if n in names)
    x64 = any(p.kind == "dtype" and params[n] in X64_NAMES for n, p in op.params.items()) or op.get_attr("x64", False)
    eager = _is_eager(op, params)
    refuse = op.get_attr("FRefuse") if count else None
    form_name = op.name if function is op.get_attr("FCompute") else f"{op.name} in place"
    return Kernel(op.name, fn, count, op.num_outputs(params), num_visible=op.num_visible(params),
                  x64=bool(x64(params) if callable(x64) else x64), mutated=mutated,
                  eager=eager,
                  options={"most": SOME_OF_ONE, "any_size": getattr(function, "__module__", "").startswith(_OURS),
                           "trains": "lr" in params or bool(mutated) and op.get_attr("FDecay") is None},
                  op=op, params=params, dynamic=dynamic, packed=packed, uses_key=op.uses_key,
                  constant=_constant(op, params, names), starts=op.get_attr("ignores_heads", False),
                  by_rows=op.by_rows(params), keeps_result=op.keeps_result(params), check=op.get_attr("FCheck"),
                  refuses=refuse and functools.partial(refuse, params), draw=draw, smooth=smooth,
                  form=bound(form_name, static, dynamic, packed, functools.partial(_spread, mask), count),
                  in_place=in_place and _build(op, params, dynamic, packed, present, train, in_place))


def _constant(op: Op, params: dict[str, Any], names: Sequence[str]) -> frozenset[int]:
    """Returns the positions of the inputs whose gradients are zero."""
    if op.get_attr("FGradient") is no_gradient:
        return frozenset(range(len(names)))
    rule = op.get_attr("FConstant")
    constant = () if rule is None else rule(params, names)
    return frozenset([i for i, name in enumerate(names) if name in constant])


def _is_eager(op: Op, params: dict[str, Any]) -> bool:
    return op.eager or op.get_attr("eager_when", never)(params)


def _spread(mask: tuple[bool, ...] | None, arrays: Sequence[Any]) -> Sequence[Any]:
    """Returns the inputs with None for absent ones."""
    if mask is None:
        return arrays
    remaining = iter(arrays)
    return [next(remaining) if m else None for m in mask]


def _formula(op: Op, params: dict[str, Any], function: Callable[..., Any], static: dict[str, Any],
             dynamic: tuple[str, ...], packed: tuple[tuple[str, int], ...], mask: tuple[bool, ...] | None, count: int,
             names: Sequence[str]) -> Callable[..., tuple]:
    """Returns an operator's formula as a function of all arguments of its program.

    These are the present inputs, the vector of packed numbers, dynamic parameters, and the source of random numbers.

    Args:
        op, params: the operator and its parameters.
        function: function(*inputs, **parameters) -> the results.
        static: the parameters that are part of the program.
        dynamic, packed: names of the parameters that are arguments; (name, length) of those in the vector.
        mask: for each input whether it is present; None: all are.
        count: the number of present inputs.
        names: their names.
    """
    gradient, eager = op.get_attr("FGradient"), _is_eager(op, params)

    @by_own_rules
    def fn(*args: Any) -> tuple:
        check_types(op, params, [str(a.dtype) for a in args[:count]], names)
        extras = dict(static)
        rest = args[count:]
        if packed:
            numbers = iter(as_numbers(rest[0]))
            extras.update({name: tuple([next(numbers) for _ in range(length)]) if length else next(numbers)
                           for name, length in packed})
            rest = rest[1:]
        extras.update(zip(dynamic, jax.tree.map(jnp.asarray, rest), strict=False))
        if op.uses_key:
            key = rest[len(dynamic):]
            if len(key) == 1 and not count:
                return _tuple(key[0])
            extras["_key"] = Drawn(key[0]) if len(key) == 1 else jax.random.fold_in(jax.random.wrap_key_data(key[0]),
                                                                                    key[1])
        inputs = _spread(mask, args[:count])
        if gradient is None or eager and not any(isinstance(a, Tracer) for a in args):
            return _tuple(function(*inputs, **extras))
        if gradient is no_gradient:
            return _tuple(function(*[None if x is None else jax.lax.stop_gradient(x) for x in inputs], **extras))
        return _with_gradient(function, gradient, extras)(*inputs)
    fn.__name__ = op.name  # name of the program in JAX's logs and XLA's profile
    return fn


def as_numbers(vector: object) -> list[Any]:
    """Returns the numbers in a vector as weakly typed scalars, which adopt the dtype of arrays like Python floats."""
    if isinstance(vector, np.ndarray) and interpreting():
        return vector.tolist()
    vector = jnp.asarray(vector)
    return list(jnp.unstack(jax.lax.convert_element_type_p.bind(
        vector, new_dtype=vector.dtype, weak_type=True, sharding=None)))


def never(params: dict[str, Any]) -> bool:
    """Returns False; the default of attributes that are functions of the parameters."""
    return False


def _tuple(result: object) -> tuple:
    return result if isinstance(result, tuple) else tuple(result) if isinstance(result, list) else (result,)


def _with_gradient(function: Callable, gradient: Callable, params: dict[str, Any]) -> Callable[..., tuple]:
    """`function` with a hand-written derivative (the FGradient attribute).

    Traced parameters are saved for the backward pass, which may be compiled separately.
    """
    traced = {name: value for name, value in params.items() if isinstance(value, jax.Array)}

    @jax.custom_vjp
    def compute(*inputs: object) -> tuple:
        return _tuple(function(*inputs, **params))

    def forward(*inputs: object) -> tuple:
        outputs = compute(*inputs)
        return outputs, (inputs, outputs, traced)

    @by_own_rules
    def backward(saved: tuple, out_grads: tuple) -> tuple:
        inputs, outputs, values = saved
        grads = _tuple(gradient(out_grads, inputs, outputs, **{**params, **values}))
        grads += (None,) * (len(inputs) - len(grads))
        return tuple(
            (np.zeros(i.shape, jax.dtypes.float0) if not jnp.issubdtype(i.dtype, jnp.inexact)
             else jnp.zeros_like(i) if g is None else jnp.broadcast_to(g, i.shape).astype(i.dtype))
            for i, g in zip(inputs, grads, strict=True))
    compute.defvjp(forward, backward)
    return compute
