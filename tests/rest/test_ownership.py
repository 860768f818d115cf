"""Whose things are whose over HTTP: another owner's are answered exactly as what does not exist."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from duetime.engine.policy import changes
from tests.support.api import Api, Client, serving_api

SOON = {"type": "once", "run_at": "in 5 minutes"}
BODIES: dict[str, Any] = {
    "patch": {"name": "taken over"},
    "/runs/{id}/finish": {"text": "done"},
    "/runs/{id}/again": {},
    "/hooks/{id}/rotate": {},
}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with serving_api(tmp_path_factory.mktemp("api"), url=str(tmp_path_factory.mktemp("db") / "my.db")) as made:
        yield made


@pytest.fixture(scope="module")
def ada(api: Api) -> Client:
    return api.client("ada")


@pytest.fixture(scope="module")
def bob(api: Api) -> Client:
    return api.client("bob")


def told(reply: httpx2.Response) -> tuple[int, bytes, list[tuple[str, str]]]:
    return reply.status_code, reply.content, sorted(reply.headers.items())


def own_things(api: Api, client: Client) -> tuple[str, int]:
    """A schedule, and a run of a request that failed: what every route with an id can be asked for."""
    id = client.job(name="mine alone")["id"]
    failing = client.job(
        kind="request", payload={"url": "http://127.0.0.1:9/"}, policy={"max_attempts": 1}, trigger=SOON
    )
    api.pass_time(minutes=10)
    [run] = client.get(f"/schedules/{failing['id']}/runs")["runs"]
    assert run["status"] == "failed"
    return id, run["run_id"]


def asks(api: Api) -> list[tuple[str, str]]:
    """Every operation with an id, as the description lists them: a new one is tested by itself."""
    found = [
        (method, path.removeprefix("/v1").replace("{verb}", "resolve"))
        for path, item in api.described.document["paths"].items()
        for method in item
        if "{id}" in path
    ]
    assert len(found) >= 12
    return found


def test_what_is_anothers_is_answered_as_what_does_not_exist(api: Api, ada: Client, bob: Client) -> None:
    schedule, run = own_things(api, ada)
    before = json.dumps([ada.get(f"/schedules/{schedule}"), ada.get(f"/runs/{run}")])
    for method, path in asks(api):
        of_runs = path.startswith(("/runs", "/dead"))
        theirs, nothing = (str(run), "987654321") if of_runs else (schedule, schedule[:-1] + "x")
        body = BODIES.get(path, BODIES.get(method))
        more = {} if body is None else {"json": body}
        asked = bob.ask(method.upper(), path.replace("{id}", theirs), **more)
        absent = bob.ask(method.upper(), path.replace("{id}", nothing), **more)
        assert asked.status_code == 404, (method, path)
        assert told(asked) == told(absent), (method, path)
    assert json.dumps([ada.get(f"/schedules/{schedule}"), ada.get(f"/runs/{run}")]) == before


def test_lists_show_only_ones_own(api: Api, ada: Client, bob: Client) -> None:
    schedule, run = own_things(api, ada)
    name = ada.notification(trigger=SOON)["id"]
    api.pass_time(minutes=10)
    for path in ("/schedules", "/runs", "/dead", "/inbox", "/upcoming"):
        seen = json.dumps(bob.get(path))
        for mine in (f'"{schedule}"', f'"run_id": {run},', f'"{name}"', '"ada"'):
            assert mine not in seen, path
    assert ada.get("/runs", schedule=schedule)["total"] >= 0
    assert bob.get("/runs", schedule=schedule)["runs"] == []
    assert bob.get("/schedules", text="mine alone")["total"] == 0


@pytest.mark.parametrize("path", ["/schedules", "/runs", "/dead", "/inbox", "/upcoming", "/events"])
def test_only_operators_may_ask_for_an_owner(api: Api, bob: Client, path: str) -> None:
    for owner in ("ada", "nobody-at-all"):
        problem = bob.refused("GET", f"{path}?owner={owner}", 403)
        assert (problem["type"], problem["field"]) == ("urn:duetime:problem:operators_only", "owner")
    if path != "/events":
        bob.get(path, owner="bob")


def test_an_operator_sees_all_owners_or_one(api: Api, ada: Client, bob: Client) -> None:
    mine, other = ada.job()["id"], bob.job()["id"]
    root = api.client("root", "operator")
    assert {mine, other} <= set(root.ids(limit=1000))
    assert mine in root.ids(owner="ada", limit=1000)
    assert other not in root.ids(owner="ada", limit=1000)
    assert root.get(f"/schedules/{mine}")["owner"] == "ada"
    assert {row["owner"] for row in root.get("/upcoming", count=100)["upcoming"]} >= {"ada", "bob"}
    assert {row["owner"] for row in root.get("/upcoming", count=100, owner="ada")["upcoming"]} == {"ada"}
    assert {run["owner"] for run in root.get("/runs", owner="ada")["runs"]} <= {"ada"}
    assert root.post(f"/schedules/{mine}/pause")["status"] == "paused"


def test_a_key_belongs_to_its_owner(ada: Client, bob: Client) -> None:
    assert ada.job(idempotency_key="shared")["id"] != bob.job(idempotency_key="shared")["id"]


def test_a_team_shares_an_owner(api: Api) -> None:
    def member(name: str) -> Client:
        token = api.tokens.issue(name, 3600 * 1_000_000_000, owner="team")
        return Client(api.http, api.described, {"Authorization": f"Bearer {token}"})

    id = member("carl").job()["id"]
    assert member("dora").get(f"/schedules/{id}")["owner"] == "team"


def test_a_revoked_token_opens_nothing(api: Api) -> None:
    token = api.tokens.issue("eve", 3600 * 1_000_000_000)
    eve = Client(api.http, api.described, {"Authorization": f"Bearer {token}"})
    eve.get("/whoami")
    api.tokens.revoke(api.tokens.verify(token).id)
    assert eve.refused("GET", "/whoami", 401)["type"] == "urn:duetime:problem:invalid_token"


def test_an_owner_cannot_be_chosen_in_a_request(api: Api, bob: Client) -> None:
    body = {"kind": "job", "name": "n", "trigger": SOON, "payload": {"task": "echo"}, "owner": "ada"}
    assert bob.refused("POST", "/schedules", 422, json=body)["field"] == "owner"


def test_operator_tasks_are_refused_to_others(api: Api, bob: Client) -> None:
    body = {"kind": "job", "name": "n", "trigger": SOON, "payload": {"task": "backup_database"}}
    assert bob.refused("POST", "/schedules", 422, json=body)["type"] == "urn:duetime:problem:unknown_task"
    assert "backup_database" not in json.dumps(bob.get("/tasks"))
    assert "backup_database" in json.dumps(api.client("root", "operator").get("/tasks"))


def test_deleted_things_stay_with_their_owner(api: Api, ada: Client, bob: Client) -> None:
    schedule, _ = own_things(api, ada)
    found = api.room.store.find(schedule)
    assert found is not None
    api.room.store.change(found.definition.id, api.room.clock.now(), changes.delete)
    ada.get(f"/schedules/{schedule}/runs")
    bob.refused("GET", f"/schedules/{schedule}/runs", 404)
    ada.refused("GET", f"/schedules/{schedule}", 404)


def test_on_postgresql_too(tmp_path: Path, clean_postgres_url: str) -> None:
    """NUL characters and odd texts, which one database takes and the other does not."""
    with serving_api(tmp_path, url=clean_postgres_url) as api:
        ada, bob = api.client("ada"), api.client("bob")
        id = ada.job(name="péllets 🦉")["id"]
        assert ada.ids(text="🦉") == [id]
        assert bob.ids() == []
        for query in ("text=%00", "subject=%00", "kind=%00", "cursor=%00"):
            ada.refused("GET", f"/schedules?{query}", 422)
        for query in ("schedule=%00", "kind=%00", "from=%00", "timezone=%00"):
            ada.refused("GET", f"/runs?{query}", 422)
        ada.refused("GET", "/schedules/%00", 404)
        assert len(ada.get("/upcoming", count=3)["upcoming"][0]["times"]) == 5
        api.pass_time(hours=2)
        assert ada.get("/runs", status="completed", kind="job")["total"] == 2
        assert ada.get("/dead")["runs"] == ada.get("/inbox")["messages"] == []
