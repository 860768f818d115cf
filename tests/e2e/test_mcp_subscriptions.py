"""Whoever subscribed hears of a change, whichever face or process made it, within a second; nobody else does."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from subprocess import run
from typing import Any

import mcp_types as types
import pytest
from mcp.client.stdio import StdioServerParameters
from mcp.shared.exceptions import MCPError

from duetime import Duetime
from tests.e2e.test_mcp_tools import CRON, JOB, NOTE, taken
from tests.support.cli import environment
from tests.support.mcp import (
    LATENCIES,
    Ear,
    World,
    connected,
    stdio_listener,
    subscribed,
    unique,
)

ERAS = ("2025-11-25", "2026-07-28")


@pytest.fixture(scope="module", autouse=True)
def within_a_second() -> Iterator[None]:
    """Most of the changes: one that comes while the machine is busy may take longer."""
    yield
    assert not LATENCIES or median(LATENCIES) < 1.0, LATENCIES


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def owner() -> str:
    return unique("ada")


@contextmanager
def python(db: str, owner: str = "local") -> Iterator[Duetime]:
    """The Python API on the same store: for the server, another process."""
    duetime = Duetime(db, owner=owner)
    try:
        yield duetime
    finally:
        duetime.close()


def heard(ear: Ear, uri: str, change: Callable[..., Any], *given: Any, **named: Any) -> Any:
    """Makes the change and waits until it is heard of once more."""
    before = ear.heard.count(uri)
    result = change(*given, **named)
    LATENCIES.append(ear.wait(uri, before + 1))
    return result


def test_a_topic_through_its_life(shared_world: World, owner: str, era: str) -> None:
    topic = unique("topic")
    uri = f"schedules://{topic}"
    given = {**CRON, "notification_topic": topic}
    with (
        shared_world.listening(owner, uri, era=era) as (_, ear),
        shared_world.agent(owner) as agent,
        python(shared_world.db, owner) as duetime,
    ):
        made = heard(ear, uri, agent.knows, "schedule_cron_notification", given)["schedule_id"]
        heard(ear, uri, duetime.pause, made)
        heard(ear, uri, agent.knows, "resume_schedule", schedule_id=made)
        heard(ear, uri, duetime.run_now, made)
        heard(ear, uri, agent.knows, "send_push_notification", {**NOTE, "notification_topic": topic})
        heard(ear, uri, duetime.delete, made)
        assert set(ear.heard) == {uri}


def test_a_job_through_its_life(shared_world: World, owner: str, era: str) -> None:
    with shared_world.agent(owner) as agent, python(shared_world.db, owner) as duetime:
        job_id = agent.knows("schedule_job", JOB)["job_id"]
        uri = f"jobs://{job_id}"
        with shared_world.listening(owner, uri, era=era) as (_, ear):
            heard(ear, uri, duetime.edit, job_id, name="another name")
            heard(ear, uri, duetime.pause, job_id)
            duetime.resume(job_id)
            heard(ear, uri, duetime.run_now, job_id)
            agent.until(lambda: agent.content(uri)["run_count"] == 1, 30, "it ran")
            heard(ear, uri, agent.knows, "cancel_job", job_id=job_id)
            assert set(ear.heard) == {uri}


def test_what_waits_for_an_agent(shared_world: World, owner: str, era: str) -> None:
    uri = "prompts://due"
    with shared_world.listening(owner, uri, era=era) as (listener, ear), shared_world.agent(owner) as agent:
        heard(ear, uri, agent.knows, "schedule", prompt="water the plants", at="now")
        held = heard(ear, uri, taken, agent)
        assert listener.content(uri)["due"] == []
        agent.knows("finish_prompt", run_id=held["run_id"], result="done")


def test_one_connection_hears_of_each_of_its_resources(shared_world: World, owner: str, era: str) -> None:
    topics = [unique("topic") for _ in range(2)]
    uris = [f"schedules://{topic}" for topic in topics]
    with shared_world.listening(owner, *uris, era=era) as (_, ear), shared_world.agent(owner) as agent:
        for topic, uri in zip(topics, uris, strict=True):
            heard(ear, uri, agent.knows, "schedule_cron_notification", {**CRON, "notification_topic": topic})
        assert sorted(ear.heard) == sorted(uris)


def test_others_hear_nothing(shared_world: World, owner: str, era: str) -> None:
    """The same URIs, another owner: what it makes itself shows that it listens."""
    topic = unique("topic")
    uris = (f"schedules://{topic}", "prompts://due")
    with (
        shared_world.listening(owner, *uris, era=era) as (ada, ear),
        shared_world.listening(unique("bob"), *uris, era=era) as (bob, spy),
    ):
        for uri, tool, given in (
            (uris[0], "schedule_cron_notification", {**CRON, "notification_topic": topic}),
            (uris[1], "schedule", {"prompt": "water the plants", "at": "now"}),
        ):
            heard(ear, uri, ada.knows, tool, given)
            assert spy.heard.count(uri) == 0
            heard(spy, uri, bob.knows, tool, given)
            assert (ear.heard.count(uri), spy.heard.count(uri)) == (1, 1)


def test_the_command_line_is_heard_as_well(shared_world: World, era: str) -> None:
    """Its owner is `local`, as is that of the token that the server prints."""
    token = shared_world.served.token
    with shared_world.agent(token=token) as agent:
        job_id = agent.knows("schedule_job", JOB)["job_id"]
        uri = f"jobs://{job_id}"
        with shared_world.listening("local", uri, era=era, token=token) as (_, ear):
            heard(ear, uri, command, shared_world, "job", "pause", job_id)
            assert agent.content(uri)["status"] == "paused"
        agent.knows("cancel_job", job_id=job_id)


def command(there: World, *words: str) -> None:
    folder = there.served.folder
    line = [sys.executable, "-m", "duetime", *words, "--db", there.db]
    run(line, cwd=folder, env=environment(), check=True, capture_output=True, timeout=30)


def test_over_stdio(shared_world: World, era: str, tmp_path: Path) -> None:
    """The stream of protocol is the only one: it carries notifications between answers."""
    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-m", "duetime", "mcp", "--db", "my.db"],
        env=environment() | {"XDG_DATA_HOME": str(tmp_path / "data")},
        cwd=tmp_path,
    )
    topic = unique("topic")
    uris = (f"schedules://{topic}", "prompts://due")
    ear = Ear(shared_world.portal)
    with (
        connected(shared_world.portal, stdio_listener(parameters, era, ear)) as agent,
        subscribed(agent, ear, era, *uris),
        python(str(tmp_path / "my.db")) as duetime,
    ):
        given = {**CRON, "notification_topic": topic}
        made = heard(ear, uris[0], agent.knows, "schedule_cron_notification", given)["schedule_id"]
        heard(ear, uris[0], duetime.pause, made)
        heard(ear, uris[1], agent.knows, "schedule", prompt="water the plants", at="now")


# -- the older era: one request per resource ------------------------------------------------------------------------


def test_subscribing_twice_is_hearing_once(shared_world: World, owner: str) -> None:
    uri, other = f"schedules://{unique('topic')}", f"schedules://{unique('topic')}"
    with shared_world.listening(owner, uri, uri, other, era="2025-11-25") as (agent, ear):
        change(agent, uri)
        ear.wait(uri)
        change(agent, other)
        ear.wait(other)
        assert ear.heard == [uri, other]


def test_after_unsubscribing_it_is_quiet(shared_world: World, owner: str) -> None:
    uri, other = f"schedules://{unique('topic')}", f"schedules://{unique('topic')}"
    with shared_world.listening(owner, uri, other, era="2025-11-25") as (agent, ear):
        asked = types.UnsubscribeRequest(params=types.UnsubscribeRequestParams(uri=uri))
        for _ in range(2):
            agent.do(agent.client.session.send_request, asked, types.EmptyResult)
        change(agent, uri)
        change(agent, other)
        ear.wait(other)
        assert ear.heard == [other]


def change(agent: Any, uri: str) -> None:
    agent.knows("schedule_cron_notification", {**CRON, "notification_topic": uri.removeprefix("schedules://")})


def test_a_reader_that_went_away_leaves_the_others_listening(shared_world: World, owner: str, era: str) -> None:
    uri = f"schedules://{unique('topic')}"
    with shared_world.listening(owner, uri, era=era) as (agent, ear):
        with shared_world.listening(owner, uri, era=era):
            pass
        change(agent, uri)
        ear.wait(uri)


def test_what_is_watched_has_a_limit(shared_world: World, owner: str) -> None:
    uris = [f"schedules://topic-{number}" for number in range(101)]
    refused = pytest.raises(MCPError, match="Only 100 resources can be watched at a time")
    with refused, shared_world.listening(owner, *uris):
        pass
    with shared_world.listening(owner, uris[0]) as (agent, ear):
        change(agent, uris[0])
        ear.wait(uris[0])
