"""What the command palette finds, and in which order."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from duetime.dashboard import finder
from duetime.dashboard.finder import is_similar
from duetime.engine.store import RunQuery
from duetime.kinds.jobs.registry import Task
from tests.support.browsing import Browser, made, signed_in_as, working
from tests.support.web import Site, site
from tests.support.workers import eventually


def fail() -> None:
    raise RuntimeError("it does not work")


NOW = ("once", {"run_at": "now"})


def found(browser: Browser, text: str) -> list[dict[str, Any]]:
    reply = browser.get(f"/find?text={quote(text)}")
    assert reply.status == 200
    results: list[dict[str, Any]] = reply.json["results"]
    return results


def labels(browser: Browser, text: str) -> list[str]:
    return [each["label"] for each in found(browser, text)]


def test_schedules_are_found_by_name_short_id_and_misspelled(served: Site) -> None:
    browser = signed_in_as(served, "seeker")
    sync = made(served, "Sync accounts", owner="seeker")
    made(served, "Nightly sync of photos", owner="seeker")
    made(served, "Sync of others", owner="somebody else")
    assert labels(browser, "sync") == ["Sync accounts", "Nightly sync of photos"], "those that begin so are first"
    assert labels(browser, "SYCN acounts") == ["Sync accounts"]
    assert labels(browser, "xyzzy") == [] and labels(browser, " ") == []
    [by_id] = found(browser, sync.definition.short_id)
    assert by_id["address"] == f"/schedules/{sync.definition.public_id}" and by_id["rank"] == "exact"
    assert by_id["detail"].startswith(sync.definition.short_id)
    assert labels(browser, sync.definition.public_id) == ["Sync accounts"]
    assert labels(signed_in_as(served, "nobody"), sync.definition.short_id) == [], "others find nothing of it"


def test_an_exact_name_is_first_however_many_begin_with_it(served: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    browser = signed_in_as(served, "namer")
    made(served, "Report 1", owner="namer")
    for number in range(9):
        made(served, f"Report 1{number}", owner="namer")
    for read in (finder.READ, finder.MOST):
        monkeypatch.setattr(finder, "READ", read)
        names = labels(browser, "report 1")
        assert names[0] == "Report 1" and len(names) == finder.MOST, "also if so many newer ones are read"


def test_a_short_id_may_be_in_capitals(served: Site) -> None:
    definition = made(served, "Backup", owner="shouter").definition
    assert labels(signed_in_as(served, "shouter"), definition.short_id.upper()) == ["Backup"]


def test_tags_are_found_after_schedules(served: Site) -> None:
    browser = signed_in_as(served, "tagger")
    made(served, "Nightly backup", owner="tagger", policy={"tagged": ["nightly", "team-ops"]})
    made(served, "Report", owner="tagger", policy={"tagged": ["nightly"]})
    assert labels(browser, "nightly") == ["Nightly backup", "Tag nightly"]
    assert found(browser, "nigthly")[-1]["address"] == "/schedules?view=all&tagged=nightly"
    assert labels(browser, "ops") == ["Tag team-ops"]
    page = browser.get(found(browser, "ops")[0]["address"]).body.decode()
    assert "Nightly backup" in page and ">Report<" not in page
    assert labels(signed_in_as(served, "nobody"), "nightly") == [], "others' tags are not found"


def test_names_are_shown_without_hidden_characters(served: Site) -> None:
    made(served, "Back\u202eup <b>now</b>", owner="hider")
    assert labels(signed_in_as(served, "hider"), "up") == ["Back\u27e8U+202E\u27e9up <b>now</b>"]


def test_runs_are_found_by_number_and_messages_come_last(tmp_path: Path) -> None:
    with site(tmp_path) as there, working(there):
        there.room.registry.add(Task(fail, name="fails"))
        made(there, "Sync accounts", NOW, payload={"task": "fails"}, owner="seeker", policy={"max_attempts": 1})
        told = RunQuery(kind="notification", status="completed")
        eventually(lambda: there.room.store.runs(told).items, 20, "the failure was told")
        browser = signed_in_as(there, "seeker")
        names = labels(browser, "sync")
        assert names[0] == "Sync accounts" and "Sync accounts failed" in names[1:]
        assert [each["rank"] for each in found(browser, "sync")] == ["exact", *["late"] * (len(names) - 1)]
        assert labels(browser, "Sync accounts failed")[0] == "Sync accounts failed"
        assert found(browser, "Sync accounts failed")[0]["rank"] == "late", "even by its whole name"
        for text in ("1", "#1", "run 1"):
            first = found(browser, text)[0]
            assert (first["label"], first["address"]) == ("Run 1", "/runs/1") and "Sync accounts" in first["detail"]
        made(there, "Photos of 1", owner="seeker")
        for text in ("1", "#1"):
            number = labels(browser, text).index("Run 1")
            assert labels(browser, text)[:number] == ["Photos of 1"] * (text == "1"), "schedules come before runs"
            assert "Sync accounts" in labels(browser, text)[number:], "its number is 1"
        assert labels(browser, "987654") == []
        assert "Run 1" not in labels(signed_in_as(there, "nobody"), "1")


@pytest.mark.parametrize(
    ("typed", "name", "expected"),
    [
        ("sycn", "Sync accounts", True),
        ("snc", "Sync accounts", True),
        ("synnc", "Sync accounts", True),
        ("sinc", "Synchronise", True),
        ("acounts sync", "Sync accounts", True),
        ("calender", "Sync the family calendar", True),
        ("sy", "Sync accounts", True),
        ("ys", "Sync accounts", False),
        ("scny", "Sync accounts", False),
        ("sync flowers", "Sync accounts", False),
        ("ünd", "Rund und bunt", True),
    ],
)
def test_one_mistake_in_a_word_is_forgiven(typed: str, name: str, expected: bool) -> None:
    assert is_similar(typed.lower().split(), name) is expected
