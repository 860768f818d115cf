"""`fetch`: a page's text for pipelines, by the guarded way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from duetime.compose import App, build
from duetime.core.kind import Caller
from duetime.kinds.page_text import page_text
from duetime.settings import Settings
from duetime.wiring.tasks import LARGEST, NotFetched
from tests.support.receiver import Behaviour, Receiver, Request

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
    if request.path == "/endless":
        return Behaviour(headers={"Content-Type": "text/plain"}, body=b"a" * (LARGEST + 1))
    if request.path == "/plain":
        return Behaviour(headers={"Content-Type": "text/plain; charset=latin-1"}, body="Grün".encode("latin-1"))
    return Behaviour(headers={"Content-Type": "text/html"}, body=PAGE)


def fetch_of(app: App) -> Callable[[str], str]:
    task = app.registry.get("fetch")
    assert task is not None
    return task.function


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
    ],
)
def test_text_of_pages(html: str, text: str) -> None:
    assert page_text(html) == text
