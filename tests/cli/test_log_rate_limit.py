"""A line that repeats itself is written a few times, and what was left out is counted."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest

from duetime.engine.clock import Instant
from duetime.terminal.logs import PERIOD, RepeatFilter
from duetime.testing import SettableClock

SECOND = 1_000_000


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock(Instant(0))


@pytest.fixture
def written(clock: SettableClock) -> Iterator[io.StringIO]:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.addFilter(RepeatFilter(handler, 3, clock))
    logger = logging.getLogger("duetime.a-test")
    logger.addHandler(handler)
    yield stream
    logger.removeHandler(handler)


def test_the_same_line_is_written_only_so_often(written: io.StringIO, clock: SettableClock) -> None:
    log = logging.getLogger("duetime.a-test")
    for number in range(100):
        log.warning("socket.accept() out of system resource: fd=%s", number)
    log.warning("something else")
    lines = written.getvalue().splitlines()
    assert [line.partition(":")[0] for line in lines] == ["socket.accept() out of system resource"] * 3 + [
        "something else"
    ]


def test_what_was_left_out_is_told_when_its_period_is_over(written: io.StringIO, clock: SettableClock) -> None:
    log = logging.getLogger("duetime.a-test")
    for _ in range(100):
        log.warning("the store is unavailable")
    clock.move_to(Instant(int(PERIOD + 1) * SECOND))
    log.warning("the store is unavailable")
    lines = written.getvalue().splitlines()
    assert lines == ["the store is unavailable"] * 3 + [
        "97 more records such as this were left out: the store is unavailable",
        "the store is unavailable",
    ]
