"""What `duetime doctor` says of agents: whether they could be woken from here, and whether prompts name one in vain."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from duetime.agents.models import EXAMPLE
from tests.support.cli import Cli

GONE = "prompts ask for agents that the settings do not name: coder (2), desk (1); name them under [agents]"


def settings(folder: Path, text: str) -> None:
    (folder / "duetime.toml").write_text(text)


def told(cli: Cli, subject: str = "agents") -> list[tuple[str, str]]:
    checks = cli("doctor", "--json").document["checks"]
    return [(check["status"], check["message"]) for check in checks if check["subject"] == subject]


def test_without_agents_it_says_what_happens(cli: Cli) -> None:
    assert told(cli) == [("ok", "none is woken: due prompts wait in the inbox until an agent takes them")]


def test_programs_and_folders_are_looked_for(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    python = Path(sys.executable).name
    settings(
        tmp_path,
        f"""
        [agents.here]
        command = ["{python}", "-c", "pass"]
        [agents.missing]
        preset = "gemini"
        [agents.lost]
        command = ["{python}"]
        folder = "nowhere"
        [agents.far]
        type = "webhook"
        url = "https://example.org/a-secret-path"
        secret = "a-secret"
        """,
    )
    here, missing, lost, far = told(cli)
    assert here == ("ok", f"agents.here: {sys.executable}")
    assert missing[0] == "warn" and missing[1].startswith("agents.missing: there is no program gemini on this PATH")
    assert lost == ("fail", "agents.lost: there is no folder nowhere; make it, or name another")
    assert far[0] == "ok" and "secret" not in far[1]
    assert cli("doctor").code == 1


@pytest.mark.parametrize(
    ("key", "status", "words"),
    [("", "warn", "set the environment variable ANTHROPIC_API_KEY"), ("made-up", "ok", "its key is there")],
)
def test_the_model_and_its_key(
    key: str, status: str, words: str, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    if key:
        monkeypatch.setenv("ANTHROPIC_API_KEY", key)
    settings(tmp_path, f'model = "{EXAMPLE}"')
    [(said, message)] = told(cli)
    assert said == status and EXAMPLE in message and words in message and "made-up" not in message


def test_the_standing_instructions_are_read(cli: Cli, tmp_path: Path) -> None:
    settings(tmp_path, '[agents.coder]\ncommand = ["sh"]\n[heartbeat]\nevery = "30m"\nagent = "coder"')
    [(status, message)] = told(cli, "heartbeat")
    assert status == "fail" and "HEARTBEAT.md cannot be read" in message
    (tmp_path / "HEARTBEAT.md").write_text("Look after the plants.")
    assert told(cli, "heartbeat") == [("ok", f"every 30m, by {tmp_path / 'HEARTBEAT.md'}")]


def test_prompts_that_name_an_agent_that_is_gone(cli: Cli, tmp_path: Path) -> None:
    settings(tmp_path, '[agents.coder]\ncommand = ["sh"]\n[agents.desk]\ntype = "inbox"')
    for more in (["--agent", "coder"], ["--agent", "coder"], ["--agent", "desk"], ["--agent", "inbox"], ["--remind"]):
        assert cli("prompt", "add", "look", "--every", "2h", *more).code == 0
    assert [status for status, _ in told(cli)] == ["ok"]
    settings(tmp_path, "")
    _, (status, message) = told(cli)
    assert status == "warn" and message.startswith(GONE)


def test_what_cannot_be_built_is_a_matter_of_the_settings(cli: Cli, tmp_path: Path) -> None:
    assert cli("prompt", "add", "look", "--every", "2h").code == 0
    settings(tmp_path, '[agents.coder]\npreset = "cloud"')
    assert told(cli, "settings")[1:] == [
        ("fail", "preset: there is no 'cloud'; there is claude, codex, gemini, goose, opencode")
    ]
