"""Images as arrays (height, width, channel): to tensors, cropping, flipping, colours. Decoding and resizing:
`mxjax.host_operators.images`.

Results are clipped to the range of uint8, as in MXNet. Random operators accept one image at a time.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..._support.images import GREY, PCA_VALUES, PCA_VECTORS
from ...base import MXNetError
from ..common import Array, gives, is_float, need_float
from ..params import Floats, Range, Scalar
from ..random._draw import Drawn
from ..registry import register
from . import _image_draws
from ._boxes import unseen

_Factor = Annotated[Scalar, Range(0.0)]


def _aliases(name: str) -> tuple[str, ...]:
    return (f"_npx__image_{name}",)


def _images(operator: str, data: Array, *, batch: bool = True) -> None:
    """Raises MXNetError unless data is one image, or a batch where that is allowed."""
    if data.ndim != 3 and not (batch and data.ndim == 4):
        raise MXNetError(f"operator {operator}: data must be an image of 3 dimensions{' or a batch of 4' * batch}, got "
                         f"shape {data.shape}")


# -------------------------------------------------------------------- tensors and parts
@register("_image_to_tensor", aliases=_aliases("to_tensor"), infer_type=gives("float32"))
def to_tensor(data: Array) -> Array:
    """Converts images (..., height, width, channel), 0 to 255, to float32 (..., channel, height, width), 0 to 1."""
    _images("to_tensor", data)
    wide = data if data.dtype == jnp.float16 else data.astype(jnp.float32)  # halves are divided as such
    return jnp.moveaxis((wide / 255).astype(jnp.float32), -1, -3)


@register("_image_normalize", aliases=_aliases("normalize"))
def normalize(data: Array, *, mean: Floats = (0.0, 0.0, 0.0, 0.0), std: Floats = (1.0, 1.0, 1.0, 1.0)) -> Array:
    """(data - mean) / std for tensors (..., channel, height, width); mean and std are one number or one per channel."""
    _images("normalize", data)
    need_float("normalize", data)
    channels = data.shape[-3]
    if channels not in (1, 3):
        raise MXNetError(f"operator normalize: tensors must have 1 or 3 channels, got shape {data.shape}")
    for name, values in (("mean", mean), ("std", std)):
        if len(values) not in (1, channels):
            raise MXNetError(f"operator normalize: {name} must be 1 or {channels} numbers, got {values}")
    shift, scale = (jnp.array(v, data.dtype)[:, None, None] for v in (mean, std))
    return (data - shift) / scale


@register("_image_crop", aliases=_aliases("crop"))
def crop(data: Array, *, x: int, y: int, width: int, height: int) -> Array:
    """The rectangle of `width` x `height` pixels at column x, row y of images (..., height, width, channel)."""
    _images("crop", data)
    rows, columns = data.shape[-3:-1]
    if min(x, y) < 0 or min(width, height) < 1 or x + width > columns or y + height > rows:
        raise MXNetError(f"operator crop: {width} x {height} pixels at column {x}, row {y} are not inside images of "
                         f"{columns} x {rows}")
    return data[..., y:y + height, x:x + width, :]


# -------------------------------------------------------------------- one image, its dtype and range kept
def _augmenter(name: str) -> Callable[[Callable], Callable]:
    """Registers a function of one image whose derivative is the identity, as MXNet has it."""
    def decorate(function: Callable) -> Callable:
        @functools.wraps(function)
        def checked(data: Array, **params: Any) -> Array:
            _images(name, data, batch=False)
            if data.shape[2] not in (1, 3):
                raise MXNetError(f"operator {name}: images must have 1 or 3 channels, got shape {data.shape}")
            changed = function(lax.stop_gradient(data), **params)
            return unseen(changed, data) if is_float(data.dtype) else changed
        register(f"_image_{name}", aliases=_aliases(name), FDraw=_image_draws.draw(name))(checked)
        return function
    return decorate


def _kept(values: Array, like: Array) -> Array:
    """Values in the dtype of an image; uint8 cut off to its range."""
    return (jnp.clip(values, 0, 255) if like.dtype == jnp.uint8 else values).astype(like.dtype)


def _wide(data: Array) -> Array:
    return data.astype(jnp.promote_types(data.dtype, jnp.float32)) if is_float(data.dtype) else data.astype(jnp.float32)


_FLIPS = {"flip_left_right": (1, "Mirrors an image: left and right change places."),
          "flip_top_bottom": (0, "Turns an image upside down.")}


def _flips(axis: int) -> tuple[Callable, Callable]:
    def flip(data: Array) -> Array:
        return jnp.flip(data, axis)

    def random_flip(data: Array, *, p: float = 0.5, _key: Any = None) -> Array:
        kept = _key.values if isinstance(_key, Drawn) else jax.random.bernoulli(_key, 1 - p)
        return jnp.where(kept, data, jnp.flip(data, axis))
    return flip, random_flip


for _name, (_axis, _doc) in _FLIPS.items():
    for _prefix, _function in zip(("", "random_"), _flips(_axis), strict=True):
        _function.__doc__ = _doc + (" With probability p." if _prefix else "")
        _augmenter(_prefix + _name)(_function)


def _brightness(data: Array, factor: Array) -> Array:
    return _kept(_wide(data) * factor, data)


def _contrast(data: Array, factor: Array) -> Array:
    wide = _wide(data)
    grey = wide @ jnp.array(GREY, wide.dtype) if data.shape[2] == 3 else wide
    return _kept(wide * factor + (1 - factor) * grey.mean(), data)


def _saturation(data: Array, factor: Array) -> Array:
    if data.shape[2] == 1:
        return data
    wide = _wide(data)
    return _kept(wide * factor + (1 - factor) * GREY[2] * wide[..., 2:], data)  # MXNet forgets to add red and green


def _hue(data: Array, turn: Array) -> Array:
    """The hue turned by this part of the circle, in the space of hue, lightness and saturation."""
    if data.shape[2] == 1:
        return data
    wide = _wide(data) / 255
    red, green, blue = jnp.moveaxis(wide, 2, 0)
    high, low = wide.max(2), wide.min(2)
    range_, light = high - low, (high + low) / 2
    coloured = range_ > np.finfo(np.float32).eps
    step = jnp.where(coloured, 1 / jnp.where(coloured, range_, 1), 0)
    hue = jnp.where(high == red, (green - blue) * step,
                    jnp.where(high == green, (blue - red) * step + 2, (red - green) * step + 4))
    saturation = range_ / jnp.where(coloured, jnp.where(light < 0.5, high + low, 2 - high - low), 1)
    top = jnp.where(light <= 0.5, light * (1 + saturation), light + saturation - light * saturation)
    bottom = 2 * light - top
    hue = hue + turn * 6

    def channel(offset: float) -> Array:
        place = (hue + offset) % 6
        part = jnp.clip(jnp.minimum(place, 4 - place), 0, 1)
        return jnp.where(coloured, bottom + (top - bottom) * part, light)
    return _kept(jnp.stack([channel(2), channel(0), channel(4)], 2) * 255, data)


def _lighting(data: Array, alpha: Array) -> Array:
    if data.shape[2] == 1:
        return data
    wide = _wide(data)
    return _kept(wide + jnp.array(PCA_VECTORS * PCA_VALUES, wide.dtype) @ alpha.astype(wide.dtype), data)


@_augmenter("adjust_lighting")
def adjust_lighting(data: Array, *, alpha: Floats) -> Array:
    """Adds colours along the principal components of the ImageNet colours (AlexNet); alpha: three numbers."""
    if len(alpha) != 3:
        raise MXNetError(f"operator adjust_lighting: alpha must be three numbers, got {alpha}")
    return _lighting(data, jnp.array(alpha, jnp.float32))


@_augmenter("random_lighting")
def random_lighting(data: Array, *, alpha_std: Scalar = 0.05, _key: Any = None) -> Array:
    """`adjust_lighting` with random normal numbers of the given standard deviation."""
    alpha = _key.values if isinstance(_key, Drawn) else jax.random.normal(_key, (3,), jnp.float32) * alpha_std
    return _lighting(data, alpha)


def _uniform(key: Any, low: Any, high: Any) -> Array:
    return key.values if isinstance(key, Drawn) else jax.random.uniform(key, (), jnp.float32, low, high)


_CHANGES = (_brightness, _contrast, _saturation, _hue)
for _name, _change, _doc in zip(_image_draws.FACTORS, _CHANGES, (
        "Multiplies an image", "Scales an image's distance from its mean grey",
        "Scales an image's distance from its greys", "Turns an image's colours, as parts of the circle,"), strict=True):
    def _random(data: Array, *, min_factor: _Factor, max_factor: _Factor, _key: Any = None,
                _change: Callable = _change) -> Array:
        return _change(data, _uniform(_key, min_factor, max_factor))
    _random.__doc__ = f"{_doc} by a random number in [min_factor, max_factor)."
    _augmenter(f"random_{_name}")(_random)


@_augmenter("random_color_jitter")
def random_color_jitter(data: Array, *, brightness: float, contrast: float, saturation: float, hue: float,
                        _key: Any = None) -> Array:
    """Changes brightness, contrast, saturation (factors in [1 - x, 1 + x)) and hue, in random order."""
    strengths = (brightness, contrast, saturation, hue)
    used = [(change, most, middle) for change, most, middle in zip(_CHANGES, strengths, (1, 1, 1, 0), strict=True)
            if most > 0]
    if isinstance(_key, Drawn):
        order, factors = _key.values[0].astype(jnp.int32), _key.values[1]
    else:
        last, *keys = jax.random.split(_key, len(used) + 1)
        order = jax.random.permutation(last, len(used))
        factors = [_uniform(key, middle - most, middle + most)
                   for key, (_, most, middle) in zip(keys, used, strict=True)]
    changes = [lambda data, change=change, i=i: change(data, factors[i]) for i, (change, _, _) in enumerate(used)]
    for number in order if used else ():
        data = lax.switch(number, changes, data)
    return data
