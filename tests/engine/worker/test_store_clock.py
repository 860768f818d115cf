"""A worker's picture of the store's clock: never ahead of it, whatever the network and the local clock do."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from duetime.engine.clock import DAY, SECOND, Instant, StoreClock, SystemClock, is_real
from duetime.testing import SettableClock
from tests.support.drafts import T0

MILLISECOND = SECOND // 1000


class Machine(SystemClock):
    """This machine and the server beside it, whose clock differs from the wall clock here."""

    def __init__(self, ahead: float = 0.0) -> None:
        self.boot = 1000.0
        self.wall = T0
        self.ahead = ahead

    def now(self) -> Instant:
        return self.wall

    def boottime(self) -> float:
        return self.boot

    def passes(self, seconds: float) -> None:
        self.boot += seconds
        self.wall = Instant(self.wall + round(seconds * SECOND))

    @property
    def server(self) -> Instant:
        """What the server's clock shows, which no step of the wall clock here moves."""
        return Instant(T0 + round((self.boot - 1000.0 + self.ahead) * SECOND))

    def answer(self, there: float = 0.0002, back: float = 0.0002) -> Callable[[], Instant]:
        """A question that takes so long on its way there and back."""

        def read() -> Instant:
            self.passes(there)
            theirs = self.server
            self.passes(back)
            return theirs

        return read


@pytest.fixture
def machine() -> Machine:
    return Machine(ahead=90.0)


@pytest.fixture
def clock(machine: Machine) -> StoreClock:
    made = StoreClock(machine)
    made.follow(machine.answer())
    return made


def error(clock: StoreClock, machine: Machine) -> float:
    """How many milliseconds the clock is ahead of the server's."""
    return (clock.now() - machine.server) / MILLISECOND


def test_the_store_s_clock_is_followed(clock: StoreClock, machine: Machine) -> None:
    assert -0.5 < error(clock, machine) <= 0
    machine.passes(2.5)
    assert -1 < error(clock, machine) <= 0


@pytest.mark.parametrize("way", [(6.0, 0.0), (0.0, 6.0), (3.0, 3.0), (0.03, 0.001)])
def test_a_slow_answer_makes_the_clock_neither_fast_nor_slower(
    clock: StoreClock, machine: Machine, way: tuple[float, float]
) -> None:
    clock.follow(machine.answer(*way))
    assert -1.5 < error(clock, machine) <= 0


@pytest.mark.parametrize("way", [(6.0, 0.0), (0.0, 6.0)])
def test_a_first_answer_that_is_slow_is_not_trusted_beyond_what_it_proves(
    machine: Machine, way: tuple[float, float]
) -> None:
    clock = StoreClock(machine)
    clock.follow(machine.answer(*way))
    assert -6001 < error(clock, machine) <= 0
    clock.follow(machine.answer())
    assert -0.5 < error(clock, machine) <= 0, "the next one is better"


@pytest.mark.parametrize("step", [DAY, -DAY, 3600 * SECOND])
def test_a_step_of_the_wall_clock_here_has_no_effect(clock: StoreClock, machine: Machine, step: int) -> None:
    machine.wall = Instant(machine.wall + step)
    assert -0.5 < error(clock, machine) <= 0
    machine.passes(2.5)
    clock.follow(machine.answer())
    assert -0.5 < error(clock, machine) <= 0


@pytest.mark.parametrize("step", [3600.0, -3600.0, 0.05, -0.05])
def test_a_server_whose_clock_is_set_is_followed_at_the_next_sample(
    clock: StoreClock, machine: Machine, step: float
) -> None:
    machine.ahead += step
    clock.follow(machine.answer())
    assert -0.5 < error(clock, machine) <= 0


@pytest.mark.parametrize("rate", [50e-6, -50e-6, 200e-6, -200e-6])
def test_drift_between_the_two_clocks_is_corrected(clock: StoreClock, machine: Machine, rate: float) -> None:
    for _ in range(1000):
        machine.passes(2.5)
        machine.ahead += 2.5 * rate
        clock.follow(machine.answer(0.0005, 0.0005))
        assert -2 < error(clock, machine) <= 1.0


def test_a_store_without_a_clock_leaves_the_machine_s_own(machine: Machine) -> None:
    clock = StoreClock(machine)
    clock.follow(lambda: None)
    machine.wall = Instant(machine.wall + DAY)
    assert clock.now() == machine.wall


def test_a_clock_that_is_set_by_a_test_follows_nobody() -> None:
    base = SettableClock(T0)
    clock = StoreClock(base)
    clock.follow(lambda: Instant(T0 + DAY))
    assert clock.now() == T0
    assert [is_real(each) for each in (base, clock, SystemClock(), StoreClock(SystemClock()))] == [
        False,
        False,
        True,
        True,
    ]
