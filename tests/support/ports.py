"""Ports for servers that are told where to listen."""

from __future__ import annotations

import random
import socket
from contextlib import suppress


def free_port() -> int:
    """Return a port of loopback that is free, and that no system gives to whoever asks for any: those come from 32768
    on, and another test that asks for any could have it before the server listens."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as bound, suppress(OSError):
            bound.bind(("127.0.0.1", port))
            return port
