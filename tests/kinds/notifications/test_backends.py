"""The notification tools do the same, whoever keeps the schedules: SQLite, PostgreSQL, or QStash through its SDK."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from duetime.engine.errors import StoreUnavailable
from duetime.engine.kind import Caller
from duetime.engine.store_interfaces import Remote
from duetime.kinds import load_specs
from duetime.kinds.notifications.channels.ntfy import NtfyServer, real_topic
from duetime.mcp.catalog import catalog_of
from duetime.service.services import Call
from tests.support.agent import TOOLS
from tests.support.backends import Backend, kept_at_qstash, kept_here
from tests.support.notifying import Agent

CRON: dict[str, Any] = {"cron": "0 9 * * *", "timezone": "Europe/Berlin"}
PLAIN: dict[str, Any] = {"message": "hi", "notification_topic": "alerts"}
ALERTS = real_topic(NtfyServer("https://ntfy.example.org", "x-"), "alerts", "ann")
MAKING: dict[str, dict[str, Any]] = {
    "send_push_notification": {},
    "schedule_notification": {"delay": "1h"},
    "schedule_cron_notification": CRON,
}


@pytest.fixture(params=["sqlite", "postgres", "qstash"])
def backend(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Backend]:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    if request.param == "qstash":
        with kept_at_qstash(tmp_path) as backend:
            yield backend
    else:
        url = str(tmp_path / "my.db") if request.param == "sqlite" else request.getfixturevalue("clean_postgres_url")
        with kept_here(url) as backend:
            yield backend


@pytest.fixture
def ann(backend: Backend) -> Agent:
    return backend.agent("ann")


@pytest.fixture
def ben(backend: Backend) -> Agent:
    return backend.agent("ben")


def not_found(id: str, gone: str = "been deleted") -> dict[str, Any]:
    words = f"Schedule not found: {id}. It may have {gone} or the ID is incorrect."
    return {"success": False, "schedule_id": id, "error": words}


# -- the seed's scenarios -----------------------------------------------------------------------------------------


def test_create_then_delete(backend: Backend, ann: Agent) -> None:
    made = ann(
        "schedule_cron_notification",
        message="Delete test 2026-02-10T14:00:00Z",
        notification_topic="cronty-eval-test",
        cron="0 0 * * *",
        timezone="UTC",
    )
    schedule = made["schedule_id"]
    assert schedule.startswith("scd_")
    assert made["cron"] == "CRON_TZ=UTC 0 0 * * *"
    assert made["confirmation"] == "Cron schedule created: CRON_TZ=UTC 0 0 * * *"
    deleted = {
        "success": True,
        "schedule_id": schedule,
        "confirmation": f"Schedule {schedule} deleted successfully",
    }
    assert ann("delete_schedule", schedule_id=schedule) == deleted
    assert ann("delete_schedule", schedule_id=schedule) == not_found(schedule, "already been deleted")
    assert ann.listed() == ([], [])
    backend.pass_(days=2)
    assert backend.arrived == []


@pytest.mark.parametrize("id", ["scd_nonexistent_test_id", "invalid-id-123", "", "../../v2/keys", "a b?c=d#e", "ä🙂"])
def test_ids_of_nothing_are_not_found(ann: Agent, id: str) -> None:
    assert ann("delete_schedule", schedule_id=id) == not_found(id, "already been deleted")
    assert ann("pause_schedule", schedule_id=id) == not_found(id)
    assert ann("resume_schedule", schedule_id=id) == not_found(id)


def test_a_name_finds_it_where_names_are_kept(request: pytest.FixtureRequest, ann: Agent) -> None:
    tea = {"message": "Tea is ready", "notification_topic": "kitchen", "delay": "1h", "name": "tea"}
    if "qstash" in request.node.callspec.id:
        assert ann.problem("schedule_notification", **tea).startswith("name: notifications are kept at QStash")
        assert ann.listed() == ([], [])
    else:
        made = ann("schedule_notification", **tea)
        assert ann("delete_schedule", schedule_id="tea")["schedule_id"] == made["message_id"]


def test_a_missing_id_is_a_validation_error(ann: Agent) -> None:
    for tool in ("delete_schedule", "pause_schedule", "resume_schedule"):
        said = ann.problem(tool)
        assert "schedule_id" in said
        assert "required" in said


# -- what recurs --------------------------------------------------------------------------------------------------


def test_a_schedule_is_listed_and_fires(backend: Backend, ann: Agent) -> None:
    schedule = ann.cron(label="daily.check_1", message="Guten Morgen 🌞")
    row = {
        "schedule_id": schedule,
        "cron_expression": "0 9 * * *",
        "timezone": "Europe/Berlin",
        "notification_topic": "alerts",
        "label": "daily.check_1",
        "paused": False,
        "next_occurrence": "2026-02-11T09:00:00+01:00",
        "last_occurrence": None,
        "notification_body": "Guten Morgen 🌞",
    }
    assert ann("list_scheduled_notifications") == {"schedules": [row], "count": 1, "messages": []}
    backend.pass_(days=2)
    assert backend.arrived == [(ALERTS, "Guten Morgen 🌞")] * 2
    row |= {"next_occurrence": "2026-02-13T09:00:00+01:00", "last_occurrence": "2026-02-12T09:00:00+01:00"}
    assert ann("list_scheduled_notifications")["schedules"] == [row]
    assert ann("list_scheduled_notifications", notification_topic="another")["count"] == 0
    assert ann.read("schedules://{topic}", "alerts") == {
        "notification_topic": "alerts",
        **ann("list_scheduled_notifications"),
    }


def test_pause_and_resume(backend: Backend, ann: Agent) -> None:
    schedule = ann.cron()
    for verb, done, paused in (("pause", "paused", True), ("resume", "resumed", False)):
        for _ in range(2):
            expected = {
                "success": True,
                "schedule_id": schedule,
                "paused": paused,
                "confirmation": f"Schedule {schedule} {done} successfully",
            }
            assert expected.items() <= ann(f"{verb}_schedule", schedule_id=schedule).items()
        (row,) = ann("list_scheduled_notifications")["schedules"]
        assert row["paused"] is paused
        assert (row["next_occurrence"] is None) is paused
        backend.pass_(days=2)
        assert len(backend.arrived) == (0 if paused else 2)


# -- what goes out once -------------------------------------------------------------------------------------------


def test_a_one_off_is_listed_until_it_goes_out(request: pytest.FixtureRequest, backend: Backend, ann: Agent) -> None:
    message = ann.once(datetime="2026-02-10T16:30:00+01:00", message="Tee ist fertig")
    assert message.startswith("msg_")
    row = {
        "message_id": message,
        "scheduled_time": "2026-02-10T16:30:00+01:00",
        "notification_topic": "alerts",
        "notification_body": "Tee ist fertig",
    }
    assert ann("list_scheduled_notifications") == {"schedules": [], "count": 0, "messages": [row]}
    backend.pass_(minutes=89)
    assert backend.arrived == []
    backend.pass_(minutes=2)
    assert backend.arrived == [(ALERTS, "Tee ist fertig")]
    assert ann.listed() == ([], [])
    if "qstash" not in request.node.callspec.id:  # which forgets a message that it has sent
        assert ann("delete_schedule", schedule_id=message)["note"] == "It was completed before."
    assert ann("delete_schedule", schedule_id=message) == not_found(message, "already been deleted")


def test_a_one_off_that_is_taken_back_never_goes_out(backend: Backend, ann: Agent) -> None:
    message = ann.once()
    assert ann("delete_schedule", schedule_id=message)["success"] is True
    assert ann("delete_schedule", schedule_id=message) == not_found(message, "already been deleted")
    assert ann.listed() == ([], [])
    backend.pass_(hours=2)
    assert backend.arrived == []


def test_one_offs_are_listed_in_the_order_of_their_times(ann: Agent) -> None:
    late, soon = ann.once(delay="3h"), ann.once(delay="90m")
    assert ann.listed() == ([], [soon, late])


def test_a_send_arrives_once(backend: Backend, ann: Agent) -> None:
    sent = ann("send_push_notification", **PLAIN)
    backend.pass_(minutes=1)
    assert sent["message_id"].startswith("msg_")
    assert backend.arrived == [(ALERTS, "hi")]
    assert ann.listed() == ([], [])


# -- what holds for all of them -----------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", MAKING)
def test_a_key_makes_one(backend: Backend, ann: Agent, ben: Agent, tool: str) -> None:
    given = {**PLAIN, **MAKING[tool], "idempotency_key": "only one"}
    first = ann(tool, **given)
    assert ann(tool, **given) == first
    assert "idempotency_key" in ann.problem(tool, **{**given, "message": "another"})
    assert ben(tool, **given) != first
    backend.pass_(days=1)
    assert len(backend.arrived) == 2


def test_a_delete_frees_the_key(ann: Agent) -> None:
    given = {**PLAIN, **CRON, "idempotency_key": "only one"}
    first = ann("schedule_cron_notification", **given)["schedule_id"]
    ann("delete_schedule", schedule_id=first)
    second = ann("schedule_cron_notification", **{**given, "message": "another"})["schedule_id"]
    assert ann.listed() == ([second], [])


def test_owners_do_not_see_each_other(backend: Backend, ann: Agent, ben: Agent) -> None:
    schedule, message = ann.cron(), ann.once()
    own = ben.cron()
    for each in (schedule, message):
        assert ben("delete_schedule", schedule_id=each) == not_found(each, "already been deleted")
        assert ben("pause_schedule", schedule_id=each) == not_found(each)
        assert ben("resume_schedule", schedule_id=each) == not_found(each)
    assert ben.listed() == ([own], [])
    assert ann.listed() == ([schedule], [message])
    assert ann.digest("alerts") != ben.digest("alerts")


def test_whoever_watches_a_topic_hears_of_everything(backend: Backend, ann: Agent, ben: Agent) -> None:
    last = ann.digest("alerts")

    def moved() -> None:
        nonlocal last
        before, last = last, ann.digest("alerts")
        assert before != last

    schedule = ann.cron()
    moved()
    ann("pause_schedule", schedule_id=schedule)
    moved()
    ann("resume_schedule", schedule_id=schedule)
    moved()
    backend.pass_(days=1)
    moved()
    message = ann.once()
    moved()
    ann("delete_schedule", schedule_id=message)
    moved()
    ann.once()
    moved()
    backend.pass_(hours=2)
    moved()
    ann("delete_schedule", schedule_id=schedule)
    moved()
    ben.cron()
    assert ann.digest("alerts") == last


def test_what_fires_next_shows_them_too(ann: Agent) -> None:
    schedule, message = ann.cron(message="good  morning"), ann.once(delay="1h", message="tea")
    list_upcoming = TOOLS["list_upcoming"].answer
    told = dict(list_upcoming(ann.call, {"count": 4}).structured)
    daily, at_once, times = "every day at 09:00 (Europe/Berlin)", *(row.pop("times") for row in told["upcoming"])
    assert [len(at_once), *times] == [1, *(f"2026-02-{day}T09:00:00+01:00" for day in range(11, 16))]
    common = {"kind": "notification", "topic": "alerts"}
    assert told == {
        "upcoming": [
            {
                "at": "2026-02-10T16:00:00+01:00",
                "id": message,
                "name": "tea",
                "reads_as": "once, on 2026-02-10 16:00 CET (Europe/Berlin)",
                **common,
            },
            {"at": times[0], "id": schedule, "name": "good morning", "reads_as": daily, "more_times": True, **common},
        ],
        "count": 2,
        "more": False,
        "timezone": "Europe/Berlin",
    }
    from_tomorrow = list_upcoming(ann.call, {"from": "2026-02-12", "until": "2026-02-13"}).structured
    [row] = from_tomorrow["upcoming"]
    assert [time[:10] for time in row["times"]] == ["2026-02-12", "2026-02-13"], "one row in more than a day"
    assert (row["at"], from_tomorrow["more"]) == (row["times"][0], False)
    assert [time[:16] for time in from_tomorrow["window"].values()] == ["2026-02-12T00:00", "2026-02-13T23:59"]
    assert list_upcoming(ann.call, {"topic": "other"}).structured["upcoming"] == []
    assert list_upcoming(ann.call, {"kind": "job"}).structured["upcoming"] == []
    ann("pause_schedule", schedule_id=schedule)
    assert [row["id"] for row in list_upcoming(ann.call, {"count": 2}).structured["upcoming"]] == [message]
    paused = list_upcoming(ann.call, {"count": 2, "include_paused": True}).structured["upcoming"]
    assert [(row["id"], row.get("paused")) for row in paused] == [(message, None), (schedule, True)]
    assert list_upcoming(ann.call, {"until": "2026-02-10T15:30:00+01:00"}).structured["upcoming"] == []
    whole_day = list_upcoming(ann.call, {"until": "2026-02-10"}).structured["upcoming"]
    assert [row["id"] for row in whole_day] == [message], "a day without a time is included whole"


def test_what_time_it_is(ann: Agent) -> None:
    assert ann("get_current_time")["datetime"] == "2026-02-10T15:00:00+01:00"


WRONG: list[tuple[str, dict[str, Any]]] = [
    ("schedule_cron_notification", {**PLAIN, **CRON, "cron": "61 * * * *"}),
    ("schedule_cron_notification", {**PLAIN, **CRON, "cron": "0 0 30 2 *"}),
    ("schedule_cron_notification", {**PLAIN, **CRON, "cron": "CRON_TZ=UTC 0 9 * * *"}),
    ("schedule_cron_notification", {**PLAIN, **CRON, "timezone": "Mars/Base"}),
    ("schedule_cron_notification", {**PLAIN, **CRON, "label": "two words"}),
    ("schedule_cron_notification", {**PLAIN, **CRON, "max_attempts": 0}),
    ("schedule_cron_notification", {**PLAIN, **CRON, "idempotency_key": "~x"}),
    ("schedule_cron_notification", {**PLAIN, **CRON, "notification_topic": "Not A Topic"}),
    ("schedule_cron_notification", {**PLAIN, **CRON, "message": " "}),
    ("schedule_notification", {**PLAIN, "datetime": "2026-02-10T14:59:00+01:00"}),
    ("schedule_notification", {**PLAIN, "time": "14:00", "timezone": "Europe/Berlin"}),
    ("schedule_notification", {**PLAIN, "delay": "soon"}),
    ("schedule_notification", {**PLAIN}),
    ("send_push_notification", {**PLAIN, "message": "x" * 300_000}),
    ("send_push_notification", {**PLAIN, "priority": 9}),
    ("send_push_notification", {**PLAIN, "click": "javascript:alert(1)"}),
    ("send_push_notification", {**PLAIN, "actions": [{"action": "dance"}]}),
    ("list_scheduled_notifications", {"notification_topic": "Not A Topic"}),
]


def test_a_token_without_the_scope_changes_nothing(backend: Backend) -> None:
    ann = backend.agent("ann")
    id = ann.cron()
    read = Agent(backend.app, Caller("ann", scopes=("read",)), patience=0.05)
    for tool, given in MAKING.items():
        assert "needs the scope write" in read.problem(tool, **PLAIN, **given)
    for tool, scope in (("pause_schedule", "write"), ("delete_schedule", "delete")):
        assert f"needs the scope {scope}" in read(tool, schedule_id=id)["error"]
    assert ann.listed() == read.listed() == ([id], [])
    jobs = Agent(backend.app, Caller("ann", scopes=("kind:job",)), patience=0.05)
    assert jobs.listed() == ([], [])
    assert jobs("delete_schedule", schedule_id=id) == not_found(id, "already been deleted")


def test_what_is_refused_here_is_refused_in_the_same_words_at_qstash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    with kept_here(":memory:") as here, kept_at_qstash(tmp_path) as there:
        for tool, given in WRONG:
            assert there.agent("ann").problem(tool, **given) == here.agent("ann").problem(tool, **given)
        assert there.agent("ann").listed() == ([], [])
        there.pass_(days=1)
        assert there.arrived == []


def test_it_fires_while_this_machine_is_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    with kept_at_qstash(tmp_path) as backend:
        agent = backend.agent("ann")
        agent.cron(message="daily")
        agent.once(message="once", delay="1h")
        backend.app.close()
        backend.pass_(days=2)
        assert backend.arrived == [(ALERTS, text) for text in ("once", "daily", "daily")]


@pytest.mark.parametrize("tool", ["schedule_notification", "schedule_cron_notification"])
def test_what_qstash_took_without_our_hearing_of_it_turns_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    def died(_remote: Remote) -> None:
        raise StoreUnavailable("lost on the way back")

    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    with kept_at_qstash(tmp_path) as backend:
        agent = backend.agent("ann")
        with monkeypatch.context() as patch:
            patch.setattr(backend.app.store, "update_remote", died)
            assert "store cannot be reached" in agent.problem(tool, **PLAIN, **MAKING[tool])
        [id] = [id for ids in agent.listed() for id in ids]
        assert agent("delete_schedule", schedule_id=id)["success"] is True
        backend.pass_(days=1)
        assert backend.arrived == []


def test_tools_that_are_switched_off_change_nothing_at_qstash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    with kept_at_qstash(tmp_path) as there:
        ann = there.agent("ann")
        id = ann("schedule_cron_notification", **PLAIN, **CRON)["schedule_id"]
        call = Call(there.app.services, Caller("ann"), "UTC")
        jobs = {tool.name: tool for tool in catalog_of(load_specs().values(), ["jobs"]).tools}
        for chosen in ({"all": True}, {"ids": [id]}):
            done = jobs["change_schedules"].answer(call, {"action": "cancel", "expected_count": 0, **chosen}).structured
            assert (done["changed"], done["matched"]) == (0, 0)
        refused = jobs["delete_schedule"].answer(call, {"schedule_id": id}).structured
        assert refused["error"].startswith("Schedule not found")
        assert [each["schedule_id"] for each in ann("list_scheduled_notifications")["schedules"]] == [id]
