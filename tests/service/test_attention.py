"""One list of what needs attention, with one pair of verbs: resolve and reopen."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from duetime.engine.actor import Actor
from duetime.engine.kind import Caller
from duetime.engine.model import Trouble
from duetime.engine.store import ScheduleQuery
from duetime.engine.validation import NewSchedule
from duetime.service.operations.attention import ListAttention, MarkRuns, attention, mark_runs
from duetime.service.operations.inbox import Mark
from duetime.service.presenters import View
from duetime.service.services import Call
from duetime.stores.base import BaseStore
from tests.support.incidents import open_incident
from tests.support.refusals import refusal_of
from tests.support.stage import Stage

HOURLY = {"trigger_type": "interval", "trigger_config": {"hours": 1}}
WRONG = {"task": "shorten", "args": ["a"], "kwargs": {"words": 0}, "max_attempts": 1}
ADA, BOB = Caller("ada", actor=Actor("person", "Ada", "terminal")), Caller("bob")


def fail(stage: Stage, times: int = 1, name: str = "backup", **more: Any) -> str:
    """Let a job fail every hour, and return its id."""
    id: str = stage.ada.knows("schedule_job", {"name": name, **WRONG, **HOURLY, **more})["job_id"]
    pass_hours(stage, times)
    return id


def pass_hours(stage: Stage, hours: int) -> None:
    for _ in range(hours):
        stage.time.advance(timedelta(hours=1))
        stage.time.tell()


def rows(stage: Stage, caller: Caller = ADA, **asked: Any) -> list[View]:
    return attention(Call(stage.app.services, caller, "UTC"), ListAttention(**asked)).value.items


def mark(stage: Stage, key: int | str, as_: Mark = "resolve", caller: Caller = ADA) -> int:
    return mark_runs(Call(stage.app.services, caller, "UTC"), MarkRuns(ids=[key], mark=as_)).value


def titles(stage: Stage) -> list[str]:
    """Return what ada was told, oldest first."""
    messages = stage.app.store.search(ScheduleQuery(owner="ada", kind="notification", limit=1000)).items
    return [each.definition.name for each in messages]


def test_an_incident_and_its_dead_letters_are_one_row(both: Stage) -> None:
    id = fail(both, 3)
    [row] = rows(both)
    assert (row["id"], row["name"], row["kind"], row["trouble"], row["count"]) == (id, "backup", "job", "failed", 3)
    assert row["headline"] == "backup failed" and "words" in row["text"] and "retry the run" in row["next_step"]
    assert (row["since"], row["last"]) == ("2026-02-10T21:00:00+00:00", "2026-02-10T23:00:00+00:00")
    assert row["run_id"] == both.ada.knows("history", schedule_id=id)["runs"][0]["run_id"]
    assert (row["status"], row["run_status"]) == ("open", "failed")


def test_a_trouble_that_a_newer_version_noted_is_listed(stage: Stage) -> None:
    fail(stage)
    store: Any = stage.app.store
    store._writer.execute("UPDATE incidents SET trouble = 'haunted'")
    [row] = rows(stage)
    assert row["headline"] == "backup needs attention" and row["next_step"].startswith("Update Duetime")


def test_what_is_resolved_reminds_nobody_until_it_is_reopened(both: Stage) -> None:
    fail(both, pause_after=0)
    [row] = rows(both)
    assert titles(both) == ["backup failed"] and mark(both, row["key"]) == 1
    pass_hours(both, 30)
    assert rows(both) == [] and titles(both) == ["backup failed"]
    [resolved] = rows(both, resolved=True)
    assert resolved["key"] == row["key"] and resolved["status"] == "resolved" and "Ada" in resolved["resolved_by"]
    assert resolved["count"] == 31, "it still fails"
    assert mark(both, row["key"], "reopen") == 1
    pass_hours(both, 25)
    assert [each["key"] for each in rows(both)] == [row["key"]] and rows(both, resolved=True) == []
    assert titles(both) == ["backup failed", "Still open: backup failed"]


@pytest.mark.parametrize("by_run", [True, False])
def test_an_incident_and_its_latest_run_are_resolved_together(both: Stage, by_run: bool) -> None:
    fail(both)
    [row] = rows(both)
    key = row["run_id"] if by_run else row["key"]
    for as_, open_ in (("resolve", 0), ("reopen", 1), ("dismiss", 0), ("restore", 1)):
        assert mark(both, key, as_) == 1  # type: ignore[arg-type]
        dead = both.app.scheduler.run(ADA, row["run_id"])
        assert dead is not None and dead.stop == 1 - open_
        assert len(rows(both)) == open_


def test_a_schedule_that_paused_itself_stands_for_its_failures(both: Stage) -> None:
    id = fail(both, 3, pause_after=3)
    [row] = rows(both)
    assert (row["trouble"], row["count"], row["id"]) == ("paused", 3, id)
    assert "words" in row["text"] and "resume" in row["next_step"]
    before = titles(both)
    mark(both, row["key"])
    assert rows(both) == [] and both.app.store.incidents("ada", 10, resolved=False) == []
    pass_hours(both, 49)
    assert titles(both) == before, "nor is there a reminder of the failures"
    mark(both, row["key"], "reopen")
    assert [each["key"] for each in rows(both)] == [row["key"]]


def test_what_has_no_run_is_resolved_by_its_key(both: Stage) -> None:
    id: str = both.ada.knows("schedule_job", {"name": "backup", **WRONG, **HOURLY})["job_id"]
    incident = open_incident(both.app.scheduler, id, Trouble.MISSED)
    [row] = rows(both)
    assert (row["run_id"], row["headline"], row["key"]) == (None, "backup was missed", f"incident-{incident.id}")
    assert both.ada.knows("status")["problems"][0]["key"] == row["key"]
    assert both.ada.knows("mark_runs", run_ids=[row["key"]], mark="resolve") == {"marked": 1}
    assert rows(both) == [] and both.ada.knows("status")["problems"][0]["status"] == "resolved"


def test_a_reminder_that_failed_was_not_delivered(both: Stage) -> None:
    tea = NewSchedule("notification", "tea", "cron", {"expression": "0 9 * * *"}, {"message": "tea", "topic": "home"})
    open_incident(both.app.scheduler, both.app.scheduler.create(ADA, tea).definition.public_id)
    [row] = rows(both)
    assert (row["trouble"], row["headline"]) == ("failed", "tea was not delivered")
    assert row["next_step"].startswith("Check the channel")


def test_a_failure_without_an_incident_is_listed_by_its_run(both: Stage) -> None:
    """As those from before there were incidents."""
    id = fail(both, 2)
    [row] = rows(both)
    store = both.app.store
    [incident] = store.incidents("ada", 9)
    assert isinstance(store, BaseStore)
    with store._write() as tx:
        tx.send("end_incident", 1, 0, 1, incident.id, incident.last)
    [listed] = rows(both)
    assert (listed["key"], listed["id"], listed["count"]) == (f"run-{row['run_id']}", id, 2)
    mark(both, listed["key"])
    assert [each["run_id"] for each in rows(both, resolved=True)] == [row["run_id"]]
    mark(both, listed["key"], "reopen")
    assert rows(both, resolved=True) == [] and rows(both)[0]["key"] == listed["key"]


def test_what_is_retried_mended_cancelled_or_deleted_needs_nobody(both: Stage) -> None:
    ids = {name: fail(both, name=name) for name in ("retried", "cancelled", "deleted", "resumed")}
    key = next(each["run_id"] for each in rows(both) if each["name"] == "retried")
    both.app.scheduler.retry(ADA, key)
    both.app.scheduler.cancel(ADA, ids["cancelled"])
    both.app.scheduler.delete(ADA, ids["deleted"])
    assert [each["name"] for each in rows(both)] == ["resumed"]
    both.time.tell()
    assert [each["name"] for each in rows(both)] == ["resumed"], "also after a worker has ended the incidents"


def test_what_waits_for_somebody_is_on_the_list_and_is_not_resolved(both: Stage) -> None:
    both.due("water the plants")
    assert rows(both) == []
    both.time.advance(timedelta(minutes=3))
    [row] = rows(both)
    assert (row["trouble"], row["headline"]) == ("untaken", "water the plants waits: nobody took it")
    answer = both.ada.knows("mark_runs", run_ids=[row["run_id"]], mark="resolve")
    assert answer == {"marked": 0, "notes": ["1 run: it is waiting, so it cannot be resolved"]}
    assert len(rows(both)) == 1, "it is answered or stopped"
    assert both.ada.knows("status")["problems"] == [], "status lists what waits apart"


def test_another_owner_neither_sees_nor_resolves(both: Stage) -> None:
    fail(both)
    [row] = rows(both)
    bob = both.agent("bob")
    assert rows(both, BOB) == rows(both, BOB, resolved=True) == [] and bob.knows("status")["problems"] == []
    for key in (row["key"], row["run_id"]):
        missing = "incident-987654" if key == row["key"] else 987654
        for as_ in ("resolve", "reopen"):
            refusals = [bob.knows("mark_runs", run_ids=[each], mark=as_)["error"] for each in (key, missing)]
            assert refusals[0].replace(str(key), "") == refusals[1].replace(str(missing), "")
    assert rows(both) == [row]
    operator = rows(both, Caller("root", operator=True))
    assert [each["owner"] for each in operator] == ["ada"]
    limited = Caller("ada", scopes=("read", "kind:prompt"))
    assert rows(both, limited) == [], "nor does a token for another kind see it"
    refusal_of(lambda: mark(both, row["key"], caller=limited))


def test_a_token_that_only_reads_and_an_agents_run_cannot_resolve(both: Stage) -> None:
    fail(both)
    [row] = rows(both)
    for caller in (Caller("ada", scopes=("read",)), Caller("ada", depth=1)):
        for key in (row["key"], row["run_id"]):
            refusal_of(lambda caller=caller, key=key: mark(both, key, caller=caller))  # type: ignore[misc]
    assert rows(both) == [row]


@pytest.mark.parametrize("ids", [[], [True], ["incident-"], ["incident-0"], ["x-3"], [1.5], [-4], list(range(1, 102))])
def test_what_is_no_key_is_refused_with_an_example(both: Stage, ids: list[Any]) -> None:
    refusal = refusal_of(lambda: mark_runs(both.ada.call, MarkRuns(ids=ids, mark="resolve")))
    assert '"incident-3"' in refusal.message


def test_status_lists_what_is_open_and_then_what_was_resolved(both: Stage) -> None:
    fail(both, name="backup")
    fail(both, name="report")
    told = both.ada.knows("status")
    assert told["all_right"] is False
    assert [each["headline"] for each in told["problems"]] == ["report failed", "backup failed"]
    mark(both, told["problems"][0]["key"])
    again = both.ada.knows("status")["problems"]
    assert [(each["name"], each["status"]) for each in again] == [("backup", "open"), ("report", "resolved")]
