"""Who is judged dead, and when a worker may no longer act."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from duetime.engine.clock import SECOND, Instant, instant_of
from duetime.engine.errors import StoreUnavailable
from duetime.engine.model import WorkerId, WorkerRow
from duetime.engine.worker.lease import FailureDetector, Lease
from duetime.processes.supervisor import ChildLease
from duetime.testing import SettableClock

ME = WorkerId(1)


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock(instant_of(datetime(2026, 1, 1, tzinfo=UTC)))


def pass_time(clock: SettableClock, seconds: float) -> None:
    clock.move_to(Instant(clock.now() + int(seconds * SECOND)))


def row(worker: int, beat: int) -> WorkerRow:
    return WorkerRow(WorkerId(worker), "w", "job", 0, Instant(0), beat, Instant(0))


def watch(detector: FailureDetector, clock: SettableClock, seconds: float, beat: int) -> list[WorkerRow]:
    dead: list[WorkerRow] = []
    for _ in range(int(seconds / 0.5)):
        pass_time(clock, 0.5)
        dead = detector.observe([row(2, beat)], ME)
    return dead


def test_a_worker_is_dead_after_a_full_lease_of_the_same_beat(clock: SettableClock) -> None:
    detector = FailureDetector(clock, lease=10, interval=0.5)
    detector.observe([row(2, 7)], ME)
    assert watch(detector, clock, 9.5, 7) == []
    assert [dead.id for dead in watch(detector, clock, 0.5, 7)] == [2]


def test_a_beat_begins_the_lease_anew(clock: SettableClock) -> None:
    detector = FailureDetector(clock, lease=10, interval=0.5)
    detector.observe([row(2, 7)], ME)
    assert watch(detector, clock, 9.5, 7) == []
    assert watch(detector, clock, 9.5, 8) == []


def test_a_gap_between_reads_proves_nothing(clock: SettableClock) -> None:
    """The database was away, or this machine slept: the others could not be seen."""
    detector = FailureDetector(clock, lease=10, interval=0.5)
    detector.observe([row(2, 7)], ME)
    pass_time(clock, 3600)
    assert detector.observe([row(2, 7)], ME) == []
    assert watch(detector, clock, 9.5, 7) == []
    assert watch(detector, clock, 0.5, 7) != []


def test_a_failed_read_begins_anew(clock: SettableClock) -> None:
    detector = FailureDetector(clock, lease=10, interval=0.5)
    detector.observe([row(2, 7)], ME)
    assert watch(detector, clock, 3, 7) == []
    detector.forget()
    assert watch(detector, clock, 13.5, 7) == []
    assert watch(detector, clock, 0.5, 7) != []


def test_an_outage_is_left_out_of_a_long_silence(clock: SettableClock) -> None:
    """The silence before it counts as far as a write has succeeded since; those who live get time to reconnect."""
    detector = FailureDetector(clock, lease=10, interval=0.5)
    detector.observe([row(2, 7)], ME)
    assert watch(detector, clock, 9.5, 7) == []
    detector.forget()
    assert watch(detector, clock, 3.5, 7) == []
    assert watch(detector, clock, 0.5, 7) != []


@pytest.mark.parametrize("reads_go_on", [True, False])
def test_outages_again_and_again_do_not_hide_a_dead_worker(clock: SettableClock, reads_go_on: bool) -> None:
    """Of every 12 seconds, nobody can write in 5.5; whoever lives beats as soon as the store is back."""

    def is_away() -> bool:
        return clock.monotonic() % 12 >= 6.5

    def check_writable() -> None:
        if is_away():
            raise StoreUnavailable("locked by another process")

    detector = FailureDetector(clock, 10, 0.5, check_writable)
    beat, dead = 1, set[int]()
    while 2 not in dead and clock.monotonic() < 90:
        pass_time(clock, 0.5)
        if is_away() and not reads_go_on:
            detector.forget()
            continue
        beat += not is_away() and clock.monotonic() % 12 >= 4
        try:
            dead |= {each.id for each in detector.observe([row(2, 7), row(3, beat)], ME)}
        except StoreUnavailable:
            detector.forget()
    assert dead == {2} and clock.monotonic() < 30


def test_each_is_judged_by_its_own_lease(clock: SettableClock) -> None:
    """A patient worker beats rarely: an impatient one must not take it for dead."""
    detector = FailureDetector(clock, lease=2, interval=0.5)
    patient, hasty = row(2, 7)._replace(lease=60 * SECOND), row(3, 7)._replace(lease=2 * SECOND)
    dead: set[int] = set()
    for _ in range(20):
        pass_time(clock, 0.5)
        dead |= {each.id for each in detector.observe([patient, hasty], ME)}
    assert dead == {3}


def test_nobody_judges_himself(clock: SettableClock) -> None:
    detector = FailureDetector(clock, lease=1, interval=0.5)
    detector.observe([row(2, 7)], WorkerId(2))
    for _ in range(10):
        pass_time(clock, 0.5)
        assert detector.observe([row(2, 7)], WorkerId(2)) == []


def test_a_wall_clock_jump_kills_nobody(clock: SettableClock) -> None:
    detector = FailureDetector(clock, lease=10, interval=0.5)
    detector.observe([row(2, 7)], ME)
    clock.jump(timedelta(days=1))
    assert watch(detector, clock, 5, 7) == []


def test_a_lease_is_counted_from_before_the_beat(clock: SettableClock) -> None:
    lease = Lease(clock, 10)
    asked = clock.boottime()
    pass_time(clock, 4)
    lease.renew(asked)
    pass_time(clock, 6)
    assert not lease.expired()
    pass_time(clock, 0.1)
    assert lease.expired()


def test_a_child_is_told_to_end_before_the_lease_of_its_worker(clock: SettableClock) -> None:
    lease = Lease(clock, 10)
    child = ChildLease(lease, patience=30, clock=clock)
    assert child.deadline() == clock.boottime() + 9
    assert child.renewal() is None, "it has just been told"
    pass_time(clock, 4)
    assert child.renewal() == clock.boottime() + 5
    pass_time(clock, 5.5)
    assert child.renewal() is None, "what is left of the lease is too little for a child"
    lease.renew(clock.boottime())
    pass_time(clock, 1)
    assert child.renewal() == clock.boottime() + 8


def test_a_deadline_that_was_sent_too_late_does_not_excuse_the_child(clock: SettableClock) -> None:
    """The worker stood still until the child had ended, and its heartbeat came through before it looked."""
    lease = Lease(clock, 4)
    child = ChildLease(lease, patience=30, clock=clock)
    pass_time(clock, 3.5)
    lease.renew(clock.boottime())
    deadline = child.renewal()
    assert deadline is not None
    child.sent(deadline)
    assert child.over, "nobody knows whether the child was still there to hear of it"
    pass_time(clock, 1)
    later = child.renewal()
    assert later is not None
    child.sent(later)
    assert not child.over, "it was still there"


def test_a_child_does_not_wait_for_a_long_lease(clock: SettableClock) -> None:
    assert ChildLease(Lease(clock, 600), patience=30, clock=clock).deadline() == clock.boottime() + 30
    assert ChildLease(None, patience=30, clock=clock).deadline() == clock.boottime() + 30


def test_a_silence_in_which_nobody_can_write_proves_nothing(clock: SettableClock) -> None:
    """Reads work on, as beside another process that holds the write lock of a file."""
    locked = True

    def probe() -> None:
        if locked:
            raise StoreUnavailable("locked by another process")

    detector = FailureDetector(clock, lease=10, interval=0.5, probe=probe)
    for _ in range(100):
        pass_time(clock, 0.5)
        try:
            assert detector.observe([row(2, 7)], ME) == []
        except StoreUnavailable:
            detector.forget()
    detector.forget()
    locked = False
    assert watch(detector, clock, 10, 7) == [], "it begins anew"
    assert watch(detector, clock, 5, 7) != []


def test_whoever_can_beat_is_watched_without_a_write(clock: SettableClock) -> None:
    probes: list[float] = []
    detector = FailureDetector(clock, lease=10, interval=0.5, probe=lambda: probes.append(clock.monotonic()))
    for beat in range(1, 20):
        watch(detector, clock, 2.5, beat)
    assert probes == []
    watch(detector, clock, 10, 20)
    assert 1 <= len(probes) <= 4
