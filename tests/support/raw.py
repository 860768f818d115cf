"""MCP as raw bytes, for messages that no client would send. Over HTTP and stdio, in both protocol versions."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from tests.support.cli import environment

PATIENCE = 30.0
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "a test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
INITIALIZE = json.dumps(
    {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a test", "version": "1"}}
)


class Line(Protocol):
    """One connection for raw requests, one after the other."""

    era: str

    def ask(self, method: str, params: str = "{}", name: str | None = None) -> str:
        """Return the answer as it arrived: a JSON-RPC message, or the transport's own response."""

    def send(self, body: bytes) -> str:
        """Send any bytes, which need not have an id."""


def call(line: Line, tool: str, arguments: str) -> str:
    """Call a tool; `arguments` is JSON or any other text."""
    return line.ask("tools/call", f'{{"name": {json.dumps(tool)}, "arguments": {arguments}}}', tool)


def _body(number: int, method: str, params: str, era: str) -> bytes:
    if era == "2026-07-28":
        comma = "" if params.rstrip() == "{}" else ", "
        params = f'{params.rstrip()[:-1]}{comma}"_meta": {json.dumps(META)}}}'
    return f'{{"jsonrpc": "2.0", "id": {number}, "method": "{method}", "params": {params}}}'.encode()


class HttpLine:
    def __init__(self, url: str, token: str, era: str) -> None:
        where = urlsplit(url)
        assert where.hostname is not None
        self.era = era
        self._connection = HTTPConnection(where.hostname, where.port, timeout=PATIENCE)
        self._headers = {
            "Authorization": f"Bearer {token}",
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
        }
        self._number = 0
        if era == "2025-11-25":
            self.ask("initialize", INITIALIZE)
            self._headers["MCP-Protocol-Version"] = era
            self.send(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}')
        else:
            self._headers["MCP-Protocol-Version"] = era

    @property
    def session(self) -> str:
        return self._headers["Mcp-Session-Id"]

    def ask(self, method: str, params: str = "{}", name: str | None = None) -> str:
        self._number += 1
        routing = {}
        if self.era == "2026-07-28":
            routing = {"Mcp-Method": method} | ({} if name is None else {"Mcp-Name": name})
        return self._post(_body(self._number, method, params, self.era), routing)

    def send(self, body: bytes) -> str:
        return self._post(body, {})

    def _post(self, body: bytes, more: dict[str, str]) -> str:
        self._connection.request("POST", "/mcp", body, {**self._headers, **more})
        answer = self._connection.getresponse()
        if "mcp-session-id" in answer.headers:
            self._headers["Mcp-Session-Id"] = answer.headers["mcp-session-id"]
        text = answer.read().decode()
        assert answer.status < 500, (answer.status, text[:500])
        events = [line.removeprefix("data:").strip() for line in text.splitlines() if line.startswith("data:")]
        return next((event for event in reversed(events) if event), text)

    def close(self) -> None:
        self._connection.close()


class StdioLine:
    """A connection over stdio. Every line that comes back has to be a message of the protocol."""

    def __init__(self, process: subprocess.Popen[bytes], era: str) -> None:
        self.era, self.process = era, process
        self._number = 0
        self._answers: queue.Queue[dict[str, Any]] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        if era == "2025-11-25":
            self.ask("initialize", INITIALIZE)
            self._write(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}')

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._answers.put(json.loads(line))

    def _write(self, body: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(body + b"\n")
        self.process.stdin.flush()

    def ask(self, method: str, params: str = "{}", name: str | None = None) -> str:
        self._number += 1
        self._write(_body(self._number, method, params, self.era))
        return json.dumps(self._answer(self._number), ensure_ascii=False)

    def send(self, body: bytes) -> str:
        """Send a message. One without an id may have no answer: the next request shows that it was processed."""
        self._write(body)
        return self.ask("tools/list")

    def told(self, body: bytes) -> dict[str, Any]:
        """Return the very next message."""
        self._write(body)
        return self._answers.get(timeout=PATIENCE)

    def _answer(self, number: int) -> dict[str, Any]:
        while True:
            message = self._answers.get(timeout=PATIENCE)
            if message.get("id") == number or ("error" in message and message.get("id") is None):
                return message


@contextmanager
def stdio_line(folder: Path, era: str) -> Iterator[StdioLine]:
    line = [sys.executable, "-m", "duetime", "mcp", "--db", "my.db"]
    own = environment() | {"XDG_DATA_HOME": str(folder / "data")}
    with (
        (folder / "errors.txt").open("wb") as errors,
        subprocess.Popen(
            line, cwd=folder, env=own, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
        ) as process,
    ):
        try:
            yield StdioLine(process, era)
            assert process.poll() is None, "the server has died"
        finally:
            process.kill()
