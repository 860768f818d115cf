"""Finding schedules and runs again."""

from __future__ import annotations

import pytest

from duetime.engine.clock import HOUR, MINUTE, Instant
from duetime.engine.errors import InvalidInput
from duetime.engine.model import RunStatus, status_of
from duetime.engine.outcome import Failed
from duetime.engine.policy import changes
from duetime.engine.store import RunQuery, ScheduleQuery
from duetime.stores.base import BaseStore
from tests.support.drafts import T0, every, once
from tests.support.hand import Hand, create, create_one


def ids(store: BaseStore, **query: object) -> list[int]:
    return [found.definition.id for found in store.search(ScheduleQuery(**query)).items]  # type: ignore[arg-type]


def test_by_owner_kind_and_subject(store: BaseStore) -> None:
    a = create_one(store, once(owner="ada", kind="job", subject="echo"))
    b = create_one(store, once(owner="ada", kind="prompt", subject="fetch"))
    c = create_one(store, once(owner="bob", kind="job", subject="echo"))
    assert ids(store) == [a, b, c]
    assert ids(store, owner="ada") == [a, b]
    assert ids(store, kind="job") == [a, c]
    assert ids(store, owner="ada", kind="prompt") == [b]
    assert ids(store, subject="fetch") == [b]
    assert ids(store, owner="nobody") == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("water", [0, 1]),
        ("WATER", [0, 1]),
        ("100%", [2]),
        ("a_b", [3]),
        ("!", [4]),
        ("Übung", [5]),
        ("%", [2]),
        ("é", []),
    ],
)
def test_by_part_of_the_name(store: BaseStore, text: str, found: list[int]) -> None:
    names = ["Water the plants", "buy water", "100% sure", "a_b axb", "Hello!", "Übung", "axb"]
    made = create(store, *[once(name=name) for name in names])
    assert ids(store, text=text) == [made[index].definition.id for index in found]


def test_by_every_status(store: BaseStore, hand: Hand) -> None:
    pending, paused, cancelled, deleted = [s.definition.id for s in create(store, *[every(HOUR) for _ in range(4)])]
    completed, failed, running = [s.definition.id for s in create(store, *[once() for _ in range(3)])]
    for claim in hand.claim(T0):
        if claim.definition.id == completed:
            hand.record([claim], T0)
        elif claim.definition.id == failed:
            hand.record([claim], T0, Failed("no"))
    store.change(paused, T0, changes.pause)
    store.change(cancelled, T0, changes.cancel)
    store.change(deleted, T0, changes.delete)
    assert ids(store, status="pending") == [pending]
    assert ids(store, status="running") == [running]
    assert ids(store, status="completed") == [completed]
    assert ids(store, status="failed") == [failed]
    assert ids(store, status="cancelled") == [cancelled]
    assert ids(store, status="paused") == [paused]
    assert ids(store, status="broken") == []
    assert ids(store) == [pending, paused, cancelled, completed, failed, running]
    with pytest.raises(InvalidInput, match="Unknown status: busy"):
        ids(store, status="busy")


def test_a_schedule_that_was_paused_before_a_retry_is_paused(store: BaseStore, hand: Hand) -> None:
    parked, busy = [s.definition.id for s in create(store, *[once(max_attempts=2) for _ in range(2)])]
    [failing] = [claim for claim in hand.claim(T0) if claim.definition.id == parked]
    hand.record([failing], T0, Failed("no"))
    for schedule in (parked, busy):
        store.change(schedule, T0, changes.pause)
    assert (ids(store, status="paused"), ids(store, status="running")) == ([parked, busy], [])
    assert {status_of(found.progress) for found in store.search(ScheduleQuery()).items} == {"paused"}


def test_failed_finds_a_recurring_one_whose_latest_run_failed(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(MINUTE))
    hand.record(hand.claim(T0 + MINUTE), T0 + MINUTE, Failed("no"))
    assert ids(store, status="failed") == [schedule]
    assert ids(store, status="pending") == [schedule]


def test_by_time(store: BaseStore) -> None:
    late, early, middle = [s.definition.id for s in create(store, once(T0 + 30), once(T0 + 10), once(T0 + 20))]
    assert ids(store, by_time=True) == [early, middle, late]
    assert ids(store, by_time=True, newest_first=True) == [late, middle, early]
    assert ids(store, due_from=T0 + 20) == [late, middle]
    assert ids(store, due_to=T0 + 20) == [early, middle]
    assert ids(store, due_from=T0 + 11, due_to=T0 + 29) == [middle]


def test_by_time_puts_what_is_paused_last_on_every_page(store: BaseStore) -> None:
    made = [s.definition.id for s in create(store, once(T0 + 10), every(MINUTE), once(T0 + 30), once(T0 + 20))]
    for paused in made[:2]:
        store.change(paused, T0, changes.pause)
    first = store.search(ScheduleQuery(by_time=True, limit=3))
    second = store.search(ScheduleQuery(by_time=True, limit=3, cursor=first.cursor))
    shown = [each.definition.id for page in (first, second) for each in page.items]
    assert shown == [made[3], made[2], made[0], made[1]]


def test_newest_first(store: BaseStore) -> None:
    made = [s.definition.id for s in create(store, once(), once(), once())]
    assert ids(store, newest_first=True) == made[::-1]


@pytest.mark.parametrize("by_time", [False, True])
@pytest.mark.parametrize("newest_first", [False, True])
def test_pages_cover_everything_once_while_rows_are_added(store: BaseStore, by_time: bool, newest_first: bool) -> None:
    made = {s.definition.id for s in create(store, *[once(T0 + number % 7) for number in range(25)])}
    seen: list[int] = []
    cursor: str | None = None
    while True:
        query = ScheduleQuery(by_time=by_time, newest_first=newest_first, limit=4, cursor=cursor)
        page = store.search(query)
        assert len(page.items) <= 4
        seen += [found.definition.id for found in page.items]
        create(store, once(T0 + 3))
        cursor = page.cursor
        if cursor is None or len(seen) > 60:
            break
    assert len(seen) == len(set(seen))
    assert made <= set(seen)


def test_the_total_counts_all_that_match(store: BaseStore) -> None:
    create(store, *[once(name="water") for _ in range(5)], *[once(name="fire") for _ in range(3)])
    page = store.search(ScheduleQuery(text="water", limit=2))
    assert (len(page.items), page.total) == (2, 5)
    assert page.cursor is not None


@pytest.mark.parametrize("cursor", ["", "x", "W10", "WzEsMiwzXQ", "WyJhIl0", "🦉", "W3RydWVd", "WzFlOTld"])
def test_a_cursor_from_elsewhere_is_refused(store: BaseStore, cursor: str) -> None:
    with pytest.raises(InvalidInput, match="cursor"):
        store.search(ScheduleQuery(cursor=cursor))
    with pytest.raises(InvalidInput, match="cursor"):
        store.runs(RunQuery(cursor=cursor))


def test_runs_latest_first_and_by_every_filter(store: BaseStore, hand: Hand) -> None:
    a = create_one(store, every(MINUTE, owner="ada"))
    b = create_one(store, every(MINUTE, owner="bob", kind="prompt"))
    lanes = ("job", "prompt")
    for step in (1, 2, 3):
        hand.record(hand.claim(T0 + step * MINUTE, lanes=lanes), T0 + step * MINUTE)
    held = hand.claim(T0 + 4 * MINUTE, lanes=("job",))
    assert [run.due for run in store.runs(RunQuery(schedule=a)).items] == [T0 + n * MINUTE for n in (4, 3, 2, 1)]
    assert store.runs(RunQuery(owner="bob")).total == 3
    assert store.runs(RunQuery(kind="prompt")).total == 3
    assert store.runs(RunQuery(status=RunStatus.RUNNING)).items == [held[0].run]
    assert store.runs(RunQuery(worker=hand.id)).total == 7
    found = store.runs(RunQuery(due_from=Instant(T0 + 2 * MINUTE), due_to=Instant(T0 + 3 * MINUTE)))
    assert sorted((run.schedule, run.due) for run in found.items) == sorted(
        (schedule, T0 + step * MINUTE) for schedule in (a, b) for step in (2, 3)
    )
    everything = [run.id for run in store.runs(RunQuery()).items]
    assert everything == sorted(everything, reverse=True)


@pytest.mark.parametrize("within_one", [False, True])
def test_pages_of_runs_cover_everything_once(store: BaseStore, hand: Hand, within_one: bool) -> None:
    schedule = create_one(store, every(MINUTE))
    for step in range(1, 12):
        hand.record(hand.claim(T0 + step * MINUTE), T0 + step * MINUTE)
    seen: list[int] = []
    cursor: str | None = None
    while True:
        page = store.runs(RunQuery(schedule=schedule if within_one else None, limit=3, cursor=cursor))
        seen += [run.id for run in page.items]
        store.change(schedule, Instant(T0 + HOUR), changes.fire)
        hand.record(hand.claim(T0 + HOUR), T0 + HOUR)
        cursor = page.cursor
        if cursor is None:
            break
    assert len(seen) == len(set(seen)) == 11


def test_a_deleted_schedule_keeps_its_runs_readable(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(MINUTE, name="kept", payload='{"secret":1}'))
    hand.record(hand.claim(T0 + MINUTE), T0 + MINUTE)
    store.change(schedule, T0, changes.delete)
    (run,) = store.runs(RunQuery(schedule=schedule)).items
    assert (run.name, run.owner, run.kind) == ("kept", "ada", "job")
    tombstone = store.get(schedule)
    assert tombstone is not None
    assert tombstone.definition.payload == "null"


def test_living_is_all_that_may_still_fire(store: BaseStore, hand: Hand) -> None:
    pending, paused, cancelled, deleted, done = [
        s.definition.id for s in create(store, *[every(HOUR) for _ in range(4)], once())
    ]
    running = create_one(store, once(T0 + 1))
    hand.record(hand.claim(T0), T0)
    hand.claim(T0 + 1)
    store.change(paused, T0, changes.pause)
    store.change(cancelled, T0, changes.cancel)
    store.change(deleted, T0, changes.delete)
    assert ids(store, status="completed") == [done]
    assert ids(store, status="living") == [pending, paused, running]


def test_a_key_finds_what_it_made(store: BaseStore) -> None:
    (made,) = create(store, once(owner="ada", key="k"))
    assert store.by_key("ada", "k") == made
    assert store.by_key("bob", "k") is None
    assert store.by_key("ada", "other") is None
    store.change(made.definition.id, T0, changes.delete)
    assert store.by_key("ada", "k") is None


def test_marks_differ_after_everything_that_happens_to_a_subject(store: BaseStore, hand: Hand) -> None:
    def marks(owner: str = "ada", subject: str = "alerts") -> object:
        return store.marks(owner, "job", subject)

    seen = [marks()]

    def differs() -> None:
        assert marks() not in seen
        seen.append(marks())

    schedule = create_one(store, every(HOUR, subject="alerts"))
    differs()
    store.change(schedule, T0, changes.pause)
    differs()
    store.change(schedule, T0, changes.resume)
    assert marks() == seen[1]
    hand.record(hand.claim(T0 + HOUR), T0 + HOUR)
    differs()
    create(store, once(subject="alerts"))
    hand.record(hand.claim(T0), T0)  # made and gone between two looks
    differs()
    store.change(schedule, T0, changes.delete)
    differs()


def test_marks_know_nothing_of_other_subjects_and_owners(store: BaseStore, hand: Hand) -> None:
    before = store.marks("ada", "job", "alerts")
    create(
        store,
        once(subject="other"),
        once(subject="alerts", owner="bob"),
        every(HOUR, subject="alerts", owner="bob"),
        every(HOUR, subject="alerts", kind="prompt"),
    )
    hand.record(hand.claim(T0 + HOUR), T0 + HOUR)
    assert store.marks("ada", "job", "alerts") == before
