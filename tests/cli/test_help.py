"""Help of every command, suggestions for mistyped ones, and the commands over all kinds."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from duetime.cli.root import command
from duetime.http.server import CannotListen, listen, url_of
from duetime.service.when import WAYS
from tests.support.agents import serving
from tests.support.cli import Cli
from tests.support.terminal import on_terminal

INTERNALS = re.compile(r"\{[A-Z]+\}|\[\[|<\w+[\[\] \w]*>|<=x|\.\.\.$", re.MULTILINE)


def tree() -> Iterator[tuple[Any, Any]]:
    """Every command and group, each with its context."""
    root = command()
    context = root.make_context("duetime", [], resilient_parsing=True)
    yield root, context
    yield from below(root, context)


def below(group: Any, context: Any) -> Iterator[tuple[Any, Any]]:
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        inner = type(context)(found, info_name=name, parent=context)
        yield found, inner
        if hasattr(found, "commands"):
            yield from below(found, inner)


def test_help_of_every_command_fits_every_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for found, context in tree():
        texts = {}
        for columns in (60, 200):
            monkeypatch.setenv("COLUMNS", str(columns))
            texts[columns] = found.get_help(context)
            assert texts[columns].startswith(f"Usage: {context.command_path} ")
            assert max(map(len, texts[columns].splitlines())) <= columns, context.command_path
            assert not INTERNALS.search(texts[columns].replace("//...", "").replace("ID]...", "")), texts[columns]
        narrow, wide = ([word for word in text.split() if word != "\\"] for text in texts.values())
        assert narrow == wide, "no word is broken and nothing is cut"


def test_help_of_add_names_every_way_to_say_when(cli: Cli) -> None:
    text = " ".join(cli("job", "add", "--help").out.split())
    ways = text.partition("Give exactly one of ")[2].partition(".")[0]
    assert set(re.findall(r"--(\w+)", ways)) == set(WAYS)


def examples() -> list[str]:
    every = [example for found, _ in tree() for example in (found.epilog or "").split("\n")]
    return [each for each in every if each.startswith("duetime ")]


def test_examples_in_help_are_command_lines() -> None:
    root, context = next(tree())
    assert len(examples()) > 30
    for example in examples():
        words = shlex.split(re.split(r" [<>] ", example)[0])[1:]
        found, inner = root, context
        while hasattr(found, "commands") and words:
            words = [found.usual, *words] if found.usual and words[0].startswith("-") else words
            name, found, words = found.resolve_command(inner, words)
            inner = type(context)(found, info_name=name, parent=inner)
        found.make_context(found.name, list(words), parent=inner.parent)  # fails if it cannot be parsed


def test_examples_that_add_something_work_in_a_new_store(cli: Cli) -> None:
    needing = re.compile(r" [<>] |--agent")  # another file, or an agent that the user has set up
    adding = {tuple(shlex.split(each)[1:]) for each in examples() if " add " in each and not needing.search(each)}
    assert {group for group, *_ in adding} >= {"job", "notify", "prompt"}
    assert [answer for words in adding if (answer := cli(*words)).code != 0] == []


def test_help_is_asked_for_in_three_ways(cli: Cli) -> None:
    asked = [cli("job", "add", "-h"), cli("job", "add", "--help"), cli("help", "job", "add")]
    assert {answer.code for answer in asked} == {0}
    assert len({answer.out for answer in asked}) == 1
    assert "Get started:" in cli("help").out
    assert cli("help", "job", "ad").code == 2 and cli("help", "list", "x").code == 2


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (("jobs",), ["`duetime job`"]),
        (("serv",), ["`duetime serve`", "`duetime service`"]),
        (("ls",), ["`duetime list`"]),
        (("job", "creat"), ["`duetime job add`"]),
        (("job", "remov"), ["`duetime job delete`"]),
        (("paus", "x"), ["`duetime pause`"]),
        (("rm", "x"), ["`duetime delete`"]),
        (("edit", "j5"), [f"`duetime {kind} edit`" for kind in ("job", "prompt", "notify", "request")]),
        (("create", "x"), [f"`duetime {kind} add`" for kind in ("job", "prompt", "notify", "request")]),
    ],
)
def test_a_mistyped_command_is_answered_with_those_that_may_be_meant(
    cli: Cli, given: tuple[str, ...], meant: list[str]
) -> None:
    answer = cli(*given)
    assert answer.code == 2
    assert f"Did you mean {' or '.join(meant)}? See duetime" in answer.err


def test_one_list_of_all_kinds_next_due_first(cli: Cli) -> None:
    assert "There are no schedules yet" in cli("list").out
    assert cli("job", "add", "late", "--task", "echo", "--every", "3h").code == 0
    assert cli("notify", "add", "tea", "--topic", "kitchen", "--delay", "1h").code == 0
    assert cli("prompt", "add", "Read the news", "--delay", "2h").code == 0
    assert cli("job", "add", "gone", "--task", "echo", "--every", "30m").code == 0
    assert cli("job", "cancel", "j4").code == 0
    rows = cli("list").out.splitlines()
    assert [row.split()[0] for row in rows] == ["ID", "n2", "p3", "j1"]
    assert [each["name"] for each in cli("list", "--json").document["schedules"]] == ["tea", "Read the news", "late"]
    assert "gone" in cli("list", "--all").out and "gone" in cli("list", "--status", "cancelled").out
    assert [row.split()[0] for row in cli("list", "--kind", "job").out.splitlines()[1:]] == ["j1"]
    assert [row.split()[0] for row in cli("list", "--topic", "kitchen").out.splitlines()[1:]] == ["n2"]
    assert "2 of 3" not in cli("list", "--limit", "3").out and "2 of 3; --all" in cli("list", "--limit", "2").out
    assert "No schedules match" in cli("list", "--search", "nothing").out
    assert "No schedules match" in cli("list", "--tagged", "nothing").out
    tagged = cli("job", "list", "--tagged", "nothing", "--status", "failed").out
    assert "There are no jobs with the status failed and the tag nothing." in tagged
    assert "There are no prompts with the tag nothing." in cli("prompt", "list", "--tagged", "nothing").out


@pytest.mark.parametrize(
    ("command", "present", "former"),
    [
        (("upcoming",), ("--limit", "1"), ("--count", "1")),
        (("upcoming",), ("--until", "tomorrow"), ("--to", "tomorrow")),
        (("run", "list"), ("--until", "tomorrow"), ("--to=tomorrow",)),
        (("list",), ("--limit", "1"), ("-n", "1")),
        (("job", "list"), ("--limit", "1"), ("-n", "1")),
        (("run", "list"), ("--limit", "1"), ("-n1",)),
        (("inbox",), ("--limit", "1"), ("-n", "1")),
    ],
)
def test_options_have_the_same_names_everywhere_and_former_names_still_work(
    cli: Cli, command: tuple[str, ...], present: tuple[str, ...], former: tuple[str, ...]
) -> None:
    for name in ("one", "two"):
        assert cli("job", "add", name, "--task", "echo", "--every", "2h").code == 0
    assert cli("job", "run", "one").code == 0
    answers = [cli(*command, *given) for given in (present, former)]
    assert answers[0] == answers[1] and answers[0].code == 0
    assert former[0] == "-n" or f"{former[0].partition('=')[0]} " not in cli(*command, "--help").out


def test_all_has_one_meaning_in_every_list(cli: Cli) -> None:
    lists = (("list",), ("job", "list"), ("notify", "list"))
    lines = [line.split() for words in lists for line in cli(*words, "--help").out.splitlines() if "--all " in line]
    said = [line for line in lines if line[0] == "--all"]
    assert len(said) == 3 and said[0] == said[1] == said[2]


def test_short_ids_work_wherever_an_id_does(cli: Cli) -> None:
    assert cli("job", "add", "report", "--task", "echo", "--at", "tomorrow 9am", "--tz", "Europe/Berlin").code == 0
    added = cli("notify", "add", "tea", "--topic", "kitchen", "--at", "2099-01-30 15:00", "--tz", "Europe/Berlin")
    assert "once, on 2099-01-30 15:00 CET" in added.out, "one format of dates"
    for verb in ("show", "history", "pause", "resume", "run", "cancel", "delete", "history"):
        assert cli("job", verb, "j1").code == 0, verb
    assert cli("notify", "edit", "n2", "--message", "coffee").code == 0
    assert cli("change", "pause", "n2").code == 0
    assert cli("job", "show", "n2").code == 3


def test_a_name_that_looks_like_a_short_id_is_answered_with_ids_that_work(cli: Cli) -> None:
    for name in ("report", "j1"):
        assert cli("job", "add", name, "--task", "echo", "--every", "1h").code == 0
    refused = cli("job", "show", "j1")
    assert refused.code != 0 and "'j1' could mean several jobs; give the id, such as job_1_" in refused.err
    assert "; j2: every hour" in refused.err
    id = re.findall(r"job_1_\d+", refused.err)[0]
    assert cli("job", "show", id, "--json").document["name"] == "report"
    assert cli("job", "show", "j2", "--json").document["name"] == "j1"


@pytest.mark.process
def test_what_is_missing_is_asked_for_on_a_terminal_alone(cli: Cli, tmp_path: Path) -> None:
    with on_terminal("job", "add", "--db", "my.db", folder=tmp_path) as terminal:
        terminal.until("NAME (Name of the schedule)")
        terminal.type("report\n")
        terminal.until("--task (Registered task")
        terminal.type("\n")
        terminal.until("It is required")
        terminal.type("echo\n")
        terminal.until("When, such as")
        terminal.type("every 2 hours\n")
        terminal.until("Added j1  report: every 2 hours")
        terminal.rest()
    assert terminal.process.returncode == 0
    with on_terminal("job", "show", "--json", "--db", "my.db", folder=tmp_path) as terminal:
        assert "Missing argument" in terminal.rest()
    assert "Missing argument 'NAME'" in cli("job", "add").err, "this is no terminal"


@pytest.mark.later
@pytest.mark.process
def test_the_running_server_is_found_wherever_it_listens(cli: Cli, tmp_path: Path) -> None:
    assert "no Duetime server answers" in cli("open", "--db", "my.db").err
    with serving(tmp_path, "--no-link") as served:
        url = served.url.removesuffix("/mcp")
        assert cli("open", "--db", "my.db").out.startswith(f"{url}/login?token=")
        link = cli("token", "link", "--db", "my.db")
        assert link.out.startswith(f"{url}/login?token=") and link.err == ""
        again = cli("serve", "--port", url.rpartition(":")[2], "--db", "my.db")
        assert f"Duetime is already running at {url}/" in again.err
    assert "no Duetime server answers" in cli("token", "link", "--db", "my.db").err


@pytest.mark.socket
def test_a_port_of_another_program_is_not_called_duetime() -> None:
    with listen("127.0.0.1", 0) as bound, pytest.raises(CannotListen, match="in use by another program"):
        listen("127.0.0.1", int(url_of(bound).rpartition(":")[2]))


def test_upcoming_filters_by_topic_or_task_as_its_help_says(cli: Cli) -> None:
    assert cli("job", "add", "one", "--task", "echo", "--every", "2h").code == 0
    assert " j1 " in cli("upcoming", "--topic", "echo").out
    assert "topic, task or agent" in cli("upcoming", "--help").out


def test_upcoming_says_why_it_lists_nothing(cli: Cli) -> None:
    assert "Nothing is scheduled to fire. Add something: " in cli("upcoming").out
    assert "Nothing is scheduled in that time." in cli("upcoming", "--from", "tomorrow").out
    for words in (("upcoming",), ("run", "list")):
        swapped = cli(*words, "--from", "2099-02-02", "--until", "2099-02-01")
        assert swapped.code == 2 and "--until: 2099-02-01 23:59" in swapped.err and "the time of --from" in swapped.err
        assert cli(*words, "--from", "2099-02-02", "--until", "2099-02-02").code == 0
