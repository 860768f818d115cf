"""Many schedules are changed by one call: by ids, by a filter, or all; nothing of others."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from duetime.engine.clock import SECOND, Instant
from duetime.engine.kind import Caller
from duetime.engine.model import ScheduleState
from duetime.engine.validation import NewSchedule
from duetime.service.services import Call
from tests.support.agent import TOOLS, Agent
from tests.support.hand import history_of
from tests.support.stage import Stage

PAYLOADS: dict[str, dict[str, Any]] = {
    "job": {"task": "echo", "args": [1], "kwargs": {}},
    "prompt": {"prompt": "water the plants"},
    "notification": {"topic": "home", "message": "hi"},
}


def make(stage: Stage, kind: str, name: str, owner: str = "ada", **fields: Any) -> str:
    new = NewSchedule(kind, name, "cron", {"expression": "0 9 * * *"}, {**PAYLOADS[kind], **fields})
    made = stage.app.scheduler.create(Caller(owner), new)
    return made.definition.public_id


def states(stage: Stage, *ids: str) -> list[str]:
    return [str(found.progress.state) for id in ids if (found := stage.app.store.find(id)) is not None]


@pytest.fixture
def four(stage: Stage) -> tuple[str, str, str, str]:
    return (
        make(stage, "job", "backup"),
        make(stage, "prompt", "tidy"),
        make(stage, "notification", "standup"),
        make(stage, "notification", "lunch", topic="work"),
    )


@pytest.mark.parametrize(
    ("given", "changed"),
    [
        ({"ids": ["backup", 2]}, [0, 1]),
        ({"kind": "notification"}, [2, 3]),
        ({"topic": "home"}, [2]),
        ({"kind": "job", "topic": "echo"}, [0]),
        ({"label": "Standup"}, [2]),
        ({"kind": "job", "label": "standup"}, []),
        ({"all": True}, [0, 1, 2, 3]),
    ],
)
def test_what_is_selected_is_changed(
    stage: Stage, four: tuple[str, ...], given: dict[str, Any], changed: list[int]
) -> None:
    bobs = make(stage, "job", "backup", "bob")
    tried = stage.ada.knows("change_schedules", action="pause", dry_run=True, **given)
    assert (tried["matched"], tried["changed"]) == (len(changed), 0)
    assert states(stage, *four) == ["active"] * 4
    done = stage.ada.knows("change_schedules", action="pause", until="in 2 days", note="away", **given)
    assert (done["matched"], done["changed"], done["failed"]) == (len(changed), len(changed), [])
    assert {each["id"] for each in done["schedules"]} == {four[index] for index in changed}
    assert states(stage, *four) == ["paused" if index in changed else "active" for index in range(4)]
    assert states(stage, bobs) == ["active"]
    for index in changed:
        found = stage.app.store.find(four[index])
        assert found is not None and found.definition.resume_at is not None and found.progress.note == "away"
    again = stage.ada.knows("change_schedules", action="resume", all=True)
    assert again["changed"] == len(changed) and states(stage, *four) == ["active"] * 4


@pytest.mark.parametrize(
    ("action", "doing", "state"),
    [("cancel", "cancelling", ScheduleState.CANCELLED), ("delete", "deleting", ScheduleState.DELETED)],
)
def test_what_is_final_needs_the_right_count(
    stage: Stage, four: tuple[str, ...], action: str, doing: str, state: ScheduleState
) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({}, f"expected_count: {doing} ends schedules, so say how many; 4 match"),
        ({"expected_count": 3}, "4 match, not 3"),
    ]
    for given, words in cases:
        refused = stage.ada.knows("change_schedules", action=action, all=True, **given)
        assert words in refused["error"]
        assert states(stage, *four) == ["active"] * 4
    assert stage.ada.knows("change_schedules", action=action, all=True, dry_run=True)["matched"] == 4
    assert stage.ada.knows("change_schedules", action=action, all=True, expected_count=4)["changed"] == 4
    assert states(stage, *four) == [str(state)] * 4


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_pause_says_what_falls_into_it_and_when_it_ends(stage: Stage, dry_run: bool) -> None:
    call: dict[str, Any] = {"at": "2026-02-11 9:00", "prompt": "call the dentist"}
    stage.ada.knows("schedule", **call)
    stage.ada.knows("schedule", **call, catch_up="skip")
    stage.ada.knows("schedule", cron="0 9 * * *", prompt="tidy")
    stage.ada.knows("schedule", at="2026-03-01 9:00", prompt="pay the rent")
    until: dict[str, Any] = {"until": "2026-02-14 9:00"}
    done = stage.ada.knows("change_schedules", action="pause", all=True, dry_run=dry_run, **until)
    rows = sorted(done["schedules"], key=lambda row: row["id"])
    assert {row["paused_until"][:16] for row in rows} == {"2026-02-14T09:00"}
    at = rows[0]["falls_into_pause"].split(", ")[1]
    assert at.startswith("2026-02-11T09:00:00")
    assert [row["falls_into_pause"] for row in rows] == [
        f"Its time, {at}, falls into the pause: it is held and runs when the pause ends.",
        f"Its time, {at}, falls into the pause: it will be missed, because catch_up is skip.",
        f"It is skipped 3 times in the pause, the first at {at}.",
        "None of its times falls into the pause.",
    ]


def test_a_pause_without_an_end_says_so(stage: Stage, four: tuple[str, ...]) -> None:
    paused = stage.ada.knows("pause_schedule", schedule_id=four[0])
    assert paused["falls_into_pause"].startswith("Its times are skipped until it is resumed, the first at 2026-")
    number = stage.ada.knows("schedule", at="2026-02-11 9:00", prompt="call the dentist")["id"]
    [row] = stage.ada.knows("change_schedules", action="pause", ids=[number], dry_run=True)["schedules"]
    assert row["paused_until"] is None
    assert row["falls_into_pause"].startswith("If it is paused at its time, 2026-02-11T09:00:00")
    assert row["falls_into_pause"].endswith(", it is held and runs when the pause ends.")


def test_what_cannot_be_changed_is_told_and_the_rest_is_changed(stage: Stage, four: tuple[str, ...]) -> None:
    stage.app.scheduler.cancel(Caller("ada"), four[0])
    bobs = make(stage, "job", "his", "bob")
    done = stage.ada.knows("change_schedules", action="pause", ids=[four[0], four[1], bobs, "nothing"])
    assert done["changed"] == 1 and states(stage, bobs) == ["active"]
    assert {each["id"] for each in done["failed"]} == {four[0], bobs, "nothing"}
    assert all(each["error"] for each in done["failed"])


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"ids": []},
        {"ids": ["a"], "all": True},
        {"kind": "job", "all": True},
        {"ids": [{"a": 1}]},
        {"ids": [True]},
    ],
)
def test_a_selection_has_to_be_clear(stage: Stage, four: tuple[str, ...], given: dict[str, Any]) -> None:
    assert stage.ada.knows("change_schedules", action="pause", **given)["error"].startswith("ids: ")
    assert states(stage, *four) == ["active"] * 4


def test_an_end_belongs_to_a_pause(stage: Stage, four: tuple[str, ...]) -> None:
    refused = stage.ada.knows("change_schedules", action="cancel", all=True, until="tomorrow 9am")
    assert refused["error"].startswith("until: ") and states(stage, *four) == ["active"] * 4


def test_a_run_cannot_change_many(stage: Stage, four: tuple[str, ...]) -> None:
    woken = stage.agent("ada", depth=1)
    assert "one by one" in woken.knows("change_schedules", action="pause", all=True)["error"]
    assert states(stage, *four) == ["active"] * 4


def test_the_tools_serve_only_the_families_that_are_switched_on(stage: Stage, four: tuple[str, ...]) -> None:
    from duetime.kinds import load_specs
    from duetime.mcp.catalog import catalog_of

    tools = {tool.name: tool for tool in catalog_of(load_specs().values(), ["jobs"]).tools}
    assert {"pause_schedule", "edit_schedule", "change_schedules", "list_upcoming"} <= set(tools)
    assert "prompt" not in tools["edit_schedule"].input["properties"]
    call: Call = stage.ada.call
    refused = tools["pause_schedule"].answer(call, {"schedule_id": four[1]}).structured
    assert refused["error"].startswith("Schedule not found")
    assert "switched off" in str(tools["edit_schedule"].answer(call, {"schedule_id": four[1], "name": "x"}).structured)
    done = tools["change_schedules"].answer(call, {"action": "pause", "all": True}).structured
    assert done["changed"] == 1 and states(stage, *four) == ["paused", "active", "active", "active"]
    assert set(TOOLS) > set(tools)


def test_a_pause_until_resumes_by_itself(stage: Stage, four: tuple[str, ...]) -> None:
    from datetime import timedelta

    ada: Agent = stage.ada
    answer = ada.knows("pause_schedule", schedule_id="standup", until="tomorrow 12:00", note="holiday")
    assert answer == {
        "success": True,
        "schedule_id": four[2],
        "paused": True,
        "confirmation": f"Schedule {four[2]} paused successfully",
        "kind": "notification",
        "name": "standup",
        "next_run": None,
        "reads_as": answer["reads_as"],
        "paused_until": "2026-02-11T12:00:00-08:00",
        "falls_into_pause": "It is skipped 1 time in the pause, the first at 2026-02-11T09:00:00-08:00.",
        "note": "holiday",
    }
    stage.time.advance(timedelta(days=2))
    assert states(stage, four[2]) == ["active"]
    runs = history_of(stage.app.scheduler, Caller("ada"), four[2])
    assert [run.status for run in runs] == ["completed", "skipped"]


@pytest.mark.parametrize(("until", "words"), [("yesterday", "until: "), ("no time", "could not parse")])
def test_an_end_that_is_no_time_is_refused(stage: Stage, four: tuple[str, ...], until: str, words: str) -> None:
    from duetime.mcp.definitions import ToolProblem

    with pytest.raises(ToolProblem, match=words):
        stage.ada.use("pause_schedule", schedule_id=four[0], until=until)
    assert states(stage, four[0]) == ["active"]


def test_whether_the_end_of_a_pause_lies_ahead_is_decided_once_for_all(
    stage: Stage, four: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call takes longer than the pause is to last."""
    change = type(stage.app.store).change

    def slow_change(*args: Any, **kwargs: Any) -> Any:
        stage.time.clock.move_to(Instant(stage.time.clock.now() + SECOND))
        return change(*args, **kwargs)

    monkeypatch.setattr(type(stage.app.store), "change", slow_change)
    done = stage.ada.knows("change_schedules", action="pause", all=True, until="in 2 seconds")
    assert (done["changed"], done["failed"]) == (4, [])
    monkeypatch.undo()
    stage.time.advance(timedelta(minutes=1))
    assert states(stage, *four) == ["active"] * 4
