"""The functions of mx.np that MXNet computes with custom operators, for graphs that contain these operators.

`mx.np.resize` and the other functions call ordinary operators. In a graph they are `Custom` nodes
of these types, as in MXNet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base import evaluated
from ..numpy._dispatch import IMPERATIVE
from ..numpy.utils import _STR_2_DTYPE_
from ._custom import CustomOp, CustomOpProp, register

if TYPE_CHECKING:
    from ..ops.params import DTypeLike

__all__ = ["EmptyLike", "EmptyLikeProp", "MultivariateNormal", "MultivariateNormalProp", "Resize", "ResizeProp",
           "Unravel_index", "Unravel_indexProp"]


class _Fallback(CustomOp):
    """A custom operator that calls the operator `_npi_<name>`."""

    name = ""

    def __init__(self, **params: Any) -> None:
        self._params = params

    def forward(self, is_train: bool, req: list[str], in_data: list, out_data: list, aux: list) -> None:
        """Computes the output."""
        result = IMPERATIVE.call(f"_npi_{self.name}", [a.as_np_ndarray() for a in in_data], self._params)
        self.assign(out_data[0], req[0], result)

    def backward(self, req: list[str], out_grad: list, in_data: list, out_data: list, in_grad: list,
                 aux: list) -> None:
        """Not supported.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(f"Operator {self.name} does not support gradient computation")


class EmptyLike(_Fallback):
    """Creates an array like another one; see `mx.np.empty_like`."""

    name = "empty_like_fallback"

    def __init__(self, dtype: DTypeLike, order: str, subok: bool, shape: Sequence[int] | int) -> None:
        super().__init__(dtype=dtype)


class Resize(_Fallback):
    """Repeats the elements to fill a new shape; see `mx.np.resize`."""

    name = "resize_fallback"

    def __init__(self, new_shape: Sequence[int] | int) -> None:
        super().__init__(new_shape=new_shape)


class Unravel_index(_Fallback):  # noqa: N801  MXNet's name
    """Converts flat indices to coordinates; see `mx.np.unravel_index`."""

    name = "unravel_index_fallback"

    def __init__(self, shape: Sequence[int] | int) -> None:
        super().__init__(shape=shape)


class MultivariateNormal(_Fallback):
    """Draws from a multivariate normal distribution; see `mx.np.random.multivariate_normal`."""

    name = "mvn_fallback"

    def __init__(self, size: Sequence[int] | int | None = None) -> None:
        super().__init__(size=size)


def _value(text: object) -> Any:
    return evaluated(text) if isinstance(text, str) else text


@register("empty_like_fallback")
class EmptyLikeProp(CustomOpProp):
    """The properties of `EmptyLike`."""

    def __init__(self, dtype: str | None = None, order: str = "C", subok: str | bool = False,
                 shape: str | None = None) -> None:
        super().__init__(need_top_grad=True)
        self._dtype: Any = _STR_2_DTYPE_.get(dtype or "", dtype)
        self._rest = order, _value(subok), _value(shape)

    def list_arguments(self) -> list[str]:
        """Names of the inputs."""
        return ["prototype"]

    def infer_shape(self, in_shape: list) -> tuple:
        """Infers the shape of the input."""
        return (in_shape[0],), (in_shape[0],), ()

    def infer_type(self, in_type: list) -> tuple:
        """Infers the requested dtype, otherwise that of the input."""
        return (in_type[0],), (in_type[0] if self._dtype is None else self._dtype,), ()

    def create_operator(self, ctx: object, in_shapes: list, in_dtypes: list) -> EmptyLike:
        """Creates the operator."""
        return EmptyLike(self._dtype, *self._rest)


@register("resize_fallback")
class ResizeProp(CustomOpProp):
    """The properties of `Resize`."""

    def __init__(self, new_shape: str) -> None:
        super().__init__(need_top_grad=True)
        self._new_shape = _value(new_shape)

    def list_arguments(self) -> list[str]:
        """Names of the inputs."""
        return ["a"]

    def infer_shape(self, in_shape: list) -> tuple:
        """Infers the new shape."""
        shape = (self._new_shape,) if np.isscalar(self._new_shape) else tuple(self._new_shape)
        return (in_shape[0],), (shape,), ()

    def create_operator(self, ctx: object, in_shapes: list, in_dtypes: list) -> Resize:
        """Creates the operator."""
        return Resize(self._new_shape)


@register("unravel_index_fallback")
class Unravel_indexProp(CustomOpProp):  # noqa: N801  MXNet's name
    """The properties of `Unravel_index`."""

    def __init__(self, shape: str) -> None:
        super().__init__(need_top_grad=True)
        self._shape = _value(shape)

    def list_arguments(self) -> list[str]:
        """Names of the inputs."""
        return ["indices"]

    def infer_shape(self, in_shape: list) -> tuple:
        """Infers (number of dimensions, *shape of the input)."""
        return (in_shape[0],), ((np.size(self._shape), *in_shape[0]),), ()

    def create_operator(self, ctx: object, in_shapes: list, in_dtypes: list) -> Unravel_index:
        """Creates the operator."""
        return Unravel_index(self._shape)


@register("mvn_fallback")
class MultivariateNormalProp(CustomOpProp):
    """The properties of `MultivariateNormal`."""

    def __init__(self, size: str | None = None) -> None:
        super().__init__(need_top_grad=True)
        self._size = _value(size)

    def list_arguments(self) -> list[str]:
        """Names of the inputs."""
        return ["mean", "cov"]

    def infer_shape(self, in_shape: list) -> tuple:
        """Infers (*size, *shape of the parameters).

        Raises:
            ValueError: the shapes of the parameters do not match.
        """
        mean, cov = (tuple(s) for s in in_shape)
        if not mean or len(cov) < 2 or not cov[-1] == cov[-2] == mean[-1]:
            raise ValueError(f"mean must contain vectors and cov square matrices of the same size, got shapes "
                             f"{mean} and {cov}")
        size = () if self._size is None else (self._size,) if np.isscalar(self._size) else tuple(self._size)
        return in_shape, (size + np.broadcast_shapes(mean, cov[:-1]),), ()

    def create_operator(self, ctx: object, in_shapes: list, in_dtypes: list) -> MultivariateNormal:
        """Creates the operator."""
        return MultivariateNormal(self._size)
