"""Models behind the Open Inference Protocol V2, over HTTP and gRPC: kserve's protocol on uvicorn and grpc."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import signal
import threading
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import kserve
import numpy as np
from fastapi.responses import JSONResponse
from grpc_interceptor.exceptions import DeadlineExceeded, InvalidArgument, ResourceExhausted
from kserve.errors import InvalidInput, ModelNotReady
from kserve.model_server import app
from kserve.protocol.dataplane import DataPlane
from kserve.protocol.grpc import grpc_predict_v2_pb2_grpc as _grpc_services
from kserve.protocol.grpc.interceptors import ExceptionToStatusInterceptor
from kserve.protocol.grpc.servicer import InferenceServicer
from kserve.protocol.infer_type import InferInput, InferOutput, InferRequest, InferResponse, RequestedOutput
from kserve.protocol.model_repository_extension import ModelRepositoryExtension
from kserve.protocol.rest.server import RESTServer
from kserve.utils.numpy_codec import from_np_dtype, to_np_dtype
from prometheus_client import Counter, Gauge, Histogram

from .batching import Batcher, Overloaded, TooLate
from .served import Served

__all__ = ["serve"]

_FORM = b"application/x-www-form-urlencoded"
_log = logging.getLogger("mxjax.serving")
_ROWS = Histogram("mxjax_batch_rows", "rows of a batch, without those it is filled up with", ["model"],
                  buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256))
_REQUESTS = Histogram("mxjax_batch_requests", "requests of a batch", ["model"], buckets=(1, 2, 4, 8, 16, 32, 64, 128))
_FILLED = Counter("mxjax_filled_rows", "rows that batches were filled up with", ["model"])
_WAITING = Gauge("mxjax_waiting_requests", "requests that wait", ["model"])
_REFUSED = Counter("mxjax_refused_requests", "requests refused or given up", ["model", "why"])
_COMPILED = Gauge("mxjax_compiled_forms", "forms of inputs that have been compiled", ["model"])


class _Model(kserve.Model):
    """A `Served` model as kserve calls it."""

    def __init__(self, served: Served, batcher: Batcher, warm: Sequence[int]) -> None:
        super().__init__(served.name)
        self.served, self.batcher, self._sizes = served, batcher, warm
        self.ready = False
        _WAITING.labels(served.name).set_function(lambda: batcher.waiting)
        _COMPILED.labels(served.name).set_function(lambda: served.compiled)

    def warm(self) -> None:
        """Compiles the model; it is ready afterwards."""
        if self._sizes:
            self.served.warm(self._sizes)
        self.ready = True
        _log.info("%s is ready", self.name)

    def load(self) -> bool:
        """Refuses a request that comes before the model is warm; kserve would take it for a wish to load it."""
        if not self.ready:
            raise ModelNotReady(self.name, "It is being compiled.")
        return True

    async def get_input_types(self) -> list[dict[str, Any]]:
        """Returns the inputs as the protocol describes them."""
        return [_described(one) for one in self.served.inputs]

    async def get_output_types(self) -> list[dict[str, Any]]:
        """Returns the outputs as the protocol describes them."""
        return [_described(one) for one in self.served.outputs]

    async def predict(self, payload: Any, headers: Any = None, response_headers: Any = None) -> Any:
        """Answers a request of the protocol's version 2, or of version 1 (`instances`)."""
        over_grpc = isinstance(payload, InferRequest) and bool(payload.from_grpc)
        try:
            inputs = self.served.checked(_arrays(payload, self.served.input_names))
            outputs = await self.batcher.submit(inputs)
        except ValueError as error:
            raise (InvalidArgument(str(error)) if over_grpc else InvalidInput(str(error))) from None
        except Overloaded as error:
            _REFUSED.labels(self.name, "overloaded").inc()
            raise (ResourceExhausted(str(error)) if over_grpc else error) from None
        except TooLate as error:
            _REFUSED.labels(self.name, "too late").inc()
            raise (DeadlineExceeded(str(error)) if over_grpc else error) from None
        if not isinstance(payload, InferRequest):
            first = next(iter(outputs.values()))
            return {"predictions": first.tolist()}
        return _response(self.name, payload, outputs)


class _Plane(DataPlane):
    """kserve's, ready from when all models are until the service is about to end."""

    ending = False

    async def ready(self) -> bool:
        """Says whether requests should come here."""
        return not self.ending and all(model.ready for model in self.model_registry.get_models().values())


    def decode_inference_request(self, body: Any, headers: Any, model_name: str) -> InferRequest:
        """Returns a request that has been read.

        Binary tensors stay bytes. kserve makes a list of Python numbers of them, which takes 7 ms for 50 KB.
        """
        try:
            if isinstance(body, bytes):
                return _with_bytes(body, headers, model_name)
            return super().decode_inference_request(body, headers, model_name)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InvalidInput(f"the request cannot be read: {type(error).__name__}: {error}") from None


def _with_bytes(body: bytes, headers: Any, model_name: str) -> InferRequest:
    """Reads a request of JSON with binary tensors behind it."""
    length = headers.get("inference-header-content-length", "")
    if not length.isdigit() or int(length) > len(body):
        raise InvalidInput(f"a request that is not JSON needs the header Inference-Header-Content-Length, the length "
                           f"of its part in JSON, at most {len(body)}; got {length!r}")
    said, begin, inputs = json.loads(body[:int(length)]), int(length), []
    for one in said["inputs"]:
        parameters = one.get("parameters") or {}
        tensor = InferInput(one["name"], one["shape"], one["datatype"], one.get("data"), parameters)
        size = parameters.get("binary_data_size")
        if size is not None:
            content = body[begin:begin + size]
            if size < 0 or len(content) < size:
                raise InvalidInput(f"input {tensor.name} has {len(content)} bytes of {size}")
            tensor.set_data_from_numpy(np.frombuffer(content, to_np_dtype(tensor.datatype)).reshape(tensor.shape))
            begin += size
        inputs.append(tensor)
    outputs = [RequestedOutput(one["name"], one.get("parameters")) for one in said.get("outputs") or ()]
    return InferRequest(model_name, inputs, said.get("id"), parameters=said.get("parameters"), request_outputs=outputs)


def _described(one: dict[str, Any]) -> dict[str, Any]:
    return {"name": one["name"], "datatype": from_np_dtype(one["dtype"]), "shape": one["shape"]}


def _arrays(payload: Any, names: Sequence[str]) -> dict[str, np.ndarray]:
    if isinstance(payload, InferRequest):
        try:
            return {tensor.name: tensor.as_numpy() for tensor in payload.inputs}
        except (TypeError, AttributeError) as error:
            raise ValueError(f"an input cannot be read: {error}") from None
    rows = payload.get("instances") if isinstance(payload, dict) else None
    if rows is None:
        raise ValueError('a request of version 1 is {"instances": [...]}')
    if len(names) == 1:
        return {names[0]: np.asarray(rows)}
    return {name: np.asarray([row[name] for row in rows]) for name in names}


def _response(name: str, request: InferRequest, outputs: dict[str, np.ndarray]) -> InferResponse:
    wanted = [output.name for output in request.request_outputs or ()] or list(outputs)
    unknown = [n for n in wanted if n not in outputs]
    if unknown:
        raise InvalidInput(f"model {name} has the outputs {', '.join(outputs)}, asked for {', '.join(unknown)}")
    made = []
    for output in wanted:
        value = np.ascontiguousarray(outputs[output])
        made.append(InferOutput(output, list(value.shape), from_np_dtype(value.dtype)))
        made[-1].set_data_from_numpy(value, binary_data=True)  # kserve makes text of it where that is asked for
    return InferResponse(request.id or uuid.uuid4().hex, name, made, use_binary_outputs=request.use_binary_outputs,
                         requested_outputs=request.request_outputs)


class _Edge:
    """Checks each HTTP request before kserve reads it, and completes its response.

    Requests of more than so many bytes are refused, whether they say their length or not. A body without a type is
    JSON, and so is what `curl -d` calls a form. When the service is about to end, responses close the connection.
    """

    def __init__(self, inner: Any, most: int, plane: _Plane) -> None:
        self._inner, self._most, self._plane = inner, most, plane

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        headers = dict(scope["headers"])
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > self._most:
            await JSONResponse({"error": f"a request may have {self._most} bytes"}, 413)(scope, receive, send)
            return
        if b"inference-header-content-length" not in headers and headers.get(b"content-type", _FORM).startswith(_FORM):
            scope["headers"] = list({**headers, b"content-type": b"application/json"}.items())
        read = 0

        async def limited() -> Any:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > self._most:
                raise InvalidInput(f"a request may have {self._most} bytes")
            return message

        async def answered(message: Any) -> None:
            if self._plane.ending and message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"connection", b"close")]
            await send(message)
        await self._inner(scope, limited, answered)


async def _overloaded(_: Any, error: Exception) -> JSONResponse:
    return JSONResponse({"error": str(error)}, 503, {"Retry-After": "1"})


async def _too_late(_: Any, error: Exception) -> JSONResponse:
    return JSONResponse({"error": str(error)}, 504)


def serve(models: Sequence[Served], *, host: str = "127.0.0.1", port: int = 8080, grpc_port: int | None = 8081,
          warm: Sequence[int] = (1, 2, 4, 8, 16, 32), max_batch: int = 32, max_delay: float = 0.002,
          queue_size: int = 1024, timeout: float = 30.0, max_bytes: int = 64 << 20, linger: float = 1.0,
          grace: int = 30) -> None:
    """Serves models until SIGTERM or SIGINT; requests that are there then are answered.

    Args:
        models: what is served.
        host: address to listen at.
        port, grpc_port: ports of HTTP and gRPC; None: no gRPC.
        warm: batch sizes to compile before a model is ready, and to fill batches up to; () compiles at requests.
        max_batch, max_delay, queue_size, timeout: see `Batcher`.
        max_bytes: of a request.
        linger: seconds from SIGTERM, when the service says that it is not ready, to the end of new connections.
        grace: seconds that requests get to be answered at the end.
    """
    asyncio.run(_serve(models, host, port, grpc_port, [size for size in warm if size <= max_batch], max_bytes, linger,
                       grace,
                       {"max_batch": max_batch, "max_delay": max_delay, "queue_size": queue_size, "timeout": timeout}))


async def _serve(models: Sequence[Served], host: str, port: int, grpc_port: int | None, warm: Sequence[int],
                 max_bytes: int, linger: float, grace: int, limits: dict[str, Any]) -> None:
    repository = kserve.ModelRepository()
    made = []
    for served in models:
        rows, requests, filled = (metric.labels(served.name) for metric in (_ROWS, _REQUESTS, _FILLED))

        def note(count: int, together: int, more: int, rows: Any = rows, requests: Any = requests,
                 filled: Any = filled) -> None:
            rows.observe(count)
            requests.observe(together)
            filled.inc(more)
        made.append(_Model(served, Batcher(served, sizes=warm, on_batch=note, **limits), warm))
        repository.update(made[-1])
    plane, extension = _Plane(model_registry=repository), ModelRepositoryExtension(model_registry=repository)
    rest = RESTServer("kserve.model_server:app", plane, extension, port, grace_period=grace)
    rest.config.host = host
    rest.create_application()
    app.add_middleware(_Edge, most=max_bytes, plane=plane)
    app.add_exception_handler(Overloaded, _overloaded)
    app.add_exception_handler(TooLate, _too_late)
    server = _grpc_server(plane, extension, f"{host}:{grpc_port}", max_bytes) if grpc_port is not None else None
    if server is not None:
        await server.start()
    failures: list[BaseException] = []
    threading.Thread(target=_warm_all, args=(made, rest._server, failures), name="mxjax-warm", daemon=True).start()
    loop = asyncio.get_running_loop()
    rest._server.handle_exit = lambda *_: loop.call_soon_threadsafe(
        loop.create_task, _end_slowly(plane, rest._server, linger))
    with _ending_quietly():
        await rest._server.serve()
    try:
        await asyncio.gather(*(model.batcher.drain() for model in made))
    finally:
        if server is not None:
            await server.stop(grace)
        for model in made:
            model.batcher.close()
    if failures:
        raise failures[0]


async def _end_slowly(plane: _Plane, server: Any, linger: float) -> None:
    """Ends the server once clients had time to see that it is not ready; at once when asked a second time."""
    if not plane.ending:
        plane.ending = True
        await asyncio.sleep(linger)
    server.should_exit = True


@contextlib.contextmanager
def _ending_quietly() -> Iterator[None]:
    """A scope whose signals end the server and not the process: uvicorn raises them again after its end."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the main thread's
        return
    before = {kind: signal.signal(kind, lambda *_: None) for kind in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)


def _warm_all(models: Sequence[_Model], server: Any, failures: list[BaseException]) -> None:
    try:
        for model in models:
            model.warm()
    except BaseException as error:
        failures.append(error)
        server.should_exit = True


def _grpc_server(plane: DataPlane, extension: ModelRepositoryExtension, address: str, most: int) -> Any:
    from grpc import aio  # a while, and only where it is asked for
    server = aio.server(interceptors=(ExceptionToStatusInterceptor(),),
                        options=[("grpc.max_receive_message_length", most), ("grpc.max_send_message_length", most)])
    _grpc_services.add_GRPCInferenceServiceServicer_to_server(InferenceServicer(plane, extension), server)
    server.add_insecure_port(address)
    return server
