"""Incidents: one for each schedule and cause, told once, reminded of, over when it goes well again."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from duetime.engine.clock import DAY, HOUR, MINUTE, SECOND, Instant
from duetime.engine.model import Trouble
from duetime.engine.outcome import Failed, Outcome, Waiting
from duetime.engine.policy import changes
from duetime.engine.policy.changes import Edit
from duetime.engine.policy.incidents import ALERT_PAUSE, MAX_OPEN_CAUSES, MAX_REMINDERS, IncidentRow, cause_of
from duetime.engine.store import ScheduleQuery
from duetime.engine.worker.label_check import note_unreachable
from duetime.stores.base import BaseStore
from duetime.stores.incidents import MOST_NOTED
from tests.support.drafts import T0, every, once
from tests.support.hand import DONE, Hand, create, create_one

NO_WATER = Failed("RuntimeError: no water in tank 7", permanent=True)


def told(store: BaseStore, owner: str = "ada") -> list[str]:
    """Return the titles of the messages to the owner, oldest first."""
    messages = store.search(ScheduleQuery(owner=owner, kind="notification", limit=1000)).items
    return [json.loads(each.definition.payload)["title"] for each in messages]


def run_at(hand: Hand, now: int, outcome: Outcome = DONE) -> None:
    hand.record(hand.claim(now), now, outcome)


def open_incidents(store: BaseStore) -> list[IncidentRow]:
    return store.incidents("ada", 1000)


def tell(store: BaseStore, now: int) -> int:
    return store.tell_incidents(Instant(now))


def test_a_failure_opens_an_incident_that_is_told_once(store: BaseStore, hand: Hand) -> None:
    create_one(store, every())
    run_at(hand, T0 + MINUTE, NO_WATER)
    assert told(store) == []
    assert tell(store, T0 + MINUTE) == 1
    run_at(hand, T0 + 2 * MINUTE, NO_WATER)
    assert tell(store, T0 + 2 * MINUTE) == tell(store, T0 + HOUR) == 0
    assert told(store) == ["water the plants failed"]
    (incident,) = open_incidents(store)
    assert (incident.trouble, incident.number, incident.name) == (Trouble.FAILED, 2, "water the plants")
    assert (incident.first, incident.last) == (T0 + MINUTE, T0 + 2 * MINUTE)


def test_it_is_over_when_a_later_run_completes(store: BaseStore, hand: Hand) -> None:
    create_one(store, every())
    run_at(hand, T0 + MINUTE, NO_WATER)
    tell(store, T0 + MINUTE)
    run_at(hand, T0 + 2 * MINUTE)
    assert tell(store, T0 + 2 * MINUTE) == 0, "so soon after the first message, the owner gets no other"
    assert open_incidents(store) == []
    assert tell(store, T0 + MINUTE + ALERT_PAUSE) == 1
    assert told(store) == ["water the plants failed", "water the plants works again"]
    assert tell(store, T0 + 2 * DAY) == 0


def test_a_failure_that_nobody_was_told_of_ends_in_silence(store: BaseStore, hand: Hand) -> None:
    create_one(store, every())
    run_at(hand, T0 + MINUTE, NO_WATER)
    run_at(hand, T0 + 2 * MINUTE)
    tell(store, T0 + 2 * MINUTE)
    tell(store, T0 + 2 * DAY)
    assert told(store) == []


def test_the_owner_is_reminded_once_a_day_for_a_week(store: BaseStore, hand: Hand) -> None:
    create_one(store, once())
    run_at(hand, T0, NO_WATER)
    for hour in range(24 * 30):
        tell(store, T0 + hour * HOUR)
    assert len(told(store)) == 1 + MAX_REMINDERS
    assert len(open_incidents(store)) == 1


def test_numbers_and_ids_make_no_new_cause_but_another_error_does(store: BaseStore, hand: Hand) -> None:
    create_one(store, every(pause_after=0))
    errors = ["tank 7 is empty", "tank 12 is empty", "no permission", "tank 3 is empty"]
    for minute, error in enumerate(errors, 1):
        run_at(hand, T0 + minute * MINUTE, Failed(error, permanent=True))
    assert [(each.cause, each.number) for each in reversed(open_incidents(store))] == [
        ("failed: tank # is empty", 3),
        ("failed: no permission", 1),
    ]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("timed out after 60 seconds", "timed out after 61 seconds"),
        ("no route to 10.0.0.1 at 2026-01-02T03:04:05", "no route to 10.0.0.2 at 2027-11-12T13:14:15"),
        ("order 7f3a9c2e1b is gone", "order 0011aabbcc is gone"),
        ("KeyError: 'anna'", "KeyError: 'otto'"),
        ("can't open 'a.txt'", "can't open 'b.txt'"),
        ("no order abcdefab-12cd-4e5f-8a9b-001122334455", "no order 12345678-abcd-4aaa-bbbb-ccddeeff0011"),
        ("no order abcdefab", "no order fedcbafe"),
        ("request req_8fKd2x failed", "request req_Zp93kQ failed"),
        ("<object at 0x7f3b2c1d5e50>", "<object at 0xffff9f3c8d50>"),
        ("expired on Tue, 17 Nov 2026 20:42:21 GMT", "expired on Wed, 02 Dec 2026 07:01:00 GMT"),
        ("closed since Monday 9:30 AM", "closed since Thursday 10:15 PM"),
        ("answered 503 after 1.5s", "answered 502 after 0.25s"),
    ],
)
def test_what_changes_from_one_time_to_the_next_is_no_part_of_the_cause(one: str, other: str) -> None:
    assert cause_of(one) == cause_of(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("no permission", "no water"),
        ("Monitor failed", "Market failed"),
        ("the Decimal is wrong", "the August is wrong"),
        ("re-try failed", "pre-check failed"),
    ],
)
def test_other_words_are_another_cause(one: str, other: str) -> None:
    assert cause_of(one) != cause_of(other)


def test_the_causes_of_one_schedule_are_bounded(store: BaseStore, hand: Hand) -> None:
    create_one(store, every(pause_after=0))
    for minute in range(1, MAX_OPEN_CAUSES + 11):
        words = "".join(chr(ord("a") + int(digit)) for digit in str(minute))
        run_at(hand, T0 + minute * MINUTE, Failed(f"error {words}", permanent=True))
    incidents = open_incidents(store)
    assert len(incidents) == MAX_OPEN_CAUSES + 1
    assert sum(each.number for each in incidents) == MAX_OPEN_CAUSES + 10


def test_failures_together_are_few_messages(store: BaseStore, hand: Hand) -> None:
    create(store, *(every(name=f"plant {number}") for number in range(300)))
    for batch in range(3):
        hand.record(hand.claim(T0 + MINUTE), T0 + MINUTE + batch, NO_WATER)
        tell(store, T0 + MINUTE + batch)
    tell(store, T0 + 2 * MINUTE)
    assert told(store) == ["100 problems need attention"]
    tell(store, T0 + 12 * MINUTE)
    assert told(store)[1:] == ["200 problems need attention"]
    for _ in range(3):
        run_at(hand, T0 + 20 * MINUTE)
    for minute in range(20, 60):
        tell(store, T0 + minute * MINUTE)
    assert told(store)[2:] == ["300 problems are over"]


def test_each_owner_is_told_alone(store: BaseStore, hand: Hand) -> None:
    create(store, every(), every(owner="bob"))
    run_at(hand, T0 + MINUTE, NO_WATER)
    assert tell(store, T0 + MINUTE) == 2
    assert len(store.incidents("bob", 10)) == len(open_incidents(store)) == 1
    assert len(store.incidents(None, 10)) == 2


@pytest.mark.parametrize(("alert", "messages"), [("first", 1), ("every", 3), ("off", 0)])
def test_a_schedule_chooses_when_its_owner_is_told(store: BaseStore, hand: Hand, alert: str, messages: int) -> None:
    create_one(store, every(HOUR, alert=alert))
    for hour in range(1, 4):
        run_at(hand, T0 + hour * HOUR, NO_WATER)
        tell(store, T0 + hour * HOUR)
    assert len(told(store)) == messages
    assert len(open_incidents(store)) == 1, "also where nobody is told, it can be seen"


def test_a_schedule_that_reports_its_failures_causes_no_second_message(store: BaseStore, hand: Hand) -> None:
    told_here = [every(deliver_to="garden", notify_on=on) for on in ("always", "failure", "change")]
    create(store, *told_here, every(deliver_to="garden", notify_on="success", name="mow"))
    run_at(hand, T0 + MINUTE, NO_WATER)
    tell(store, T0 + MINUTE)
    assert told(store) == [*["water the plants failed"] * 3, "mow failed"]
    run_at(hand, T0 + 2 * MINUTE, DONE)
    tell(store, T0 + 2 * MINUTE)
    tell(store, T0 + MINUTE + ALERT_PAUSE)
    assert sorted(told(store)[4:]) == ["mow completed", "mow works again", *["water the plants completed"] * 2]


def test_an_alert_that_cannot_be_delivered_causes_none(store: BaseStore, hand: Hand) -> None:
    create(store, every(HOUR), once(deliver_to="garden", name="mow"))
    run_at(hand, T0, DONE)  # its message is given up
    run_at(hand, T0 + HOUR, NO_WATER)
    tell(store, T0 + HOUR)
    for hour in range(2, 5):
        hand.record(hand.claim(T0 + hour * HOUR, lanes=["notification"]), T0 + hour * HOUR, NO_WATER)
        tell(store, T0 + hour * HOUR)
    assert [each.trouble for each in reversed(open_incidents(store))] == [Trouble.FAILED, Trouble.UNDELIVERED]
    assert told(store) == ["mow completed", "water the plants failed", "mow completed was not delivered"]


def test_a_message_to_a_person_that_failed_was_not_delivered(store: BaseStore, hand: Hand) -> None:
    create_one(store, every(HOUR, kind="notification", payload='{"title": "tea"}', name="tea"))
    hand.record(hand.claim(T0 + HOUR, lanes=["notification"]), T0 + HOUR, NO_WATER)
    tell(store, T0 + HOUR)
    assert told(store) == ["tea", "tea was not delivered"]
    assert [each.trouble for each in open_incidents(store)] == [Trouble.FAILED], "as it is recorded"


def test_a_resolved_incident_is_not_told_again_until_it_is_over(store: BaseStore, hand: Hand) -> None:
    create_one(store, every(HOUR))
    run_at(hand, T0 + HOUR, NO_WATER)
    tell(store, T0 + HOUR)
    (incident,) = open_incidents(store)
    assert incident.run is not None
    store.change_run(incident.run, Instant(T0 + HOUR), changes.dismiss)
    run_at(hand, T0 + 2 * HOUR, NO_WATER)
    tell(store, T0 + 3 * DAY)
    (incident,) = open_incidents(store)
    assert incident.resolved == T0 + HOUR
    run_at(hand, T0 + 3 * HOUR)
    tell(store, T0 + 3 * HOUR)
    run_at(hand, T0 + 4 * HOUR, NO_WATER)
    tell(store, T0 + 4 * HOUR)
    assert told(store) == ["water the plants failed"] * 2


def test_an_incident_can_be_reopened(store: BaseStore, hand: Hand) -> None:
    create_one(store, once())
    run_at(hand, T0, NO_WATER)
    tell(store, T0)
    (incident,) = open_incidents(store)
    assert incident.run is not None
    store.change_run(incident.run, Instant(T0 + HOUR), changes.dismiss)
    store.change_run(incident.run, Instant(T0 + HOUR), lambda change, run: changes.dismiss(change, run, undo=True))
    tell(store, T0 + HOUR)
    tell(store, T0 + HOUR + DAY)
    assert told(store) == ["water the plants failed", "Still open: water the plants failed"]


@pytest.mark.parametrize("end", [changes.cancel, changes.delete])
def test_a_schedule_that_is_gone_has_no_open_incident(store: BaseStore, hand: Hand, end: object) -> None:
    schedule = create_one(store, every(HOUR))
    run_at(hand, T0 + HOUR, NO_WATER)
    tell(store, T0 + HOUR)
    store.change(schedule, Instant(T0 + HOUR), end)  # type: ignore[arg-type]
    tell(store, T0 + 2 * DAY)
    assert (open_incidents(store), told(store)) == ([], ["water the plants failed"])


def test_missed_occurrences_are_told_unless_one_is_caught_up(store: BaseStore, hand: Hand) -> None:
    create(store, every(HOUR, catch_up="skip", name="tide"), every(HOUR, name="plants"))
    run_at(hand, T0 + 5 * HOUR + 30 * MINUTE)
    tell(store, T0 + 6 * HOUR)
    assert told(store) == ["tide was missed"]


def test_a_worker_of_a_session_misses_in_silence(store: BaseStore) -> None:
    create_one(store, every(HOUR, catch_up="skip"))
    hand = Hand(store)
    hand.id = store.register("editor", ("job",), True, Instant(T0))
    run_at(hand, T0 + 5 * HOUR + 30 * MINUTE)
    tell(store, T0 + 6 * HOUR)
    assert (told(store), open_incidents(store)) == ([], [])


def test_a_prompt_that_nobody_took_is_told(store: BaseStore, hand: Hand) -> None:
    create_one(store, every(HOUR, untaken="replace"))
    for hour in (1, 2):
        run_at(hand, T0 + hour * HOUR, Waiting())
    tell(store, T0 + 2 * HOUR)
    assert told(store) == ["water the plants waits: nobody took it"]


def test_a_schedule_that_paused_itself_is_told_and_over_when_resumed(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(HOUR, pause_after=2))
    for hour in (1, 2):
        run_at(hand, T0 + hour * HOUR, NO_WATER)
        tell(store, T0 + hour * HOUR)
    assert told(store) == ["water the plants failed", "water the plants is paused"]
    store.change(schedule, Instant(T0 + 3 * HOUR), changes.resume)
    tell(store, T0 + 3 * HOUR)
    assert [each.trouble for each in open_incidents(store)] == [Trouble.FAILED]


def test_a_failure_after_a_pause_that_is_over_is_told_as_a_failure(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(2 * MINUTE, pause_after=2))
    for minute in (2, 4):
        run_at(hand, T0 + minute * MINUTE, NO_WATER)
        tell(store, T0 + minute * MINUTE)
    tell(store, T0 + 12 * MINUTE)
    assert told(store) == ["water the plants failed", "water the plants is paused"]
    store.change(schedule, Instant(T0 + 13 * MINUTE), changes.resume)
    run_at(hand, T0 + 14 * MINUTE)
    tell(store, T0 + 14 * MINUTE)
    run_at(hand, T0 + 16 * MINUTE, Failed("ValueError: other", permanent=True))
    for minute in range(16, 60):
        tell(store, T0 + minute * MINUTE)
    assert told(store)[2:] == ["water the plants failed"]


def test_a_pause_is_told_however_many_causes_are_open(store: BaseStore, hand: Hand) -> None:
    number = MAX_OPEN_CAUSES + 5
    create_one(store, every(2 * MINUTE, pause_after=number))
    for minute in range(2, 2 * number + 2, 2):
        error = Failed(f"Error: {'abcdefghijklmnopqrstuvwxyz'[minute // 2 % 26] * 3}", permanent=True)
        run_at(hand, T0 + minute * MINUTE, error)
    for hour in range(1, 4):
        tell(store, T0 + hour * HOUR)
    assert "water the plants is paused" in told(store)


def test_an_incident_is_told_once_alerts_are_switched_on(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(2 * MINUTE, alert="off", pause_after=0))
    run_at(hand, T0 + 2 * MINUTE, NO_WATER)
    policy = json.dumps({"alert": "first", "pause_after": 0})
    store.change(schedule, Instant(T0 + 3 * MINUTE), partial(changes.edit, patch=Edit(policy=policy)))
    assert tell(store, T0 + 3 * MINUTE) == 0
    for minute in (4, 6):
        run_at(hand, T0 + minute * MINUTE, NO_WATER)
        tell(store, T0 + minute * MINUTE)
    assert told(store) == ["water the plants failed"]


def test_two_processes_tell_an_owner_once(store: BaseStore, opener: object, hand: Hand) -> None:
    create_one(store, once())
    run_at(hand, T0, NO_WATER)
    other: BaseStore = opener()  # type: ignore[operator]
    assert tell(store, T0 + SECOND) + tell(other, T0 + SECOND) == 1
    assert told(store) == ["water the plants failed"]


def test_incidents_that_are_over_are_deleted_with_the_history(store: BaseStore, hand: Hand) -> None:
    create_one(store, every(HOUR))
    run_at(hand, T0 + HOUR, NO_WATER)
    run_at(hand, T0 + 2 * HOUR)
    tell(store, T0 + 2 * HOUR)
    run_at(hand, T0 + 3 * HOUR, NO_WATER)
    store.prune(Instant(T0 + 30 * DAY), 1000)
    assert [each.first for each in open_incidents(store)] == [T0 + 3 * HOUR]


def test_many_owners_whose_work_has_no_worker_cost_few_statements(
    store: BaseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The work of a thousand owners waits for a label: each look notes a bounded number in one transaction."""
    owners = [f"owner {number}" for number in range(5 * MOST_NOTED)]
    for at in (T0 + SECOND, T0):
        create(store, *(once(at, owner=owner, name=f"of {at}", needs="gpu") for owner in owners))
    calls = Counter[str]()

    def counted(name: str) -> Callable[..., Any]:
        method = getattr(store, name)

        def call(*values: Any) -> Any:
            calls[name] += 1
            return method(*values)

        return call

    for name in ("_rows", "_write"):
        monkeypatch.setattr(store, name, counted(name))
    noted = []
    for minute in range(2, 9):
        note_unreachable(store, Instant(T0 + minute * MINUTE))
        noted.append(dict(calls))
        calls.clear()
    assert noted == [{"_rows": 3, "_write": 1}] * 5 + [{"_rows": 3}] * 2
    incidents = store.incidents(None, 5_000)
    assert sorted(each.owner for each in incidents) == sorted(owners)
    assert {(each.name, each.number) for each in incidents} == {(f"of {T0}", 1)}, "what has waited longest, once"
