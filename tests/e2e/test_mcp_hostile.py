"""Whatever is sent, the answer is clear, the server lives on, and nothing of its inside is shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_mcp_tools import CALLS
from tests.support.mcp import ROUTES, World, leaks, unique, world
from tests.support.raw import HttpLine, Line, StdioLine, call, stdio_line

MEGABYTE = 1024 * 1024
SURROGATE = r'"\ud800"'
TEXTS = [
    '""',
    '" "',
    r'"\u0000"',
    r'"a\u0000b"',
    SURROGATE,
    r'"a\udfffb"',
    r'"\u202e\u2066\ufeff\u0007\u001b[31m"',
    json.dumps("' OR 1=1; DROP TABLE schedules; --"),
    json.dumps("../../../../etc/passwd"),
    json.dumps("%s%n${jndi:ldap://127.0.0.1}{{7*7}}{0.__class__}"),
    json.dumps("<script>alert(1)</script>"),
    '"NaN"',
    '"-1"',
    '"null"',
    json.dumps("x" * 70_000),
    json.dumps("é" * 300),
]
NUMBERS = [
    "0", "-1", "1.5", "9007199254740993", "9223372036854775807", "9223372036854775808", "-9223372036854775809",
    "1" + "0" * 40, "1e308", "-1e308", "1e-320", "2.0",
]  # fmt: skip
OTHERS = ["true", "false", "null", "[]", "[[]]", "[null]", '["x"]', "{}", '{"a": 1}', '{"": {"": []}}', "[1, {}]"]
VALUES = [*TEXTS, *NUMBERS, *OTHERS]
NO_JSON = ["NaN", "Infinity", "-Infinity", "1e999", "01", "'x'", "undefined", "{", "]", "// hello"]


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A server of its own: one that could be killed here would take other tests with it."""
    with world(tmp_path_factory.mktemp("hostile")) as made:
        yield made


@pytest.fixture(scope="module", params=ROUTES)
def line(request: pytest.FixtureRequest, there: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    transport, _, era = request.param.partition("-")
    if transport == "stdio":
        folder = tmp_path_factory.mktemp("hostile-stdio")
        with stdio_line(folder, era) as made:
            yield made
        _complaints(folder / "errors.txt")
        return
    token = there.token(unique("mallory"))
    with closing(HttpLine(there.served.url, token, era)) as opened:
        yield opened


@pytest.fixture(scope="module")
def stdio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StdioLine]:
    with stdio_line(tmp_path_factory.mktemp("unreadable"), "2025-11-25") as made:
        yield made


def _complaints(errors: Path) -> None:
    text = errors.read_text(errors="replace")
    assert "Traceback" not in text, text[:3000]


def is_alive(line: Line) -> None:
    names = {tool["name"] for tool in json.loads(line.ask("tools/list"))["result"]["tools"]}
    assert names == set(CALLS)


def clear(answer: str, about: object = "") -> dict[str, Any]:
    """It is a message, it says nothing of the inside, and no error came as a surprise to the server."""
    assert not leaks(answer), (about, answer[:500])
    message: dict[str, Any] = json.loads(answer)
    assert "failed inside Duetime" not in answer, (about, answer[:500])
    if "error" in message:
        assert message["error"]["code"] != -32603, (about, answer[:500])
        assert message["error"]["message"], about
    else:
        [content] = message["result"]["content"]
        assert content["text"], about
    return message


def with_argument(tool: str, name: str, value: str) -> str:
    given = {key: json.dumps(each) for key, each in CALLS[tool].items() if key != name} | {name: value}
    return "{" + ", ".join(f"{json.dumps(key)}: {each}" for key, each in given.items()) + "}"


def schemas(line: Line) -> dict[str, dict[str, Any]]:
    listed = json.loads(line.ask("tools/list"))["result"]["tools"]
    return {tool["name"]: tool["inputSchema"] for tool in listed}


SPARING = {"send_push_notification"}
"""It waits for a worker to deliver; a few values are enough there."""


@pytest.mark.parametrize("tool", sorted(CALLS))
def test_every_value_in_every_argument(line: Line, tool: str) -> None:
    values = VALUES if isinstance(line, HttpLine) and line.era == "2026-07-28" else VALUES[::9]
    for name in schemas(line)[tool]["properties"]:
        for value in values[:: 4 if tool in SPARING else 1]:
            clear(call(line, tool, with_argument(tool, name, value)), (tool, name, value[:60]))
    is_alive(line)


def test_text_that_is_no_text_is_named(line: Line) -> None:
    """In every argument that takes a text, of every tool."""
    for tool, schema in schemas(line).items():
        for name, argument in schema["properties"].items():
            if "string" not in argument["type"]:
                continue
            for value in (r'"a\u0000b"', SURROGATE):
                message = clear(call(line, tool, with_argument(tool, name, value)))
                words = json.dumps(message)
                assert message.get("result", {}).get("isError") or "error" in message, (tool, name, words)


def test_texts_of_megabytes(line: Line) -> None:
    big = json.dumps("a" * (4 * MEGABYTE))
    for tool, name in (
        ("schedule", "prompt"),
        ("schedule", "at"),
        ("schedule_job", "name"),
        ("schedule_job", "task"),
        ("job_status", "job_id"),
        ("schedule_cron_notification", "message"),
        ("schedule_cron_notification", "cron"),
        ("get_current_time", "timezone"),
    ):
        message = clear(call(line, tool, with_argument(tool, name, big)), (tool, name))
        said = json.dumps(message)
        assert '"success": true' not in said and "Scheduled" not in said, (tool, name)
        if name != "job_id":  # an unknown one is quoted as it was given
            assert len(said) < 4000, (tool, name, len(said))
    is_alive(line)


def test_names_of_megabytes(line: Line) -> None:
    """Where a name is looked up: tools, arguments, resources, prompts."""
    big = "a" * MEGABYTE
    for answer in (
        line.ask("tools/call", json.dumps({"name": big, "arguments": {}}), None if line.era == "2025-11-25" else "x"),
        call(line, "list_jobs", json.dumps({big: 1})),
        line.ask("resources/read", json.dumps({"uri": f"jobs://{big}"}), f"jobs://{big[:1000]}"),
        line.ask("prompts/get", json.dumps({"name": big}), "x"),
    ):
        assert not leaks(answer)
        assert len(answer) < 5000, answer[:300]
    is_alive(line)


@pytest.mark.parametrize("levels", [100, 10_000])
@pytest.mark.parametrize("brackets", ["[]", "{}"])
def test_deep_json(line: Line, levels: int, brackets: str) -> None:
    deep = {"[]": "[" * levels + "]" * levels, "{}": '{"a":' * levels + "1" + "}" * levels}[brackets]
    for tool, name in (
        ("schedule_job", "args"),
        ("schedule_job", "kwargs"),
        ("schedule_job", "trigger_config"),
        ("preview_schedule", "trigger_config"),
        ("send_push_notification", "actions"),
        ("send_push_notification", "tags"),
        ("list_jobs", "status"),
    ):
        answer = call(line, tool, with_argument(tool, name, deep))
        assert not leaks(answer), answer[:500]
        assert "failed inside Duetime" not in answer, (tool, name)
    is_alive(line)


@pytest.mark.parametrize("value", NO_JSON)
def test_what_is_no_json(line: Line, value: str) -> None:
    answer = call(line, "preview_schedule", f'{{"trigger_type": "interval", "trigger_config": {{"hours": {value}}}}}')
    assert not leaks(answer)
    assert "failed inside Duetime" not in answer
    assert '"next"' not in answer, "it was taken for a number"
    is_alive(line)


@pytest.mark.parametrize("seconds", ["NaN", "Infinity", "1e400", "-1e400"])
def test_a_timeout_that_is_no_number(line: Line, seconds: str) -> None:
    for tool in ("schedule_job", "schedule", "schedule_cron_notification", "schedule_notification"):
        answer = call(line, tool, with_argument(tool, "timeout_seconds", seconds))
        assert not leaks(answer)
        assert "failed inside Duetime" not in answer


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x00",
        b"\xff\xfe\xfd",
        b"null",
        b"[]",
        b"[" * 10_000,
        b'{"jsonrpc": "2.0"}',
        b'{"jsonrpc": "1.0", "id": 1, "method": "tools/list"}',
        b'{"jsonrpc": "2.0", "id": {}, "method": "tools/list"}',
        b'{"jsonrpc": "2.0", "id": 1, "method": 5}',
        b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": []}',
        b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": 5, "arguments": 5}}',
        b'{"jsonrpc": "2.0", "id": 1, "method": "no/such/method"}',
        b'[{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}]',
        b'{"jsonrpc": "2.0", "id": "' + b"x" * 100_000 + b'", "method": "tools/list"}',
    ],
    ids=range(15),
)
def test_messages_that_are_none(line: Line, body: bytes) -> None:
    answer = line.send(body)
    assert not leaks(answer), answer[:500]
    is_alive(line)


@pytest.mark.parametrize(
    ("body", "number"),
    [
        (b'{"jsonrpc": "2.0", "id": 77, "method": "tools/call", "params": {"name": "\\ud800"}}', 77),
        (b'{"id":"a-7","jsonrpc":"2.0","method":"tools/call","params":' + b"[" * 10_000, "a-7"),
        (b'{"method":"tools/call","params":{"name":"\\ud800"},"jsonrpc":"2.0","id":78}', 78),
        (b'{"method":"tools/call","params":{"id":5,"name":"\\ud800"}', None),
        (b"hello", None),
    ],
    ids=["first", "text", "last", "elsewhere", "none"],
)
def test_over_stdio_whoever_sent_the_unreadable_is_told(
    body: bytes, number: int | str | None, stdio: StdioLine
) -> None:
    """Its client waits for an answer under that id; without one it would wait in vain."""
    message = stdio.told(body)
    assert message["id"] == number
    assert message["error"]["code"] == -32700
    assert message["error"]["message"].startswith("This message cannot be read")
    is_alive(stdio)


@pytest.mark.parametrize(
    "uri",
    [
        "", "x", "jobs://", "jobs://%00", "jobs://%ff", "jobs://a/b", "jobs://" + "%2e%2e%2f" * 10, "file:///etc/passwd",
        "schedules://%E2%80%AE", "schedules://a%00b", "prompts://runs/-1", "prompts://runs/" + "9" * 30,
        "prompts://runs/٣", "prompts://runs/1e3", "http://127.0.0.1/", "jobs://{job_id}", "JOBS://x",
    ],
)  # fmt: skip
def test_uris_that_lead_nowhere(line: Line, uri: str) -> None:
    answer = line.ask("resources/read", json.dumps({"uri": uri}), uri.encode("ascii", "replace").decode() or "x")
    message = json.loads(answer)
    assert "error" in message, answer[:300]
    assert message["error"]["code"] != -32603
    assert not leaks(answer.replace(uri, "")), answer[:300]
    is_alive(line)


def test_ids_of_other_kinds(line: Line) -> None:
    """What is there, asked for as something else, is not there; the tools for all kinds take it."""

    def made(tool: str, name: str) -> Any:
        message = json.loads(call(line, tool, json.dumps(CALLS[tool])))
        return message["result"]["structuredContent"][name]

    job, number = made("schedule_job", "job_id"), made("schedule", "id")
    schedule, message = made("schedule_cron_notification", "schedule_id"), made("schedule_notification", "message_id")
    for other in (schedule, message, str(number)):
        for tool, refusal in (("job_status", f"Job not found: {other}"), ("cancel_job", '"cancelled": false')):
            said = call(line, tool, json.dumps({"job_id": other}))
            assert refusal in json.loads(said)["result"]["content"][0]["text"]
    for other, kind in ((job, "job"), (str(number), "prompt")):
        for verb in ("pause", "resume"):
            said = json.loads(call(line, f"{verb}_schedule", json.dumps({"schedule_id": other})))
            done = said["result"]["structuredContent"]
            assert (done["success"], done["kind"]) == (True, kind)
    own = json.loads(call(line, "job_status", json.dumps({"job_id": job})))["result"]["structuredContent"]
    assert own["status"] == "pending"


def test_a_request_that_is_too_large(there: World) -> None:
    answer = there.raw(there.token(unique("mallory")), b'{"x": "' + b"a" * (9 * MEGABYTE) + b'"}')
    assert answer.status_code == 413
    assert not leaks(answer.text)
