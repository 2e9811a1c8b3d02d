"""Processes with DMLC_ROLE "server" or "scheduler" (`mx.kvstore_server`)."""

from __future__ import annotations

import logging
import os
import sys
from typing import Any

from .._support import settings
from ..base import MXNetError
from . import cluster, handshake, secret, wire
from .scheduler import Scheduler
from .server import ParameterServer

__all__ = ["KVStoreServer", "run_role"]


class KVStoreServer:
    """Serves the workers of a job until the last one has left.

    Args:
        kvstore: ignored; the environment defines the job.

    Raises:
        MXNetError: there is no job, or it rejects this server.
    """

    def __init__(self, kvstore: Any = None) -> None:
        self.kvstore, self.handle, self.init_logginig = kvstore, kvstore, False

    def run(self) -> None:
        """Serves the workers."""
        place = cluster.find_place()
        if place is None:
            raise MXNetError("a server requires DMLC_PS_ROOT_URI, DMLC_PS_ROOT_PORT and DMLC_NUM_WORKER to be set")
        where = place.address[0]
        known = secret.find(handshake.is_local(where))
        timeout = settings.JOIN_TIMEOUT()
        channel = handshake.connect(place.address, known, "scheduler", timeout, "the scheduler of this job")
        server = ParameterServer(known, handshake.meeting_addresses(channel, where), place.size)
        rank = os.environ.get("DMLC_SERVER_ID")
        cluster.say_hello(channel, "server", None if rank is None else int(rank), where, server.port)
        cluster.beat(channel)
        while (message := wire.receive(channel)) is not None and message[0]["op"] != "end":
            if message[0]["op"] == "refused":
                raise MXNetError(f"this job rejects this server: {message[0]['reason']}")
            logging.debug("server: %s", message[0])
        server.close()


def _schedule() -> None:
    """Runs the scheduler until all workers have left."""
    missing = [n for n in ("DMLC_PS_ROOT_URI", "DMLC_PS_ROOT_PORT", "DMLC_NUM_WORKER") if n not in os.environ]
    if missing:
        raise MXNetError(f"a scheduler requires {', '.join(missing)} in its environment")
    where = os.environ["DMLC_PS_ROOT_URI"]
    Scheduler(int(os.environ["DMLC_NUM_WORKER"]), int(os.environ.get("DMLC_NUM_SERVER", 0)),
              secret=secret.find(handshake.is_local(where)), hosts=handshake.listening_addresses(where),
              port=int(os.environ["DMLC_PS_ROOT_PORT"]),
              join_timeout=settings.JOIN_TIMEOUT(),
              heartbeat_timeout=settings.HEARTBEAT_TIMEOUT()).wait()


def run_role() -> None:
    """Runs the role of DMLC_ROLE until the end of the job, and then exits. Does nothing in a worker."""
    role = os.environ.get("DMLC_ROLE")
    if role not in ("server", "scheduler"):
        return
    try:
        KVStoreServer().run() if role == "server" else _schedule()
    except (MXNetError, OSError) as error:
        print(f"mxjax {role}: {error}", file=sys.stderr, flush=True)
        sys.exit(1)
    sys.exit(0)


def become_role() -> None:
    """Replaces the process by a serving one. It is called during the import of mxjax, when threads
    cannot import anything."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, "-m", "mxjax.kvstore_server"],
              {**os.environ, "PYTHONPATH": path, "MXJAX_SERVES": "1"})
