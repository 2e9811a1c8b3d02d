"""Models behind the Open Inference Protocol V2, over HTTP and gRPC: kserve's protocol on uvicorn and grpc."""

# pyright: reportMissingImports=false
# kserve, which brings the other packages, is an extra.
from __future__ import annotations

import asyncio
import contextlib
import contextvars
import dataclasses
import json
import logging
import re
import signal
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import kserve
import numpy as np
from fastapi import Request, Response
from fastapi.responses import JSONResponse
from google.protobuf.unknown_fields import UnknownFieldSet
from grpc_interceptor.exceptions import DeadlineExceeded, InvalidArgument, PermissionDenied, ResourceExhausted
from kserve.errors import InvalidInput, ModelNotFound, ModelNotReady, ServerNotReady
from kserve.model_server import app
from kserve.protocol.dataplane import DataPlane
from kserve.protocol.grpc import grpc_predict_v2_pb2 as _messages
from kserve.protocol.grpc import grpc_predict_v2_pb2_grpc as _grpc_services
from kserve.protocol.grpc.interceptors import ExceptionToStatusInterceptor
from kserve.protocol.grpc.servicer import InferenceServicer
from kserve.protocol.infer_type import InferInput, InferOutput, InferRequest, InferResponse, RequestedOutput
from kserve.protocol.model_repository_extension import ModelRepositoryExtension
from kserve.protocol.rest.server import RESTServer
from kserve.utils.numpy_codec import from_np_dtype, to_np_dtype
from prometheus_client import Counter, Gauge, Histogram

from ..base import MXNetError
from .batching import Batcher, Overloaded, TooLate
from .handler import Handler, UnknownType
from .served import Served

if TYPE_CHECKING:
    import uvicorn
    from fastapi import FastAPI
    from grpc.aio import ServicerContext
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["GRPC_METHODS", "GRPC_SERVICER", "Application", "Limits", "serve"]

_FORM = b"application/x-www-form-urlencoded"
# the protocol over gRPC: its methods, and where the function is that adds them to a server
GRPC_METHODS = ("ServerLive", "ServerReady", "ServerMetadata", "ModelReady", "ModelMetadata", "ModelInfer",
                "RepositoryModelLoad", "RepositoryModelUnload")
GRPC_SERVICER = f"{__name__}.add_to_grpc"
add_to_grpc = _grpc_services.add_GRPCInferenceServiceServicer_to_server
# Ray pickles messages for other processes, and kserve's name a module that cannot be imported
sys.modules.setdefault(_messages.ServerLiveRequest.__module__, _messages)
_log = logging.getLogger("mxjax.serving")
_WHICH = ["model", "version"]
_ROWS = Histogram("mxjax_batch_rows", "rows of a batch, without padding", _WHICH,
                  buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256))
_REQUESTS = Histogram("mxjax_batch_requests", "requests of a batch", _WHICH, buckets=(1, 2, 4, 8, 16, 32, 64, 128))
_FILLED = Counter("mxjax_filled_rows", "padding rows in batches", _WHICH)
_WAITING = Gauge("mxjax_waiting_requests", "requests that wait", _WHICH)
_REFUSED = Counter("mxjax_refused_requests", "requests rejected or abandoned", [*_WHICH, "why"])
_COMPILED = Gauge("mxjax_compiled_forms", "compiled input shapes and dtypes", _WHICH)
# the version of the current request, since kserve's endpoints have no versions
_VERSION: contextvars.ContextVar[str] = contextvars.ContextVar("version", default="")


@dataclasses.dataclass(frozen=True)
class Limits:
    """The limits of requests.

    warm: batch sizes to compile before a model is ready, to which batches are padded; (): compile
        on request.
    max_batch, max_delay, queue_size, timeout: see `Batcher`.
    max_bytes: maximum size of a request.
    """

    warm: Sequence[int] = (1, 2, 4, 8, 16, 32)
    max_batch: int = 32
    max_delay: float = 0.002
    queue_size: int = 1024
    timeout: float = 30.0
    max_bytes: int = 64 << 20

    @property
    def sizes(self) -> list[int]:
        """Returns the sizes of `warm` that a batch may have."""
        return [size for size in self.warm if size <= self.max_batch]


class _Handler:
    """A `Handler` that answers one request at a time, with the limits of a model."""

    def __init__(self, handler: Handler, limits: Limits) -> None:
        self.name, self.handler, self.ready = handler.name, handler, False
        self.batcher = Batcher(handler, 1, 0, limits.queue_size, limits.timeout)
        _WAITING.labels(handler.name, "").set_function(lambda: self.batcher.waiting)

    def warm(self) -> None:
        """Loads the model."""
        self.handler.warm()
        self.ready = True

    async def invocations(self, request: Request) -> Response:
        """Answers SageMaker's requests."""
        if not self.ready:
            raise ModelNotReady(self.name, "It is being loaded.")
        accept = request.headers.get("accept", "*/*")
        row = np.empty((1, 3), object)
        row[0] = (await request.body(), request.headers.get("content-type", "application/json"),
                  "application/json" if accept == "*/*" else accept)
        try:
            [[content, media_type]] = (await self.batcher.submit({"request": row}))["answer"]
        except UnknownType as error:
            return JSONResponse({"error": str(error)}, 415)
        except ValueError as error:
            raise InvalidInput(str(error)) from None
        except (Overloaded, TooLate) as error:
            _REFUSED.labels(self.name, "", "overloaded" if isinstance(error, Overloaded) else "too late").inc()
            raise
        return Response(content, media_type=media_type)


class _Model(kserve.Model):
    """A `Served` model as kserve calls it."""

    def __init__(self, served: Served, limits: Limits) -> None:
        super().__init__(served.name)
        self.served, self._sizes, self.ready = served, limits.sizes, False
        self._labels = served.name, served.version
        rows, requests = (metric.labels(*self._labels) for metric in (_ROWS, _REQUESTS))
        filled = _FILLED.labels(*self._labels)

        def note(count: int, together: int, more: int) -> None:
            rows.observe(count)
            requests.observe(together)
            filled.inc(more)
        self.batcher = Batcher(served, limits.max_batch, limits.max_delay, limits.queue_size, limits.timeout,
                               limits.sizes, note)

    def measure(self) -> None:
        """Registers the gauges of its name and version for this model."""
        _WAITING.labels(*self._labels).set_function(lambda: self.batcher.waiting)
        _COMPILED.labels(*self._labels).set_function(lambda: self.served.compiled)

    def forget(self) -> None:
        """Removes the gauges of its name and version."""
        _WAITING.remove(*self._labels)
        _COMPILED.remove(*self._labels)

    def warm(self) -> None:
        """Compiles the model; it is ready afterwards."""
        if self._sizes:
            self.served.warm(self._sizes)
        self.ready = True
        _log.info("%s is ready", self.name)

    def load(self) -> bool:
        """Rejects requests that arrive before the model is warm; kserve would treat them as requests to load it."""
        if not self.ready:
            raise ModelNotReady(self.name, "It is being compiled.")
        return True

    async def get_input_types(self) -> list[dict[str, Any]]:
        """Returns the inputs as the protocol describes them."""
        return [_described(one) for one in self.served.inputs]

    async def get_output_types(self) -> list[dict[str, Any]]:
        """Returns the outputs as the protocol describes them."""
        return [_described(one) for one in self.served.outputs]

    async def predict(self, payload: Any, headers: dict[str, str] | None = None,
                      response_headers: dict[str, str] | None = None) -> Any:
        """Answers a request of version 2 of the protocol, or of version 1 (`instances`)."""
        over_grpc = isinstance(payload, InferRequest) and bool(payload.from_grpc)
        try:
            inputs = self.served.checked(_arrays(payload, self.served.input_names))
            outputs = await self.batcher.submit(inputs)
        except ValueError as error:
            raise (InvalidArgument(str(error)) if over_grpc else InvalidInput(str(error))) from None
        except Overloaded as error:
            _REFUSED.labels(*self._labels, "overloaded").inc()
            raise (ResourceExhausted(str(error)) if over_grpc else error) from None
        except TooLate as error:
            _REFUSED.labels(*self._labels, "too late").inc()
            raise (DeadlineExceeded(str(error)) if over_grpc else error) from None
        if not isinstance(payload, InferRequest):
            first = next(iter(outputs.values()))
            return {"predictions": first.tolist()}
        return _response(self.served, payload, outputs)


class _Repository(kserve.ModelRepository):
    """Models by name and version; without a version the newest is meant."""

    def __init__(self) -> None:
        super().__init__()
        self.versions: dict[str, dict[str, _Model]] = {}

    def add(self, model: _Model) -> None:
        """Adds a model as the newest version of its name."""
        self.versions.setdefault(model.name, {})[model.served.version] = model
        model.measure()

    def exchange(self, name: str, models: Sequence[_Model]) -> list[_Model]:
        """Replaces the versions of a model and returns the previous ones."""
        before = list(self.versions.pop(name, {}).values())
        for model in before:
            model.forget()
        for model in models:
            self.add(model)
        return before

    def get_models(self) -> dict[str, _Model]:
        """Returns the newest version of each model."""
        return {name: list(versions.values())[-1] for name, versions in self.versions.items()}

    def get_model(self, name: str) -> _Model | None:
        """Returns the model for the current request, or None if there is none of this name.

        Raises:
            ModelNotFound: the model has no such version.
        """
        version = _VERSION.get()
        if not version or name not in self.versions:
            return self.get_models().get(name)
        if version not in self.versions[name]:
            raise ModelNotFound(f"{name}, version {version},")
        return self.versions[name][version]


class _Plane(DataPlane):
    """kserve's, ready from when all models are until the service is about to end."""

    ending = False

    def __init__(self, repository: _Repository, handlers: Sequence[_Handler]) -> None:
        super().__init__(model_registry=repository)
        self._handlers = handlers

    @property
    def models(self) -> list[_Model | _Handler]:
        """Returns all models that are currently served."""
        return [*(m for versions in self.model_registry.versions.values() for m in versions.values()), *self._handlers]

    async def ready(self) -> bool:
        """Returns whether the service accepts requests."""
        return not self.ending and all(model.ready for model in self.models)

    async def model_metadata(self, model_name: str) -> dict[str, Any]:
        """Returns inputs, outputs and versions of a model."""
        versions = [v for v in self.model_registry.versions.get(model_name, ()) if v]
        return {**await super().model_metadata(model_name), **({"versions": versions} if versions else {})}

    def decode_inference_request(self, body: bytes | dict[str, Any], headers: Mapping[str, str],
                                 model_name: str) -> InferRequest:
        """Returns a request that is already parsed.

        Binary tensors stay bytes. kserve would convert them to a list of Python numbers, which
        takes 7 ms for 50 KB.
        """
        try:
            if isinstance(body, bytes):
                return _with_bytes(body, headers, model_name)
            return super().decode_inference_request(body, headers, model_name)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InvalidInput(f"the request cannot be read: {type(error).__name__}: {error}") from None


class NotAllowed(MXNetError):
    """A request to load or unload a model was rejected because the service does not allow it."""


class _Extension(ModelRepositoryExtension):
    """Loads and unloads models, one after the other. A request names a model, never its files.

    Args:
        plane: data plane with the models.
        loaders: by name of a model, a function that reads its files and returns its versions; None: nothing is loaded.
        limits: of the models.
    """

    def __init__(self, plane: _Plane, loaders: Mapping[str, Callable[[], Sequence[Served]]] | None,
                 limits: Limits) -> None:
        super().__init__(model_registry=plane.model_registry)
        self._plane, self._loaders, self._limits, self._one = plane, loaders, limits, asyncio.Lock()

    async def index(self, filter_ready: bool | None = False) -> list[dict[str, str]]:
        """Returns name, version and state of each model, including unloaded ones."""
        versions = self._model_registry.versions
        entries = [{"name": name, "version": version, "state": "READY" if model.ready else "LOADING", "reason": ""}
                for name, models in versions.items() for version, model in models.items()]
        entries += [{"name": name, "version": "", "state": "UNAVAILABLE", "reason": "unloaded"}
                 for name in self._loaders or () if name not in versions]
        return [one for one in entries if one["state"] == "READY" or not filter_ready]

    async def load(self, model_name: str) -> None:
        """Reads a model's files again, and switches requests to the new versions once they are compiled.

        Raises:
            NotAllowed: the service does not allow loading.
            ModelNotFound: there is no such model.
            InvalidInput: its files cannot be read or served. The previous versions stay.
        """
        loader = self._loader(model_name)
        async with self._one:
            models: list[_Model] = []
            try:
                for served in await asyncio.to_thread(loader):
                    models.append(_Model(served, self._limits))
                    await asyncio.to_thread(models[-1].warm)
            except Exception as error:  # a model's file may raise anything
                for model in models:
                    model.batcher.close()
                raise InvalidInput(f"model {model_name} cannot be loaded: {type(error).__name__}: {error}") from error
            await self._end(self._model_registry.exchange(model_name, models))

    async def unload(self, model_name: str) -> None:
        """Removes a model, and returns when its last request is answered.

        Raises:
            NotAllowed: the service does not allow unloading.
            ModelNotFound: there is no such model.
        """
        self._loader(model_name)
        async with self._one:
            await self._end(self._model_registry.exchange(model_name, ()))

    def _loader(self, name: str) -> Callable[[], Sequence[Served]]:
        if self._loaders is None:
            raise NotAllowed("this service does not load or unload models: start it with --allow-load")
        if self._plane.ending:
            raise ServerNotReady()
        if name not in self._loaders:
            raise ModelNotFound(name)
        return self._loaders[name]

    async def _end(self, models: Sequence[_Model]) -> None:
        await asyncio.gather(*(model.batcher.drain() for model in models))
        for model in models:
            model.batcher.close()

    # ------------------------------------------------------------ over HTTP
    async def http_index(self, request: Request) -> list[dict[str, str]]:
        """Answers a request for the index."""
        return await self.index((await _said(request)).get("ready", False))

    async def http_load(self, model_name: str, request: Request) -> dict[str, Any]:
        """Answers a request to load a model."""
        if (await _said(request)).get("parameters"):
            raise InvalidInput(_NO_PARAMETERS)
        await self.load(model_name)
        return {"name": model_name, "load": True}

    async def http_unload(self, model_name: str) -> dict[str, Any]:
        """Answers a request to unload a model."""
        await self.unload(model_name)
        return {"name": model_name, "unload": True}

    def add_to(self, routes: FastAPI) -> None:
        """Adds its endpoints to an application before those of kserve, which lack the index and
        ignore the request body."""
        routes.add_api_route("/v2/repository/index", self.http_index, methods=["GET", "POST"])
        routes.add_api_route("/v2/repository/models/{model_name}/load", self.http_load, methods=["POST"])
        routes.add_api_route("/v2/repository/models/{model_name}/unload", self.http_unload, methods=["POST"])


_NO_PARAMETERS = "models are loaded as configured on the command line; a load request must not have parameters"


async def _said(request: Request) -> dict[str, Any]:
    """Returns the JSON object in the body of a request; an empty one where there is no body."""
    try:
        said = json.loads(await request.body() or b"{}")
    except ValueError as error:
        raise InvalidInput(f"the request is not JSON: {error}") from None
    if not isinstance(said, dict):
        raise InvalidInput(f"the request must be a JSON object, got {type(said).__name__}")
    return said


def _with_bytes(body: bytes, headers: Mapping[str, str], model_name: str) -> InferRequest:
    """Reads a request of JSON with binary tensors behind it."""
    length = headers.get("inference-header-content-length", "")
    if not length.isdigit() or int(length) > len(body):
        raise InvalidInput(f"a request that is not JSON needs the header Inference-Header-Content-Length, the length "
                           f"of its JSON part, at most {len(body)}; got {length!r}")
    said, begin, inputs = json.loads(body[:int(length)]), int(length), []
    for one in said["inputs"]:
        parameters = one.get("parameters") or {}
        tensor = InferInput(one["name"], one["shape"], one["datatype"], one.get("data"), parameters)
        size = parameters.get("binary_data_size")
        if size is not None:
            content = body[begin:begin + size]
            if size < 0 or len(content) < size:
                raise InvalidInput(f"input {tensor.name} has {len(content)} bytes, expected {size}")
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


def _response(served: Served, request: InferRequest, outputs: dict[str, np.ndarray]) -> InferResponse:
    wanted = [output.name for output in request.request_outputs or ()] or list(outputs)
    unknown = [n for n in wanted if n not in outputs]
    if unknown:
        raise InvalidInput(f"model {served.name} has the outputs {', '.join(outputs)}, asked for {', '.join(unknown)}")
    tensors = []
    for output in wanted:
        value = np.ascontiguousarray(outputs[output])
        tensors.append(InferOutput(output, list(value.shape), from_np_dtype(value.dtype)))
        tensors[-1].set_data_from_numpy(value, binary_data=True)  # kserve makes text of it where that is asked for
    return InferResponse(request.id or uuid.uuid4().hex, served.name, tensors, served.version or None,
                         use_binary_outputs=request.use_binary_outputs, requested_outputs=request.request_outputs)


class _Servicer(InferenceServicer):
    """kserve's answers over gRPC, with versions."""

    async def ModelReady(self, request: Any, context: ServicerContext) -> Any:
        _VERSION.set(request.version)
        return await super().ModelReady(request, context)

    async def ModelMetadata(self, request: Any, context: ServicerContext) -> Any:
        _VERSION.set(request.version)
        answer = await super().ModelMetadata(request, context)
        answer.versions.extend((await self._data_plane.model_metadata(request.name)).get("versions", ()))
        return answer

    async def ModelInfer(self, request: Any, context: ServicerContext) -> Any:
        _VERSION.set(request.model_version)
        return await super().ModelInfer(request, context)

    async def RepositoryModelLoad(self, request: Any, context: ServicerContext) -> Any:
        name = self._model_of(request)
        if any(field.field_number == _PARAMETERS for field in UnknownFieldSet(request)):
            raise InvalidInput(_NO_PARAMETERS)
        with _refusals_of_grpc():
            await self._mode_repository_extension.load(name)
        return _messages.RepositoryModelLoadResponse(model_name=name, isLoaded=True)

    async def RepositoryModelUnload(self, request: Any, context: ServicerContext) -> Any:
        name = self._model_of(request)
        with _refusals_of_grpc():
            await self._mode_repository_extension.unload(name)
        return _messages.RepositoryModelUnloadResponse(model_name=name, isUnloaded=True)

    @staticmethod
    def _model_of(request: Any) -> str:
        """The model that a request to load or unload names: in kserve's field, or in the one of Triton's clients."""
        names = [field.data for field in UnknownFieldSet(request) if field.field_number == _TRITON_NAME]
        return request.model_name or b"".join(n for n in names if isinstance(n, bytes)).decode(errors="replace")


# of Triton's requests to load and unload, which kserve's messages do not have
_TRITON_NAME, _PARAMETERS = 2, 3


@contextlib.contextmanager
def _refusals_of_grpc() -> Iterator[None]:
    try:
        yield
    except NotAllowed as error:
        raise PermissionDenied(str(error)) from None


class _Edge:
    """Checks each HTTP request before kserve reads it, and completes its response.

    Requests of more than so many bytes are refused, with or without a declared length. A body without a type is
    JSON, as is a form of `curl -d`. A version is taken out of the path. When the service is about to end,
    responses close the connection.
    """

    def __init__(self, inner: ASGIApp, most: int, plane: _Plane) -> None:
        self._inner, self._most, self._plane = inner, most, plane

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        versioned = re.fullmatch(r"(/v2/models/[^/]+)/versions/([^/]+)(/.*)?", scope["path"])
        _VERSION.set(versioned[2] if versioned else "")
        if versioned:
            scope = {**scope, "path": versioned[1] + (versioned[3] or "")}
        headers = dict(scope["headers"])
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > self._most:
            await JSONResponse({"error": f"a request may have at most {self._most} bytes"}, 413)(scope, receive, send)
            return
        if b"inference-header-content-length" not in headers and headers.get(b"content-type", _FORM).startswith(_FORM):
            scope["headers"] = list({**headers, b"content-type": b"application/json"}.items())
        read = 0

        async def limited() -> Any:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > self._most:
                raise InvalidInput(f"a request may have at most {self._most} bytes")
            return message

        async def answered(message: Message) -> None:
            if self._plane.ending and message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"connection", b"close")]
            await send(message)
        await self._inner(scope, limited, answered)


# kserve logs a traceback of each, and so of each probe of a service that is not ready yet
_REFUSALS = {InvalidInput: 400, ModelNotFound: 404, ModelNotReady: 503, ServerNotReady: 503, Overloaded: 503,
             TooLate: 504, NotAllowed: 403}


async def _refused(request: Request, error: Exception) -> JSONResponse:
    """Answers a request that is refused, with a line in the log."""
    status = next(status for error_type, status in _REFUSALS.items() if isinstance(error, error_type))
    _log.info("%d at %s: %s", status, request.url.path, error)
    return JSONResponse({"error": str(error)}, status, {"Retry-After": "1"} if status == 503 else None)


class _Metadatum(NamedTuple):
    key: str
    value: str


class _Context:
    """Ray's context of a gRPC request as kserve uses one of `grpc`: with `abort`, and with names in its metadata."""

    def __init__(self, context: Any) -> None:
        self._context = context

    def invocation_metadata(self) -> list[_Metadatum]:
        return [_Metadatum(*pair) for pair in self._context.invocation_metadata()]

    async def abort(self, code: object, details: str = "") -> None:
        self._context.set_code(code)
        self._context.set_details(details)
        raise MXNetError(details)


class Application:
    """An application that serves models over HTTP. A process can have only one.

    app: the ASGI application; plane: answers the requests, also over gRPC.

    Args:
        models: models to serve; the newest version of a model must be last.
        limits: limits of requests.
        loaders: functions that load the versions of a model, by name. Clients may load and unload
            these models.
    """

    def __init__(self, models: Sequence[Served | Handler], limits: Limits,
                 loaders: Mapping[str, Callable[[], Sequence[Served]]] | None = None) -> None:
        self.app, self._limits, handlers, repository = app, limits, [], _Repository()
        app.state.models = self
        for one in models:
            if isinstance(one, Handler):
                handlers.append(_Handler(one, limits))
                app.add_api_route("/invocations", handlers[-1].invocations, methods=["POST"])
            else:
                repository.add(_Model(one, limits))
        self.plane = _Plane(repository, handlers)
        self.extension = _Extension(self.plane, loaders, limits)
        self.extension.add_to(app)
        app.add_api_route("/ping", self._ping, methods=["GET"])
        self.rest = RESTServer("kserve.model_server:app", self.plane, self.extension, 0)
        self.rest.create_application()
        app.add_middleware(_Edge, most=limits.max_bytes, plane=self.plane)
        for error_type in _REFUSALS:
            app.add_exception_handler(error_type, _refused)

    async def _ping(self) -> Response:
        """Answers SageMaker's question whether the service is ready."""
        return Response(status_code=200 if await self.plane.ready() else 503)

    @property
    def servicer(self) -> _Servicer:
        """Returns the gRPC servicer, for a server that reports exceptions as statuses."""
        return _Servicer(self.plane, self.extension)

    async def answer_grpc(self, method: str, request: Any, context: Any) -> Any:
        """Answers a gRPC request that was received by something other than a `grpc` server.

        Args:
            method: one of `GRPC_METHODS`.
            request: message of the method.
            context: object with `invocation_metadata`, `set_code` and `set_details`.

        Raises:
            MXNetError: the request is rejected; the context contains the reason.
        """
        context = _Context(context)
        try:
            if request.ByteSize() > self._limits.max_bytes:
                raise ResourceExhausted(f"a request may have at most {self._limits.max_bytes} bytes")
            return await getattr(self.servicer, method)(request, context)
        except Exception as error:
            await ExceptionToStatusInterceptor().handle_exception(error, request, context, method)

    def warm(self) -> None:
        """Compiles all models; afterwards the application is ready."""
        for model in self.plane.models:
            model.warm()

    async def drain(self) -> None:
        """Rejects new requests and returns when all others are answered."""
        await asyncio.gather(*(model.batcher.drain() for model in self.plane.models))

    def close(self) -> None:
        """Stops the threads."""
        for model in self.plane.models:
            model.batcher.close()


def serve(models: Sequence[Served | Handler], limits: Limits, *, host: str = "127.0.0.1", port: int = 8080,
          grpc_port: int | None = 8081, linger: float = 1.0, grace: int = 30,
          loaders: Mapping[str, Callable[[], Sequence[Served]]] | None = None) -> None:
    """Serves models until SIGTERM or SIGINT; pending requests are still answered.

    Args:
        models: models to serve; the newest version of a model must be last.
        limits: limits of requests.
        host: address to listen on.
        port, grpc_port: ports of HTTP and gRPC; None: no gRPC.
        linger: seconds between SIGTERM, when the service reports that it is not ready, and the end
            of new connections.
        grace: seconds to answer the remaining requests at the end.
        loaders: functions that load the versions of a model, by name. Clients may load and unload
            these models.
    """
    asyncio.run(_serve(models, limits, loaders, host, port, grpc_port, linger, grace))


async def _serve(models: Sequence[Served | Handler], limits: Limits,
                 loaders: Mapping[str, Callable[[], Sequence[Served]]] | None, host: str, port: int,
                 grpc_port: int | None, linger: float, grace: int) -> None:
    application = Application(models, limits, loaders)
    plane, rest = application.plane, application.rest
    rest.config.host, rest.config.port, rest.config.timeout_graceful_shutdown = host, port, grace
    server = None
    if grpc_port is not None:
        server = _grpc_server(application, f"{host}:{grpc_port}", limits.max_bytes)
        await server.start()
    failures: list[BaseException] = []
    listener = rest._server
    threading.Thread(target=_warmed, args=(application, listener, failures), name="mxjax-warm", daemon=True).start()
    loop = asyncio.get_running_loop()
    listener.handle_exit = lambda *_: loop.call_soon_threadsafe(
        loop.create_task, _end_slowly(plane, listener, linger))
    with _ending_quietly():
        await listener.serve()
    try:
        await application.drain()
    finally:
        if server is not None:
            await server.stop(grace)
        application.close()
    if failures:
        raise failures[0]


async def _end_slowly(plane: _Plane, server: uvicorn.Server, linger: float) -> None:
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
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _warmed(application: Application, server: uvicorn.Server, failures: list[BaseException]) -> None:
    try:
        application.warm()
    except BaseException as error:
        failures.append(error)
        server.should_exit = True


def _grpc_server(application: Application, address: str, most: int) -> Any:
    from grpc import aio  # a while, and only where it is asked for
    server = aio.server(interceptors=(ExceptionToStatusInterceptor(),),
                        options=[("grpc.max_receive_message_length", most), ("grpc.max_send_message_length", most)])
    add_to_grpc(application.servicer, server)
    server.add_insecure_port(address)
    return server
