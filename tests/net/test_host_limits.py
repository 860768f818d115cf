"""How many attempts a host may have in flight, and when it is left alone: on a settable clock."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from duetime.engine.clock import DAY, SECOND, Instant, instant_of
from duetime.engine.kind import LOCAL
from duetime.engine.outcome import Completed, Failed, Outcome, Retry, Returned
from duetime.net.host_limits import Hosts, Sign, Tried
from duetime.testing import SettableClock

HOST = "https://hooks.example.org"
TAKEN = Tried(Completed(), Sign.ANSWERED)
DEAD = Tried(Retry("did not answer"), Sign.FAILED)
SILENT = Tried(Retry("did not answer in time"), Sign.SILENT)
BUSY = Tried(Retry("answered 429"), Sign.ANSWERED)
REFUSED = Tried(Failed("a private address", permanent=True), Sign.NONE)
LONG = 10.0
"""Seconds after which a test that waits has failed."""


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock(instant_of(datetime(2026, 2, 10, 14, 0, tzinfo=UTC)))


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(32) as pool:
        yield pool


def pass_time(clock: SettableClock, seconds: float) -> None:
    clock.move_to(Instant(clock.now() + int(seconds * SECOND)))


class Held:
    """An attempt that is in flight until it is let go."""

    def __init__(self, threads: ThreadPoolExecutor, hosts: Hosts, host: str = HOST, ends: Tried = TAKEN) -> None:
        self.began, self.released, self._ends = threading.Event(), threading.Event(), ends
        self.outcome: Future[Outcome] = threads.submit(hosts.pass_, host, self._attempt)

    def _attempt(self) -> Tried:
        self.began.set()
        assert self.released.wait(LONG)
        return self._ends

    def in_flight(self) -> Held:
        assert self.began.wait(LONG)
        return self

    def release(self) -> Outcome:
        self.released.set()
        return self.outcome.result(LONG)


class Gauge:
    """How many attempts were in flight at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._in_flight = self.most = 0

    def attempt(self) -> Tried:
        with self._lock:
            self._in_flight += 1
            self.most = max(self.most, self._in_flight)
        threading.Event().wait(0.0005)
        with self._lock:
            self._in_flight -= 1
        return TAKEN


def once(tried: Tried) -> Callable[[], Tried]:
    return lambda: tried


def never() -> Tried:
    raise AssertionError("this attempt must not be made")


def fail(hosts: Hosts, times: int) -> None:
    for _ in range(times):
        assert hosts.pass_(HOST, once(DEAD)) == DEAD.outcome


def hold(threads: ThreadPoolExecutor, hosts: Hosts, count: int) -> list[Held]:
    return [Held(threads, hosts).in_flight() for _ in range(count)]


def hold_strangers(threads: ThreadPoolExecutor, hosts: Hosts, count: int) -> list[Held]:
    """One attempt at each of so many hosts that nobody has met."""
    return [Held(threads, hosts, f"https://{number}.example.org").in_flight() for number in range(count)]


def assert_left_alone(told: Outcome, seconds: float) -> None:
    """Nothing was tried, so that it costs nothing; what waits for it is spread over a second."""
    assert isinstance(told, Returned)
    assert told.reason == f"{HOST} is not answering, so it is left alone for a while"
    assert seconds * SECOND < told.after <= (seconds + 1) * SECOND
    assert told.patience == DAY


def release(held: list[Held]) -> None:
    for each in held:
        each.release()


def test_an_outcome_comes_back_as_it_is(clock: SettableClock) -> None:
    hosts = Hosts(clock, 4)
    for tried in (TAKEN, DEAD, BUSY, REFUSED):
        assert hosts.pass_(HOST, once(tried)) is tried.outcome


@pytest.mark.parametrize(("workers", "limit"), [(1, 1), (4, 1), (7, 1), (8, 2), (32, 2)])
def test_a_host_that_has_not_answered_holds_next_to_nothing(
    clock: SettableClock, threads: ThreadPoolExecutor, workers: int, limit: int
) -> None:
    hosts = Hosts(clock, workers)
    held = hold(threads, hosts, limit)
    given_back = hosts.pass_(HOST, never)
    assert isinstance(given_back, Returned)
    assert SECOND // 5 <= given_back.after <= SECOND
    assert HOST in (given_back.reason or "")
    release(held)


def test_the_more_wait_for_a_silent_host_the_more_seldom_each_asks(
    clock: SettableClock, threads: ThreadPoolExecutor
) -> None:
    hosts = Hosts(clock, 8)
    held = hold(threads, hosts, 2)
    sent_back = [hosts.pass_(HOST, never) for _ in range(1000)]
    delays = [each.after for each in sent_back if isinstance(each, Returned)]
    assert max(delays[:50]) <= SECOND
    assert 5 * SECOND < max(delays[500:]) <= 10 * SECOND
    release(held)
    again = hold(threads, hosts, 4)  # it has answered, so that it is counted anew
    pass_time(clock, 1)
    first = hosts.pass_(HOST, never)
    assert isinstance(first, Returned) and first.after <= SECOND
    release(again)


@pytest.mark.parametrize(("workers", "limit"), [(1, 1), (2, 1), (3, 1), (8, 4), (20, 10)])
def test_a_host_that_answers_holds_half_of_the_threads(
    clock: SettableClock, threads: ThreadPoolExecutor, workers: int, limit: int
) -> None:
    hosts = Hosts(clock, workers)
    hosts.pass_(HOST, once(TAKEN))
    held = hold(threads, hosts, limit)
    pass_time(clock, 1)
    assert isinstance(hosts.pass_(HOST, never), Returned)
    release(held)
    assert hosts.pass_(HOST, once(TAKEN)) == Completed()


def test_one_failure_and_a_host_has_to_prove_itself_again(clock: SettableClock, threads: ThreadPoolExecutor) -> None:
    hosts = Hosts(clock, 20)
    hosts.pass_(HOST, once(TAKEN))
    fail(hosts, 1)
    held = hold(threads, hosts, 2)
    assert isinstance(hosts.pass_(HOST, never), Returned)
    release(held)


@pytest.mark.parametrize("taken", [hold, hold_strangers], ids=["of the host", "among all hosts"])
def test_a_slot_is_waited_for_while_answers_come(
    clock: SettableClock, threads: ThreadPoolExecutor, taken: Callable[[ThreadPoolExecutor, Hosts, int], list[Held]]
) -> None:
    hosts = Hosts(clock, 2)
    hosts.pass_(HOST, once(TAKEN))
    [held] = taken(threads, hosts, 1)
    soon = threading.Timer(0.05, held.released.set)
    soon.start()
    assert hosts.pass_(HOST, once(BUSY)) == BUSY.outcome
    assert held.outcome.result(LONG) == Completed()
    soon.join()


def test_waiting_ends_with_the_second_after_the_last_answer(clock: SettableClock, threads: ThreadPoolExecutor) -> None:
    hosts = Hosts(clock, 2)
    hosts.pass_(HOST, once(TAKEN))
    held = hold(threads, hosts, 1)
    pass_time(clock, 0.9)  # a tenth of a second is left, and it is real
    assert isinstance(hosts.pass_(HOST, never), Returned)
    release(held)


def test_whoever_waits_for_a_host_that_dies_is_told(clock: SettableClock, threads: ThreadPoolExecutor) -> None:
    hosts = Hosts(clock, 12)
    hosts.pass_(HOST, once(TAKEN))
    held = [Held(threads, hosts, ends=DEAD).in_flight() for _ in range(6)]
    waiting = threads.submit(hosts.pass_, HOST, never)
    for each in held[:5]:
        each.released.set()
    assert_left_alone(waiting.result(LONG), 30)
    assert held[5].release() == DEAD.outcome


def test_after_five_failures_in_a_row_a_host_is_left_alone(clock: SettableClock) -> None:
    hosts = Hosts(clock, 8)
    fail(hosts, 4)
    pass_time(clock, 2)
    fail(hosts, 1)
    pass_time(clock, 10)
    assert_left_alone(hosts.pass_(HOST, never), 20)
    assert hosts.pass_("https://other.example.org", once(TAKEN)) == Completed()


@pytest.mark.parametrize("between", [TAKEN, BUSY])
def test_any_answer_begins_the_count_anew(clock: SettableClock, between: Tried) -> None:
    hosts = Hosts(clock, 8)
    fail(hosts, 4)
    hosts.pass_(HOST, once(between))
    fail(hosts, 4)
    assert hosts.pass_(HOST, once(TAKEN)) == Completed()


def test_a_call_that_never_left_says_nothing_of_its_host(clock: SettableClock) -> None:
    hosts = Hosts(clock, 8)
    for _ in range(20):
        assert hosts.pass_(HOST, once(REFUSED)) == REFUSED.outcome
    fail(hosts, 4)
    hosts.pass_(HOST, once(REFUSED))
    fail(hosts, 1)
    assert_left_alone(hosts.pass_(HOST, never), 30)


def test_one_probe_at_a_time_finds_out_whether_it_is_back(clock: SettableClock, threads: ThreadPoolExecutor) -> None:
    hosts = Hosts(clock, 8)
    fail(hosts, 5)
    pass_time(clock, 30)
    probe = Held(threads, hosts).in_flight()
    assert isinstance(hosts.pass_(HOST, never), Returned)
    assert probe.release() == Completed()
    release(hold(threads, hosts, 4))  # and it is trusted again


def test_it_is_left_alone_for_longer_each_time_up_to_five_minutes(clock: SettableClock) -> None:
    hosts = Hosts(clock, 8)
    fail(hosts, 4)
    for seconds in (30, 60, 120, 240, 300, 300):
        fail(hosts, 1)
        assert_left_alone(hosts.pass_(HOST, never), seconds)
        pass_time(clock, seconds)
    hosts.pass_(HOST, once(TAKEN))
    fail(hosts, 5)
    assert_left_alone(hosts.pass_(HOST, never), 30)


def test_failures_that_were_already_in_flight_do_not_prolong_it(
    clock: SettableClock, threads: ThreadPoolExecutor
) -> None:
    hosts = Hosts(clock, 20)
    hosts.pass_(HOST, once(TAKEN))
    held = [Held(threads, hosts, ends=DEAD).in_flight() for _ in range(10)]
    release(held)
    assert_left_alone(hosts.pass_(HOST, never), 30)


def test_a_late_answer_opens_it_again(clock: SettableClock, threads: ThreadPoolExecutor) -> None:
    hosts = Hosts(clock, 20)
    hosts.pass_(HOST, once(TAKEN))
    late = Held(threads, hosts).in_flight()
    fail(hosts, 5)
    assert late.release() == Completed()
    assert hosts.pass_(HOST, once(TAKEN)) == Completed()


def test_an_attempt_that_raises_gives_its_slot_back(clock: SettableClock) -> None:
    hosts = Hosts(clock, 1)
    for _ in range(10):
        with pytest.raises(ZeroDivisionError):
            hosts.pass_(HOST, lambda: TAKEN if 1 / 0 else DEAD)
    assert hosts.pass_(HOST, once(TAKEN)) == Completed()


def test_a_host_that_was_idle_for_an_hour_is_forgotten(clock: SettableClock, threads: ThreadPoolExecutor) -> None:
    hosts = Hosts(clock, 8)
    fail(hosts, 5)
    pass_time(clock, 3601)
    hosts.pass_("https://other.example.org", once(TAKEN))
    release(hold(threads, hosts, 2))  # two at once, as for a host that nobody has met


def test_a_host_in_use_does_not_keep_the_others_in_memory(clock: SettableClock, threads: ThreadPoolExecutor) -> None:
    hosts = Hosts(clock, 8)
    held = hold(threads, hosts, 1)
    for number in range(10_100):
        hosts.pass_(f"https://h{number}.example.org", once(TAKEN))
    assert len(hosts._known) == 10_000
    release(held)


def test_no_more_than_ten_thousand_hosts_are_remembered(clock: SettableClock) -> None:
    hosts = Hosts(clock, 8)
    fail(hosts, 5)
    for number in range(9_999):
        hosts.pass_(f"https://{number}.example.org", once(TAKEN))
    assert_left_alone(hosts.pass_(HOST, never), 30)
    for number in range(10_000, 20_000):
        hosts.pass_(f"https://{number}.example.org", once(TAKEN))
    assert hosts.pass_(HOST, once(TAKEN)) == Completed()


# -- all hosts together ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("workers", "limit"), [(2, 1), (4, 2), (8, 4), (16, 8)])
def test_hosts_that_have_not_answered_hold_at_most_half_of_the_threads(
    clock: SettableClock, threads: ThreadPoolExecutor, workers: int, limit: int
) -> None:
    """Each would be allowed one more, and together they would hold every thread there is."""
    hosts = Hosts(clock, workers)
    held = hold_strangers(threads, hosts, limit)
    pass_time(clock, 1)
    given_back = hosts.pass_(HOST, never)
    assert isinstance(given_back, Returned)
    assert given_back.reason == "earlier calls to other hosts are still under way"
    assert SECOND // 5 <= given_back.after <= SECOND
    assert given_back.patience is None
    release(held)
    assert hosts.pass_(HOST, once(TAKEN)) == Completed()


def test_a_host_that_answers_does_not_wait_for_those_that_do_not(
    clock: SettableClock, threads: ThreadPoolExecutor
) -> None:
    hosts = Hosts(clock, 16)
    hosts.pass_(HOST, once(TAKEN))
    held = hold_strangers(threads, hosts, 8)
    pass_time(clock, 60)
    assert hosts.pass_(HOST, once(TAKEN)) == Completed()
    release(held)


@pytest.mark.parametrize(("workers", "limit"), [(4, 3), (8, 6), (16, 12)])
def test_slow_hosts_leave_a_quarter_of_the_threads_to_others(
    clock: SettableClock, threads: ThreadPoolExecutor, workers: int, limit: int
) -> None:
    """They answer, only late: calls to a few of them must not stand before everything else either."""
    hosts = Hosts(clock, workers)
    for number in range(limit + 1):
        hosts.pass_(f"https://{number}.example.org", once(TAKEN))
    held = hold_strangers(threads, hosts, limit)
    pass_time(clock, 1)
    given_back = hosts.pass_(f"https://{limit}.example.org", never)
    assert isinstance(given_back, Returned)
    assert given_back.reason == "earlier calls to other hosts are still under way"
    release(held)


def test_a_burst_to_hosts_that_nobody_has_met_waits_for_the_first_answers(
    clock: SettableClock, threads: ThreadPoolExecutor
) -> None:
    """As every night at the same minute: to send them all back would make them late for nothing."""
    hosts, gauge = Hosts(clock, 16), Gauge()
    outcomes = list(threads.map(lambda number: hosts.pass_(f"https://{number}.org", gauge.attempt), range(200)))
    assert 1 < gauge.most <= 8
    assert outcomes.count(Completed()) == 200


def test_those_who_wait_for_any_slot_are_spread_like_those_who_wait_for_one_host(
    clock: SettableClock, threads: ThreadPoolExecutor
) -> None:
    hosts = Hosts(clock, 8)
    held = hold_strangers(threads, hosts, 4)
    pass_time(clock, 1)
    sent_back = [hosts.pass_(f"https://new-{number}.example.org", never) for number in range(1000)]
    delays = [each.after for each in sent_back if isinstance(each, Returned)]
    assert max(delays[:50]) <= SECOND
    assert 5 * SECOND < max(delays[500:]) <= 10 * SECOND
    release(held)


def test_many_threads_to_many_hosts_never_exceed_the_limit(clock: SettableClock, threads: ThreadPoolExecutor) -> None:
    hosts, gauge = Hosts(clock, 8), Gauge()
    urls = [f"https://{number}.example.org" for number in range(10)]
    for url in urls:
        hosts.pass_(url, once(TAKEN))
    outcomes = list(threads.map(lambda number: hosts.pass_(urls[number % 10], gauge.attempt), range(500)))
    assert 1 < gauge.most <= 6
    assert outcomes.count(Completed()) == 500


def test_many_threads_never_exceed_the_limit(clock: SettableClock, threads: ThreadPoolExecutor) -> None:
    hosts, gauge = Hosts(clock, 8), Gauge()
    hosts.pass_(HOST, once(TAKEN))
    outcomes = list(threads.map(lambda _: hosts.pass_(HOST, gauge.attempt), range(500)))
    assert 1 < gauge.most <= 4
    assert outcomes.count(Completed()) == 500  # each waited for its turn: the host answers all the time


class Owned(Held):
    """The same on somebody's behalf."""

    def __init__(self, threads: ThreadPoolExecutor, hosts: Hosts, host: str, owner: str) -> None:
        self.began, self.released, self._ends = threading.Event(), threading.Event(), TAKEN
        self.outcome = threads.submit(hosts.pass_, host, self._attempt, owner)


def test_hosts_of_one_owner_that_do_not_answer_leave_slots_to_the_others(
    clock: SettableClock, threads: ThreadPoolExecutor
) -> None:
    hosts = Hosts(clock, 16)
    held = [Owned(threads, hosts, f"https://{number}.example", "mallory").in_flight() for number in range(5)]
    assert isinstance(hosts.pass_("https://6.example", never, "mallory"), Returned)
    other = Owned(threads, hosts, "https://alice.example", "alice").in_flight()
    for each in (*held, other):
        assert each.release() is TAKEN.outcome


def test_local_shares_only_with_those_who_send_something(clock: SettableClock, threads: ThreadPoolExecutor) -> None:
    hosts = Hosts(clock, 16)
    held = [Owned(threads, hosts, f"https://{number}.example", LOCAL).in_flight() for number in range(7)]
    other = Owned(threads, hosts, "https://alice.example", "alice").in_flight()
    assert other.release() is TAKEN.outcome
    assert isinstance(hosts.pass_("https://8.example", never), Returned), "from now on local shares"
    for each in held:
        assert each.release() is TAKEN.outcome


def test_an_owner_does_not_hold_all_slots_of_one_host(clock: SettableClock, threads: ThreadPoolExecutor) -> None:
    hosts = Hosts(clock, 16)
    assert hosts.pass_(HOST, once(TAKEN), "mallory") is TAKEN.outcome
    held = [Owned(threads, hosts, HOST, "mallory").in_flight() for _ in range(5)]
    other = Owned(threads, hosts, HOST, "alice").in_flight()
    for each in (*held, other):
        assert each.release() is TAKEN.outcome


def test_timeouts_of_one_owner_close_a_host_for_nobody_else(clock: SettableClock, threads: ThreadPoolExecutor) -> None:
    hosts = Hosts(clock, 16)
    for _ in range(5):
        assert hosts.pass_(HOST, once(SILENT), "mallory") is SILENT.outcome
    assert_left_alone(hosts.pass_(HOST, never, "mallory"), 30)
    assert hosts.pass_(HOST, once(SILENT), "alice") is SILENT.outcome
    pass_time(clock, 32)
    probe = Owned(threads, hosts, HOST, "mallory").in_flight()
    assert isinstance(hosts.pass_(HOST, never, "mallory"), Returned), "one at a time finds out whether it is back"
    held = [Owned(threads, hosts, HOST, "bob").in_flight() for _ in range(1)]
    assert hosts.pass_(HOST, once(TAKEN), "alice") is TAKEN.outcome, "though no slot is free of the two"
    assert hosts.pass_(HOST, once(TAKEN), "mallory") is TAKEN.outcome, "an answer opens it for all"
    for each in (probe, *held):
        assert each.release() is TAKEN.outcome


@pytest.mark.parametrize(("workers", "limit"), [(4, 1), (8, 2), (16, 4), (32, 8)])
def test_a_silent_host_that_many_owners_call_delays_no_other_host(
    clock: SettableClock, threads: ThreadPoolExecutor, workers: int, limit: int
) -> None:
    hosts = Hosts(clock, workers)
    held = [Owned(threads, hosts, HOST, f"owner {number}").in_flight() for number in range(limit)]
    for number in range(limit, 12):
        sent_back = hosts.pass_(HOST, never, f"owner {number}")
        assert isinstance(sent_back, Returned) and sent_back.reason == f"earlier calls to {HOST} are still under way"
    assert hosts.pass_("https://healthy.example", once(TAKEN), "owner 0") is TAKEN.outcome
    assert hosts.pass_("https://other.example", once(TAKEN), "zoe") is TAKEN.outcome
    for each in held:
        assert each.release() is TAKEN.outcome
