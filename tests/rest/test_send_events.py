"""`POST /api/v1/events`: stored before it is answered, once per key, within the limits of the caller's owner."""

from __future__ import annotations

import pytest

from duetime.stores import events
from tests.support.api import Api


def test_an_event_starts_what_waits_for_it(api: Api) -> None:
    ada, bob = api.client("ada"), api.client("bob")
    job = ada.job(trigger={"type": "event", "event": "deploy.*", "where": {"version": [5, 6]}, "at_most_every": "1h"})
    assert (job["next_run"], job["policy"]["overlap"]) == (None, "queue")
    assert job["trigger"]["where"] == {"version": ["5", "6"]}
    assert job["reads_as"] == "on the event deploy.* where version is 5 or 6, at most every 1 hour"
    sent = ada.post("/events", {"event": "deploy.done", "data": {"version": 5}, "idempotency_key": "a"}, 202)
    again = ada.post("/events", {"event": "deploy.done", "data": {"version": 6}, "idempotency_key": "a"}, 202)
    assert (again["event_id"], again["duplicate"], sent["duplicate"]) == (sent["event_id"], True, False)
    other = bob.post("/events", {"event": "deploy.done", "data": {"version": 5}, "idempotency_key": "a"}, 202)
    assert (other["duplicate"], other["warning_codes"]) == (False, ["no_listener"])
    api.pass_time(seconds=1)
    [run] = ada.get("/runs", schedule=job["id"])["runs"]
    assert (run["status"], run["cause"]) == ("completed", f"event:{sent['event_id']}")
    assert ada.get("/upcoming")["on_events"][0]["id"] == job["id"]


def test_a_trigger_that_follows_can_be_created_as_it_is_shown(api: Api) -> None:
    ada = api.client("ada")
    first = ada.job(name="backup")
    second = ada.job(name="upload", trigger={"type": "after", "schedule": "backup", "outcome": "fails"})
    assert second["trigger"].items() >= {"type": "after", "schedule": first["id"], "name": "backup"}.items()
    again = ada.job(name="again", trigger=second["trigger"])
    assert (again["trigger"], again["reads_as"]) == (second["trigger"], "after backup fails")
    usual = ada.job(name="usual", trigger={"type": "after", "schedule": first["id"], "at_most_every": "1h"})
    assert usual["reads_as"] == "after backup succeeds, at most every 1 hour"
    wrong = {"kind": "job", "name": "x", "payload": {"task": "echo"}}
    ada.refused("POST", "/schedules", 422, json={**wrong, "trigger": {"type": "after", "schedule": "nothing"}})
    ada.refused("POST", "/schedules", 422, json={**wrong, "trigger": {"type": "after"}})


def test_what_is_refused(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    ada = api.client()
    ada.refused("POST", "/events", 422, json={"event": "~ended.5"})
    ada.refused("POST", "/events", 422, json={"event": "a b"})
    ada.refused("POST", "/events", 422, json={"data": {}})
    ada.refused("POST", "/events", 413, json={"event": "big", "data": "x" * 262_145})
    api.nobody().refused("POST", "/events", 401, json={"event": "push"})
    monkeypatch.setattr(events, "MAX_PER_MINUTE", 2)
    for _ in range(2):
        ada.post("/events", {"event": "push"}, 202)
    ada.refused("POST", "/events", 429, json={"event": "push"})
    api.client("bob").post("/events", {"event": "push"}, 202)


def test_a_token_that_may_only_read_sends_nothing(api: Api) -> None:
    api.client("ada", "read").refused("POST", "/events", 403, json={"event": "push"})
