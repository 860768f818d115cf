"""Isolation of owners: what belongs to another one is answered exactly as what does not exist, over every route, tool,
resource, feed and stream that the code registers, so that a new one is probed without anybody remembering it."""

from __future__ import annotations

import http.client
import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from starlette.routing import BaseRoute, Mount, Route

from duetime.app import build, tokens_of, web
from duetime.settings import Settings
from scorecard.line import Result, Scale, Tell
from scorecard.mcp_client import McpClient
from scorecard.serving import Client, Reply, Server, serving

Id = str | int
SECRET_WORD = "zebra"  # noqa: S105 - a word that only the owner's things contain
SETTINGS = "drain = 0.1\n"
PATIENCE = 20.0
BODIES: dict[str, Any] = {"PATCH": {"name": "taken over"}, "finish": {"text": "done"}, "dlqIds": {}, "edit": {}}
FILTERS = ("schedule", "id", "cursor", "messageId", "text", "run")
FILLERS: dict[str, Any] = {"prompt": "x", "result": "x", "at": "in 2 hours", "name": "x"}
_CHANGING = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?|\b\d\d:\d\d(:\d\d)?\b|\b\d{13}\b|\b[0-9a-f]{16,}\b|\d+\.\d+%"
    r"|\bin \d+ (?:s|min|h|d)\b(?: \d+ (?:s|min|h)\b)*"
)
"""Times, countdowns, and the random numbers of forms: they differ between two answers to the same question."""


class Probe(NamedTuple):
    """A request with another owner's id, and the same request with an id that does not exist."""

    about: str
    theirs: str
    nothing: str


Ask = Callable[[], Probe]


def measure(scale: Scale, tell: Tell) -> Result:
    most = scale.of(1000, 60)
    with serving(SETTINGS) as server:
        ids = _belongings(server)
        probes: list[Ask] = [*_http_probes(server, ids), *_mcp_probes(server, ids)]
        chosen = probes if scale is Scale.FULL else probes[:: max(1, len(probes) // most)]
        failures = []
        for number, probe in enumerate(chosen):
            tell(f"{number} of {len(chosen)} probes")
            failures += _judged(probe())
        failures += _stream(server)
        failures += _untouched(server, ids)
    counts = {"probes": len(chosen) + 1, "ids": len(ids)}
    if len(chosen) < most:
        failures.append(f"only {len(chosen)} probes could be made of what is registered")
    return Result(counts, f"answered differently: {len(failures)}", tuple(failures))


def _judged(probe: Probe) -> list[str]:
    if probe.theirs != probe.nothing:
        place = next((at for at, (a, b) in enumerate(zip(probe.theirs, probe.nothing, strict=False)) if a != b), 0)
        shown = slice(max(0, place - 40), place + 160)
        return [f"{probe.about}: {probe.theirs[shown]!r} instead of {probe.nothing[shown]!r}"]
    return [f"{probe.about}: shows {SECRET_WORD!r}"] if SECRET_WORD in probe.theirs else []


# -- what there is to find --------------------------------------------------------------------------------------------


def _belongings(server: Server) -> list[Id]:
    """Make something of every kind in several states, and return all of their ids."""
    ada, agent = server.client("ada"), McpClient(server, "ada")
    soon, hourly = {"type": "once", "run_at": "now"}, {"type": "interval", "hours": 1}
    ids: list[Id] = []

    def make(kind: str, trigger: dict[str, Any], payload: dict[str, Any], **more: Any) -> str:
        made = ada.made(
            "/schedules", {"kind": kind, "name": SECRET_WORD, "trigger": trigger, "payload": payload, **more}
        )
        ids.append(made["id"])
        return str(made["id"])

    once = {"max_attempts": 1}
    ended = [make("job", soon, {"task": "keep", "args": [SECRET_WORD]})]
    ended += [make("job", soon, {"task": "fail_with", "args": [SECRET_WORD]}, policy=once)]
    ended += [make("request", soon, {"url": "http://127.0.0.1:9/"}, policy=once)]
    ended += [make("notification", soon, {"message": SECRET_WORD, "topic": "zoo"})]
    make("job", hourly, {"task": "noop"})
    for action in ("pause", "cancel"):
        ada.made(f"/schedules/{make('job', hourly, {'task': 'noop'})}/{action}", None)
    make("notification", {"type": "cron", "expression": "0 9 * * *"}, {"message": SECRET_WORD, "topic": "zoo"})
    ids.append(agent.made("schedule", prompt=SECRET_WORD, at="in 2 hours")["id"])
    ids.append(agent.made("schedule", prompt=SECRET_WORD, at="now")["id"])
    ids.append(_taken(agent)["run_id"])
    ids += [run["run_id"] for schedule in ended for run in _when_ended(ada, schedule)]
    return ids


def _taken(agent: McpClient) -> dict[str, Any]:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        taken = agent.made("take_prompt")
        if "run_id" in taken:
            return taken
        time.sleep(0.1)
    raise RuntimeError("the prompt did not come due")


def _when_ended(client: Client, schedule: str) -> list[dict[str, Any]]:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        runs = client.runs(schedule)
        if runs and all(run["finished"] for run in runs):
            return runs
        time.sleep(0.1)
    raise RuntimeError(f"{schedule} did not end")


def _unlike(known: Id) -> Id:
    """Return an id of the same form and length that nobody has."""
    if isinstance(known, int):
        return 10**15 + known
    head, _, tail = known.partition("_")
    return f"{head}_{tail.translate(str.maketrans('0123456789abcdef', '9999999999ffffff'))}"


def _veiled(text: str, known: Id) -> str:
    """Replace both ids in both answers: a short one may stand in a text that has nothing to do with it."""
    text = text.replace('"jsonrpc":"2.0","id":1', "")
    either = "|".join(re.escape(str(value)) for value in (known, _unlike(known)))
    return _CHANGING.sub("<changing>", re.sub(rf"(?<![\w-])(?:{either})(?![\w-])", "<id>", text))


# -- routes -----------------------------------------------------------------------------------------------------------


def _http_probes(server: Server, ids: list[Id]) -> Iterator[Ask]:
    bob = server.client("bob")
    browser = server.browser(bob)
    for method, path in _registered(server.folder):
        asking = bob if path.startswith(("/api", "/v2", "/metrics")) else browser
        if "{" in path:
            for known in ids:
                yield partial(_compared, asking, method, path, known)
        elif method == "GET" and not path.endswith(("/events", "/login")):
            for known in ids[:: max(1, len(ids) // 6)]:
                yield from (partial(_filtered, asking, path, name, known) for name in FILTERS)


def _registered(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield every method and path of the application, as the code itself registers them."""
    app = build(Settings(db=str(folder / "routes.db")), tasks=False)
    try:
        yield from _routes(web(app, tokens_of(app.settings, app.clock, app.store)).routes, "")
    finally:
        app.close()


def _routes(routes: list[BaseRoute], prefix: str) -> Iterator[tuple[str, str]]:
    for route in routes:
        if isinstance(route, Mount):
            yield from _routes(list(route.routes), prefix + route.path)
        elif isinstance(route, Route) or hasattr(route, "methods"):
            path = prefix + str(getattr(route, "path", ""))
            for method in sorted((getattr(route, "methods", None) or {"GET"}) - {"HEAD", "OPTIONS"}):
                if "anything" not in path and "{token}" not in path and "{name}" not in path:
                    yield method, re.sub(r":\w+\}", "}", path)


def _compared(client: Client, method: str, path: str, known: Id) -> Probe:
    body = next((each for name, each in BODIES.items() if name in (method, path.rsplit("/", 1)[-1])), None)
    answers = []
    for value in (known, _unlike(known)):
        filled = re.sub(r"\{(id|run|schedule_id|message_id|dlq_id)\}", str(value), path)
        filled = re.sub(r"\{action\}", "pause" if "schedules" in path else "stop", filled)
        answers.append(_told(client.ask(method, filled, body if method != "GET" else None), known))
    return Probe(f"{method} {path} with {known}", *answers)


def _filtered(client: Client, path: str, name: str, known: Id) -> Probe:
    answers = [_told(client.ask("GET", f"{path}?{name}={value}"), known) for value in (known, _unlike(known))]
    return Probe(f"GET {path}?{name}={known}", *answers)


def _told(reply: Reply, known: Id) -> str:
    headers = sorted((name, each) for name, each in reply.headers.items() if name not in ("date", "content-length"))
    return _veiled(f"{reply.status} {headers} {reply.text}", known)


# -- tools, resources, streams ----------------------------------------------------------------------------------------


def _mcp_probes(server: Server, ids: list[Id]) -> Iterator[Ask]:
    bob = McpClient(server, "bob")
    for tool in bob.tools():
        properties = tool["inputSchema"]["properties"]
        for name in (each for each in properties if each == "id" or each.endswith("_id")):
            for known in (each for each in ids if _fits(each, properties[name])):
                yield partial(_called, bob, tool, name, known)
    for template in bob.templates():
        yield from (partial(_read, bob, template, known) for known in ids)


def _read(agent: McpClient, template: str, known: Id) -> Probe:
    uris = [re.sub(r"\{\w+\}", str(value), template) for value in (known, _unlike(known))]
    return Probe(f"{template} with {known}", *(_veiled(agent.read(uri), known) for uri in uris))


def _fits(value: Id, schema: dict[str, Any]) -> bool:
    return ("integer" if isinstance(value, int) else "string") in str(schema.get("type"))


def _called(agent: McpClient, tool: dict[str, Any], name: str, known: Id) -> Probe:
    required = set(tool["inputSchema"].get("required", ())) - {name}
    given = {each: FILLERS.get(each, "x") for each in required}
    given |= {"result": "x"} if tool["name"] == "finish_prompt" else {}
    given |= {"prompt": "x"} if tool["name"] == "schedule_edit" else {}
    answers = [_veiled(agent.call(tool["name"], {**given, name: value}), known) for value in (known, _unlike(known))]
    return Probe(f"{tool['name']}({name}={known})", *answers)


def _stream(server: Server) -> list[str]:
    """Listen to one owner's events while another one acts, until something of the listener's own is heard."""
    ada, bob = server.client("ada"), server.client("bob")
    with _listening(server.port, bob) as lines:
        work = {"kind": "job", "trigger": {"type": "once", "run_at": "now"}}
        theirs = work | {"name": SECRET_WORD, "payload": {"task": "keep", "args": [SECRET_WORD]}}
        _when_ended(ada, ada.made("/schedules", theirs)["id"])
        own = bob.made("/schedules", work | {"name": "own", "payload": {"task": "noop"}})["id"]
        said: list[str] = []
        while not any(own in line for line in said):
            said.append(next(lines))
    events = [line for line in said if line.startswith("data:") and own not in line]
    return [f"the event stream of another owner says {events[:3]}"] if events or SECRET_WORD in "".join(said) else []


@contextmanager
def _listening(port: int, client: Client) -> Iterator[Iterator[str]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request("GET", "/api/v1/events", headers=client.headers)
        answer = connection.getresponse()
        yield (line.decode("utf-8", "replace") for line in iter(answer.readline, b""))
        answer.close()
    finally:
        connection.close()


def _untouched(server: Server, ids: list[Id]) -> list[str]:
    """Check that everything the probes asked to change is as it was."""
    ada = server.client("ada")
    names = {json.dumps(ada.got(f"/schedules/{each}")["name"]) for each in ids if isinstance(each, str)}
    return [] if names == {json.dumps(SECRET_WORD)} else [f"names are now {sorted(names)}"]
