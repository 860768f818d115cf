"""The commands for a schedule of any kind, and the earlier names that they and the commands for runs had."""

from __future__ import annotations

import re

import pytest

from tests.support.cli import Answer, Cli

ADD = {
    "job": ("job", "add", "report", "--task", "echo", "--arg", "hello", "--every", "2h"),
    "prompt": ("prompt", "add", "Read the news", "--name", "news", "--every", "2h"),
    "notify": ("notify", "add", "Water the plants", "--topic", "garden", "--every", "2h"),
    "request": ("request", "add", "https://example.org/hook", "--every", "2h"),
}
FACTS = {"job": "task echo", "prompt": "text Read the news", "notify": "topic garden", "request": "method POST"}
VERBS = ("show", "history", "run", "stop", "pause", "resume", "cancel", "delete")


def add(cli: Cli, command: str) -> str:
    added = cli(*ADD[command], "--json")
    assert added.code == 0, added.err
    return str(added.document["id"])


def without_times(answer: Answer) -> Answer:
    """Return the answer without ids, spans and times of the day, which differ, and without the spaces around them."""
    changing = r"(scd|msg)_[0-9a-f]+|\d+(:\d+)*( (s|min|h))?"
    return Answer(answer.code, *(" ".join(re.sub(changing, "#", text).split()) for text in answer[1:]))


@pytest.mark.parametrize("command", ADD)
def test_one_command_works_for_every_kind_and_its_earlier_names_answer_alike(cli: Cli, command: str) -> None:
    general, earlier = add(cli, command), add(cli, command)
    for verb in VERBS:
        answers = [without_times(cli(verb, general)), without_times(cli(command, verb, earlier))]
        assert answers[0] == answers[1], verb
        assert answers[0].code == (4 if verb == "stop" and "nothing" in answers[0].err else 0), verb
    for verb in ("show", "run"):
        assert cli(verb, general).code == cli(command, verb, earlier).code == 3, verb
    assert cli("history", general).code == 0, "also of one that was deleted"


@pytest.mark.parametrize("command", ADD)
def test_what_a_kind_says_of_its_schedules_is_shown(cli: Cli, command: str) -> None:
    id = add(cli, command)
    assert FACTS[command] in " ".join(cli("show", id).out.split())
    assert cli("show", id, "--json").document == cli(command, "show", id, "--json").document


def test_a_name_that_several_kinds_use_is_ambiguous_and_one_that_none_uses_is_missing(cli: Cli) -> None:
    for kind in ("job", "prompt"):
        assert cli(*ADD[kind][:2], "same", *ADD[kind][3:]).code == 0
    assert cli("prompt", "edit", "p2", "--name", "same").code == 0
    several = cli("pause", "same")
    rules = "j1: every 2 hours (Etc/UTC); p2: every 2 hours (Etc/UTC)"
    assert several.code == 2 and f"could mean several schedules; give the id, such as {rules}\n" in several.err
    assert cli("prompt", "pause", "same").out.startswith("Paused p2  same"), "the earlier name knows the kind"
    missing = cli("pause", "sam")
    assert missing.code == 3 and "there is no schedule 'sam'; did you mean same? list them: " in missing.err
    assert "duetime list --db" in missing.err
    other_letter = cli("show", "j2")
    assert other_letter.code == 3 and "there is no schedule 'j2'; did you mean p2? list them: " in other_letter.err
    assert "did you mean" not in cli("show", "j3").err


def test_a_schedule_is_run_and_waited_for(cli: Cli) -> None:
    add(cli, "job")
    waited = cli("run", "report", "--wait", "0.1")
    assert waited.code == 6 and "is not finished after 0.1 s" in waited.out
    assert cli("run").code == 2 and "Missing argument 'ID'" in cli("run").err


@pytest.mark.parametrize(
    ("words", "code"), [(("list",), 0), (("show", "1"), 0), (("again", "1"), 4), (("stop", "1"), 0), (("stop", "2"), 3)]
)
def test_commands_for_runs_keep_their_earlier_names(cli: Cli, words: tuple[str, ...], code: int) -> None:
    add(cli, "job")
    assert cli("run", "report").code == 0
    assert cli("runs", *words, "--help").out == cli("run", *words, "--help").out == cli("help", "run", words[0]).out
    assert cli("run", *words).code == code


def test_help_shows_no_earlier_names(cli: Cli) -> None:
    for command in ADD:
        shown = cli(command, "--help").out
        assert not [verb for verb in VERBS if f"\n  {verb} " in shown]
        assert "`duetime show`, `history`" in shown
        assert cli(command, "pause", "--help").code == 0
    top = cli("--help").out
    assert [verb for verb in VERBS if f"\n  {verb} " in top] == list(VERBS)
