"""The guard of `--quick` refuses what a quick test may not do, and notes it where the refusal is survived."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import socket
import subprocess
import sys
from collections.abc import Callable

import psycopg
import pytest

from tests.support.quick import NotQuickError, guard


@pytest.mark.parametrize(
    ("what", "act"),
    [
        ("process", lambda: subprocess.run([sys.executable, "-V"], check=True)),
        ("process", lambda: os.posix_spawn(sys.executable, [sys.executable, "-V"], {})),
        ("process", os.fork),
        ("process", lambda: multiprocessing.get_context("spawn").Process(target=print).start()),
        ("socket", lambda: socket.create_connection(("127.0.0.1", 9))),
        ("socket", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)),
        ("socket", lambda: socket.getaddrinfo("localhost", 80)),
        ("postgres", lambda: psycopg.connect("host=127.0.0.1")),
        ("postgres", lambda: psycopg.Connection.connect("host=127.0.0.1")),
    ],
    ids=["run", "spawn", "fork", "multiprocessing", "connect", "datagram", "lookup", "psycopg", "Connection"],
)
def test_it_is_refused_and_noted(what: str, act: Callable[[], object]) -> None:
    with guard() as refused:
        with pytest.raises(NotQuickError):
            act()
        assert [note.split()[0] for note in refused] == [what]


def test_an_event_loop_is_allowed() -> None:
    with guard() as refused:
        asyncio.run(asyncio.sleep(0))
    assert refused == []
