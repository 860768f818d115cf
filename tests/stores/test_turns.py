"""Owners take turns at the queue: nobody waits behind what another one has due."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from duetime.engine.clock import HOUR, SECOND, Instant
from duetime.engine.model import ScheduleId
from duetime.engine.policy.claim import Claim
from duetime.engine.policy.fair_share import Cursor, Turns
from duetime.engine.store import ClaimRequest
from duetime.stores.base import BaseStore
from duetime.stores.postgres.store import PostgresStore
from duetime.stores.postgres.transaction import SQL as POSTGRES_SQL
from duetime.stores.search import load_migrations
from duetime.stores.sqlite.store import SQL as SQLITE_SQL
from duetime.stores.sqlite.store import SqliteStore
from tests.stores.conftest import Engine, Opener
from tests.stores.test_maintenance import set_schema
from tests.support.drafts import T0, every, once
from tests.support.hand import Hand, create
from tests.support.shell import write

EVERYBODY = Turns()

DATABASE = "postgres_url"
"""A database of its own for every test: rows that earlier tests deleted would be part of what is measured."""


def claim(hand: Hand, limit: int, turns: Turns = EVERYBODY, now: int = T0 + SECOND, lane: str = "job") -> list[Claim]:
    return hand.store.record_and_claim(
        hand.id, Instant(now), [], [ClaimRequest(lane, limit, Instant(now), turns=turns)]
    ).claims


def owners(claims: Sequence[Claim]) -> dict[str, int]:
    return dict(Counter(each.definition.owner for each in claims))


def backlog(store: BaseStore, owner: str, number: int, **given: Any) -> None:
    create(store, *(once(T0 + step, owner=owner, **given) for step in range(number)))


def test_an_owner_is_served_beside_the_long_backlog_of_another(store: BaseStore, hand: Hand) -> None:
    backlog(store, "ada", 300)
    create(store, once(T0 + SECOND, owner="bob"))
    assert owners(claim(hand, 20)) == {"ada": 19, "bob": 1}, "and what bob leaves over goes to ada"


def test_several_backlogs_get_equal_parts(store: BaseStore, hand: Hand) -> None:
    for owner in ("ada", "bob", "cleo"):
        backlog(store, owner, 60)
    assert owners(claim(hand, 30)) == {"ada": 10, "bob": 10, "cleo": 10}


def test_each_owner_is_served_in_the_order_of_its_instants(store: BaseStore, hand: Hand) -> None:
    backlog(store, "ada", 120)
    backlog(store, "bob", 120)
    claims = claim(hand, 10)
    for owner in ("ada", "bob"):
        assert [each.at for each in claims if each.definition.owner == owner] == [T0 + step for step in range(5)]


def test_where_there_is_room_for_one_the_turn_passes_on(store: BaseStore, hand: Hand) -> None:
    for owner in ("ada", "bob", "cleo"):
        backlog(store, owner, 50)
    cursor = Cursor()
    served = [claim(hand, 1, Turns(cursor))[0].definition.owner for _ in range(6)]
    assert served == ["ada", "bob", "cleo"] * 2


def test_no_owner_gets_more_than_it_may_have(store: BaseStore, hand: Hand) -> None:
    for owner in ("ada", "bob", "cleo"):
        backlog(store, owner, 50)
    assert owners(claim(hand, 30, Turns(each=4, most={"ada": 0, "bob": 7}))) == {"bob": 7, "cleo": 4}
    assert owners(claim(hand, 30, Turns(most={"ada": 0}))) == {"bob": 15, "cleo": 15}


def test_an_only_owner_gets_no_more_either(store: BaseStore, hand: Hand) -> None:
    backlog(store, "ada", 5)
    assert owners(claim(hand, 30, Turns(each=2))) == {"ada": 2}
    assert claim(hand, 30, Turns(most={"ada": 0})) == []


def test_a_limit_of_an_owner_counts_over_all_lanes(store: BaseStore, hand: Hand) -> None:
    backlog(store, "ada", 5)
    backlog(store, "ada", 5, at_most_once=True)
    until, turns = Instant(T0 + SECOND), Turns(each=7)
    wants = [ClaimRequest(lane, 10, until, turns=turns) for lane in ("job:exact", "job")]
    assert owners(store.record_and_claim(hand.id, until, [], wants).claims) == {"ada": 7}


def test_what_some_owners_have_waiting_is_passed_over_when_looking_ahead(store: BaseStore) -> None:
    backlog(store, "ada", 3)
    create(store, once(T0 + HOUR, owner="bob"), once(T0 + 2 * HOUR, owner="ada", at_most_once=True))
    entry = store.earliest(["job", "job:exact"], [("job", "ada")])
    assert entry is not None
    assert (entry.owner, entry.at) == ("bob", T0 + HOUR)
    entry = store.earliest(["job", "job:exact"], [("job", "ada"), ("job", "bob")])
    assert entry is not None
    assert (entry.owner, entry.lane) == ("ada", "job:exact")
    assert store.earliest(["job"], [("job", "ada"), ("job", "bob")]) is None


def test_two_workers_never_get_the_same(store: BaseStore) -> None:
    for owner in ("ada", "bob"):
        backlog(store, owner, 150)
    first, second = Hand(store, "first"), Hand(store, "second")
    claims = [each.run.id for hand in (first, second) * 4 for each in claim(hand, 50)]
    assert len(claims) == len(set(claims)) == 300


def test_entries_from_before_owners_were_kept_have_theirs(engine: Engine, opener: Opener) -> None:
    """A store as the version before left it, with live data; and what that version writes beside this one."""
    migrations = load_migrations("postgres" if engine == "postgres" else "sqlite")
    store = opener()
    store.migrate()
    made = create(store, once(owner="ada"), every(owner="bob"))
    write(store, "DROP INDEX due_by_owner")
    write(store, "ALTER TABLE due DROP COLUMN owner")
    number = next(number for number, script in migrations if "due_by_owner" in script)
    write(store, migrations[number - 1][1])
    set_schema(store, migrations[-1][0])
    found = store._rows("SELECT schedule, owner FROM due ORDER BY schedule", ())
    assert found == [(made[0].definition.id, "ada"), (made[1].definition.id, "bob")]
    write(store, "DELETE FROM due WHERE owner = 'ada'")
    write(store, "INSERT INTO due (lane, at, schedule, run) VALUES ('job', ?, ?, 0)", T0, made[0].definition.id)
    hand = Hand(store)
    assert owners(claim(hand, 10, now=T0 + HOUR)) == {"ada": 1, "bob": 1}


def plan_of(store: BaseStore, name: str, *values: Any) -> str:
    """How the store goes about a query, in its own words."""
    if isinstance(store, SqliteStore):
        rows = store._writer.execute(f"EXPLAIN QUERY PLAN {SQLITE_SQL[name]}", values).fetchall()
        return "\n".join(str(row[3]) for row in rows)
    assert isinstance(store, PostgresStore)
    with store._writers.lend() as connection:
        text = f"EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) {POSTGRES_SQL[name]}"
        plan = "\n".join(row[0] for row in connection.execute(text.encode(), values))
        connection.rollback()
        return plan


@pytest.mark.parametrize("known", [False, True], ids=["fresh", "analysed"])
@pytest.mark.slow
def test_turns_cost_what_there_are_owners_and_not_what_there_is_due(store: BaseStore, known: bool) -> None:
    create(store, *(once(T0 + step, owner=f"owner {step % 3}") for step in range(3000)))
    if known:
        write(store, "ANALYZE")
    soon = T0 + SECOND
    if isinstance(store, SqliteStore):
        asked = [("due_owners", "job", soon, T0), ("due_keys_of", "job", soon, T0, "owner 1", 5, 0)]
    else:
        asked = [
            ("due_owners", "{job}", f"{{{soon}}}", f"{{{T0}}}", 100),
            ("due_entries_of", "{owner 1}", "{5}", "{0}", "job", soon, T0),
        ]
    for question in asked:
        plan = plan_of(store, str(question[0]), *question[1:])
        assert "due_by_owner" in plan, plan
        assert "SCAN due" not in plan, plan
        assert "TEMP B-TREE" not in plan, plan
        assert "Seq Scan on due" not in plan, plan
        assert "Sort" not in plan, plan
        rows = [float(part.split()[0]) for part in plan.split("rows=")[1:] if part[0].isdigit()]
        assert max(rows, default=0) <= 100, plan


def test_a_schedule_that_cannot_be_stored_is_found_in_anybodys_backlog(store: BaseStore, hand: Hand) -> None:
    """The culprit is what is claimed alone, whoever's turn it would have been."""
    from duetime.engine.worker.poison import record_and_claim_in_parts

    backlog(store, "bob", 20)
    (culprit,) = create(store, once(T0 - 1, owner="ada"))
    broken: list[ScheduleId] = []

    class Choking:
        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

        def record_and_claim(self, worker: Any, now: Any, finished: Any, wants: Any, *more: Any) -> Any:
            entry = store.earliest(["job"])
            found = wants and entry is not None and entry.schedule == culprit.definition.id
            if found:
                raise ValueError("too strange to be stored")
            return store.record_and_claim(worker, now, finished, wants, *more)

        def change(self, schedule: ScheduleId, *more: Any) -> Any:
            broken.append(schedule)
            return store.change(schedule, *more)

    now = Instant(T0 + SECOND)
    record_and_claim_in_parts(Choking(), hand.id, now, (), [ClaimRequest("job", 8, now, turns=Turns(Cursor("ada")))])
    assert broken == [culprit.definition.id]
