"""Contexts of arrays: `cpu(0)`, `gpu(1)`, `tpu(0)` and their JAX devices."""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, TypeVar, cast

import jax

from . import level
from ._xla.devices import JaxDevice, before_start
from ._xla.host_memory import give_back
from ._xla.tracing import settings
from .base import MXNetError, NotOneOf, _Null

__all__ = ["Context", "Device", "cpu", "cpu_pinned", "gpu", "tpu", "num_gpus", "num_tpus", "gpu_memory_info",
           "current_context", "current_device"]

_MOST = 1024  # contexts of which there is one object


class _Default:
    """`Context._default_ctx` of MXNet 1.x: scripts assign the default context to its `value`."""

    @property
    def value(self) -> Context:
        """This thread's default context."""
        return Context.default_ctx

    @value.setter
    def value(self, ctx: Context) -> None:
        Context.default_ctx = ctx


class _ContextType(type):
    """`Context.default_ctx`: this thread's default context, which can be set."""

    _scope: threading.local
    _default_ctx = _Default()

    @property
    def default_ctx(cls) -> Context:
        """The innermost `with` context of this thread, else `cpu(0)`."""
        return getattr(cls._scope, "current", None) or _DEFAULT

    @default_ctx.setter
    def default_ctx(cls, ctx: Context) -> None:
        cls._scope.current = ctx


class Context(metaclass=_ContextType):
    """A device type and id; a `with` block makes it the default for new arrays.

    Args:
        device_type: "cpu", "gpu", "cpu_pinned", "cpu_shared" or "tpu"; or another Context to copy.
        device_id: id of the device, counted per type. `cpu(i)` beyond JAX's host devices is a
            separate context on one of them, so that scripts for several devices run anywhere.

    Example:
        >>> with Context("cpu", 1):
        ...     current_context()
        cpu(1)
    """

    devtype2str: ClassVar[dict[int, str]] = {1: "cpu", 2: "gpu", 3: "cpu_pinned", 5: "cpu_shared", 6: "tpu"}
    devstr2type: ClassVar[dict[str, int]] = {name: number for number, name in devtype2str.items()}
    _scope: ClassVar[threading.local] = threading.local()

    # One object each, since contexts are often compared by identity; `clear_caches` does not clear this cache.
    _known: ClassVar[dict[tuple[int, int], Context]] = {}

    __slots__ = ("device_typeid", "device_id")

    def __new__(cls, device_type: str | Context | None = None, device_id: int = 0) -> Context:
        if device_type is None:
            return super().__new__(cls)  # an object of its own: `__setstate__` follows
        if isinstance(device_type, Context):
            return device_type
        if device_type not in cls.devstr2type:
            raise NotOneOf(f"unknown device type {device_type!r}; known: {', '.join(cls.devstr2type)}")
        if isinstance(device_id, str):
            raise TypeError(f"device_id must be an integer, got {device_id!r}")
        key = cls.devstr2type[device_type], int(device_id)
        cached = cls._known.get(key)
        if cached is None:
            cached = super().__new__(cls)
            cached.device_typeid, cached.device_id = key
            if len(cls._known) < _MOST:
                cached = cls._known.setdefault(key, cached)
        return cached

    def __init__(self, device_type: str | Context, device_id: int = 0) -> None:
        pass  # `__new__` did it; only unpickling does without a device type

    @property
    def device_type(self) -> str:
        """The name of the device type: "cpu", "gpu", ..."""
        return self.devtype2str[self.device_typeid]

    @property
    def memory(self) -> str:
        """Returns the memory of its arrays: "cpu" for the contexts that share the host's memory,
        otherwise the device type.
        """
        kind = self.device_type
        return kind if kind in _PLATFORMS else "cpu"

    @property
    def jax_device(self) -> JaxDevice:
        """The JAX device of this context's arrays.

        Raises:
            MXNetError: the platform, or an accelerator with this id, is not available.
        """
        try:
            return _jax_device(self.device_type, self.device_id)
        except MXNetError:
            if self is getattr(_absent, "context", None):
                return _devices("cpu")[0]
            raise

    def empty_cache(self) -> None:
        """Returns the memory of deleted arrays to the system; accelerator memory stays in XLA's pool."""
        self.jax_device  # noqa: B018  a device that is not there is an error here as well
        give_back()

    def __hash__(self) -> int:
        return hash((self.device_typeid, self.device_id))

    def __eq__(self, other: object) -> bool:
        return (isinstance(other, Context) and self.device_typeid == other.device_typeid
                and self.device_id == other.device_id)

    def __repr__(self) -> str:
        return f"{self.device_type}({self.device_id})"

    __str__ = __repr__

    def __enter__(self) -> Context:
        scope = self._scope
        scope.__dict__.setdefault("outer", []).append(scope.__dict__.get("current"))
        scope.current = self
        return self

    def __exit__(self, *exc: object) -> None:
        self._scope.current = self._scope.outer.pop()

    def __reduce__(self) -> tuple:
        # by a function, since the class may have a name that other processes do not know: see `interop/_alias.py`
        return _unpickle, (self.device_type, self.device_id)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restores MXNet's pickled form: the attributes of an object that `__new__` created without arguments."""
        self.device_typeid, self.device_id = int(state["device_typeid"]), int(state["device_id"])
        if self.device_typeid not in self.devtype2str:
            raise NotOneOf(f"unknown device type {self.device_typeid}; known: {', '.join(self.devstr2type)}")


def _unpickle(device_type: str, device_id: int) -> Context:
    return Context(device_type, device_id)


def _speak(api: int) -> None:
    """Gives the class the name and the module that it has at a level of the API."""
    Context.__name__ = Context.__qualname__ = "Context" if api == 1 else "Device"
    Context.__module__ = __name__ if api == 1 else __name__.replace("context", "device")


Device = Context  # its name in MXNet 2
level.follow(_speak)
_DEFAULT = Context("cpu", 0)
_PLATFORMS = {"gpu": ("cuda", "rocm", "gpu"), "tpu": ("tpu",)}


@functools.cache
def _devices(kind: str) -> tuple[JaxDevice, ...]:
    """This process's JAX devices of a kind; empty where the platform is not there.

    Raises:
        MXNetError: JAX does not even start the CPU, which is everywhere.
    """
    before_start()
    for platform in _PLATFORMS.get(kind, ("cpu",)):
        try:
            return tuple(jax.local_devices(backend=platform))
        except RuntimeError as error:
            if platform == "cpu":
                raise MXNetError(f"JAX cannot initialize any device, not even the CPU: {error}. Set JAX_PLATFORMS=cpu  "
                                 "to compute only on the CPU, and unset JAX_FORCE_TPU_INIT if there is no "
                                 "TPU") from error
    return ()


def default_device() -> JaxDevice:
    """Returns JAX's default device: the one that a user has set (`jax.default_device`), otherwise
    its first device.
    """
    given = settings.jax_default_device
    return given if isinstance(given, jax.Device) else _first_device(given)


@functools.cache
def _first_device(platform: str | None) -> JaxDevice:
    before_start()
    return jax.local_devices(backend=platform)[0]


_absent = threading.local()


@contextlib.contextmanager
def standing_in(context: Context) -> Iterator[None]:
    """A block in which the host replaces a missing device in this thread, for programs that
    are planned but not run."""
    _absent.context = context
    try:
        yield
    finally:
        del _absent.context


devices_in_use: set[JaxDevice] = set()  # those of all contexts that were asked for theirs
accelerators: set[JaxDevice] = set()  # those among them that are not the host


@functools.cache
def _jax_device(kind: str, number: int) -> JaxDevice:
    devices = _devices(kind)
    if kind not in _PLATFORMS:
        number %= len(devices)
    elif not 0 <= number < len(devices):
        extra = {"gpu": "'mxjax[cuda12]' or 'mxjax[cuda13]'", "tpu": "'mxjax[tpu]'"}[kind]
        raise MXNetError(f"{kind}({number}) is not available: JAX sees {len(devices)} {kind} device(s)"
                         + (f"; if the machine has one, pip install {extra}" if not devices else ""))
    devices_in_use.add(devices[number])
    if kind in _PLATFORMS:
        accelerators.add(devices[number])
    return devices[number]


def cpu(device_id: int = 0) -> Context:
    """Returns the context of host memory. Example: `mx.nd.ones((2, 3), ctx=mx.cpu())`."""
    return Context("cpu", device_id)


def cpu_pinned(device_id: int = 0) -> Context:
    """Returns the context of pinned host memory; same as `cpu`, because XLA stages transfers itself."""
    return Context("cpu_pinned", device_id)


def gpu(device_id: int = 0) -> Context:
    """Returns the context of the `device_id`-th GPU that JAX sees."""
    return Context("gpu", device_id)


def tpu(device_id: int = 0) -> Context:
    """Returns the context of the `device_id`-th TPU core that JAX sees."""
    return Context("tpu", device_id)


def num_gpus() -> int:
    """Returns the number of GPUs that JAX sees."""
    return len(_devices("gpu"))


def num_tpus() -> int:
    """Returns the number of TPU cores that JAX sees."""
    return len(_devices("tpu"))


def gpu_memory_info(device_id: int = 0) -> tuple[int, int]:
    """Returns (free, total) bytes of a GPU's memory pool.

    Raises:
        MXNetError: there is no such GPU, or its allocator provides no statistics.
    """
    stats = gpu(device_id).jax_device.memory_stats()
    if not stats or "bytes_limit" not in stats:
        raise MXNetError(f"gpu({device_id}) provides no memory statistics")
    return stats["bytes_limit"] - stats["bytes_in_use"], stats["bytes_limit"]


def current_context() -> Context:
    """Returns the context of new arrays: that of the innermost `with` block, otherwise `cpu(0)`."""
    return Context.default_ctx


current_device = current_context  # its name in MXNet 2


class WrongContext(MXNetError, TypeError, AttributeError):
    """An argument is not a context. Depending on the function, MXNet raises one of these three errors."""


def chosen(ctx: object) -> Context:
    """Returns the context that a user passed; None means the current one.

    Raises:
        WrongContext: the argument is not a context.
    """
    if ctx is None:
        return current_context()
    if not isinstance(ctx, Context):
        raise WrongContext(f"expected a context such as mx.cpu() or mx.gpu(0), got {ctx!r}")
    return ctx


Function = TypeVar("Function", bound=Callable[..., Any])


def one_context(name: str, kwargs: dict[str, Any], ctx: object = None) -> Any:
    """Returns the context of a call: `ctx`, or the keyword `device`, its name in MXNet 2, which is removed from kwargs.

    Raises:
        TypeError: both are passed.
    """
    device = kwargs.pop("device", None)
    if device is None:
        return ctx
    if ctx is not None:
        raise TypeError(f"{name}: ctx and device are two names of one argument, got ctx={ctx} and device={device}")
    return device


def takes_device(function: Function) -> Function:
    """Decorates a function with an argument `ctx` to accept `device` as another name, which is shown at level 2."""
    signature = inspect.signature(function)
    position = list(signature.parameters).index("ctx")

    @functools.wraps(function)
    def call(*args: object, **kwargs: object) -> Any:
        if "device" in kwargs:
            given = args[position] if len(args) > position else kwargs.get("ctx")
            device = one_context(function.__name__, kwargs, given)
            if len(args) <= position:
                kwargs["ctx"] = device
        return function(*args, **kwargs)
    if level.current() == 2:
        shown = [p.replace(name="device") if p.name == "ctx" else p for p in signature.parameters.values()]
        call.__signature__ = signature.replace(parameters=shown)  # type: ignore[attr-defined]
    return cast(Function, call)


def as_context(value: object) -> Context | None:
    """Converts a context or text such as "gpu(1)" to a context; None if it is empty."""
    if value is None or value is _Null or value == "":
        return None
    if isinstance(value, Context):
        return value
    kind, _, number = str(value).partition("(")
    try:
        return Context(kind, int(number.rstrip(")") or 0))
    except (ValueError, MXNetError):
        raise WrongContext(f"ctx must be a context such as mx.cpu(), or text such as 'cpu(0)', got {value!r}") from None
