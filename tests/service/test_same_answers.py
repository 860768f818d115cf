"""The same create over every interface: the same facts are stored and the same warnings are given."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from duetime import Duetime
from duetime.engine.kind import LOCAL, Caller
from duetime.kinds import load_specs
from duetime.service.kind_spec import load
from duetime.service.presenters import schedule_shape, worker_shape
from duetime.service.services import process_name
from duetime.service.workers import kinds_taken
from duetime.settings import Settings
from tests.support.agent import Agent
from tests.support.browsing import signed_in
from tests.support.cli import Cli
from tests.support.web import Site, site

CRON = "0 9 31 * *"
JOB = {"task": "echo", "args": ["hello"], "kwargs": {}}
PROMPT = {"prompt": "water the plants"}
NOTE = {"message": "hi", "topic": "alerts"}


class Request(NamedTuple):
    """One create, in the terms of each interface."""

    kind: str
    payload: dict[str, Any]
    tool: str
    arguments: dict[str, Any]
    command: tuple[str, ...]
    fields: dict[str, str]


def job(**policy: str) -> Request:
    trigger = {"trigger_type": "cron", "trigger_config": {"expression": CRON}}
    return Request(
        "job",
        JOB,
        "schedule_job",
        {"name": "same", "task": "echo", "args": ["hello"], **trigger, **policy},
        ("job", "add", "same", "--task", "echo", "--arg", "hello", *_options(policy)),
        {"name": "same", "task": "echo", "args": '["hello"]', **policy},
    )


def prompt(**policy: str) -> Request:
    return Request(
        "prompt",
        PROMPT,
        "schedule",
        {**PROMPT, "cron": CRON, **policy},
        ("prompt", "add", PROMPT["prompt"], *_options(policy)),
        {**PROMPT, **policy},
    )


def notification() -> Request:
    return Request(
        "notification",
        NOTE,
        "schedule_cron_notification",
        {"message": "hi", "notification_topic": "alerts", "cron": CRON},
        ("notify", "add", "hi", "--topic", "alerts"),
        NOTE,
    )


def _options(policy: dict[str, str]) -> tuple[str, ...]:
    return tuple(part for name, value in policy.items() for part in ("--" + name.replace("_", "-"), value))


def nobody(_site: Site) -> None:
    """No worker is running."""


def a_session(site: Site) -> None:
    """The only worker lives as long as an agent client is open."""
    register(site, session=True)


def a_worker(site: Site) -> None:
    register(site, session=False)


def a_worker_without_the_module(site: Site) -> None:
    """The workers that take jobs have published other tasks."""
    register(site, "job:knows:tidy", session=False)
    register(site, "job:knows:echoes", "job:knows:an.echo", session=False)


def a_worker_with_the_module(site: Site) -> None:
    a_worker_without_the_module(site)
    register(site, "job:knows:a", "job:knows:echo", "job:knows:z", session=False)


def an_older_worker(site: Site) -> None:
    """It publishes no tasks, so it may know any."""
    a_worker_without_the_module(site)
    register(site, session=False)


def register(site: Site, *published: str, session: bool) -> None:
    site.room.store.register("a worker", [*site.room.kinds, *published], session, site.room.clock.now())


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Site]:
    with site(tmp_path) as made:
        yield made


def stored(there: Site, id: str) -> dict[str, Any]:
    """What is kept, without what differs from one create to the next."""
    schedule = there.room.store.find(id)
    assert schedule is not None
    shape = dict(schedule_shape(schedule, "UTC"))
    for name in ("id", "short_id", "name", "author", "created_at", "updated_at"):
        del shape[name]
    return shape


def by_mcp(there: Site, asked: Request) -> tuple[str, list[str]]:
    answer = Agent(there.room.services, Caller(LOCAL), "UTC").knows(asked.tool, timezone="UTC", **asked.arguments)
    id = next(str(answer[name]) for name in ("job_id", "schedule_id", "id") if name in answer)
    return id, answer.get("warnings", [])


def by_rest(there: Site, asked: Request) -> tuple[str, list[str]]:
    policy = {name: value for name, value in asked.arguments.items() if name in ("deliver_to", "notify_on")}
    trigger = {"type": "cron", "expression": CRON}
    body = {"kind": asked.kind, "name": "same", "trigger": trigger, "payload": asked.payload, "policy": policy}
    headers = {**there.bearer(LOCAL), "Content-Type": "application/json"}
    reply = there.ask("POST", "/api/v1/schedules", headers, json.dumps({**body, "timezone": "UTC"}).encode())
    assert reply.status == 201, reply.body
    return reply.json["id"], reply.json["warnings"]


def by_python(there: Site, asked: Request) -> tuple[str, list[str]]:
    policy = {name: value for name, value in asked.arguments.items() if name in ("deliver_to", "notify_on")}
    duetime = Duetime(settings=Settings(db=there.room.settings.db, timezone="UTC"))
    try:
        made = duetime.create(asked.kind, asked.payload, name="same", cron=CRON, timezone="UTC", **policy)
    finally:
        duetime.close()
    return made.id, made.warnings


def by_dashboard(there: Site, asked: Request) -> tuple[str, list[str]]:
    browser = signed_in(there, "UTC")
    form = {"kind": asked.kind, "when": "cron", "expression": CRON, "timezone": "UTC", **asked.fields}
    reply = browser.send("/new", form)
    assert reply.status == 303, reply.body
    id = reply.headers["location"].split("/")[2].partition("?")[0]
    page = browser.text(f"/schedules/{id}")
    schedule = there.room.store.find(id)
    assert schedule is not None
    expected = there.room.services.create_warnings(schedule, asked.payload)
    return id, [each.text for each in expected if each.text in page]


@pytest.mark.parametrize(
    ("asked", "workers", "codes"),
    [
        (job(), nobody, {"no_worker", "trigger"}),
        (job(), a_session, {"session_worker_only", "trigger"}),
        (job(deliver_to="home"), a_worker, {"no_channel", "trigger"}),
        (job(), a_worker_without_the_module, {"no_worker_for_task", "trigger"}),
        (job(), a_worker_with_the_module, {"trigger"}),
        (job(), an_older_worker, {"trigger"}),
        (prompt(), a_worker_without_the_module, {"no_agent", "trigger"}),
        (prompt(), a_worker, {"no_agent", "trigger"}),
        (prompt(), nobody, {"no_worker", "no_agent", "trigger"}),
        (prompt(deliver_to="home"), a_session, {"session_worker_only", "no_agent", "no_channel", "trigger"}),
        (notification(), a_worker, {"no_channel", "trigger"}),
        (notification(), nobody, {"no_worker", "no_channel", "trigger"}),
    ],
)
@pytest.mark.filterwarnings("ignore:nothing fires yet")
def test_every_interface_stores_and_says_the_same(
    there: Site, cli: Cli, asked: Request, workers: Callable[[Site], None], codes: set[str]
) -> None:
    workers(there)
    first, _ = by_mcp(there, asked)
    schedule = there.room.store.find(first)
    assert schedule is not None
    expected = there.room.services.create_warnings(schedule, asked.payload)
    assert {each.code for each in expected} == codes
    texts, facts = [each.text for each in expected], stored(there, first)

    def by_cli(_there: Site, _asked: Request) -> tuple[str, list[str]]:
        made = cli(*asked.command, "--cron", CRON, "--tz", "UTC", "--json")
        assert made.code == 0, made.out + made.err
        return made.document["id"], made.document["warnings"]

    for create in (by_mcp, by_rest, by_python, by_dashboard, by_cli):
        id, warnings = create(there, asked)
        assert warnings == texts, create.__name__
        assert stored(there, id) == facts, create.__name__


def test_a_worker_publishes_its_tasks(there: Site) -> None:
    room = there.room
    room.engine().worker.register()
    [row] = room.store.workers()
    assert "job:knows:echo" in row.lanes.split(",")
    assert kinds_taken(row) == sorted(room.kinds)
    assert not any("knows" in lane for lane in worker_shape(row, room.clock.now(), "UTC")["lanes"])


def test_a_task_registered_after_the_worker_of_the_same_process_is_not_missed(there: Site) -> None:
    a_worker_without_the_module(there)
    there.room.store.register(process_name(), ["job", "job:knows:tidy"], False, there.room.clock.now())
    made, _ = by_mcp(there, job())
    schedule = there.room.store.find(made)
    assert schedule is not None
    assert [each.code for each in there.room.services.create_warnings(schedule, JOB)] == ["trigger"]


def test_every_path_of_every_spec_can_be_imported() -> None:
    for spec in load_specs().values():
        assert spec.paths()
        for path in spec.paths():
            assert load(path) is not None, path
