"""Compilation of programs for devices that this machine lacks, with XLA's compilers for them, in a separate process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec

from .._xla.capacity import products
from .._xla.x64 import x64_mode
from ..base import MXNetError
from ..kernel.xla import options_on
from ..ops.nn.flash import CALLS
from ..passes.division import with_quotients
from ..passes.layouts import CHOOSE, replaced
from ..passes.precision import with_precision
from ..passes.rewriting import rewritten, without_kernels
from .targets import Target

__all__ = ["abstract", "compile_for"]

_EXTRAS = {"cuda": "'mxjax[cuda12]' or 'mxjax[cuda13]'", "tpu": "'mxjax[plan-tpu]'"}


def abstract(mesh: Mapping[str, int]) -> AbstractMesh:
    """Returns an abstract mesh, without physical devices."""
    return AbstractMesh(tuple(mesh.values()), tuple(mesh), axis_types=(AxisType.Auto,) * len(mesh))


def compile_for(function: Callable[..., Any], arguments: Sequence[jax.ShapeDtypeStruct], on: Target, *,
                donate: Sequence[int] = (), mesh: Mapping[str, int] | None = None, specs: Sequence[tuple] = (),
                results: Sequence[tuple] = (), x64: bool = False, again: bool = False,
                options: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Compiles a pure function for devices.

    Args:
        function: pure function of arrays, as for `jax.jit`.
        arguments: global shapes and dtypes of its arguments, over all devices.
        on: the devices.
        donate: positions of arguments whose memory the results may reuse.
        mesh: lengths of the mesh axes by name; by default one axis, "data".
        specs, results: for each argument and result the mesh axes over which its axes are split; by
            default they are replicated.
        x64: whether to keep 64-bit numbers.
        again: results that reuse an argument's memory are arguments of the next call, as in
            `Compiled`.
        options: options of XLA; by default those of `Compiled`.

    Returns:
        `memory` (bytes per device by kind), `text` of the program, `flops` of all devices,
        `products`: multiplications of its matrix products by dtype, `seconds` of compilation.

    Raises:
        MXNetError: the compiler's package is missing, or the compiler rejects the program.
    """
    platform = on.device.platform
    mesh = dict(mesh or {"data": on.count})
    with x64_mode(x64):
        divided = (without_kernels,) if on.count > 1 else ()
        program = rewritten(function, with_quotients, with_precision, *divided)
        specs = list(specs) or [()] * len(arguments)
        tree = jax.tree.structure(jax.eval_shape(program, *arguments))
        results = list(results) or [()] * tree.num_leaves
        jitted = jax.jit(program)
        traced = jitted.trace(*arguments)
        flops = (traced.lower().cost_analysis() or {}).get("flops", 0.0)
        if on.count > 1:
            lies, made = ([NamedSharding(abstract(mesh), PartitionSpec(*spec)) for spec in each]
                          for each in (specs, results))
            jitted = jax.jit(program, in_shardings=lies, out_shardings=jax.tree.unflatten(tree, made))
        try:
            exported = jax.export.export(jitted, platforms=[platform], disabled_checks=[
                jax.export.DisabledSafetyCheck.custom_call(name) for name in CALLS])(*arguments)
            written = exported.serialize()
        except ImportError as error:
            raise MXNetError(f"plan: {error}; pip install {_EXTRAS[platform]}") from None
    chosen = again and platform in CHOOSE
    with tempfile.TemporaryDirectory(prefix="mxjax-plan-") as folder:
        program, request, result = (Path(folder, name) for name in ("program", "request.json", "result.json"))
        program.write_bytes(written)
        request.write_text(json.dumps({
            "program": str(program), "platform": platform, "topology": on.description, "donate": list(donate),
            "mesh": mesh, "arguments": specs, "results": results,
            "options": options_on(platform) if options is None else dict(options),
            "follows": list(replaced(donate, arguments, exported.out_avals).items()) if chosen else [],
        }), encoding="utf-8")
        path = [str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
        done = subprocess.run([sys.executable, "-P", "-m", f"{__package__}._compile", str(request), str(result)],
                              env={**on.environment(), "PYTHONPATH": os.pathsep.join(path)}, capture_output=True,
                              text=True, check=False)
        if not result.exists():
            raise MXNetError(f"plan: the compiler for {on.name} exited with {done.returncode}:\n{done.stderr[-2000:]}")
        value = json.loads(result.read_text(encoding="utf-8"))
    if "missing" in value:
        raise MXNetError(f"plan: there is no compiler for {on.name}: pip install {_EXTRAS[platform]} "
                         f"({value['missing'].splitlines()[0][:300]})")
    if "refused" in value:
        raise MXNetError(f"plan: XLA's compiler for {on.name} rejects the program: {value['refused'][:1500]}")
    return {**value, "flops": float(flops), "products": products(traced.jaxpr.jaxpr)}
