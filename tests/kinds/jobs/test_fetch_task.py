"""`fetch`: a page's text for pipelines, by the guarded way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from duetime.app import App, build
from duetime.engine.clock import SystemClock
from duetime.engine.errors import InvalidInput
from duetime.engine.kind import Caller, StopReason, StopSignal
from duetime.engine.model import Schedule
from duetime.engine.outcome import Completed, Failed, Outcome
from duetime.engine.validation import NewSchedule
from duetime.kinds.jobs.builtin import LARGEST, NotFetched, charset_of, page_text
from duetime.kinds.jobs.context import TaskContext
from duetime.settings import Settings
from tests.support.jobs import make_work
from tests.support.receiver import Behaviour, Fault, Receiver, Request
from tests.support.refusals import refusal_of

PAGE = (
    b"<html><head><title>x</title><script>bad()</script></head><body><h1>Plants</h1><p>All &amp; <b>green</b>.</body>"
)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver(_answer) as made:
        yield made


def _answer(request: Request) -> Behaviour:
    if request.path == "/gone":
        return Behaviour(status=404)
    if request.path == "/undefined":
        return Behaviour(headers={"Content-Type": "text/plain; charset=undefined"}, body=b"text")
    if request.path == "/endless":
        return Behaviour(headers={"Content-Type": "text/plain"}, body=b"a" * (LARGEST + 1))
    if request.path == "/plain":
        return Behaviour(headers={"Content-Type": "text/plain; charset=latin-1"}, body="Grün".encode("latin-1"))
    return Behaviour(headers={"Content-Type": "text/html"}, body=PAGE)


def fetch_of(app: App) -> Callable[[str], str]:
    """In this process, for what does not depend on where it runs."""
    task = app.registry.get("fetch")
    assert task is not None
    return lambda url: str(task.call([url], {}, _no_context))


def _no_context() -> TaskContext:
    raise AssertionError("fetch asks for no context")


def executed(app: App, task: str, *args: str, stop: StopSignal | None = None) -> Outcome:
    """As a worker carries it out: in a process of its own."""
    return app.kinds["job"].execute(make_work(task, *args, stop=stop))


def opened(tmp_path: Path, *allowed: str) -> App:
    return build(Settings(db=str(tmp_path / "due.db"), allowed_hosts=allowed), tasks=False)


def test_it_returns_what_a_reader_sees(tmp_path: Path, receiver: Receiver) -> None:
    app = opened(tmp_path, "127.0.0.1")
    try:
        fetch = fetch_of(app)
        assert fetch(f"{receiver.url}/page") == "Plants\nAll & green."
        assert fetch(f"{receiver.url}/plain") == "Grün"
        with pytest.raises(NotFetched, match="status 404"):
            fetch(f"{receiver.url}/gone")
    finally:
        app.close()


def test_of_a_huge_page_only_the_beginning_is_read(tmp_path: Path, receiver: Receiver) -> None:
    app = opened(tmp_path, "127.0.0.1")
    try:
        assert fetch_of(app)(f"{receiver.url}/endless") == "a" * LARGEST
    finally:
        app.close()


def test_it_runs_in_a_process_of_its_own_which_a_stop_ends(tmp_path: Path, receiver: Receiver) -> None:
    app = opened(tmp_path, "127.0.0.1")
    stop = StopSignal()
    clock, stopped = SystemClock(), list[float]()

    def stop_and_say_nothing(request: Request) -> Behaviour:
        stopped.append(clock.monotonic())
        stop.set(StopReason.TIMEOUT)
        return Behaviour(fault=Fault.SILENCE)

    receiver.behave = stop_and_say_nothing
    try:
        outcome = executed(app, "fetch", f"{receiver.url}/silence", stop=stop)
        assert isinstance(outcome, Failed)
        assert outcome.error.startswith("timed out")
        assert clock.monotonic() - stopped[0] < 15  # its own patience is 20 s
    finally:
        app.close()


def test_a_pipeline_with_it_runs_in_one_process_with_the_allowed_hosts(tmp_path: Path, receiver: Receiver) -> None:
    app = opened(tmp_path, "127.0.0.1")
    try:
        assert executed(app, f"fetch('{receiver.url}/page') | shorten(words=2) | echo") == Completed('"Plants All ..."')
        apart = f"fetch('{receiver.url}/page') and echo('no page at all') | shorten(words=2)"
        assert executed(app, apart) == Completed('"no page ..."')
        assert app.kinds["job"]._planner.known("fetch('x') | shorten").in_one_process  # type: ignore[attr-defined]
        assert app.kinds["job"]._planner.known(apart).in_one_process  # type: ignore[attr-defined]
        refused = executed(app, f"fetch('{receiver.url}/gone') | shorten")
        assert refused == Failed(
            "NotFetched: the page was answered with status 404; redirects are not followed", permanent=True
        )
    finally:
        app.close()


def test_the_hosts_that_are_allowed_are_no_argument_of_its_callers(tmp_path: Path) -> None:
    app = opened(tmp_path, "10.0.0.1")
    try:
        task = app.registry.get("fetch")
        assert task is not None
        assert list(task.describe()["arguments"]["properties"]) == ["url"]
        payload = {"task": "fetch", "kwargs": {"url": "https://example.org", "allowed_hosts": ["127.0.0.1"]}}
        with pytest.raises(InvalidInput, match="allowed_hosts"):
            app.kinds["job"].prepare(payload, Caller("ada"))
    finally:
        app.close()


def test_a_charset_that_is_none_of_web_pages_is_read_as_utf_8(tmp_path: Path, receiver: Receiver) -> None:
    app = opened(tmp_path, "127.0.0.1")
    try:
        assert fetch_of(app)(f"{receiver.url}/undefined") == "text"
    finally:
        app.close()


@pytest.mark.parametrize(
    ("content_type", "charset"),
    [
        ("text/html", "utf-8"),
        ("text/html; charset=ISO-8859-1", "iso8859-1"),
        ('text/html; charset="windows-1252"', "cp1252"),
        ("text/html; x=y; CHARSET = us-ascii", "ascii"),
        ("text/html; charset=Shift_JIS", "shift_jis"),
        *(
            (f"text/html; charset={odd}", "utf-8")
            for odd in ("punycode", "undefined", "idna", "utf_7", "zip", "no\0", "")
        ),
    ],
)
def test_only_encodings_of_web_pages_are_used(content_type: str, charset: str) -> None:
    assert charset_of(content_type) == charset


HOSTILE = ("<a ", "<svg>", "</head>", "<", "</", "<!--", "<!", "&", "&#", "<a ='", '<a x="', "<script>", "=")


@pytest.mark.parametrize("piece", HOSTILE)
def test_a_hostile_page_is_read_in_linear_time(piece: str) -> None:
    half = LARGEST // 8
    begun = time.process_time()
    for end in ("</head>", ">", "'"):
        page_text(piece * (half // len(piece)) + end * (half // len(end)))
    assert time.process_time() - begun < 3


def test_private_addresses_are_refused(tmp_path: Path, receiver: Receiver) -> None:
    app = opened(tmp_path)
    try:
        with pytest.raises(NotFetched, match="address"):
            fetch_of(app)(f"{receiver.url}/page")
        assert receiver.requests == []
    finally:
        app.close()


def test_every_owner_may_use_it(tmp_path: Path) -> None:
    app = opened(tmp_path)
    try:
        assert "fetch" in [task["name"] for task in app.registry.describe(Caller("ada"))]
    finally:
        app.close()


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("plain", "plain"),
        ("<p>one<p>two", "one\ntwo"),
        ("<style>a{}</style>seen<script>never</script> too", "seen too"),
        ("<script><p>a</script></p>b", "b"),
        ("a<svg><text>no</text></svg>b<unknown>c", "abc"),
        ("", ""),
        ("<p title='a>b'>it's <b x=\"y\">fine</b> 1 < 2</p><!-- <p>no -->x<!doctype html>y", "it's fine 1 < 2\nxy"),
        ("<head><title>no</title></head><SVG><text>no</SVG>&lt;seen&gt;", "<seen>"),
        ("<svg><template></svg>seen", "seen"),
        ("a&#" + "1" * 5000 + ";b&#65;", "a\ufffdbA"),
    ],
)
def test_text_of_pages(html: str, text: str) -> None:
    assert page_text(html) == text


@pytest.mark.parametrize("task", ["fetch", "echo('https://example.org') | fetch"])
def test_a_run_of_an_agent_without_the_web_cannot_schedule_it(tmp_path: Path, task: str) -> None:
    payload: dict[str, Any] = {"task": task, "args": ["https://example.org"] if task == "fetch" else []}
    app = opened(tmp_path)

    def create(caller: Caller, payload: dict[str, Any] = payload) -> Schedule:
        return app.scheduler.create(caller, NewSchedule("job", "x", "once", {"run_at": "in 5 minutes"}, payload))

    try:
        for grant in ("{}", '{"web": false}'):
            refused = refusal_of(create, Caller("ada", depth=1, grant=grant))
            assert "may not; ask a person" in refused.message
        create(Caller("ada", depth=1, grant="{}"), {"task": "echo"})
        for caller in (Caller("ada"), Caller("ada", depth=1, grant='{"web": true}')):
            create(caller)
    finally:
        app.close()
