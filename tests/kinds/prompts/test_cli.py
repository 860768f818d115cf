"""`duetime prompt`: schedule instructions, and take from the inbox what is due."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from duetime.api import Duetime
from duetime.engine.store import RunQuery
from duetime.service.errors import NOT_FOUND, REFUSED
from tests.support.cli import Cli
from tests.support.workers import eventually

ADD = ("prompt", "add", "Summarise my mail")


def test_a_prompt_from_add_to_delete(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("Read my mail.\n\nThen say what is urgent.\n"))
    added = cli("prompt", "add", "-", "--cron", "0 8 * * *", "--max-runs-per-day", "2", "--json").document
    id = added["id"]
    assert id.isdecimal()
    assert added["name"] == "Read my mail. Then say what is urgent."
    assert added["payload"] == {"prompt": "Read my mail.\n\nThen say what is urgent.", "max_runs_per_day": 2}
    shown = cli("prompt", "show", id).out
    assert "Then say what is urgent." in shown
    assert "waits in the inbox until it is taken" in shown and "at most 2" in shown
    assert "Read my mail. Then say" in cli("prompt", "list").out
    edited = cli("prompt", "edit", id, "--text", "Be quick", "--max-runs-per-day", "3", "--every", "1d", "--json")
    assert edited.document["name"] == "Be quick"
    assert edited.document["payload"] == {"prompt": "Be quick", "max_runs_per_day": 3}
    limited = cli("prompt", "edit", id, "--allow", '{"tools": ["github.get_*"]}', "--json").document
    assert limited["payload"]["allow"]["tools"] == ["github.get_*"]
    refused = cli("prompt", "edit", id, "--max-dollars-per-day", "0.5")
    assert refused.code == 2 and "--max-dollars-per-day: whoever takes prompts from inbox" in refused.err
    assert cli("prompt", "pause", "Be quick").code == 0
    assert cli("prompt", "resume", "Be quick").code == 0
    assert cli("prompt", "run", id).code == 0
    assert len(cli("prompt", "history", id, "--json").document["runs"]) == 1
    assert cli("prompt", "cancel", id, "--json").document["status"] == "cancelled"
    assert cli("prompt", "delete", id).code == 0
    assert cli("prompt", "show", id).code == NOT_FOUND


def test_a_reminder_goes_to_a_person(cli: Cli) -> None:
    made = cli(*ADD, "--delay", "2h", "--remind", "--deliver-to", "home", "--json").document
    assert made["payload"]["remind"] is True
    assert made["policy"]["deliver_to"] == "home"
    assert "a person, by a notification" in cli("prompt", "show", made["id"]).out
    assert cli("prompt", "show", made["id"]).out.count("result sent to home") == 1


def test_kinds_do_not_mix(cli: Cli) -> None:
    prompt = cli(*ADD, "--delay", "2h", "--json").document["id"]
    job = cli("job", "add", "x", "--task", "echo", "--every", "2h", "--json").document["id"]
    assert cli("prompt", "show", job).code == NOT_FOUND
    assert cli("job", "cancel", prompt).code == NOT_FOUND
    assert cli("job", "history", prompt).code == NOT_FOUND, "also before it has run"
    assert cli("prompt", "history", prompt).out == "It has not run yet.\n"
    assert cli("prompt", "run", prompt).code == 0
    assert cli("job", "history", prompt).code == NOT_FOUND
    assert cli("prompt", "list", "--json").document["total"] == 1


BAD = {
    "an unknown agent": ((*ADD, "--every", "2h", "--agent", "hal"), "--agent: there is no 'hal'"),
    "no text": (("prompt", "add", " ", "--every", "2h"), "the text: must be a non-empty text"),
    "no runs": ((*ADD, "--every", "2h", "--max-runs-per-day", "0"), "--max-runs-per-day: "),
    "a topic that is none": ((*ADD, "--every", "2h", "--deliver-to", "A B"), "--deliver-to: "),
    "nobody to tell": ((*ADD, "--every", "2h", "--notify-on", "failure"), "--notify-on: needs deliver_to"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_used_is_refused(cli: Cli, name: str) -> None:
    arguments, words = BAD[name]
    answer = cli(*arguments)
    assert (answer.code, answer.out) == (2, "")
    assert words in answer.err and answer.err.count("\n") == 1
    assert cli("prompt", "list", "--json").document["total"] == 0


# -- the inbox ------------------------------------------------------------------------------------------------------


def due(cli: Cli, tmp_path: Path, *texts: str) -> None:
    """Prompts that a worker has put into the inbox."""
    for text in texts:
        assert cli("prompt", "add", text, "--at", "now").code == 0
    waiting = RunQuery(kind="prompt", status="waiting")
    with Duetime(str(tmp_path / "my.db")) as duetime:
        eventually(lambda: duetime.app.store.runs(waiting).total == len(texts), 20, "all in the inbox")


def test_take_and_finish(cli: Cli, tmp_path: Path) -> None:
    nothing = cli("prompt", "take")
    assert (nothing.code, nothing.out, nothing.err) == (NOT_FOUND, "", "Nothing is due.\n")
    assert cli("prompt", "take", "--json").document == {"run_id": None}
    due(cli, tmp_path, "first\nof two \x1b[2J", "second")
    first = cli("prompt", "take")
    assert (first.code, first.out) == (0, "first\nof two \\x1b[2J\n")
    assert "prompt finish" in first.err
    second = cli("prompt", "take", "--for", "1h", "--json").document
    assert second["prompt"] == "second"
    assert cli("prompt", "take").code == NOT_FOUND
    late = cli("prompt", "finish", str(second["run_id"]), "--result", "late", "--hold", "hold_of_an_earlier_take")
    assert late.code == REFUSED and "is not yours to finish" in late.err
    finish = ("prompt", "finish", str(second["run_id"]), "--hold", second["hold"])
    finished = cli(*finish, "--result", "done", "--json").document
    assert finished == {"id": second["id"], "run_id": second["run_id"], "status": "completed"}
    assert cli("prompt", "history", second["id"], "--json").document["runs"][0]["result"] == "done"
    number = first.err.split()[1].rstrip(",")
    assert "is failed" in cli("prompt", "finish", number, "--error", "no mail today").out
    assert cli("prompt", "show", "second", "--json").document["status"] == "completed"


def test_what_cannot_be_finished(cli: Cli, tmp_path: Path) -> None:
    due(cli, tmp_path, "one")
    absent = cli("prompt", "finish", "77", "--result", "x")
    assert absent.code == NOT_FOUND and "there is no run 77" in absent.err
    run = cli("prompt", "take", "--json").document["run_id"]
    assert cli("prompt", "finish", str(run)).code == 2
    assert cli("prompt", "finish", str(run), "--result", "x", "--error", "y").code == 2
    assert cli("prompt", "finish", str(run), "--result", "x").code == 0
    again = cli("prompt", "finish", str(run), "--result", "x")
    assert again.code == REFUSED
    assert f"run {run} is already completed" in again.err


def test_only_prompts_of_an_agent(cli: Cli, tmp_path: Path) -> None:
    due(cli, tmp_path, "for the inbox")
    assert cli("prompt", "take", "--agent", "somebody").code == NOT_FOUND
    assert cli("prompt", "take", "--agent", "inbox").code == 0
