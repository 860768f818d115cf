"""A real `duetime serve` process for the lines that attack it, and an HTTP client that only knows its address."""

from __future__ import annotations

import http.client
import json
import os
import re
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakSet

import jwt

ROOT = Path(__file__).parents[1]
START_PATIENCE = 60.0
DAY = 24 * 3600

TASKS = '''
import threading
from duetime import task

@task
def noop() -> None:
    """Does nothing."""

@task
def hold(seconds: float) -> None:
    """Occupies a thread."""
    threading.Event().wait(seconds)

@task
def keep(value: str) -> str:
    """Returns what it was given."""
    return value

@task
def fail_with(text: str) -> None:
    """Raises an error with this text."""
    raise RuntimeError(text)
'''


class Reply(NamedTuple):
    """An answer and how long it took in seconds."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    seconds: float

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Done(NamedTuple):
    """The exit code and the output of a command."""

    returncode: int
    stdout: str
    stderr: str


@dataclass(slots=True)
class Server:
    """A running server and the secret that signs its tokens."""

    folder: Path
    secret: str
    process: subprocess.Popen[bytes]
    _port: int | None = None
    _clients: WeakSet[Client] = field(default_factory=WeakSet)

    @property
    def port(self) -> int:
        """Return its port; wait for it while the server starts."""
        if self._port is None:
            self._port = _said_port(self.folder, self.process)
        return self._port

    @property
    def log(self) -> str:
        return (self.folder / "serve.log").read_text(errors="replace")

    @property
    def store(self) -> str:
        """Return the path of the server's SQLite file."""
        return str(self.folder / "data" / "duetime" / "duetime.db")

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    @property
    def memory(self) -> int:
        """Return the resident memory of the process in bytes."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise RuntimeError("the kernel reports no VmRSS")

    def token(self, owner: str, *, scope: str | None = None) -> str:
        now = int(time.time())
        claims: dict[str, Any] = {"iss": "duetime", "aud": "duetime", "sub": owner, "jti": secrets.token_hex(10)}
        claims |= {"iat": now - 5, "exp": now + DAY} | ({"scope": scope} if scope else {})
        return jwt.encode(claims, self.secret, "HS512")

    def client(self, owner: str, *, scope: str | None = None) -> Client:
        return self.connected({"Authorization": f"Bearer {self.token(owner, scope=scope)}"})

    def browser(self, client: Client) -> Client:
        """Return a browser's session with the rights of a client's token: the pages know cookies and no tokens."""
        browser, token = self.stranger(), client.headers["Authorization"].removeprefix("Bearer ")
        origin = {"Content-Type": "application/x-www-form-urlencoded", "Origin": f"http://127.0.0.1:{self.port}"}
        reply = browser.ask("POST", "/login", None, origin, f"token={token}&goal=/".encode())
        if "set-cookie" not in reply.headers:
            raise RuntimeError(f"signing in answered {reply.status}: {reply.text[:300]}")
        browser.headers["Cookie"] = reply.headers["set-cookie"].split(";")[0]
        return browser

    def duetime(self, *arguments: str) -> Done:
        """Run a command of the same installation in a process of its own."""
        env = environment(self.folder) | {"DUETIME_SECRET": self.secret}
        command = [sys.executable, "-m", "duetime", *arguments]
        done = subprocess.run(
            command, cwd=self.folder, env=env, capture_output=True, text=True, timeout=60, check=False
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def stranger(self) -> Client:
        """Return a client without a token."""
        return self.connected({})

    def connected(self, headers: Mapping[str, str]) -> Client:
        """Return a client that sends these headers, and is closed before the server ends."""
        client = Client(self.port, headers)
        self._clients.add(client)
        return client

    def end(self) -> None:
        """Close what clients left open, and end it at once: it was judged before, and its store goes as well."""
        for client in list(self._clients):
            client.close()
        self.process.kill()
        self.process.wait()


class Client:
    """A connection that is opened again when the server closed it. Use each client in one thread."""

    def __init__(self, port: int, headers: Mapping[str, str], timeout: float = 30.0) -> None:
        self.port, self.headers, self.timeout = port, dict(headers), timeout
        self._connection: http.client.HTTPConnection | None = None

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        raw: bytes | None = None,
    ) -> Reply:
        data = raw if raw is not None else None if body is None else json.dumps(body).encode()
        sent = {**self.headers, **({} if data is None else {"Content-Type": "application/json"}), **(headers or {})}
        began = time.perf_counter()
        try:
            return self._once(method, path, data, sent, began)
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError, http.client.CannotSendRequest):
            self.close()  # the server closed an idle connection; a new one is its answer
            return self._once(method, path, data, sent, began)

    def _once(self, method: str, path: str, data: bytes | None, sent: Mapping[str, str], began: float) -> Reply:
        if self._connection is None:
            self._connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=self.timeout)
        self._connection.request(method, path, data, dict(sent))
        answer = self._connection.getresponse()
        content = answer.read()
        taken = time.perf_counter() - began
        return Reply(answer.status, {name.lower(): value for name, value in answer.getheaders()}, content, taken)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __del__(self) -> None:
        self.close()

    def made(self, path: str, body: Any) -> Any:
        reply = self.ask("POST", f"/api/v1{path}", body)
        if reply.status not in (200, 201):
            raise RuntimeError(f"POST {path} answered {reply.status}: {reply.text[:300]}")
        return reply.json

    def got(self, path: str) -> Any:
        reply = self.ask("GET", f"/api/v1{path}")
        if reply.status != 200:
            raise RuntimeError(f"GET {path} answered {reply.status}: {reply.text[:300]}")
        return reply.json

    def runs(self, schedule: str) -> list[dict[str, Any]]:
        """Return every run of a schedule, page by page."""
        found: list[dict[str, Any]] = []
        cursor = ""
        while True:
            page = self.got(f"/schedules/{schedule}/runs?limit=500{cursor}")
            found += page["runs"]
            if page["next_cursor"] is None:
                return found
            cursor = f"&cursor={page['next_cursor']}"


@contextmanager
def serving(settings: str = "", *arguments: str, env: Mapping[str, str] | None = None) -> Iterator[Server]:
    """Start a server on a free port with a store, a data folder and settings of its own; end it afterwards."""
    with tempfile.TemporaryDirectory(prefix="duetime-scorecard-") as name:
        folder = Path(name)
        with started(folder, settings, *arguments, env=env) as server:
            assert server.port
            yield server


@contextmanager
def started(
    folder: Path, settings: str = "", *arguments: str, env: Mapping[str, str] | None = None
) -> Iterator[Server]:
    """Start a server as `serving` does, in a folder of the caller; reading its port waits until it serves."""
    folder.mkdir(exist_ok=True)
    (folder / "scorecard_tasks.py").write_text(TASKS)
    tasks = json.dumps([str(folder / "scorecard_tasks.py")])
    (folder / "settings.toml").write_text(f'timezone = "UTC"\ntasks = {tasks}\n{settings}')
    (folder / "settings.toml").chmod(0o600)
    secret = (env or {}).get("DUETIME_SECRET") or secrets.token_urlsafe(64)
    own = environment(folder) | {"DUETIME_SECRET": secret} | dict(env or {})
    command = [sys.executable, "-m", "duetime", "serve", "--port", "0", *arguments]
    with (folder / "serve.out").open("wb") as out, (folder / "serve.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, env=own, stdin=subprocess.DEVNULL, stdout=out, stderr=log)
    server = Server(folder, secret, process)
    try:
        yield server
    finally:
        server.end()


def environment(folder: Path) -> dict[str, str]:
    """Return an environment without the caller's settings, in which the sources of this checkout come first."""
    foreign = ("DUETIME_", "QSTASH_", "PYTHONDONTWRITEBYTECODE")
    own = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return own | {
        "PYTHONPATH": str(ROOT / "src"),
        "PYTHONUNBUFFERED": "1",
        "XDG_DATA_HOME": str(folder / "data"),
        "XDG_CONFIG_HOME": str(folder / "config"),
        "DUETIME_CONFIG": str(folder / "settings.toml"),
    }


def _said_port(folder: Path, process: subprocess.Popen[bytes]) -> int:
    deadline = time.monotonic() + START_PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        said = re.search(r"Serving MCP at http://127\.0\.0\.1:(\d+)/", (folder / "serve.out").read_text())
        if said is not None:
            return int(said[1])
        time.sleep(0.05)
    log = (folder / "serve.log").read_text(errors="replace")
    raise RuntimeError(f"the server did not start:\n{(folder / 'serve.out').read_text()}{log[-2000:]}")


def percentile(values: list[float], share: float) -> float:
    """Return the value below which this share of the values lies; 0 when there is none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0
