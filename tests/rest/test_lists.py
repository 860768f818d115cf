"""First pages cost the same however much is stored: by the plans of their statements, and measured on a small scale.

`make bench-lists` measures the same beside a million of each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from duetime.engine.clock import Instant, SystemClock
from duetime.engine.store import RunQuery, ScheduleQuery
from duetime.stores.run_search import run_count, run_counts, run_page
from duetime.stores.search import firing_page, make_cursor, schedule_count, schedule_page
from duetime.stores.sqlite.store import SqliteStore
from tests.support.api import Api, serving_api
from tests.support.filling import OWNER, fill

pytestmark = pytest.mark.slow

FEW, MANY = 1_000, 20_000
BOUND = 3.0
CLOCK = SystemClock()
NEXT = "/schedules?order=next"

SCHEDULES: dict[str, dict[str, Any]] = {
    "schedules_by_owner": {},
    "schedules_by_kind": {"kind": "prompt"},
    "progress_by_state": {"status": "pending"},
    "progress_list": {"status": "pending", "kind": "job"},
    "progress_failed": {"status": "failed"},
    "schedules_updated": {"changed_since": 5},
}
RUNS: dict[str, dict[str, Any]] = {
    "runs_owner": {},
    "runs_unwell": {"status": "failed"},
    "runs_by_kind": {"kind": "notification", "status": "completed"},
    "runs_dead": {"kinds": ("notification", "request"), "status": "dead"},
    "runs_live": {"status": "running"},
    "runs_waiting": {"kind": "prompt", "free_at": 5, "oldest_first": True},
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqliteStore]:
    made = SqliteStore(tmp_path_factory.mktemp("plans") / "my.db")
    made.migrate()
    yield made
    made.close()


def plan(store: SqliteStore, statement: str, values: list[Any]) -> str:
    return "; ".join(row[3] for row in store._rows(f"EXPLAIN QUERY PLAN {statement}", values))


@pytest.mark.parametrize("newest_first", [True, False])
@pytest.mark.parametrize("index", SCHEDULES)
def test_a_page_of_schedules_is_read_from_its_index(store: SqliteStore, index: str, newest_first: bool) -> None:
    query = ScheduleQuery(owner=OWNER, newest_first=newest_first, **SCHEDULES[index])
    for told in (plan(store, *schedule_page(query)), plan(store, *schedule_count(query))):
        assert f"INDEX {index} (" in told
        assert "SCAN schedules" not in told
        assert "SCAN p" not in told
    sorted_anew = "TEMP B-TREE" in plan(store, *schedule_page(query))
    assert sorted_anew == (index == "schedules_updated"), "what changed lately is few"


@pytest.mark.parametrize("index", RUNS)
def test_a_page_of_runs_is_read_from_its_index(store: SqliteStore, index: str) -> None:
    query = RunQuery(owner=OWNER, **RUNS[index])
    told = plan(store, *run_page(query))
    assert f"INDEX {index}" in told
    assert "TEMP B-TREE" not in told
    assert "SCAN r" not in told.replace("SCAN runs USING INDEX runs_live", "")
    assert "SCAN r" not in plan(store, *run_count(query)).replace("SCAN runs USING INDEX runs_live", "")


@pytest.mark.parametrize("owner", [OWNER, None])
def test_few_among_many_that_failed_are_found_without_reading_the_rows_of_those(
    store: SqliteStore, owner: str | None
) -> None:
    rare = RunQuery(owner=owner, status="missed", due_from=Instant(1))
    for told in (plan(store, *run_count(rare)), plan(store, *run_counts(rare))):
        assert "COVERING INDEX runs_unwell" in told
    told = plan(store, *run_page(rare))
    assert "INDEX runs_unwell" in told and ("COVERING INDEX runs_unwell" in told or owner)


@pytest.mark.parametrize("few", [{"status": "failed"}, {"statuses": ("missed", "skipped")}, {"kind": "notification"}])
def test_few_before_a_time_are_read_from_their_index_although_their_owner_has_most_runs(
    store: SqliteStore, few: dict[str, Any]
) -> None:
    query = RunQuery(owner=OWNER, due_to=Instant(5), has_most_runs=True)
    assert "INDEX" not in plan(store, *run_page(replace(query, statuses=("completed", "failed"), kind="job")))
    assert "SEARCH r USING" in (told := plan(store, *run_page(replace(query, **few)))) and "(owner=?" in told, told


def test_what_somebody_has_in_hand_is_looked_for_among_what_waits(store: SqliteStore) -> None:
    told = plan(store, *run_page(RunQuery(owner=OWNER, kind="prompt", holder="ann", oldest_first=True)))
    assert "INDEX runs_waiting (" in told and "TEMP B-TREE" not in told


def test_an_operators_first_pages_follow_the_rows_themselves(store: SqliteStore) -> None:
    assert "TEMP B-TREE" not in plan(store, *schedule_page(ScheduleQuery(newest_first=True)))
    assert "TEMP B-TREE" not in plan(store, *run_page(RunQuery()))


@pytest.mark.parametrize("owner", [OWNER, None])
def test_what_fires_by_then_is_read_from_the_queue_no_further_than_needed(
    store: SqliteStore, owner: str | None
) -> None:
    told = plan(store, *firing_page(ScheduleQuery(owner=owner, firing=True, due_to=Instant(5)), "job"))
    key = "PRIMARY KEY (lane=?" if owner is None else "COVERING INDEX due_by_owner (lane=? AND owner=?"
    assert told.startswith(f"SEARCH d USING {key} AND at<?)")
    assert "TEMP B-TREE" not in told


@pytest.mark.parametrize("cursor", [None, make_cursor(5, 5)])
@pytest.mark.parametrize("owner", [OWNER, None])
def test_what_fires_next_is_read_along_the_queue(store: SqliteStore, owner: str | None, cursor: str | None) -> None:
    query = ScheduleQuery(owner=owner, firing=True, cursor=cursor)
    told = plan(store, *firing_page(query, "job"))
    begun = "" if cursor is None else " AND (at,schedule)>(?,?)"
    key = "PRIMARY KEY (lane=?" if owner is None else "COVERING INDEX due_by_owner (lane=? AND owner=?"
    assert told.startswith(f"SEARCH d USING {key}{begun})")
    assert "TEMP B-TREE" not in told
    assert "SCAN p" not in plan(store, *schedule_count(replace(query, owner=OWNER)))


# -- measured -------------------------------------------------------------------------------------------------------


def filled(folder: Path, count: int) -> Iterator[Api]:
    with serving_api(folder, url=str(folder / "my.db")) as api:
        assert isinstance(api.room.store, SqliteStore)
        fill(api.room.store, count, api.room.clock.now())
        yield api


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    yield from filled(tmp_path_factory.mktemp("few"), FEW)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    yield from filled(tmp_path_factory.mktemp("many"), MANY)


@pytest.mark.later
def test_totals_beyond_the_bound_are_marked(many: Api) -> None:
    page = many.client(OWNER).get("/schedules", limit=1)
    assert (page["total"], page["total_exact"]) == (10_000, False)
    page = many.client(OWNER).get("/schedules", limit=1, status="failed")
    assert (page["total"], page["total_exact"]) == (4_000, True)
    page = many.client(OWNER).get("/runs", limit=1)
    assert (page["total"], page["total_exact"]) == (10_000, False)


@pytest.mark.parametrize("path", ["/schedules", "/schedules?kind=prompt", "/runs", "/upcoming", "/dead", NEXT])
def test_a_first_page_costs_the_same_beside_twenty_times_as_many(few: Api, many: Api, path: str) -> None:
    """The best of each, asked in turn: whatever else the machine does only adds to it."""
    clients = [api.client(OWNER) for api in (few, many)]

    def took(client: Any) -> float:
        began = CLOCK.monotonic()
        client.http.get(f"/api/v1{path}", headers=client.headers)
        return CLOCK.monotonic() - began

    for client in clients * 3:
        took(client)
    small, large = zip(*[[took(client) for client in clients] for _ in range(15)], strict=True)
    assert min(large) <= BOUND * min(small)
