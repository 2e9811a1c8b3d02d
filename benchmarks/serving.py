"""Load on `mxjax serve`: many clients that ask with batches of 1 to 32 rows, each answer compared.

    python benchmarks/serving.py --requests 20000 --clients 1 8 64 --garbage 10000 --end
    python benchmarks/serving.py --engine mxnet --python PATH    # the smallest server that other engines can have, too

Needs the extra "serve". The model is an MLP of 784, 256 and 10 units. Clients are threads of three processes with
connections that stay open; requests and answers are binary tensors. Prints a row for each number of clients: requests
each second, median and 99th percentile of the latency, the server's processor time for a request, wrong answers, its
memory before and after. The server starts twice: with an empty cache of programs, and with a filled one.
"""

from __future__ import annotations

import argparse
import collections
import http.client
import json
import multiprocessing
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable

import numpy as np

UNITS = (784, 256, 10)


def _body(x: np.ndarray) -> tuple[bytes, dict[str, str]]:
    head = json.dumps({"inputs": [{"name": "data", "shape": list(x.shape), "datatype": "FP32",
                                   "parameters": {"binary_data_size": x.nbytes}}],
                       "outputs": [{"name": "softmax_output", "parameters": {"binary_data": True}}]}).encode()
    return head + x.tobytes(), {"Content-Type": "application/octet-stream",
                                "Inference-Header-Content-Length": str(len(head))}


def _client(port: int, count: int, seed: int, weights: list, found: list) -> None:
    """Asks count times; appends (when, seconds, whether the answer is right) for each."""
    chance = np.random.default_rng(seed)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    for _ in range(count):
        x = chance.normal(size=(int(chance.integers(1, 33)), UNITS[0])).astype("float32")
        body, headers = _body(x)
        begin = time.perf_counter()
        try:
            connection.request("POST", "/v2/models/mlp/infer", body, headers)
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException) as error:  # a lost request
            print(repr(error), file=sys.stderr)
            found.append((begin, time.perf_counter() - begin, False))
            break
        spent = time.perf_counter() - begin
        head = int(answer.getheader("Inference-Header-Content-Length", 0))
        got = np.frombuffer(content[head:], "float32") if answer.status == 200 else np.zeros(0)
        z = np.maximum(x @ weights[0].T, 0) @ weights[1].T
        z = np.exp(z - z.max(1, keepdims=True))
        right = answer.status == 200 and got.size == z.size and np.allclose(
            got.reshape(z.shape), z / z.sum(1, keepdims=True), rtol=1e-3, atol=1e-6)
        found.append((begin, spent, right))
        if answer.getheader("Connection") == "close":  # the service is about to end
            break
    connection.close()


def _process(port: int, count: int, clients: int, seed: int, weights: list, queue: multiprocessing.Queue) -> None:
    found: list = []
    threads = [threading.Thread(target=_client, args=(port, count, seed * 1000 + i, weights, found))
               for i in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    queue.put(found)


def _memory(process: int) -> float:
    with open(f"/proc/{process}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) / 1024


def _seconds(process: int) -> float:
    """Seconds that a process has computed."""
    with open(f"/proc/{process}/stat") as stat:
        return sum(map(int, stat.read().rsplit(")", 1)[1].split()[11:13])) / os.sysconf("SC_CLK_TCK")


def _clients(port: int, clients: int, each: int, weights: list) -> Callable[[], list]:
    """Starts clients; returns a function that waits for what they have found."""
    shares = [clients // 3 + (i < clients % 3) for i in range(3)]
    shares = [share for share in shares if share]
    context = multiprocessing.get_context("spawn")
    queue: multiprocessing.Queue = context.Queue()
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # the clients' own products must not take the server's processors
    for i, share in enumerate(shares):
        context.Process(target=_process, args=(port, each, share, i, weights, queue)).start()
    return lambda: [one for _ in shares for one in queue.get()]


def load(server: subprocess.Popen, port: int, clients: int, requests: int, weights: list) -> None:
    """Prints the row of a number of clients."""
    before, seconds = _memory(server.pid), _seconds(server.pid)
    found = _clients(port, clients, requests // clients, weights)()
    begun, times = np.array([one[:2] for one in found]).T  # the clock is the system's, the same in all processes
    spent = (begun + times).max() - begun.min()
    print(f"| {clients} | {len(found)} | {len(found) / spent:.0f} | {np.percentile(times, 50) * 1e3:.1f} | "
          f"{np.percentile(times, 99) * 1e3:.1f} | {(_seconds(server.pid) - seconds) / len(found) * 1e3:.2f} | "
          f"{sum(not right for *_, right in found)} | {before:.0f} | "
          f"{_memory(server.pid):.0f} |", flush=True)


def garbage(port: int, count: int) -> None:
    """Sends requests with bytes that chance has changed; prints how often each status came."""
    chance, statuses = random.Random(0), collections.Counter()
    good, headers = _body(np.ones((1, UNITS[0]), "float32"))
    text = json.dumps({"inputs": [{"name": "data", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}]})
    for i in range(count):
        body = bytearray(good if i % 2 else text.encode())
        for _ in range(chance.randint(1, 8)):
            body[chance.randrange(min(len(body), 300))] = chance.randrange(256)
        given = dict(headers) if i % 2 else {"Content-Type": "application/json"}
        if chance.random() < 0.1:
            given["Inference-Header-Content-Length"] = str(chance.choice([0, 7, 10**12, len(body)]))
        if chance.random() < 0.05:
            body = body[:chance.randrange(len(body))]
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("POST", "/v2/models/mlp/infer", bytes(body), given)
        statuses[connection.getresponse().status] += 1
        connection.close()
    print("garbage:", dict(sorted(statuses.items())), flush=True)


def end(server: subprocess.Popen, port: int, clients: int, weights: list) -> None:
    """Sends SIGTERM under load; prints how many requests were lost."""
    found = _clients(port, clients, 10**9, weights)
    time.sleep(8)
    server.send_signal(signal.SIGTERM)
    begin = time.perf_counter()
    status, answers = server.wait(60), found()
    print(f"SIGTERM under the load of {clients} clients: {len(answers)} answers, "
          f"{sum(not right for *_, right in answers)} lost or wrong, exit status {status} after "
          f"{time.perf_counter() - begin:.1f} s", flush=True)


def start(command: list[str], port: int, folder: str) -> subprocess.Popen:
    """Starts a server; prints how long it took until it was ready."""
    begin = time.perf_counter()
    with open(f"{folder}/log", "a") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log,
                                  env={**os.environ, "MXJAX_CACHE_DIR": f"{folder}/cache"})
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        try:
            connection.request("GET", "/v2/health/ready")
            if connection.getresponse().status == 200:
                break
        except OSError:
            if server.poll() is not None:
                with open(f"{folder}/log") as log:
                    raise RuntimeError(log.read()[-2000:]) from None
        time.sleep(0.05)
    print(f"ready after {time.perf_counter() - begin:.1f} s", flush=True)
    return server


def main() -> None:
    """Runs the server and the clients."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--requests", type=int, default=20000, help="of each number of clients")
    parser.add_argument("--clients", type=int, nargs="*", default=[1, 8, 64])
    parser.add_argument("--garbage", type=int, default=0, help="requests with changed bytes")
    parser.add_argument("--end", action="store_true", help="end with SIGTERM under the load of 64 clients")
    parser.add_argument("--engine", choices=("mxjax", "mxnet", "onnxruntime"),
                        help="benchmarks/serving_engines.py with this engine instead of `mxjax serve`")
    parser.add_argument("--python", default=sys.executable, help="the Python that has the engine")
    given = parser.parse_args()
    import mxjax as mx  # not in the clients' processes
    chance = np.random.default_rng(0)
    weights = [chance.normal(scale=0.05, size=size).astype("float32") for size in (UNITS[1::-1], UNITS[:0:-1])]
    hidden = mx.sym.Activation(mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=UNITS[1], no_bias=True,
                                                     name="one"), act_type="relu")
    net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(hidden, num_hidden=UNITS[2], no_bias=True, name="two"),
                               name="softmax")
    with tempfile.TemporaryDirectory() as folder, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        mx.model.save_checkpoint(f"{folder}/mlp", 1, net, {"one_weight": mx.nd.array(weights[0]),
                                                           "two_weight": mx.nd.array(weights[1])}, {})
        command = [given.python, "-m", "mxjax", "serve", f"{folder}/mlp:1", "--shape", f"data=1,{UNITS[0]}", "--port",
                   str(port), "--grpc-port", "0"]
        if given.engine == "onnxruntime":
            subprocess.run([sys.executable, "-m", "mxjax", "convert", f"{folder}/mlp", "1", "--to", "onnx", "--shape",
                            f"data=1,{UNITS[0]}", "--dynamic-batch", "--output", f"{folder}/mlp.onnx"], check=True)
        if given.engine:
            engines = os.path.join(os.path.dirname(os.path.abspath(__file__)), "serving_engines.py")
            command = [given.python, engines, given.engine, f"{folder}/mlp", str(port)]
        server = start(command, port, folder)
        server.send_signal(signal.SIGTERM)
        server.wait(60)
        server = start(command, port, folder)
        try:
            print("| clients | requests | each second | median ms | 99 % ms | CPU ms each | wrong | MB before | "
                  "MB after |")
            print("|---|---|---|---|---|---|---|---|---|", flush=True)
            for clients in given.clients:
                load(server, port, clients, given.requests, weights)
            if given.garbage:
                garbage(port, given.garbage)
            if given.end:
                end(server, port, 64, weights)
            else:
                server.send_signal(signal.SIGTERM)
                print("exit status", server.wait(60))
            with open(f"{folder}/log") as log:
                print("errors in the log:", dict(collections.Counter(
                    line.split(":")[0] for line in log if line.split(":")[0].endswith("Error"))))
        finally:
            server.kill()


if __name__ == "__main__":
    main()
