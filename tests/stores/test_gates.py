"""Gates: what they remember, with which run it becomes their memory, and the rows of runs that they do not let pass."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from duetime.engine.clock import MINUTE, SECOND, Instant
from duetime.engine.model import RunStatus, ScheduleState, status_of
from duetime.engine.outcome import Completed, Failed, Outcome, Returned, Skipped, Waiting
from duetime.engine.policy import changes
from duetime.engine.policy.changes import Edit
from duetime.engine.policy.gates import MOST_REMEMBERED, GateGift
from duetime.engine.policy.options import make_policy, policy_to_json
from duetime.engine.policy.record import Finished
from duetime.engine.store import ScheduleQuery
from duetime.engine.worker.gate import NO_GATES, check_gate
from duetime.engine.worker.runner import ClaimedRun
from duetime.stores.base import BaseStore
from tests.support.drafts import T0, every, once
from tests.support.gate_world import GATE, GateWorld
from tests.support.hand import Hand, create_one, runs_of, the
from tests.support.size import FULL

SAME = "nothing has changed"


def test_the_first_look_is_a_baseline_and_a_change_runs_once(store: BaseStore) -> None:
    world = GateWorld(store)
    assert world.poll("a") == world.poll("a") == []
    assert world.poll("b") == ["b"]
    assert world.poll("b") == world.poll("b") == []
    assert world.poll("a") == ["a"], "it changed again"
    assert [row[:2] for row in world.rows()] == [("skipped", 2), ("completed", 1), ("skipped", 2), ("completed", 1)]


def test_a_change_is_not_lost_when_the_run_fails(store: BaseStore) -> None:
    world = GateWorld(store)
    assert world.poll("a") == []
    assert world.poll("b", fails=True) == ["b"]
    assert world.poll("b", fails=True) == ["b"]
    assert world.poll("b") == ["b"]
    assert world.poll("b") == []


def test_a_look_during_a_run_keeps_nothing_of_what_that_run_was_given(store: BaseStore) -> None:
    """One step refuses and remembers that, while the change that another step saw depends on a run that then fails."""
    gate = "page() | field('text') | changed() and page() | field('state') | became('up')"
    world = GateWorld(store, gate, overlap="allow")
    assert world.poll({"text": 1, "state": "down"}) == []
    line = world.hold()
    world.page = {"text": 2, "state": "up"}
    world.tick()
    (first,) = line.take_back()
    assert world.check(first)
    world.page = {"text": 3, "state": "down"}
    world.tick()
    (second,) = line.take_back()
    assert not world.check(second)
    world.finish(first, fails=True)
    world.page = {"text": 2, "state": "up"}
    world.tick()
    (third,) = line.take_back()
    assert world.check(third), "no run has succeeded with this change"
    world.finish(third)
    world.tick()
    (fourth,) = line.take_back()
    assert not world.check(fourth)


def test_a_thousand_polls_without_a_change_are_one_row_and_no_work(store: BaseStore, engine: str) -> None:
    polls = 1001 if FULL or engine == "memory" else 101
    world = GateWorld(store)
    world.tick(polls)
    assert world.works == []
    (row,) = world.runs()
    assert (row.status, row.number, row.error) == (RunStatus.SKIPPED, polls, SAME)
    assert (row.due, row.last, row.finished) == (T0 + MINUTE, T0 + polls * MINUTE, T0 + polls * MINUTE)
    progress = world.stored().progress
    assert (progress.run_count, progress.active, progress.last_run, progress.failures) == (0, 0, None, 0)


def test_skips_for_another_reason_and_manual_ones_have_their_own_rows(store: BaseStore) -> None:
    world = GateWorld(store, gate_failure="skip")
    world.tick(2)
    store.change(world.schedule, world.clock.now(), changes.fire)
    world.settle()
    world.tick(2)
    world.page = OSError("no way")
    world.tick(2)
    failed = "its gate failed: OSError: no way"
    assert world.rows() == [("skipped", 2, SAME), ("skipped", 1, SAME), ("skipped", 2, SAME), ("skipped", 2, failed)]


def test_a_gate_that_fails_runs_the_work_with_the_reason(store: BaseStore) -> None:
    world = GateWorld(store)
    assert world.poll("a") == []
    assert world.poll(OSError("no way")) == [None]
    gift = store.gate_gift(world.runs()[-1].id)
    assert gift is not None and gift.failure == "its gate failed: OSError: no way"
    assert world.poll("a") == [], "it remembers what it saw before"
    assert world.poll("b") == ["b"]


def test_skipped_runs_keep_failures_and_the_last_status_and_do_not_count(store: BaseStore) -> None:
    world = GateWorld(store, max_runs=2, pause_after=0)
    world.poll("a")
    world.poll("b", fails=True)
    before = world.stored().progress
    store.change(
        world.schedule,
        world.clock.now(),
        lambda change: changes.edit(change, Edit(policy=_policy(only_if="page() | became('x')", max_runs=2))),
    )
    world.tick(3)
    progress = world.stored().progress
    assert (progress.failures, progress.last_status, progress.last_error) == (1, "failed", before.last_error)
    assert (progress.run_count, progress.state) == (1, ScheduleState.ACTIVE)
    assert world.poll("x") == ["x"]
    assert world.stored().progress.state == ScheduleState.ENDED


def test_the_last_run_that_max_runs_allows_may_be_skipped_and_the_schedule_goes_on(store: BaseStore) -> None:
    world = GateWorld(store, max_runs=1)
    world.tick(5)
    assert world.stored().progress.state == ScheduleState.ACTIVE
    assert world.poll("b") == ["b"]
    assert world.stored().progress.state == ScheduleState.ENDED


@pytest.mark.parametrize("end", [changes.cancel, changes.delete])
def test_a_schedule_that_ends_during_the_look_does_not_go_on(store: BaseStore, end: Callable[..., Any]) -> None:
    world = GateWorld(store, max_runs=1)
    line = world.hold()
    world.tick()
    store.change(world.schedule, world.clock.now(), end)
    assert not world.check(line.items.pop())
    assert world.stored().progress.next is None and world.stored().progress.active == 0


def _policy(**options: object) -> str:
    return policy_to_json(make_policy(options))


def test_an_edit_of_the_gate_resets_it_and_other_edits_do_not(store: BaseStore) -> None:
    world = GateWorld(store)
    world.poll("a")

    def edit(patch: Edit) -> None:
        store.change(world.schedule, world.clock.now(), lambda change: changes.edit(change, patch))

    edit(Edit(name="another name", policy=_policy(only_if=GATE, max_attempts=3)))
    assert world.poll("b") == ["b"]
    for gate in ("page()|changed()", GATE):
        edit(Edit(policy=_policy(only_if=gate)))
    assert world.poll("c") == [], "the same gate again remembers nothing either"
    assert world.poll("d") == ["d"]
    edit(Edit(policy="{}"))
    assert world.poll("d") == [None]
    edit(Edit(policy=_policy(only_if=GATE)))
    assert world.poll("e") == []


def test_a_run_of_the_former_gate_does_not_change_the_memory_of_the_new_one(store: BaseStore) -> None:
    world = GateWorld(store, overlap="allow")
    world.poll("a")
    line, world.page = world.hold(), "b"
    world.tick()
    old = line.items.pop()
    assert world.check(old)
    patch = Edit(policy=_policy(only_if="page() | changed() and page()", overlap="allow"))
    store.change(world.schedule, world.clock.now(), lambda change: changes.edit(change, patch))
    world.page = "c"
    world.tick()
    assert not world.check(line.items.pop()), "the first look of the new gate"
    world.finish(old)
    world.tick()
    assert not world.check(line.items.pop())


def test_polls_compare_with_what_a_run_was_given_while_it_runs(store: BaseStore) -> None:
    world = GateWorld(store, overlap="allow")
    world.poll("a")
    line, world.page = world.hold(), "b"
    world.tick()
    first = line.items.pop()
    assert world.check(first)
    world.tick()
    assert not world.check(line.items.pop()), "another run has this change"
    world.page = "c"
    world.tick()
    second = line.items.pop()
    assert world.check(second)
    world.finish(second)
    world.finish(first)
    world.tick()
    assert not world.check(line.items.pop()), "the older one ended later, but the newer value is remembered"
    assert world.works[-2:] == ["c", "b"]


def test_two_looks_at_the_same_time_give_a_change_to_one_run(store: BaseStore) -> None:
    world = GateWorld(store, overlap="allow")
    world.poll("a")
    line, world.page = world.hold(), "b"
    world.tick(2)
    first, second = line.items
    real, kind = world.kind.gates.look, world.kind.gates

    def look(gate: str, memory: str | None, work: object) -> object:
        seen = real(gate, memory, work)  # type: ignore[arg-type]
        kind.look = real  # type: ignore[method-assign]
        assert world.check(second), "it is faster, after both have looked"
        return seen

    kind.look = look  # type: ignore[assignment]
    assert not world.check(first)


def test_a_retry_gets_what_the_run_was_given_without_another_look(store: BaseStore) -> None:
    world = GateWorld(store)
    world.poll("a")
    assert world.poll("b", fails=True) == ["b"]
    failed = world.runs()[-1]
    world.page, world.fails = "a", False
    store.change_run(failed.id, world.clock.now(), changes.retry)
    world.settle()
    assert world.works[-1] == "b"
    assert world.poll("b") == [], "that succeeded"


def test_a_death_after_the_look_keeps_what_the_run_was_given(store: BaseStore) -> None:
    world = GateWorld(store)
    world.poll("a")
    line, world.page = world.hold(), "b"
    world.tick()
    assert world.check(line.items.pop())
    world.kill()
    assert world.poll("c") == ["b"], "the run that was begun, with its own input"
    assert world.poll("c") == ["c"]


def test_the_work_of_a_run_that_belongs_to_somebody_else_by_now_is_not_done(store: BaseStore) -> None:
    world = GateWorld(store)
    world.poll("a")
    line, world.page = world.hold(), "b"
    world.tick()
    item = line.items.pop()
    world.kill()
    gift = check_gate(item, world.kinds, store, world.clock, None, None)
    assert isinstance(gift, Finished) and isinstance(gift.outcome, Returned)
    assert world.poll("b") == ["b"], "by the worker that has it"


def test_a_forced_run_is_not_checked_and_changes_no_memory(store: BaseStore) -> None:
    world = GateWorld(store)
    world.poll("a")
    world.page = "b"
    store.change(world.schedule, world.clock.now(), lambda change: changes.fire(change, force=True))
    world.settle()
    assert world.works == [None]
    assert world.poll("b") == ["b"]


def test_a_one_off_that_is_skipped_is_over_and_did_not_fail(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, once(T0, only_if=GATE))
    hand.record(hand.claim(T0), T0 + SECOND, Skipped(SAME))
    progress = the(store, schedule).progress
    assert (progress.state, progress.failures, progress.last_status) == (ScheduleState.ENDED, 0, RunStatus.SKIPPED)
    assert status_of(progress) == "completed"


def test_became_fires_when_the_value_is_reached_again(store: BaseStore) -> None:
    world = GateWorld(store, "page() | became('up')")
    assert world.poll("up") == world.poll("up") == world.poll("down") == []
    assert world.poll("up", fails=True) == world.poll("up") == ["up"]
    assert world.poll("up") == world.poll("down") == world.poll("down") == []
    assert world.poll("up") == ["up"]


def test_an_unreadable_word_in_another_option_is_no_gate(store: BaseStore) -> None:
    world = GateWorld(store)
    store.change(world.schedule, world.clock.now(), lambda change: changes.edit(change, Edit(policy="{}")))
    assert world.poll("a") == [None] and world.poll("a") == [None]


def test_a_waiting_run_that_nobody_took_stays_until_something_changes(store: BaseStore) -> None:
    """It is compared with what it was given, and replaced by a run with something newer."""
    world = GateWorld(store)
    world.poll("a")
    line, world.page = world.hold(), "b"
    world.tick()
    first = line.items.pop()
    assert world.check(first)
    _let_wait(world, first)
    world.tick()
    assert not world.check(line.items.pop())
    assert [run.status for run in world.runs()] == ["skipped", "waiting", "skipped"]
    world.page = "c"
    world.tick()
    second = line.items.pop()
    assert world.check(second)
    assert [run.status for run in world.runs()] == ["skipped", "missed", "skipped", "running"]
    _let_wait(world, second)
    progress = world.stored().progress
    assert (progress.active, progress.untaken) == (1, 1)


def _let_wait(world: GateWorld, item: ClaimedRun) -> None:
    world.record(item, Finished(item.id, item.claim.run.fence, Waiting(), None, world.clock.now()))


@pytest.mark.parametrize("end", [changes.cancel, changes.delete])
def test_a_restored_schedule_runs_for_what_changed_meanwhile(store: BaseStore, end: Callable[..., Any]) -> None:
    world = GateWorld(store)
    assert world.poll("c") == []
    for page, fails in (("d", False), ("e", True), ("e", False)):
        store.change(world.schedule, world.clock.now(), end)
        store.change(world.schedule, world.clock.now(), changes.restore)
        assert world.poll(page, fails=fails) == [page], "also after a run for this change has failed"
    store.change(world.schedule, world.clock.now(), end)
    store.change(world.schedule, world.clock.now(), changes.restore)
    assert world.poll("e") == [], "nothing has changed"


def test_the_memory_goes_when_the_schedule_cannot_be_restored_any_more(store: BaseStore) -> None:
    world, later = GateWorld(store), GateWorld(store)
    for each in (world, later):
        each.poll("a")
    store.change(world.schedule, world.clock.now(), changes.delete)
    store.change(later.schedule, Instant(world.clock.now() + 2), changes.delete)
    store.drop_tombstones(Instant(world.clock.now() + 1))
    assert not store._named("memory_of", world.schedule)
    assert store._named("memory_of", later.schedule)


@pytest.mark.parametrize("steps", [(True,), (False, True)], ids=["at once", "after a delete"])
def test_the_memory_of_what_is_deleted_forever_goes_at_once(store: BaseStore, steps: tuple[bool, ...]) -> None:
    world = GateWorld(store)
    world.poll("a")
    for forever in steps:
        assert store._named("memory_of", world.schedule)
        store.change(world.schedule, world.clock.now(), partial(changes.delete, forever=forever))
    assert not store._named("memory_of", world.schedule)


def test_a_worker_without_the_task_gives_the_run_back_with_the_reason(store: BaseStore) -> None:
    world = GateWorld(store, "elsewhere() | changed()")
    world.tick()
    (run,) = world.runs()
    assert run.status == RunStatus.PENDING and run.attempt == 0
    assert run.error is not None and run.error.startswith("Unknown task: elsewhere, in only_if; start a worker")
    world.kinds.clear()


def test_a_worker_without_any_tasks_gives_the_run_back(store: BaseStore) -> None:
    world = GateWorld(store)
    line = world.hold()
    world.tick()
    world.kinds = {}
    assert not world.check(line.items.pop())
    assert world.runs()[0].error == NO_GATES


def test_more_than_a_gate_may_remember_is_a_failure(store: BaseStore) -> None:
    world = GateWorld(store, gate_failure="skip")
    world.kind.gates.look = lambda *_: GateGift(memory="x" * (MOST_REMEMBERED + 1))  # type: ignore[method-assign]
    world.tick()
    assert world.rows() == [("skipped", 1, "its gate failed: ValueError: it would remember more than 16 KB")]


# -- results that differ from the one that was told last ---------------------------------------------------------------


def _told(store: BaseStore) -> list[str]:
    messages = store.search(ScheduleQuery(owner="ada", kind="notification", limit=1000)).items
    return [json.loads(each.definition.payload)["message"] for each in messages]


def test_notify_on_change_tells_only_what_differs_from_the_last_message(store: BaseStore, hand: Hand) -> None:
    create_one(store, every(deliver_to="news", notify_on="change", pause_after=0))
    outcomes: list[Outcome] = [
        Completed('"1"'),
        Completed('"1"'),
        Completed('"2"'),
        Failed("x"),
        Failed("x"),
        Completed('"2"'),
    ]
    for number, outcome in enumerate(outcomes, 1):
        hand.record(hand.claim(T0 + number * MINUTE), T0 + number * MINUTE + SECOND, outcome)
    assert _told(store) == ["1", "2", "x", "2"]


@pytest.mark.parametrize("between", ["always", "success"])
def test_notify_on_change_begins_anew_after_other_messages(store: BaseStore, hand: Hand, between: str) -> None:
    schedule = create_one(store, every(deliver_to="news", notify_on="change", pause_after=0))
    outcomes: list[tuple[str, Outcome]] = [
        ("change", Completed('"a"')),
        ("change", Failed("down")),
        (between, Completed('"a"')),
        ("change", Failed("down")),
        ("change", Failed("down")),
    ]
    for number, (notify_on, outcome) in enumerate(outcomes, 1):
        patch = Edit(policy=_policy(deliver_to="news", notify_on=notify_on, pause_after=0))
        store.change(schedule, Instant(T0 + (number - 1) * MINUTE + 2 * SECOND), partial(changes.edit, patch=patch))
        hand.record(hand.claim(T0 + number * MINUTE), T0 + number * MINUTE + SECOND, outcome)
    assert _told(store) == ["a", "down", "a", "down"]


def test_notify_on_change_begins_anew_with_another_topic(store: BaseStore, hand: Hand) -> None:
    """What one topic was told is new to another."""
    schedule = create_one(store, every(deliver_to="home", notify_on="change"))
    for number, topic in enumerate(("home", "news", "news"), 1):
        patch = Edit(policy=_policy(deliver_to=topic, notify_on="change"))
        store.change(schedule, Instant(T0 + (number - 1) * MINUTE + 2 * SECOND), partial(changes.edit, patch=patch))
        hand.record(hand.claim(T0 + number * MINUTE), T0 + number * MINUTE + SECOND, Completed('"a"'))
    topics = [
        json.loads(each.definition.payload)["topic"]
        for each in store.search(ScheduleQuery(owner="ada", kind="notification", limit=1000)).items
    ]
    assert topics == ["home", "news"]


@pytest.mark.parametrize("mark", ['"[nothing]"', '{"text": " [Nothing]\\n", "agent": "x"}'])
def test_an_answer_with_the_mark_is_kept_and_not_sent(store: BaseStore, hand: Hand, mark: str) -> None:
    schedule = create_one(store, every(deliver_to="news", notify_on="change"))
    for number, result in enumerate(['"1"', mark, '"1"', '"[nothing] at all"'], 1):
        hand.record(hand.claim(T0 + number * MINUTE), T0 + number * MINUTE + SECOND, Completed(result))
    assert _told(store) == ["1", "[nothing] at all"]
    assert runs_of(store, schedule)[1].result == mark
