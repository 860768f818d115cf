"""A Redis server of its own for one measurement, which writes every change to the disk before it answers."""

from __future__ import annotations

import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

DURABILITY = "appendonly yes, appendfsync always"


@contextmanager
def running_redis(program: str) -> Iterator[str]:
    """Yield the URL of a server that listens on loopback and is removed at the end."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="duetime-bench-") as folder:
        options = ["--port", str(port), "--bind", "127.0.0.1", "--dir", folder, "--save", ""]
        durable = ["--appendonly", "yes", "--appendfsync", "always"]
        server = subprocess.Popen([program, *options, *durable], stdout=subprocess.DEVNULL)
        try:
            _wait(port)
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            server.terminate()
            server.wait(10)


def _wait(port: int) -> None:
    deadline = time.monotonic() + 10
    while True:
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        if time.monotonic() > deadline:
            raise RuntimeError("redis-server does not start")
        time.sleep(0.05)
