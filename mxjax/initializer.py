"""Initializers of parameters, selected by the parameter's name; also available as `mx.init`."""

from __future__ import annotations

import json
import logging
import math
import re
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from . import random, registry
from ._random.streams import source
from ._rnn_packing import GATES, Packing, joined, packed_shapes, pieces
from .base import Unfit
from .eager.array_types import wrap
from .eager.promise import put
from .ndarray import NDArray, load
from .ops.random import on_host
from .util import is_np_array

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = [
    "InitDesc", "Initializer", "register", "alias", "create", "Load", "Mixed", "Zero", "One", "Constant", "Uniform",
    "Normal", "Orthogonal", "Xavier", "MSRAPrelu", "Bilinear", "LSTMBias", "FusedRNN", "RNNFused",
]


class InitDesc(str):
    """A parameter's name together with its variable's attributes for initialization.

    Args:
        name: name of the parameter.
        attrs: attributes of its variable; `__init__` is an initializer as JSON.
        global_init: the initializer to fall back to.
    """

    attrs: dict[str, str]
    global_init: Initializer | None

    def __new__(cls, name: str, attrs: dict[str, str] | None = None,
                global_init: Initializer | None = None) -> InitDesc:
        desc = super().__new__(cls, name)
        desc.attrs = attrs or {}
        desc.global_init = global_init
        return desc


# suffix of the name -> method; the first match counts
_BY_SUFFIX = tuple((suffix, f"_init_{kind}") for suffix, kind in (
    ("weight", "weight"), ("bias", "bias"), ("gamma", "gamma"), ("beta", "beta"), ("min", "zero"), ("max", "one"),
    ("weight_quantize", "quantized_weight"), ("bias_quantize", "quantized_bias")))

# the rules for plain names, from before InitDesc: prefix, suffix, method
_BY_PLAIN_NAME = tuple((prefix, suffix, f"_init_{kind}") for prefix, suffix, kind in (
    ("upsampling", "", "bilinear"), ("stn_loc", "weight", "zero"), ("stn_loc", "bias", "loc_bias"),
    ("", "bias", "bias"), ("", "gamma", "gamma"), ("", "beta", "beta"), ("", "weight", "weight"),
    ("", "moving_mean", "zero"), ("", "moving_var", "one"), ("", "moving_inv_var", "zero"),
    ("", "moving_avg", "zero"), ("", "min", "zero"), ("", "max", "one")))


class Initializer:
    """Base of all initializers. `init(desc, arr)` fills `arr` according to the name `desc`.

    A variable with its own initializer (`mx.sym.var(..., init=)`) uses that one. Otherwise the end
    of the name decides: "weight" is filled by `_init_weight`, which subclasses define, "gamma" with
    ones, "bias" and "beta" with zeros.

    Args:
        **kwargs: the arguments of the instance, which `dumps` serializes.
    """

    def __init__(self, **kwargs: Any) -> None:
        self._kwargs = kwargs
        self._verbose = False
        self._print_func: Callable[[NDArray], str] | None = None

    def set_verbosity(self, verbose: bool = False,
                      print_func: Callable[[NDArray], str] | None = None) -> Initializer:
        """Enables logging of each initialization.

        Args:
            verbose: whether to log.
            print_func: function that returns a description of the array; by default its root mean
                square.

        Returns:
            This initializer.
        """
        self._verbose = verbose
        self._print_func = print_func or (lambda x: str((x.norm() / math.sqrt(x.size)).asnumpy().flat[0]))
        return self

    def dumps(self) -> str:
        """Returns name and arguments as JSON, which `create` reads.

        Example:
            >>> Normal(0.5).dumps()
            '["normal", {"sigma": 0.5}]'
        """
        return json.dumps([type(self).__name__.lower(), self._kwargs])

    def __call__(self, desc: InitDesc | str, arr: NDArray) -> None:
        """Fills `arr`.

        Args:
            desc: the parameter's name. A plain `str` follows older rules and is deprecated.
            arr: the array to fill in place.

        Raises:
            ValueError: no rule fits the name.
        """
        if not isinstance(desc, InitDesc):
            self._legacy_init(desc, arr)
            return
        if desc.global_init is None:
            desc.global_init = self
        how = desc.attrs.get("__init__", "")
        if how:
            create(how)._init_weight(desc, arr)
        else:
            how, method = next((rule for rule in _BY_SUFFIX if desc.endswith(rule[0])), ("default", "_init_default"))
            getattr(self, method)(desc, arr)
        if self._verbose and self._print_func is not None:
            logging.info("Initialized %s as %s: %s", desc, how, self._print_func(arr))

    def _legacy_init(self, name: str, arr: NDArray) -> None:
        if not isinstance(name, str):
            raise TypeError(f"the name of a parameter must be a string, got {name!r}")
        warnings.warn("calling an initializer with a plain string is deprecated; use "
                      "init(mx.init.InitDesc(name), array)", DeprecationWarning, stacklevel=3)
        for prefix, suffix, method in _BY_PLAIN_NAME:
            if name.startswith(prefix) and name.endswith(suffix):
                return getattr(self, method)(name, arr)
        return self._init_default(name, arr)

    def _init_weight(self, name: str, arr: NDArray) -> None:
        raise NotImplementedError(f"{type(self).__name__} must define _init_weight")

    def _init_default(self, name: str, arr: NDArray) -> None:
        raise ValueError(f"no initialization rule fits the name {name!r}: it ends in none of weight, bias, gamma and "
                         "beta. Set an initializer for its variable: mx.sym.var(name, init=mx.init.Zero())")

    def _init_zero(self, _: str, arr: NDArray) -> None:
        arr[:] = 0

    def _init_one(self, _: str, arr: NDArray) -> None:
        arr[:] = 1

    # each an own name, for subclasses that treat these differently
    def _init_bias(self, name: str, arr: NDArray) -> None:
        self._init_zero(name, arr)

    def _init_beta(self, name: str, arr: NDArray) -> None:
        self._init_zero(name, arr)

    def _init_gamma(self, name: str, arr: NDArray) -> None:
        self._init_one(name, arr)

    def _init_quantized_bias(self, name: str, arr: NDArray) -> None:
        self._init_zero(name, arr)

    def _init_quantized_weight(self, _: str, arr: NDArray) -> None:
        arr[:] = random.randint(-127, 127, dtype="int32").asnumpy().astype(np.int8)

    def _init_bilinear(self, _: str, arr: NDArray) -> None:
        arr[:] = _bilinear_kernel(arr.shape)

    def _init_loc_bias(self, name: str, arr: NDArray) -> None:
        if arr.shape[0] != 6:
            raise ValueError(f"{name}: the bias of a spatial transformer must have shape (6,), got {arr.shape}")
        arr[:] = np.array([1.0, 0, 0, 0, 1.0, 0])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Initializer):
            return NotImplemented
        return type(self) is type(other) and self._kwargs == other._kwargs

    __hash__ = object.__hash__


_register = registry.get_register_func(Initializer, "initializer")
alias = registry.get_alias_func(Initializer, "initializer")
create: Callable[..., Initializer] = registry.get_create_func(Initializer, "initializer")
_Class = TypeVar("_Class", bound=type)
InitFunction: TypeAlias = Callable[[InitDesc, NDArray], None]  # an Initializer, Load or Mixed, or one's own
InitializerLike: TypeAlias = Initializer | str | dict[str, Any] | None  # argument of `create`; None: the default


def register(klass: _Class) -> _Class:
    """Registers an initializer class for `create` under its name; a class decorator.

    Example:
        >>> @register
        ... class Half(Initializer):
        ...     def _init_weight(self, name, arr):
        ...         arr[:] = 0.5
        >>> type(create("half")).__name__
        'Half'
    """
    return _register(klass)


class Load:
    """Fills parameters with loaded values, and all others with another initializer.

    Args:
        param: arrays by name (the prefixes "arg:" and "aux:" are dropped), or the file that
            contains them.
        default_init: initializer for names that were not loaded.
        verbose: log the source of each value.

    Raises:
        ValueError: on call, if a shape differs or a name has neither a value nor a default.
    """

    def __init__(self, param: str | dict[str, NDArray], default_init: Callable[[str, NDArray], None] | None = None,
                 verbose: bool = False) -> None:
        if isinstance(param, str):
            param = load(param)
        if not isinstance(param, dict):
            raise Unfit(f"param must contain arrays by name, got {type(param).__name__}")
        self.param = {name[4:] if name.startswith(("arg:", "aux:")) else name: arr for name, arr in param.items()}
        self.default_init = default_init
        self.verbose = verbose

    def __call__(self, name: str, arr: NDArray) -> None:
        if name in self.param:
            loaded = self.param[name]
            if arr.shape != loaded.shape:
                raise Unfit(f"parameter {name} has shape {arr.shape}, but the loaded array has shape "
                            f"{loaded.shape}")
            arr[:] = loaded
        elif self.default_init is None:
            raise Unfit(f"parameter {name} is not among the loaded parameters, and there is no default initializer")
        else:
            self.default_init(name, arr)
        if self.verbose:
            logging.info("Initialized %s by %s", name, "loading" if name in self.param else "default")


class Mixed:
    """Selects an initializer by the first pattern that matches the parameter's name.

    Args:
        patterns: regular expressions, matched from the beginning of the name.
        initializers: one initializer per pattern.

    Raises:
        ValueError: on call, if no pattern matches the name.

    Example:
        >>> init = Mixed(["bias", ".*"], [Zero(), Uniform(0.1)])
    """

    def __init__(self, patterns: Sequence[str], initializers: Sequence[Callable[[str, NDArray], None]]) -> None:
        if len(patterns) != len(initializers):
            raise Unfit(f"expected one initializer per pattern ({len(patterns)}), got {len(initializers)}")
        self.map = [(re.compile(p), init) for p, init in zip(patterns, initializers, strict=True)]

    def __call__(self, name: str, arr: NDArray) -> None:
        for pattern, init in self.map:
            if pattern.match(name):
                init(name, arr)
                return
        raise ValueError(f"parameter {name} matches no pattern; add '.*' with a default initializer at the end")


@register
@alias("zeros")
class Zero(Initializer):
    """Fills arrays with zeros."""

    def __init__(self) -> None:
        super().__init__()

    def _init_weight(self, name: str, arr: NDArray) -> None:
        self._init_zero(name, arr)


@register
@alias("ones")
class One(Initializer):
    """Fills arrays with ones."""

    def __init__(self) -> None:
        super().__init__()

    def _init_weight(self, name: str, arr: NDArray) -> None:
        self._init_one(name, arr)


@register
class Constant(Initializer):
    """Fills arrays with a given value.

    Args:
        value: a scalar, or an array of the parameter's shape.
    """

    def __init__(self, value: ArrayLike) -> None:
        super().__init__(value=value)
        self.value = value

    def _init_weight(self, name: str, arr: NDArray) -> None:
        arr[:] = self.value

    def dumps(self) -> str:
        """Returns name and value as JSON; an array becomes nested lists."""
        value = self._kwargs["value"]
        if not np.isscalar(value):
            self._kwargs["value"] = (value.asnumpy() if hasattr(value, "asnumpy") else np.asarray(value)).tolist()
        return super().dumps()


def _draw(distribution: str, first: float, second: float, shape: tuple[int, ...], arr: NDArray) -> None:
    """Sets an array to numbers from "uniform" (low, high) or "normal" (mean, deviation), MXNet's for its seed.

    They are drawn on the host: weights have many shapes, for each of which a generator would have to be compiled.
    """
    dtype = np.dtype(arr.dtype)
    vectors = on_host.IN_ORDER if is_np_array() else on_host.VECTORS
    values = vectors[distribution](source, math.prod(shape), dtype, np.float32(first), np.float32(second))
    drawn = on_host.rounded(values, shape, dtype)
    arr[:] = wrap(put(drawn, arr.context), arr.context) if arr.stype == "default" else drawn  # not copied


@register
class Uniform(Initializer):
    """Draws from the uniform distribution on [-scale, scale].

    Args:
        scale: half the width of the interval.
    """

    def __init__(self, scale: float = 0.07) -> None:
        super().__init__(scale=scale)
        self.scale = scale

    def _init_weight(self, name: str, arr: NDArray) -> None:
        _draw("uniform", -self.scale, self.scale, arr.shape, arr)


@register
class Normal(Initializer):
    """Draws from the normal distribution with mean 0.

    Args:
        sigma: standard deviation.
    """

    def __init__(self, sigma: float = 0.01) -> None:
        super().__init__(sigma=sigma)
        self.sigma = sigma

    def _init_weight(self, name: str, arr: NDArray) -> None:
        _draw("normal", 0, self.sigma, arr.shape, arr)


@register
class Orthogonal(Initializer):
    """Draws a random matrix with orthogonal rows or columns, multiplied by `scale`.

    Args:
        scale: factor.
        rand_type: "uniform" or "normal": distribution of the matrix that is orthogonalized.

    Source:
        Saxe et al., Exact solutions to the nonlinear dynamics of learning in deep linear neural networks, 2014.
    """

    def __init__(self, scale: float = 1.414, rand_type: str = "uniform") -> None:
        if rand_type not in ("uniform", "normal"):
            raise ValueError(f"rand_type must be 'uniform' or 'normal', got {rand_type!r}")
        super().__init__(scale=scale, rand_type=rand_type)
        self.scale = scale
        self.rand_type = rand_type

    def _init_weight(self, name: str, arr: NDArray) -> None:
        shape = arr.shape[0], math.prod(arr.shape[1:])
        drawn = (random.uniform(-1, 1, shape) if self.rand_type == "uniform" else random.normal(0, 1, shape)).asnumpy()
        left, _, right = np.linalg.svd(drawn, full_matrices=False)
        basis = left if left.shape == shape else right
        arr[:] = self.scale * basis.reshape(arr.shape)


@register
class Xavier(Initializer):
    """Draws weights with the variance magnitude / factor, which preserves the scale of signals across layers.

    Args:
        rnd_type: "uniform" (in ±sqrt(magnitude / factor)) or "gaussian" (with this standard
            deviation).
        factor_type: the factor: "in" = fan-in, "out" = fan-out, "avg" = their mean.
        magnitude: numerator of the scale.

    Source:
        Glorot & Bengio, Understanding the difficulty of training deep feedforward neural networks, 2010.
    """

    def __init__(self, rnd_type: str = "uniform", factor_type: str = "avg", magnitude: float = 3) -> None:
        super().__init__(rnd_type=rnd_type, factor_type=factor_type, magnitude=magnitude)
        self.rnd_type = rnd_type
        self.factor_type = factor_type
        self.magnitude = float(magnitude)

    def _init_weight(self, name: str, arr: NDArray) -> None:
        shape = arr.shape
        if len(shape) < 2:
            raise ValueError(f"{type(self).__name__} requires a weight of at least 2 dimensions, but {name} has "
                             f"shape {shape}")
        receptive = math.prod(shape[2:])
        fan_in, fan_out = shape[1] * receptive, shape[0] * receptive
        factors = {"avg": (fan_in + fan_out) / 2, "in": fan_in, "out": fan_out}
        if self.factor_type not in factors:
            raise ValueError(f"factor_type must be 'avg', 'in' or 'out', got {self.factor_type!r}")
        scale = math.sqrt(self.magnitude / factors[self.factor_type])
        if self.rnd_type == "uniform":
            _draw("uniform", -scale, scale, shape, arr)
        elif self.rnd_type == "gaussian":
            _draw("normal", 0, scale, shape, arr)
        else:
            raise ValueError(f"rnd_type must be 'uniform' or 'gaussian', got {self.rnd_type!r}")


@register
class MSRAPrelu(Xavier):
    """Draws from a Gaussian with variance 2 / (1 + slope²) / factor, for layers followed by a (leaky) ReLU.

    Args:
        factor_type: as in `Xavier`.
        slope: slope of the ReLU's negative side.

    Source:
        He et al., Delving Deep into Rectifiers, 2015.
    """

    def __init__(self, factor_type: str = "avg", slope: float = 0.25) -> None:
        super().__init__("gaussian", factor_type, 2.0 / (1 + slope ** 2))
        self._kwargs = {"factor_type": factor_type, "slope": slope}


def _bilinear_kernel(shape: tuple[int, ...]) -> np.ndarray:
    """Returns the weight (out, in, height, width) for linear interpolation by a deconvolution."""
    half = math.ceil(shape[3] / 2)
    centre = (2 * half - 1 - half % 2) / (2 * half)
    tent = [1 - np.abs(np.arange(size) / half - centre) for size in shape[2:]]
    return np.broadcast_to(np.multiply.outer(*tent), shape).astype(np.float32)


@register
class Bilinear(Initializer):
    """The weight (out, in, height, width) of a deconvolution for bilinear upsampling."""

    def __init__(self) -> None:
        super().__init__()

    def _init_weight(self, name: str, arr: NDArray) -> None:
        self._init_bilinear(name, arr)


@register
class LSTMBias(Initializer):
    """The bias of an LSTM cell: `forget_bias` for the forget gate (the second quarter), zeros otherwise.

    Args:
        forget_bias: value of the forget gate's bias.

    Source:
        Jozefowicz et al., An Empirical Exploration of Recurrent Network Architectures, 2015.
    """

    def __init__(self, forget_bias: float = 1.0) -> None:
        super().__init__(forget_bias=forget_bias)
        self.forget_bias = forget_bias

    def _init_weight(self, name: str, arr: NDArray) -> None:
        hidden = arr.shape[0] // 4
        arr[:] = 0
        arr[hidden:2 * hidden] = self.forget_bias


@register
class FusedRNN(Initializer):
    """Initializes each matrix and bias in the packed parameter vector of a fused RNN.

    Args:
        init: initializer of the parts, or its JSON; None: the global one.
        num_hidden, num_layers, mode, bidirectional: as in `mx.rnn.FusedRNNCell`.
        forget_bias: value of the forget gates' biases ("lstm" only).
    """

    def __init__(self, init: Initializer | str | None, num_hidden: int, num_layers: int, mode: str,
                 bidirectional: bool = False, forget_bias: float = 1.0) -> None:
        made: Initializer | None = None if init is None else create(init)
        super().__init__(init=made and made.dumps(), num_hidden=num_hidden, num_layers=num_layers, mode=mode,
                         bidirectional=bidirectional, forget_bias=forget_bias)
        self._init = made

    def _init_weight(self, name: str, arr: NDArray) -> None:
        init = self._init or getattr(name, "global_init", None)
        config = {name: value for name, value in self._kwargs.items() if name != "init"}
        forget_bias = config.pop("forget_bias")
        packing = Packing(**config)
        parts = packing.unpack(arr)
        for key, part in parts.items():
            if packing.mode == "lstm" and key.endswith("_f_bias"):
                part[:] = forget_bias
            elif init is None:
                raise ValueError(f"{name}: FusedRNN has no initializer for {key}, and there is no global one")
            else:
                init(InitDesc(key, global_init=getattr(name, "global_init", None)), part)
        arr[:] = packing.pack(parts)


@register
class RNNFused(Initializer):
    """Initializes each matrix and bias in the parameter vector of MXNet 2's recurrent layers.

    Args:
        mode: "gru", "lstm", "rnn_relu" or "rnn_tanh".
        num_layers, state_size, bidirectional, projection_size: arguments of the layer.
        i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer,
            h2r_weight_initializer: initializers of the parts; None: that of the block.
    """

    def __init__(self, mode: str, num_layers: int, state_size: int, bidirectional: bool = False,
                 projection_size: int | None = None, i2h_weight_initializer: InitializerLike = None,
                 h2h_weight_initializer: InitializerLike = None, i2h_bias_initializer: InitializerLike = None,
                 h2h_bias_initializer: InitializerLike = None, h2r_weight_initializer: InitializerLike = None) -> None:
        parts = {"i2h_weight": i2h_weight_initializer, "h2h_weight": h2h_weight_initializer,
                 "i2h_bias": i2h_bias_initializer, "h2h_bias": h2h_bias_initializer,
                 "h2r_weight": h2r_weight_initializer}
        super().__init__(mode=mode, num_layers=num_layers, state_size=state_size, bidirectional=bidirectional,
                         projection_size=projection_size)
        if mode not in GATES:
            raise ValueError(f"mode must be one of {', '.join(GATES)}; got {mode!r}")
        self._parts, self._default = parts, None
        self._sizes = len(GATES[mode]), num_layers, state_size, 2 if bidirectional else 1, projection_size

    def set_initializer(self, init: InitializerLike) -> None:
        """Sets the initializer of the parts that have none."""
        self._default = init

    def _init_weight(self, name: str, arr: NDArray) -> None:
        gates, layers, hidden, directions, projection = self._sizes
        least, two = (sum(map(math.prod, packed_shapes(gates, layers, size, hidden, directions, projection).values()))
                      for size in (0, 1))
        shapes = packed_shapes(gates, layers, (arr.size - least) // (two - least), hidden, directions, projection)
        size = sum(map(math.prod, shapes.values()))
        if size != arr.size:
            raise ValueError(f"{name} has {arr.size} values, expected {size} for this RNN")
        parts = pieces(arr, list(shapes.values()))
        fallback = self._default or getattr(name, "global_init", None) or "uniform"
        for key, part in zip(shapes, parts, strict=True):
            init = self._parts[key.partition("_")[2]]
            create(init or fallback)._init_weight(InitDesc(key), part)
        arr[:] = joined(parts, arr.shape)
