"""What `duetime doctor` says: of agents that could not be woken from here, of workers, of what is wrong in a store."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apsw
import pytest

from duetime.app import build
from duetime.cli.serve.demo import create_samples
from duetime.cli.setup import doctor_checks
from duetime.cli.setup.doctor import token_checks
from duetime.engine.clock import DAY, HOUR, MINUTE, SECOND, Instant
from duetime.engine.model import limit_reached
from duetime.engine.outcome import Failed, Returned
from duetime.kinds.prompts.agents.models import EXAMPLE
from duetime.net.client import Http, HttpAnswer
from duetime.settings import Settings
from tests.support.cli import Cli, start
from tests.support.drafts import T0, every, once
from tests.support.hand import Hand, create
from tests.support.ntfy import NtfyReceiver
from tests.support.settings import write_trusted

SEND = Http.send
GONE = "prompts ask for agents that the settings do not name: coder (2), desk (1); name them under [agents]"


@pytest.fixture(autouse=True)
def answering(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every host answers, and none is really asked; tests with a receiver restore the real network."""
    monkeypatch.setattr(Http, "send", lambda *_: HttpAnswer(200, {}, b"", False))


def settings(folder: Path, text: str) -> Path:
    return write_trusted(folder, text)


def told(cli: Cli, subject: str = "agents") -> list[tuple[str, str]]:
    checks = cli("doctor", "--json").document["checks"]
    return [(check["status"], check["message"]) for check in checks if check["subject"] == subject]


def test_without_agents_it_says_what_happens(cli: Cli) -> None:
    assert told(cli) == [("ok", "none is set up: due prompts wait in the inbox until an agent takes them")]


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
    assert far == ("ok", "agents.far: a webhook at https://example.org, which answers")
    assert cli("doctor").code == 1


def test_what_agents_are_given_is_looked_for(cli: Cli, tmp_path: Path) -> None:
    settings(
        tmp_path,
        f"""
        [mcp_servers.builds]
        command = ["/no/such/server"]
        [mcp_servers.github]
        url = "https://mcp.example.org/a-secret-path"
        headers = {{ Authorization = "Bearer ${{NO_SUCH_TOKEN}}" }}
        [agents.here]
        command = ["{sys.executable}"]
        servers = ["builds", "github"]
        skills = ["{tmp_path}"]
        """,
    )
    here, *further = told(cli)
    assert here[0] == "ok" and further == [
        ("warn", "mcp_servers.builds: there is no program /no/such/server on this PATH"),
        ("warn", "mcp_servers.github: set the environment variable NO_SUCH_TOKEN"),
        ("warn", f"agents.here: there is no SKILL.md in {tmp_path}"),
    ]


@pytest.mark.parametrize(
    ("key", "status", "words"),
    [
        ("", "warn", "set the environment variable ANTHROPIC_API_KEY"),
        ("made-up", "info", "its key is there; the model was not called"),
    ],
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
        ("fail", "preset: there is no 'cloud'; choose from claude, codex, gemini, goose, opencode")
    ]


def test_workers_that_are_silent_or_do_not_keep_up_and_what_failed(cli: Cli, tmp_path: Path) -> None:
    assert cli("job", "list").code == 0
    room = build(Settings(db=str(tmp_path / "my.db")), tasks=False)
    now = room.clock.now()
    failing, lasting, late = once(now - DAY, name="went wrong"), every(HOUR, now), once(now - 10 * MINUTE)
    create(room.store, failing, lasting)  # type: ignore[arg-type]
    hand = Hand(room.store, "gone", now - 5 * MINUTE)  # type: ignore[arg-type]
    hand.record(hand.claim(now - 5 * MINUTE), now - 5 * MINUTE, Failed("no"))
    room.store.register("here", ("job",), False, now)
    assert told(cli, "due") == [("ok", "nothing is overdue; 0 runs active")]
    create(room.store, late)  # type: ignore[arg-type]
    room.close()
    silent, alive = told(cli, "worker")
    assert silent[0] == "warn" and silent[1].startswith("gone is silent, last beat 5 m")
    assert alive[0] == "ok" and alive[1].startswith("here, last beat")
    [(status, message)] = told(cli, "due")
    assert status == "warn" and message.startswith("1 overdue, the oldest by 10 m")
    assert "the workers do not keep up" in message
    [(status, message)] = told(cli, "failed")
    assert status == "warn" and "went wrong" in message and "`duetime history ID` shows why" in message


def test_a_run_that_waits_for_another_attempt_is_reported(cli: Cli, tmp_path: Path) -> None:
    assert told(cli, "retry") == []
    room = build(Settings(db=str(tmp_path / "my.db")), tasks=False)
    now = room.clock.now()
    create(room.store, once(now, name="tea", max_attempts=3, backoff=HOUR))  # type: ignore[arg-type]
    assert told(cli, "retry") == [("ok", "no run waits for another attempt")]
    hand = Hand(room.store, now=now)  # type: ignore[arg-type]
    hand.record(hand.claim(now), now, Failed("nobody answers"))
    room.close()
    [(status, message)] = told(cli, "retry")
    assert status == "warn"
    assert message.startswith("1 run failed and will be retried, such as tea: nobody answers; ")


def test_what_the_doctor_calls_ok_was_asked(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Http, "send", SEND)
    with NtfyReceiver(token="tk_good") as ntfy:
        text = f'[notifications]\nserver = "{ntfy.url}"\ntoken = "tk_good"\n[channels.hook]\nurl = "{ntfy.url}/hush"\n'
        settings(tmp_path, f'{text}[channels.phone]\nurl = "json://127.0.0.1"')
        hook, phone, server = told(cli, "delivery")
        assert hook == ("ok", f"the channel hook: {ntfy.url} answers")
        assert phone[0] == "info" and phone[1].endswith("notify send Test --topic phone")
        assert server == ("ok", f"topics go to the ntfy server {ntfy.url}, which answers")
        assert [request.path for request in ntfy.requests] == ["/", "/v1/account"], "nothing was sent to anybody"
        settings(tmp_path, text.replace("tk_good", "tk_bad"))
        assert told(cli, "delivery")[1] == ("fail", f"the ntfy server {ntfy.url} refuses notifications.token; renew it")
    (_, _), (status, message) = told(cli, "delivery")
    assert status == "fail" and message.startswith(f"the ntfy server {ntfy.url} does not answer: ")


def test_the_doctor_finds_nothing_wrong_with_the_demo(cli: Cli, tmp_path: Path) -> None:
    room = build(Settings(db=str(tmp_path / "my.db"), tasks=("duetime.cli.serve.demo_tasks",)))
    create_samples(room)
    now = Instant(room.clock.now() + MINUTE)
    hand = Hand(room.store, now=now)  # type: ignore[arg-type]
    hand.record(hand.claim(now), now, Failed("as meant"))
    room.close()
    checks = cli("doctor", "--json").document["checks"]
    assert [check for check in checks if check["status"] != "ok"] == []
    about_failures = [check["message"] for check in checks if check["subject"] in ("failed", "retry")]
    assert len(about_failures) == 2 and all("not counting the samples" in each for each in about_failures)


def test_a_folder_that_cannot_be_written_is_called_that(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    [(status, message)] = told(cli, "disk")
    assert status == "fail" and "cannot be written: it is read-only" in message and "--db" in message


def test_tasks_that_no_worker_would_know(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("from duetime.kinds.jobs.registry import task\n\n@task\ndef known_there(): ...\n")
    for name in ("one", "two"):
        added = cli("job", "add", name, "--task", "known_there", "--every", "2h", "--tasks", "mine.py")
        assert added.code == 0, added
    room = build(Settings(db=str(tmp_path / "my.db")), tasks=False)
    create(room.store, every(HOUR, room.clock.now(), subject="left_behind"))  # type: ignore[arg-type]
    room.close()
    *_, (status, message) = told(cli, "tasks")
    assert status == "warn"
    assert message.startswith("jobs call tasks that are not known here: left_behind (1)")


def test_a_run_that_no_worker_can_do_is_shown_everywhere(cli: Cli, tmp_path: Path) -> None:
    room = build(Settings(db=str(tmp_path / "my.db")), tasks=False)
    now = room.clock.now()
    create(room.store, once(now, name="resize all", subject="left_behind"))  # type: ignore[arg-type]
    hand = Hand(room.store, now=now)  # type: ignore[arg-type]
    hand.record(hand.claim(now), now, Returned("Unknown task: left_behind; start a worker that has it", HOUR))
    held = "left_behind; start a worker that has it"
    assert [(run["name"], held in run["error"]) for run in cli("top", "--json").document["waiting"]] == [
        ("resize all", True)
    ]
    create(room.store, once(now, name="held back", subject="left_behind"))  # type: ignore[arg-type]
    hand.record(hand.claim(now), now, Returned(limit_reached("3 runs a day"), HOUR))
    room.close()
    assert held in cli("top").out
    assert cli("db", "status", "--json").document["waiting_for_a_worker"] == 1
    assert held in cli("db", "status").out
    [(status, message)] = told(cli, "waiting")
    assert status == "warn" and held in message and message.startswith("1 run due, but no worker can start it, such")
    assert "waiting" in cli("list").out and "running" not in cli("list").out


def test_commands_of_a_crontab_are_not_known_unless_the_settings_allow_them(cli: Cli, tmp_path: Path) -> None:
    """The doctor runs in its own process, because the import has registered the task in this one."""
    (tmp_path / "tab").write_text("0 3 * * * /bin/backup --all\n")
    assert cli("import", "crontab", "tab", "--yes").code == 0
    process = start("doctor", "--json", "--db", "my.db", folder=tmp_path)
    out, _ = process.communicate(timeout=60)
    messages = [check["message"] for check in json.loads(out)["checks"] if check["subject"] == "tasks"]
    assert "run_command" not in messages[0]
    assert messages[-1].startswith("jobs call tasks that are not known here: run_command (1)")
    assert messages[-1].endswith("run_command is in duetime.kinds.command")


@pytest.mark.parametrize(
    ("apart", "status", "words"),
    [(3 * SECOND, "warn", "3.0 s ahead of"), (-3 * SECOND, "warn", "3.0 s behind"), (0, "ok", "agree within")],
)
def test_a_clock_that_differs_from_the_databases(apart: int, status: str, words: str) -> None:
    clock: Any = SimpleNamespace(now=lambda: T0)
    app: Any = SimpleNamespace(store=SimpleNamespace(now=lambda: Instant(T0 + apart)))
    [check] = doctor_checks._clock(app, clock)
    assert (check.status, check.subject) == (status, "clock") and words in check.message


def test_a_sqlite_that_may_lose_commits(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    [(status, _)] = told(cli, "sqlite")
    assert status == "ok"
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: "3.51.2")
    [(status, message)] = told(cli, "sqlite")
    assert status == "warn" and message.startswith("3.51.2 may lose commits")


def test_nodes_that_share_a_store_are_told_to_share_the_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = Settings(db="postgresql://duetime@db.example.org/duetime")
    monkeypatch.delenv("DUETIME_SECRET", raising=False)
    [check] = token_checks(shared)
    assert (check.status, check.subject) == ("warn", "tokens")
    assert "give each of them one DUETIME_SECRET" in check.message
    assert [check.status for check in token_checks(Settings())] == ["ok"]
    monkeypatch.setenv("DUETIME_SECRET", "x" * 64)
    assert [check.status for check in token_checks(shared)] == ["ok"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('[notifications]\nserver = "https://ntfy.example.org"\ntoken = "tk_canary"\n', "notifications.token"),
        ('db = "postgresql://me:canary@127.0.0.1:1/db"\n', "db"),
        ('[channels.phone]\nurl = "tgram://canary/1"\n', "channels.phone"),
        ('[mcp_servers.crm]\nurl = "https://x.example.org"\nheaders = {X-Key = "canary"}\n', "mcp_servers.crm"),
    ],
)
def test_a_settings_file_with_secrets_that_others_can_read_is_warned_of(
    cli: Cli, tmp_path: Path, text: str, names: str
) -> None:
    file = settings(tmp_path, text)
    file.chmod(0o644)
    answer = cli("doctor")
    assert f"holds secrets ({names}) and can be read by others (mode 644); run: chmod 600 {file}" in answer.out
    assert "canary" not in answer.out + answer.err
    file.chmod(0o600)
    assert "can be read by others" not in cli("doctor").out


def test_a_settings_file_without_secrets_may_be_read(cli: Cli, tmp_path: Path) -> None:
    settings(tmp_path, 'timezone = "Europe/Berlin"\n').chmod(0o644)
    assert "can be read by others" not in cli("doctor").out
