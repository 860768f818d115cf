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
from duetime.engine.result import Err, Ok, Result
from duetime.engine.scheduler import Scheduler
from duetime.engine.store import ScheduleQuery
from duetime.engine.validation import Changes, NewSchedule
from duetime.kinds.jobs.builtin import TASKS
from duetime.kinds.jobs.kind import JobKind
from duetime.kinds.jobs.registry import Registry
from duetime.kinds.notifications.delivery import MESSENGER
from duetime.kinds.notifications.kind import NotificationKind
from duetime.stores.sqlite.store import SqliteStore
from duetime.testing import SettableClock

ANN, BEN = Caller("ann"), Caller("ben")
SetOff = Callable[[Scheduler, Caller, str], Result[Any]]
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


def made(result: Result[Schedule]) -> Schedule:
    assert isinstance(result, Ok), result
    return result.value


def refusal(result: Result[Any]) -> Err:
    assert isinstance(result, Err), result
    return result


def total(scheduler: Scheduler) -> int:
    page = scheduler.search(Caller("x", operator=True), ScheduleQuery())
    assert isinstance(page, Ok)
    return page.value.total


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
    err = refusal(scheduler.create(ANN, JOB._replace(**changes)))
    assert err.message
    assert said in err.message
    assert total(scheduler) == 0


def test_one_bad_draft_refuses_the_whole_bulk(scheduler: Scheduler) -> None:
    refusal(scheduler.create_many(ANN, [JOB, JOB._replace(name="")]))
    assert total(scheduler) == 0


def test_a_request_that_is_repeated_creates_as_many_schedules(scheduler: Scheduler) -> None:
    other = JOB._replace(name="other")
    for caller, news in ((ANN, [JOB] * 4), (BEN, [JOB, other] * 2)):
        result = scheduler.create_many(caller, news)
        assert isinstance(result, Ok)
        definitions = [each.definition for each in result.value]
        assert [each.name for each in definitions] == [new.name for new in news]
        assert len({each.key for each in definitions}) == len({each.public_id for each in definitions}) == 4


def test_a_key_returns_the_first_result_and_creates_nothing(scheduler: Scheduler, clock: SettableClock) -> None:
    keyed = JOB._replace(idempotency_key="k")
    first = made(scheduler.create(ANN, keyed))
    clock.move_to(instant_of(datetime(2026, 3, 2, 13, tzinfo=UTC)))
    assert made(scheduler.create(ANN, keyed)).definition == first.definition
    assert total(scheduler) == 1
    assert refusal(scheduler.create(ANN, keyed._replace(name="other"))).code == "key_reused"
    assert made(scheduler.create(BEN, keyed)).definition.id != first.definition.id


def test_the_limit_of_schedules_is_per_owner_and_counts_the_living(scheduler: Scheduler) -> None:
    schedules = [made(scheduler.create(ANN, JOB)) for _ in range(5)]
    assert refusal(scheduler.create(ANN, JOB)).code == "quota"
    made(scheduler.create(BEN, JOB))
    scheduler.cancel(ANN, schedules[0].definition.public_id)
    made(scheduler.create(ANN, JOB))
    assert refusal(scheduler.create_many(BEN, [JOB] * 5)).code == "quota"


def test_what_belongs_to_another_does_not_exist(scheduler: Scheduler) -> None:
    theirs = made(scheduler.create(ANN, JOB)).definition.public_id
    unknown = "job_999_1"
    for ask in (scheduler.pause, scheduler.resume, scheduler.cancel, scheduler.delete, scheduler.run_now):
        assert ask(BEN, theirs) == ask(BEN, unknown)
        assert refusal(ask(BEN, theirs)).code == "not_found"
    assert scheduler.edit(BEN, theirs, Changes(name="mine")) == scheduler.edit(BEN, unknown, Changes(name="mine"))
    assert scheduler.find(BEN, theirs) is None
    assert scheduler.history(BEN, theirs) == scheduler.history(BEN, unknown)
    page = scheduler.search(BEN, ScheduleQuery(owner="ann"))
    assert isinstance(page, Ok)
    assert page.value.items == []
    assert scheduler.find(Caller("root", operator=True), theirs) is not None


@pytest.mark.parametrize("odd", ["", "'; DROP TABLE schedules; --", "x" * 10_000, "a\x00b", "\ud800", "../../etc", "%"])
def test_any_text_may_be_asked_for_as_an_id(scheduler: Scheduler, odd: str) -> None:
    assert scheduler.find(ANN, odd) is None
    assert refusal(scheduler.cancel(ANN, odd)).code == "not_found"
    assert refusal(scheduler.history(ANN, odd)).code == "not_found"


def test_an_edit_changes_only_what_it_names(scheduler: Scheduler) -> None:
    before = made(scheduler.create(ANN, JOB))
    after = made(scheduler.edit(ANN, before.definition.public_id, Changes(name="new")))
    assert after.definition.name == "new"
    assert after.definition.version == before.definition.version + 1
    assert after.definition._replace(name="say", version=1, updated=before.definition.updated) == before.definition
    assert after.progress == before.progress


def test_an_edit_of_an_older_version_is_refused(scheduler: Scheduler) -> None:
    schedule = made(scheduler.create(ANN, JOB)).definition.public_id
    made(scheduler.edit(ANN, schedule, Changes(name="one", version=1)))
    assert refusal(scheduler.edit(ANN, schedule, Changes(name="two", version=1))).code == "conflict"


def test_two_edits_at_once_both_take_effect(scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = made(scheduler.create(ANN, JOB)).definition.public_id
    patch = scheduler.drafter.patch

    def patch_amid_another_edit(*arguments: Any) -> Edit:
        edit = patch(*arguments)
        monkeypatch.undo()
        made(scheduler.edit(ANN, schedule, Changes(policy={"at_most_once": True})))
        return edit

    monkeypatch.setattr(scheduler.drafter, "patch", patch_amid_another_edit)
    edited = made(scheduler.edit(ANN, schedule, Changes(policy={"pause_after": 3}))).definition
    policy = json.loads(edited.policy)
    assert (policy["at_most_once"], policy["pause_after"], edited.version) == (True, 3, 3)


def test_a_bad_edit_changes_nothing(scheduler: Scheduler) -> None:
    schedule = made(scheduler.create(ANN, JOB))
    public_id = schedule.definition.public_id
    refusal(scheduler.edit(ANN, public_id, Changes(trigger_type="cron", trigger_config={"expression": "nope"})))
    refusal(scheduler.edit(ANN, public_id, Changes(name="fine", policy={"max_runs": -1})))
    refusal(scheduler.edit(ANN, public_id, Changes(next=instant_of(datetime(2020, 1, 1, tzinfo=UTC)))))
    assert scheduler.find(ANN, public_id) == schedule


NEVER = {"at_most_once": True, "catch_up": "skip", "grace": 0}
"""At most once is claimed at its instant or after it, and this tolerates nothing after it."""


def test_options_that_could_never_run_together_are_refused(scheduler: Scheduler) -> None:
    refused = refusal(scheduler.create(ANN, JOB._replace(policy=NEVER)))
    assert (refused.code, refused.details["field"]) == ("invalid", "grace")
    assert total(scheduler) == 0
    for other in ({"grace": SECOND}, {"catch_up": "once"}, {"at_most_once": False}):
        made(scheduler.create(ANN, JOB._replace(policy=NEVER | other)))
    jittered = {"hours": 1, "jitter": 5}
    made(scheduler.create(ANN, JOB._replace(trigger_config=jittered, policy=NEVER)))


def test_an_edit_that_says_when_its_rule_begins_does_not_keep_an_earlier_start(scheduler: Scheduler) -> None:
    begins = {"rrule": "FREQ=DAILY", "start": "2090-03-01T00:00:00Z"}
    schedule = made(scheduler.create(ANN, JOB._replace(trigger_type="rrule", trigger_config=begins)))
    rule = {"rrule": "FREQ=DAILY;COUNT=5", "dtstart": "2090-02-01T09:00:00Z"}
    edited = made(
        scheduler.edit(ANN, schedule.definition.public_id, Changes(trigger_type="rrule", trigger_config=rule))
    )
    assert edited.progress.next == instant_of(datetime(2090, 2, 1, 9, tzinfo=UTC))


def test_an_edit_to_options_that_could_never_run_is_refused(scheduler: Scheduler) -> None:
    schedule = made(scheduler.create(ANN, JOB._replace(policy=NEVER | {"grace": SECOND})))
    public_id = schedule.definition.public_id
    assert refusal(scheduler.edit(ANN, public_id, Changes(policy={"grace": 0}))).details["field"] == "grace"
    jittered = made(scheduler.create(ANN, JOB._replace(trigger_config={"hours": 1, "jitter": 5}, policy=NEVER)))
    plain = Changes(trigger_type="interval", trigger_config={"hours": 1, "jitter": None})
    assert refusal(scheduler.edit(ANN, jittered.definition.public_id, plain)).details["field"] == "grace"
    assert scheduler.find(ANN, public_id) == schedule


def test_only_what_is_pending_can_be_edited(scheduler: Scheduler) -> None:
    public_id = made(scheduler.create(ANN, JOB)).definition.public_id
    assert scheduler.run_now(ANN, public_id).is_ok
    assert refusal(scheduler.edit(ANN, public_id, Changes(name="late", pending_only=True))).code == "not_possible"
    assert scheduler.edit(ANN, public_id, Changes(name="late")).is_ok, "it has further occurrences"
    scheduler.cancel(ANN, public_id)
    assert refusal(scheduler.edit(ANN, public_id, Changes(name="late"))).code == "not_possible"


def test_a_second_delete_finds_nothing(scheduler: Scheduler) -> None:
    public_id = made(scheduler.create(ANN, JOB)).definition.public_id
    assert scheduler.delete(ANN, public_id).is_ok
    assert refusal(scheduler.delete(ANN, public_id)).code == "not_found"


def test_agents_schedule_only_so_deep(scheduler: Scheduler) -> None:
    assert scheduler.create(Caller("ann", depth=3), JOB).is_ok
    assert refusal(scheduler.create(Caller("ann", depth=4), JOB)).code == "depth"


def test_who_schedules_too_deep_is_told_of_to_their_owner_once_a_day(
    scheduler: Scheduler, clock: SettableClock
) -> None:
    for alerts, owner, hours in ((1, "ann", 0), (1, "ann", 1), (2, "ben", 0), (3, "ann", 24)):
        clock.jump(timedelta(hours=hours))
        assert refusal(scheduler.create(Caller(owner, depth=4), JOB)).code == "depth"
        assert total(scheduler) == alerts
    [told] = _notifications(scheduler, BEN)
    assert told.definition.name == "An agent keeps scheduling itself"


def _notifications(scheduler: Scheduler, caller: Caller) -> list[Schedule]:
    page = scheduler.search(caller, ScheduleQuery(kind="notification"))
    assert isinstance(page, Ok)
    return page.value.items


def _edited(scheduler: Scheduler, caller: Caller, public_id: str) -> Result[Any]:
    return scheduler.edit(caller, public_id, Changes(trigger_type="interval", trigger_config={"days": 30}))


def _fired(scheduler: Scheduler, caller: Caller, public_id: str) -> Result[Any]:
    return scheduler.run_now(caller, public_id)


def _retried(scheduler: Scheduler, caller: Caller, public_id: str) -> Result[Any]:
    run = scheduler.run_now(ANN, public_id)
    assert isinstance(run, Ok) and scheduler.cancel_run(ANN, run.value.id).is_ok
    return scheduler.retry(caller, run.value.id)


@pytest.mark.parametrize("set_off", [_edited, _fired, _retried])
def test_runs_that_set_each_other_off_come_no_deeper(scheduler: Scheduler, set_off: SetOff) -> None:
    """Nothing new is made, but without a count two agents that wake each other would never end."""
    ids = [made(scheduler.create(ANN, JOB._replace(policy={"overlap": "allow"}))).definition.public_id for _ in "ab"]
    for step in range(3):
        assert set_off(scheduler, Caller("ann", depth=_depth(scheduler, ids[step % 2]) + 1), ids[1 - step % 2]).is_ok
    assert [_depth(scheduler, id) for id in ids] == [2, 3]
    assert refusal(set_off(scheduler, Caller("ann", depth=4), ids[0])).code == "depth"
    assert set_off(scheduler, ANN, ids[1]).is_ok  # a person may, and changes nothing of how deep it is
    assert _depth(scheduler, ids[1]) == 3


def _depth(scheduler: Scheduler, public_id: str) -> int:
    found = scheduler.find(ANN, public_id)
    assert found is not None
    return found.definition.depth


def test_preview_reads_the_trigger_and_creates_nothing(scheduler: Scheduler) -> None:
    preview = scheduler.preview("cron", {"expression": "0 9 * * MON"}, timezone="Europe/Berlin", count=3)
    assert isinstance(preview, Ok)
    assert len(preview.value.instants) == 3
    assert "Europe/Berlin" in preview.value.english
    assert total(scheduler) == 0


def test_a_key_is_known_after_its_time_has_passed(scheduler: Scheduler, clock: SettableClock) -> None:
    keyed = JOB._replace(trigger_type="once", trigger_config={"run_at": "2026-03-02T12:30:00Z"}, idempotency_key="k")
    first = made(scheduler.create(ANN, keyed))
    clock.move_to(instant_of(datetime(2026, 3, 2, 13, tzinfo=UTC)))
    assert made(scheduler.create(ANN, keyed)).definition == first.definition
    assert refusal(scheduler.create(ANN, keyed._replace(name="other"))).code == "key_reused"
    assert "in the past" in refusal(scheduler.create(BEN, keyed)).message


def test_what_alone_would_use_up_an_hours_runs_is_refused(scheduler: Scheduler) -> None:
    scheduler.drafter.limits = Limits(runs_per_hour=4)
    err = refusal(scheduler.create(ANN, JOB._replace(trigger_config={"minutes": 10})))
    assert "more than 4 times an hour" in err.message
    made(scheduler.create(ANN, JOB._replace(trigger_config={"minutes": 15})))


def test_a_deleted_schedule_frees_its_key(scheduler: Scheduler) -> None:
    keyed = JOB._replace(idempotency_key="k")
    first = made(scheduler.create(ANN, keyed)).definition
    scheduler.delete(ANN, first.public_id)
    assert made(scheduler.create(ANN, keyed)).definition.id != first.id


def test_a_key_that_was_used_otherwise_refuses_the_whole_bulk(scheduler: Scheduler) -> None:
    made(scheduler.create(ANN, JOB._replace(idempotency_key="k1")))
    bulk = [JOB._replace(idempotency_key="k2"), JOB._replace(name="other", idempotency_key="k1")]
    assert refusal(scheduler.create_many(ANN, bulk)).code == "key_reused"
    assert total(scheduler) == 1


def test_keys_of_our_own_making_cannot_be_given(scheduler: Scheduler) -> None:
    assert "idempotency_key" in refusal(scheduler.create(ANN, JOB._replace(idempotency_key="~gone-2"))).message


def test_the_deepest_run_may_still_tell_a_person(scheduler: Scheduler) -> None:
    deep = Caller("ada", depth=scheduler.limits.depth + 1)
    scheduler = Scheduler(scheduler.store, {**scheduler.kinds, "notification": NotificationKind()}, scheduler.clock)
    told = NewSchedule("notification", "tell", "once", {"run_at": "now"}, {"message": "done", "topic": "garden"})
    assert isinstance(scheduler.create(deep, told), Ok)
    refused = scheduler.create(deep, JOB)
    assert isinstance(refused, Err) and refused.code == "depth"


def test_an_owner_has_a_limit_of_stored_bytes_and_local_has_none(clock: SettableClock) -> None:
    store = SqliteStore(":memory:", messenger=MESSENGER)
    store.migrate()
    scheduler = Scheduler(store, {"job": JobKind(Registry(TASKS))}, clock, limits=Limits(stored_bytes=50_000))
    large = JOB._replace(payload={"task": "echo", "args": ["x" * 20_000], "kwargs": {}})
    schedule = made(scheduler.create(ANN, large))
    made(scheduler.create(ANN, large))
    assert refusal(scheduler.create(ANN, large)).code == "quota"
    grown = Changes(payload={"task": "echo", "args": ["x" * 40_000], "kwargs": {}})
    assert refusal(scheduler.edit(ANN, schedule.definition.public_id, grown)).code == "quota"
    callback = {"on": "failure", "kind": "request", "payload": {"headers": {"x": "h" * 20_000}}}
    more = Changes(policy={"callbacks": [callback]})
    assert refusal(scheduler.edit(ANN, schedule.definition.public_id, more)).code == "quota"
    for _ in range(5):
        made(scheduler.create(Caller("local"), large))
    store.close()


def test_a_preview_refuses_what_a_create_refuses(scheduler: Scheduler) -> None:
    shown = scheduler.preview("interval", {"seconds": 0.1})
    created = scheduler.create(ANN, JOB._replace(trigger_config={"seconds": 0.1}))
    assert refusal(shown) == refusal(created)


def test_a_preview_shows_a_time_that_is_now(scheduler: Scheduler) -> None:
    shown = scheduler.preview("once", {"run_at": "in 0 seconds"})
    assert isinstance(shown, Ok) and shown.value.instants == [scheduler.clock.now()]


@pytest.mark.parametrize(("name", "least"), [("timeout", "at least 0.001"), ("grace", "at least 0")])
def test_spans_are_refused_in_seconds(scheduler: Scheduler, name: str, least: str) -> None:
    most = {"timeout": 2_592_000, "grace": 31_536_000}[name]
    for value in (-1, 10**18, 0.5, *((999,) if name == "timeout" else ())):
        said = refusal(scheduler.create(ANN, JOB._replace(policy={name: value}))).message
        assert said == f"{name}: must be {least} and at most {most} seconds"
