"""`mx.rtc`: a user's own kernels, written in Pallas where MXNet takes CUDA C.

    def axpy(x, y, alpha):                       # references to arrays; a number is an array of one
        y[...] += alpha[0] * x[...]

    module = mx.rtc.CudaModule({"axpy": axpy})
    kernel = module.get_kernel("axpy", "const float *x, float *y, float alpha")
    kernel.launch([x, y, 3.0], mx.gpu(0), (1, 1, 1), (1, 1, 1))

A kernel runs once for each point of the grid (`jax.experimental.pallas.program_id`). There are no threads below: a
kernel works on blocks of values. It is compiled for the device (Triton or Mosaic on GPUs, Mosaic on TPUs), and
interpreted on the host, so it can be tried anywhere.
"""

from __future__ import annotations

import functools
import inspect
import numbers
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from ._xla.transfer import moved
from ._xla.x64 import needs_x64
from .base import MXNetError
from .context import Context
from .kernel.kernel import Kernel, run
from .ndarray import NDArray

__all__ = ["CudaKernel", "CudaModule"]

_DTYPES = {"float": np.float32, "double": np.float64, "__half": np.float16, "uint8_t": np.uint8, "int": np.int32,
           "int32_t": np.int32, "int8_t": np.int8, "char": np.int8, "int64_t": np.int64}
_ARGUMENT = re.compile(r"(?P<const>const )?(?P<dtype>(?!const\b)\w+) ?(?P<array>\*)? ?(?P<name>\w+)?")


class CudaModule:
    """Kernels by name.

    Args:
        source: Pallas kernels by name, or one (its name is the function's).
        options: kept for MXNet's sake.
        exports: names to check for.

    Raises:
        MXNetError: the source is text (CUDA C), or a name in `exports` is missing.
    """

    def __init__(self, source: Mapping[str, Callable] | Callable, options: Sequence[str] = (),
                 exports: Sequence[str] = ()) -> None:
        if isinstance(source, (str, bytes)):
            raise MXNetError("CudaModule: CUDA C source cannot be compiled here, XLA runs no CUDA C. Write the kernel "
                             "in Pallas, as a Python function of references, and give CudaModule({'name': function}); "
                             "or write the computation in JAX: mx.operator.from_jax, mx.operator.register_op")
        self._kernels = dict(source) if isinstance(source, Mapping) else {source.__name__: source}
        wrong = next((name for name, kernel in self._kernels.items() if not callable(kernel)), None)
        if wrong is not None:
            raise TypeError(f"CudaModule: kernel {wrong!r} is not a function, got "
                            f"{type(self._kernels[wrong]).__name__}")
        for name in (exports,) if isinstance(exports, str) else exports:
            self._find(name)

    def _find(self, name: str) -> Callable:
        if name not in self._kernels:
            raise MXNetError(f"CudaModule has no kernel {name!r}; there are {', '.join(self._kernels) or 'none'}")
        return self._kernels[name]

    def get_kernel(self, name: str, signature: str) -> CudaKernel:
        """Returns a kernel with the types of its arguments.

        Args:
            name: which.
            signature: as in C, e.g. "const float *x, double *y, int alpha": * marks arrays, const read-only ones.

        Raises:
            ValueError: not of this form.
            TypeError: an unknown type.
            MXNetError: there is no such kernel.
        """
        is_ndarray, dtypes, written = [], [], []
        for text in signature.split(","):
            text = " ".join(text.split())
            match = _ARGUMENT.fullmatch(text)
            if match is None:
                raise ValueError(f'Invalid function prototype "{text}". Must be in the form of "(const) type (*) '
                                 '(name)"')
            if match["dtype"] not in _DTYPES:
                raise TypeError(f"Unsupported kernel argument type {text}. Supported types are: {','.join(_DTYPES)}.")
            is_ndarray.append(bool(match["array"]))
            dtypes.append(np.dtype(_DTYPES[match["dtype"]]))
            written.append(bool(match["array"]) and not match["const"])
        return CudaKernel((self._find(name), written), name, is_ndarray, dtypes)


class CudaKernel:
    """A kernel; made by `CudaModule.get_kernel`."""

    def __init__(self, handle: tuple[Callable, list[bool]], name: str, is_ndarray: list[bool],
                 dtypes: list[np.dtype]) -> None:
        self.handle = handle
        self._name, self._is_ndarray, self._dtypes = name, is_ndarray, dtypes
        self._compiled: dict[Any, Kernel] = {}

    def launch(self, args: Sequence[Any], ctx: Context, grid_dims: Sequence[int], block_dims: Sequence[int],
               shared_mem: int = 0) -> None:
        """Runs the kernel; the arrays that its signature does not call const are written.

        Args:
            args: NDArrays and numbers, in the order of the signature. The kernel gets references; a number as one to an
                array of shape (1,).
            ctx: the device.
            grid_dims: three numbers: how often the kernel runs along each axis of the grid.
            block_dims: three numbers; a kernel with an argument `block` gets them.
            shared_mem: kept for MXNet's sake: Pallas finds room by itself.

        Raises:
            AssertionError: arguments do not correspond to the signature.
            MXNetError: nothing is written, or the kernel is wrong.
        """
        kernel, written = self.handle
        for name, dims in (("grid_dims", grid_dims), ("block_dims", block_dims)):
            if len(dims) != 3:
                raise AssertionError(f"{name} must be a tuple of 3 integers")
        if len(args) != len(self._dtypes):
            raise AssertionError(f"CudaKernel({self._name}) expects {len(self._dtypes)} arguments but got {len(args)}")
        values = []
        for i, (arg, array, dtype) in enumerate(zip(args, self._is_ndarray, self._dtypes, strict=True)):
            if array and not (isinstance(arg, NDArray) and arg.dtype == dtype):
                got = np.dtype(arg.dtype).name if isinstance(arg, NDArray) else type(arg)
                raise AssertionError(f"The {i}-th argument is expected to be a NDArray of {dtype} but got {got}")
            if not array and not isinstance(arg, numbers.Number):
                raise AssertionError(f"The {i}-th argument is expected to be a number, but got {type(arg)}")
            values.append(arg.as_in_context(ctx).read() if isinstance(arg, NDArray) else np.array([arg], dtype))
        if not any(written):
            raise MXNetError(f"CudaKernel({self._name}): every argument is const, so nothing could be written")
        key = (tuple(grid_dims), tuple(block_dims), ctx.jax_device.platform, tuple(v.shape for v in values))
        if key not in self._compiled:
            self._compiled[key] = self._compile(kernel, written, values, *key[:3])
        with jax.default_device(ctx.jax_device):
            results = run(self._compiled[key], values, any(map(needs_x64, self._dtypes)))
        for target, result in zip([a for a, w in zip(args, written, strict=True) if w], results, strict=True):
            target.write(moved(result, target.context.jax_device))

    def _compile(self, kernel: Callable, written: list[bool], values: list[Any], grid: tuple[int, ...],
                 block: tuple[int, ...], platform: str) -> Kernel:
        from jax.experimental import pallas
        if "block" in inspect.signature(kernel).parameters:
            kernel = functools.partial(kernel, block=block)
        targets = [i for i, w in enumerate(written) if w]

        def body(*references: Any) -> None:
            given = list(references[:len(values)])
            for i, reference in zip(targets, references[len(values):], strict=True):
                given[i] = reference  # an output begins with the value of the argument whose memory it has
            kernel(*given)

        call = pallas.pallas_call(
            body, out_shape=[jax.ShapeDtypeStruct(values[i].shape, values[i].dtype) for i in targets], grid=grid,
            input_output_aliases={i: n for n, i in enumerate(targets)}, interpret=platform == "cpu", name=self._name)
        return Kernel(self._name, lambda *arrays: tuple(call(*arrays)), len(values), len(targets))
