"""The door for faces: what is refused, what belongs to whom, and that a refusal leaves no trace."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from duetime.engine.clock import SECOND, instant_of
from duetime.engine.kind import Caller
from duetime.engine.limits import Limits
from duetime.engine.model import Schedule
from duetime.engine.policy.changes import Edit
from duetime.engine.scheduler import Scheduler
from duetime.engine.store import RunQuery, ScheduleQuery
from duetime.engine.validation import Changes, NewSchedule
from duetime.kinds.jobs.builtin import TASKS
from duetime.kinds.jobs.kind import JobKind
from duetime.kinds.jobs.registry import Registry
from duetime.kinds.notifications.delivery import MESSENGER
from duetime.kinds.notifications.kind import NotificationKind
from duetime.stores.sqlite.store import SqliteStore
from duetime.testing import SettableClock
from tests.support.refusals import refusal_of

ANN, BEN = Caller("ann"), Caller("ben")
SetOff = Callable[[Scheduler, Caller, str], object]
JOB = NewSchedule("job", "say", "interval", {"hours": 1}, {"task": "echo", "args": ["hi"], "kwargs": {}})


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock(instant_of(datetime(2026, 3, 2, 12, tzinfo=UTC)))


@pytest.fixture
def scheduler(clock: SettableClock) -> Iterator[Scheduler]:
    store = SqliteStore(":memory:", messenger=MESSENGER)
    store.migrate()
    yield Scheduler(store, {"job": JobKind(Registry(TASKS))}, clock, limits=Limits(schedules=5))
    store.close()


def total(scheduler: Scheduler) -> int:
    page = scheduler.search(Caller("x", operator=True), ScheduleQuery())
    return page.total


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("unknown task", {"payload": {"task": "nope", "args": [], "kwargs": {}}}, "Unknown task: nope"),
    ("surplus arguments", {"payload": {"task": "echo", "args": [1, 2, 3], "kwargs": {}}}, "echo"),
    ("negative interval", {"trigger_config": {"hours": -1}}, "hours"),
    ("interval of nothing", {"trigger_config": {"hours": 0}}, ""),
    ("infinite interval", {"trigger_config": {"seconds": float("inf")}}, "seconds"),
    ("too often", {"trigger_config": {"seconds": 0.5}}, "more often"),
    ("past time", {"trigger_type": "once", "trigger_config": {"run_at": "2020-01-01T00:00:00"}}, "in the past"),
    ("unknown zone", {"timezone": "Mars/Olympus"}, "Mars/Olympus"),
    ("unknown trigger type", {"trigger_type": "sometimes"}, "Unknown trigger type: sometimes"),
    ("unknown key", {"trigger_config": {"hours": 1, "hour": 2}}, "hour"),
    (
        "malformed cron",
        {"trigger_type": "cron", "trigger_config": {"expression": "61 * * * *"}},
        "Invalid cron expression: 61 * * * *",
    ),
    ("never fires", {"trigger_type": "cron", "trigger_config": {"expression": "0 0 30 2 *"}}, ""),
    ("oversized payload", {"payload": {"task": "echo", "args": ["x" * 300_000], "kwargs": {}}}, "limit"),
    ("empty name", {"name": "  "}, "name"),
    ("long name", {"name": "n" * 201}, "name"),
    ("NUL in the name", {"name": "a\x00b"}, "name"),
    ("surrogate in the name", {"name": "a\ud800b"}, "name"),
    ("unknown kind", {"kind": "dream"}, "kind: there is no 'dream'; choose from job"),
    ("kind that is no text", {"kind": 5}, "kind: there is no '5'; choose from job"),
    ("max_runs of zero", {"policy": {"max_runs": 0}}, "max_runs"),
    ("max_runs as a truth value", {"policy": {"max_runs": True}}, "max_runs"),
    ("unknown policy", {"policy": {"colour": "red"}}, "colour"),
    ("unknown overlap", {"policy": {"overlap": "maybe"}}, "overlap"),
    ("retries of at-most-once", {"policy": {"at_most_once": True, "max_attempts": 3}}, "max_attempts"),
]


@pytest.mark.parametrize(("changes", "said"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_bad_input_is_refused_clearly_and_leaves_no_trace(
    scheduler: Scheduler, changes: dict[str, Any], said: str
) -> None:
    err = refusal_of(lambda: scheduler.create(ANN, JOB._replace(**changes)))
    assert err.message
    assert said in err.message
    assert total(scheduler) == 0


def test_one_bad_draft_refuses_the_whole_bulk(scheduler: Scheduler) -> None:
    refusal_of(lambda: scheduler.create_many(ANN, [JOB, JOB._replace(name="")]))
    assert total(scheduler) == 0


def test_a_request_that_is_repeated_creates_as_many_schedules(scheduler: Scheduler) -> None:
    other = JOB._replace(name="other")
    for caller, news in ((ANN, [JOB] * 4), (BEN, [JOB, other] * 2)):
        result = scheduler.create_many(caller, news)
        definitions = [each.definition for each in result]
        assert [each.name for each in definitions] == [new.name for new in news]
        assert len({each.key for each in definitions}) == len({each.public_id for each in definitions}) == 4


def test_a_key_returns_the_first_result_and_creates_nothing(scheduler: Scheduler, clock: SettableClock) -> None:
    keyed = JOB._replace(idempotency_key="k")
    first = scheduler.create(ANN, keyed)
    clock.move_to(instant_of(datetime(2026, 3, 2, 13, tzinfo=UTC)))
    assert scheduler.create(ANN, keyed).definition == first.definition
    assert total(scheduler) == 1
    assert refusal_of(lambda: scheduler.create(ANN, keyed._replace(name="other"))).code == "key_reused"
    assert scheduler.create(BEN, keyed).definition.id != first.definition.id


def test_the_limit_of_schedules_is_per_owner_and_counts_the_living(scheduler: Scheduler) -> None:
    schedules = [scheduler.create(ANN, JOB) for _ in range(5)]
    assert refusal_of(lambda: scheduler.create(ANN, JOB)).code == "quota"
    scheduler.create(BEN, JOB)
    scheduler.cancel(ANN, schedules[0].definition.public_id)
    scheduler.create(ANN, JOB)
    assert refusal_of(lambda: scheduler.create_many(BEN, [JOB] * 5)).code == "quota"


def test_what_belongs_to_another_does_not_exist(scheduler: Scheduler) -> None:
    theirs = scheduler.create(ANN, JOB).definition.public_id
    unknown = "job_999_1"
    for ask in (scheduler.pause, scheduler.resume, scheduler.cancel, scheduler.delete, scheduler.run_now):
        refusals = [refusal_of(ask, BEN, id) for id in (theirs, unknown)]
        assert [(each.code, each.message) for each in refusals] == [("not_found", "there is no such schedule")] * 2
    refusals = [refusal_of(scheduler.edit, BEN, id, Changes(name="mine")) for id in (theirs, unknown)]
    assert [(each.code, each.message) for each in refusals] == [("not_found", "there is no such schedule")] * 2
    assert scheduler.find(BEN, theirs) is scheduler.find(BEN, theirs, deleted=True) is None
    page = scheduler.search(BEN, ScheduleQuery(owner="ann"))
    assert page.items == []
    assert scheduler.find(Caller("root", operator=True), theirs) is not None
    run = scheduler.run_now(ANN, theirs)
    assert [scheduler.runs(each, RunQuery(schedule=run.schedule)).items for each in (ANN, BEN)] == [[run], []]


@pytest.mark.parametrize("odd", ["", "'; DROP TABLE schedules; --", "x" * 10_000, "a\x00b", "\ud800", "../../etc", "%"])
def test_any_text_may_be_asked_for_as_an_id(scheduler: Scheduler, odd: str) -> None:
    assert scheduler.find(ANN, odd) is None
    assert refusal_of(lambda: scheduler.cancel(ANN, odd)).code == "not_found"
    assert scheduler.find(ANN, odd, deleted=True) is None


def test_an_edit_changes_only_what_it_names(scheduler: Scheduler) -> None:
    before = scheduler.create(ANN, JOB)
    after = scheduler.edit(ANN, before.definition.public_id, Changes(name="new"))
    assert after.definition.name == "new"
    assert after.definition.version == before.definition.version + 1
    assert after.definition._replace(name="say", version=1, updated=before.definition.updated) == before.definition
    assert after.progress == before.progress


def test_an_edit_of_an_older_version_is_refused(scheduler: Scheduler) -> None:
    schedule = scheduler.create(ANN, JOB).definition.public_id
    scheduler.edit(ANN, schedule, Changes(name="one", version=1))
    assert refusal_of(lambda: scheduler.edit(ANN, schedule, Changes(name="two", version=1))).code == "conflict"


def test_two_edits_at_once_both_take_effect(scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = scheduler.create(ANN, JOB).definition.public_id
    patch = scheduler.drafter.patch

    def patch_amid_another_edit(*arguments: Any) -> Edit:
        edit = patch(*arguments)
        monkeypatch.undo()
        scheduler.edit(ANN, schedule, Changes(policy={"at_most_once": True}))
        return edit

    monkeypatch.setattr(scheduler.drafter, "patch", patch_amid_another_edit)
    edited = scheduler.edit(ANN, schedule, Changes(policy={"pause_after": 3})).definition
    policy = json.loads(edited.policy)
    assert (policy["at_most_once"], policy["pause_after"], edited.version) == (True, 3, 3)


def test_a_bad_edit_changes_nothing(scheduler: Scheduler) -> None:
    schedule = scheduler.create(ANN, JOB)
    public_id = schedule.definition.public_id
    refusal_of(
        lambda: scheduler.edit(ANN, public_id, Changes(trigger_type="cron", trigger_config={"expression": "nope"}))
    )
    refusal_of(lambda: scheduler.edit(ANN, public_id, Changes(name="fine", policy={"max_runs": -1})))
    refusal_of(lambda: scheduler.edit(ANN, public_id, Changes(next=instant_of(datetime(2020, 1, 1, tzinfo=UTC)))))
    assert scheduler.find(ANN, public_id) == schedule


NEVER = {"at_most_once": True, "catch_up": "skip", "grace": 0}
"""At most once is claimed at its instant or after it, and this tolerates nothing after it."""


def test_options_that_could_never_run_together_are_refused(scheduler: Scheduler) -> None:
    refused = refusal_of(lambda: scheduler.create(ANN, JOB._replace(policy=NEVER)))
    assert (refused.code, refused.details["field"]) == ("invalid", "grace")
    assert total(scheduler) == 0
    for other in ({"grace": SECOND}, {"catch_up": "once"}, {"at_most_once": False}):
        scheduler.create(ANN, JOB._replace(policy=NEVER | other))
    jittered = {"hours": 1, "jitter": 5}
    scheduler.create(ANN, JOB._replace(trigger_config=jittered, policy=NEVER))


def test_an_edit_that_says_when_its_rule_begins_does_not_keep_an_earlier_start(scheduler: Scheduler) -> None:
    begins = {"rrule": "FREQ=DAILY", "start": "2090-03-01T00:00:00Z"}
    schedule = scheduler.create(ANN, JOB._replace(trigger_type="rrule", trigger_config=begins))
    rule = {"rrule": "FREQ=DAILY;COUNT=5", "dtstart": "2090-02-01T09:00:00Z"}
    edited = scheduler.edit(ANN, schedule.definition.public_id, Changes(trigger_type="rrule", trigger_config=rule))
    assert edited.progress.next == instant_of(datetime(2090, 2, 1, 9, tzinfo=UTC))


def test_an_edit_to_options_that_could_never_run_is_refused(scheduler: Scheduler) -> None:
    schedule = scheduler.create(ANN, JOB._replace(policy=NEVER | {"grace": SECOND}))
    public_id = schedule.definition.public_id
    assert refusal_of(lambda: scheduler.edit(ANN, public_id, Changes(policy={"grace": 0}))).details["field"] == "grace"
    jittered = scheduler.create(ANN, JOB._replace(trigger_config={"hours": 1, "jitter": 5}, policy=NEVER))
    plain = Changes(trigger_type="interval", trigger_config={"hours": 1, "jitter": None})
    assert refusal_of(lambda: scheduler.edit(ANN, jittered.definition.public_id, plain)).details["field"] == "grace"
    assert scheduler.find(ANN, public_id) == schedule


def test_only_what_is_pending_can_be_edited(scheduler: Scheduler) -> None:
    public_id = scheduler.create(ANN, JOB).definition.public_id
    scheduler.run_now(ANN, public_id)
    assert (
        refusal_of(lambda: scheduler.edit(ANN, public_id, Changes(name="late", pending_only=True))).code
        == "not_possible"
    )
    scheduler.edit(ANN, public_id, Changes(name="late"))
    scheduler.cancel(ANN, public_id)
    assert refusal_of(lambda: scheduler.edit(ANN, public_id, Changes(name="late"))).code == "not_possible"


def test_a_second_delete_finds_nothing(scheduler: Scheduler) -> None:
    public_id = scheduler.create(ANN, JOB).definition.public_id
    scheduler.delete(ANN, public_id)
    assert refusal_of(lambda: scheduler.delete(ANN, public_id)).code == "not_found"


def test_agents_schedule_only_so_deep(scheduler: Scheduler) -> None:
    scheduler.create(Caller("ann", depth=3), JOB)
    assert refusal_of(lambda: scheduler.create(Caller("ann", depth=4), JOB)).code == "depth"


def test_who_schedules_too_deep_is_told_of_to_their_owner_once_a_day(
    scheduler: Scheduler, clock: SettableClock
) -> None:
    for alerts, owner, hours in ((1, "ann", 0), (1, "ann", 1), (2, "ben", 0), (3, "ann", 24)):
        clock.jump(timedelta(hours=hours))
        assert refusal_of(scheduler.create, Caller(owner, depth=4), JOB).code == "depth"
        assert total(scheduler) == alerts
    [told] = _notifications(scheduler, BEN)
    assert told.definition.name == "An agent keeps scheduling itself"


def _notifications(scheduler: Scheduler, caller: Caller) -> list[Schedule]:
    page = scheduler.search(caller, ScheduleQuery(kind="notification"))
    return page.items


def _edited(scheduler: Scheduler, caller: Caller, public_id: str) -> object:
    return scheduler.edit(caller, public_id, Changes(trigger_type="interval", trigger_config={"days": 30}))


def _fired(scheduler: Scheduler, caller: Caller, public_id: str) -> object:
    return scheduler.run_now(caller, public_id)


def _retried(scheduler: Scheduler, caller: Caller, public_id: str) -> object:
    run = scheduler.run_now(ANN, public_id)
    scheduler.cancel_run(ANN, run.id)
    return scheduler.retry(caller, run.id)


@pytest.mark.parametrize("set_off", [_edited, _fired, _retried])
def test_runs_that_set_each_other_off_come_no_deeper(scheduler: Scheduler, set_off: SetOff) -> None:
    """Nothing new is made, but without a count two agents that wake each other would never end."""
    ids = [scheduler.create(ANN, JOB._replace(policy={"overlap": "allow"})).definition.public_id for _ in "ab"]
    for step in range(3):
        set_off(scheduler, Caller("ann", depth=_depth(scheduler, ids[step % 2]) + 1), ids[1 - step % 2])
    assert [_depth(scheduler, id) for id in ids] == [2, 3]
    assert refusal_of(lambda: set_off(scheduler, Caller("ann", depth=4), ids[0])).code == "depth"
    set_off(scheduler, ANN, ids[1])  # a person may, and changes nothing of how deep it is
    assert _depth(scheduler, ids[1]) == 3


def _depth(scheduler: Scheduler, public_id: str) -> int:
    found = scheduler.find(ANN, public_id)
    assert found is not None
    return found.definition.depth


def test_preview_reads_the_trigger_and_creates_nothing(scheduler: Scheduler) -> None:
    preview = scheduler.preview("cron", {"expression": "0 9 * * MON"}, timezone="Europe/Berlin", count=3)
    assert len(preview.instants) == 3
    assert "Europe/Berlin" in preview.english
    assert total(scheduler) == 0


def test_a_key_is_known_after_its_time_has_passed(scheduler: Scheduler, clock: SettableClock) -> None:
    keyed = JOB._replace(trigger_type="once", trigger_config={"run_at": "2026-03-02T12:30:00Z"}, idempotency_key="k")
    first = scheduler.create(ANN, keyed)
    clock.move_to(instant_of(datetime(2026, 3, 2, 13, tzinfo=UTC)))
    assert scheduler.create(ANN, keyed).definition == first.definition
    assert refusal_of(lambda: scheduler.create(ANN, keyed._replace(name="other"))).code == "key_reused"
    assert "in the past" in refusal_of(lambda: scheduler.create(BEN, keyed)).message


def test_what_alone_would_use_up_an_hours_runs_is_refused(scheduler: Scheduler) -> None:
    scheduler.drafter.limits = Limits(runs_per_hour=4)
    err = refusal_of(lambda: scheduler.create(ANN, JOB._replace(trigger_config={"minutes": 10})))
    assert "more than 4 times an hour" in err.message
    scheduler.create(ANN, JOB._replace(trigger_config={"minutes": 15}))


def test_a_deleted_schedule_frees_its_key(scheduler: Scheduler) -> None:
    keyed = JOB._replace(idempotency_key="k")
    first = scheduler.create(ANN, keyed).definition
    scheduler.delete(ANN, first.public_id)
    assert scheduler.create(ANN, keyed).definition.id != first.id


def test_a_key_that_was_used_otherwise_refuses_the_whole_bulk(scheduler: Scheduler) -> None:
    scheduler.create(ANN, JOB._replace(idempotency_key="k1"))
    bulk = [JOB._replace(idempotency_key="k2"), JOB._replace(name="other", idempotency_key="k1")]
    assert refusal_of(lambda: scheduler.create_many(ANN, bulk)).code == "key_reused"
    assert total(scheduler) == 1


def test_keys_of_our_own_making_cannot_be_given(scheduler: Scheduler) -> None:
    assert (
        "idempotency_key" in refusal_of(lambda: scheduler.create(ANN, JOB._replace(idempotency_key="~gone-2"))).message
    )


def test_the_deepest_run_may_still_tell_a_person(scheduler: Scheduler) -> None:
    deep = Caller("ada", depth=scheduler.limits.depth + 1)
    scheduler = Scheduler(scheduler.store, {**scheduler.kinds, "notification": NotificationKind()}, scheduler.clock)
    told = NewSchedule("notification", "tell", "once", {"run_at": "now"}, {"message": "done", "topic": "garden"})
    scheduler.create(deep, told)
    refused = refusal_of(lambda: scheduler.create(deep, JOB))
    assert refused.code == "depth"


def test_an_owner_has_a_limit_of_stored_bytes_and_local_has_none(clock: SettableClock) -> None:
    store = SqliteStore(":memory:", messenger=MESSENGER)
    store.migrate()
    scheduler = Scheduler(store, {"job": JobKind(Registry(TASKS))}, clock, limits=Limits(stored_bytes=50_000))
    large = JOB._replace(payload={"task": "echo", "args": ["x" * 20_000], "kwargs": {}})
    schedule = scheduler.create(ANN, large)
    scheduler.create(ANN, large)
    assert refusal_of(lambda: scheduler.create(ANN, large)).code == "quota"
    grown = Changes(payload={"task": "echo", "args": ["x" * 40_000], "kwargs": {}})
    assert refusal_of(lambda: scheduler.edit(ANN, schedule.definition.public_id, grown)).code == "quota"
    callback = {"on": "failure", "kind": "request", "payload": {"headers": {"x": "h" * 20_000}}}
    more = Changes(policy={"callbacks": [callback]})
    assert refusal_of(lambda: scheduler.edit(ANN, schedule.definition.public_id, more)).code == "quota"
    for _ in range(5):
        scheduler.create(Caller("local"), large)
    store.close()


def test_a_preview_refuses_what_a_create_refuses(scheduler: Scheduler) -> None:
    preview = refusal_of(scheduler.preview, "interval", {"seconds": 0.1})
    creation = refusal_of(scheduler.create, ANN, JOB._replace(trigger_config={"seconds": 0.1}))
    assert (preview.code, preview.message, preview.details) == (creation.code, creation.message, creation.details)


def test_a_preview_shows_a_time_that_is_now(scheduler: Scheduler) -> None:
    shown = scheduler.preview("once", {"run_at": "in 0 seconds"})
    assert shown.instants == [scheduler.clock.now()]


@pytest.mark.parametrize(("name", "least"), [("timeout", "at least 0.001"), ("grace", "at least 0")])
def test_spans_are_refused_in_seconds(scheduler: Scheduler, name: str, least: str) -> None:
    most = {"timeout": 2_592_000, "grace": 31_536_000}[name]
    for value in (-1, 10**18, 0.5, *((999,) if name == "timeout" else ())):
        said = refusal_of(scheduler.create, ANN, JOB._replace(policy={name: value})).message
        assert said == f"{name}: must be {least} and at most {most} seconds"
