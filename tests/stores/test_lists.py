"""Lists that stay cheap: bounded counts, what changed, what comes next, and the figures of a whole store."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from duetime.engine.clock import DAY, HOUR, MINUTE, SECOND, Instant
from duetime.engine.kind import Caller
from duetime.engine.model import RunId, Schedule, ScheduleId
from duetime.engine.outcome import Failed, Retry
from duetime.engine.policy import changes
from duetime.engine.scheduler import Scheduler
from duetime.engine.store import EVERY_ONE, RunQuery, ScheduleQuery
from duetime.engine.store_interfaces import BOUNDS, tally_of
from duetime.engine.triggers import IntervalTrigger
from duetime.service.operations.upcoming import coming as what_comes_next
from duetime.service.services import Call, Services
from duetime.stores import search
from duetime.stores.base import BaseStore
from duetime.stores.sqlite.store import SqliteStore
from duetime.testing import SettableClock
from tests.support.drafts import T0, draft, every, once
from tests.support.hand import Hand, create, create_one, the_run


def test_counting_ends_where_nobody_wants_to_know_more(store: BaseStore) -> None:
    create(store, *[once() for _ in range(12)])
    bounded = store.search(ScheduleQuery(limit=2, count_to=10))
    assert (bounded.total, bounded.total_exact) == (10, False)
    enough = store.search(ScheduleQuery(limit=2, count_to=12))
    assert (enough.total, enough.total_exact) == (12, True)
    whole = store.search(ScheduleQuery(limit=2, count_to=EVERY_ONE))
    assert (whole.total, whole.total_exact) == (12, True)
    uncounted = store.search(ScheduleQuery(limit=2, count_to=0))
    assert (len(uncounted.items), uncounted.total, uncounted.total_exact) == (2, 0, False)


def test_a_long_list_does_not_delay_the_reads_of_workers(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "due.db")
    store.migrate()
    create(store, once())
    listing, answered = threading.Event(), threading.Event()

    def list_slowly() -> None:
        with store._read_lock:
            listing.set()
            assert answered.wait(20)

    lister = threading.Thread(target=list_slowly)
    lister.start()
    assert listing.wait(20)
    assert store.earliest(["job"]) is not None and store.workers() == []
    answered.set()
    lister.join()
    store.close()


def test_a_page_that_holds_everything_counts_itself(store: BaseStore) -> None:
    create(store, once(), once())
    page = store.search(ScheduleQuery(count_to=0))
    assert (page.total, page.total_exact) == (2, True)


def test_runs_are_counted_alike(store: BaseStore, hand: Hand) -> None:
    create(store, *[once() for _ in range(6)])
    hand.record(hand.claim(T0), T0)
    bounded = store.runs(RunQuery(limit=1, count_to=3))
    assert (bounded.total, bounded.total_exact) == (3, False)
    assert store.runs(RunQuery(limit=1)).total == 6


def test_what_people_changed_since_an_instant(store: BaseStore) -> None:
    old, paused, deleted = [s.definition.id for s in create(store, *[every(HOUR, created=T0) for _ in range(3)])]
    fresh = create_one(store, every(HOUR, created=Instant(T0 + 10)))
    others = create_one(store, every(HOUR, owner="bob", created=Instant(T0 + 10)))
    later = Instant(T0 + 5)
    store.change(paused, later, changes.pause)
    store.change(deleted, later, changes.delete)

    def changed(since: int, owner: str | None = "ada") -> list[ScheduleId]:
        page = store.search(ScheduleQuery(owner=owner, changed_since=Instant(since)))
        return [found.definition.id for found in page.items]

    assert changed(T0) == [old, paused, deleted, fresh]
    assert changed(T0 + 1) == [paused, deleted, fresh]
    assert changed(T0 + 6) == [fresh]
    assert changed(T0 + 6, None) == [fresh, others]
    assert changed(T0 + 11) == []


@pytest.mark.parametrize("verb", ["pause", "resume", "cancel", "delete"])
def test_every_change_by_people_can_be_found(store: BaseStore, verb: str) -> None:
    schedule = create_one(store, every(HOUR))
    if verb == "resume":
        store.change(schedule, T0, changes.pause)
    store.change(schedule, Instant(T0 + 7), getattr(changes, verb))
    [found] = store.search(ScheduleQuery(changed_since=Instant(T0 + 7))).items
    assert found.definition.updated == T0 + 7


def test_a_retry_by_hand_can_be_found_too(store: BaseStore, hand: Hand) -> None:
    create(store, once())
    [claim] = hand.claim(T0)
    hand.record([claim], T0, Failed("no"))
    store.change_run(claim.run.id, Instant(T0 + 7), changes.retry)
    assert store.search(ScheduleQuery(changed_since=Instant(T0 + 7))).items != []


def test_dead_are_those_that_nobody_dealt_with(store: BaseStore, hand: Hand) -> None:
    create(store, *[once(kind="notification") for _ in range(3)], once(kind="request"), once(kind="job"))
    failed, dismissed, done, request, job = hand.claim(T0, lanes=("notification", "request", "job"))
    hand.record([failed, dismissed, request, job], T0, Failed("no"))
    hand.record([done], T0)
    store.change_run(dismissed.run.id, T0, changes.dismiss)

    def dead(**asked: Any) -> list[RunId]:
        return [run.id for run in store.runs(RunQuery(status="dead", **asked)).items]

    assert dead() == sorted((failed.run.id, request.run.id, job.run.id), reverse=True)
    assert dead(owner="ada", kinds=("notification", "request")) == sorted((failed.run.id, request.run.id), reverse=True)
    assert dead(owner="ada", kind="request") == dead(kind="request") == [request.run.id]
    assert dead(kind="job") == [job.run.id]
    assert dead(kind="prompt") == dead(owner="bob") == []


def test_live_runs_and_runs_by_id(store: BaseStore, hand: Hand) -> None:
    create(store, once(owner="ada"), once(owner="bob"))
    first, second = hand.claim(T0)
    assert {run.id for run in store.runs(RunQuery(status="live")).items} == {first.run.id, second.run.id}
    assert [run.id for run in store.runs(RunQuery(status="live", owner="bob")).items] == [second.run.id]
    hand.record([first], T0)
    assert [run.id for run in store.runs(RunQuery(status="live")).items] == [second.run.id]
    assert [run.id for run in store.runs(RunQuery(ids=(first.run.id,))).items] == [first.run.id]
    assert store.runs(RunQuery(ids=())).items == []
    assert [run.id for run in store.runs(RunQuery(above=first.run.id)).items] == [second.run.id]


# -- what comes next ------------------------------------------------------------------------------------------------


@pytest.fixture(params=[0, 2_000])
def few(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Along the due queue, or by the owner's own: a list is the same."""
    monkeypatch.setattr(search, "MAX_SORTED", request.param)
    chosen: int = request.param
    return chosen


def coming(store: BaseStore, owner: str | None, until: int | None = None, limit: int = 10) -> list[int]:
    """As faces ask for it: None for all owners."""
    call = Call(Services(Scheduler(store, {}, SettableClock(T0))), Caller("op", operator=True), "UTC")
    end = None if until is None else Instant(until)
    found = what_comes_next(call, limit, end, owner=owner)
    if owner is not None:
        assert found == what_comes_next(call._replace(caller=Caller(owner)), limit, end)
    return [each.definition.id for each in found]


@pytest.mark.usefixtures("few")
def test_what_comes_next_in_time_order(store: BaseStore) -> None:
    late = create_one(store, once(T0 + 3 * HOUR))
    soon = create_one(store, every(HOUR))
    other = create_one(store, once(T0 + 2 * HOUR, owner="bob", kind="prompt"))
    paused = create_one(store, every(MINUTE))
    store.change(paused, T0, changes.pause)
    assert coming(store, "ada") == [soon, late]
    assert coming(store, None) == [soon, other, late]
    assert coming(store, None, limit=2) == [soon, other]
    assert coming(store, None, until=T0 + 2 * HOUR) == [soon, other]
    assert coming(store, "ada", until=T0 + 2 * HOUR) == [soon]
    assert coming(store, "nobody") == []


@pytest.mark.usefixtures("few")
def test_what_jitter_puts_off_stands_where_people_expect_it(store: BaseStore) -> None:
    """And is found, though its start lies beyond what was asked for."""
    after = create_one(store, once(T0 + HOUR + MINUTE))
    spread_out = IntervalTrigger(timezone="UTC", period=2 * DAY, anchor=T0, jitter=DAY)
    put_off = create_one(store, draft(spread_out, Instant(T0 + HOUR)))
    [first, second] = store.search(ScheduleQuery(firing=True)).items
    assert (first.definition.id, second.definition.id) == (after, put_off), "in the order of starts"
    assert coming(store, "ada") == [put_off, after]
    assert coming(store, "ada", until=T0 + HOUR) == coming(store, None, until=T0 + HOUR) == [put_off]


@pytest.mark.usefixtures("few")
def test_a_list_of_what_fires_next_has_nothing_that_does_not(store: BaseStore, hand: Hand) -> None:
    over = create_one(store, once(T0, name="over"))
    late = create_one(store, once(T0 + 3 * HOUR, at_most_once=True))
    soon = create_one(store, every(HOUR, name="soon"))
    prompt = create_one(store, once(T0 + 2 * HOUR, kind="prompt"))
    others = create_one(store, once(T0 + 2 * HOUR, owner="bob"))
    paused, cancelled, deleted = [s.definition.id for s in create(store, *[every(MINUTE) for _ in range(3)])]
    store.change(paused, T0, changes.pause)
    store.change(cancelled, T0, changes.cancel)
    store.change(deleted, T0, changes.delete)
    hand.record(hand.claim(T0), T0)

    def ids(**asked: Any) -> list[int]:
        page = store.search(ScheduleQuery(firing=True, **asked))
        assert page.total == len(page.items)
        return [found.definition.id for found in page.items]

    assert over == 1 and ids(owner="ada") == [soon, prompt, late]
    assert ids() == [soon, prompt, others, late]
    assert ids(owner="ada", kind="job") == [soon, late]
    assert ids(owner="ada", kind="prompt") == ids(kind="prompt") == [prompt]
    assert ids(owner="ada", status="pending") == [soon, prompt, late]
    assert ids(owner="ada", status="paused") == ids(owner="ada", status="completed") == ids(owner="nobody") == []
    assert ids(owner="ada", text="soon", subject="echo") == [soon]


@pytest.mark.usefixtures("few")
def test_a_retry_is_no_second_place_in_the_list(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, every(HOUR, max_attempts=2))
    hand.record(hand.claim(T0 + HOUR), T0 + HOUR, Retry("not yet"))
    page = store.search(ScheduleQuery(owner="ada", firing=True))
    assert [found.definition.id for found in page.items] == [schedule]


@pytest.mark.usefixtures("few")
def test_pages_of_what_fires_next_cover_everything_once(store: BaseStore) -> None:
    kinds = ("job", "prompt", "request")
    drafts = [once(T0 + number % 7 * MINUTE, kind=kinds[number % 3]) for number in range(25)]
    made = create(store, *drafts)
    seen: list[Schedule] = []
    cursor: str | None = None
    for _ in range(7):
        page = store.search(ScheduleQuery(owner="ada", firing=True, limit=4, cursor=cursor))
        assert (page.total, len(page.items)) == (25, min(4, 25 - len(seen)))
        seen += page.items
        cursor = page.cursor
    assert cursor is None
    expected = sorted(made, key=lambda each: (each.progress.next or 0, each.definition.id))
    assert [each.definition.id for each in seen] == [each.definition.id for each in expected]


# -- figures --------------------------------------------------------------------------------------------------------


def test_ids_by_which_people_call_them(store: BaseStore, hand: Hand) -> None:
    kept = create_one(store, once())
    gone = create_one(store, once())
    hand.record(hand.claim(T0), T0)
    store.change(gone, T0, changes.delete)
    assert store.public_ids([kept, gone, kept]) == {kept: f"job_{kept}", gone: f"job_{gone}"}
    assert store.public_ids([]) == {}
    assert store.public_ids([kept, gone, kept, ScheduleId(999)], deleted=False) == {kept: f"job_{kept}"}
    assert store.public_ids([], deleted=False) == {}


def test_the_schema_is_the_one_that_this_code_knows(store: BaseStore) -> None:
    assert store.schema() == store.known_schema


def test_a_tally_counts_as_one_would_by_hand(store: BaseStore, hand: Hand) -> None:
    create(store, once(T0), once(T0 - 20_000), once(T0 - HOUR, grace=2 * HOUR), once(T0), once(T0), every(HOUR))
    assert store.newest_run() == 0
    claims = hand.claim(T0 + 1)
    hand.record(claims[:2], T0 + 3 * SECOND)
    hand.record(claims[2:4], T0 + DAY, Failed("no"))
    newest = store.newest_run()
    assert newest == max(claim.run.id for claim in claims)
    tallies = store.tally(RunId(0), newest)
    expected: dict[tuple[object, ...], list[int]] = {}
    for claim in claims:
        run = the_run(store, claim.run.id)
        one = tally_of(run, run.started)
        sums = expected.setdefault(one[:5], [0, 0, 0])
        sums[:] = [sums[0] + one.number, sums[1] + one.late_for, sums[2] + one.took_for]
    assert {tally[:5]: list(tally[5:]) for tally in tallies} == expected
    assert {tally.took for tally in tallies if tally.status == "failed"} == {len(BOUNDS)}
    assert sum(tally.number for tally in store.tally(RunId(newest - 1), newest)) == 1
    assert store.tally(newest, newest) == []
    others = store.tally(RunId(0), newest, [claim.run.id for claim in claims[:2]])
    assert sum(tally.number for tally in others) == len(claims) - 2


def test_runs_from_the_first_on_by_text_and_by_mark(store: BaseStore, hand: Hand) -> None:
    create(store, *(once(T0, name=name) for name in ("100% sure", "Ada_1", "adam", "other")))
    claims = sorted(hand.claim(T0 + 1), key=lambda claim: claim.run.id)
    hand.record(claims, T0 + 2, Failed("No ANSWER from 10.0.0.7"))
    ids = [claim.run.id for claim in claims]

    def found(**asked: Any) -> list[RunId]:
        page = store.runs(query := RunQuery(ascending=True, limit=2, **asked))
        all_ = [run.id for run in page.items]
        while page.cursor is not None:
            page = store.runs(replace(query, cursor=page.cursor))
            all_ += [run.id for run in page.items]
        return all_

    assert found() == found(text="answer from") == found(text="no") == ids
    by_name = {claim.definition.name: claim.run.id for claim in claims}
    wanted = {"ADA": ["Ada_1", "adam"], "a_1": ["Ada_1"], "0%": ["100% sure"], "%": ["100% sure"], "\0": []}
    for text, names in wanted.items():
        assert sorted(found(text=text)) == sorted(by_name[name] for name in names), text
    store.change_run(ids[0], T0, changes.dismiss)
    assert found(statuses=("failed", "lost"), mark_from=1) == ids[:1] and found(status="dead") == ids[1:]


def test_the_living_and_the_queue(store: BaseStore, hand: Hand) -> None:
    create(store, once(T0), once(T0), once(T0 + HOUR))
    assert store.depths(("job", "prompt"), T0) == {"job": 2, "prompt": 0}
    [claim] = hand.claim(T0, limit=1, lanes=("job",))
    assert store.depths(("job",), T0) == {"job": 1}
    assert [(one.id, one.kind, one.status, one.begun) for one in store.living()] == [
        (claim.run.id, "job", "running", 1)
    ]


# -- lists of the dashboard -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("backwards", [False, True])
def test_by_name_and_by_last_run_page_by_page(store: BaseStore, hand: Hand, backwards: bool) -> None:
    create(store, *[once(T0 + n, name=name) for n, name in enumerate(["beta", "Alpha", "gamma", "delta"])])
    for number in (1, 2):
        hand.record(hand.claim(Instant(T0 + number)), Instant(T0 + number))

    def listed(order: str) -> list[Schedule]:
        found: list[Schedule] = []
        cursor = None
        while not found or cursor is not None:
            page = store.search(ScheduleQuery(order_by=order, newest_first=backwards, limit=1, cursor=cursor))
            found, cursor = [*found, *page.items], page.cursor
        assert found == store.search(ScheduleQuery(order_by=order, newest_first=backwards)).items
        return found

    names = [each.definition.name for each in listed("name")]
    assert names == sorted(names, key=str.lower, reverse=backwards)
    runs = [each.progress.last_run or 0 for each in listed("last_run")]
    assert runs == sorted(runs, reverse=backwards) and len(set(runs)) > 1


def test_a_page_by_last_run_goes_on_where_it_ended_although_that_schedule_ran_since(
    store: BaseStore, hand: Hand
) -> None:
    create(store, *[once(T0 + n, name=name) for n, name in enumerate("abcd")])
    page = store.search(ScheduleQuery(order_by="last_run", limit=2))
    hand.record(hand.claim(Instant(T0 + 1)), Instant(T0 + 1))
    after = store.search(ScheduleQuery(order_by="last_run", limit=9, cursor=page.cursor)).items
    assert {"c", "d"} <= {each.definition.name for each in after}


def test_a_cursor_by_name_tells_nothing_about_another_owners_schedule(store: BaseStore) -> None:
    theirs, *_ = create(store, once(T0, name="merger", owner="bob"), *[once(T0, name=name) for name in ("a", "z")])
    numbers = (theirs.definition.id, ScheduleId(10**9))
    queries = [ScheduleQuery(order_by="name", owner="local", cursor=search.make_cursor(each)) for each in numbers]
    assert [store.search(query).items for query in queries] == [[], []], "it is answered as one that does not exist"


def test_states_and_messages_of_runs_are_filtered(store: BaseStore) -> None:
    _, paused, over = create(store, *[every(HOUR, name=name) for name in ("active", "paused", "over")])
    create(store, once(T0 + HOUR, name="message", key="~run:7.1"))
    store.change(paused.definition.id, T0, changes.pause)
    store.change(over.definition.id, T0, changes.cancel)

    def listed(**asked: Any) -> list[str]:
        page = store.search(ScheduleQuery(**asked))
        counted = store.search(ScheduleQuery(**asked, limit=1))
        assert counted.total == len(page.items)
        return [each.definition.name for each in page.items]

    assert listed(status="active") == ["active", "message"]
    assert listed(status="active", follow_ups=False) == listed(firing=True, follow_ups=False) == ["active"]
    assert (listed(status="resting"), listed(status="over")) == (["paused"], ["over"])
    assert listed(follow_ups=False) == ["active", "paused", "over"]


def test_ranges_that_overlap_a_window_and_where_a_window_begins(store: BaseStore, hand: Hand) -> None:
    create(store, every(MINUTE, T0, end=T0 + 10 * MINUTE, catch_up="skip", name="missed"))
    hand.claim(Instant(T0 + HOUR))
    create(store, *[once(T0 + HOUR + n * SECOND) for n in range(1, 6)])
    hand.record(hand.claim(Instant(T0 + HOUR + 10 * SECOND)), Instant(T0 + HOUR + 10 * SECOND))

    def overlapping(start: int, end: int) -> list[str]:
        return [run.name for run in store.runs(RunQuery(overlapping=(Instant(start), Instant(end)))).items]

    assert overlapping(T0 + 5 * MINUTE, T0 + 6 * MINUTE) == ["missed"]
    assert overlapping(T0 - HOUR, T0) == overlapping(T0 + 11 * MINUTE, T0 + HOUR) == []
    first = store.first_run_due(Instant(T0 + HOUR + 3 * SECOND))
    run = store.run(first)
    assert run is not None and run.due == T0 + HOUR + 3 * SECOND
    assert store.first_run_due(Instant(T0 + 2 * HOUR)) == store.newest_run() + 1
    assert all(each.id < first for each in store.runs(RunQuery(below=first)).items)
    assert [each.due for each in store.endings(None, 2)] == [T0 + HOUR + 5 * SECOND, T0 + HOUR + 4 * SECOND]
    assert store.endings("nobody", 5) == []


def test_pages_of_a_rare_status_cover_every_owner_once(store: BaseStore, hand: Hand) -> None:
    for owner in ("ada", "bob", "eve"):
        create(store, *[every(MINUTE, T0, end=T0 + 5 * MINUTE, catch_up="skip", owner=owner) for _ in range(2)])
    create(store, once(T0 + HOUR))
    hand.claim(Instant(T0 + HOUR))
    everyone = [run.id for run in store.runs(RunQuery(status="missed")).items]
    assert len(everyone) == 6 and everyone == sorted(everyone, reverse=True)
    pages, cursor = list[RunId](), None
    for _ in range(3):
        page = store.runs(RunQuery(statuses=("missed", "skipped"), limit=2, cursor=cursor, count_to=10))
        assert page.total == 6
        pages, cursor = [*pages, *(run.id for run in page.items)], page.cursor
    assert (pages, cursor) == (everyone, None)
    assert [run.id for run in store.runs(RunQuery(status="missed", ascending=True)).items] == everyone[::-1]
    assert store.runs(RunQuery(status="missed", due_from=Instant(T0 + HOUR))).items == []
    of_bob = store.runs(RunQuery(status="missed", owner="bob")).items
    assert [run.owner for run in of_bob] == ["bob"] * 2
