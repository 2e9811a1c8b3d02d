"""`python -m mxjax serve --on ray`: the service in replicas on a Ray cluster, behind Ray Serve's proxies.

Each replica loads the models from the same paths, compiles them before requests come, and puts requests together as
the service without Ray does: it is the same application. Ray Serve hands requests to replicas, starts and ends them.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import threading
from importlib import import_module
from typing import Any

from ..base import MXNetError
from ._model import import_code
from .launch_ray import find_ray, join
from .serve import limits_of, models_of, replicas

__all__ = ["serve_on_ray"]

_NAME = "mxjax"


def serve_on_ray(args: argparse.Namespace, limits: Any) -> int:
    """Serves models on a Ray cluster until SIGTERM or SIGINT; returns the exit status.

    Args:
        args: the command's arguments.
        limits: the `Limits` among them.

    Raises:
        MXNetError: there is no Ray or no cluster, or a replica cannot start.
    """
    scaling = _scaling(args.replicas, limits.max_batch)
    ray = find_ray("serve")
    try:
        serve = import_module("ray.serve")
    except ImportError as error:
        raise MXNetError(f"--on ray requires Ray Serve ({error}): pip install 'mxjax[serve-ray]'") from None
    address = args.address or os.environ.get("RAY_ADDRESS") or "local"
    local: dict[str, Any] = {}
    if address == "local":  # as many as are needed, even more than there are cores, as without Ray
        local = {"include_dashboard": False, "num_cpus": max(replicas(args.replicas)[1], os.cpu_count() or 1)}
    methods, grpc_options = _over_grpc(args)
    done = threading.Event()
    join(ray, address, "serve", runtime_env={"env_vars": {"MXNET_ENFORCE_DETERMINISM": "1"}}, **local)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: done.set())
    try:
        serve.start(http_options={"host": args.host, "port": args.port}, grpc_options=grpc_options)
        replica = serve.deployment(
            name="models", ray_actor_options={"num_cpus": 1, "num_gpus": int(args.ctx.startswith("gpu"))},
            # the replica refuses requests beyond its queue, which only it can see
            max_ongoing_requests=limits.queue_size + limits.max_batch, graceful_shutdown_timeout_s=args.grace,
            **scaling)(serve.ingress(_builder(args))(type("Models", (), methods)))
        try:
            serve.run(replica.bind(), name=_NAME, route_prefix="/")
        except Exception as error:
            raise MXNetError(f"--on ray: the service did not start: {' '.join(str(error).split())[:1000]}") from None
        print(f"serve: ready at {args.host}:{args.port}", file=sys.stderr, flush=True)
        done.wait()
        serve.delete(_NAME)  # which answers the requests that are there
        return 0
    finally:
        with contextlib.suppress(Exception):  # the cluster may have gone
            if local:
                serve.shutdown()
            ray.shutdown()


def _scaling(text: str, batch: int) -> dict[str, Any]:
    """Options of a deployment for N or MIN:MAX replicas."""
    low, high = replicas(text)
    if ":" not in text:
        return {"num_replicas": low}
    return {"autoscaling_config": {"min_replicas": low, "max_replicas": high, "target_ongoing_requests": batch}}


def _over_grpc(args: argparse.Namespace) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The methods of a replica that answer over gRPC, and the options of Ray's gRPC proxies; none without a port."""
    if not args.grpc_port:
        return {}, None
    from ..serving.server import GRPC_METHODS, GRPC_SERVICER  # the extra "serve"
    return {name: _answering(name) for name in GRPC_METHODS}, {
        "port": args.grpc_port, "grpc_servicer_functions": [GRPC_SERVICER]}


def _answering(method: str) -> Any:
    async def answer(self: Any, request: Any, grpc_context: Any) -> Any:  # Ray Serve looks for this name
        app = import_module("..serving.server", __package__).app  # in the replica alone: a process has one
        return await app.state.models.answer_grpc(method, request, grpc_context)
    return answer


def _builder(args: argparse.Namespace) -> Any:
    """A function that makes the application in a replica. Ray Serve takes functions alone, and sends this one there."""
    def build() -> Any:
        from ..serving.server import Application  # in the replica alone: a process has one
        import_code(args.imported)
        application = Application(models_of(args)[0], limits_of(args))
        application.warm()
        return application.app
    return build
