"""`duetime import` and `duetime export`: what goes out comes back as it was, and a crontab becomes jobs."""

from __future__ import annotations

import io
import json
import stat
from pathlib import Path
from typing import Any

import pytest
from icalendar import Calendar

from duetime.api import Duetime
from duetime.app import App, build
from duetime.cli.data.crontab import NeedsShell, Unusable, Way, plain_command, read_crontab, shell_syntax
from duetime.engine.clock import DAY, HOUR, Instant, SystemClock
from duetime.engine.kind import Caller
from duetime.engine.model import Schedule
from duetime.engine.times import iso_local
from duetime.engine.validation import Changes, NewSchedule
from duetime.kinds.jobs.shell_task import MODULE
from duetime.service.services import OPERATOR
from duetime.settings import Settings
from tests.support.cli import Cli
from tests.support.crontabs import crontab
from tests.support.refusals import refusal_of
from tests.support.settings import write_trusted
from tests.support.terminal import on_terminal
from tests.support.workers import eventually

WITH_SHELL = Way(False, "", True)

# -- reading a crontab ------------------------------------------------------------------------------------------------


def test_a_crontab_is_read_as_cron_reads_it() -> None:
    found = read_crontab(
        '# comment\n\n SHELL=/bin/bash\nPATH = "/opt/bin:/bin"\n  0 3 * * *  /bin/a  b\n\t@Daily\tc "d e"\n'
        "CRON_TZ=Asia/Tokyo\n5 4 * * sun mail -s '100\\%' me%first line%second\n",
        Way(),
    )
    assert found.problems == []
    first, second, third = found.entries
    assert (first.line, first.expression, first.argv, first.zone) == (5, "0 3 * * *", ("/bin/a", "b"), None)
    assert first.env == {"PATH": "/opt/bin:/bin"}
    assert (second.expression, second.argv) == ("@Daily", ("c", "d e"))
    assert (third.zone, third.argv) == ("Asia/Tokyo", ("mail", "-s", "100%", "me"))
    assert third.stdin == "first line\nsecond\n"


def test_variables_are_carried_over_but_for_secrets_and_mail() -> None:
    found = read_crontab("MAILTO=me\nAPI_TOKEN=abc\nTZ=UTC\nFOO='x y'\n@daily a\nFOO=z\n@daily a\n", Way())
    assert [entry.env for entry in found.entries] == [{"TZ": "UTC", "FOO": "x y"}, {"TZ": "UTC", "FOO": "z"}]
    assert [(note.line, note.text) for note in found.notes] == [(1, "MAILTO"), (2, "API_TOKEN"), (3, "TZ=UTC")]
    assert "abc" not in str(found.notes)


def test_a_system_crontab_has_users() -> None:
    text = "0 3 * * * root /bin/a\n0 4 * * *\tann\t/bin/b c\n@daily ann\n"
    found = read_crontab(text, Way(system=True, user="ann"))
    assert [entry.argv for entry in found.entries] == [("/bin/b", "c")]
    assert [problem.reason for problem in found.problems] == [
        "it is for root; --user root takes the lines of that user",
        "there is no command",
    ]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("@reboot /bin/a", "@reboot has no time"),
        ("@Reboot /bin/a", "@reboot has no time"),
        ("0 3 * *", "five fields"),
        ("0 3 * * *", "five fields"),
        ("hello world", "five fields"),
        ("0~30 3 * * * /bin/a", "a random time"),
        ("0 3 * * * %only input", "there is no command"),
        ("0 3 * * * a | b", "a shell for a pipe"),
        ("0 3 * * * a 'b", "quotes do not match"),
        ("0 3 * * * DB_PASSWORD=x backup", "it holds DB_PASSWORD"),
    ],
)
def test_what_cannot_be_scheduled_has_a_reason(line: str, reason: str) -> None:
    (problem,) = read_crontab(line, Way()).problems
    assert reason in problem.reason


@pytest.mark.parametrize(
    "command",
    [
        "a | b", "a && b", "a; b", "a > /var/log/a", "a < b", "(a)", "echo $HOME", 'echo "$HOME"', "echo `date`",
        'echo "`date`"', "rm *.log", "ls file?", "ls [ab]", "~/bin/a", "a ~/b", "a # why", "a &", "cd /srv", ". ./env",
        "test -x /bin/a", "a >> /dev/null 2>&1 &", "a2>&1", 'echo "\\$5"',
    ],
)  # fmt: skip
def test_what_needs_a_shell(command: str) -> None:
    with pytest.raises(NeedsShell):
        plain_command(command)
    (entry,) = read_crontab(f"SHELL=/bin/bash\n@daily {command}", WITH_SHELL).entries
    assert entry.argv == ("/bin/bash", "-c", command)


@pytest.mark.parametrize(
    ("command", "argv"),
    [
        ("a 'b | c' \"d; e\"", ["a", "b | c", "d; e"]),
        ("echo '$HOME'", ["echo", "$HOME"]),
        ('echo "\\"5"', ["echo", '"5']),
        ("a b\\ c \\; {} a#b x~y", ["a", "b c", ";", "{}", "a#b", "x~y"]),
        ("A=1 B='2 3' c", ["c"]),
        ("a >/dev/null 2>&1", ["a"]),
        ("a &> /dev/null", ["a"]),
        ("a b2 2>/dev/null", ["a", "b2"]),
    ],
)
def test_what_needs_none(command: str, argv: list[str]) -> None:
    assert plain_command(command).argv == argv
    (entry,) = read_crontab(f"@daily {command}", WITH_SHELL).entries
    assert list(entry.argv) == argv


def test_leading_variables_are_the_commands_own() -> None:
    assert plain_command("A=1 B='2 3' c").env == {"A": "1", "B": "2 3"}
    with pytest.raises(Unusable):
        plain_command("A=1")
    assert shell_syntax("a 'it''s' \"x\"") is None


# -- importing a crontab ----------------------------------------------------------------------------------------------

LINES = "0 3 * * * /bin/backup --all\n@reboot /bin/a\n15 9 * * 1-5 cd /srv && ./b\n61 * * * * /bin/c\n"


def test_a_dry_run_makes_nothing_not_even_a_store(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "tab").write_text(LINES)
    answer = cli("import", "crontab", "tab", "--db", "new.db")
    assert answer.code == 4
    assert "every day at 03:00" in answer.out and "/bin/backup --all" in answer.out
    assert "@reboot has no time" in answer.out and "the minute cannot be '61'" in answer.out
    assert "Nothing was imported yet: --yes does it." in answer.out
    assert not (tmp_path / "new.db").exists()
    assert cli("import", "crontab", "tab", "--json").document["dry_run"] is True
    assert cli("job", "list", "--json").document["total"] == 0


def test_lines_become_jobs_once(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "tab").write_text(LINES)
    first = cli("import", "crontab", "tab", "--yes", "--tz", "Asia/Tokyo", "--timeout", "1h", "--deliver-to", "ops")
    assert first.code == 4
    assert "1 schedule imported, 3 lines not imported" in first.out
    assert "cron still runs these lines" in first.out
    assert f'tasks = ["{MODULE}"]' in first.err
    (job,) = cli("job", "list", "--json").document["jobs"]
    assert job["payload"] == {"task": "run_command", "args": [], "kwargs": {"argv": ["/bin/backup", "--all"]}}
    assert job["trigger"]["timezone"] == "Asia/Tokyo"
    assert job["policy"]["deliver_to"] == "ops"
    again = cli("import", "crontab", "tab", "--yes", "--tz", "Asia/Tokyo", "--timeout", "1h", "--deliver-to", "ops")
    assert "1 schedule there already" in again.out, "the other lines still cannot be imported"
    other = cli("import", "crontab", "tab", "--yes", "--tz", "Asia/Tokyo")
    assert "it was imported before, in another form" in other.out
    assert cli("job", "list", "--json").document["total"] == 1
    write_trusted(tmp_path, f'tasks = ["{MODULE}"]\n')
    assert "tasks = " not in cli("import", "crontab", "tab", "--yes", "--shell").err


def test_the_same_line_twice_is_two_jobs(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("@daily /bin/a\n@daily /bin/a\n"))
    answer = cli("import", "crontab", "-", "--yes", "--json")
    assert answer.code == 0
    assert [row["status"] for row in answer.document["schedules"]] == ["imported", "imported"]
    assert len({row["id"] for row in answer.document["schedules"]}) == 2


def test_files_that_cannot_be_read(cli: Cli, tmp_path: Path) -> None:
    assert cli("import", "crontab", "nowhere").code == 2
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    answer = cli("import", "jsonl", "binary")
    assert (answer.code, answer.err.count("\n")) == (2, 1)


def test_what_stands_in_a_file_moves_no_terminal(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "tab").write_text("@daily /bin/a '\x1b[2J[bold]x'\n\x1b[31m\n")
    for arguments in (("import", "crontab", "tab", "--yes"), ("job", "list"), ("export",)):
        answer = cli(*arguments)
        assert all(line.isprintable() for line in (answer.out + answer.err).splitlines())


def test_an_agent_cannot_make_such_jobs_however_it_is_called(tmp_path: Path) -> None:
    """Neither one that sits at this machine, nor an operator with a token; the task does not exist for them."""
    room = build(Settings(db=str(tmp_path / "my.db"), tasks=(MODULE,)))
    try:
        for caller in (Caller("local"), Caller("local", operator=True, holder="tok_1"), Caller("ann", holder="tok_2")):
            assert "run_command" not in [task["name"] for task in room.registry.describe(caller)]
            for task in ("run_command", "run_command(argv=['/bin/true'])", "echo(1) | run_command"):
                assert refusal_of(_made, room, caller, task).code == "unknown_task"
        made = _made(room, OPERATOR, "run_command", {"argv": ["/bin/true"]})
        changed = Changes(payload={"task": "run_command", "args": [], "kwargs": {"argv": ["/bin/sh"]}})
        refused = refusal_of(lambda: room.scheduler.edit(Caller("local"), made.definition.public_id, changed))
        assert refused.code == "unknown_task"
    finally:
        room.close()


def _made(room: App, caller: Caller, task: str, kwargs: dict[str, Any] | None = None) -> Schedule:
    payload = {"task": task, "args": [], "kwargs": kwargs or {}}
    return room.scheduler.create(caller, NewSchedule("job", "n", "interval", {"hours": 1}, payload))


# -- out and back -----------------------------------------------------------------------------------------------------


def exports(cli: Cli, db: str) -> list[dict[str, Any]]:
    answer = cli("export", "--db", db)
    assert answer.code == 0, answer
    return [json.loads(line) for line in answer.out.splitlines()]


def without_identity(document: dict[str, Any]) -> dict[str, Any]:
    """Ids are given anew, and so are keys where there was none."""
    return {name: value for name, value in document.items() if name not in ("id", "created", "key")}


@pytest.mark.later
def test_five_hundred_lines_go_out_and_come_back(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "tab").write_text(crontab(500))
    answer = cli("import", "crontab", "tab", "--yes", "--json", "--db", "a.db")
    assert (answer.code, answer.document["problems"]) == (0, [])
    assert len(answer.document["schedules"]) == 500
    assert cli("export", "-o", "all.jsonl", "--db", "a.db").err == "Wrote 500 schedules to all.jsonl.\n"
    assert stat.S_IMODE((tmp_path / "all.jsonl").stat().st_mode) == 0o600
    back = cli("import", "jsonl", "all.jsonl", "--yes", "--json", "--db", "b.db")
    assert (back.code, back.document["problems"]) == (0, [])
    first, second = exports(cli, "a.db"), exports(cli, "b.db")
    assert [without_identity(each) for each in first] == [without_identity(each) for each in second]
    assert [each["key"] for each in first] == [each["key"] for each in second]
    again = cli("import", "jsonl", "all.jsonl", "--yes", "--json", "--db", "b.db").document
    assert {row["status"] for row in again["schedules"]} == {"there already"}
    home = cli("import", "jsonl", "all.jsonl", "--yes", "--json", "--db", "a.db").document
    assert {row["status"] for row in home["schedules"]} == {"there already"}
    assert cli("job", "list", "--json", "--db", "a.db").document["total"] == 500


def fill(cli: Cli) -> None:
    """One of everything."""
    for arguments in (
        ("job", "add", "a job", "--task", "shorten", "--arg", "text", "--kwarg", "words=2", "--every", "90m"),
        ("job", "add", "moved", "--task", "echo", "--cron", "30 2 * * *", "--tz", "Europe/Berlin"),
        ("job", "add", "ruled", "--task", "echo", "--rrule", "FREQ=WEEKLY;BYDAY=MO;COUNT=9", "--tz", "UTC"),
        ("job", "add", "bounded", "--task", "echo", "--cron", "@daily", "--end", "2090-01-01", "--jitter", "5m"),
        ("job", "add", "counted", "--task", "echo", "--every", "1h", "--max-runs", "7", "--key", "mine"),
        ("prompt", "add", "Do it\nwell", "--at", "2090-01-01T09:00", "--max-runs-per-day", "3"),
        ("prompt", "add", "Tell me", "--remind", "--every", "1d"),
        ("notify", "add", "Hi", "--topic", "home", "--cron", "0 9 * * 1", "--priority", "4", "--tag", "x"),
        ("job", "pause", "ruled", "--until", "in 3 days", "--note", "away"),
        ("job", "edit", "moved", "--cron", "0 5 * * *", "--starting", "2090-01-01"),
    ):
        assert cli(*arguments).code == 0


@pytest.mark.parametrize("engine", ["file", "postgres"])
def test_everything_goes_out_and_comes_back(cli: Cli, engine: str, request: pytest.FixtureRequest) -> None:
    db = "b.db" if engine == "file" else request.getfixturevalue("postgres_url")
    fill(cli)
    assert cli("export", "-o", "all.jsonl").code == 0
    back = cli("import", "jsonl", "all.jsonl", "--yes", "--db", db)
    assert back.code == 0, back
    assert "8 schedules imported" in back.out
    first, second = exports(cli, "my.db"), exports(cli, db)
    assert [without_identity(each) for each in first] == [without_identity(each) for each in second]
    assert [each["paused"] for each in second].count(True) == 1
    assert next(each for each in second if each["name"] == "counted")["key"] == "mine"


def test_what_falls_due_between_export_and_import_is_caught_up(cli: Cli, tmp_path: Path) -> None:
    """A move drops nothing: what passed meanwhile is late, or missed by its policy, as after downtime."""
    for name, *options in (("daily", "--every", "1d"), ("once", "--at", "in 3 days"), ("skipped", "--every", "1d")):
        late = ["--catch-up", "skip"] if name == "skipped" else []
        assert cli("job", "add", name, "--task", "echo", "--arg", name, *options, *late).code == 0
    documents = exports(cli, "my.db")
    gone = iso_local(Instant(SystemClock().now() - HOUR), "UTC")
    for document in documents:
        document["next"] = gone
        if document["trigger"]["type"] == "once":
            document["trigger"]["run_at"] = gone.replace("+00:00", "Z")
    (tmp_path / "all.jsonl").write_text("".join(json.dumps(each) + "\n" for each in documents))
    answer = cli("import", "jsonl", "all.jsonl", "--yes", "--db", "new.db", "--json")
    assert (answer.code, answer.document["problems"]) == (0, [])

    def ended() -> dict[str, str]:
        runs = cli("run", "list", "--db", "new.db", "--json").document["runs"]
        return {run["name"]: run["status"] for run in runs if run["status"] not in ("pending", "running")}

    with Duetime(str(tmp_path / "new.db")):
        eventually(lambda: len(ended()) == 3, 20, "three runs")
    assert ended() == {"daily": "completed", "once": "completed", "skipped": "missed"}
    assert (
        "Nothing to import: all of it exists already (3 schedules)."
        in cli("import", "jsonl", "all.jsonl", "--db", "new.db").out
    )


def test_a_next_time_that_was_moved_stays_moved_and_runs_that_are_left_stay_left(cli: Cli, tmp_path: Path) -> None:
    fill(cli)
    room = build(Settings(db=str(tmp_path / "my.db")))
    moved = Instant(room.clock.now() + 40 * DAY)
    id = cli("job", "show", "moved", "--json").document["id"]
    room.scheduler.edit(OPERATOR, id, Changes(next=moved))
    room.close()
    documents = exports(cli, "my.db")
    for document in documents:
        if document["name"] == "counted":
            document["runs"] = 5
    (tmp_path / "all.jsonl").write_text("".join(json.dumps(each) + "\n" for each in documents))
    assert cli("import", "jsonl", "all.jsonl", "--yes", "--db", "b.db").code == 0
    shown = {each["name"]: each for each in exports(cli, "b.db")}
    assert shown["moved"]["next"] == next(each["next"] for each in documents if each["name"] == "moved")
    assert shown["counted"]["policy"]["max_runs"] == 2


def test_lines_that_are_none_or_over_are_told_and_the_others_come_in(cli: Cli, tmp_path: Path) -> None:
    fill(cli)
    documents = exports(cli, "my.db")
    over = {**documents[0], "trigger": {"type": "once", "run_at": "2020-01-01T00:00:00Z", "timezone": "UTC"}}
    strange = {**documents[0], "kind": "party"}
    by_hand = {**documents[0], "trigger": {**documents[0]["trigger"], "anchor": "tomorrow 9am"}}
    lines = [{"duetime": 99}, over, strange, documents[0], [], by_hand]
    (tmp_path / "all.jsonl").write_text("\n".join(["not json", *map(json.dumps, lines)]))
    answer = cli("import", "jsonl", "all.jsonl", "--yes", "--json", "--db", "b.db")
    assert answer.code == 4
    assert [row["line"] for row in answer.document["schedules"]] == [5]
    reasons = {problem["line"]: problem["reason"] for problem in answer.document["problems"]}
    assert sorted(reasons) == [1, 2, 3, 4, 6, 7]
    assert reasons[7] == "it would not fire at the same times; create it again"
    assert "is in the past" in reasons[3] and "party" in reasons[4]


def test_owners_stay_owners(cli: Cli, tmp_path: Path) -> None:
    fill(cli)
    documents = [{**each, "owner": "ann", "depth": 2} for each in exports(cli, "my.db")]
    (tmp_path / "all.jsonl").write_text("".join(json.dumps(each) + "\n" for each in documents))
    assert cli("import", "jsonl", "all.jsonl", "--yes", "--db", "b.db").code == 0
    assert {(each["owner"], each["depth"]) for each in exports(cli, "b.db")} == {("ann", 2)}, "as deep as it was too"


def test_an_imported_prompt_of_an_agents_run_has_no_limits_of_a_run_with_the_same_number(
    cli: Cli, tmp_path: Path
) -> None:
    assert cli("prompt", "add", "tidy up", "--name", "tidy", "--every", "1h", "--db", "a.db").code == 0
    [document] = [{**each, "depth": 1, "author": "run/mcp/1"} for each in exports(cli, "a.db")]
    other = ("prompt", "add", "back up", "--name", "other", "--every", "1d", "--max-runs-per-day", "2", "--db", "b.db")
    assert cli(*other).code == 0 and cli("prompt", "run", "other", "--db", "b.db").code == 0
    (tmp_path / "run.jsonl").write_text(json.dumps(document) + "\n")
    assert cli("import", "jsonl", "run.jsonl", "--yes", "--db", "b.db").code == 0
    [imported] = [each for each in exports(cli, "b.db") if each["name"] == "tidy"]
    assert without_identity(imported) == without_identity(document)


def test_the_zone_of_a_crontab_is_the_zone_of_its_jobs(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "tab").write_text("0 3 * * * /bin/a\nCRON_TZ=Asia/Tokyo\n0 3 * * * /bin/b\n")
    assert cli("import", "crontab", "tab", "--yes", "--tz", "Europe/Berlin", "--db", "a.db").code == 0
    zones = {each["name"]: each["trigger"]["timezone"] for each in exports(cli, "a.db")}
    assert zones == {"/bin/a": "Europe/Berlin", "/bin/b": "Asia/Tokyo"}


def test_one_kind_and_one_document(cli: Cli, tmp_path: Path) -> None:
    fill(cli)
    assert {json.loads(line)["kind"] for line in cli("export", "--kind", "prompt").out.splitlines()} == {"prompt"}
    assert len(cli("export", "--json").document["schedules"]) == 8
    assert cli("export", "--ical", "--json").code == 2
    assert cli("export", "-o", "no/such/folder").code == 2
    for folder in (".", "..", str(tmp_path)):
        answer = cli("export", "-o", folder)
        assert (answer.code, "cannot be written (Is a directory)" in answer.err) == (2, True), answer
    assert not [*tmp_path.glob("..*")], "no draft is left behind"


def test_a_calendar_that_calendar_programs_read(cli: Cli, tmp_path: Path) -> None:
    fill(cli)
    assert cli("export", "--ical", "-o", "my.ics", "--days", "3").code == 0
    calendar = Calendar.from_ical((tmp_path / "my.ics").read_bytes())
    events = calendar.walk("VEVENT")
    assert {str(event["SUMMARY"]) for event in events} == {
        "a job", "moved", "bounded", "counted", "Do it well", "Tell me", "Hi",
    }  # fmt: skip
    assert sum(str(event["SUMMARY"]) == "moved" for event in events) in (3, 4), "the days that were asked for"
    assert {str(zone["TZID"]) for zone in calendar.walk("VTIMEZONE")} <= {"Europe/Berlin", "Etc/UTC"}
    assert cli("export", "--ical").out.startswith("BEGIN:VCALENDAR")


def test_a_bar_shows_how_far_it_came(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "tab").write_text(crontab(450))
    with on_terminal("import", "crontab", "tab", "--yes", "--db", "a.db", folder=tmp_path) as terminal:
        shown = terminal.rest()
    assert terminal.process.returncode == 0
    assert "importing" in shown
    assert "450 schedules imported." in shown


def test_whoever_watches_an_export_sees_how_far_it_is(cli: Cli, tmp_path: Path) -> None:
    for name in ("one", "two"):
        assert cli("job", "add", name, "--task", "echo", "--every", "1h").code == 0
    with on_terminal("export", "-o", "all.jsonl", "--db", "my.db", folder=tmp_path) as terminal:
        shown = terminal.rest()
    assert "reading" in shown and "writing" in shown and "Wrote 2 schedules" in shown
    assert len((tmp_path / "all.jsonl").read_text().splitlines()) == 2


def test_a_kind_that_is_none_is_refused(cli: Cli) -> None:
    answer = cli("export", "--kind", "jobs")
    assert (answer.code, answer.out) == (2, "")
    assert "Unknown kind 'jobs'" in answer.err


def test_a_schedule_whose_last_run_is_under_way_is_not_exported(cli: Cli, tmp_path: Path) -> None:
    """It would run once more where it is imported."""
    with Duetime(str(tmp_path / "my.db")) as duetime:
        rent = duetime.prompt("pay the rent", agent="inbox", every="1h", max_runs=1)
        duetime.prompt("water the plants", agent="inbox", every="1h", max_runs=2)
        duetime.run_now(rent.id)
        assert duetime.take_prompt(wait=20) is not None
    answer = cli("export")
    assert [json.loads(line)["payload"]["prompt"] for line in answer.out.splitlines()] == ["water the plants"]
    assert "1 schedule left out" in answer.err


def test_days_and_windows_are_exported_and_imported(cli: Cli) -> None:
    for name, when in (
        ("days", "every 2 days at 9"),
        ("window", "every 90 minutes between 9:00 and 17:00 on sundays"),
    ):
        assert cli("job", "add", name, "--task", "echo", "--when", when, "--tz", "America/New_York").code == 0
    assert cli("export", "-o", "all.jsonl").code == 0
    assert cli("import", "jsonl", "all.jsonl", "--yes", "--db", "new.db").code == 0
    before, after = (
        {each["name"]: (each["trigger"], each["next"]) for each in exports(cli, db)} for db in ("my.db", "new.db")
    )
    assert after == before and len(after) == 2


def test_what_is_imported_may_use_the_tasks_of_the_settings_beside_commands(cli: Cli, tmp_path: Path) -> None:
    """A file with commands needs a module of its own, which must not take the place of those that are set."""
    (tmp_path / "my_own_tasks.py").write_text(
        "from duetime.kinds.jobs.registry import task\n\n@task\ndef my_own_task(): ...\n"
    )
    write_trusted(tmp_path, f'tasks = ["my_own_tasks", "{MODULE}"]')
    assert cli("job", "add", "mine", "--task", "my_own_task", "--every", "2h").code == 0
    assert cli("job", "add", "command", "--task", "run_command", "--kwarg", 'argv=["true"]', "--every", "2h").code == 0
    assert cli("export", "-o", "all.jsonl").code == 0
    imported = cli("import", "jsonl", "all.jsonl", "--yes", "--db", "new.db", "--json").document
    assert (len(imported["schedules"]), imported["problems"]) == (2, [])


def test_what_follows_another_schedule_follows_the_imported_one(cli: Cli, tmp_path: Path) -> None:
    for words in (("backup", "--every", "1h"), ("upload", "--after", "backup fails"), ("tell", "--after", "upload")):
        assert cli("job", "add", words[0], "--task", "echo", *words[1:], "--db", "a.db").code == 0
    assert cli("export", "-o", "all.jsonl", "--db", "a.db").code == 0
    assert cli("job", "add", "other", "--task", "echo", "--every", "1h", "--db", "b.db").code == 0, "ids differ"
    answer = cli("import", "jsonl", "all.jsonl", "--yes", "--json", "--db", "b.db")
    assert answer.code == 0, answer
    rows = {each["name"]: each["reads_as"] for each in cli("list", "--json", "--db", "b.db").document["schedules"]}
    assert (rows["upload"], rows["tell"]) == ("after backup fails", "after upload succeeds")
    shown = cli("show", "upload", "--json", "--db", "b.db").document
    assert shown["trigger"]["schedule"] == cli("show", "backup", "--json", "--db", "b.db").document["id"]


def test_a_chain_is_imported_in_any_order(cli: Cli, tmp_path: Path) -> None:
    for words in (("third", "--every", "1h"), ("second", "--every", "1h"), ("first", "--every", "1h")):
        assert cli("job", "add", words[0], "--task", "echo", *words[1:], "--db", "a.db").code == 0
    for follower, followed in (("third", "second"), ("second", "first")):
        assert cli("job", "edit", follower, "--after", followed, "--db", "a.db").code == 0
    assert cli("export", "-o", "all.jsonl", "--db", "a.db").code == 0
    answer = cli("import", "jsonl", "all.jsonl", "--yes", "--json", "--db", "b.db")
    assert (answer.code, answer.document["problems"]) == (0, []), answer
    rows = {each["name"]: each["reads_as"] for each in cli("list", "--json", "--db", "b.db").document["schedules"]}
    assert (rows["third"], rows["second"]) == ("after second succeeds", "after first succeeds")


def add_prompts(cli: Cli, *names: str, db: str) -> None:
    for name in names:
        assert cli("prompt", "add", "look", "--name", name, "--every", "1h", "--db", db).code == 0


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_the_number_of_a_prompt_means_no_schedule_of_another_store(
    cli: Cli, tmp_path: Path, is_cancelled: bool
) -> None:
    """The id of a prompt is a bare number, which every store has."""
    add_prompts(cli, "Ask A", db="a.db")
    assert cli("job", "add", "f", "--task", "echo", "--after", "Ask A", "--db", "a.db").code == 0
    if is_cancelled:
        assert cli("cancel", "Ask A", "--db", "a.db").code == 0
    assert cli("export", *([] if is_cancelled else ["--kind", "job"]), "-o", "jobs.jsonl", "--db", "a.db").code == 0
    add_prompts(cli, "unrelated", db="b.db")
    refused = cli("import", "jsonl", "jobs.jsonl", "--yes", "--json", "--db", "b.db").document
    assert refused["schedules"] == [] and "no schedule 'Ask A' to follow" in str(refused["problems"])
    add_prompts(cli, "Ask A", db="b.db")
    assert cli("import", "jsonl", "jobs.jsonl", "--yes", "--db", "b.db").code == 0
    assert cli("show", "f", "--json", "--db", "b.db").document["trigger"]["schedule"] == "2"


def test_an_older_export_with_a_bare_number_follows_only_the_schedule_of_that_name(cli: Cli, tmp_path: Path) -> None:
    add_prompts(cli, "Ask A", db="a.db")
    assert cli("job", "add", "f", "--task", "echo", "--after", "Ask A", "--db", "a.db").code == 0
    assert cli("export", "--kind", "job", "-o", "jobs.jsonl", "--db", "a.db").code == 0
    (line,) = map(json.loads, Path("jobs.jsonl").read_text().splitlines())
    line["trigger"]["schedule"] = "1"
    Path("jobs.jsonl").write_text(json.dumps(line))
    add_prompts(cli, "unrelated", db="b.db")
    refused = cli("import", "jsonl", "jobs.jsonl", "--yes", "--json", "--db", "b.db").document
    assert refused["schedules"] == [] and "no schedule 'Ask A' to follow" in str(refused["problems"])


def test_a_name_that_is_a_number_is_not_the_schedule_with_that_number(cli: Cli, tmp_path: Path) -> None:
    add_prompts(cli, "first", "1", db="a.db")
    assert cli("job", "add", "f", "--task", "echo", "--after", "2", "--db", "a.db").code == 0
    assert cli("export", "--kind", "job", "-o", "jobs.jsonl", "--db", "a.db").code == 0
    add_prompts(cli, "unrelated", db="b.db")
    refused = cli("import", "jsonl", "jobs.jsonl", "--yes", "--json", "--db", "b.db").document
    assert refused["schedules"] == [] and "no schedule '1' to follow" in str(refused["problems"])


def test_a_rename_after_the_export_changes_nothing_in_the_same_store(cli: Cli, tmp_path: Path) -> None:
    add_prompts(cli, "Ask A", db="a.db")
    assert cli("job", "add", "f", "--task", "echo", "--after", "Ask A", "--db", "a.db").code == 0
    assert cli("export", "-o", "all.jsonl", "--db", "a.db").code == 0
    assert cli("prompt", "edit", "Ask A", "--name", "Ask B", "--db", "a.db").code == 0
    assert cli("delete", "f", "--yes", "--db", "a.db").code == 0
    answer = cli("import", "jsonl", "all.jsonl", "--yes", "--db", "a.db")
    assert answer.code == 0, answer
    assert cli("show", "f", "--json", "--db", "a.db").document["reads_as"] == "after Ask B succeeds"
