"""The command line as people and programs meet it."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

from duetime.api import Duetime
from duetime.app import build
from duetime.cli import all_commands
from duetime.cli.setup.doctor_checks import file_system
from duetime.engine.clock import HOUR, MINUTE, SECOND, Instant
from duetime.engine.redaction import without_password
from duetime.engine.store import ScheduleQuery
from duetime.engine.validation import NewSchedule
from duetime.kinds.jobs.registry import Registry
from duetime.kinds.prompts.agent import Spent
from duetime.kinds.prompts.kind import PromptKind
from duetime.settings import Settings
from duetime.terminal.output import clean, span
from duetime.terminal.schedules import read
from duetime.terminal.schedules.display import schedule_facts
from tests.support.cli import Cli, environment, start
from tests.support.drafts import once
from tests.support.hand import Hand, create
from tests.support.workers import eventually

EVIL = "evil\x1b[31m[bold]name[/bold]\x9b2J\u202e\r\nsecond [red]line"


def add(cli: Cli, name: str = "report", *more: str) -> str:
    every = () if {"--at", "--cron", "--rrule", "--every"} & set(more) else ("--every", "2h")
    answer = cli("job", "add", name, "--task", "echo", *every, "--json", *more)
    assert answer.code == 0, answer
    return str(answer.document["id"])


# -- words ------------------------------------------------------------------------------------------------------


def test_next_shows_local_time_utc_english_and_warnings(cli: Cli) -> None:
    answer = cli("next", "30 2 * * *", "--tz", "Europe/Berlin", "-n", "3")
    assert answer.code == 0
    assert answer.out.startswith("every day at 02:30 (Europe/Berlin)\n")
    assert len(answer.out.splitlines()) == 4
    assert "does not exist in Europe/Berlin" in answer.err
    assert "comes twice in Europe/Berlin" in answer.err


@pytest.mark.parametrize(
    ("expression", "english"),
    [
        ("@daily", "every day at 00:00"),
        ("every 2h", "every 2 hours"),
        ("every 90 minutes", "every 1 hour 30 minutes"),
        ("RRULE:FREQ=DAILY;COUNT=3", "every day"),
        ("*/10 * * * * *", "every 10 seconds"),
        ("tomorrow 9am", "once, on "),
    ],
)
def test_next_reads_every_form(cli: Cli, expression: str, english: str) -> None:
    document = cli("next", expression, "--tz", "Asia/Tokyo", "--json").document
    assert document["reads_as"].startswith(english)
    assert document["timezone"] == "Asia/Tokyo"
    assert 1 <= len(document["next"]) <= 5
    for instant in document["next"]:
        assert datetime.fromisoformat(instant["local"]) == datetime.fromisoformat(instant["utc"])


def test_next_has_no_time_for_what_waits_for_an_event(cli: Cli) -> None:
    waits = cli("next", "on deploy.done")
    assert waits.out.strip() == "on the event deploy.done" and "It has no times of its own" in waits.err
    follows = cli("next", "after backup fails")
    assert follows.out.strip() == "after backup fails" and "It has no times of its own" in follows.err
    explained = cli("explain", "on deploy.done").out
    assert "often" not in explained and "elapsed" not in explained and "no times of its own" in explained


def test_next_makes_no_store(cli: Cli, tmp_path: Path) -> None:
    assert cli("next", "@hourly").code == 0
    assert list(tmp_path.iterdir()) == []


def test_next_takes_the_wall_clock_literally_when_asked(cli: Cli) -> None:
    literal = cli("next", "30 2 * * *", "--tz", "Europe/Berlin", "--dst", "literal", "--json").document
    assert any("does not run then" in warning for warning in literal["warnings"])


def test_help_and_version(cli: Cli) -> None:
    assert cli("--version").out.startswith("duetime ")
    assert "Exit codes: 0 done" in cli("--help").out
    assert all(f"\n  {name} " in cli("--help").out for name in all_commands())
    bare = cli()
    assert (bare.code, bare.out) == (2, "")
    assert "Get started:" in bare.err
    assert "--max-attempts" in cli("job", "add", "--help").out


# -- a job's life -----------------------------------------------------------------------------------------------


def test_a_job_from_add_to_delete(cli: Cli) -> None:
    added = cli("job", "add", "report", "--task", "echo", "--arg", "hi", "--cron", "0 9 * * 1-5", "--tz", "Asia/Tokyo")
    assert added.code == 0
    assert "at 09:00 on Monday through Friday (Asia/Tokyo)" in added.out
    assert "No worker is running" in added.err
    assert "duetime worker --db my.db" in added.err
    (job,) = cli("job", "list", "--json").document["jobs"]
    id = job["id"]
    assert job["payload"] == {"task": "echo", "args": ["hi"], "kwargs": {}}
    assert cli("job", "list").out.splitlines()[1].startswith("j1 ")
    assert cli("job", "pause", id).code == 0
    assert cli("job", "list", "--json", "--status", "paused").document["total"] == 1
    assert "next" in cli("job", "resume", id).out
    assert cli("job", "run", id, "--json").document["run"]["cause"] == "manual"
    assert cli("job", "cancel", id, "--json").document["status"] == "cancelled"
    assert cli("job", "cancel", id).code == 0
    assert cli("job", "delete", id, "--json").document == {"id": id, "deleted": True}
    assert cli("job", "show", id).code == 3
    (run,) = cli("job", "history", id, "--json").document["runs"]
    assert run["status"] == "cancelled"


def test_what_has_ended_and_the_limits_are_told_in_sentences(cli: Cli, tmp_path: Path) -> None:
    room = build(Settings(db=str(tmp_path / "my.db")), tasks=False)
    now = room.clock.now()
    create(room.store, once(now, name="over"))  # type: ignore[arg-type]
    hand = Hand(room.store, now=now)  # type: ignore[arg-type]
    hand.record(hand.claim(now), now)
    [over] = room.store.search(ScheduleQuery()).items
    assert ("runs", "1 run, the last one completed just now") in schedule_facts(room, over)
    room.close()
    assert "it has ended, so it cannot be cancelled" in cli("job", "cancel", "j1").err
    assert "at least 1 s between runs, " in cli("status", "--db", "my.db").out


def test_alerts_are_shown_in_the_zone_of_the_settings(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DUETIME_TIMEZONE", "Asia/Tokyo")
    add(cli, "local", "--at", "2099-01-30 15:00")
    add(cli, "elsewhere", "--at", "2099-01-30 15:00", "--tz", "UTC")
    at = Instant(1_900_000_000 * SECOND)
    room = build(Settings(db=str(tmp_path / "my.db")), tasks=False)
    for key in ("~run:7.1", "~incident:3.9", "~limit:5:all"):
        create(room.store, once(at, kind="notification", name=key, key=key))  # type: ignore[arg-type]
    room.close()
    rows = [" ".join(line.split()) for line in cli("list", "--all").out.splitlines()]
    assert sum("once, on 2030-03-18 02:46:40 JST 0" in row for row in rows) == 3, rows
    assert any("once, on 2099-01-30 15:00 JST 0" in row for row in rows), rows
    assert any("once, on 2099-01-30 15:00 UTC (UTC)" in row for row in rows), "its own zone"
    assert "once, on 2030-03-18 02:46:40 JST (Asia/Tokyo)" in cli("show", "n3").out
    assert cli("notify", "edit", "n3", "--cron", "0 9 * * *", "--tz", "America/New_York").code == 0
    assert "every day at 09:00 (America/New_York)" in cli("show", "n3").out, "a rule keeps its zone"


def test_what_agents_used_is_told_in_words(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUETIME_TIMEZONE", "UTC")
    assert cli("prompt", "add", "Read the news", "--name", "news", "--at", "now").code == 0
    assert "0 agent runs today; 0 agent runs this week" in cli("status", "--db", "my.db").out
    with Duetime(str(tmp_path / "my.db")) as duetime:
        eventually(lambda: duetime.history(status="waiting"), 20, "a prompt that waits for an agent")
    assert "1 agent run today; 1 agent run this week" in cli("status", "--db", "my.db").out
    room = build(Settings(db=str(tmp_path / "my.db"), timezone="UTC"), tasks=False)
    [news] = room.store.search(ScheduleQuery()).items
    room.services.kind(PromptKind).waking.count(news.definition, "inbox", Spent(1000, 200, 0.5))
    room.close()
    both = "1 agent run, 1,200 tokens, $0.5 today; 1 agent run, 1,200 tokens, $0.5 this week"
    assert both in cli("status", "--db", "my.db").out


def test_the_tasks_are_listed_with_their_arguments(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        'from duetime.kinds.jobs.registry import task\n\n@task\ndef mine(a, b=1):\n    """Adds. Slowly."""\n'
    )
    rows = {row.split()[0]: row.split()[1:] for row in cli("job", "tasks", "--tasks", "mine.py").out.splitlines()}
    assert rows["TASK"] == ["ARGUMENTS", "DESCRIPTION"]
    assert rows["mine"] == ["a", "[b]", "Adds."] and rows["shorten"][:2] == ["text", "[words]"]
    document = cli("job", "tasks", "--json").document
    assert document["total"] == len(document["tasks"]) and "echo" in {each["name"] for each in document["tasks"]}


def test_a_mistyped_name_is_answered_with_the_one_that_may_be_meant(cli: Cli) -> None:
    add(cli, "flaky")
    add(cli, "Nightly report")
    for given, meant in (("flak", "flaky"), ("nightly", "Nightly report"), ("nigtly report", "Nightly report")):
        answer = cli("job", "show", given)
        assert answer.code == 3 and f"there is no job '{given}'; did you mean {meant}? " in answer.err
    assert "did you mean" not in cli("job", "show", "else").err


def test_a_change_that_changes_nothing_says_so(cli: Cli) -> None:
    add(cli, "beat")
    said = [
        cli("job", *words).out.splitlines()[0]
        for words in (("resume", "j1"), ("pause", "j1"), ("pause", "j1"), ("pause", "j1", "--until", "2099-01-01"))
    ]
    assert said == ["Not paused: j1  beat", "Paused j1  beat", "Already paused: j1  beat", "Paused j1  beat"]
    said = [cli("job", verb, "j1").out.splitlines()[0] for verb in ("resume", "cancel", "cancel")]
    assert said == ["Resumed j1  beat", "Cancelled j1  beat", "Already cancelled: j1  beat"]


def test_a_history_says_that_there_is_more(cli: Cli) -> None:
    add(cli, "twice", "--overlap", "allow")
    for _ in range(2):
        cli("job", "run", "twice")
    assert "1 of 2; --limit shows more" in cli("job", "history", "twice", "--limit", "1").out
    assert "shows more" not in cli("job", "history", "twice").out


def test_values_are_json_or_else_text(cli: Cli) -> None:
    add(cli, "values", "--kwarg", 'value={"a": [1, true, null]}')
    add(cli, "text", "--arg", "NaN")
    add(cli, "pair", "--kwarg", "value=a=b")
    payloads = {job["name"]: job["payload"] for job in cli("job", "list", "--json").document["jobs"]}
    assert payloads["values"]["kwargs"] == {"value": {"a": [1, True, None]}}
    assert payloads["text"]["args"] == ["NaN"]
    assert payloads["pair"]["kwargs"] == {"value": "a=b"}


TYPED_TASKS = """
from duetime.kinds.jobs.registry import task

@task
def release(version: str, build: int = 0, notes: str | None = None, ratio: float = 1, **more: str) -> str:
    return version
"""


def test_arguments_have_the_types_of_the_task(cli: Cli, tmp_path: Path) -> None:
    """A version looks like a number, and is a text for the task."""
    (tmp_path / "mine.py").write_text(TYPED_TASKS, "utf-8")
    job = ("--task", "release", "--tasks", "mine.py", "--json")
    kwargs = ("--kwarg", "ratio=4.10", "--kwarg", "notes=null", "--kwarg", "code=007", "--kwarg", "other=1e3")
    id = cli("job", "add", "typed", *job, "--every", "2h", "--arg", "4.10", "--arg", "7", *kwargs).document["id"]
    payload = cli("job", "show", id, "--json").document["payload"]
    assert payload["args"] == ["4.10", 7]
    assert payload["kwargs"] == {"ratio": 4.1, "notes": None, "code": "007", "other": "1e3"}
    assert cli("job", "edit", id, "--tasks", "mine.py", "--arg", "true").code == 0
    assert cli("job", "show", id, "--json").document["payload"]["args"] == ["true"]
    assert cli("job", "edit", id, "--tasks", "mine.py", "--arg", '"4.1"').code == 0
    assert cli("job", "show", id, "--json").document["payload"]["args"] == ["4.1"]
    refused = cli("job", "edit", id, "--tasks", "mine.py", "--arg", "4.1", "--arg", "soon")
    assert refused.code != 0 and "build: must be a whole number, not a text" in refused.err


def test_policy_options_reach_the_policy(cli: Cli) -> None:
    options = ["--max-runs", "3", "--max-attempts", "4", "--timeout", "30s", "--backoff", "1m"]
    id = add(cli, "p", *options, "--catch-up", "all", "--overlap", "queue")
    shown = cli("job", "show", id, "--json").document
    policy = {
        "max_runs": 3,
        "max_attempts": 4,
        "timeout_seconds": 30,
        "backoff_seconds": 60,
        "catch_up": "all",
        "overlap": "queue",
    }
    assert shown["policy"].items() >= policy.items()
    assert len(shown["next_instants"]) == 3
    shown = " ".join(cli("job", "show", id).out.split())
    for fact in ("attempts at most 4", "timeout after 30 s", "first retry after 1 min", "ends after 3 runs"):
        assert fact in shown
    assert "after downtime run everything that was missed · if the previous run is still active queue it" in shown
    assert "counts as missed" not in shown, "that is the default"
    assert cli("job", "show", add(cli, "q", "--at-most-once"), "--json").document["policy"]["at_most_once"] is True


def test_a_time_that_could_be_meant_otherwise_is_said_back(cli: Cli) -> None:
    answer = cli("job", "add", "x", "--task", "echo", "--at", "tomorrow", "--tz", "Europe/Berlin", "--json")
    assert any("no time given: read as 00:00" in warning for warning in answer.document["warnings"])


def test_edit_takes_back_what_was_set_and_changes_the_limits_of_a_rule_alone(cli: Cli) -> None:
    rule = ("--cron", "0 9 * * 1", "--tz", "Europe/Berlin", "--end", "2090-01-01", "--jitter", "5m")
    limits = ("--timeout", "30s", "--max-runs", "7", "--deliver-to", "ops", "--at-most-once")
    id = cli("job", "add", "x", "--task", "echo", *rule, *limits, "--json").document["id"]
    none = ("--timeout", "none", "--max-runs", "none", "--deliver-to", "none", "--no-at-most-once", "--end", "none")
    assert cli("job", "edit", id, *none, "--tz", "Asia/Tokyo").code == 0
    after = cli("job", "show", id, "--json").document
    unset = ("timeout_seconds", "max_runs", "deliver_to")
    assert [after["policy"].get(name) for name in unset] == [None] * 3 and not after["policy"].get("at_most_once")
    trigger = after["trigger"]
    assert (trigger["type"], trigger["expression"], trigger["timezone"]) == ("cron", "0 9 * * 1", "Asia/Tokyo")
    assert "2090" not in str(trigger) and after["reads_as"].endswith("up to 5 minutes later at random")
    assert cli("job", "edit", id, "--cron", "0 8 * * 1", "--starting", "2090-01-01").code == 0
    for limit in (("--tz", "Europe/Berlin"), ("--jitter", "1m")):
        refused = cli("job", "edit", id, *limit)
        assert refused.code == 2 and "its rule changes at a set time; give the new rule as well" in refused.err


def test_edit_changes_only_what_is_given(cli: Cli) -> None:
    id = add(cli, "old", "--arg", "1", "--max-attempts", "2")
    edited = cli("job", "edit", id, "--name", "new", "--every", "1d", "--timeout", "5s", "--json").document
    assert (edited["name"], edited["reads_as"].split(" at ")[0]) == ("new", "every day")
    assert edited["policy"].items() >= {"max_attempts": 2, "timeout_seconds": 5, "max_runs": None}.items()
    assert edited["payload"]["args"] == [1]
    assert cli("job", "edit", id, "--task", "shorten", "--arg", "a text").code == 0
    assert cli("job", "show", id, "--json").document["payload"]["task"] == "shorten"


def test_one_key_adds_once(cli: Cli) -> None:
    assert add(cli, "a", "--key", "k") == add(cli, "a", "--key", "k")
    assert cli("job", "list", "--json").document["total"] == 1


def test_lists_are_limited_paged_and_complete_on_request(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [add(cli, f"job {number}") for number in range(5)]
    page = cli("job", "list", "--limit", "2", "--json").document
    assert (len(page["jobs"]), page["total"]) == (2, 5)
    more = cli("job", "list", "--limit", "3", "--cursor", page["next_cursor"], "--json").document
    assert [job["id"] for job in page["jobs"] + more["jobs"]] == ids[::-1]
    assert "2 of 5; --all shows every one" in cli("job", "list", "--limit", "2").out
    assert len(cli("job", "list", "--all", "--json").document["jobs"]) == 5
    monkeypatch.setattr(read, "PAGE", 2)
    whole = cli("job", "list", "--all", "--json").document
    assert (len({job["id"] for job in whole["jobs"]}), whole["next_cursor"]) == (5, None), "page after page"
    assert "There are no jobs with the status failed" in cli("job", "list", "--status", "failed").out
    assert "There are no jobs with the status failing" in cli("job", "list", "--status", "failing").out
    assert "failed (or failing), cancelled" in cli("job", "list", "--status", "no").err
    assert "failed (or failing), cancelled" in " ".join(cli("job", "list", "--help").out.split())


def test_a_live_worker_silences_the_warning_and_a_dead_one_does_not(cli: Cli, tmp_path: Path) -> None:
    app = build(Settings(db=str(tmp_path / "my.db")))
    now = app.clock.now()
    app.store.register("dead:1", ["job"], False, type(now)(now - 10 * MINUTE))
    assert "No worker is running" in cli("job", "add", "a", "--task", "echo", "--every", "2h").err
    app.store.register("other:1", ["prompt"], False, now)
    assert "No worker that is running takes a job" in cli("job", "add", "a", "--task", "echo", "--every", "2h").err
    app.store.register("session:1", ["job"], True, now)
    assert "only while an agent client is open" in cli("job", "add", "a", "--task", "echo", "--every", "2h").err
    app.store.register("live:1", ["job"], False, now)
    assert cli("job", "add", "a", "--task", "echo", "--every", "2h").err == ""
    app.close()


# -- text is data -----------------------------------------------------------------------------------------------


def test_nothing_that_was_written_by_others_moves_the_terminal(cli: Cli) -> None:
    id = add(cli, EVIL, "--arg", EVIL)
    answers = [cli("job", "list"), cli("job", "show", id), cli("job", "pause", id), cli("job", "resume", id)]
    answers += [cli("job", "run", id), cli("job", "history", id), cli("job", "show", EVIL), cli("next", EVIL)]
    answers += [cli("job", "add", EVIL, "--task", EVIL, "--every", "2h"), cli("doctor"), cli("job", "delete", id)]
    for answer in answers:
        for line in (answer.out + answer.err).splitlines():
            assert line.isprintable(), ascii(line)
    assert "[bold]name[/bold]" in answers[0].out
    assert "\\x1b[31m" in answers[0].out


def test_json_keeps_the_text_and_escapes_what_terminals_obey(cli: Cli) -> None:
    add(cli, EVIL)
    answer = cli("job", "list", "--json")
    assert answer.document["jobs"][0]["name"] == EVIL
    assert all(line.isprintable() for line in answer.out.splitlines())


def test_clean_keeps_what_is_only_text() -> None:
    assert clean("naïve 日本語 👩\u200d🔬") == "naïve 日本語 👩\u200d🔬"
    assert clean("a\nb\x00\ud800") == "a\\nb\\x00\\ud800"


@pytest.mark.parametrize(
    ("microseconds", "text"),
    [
        (-5, "0 ms"), (500, "<1 ms"), (12_000, "12 ms"), (3_400_000, "3.4 s"), (59 * SECOND, "59 s"),
        (HOUR, "1 h"), (HOUR + 5 * MINUTE + 3 * SECOND, "1 h 5 min"), (HOUR + 3 * SECOND, "1 h"),
    ],
)  # fmt: skip
def test_spans(microseconds: int, text: str) -> None:
    assert span(microseconds) == text


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("my.db", "my.db"),
        ("postgresql://me:secret@host/db", "postgresql://me:***@host/db"),
        ("postgresql://host/db?user=me&password=secret", "postgresql://host/db?user=me&password=***"),
        ("postgresql://host/db?sslpassword=secret&user=me", "postgresql://host/db?sslpassword=***&user=me"),
    ],
)
def test_hints_show_no_password(url: str, shown: str) -> None:
    assert without_password(url) == shown


# -- doctor -----------------------------------------------------------------------------------------------------


def test_doctor_without_a_store_makes_none(cli: Cli, tmp_path: Path) -> None:
    answer = cli("doctor", "--json")
    assert answer.code == 0
    assert {"store": "warn"}.items() <= {
        check["subject"]: check["status"] for check in answer.document["checks"]
    }.items()
    assert list(tmp_path.iterdir()) == []


def test_doctor_names_what_is_wrong(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("from duetime.kinds.jobs.registry import task\n\n@task\ndef doctor_only(): ...\n")
    answer = cli("job", "add", "later", "--task", "doctor_only", "--every", "2h", "--tasks", "mine.py")
    assert answer.code == 0, answer
    add(cli, "due", "--at", "now")
    report = cli("doctor")
    assert report.code == 0
    assert "none is running, so nothing fires" in report.out
    broken = cli("doctor", "--tasks", "no_such_module", "--json")
    assert broken.code == 1
    assert not broken.document["ok"]
    failed = [check for check in broken.document["checks"] if check["status"] == "fail"]
    assert [check["subject"] for check in failed] == ["tasks"]


def test_doctor_knows_the_tasks_that_a_worker_knows(cli: Cli, tmp_path: Path) -> None:
    for task in ("fetch", "backup_database"):
        more = ("--arg", "https://example.org") if task == "fetch" else ()
        assert cli("job", "add", task, "--task", task, *more, "--every", "2h").code == 0
    [told] = [each for each in cli("doctor", "--json").document["checks"] if each["subject"] == "tasks"]
    room = build(Settings(db=str(tmp_path / "my.db")), tasks=False)
    names = sorted(task.name for task in room.registry)
    room.close()
    assert told["message"].startswith(f"known: {', '.join(names)}")
    assert told["status"] == "ok"


def test_doctor_fails_where_the_store_is_no_store(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "my.db").write_text("this is not a database, however long it may be " * 50)
    answer = cli("doctor")
    assert answer.code == 1
    assert "is not a SQLite database" in answer.out


def test_the_file_system_of_a_path_is_that_of_its_deepest_mount(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text("a / ext4 rw 0 0\nb /srv nfs4 rw 0 0\nc /srv/my\\040disk xfs rw 0 0\n")
    assert file_system(Path("/srv/x/y"), mounts) == "nfs4"
    assert file_system(Path("/srv/my disk/y"), mounts) == "xfs"
    assert file_system(Path("/home"), mounts) == "ext4"
    assert file_system(Path("/home"), tmp_path / "none") is None


def test_everything_works_on_postgresql(cli: Cli, clean_postgres_url: str) -> None:
    id = add(cli, "there", "--db", clean_postgres_url)
    assert cli("job", "list", "--db", clean_postgres_url, "--json").document["total"] == 1
    assert cli("job", "show", id, "--db", clean_postgres_url).code == 0
    report = cli("doctor", "--db", clean_postgres_url)
    assert report.code == 0
    assert "this machine and the database agree" in report.out


# -- processes --------------------------------------------------------------------------------------------------


@pytest.mark.later
def test_a_command_loads_only_what_it_needs(tmp_path: Path) -> None:
    """What makes a command start slowly: each of these costs as much as all of ours."""
    data = {"XDG_DATA_HOME": str(tmp_path)}
    script = (
        "import json, sys\nfrom duetime.cli.main import main\n"
        "code = main(sys.argv[1:])\nprint(json.dumps([code, sorted(sys.modules)]), file=sys.stderr)"
    )
    for arguments, absent in (
        (["--help"], {"pydantic", "rich", "apsw", "mcp", "duetime.app"}),
        (["next", "@daily"], {"pydantic", "rich", "apsw", "psycopg", "asyncio", "duetime.app", "duetime.stores"}),
        (["job", "add", "x", "--task", "echo", "--every", "2h", "--db", "x.db"], {"pydantic", "rich", "psycopg"}),
        (
            ["job", "list", "--json", "--db", "x.db"],
            {"pydantic", "rich", "psycopg", "asyncio", "duetime.engine.worker.threads"},
        ),
        (["token", "link", "--port", "1"], {"uvicorn", "starlette", "asyncio", "rich"}),
        (["token", "calendar", "--port", "1"], {"uvicorn", "starlette", "asyncio", "rich"}),
        (["serve", "--print-config", "claude-code"], {"uvicorn", "starlette", "mcp"}),
    ):
        done = subprocess.run(
            [sys.executable, "-c", script, *arguments],
            cwd=tmp_path, env=environment() | data, capture_output=True, text=True, check=True,
        )  # fmt: skip
        code, modules = json.loads(done.stderr.splitlines()[-1])
        assert code == 0, done.stdout
        assert absent & set(modules) == set(), arguments


def test_a_reader_that_leaves_early_is_no_error(tmp_path: Path) -> None:
    process = start("next", "@hourly", "-n", "1000", folder=tmp_path)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    assert process.wait(30) == 141
    assert process.stderr.read() == ""
    process.stderr.close()


def test_inbox_shows_what_arrived(cli: Cli, tmp_path: Path) -> None:
    assert cli("job", "list").code == 0
    assert "Nothing has arrived" in cli("inbox", "--db", "my.db").out
    payload = {"message": "water \x1b[31m[b]them[/b]\n\tand me", "topic": "home", "title": "Plants"}
    with Duetime(str(tmp_path / "my.db"), registry=Registry()) as duetime:
        new = NewSchedule("notification", "n", "once", {"run_at": "2100-01-01T00:00:00Z"}, payload)
        made = duetime.scheduler.create(duetime.caller, new)
        duetime.run_now(made.definition.public_id)
        eventually(lambda: duetime.history(made.definition.public_id)[0].finished, 20, "it was sent")
    shown = cli("inbox", "--db", "my.db").out
    assert "[home, n1]  Plants: water \\x1b[31m[b]them[/b]\n               and me\n" in shown
    detail = cli("runs", "show", "1", "--db", "my.db").out
    assert "and me" in detail and "\\t" not in detail and "\\n" not in detail
    assert cli("inbox", "--db", "my.db", "--json").document["messages"][0]["message"] == payload["message"]
    assert cli("inbox", "--db", "my.db", "--topic", "garden", "--json").document["count"] == 0
