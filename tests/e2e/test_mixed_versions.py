"""A newer version has migrated the store: this one starts beside it as long as the floor of the schema allows it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.versions import ADDED, RAISED, migrate_with, newer_version
from tests.support.workers import Crew, crew, eventually


@pytest.fixture(params=["sqlite", "postgres"])
def team(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Crew]:
    url = str(tmp_path / "store.db") if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    with crew(url, tmp_path, lease=2.0) as made:
        yield made


def test_an_older_version_restarts_above_the_floor_and_is_refused_below_it(team: Crew, tmp_path: Path) -> None:
    known = team.app.store.known_schema
    (running,) = team.start(1)
    assert f"is {known + 1} now" in migrate_with(newer_version(tmp_path / "a", known, ADDED), team.url, tmp_path)
    assert running.terminate() == 0
    (restarted,) = team.start(1)
    team.add("mark", [f"k{number}" for number in range(20)])
    team.settled(30, 20)
    assert {run.status for run in team.runs()} == {"completed"}

    migrate_with(newer_version(tmp_path / "b", known, ADDED, RAISED), team.url, tmp_path)
    assert "too old to write to it" in restarted.said()
    (refused,) = team.start(1, wait=False)
    eventually(lambda: refused.exit_code() is not None, 30, "it does not start")
    needs = rf"has schema {known + 2}, which needs a Duetime that knows schema {known + 2}.*install a newer Duetime"
    assert re.search(needs, refused.log)
