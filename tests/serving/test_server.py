"""`python -m mxjax serve` driven by tritonclient and plain HTTP: answers, mistakes, limits, metrics, the end."""

import http.client
import importlib.util
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import mxjax as mx

# not imported: its protocol buffers and tritonclient's have the same names, and a process may have one of them only
if importlib.util.find_spec("kserve") is None:
    pytest.skip('needs the extra "serve"', allow_module_level=True)
client = pytest.importorskip("tritonclient.http", reason="needs tritonclient[http,grpc]")
grpc_client = pytest.importorskip("tritonclient.grpc", reason="needs tritonclient[http,grpc]")


def _port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


HANDLER = """
import mxnet as mx

def model_fn(model_dir):
    symbol, arguments, states = mx.model.load_checkpoint(model_dir + "/mlp", 3)
    module = mx.mod.Module(symbol, label_names=None)
    module.bind([("data", (2, 4))], for_training=False)
    module.set_params(arguments, states, allow_missing=True)
    return module
"""


CHANGING = """
class Model:
    shapes, output_names = {{"y": (1, 2)}}, ["z"]
    def predict(self, inputs):
        return {{"z": inputs["y"] + {}}}
"""


class _Server:
    """A server process with a model of 4 inputs and 3 outputs, and others."""

    def __init__(self, folder, *arguments, shape="data=1,4", others=()):
        net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, name="fc"),
                                   name="softmax")
        self.weight = np.random.default_rng(0).normal(size=(3, 4)).astype("float32")
        prefix = str(folder / "mlp")
        mx.model.save_checkpoint(prefix, 3, net, {"fc_weight": mx.nd.array(self.weight), "fc_bias": mx.nd.zeros(3)}, {})
        self.port, self.grpc = _port(), _port()
        environment = {**os.environ, "MXJAX_CACHE_DIR": str(folder / "cache")}
        self.log = folder / "log"
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "mxjax", "serve", prefix, *others, "--shape", shape, "--warm", "1,4,8",
                 "--max-batch", "8", "--port", str(self.port), "--grpc-port", str(self.grpc), *arguments],
                env=environment, stdout=log, stderr=subprocess.STDOUT)

    def expected(self, x):
        z = np.exp(x @ self.weight.T)
        return z / z.sum(1, keepdims=True)

    def ask(self, method, path, body=None, **headers):
        """(status, body) of an HTTP request."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json", **headers})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def until_ready(self):
        """The statuses of the readiness check until it is 200."""
        seen = []
        for _ in range(600):
            try:
                seen.append(self.ask("GET", "/v2/health/ready")[0])
            except OSError:
                assert self.process.poll() is None, self.log.read_text()
            if seen and seen[-1] == 200:
                return seen
            time.sleep(0.1)
        raise AssertionError(self.log.read_text())


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("server")
    for version in (9, 10):
        place = folder / "factor" / str(version)
        place.mkdir(parents=True)
        (place / "model.py").write_text(
            "class Model:\n    shapes = {'x': (1, 2)}\n    output_names = ['y']\n"
            f"    def predict(self, inputs):\n        return {{'y': inputs['x'] * {version}}}\n")
    (folder / "code").mkdir()
    (folder / "code" / "inference.py").write_text(HANDLER)
    (folder / "changing.py").write_text(CHANGING.format(1))
    one = _Server(folder, "--max-request-mb", "0.1", "--allow-load",
                  others=[str(folder / "factor"), str(folder / "code/inference.py"), str(folder / "changing.py")])
    one.changing = folder / "changing.py"
    try:
        assert set(one.until_ready()) <= {503, 200}
        yield one
    finally:
        one.process.kill()
        one.process.wait()


def _body(values):
    return json.dumps({"inputs": [{"name": "data", "shape": list(np.shape(values)), "datatype": "FP32",
                                   "data": np.ravel(values).tolist()}]})


def test_metadata(server):
    status, body = server.ask("GET", "/v2/models/mlp")
    said = json.loads(body)
    assert status == 200 and said["inputs"] == [{"name": "data", "datatype": "FP32", "shape": [-1, 4]}]
    assert said["outputs"] == [{"name": "softmax_output", "datatype": "FP32", "shape": [-1, 3]}]
    assert server.ask("GET", "/v2/models/other")[0] == 404


@pytest.mark.parametrize("binary", [False, True])
def test_answers_over_http(server, binary):
    http_one = client.InferenceServerClient(f"127.0.0.1:{server.port}")
    assert http_one.is_server_ready() and http_one.is_model_ready("mlp")
    for rows in (1, 3, 8, 21):
        x = np.random.default_rng(rows).normal(size=(rows, 4)).astype("float32")
        given = client.InferInput("data", x.shape, "FP32")
        given.set_data_from_numpy(x, binary_data=binary)
        answer = http_one.infer("mlp", [given], outputs=[client.InferRequestedOutput("softmax_output", binary)])
        np.testing.assert_allclose(answer.as_numpy("softmax_output"), server.expected(x), rtol=1e-5)
        assert ("data" in answer.get_output("softmax_output")) is not binary
    http_one.close()


def test_answers_over_grpc(server):
    one = grpc_client.InferenceServerClient(f"127.0.0.1:{server.grpc}")
    assert one.is_server_ready() and one.is_model_ready("mlp")
    assert [i.name for i in one.get_model_metadata("mlp").inputs] == ["data"]
    x = np.random.default_rng(1).normal(size=(5, 4)).astype("float32")
    given = grpc_client.InferInput("data", x.shape, "FP32")
    given.set_data_from_numpy(x)
    np.testing.assert_allclose(one.infer("mlp", [given]).as_numpy("softmax_output"), server.expected(x), rtol=1e-5)
    wrong = grpc_client.InferInput("data", (5, 3), "FP32")
    wrong.set_data_from_numpy(x[:, :3])
    with pytest.raises(Exception, match=r"INVALID_ARGUMENT.*shape \[-1, 4\], got \[5, 3\]"):
        one.infer("mlp", [wrong])
    one.close()


def test_answers_as_version_1_and_from_curl(server):
    status, body = server.ask("POST", "/v1/models/mlp:predict", json.dumps({"instances": [[0, 0, 0, 0]]}))
    assert status == 200
    np.testing.assert_allclose(json.loads(body)["predictions"], [[1 / 3] * 3], rtol=1e-6)
    form = {"Content-Type": "application/x-www-form-urlencoded"}  # what `curl -d` calls it
    assert server.ask("POST", "/v2/models/mlp/infer", _body([[0, 0, 0, 0]]), **form)[0] == 200


@pytest.mark.parametrize("body, status", [
    ("", 422), ("{", 422), ("[]", 422), ("{}", 422), (_body([[1, 2, 3]]), 400), (_body([1, 2, 3, 4]), 400),
    ('{"inputs": [{"name": "data", "shape": [1, 4], "datatype": "FP32", "data": [1]}]}', 400),
    ('{"inputs": [{"name": "data", "shape": [1, 4], "datatype": "FP99", "data": [1, 2, 3, 4]}]}', 400),
    ('{"inputs": [{"name": "data", "shape": [-1, 4], "datatype": "FP32", "data": [[1, "x", null, 4]]}]}', 400),
    ('{"inputs": [{"name": "image", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}]}', 400),
    ("x" * 200_000, 413),
])
def test_mistakes_are_the_clients(server, body, status):
    got, answer = server.ask("POST", "/v2/models/mlp/infer", body)
    assert got == status, answer
    assert json.loads(answer)
    assert server.ask("POST", "/v2/models/mlp/infer", _body([[0, 0, 0, 0]]))[0] == 200


@pytest.mark.parametrize("length, size, message", [
    (None, 16, "Inference-Header-Content-Length"), ("x", 16, "Inference-Header-Content-Length"),
    (10**12, 16, "Inference-Header-Content-Length"), (0, 16, "cannot be read"), ("right", 20, "16 bytes of 20"),
    ("right", -1, "bytes of -1"), ("right", 12, "cannot be read"), ("right", "a", "cannot be read"),
])
def test_mistakes_in_binary_requests(server, length, size, message):
    head = json.dumps({"inputs": [{"name": "data", "shape": [1, 4], "datatype": "FP32",
                                   "parameters": {"binary_data_size": size}}]}).encode()
    headers = {"Content-Type": "application/octet-stream"}
    if length is not None:
        headers["Inference-Header-Content-Length"] = str(len(head) if length == "right" else length)
    status, answer = server.ask("POST", "/v2/models/mlp/infer", head + np.zeros(4, "float32").tobytes(), **headers)
    assert status == 400 and message in answer.decode()


def test_garbage_harms_nobody(server):
    chance = random.Random(0)
    good = _body([[1, 2, 3, 4]]).encode()
    for _ in range(200):
        body = bytearray(good)
        for _ in range(chance.randint(1, 8)):
            body[chance.randrange(len(body))] = chance.randrange(256)
        length = {"Inference-Header-Content-Length": str(chance.choice([0, 5, 10**9, len(body)]))}
        status, _ = server.ask("POST", "/v2/models/mlp/infer", bytes(body), **(length if chance.random() < 0.3 else {}))
        assert status < 500, bytes(body)
    assert server.ask("POST", "/v2/models/mlp/infer", good)[0] == 200


def test_versions_over_http(server):
    assert set(json.loads(server.ask("GET", "/v2/models")[1])["models"]) == {"mlp", "factor", "changing"}
    for path in ("", "/versions/9"):
        said = json.loads(server.ask("GET", f"/v2/models/factor{path}")[1])
        assert (said["name"], said["versions"]) == ("factor", ["9", "10"])
    assert json.loads(server.ask("GET", "/v2/models/factor/versions/9/ready")[1]) == {"name": "factor", "ready": True}
    body = json.dumps({"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}]})
    for path, version in (("", 10), ("/versions/9", 9), ("/versions/10", 10), ("", 10)):
        status, answer = server.ask("POST", f"/v2/models/factor{path}/infer", body)
        answer = json.loads(answer)
        assert status == 200 and answer["outputs"][0]["data"] == [version, 2 * version]
        assert answer["model_version"] == str(version)
    for path in ("factor/versions/8", "mlp/versions/1", "other/versions/1"):
        status, answer = server.ask("POST", f"/v2/models/{path}/infer", body)
        assert status == 404 and path.split("/")[0] in answer.decode()


def test_versions_over_grpc(server):
    one = grpc_client.InferenceServerClient(f"127.0.0.1:{server.grpc}")
    assert one.get_model_metadata("factor", "9").versions == ["9", "10"]
    assert one.is_model_ready("factor", "10")
    given = grpc_client.InferInput("x", (1, 2), "FP32")
    given.set_data_from_numpy(np.array([[1, 2]], "float32"))
    for version in ("9", "10", ""):
        answer = one.infer("factor", [given], model_version=version)
        assert answer.as_numpy("y").tolist() == [[int(version or 10), 2 * int(version or 10)]]
        assert answer.get_response().model_version == (version or "10")
    with pytest.raises(Exception, match="factor, version 8, does not exist"):
        one.infer("factor", [given], model_version="8")
    one.close()


def _changing(one):
    given = client.InferInput("y", (1, 2), "FP32")
    given.set_data_from_numpy(np.zeros((1, 2), "float32"))
    return one.infer("changing", [given]).as_numpy("z")[0, 0]


def test_a_model_is_loaded_again_while_it_answers(server):
    over_http = client.InferenceServerClient(f"127.0.0.1:{server.port}")
    over_grpc = grpc_client.InferenceServerClient(f"127.0.0.1:{server.grpc}")
    seen, failures, done = [], [], threading.Event()

    def ask():
        one = client.InferenceServerClient(f"127.0.0.1:{server.port}")
        try:
            while not done.is_set():
                seen.append(_changing(one))
        except Exception as error:
            failures.append(error)
        finally:
            one.close()
    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for number, one in enumerate([over_http, over_grpc] * 5, 2):
            server.changing.write_text(CHANGING.format(number))
            one.load_model("changing")
            assert _changing(over_http) == number
        server.changing.write_text("import nothing_of_this_name")
        for one in (over_http, over_grpc):
            with pytest.raises(Exception, match="changing cannot be loaded: ModuleNotFoundError"):
                one.load_model("changing")
    finally:
        done.set()
        for thread in threads:
            thread.join(60)
    assert not failures and _changing(over_http) == 11.0 and set(seen) <= set(range(1, 12))
    assert 'mxjax_compiled_forms{model="changing",version=""}' in server.ask("GET", "/metrics")[1].decode()
    over_http.close()
    over_grpc.close()


def test_a_model_is_unloaded(server):
    over_http = client.InferenceServerClient(f"127.0.0.1:{server.port}")
    over_grpc = grpc_client.InferenceServerClient(f"127.0.0.1:{server.grpc}")
    server.changing.write_text(CHANGING.format(3))
    for one in (over_http, over_grpc):
        one.unload_model("changing")
        assert not over_http.is_model_ready("changing") and over_http.is_server_ready()
        with pytest.raises(Exception, match="changing does not exist"):
            _changing(over_http)
        states = {(m["name"], m["version"]): m["state"] for m in over_http.get_model_repository_index()}
        assert states == {("mlp", ""): "READY", ("factor", "9"): "READY", ("factor", "10"): "READY",
                          ("changing", ""): "UNAVAILABLE"}
        assert 'model="changing",version=""} 0' not in server.ask("GET", "/metrics")[1].decode().split(
            "# HELP mxjax_waiting_requests")[1].split("#")[0]
        one.load_model("changing")
        assert over_http.is_model_ready("changing") and _changing(over_http) == 3
    over_http.close()
    over_grpc.close()


def test_only_what_the_command_line_names_is_loaded(server):
    over_grpc = grpc_client.InferenceServerClient(f"127.0.0.1:{server.grpc}")
    for name in ("other", "inference", "..%2Fchanging"):
        assert server.ask("POST", f"/v2/repository/models/{name}/load")[0] == 404
    assert server.ask("POST", "/v2/repository/models/other/unload")[0] == 404
    for body in ('{"parameters": {"config": "{}"}}', "[]", "{"):
        assert server.ask("POST", "/v2/repository/models/changing/load", body)[0] == 400
    with pytest.raises(Exception, match="NOT_FOUND"):
        over_grpc.load_model("other")
    with pytest.raises(Exception, match="INVALID_ARGUMENT.*must not have parameters"):
        over_grpc.load_model("changing", config="{}")
    over_grpc.close()


def test_a_file_with_the_functions_of_sagemaker(server):
    x = np.random.default_rng(0).normal(size=(2, 4)).astype("float32")
    assert server.ask("GET", "/ping")[0] == 200
    status, body = server.ask("POST", "/invocations", json.dumps(x.tolist()))
    assert status == 200
    np.testing.assert_allclose(json.loads(body), server.expected(x), rtol=1e-5)
    status, body = server.ask("POST", "/invocations", "\n".join(",".join(map(str, row)) for row in x),
                              **{"Content-Type": "text/csv", "Accept": "text/csv"})
    np.testing.assert_allclose(np.loadtxt(body.decode().splitlines(), delimiter=","), server.expected(x), rtol=1e-5)
    assert server.ask("POST", "/invocations", "[1, ")[0] == 400
    assert server.ask("POST", "/invocations", "a", **{"Content-Type": "image/png"})[0] == 415


def test_a_refusal_has_no_traceback_in_the_log(server):
    before = len(server.log.read_text())
    assert server.ask("POST", "/v2/models/mlp/infer", _body([[1, 2, 3]]))[0] == 400
    assert server.ask("GET", "/v2/models/nothing")[0] == 404
    assert "Traceback" not in server.log.read_text()[before:]


def test_metrics(server):
    server.ask("POST", "/v2/models/mlp/infer", _body([[0, 0, 0, 0]] * 3))
    text = server.ask("GET", "/metrics")[1].decode()
    for name in ("mxjax_batch_rows_sum", "mxjax_batch_requests_count", "mxjax_filled_rows_total",
                 "mxjax_waiting_requests", "mxjax_compiled_forms"):
        assert f'{name}{{model="mlp",version=""}} ' in text
    assert 'mxjax_compiled_forms{model="mlp",version=""} 3.0' in text  # the sizes of --warm, whatever was asked


def test_the_end_loses_no_answer(tmp_path):
    one = _Server(tmp_path)
    one.until_ready()
    for what in ("load", "unload"):  # without --allow-load
        status, answer = one.ask("POST", f"/v2/repository/models/mlp/{what}")
        assert status == 403 and "--allow-load" in answer.decode()
    with pytest.raises(Exception, match="PERMISSION_DENIED.*--allow-load"):
        grpc_client.InferenceServerClient(f"127.0.0.1:{one.grpc}").unload_model("mlp")
    answers, failures = [], []

    def ask(seed):
        x = np.random.default_rng(seed).normal(size=(2, 4)).astype("float32")
        for _ in range(100_000):
            connection = http.client.HTTPConnection("127.0.0.1", one.port, timeout=60)
            try:
                connection.request("POST", "/v2/models/mlp/infer", _body(x), {"Content-Type": "application/json"})
                answer = connection.getresponse()
                assert answer.status == 200
                answers.append(np.allclose(np.reshape(json.loads(answer.read())["outputs"][0]["data"], (2, 3)),
                                           one.expected(x), rtol=1e-4))
                if answer.getheader("Connection") == "close":
                    return  # as a load balancer does, which also asks whether it is ready
            except Exception as error:
                failures.append(error)
                return
            finally:
                connection.close()
    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    time.sleep(1.5)
    one.process.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    assert one.ask("GET", "/v2/health/ready")[0] == 503
    assert one.process.wait(60) == 0, one.log.read_text()[-3000:]
    for thread in threads:
        thread.join(60)
    assert not failures and len(answers) > 20 and all(answers)


def test_a_model_that_cannot_be_warmed_ends_the_server(tmp_path):
    one = _Server(tmp_path, shape="data=1,5")
    assert one.process.wait(120) == 2, one.log.read_text()
    assert "Traceback" not in one.log.read_text()
