"""Bodies that are expensive to parse: what they cost the event loop, whatever else the machine does."""

from __future__ import annotations

import json
import re
import threading
import time
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from duetime.engine.errors import Refused
from duetime.http import bodies
from duetime.http.bodies import IN_LOOP, MOST_BYTES, MOST_IN_BATCH, MOST_VALUES, most_bytes, parse_json
from scorecard.hostile_bodies import HostileBody, hostile_bodies
from tests.support.browsing import signed_in_as
from tests.support.web import INITIALIZE, Site, site

IN_THE_LOOP = 0.05
"""Seconds of the processor for each request: most of it for reading 8 MB."""
LEAST_OF = 3
BODIES = list(hostile_bodies())
WORDS = {"bytes": b"A request may have", "values": b"more than 50,000 values"}
EIGHT_MIB = 8 * 1024 * 1024
LONGEST_ITEM = 4002
COUNTING = 8_000_000
"""Bytes of memory that parsing may take besides three copies of the body."""
SEPARATORS = (b",", b":", b"[", b"{")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site(tmp_path_factory.mktemp("site")) as made:
        yield made


def loop_seconds() -> float:
    """Return the processor time that the thread of the event loop has used."""
    [loop] = [each for each in threading.enumerate() if each.name == "duetime-http"]
    assert loop.ident is not None
    return time.clock_gettime(time.pthread_getcpuclockid(loop.ident))


@pytest.mark.socket
@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.about)
def test_an_expensive_body_costs_the_event_loop_little(served: Site, body: HostileBody) -> None:
    own = signed_in_as(served, "mallory").headers if body.is_page else served.bearer("mallory")
    headers = {**body.headers, **own}
    costs = []
    for _ in range(LEAST_OF):
        before = loop_seconds()
        reply = served.ask("POST", body.path, headers, body.body)
        costs.append(loop_seconds() - before)
        assert reply.status < 500
        if body.exceeds:
            assert reply.status == 413 and WORDS[body.exceeds] in reply.body
        else:
            assert reply.status != 429 and not any(words in reply.body for words in WORDS.values()), "it was parsed"
    assert min(costs) < IN_THE_LOOP


def test_expensive_bodies_have_the_size_that_their_names_state() -> None:
    for body in BODIES:
        if body.about.endswith(" of 8 MB"):
            assert body.exceeds == "bytes" and 0 < EIGHT_MIB - len(body.body) < LONGEST_ITEM
        elif body.about.endswith(" within the limit"):
            assert 0 <= most_bytes(body.path) - len(body.body) < LONGEST_ITEM, body.about
        elif body.about.endswith(" values"):
            outside_of_texts = re.sub(rb'"[^"]*"', b"", body.body)
            assert MOST_VALUES - 1100 < sum(map(outside_of_texts.count, SEPARATORS)) <= MOST_VALUES, body.about
        else:
            assert " unknown fields" in body.about and len(body.body) < EIGHT_MIB
    assert len({body.about for body in BODIES}) == len(BODIES)
    assert {body.path for body in BODIES if not body.exceeds} == {body.path for body in BODIES}


# -- what is judged, and where it is parsed ---------------------------------------------------------------------------


def test_values_are_counted_outside_of_texts_only() -> None:
    assert len(parse_json(b"[" + b"1," * (MOST_VALUES - 2) + b"1]")) == MOST_VALUES - 1
    for text in (",:[{" * 20_000, '\\",:[{\\' * 10_000, "\\\\" * 30_000 + "," * 60_000):
        assert parse_json(json.dumps([text]).encode()) == [text]
    for body in (b"[" + b"1," * MOST_VALUES + b"1]", b"[" * (MOST_VALUES + 1), b"[" + b'"\\"",' * MOST_VALUES + b'""]'):
        with pytest.raises(Refused, match="more than 50,000 values; send fewer"):
            parse_json(body)
    wide = ('["\\"",' + "1," * MOST_VALUES + "1]").encode("utf-16")
    with pytest.raises(Refused, match="more than 50,000 values; send fewer"):
        parse_json(wide)
    for body in (b"[" * 5000, b"{", b"\xff", b"9" * 6000):
        with pytest.raises(ValueError):
            parse_json(body)


@pytest.mark.parametrize("texts", [MOST_VALUES, MOST_VALUES + 1, 4 * MOST_VALUES])
@pytest.mark.parametrize("text", [b'",,"', b'"\\",\\\\"', b'""'])
def test_counting_values_takes_little_memory_however_many_texts_there_are(text: bytes, texts: int) -> None:
    body = b"[" + b",".join([text] * texts) + b"]"
    tracemalloc.start()
    try:
        if texts <= MOST_VALUES:
            assert len(parse_json(body)) == texts
        else:
            with pytest.raises(Refused, match="more than 50,000 values; send fewer"):
                parse_json(body)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < COUNTING + 3 * len(body)


def test_numbers_of_a_large_body_are_those_of_a_small_one() -> None:
    numbers = "1, -7, 2.5, 1e3, -0.0, 12345678901234567890, 1e400"
    padded = f"[{numbers}, {json.dumps('x' * IN_LOOP)}]".encode()
    assert parse_json(padded)[:-1] == json.loads(f"[{numbers}]")


class Parser:
    """Notes which thread parses, and whether another large body is parsed meanwhile."""

    def __init__(self) -> None:
        self.threads: list[str] = []

    def loads(self, body: bytes, **options: Any) -> Any:
        assert bodies._alone.locked(), "one at a time"
        self.threads.append(threading.current_thread().name)
        return json.loads(body, **options)


CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
SCHEDULE = {"kind": "job", "name": "n", "trigger": {"type": "once", "delay": "9d"}}
PADDING = "x" * IN_LOOP
_META = {"clientInfo": {"name": "test", "version": "1"}, "clientCapabilities": {}}


@pytest.mark.socket
@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/api/v1/preview", {"when": "tomorrow", "timezone": PADDING}, 422),
        ("/api/v1/schedules", {**SCHEDULE, "payload": {"task": "echo", "args": [PADDING]}}, 201),
        ("/api/v1/runs/1/finish", {"text": PADDING}, 404),
        ("/v2/batch", [{"destination": "https://example.org", "body": PADDING}], 200),
    ],
)
def test_a_large_body_is_parsed_alone_and_in_a_thread(
    served: Site, monkeypatch: pytest.MonkeyPatch, path: str, body: Any, status: int
) -> None:
    parser = Parser()
    monkeypatch.setattr(bodies, "json", parser)
    headers = {"Content-Type": "application/json", **served.bearer()}
    assert served.ask("POST", path, headers, json.dumps(body).encode()).status == status
    assert len(parser.threads) == 1 and "duetime-http" not in parser.threads


@pytest.mark.socket
@pytest.mark.parametrize("era", ["2025-11-25", "2026-07-28"])
def test_large_arguments_of_a_tool_arrive(served: Site, monkeypatch: pytest.MonkeyPatch, era: str) -> None:
    parser = Parser()
    headers = {**served.bearer(), "MCP-Protocol-Version": era, "Mcp-Method": "tools/call", "Mcp-Name": "schedule_job"}
    if era < "2026":
        opened = served.post(INITIALIZE, headers)
        headers |= {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
    meta = {f"io.modelcontextprotocol/{name}": value for name, value in {**_META, "protocolVersion": era}.items()}
    arguments = {"name": "large", "task": "echo", "trigger_type": "once", "args": ["y" * 100_000]}
    params = {"name": "schedule_job", "_meta": meta, "arguments": {**arguments, "trigger_config": {"delay": "9d"}}}
    monkeypatch.setattr(bodies, "json", parser)
    reply = served.post({**CALL, "params": params}, headers)
    assert reply.status == 200 and b'"isError":true' not in reply.body.replace(b" ", b""), reply.body[:500]
    assert len(parser.threads) == 1 and "duetime-http" not in parser.threads
    found = served.ask("GET", "/api/v1/schedules?text=large&limit=1", headers).json["schedules"]
    assert found[0]["payload"]["args"][0].startswith("yyyy")


def test_limits_by_route() -> None:
    assert most_bytes("/v2/batch") == MOST_IN_BATCH
    for path in ("/api/v1/schedules", "/mcp", "/v2/publish/https://example.org", "/v2/messages"):
        assert most_bytes(path) == MOST_BYTES
    assert most_bytes("/new") == 3 * MOST_BYTES


@pytest.mark.socket
def test_a_form_of_non_ascii_text_may_have_three_times_the_bytes(served: Site) -> None:
    browser = signed_in_as(served, "ada")
    body = b"csrf=" + b"%E6%97%A5" * 80_000
    headers = {**browser.headers, "Content-Type": "application/x-www-form-urlencoded"}
    assert served.ask("POST", "/new", headers, body).status == 403, "it was read; only its proof is wrong"
