"""What it costs to tell of failures: nothing while all goes well, one statement for a failure, and little to look."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from time import process_time

import pytest

from bench.instructions import statements_in
from duetime.engine.clock import HOUR, MINUTE, SECOND, Instant
from duetime.engine.model import ScheduleId
from duetime.engine.outcome import Failed, Outcome
from duetime.engine.policy.incidents import IncidentRow, describe, to_tell
from duetime.kinds.notifications.delivery import MESSENGER
from duetime.stores.sqlite.store import SqliteStore
from tests.support.drafts import T0, every
from tests.support.hand import DONE, Hand, create

NO_WATER = Failed("no water in tank 7", permanent=True)
NUMBER = 1000


@pytest.fixture
def counts() -> Iterator[Counter[str]]:
    """Statements since the test last cleared it."""
    counter = Counter[str]()
    with statements_in(counter):
        yield counter


@pytest.fixture
def store(tmp_path: Path, counts: Counter[str]) -> Iterator[SqliteStore]:
    opened = SqliteStore(tmp_path / "due.db", messenger=MESSENGER)
    opened.migrate()
    create(opened, *(every(HOUR, name=f"plant {number}") for number in range(NUMBER)))
    yield opened
    opened.close()


def run_all(hand: Hand, now: int, outcome: Outcome) -> None:
    while claims := hand.claim(now, limit=100):
        hand.record(claims, now, outcome)


def about_incidents(counts: Counter[str]) -> int:
    return sum(number for statement, number in counts.items() if "incidents" in statement)


def test_a_run_that_goes_well_costs_no_statement(store: SqliteStore, counts: Counter[str]) -> None:
    hand = Hand(store)
    run_all(hand, T0 + HOUR, NO_WATER)
    counts.clear()
    run_all(hand, T0 + 2 * HOUR, DONE)
    assert about_incidents(counts) == 0, "also not if the one before failed"


def test_a_thousand_failures_cost_a_statement_each_and_few_messages(store: SqliteStore, counts: Counter[str]) -> None:
    hand = Hand(store)
    counts.clear()
    run_all(hand, T0 + HOUR, NO_WATER)
    assert about_incidents(counts) == NUMBER
    counts.clear()
    begun = process_time()
    assert store.tell_incidents(Instant(T0 + HOUR)) == 1
    telling = process_time() - begun
    assert about_incidents(counts) <= NUMBER + 5
    counts.clear()
    seconds = []
    for number in range(1, 6):
        begun = process_time()
        assert store.tell_incidents(Instant(T0 + HOUR + number * 3 * SECOND)) == 0
        seconds.append(process_time() - begun)
    assert counts.total() == 2 * len(seconds), "two reads, and no transaction"
    run_all(hand, T0 + 2 * HOUR, DONE)
    begun = process_time()
    assert store.tell_incidents(Instant(T0 + 2 * HOUR)) == 0
    assert store.tell_incidents(Instant(T0 + 2 * HOUR + MINUTE)) == 1
    ending = process_time() - begun
    print(f"{NUMBER} incidents: {telling:.3f} s to tell, {min(seconds):.4f} s to look, {ending:.3f} s to end")  # noqa: T201 - figures for the reader
    assert telling <= 0.5 and min(seconds) <= 0.05 and ending <= 1.0


def test_a_look_without_trouble_is_two_reads(store: SqliteStore, counts: Counter[str]) -> None:
    counts.clear()
    assert store.tell_incidents(Instant(T0)) == 0
    assert counts.total() == 2


@pytest.mark.parametrize("recovered", [None, Instant(T0)])
def test_a_message_takes_time_in_proportion_to_its_incidents(recovered: Instant | None) -> None:
    """The transaction that writes it is open meanwhile."""
    one = IncidentRow(
        1, "ada", ScheduleId(1), "failed", "failed: no water", "no water", None, T0, T0, 1, "first", T0, None, 0,
        recovered, None, None, "plant",
    )  # fmt: skip
    many = [one._replace(id=number, schedule=ScheduleId(number)) for number in range(20_000)]
    begun = process_time()
    assert describe(to_tell(many, T0), T0).title.startswith("20000 problems")
    assert process_time() - begun < 1.0, "a loop within a loop takes twenty times as long"
