"""Resources that operators ask for: random keys and scratch memory."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from ._random.streams import jax_key, seed
from ._xla.x64 import x64_mode
from .array.dense import NDArray
from .base import MXNetError
from .context import Context, current_context
from .eager.array_types import wrap
from .ops.params import np_dtype

__all__ = ["Resource", "ResourceManager", "ResourceRequest"]

KINDS = ("random", "parallel_random", "temp_space")


class ResourceRequest:
    """A request for a resource: kind "random", "parallel_random" or "temp_space".

    Raises:
        MXNetError: another kind.
    """

    __slots__ = ("kind",)

    def __init__(self, kind: str) -> None:
        if kind not in KINDS:
            raise MXNetError(f"a resource is one of {', '.join(KINDS)}; got {kind!r}")
        self.kind = kind


class Resource:
    """A granted resource on a context."""

    __slots__ = ("request", "ctx")

    def __init__(self, request: ResourceRequest, ctx: Context) -> None:
        self.request, self.ctx = request, ctx

    def get_key(self) -> jax.Array:
        """The next random key of the context's stream, which `mx.random.seed` makes reproducible.

        Raises:
            MXNetError: the resource is no random one.
        """
        if self.request.kind == "temp_space":
            raise MXNetError("a temp_space resource has no random keys")
        return jax_key(self.ctx)

    def get_space(self, shape: Sequence[int], dtype: object = "float32") -> NDArray:
        """A scratch array; its values mean nothing.

        Raises:
            MXNetError: the resource is no temp_space.
        """
        if self.request.kind != "temp_space":
            raise MXNetError(f"a {self.request.kind} resource has no space")
        dtype = np_dtype(dtype)
        with x64_mode(dtype):
            return wrap(jnp.empty(tuple(shape), dtype, device=self.ctx.jax_device), self.ctx)


class ResourceManager:
    """Hands out resources per context.

    Example:
        >>> key = ResourceManager.get().request(mx.cpu(), ResourceRequest("random")).get_key()
    """

    _instance: ResourceManager | None = None

    @classmethod
    def get(cls) -> ResourceManager:
        """The manager of this process."""
        if cls._instance is None:
            cls._instance = cls()
        return cls._instance

    def request(self, ctx: Context | None, request: ResourceRequest | str) -> Resource:
        """A resource on a context (None: the current one); a kind's name will do as the request."""
        if isinstance(request, str):
            request = ResourceRequest(request)
        return Resource(request, ctx or current_context())

    def seed_random(self, value: int, ctx: Context | str = "all") -> None:
        """`mx.random.seed`."""
        seed(value, ctx)
