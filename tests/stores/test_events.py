"""Events on every store: how they are kept, which schedules they reach, and what each schedule makes of them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from duetime.engine.clock import DAY, HOUR, MINUTE, NEVER, SECOND, Instant
from duetime.engine.errors import LimitReached
from duetime.engine.model import EventRow, RunStatus, ScheduleId, ScheduleState, event_of
from duetime.engine.outcome import Completed, Failed, Returned, Skipped, Waiting
from duetime.engine.policy import changes, checkout
from duetime.engine.policy.changes import Edit
from duetime.engine.policy.claim import Claim
from duetime.engine.policy.gates import GateGift, give
from duetime.engine.policy.options import make_policy, policy_to_json
from duetime.engine.store import ScheduleQuery
from duetime.engine.triggers import trigger_to_json
from duetime.engine.triggers.event import EventTrigger
from duetime.stores import events
from duetime.stores.base import BaseStore
from tests.support.drafts import T0, every
from tests.support.gate_world import GATE
from tests.support.hand import Hand, create, create_one, runs_of, statuses, the
from tests.support.happenings import expand, send, waits
from tests.support.invariants import invariants


def change(store: BaseStore, schedule: ScheduleId, name: str, now: int = T0, *given: Any) -> Any:
    return store.change(schedule, Instant(now), lambda each: getattr(changes, name)(each, *given))


def reasons(store: BaseStore, schedule: ScheduleId) -> list[tuple[str, str | None, int]]:
    return [(run.status, run.error, run.number) for run in runs_of(store, schedule)]


def test_an_event_starts_one_run_of_each_schedule_that_listens(store: BaseStore, hand: Hand) -> None:
    heard = [create_one(store, waits(name)) for name in ("github.push", "github.*", "*")]
    others = [create_one(store, draft) for draft in (waits("github.pull"), waits("github.push", owner="bob"), every())]
    event = send(store, "github.push", {"ref": "main"}, at=T0 + SECOND)
    assert not event.duplicate
    assert hand.claim(T0 + SECOND) == []
    assert store.events_wait
    assert expand(store, T0 + SECOND) == 1
    claims = hand.claim(T0 + SECOND)
    assert [claim.definition.id for claim in claims] == heard
    assert {claim.run.cause for claim in claims} == {f"event:{event.event_id}"}
    assert {claim.run.due for claim in claims} == {T0 + SECOND}
    assert [statuses(store, each) for each in others] == [[], [], []]
    hand.record(claims, T0 + 2 * SECOND)
    assert [statuses(store, each) for each in heard] == [["completed"]] * 3
    assert the(store, heard[0]).progress.next == NEVER
    assert (expand(store), store.has_open_events()) == (0, False)
    kept = store.event(event.event_id)
    assert kept is not None
    assert (kept.name, kept.data, kept.reached) == ("github.push", '{"ref": "main"}', None)


def test_listeners_of_a_name(store: BaseStore) -> None:
    heard = [create_one(store, waits(name)) for name in ("github.push", "github.*", "*")]
    for draft in (waits("github.pull"), waits("github.push", owner="bob"), every()):
        create_one(store, draft)
    change(store, heard[1], "pause")
    change(store, create_one(store, waits("*")), "cancel")
    assert [each.definition.id for each in store.listeners_of("ada", "github.push", 9)] == heard
    assert [each.definition.id for each in store.listeners_of("ada", "github.push", 2)] == heard[:2]
    assert [each.definition.id for each in store.listeners_of("ada", "push", 9)] == heard[2:]


@pytest.mark.parametrize(
    ("where", "data", "reached"),
    [
        ({"ref": "main"}, {"ref": "main"}, True),
        ({"ref": "main"}, {"ref": "other"}, False),
        ({"ref": "main"}, {}, False),
        ({"a.b.0.c": 5}, {"a": {"b": [{"c": 5}]}}, True),
        ({"a.b.1.c": 5}, {"a": {"b": [{"c": 5}]}}, False),
        ({"ok": True}, {"ok": True}, True),
        ({"ok": True}, {"ok": 1}, False),
        ({"ref": ["main", "next"]}, {"ref": "next"}, True),
        ({"ref": "*"}, {"ref": None}, True),
        ({"ref": ["*"]}, {"ref": "x"}, False),
        ({"ref": "main", "by": "ada"}, {"ref": "main", "by": "bob"}, False),
        ({"ref": "main"}, ["main"], False),
        ({"0": "main"}, ["main"], True),
        ({"ref": "main"}, "main", False),
    ],
)
def test_conditions(store: BaseStore, where: Any, data: Any, reached: bool) -> None:
    schedule = create_one(store, waits(where=where))
    send(store, data=data)
    expand(store)
    assert len(runs_of(store, schedule)) == int(reached)


def test_a_key_is_stored_once_per_name_and_owner(store: BaseStore) -> None:
    schedule = create_one(store, waits("*", overlap="queue"))
    first = send(store, "push", {"n": 1}, key="a")
    again = send(store, "push", {"n": 2}, key="a", at=T0 + 1)
    assert again == (first.event_id, True)
    others = [send(store, "pull", key="a"), send(store, "push", key="a", owner="bob"), send(store, "push", key="b")]
    assert not any(each.duplicate for each in others)
    assert len({first.event_id, *(each.event_id for each in others)}) == 4
    expand(store)
    assert [event_of(run.cause) for run in runs_of(store, schedule)] == [
        each.event_id for each in (first, others[0], others[2])
    ]


def test_the_order_of_arrival_is_kept_without_a_worker(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, waits(overlap="queue"))
    sent = [send(store, data=number, at=T0 + number).event_id for number in range(250)]
    later = create_one(store, waits(created=Instant(T0 + HOUR)))
    now = T0 + DAY
    expand(store, now)
    seen = []
    while claims := hand.claim(now):
        seen += [event_of(claim.run.cause) for claim in claims]
        hand.record(claims, now)
    assert seen == sent[:101]  # one runs, and a hundred may wait behind it
    assert reasons(store, schedule)[-1] == ("skipped", "its queue was full", 149)
    assert statuses(store, later) == []  # it did not exist when they arrived


def test_an_event_from_a_machine_whose_clock_is_a_bit_behind_is_heard(store: BaseStore) -> None:
    """Its sender was told that it starts the schedule. Whoever shares a file shares a clock."""
    schedule = create_one(store, waits(created=Instant(T0 + SECOND - 1)))
    send(store)
    expand(store, T0 + 2 * SECOND)
    assert statuses(store, schedule) == (["pending"] if store.writes_overlap else [])
    later = create_one(store, waits(created=Instant(T0 + 3 * SECOND + 1)))
    send(store, at=T0 + 2 * SECOND)
    expand(store, T0 + 4 * SECOND)
    assert statuses(store, later) == []


def test_a_schedule_from_a_clock_that_was_ahead_hears_what_comes(store: BaseStore) -> None:
    schedule = create_one(store, waits(created=Instant(T0 + HOUR)))
    send(store)
    expand(store)
    assert statuses(store, schedule) == ["pending"]


@pytest.mark.parametrize(("overlap", "limit"), [("skip", 100), ("queue", 2)])
def test_skips_share_a_row(store: BaseStore, hand: Hand, overlap: str, limit: int) -> None:
    schedule = create_one(store, waits(overlap=overlap, queue_limit=limit))
    for number in range(6):
        send(store, at=T0 + number)
    expand(store)
    queued = ["queued"] * (limit if overlap == "queue" else 0)
    reason = "its queue was full" if queued else "an earlier run was still active"
    assert statuses(store, schedule) == ["pending", *queued, "skipped"]
    send(store, at=T0 + 9)
    expand(store, T0 + 9)
    assert reasons(store, schedule)[-1] == ("skipped", reason, 6 - len(queued))
    assert runs_of(store, schedule)[-1].last == T0 + 9


def test_with_allow_all_run_at_once(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, waits(overlap="allow"))
    for number in range(3):
        send(store, at=T0 + number)
    expand(store)
    assert len(hand.claim(T0)) == 3
    assert the(store, schedule).progress.active == 3


def test_the_latest_event_replaces_the_one_that_waits(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, waits(overlap="latest"))
    first = send(store)
    expand(store)
    claims = hand.claim(T0)
    sent = [send(store, at=T0 + number) for number in (1, 2, 3)]
    expand(store)
    rows = sorted((event_of(run.cause) or 0, run.status, run.number) for run in runs_of(store, schedule))
    assert rows == [(first.event_id, "running", 1), (sent[0].event_id, "skipped", 2), (sent[2].event_id, "queued", 1)]
    newest = send(store, at=T0 + 9)
    expand(store)
    hand.record(claims, T0 + 10)
    (claim,) = hand.claim(T0 + 10)
    assert claim.run.cause == f"event:{newest.event_id}"
    hand.record([claim], T0 + 11)
    assert hand.claim(T0 + 11) == []
    progress = the(store, schedule).progress
    assert (progress.run_count, progress.active, progress.queued) == (2, 0, 0)
    skipped = [run for run in runs_of(store, schedule) if run.status == "skipped"]
    assert {run.error for run in skipped} == {"a newer event came"}
    assert sum(run.number for run in skipped) == 3


def test_the_latest_event_takes_the_place_of_a_run_that_waits_for_its_time(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, waits(overlap="latest", cooldown=10 * MINUTE))
    send(store)
    expand(store)
    hand.record(hand.claim(T0), T0 + SECOND)
    newest = send(store, at=T0 + 1)
    for minute in (1, 2):
        expand(store, T0 + minute * MINUTE)
        newest = send(store, at=T0 + minute * MINUTE)
    expand(store, T0 + 3 * MINUTE)
    assert hand.claim(T0 + 10 * MINUTE - 1) == []
    (claim,) = hand.claim(T0 + 10 * MINUTE)
    assert claim.run.cause == f"event:{newest.event_id}"
    assert statuses(store, schedule).count("skipped") == 2


def test_a_cooldown_also_applies_to_what_is_queued(store: BaseStore, hand: Hand) -> None:
    create_one(store, waits(overlap="queue", cooldown=MINUTE))
    for number in range(3):
        send(store, at=T0 + number)
    expand(store)
    starts: list[int | None] = []
    now: int = T0
    while len(starts) < 3:
        for claim in hand.claim(now):
            starts.append(claim.run.started)
            hand.record([claim], now + SECOND)
        now += SECOND
    assert starts == [T0, T0 + MINUTE, T0 + 2 * MINUTE]


def test_a_cooldown_also_applies_after_a_pause(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, waits(overlap="latest", cooldown=10 * MINUTE))
    send(store)
    expand(store)
    hand.record(hand.claim(T0), T0 + SECOND)
    send(store, at=T0 + 1)
    expand(store, T0 + MINUTE)
    change(store, schedule, "pause", T0 + 2 * MINUTE)
    change(store, schedule, "resume", T0 + 3 * MINUTE)
    assert hand.claim(T0 + 10 * MINUTE - 1) == []
    assert len(hand.claim(T0 + 10 * MINUTE)) == 1


def test_a_pause_is_a_row_with_the_reason(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, waits(overlap="skip"))
    send(store)
    expand(store)
    send(store, at=T0 + 1)
    expand(store)
    change(store, schedule, "pause", T0 + 2)
    for number in (3, 4):
        send(store, at=T0 + number)
    expand(store, T0 + 5)
    change(store, schedule, "resume", T0 + 6)
    send(store, at=T0 + 7)
    expand(store, T0 + 7)
    assert reasons(store, schedule)[1:] == [
        ("skipped", "an earlier run was still active", 1),
        ("skipped", "the schedule was paused", 2),
        ("skipped", "an earlier run was still active", 1),
    ]
    hand.record(hand.claim(T0 + 8), T0 + 9)
    send(store, at=T0 + 10)
    expand(store, T0 + 10)
    assert len(hand.claim(T0 + 10)) == 1


@pytest.mark.parametrize("name", ["cancel", "delete"])
def test_what_is_over_hears_nothing(store: BaseStore, name: str) -> None:
    schedule = create_one(store, waits())
    send(store)
    change(store, schedule, name)
    expand(store)
    assert statuses(store, schedule) == []
    assert the(store, schedule).progress.next is None


def test_max_runs_end_the_schedule(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, waits(overlap="queue", max_runs=2))
    for number in range(4):
        send(store, at=T0 + number)
    expand(store)
    assert statuses(store, schedule) == ["pending", "queued"]
    for _ in range(2):
        hand.record(hand.claim(T0 + 1), T0 + 1)
    assert the(store, schedule).progress.state == ScheduleState.ENDED
    assert statuses(store, schedule) == ["completed"] * 2


def test_an_edit_decides_what_is_heard(store: BaseStore) -> None:
    schedule = create_one(store, waits("push"))
    send(store, "pull")
    trigger = trigger_to_json(EventTrigger(timezone="UTC", event="pull"))
    change(store, schedule, "edit", T0, Edit(trigger=trigger))
    assert the(store, schedule).progress.next == NEVER
    send(store, "push", at=T0 + 1)
    expand(store)
    assert len(runs_of(store, schedule)) == 1


def test_an_untaken_run_is_replaced(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, waits(overlap="latest"))
    send(store)
    expand(store)
    hand.record(hand.claim(T0), T0 + 1, Waiting(None))
    second = send(store, at=T0 + 2)
    expand(store, T0 + 2)
    assert statuses(store, schedule) == ["missed", "pending"]
    (claim,) = hand.claim(T0 + 2)
    assert claim.run.cause == f"event:{second.event_id}"


def test_a_retried_run_is_not_replaced(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, waits(overlap="latest", max_attempts=3))
    send(store)
    expand(store)
    hand.record(hand.claim(T0), T0 + 1, Failed("no"))
    send(store, at=T0 + 2)
    expand(store, T0 + 2)
    assert statuses(store, schedule) == ["pending", "queued"]


def test_a_manual_run_waits_for_its_turn_and_is_not_replaced(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, waits(overlap="latest"))
    send(store)
    expand(store)
    manual = change(store, schedule, "fire", T0 + 1)
    assert manual.status == RunStatus.QUEUED
    send(store, at=T0 + 2)
    expand(store, T0 + 2)
    assert sorted(statuses(store, schedule)) == ["pending", "queued", "skipped"]
    seen = []
    while claims := hand.claim(T0 + 3):
        seen += [claim.run.cause for claim in claims]
        hand.record(claims, T0 + 3)
    assert seen == ["event:2", "manual"]


def test_a_broken_listener_is_set_aside_and_the_rest_hears(store: BaseStore) -> None:
    broken, fine = create(store, waits(name="broken"), waits(name="fine"))
    torn = broken.definition._replace(trigger='{"event":"push","type":"event","where":3}')
    store.change(torn.id, T0, lambda _: (_definitions(torn), None))
    policy = create_one(store, waits())
    bad = the(store, policy).definition._replace(policy='{"overlap":"never"}')
    store.change(policy, T0, lambda _: (_definitions(bad), None))
    for number in range(3):
        send(store, at=T0 + number)
    expand(store)
    assert statuses(store, fine.definition.id)[0] == "pending"
    for schedule in (torn.id, policy):
        progress = the(store, schedule).progress
        assert progress.state == ScheduleState.BROKEN
        assert "cannot be planned" in (progress.note or "")
        assert [run.status for run in runs_of(store, schedule)] in ([], ["skipped"])
    assert not store.has_open_events()


def _definitions(*rows: Any) -> Any:
    from duetime.engine.policy.rows import Writes

    return Writes(definitions=list(rows))


def test_many_listeners_take_several_transactions(store: BaseStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MAX_DECISIONS", 7)
    monkeypatch.setattr(events, "MAX_LISTENERS", 10)
    heard = [each.definition.id for each in create(store, *(waits(overlap="queue") for _ in range(25)))]
    deaf = create_one(store, waits(where={"ref": "other"}))
    sent = [send(store, at=T0 + number).event_id for number in range(3)]
    assert expand(store) > 10
    for schedule in heard:
        assert [event_of(run.cause) for run in runs_of(store, schedule)] == sent
    assert statuses(store, deaf) == []


def test_too_many_events_in_a_minute_are_refused(store: BaseStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MAX_PER_MINUTE", 3)
    for _ in range(3):
        send(store)
    with pytest.raises(LimitReached, match="3 events a minute") as caught:
        send(store)
    assert caught.value.code == "too_many_requests"
    assert not send(store, owner="bob").duplicate
    assert not send(store, at=T0 + MINUTE).duplicate


def test_the_oldest_events_make_room(store: BaseStore, hand: Hand, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of runs that have not ended stay, whatever their age."""
    monkeypatch.setattr(events, "MAX_EVENTS", 10)
    monkeypatch.setattr(events, "TRIMMED_AT_ONCE", 5)
    create_one(store, waits("queued", overlap="queue"))
    live = [send(store, "queued", at=T0 + number).event_id for number in range(3)]
    expand(store)
    for number in range(40):
        send(store, "other", at=T0 + number)
        expand(store)
    numbers = [event.id for event in store.events_of("ada", 100)]
    assert set(live) <= set(numbers)
    assert len(numbers) <= 11
    assert list(store.event_names("ada", 100)) == ["other", "queued"]


def test_no_more_events_are_accepted_than_workers_turn_into_runs(
    store: BaseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a worker, none can be deleted: an acknowledged one is never lost."""
    monkeypatch.setattr(events, "MAX_EVENTS", 5)
    sent = [send(store).event_id for _ in range(5)]
    with pytest.raises(LimitReached, match="start a worker"):
        send(store)
    assert [event.id for event in store.events_of("ada", 10)] == sent[::-1]
    assert not send(store, owner="bob").duplicate
    expand(store)
    assert not send(store).duplicate


def test_the_latest_event_of_a_pattern(store: BaseStore) -> None:
    for number, name in enumerate(("github.push", "github.release", "github.issue", "other")):
        send(store, name, at=T0 + number)
    assert [event.name for event in store.latest_events("ada", "github.*")] == ["github.issue"]
    assert [event.name for event in store.latest_events("ada", "*")] == ["other"]


def test_old_events_are_pruned_unless_a_run_needs_them(store: BaseStore, hand: Hand) -> None:
    create_one(store, waits("push", overlap="queue"))
    first, second = send(store, "push"), send(store, "push", at=T0 + 1)
    expand(store)
    other, unread = send(store, "other"), send(store, "other", at=T0 + DAY)
    expand(store, T0 + DAY)
    assert store.prune_events(Instant(T0 + HOUR), 10) == 1
    assert store.event(other.event_id) is None
    assert store.event(unread.event_id) is not None
    for _ in range(2):
        hand.record(hand.claim(T0 + DAY), T0 + DAY, Completed("1"))
    assert store.prune_events(Instant(T0 + HOUR), 10) == 2
    assert (store.event(first.event_id), store.event(second.event_id)) == (None, None)


def test_an_event_that_is_repeated_uses_no_bytes(store: BaseStore) -> None:
    event = EventRow(0, "ada", "push", "key", Instant(T0), 0, '"' + "x" * 10_000 + '"')
    assert {store.emit(event, 50_000).duplicate for _ in range(20)} == {False, True}


def test_bytes_of_events_count(store: BaseStore) -> None:
    def emit(number: int) -> None:
        store.emit(EventRow(0, "ada", "push", None, Instant(T0), 0, '"' + number * "x" + '"'), 10_000)

    emit(9_000)
    with pytest.raises(LimitReached, match="stored"):
        emit(5_000)
    emit(500)


def test_a_clock_that_was_ahead_leaves_events_alone(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, waits(overlap="skip"))
    ahead = T0 + HOUR
    for number in range(3):
        send(store, at=ahead + number)
    expand(store, ahead)
    assert store.ahead(Instant(T0), 10) in ([], [schedule])
    change(store, schedule, "rewind", T0)
    rows = [row for row in reasons(store, schedule) if "the clock was ahead" not in (row[1] or "")]
    assert rows == [("pending", None, 1), ("skipped", "an earlier run was still active", 2)]
    (claim,) = hand.claim(T0)  # it was to start at once, and does
    hand.record([claim], T0 + 1)
    assert the(store, schedule).progress.next == NEVER
    send(store, at=T0 + 2)
    expand(store, T0 + 2)
    assert len(hand.claim(T0 + 2)) == 1


def test_the_listeners_of_an_owner(store: BaseStore) -> None:
    first, second = create(store, waits(), waits("other"))
    create(store, every(), waits(owner="bob"))
    change(store, second.definition.id, "pause")
    query = ScheduleQuery(firing=True, with_events=True, due_from=NEVER)
    assert store.search(replace(query, owner="ada")).items == [first]
    assert len(store.search(query).items) == 2


def test_events_are_pruned_with_the_history(store: BaseStore) -> None:
    send(store)
    send(store, at=T0 + DAY)
    assert store.prune(Instant(T0 + HOUR), 10) == 0  # they still wait to become runs
    expand(store)
    assert store.prune(Instant(T0 + HOUR), 10) == 1
    assert len(store.events_of("ada", 10)) == 1
    assert store.prune(Instant(T0 + HOUR), 10) == 0


def test_an_owner_who_stores_too_much_loses_old_events(store: BaseStore) -> None:
    for number in range(10):
        store.emit(EventRow(0, "ada", "push", None, Instant(T0 + number), 0, '"' + 1000 * "x" + '"'), 1_000_000)
    expand(store)
    while store.trim(5_000, Instant(T0 + DAY), 2):
        pass
    assert 0 < len(store.events_of("ada", 20)) < 5


# -- events and gates ------------------------------------------------------------------------------------------------


def let_pass(store: BaseStore, claim: Claim, now: int) -> bool | None:
    """Let the gate of a run pass, as a worker does before the work."""
    decide = partial(give, fence=claim.run.fence, gift=GateGift(result='"x"'))
    return store.change_run(claim.run.id, Instant(now), decide)


@pytest.mark.parametrize("overlap", ["latest", "queue", "skip"])
def test_an_untaken_run_is_replaced_by_an_event_that_passes_the_gate(
    store: BaseStore, hand: Hand, overlap: str
) -> None:
    schedule = create_one(store, waits(overlap=overlap, only_if=GATE))
    for number in range(3):
        send(store, at=T0 + number)
        expand(store, T0 + number)
        (claim,) = hand.claim(T0 + number)
        if number == 1:
            assert hand.record([claim], T0 + number, Skipped("no")) == ["recorded"]
            assert statuses(store, schedule) == ["waiting", "skipped"]
        else:
            assert let_pass(store, claim, T0 + number)
            hand.record([claim], T0 + number, Waiting(None))
    assert statuses(store, schedule) == ["missed", "skipped", "waiting"]
    progress = the(store, schedule).progress
    assert (progress.active, progress.untaken, progress.run_count) == (1, 1, 1)


@pytest.mark.parametrize("overlap", ["latest", "queue"])
def test_events_that_came_during_a_check_are_checked_beside_the_untaken_run(
    store: BaseStore, hand: Hand, overlap: str
) -> None:
    schedule = create_one(store, waits(overlap=overlap, only_if=GATE, untaken="replace"))
    send(store)
    expand(store)
    (claim,) = hand.claim(T0)
    let_pass(store, claim, T0)
    send(store, at=T0 + 1)
    expand(store, T0 + 1)
    hand.record([claim], T0 + 2, Waiting(None))
    assert statuses(store, schedule) == ["waiting", "pending"]
    (claim,) = hand.claim(T0 + 2)
    hand.record([claim], T0 + 2, Skipped("no"))
    assert statuses(store, schedule) == ["waiting", "skipped"]


def test_what_came_while_an_agent_had_the_run_is_checked_once_it_is_untaken_again(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, waits(overlap="queue", only_if=GATE))
    send(store)
    expand(store)
    (claim,) = hand.claim(T0)
    let_pass(store, claim, T0)
    hand.record([claim], T0, Waiting(None))
    lease = Instant(T0 + MINUTE)
    store.change_run(claim.run.id, T0, lambda each, run: checkout.hold(each, run, "ann", lease))
    send(store, at=T0 + 1)
    expand(store, T0 + 1)
    assert (statuses(store, schedule), hand.claim(lease)) == (["waiting", "queued"], [])
    hand.record(hand.claim(lease), lease, Skipped("no"))
    assert statuses(store, schedule) == ["waiting", "skipped"]


@pytest.mark.parametrize("overlap", ["latest", "queue", "allow"])
def test_events_wait_while_a_gate_may_still_skip_the_last_run_that_max_runs_allows(
    store: BaseStore, hand: Hand, overlap: str
) -> None:
    schedule = create_one(store, waits(overlap=overlap, only_if=GATE, max_runs=1))
    for number in range(4):
        send(store, at=T0 + number)
        expand(store, T0 + number)
    assert statuses(store, schedule) == ["pending", "queued", "queued", "queued"]
    for number in range(2):
        (claim,) = hand.claim(T0 + 9)
        assert claim.run.due == T0 + number
        hand.record([claim], T0 + 9, Skipped("no"))
        invariants(store)
    (claim,) = hand.claim(T0 + 9)
    last = "max_runs was reached by an earlier run"
    if not let_pass(store, claim, T0 + 9):  # a newer one could replace it
        last = "no"
        hand.record(hand.claim(T0 + 9), T0 + 9, Skipped(last))
        (claim,) = hand.claim(T0 + 9)
    hand.record([claim], T0 + 10)
    assert statuses(store, schedule) == ["skipped", "skipped", "completed", "skipped"]
    assert [row[1] for row in reasons(store, schedule)] == ["no", "no", None, last]
    progress = the(store, schedule).progress
    assert (progress.state, progress.run_count, progress.queued) == (ScheduleState.ENDED, 1, 0)


def test_a_schedule_whose_gate_refuses_all_events_goes_on_beyond_max_runs(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, waits(overlap="queue", only_if=GATE, max_runs=2))
    for number in range(5):
        send(store, at=T0 + number)
    expand(store, T0 + 9)
    while claims := hand.claim(T0 + 9):
        hand.record(claims, T0 + 9, Skipped("no"))
    progress = the(store, schedule).progress
    assert (progress.state, progress.run_count, progress.next) == (ScheduleState.ACTIVE, 0, NEVER)
    assert statuses(store, schedule) == ["skipped"] * 5


def test_events_after_the_last_run_has_passed_its_gate_are_not_heard(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, waits(overlap="queue", only_if=GATE, max_runs=1))
    send(store)
    expand(store)
    (claim,) = hand.claim(T0)
    assert len(store.listeners_of("ada", "push", 9)) == 1
    let_pass(store, claim, T0)
    assert store.listeners_of("ada", "push", 9) == []
    send(store, at=T0 + 1)
    expand(store, T0 + 1)
    assert statuses(store, schedule) == ["running"], "as without a gate"


def test_a_pause_keeps_what_waits_behind_the_last_run_until_the_resume(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, waits(overlap="queue", only_if=GATE, max_runs=1))
    for number in range(2):
        send(store, at=T0 + number)
    expand(store, T0 + 1)
    (claim,) = hand.claim(T0 + 2)
    let_pass(store, claim, T0 + 2)
    change(store, schedule, "pause", T0 + 3)
    hand.record([claim], T0 + 4)
    assert statuses(store, schedule) == ["completed", "queued"]
    change(store, schedule, "resume", T0 + 5)
    assert statuses(store, schedule) == ["completed", "skipped"]
    assert the(store, schedule).progress.state == ScheduleState.ENDED


def test_a_manual_run_in_the_queue_runs_beyond_max_runs(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, waits(overlap="queue", only_if=GATE, max_runs=1))
    send(store)
    expand(store)
    change(store, schedule, "fire", T0 + 1)
    (claim,) = hand.claim(T0 + 1)
    hand.record([claim], T0 + 1)
    assert statuses(store, schedule) == ["completed", "pending"]


def test_a_refused_event_replaces_none_that_passes(store: BaseStore, hand: Hand) -> None:
    """The newest of those that the gate lets pass runs, checked in the order in which they came."""
    schedule = create_one(store, waits(overlap="latest", only_if=GATE))
    send(store)
    expand(store)
    (first,) = hand.claim(T0)
    assert let_pass(store, first, T0)
    for number in range(1, 5):
        send(store, at=T0 + number)
        expand(store, T0 + number)
    assert statuses(store, schedule) == ["running", *["queued"] * 4]
    hand.record([first], T0 + 9)
    for number, passes in enumerate((True, False, True, False), 1):
        (claim,) = hand.claim(T0 + 10 + number)
        assert claim.run.due == T0 + number
        if passes:
            assert let_pass(store, claim, T0 + 10) is None, "newer ones are checked first"
            assert hand.record([claim], T0 + 10, Returned()) == ["stale"]
        else:
            hand.record([claim], T0 + 10, Skipped("no"))
        invariants(store)
    assert statuses(store, schedule) == ["completed", "skipped", "skipped", "pending", "skipped"]
    (claim,) = hand.claim(T0 + 20)
    assert store.gate_gift(claim.run.id) is not None, "it is not checked again"
    hand.record([claim], T0 + 21)
    assert [row[:2] for row in reasons(store, schedule)] == [
        ("completed", None),
        ("skipped", "a newer event came"),
        ("skipped", "no"),
        ("completed", None),
        ("skipped", "no"),
    ]
    progress = the(store, schedule).progress
    assert (progress.run_count, progress.active, progress.queued) == (2, 0, 0)


def test_a_refused_event_takes_the_place_of_none_that_waits_for_its_time(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, waits(overlap="latest", only_if=GATE, cooldown=10 * MINUTE))
    for number in range(3):
        send(store, at=T0 + number)
        expand(store, T0 + number)
        if not number:
            (claim,) = hand.claim(T0)
            let_pass(store, claim, T0)
            hand.record([claim], T0 + SECOND)
    assert hand.claim(T0 + 10 * MINUTE - 1) == []
    (claim,) = hand.claim(T0 + 10 * MINUTE)
    assert let_pass(store, claim, T0 + 10 * MINUTE) is None
    (newer,) = hand.claim(T0 + 10 * MINUTE)
    hand.record([newer], T0 + 10 * MINUTE, Skipped("no"))
    (again,) = hand.claim(T0 + 10 * MINUTE)
    assert again.run.id == claim.run.id
    hand.record([again], T0 + 11 * MINUTE)
    assert statuses(store, schedule) == ["completed", "completed", "skipped"]


def test_with_a_full_queue_the_newest_event_replaces_the_one_before(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, waits(overlap="latest", only_if=GATE, queue_limit=2))
    for number in range(5):
        send(store, at=T0 + number)
        expand(store, T0 + number)
    assert statuses(store, schedule) == ["pending", "queued", "skipped", "skipped", "queued"]


def test_a_manual_run_is_not_replaced_by_an_event_that_passes(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, waits(overlap="latest", only_if=GATE))
    send(store)
    expand(store)
    store.change(schedule, Instant(T0 + 1), lambda each: changes.fire(each, force=True))
    send(store, at=T0 + 2)
    expand(store, T0 + 2)
    causes = []
    while claims := hand.claim(T0 + 3):
        if store.gate_gift(claims[0].run.id) is not None or let_pass(store, claims[0], T0 + 3):
            causes.append(claims[0].run.cause)
            hand.record(claims, T0 + 3)
    assert sorted(causes) == ["event:2", "manual"]
    assert sorted(statuses(store, schedule)) == ["completed", "completed", "skipped"]


def test_a_run_that_is_asked_to_stop_or_whose_schedule_rests_does_not_wait_for_newer_events(
    store: BaseStore, hand: Hand
) -> None:
    for name in ("cancel_run", "pause", "cancel"):
        schedule = create_one(store, waits(name, overlap="latest", only_if=GATE))
        for number in range(2):
            send(store, name, at=T0 + number)
        expand(store, T0 + 1)
        (claim,) = hand.claim(T0 + 1)
        if name == "cancel_run":
            store.change_run(claim.run.id, Instant(T0 + 2), changes.cancel_run)
        else:
            change(store, schedule, name, T0 + 2)
        assert let_pass(store, claim, T0 + 3), name
        assert statuses(store, schedule)[0] == "running"
        invariants(store)


def test_a_run_does_not_wait_for_events_that_max_runs_allows_no_more(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, waits(overlap="latest", only_if=GATE, max_runs=9))
    for number in range(4):
        send(store, at=T0 + number)
        expand(store, T0 + number)
        if number < 2:
            (claim,) = hand.claim(T0 + number)
            assert let_pass(store, claim, T0 + number)
            hand.record([claim], T0 + number)
    (claim,) = hand.claim(T0 + 9)
    policy = policy_to_json(make_policy({"overlap": "latest", "only_if": GATE, "max_runs": 1}))
    change(store, schedule, "edit", T0 + 9, Edit(policy=policy))
    assert let_pass(store, claim, T0 + 9)
    assert statuses(store, schedule) == ["completed", "completed", "running", "skipped"]
