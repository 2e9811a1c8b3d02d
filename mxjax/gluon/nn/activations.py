"""Activation layers: each maps an array of any shape to one of the same shape."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

from ... import initializer
from ..block import HybridBlock

if TYPE_CHECKING:
    from ...initializer import InitializerLike
    from .._types import Tensor

__all__ = ["ELU", "GELU", "SELU", "Activation", "LeakyReLU", "PReLU", "SiLU", "Swish"]


class Activation(HybridBlock):
    """An activation function by name.

    Args:
        activation: "relu", "sigmoid", "tanh", "softrelu" or "softsign".

    Example:
        >>> mx.gluon.nn.Activation("relu")(mx.nd.array([-1, 2])).asnumpy()
        array([0., 2.], dtype=float32)
    """

    def __init__(self, activation: str, **kwargs: Any) -> None:
        self._act_type = activation
        super().__init__(**kwargs)

    def _alias(self) -> str:
        return self._act_type

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Any:  # noqa: N803
        """Applies the function to x."""
        return F.Activation(x, act_type=self._act_type, name="fwd")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._act_type})"


class LeakyReLU(HybridBlock):
    """x where x >= 0, else alpha * x.

    Args:
        alpha: slope of the negative side, >= 0.

    Raises:
        AssertionError: alpha is negative.

    Example:
        >>> mx.gluon.nn.LeakyReLU(0.5)(mx.nd.array([-1, 2])).asnumpy()
        array([-0.5,  2. ], dtype=float32)
    """

    def __init__(self, alpha: float, **kwargs: Any) -> None:
        if alpha < 0:
            raise AssertionError(f"Slope coefficient for LeakyReLU must be no less than 0, got {alpha}")
        super().__init__(**kwargs)
        self._alpha = alpha

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Any:  # noqa: N803
        """Applies the function to x."""
        return F.LeakyReLU(x, act_type="leaky", slope=self._alpha, name="fwd")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._alpha})"


class PReLU(HybridBlock):
    """Leaky ReLU with a learned slope. He et al., "Delving Deep into Rectifiers", 2015, arXiv:1502.01852.

    Args:
        alpha_initializer: initializer of the slope.
        in_channels: number of slopes: 1, or one per channel (axis 1).

    Example:
        >>> layer = mx.gluon.nn.PReLU()
        >>> layer.initialize()
        >>> layer(mx.nd.array([[-4, 2]])).asnumpy()
        array([[-1.,  2.]], dtype=float32)
    """

    def __init__(self, alpha_initializer: InitializerLike = initializer.Constant(0.25), in_channels: int = 1,  # noqa: B008
                 **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self._scope:
            self.alpha = self._make_parameter("alpha", shape=(in_channels,), init=alpha_initializer)

    def hybrid_forward(self, F: ModuleType, x: Tensor, alpha: Tensor) -> Any:  # noqa: N803
        """Applies the function to x."""
        return F.LeakyReLU(x, gamma=alpha, act_type="prelu", name="fwd")


class ELU(HybridBlock):
    """x where x >= 0, else alpha * (exp(x) - 1). Clevert et al., 2016, arXiv:1511.07289.

    Args:
        alpha: the function approaches -alpha for large negative x.

    Example:
        >>> mx.gluon.nn.ELU()(mx.nd.array([-1, 2])).asnumpy().round(2)
        array([-0.63,  2.  ], dtype=float32)
    """

    def __init__(self, alpha: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._alpha = alpha

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Any:  # noqa: N803
        """Applies the function to x."""
        return F.LeakyReLU(x, act_type="elu", slope=self._alpha)


class SELU(HybridBlock):
    """Scaled ELU. Klambauer et al., "Self-Normalizing Neural Networks", 2017, arXiv:1706.02515.

    Example:
        >>> mx.gluon.nn.SELU()(mx.nd.array([-1, 2])).asnumpy().round(2)
        array([-1.11,  2.1 ], dtype=float32)
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Any:  # noqa: N803
        """Applies the function to x."""
        return F.LeakyReLU(x, act_type="selu", name="fwd")


class GELU(HybridBlock):
    """x times the cumulative distribution function of the normal distribution at x. Hendrycks and
    Gimpel, 2016, arXiv:1606.08415.

    Example:
        >>> mx.gluon.nn.GELU()(mx.nd.array([-1, 2])).asnumpy().round(2)
        array([-0.16,  1.95], dtype=float32)
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Any:  # noqa: N803
        """Applies the function to x."""
        return F.LeakyReLU(x, act_type="gelu", name="fwd")


class SiLU(HybridBlock):
    """x * sigmoid(x): `Swish` with beta 1. Elfwing et al., 2017, arXiv:1702.03118.

    Example:
        >>> mx.gluon.nn.SiLU()(mx.nd.array([-1, 2])).asnumpy().round(2)
        array([-0.27,  1.76], dtype=float32)
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Any:  # noqa: N803
        """Applies the function to x."""
        return x * F.sigmoid(x, name="fwd")


class Swish(HybridBlock):
    """x * sigmoid(beta * x). Ramachandran et al., 2017, arXiv:1710.05941.

    Args:
        beta: factor of x inside the sigmoid.

    Example:
        >>> mx.gluon.nn.Swish()(mx.nd.array([-1, 2])).asnumpy().round(2)
        array([-0.27,  1.76], dtype=float32)
    """

    def __init__(self, beta: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._beta = beta

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Any:  # noqa: N803
        """Applies the function to x."""
        return x * F.sigmoid(self._beta * x, name="fwd")
