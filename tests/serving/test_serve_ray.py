"""`python -m mxjax serve --on ray` on a real, local Ray cluster: replicas, batches, warm-up, limits, the end."""

import concurrent.futures
import contextlib
import http.client
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

from mxjax.base import MXNetError
from mxjax.tools.serve import replicas

if importlib.util.find_spec("kserve") is None:
    pytest.skip('needs the extra "serve"', allow_module_level=True)
pytest.importorskip("ray.serve", reason="needs ray[serve]")

MODEL = """
import os, time
import numpy as np

class Model:
    shapes, output_names, met = {"x": (1, 2)}, ["twice", "seen"], []

    def predict(self, inputs):
        rows = len(inputs["x"])
        self.met.append(rows)
        time.sleep(0.02)
        seen = [os.getpid(), rows, *self.met[:2]]
        return {"twice": inputs["x"] * 2, "seen": np.tile(np.array(seen, "int64"), (rows, 1))}
"""


def _ask(port, method, path, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ray")
    for version in ("1", "2"):
        (folder / "twice" / version).mkdir(parents=True)
        (folder / "twice" / version / "model.py").write_text(MODEL)
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        port, grpc_port = one.getsockname()[1], other.getsockname()[1]
    with open(folder / "log", "w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "mxjax", "serve", str(folder / "twice"), "--warm", "4,8", "--max-batch", "8", "--on",
             "ray", "--address", "local", "--replicas", "2:3", "--max-request-mb", "0.01", "--port", str(port),
             "--grpc-port", str(grpc_port)],
            stdout=log, stderr=subprocess.STDOUT)
    try:
        for _ in range(600):
            assert process.poll() is None, (folder / "log").read_text()
            if f"ready at 127.0.0.1:{port}" in (folder / "log").read_text():
                break
            time.sleep(0.5)
        yield process, port, grpc_port
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait(120)


class _Gone(Exception):
    """The service takes no more requests."""


def _infer(port, value, path=""):
    body = json.dumps({"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [value, 1]}]})
    try:
        status, answer = _ask(port, "POST", f"/v2/models/twice{path}/infer", body)
    except ConnectionRefusedError:
        raise _Gone from None
    if status in (404, 503):
        raise _Gone(answer)
    assert status == 200, answer
    outputs = {o["name"]: o["data"] for o in json.loads(answer)["outputs"]}
    assert outputs["twice"] == [2 * value, 2]
    return outputs["seen"]


def _over_grpc(port):
    client = pytest.importorskip("tritonclient.grpc", reason="needs tritonclient[grpc]")
    one = client.InferenceServerClient(f"127.0.0.1:{port}")

    def infer(rows, width=2, **more):
        given = client.InferInput("x", (rows, width), "FP32")
        given.set_data_from_numpy(np.ones((rows, width), "float32"))
        return one.infer("twice", [given], **more)
    assert one.is_server_live() and one.is_server_ready() and one.is_model_ready("twice", "1")
    assert list(one.get_model_metadata("twice").versions) == ["1", "2"]
    for version in ("1", "2", ""):
        answer = infer(3, model_version=version)
        assert answer.as_numpy("twice").tolist() == [[2, 2]] * 3
        assert answer.get_response().model_version == (version or "2")
    for mistake, message in ((lambda: infer(1, 3), r"INVALID_ARGUMENT.*shape \[-1, 2\], got \[1, 3\]"),
                             (lambda: infer(1, model_version="3"), "NOT_FOUND.*version 3"),
                             (lambda: infer(5000), "RESOURCE_EXHAUSTED.*10485 bytes"),
                             (lambda: one.load_model("twice"), "PERMISSION_DENIED.*--allow-load")):
        with pytest.raises(Exception, match=message):
            mistake()
    one.close()


@pytest.mark.timeout(600)
def test_replicas_answer_as_the_service_alone_does(service):
    process, port, grpc_port = service
    _over_grpc(grpc_port)
    assert json.loads(_ask(port, "GET", "/v2/models/twice")[1])["versions"] == ["1", "2"]
    assert _ask(port, "GET", "/v2/models/twice/versions/3")[0] == 404
    assert _ask(port, "POST", "/v2/models/twice/infer", "x" * 20000)[0] == 413
    _infer(port, 5, "/versions/1")
    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        seen = list(pool.map(lambda value: _infer(port, value), range(400)))
    assert len({pid for pid, *_ in seen}) in (2, 3) and os.getpid() not in {pid for pid, *_ in seen}
    assert {rows for _, rows, *_ in seen} == {4, 8}  # filled up, and shared
    assert all(met == [4, 8] for _, _, *met in seen)  # compiled before the first request

    def until_the_end(value):
        count = 0
        with contextlib.suppress(_Gone):
            while True:
                _infer(port, value)
                count += 1
        return count
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        counts = [pool.submit(until_the_end, value) for value in range(16)]
        time.sleep(2)
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0
    assert min(count.result() for count in counts) > 0


def test_numbers_of_replicas():
    assert (replicas("3"), replicas("1:8")) == ((3, 3), (1, 8))
    for text in ("0", "4:2", "a", "1:", ""):
        with pytest.raises(MXNetError, match="MIN <= MAX"):
            replicas(text)
