"""An agent that is a program: what it is given, what it may see, what is made of its answer, and how it fails."""

from __future__ import annotations

import json
import resource
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from duetime.engine.errors import InvalidInput
from duetime.engine.kind import StopReason
from duetime.kinds.prompts.agent import Access, Spent
from duetime.processes.supervisor import ProcessLimits
from tests.support.programs import (
    Background,
    agent,
    command_agent,
    executable,
    open_descriptors,
    program,
    timed_from,
    told,
    watched_temporary_folder,
    with_environment,
)
from tests.support.waking import NOWHERE, agent_request, failed, replied, succeeded
from tests.support.workers import eventually

ECHO = "import sys; sys.stdout.write(sys.stdin.read())"
SAY_ARGUMENTS = "import json, sys; print(json.dumps(sys.argv[1:]))"
SAY_ENVIRONMENT = "import json, os; print(json.dumps(dict(os.environ)))"
HARMFUL = ("--help", "-", "$(touch x)", "`touch x`", "; touch x", "a\nb", "{mcp_config}", "é ☃ \U0001f600", "'\"\\")


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Path]:
    """Where private folders are made; empty again when all is over."""
    folder = tmp_path / "runs"
    folder.mkdir()
    with watched_temporary_folder(folder):
        yield folder
    assert list(folder.iterdir()) == []


# -- what it is given ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", HARMFUL)
def test_a_prompt_is_data_on_standard_input(tmp_path: Path, runs: Path, text: str) -> None:
    reply = succeeded(agent(program(tmp_path, ECHO), folder=str(tmp_path)).wake(agent_request(text=text)))
    assert reply.text == text.strip() and reply.exit_code == 0
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("text", HARMFUL)
def test_a_prompt_is_one_argument(tmp_path: Path, runs: Path, text: str) -> None:
    woken = agent(program(tmp_path, SAY_ARGUMENTS), prompt="argument", folder=str(tmp_path))
    assert json.loads(succeeded(woken.wake(agent_request(text=text))).text) == ["--", text]
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("way", ["stdin", "argument"])
def test_a_prompt_that_is_no_text_is_made_one(tmp_path: Path, runs: Path, way: str) -> None:
    code = "import sys; print((sys.argv[2:] or [sys.stdin.read()])[0])"
    assert succeeded(agent(program(tmp_path, code), prompt=way).wake(agent_request(text="a\ud800b"))).text == "a?b"


def test_a_long_prompt_goes_through_standard_input_even_where_nobody_reads_it(tmp_path: Path, runs: Path) -> None:
    long = "word " * 250_000
    counted = agent(program(tmp_path, "import sys; print(len(sys.stdin.read()))"))
    assert succeeded(counted.wake(agent_request(text=long))).text == str(len(long))
    deaf = agent(program(tmp_path, "import os; os.close(0); print('done')"))
    assert succeeded(deaf.wake(agent_request(text=long))).text == "done"


@pytest.mark.parametrize(
    ("text", "words"),
    [("x\0y", "the prompt holds a NUL"), ("x" * 1_000_000, "too long for an argument (1000000 bytes, at most 131071)")],
)
def test_what_cannot_be_an_argument_is_said(tmp_path: Path, runs: Path, text: str, words: str) -> None:
    reply = agent(program(tmp_path, SAY_ARGUMENTS), prompt="argument").wake(agent_request(text=text))
    assert words in failed(reply) and 'set prompt = "stdin" for agents.test' in failed(reply) and reply.permanent


def test_the_longest_argument(tmp_path: Path, runs: Path) -> None:
    woken = agent(program(tmp_path, "import sys; print(len(sys.argv[2]))"), prompt="argument")
    assert succeeded(woken.wake(agent_request(text="x" * 131_071))).text == "131071"


def test_places_in_a_command_are_filled(tmp_path: Path, runs: Path) -> None:
    command = [*program(tmp_path, SAY_ARGUMENTS), "--config={mcp_config}", "{model}", "{other}"]
    config, model, other = json.loads(succeeded(agent(command, model="small").wake(agent_request())).text)
    assert config.startswith(f"--config={runs}/duetime-run-") and (model, other) == ("small", "{other}")


def test_it_works_where_it_is_told_to(tmp_path: Path, runs: Path) -> None:
    where = program(tmp_path, "import os; print(os.getcwd(), os.listdir() == [])")
    assert succeeded(agent(where, folder=str(tmp_path)).wake(agent_request())).text == f"{tmp_path} False"
    alone = succeeded(agent(where).wake(agent_request())).text
    assert alone.startswith(str(runs)) and alone.endswith("/work True")


def test_a_program_is_found_from_where_the_worker_runs(
    tmp_path: Path, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    executable(tmp_path, "print('mine')", "helper")
    assert succeeded(agent(["./helper"]).wake(agent_request())).text == "mine"


# -- the way to the tools -----------------------------------------------------------------------------------------

SAY_CONFIG = """
import json, os
path = os.environ["DUETIME_MCP_CONFIG"]
modes = [oct(os.stat(each).st_mode & 0o777) for each in (path, os.path.dirname(path))]
print(json.dumps({"result": open(path).read(), "outcome": modes}))
"""


@pytest.mark.parametrize(
    ("access", "server"),
    [
        (
            Access("http://127.0.0.1:8765/mcp", "the-token-of-this-run"),
            {"type": "http", "url": "http://127.0.0.1:8765/mcp", "headers": {"Authorization": "Bearer ***"}},
        ),
        (
            Access(
                None, "the-token", ("duetime", "mcp"), {"A": "the-token", "SECRET": "12345678", "B": "db://u:p@host"}
            ),
            {
                "type": "stdio",
                "command": "duetime",
                "args": ["mcp"],
                "env": {"A": "***", "SECRET": "***", "B": "***"},
            },
        ),
    ],
)
def test_a_command_finds_the_tools_in_a_private_file(
    tmp_path: Path, runs: Path, access: Access, server: dict[str, Any]
) -> None:
    reply = succeeded(agent(program(tmp_path, SAY_CONFIG)).wake(agent_request(access)))
    assert json.loads(reply.text) == {"mcpServers": {"duetime": server}}
    assert reply.outcome == ["0o600", "0o700"]


def test_it_sees_only_what_it_may(tmp_path: Path, runs: Path) -> None:
    ours = with_environment(
        LANG="C.UTF-8",
        LC_TIME="C",
        SSL_CERT_FILE="/certs.pem",
        USER="ann",
        EXTRA="wanted",
        DUETIME_DB="postgresql://secret",
        DUETIME_SECRET="secret",
        AWS_SECRET_ACCESS_KEY="secret",
        PYTHONPATH="/elsewhere",
        TERM="xterm",
    )
    woken = agent(program(tmp_path, SAY_ENVIRONMENT), env=["EXTRA", "MISSING"], environment=ours)
    seen = json.loads(succeeded(woken.wake(agent_request())).text)
    own = {name: seen.pop(name) for name in ("TMPDIR", "DUETIME_MCP_CONFIG")}
    assert all(value.startswith(str(runs)) for value in own.values())
    seen.pop("LC_CTYPE", None)  # Python sets it for itself where no language is chosen
    kept = ("PATH", "HOME", "LANG", "LC_TIME", "SSL_CERT_FILE", "USER", "EXTRA")
    assert seen == {name: ours[name] for name in kept} | {"TERM": "dumb", "NO_COLOR": "1"}


TELL_ITS_TREE = """
import os, pathlib, time
pids = [os.getpid(), os.getppid()]
path = pathlib.Path({path!r})
path.with_suffix(".new").write_text(" ".join(map(str, pids)))
path.with_suffix(".new").rename(path)
time.sleep(60)
"""


def test_no_argument_holds_the_token(tmp_path: Path, runs: Path) -> None:
    access = Access("http://127.0.0.1:8765/mcp", "the-token-of-this-run")
    command = program(tmp_path, TELL_ITS_TREE.format(path=str(tmp_path / "told")))
    run = Background(agent([*command, "{mcp_config}"]), agent_request(access))
    try:
        arguments = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in told(tmp_path / "told")]
        assert b"mcp.json" in arguments[0] and not any(b"the-token" in each for each in arguments)
        [private] = runs.iterdir()
        assert stat.S_IMODE(private.stat().st_mode) == 0o700
    finally:
        run.stop(StopReason.CANCELLED)
    assert run.reply().error == "stopped on request"


# -- its answer ---------------------------------------------------------------------------------------------------


def test_an_answer_may_be_one_json_object(tmp_path: Path, runs: Path) -> None:
    answer = {
        "result": "Watered.",
        "outcome": {"plants": 3},
        "usage": {"input_tokens": 7, "cache_read_input_tokens": 3, "output_tokens": 5},
        "total_cost_usd": 0.25,
        "tool_calls": [{"name": "mcp__duetime__schedule_list", "arguments": {"status": "all"}}],
    }
    reply = succeeded(agent(program(tmp_path, f"print({json.dumps(answer)!r})")).wake(agent_request()))
    assert (reply.text, reply.outcome, reply.spent) == ("Watered.", {"plants": 3}, Spent(10, 5, 0.25))
    assert reply.tool_calls == [{"name": "schedule_list", "arguments": {"status": "all"}}]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ({"text": "half", "error": "no water"}, "no water"),
        ({"error": {"message": "no water", "code": 7}}, "no water"),
        ({"result": "no water", "is_error": True}, "no water"),
        ({"result": "done", "permission_denials": [{"tool_name": "Bash"}, {"tool_name": "Bash"}]}, "to use Bash;"),
        ({"result": "done", "denied": ["Bash", "Write"]}, "to use Bash, Write;"),
    ],
)
def test_an_answer_may_say_that_it_failed(tmp_path: Path, runs: Path, answer: dict[str, Any], error: str) -> None:
    reply = agent(program(tmp_path, f"print({json.dumps(answer)!r})")).wake(agent_request())
    assert error in failed(reply) and not reply.permanent


@pytest.mark.parametrize(
    "said",
    [
        *("plain words", "[1, 2]", "[" * 100_000, "12", "null", "", "{name} is done", "{{ it }}"),
        *('{"other": 1}', '{"usage": {}}', '{"a": 1}\n{"b": 2}', '{"result": "x"} and more'),
    ],
)
def test_whatever_else_it_says_is_its_answer(tmp_path: Path, runs: Path, said: str) -> None:
    assert succeeded(agent(program(tmp_path, f"print({said!r})")).wake(agent_request())).text == said


@pytest.mark.parametrize("said", ['{"result": ', '{"result": "half', "{", '\n{ "result": "x",}', '{"a":' * 100_000])
def test_json_that_breaks_off_is_no_answer(tmp_path: Path, runs: Path, said: str) -> None:
    reply = replied(agent(program(tmp_path, f"print({said!r})")).wake(agent_request()))
    assert reply.error == "python answered in JSON that cannot be read; it may have been cut off"
    assert reply.text == said.strip() and not reply.permanent
    code = f"import sys; print({said!r}); sys.exit('out of memory')"
    assert (
        failed(agent(program(tmp_path, code)).wake(agent_request())) == "python ended with exit code 1: out of memory"
    )


@pytest.mark.parametrize(
    "answer",
    [
        '{"result": "x", "usage": {"input_tokens": -5, "output_tokens": 1e400}, "cost": NaN}',
        '{"result": "x", "usage": [1], "cost": "much"}',
        '{"result": "x", "usage": {"input_tokens": %s, "output_tokens": true}}' % ("9" * 300),
    ],
)
def test_figures_that_cannot_be_are_not_counted(tmp_path: Path, runs: Path, answer: str) -> None:
    assert succeeded(agent(program(tmp_path, f"print({answer!r})")).wake(agent_request())).spent == Spent()


def test_what_cannot_be_stored_is_replaced(tmp_path: Path, runs: Path) -> None:
    code = r"""import os; os.write(1, b'{"result": "a\\u0000b\\ud800c", "outcome": {"\\u0000": ["\\ud800"]}}')"""
    reply = succeeded(agent(program(tmp_path, code)).wake(agent_request()))
    assert reply.text == "a\ufffdb\ufffdc" and reply.outcome == {"\ufffd": ["\ufffd"]}
    broken = succeeded(
        agent(program(tmp_path, r"import os; os.write(1, b'\xff\x1b[31mred\x1b[0m\0')")).wake(agent_request())
    )
    assert broken.text == "\ufffdred\ufffd"


def test_secrets_do_not_come_back(tmp_path: Path, runs: Path) -> None:
    access = Access("http://127.0.0.1:8765/mcp", "the-token-of-this-run")
    ours = with_environment(MODEL_API_KEY="a-key-of-the-operator", COLOUR="a-colour-of-the-operator")
    code = """
    import os, sys
    token = open(os.environ["DUETIME_MCP_CONFIG"]).read()
    print(token, os.environ["MODEL_API_KEY"], os.environ["COLOUR"])
    print(token, os.environ["MODEL_API_KEY"], "password=hunter2", file=sys.stderr)
    sys.exit(3)
    """
    woken = agent(program(tmp_path, code), env=["MODEL_API_KEY", "COLOUR"], environment=ours)
    reply = woken.wake(agent_request(access))
    error = failed(reply)
    assert "exit code 3" in error and "a-colour-of-the-operator" in reply.text
    for secret in ("the-token", "a-key-of", "hunter2"):
        assert secret not in reply.text and secret not in error


# -- how it fails -------------------------------------------------------------------------------------------------


def test_a_missing_program(tmp_path: Path, runs: Path) -> None:
    """By its whole path: its last part alone says little."""
    (tmp_path / "folder").mkdir()
    for command in (["no-such-agent"], [str(tmp_path / "none")], [str(tmp_path / "folder")]):
        reply = agent(command).wake(agent_request())
        assert failed(reply).startswith(f"there is no program {command[0]}; install it") and reply.permanent
        assert agent(command).missing() == reply.error
        other = failed(agent(command).wake(agent_request(owner="ada")))
        assert other == "the agent test cannot be started here; its operator can tell why"


def test_a_program_that_is_none(tmp_path: Path, runs: Path) -> None:
    path = tmp_path / "none"
    path.write_bytes(b"\x7fELF nonsense")
    path.chmod(0o700)
    reply = agent([str(path)]).wake(agent_request())
    assert failed(reply) == "none cannot be started: exec format error" and reply.permanent


def test_a_missing_folder(tmp_path: Path, runs: Path) -> None:
    reply = agent(program(tmp_path, ECHO), folder=str(tmp_path / "gone")).wake(agent_request())
    folder = tmp_path / "gone"
    assert failed(reply).startswith(f"agents.test cannot work: its folder {folder} does not exist") and reply.permanent


def test_no_room_for_a_private_folder(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with watched_temporary_folder(tmp_path / "gone"):
        reply = agent(program(tmp_path, ECHO)).wake(agent_request())
    assert failed(reply).endswith("cannot be started here: no such file or directory") and not reply.permanent
    assert str(tmp_path / "gone") in caplog.text


@pytest.mark.parametrize(
    ("code", "error", "exit_code"),
    [
        ("import sys; print('why', file=sys.stderr); sys.exit(7)", "python ended with exit code 7: why", 7),
        ("import sys; sys.exit(127)", "python ended with exit code 127", 127),
        ("import os; os.kill(os.getpid(), 11)", "python was ended by SIGSEGV", None),
        ("import os; os.kill(os.getpid(), 9)", "python was ended by SIGKILL (the system may have run", None),
        ("import os; os.kill(os.getpid(), 40)", "python was ended by signal 40", None),
        ("import os; os.kill(0, 9)", "python disappeared together with what held it", None),
        ("import os; os.kill(os.getppid(), 9); os.read(0, 1); os.read(0, 999)", "disappeared together", None),
    ],
)
def test_how_it_ended_is_told(tmp_path: Path, runs: Path, code: str, error: str, exit_code: int | None) -> None:
    reply = agent(program(tmp_path, code)).wake(agent_request())
    assert error in failed(reply).replace(Path(sys.executable).name, "python") and reply.exit_code == exit_code
    assert not reply.permanent


def test_the_end_of_what_it_complained_of_is_shown(tmp_path: Path, runs: Path) -> None:
    code = "import sys; sys.stderr.write('noise\\n' * 100_000 + 'this is why\\n'); sys.exit(1)"
    error = failed(agent(program(tmp_path, code)).wake(agent_request()))
    assert error.endswith("noise\nthis is why") and len(error) < 400


def test_a_hanging_program_is_ended(tmp_path: Path, runs: Path) -> None:
    code = f"""
    import pathlib, signal, time
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print('begun', flush=True)
    pathlib.Path({str(tmp_path / "told")!r}).touch()
    time.sleep(60)
    """
    reply = timed_from(tmp_path / "told", agent(program(tmp_path, code))).wake(agent_request(patience=0.5))
    assert reply.error == "timed out after 0.5 s" and reply.text == "begun" and reply.exit_code is None


def test_a_program_that_is_asked_to_end_may_say_its_last_words(tmp_path: Path, runs: Path) -> None:
    code = f"""
    import pathlib, signal, sys, time
    def end(*_):
        print('{{"result": "half of it", "usage": {{"input_tokens": 7}}}}')
        sys.exit(0)
    signal.signal(signal.SIGTERM, end)
    pathlib.Path({str(tmp_path / "told")!r}).touch()
    time.sleep(60)
    """
    patient = agent(program(tmp_path, code), limits=ProcessLimits(grace=20.0))
    reply = timed_from(tmp_path / "told", patient).wake(agent_request(patience=0.5))
    assert (reply.error, reply.text, reply.spent) == ("timed out after 0.5 s", "half of it", Spent(7))


@pytest.mark.parametrize("reason", [StopReason.LEASE, StopReason.SHUTDOWN])
def test_where_there_is_no_time_for_last_words_none_are_waited_for(
    tmp_path: Path, runs: Path, reason: StopReason
) -> None:
    """After a lost lease somebody else may do the run by now, and a worker that ends has to record it."""
    deaf = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    command = program(tmp_path, deaf + TELL_ITS_TREE.format(path=str(tmp_path / "told")))
    run = Background(agent(command, limits=ProcessLimits(grace=40.0)))
    told(tmp_path / "told")
    run.stop(reason)
    assert failed(run.reply()).endswith("before it was done")


@pytest.mark.later
@pytest.mark.parametrize("stream", [1, 2])
def test_a_flood_is_no_matter(tmp_path: Path, runs: Path, stream: int) -> None:
    code = f"""
    import os
    os.write({stream}, b'first words ')
    for _ in range(100):
        os.write({stream}, b'x ' * 524288)
    os.write({stream}, b'last words')
    os._exit({stream - 1})
    """
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    reply = agent(program(tmp_path, code)).wake(agent_request())
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 40 * 1024, f"{grown} kB"
    if stream == 1:
        assert reply.error is None and reply.text.startswith("first words x") and reply.text.endswith("x last words")
        assert len(reply.text) < 1_100_000 and "bytes are left out" in reply.text
    else:
        assert failed(reply).endswith("x x last words") and len(failed(reply)) <= 500


def test_descriptors_are_closed(tmp_path: Path, runs: Path) -> None:
    woken = agent(program(tmp_path, ECHO))
    woken.wake(agent_request())
    before = open_descriptors()
    woken.wake(agent_request())
    agent(program(tmp_path, "import os; os.kill(0, 9)", "killer")).wake(agent_request())
    assert open_descriptors() <= before


def test_closing_ends_what_runs(tmp_path: Path, runs: Path) -> None:
    woken = agent(program(tmp_path, TELL_ITS_TREE.format(path=str(tmp_path / "told"))))
    run = Background(woken)
    told(tmp_path / "told")
    woken.close()
    assert run.reply().error == "the worker stopped before it was done"


def test_what_it_does_is_reported(tmp_path: Path, runs: Path) -> None:
    """A preset tells which tool is being used; the token is not in it."""
    event = {"type": "item.started", "item": {"id": "1", "type": "mcp_tool_call", "tool": f"list {NOWHERE.token}"}}
    done = {"type": "turn.completed", "usage": {}}
    code = f"""
    import pathlib, time
    print({json.dumps(event)!r}, flush=True)
    while not pathlib.Path({str(tmp_path / "heard")!r}).exists():
        time.sleep(0.01)
    print({json.dumps(done)!r})
    """
    reports: list[str] = []
    woken = command_agent("test", preset="codex", command=[executable(tmp_path, code, "codex")])
    run = Background(woken, agent_request(report=reports.append))
    eventually(lambda: reports, 30, "a report came")
    (tmp_path / "heard").touch()
    assert reports == ["called list ***"] and run.reply().error is None


# -- settings that cannot be --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "field", "words"),
    [
        ({}, "command", "agents.test: name a preset, or a command as a list of words"),
        ({"command": ["agent", ""]}, "command", "name a preset, or a command"),
        ({"command": ["agent", "a\0b"]}, "command", "name a preset, or a command"),
        ({"command": ["agent"], "prompt": "file"}, "prompt", "prompt is stdin or argument, not 'file'"),
        ({"preset": "claude", "prompt": "argument"}, "prompt", "leave prompt out"),
        ({"preset": "cloud"}, "preset", "there is no 'cloud'; choose from claude, codex, gemini, goose, opencode"),
        ({"command": ["agent", "-m{model}"]}, "model", "contains {model}; name a model"),
    ],
)
def test_settings_that_cannot_be(given: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        command_agent("test", **given)
    assert refused.value.field == field and words in refused.value.message
