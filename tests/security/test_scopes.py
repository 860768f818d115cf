"""Tokens with scopes: every tool and every route that changes something needs the scope `write` or, if it is listed
here, `delete`. The tables are enumerated from the code, so a new tool or route needs `write` unless it is listed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import pytest
from starlette.routing import BaseRoute, Mount

from duetime.engine.clock import HOUR, Instant
from duetime.engine.errors import DuetimeError
from duetime.engine.kind import Caller
from duetime.engine.model import Definition, Run, RunId, RunStatus
from duetime.engine.outcome import Waiting
from duetime.engine.policy.claim import Claim
from duetime.engine.policy.decision import Change, Decision
from duetime.engine.policy.record import Finished
from duetime.engine.policy.rows import Writes
from duetime.engine.scopes import check, common, lacking
from duetime.engine.store import ClaimRequest, RunQuery, ScheduleQuery
from duetime.engine.validation import Changes, NewSchedule
from duetime.http.auth import call_of
from duetime.kinds import load_specs
from duetime.kinds.prompts.access import RunAccess
from duetime.kinds.prompts.allowance import NOTHING_MORE
from duetime.kinds.prompts.kind import allowance_of
from duetime.kinds.requests.wire import dlq_id
from duetime.mcp.catalog import catalog_of
from duetime.security.claims import Grant
from duetime.security.tokens import CALENDAR
from duetime.service.services import Call
from duetime.service.tokens import runs_under_way
from duetime.settings import AgentSettings
from scorecard.mcp_client import META
from tests.e2e.test_mcp_tools import CALLS
from tests.support.browsing import Browser, signed_in_as, words
from tests.support.interfaces import CRON, PAYLOADS
from tests.support.refusals import attempt
from tests.support.web import MODERN, Reply, Site, site
from tests.support.wordings import NO_TASKS

ADA = Caller("ada")
TOOLS = {tool.name: tool for tool in catalog_of(load_specs().values()).tools}
DELETING_TOOLS = {"cancel_job", "schedule_cancel", "delete_schedule", "stop_run"}
DELETING_ROUTES = {
    ("POST", "/api/v1/schedules/{id}/cancel"),
    ("POST", "/api/v1/schedules/{id}/stop"),
    ("POST", "/api/v1/runs/{id}/cancel"),
    ("DELETE", "/api/v1/schedules/{id}"),
    ("DELETE", "/api/v1/hooks/{id}"),
    ("DELETE", "/v2/schedules/{schedule_id}"),
    ("DELETE", "/v2/messages"),
    ("DELETE", "/v2/messages/{message_id}"),
}
NOT_ABOUT_SCHEDULES = {
    "/api/v1/preview",  # reads
    "/mcp",  # has a table of its own
    "/settings",  # has a test of its own, as have the keys
    "/v2/keys/rotate",
    "/login",  # the browser itself
    "/sign-out",
    "/preferences",
    "/undo",
    "/api",
    "/hooks/{id}",  # where a signature takes the place of a token
    "/hooks/{id}/{secret}",
}
ABSENT = re.compile(r"/v2(/(queues|enqueue|topics|flowControl|bulkActions|workflows).*|/\{rest:anything\})?")
NEW_JOB = {"kind": "job", "trigger": {"type": "interval", "hours": 1}, "payload": PAYLOADS["job"]}
BODIES: dict[str, Any] = {
    "/api/v1/schedules": {**NEW_JOB, "name": "x"},
    "/api/v1/schedules/{id}": {"name": "another"},
    "/api/v1/schedules/change": {"action": "pause", "all": True},
    "/api/v1/runs/change": {"action": "resolve", "everything": True},
    "/api/v1/runs/{id}/again": {},
    "/api/v1/runs/{id}/finish": {"text": "done"},
    "/api/v1/dead/retry": {},
    "/api/v1/dead/{verb}": {},
    "/api/v1/attention/{mark}": {"ids": [1]},
    "/api/v1/inbox/{mark}": {"all": True},
    "/api/v1/events": {"event": "deploy.done"},
    "/api/v1/hooks": {"name": "github", "scheme": "github"},
    "/api/v1/hooks/{id}/rotate": {},
    "/v2/batch": [{"destination": "https://example.org/", "body": "x"}],
}
JSON = {"Content-Type": "application/json"}
WHEN = {"when": "cron", "expression": CRON, "timezone": "UTC"}
FORMS: dict[str, dict[str, str]] = {
    "/new": {"kind": "prompt", **PAYLOADS["prompt"], **WHEN},
    "/schedules": {"action": "pause", "matching": "1", "sure": "1"},
    "/schedules/{id}/edit": {"name": "x", "task": "echo", "version": "1", **WHEN},
    "/runs/{run:int}/again": {"field-task": "echo", "field-args": '["bye"]', "field-kwargs": "{}"},
    "/dead-letters": {"all": "dismiss"},
    "/runs": {"all": "resolve"},
    "/waiting/{run:int}/{action}": {"answer": "done"},
    "/inbox": {"all": "read"},
    "/settings/hooks": {"name": "github", "scheme": "github"},
}
ACTIONS = {
    "/schedules/{id}/{action}": ("pause", "run", "stop", "cancel", "delete"),
    "/runs/{run:int}/{action}": ("retry", "resolve"),
    "/attention/{key}/{action}": ("resolve", "reopen"),
    "/waiting/{run:int}/{action}": ("answer", "dismiss"),
    "/settings/hooks/{id}/{action}": ("rotate", "test", "delete"),
}

DELETING_ACTIONS = {("/schedules/{id}/{action}", each) for each in ("stop", "cancel", "delete")}
DELETING_ACTIONS |= {("/waiting/{run:int}/{action}", "dismiss"), ("/settings/hooks/{id}/{action}", "delete")}


class Things(NamedTuple):
    """A schedule of every kind with a run that failed, a request that has not gone out, and a prompt that waits."""

    schedules: dict[str, str]
    runs: dict[str, int]


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    agents = {name: AgentSettings(command=("true",)) for name in ("claude", "codex")}
    with site(tmp_path_factory.mktemp("site"), agents=agents) as made:
        made.tokens.is_under_way = runs_under_way(made.room.store)
        yield made


@pytest.fixture(scope="module")
def things(there: Site) -> Things:
    schedules, runs = {}, {}
    for kind in load_specs():
        schedules[kind] = create(there, kind)
        runs[kind] = fail(there, schedules[kind])
    schedules["message"] = create(there, "request", "once", {"run_at": "2100-01-01T00:00:00Z"})
    runs["waiting"] = wait(there)
    return Things(schedules, runs)


def create(
    there: Site,
    kind: str,
    type: str = "cron",
    config: dict[str, Any] | None = None,
    caller: Caller = ADA,
    **payload: Any,
) -> str:
    new = NewSchedule(kind, "mine", type, config or {"expression": CRON}, {**PAYLOADS[kind], **payload})
    made = there.room.scheduler.create(caller, new)
    return made.definition.public_id


def fail(there: Site, id: str) -> int:
    run = there.room.scheduler.run_now(ADA, id)
    there.room.scheduler.cancel_run(ADA, run.id)
    now = there.room.clock.now()

    def decide(change: Change, run: Run) -> Decision[Any]:
        broken = run._replace(status=RunStatus.FAILED, finished=now, error="it broke")
        return Writes(runs={run.id: broken}), broken

    there.room.store.change_run(RunId(run.id), now, decide)
    return run.id


def wait(there: Site) -> int:
    """Return the run of a prompt that is due and waits in the inbox."""
    create(there, "prompt", "once", {"run_at": "now"}, agent="inbox")
    store, now = there.room.store, there.room.clock.now()
    worker = store.register("test", ["prompt"], False, now)
    asked = ClaimRequest("prompt", 1, Instant(now + HOUR))
    [claim] = store.record_and_claim(worker, now, [], [asked]).claims
    ended = Finished(claim.run.id, claim.run.fence, Waiting(), now, now)
    store.record_and_claim(worker, now, [ended], [])
    return claim.run.id


def stored(there: Site) -> str:
    """Return everything that a call could leave in the store."""
    store = there.room.store
    rows = store.search(ScheduleQuery(limit=1000)).items, store.runs(RunQuery(limit=1000)).items
    return repr((*rows, store.hooks(None, 1000)))


def call(there: Site, name: str, arguments: dict[str, Any], *scopes: str) -> str:
    """Call a tool over HTTP and return the text of its answer."""
    params = {"name": name, "arguments": arguments, "_meta": META}
    headers = {**MODERN, "Mcp-Method": "tools/call", "Mcp-Name": name, **there.bearer("ada", scopes=scopes)}
    reply = there.post({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}, headers)
    assert reply.status == 200, reply
    return str(reply.message["result"]["content"][0]["text"])


# -- tools ------------------------------------------------------------------------------------------------------------


def arguments_of(name: str, things: Things) -> dict[str, Any]:
    """Return a call that would succeed if nothing were refused."""
    ids = {
        "job_id": things.schedules["job"],
        "id": int(things.schedules["prompt"]),
        "run_id": things.runs["waiting"],
        "run_ids": [things.runs["job"]],
        "schedule_id": things.schedules["notification"],
    }
    more = {"all": True} if name == "change_schedules" else {}
    given = {key: value for key, value in CALLS[name].items() if not (more and key == "label")}
    return {**given, **{each: value for each, value in ids.items() if each in given}, **more}


@pytest.mark.parametrize("name", [name for name, tool in TOOLS.items() if not tool.read_only])
def test_a_tool_that_changes_something_needs_its_scope(there: Site, things: Things, name: str) -> None:
    needed, other = ("delete", "write") if name in DELETING_TOOLS else ("write", "delete")
    before = stored(there)
    for scopes in (("read",), (other,), ("read", other, "kind:job"), ("operator", "read")):
        text = call(there, name, arguments_of(name, things), *scopes)
        hidden = "kind:job" in scopes and re.search("[Nn]ot found|no such|not yours", text)
        assert hidden or f"needs the scope {needed}" in text, (scopes, text)
        assert stored(there) == before, scopes


@pytest.mark.parametrize("name", [name for name, tool in TOOLS.items() if tool.read_only])
def test_every_token_may_use_the_tools_that_read(there: Site, things: Things, name: str) -> None:
    whole = call(there, name, arguments_of(name, things))
    for scope in ("read", "write", "delete"):
        text = call(there, name, arguments_of(name, things), scope)
        assert "the scope" not in text and len(text) > len(whole) * 0.9


def test_the_same_action_within_a_tool_for_many_needs_its_scope(there: Site, things: Things) -> None:
    before = stored(there)
    text = call(there, "change_schedules", {"action": "delete", "all": True, "expected_count": 5}, "write")
    assert "needs the scope delete" in text and stored(there) == before


# -- routes -----------------------------------------------------------------------------------------------------------


def registered(routes: list[BaseRoute], prefix: str = "") -> Iterator[tuple[str, str]]:
    for route in routes:
        path = prefix + str(getattr(route, "path", ""))
        if isinstance(route, Mount):
            yield from registered(list(route.routes), path)
        else:
            yield from ((method, path) for method in sorted(getattr(route, "methods", None) or {"GET"}))


def changing(there: Site) -> list[tuple[str, str]]:
    return [
        (method, path)
        for method, path in registered(there.app.routes)
        if method not in ("GET", "HEAD", "OPTIONS") and path not in NOT_ABOUT_SCHEDULES and not ABSENT.fullmatch(path)
    ]


def filled(path: str, things: Things) -> str:
    kind = "request" if path.startswith("/v2") else "job"
    run = things.runs["waiting" if "finish" in path or "waiting" in path else kind]
    path = path.replace("{destination:anything}", "https://example.org/").replace("{verb}", "resolve")
    path = path.replace("{mark}", "resolve" if "attention" in path else "read").replace("{key}", "run-1")
    path = path.replace("{dlq_id}", dlq_id(RunId(run))).replace("{message_id}", things.schedules["message"])
    path = re.sub(r"\{run(:int)?\}", str(run), path)
    if path.startswith(("/api/v1/runs", "/api/v1/dead")):
        path = path.replace("{id}", str(run))
    path = re.sub(r"\{(id|schedule_id)\}", things.schedules[kind], path)
    return f"{path}?all=true" if path in ("/v2/dlq", "/v2/dlq/retry") else path


class Asking(NamedTuple):
    """A token with scopes, and a browser that signed in with one."""

    there: Site
    things: Things
    headers: dict[str, str]
    browser: Browser

    def reply(self, method: str, path: str, action: str) -> Reply:
        if not path.startswith(("/api", "/v2")):
            page = filled(path.replace("{action}", action), self.things)
            return self.browser.send(page, FORMS.get(path, {}))
        cron = {"Upstash-Cron": "0 9 * * *"} if path.startswith("/v2/schedules/{destination") else {}
        body = json.dumps(BODIES[path]).encode() if path in BODIES and method != "DELETE" else None
        sent = {**self.headers, **cron, **({} if body is None else {"Content-Type": "application/json"})}
        return self.there.ask(method, filled(path, self.things), sent, body)


@pytest.mark.parametrize("scope", ["read", "write", "delete"])
def test_a_route_that_changes_something_needs_its_scope(there: Site, things: Things, scope: str) -> None:
    before, asked = stored(there), 0
    browser = signed_in_as(there, "ada", scopes=[scope])
    asking = Asking(there, things, there.bearer("ada", scopes=[scope]), browser)
    for method, path in changing(there):
        for action in ACTIONS.get(path, ("",)):
            deletes = (method, path) in DELETING_ROUTES or (path, action) in DELETING_ACTIONS
            needed = "delete" if deletes else "write"
            if needed == scope:
                continue
            reply, asked = asking.reply(method, path, action), asked + 1
            assert f"needs the scope {needed}" in words(reply), (method, path, action, reply)
            is_form = not path.startswith(("/api", "/v2"))  # a form shows the refusal beside its fields
            assert reply.status == 403 or (is_form and reply.status == 422), (method, path, action, reply)
            assert stored(there) == before, (method, path, action)
    assert asked >= (7 if scope == "write" else 40), asked


def test_pages_and_routes_that_read_need_no_scope_but_show_only_its_kinds(there: Site, things: Things) -> None:
    headers, browser = there.bearer("ada", scopes=["kind:job"]), signed_in_as(there, "ada", scopes=["kind:job"])
    for path in ("schedules", "runs", "upcoming", "dead"):
        listed = there.ask("GET", f"/api/v1/{path}", headers).json
        [rows] = [value for value in listed.values() if isinstance(value, list)]
        assert {row["kind"] for row in rows} == {"job"}, path
    for kind, id in things.schedules.items():
        status = 200 if kind == "job" else 404
        assert there.ask("GET", f"/api/v1/schedules/{id}", headers).status == status
        assert there.ask("GET", f"/api/v1/schedules/{id}/runs", headers).status == status
        assert browser.get(f"/schedules/{id}").status == status
        assert there.ask("PATCH", f"/api/v1/schedules/{id}", JSON | headers, b'{"name": "mine"}').status == status
    for kind, run in things.runs.items():
        assert there.ask("GET", f"/api/v1/runs/{run}", headers).status == (200 if kind == "job" else 404)
    for kind in ("prompt", "notification"):
        assert there.ask("GET", f"/api/v1/schedules?kind={kind}", headers).json["schedules"] == []
    assert {row["kind"] for row in json.loads(call(there, "list_upcoming", {}, "kind:job"))["upcoming"]} == {"job"}
    assert call(there, "schedule_list", {}, "kind:job") == NO_TASKS
    assert there.ask("GET", "/v2/schedules", headers).json == []


def test_nothing_of_another_kind_is_created(there: Site, things: Things) -> None:
    before = stored(there)
    for kind in load_specs():
        body = {"kind": kind, "name": "x", "trigger": NEW_JOB["trigger"], "payload": PAYLOADS[kind]}
        other = next(each for each in load_specs() if each != kind)
        headers = JSON | there.bearer("ada", scopes=["write", f"kind:{other}"])
        reply = there.ask("POST", "/api/v1/schedules", headers, json.dumps(body).encode())
        assert (reply.status, reply.json["type"]) == (403, "urn:duetime:problem:scope")
        words = f"this needs the scope kind:{kind}, and the token has only kind:{other} write"
        assert reply.json["detail"] == f"{words}; ask the operator for a token with that scope"
    assert stored(there) == before


def test_a_calendar_shows_only_the_kinds_of_its_token(there: Site, things: Things) -> None:
    tokens = there.tokens.for_purpose(CALENDAR)
    for scopes, shown in (([], True), (["kind:job"], False)):
        address = tokens.issue("calendar of ada", HOUR, owner="ada", scopes=scopes)
        feed = there.ask("GET", f"/calendar/{address}.ics").body.decode()
        assert "mine" in feed and (things.schedules["notification"] in feed) is shown


def test_only_a_token_without_limits_issues_tokens_and_reads_signing_keys(there: Site) -> None:
    browser = signed_in_as(there, "root", scopes=["operator", "write"])
    before = len(there.tokens.records())
    assert "Issue a token" not in browser.text("/settings")
    reply = browser.send("/settings", {"email": "eve@example.org", "life": "30d", "scope": "1"})
    assert reply.status == 403 and len(there.tokens.records()) == before
    assert there.ask("GET", "/v2/keys", there.bearer("ada", scopes=["read"])).status == 403
    assert there.ask("POST", "/v2/keys/rotate", there.bearer("ada", scopes=["write"])).status == 403
    assert there.ask("GET", "/v2/keys", there.bearer("ada")).status == 200


# -- agents -----------------------------------------------------------------------------------------------------------

CLAUDE = ADA._replace(scopes=("write", "agent:claude"))


def prompts(there: Site) -> dict[str, str]:
    return {agent: create(there, "prompt", agent=agent) for agent in ("claude", "codex")}


def code(call: Callable[[], object]) -> str:
    result = attempt(call)
    return result.code if isinstance(result, DuetimeError) else "ok"


def test_a_token_for_one_agent_wakes_no_other(there: Site, things: Things) -> None:
    scheduler, ids = there.room.scheduler, prompts(there)
    runs = {agent: fail(there, id) for agent, id in ids.items()}
    before = stored(there)
    foreign = scheduler.find(ADA, ids["codex"])
    own = scheduler.find(ADA, ids["claude"])
    assert foreign is not None and own is not None
    body = {"prompt": "x", "agent": "codex"}
    refused = {
        "create": lambda: scheduler.create(CLAUDE, NewSchedule("prompt", "x", "cron", {"expression": CRON}, body)),
        "default agent": lambda: scheduler.create(
            CLAUDE, NewSchedule("prompt", "x", "cron", {"expression": CRON}, {"prompt": "x"})
        ),
        "run": lambda: scheduler.run_now(CLAUDE, ids["codex"]),
        "run with": lambda: scheduler.run_with(CLAUDE, foreign, body),
        "resume": lambda: scheduler.resume(CLAUDE, ids["codex"]),
        "edit": lambda: scheduler.edit(CLAUDE, ids["codex"], Changes(payload={"prompt": "x", "agent": "claude"})),
        "edit to it": lambda: scheduler.edit(CLAUDE, ids["claude"], Changes(payload=body)),
        "retry": lambda: scheduler.retry(CLAUDE, runs["codex"]),
        "retry all": lambda: scheduler.retry_all(
            CLAUDE, [run for run in map(there.room.store.run, map(RunId, runs.values())) if run]
        ),
        "take": lambda: scheduler.take_run(CLAUDE, things.runs["waiting"]),
    }
    assert {name: code(call) for name, call in refused.items()} == dict.fromkeys(refused, "scope")
    taken = scheduler.take(CLAUDE, "prompt")
    assert taken is None
    assert stored(there) == before
    assert code(lambda: scheduler.run_now(CLAUDE, ids["claude"])) == "ok"


def test_a_retry_wakes_no_other_agent_than_its_own_input_names(there: Site) -> None:
    """The run names codex, and its schedule claude by now."""
    scheduler = there.room.scheduler
    id = create(there, "prompt", agent="codex")
    schedule = scheduler.find(ADA, id)
    assert schedule is not None
    run = scheduler.run_with(ADA, schedule, {"prompt": "x", "agent": "codex"})
    scheduler.cancel_run(ADA, run.id)
    assert code(lambda: scheduler.edit(ADA, id, Changes(payload={"prompt": "x", "agent": "claude"}))) == "ok"
    assert code(lambda: scheduler.retry(CLAUDE, run.id)) == "scope"


def definition_of(there: Site, id: str) -> Definition:
    found = there.room.scheduler.find(ADA, id)
    assert found is not None
    return found.definition


def run_call(there: Site, id: str) -> Call:
    """Return the caller of a run's token, made as for an agent that is woken for a schedule."""
    run = there.room.scheduler.run_now(ADA, id)
    definition = definition_of(there, id)
    allowed = (allowance_of(definition) or NOTHING_MORE).text()
    claim = Claim(run, definition, there.room.clock.now())
    access = RunAccess(there.room.settings, there.room.clock, "UTC", there.room.store)
    access.__dict__["_tokens"] = there.tokens
    grant: Grant = there.tokens.read(access(claim, 60.0, 1, allowed).token)
    return call_of(there.room.services, grant, "mcp")


def test_a_run_may_do_no_more_than_the_token_that_stored_its_prompt(there: Site) -> None:
    scheduler = there.room.scheduler
    within = run_call(there, create(there, "prompt", agent="claude", caller=CLAUDE)).caller
    assert (within.depth, set(within.scopes)) == (1, {"write", "agent:claude"})
    for agent, expected in (("codex", "scope"), ("claude", "ok")):
        new = NewSchedule("prompt", "x", "cron", {"expression": CRON}, {"prompt": "x", "agent": agent})
        assert code(partial(scheduler.create, within, new)) == expected
    assert code(lambda: scheduler.delete(within, create(there, "job"))) == "scope"
    deeper = run_call(there, create(there, "prompt", agent="claude", caller=within)).caller
    assert set(deeper.scopes) == set(within.scopes)
    assert run_call(there, create(there, "prompt", agent="claude")).caller.scopes == ()


def test_a_text_that_such_a_token_wrote_into_another_prompt_brings_its_limits_along(there: Site) -> None:
    id = create(there, "prompt", agent="claude")
    assert (
        code(lambda: there.room.scheduler.edit(CLAUDE, id, Changes(payload={"prompt": "mine", "agent": "claude"})))
        == "ok"
    )
    assert set(run_call(there, id).caller.scopes) == {"write", "agent:claude"}


def test_a_session_has_the_scopes_of_its_token(there: Site) -> None:
    signed_in_as(there, "sue", scopes=["write", "agent:claude"])
    [token, session] = sorted(
        (each for each in there.tokens.records() if each.subject == "sue"), key=lambda each: each.purpose
    )
    assert session.parent == token.id and session.limits == token.limits == ("agent:claude", "write")


# -- the scopes themselves --------------------------------------------------------------------------------------------


def test_a_group_that_no_scope_names_is_not_limited() -> None:
    assert not lacking((), "delete") and not lacking(("kind:job",), "delete") and not lacking(("read",), "kind:job")
    assert not lacking(("write",), "read"), "every answer shows what it is about"
    assert lacking(("write",), "delete") == "delete" and lacking(("kind:job",), "kind:prompt") == "kind:prompt"
    with pytest.raises(Exception, match="the scope agent:b, and the token has only agent:a"):
        check(("agent:a",), "write", "agent:b")


@pytest.mark.parametrize(
    ("first", "second", "both"),
    [
        ((), ("write",), ("write",)),
        (("read", "write"), ("write", "delete"), ("write",)),
        (("write",), ("delete",), ("read",)),
        (("agent:a",), ("agent:b",), ("agent:",)),
        (("agent:a", "write"), ("kind:job",), ("write", "agent:a", "kind:job")),
    ],
)
def test_what_two_have_in_common_is_never_more_than_either(
    first: tuple[str, ...], second: tuple[str, ...], both: tuple[str, ...]
) -> None:
    assert common(first, second) == both
    assert set(common(second, first)) == set(both)
    if both == ("agent:",):
        assert lacking(both, "agent:a")
