"""What pages say about schedules and runs that are paused, waiting, about to be retried, or failing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from html import unescape

import pytest

from duetime.dashboard.filters import instant_from, took
from duetime.dashboard.schedule_stats import schedule_stats
from duetime.engine.clock import MINUTE, SECOND
from duetime.engine.kind import LOCAL, Caller
from duetime.engine.model import Run
from duetime.engine.policy.options import make_policy
from duetime.engine.policy.rows import backoff
from duetime.engine.store import RunQuery
from duetime.kinds.jobs.registry import Task
from duetime.service.operations import overview
from duetime.service.services import Call
from duetime.service.text import ahead, percent, span
from tests.support.browsing import made, page_of, signed_in, signed_in_as, words, working
from tests.support.cli import Cli
from tests.support.web import Reply, Site, site
from tests.support.workers import eventually

NOW = ("once", {"run_at": "now"})
POLICY = {"max_attempts": 3, "backoff": 20 * MINUTE, "alert": "off"}


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A prompt waits, a job waits for its next attempt, one ran twice, and others have failed."""

    def unlucky() -> None:
        raise ConnectionError("no route")

    with site(tmp_path_factory.mktemp("busy")) as there:
        there.room.registry.add(Task(unlucky, name="unlucky"))
        prompt = {"prompt": "Name three birds", "agent": "inbox"}
        made(there, "birds", NOW, kind="prompt", payload=prompt)
        twice = made(there, "twice", kind="prompt", payload=prompt, policy={"overlap": "queue"})
        made(there, "again", NOW, payload={"task": "unlucky"}, policy=POLICY)
        failing = made(there, "failing", payload={"task": "unlucky"}, policy={"alert": "off"})
        made(there, "done", ("interval", {"seconds": 1}), policy={"max_runs": 2})
        with working(there):
            eventually(lambda: _total(there, "completed") == 2, 20, "it ran twice")
            for number in range(1, 4):
                there.room.scheduler.run_now(Caller("local"), failing.definition.public_id)
                eventually(partial(_has_failed, there, number), 20, "it failed")
            for _ in range(2):
                there.room.scheduler.run_now(Caller("local"), twice.definition.public_id)
            eventually(lambda: _total(there, "waiting") == 2 and _total(there, "pending"), 20, "they wait")
        yield there


def _has_failed(there: Site, times: int) -> bool:
    return _total(there, "failed") == times


def _total(there: Site, status: str) -> int:
    return there.room.store.runs(RunQuery(status=status, count_to=9)).total


def _run(there: Site, status: str) -> Run:
    return there.room.store.runs(RunQuery(status=status, oldest_first=True)).items[0]


def test_a_paused_schedule_with_a_waiting_run_is_said_to_be_paused(busy: Site) -> None:
    browser = signed_in(busy)
    waiting = busy.room.store.get(_run(busy, "waiting").schedule)
    assert waiting is not None
    id = waiting.definition.public_id
    busy.room.scheduler.pause(Caller("local"), id)
    for path in ("/schedules?view=paused", page_of(waiting)):
        text = browser.text(path)
        assert "paused waiting for agent" in text, path
    row = browser.get("/schedules?view=paused").body.decode()
    assert f'formaction="/schedules/{id}/resume"' in row and f'formaction="/schedules/{id}/pause"' not in row
    assert re.search(r"birds p\d+ paused No agent is given it", browser.text("/inbox"))
    busy.room.scheduler.resume(Caller("local"), id)
    assert "paused" not in browser.text(page_of(waiting))


def test_an_action_has_one_name_and_what_can_be_set_up_has_a_command(
    busy: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview, "_PATIENCE", 0)
    browser, run = signed_in(busy), _run(busy, "waiting").id
    assert f'formaction="/waiting/{run}/dismiss" aria-label="Dismiss: birds"' in browser.get("/").body.decode()
    assert f'action="/waiting/{run}/dismiss"' in browser.get("/inbox").body.decode(), "as in the inbox"
    assert f'action="/waiting/{run}/dismiss"' in browser.get(f"/runs/{run}").body.decode(), "and on its own page"
    assert "can wake: duetime init --agent NAME adds it" in browser.text("/inbox")


def test_the_page_of_a_one_off_counts_the_run_that_waits(busy: Site) -> None:
    waiting = busy.room.store.get(_run(busy, "waiting").schedule)
    assert waiting is not None
    text = signed_in(busy).text(page_of(waiting))
    assert "It has not run yet." not in text and "and one that waits for an agent" in text


def test_what_waits_for_a_retry_is_not_said_to_be_running(busy: Site) -> None:
    run = _run(busy, "pending")
    starts = busy.room.store.starts_at(run)
    assert starts is not None and run.started is not None and _total(busy, "queued") == 1
    delay = backoff(make_policy(POLICY), run.id, failures=1)
    assert 0 <= starts - delay - run.started < 20 * SECOND
    before = busy.room.clock.now()
    page = signed_in(busy).get("/")
    assert "0 running, 1 to retry" in words(page), "what is queued is neither"
    shown = re.search(r'attempt 2 <time datetime="([^"]*)"[^>]*>([^<]*)</time>, after ([^<]*?)\s*·', page.body.decode())
    assert shown is not None and shown[3] == "ConnectionError: no route"
    assert instant_from(shown[1]) == starts // 1000 * 1000
    assert shown[2] in {ahead(starts, now) for now in (before, busy.room.clock.now())}
    assert "queued behind an earlier run" in words(page)


def test_failures_have_one_number(busy: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "LOOKED_AT", 2)
    text = signed_in(busy).text("/")
    assert "3 dead letters" in text
    assert "and 2 more" in text, "also those that were not read"


def test_the_latest_run_of_each_schedule_stands_for_those_with_its_status(busy: Site) -> None:
    page = signed_in(busy).get("/").body.decode()
    rows = page.partition('<div id="latest"')[2].partition("</table>")[0].split("<tr data-row>")[1:]
    newest = max(busy.room.store.runs(RunQuery(status="failed")).items, key=lambda run: run.finished or 0)
    failed = [row for row in rows if "failing" in row and "failed" in row]
    assert ["and 2 more" in row and f'href="/runs/{newest.id}"' in row for row in failed] == [True]
    instants = [instant_from(re.findall(r'datetime="([^"]*)"', row)[0]) for row in rows]
    assert len(rows) > 3 and instants == sorted(instants, reverse=True)


def test_the_history_says_how_late_each_run_was(busy: Site) -> None:
    def late(status: str) -> list[str]:
        schedule = busy.room.store.get(_run(busy, status).schedule)
        assert schedule is not None
        page = signed_in(busy).get(page_of(schedule)).body.decode()
        return [unescape(each) for each in re.findall(r'<td class="took wide">([^<]*)</td>', page)]

    runs = busy.room.store.runs(RunQuery(status="completed")).items
    assert late("completed") == [span(max(1, (run.started or 0) - run.due)) for run in runs]
    assert late("failed") == ["", "", ""], "they were started manually"


def test_a_run_took_some_time_which_its_view_rounds_away() -> None:
    assert took("2026-02-10T15:00:00.061+00:00", "2026-02-10T15:00:00.061+00:00") == "<1 ms"


def test_a_scale_has_labels_that_differ(busy: Site) -> None:
    failing = busy.room.store.get(_run(busy, "failed").schedule)
    assert failing is not None
    stats = schedule_stats(Call(busy.room.services, Caller(LOCAL), "UTC"), failing)
    assert stats.durations is not None
    assert len({stats.durations.most, stats.durations.half, "0"}) == 3, stats.durations
    assert "<" not in stats.durations.half


def test_only_all_is_a_hundred_percent() -> None:
    assert [percent(rate) for rate in (0, 0.01, 60.24, 99.99, 100)] == ["0%", "0.1%", "60.2%", "99.9%", "100%"]


def test_commands_name_the_store(busy: Site) -> None:
    run, db = _run(busy, "failed").id, busy.room.settings.db
    text = signed_in(busy).text(f"/runs/{run}")
    for command in (f"runs show {run}", f"runs again {run}", f"dead retry {run}"):
        assert f"duetime {command} --db {db}" in text
    assert f"duetime connect claude-code --db {db}" in signed_in(busy).text("/connect")
    assert db not in signed_in_as(busy, "stranger").text("/connect")


def test_what_waits_has_the_same_word_everywhere(busy: Site, cli: Cli) -> None:
    """A prompt that no agent has taken, and a job between two attempts: neither is running."""
    db = ("--db", busy.room.settings.db)
    listed = cli("list", "--json", *db).document["schedules"]
    wanted = {
        "birds": "waiting for an agent",
        "twice": "waiting for an agent",
        "again": "waiting",
        "failing": "failing",
    }
    browser, terminal = signed_in(busy), cli("list", *db).out.splitlines()
    rows = re.findall(r"<tr data-row.*?</tr>", browser.get("/schedules?view=all").body.decode(), re.DOTALL)
    for name, word in wanted.items():
        [row] = [row for row in rows if f">{name}</a>" in row]
        shown = words(Reply(200, {}, row.encode()))
        assert f" {word} " in shown and "running" not in shown and " due" not in shown, "the list"
        [schedule] = [each for each in listed if each["name"] == name]
        assert f" {word} " in browser.text(f"/schedules/{schedule['id']}").partition("Edit")[0], "its page"
        [line] = [line for line in terminal if f" {name} " in line]
        assert line.split()[1] == word.split()[0], "the command line"
        assert f"status    {word}" in re.sub(
            "status +", "status    ", cli(schedule["kind"], "show", schedule["id"], *db).out
        )
