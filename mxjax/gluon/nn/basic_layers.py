"""Containers, fully connected layers, normalization, dropout, embedding."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ... import ndarray as nd
from ... import numpy, numpy_extension, symbol
from ...base import MXNetError
from ...level import fix
from ...ops.params import np_dtype
from .._chosen_block import named, scope_of
from .._parameter import ParameterDict
from ..block import Block, HybridBlock
from ..parameter import Parameter
from ..utils import _indent, any_arguments
from .activations import Activation

if TYPE_CHECKING:
    from ...initializer import InitializerLike
    from ...ops.params import DTypeLike
    from .._types import Tensor

__all__ = ["BatchNorm", "BatchNormReLU", "Dense", "Dropout", "Embedding", "Flatten", "GroupNorm", "HybridLambda",
           "HybridSequential", "InstanceNorm", "Lambda", "LayerNorm", "Sequential"]

_LEVEL = fix("mxjax.gluon")


def _listed(options: dict[str, Any]) -> str:
    return ", ".join(f"{key}={value!r}" for key, value in options.items())


# -------------------------------------------------------------------- containers
class _Stack(Block):
    """The common part of both sequential containers."""

    _passes_on = True

    def __init__(self, prefix: str | None = None, params: ParameterDict | None = None) -> None:
        super().__init__(prefix=prefix, params=params)

    def add(self, *blocks: Block) -> None:
        """Appends blocks."""
        for block in blocks:
            self.register_child(block)

    def _run(self, x: object, *args: Any) -> Any:
        if args:
            raise TypeError(f"{type(self).__name__} expects one input, got {1 + len(args)}")
        for block in self._child_blocks():
            x = block(x)
        return x

    def _run_spread(self, x: object, *args: Any) -> Any:
        """As MXNet 2 does it: a block's outputs are the next one's inputs."""
        for block in self._child_blocks():
            x, args = block(x, *args), ()
            if isinstance(x, (tuple, list)):
                x, *more = x
                args = tuple(more)
        return (x, *args) if args else x

    if _LEVEL == 2:
        _run = _run_spread

    def __repr__(self) -> str:
        rows = "\n".join(f"  ({key}): {_indent(repr(block), 2)}" for key, block in self._child_items())
        return f"{type(self).__name__}(\n{rows}\n)"

    def __getitem__(self, key: int | slice) -> Any:
        layers = list(self._child_blocks())[key]
        if not isinstance(layers, list):
            return layers
        part = type(self)(**named(self._prefix))
        with scope_of(part):
            part.add(*layers)
        return part

    def __len__(self) -> int:
        return len(self._children)


class Sequential(_Stack, Block):
    """Stacks blocks that run in sequence.

    Example:
        >>> net = mx.gluon.nn.Sequential()
        >>> net.add(mx.gluon.nn.Dense(10, activation="relu"), mx.gluon.nn.Dense(2))
        >>> len(net), net[1]
        (2, Dense(None -> 2, linear))
    """

    @any_arguments
    def forward(self, x: Tensor, *args: Any) -> Any:
        """Returns the last block's output. In MXNet 2, blocks may accept and return several arrays."""
        return self._run(x, *args)

    def hybridize(self, active: bool = True, **kwargs: Any) -> None:
        """Hybridizes each block separately."""
        if self._children and all(isinstance(child, HybridBlock) for child in self._child_blocks()):
            warnings.warn(f"All children of this Sequential layer '{self._name}' are HybridBlocks. Consider using "
                          "HybridSequential for the best performance.", stacklevel=2)
        super().hybridize(active, **kwargs)


class HybridSequential(_Stack, HybridBlock):
    """Stacks HybridBlocks that run in sequence and are hybridized together.

    Example:
        >>> net = mx.gluon.nn.HybridSequential()
        >>> net.add(mx.gluon.nn.Dense(10, activation="relu"), mx.gluon.nn.Dense(2))
        >>> net.initialize()
        >>> net.hybridize()
        >>> net(mx.nd.ones((3, 4))).shape
        (3, 2)
    """

    _in_turn = True

    @any_arguments
    def hybrid_forward(self, F: ModuleType, x: Tensor, *args: Any) -> Any:  # noqa: N803
        """Returns the last block's output. In MXNet 2, blocks may accept and return several arrays."""
        return self._run(x, *args)


class Lambda(Block):
    """Wraps a function as a block.

    Args:
        function: function of NDArrays, or the name of one in `mx.nd` (in MXNet 2, `mx.np` or
            `mx.npx`).
        prefix: see `Block`.

    Raises:
        AssertionError: `mx.nd` has no such function.
        ValueError: it is neither name nor function.

    Example:
        >>> mx.gluon.nn.Lambda("abs")(mx.nd.array([-1, 2])).asnumpy()
        array([1., 2.], dtype=float32)
    """

    def __init__(self, function: str | Callable, prefix: str | None = None) -> None:
        super().__init__(prefix=prefix)
        self._func_impl: Callable[..., Any]
        if isinstance(function, str) and _LEVEL == 2:
            self._func_impl = _of_numpy(function)
        elif isinstance(function, str):
            if not hasattr(nd, function):
                raise AssertionError(f"Function name {function} is not found in ndarray.")
            self._func_impl = getattr(nd, function)
        elif callable(function):
            self._func_impl = function
        else:
            raise ValueError(f"Unrecognized function in lambda: {function} of type {type(function)}")

    def forward(self, *args: Any) -> Any:
        """Applies the function to the inputs."""
        return self._func_impl(*args)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._func_impl.__name__})"


class HybridLambda(HybridBlock):
    """Wraps a function as a hybrid block.

    Args:
        function: function of (F, inputs ...), in MXNet 2 of (inputs ...), or the name of a function
            that both `mx.nd` and `mx.sym` define (in MXNet 2, `mx.np` or `mx.npx`).
        prefix: see `Block`.

    Raises:
        AssertionError: there is no function of this name.
        ValueError: it is neither name nor function.

    Example:
        >>> mx.gluon.nn.HybridLambda(lambda F, x: F.square(x) + 1)(mx.nd.array([-1, 2])).asnumpy()
        array([2., 5.], dtype=float32)
    """

    def __init__(self, function: str | Callable, prefix: str | None = None) -> None:
        super().__init__(prefix=prefix)
        if isinstance(function, str) and _LEVEL == 2:
            self._func, self._func_name = _of_numpy(function), function
        elif isinstance(function, str):
            if not (hasattr(nd, function) and hasattr(symbol, function)):
                raise AssertionError(f"Function name {function} is not found in symbol/ndarray.")
            self._func, self._func_name = lambda F, *args: getattr(F, function)(*args), function  # noqa: N803
        elif callable(function):
            self._func, self._func_name = function, function.__name__
        else:
            raise ValueError(f"Unrecognized function in lambda: {function} of type {type(function)}")

    def hybrid_forward(self, F: ModuleType, x: Tensor, *args: Any) -> Any:  # noqa: N803
        """Applies the function to the inputs."""
        return self._func(x, *args) if _LEVEL == 2 else self._func(F, x, *args)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._func_name})"


def _of_numpy(name: str) -> Callable[..., Any]:
    """Returns a function of `mx.np` or `mx.npx` by name."""
    result = getattr(numpy, name, None) or getattr(numpy_extension, name, None)
    if result is None:
        raise MXNetError(f"Function name {name} is not found in np/npx.")
    return result


# -------------------------------------------------------------------- layers
class Dense(HybridBlock):
    """A fully connected layer: activation(x · weightᵀ + bias).

    Args:
        units: length of the output.
        activation: name of the activation function; None: linear.
        use_bias: whether there is a bias.
        flatten: flatten x from (batch, ...) to (batch, in_units), so that the output is (batch,
            units); otherwise only the last axis of x is transformed.
        dtype: type of the parameters.
        weight_initializer, bias_initializer: initializers.
        in_units: length of the input; 0: inferred at the first call.

    Example:
        >>> layer = mx.gluon.nn.Dense(2, in_units=3, weight_initializer="ones")
        >>> layer.initialize()
        >>> layer(mx.nd.ones((1, 3))).asnumpy()
        array([[3., 3.]], dtype=float32)
    """

    def __init__(self, units: int, activation: str | None = None, use_bias: bool = True, flatten: bool = True,
                 dtype: DTypeLike = "float32", weight_initializer: InitializerLike = None,
                 bias_initializer: InitializerLike = "zeros", in_units: int = 0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._flatten, self._units, self._in_units = flatten, units, in_units
        with self._scope:
            self.weight = self._make_parameter("weight", shape=(units, in_units), init=weight_initializer, dtype=dtype,
                                          allow_deferred_init=True)
            self.bias = self._make_parameter("bias", shape=(units,), init=bias_initializer, dtype=dtype,
                                        allow_deferred_init=True) if use_bias else None
            self.act = None if activation is None else Activation(activation, **named(activation + "_"))

    def hybrid_forward(self, F: ModuleType, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:  # noqa: N803
        """Computes the layer's output."""
        out = F.FullyConnected(x, weight, bias, no_bias=bias is None, num_hidden=self._units, flatten=self._flatten,
                               name="fwd")
        return out if self.act is None else self.act(out)

    def __repr__(self) -> str:
        units, in_units = self.weight.shape or (0, 0)
        return f"{type(self).__name__}({in_units or None} -> {units}, {self.act or 'linear'})"


class Dropout(HybridBlock):
    """Sets values to zero at random in training mode. Srivastava et al., JMLR 15, 2014.

    Args:
        rate: probability of zero; the others are scaled by 1 / (1 - rate).
        axes: axes along which all values are dropped or kept together.

    Example:
        >>> layer = mx.gluon.nn.Dropout(0.2)
        >>> layer(mx.nd.ones((2, 2))).asnumpy()
        array([[1., 1.],
               [1., 1.]], dtype=float32)
        >>> with mx.autograd.train_mode():
        ...     layer(mx.nd.ones((2, 4))).asnumpy()
        array([[1.25, 1.25, 1.25, 0.  ],
               [1.25, 0.  , 1.25, 0.  ]], dtype=float32)
    """

    def __init__(self, rate: float, axes: Sequence[int] = (), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._rate, self._axes = rate, axes

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Any:  # noqa: N803
        """Drops values of x."""
        if self._rate > 0:
            return F.Dropout(x, p=self._rate, axes=self._axes, name="fwd", cudnn_off=False)
        return F.identity(x)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p = {self._rate}, axes={self._axes})"


class Embedding(HybridBlock):
    """Maps indices to vectors: (any shape) -> (any shape, output_dim).

    Args:
        input_dim: number of vectors.
        output_dim: length of a vector.
        dtype: dtype of the vectors.
        weight_initializer: initializer of the vectors.
        sparse_grad: use a row_sparse gradient.

    Example:
        >>> layer = mx.gluon.nn.Embedding(5, 3)
        >>> layer.initialize()
        >>> layer(mx.nd.array([[2, 0], [4, 4]])).shape
        (2, 2, 3)
    """

    def __init__(self, input_dim: int, output_dim: int, dtype: DTypeLike = "float32",
                 weight_initializer: InitializerLike = None, sparse_grad: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._kwargs = {"input_dim": input_dim, "output_dim": output_dim, "dtype": dtype, "sparse_grad": sparse_grad}
        self.weight = self._make_parameter(
            "weight", shape=(input_dim, output_dim), init=weight_initializer, dtype=dtype, allow_deferred_init=True,
            grad_stype="row_sparse" if sparse_grad else "default")

    def hybrid_forward(self, F: ModuleType, x: Tensor, weight: Tensor) -> Any:  # noqa: N803
        """Returns the vectors."""
        return F.Embedding(x, weight, name="fwd", **self._kwargs)

    def __repr__(self) -> str:
        return "{}({input_dim} -> {output_dim}, {dtype})".format(type(self).__name__, **self._kwargs)


class Flatten(HybridBlock):
    """Flattens all axes but the first: (batch, a, b, ...) -> (batch, a * b * ...).

    Example:
        >>> mx.gluon.nn.Flatten()(mx.nd.ones((2, 3, 4))).shape
        (2, 12)
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Any:  # noqa: N803
        """Flattens x to two dimensions."""
        return F.flatten(x)

    def __repr__(self) -> str:
        return type(self).__name__


# -------------------------------------------------------------------- normalization
class _Norm(HybridBlock):
    """The common part of normalization layers: scale (gamma), offset (beta), and how they show themselves."""

    _kwargs: dict[str, Any]
    gamma: Parameter

    def _make(self, name: str, size: int, init: InitializerLike, trained: bool = True, **options: Any) -> Any:
        """The parameter `name` of `size` values, changed in training if `trained`."""
        return self._make_parameter(name, grad_req="write" if trained else "null", shape=(size,), init=init,
                               allow_deferred_init=True, **options)

    def infer_shape(self, *args: Any) -> None:
        """Infers the parameters' shapes from inputs."""
        if _LEVEL == 1:
            super().infer_shape(*args)
            return
        shape, axis = args[0].shape, self._kwargs.get("axis", 1)
        if not -len(shape) <= axis < len(shape):
            raise ValueError(f"{type(self).__name__}: axis {axis} is out of range for an array of {len(shape)} "
                             "dimensions")
        channels = shape[axis]
        for param in self._reg_params.values():
            param.shape = (channels,)

    def _shown_channels(self) -> str:
        return f", in_channels={(self.gamma.shape or (0,))[0]}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({_listed(self._kwargs)}{self._shown_channels()})"


class _BatchNorm(_Norm):
    def __init__(self, axis: int = 1, momentum: float = 0.9, epsilon: float = 1e-5, center: bool = True,
                 scale: bool = True, use_global_stats: bool = False, fuse_relu: bool = False,
                 beta_initializer: InitializerLike = "zeros", gamma_initializer: InitializerLike = "ones",
                 running_mean_initializer: InitializerLike = "zeros",
                 running_variance_initializer: InitializerLike = "ones", in_channels: int = 0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.fuse_relu = fuse_relu  # whether ReLU follows, in the same operator
        self._kwargs = {"axis": axis, "eps": epsilon, "momentum": momentum, "fix_gamma": not scale,
                        "use_global_stats": use_global_stats}
        if in_channels:
            self.in_channels = in_channels
        self.gamma = self._make("gamma", in_channels, gamma_initializer, scale, differentiable=scale)
        self.beta = self._make("beta", in_channels, beta_initializer, center, differentiable=center)
        self.running_mean = self._make("running_mean", in_channels, running_mean_initializer, False,
                                       differentiable=False)
        self.running_var = self._make("running_var", in_channels, running_variance_initializer, False,
                                      differentiable=False)

    def cast(self, dtype: DTypeLike) -> None:
        """Converts the parameters to another dtype. For 16-bit dtypes they become float32, because
        16 bits are too few for statistics."""
        super().cast("float32" if np_dtype(dtype).name in ("float16", "bfloat16") else dtype)

    def hybrid_forward(self, F: ModuleType, x: Tensor, gamma: Tensor, beta: Tensor, running_mean: Tensor,  # noqa: N803
                       running_var: Tensor) -> Any:
        """Normalizes x."""
        operator = F.contrib.BatchNormWithReLU if self.fuse_relu else F.BatchNorm
        return operator(x, gamma, beta, running_mean, running_var, name="fwd", **self._kwargs)

    def _shown_channels(self) -> str:
        return f", in_channels={(self.gamma.shape or (0,))[0] or None}"


class _OfOneKind(_BatchNorm):
    """A batch normalization whose class determines whether ReLU follows."""

    _fuses_relu = False

    def __init__(self, axis: int = 1, momentum: float = 0.9, epsilon: float = 1e-5, center: bool = True,
                 scale: bool = True, use_global_stats: bool = False, beta_initializer: InitializerLike = "zeros",
                 gamma_initializer: InitializerLike = "ones", running_mean_initializer: InitializerLike = "zeros",
                 running_variance_initializer: InitializerLike = "ones", in_channels: int = 0, **kwargs: Any) -> None:
        super().__init__(axis, momentum, epsilon, center, scale, use_global_stats, self._fuses_relu, beta_initializer,
                         gamma_initializer, running_mean_initializer, running_variance_initializer, in_channels,
                         **kwargs)


class BatchNorm(_OfOneKind):
    """Batch normalization. Ioffe and Szegedy, 2015, arXiv:1502.03167.

    Training mode uses the batch's mean and variance per channel and updates the running statistics;
    prediction uses the running statistics.

    Args:
        axis: the channels' axis.
        momentum: weight of the previous running statistics at each update.
        epsilon: added to the variance.
        center: learn an offset (beta).
        scale: learn a scale (gamma).
        use_global_stats: use the running statistics in training, too.
        beta_initializer, gamma_initializer, running_mean_initializer, running_variance_initializer: initializers.
        in_channels: number of channels; 0: inferred at the first call.

    Example:
        >>> layer = mx.gluon.nn.BatchNorm()
        >>> layer.initialize()
        >>> with mx.autograd.train_mode():
        ...     layer(mx.nd.array([[1, 2], [3, 6]])).asnumpy().round(2)
        array([[-1., -1.],
               [ 1.,  1.]], dtype=float32)
    """


class BatchNormReLU(_OfOneKind):
    """Batch normalization followed by ReLU in one operator; arguments as in `BatchNorm`.

    Example:
        >>> layer = mx.gluon.nn.BatchNormReLU()
        >>> layer.initialize()
        >>> with mx.autograd.train_mode():
        ...     layer(mx.nd.array([[1, 2], [3, 6]])).asnumpy().round(2)
        array([[0., 0.],
               [1., 1.]], dtype=float32)
    """

    _fuses_relu = True


class InstanceNorm(_Norm):
    """Normalizes each channel of each example. Ulyanov et al., 2016, arXiv:1607.08022.

    Args:
        axis: the channels' axis.
        epsilon: added to the variance.
        center, scale: learn an offset (beta), a scale (gamma).
        beta_initializer, gamma_initializer: initializers.
        in_channels: number of channels; 0: inferred at the first call.

    Example:
        >>> layer = mx.gluon.nn.InstanceNorm()
        >>> layer.initialize()
        >>> layer(mx.nd.array([[[1, 3], [2, 6]]])).asnumpy().round(2)
        array([[[-1.,  1.],
                [-1.,  1.]]], dtype=float32)
    """

    def __init__(self, axis: int = 1, epsilon: float = 1e-5, center: bool = True, scale: bool = False,
                 beta_initializer: InitializerLike = "zeros", gamma_initializer: InitializerLike = "ones",
                 in_channels: int = 0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._kwargs = {"eps": epsilon, "axis": axis, "center": center, "scale": scale}
        self._axis, self._epsilon = axis, epsilon
        self.gamma = self._make("gamma", in_channels, gamma_initializer, scale)
        self.beta = self._make("beta", in_channels, beta_initializer, center)

    def hybrid_forward(self, F: ModuleType, x: Tensor, gamma: Tensor, beta: Tensor) -> Any:  # noqa: N803
        """Normalizes x."""
        if self._axis == 1:
            return F.InstanceNorm(x, gamma, beta, name="fwd", eps=self._epsilon)
        moved = F.InstanceNorm(x.swapaxes(1, self._axis), gamma, beta, name="fwd", eps=self._epsilon)
        return moved.swapaxes(1, self._axis)


class LayerNorm(_Norm):
    """Normalizes along an axis. Ba et al., 2016, arXiv:1607.06450.

    Args:
        axis: the axis.
        epsilon: added to the variance.
        center, scale: learn an offset (beta), a scale (gamma).
        beta_initializer, gamma_initializer: initializers.
        in_channels: length of the axis; 0: inferred at the first call.
        prefix, params: see `Block`.

    Example:
        >>> layer = mx.gluon.nn.LayerNorm()
        >>> layer.initialize()
        >>> layer(mx.nd.array([[1, 2, 3], [2, 4, 6]])).asnumpy().round(2)
        array([[-1.22,  0.  ,  1.22],
               [-1.22,  0.  ,  1.22]], dtype=float32)
    """

    def __init__(self, axis: int = -1, epsilon: float = 1e-5, center: bool = True, scale: bool = True,
                 beta_initializer: InitializerLike = "zeros", gamma_initializer: InitializerLike = "ones",
                 in_channels: int = 0, prefix: str | None = None, params: ParameterDict | None = None) -> None:
        super().__init__(prefix=prefix, params=params)
        self._kwargs = {"eps": epsilon, "axis": axis, "center": center, "scale": scale}
        self._axis, self._epsilon, self._center, self._scale = axis, epsilon, center, scale
        self.gamma = self._make("gamma", in_channels, gamma_initializer, scale)
        self.beta = self._make("beta", in_channels, beta_initializer, center)

    def hybrid_forward(self, F: ModuleType, data: Tensor, gamma: Tensor, beta: Tensor) -> Any:  # noqa: N803
        """Normalizes data."""
        return F.LayerNorm(data, gamma=gamma, beta=beta, axis=self._axis, eps=self._epsilon)


class GroupNorm(_Norm):
    """Normalizes groups of channels of each example. Wu and He, 2018, arXiv:1803.08494.

    Args:
        num_groups: number of groups of channels (axis 1).
        epsilon: added to the variance.
        center, scale: learn an offset (beta), a scale (gamma), one per group.
        beta_initializer, gamma_initializer: initializers.
        prefix, params: see `Block`.
        in_channels: length of the channels' axis, in MXNet 2; 0: inferred at the first call.

    Example:
        >>> layer = mx.gluon.nn.GroupNorm(num_groups=2)
        >>> layer.initialize()
        >>> layer(mx.nd.array([[[1], [3], [2], [6]]])).asnumpy().round(2)[0, :, 0]
        array([-1.,  1., -1.,  1.], dtype=float32)
    """

    def __init__(self, num_groups: int = 1, epsilon: float = 1e-5, center: bool = True, scale: bool = True,
                 beta_initializer: InitializerLike = "zeros", gamma_initializer: InitializerLike = "ones",
                 prefix: str | None = None, params: ParameterDict | None = None, in_channels: int = 0) -> None:
        super().__init__(prefix=prefix, params=params)
        self._kwargs = {"eps": epsilon, "num_groups": num_groups, "center": center, "scale": scale}
        self._num_groups, self._epsilon, self._center, self._scale = num_groups, epsilon, center, scale
        size = num_groups if _LEVEL == 1 else in_channels  # each channel has its own in MXNet 2
        self.gamma = self._make("gamma", size, gamma_initializer, scale)
        self.beta = self._make("beta", size, beta_initializer, center)

    def hybrid_forward(self, F: ModuleType, data: Tensor, gamma: Tensor, beta: Tensor) -> Any:  # noqa: N803
        """Normalizes data."""
        return F.GroupNorm(data, gamma=gamma, beta=beta, num_groups=self._num_groups, eps=self._epsilon)

    def _shown_channels(self) -> str:
        return "" if _LEVEL == 1 else super()._shown_channels()
