"""The smallest server for several engines: the same HTTP, the same batches, another library that computes.

    python benchmarks/serving_engines.py ENGINE PREFIX PORT     # ENGINE: mxjax, mxnet or onnxruntime

`benchmarks/serving.py --engine ENGINE` starts it. It is for Python 3.9 and later, since MXNet 1.9.1 has no later ones,
and needs uvicorn, httptools, uvloop and the engine. Its batches are made by mxjax's `serving/batching.py`, which is
loaded as a file: mxjax itself needs Python 3.11. PREFIX is that of a checkpoint of epoch 1, or of PREFIX.onnx.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import sys
import types

import numpy as np
import uvicorn

SIZES = (1, 2, 4, 8, 16, 32)


def _batching() -> types.ModuleType:
    """The module that puts requests together, without the package around it."""
    for name in ("mxjax", "mxjax.serving"):
        sys.modules.setdefault(name, types.ModuleType(name)).__path__ = []
    base = types.ModuleType("mxjax.base")
    base.MXNetError = RuntimeError
    sys.modules["mxjax.base"] = base
    path = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "mxjax", "serving", "batching.py")
    spec = importlib.util.spec_from_file_location("mxjax.serving.batching", path)
    module = importlib.util.module_from_spec(spec)
    module.TimeoutError = asyncio.TimeoutError  # another class before Python 3.11
    spec.loader.exec_module(module)
    return module


def _mxjax(prefix: str):
    os.environ["MXNET_ENFORCE_DETERMINISM"] = "1"
    from mxjax.serving import Served
    return Served(prefix, shapes={"data": (1, 784)})


def _mxnet(prefix: str):
    import mxnet as mx
    symbol, args, aux = mx.model.load_checkpoint(prefix, 1)
    programs = {size: symbol.simple_bind(mx.cpu(), grad_req="null", data=(size, 784)) for size in SIZES}
    for program in programs.values():
        program.copy_params_from(args, aux)
    return lambda inputs: {"softmax_output": programs[len(inputs["data"])].forward(
        is_train=False, data=mx.nd.array(inputs["data"]))[0].asnumpy()}


def _onnxruntime(prefix: str):
    import onnxruntime
    session = onnxruntime.InferenceSession(prefix + ".onnx", providers=["CPUExecutionProvider"])
    [name] = [one.name for one in session.get_inputs()]
    return lambda inputs: {"softmax_output": session.run(None, {name: inputs["data"]})[0]}


class _App:
    """The part of the protocol that the benchmark uses: readiness, and one binary tensor."""

    def __init__(self, batcher) -> None:
        self._batcher = batcher

    async def __call__(self, scope, receive, send) -> None:
        if scope["type"] != "http":
            return
        if scope["method"] == "GET":
            await self._answer(send, b"{}")
            return
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message["body"], message.get("more_body", False)
        length = int(dict(scope["headers"])[b"inference-header-content-length"])
        shape = json.loads(body[:length])["inputs"][0]["shape"]
        x = np.frombuffer(body[length:], "float32").reshape(shape)
        y = np.ascontiguousarray((await self._batcher.submit({"data": x}))["softmax_output"])
        head = json.dumps({"outputs": [{"name": "softmax_output", "shape": y.shape, "datatype": "FP32",
                                        "parameters": {"binary_data_size": y.nbytes}}]}).encode()
        await self._answer(send, head + y.tobytes(), (b"inference-header-content-length", str(len(head)).encode()))

    async def _answer(self, send, content: bytes, *headers) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [
            (b"content-length", str(len(content)).encode()), *headers]})
        await send({"type": "http.response.body", "body": content})


def main() -> None:
    """Warms the engine and serves."""
    engine, prefix, port = sys.argv[1:]
    run = {"mxjax": _mxjax, "mxnet": _mxnet, "onnxruntime": _onnxruntime}[engine](prefix)
    for size in SIZES:
        run({"data": np.zeros((size, 784), "float32")})
    batcher = _batching().Batcher(run, sizes=SIZES) if engine != "mxjax" else _of_mxjax(run)
    uvicorn.run(_App(batcher), host="127.0.0.1", port=int(port), loop="uvloop", http="httptools", lifespan="off",
                log_level="warning", access_log=False)


def _of_mxjax(run):
    from mxjax.serving import Batcher
    return Batcher(run, sizes=SIZES)


if __name__ == "__main__":
    main()
