"""`duetime dead` and `duetime run`: what failed is tried again under the same id, or dismissed; one run is stopped."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from duetime.api import Duetime
from duetime.app import build
from duetime.engine.clock import HOUR
from duetime.engine.outcome import Failed
from duetime.engine.store import RunQuery
from duetime.engine.validation import NewSchedule
from duetime.kinds.jobs.registry import Task
from duetime.service.services import OPERATOR
from duetime.settings import Settings, load_settings
from tests.support.cli import Cli
from tests.support.drafts import every, once
from tests.support.hand import Hand, create_one, the
from tests.support.ntfy import NtfyReceiver
from tests.support.receiver import Behaviour
from tests.support.settings import write_trusted
from tests.support.terminal import on_terminal
from tests.support.workers import eventually

ONCE = ("--topic", "home", "--at", "now", "--max-attempts", "1", "--alert", "off")


@pytest.fixture
def ntfy(tmp_path: Path) -> Iterator[NtfyReceiver]:
    """A server that refuses everything, which the settings of the folder name."""
    with NtfyReceiver() as server:
        server.misbehave = lambda request: Behaviour(403)
        write_trusted(tmp_path, f'[notifications]\nserver = "{server.url}"\n')
        yield server


def worked(tmp_path: Path, status: str, number: int) -> None:
    """Lets a worker deliver until so many have this status."""
    query = RunQuery(kind="notification", status=status)
    with Duetime(str(tmp_path / "my.db"), settings=load_settings(environment={}, folder=tmp_path)) as duetime:
        eventually(lambda: duetime.app.store.runs(query).total == number, 20, f"{number} {status}")


def failed(cli: Cli, tmp_path: Path, *messages: str) -> list[int]:
    for message in messages:
        assert cli("notify", "add", message, *ONCE).code == 0
    worked(tmp_path, "failed", len(messages))
    return [run["run_id"] for run in cli("dead", "list", "--json").document["dead"]]


def test_nothing_is_dead(cli: Cli) -> None:
    assert "No dead letters" in cli("dead", "list").out
    assert cli("dead", "list", "--json").document == {"dead": [], "total": 0, "next_cursor": None}
    assert "Nothing was requeued" in cli("dead", "retry", "--all").out


def test_a_dead_letter_is_listed_shown_and_sent_again_with_the_same_id(
    cli: Cli, tmp_path: Path, ntfy: NtfyReceiver
) -> None:
    (run,) = failed(cli, tmp_path, "Water \x1b[31mthem")
    listed = cli("dead", "list")
    assert "Water \\x1b[31mthem" in listed.out and "403" in listed.out
    assert f"duetime dead retry {run} --db my.db" in listed.out
    shown = cli("dead", "show", str(run))
    assert "home" in shown.out and "403" in shown.out
    document = cli("dead", "show", str(run), "--json").document
    assert (document["kind"], document["to"], document["payload"]["message"]) == (
        "notification", "home", "Water \x1b[31mthem",
    )  # fmt: skip
    ntfy.misbehave = lambda request: None
    again = cli("dead", "retry", str(run))
    assert (again.code, again.out) == (0, "Requeued 1 run.\n")
    assert "No worker is running" in again.err
    assert cli("dead", "list", "--json").document["total"] == 0
    worked(tmp_path, "completed", 1)
    first, second = ntfy.publications
    assert first.key == second.key == document["schedule"]
    refused = cli("dead", "retry", str(run))
    assert refused.code == 4
    assert "not requeued: 1 run: it is completed" in refused.err


def test_all_at_once(cli: Cli, tmp_path: Path, ntfy: NtfyReceiver) -> None:
    runs = failed(cli, tmp_path, "one", "two", "three")
    assert cli("dead", "retry", "--all", "--kind", "request", "--json").document["retried"] == []
    assert sorted(cli("dead", "retry", "--all", "--yes", "--json").document["retried"]) == sorted(runs)
    ntfy.misbehave = lambda request: None
    worked(tmp_path, "completed", 3)
    assert sorted(each.fields["message"] for each in ntfy.publications[3:]) == ["one", "three", "two"]


def test_a_program_says_how_many_it_expects(cli: Cli, tmp_path: Path, ntfy: NtfyReceiver) -> None:
    failed(cli, tmp_path, "one", "two")
    refused = cli("dead", "retry", "--all")
    assert refused.code == 2 and "2 runs would be retried; pass --expected 2, or --yes" in refused.err
    wrong = cli("dead", "retry", "--all", "--expected", "3")
    assert wrong.code == 4 and "--expected: 2 runs would be retried, not 3" in wrong.err
    assert cli("dead", "list", "--json").document["total"] == 2
    assert cli("dead", "retry", "--all", "--yes", "--expected", "3").code == 4, "--yes does not cancel the number"
    assert cli("dead", "retry", "1", "--expected", "1").code == 2, "it would not be checked"
    assert cli("dead", "list", "--json").document["total"] == 2
    assert cli("dead", "retry", "--all", "--expected", "2").out == "Requeued 2 runs.\n"


def test_a_person_sees_what_is_retried_and_is_asked(cli: Cli, tmp_path: Path) -> None:
    room = build(Settings(db=str(tmp_path / "my.db")), tasks=False)
    now = room.clock.now()
    hand = Hand(room.store, now=now - 5 * HOUR)  # type: ignore[arg-type]
    pinged = create_one(room.store, every(HOUR, now - 5 * HOUR, name="ping"))  # type: ignore[arg-type]
    create_one(room.store, once(now - 2 * HOUR, name="invoice"))  # type: ignore[arg-type]
    for hours in (4, 3, 2):
        hand.record(hand.claim(now - hours * HOUR), now - hours * HOUR, Failed("no", permanent=True))
    room.scheduler.pause(OPERATOR, the(room.store, pinged))  # type: ignore[arg-type]
    room.close()
    for arguments, asked in (((), "Retry 2 runs? [y/N]"), (("--every-run",), "Retry 4 runs? [y/N]")):
        with on_terminal("dead", "retry", "--all", *arguments, "--db", "my.db", folder=tmp_path) as terminal:
            shown = terminal.until(asked)
            assert "ping" in shown and "invoice" in shown and shown.count("paused, runs nevertheless") == 1
            terminal.type("\n")
            assert "Nothing was changed." in terminal.rest()
    assert cli("dead", "list", "--json").document["total"] == 4
    with on_terminal("dead", "retry", "--all", "--db", "my.db", folder=tmp_path) as terminal:
        terminal.until("[y/N]")
        terminal.type("y\n")
        assert "Requeued 2 runs." in terminal.rest()
    assert cli("dead", "list", "--json").document["total"] == 2


def test_letters_of_what_was_deleted_are_marked_and_left_out(cli: Cli, tmp_path: Path, ntfy: NtfyReceiver) -> None:
    """Nothing of it can go out again, and so it must not make every `retry --all` fail until somebody dismisses it."""
    gone, alive = failed(cli, tmp_path, "one", "two")
    assert cli("notify", "delete", cli("dead", "show", str(gone), "--json").document["schedule"]).code == 0
    listed = cli("dead", "list")
    assert "deleted" in listed.out and f"duetime dead retry {alive} " in listed.out
    can_retry = {run["run_id"]: run["can_retry"] for run in cli("dead", "list", "--json").document["dead"]}
    assert can_retry == {alive: True, gone: False}
    again = cli("dead", "retry", "--all", "--yes", "--json")
    assert (again.code, again.document["retried"], again.document["refused"]) == (0, [alive], [])
    assert any("left out: 1 run" in warning for warning in again.document["warnings"])
    assert cli("dead", "retry", str(gone)).code == 4, "asked for by name, it is refused"
    assert "duetime dead resolve --all" in cli("dead", "list").out
    assert cli("dead", "dismiss", "--all").out == "Dismissed 1 run.\n"


def test_whoever_watches_sees_how_far_it_is(cli: Cli, tmp_path: Path, ntfy: NtfyReceiver) -> None:
    failed(cli, tmp_path, "one", "two")
    for arguments, doing, done in (
        (("retry", "--all", "--yes"), "requeuing", "Requeued 2 runs."),
        (("dismiss", "--all", "--text", "403"), "dismissing", "Dismissed 2 runs."),
    ):
        with on_terminal("dead", *arguments, "--db", "my.db", folder=tmp_path) as terminal:
            shown = terminal.rest()
        assert doing in shown and done in shown
        worked(tmp_path, "failed", 2)


def test_what_is_dismissed_stays_in_the_history_and_can_be_restored(
    cli: Cli, tmp_path: Path, ntfy: NtfyReceiver
) -> None:
    second, first = failed(cli, tmp_path, "one", "two")
    schedule = cli("dead", "show", str(first), "--json").document["schedule"]
    assert cli("dead", "dismiss", "--all", "--text", "ONE", "--json").document["dismissed"] == [first]
    assert [each["run_id"] for each in cli("dead", "list", "--json").document["dead"]] == [second]
    assert "No dead letters match." in cli("dead", "list", "--text", "one").out
    dismissed = cli("dead", "list", "--dismissed")
    assert f"duetime dead reopen {first} " in dismissed.out and "two" not in dismissed.out
    assert cli("notify", "history", schedule, "--json").document["runs"][0]["status"] == "failed"
    assert cli("dead", "restore", str(first)).out == "Restored 1 run.\n"
    assert cli("dead", "list", "--json").document["total"] == 2
    assert cli("dead", "forget", "--all", "--json").document["forgotten"] == [first, second], "its earlier name"
    assert "forget" not in cli("dead", "--help").out
    assert cli("dead", "retry", str(first)).code == 0
    assert cli("notify", "delete", schedule).code == 0


def test_what_a_request_hides_is_shown_neither_with_it_nor_with_its_callback(cli: Cli, tmp_path: Path) -> None:
    """Both end here, for nothing private is called."""
    hidden = {"body": "hush", "headers": {"X-Mine": "hushed"}, "redact": ["body", "headers"]}
    payload = {"url": "http://127.0.0.1:9/", "failure_callback": "http://127.0.0.1:9/cb", "retries": 0, **hidden}
    with Duetime(str(tmp_path / "my.db")) as duetime:
        new = NewSchedule("request", "hides", "once", {"run_at": "now"}, payload)
        duetime.scheduler.create(OPERATOR, new)
        query = RunQuery(kind="request", status="failed")
        eventually(lambda: duetime.app.store.runs(query).total == 2, 20, "the request and its callback, failed")
    letters = cli("dead", "list", "--json")
    callback, source = letters.document["dead"]
    shown = [cli("dead", "show", str(each["run_id"])).out for each in (callback, source)]
    assert not [text for text in (letters.out, *shown) if "hush" in text]
    assert source["payload"]["body"].startswith("REDACTED:")
    assert callback["payload"]["about"]["payload"] == source["payload"]


def test_what_failed_is_here_whatever_kind_it_is(cli: Cli, tmp_path: Path) -> None:
    payload = ("--task", "shorten", "--arg", "text", "--kwarg", "words=0")
    assert cli("job", "add", "x", *payload, "--at", "now").code == 0
    with Duetime(str(tmp_path / "my.db")) as duetime:
        eventually(lambda: duetime.schedules("failed"), 20, "a failed job")
    (run,) = cli("job", "history", "x", "--json").document["runs"]
    number = str(run["run_id"])
    (dead,) = cli("dead", "list", "--kind", "job", "--json").document["dead"]
    assert (dead["run_id"], dead["kind"], dead["to"]) == (run["run_id"], "job", "shorten")
    assert cli("dead", "list", "--kind", "notification", "--json").document["total"] == 0
    assert "shorten" in cli("dead", "show", number).out
    assert cli("dead", "dismiss", number).out == "Dismissed 1 run.\n"
    assert cli("dead", "list", "--json").document["total"] == 0
    again = cli("dead", "retry", number)
    assert (again.code, again.out) == (0, "Requeued 1 run.\n")
    assert "No worker is running" in again.err
    assert cli("job", "history", "x", "--json").document["runs"][0]["status"] == "pending"


# -- one run by itself ------------------------------------------------------------------------------------------------


def test_a_run_is_listed_shown_and_stopped(cli: Cli) -> None:
    assert "Nothing ran." in cli("run", "list").out
    assert cli("job", "add", "x", "--task", "echo", "--arg", "hi", "--every", "1h").code == 0
    assert cli("job", "run", "x").code == 0
    (run,) = cli("run", "list", "--status", "live", "--kind", "job", "--json").document["runs"]
    number = str(run["run_id"])
    listed = cli("run", "list").out
    assert number in listed and "pending" in listed and "job" in listed
    assert "echo" in cli("run", "show", number).out
    assert cli("run", "show", number, "--json").document["attempts"] == []
    assert cli("run", "stop", number).out.startswith(f"Run {number} of x is cancelled. Its schedule runs next at ")
    assert cli("job", "show", "x", "--json").document["status"] == "pending", "its schedule goes on"
    again = cli("run", "stop", number)
    assert again.code == 4 and "cancelled" in again.err
    assert cli("run", "list", "--status", "live", "--json").document["runs"] == []


def test_a_run_that_has_begun_is_asked_to_stop(cli: Cli, tmp_path: Path) -> None:
    settings = Settings(db=str(tmp_path / "my.db"), timezone="UTC")
    begun, end = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        assert end.wait(30)

    with Duetime(str(tmp_path / "my.db"), settings=settings) as duetime:
        duetime.app.registry.add(Task(hold, name="hold"))
        new = NewSchedule("job", "holds", "once", {"run_at": "now"}, {"task": "hold"})
        duetime.scheduler.create(OPERATOR, new)
        assert begun.wait(30)
        (run,) = cli("run", "list", "--status", "running", "--json").document["runs"]
        asked = cli("run", "stop", str(run["run_id"]), "--json").document
        assert (asked["status"], asked["stopping"]) == ("running", True)
        assert "was asked to stop" in cli("run", "stop", str(run["run_id"])).out
        end.set()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("stop", "7"), 3, "there is no run 7"),
        (("show", "7"), 3, "runs list"),
        (("show", "x"), 2, "is not a whole number"),
        (("list", "--status", "busy"), 2, "Unknown status: busy. Choose one of: "),
        (("list", "--kind", "task"), 2, "Unknown kind 'task'"),
    ],
)
def test_what_cannot_be_done_with_a_run(cli: Cli, arguments: tuple[str, ...], code: int, words: str) -> None:
    answer = cli("run", *arguments)
    assert answer.code == code
    assert words in answer.err and answer.err.count("\n") == 1
    assert answer.err.count("Choose one of") <= 1


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("retry",), 2, "give the numbers of runs, or --all"),
        (("retry", "1", "--all"), 2, "give the numbers of runs, or --all"),
        (("retry", "first"), 2, "'first' is not a number"),
        (("retry", "1", "--text", "x"), 2, "--kind, --text and --tagged choose among --all"),
        (("dismiss", "1"), 3, "there is no run 1"),
        (("show", "1"), 3, "dead list"),
        (("show", "1" * 30), 3, f"there is no run {'1' * 30}"),
        (("retry", "1" * 30), 3, f"there is no run {'1' * 30}"),
        (("list", "--kind", "task"), 2, "Unknown kind 'task'"),
    ],
)
def test_what_cannot_be_done(cli: Cli, arguments: tuple[str, ...], code: int, words: str) -> None:
    answer = cli("dead", *arguments)
    assert answer.code == code
    assert words in answer.err and answer.err.count("\n") == 1
