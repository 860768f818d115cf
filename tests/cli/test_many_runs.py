"""`duetime runs retry`, `stop` and `resolve`; `duetime logs NAME`; and what `runs show` says of conditions and logs."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from duetime.api import Duetime
from duetime.kinds.jobs.registry import Registry
from duetime.service.operations import history
from duetime.settings import Settings
from duetime.testing import Simulation
from tests.support.cli import Cli
from tests.support.terminal import on_terminal


@pytest.fixture
def tasks(tmp_path: Path) -> Registry:
    registry = Registry()

    @registry.task
    def sync(number: int = 0) -> int:
        if not (tmp_path / "up").exists():
            raise ConnectionRefusedError("connection refused")
        return number

    @registry.task
    def talk() -> str:
        sys.stdout.write("line one\n")
        sys.stdout.write("line two\n")
        return "ok"

    return registry


def opened(tmp_path: Path, tasks: Registry) -> Duetime:
    return Duetime(settings=Settings(db=str(tmp_path / "my.db"), timezone="UTC"), registry=tasks)


def failed(tmp_path: Path, tasks: Registry, number: int = 2) -> list[int]:
    with opened(tmp_path, tasks) as duetime:
        jobs = [duetime.schedule("sync", args=[each], at="now", alert="off", name=f"s{each}") for each in range(number)]
        for job in jobs:
            job.wait(30)
        return sorted(run.run_id for run in duetime.history(status="failed"))


def test_all_that_match_are_retried_after_a_list(cli: Cli, tmp_path: Path, tasks: Registry) -> None:
    runs = failed(tmp_path, tasks)
    chosen = "runs", "retry", "--status", "failed", "--error", "REFUSED"
    refused = cli(*chosen)
    assert refused.code == 2 and "pass --expected 2" in refused.err
    planned = cli(*chosen, "--dry-run")
    assert planned.code == 0 and planned.out.endswith("2 runs would be retried.\n") and "s0" in planned.out
    assert cli(*chosen, "--dry-run", "--json").document["retried"] == runs
    assert cli(*chosen, "--error", "other", "--yes").out == "Nothing was requeued.\n"
    with on_terminal(*chosen, "--db", "my.db", folder=tmp_path) as terminal:
        assert "s1" in terminal.until("Retry 2 runs? [y/N]")
        terminal.type("\n")
        assert "Nothing was changed." in terminal.rest()
    assert cli("runs", "list", "--status", "failed", "--json").document["total"] == 2
    (tmp_path / "up").touch()
    assert cli(*chosen, "--yes").out == "Requeued 2 runs.\n"
    with opened(tmp_path, tasks) as duetime:
        assert [duetime.wait_for_run(run, 30).status for run in runs] == ["completed"] * 2
    shown = cli("runs", "show", str(runs[0]), "--json").document
    assert shown["can_retry"] is False, "it has completed"


def test_a_change_says_that_older_runs_are_not_searched(
    cli: Cli, tmp_path: Path, tasks: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "SEARCHED", 2)
    runs, note = failed(tmp_path, tasks, 5), "Only the newest"
    assert {each["schedule_short_id"] for each in cli("dead", "list", "--json").document["dead"]} >= {"j1", "j5"}
    chosen = "runs", "resolve", "--error", "REFUSED"
    planned = cli(*chosen, "--dry-run")
    assert "2 runs would be resolved." in planned.out and note in planned.err
    with opened(tmp_path, tasks) as duetime:
        assert note in duetime.change_runs("resolve", error="refused", dry_run=True)[0].notes[0]
    resolved = cli(*chosen, "--yes", "--json").document
    assert resolved["resolved"] == runs[-2:] and note in resolved["notes"][0]
    retried = cli("runs", "retry", "--error", "REFUSED", "--from", "yesterday", "--yes", "--json").document
    assert retried["retried"] == runs[:3] and "notes" not in retried, "all of that time is searched"
    assert note in cli(*chosen, "--yes").err, "also if nothing was changed"


def test_a_number_that_is_only_a_lower_bound_says_so(
    cli: Cli, tmp_path: Path, tasks: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "COUNTED", 3)
    (tmp_path / "up").touch()
    failed(tmp_path, tasks, 5)
    assert "1 of 5; --limit shows more. Of all statuses: 3+ completed" in cli("runs", "--limit", "1").out
    listed = cli("runs", "--json").document
    assert (listed["counts"], listed["counts_at_least"]) == ({"completed": 3}, ["completed"])
    with opened(tmp_path, tasks) as duetime:
        assert duetime.history().counts_at_least == ["completed"]
        assert duetime.history(status="failed").notes[-1].endswith("Those with other statuses: 3+ completed.")
    monkeypatch.setattr(history, "COUNTED", 1_000)
    assert "Of all statuses: 5 completed" in cli("runs", "--limit", "1").out


def test_runs_are_stopped_and_resolved_by_number_or_filter(cli: Cli, tmp_path: Path, tasks: Registry) -> None:
    first, second = failed(tmp_path, tasks)
    said = cli("logs", str(first), "--db", "my.db").out
    assert said.startswith("It has written nothing.") and f" runs show {first} " in said
    assert cli("runs", "resolve", str(first)).out == "Resolved 1 run.\n"
    assert cli("runs", "resolve", "--task", "sync", "--yes", "--json").document["resolved"] == [second]
    assert "No dead letters" in cli("dead", "list").out
    assert cli("notify", "add", "hello", "--topic", "home", "--cron", "0 9 * * *").code == 0
    for _ in range(2):
        assert cli("run", "hello", "--db", "my.db").code == 0
    stopped = cli("runs", "stop", "--kind", "notification", "--yes")
    assert stopped.out == "Stopped or asked to stop 2 runs.\n"
    for words in ((), ("1", "--status", "failed")):
        assert "give either numbers of runs, or filters" in cli("runs", "stop", *words).err
    assert "is for one run" in cli("runs", "stop", "--all", "--after", "5m").err


def test_the_log_of_the_latest_run_by_the_name_of_its_schedule(cli: Cli, tmp_path: Path, tasks: Registry) -> None:
    with opened(tmp_path, tasks) as duetime:
        talker = duetime.schedule("talk", every="1d", name="talker")
        run = talker.run_now(wait=30)
        silent = duetime.schedule("sync", every="1d", name="silent")
    for named in ("talker", talker.short_id, str(run.run_id)):
        answer = cli("logs", named, "--db", "my.db")
        assert (answer.code, answer.out) == (0, "line one\nline two\n"), named
        assert (f"Run {run.run_id}, completed" in answer.err) == (named != str(run.run_id))
    assert "has not run yet" in cli("logs", silent.id, "--db", "my.db").err
    assert "there is no schedule 'nobody'" in cli("logs", "nobody", "--db", "my.db").err
    shown = cli("runs", "show", str(run.run_id)).out
    assert "what it wrote: " in shown and f" logs {run.run_id}" in shown


def test_a_condition_that_fails_is_shown(cli: Cli, tmp_path: Path, tasks: Registry) -> None:
    with opened(tmp_path, tasks) as duetime:
        job = duetime.schedule("talk", every="1d", name="gated", only_if="echo('x') | field('y') | changed()")
        run = job.run_now(wait=30).run_id
    assert "its gate failed: " in cli("history", "gated").out
    shown = cli("runs", "show", str(run))
    assert "condition" in shown.out and "is not JSON" in shown.out
    assert "is not JSON" in cli("history", "gated", "--json").document["runs"][0]["gate"]["failure"]


def test_a_run_that_its_condition_skips_is_no_failure(cli: Cli, tmp_path: Path, tasks: Registry) -> None:
    with opened(tmp_path, tasks) as duetime:
        duetime.schedule("talk", every="1d", name="gated", only_if="echo('x') | changed()")
        answer = cli("run", "gated", "--wait", "30", "--db", "my.db")
    assert answer.code == 0
    assert "was skipped and did nothing: this was the first look of its gate" in answer.out
    assert "Its condition only_if let nothing pass; --force runs it without a check." in answer.out


def test_times_in_sentences_are_readable(cli: Cli) -> None:
    assert cli("notify", "add", "hello", "--topic", "home", "--cron", "0 9 * * *", "--tz", "UTC").code == 0
    run = cli("run", "hello", "--db", "my.db", "--json").document["run"]["run_id"]
    assert "09:00 UTC" in (out := cli("runs", "stop", str(run)).out) and "T09:00" not in out
    paused = cli("change", "pause", "--all", "--until", "in 3 days", "--dry-run").out
    assert "09:00 UTC" in paused and "T09:00" not in paused


def test_what_a_message_says_is_one_line_in_a_list(cli: Cli, tmp_path: Path, tasks: Registry) -> None:
    with opened(tmp_path, tasks) as duetime:
        duetime.notify("first\n\nsecond", topic="home", at="now").wait(30)
    assert "first second" in cli("runs", "list").out


def test_what_needs_attention_does_not_promise_more_than_it_has_read(cli: Cli, tmp_path: Path, tasks: Registry) -> None:
    """45 failures of one job are one row; whether an older one needs attention, too, is not known."""
    settings = Settings(db=str(tmp_path / "my.db"), timezone="UTC")
    with Simulation(datetime(2026, 3, 2, tzinfo=UTC), settings=settings, registry=tasks) as simulation:
        jobs = [simulation.duetime.schedule("sync", every="1h", pause_after=0) for _ in range(2)]
        simulation.advance(timedelta(hours=45))
        assert len(simulation.duetime.history(jobs[0].id, limit=100)) == 45
    shown = cli("attention", "list", "--db", "my.db").out
    assert "2 rows; of many runs that failed or were missed, only the latest were looked at. Resolve one: " in shown
    assert all(f"  {job.short_id}  " in shown for job in jobs)
    assert "1 row, and there is more." in cli("attention", "list", "--limit", "1", "--db", "my.db").out
