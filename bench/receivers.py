"""Receivers in their own process, so that their work is not part of the figures of the senders."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.receiver import Behaviour, Fault, Receiver, Request

ROOT = Path(__file__).parents[1]
HEALTHY = Behaviour(200, {}, b'{"id":"abc"}')
SILENT = Behaviour(fault=Fault.SILENCE)


class Receivers:
    """Receivers that answer at once, followed by receivers that accept everything and never answer."""

    def __init__(self, healthy: int, silent: int = 0) -> None:
        self._command = [sys.executable, "-m", "bench.receivers", str(healthy), str(silent)]
        self.urls: list[str] = []

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.urls = self._process.stdout.readline().split()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.communicate(timeout=10)  # it ends when its input does


def refusing_url() -> str:
    """Return a URL at which nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}"


def _always(behaviour: Behaviour) -> Callable[[Request], Behaviour]:
    return lambda request: behaviour


def main() -> None:
    healthy, silent = map(int, sys.argv[1:])
    with ExitStack() as stack:
        behaviours = [HEALTHY] * healthy + [SILENT] * silent
        receivers = [stack.enter_context(Receiver(_always(behaviour))) for behaviour in behaviours]
        print(*(receiver.url for receiver in receivers), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
