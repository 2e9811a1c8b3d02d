"""`python -m mxjax serve --manifest IMAGE URI MODEL`: the same command as a service of KServe.

The manifest has a `ServingRuntime`, which is the command in a container, and an `InferenceService`, which is the model
with its files. KServe puts the files at the URI into /mnt/models of the container.
"""

from __future__ import annotations

import argparse
import os
import re
from typing import Any

from ..base import MXNetError
from .serve import replicas

__all__ = ["manifest"]

_FOLDER = "/mnt/models"


def manifest(args: argparse.Namespace, models: list[Any]) -> str:
    """Returns the manifest in YAML.

    Args:
        args: the command's arguments.
        models: the models that these name, which are one model in one or several versions.

    Raises:
        MXNetError: several models, code that the image would have to have, or PyYAML is missing.
    """
    try:
        import yaml
    except ImportError as error:
        raise MXNetError(f"--manifest requires PyYAML ({error}): pip install 'mxjax[serve]'") from None
    names = {model.name for model in models}
    if len(names) > 1:
        raise MXNetError(f"an InferenceService must have one model, got {', '.join(sorted(names))}")
    image, uri = args.manifest
    name = re.sub(r"[^a-z0-9]+", "-", names.pop().lower()).strip("-")  # as Kubernetes wants names
    runtime = {"apiVersion": "serving.kserve.io/v1alpha1", "kind": "ServingRuntime",
               "metadata": {"name": f"mxjax-{name}"},
               "spec": {"supportedModelFormats": [{"name": "mxnet", "version": "1"}], "protocolVersions": ["v2"],
                        "containers": [_container(args, image, name)]}}
    low, high = replicas(args.replicas)
    predictor = {
        "minReplicas": low, "maxReplicas": high,
        "terminationGracePeriodSeconds": int(args.linger + args.grace) + 5,
        "model": {"modelFormat": {"name": "mxnet", "version": "1"}, "protocolVersion": "v2",
                  "runtime": f"mxjax-{name}", "storageUri": uri}}
    service = {"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService", "metadata": {"name": name},
               "spec": {"predictor": predictor}}
    return yaml.safe_dump_all([runtime, service], sort_keys=False)


def _container(args: argparse.Namespace, image: str, name: str) -> dict[str, Any]:
    source = args.models[0].rpartition("=")[2]
    place = _FOLDER if os.path.isdir(source) else f"{_FOLDER}/{os.path.basename(source)}"
    resources = {"cpu": "1", "memory": "2Gi", **({"nvidia.com/gpu": "1"} if args.ctx.startswith("gpu") else {})}
    return {
        "name": "kserve-container", "image": image, "command": ["python", "-m", "mxjax"],
        "args": ["serve", f"{name}={place}", "--host", "0.0.0.0", "--port", "8080", "--grpc-port", "0",
                 *_options(args)],
        "ports": [{"containerPort": 8080, "protocol": "TCP"}],
        "readinessProbe": {"httpGet": {"path": "/v2/health/ready", "port": 8080}, "periodSeconds": 2},
        "livenessProbe": {"httpGet": {"path": "/v2/health/live", "port": 8080}, "initialDelaySeconds": 30,
                          "failureThreshold": 6},
        "resources": {"requests": resources, "limits": dict(resources)}}


def _options(args: argparse.Namespace) -> list[str]:
    """The options that a container needs, too."""
    options = [f"--{flag.replace('_', '-')}" for flag in ("no_cache", "allow_load") if getattr(args, flag)]
    for option in ("shape", "dtype"):
        options += [word for text in getattr(args, option) for word in (f"--{option}", text)]
    for option in ("ctx", "warm", "max_batch", "max_delay_ms", "queue", "timeout", "max_request_mb", "linger", "grace"):
        options += [f"--{option.replace('_', '-')}", f"{getattr(args, option)}"]
    return options
