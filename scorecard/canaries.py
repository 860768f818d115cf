"""Canaries in arguments, errors, URLs, headers, bodies, settings and the environment: none may be shown anywhere."""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Iterator
from typing import Any

from scorecard.commands import Commands, commands_of
from scorecard.line import Result, Scale, Tell
from scorecard.mcp_client import McpClient
from scorecard.serving import Client, Server, serving

PATIENCE = 30.0
OWNER = "local"
"""The owner who may use channels and agents of the settings unless they say otherwise."""
NAMES = ("password", "api_key", "token", "secret", "client_secret", "access_key", "authorization", "passphrase")
ERRORS = (
    "password={}",
    "connecting to postgresql://user:{}@db.example.org/x failed",
    "GET https://example.org/?api_key={} answered 500",
    "header Authorization: Bearer {}",
    'answered {{"token": "{}"}}',
    "X-Api-Key: {}",
    "cookie: session={}",
    "retry with --password={}",
)
PAGES = ("/", "/schedules", "/timeline", "/inbox", "/dead-letters", "/settings", "/connect")
LISTS = ("/schedules?limit=100", "/runs?limit=100", "/dead", "/inbox", "/upcoming", "/workers", "/tasks", "/whoami")


class Canaries:
    """Unguessable words, each with the place where it was put."""

    def __init__(self) -> None:
        self.places: dict[str, str] = {}

    def new(self, place: str) -> str:
        canary = f"cnry{secrets.token_hex(12)}"
        self.places[canary] = place
        return canary

    def found_in(self, where: str, text: str) -> list[str]:
        found = [self.places[word] for word in _CANARY.findall(text) if word in self.places]
        return [f"{where} shows what stood in {place}" for place in found]


_CANARY = re.compile(r"cnry[0-9a-f]{24}")


def measure(scale: Scale, tell: Tell) -> Result:
    canaries = Canaries()
    settings, env = _configured(canaries)
    with serving(settings, env=env) as server, commands_of(server) as together:
        ids = _planted(server, canaries, 1 if scale is Scale.SMALL else 2)
        tell("waiting for the runs to end")
        _until_ended(server.client(OWNER), ids)
        shown = list(_surfaces(server, ids))
        shown += _commands(together if scale is Scale.SMALL else server.duetime, ids, canaries)
        failures = [each for where, text in shown for each in canaries.found_in(where, text)]
    tried = len(canaries.places)
    counts = {"canaries": tried, "places looked at": len(shown)}
    return Result(counts, f"shown: {len(failures)}", tuple(dict.fromkeys(failures)))


def _configured(canaries: Canaries) -> tuple[str, dict[str, str]]:
    """Return settings and an environment with secrets in them."""
    settings = f"""
drain = 0.1
allowed_hosts = ["127.0.0.1"]
[notifications]
token = "{canaries.new("the token of the ntfy server")}"
[channels.hook]
url = "http://127.0.0.1:9/{canaries.new("the path of a channel")}"
headers = {{ Authorization = "Bearer {canaries.new("a header of a channel")}" }}
[agents.hooked]
type = "webhook"
url = "http://127.0.0.1:9/agent"
secret = "{canaries.new("the secret of a webhook")}"
"""
    secret = f"{canaries.new('the signing secret')}{canaries.new('the signing secret')}{secrets.token_urlsafe(32)}"
    return settings, {"DUETIME_SECRET": secret, "QSTASH_TOKEN": canaries.new("the environment")}


def _planted(server: Server, canaries: Canaries, rounds: int) -> list[str]:
    """Schedule work that carries canaries, and return its ids."""
    ada = server.client(OWNER)
    made: list[str] = []

    def make(kind: str, payload: dict[str, Any], name: str = "planted") -> None:
        trigger, policy = {"type": "once", "run_at": "now"}, {"max_attempts": 1}
        given = {"kind": kind, "name": name, "trigger": trigger, "payload": payload, "policy": policy}
        made.append(ada.made("/schedules", given)["id"])

    for _ in range(rounds):
        for name in NAMES:
            make("job", {"task": "keep", "args": [json.dumps({name: canaries.new(f"an argument named {name}")})]})
        for error in ERRORS:
            make("job", {"task": "fail_with", "args": [error.format(canaries.new(f"an error such as {error!r}"))]})
        headers = {"Authorization": f"Bearer {canaries.new('a header')}", "X-Api-Key": canaries.new("a header")}
        body = json.dumps({"password": canaries.new("a body"), "user": "ada"})
        url = f"http://127.0.0.1:9/?token={canaries.new('a query')}"
        make("request", {"url": url, "method": "POST", "headers": headers, "body": body})
        make("notification", {"message": f"password={canaries.new('a message')}", "topic": "hook"})
        make("prompt", {"prompt": f"use api_key={canaries.new('a prompt')}", "agent": "hooked"})
    return made


def _until_ended(client: Client, ids: list[str]) -> None:
    deadline = time.monotonic() + PATIENCE
    left = set(ids)
    while left and time.monotonic() < deadline:
        left = {each for each in left if not any(run["finished"] for run in client.runs(each))}
        time.sleep(0.1)


def _surfaces(server: Server, ids: list[str]) -> Iterator[tuple[str, str]]:
    """Yield everything that people, agents and operators are shown."""
    yield "the log", server.log
    yield "the output of serve", (server.folder / "serve.out").read_text()
    yield from _api(server, ids)
    yield from _agents(server, ids)


def _api(server: Server, ids: list[str]) -> Iterator[tuple[str, str]]:
    ada, root = server.client(OWNER), server.client("root", scope="operator")
    runs = [run["run_id"] for each in ids for run in ada.runs(each)]
    browsers = {client: server.browser(client) for client in (ada, root)}
    for who, client in (("an owner", ada), ("an operator", root)):
        for path in LISTS:
            yield f"GET {path} for {who}", client.ask("GET", f"/api/v1{path}").text
        for path in PAGES:
            yield f"page {path} for {who}", browsers[client].ask("GET", path).text
    browser = browsers[ada]
    for each in ids:
        yield f"GET /schedules/{each}", ada.ask("GET", f"/api/v1/schedules/{each}").text
        yield f"page /schedules/{each}", browser.ask("GET", f"/schedules/{each}").text
    for run in runs:
        yield f"GET /runs/{run}", ada.ask("GET", f"/api/v1/runs/{run}").text
        yield f"page /runs/{run}", browser.ask("GET", f"/runs/{run}").text
    yield "GET /metrics", root.ask("GET", "/metrics").text
    yield "GET /readyz", server.stranger().ask("GET", "/readyz").text


def _agents(server: Server, ids: list[str]) -> Iterator[tuple[str, str]]:
    agent = McpClient(server, OWNER)
    for tool in ("list_jobs", "schedule_list", "list_scheduled_notifications", "list_upcoming", "list_tasks"):
        yield tool, agent.call(tool, {})
    for each in (one for one in ids if one.startswith("job_")):
        yield f"job_status({each})", agent.call("job_status", {"job_id": each})
        yield f"jobs://{each}", agent.read(f"jobs://{each}")


def _commands(duetime: Commands, ids: list[str], canaries: Canaries) -> Iterator[tuple[str, str]]:
    database = f"postgresql://duetime:{canaries.new('the password of the database')}@127.0.0.1:9/duetime"
    lines = [
        ("job", "list"), ("run", "list"), ("dead", "list"), ("inbox",), ("doctor",), ("db", "status"),
        ("job", "show", ids[0]), ("service", "install", "--dry-run", "--db", database),
        ("serve", "--print-config", "all"),
    ]  # fmt: skip
    for line in lines:
        done = duetime(*line)
        yield f"`duetime {' '.join(line)}`", done.stdout + done.stderr
