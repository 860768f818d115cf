"""Waiting runs: who finds them, who gets them, and how they end."""

from __future__ import annotations

import threading

import pytest

from duetime.engine.checkout import LEASE
from duetime.engine.clock import HOUR, MINUTE, SECOND, Instant
from duetime.engine.errors import StoreUnavailable
from duetime.engine.kind import Caller
from duetime.engine.model import Run, RunId, RunStatus, ScheduleId, run_holder
from duetime.engine.outcome import Completed, Failed, Waiting
from duetime.engine.policy import changes
from duetime.engine.policy.changes import Edit
from duetime.engine.policy.checkout import LEFT, hold_of
from duetime.engine.policy.rows import Writes
from duetime.engine.scheduler import Scheduler
from duetime.engine.store import Page, RunQuery
from duetime.stores.base import BaseStore
from duetime.testing import SettableClock
from tests.stores.conftest import Opener
from tests.support.drafts import T0, once
from tests.support.hand import Hand, create, create_one, the_run
from tests.support.refusals import refusal_of

LANES = ("prompt", "prompt:exact", "prompt:solo")
ANN, BEN = Caller("ada", holder="ann"), Caller("ada", holder="ben")


def due(store: BaseStore, hand: Hand, count: int = 1, **given: object) -> list[ScheduleId]:
    """Prompts that came due a microsecond apart and wait, in the order in which they were due."""
    drafts = [once(T0 + number, kind="prompt", **given) for number in range(count)]
    made = [schedule.definition.id for schedule in create(store, *drafts)]
    hand.record(hand.claim(T0 + count, limit=1000, lanes=LANES), T0 + count, Waiting())
    return made


def free(store: BaseStore, now: int = T0 + MINUTE, **query: object) -> list[int]:
    found = store.runs(RunQuery(free_at=Instant(now), oldest_first=True, **query))  # type: ignore[arg-type]
    assert found.total == len(found.items)
    return [run.schedule for run in found.items]


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock(Instant(T0 + MINUTE))


@pytest.fixture
def scheduler(store: BaseStore, opener: Opener, clock: SettableClock) -> Scheduler:
    """On a way in of its own, as another process would have."""
    return Scheduler(opener(), {}, clock)


def take(scheduler: Scheduler, caller: Caller = ANN, subject: str | None = None) -> Run | None:
    held = scheduler.take(caller, "prompt", subject)
    return None if held is None else held.run


def taken(scheduler: Scheduler, caller: Caller = ANN) -> Run:
    run = take(scheduler, caller)
    assert run is not None
    return run


def refusal(scheduler: Scheduler, caller: Caller, run: int) -> str:
    result = refusal_of(lambda: scheduler.finish(caller, run, Completed()))
    return result.message


def test_free_runs_are_found_by_owner_kind_and_subject(store: BaseStore, hand: Hand) -> None:
    (a,) = due(store, hand, subject="inbox")
    (b,) = due(store, hand, subject="coder")
    (c,) = due(store, hand, owner="bob", subject="inbox")
    create_one(store, once(kind="prompt", subject="inbox"))
    assert sorted(free(store)) == [a, b, c]
    assert sorted(free(store, owner="ada")) == [a, b]
    assert free(store, owner="ada", subject="coder") == [b]
    assert free(store, kind="job") == []
    assert free(store, subject="nobody") == []


def test_what_is_held_or_paused_is_not_free(store: BaseStore, hand: Hand, scheduler: Scheduler) -> None:
    a, b, c = due(store, hand, 3)
    run = taken(scheduler)
    assert run.schedule == a
    store.change(b, T0, changes.pause)
    assert free(store) == [c]
    assert free(store, T0 + MINUTE + LEASE - 1) == [c]
    assert free(store, T0 + MINUTE + LEASE) == [a, c]
    store.change(b, T0, changes.resume)
    assert free(store) == [b, c]


def test_pages_of_free_runs_come_oldest_first(store: BaseStore, hand: Hand) -> None:
    """The last to be made are due first."""
    made = create(store, *[once(T0 - number, kind="prompt") for number in range(7)])
    hand.record(hand.claim(T0, lanes=LANES), T0, Waiting())
    seen: list[int] = []
    cursor: str | None = None
    while True:
        page = store.runs(RunQuery(free_at=Instant(T0), oldest_first=True, limit=3, cursor=cursor))
        seen += [run.schedule for run in page.items]
        cursor = page.cursor
        if cursor is None:
            break
    assert seen == [schedule.definition.id for schedule in made][::-1]


def test_oldest_first_within_one_schedule(store: BaseStore, hand: Hand) -> None:
    (schedule,) = due(store, hand)
    store.change_run(RunId(store.runs(RunQuery()).items[0].id), T0, changes.cancel_run)
    for step in (1, 2):
        store.change(schedule, Instant(T0 + step * MINUTE), changes.fire)
        hand.record(hand.claim(T0 + step * MINUTE, lanes=LANES), T0 + step * MINUTE)
    dues = [run.due for run in store.runs(RunQuery(schedule=schedule, oldest_first=True)).items]
    assert dues == [T0, T0 + MINUTE, T0 + 2 * MINUTE]


def test_the_oldest_is_taken_first_and_only_by_its_owner(store: BaseStore, hand: Hand, scheduler: Scheduler) -> None:
    a, b = due(store, hand, 2)
    for stranger in (Caller("bob"), Caller("bob", operator=True)):
        assert take(scheduler, stranger) is None
    first, second = taken(scheduler), taken(scheduler, BEN)
    assert (first.schedule, second.schedule) == (a, b)
    assert (first.holder, first.attempt, first.expires) == ("ann", 1, T0 + MINUTE + LEASE)
    assert take(scheduler) is None


def test_a_timeout_of_its_own_is_how_long_it_is_held(store: BaseStore, hand: Hand, scheduler: Scheduler) -> None:
    due(store, hand, timeout=HOUR)
    assert taken(scheduler).expires == T0 + MINUTE + HOUR


def test_a_hold_can_be_longer_than_the_timeout(store: BaseStore, hand: Hand, scheduler: Scheduler) -> None:
    """A beat does several prompts in one run: until it ends, nobody else is to do any of them."""
    for timeout, least in ((2 * SECOND, MINUTE), (None, HOUR), (HOUR, MINUTE)):
        due(store, hand, **({} if timeout is None else {"timeout": timeout}))
        held = scheduler.take(ANN, "prompt", least=least)
        assert held is not None and held.run.expires == T0 + MINUTE + max(timeout or LEASE, least)


def test_a_run_takes_nothing_that_is_as_deep_as_what_it_schedules(
    store: BaseStore, hand: Hand, scheduler: Scheduler
) -> None:
    """Runs that take what such runs stored, and store it anew, would have no end."""
    deep = once(T0, kind="prompt")
    [made] = create(store, deep._replace(definition=deep.definition._replace(depth=1)))
    hand.record(hand.claim(T0, lanes=LANES), T0, Waiting())
    (flat,) = due(store, hand)
    run = ANN._replace(depth=1)
    assert taken(scheduler, run).schedule == flat
    assert take(scheduler, run) is None
    assert free(store) == [made.definition.id], "for a person, or a run that is deeper"
    assert free(store, depth_below=1) == []
    assert free(store, depth_below=2) == [made.definition.id]
    assert taken(scheduler, ANN._replace(depth=2)).schedule == made.definition.id


def test_what_was_made_deeper_since_it_was_found_is_not_taken(
    store: BaseStore, hand: Hand, scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    (schedule,) = due(store, hand)
    find = scheduler.store.runs

    def overtaken(query: RunQuery) -> Page[Run]:
        found = find(query)
        deeper = store.change(schedule, T0, lambda c: changes.edit(c._replace(depth=1), Edit(amid_runs=True)))
        assert deeper.definition.depth == 1
        return found

    monkeypatch.setattr(scheduler.store, "runs", overtaken)
    assert take(scheduler, ANN._replace(depth=1)) is None
    assert take(scheduler, ANN._replace(depth=2)) is not None


def test_what_is_too_deep_costs_no_write(
    store: BaseStore, hand: Hand, scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that looks for work again and again must not lock what it never gets."""
    deep = once(T0, kind="prompt")
    create(store, deep._replace(definition=deep.definition._replace(depth=1)))
    hand.record(hand.claim(T0, lanes=LANES), T0, Waiting())
    asked: list[RunId] = []
    monkeypatch.setattr(scheduler.store, "change_run", lambda run, *_: asked.append(run))
    assert take(scheduler, ANN._replace(depth=1)) is None
    assert asked == []


def test_agents_that_share_a_token_are_told_apart_by_the_hold(
    store: BaseStore, hand: Hand, scheduler: Scheduler, clock: SettableClock
) -> None:
    due(store, hand)
    first = taken(scheduler)
    clock.move_to(Instant(clock.now() + LEASE))
    second = taken(scheduler)
    assert (first.id, first.holder) == (second.id, second.holder) and hold_of(first) != hold_of(second)
    for hold in (hold_of(first), "", "nonsense"):
        refusal_of(scheduler.finish, ANN, first.id, Completed('"late"'), hold=hold)
    scheduler.finish(ANN, second.id, Completed('"done"'), hold=hold_of(second))
    assert the_run(store, first.id).result == '"done"'


def test_without_the_hold_the_holder_is_enough(
    store: BaseStore, hand: Hand, scheduler: Scheduler, clock: SettableClock
) -> None:
    due(store, hand)
    run = taken(scheduler)
    clock.move_to(Instant(clock.now() + LEASE))
    taken(scheduler)
    assert scheduler.finish(ANN, run.id, Completed()).status == RunStatus.COMPLETED


def test_hands_that_let_go_of_everything(store: BaseStore, hand: Hand, scheduler: Scheduler) -> None:
    a, b, c, d = due(store, hand, 4)
    done, mine, other = taken(scheduler), taken(scheduler), taken(scheduler, BEN)
    scheduler.finish(ANN, done.id, Completed())
    held = store.runs(RunQuery(owner="ada", kind="prompt", holder="ann"))
    assert [run.id for run in held.items] == [mine.id] and held.total == 1
    assert [run.id for run in scheduler.give_back(ANN, "prompt", "it rains")] == [mine.id]
    assert free(store) == [b, d] and the_run(store, other.id).holder == "ben"
    given_back = the_run(store, mine.id)
    assert (given_back.status, given_back.attempt, given_back.error) == (RunStatus.WAITING, 0, "it rains")
    assert scheduler.give_back(ANN, "prompt", "it rains") == []
    assert the_run(store, done.id).schedule == a and the_run(store, other.id).schedule == c


@pytest.mark.parametrize("outcome", [Completed(), Failed("no water")])
def test_a_run_that_ends_itself_lets_go_of_what_it_took(
    store: BaseStore, hand: Hand, scheduler: Scheduler, outcome: Completed | Failed
) -> None:
    """An agent that answers later: with its own run its token is over, and nobody could finish what it took."""
    (other,) = due(store, hand)
    create_one(store, once(kind="prompt"))
    [claim] = hand.claim(T0 + 1, lanes=LANES)
    agent = Caller("ada", holder=run_holder(claim.run.id, claim.run.fence))
    hand.record([claim], T0 + 1, Waiting(Instant(T0 + HOUR), agent.holder))
    run = taken(scheduler, agent)
    assert run.schedule == other and free(store) == []
    scheduler.finish(agent, claim.run.id, outcome)
    assert free(store) == [other] and the_run(store, run.id).error == LEFT


def test_a_run_that_ended_itself_has_ended_even_if_nothing_else_can_be_given_back(
    store: BaseStore, hand: Hand, scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise StoreUnavailable

    create_one(store, once(kind="prompt"))
    [claim] = hand.claim(T0 + 1, lanes=LANES)
    agent = Caller("ada", holder=run_holder(claim.run.id, claim.run.fence))
    hand.record([claim], T0 + 1, Waiting(Instant(T0 + HOUR), agent.holder))
    monkeypatch.setattr(scheduler, "give_back", fail)
    assert scheduler.finish(agent, claim.run.id, Completed()).status == RunStatus.COMPLETED


def test_only_who_took_it_finishes_it(store: BaseStore, hand: Hand, scheduler: Scheduler) -> None:
    due(store, hand, 2)
    run = taken(scheduler)
    for stranger in (BEN, Caller("bob", holder="ann"), Caller("bob", operator=True, holder="ann")):
        assert refusal(scheduler, stranger, run.id) == f"Run {run.id} is not yours to finish."
    assert refusal(scheduler, ANN, run.id + 1) == f"Run {run.id + 1} is not yours to finish."
    for nothing in (0, -1, 2**63, 4711):
        assert refusal(scheduler, ANN, nothing) == f"Run {nothing} is not yours to finish."
    refusal_of(lambda: scheduler.finish(ANN, run.id, Completed(), "job"))
    scheduler.finish(ANN, run.id, Completed('"done"'), "prompt")
    assert (the_run(store, run.id).status, the_run(store, run.id).result) == (RunStatus.COMPLETED, '"done"')
    assert refusal(scheduler, ANN, run.id) == f"Run {run.id} is not yours to finish."


@pytest.mark.parametrize("worker_looks", [False, True])
def test_when_its_time_is_up_it_is_anybodys_again(
    store: BaseStore, hand: Hand, scheduler: Scheduler, clock: SettableClock, worker_looks: bool
) -> None:
    """With a worker or without one: nobody waits for a worker that may not be there."""
    due(store, hand)
    run = taken(scheduler)
    clock.move_to(Instant(clock.now() + LEASE - 1))
    assert take(scheduler, BEN) is None
    clock.move_to(Instant(clock.now() + 1))
    if worker_looks:
        assert hand.claim(clock.now(), lanes=LANES) == []
    assert refusal(scheduler, ANN, run.id) == f"Run {run.id} is not yours to finish."
    again = taken(scheduler, BEN)
    assert (again.id, again.holder, again.attempt) == (run.id, "ben", 2)
    assert refusal(scheduler, ANN, run.id) == f"Run {run.id} is not yours to finish."
    scheduler.finish(BEN, run.id, Completed())


def test_a_failure_is_an_attempt_and_comes_back_by_policy(
    store: BaseStore, hand: Hand, scheduler: Scheduler, clock: SettableClock
) -> None:
    due(store, hand, max_attempts=2, backoff=MINUTE)
    run = taken(scheduler)
    assert scheduler.finish(ANN, run.id, Failed("no model")).status == RunStatus.PENDING
    assert take(scheduler) is None
    clock.move_to(Instant(clock.now() + MINUTE))
    hand.record(hand.claim(clock.now(), lanes=LANES), clock.now(), Waiting())
    again = taken(scheduler)
    assert (again.id, again.attempt) == (run.id, 2)
    assert scheduler.finish(ANN, run.id, Failed("still none")).status == RunStatus.FAILED
    assert [(each.number, each.error) for each in store.attempts(run.id)] == [(1, "no model")]
    assert the_run(store, run.id).error == "still none"


def test_what_cannot_be_read_is_passed_over(store: BaseStore, hand: Hand, scheduler: Scheduler) -> None:
    broken, whole = due(store, hand, 2)
    with store._write() as tx:
        found = tx.lock_schedule(broken)
        assert found is not None
        writes = Writes(definitions=[found.definition._replace(policy="nonsense")])
        tx.apply(writes, T0)
    assert taken(scheduler).schedule == whole
    assert take(scheduler) is None


def test_a_run_beyond_its_patience_is_not_taken(store: BaseStore, hand: Hand, scheduler: Scheduler) -> None:
    create_one(store, once(kind="prompt"))
    hand.record(hand.claim(T0, lanes=LANES), T0, Waiting(Instant(T0 + MINUTE)))
    assert take(scheduler) is None


def test_takers_at_once_never_get_the_same(opener: Opener, store: BaseStore, hand: Hand) -> None:
    made = due(store, hand, 40)
    begin = threading.Barrier(4)
    got: list[list[int]] = [[] for _ in range(4)]
    clock = SettableClock(Instant(T0 + MINUTE))
    doors = [Scheduler(opener(), {}, clock) for _ in got]

    def work(index: int) -> None:
        begin.wait()
        while (run := take(doors[index], Caller("ada", holder=f"agent-{index}"))) is not None:
            got[index].append(run.schedule)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    everything = [schedule for part in got for schedule in part]
    assert sorted(everything) == made
