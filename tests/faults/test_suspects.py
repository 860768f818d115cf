"""What becomes of the runs that a dead process held: they return in growing groups, and only a killer is kept away."""

from __future__ import annotations

from typing import Any

from duetime.engine.kind import StopReason
from duetime.engine.model import Run
from duetime.engine.store import RunQuery
from duetime.engine.worker.poison import IDLE_SECONDS
from duetime.engine.worker.worker import Worker
from tests.faults.conftest import RealStore
from tests.faults.test_worker_steps import CLOCK, dies, due, finish, make_fast, worker_on
from tests.support.hand import create
from tests.support.invariants import invariants
from tests.support.unreliable import Line


def begin(line: Line) -> None:
    """The threads of a worker have taken up everything that stands in its line."""
    for item in line.items:
        item.begun = True


def look(worker: Worker) -> int:
    """How many runs are in hand after a look at what is due."""
    worker.notice()
    worker.record_and_claim()
    return len(worker.claimed)


def runs(store: RealStore, **query: Any) -> list[Run]:
    return store.runs(RunQuery(limit=200, **query)).items


def crashed(store: RealStore, number: int, others: int = 0) -> None:
    """So many runs, and others of another kind, are begun by a worker that dies with them."""
    create(store, *due(number), *due(others, kind="other"))
    number += others
    victim, line = worker_on(store, number)
    victim.record_and_claim()
    begin(line)
    assert len(victim.claimed) == number
    dies(store, victim)


def test_what_was_under_way_in_a_crash_returns_in_groups_of_one_two_and_four(store: RealStore) -> None:
    """Whatever their kinds, and without waiting for the whole of a group."""
    crashed(store, 5, others=3)
    worker, line = worker_on(store, 16)
    groups = []
    while number := look(worker):
        groups.append(number)
        begin(line)
        finish(worker, line, number)
    assert groups == [1, 2, 4, 1]
    worker.record_and_claim()
    assert {(run.status, run.deaths, run.attempt) for run in runs(store)} == {("completed", 1, 2)}
    invariants(store)


def test_one_that_takes_long_does_not_hold_up_the_others(store: RealStore) -> None:
    crashed(store, 8)
    worker, line = worker_on(store, 16)
    look(worker)
    finish(worker, line, 1)
    assert look(worker) == 2
    line.items.pop()  # this one goes on for hours
    for expected in (3, 4, 4, 3):
        finish(worker, line, 1)
        assert look(worker) == expected


def test_groups_are_small_again_after_a_death(store: RealStore) -> None:
    crashed(store, 8)
    worker, line = worker_on(store, 16)
    other, _ = worker_on(store, 16)
    worker.rescue()
    look(worker)
    finish(worker, line, 1)
    assert look(worker) == 2
    dies(store, other)
    worker.rescue()  # sees that somebody is gone
    finish(worker, line, 1)
    assert look(worker) == 2, "the one that ended counts from the death on"


def test_groups_are_small_again_after_a_while_without_suspects(store: RealStore) -> None:
    crashed(store, 3)
    worker, line = worker_on(store, 16)
    while number := look(worker):
        finish(worker, line, number)
    assert worker.held.suspects.capacity() == 4
    worker.held.suspects._last -= 2 * IDLE_SECONDS
    assert worker.held.suspects.capacity() == 1


def test_a_run_that_had_not_begun_returns_at_once_and_without_a_death_twice(store: RealStore) -> None:
    """It may have begun after the last beat, so the third time counts."""
    create(store, *due(1))
    for deaths, lane in ((0, "job"), (0, "job"), (1, "job:solo")):
        worker, _ = worker_on(store, 4)
        assert look(worker) == 1
        worker.beat()
        dies(store, worker)
        (run,) = runs(store)
        assert (run.status, run.deaths) == ("pending", deaths)
        assert run.attempt == deaths, "an attempt that was never made is not counted"
        entry = store.earliest([lane])
        assert entry is not None and entry.run == run.id
    invariants(store)


def test_a_run_that_was_given_back_in_between_may_be_spared_twice_again(store: RealStore) -> None:
    create(store, *due(1))
    for _ in range(2):
        worker, line = worker_on(store, 4)
        look(worker)
        worker.beat()
        dies(store, worker)
    worker, line = worker_on(store, 4)
    look(worker)
    line.items[0].stop.set(StopReason.SHUTDOWN)  # its worker gives it back
    finish(worker, line, 1)
    look(worker)
    worker.beat()
    dies(store, worker)
    (run,) = runs(store)
    assert run.deaths == 0


def test_what_was_claimed_after_the_last_beat_may_have_begun(store: RealStore) -> None:
    create(store, *due(1))
    worker, _ = worker_on(store, 4)
    worker.beat()
    look(worker)
    dies(store, worker)
    assert [run.deaths for run in runs(store)] == [1]


def test_at_most_once_work_is_lost_also_where_it_had_not_begun_at_the_last_beat(store: RealStore) -> None:
    create(store, *due(1, at_most_once=True))
    worker, _ = worker_on(store, 4)
    look(worker)
    worker.beat()
    dies(store, worker)
    assert [run.status for run in runs(store)] == ["lost"]
    heir, _ = worker_on(store, 4)
    assert look(heir) == 0


def test_a_run_that_kills_is_quarantined_and_its_companions_are_not(store: RealStore) -> None:
    """Whichever of them it is: all were in hand at each death, and only the killer was once the only suspect."""
    for place in range(8):
        crashed(store, 4, others=4)
        killer = sorted(run.id for run in runs(store, status="pending"))[place]
        deaths = 1
        while True:
            worker, line = worker_on(store, 16)
            while look(worker) and killer not in worker.claimed:
                begin(line)
                finish(worker, line, len(line.items))
            if killer not in worker.claimed:
                break
            begin(line)
            dies(store, worker)
            deaths += 1
        assert deaths in (3, 4), f"the killer at place {place} was found too late"
        found = {run.id: run for run in runs(store)}
        assert found[killer].status == "failed" and "quarantined" in str(found[killer].error)
        assert found[killer].deaths >= 3
        others = [run.status for run in found.values() if run.id != killer and run.kind in ("job", "other")]
        assert others.count("failed") == place, "only the killers of the rounds before"
        worker, line = worker_on(store, 16)
        while look(worker):
            finish(worker, line, len(line.items))
    invariants(store)


def test_suspects_of_several_deaths_do_not_begin_beside_those_of_one(store: RealStore) -> None:
    crashed(store, 3)
    first, line = worker_on(store, 4)
    assert look(first) == 1
    begin(line)
    dies(store, first)  # one of them has two deaths now, and stands behind the others
    worker, line = worker_on(store, 4)
    assert look(worker) == 1
    finish(worker, line, 1)
    assert look(worker) == 2, "both of the others are claimed"
    assert [item.claim.run.deaths for item in line.items] == [2], "the one that is suspected most begins alone"
    assert look(worker) == 2, "and nothing more"
    finish(worker, line, 1)
    assert look(worker) == 1
    assert [item.claim.run.deaths for item in line.items] == [1]
    finish(worker, line, 1)
    worker.record_and_claim()
    assert {run.status for run in runs(store)} == {"completed"}


def test_a_suspect_that_may_not_begin_here_is_left_to_others(store: RealStore) -> None:
    crashed(store, 3)
    first, line = worker_on(store, 4)
    look(first)
    begin(line)
    dies(store, first)
    worker, line = worker_on(store, 4)
    look(worker)
    finish(worker, line, 1)
    look(worker)
    worker.leave_to_others(0.0)
    worker.record_and_claim()
    assert len(worker.claimed) == 1
    other, elsewhere = worker_on(store, 4)
    assert look(other) == 1
    assert [item.claim.run.deaths for item in elsewhere.items] == [1]
    worker.give_back_unstarted()


def test_a_worker_that_drains_gives_back_what_may_not_begin(store: RealStore) -> None:
    crashed(store, 3)
    first, line = worker_on(store, 4)
    look(first)
    begin(line)
    dies(store, first)
    worker, line = worker_on(store, 4)
    look(worker)
    finish(worker, line, 1)
    assert look(worker) == 2
    worker.claiming = False
    worker.give_back_unstarted()
    worker.record_and_claim()
    assert worker.claimed == {}


def test_a_beat_of_a_worker_with_a_long_line_stays_small(store: RealStore) -> None:
    create(store, *due(300))
    worker, line = worker_on(store, 2, batch=300)
    make_fast(worker)
    look(worker)
    line.items[0].begun = True
    worker.beat()
    (listed,) = store._rows("SELECT not_begun FROM workers", ())[0]
    assert len(listed.split(",")) == 299
    assert len(listed) < 16_000
    store.beat(worker.id or 0, CLOCK.now(), {})  # type: ignore[arg-type]
    assert store._rows("SELECT not_begun FROM workers", ()) == [(None,)], "one that does not say it is unknown"
