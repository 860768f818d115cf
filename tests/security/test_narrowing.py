"""What the token of an agent's run cannot widen: limits, rules, hidden values, the web."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from duetime.engine.clock import HOUR, Instant
from duetime.engine.narrowing import POLICY
from duetime.engine.policy.options import Policy
from duetime.engine.store import ClaimRequest
from duetime.http.auth import call_of
from duetime.kinds.jobs.registry import Task
from duetime.service.tokens import runs_under_way
from duetime.settings.sections import AgentSettings, NotificationSettings
from tests.support.agent import Agent
from tests.support.api import Api, Client, serving_api

DAILY = {"type": "cron", "expression": "0 9 * * *"}
TWICE_A_DAY = {"type": "interval", "hours": 12}
NOW = {"type": "once", "run_at": "now"}
WEB = {"web": True}
LIMITED = {
    "prompt": "look",
    "agent": "coder",
    "max_dollars_per_day": 0.5,
    "max_tokens_per_day": 1000,
    "max_runs_per_day": 5,
}
CALL = {
    "url": "https://crm.example.org/hook",
    "headers": {"Authorization": "Bearer the-secret-of-ada", "X-Customer": "ada-and-partners"},
    "body": "the door code is 4711-ada",
    "redact": ["body", "header[X-Customer]"],
}


def swapped(text: str) -> str:
    """What no pattern recognizes as a credential."""
    return f"look: {text}!"


def told(password: str) -> str:
    return swapped(password)


class Stage:
    """An owner, and the runs of her agents."""

    def __init__(self, api: Api) -> None:
        self.api, self.ada, self.store = api, api.client("ada"), api.room.store
        api.tokens.is_under_way = runs_under_way(self.store)
        self._tasks: dict[str, str] = {}

    def made(self, kind: str, payload: Mapping[str, Any], trigger: Mapping[str, Any], **more: Any) -> str:
        made = self.ada.job(kind=kind, name="ada's", payload=payload, trigger=trigger, **more)
        return str(made["id"])

    def token(self, payload: Mapping[str, Any] | None = None, grant: Mapping[str, Any] = WEB, **more: Any) -> str:
        """Return the token of a run of a prompt, which a worker holds."""
        self.task = self.made("prompt", payload or {"prompt": "x"}, **{"trigger": NOW, **more})
        found = self.store.find(self.task)
        assert found is not None and found.progress.next is not None
        now = max(self.api.room.clock.now(), found.progress.next)
        self.api.simulation.clock.move_to(now)
        worker = self.store.register("test", ["prompt"], False, now)
        [claim] = self.store.record_and_claim(worker, now, [], [ClaimRequest("prompt", 1, Instant(now + HOUR))]).claims
        return self.api.tokens.for_run("ada", claim.run.id, claim.run.fence, 1, 48 * HOUR, "UTC", json.dumps(grant))

    def client(self, token: str) -> Client:
        return Client(self.api.http, self.api.described, {"Authorization": f"Bearer {token}"})

    def agent(self, token: str) -> Agent:
        return Agent(
            self.api.room.services, call_of(self.api.room.services, self.api.tokens.verify(token), "mcp").caller
        )

    def stored(self, id: str) -> Any:
        found = self.store.find(id)
        assert found is not None
        return found.definition


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with serving_api(tmp_path, agents={"coder": AgentSettings(type="command", command=("true",))}) as api:
        yield Stage(api)


def test_every_option_of_the_policy_has_a_rule() -> None:
    assert POLICY.keys() == {each.name for each in fields(Policy)}


# -- hidden values ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("who", ["run", "owner"])
def test_what_is_redacted_stays_hidden_without_new_values(stage: Stage, who: str) -> None:
    id, token = stage.made("request", CALL, DAILY), stage.token()
    client = stage.client(token) if who == "run" else stage.ada
    shown = client.get(f"/schedules/{id}")["payload"]
    before = stage.stored(id)
    for redact in ([], ["body"], ["header[X-Customer]"], None):
        problem = client.refused("PATCH", f"/schedules/{id}", 422, json={"payload": {**shown, "redact": redact}})
        assert "anew" in problem["detail"]
    agent = Agent(stage.api.room.services, stage.agent(token).call.caller._replace(depth=1 if who == "run" else 0))
    assert "anew" in str(agent.use("edit_schedule", schedule_id=id, payload={"redact": []}))
    assert "anew" in str(agent.use("run_now", schedule_id=id, fields={"redact": []}))
    assert stage.stored(id) == before


def test_a_person_may_show_new_values_and_a_run_may_not(stage: Stage) -> None:
    id = stage.made("request", CALL, DAILY)
    anew = {"url": CALL["url"], "headers": {"X-Customer": "bob"}, "body": "another one"}
    run = stage.client(stage.token())
    assert "ask a person" in run.refused("PATCH", f"/schedules/{id}", 422, json={"payload": anew})["detail"]
    assert stage.ada.ask("PATCH", f"/schedules/{id}", json={"payload": anew}).status_code == 200
    assert stage.ada.get(f"/schedules/{id}")["payload"]["body"] == "another one"


CHANGES: list[dict[str, Any]] = [
    {"url": "https://crm.example.org/admin/delete?user=1"},
    {"method": "DELETE"},
    {"body": "another"},
    {"headers": {"Authorization": "***", "X-Customer": "eve"}},
    {"callback": "https://crm.example.org/back"},
    {"label": "x"},
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: next(iter(change)))
def test_a_run_changes_nothing_beside_a_hidden_value(stage: Stage, change: dict[str, Any]) -> None:
    id, token = stage.made("request", {name: CALL[name] for name in ("url", "headers")}, DAILY), stage.token()
    run, agent, before = stage.client(token), stage.agent(token), stage.stored(id)
    shown = run.get(f"/schedules/{id}")["payload"]
    assert "anew" in run.refused("PATCH", f"/schedules/{id}", 422, json={"payload": {**shown, **change}})["detail"]
    assert "anew" in str(agent.use("run_now", schedule_id=id, fields=change))
    if "headers" not in change:  # fields replace the whole value there, and restore nothing
        assert "anew" in str(agent.use("edit_schedule", schedule_id=id, payload=change))
    assert stage.stored(id) == before
    assert run.ask("PATCH", f"/schedules/{id}", json={"payload": shown, "name": "renamed"}).status_code == 200
    assert stage.stored(id).name == "renamed" and stage.stored(id).payload == before.payload


# -- limits -----------------------------------------------------------------------------------------------------------

WIDER: list[dict[str, Any]] = [
    {"payload": {"prompt": "look", "agent": "coder"}},
    {"payload": {**LIMITED, "max_dollars_per_day": 5}},
    {"payload": {**LIMITED, "max_tokens_per_day": None}},
    {"payload": {**LIMITED, "max_runs_per_day": 6}},
    {"policy": {"timeout_seconds": 2_000_000}},
    {"policy": {"max_attempts": 50}},
    {"policy": {"max_runs": None}},
    {"policy": {"max_runs": 100}},
    {"policy": {"pause_after": 0}},
    {"policy": {"deliver_to": None}},
    {"policy": {"deliver_to": "elsewhere"}},
    {"policy": {"notify_on": "failure"}},
    {"policy": {"overlap": "allow"}},
    {"policy": {"catch_up": "all"}},
    {"policy": {"backoff_seconds": 1}},
    {"trigger": {"type": "interval", "seconds": 1}},
    {"trigger": {"type": "interval", "hours": 11}},
    {"trigger": {"type": "interval", "seconds": 1, "start": "2026-05-31T00:00:00Z"}},
    {"trigger": {"type": "interval", "hours": 12}, "end": None},
    {"end": "2026-12-31"},
    {"next": "in 5 minutes"},
]


@pytest.mark.parametrize("change", WIDER, ids=str)
def test_a_run_does_not_lift_the_limits_of_its_task(stage: Stage, change: dict[str, Any]) -> None:
    policy = {"max_runs": 2, "deliver_to": "home", "notify_on": "always", "timeout_seconds": 60, "backoff_seconds": 30}
    token = stage.token(LIMITED, trigger={**TWICE_A_DAY, "end": "2026-06-01"}, policy=policy)
    before, run = stage.stored(stage.task), stage.client(token)
    problem = run.refused("PATCH", f"/schedules/{stage.task}", 422, json=change)
    assert "an agent's run may only narrow" in problem["detail"]
    assert stage.stored(stage.task) == before
    assert stage.ada.ask("PATCH", f"/schedules/{stage.task}", json=change).status_code == 200


NARROWER: list[dict[str, Any]] = [
    {"payload": {**LIMITED, "prompt": "look again", "max_dollars_per_day": 0.25}},
    {"policy": {"timeout_seconds": 30, "max_runs": 2, "pause_after": 1, "catch_up": "skip"}},
    {"trigger": {"type": "interval", "hours": 24}},
    {"end": "2026-05-01"},
    {"next": "in 3 days"},
    {"trigger": {"type": "once", "run_at": "in 3 days"}},
]


@pytest.mark.parametrize("change", NARROWER, ids=str)
def test_a_run_may_narrow_its_task(stage: Stage, change: dict[str, Any]) -> None:
    policy = {"max_runs": 3, "timeout_seconds": 60}
    token = stage.token(LIMITED, trigger={**TWICE_A_DAY, "end": "2026-06-01"}, policy=policy)
    reply = stage.client(token).ask("PATCH", f"/schedules/{stage.task}", json=change)
    assert reply.status_code == 200, reply.text


def test_a_rule_is_not_made_denser_by_and_by(stage: Stage) -> None:
    """A run that moves its rule from 9:00 to 9:05 each time it fires, and so on, would run all day."""
    run = stage.client(stage.token({"prompt": "x"}, trigger=DAILY))
    for expression in ("5 9 * * *", "0 8 * * *", "0 9,10 * * *", "* * * * *"):
        run.refused(
            "PATCH", f"/schedules/{stage.task}", 422, json={"trigger": {"type": "cron", "expression": expression}}
        )
    later = {"trigger": {"type": "interval", "seconds": 1}, "starting": "2030-12-31T00:00:00Z"}
    run.refused("PATCH", f"/schedules/{stage.task}", 422, json=later)
    tomorrow = {"trigger": {"type": "cron", "expression": "5 9 * * *"}, "starting": "2026-02-12T00:00:00Z"}
    assert run.ask("PATCH", f"/schedules/{stage.task}", json=tomorrow).status_code == 200


def test_the_input_of_a_single_run_has_the_same_limits(stage: Stage) -> None:
    token = stage.token(LIMITED, trigger=TWICE_A_DAY)
    agent = stage.agent(token)
    for field in ("max_dollars_per_day", "max_tokens_per_day", "max_runs_per_day"):
        told = str(agent.use("run_now", schedule_id=stage.task, fields={field: None}))
        assert f"{field}: an agent's run may only narrow" in told


def test_a_run_does_not_widen_what_a_prompt_may_use(stage: Stage) -> None:
    id = stage.made("prompt", {"prompt": "x", "allow": {"web": False, "commands": []}}, DAILY)
    run = stage.client(stage.token(grant={"web": True, "commands": ["*"]}))
    shown = run.get(f"/schedules/{id}")["payload"]
    for allow in (None, {**shown["allow"], "web": True}, {**shown["allow"], "commands": ["make *"]}):
        run.refused("PATCH", f"/schedules/{id}", 422, json={"payload": {**shown, "allow": allow}})


def test_what_a_run_schedules_shares_the_limits_of_its_task(stage: Stage) -> None:
    policy = {"max_runs": 3, "timeout_seconds": 60}
    run = stage.client(stage.token(LIMITED, trigger=TWICE_A_DAY, policy=policy))

    def schedule(payload: dict[str, Any], trigger: dict[str, Any] = NOW, **options: Any) -> Any:
        body = {"kind": "prompt", "name": "more", "trigger": trigger, "payload": payload, "policy": options}
        return run.ask("POST", "/schedules", json=body)

    for wider in ({"max_dollars_per_day": 1}, {"max_tokens_per_day": 10**6}, {"max_runs_per_day": 6}):
        assert schedule({"prompt": "more", **wider}).status_code == 422
    refused = schedule({"prompt": "more", "max_runs_per_day": "many"})
    assert refused.status_code == 422 and "max_runs_per_day: must be a whole number" in refused.text
    options: list[dict[str, Any]] = [{"max_runs": 3}, {"timeout_seconds": 61}]
    for option in options:
        assert schedule({"prompt": "more"}, **option).status_code == 422
    assert schedule({"prompt": "more"}, {"type": "interval", "hours": 1}).status_code == 422
    made = schedule({"prompt": "more", "agent": "coder", "max_dollars_per_day": 0.1}).json()
    own = stage.stored(stage.task).id
    assert made["payload"] == {**LIMITED, "prompt": "more", "max_dollars_per_day": 0.1, "budget_of": own} | {
        "allow": made["payload"]["allow"]
    }
    assert made["policy"]["max_runs"] == 2 and made["policy"]["timeout_seconds"] == 60
    run.refused("PATCH", f"/schedules/{made['id']}", 422, json={"payload": {"prompt": "more", "budget_of": None}})
    reminder = schedule({"prompt": "drink", "remind": True}, {"type": "interval", "minutes": 10}).json()
    run.refused("PATCH", f"/schedules/{reminder['id']}", 422, json={"payload": {"prompt": "work"}})
    assert schedule({"prompt": "for anybody", "agent": "inbox"}).json()["payload"]["max_tokens_per_day"] == 1000


def test_what_a_run_schedules_counts_towards_its_task(stage: Stage) -> None:
    """The prompt that a run schedules does not start once its task has used up its runs of the day."""
    run = stage.client(stage.token({"prompt": "x", "max_runs_per_day": 1}, trigger=DAILY))
    body = {"kind": "prompt", "name": "more", "trigger": NOW, "payload": {"prompt": "more"}}
    made = [run.post("/schedules", body, 201)["id"] for _ in range(2)]
    stage.api.pass_time(minutes=1)
    runs = [stage.ada.get(f"/schedules/{each}/runs")["runs"][0] for each in made]
    assert sorted(each["status"] for each in runs) == ["pending", "waiting"]


# -- the web ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def public(tmp_path: Path) -> Iterator[Stage]:
    """A server whose messages go to a public ntfy server."""
    notifications = NotificationSettings(server="https://ntfy.example.org", topic="home", prefix="x7Kq2mNv-")
    with serving_api(tmp_path, notifications=notifications) as api:
        yield Stage(api)


PLAIN = {"message": "done", "topic": "home", "title": "t", "priority": 4, "tags": ["x"]}
WAYS_OUT: list[tuple[str, dict[str, Any]]] = [
    ("request", {"url": "https://example.org/"}),
    ("job", {"task": "fetch", "args": ["https://example.org/"]}),
    ("job", {"task": "echo('https://example.org/') | fetch"}),
    ("job", {"task": "upload", "args": ["x"]}),
    ("notification", {**PLAIN, "icon": "https://example.org/x.png"}),
    ("notification", {**PLAIN, "attach": "https://example.org/x.png"}),
    ("notification", {**PLAIN, "click": "https://example.org/?q=secret"}),
    ("notification", {**PLAIN, "markdown": True}),
    ("notification", {**PLAIN, "actions": [{"action": "http", "label": "x", "url": "https://example.org/"}]}),
    ("notification", {**PLAIN, "topic": "a-topic-of-a-stranger"}),
]


@pytest.mark.parametrize(("kind", "payload"), WAYS_OUT, ids=lambda part: str(part)[-60:])
def test_a_run_without_the_web_sends_nothing_out(public: Stage, kind: str, payload: dict[str, Any]) -> None:
    public.api.room.kinds["job"].registry.add(Task(swapped, name="upload", web=True))  # type: ignore[attr-defined]
    body = {"kind": kind, "name": "x", "trigger": DAILY, "payload": payload}
    run = public.client(public.token(grant={"web": False}))
    assert "may not; ask a person" in run.refused("POST", "/schedules", 422, json=body)["detail"]
    assert public.ada.ask("POST", "/schedules", json=body).status_code == 201
    with_web = public.client(public.token(grant=WEB))
    assert with_web.ask("POST", "/schedules", json=body).status_code == 201


def test_a_run_without_the_web_sends_plain_messages_to_topics_that_exist(public: Stage) -> None:
    run = public.client(public.token(grant={"web": False}))

    def send(topic: str, **options: Any) -> int:
        payload = {**PLAIN, "topic": topic} if not options else {"prompt": "x"}
        kind = "notification" if not options else "prompt"
        body = {"kind": kind, "name": "x", "trigger": DAILY, "payload": payload, "policy": options}
        return int(run.ask("POST", "/schedules", json=body).status_code)

    assert [send("home"), send("duetime-alerts"), send("builds")] == [201, 201, 422]
    assert [send("", deliver_to="home"), send("", deliver_to="builds")] == [201, 422]
    public.made("notification", {"message": "built", "topic": "builds"}, DAILY)
    assert [send("builds"), send("", deliver_to="builds")] == [201, 201]


def test_a_run_without_the_web_does_not_redirect_a_request(stage: Stage) -> None:
    id, token = stage.made("request", {"url": "https://crm.example.org/x"}, DAILY), stage.token(grant={"web": False})
    run, agent = stage.client(token), stage.agent(token)
    shown = run.get(f"/schedules/{id}")["payload"]
    for change in ({"url": "https://evil.example.org/"}, {"callback": "https://evil.example.org/"}, {"body": "secret"}):
        run.refused("PATCH", f"/schedules/{id}", 422, json={"payload": {**shown, **change}})
        assert "may not; ask a person" in str(agent.use("run_now", schedule_id=id, fields=change))
    assert run.ask("PATCH", f"/schedules/{id}", json={"name": "renamed", "payload": shown}).status_code == 200
    assert run.ask("POST", f"/schedules/{id}/run").status_code in (200, 201, 202)


def test_the_qstash_api_sends_nothing_out_either(stage: Stage) -> None:
    url, cron = "https://example.org/hook", {"Upstash-Cron": "0 9 * * *", "Upstash-Schedule-Id": "mine"}
    for grant, status in (({"web": False}, 400), (WEB, 200)):
        headers = {"Authorization": f"Bearer {stage.token(grant=grant)}"}
        for path, more in ((f"/v2/publish/{url}", {}), (f"/v2/schedules/{url}", cron)):
            reply = stage.api.http.post(path, headers=headers | more, content="x")
            assert (reply.status_code // 100 == 2) is (status == 200), reply.text
        batch = stage.api.http.post("/v2/batch", headers=headers, json=[{"destination": url, "body": "x"}])
        assert ("messageId" in batch.text) is (status == 200), batch.text


# -- results ----------------------------------------------------------------------------------------------------------


def test_results_do_not_show_a_run_the_credentials_of_an_input(stage: Stage) -> None:
    stage.api.room.kinds["job"].registry.add(Task(swapped))  # type: ignore[attr-defined]
    secret = "the5ecretOfAda"
    id = stage.made("job", {"task": "swapped", "kwargs": {"text": f"password={secret}"}}, NOW)
    stage.api.room.kinds["job"].registry.add(Task(told))  # type: ignore[attr-defined]
    other = stage.made("job", {"task": "told", "kwargs": {"password": secret}}, NOW)
    stage.api.pass_time(minutes=1)
    token = stage.token()
    headers, agent = {"Authorization": f"Bearer {token}"}, stage.agent(token)
    assert secret in stage.ada.ask("GET", f"/schedules/{other}/runs").text
    run = stage.ada.get(f"/schedules/{other}/runs")["runs"][0]["run_id"]
    for path in (f"/schedules/{id}/runs", f"/schedules/{other}/runs", f"/runs/{run}", "/runs"):
        reply = stage.api.http.get(f"/api/v1{path}", headers=headers)
        assert reply.status_code == 200 and secret not in reply.text, path
    answers = [
        agent.use("history", schedule_id=other),
        agent.use("history", run_id=run),
        agent.use("list_jobs"),
        agent.use("job_status", job_id=other),
        agent.use("run_now", schedule_id=other),
    ]
    assert all(secret not in json.dumps([dict(each.structured), each.text]) for each in answers)
    waited = stage.api.http.post(f"/api/v1/schedules/{other}/run?wait=1", headers=headers)
    assert secret not in waited.text and base64.b64encode(secret.encode()).decode() not in waited.text
