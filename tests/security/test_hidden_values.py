"""Values that are hidden stay hidden: from the runs of agents on every route and tool, and from other addresses."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from starlette.routing import Mount, Route

from duetime.dashboard.kind_forms import form_of
from duetime.engine.clock import HOUR, Instant
from duetime.engine.errors import InvalidInput
from duetime.engine.kind import Caller
from duetime.engine.store import ClaimRequest
from duetime.mcp.definitions import ToolProblem
from duetime.service.tokens import runs_under_way
from tests.support.agent import RESOURCES, TOOLS, Agent
from tests.support.api import Api, Client, serving_api

pytestmark = pytest.mark.socket  # the server of this file looks up the hosts of its requests

CANARY = "C4N4RYvalue"
SOON = {"type": "once", "run_at": "in 5 minutes"}
LATER = {"type": "once", "run_at": "in 5 days"}
DAILY = {"type": "cron", "expression": "0 9 * * *"}
PASSWORD = json.dumps({"user": "ada", "password": f"{CANARY}-body"})
REQUEST: dict[str, Any] = {
    "url": f"https://crm.example.org/x?api_key={CANARY}-query",
    "headers": {"Authorization": f"Bearer {CANARY}-auth", "X-Api-Key": f"{CANARY}-key", "X-Kind": "plain"},
    "body": PASSWORD,
    "callback": f"https://back.example.org/?token={CANARY}-callback",
    "callback_headers": {"Authorization": f"Bearer {CANARY}-callback-auth"},
    "failure_callback": "https://fail.example.org/",
    "failure_callback_headers": {"Cookie": f"session={CANARY}-failure"},
}
ELSEWHERE = {**REQUEST, "url": f"http://127.0.0.1:9/?token={CANARY}-failed", "retries": 0}
BINARY = {"url": "https://crm.example.org/y", "body_base64": base64.b64encode(PASSWORD.encode()).decode()}
JOB = {"task": "echo", "args": [{"token": f"{CANARY}-arg", "url": f"https://u:{CANARY}-arg@x.example.org/"}]}
NOTIFICATION = {
    "message": f"wifi password={CANARY}-message x",
    "title": f"token={CANARY}-title",
    "click": f"https://x.example.org/?token={CANARY}-click",
    "topic": "home",
}


class Stage:
    """Credentials of an owner in everything that there is, and the run of an agent that looks for them."""

    def __init__(self, api: Api) -> None:
        self.api, self.ada = api, api.client("ada")
        made = [
            self._made("request", REQUEST, LATER),
            self._made("request", REQUEST, DAILY),
            self._made("request", BINARY, LATER),
            self._made("request", ELSEWHERE, SOON),
            self._made("job", JOB, SOON),
            self._made("job", JOB, DAILY),
            self._made("notification", NOTIFICATION, SOON),
            self._made("notification", NOTIFICATION, DAILY),
            self._made("prompt", {"prompt": f"look with password={CANARY}-prompt"}, DAILY),
        ]
        api.pass_time(minutes=10)
        self.ids = [each["id"] for each in made]
        self.runs = [run["run_id"] for run in self.ada.get("/runs", limit=100)["runs"]]
        self.headers = {"Authorization": f"Bearer {self._run_token()}"}

    def _made(self, kind: str, payload: dict[str, Any], trigger: dict[str, Any]) -> dict[str, Any]:
        policy = {"max_attempts": 1} if kind == "job" else {}
        name = f"{kind} token={CANARY}-name"
        return self.ada.job(kind=kind, name=name, payload=payload, trigger=trigger, policy=policy)

    def _run_token(self) -> str:
        store, now = self.api.room.store, self.api.room.clock.now()
        self.api.tokens.is_under_way = runs_under_way(store)
        self._made("prompt", {"prompt": "x"}, {"type": "once", "run_at": "now"})
        worker = store.register("test", ["prompt"], False, now)
        [claim] = store.record_and_claim(worker, now, [], [ClaimRequest("prompt", 1, Instant(now + HOUR))]).claims
        return self.api.tokens.for_run("ada", claim.run.id, claim.run.fence, 2, HOUR, "UTC")

    @property
    def agent(self) -> Client:
        return Client(self.api.http, self.api.described, self.headers)

    def fillings(self) -> dict[str, list[str]]:
        runs = [str(run) for run in self.runs]
        messages = [*self.ids, *(f"msg_{id[4:]}_{run}" for id, run in product(self.ids, runs))]
        ids = [*self.ids, *runs]
        dead = [f"dlq_{run}" for run in runs]
        return {"id": ids, "schedule_id": self.ids, "message_id": messages, "dlq_id": dead, "run_id": runs}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with serving_api(tmp_path_factory.mktemp("api")) as api:
        yield Stage(api)


def readable(routes: Any, before: str = "") -> Iterator[str]:
    """Every path that can be read, as the application itself lists them."""
    for route in routes:
        if isinstance(route, Mount):
            yield from readable(route.routes or getattr(route.app, "routes", ()), before + route.path)
        elif isinstance(route, Route) and "GET" in (route.methods or ()):
            yield before + route.path


def filled(stage: Stage, path: str) -> Iterator[str]:
    parts = {"{" + name + "}": values for name, values in stage.fillings().items()}
    path = path.replace(":path}", "}")
    hole = next((part for part in parts if part in path), None)
    if hole is None:
        yield path
        return
    for value in parts[hole]:
        yield path.replace(hole, value)


OPEN_ENDED = ("/mcp", "/api/v1/events")
"""Streams, which do not end; events show the same shapes as lists."""


def test_no_route_shows_a_run_what_is_hidden(stage: Stage) -> None:
    asked = 0
    for path in sorted(set(readable(stage.api.http.app.routes))):  # type: ignore[attr-defined]
        if path in OPEN_ENDED or "publish" in path or path.startswith("/static"):
            continue
        for each in filled(stage, path):
            answer = stage.api.http.get(each, headers=stage.headers)
            shown = answer.text + "".join(_opened(answer))
            assert CANARY not in shown, (each, shown[max(0, shown.find(CANARY) - 200) : shown.find(CANARY) + 40])
            asked += answer.status_code == 200
    assert asked > 30


def _opened(answer: Any) -> Iterator[str]:
    """What stands in the answer in base64."""
    try:
        yield from _decoded(answer.json())
    except ValueError:
        return


def _decoded(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _decoded(inner)
    elif isinstance(value, str) and len(value) > 8:
        try:
            text = base64.b64decode(value, validate=True).decode()
        except ValueError:
            return
        yield text
        try:
            yield from _decoded(json.loads(text))
        except ValueError:
            return


@pytest.mark.parametrize(
    "path", ["/v2/schedules", "/v2/logs", "/v2/events", "/v2/dlq", "/v2/messages/{once}", "/v2/schedules/{daily}"]
)
def test_an_owner_sees_over_qstash_what_an_agent_does_not(stage: Stage, path: str) -> None:
    path = path.format(once=stage.ids[0], daily=stage.ids[1])
    owner, agent = (stage.api.http.get(path, headers=each) for each in (stage.ada.headers, stage.headers))
    assert (owner.status_code, agent.status_code) == (200, 200)
    assert CANARY in owner.text
    assert CANARY not in agent.text


def test_no_tool_and_no_resource_shows_a_run_what_is_hidden(stage: Stage) -> None:
    agent = Agent(stage.api.room.services, Caller("ada", depth=2))
    numbers = [int(run) for run in stage.runs]
    ids = stage.ids
    answered = 0
    for name, tool in TOOLS.items():
        wanted = [each for each in tool.input["required"] if each in ("job_id", "id", "schedule_id", "run_id")]
        if not tool.read_only or set(tool.input["required"]) - set(wanted):
            continue
        for each in [*ids, *numbers] if wanted else [None]:
            try:
                reply = agent.use(name, {} if each is None else dict.fromkeys(wanted, each))
            except Exception as problem:  # an id of another kind is refused in many ways
                assert CANARY not in str(problem)
                continue
            assert CANARY not in json.dumps([dict(reply.structured), reply.text]), name
            answered += 1
    for resource in RESOURCES:
        for hole in [*ids, *map(str, numbers), "home"] if resource.is_template else [""]:
            try:
                assert CANARY not in json.dumps(resource.read(agent.call, hole)), resource.uri
            except ToolProblem:
                continue
            answered += 1
    assert answered > 10


# -- elsewhere -------------------------------------------------------------------------------------------------------


CHANGES = [
    pytest.param({"url": "https://evil.example.org/collect"}, id="url"),
    pytest.param({"url": "http://crm.example.org/x"}, id="scheme"),
    pytest.param({"url": "https://crm.example.org:8443/x"}, id="port"),
    pytest.param({"callback": "https://evil.example.org/"}, id="callback"),
    pytest.param({"failure_callback": "https://evil.example.org/"}, id="failure callback"),
    pytest.param({"headers": {"Authorization": "***", "X-Forward-To": "https://evil.example.org/"}}, id="header"),
]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("who", ["agent", "owner", "operator"])
def test_hidden_values_are_not_sent_elsewhere(stage: Stage, who: str, change: dict[str, Any]) -> None:
    client = {"agent": stage.agent, "owner": stage.ada, "operator": stage.api.client("root", "operator")}[who]
    id = stage.ids[1]
    shown = client.get(f"/schedules/{id}")
    before = stage.api.room.store.find(id)
    problem = client.refused("PATCH", f"/schedules/{id}", 422, json={"payload": {**shown["payload"], **change}})
    assert "anew" in problem["detail"]
    assert CANARY not in json.dumps(problem)
    assert stage.api.room.store.find(id) == before


def test_a_callback_that_is_added_is_elsewhere_too(stage: Stage) -> None:
    id = stage.ada.job(kind="request", payload={"url": REQUEST["url"], "headers": REQUEST["headers"]}, trigger=DAILY)[
        "id"
    ]
    shown = stage.agent.get(f"/schedules/{id}")["payload"]
    stage.agent.refused(
        "PATCH", f"/schedules/{id}", 422, json={"payload": {**shown, "callback": "https://evil.example.org/"}}
    )


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"task": "fail"}, id="another task"),
        pytest.param({"args": [{"token": "***", "url": "https://evil.example.org/"}]}, id="another address"),
        pytest.param({"args": [{"token": "***", "url": "https://***@x.example.org/", "shop": "b"}]}, id="argument"),
        pytest.param({"kwargs": {"value": "evil.example.org"}}, id="another field"),
    ],
)
def test_the_arguments_of_a_job_are_not_handed_to_another(stage: Stage, change: dict[str, Any]) -> None:
    id = stage.ada.job(payload=JOB, trigger=DAILY)["id"]
    shown = stage.agent.get(f"/schedules/{id}")["payload"]
    problem = stage.agent.refused("PATCH", f"/schedules/{id}", 422, json={"payload": {**shown, **change}})
    assert "anew" in problem["detail"]
    run = stage.ada.ask("POST", f"/schedules/{id}/run").json()["run_id"]
    problem = stage.agent.refused("POST", f"/runs/{run}/again", 422, json={"payload": {**shown, **change}})
    assert "anew" in problem["detail"]
    woken = Agent(stage.api.room.services, Caller("ada", depth=2))
    assert "anew" in str(woken.use("edit_schedule", schedule_id=id, payload={"kwargs": {"value": "x"}}))


def test_a_person_may_change_a_harmless_argument_beside_a_hidden_one(stage: Stage) -> None:
    id = stage.ada.job(payload={"task": "echo", "args": [{"token": CANARY, "page": "one", "to": "a.example"}]})["id"]

    def changed(client: Client, **more: str) -> Any:
        payload = {"task": "echo", "args": [{"token": "***", "page": "one", "to": "a.example", **more}]}
        return client.ask("PATCH", f"/schedules/{id}", json={"payload": payload})

    assert changed(stage.ada, to="evil.example").status_code == changed(stage.agent, page="two").status_code == 422
    assert changed(stage.ada, page="two").status_code == 200
    found = stage.api.room.store.find(id)
    assert found is not None and json.loads(found.definition.payload)["args"][0]["token"] == CANARY


def test_a_run_hands_no_hidden_prompt_to_another_agent(stage: Stage) -> None:
    owner, agent = (Agent(stage.api.room.services, Caller("ada", depth=depth)) for depth in (0, 2))
    number = owner.knows("schedule", prompt=f"look with password={CANARY}-prompt", at="in 3 days")["id"]
    assert "***" in json.dumps(agent.knows("schedule_list"))
    assert "anew" in str(agent.use("schedule_edit", id=number, agent="another"))


def test_at_the_same_address_they_stay_as_they_are(stage: Stage) -> None:
    id = stage.ada.job(
        kind="request", payload={"url": "https://crm.example.org/x", "headers": REQUEST["headers"]}, trigger=DAILY
    )["id"]
    shown = stage.ada.get(f"/schedules/{id}")["payload"]
    reply = stage.ada.ask(
        "PATCH", f"/schedules/{id}", json={"payload": {**shown, "url": "https://crm.example.org/other?page=2"}}
    )
    assert reply.status_code == 200, reply.text
    found = stage.api.room.store.find(id)
    assert found is not None
    payload = json.loads(found.definition.payload)
    assert payload["headers"] == REQUEST["headers"]
    assert payload["url"] == "https://crm.example.org/other?page=2"


def test_given_anew_they_may_go_anywhere(stage: Stage) -> None:
    id = stage.ada.job(
        kind="request", payload={"url": "https://a.example.org/", "headers": REQUEST["headers"]}, trigger=DAILY
    )["id"]
    anew = {"url": "https://b.example.org/", "headers": {"Authorization": "Bearer another-one"}}
    assert stage.ada.ask("PATCH", f"/schedules/{id}", json={"payload": anew}).status_code == 200


def test_the_form_of_the_dashboard_does_not_send_them_elsewhere_either() -> None:
    stored = {"method": "POST", **REQUEST}
    form = form_of("request")
    shown = json.loads(form.values("request", stored)["payload"])
    assert "headers" not in shown
    assert form.payload("request", {"payload": json.dumps(shown)}, stored) == stored
    moved = {**shown, "url": "https://evil.example.org/"}
    with pytest.raises(InvalidInput, match="anew"):
        form.payload("request", {"payload": json.dumps(moved)}, stored)
    bare = {"method": "POST", "url": moved["url"], "headers": {"Authorization": "Bearer another-one"}}
    assert form.payload("request", {"payload": json.dumps(bare)}, stored) == bare
