"""Allowances: what the settings of an agent allow, what a schedule narrows, and that a run passes on no more."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from duetime.app import App, build
from duetime.engine.clock import SECOND
from duetime.engine.errors import InvalidInput
from duetime.engine.kind import Caller
from duetime.kinds.prompts.allowance import EVERYTHING, Allowance, matches
from duetime.settings import AgentSettings, McpServerSettings, Settings, load_settings
from tests.support.agent import Agent

WIDE = Allowance(("github.*",), ("git *",), True, ("deploying",), "/srv", ("CI_TOKEN",))


def test_what_the_settings_allow() -> None:
    given = AgentSettings(
        servers=("github", "files"), commands=("git log *",), web=True, skills=("/my/deploying",), folder="/srv"
    )
    assert Allowance.of_agent(given) == Allowance(
        ("github.*", "files.*"), ("git log *",), True, ("deploying",), "/srv", ()
    )
    some = AgentSettings(servers=("github", "files"), tools=("github.get_*", "files"))
    assert Allowance.of_agent(some).tools == ("github.get_*", "files.*")


@pytest.mark.parametrize(
    ("pattern", "text", "fits"),
    [
        ("github.*", "github.get_build", True),
        ("github.get_*", "github.delete", False),
        ("git log *", "git log", True),
        ("git log *", "git log main", True),
        ("git log *", "git log -5", False),
        ("git log *", "git log main --output=Makefile", False),
        ("git log *", "git log /etc/passwd", False),
        ("git log *", "git log ~/x", False),
        ("git log *", "git log ../x", False),
        ("git log *", "git log a/../../x", False),
        ("git log -*", "git log -5", True),
        ("git log -*", "git log --stat main", True),
        ("git log * --stat", "git log main --stat", True),
        ("git log * --stat", "git log -1 --stat", False),
        ("cat /srv/*", "cat /srv/x", True),
        ("cat /srv/*", "cat /srv/../etc/passwd", False),
        ("cat *", "cat /srv/x", False),
        ("*", "rm -r /", True),
        ("git log *", "git logout", False),
        ("git log", "git log -5", False),
        ("a.b?c", "a.bxc", False),
        ("a.[b]", "a.b", False),
    ],
)
def test_patterns(pattern: str, text: str, fits: bool) -> None:
    assert matches(pattern, text) is fits
    assert matches(pattern, pattern)


def test_a_program_with_a_space_in_its_name_is_no_other_program() -> None:
    some = Allowance(commands=("git *",))
    assert some.allows_command(["git", "./evil"]) and not some.allows_command([])
    assert not any(some.allows_command([name, "x"]) for name in ("git ./evil", "git\t./evil", " git", ""))
    assert Allowance(commands=("*",)).allows_command(["/opt/my tools/run"])


def test_a_run_gets_no_options_by_asking_for_a_pattern_that_has_them() -> None:
    held = Allowance(commands=("git log *",))
    assert held.narrowed(Allowance(commands=("git log --output=*", "git log main *"))).commands == ("git log main *",)
    assert held.lacks(Allowance(commands=("git log --output=*",)))


def test_a_pattern_covers_narrower_ones_alone() -> None:
    assert matches("github.*", "github.get_*") and not matches("github.get_*", "github.*")
    assert matches("git *", "git log *") and not matches("git log *", "git *")


def test_both_allow_it() -> None:
    other = Allowance(("github.get_*", "files.*"), ("git log *", "rm *"), True, ("deploying", "x"), "/srv/app", ())
    assert WIDE.narrowed(other) == Allowance(("github.get_*",), ("git log *",), True, ("deploying",), "/srv/app", ())
    assert other.narrowed(WIDE) == WIDE.narrowed(other)
    assert WIDE.narrowed(None) == WIDE and WIDE.narrowed(Allowance()) == Allowance()
    assert WIDE.narrowed(WIDE._replace(folder="/elsewhere")).folder == ""


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"tools": ("github.*", "files.*")}, "tools 'files.*'"),
        ({"commands": ("*",)}, "commands '*'"),
        ({"env": ("HOME",)}, "env 'HOME'"),
        ({"folder": "/srv/../etc"}, "the folder '/srv/../etc'"),
        ({"folder": "/srv/app"}, ""),
    ],
)
def test_what_is_lacking(more: dict[str, Any], words: str) -> None:
    assert WIDE.lacks(WIDE._replace(**more)) == words
    assert Allowance().lacks(Allowance(web=True)) == "the web"


@pytest.mark.parametrize(
    "asked", ["all", ["tools"], {"shell": True}, {"web": "yes"}, {"tools": "x"}, {"tools": [""]}, {"folder": "up"}]
)
def test_what_cannot_be_asked_for(asked: object) -> None:
    with pytest.raises(InvalidInput, match="allow"):
        WIDE.with_asked(asked)


def test_what_is_stored_is_read_back_and_what_is_missing_is_not_allowed() -> None:
    assert Allowance.stored(WIDE.text()) == WIDE == Allowance.stored(WIDE.view())
    assert Allowance.stored("{}") == Allowance.stored("nonsense") == Allowance()
    assert Allowance.stored(None) is None


# -- schedules --------------------------------------------------------------------------------------------------------


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    (tmp_path / "app").mkdir()
    wide = AgentSettings(
        command=("true",), servers=("github",), commands=("git *",), web=True, folder=str(tmp_path), owners=("*",)
    )
    plain = AgentSettings(command=("true",), owners=("*",))
    servers = {"github": McpServerSettings(url="https://mcp.example.org")}
    settings = Settings(db=":memory:", timezone="UTC", agents={"wide": wide, "plain": plain}, mcp_servers=servers)
    made = build(settings, tasks=False)
    made.store.register("test", ["prompt"], session=False, now=made.clock.now(), lease=10 * SECOND)
    yield made
    made.close()


def stored(app: App, number: int) -> Any:
    found = app.scheduler.find(Caller("ada"), str(number))
    assert found is not None
    return json.loads(found.definition.payload).get("allow")


def scheduled(app: App, grant: Allowance | None = None, **given: Any) -> tuple[Any, list[str]]:
    """What is stored, and the warnings."""
    caller = Caller("ada") if grant is None else Caller("ada", depth=1, grant=grant.text())
    made = Agent(app.services, caller).knows("schedule", prompt="look", at="in 2 hours", agent="wide", **given)
    return stored(app, made["id"]), made.get("warnings", [])


def test_a_schedule_asks_for_less_and_the_rest_stays(app: App, tmp_path: Path) -> None:
    assert scheduled(app) == (None, [])
    allow, warnings = scheduled(app, allow={"tools": ["github.get_*"], "web": False})
    narrowed = Allowance.stored(allow)
    assert narrowed == EVERYTHING._replace(tools=("github.get_*",), web=False) and not warnings
    wide = WIDE._replace(folder=str(tmp_path))
    assert wide.narrowed(narrowed) == wide._replace(tools=("github.get_*",), web=False)


def test_asking_for_more_is_warned_of(app: App) -> None:
    _, [warning] = scheduled(app, allow={"tools": ["github.*", "files.*"]})
    assert warning == "The agent wide is not allowed tools 'files.*', so its runs do without."


def test_what_a_run_schedules_gets_no_more_than_the_run_has(app: App) -> None:
    held = Allowance(("github.get_*",))
    assert Allowance.stored(scheduled(app, held)[0]) == held
    assert Allowance.stored(scheduled(app, held, allow={"tools": ["github.*"], "commands": ["git *"]})[0]) == held
    assert Allowance.stored(scheduled(app, Allowance())[0]) == Allowance()


def test_a_run_that_edits_a_schedule_passes_on_no_more_either(app: App) -> None:
    held = Allowance(("github.get_*",))
    person = Agent(app.services, Caller("ada"))
    run = Agent(app.services, Caller("ada", depth=1, grant=held.text()))
    number = person.knows("schedule", prompt="look", at="in 2 hours", agent="wide")["id"]
    run.knows("schedule_edit", id=number, at="in 3 hours")
    assert stored(app, number) is None, "the words are still the person's"
    run.knows("schedule_edit", id=number, prompt="look again")
    assert Allowance.stored(stored(app, number)) == held
    person.knows("schedule_edit", id=number, prompt="and again", agent="plain")
    assert Allowance.stored(stored(app, number)) == held


# -- settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[mcp_servers.My_Server]\nurl = "x"', "call it by lower case letters"),
        ("[mcp_servers.github]", "name either its url or its command"),
        ('[mcp_servers.github]\nurl = "x"\ncommand = ["y"]', "name either its url or its command"),
        ('[mcp_servers.github]\nurl = "x"\n[mcp_servers.github.env]\nA = "b"', "a url has headers"),
        ('[agents.a]\npreset = "claude"\nservers = ["github"]', "there is no 'github' under [mcp_servers]"),
        ('[agents.a]\npreset = "claude"\ntools = ["github.x"]', "is of no server in `servers`"),
        ('[agents.a]\ntype = "inbox"\nweb = true', "only a command, a preset or a built-in agent"),
        ('[agents.a]\npreset = "claude"\nweb = "yes"', "agents.a.web must be true or false"),
    ],
)
def test_settings_that_cannot_be_used(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "duetime.toml").write_text(text)
    with pytest.raises(InvalidInput) as refused:
        load_settings({}, environment={}, folder=tmp_path)
    assert words in refused.value.message


def test_settings_that_can_be_used(tmp_path: Path) -> None:
    text = """
    [mcp_servers.github]
    url = "https://mcp.example.org"
    headers = { Authorization = "Bearer a-secret-token" }
    [agents.a]
    preset = "claude"
    servers = ["github"]
    tools = ["github.get_*"]
    commands = ["git log *"]
    web = true
    skills = ["skills/deploying"]
    """
    (tmp_path / "duetime.toml").write_text(text)
    settings = load_settings({}, environment={}, folder=tmp_path)
    assert settings.agents["a"].skills == (str(tmp_path / "skills/deploying"),) and settings.agents["a"].web
    assert "a-secret-token" not in repr(settings) and "mcp.example.org" not in repr(settings)
