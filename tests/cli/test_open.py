"""`open` and `token` give what signs in only to the server of the store, whoever listens at its address by now."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from duetime.app import open_store
from duetime.service.published import read_publication
from tests.support.agents import serving
from tests.support.cli import Cli
from tests.support.web import Site, site

COMMANDS = (("open", "--link"), ("token", "link"), ("token", "calendar"))
NONCE = "ab" * 16


class Stranger(BaseHTTPRequestHandler):
    """Another program, which says that it is Duetime, and passes questions on to a real server if it knows one."""

    real: int = 0
    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        said = b'{"status": "ok", "service": "duetime", "proof": "00"}'
        if self.real:
            connection = HTTPConnection("127.0.0.1", self.real, timeout=30)
            connection.request("GET", self.path)
            said = connection.getresponse().read()
            connection.close()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def stranger(real: int = 0, address: str = "127.0.0.1", port: int = 0) -> Iterator[tuple[str, list[str]]]:
    asked: list[str] = []
    handler = type("Handler", (Stranger,), {"real": real, "asked": asked})
    with ThreadingHTTPServer((address, port), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://{address}:{server.server_port}", asked
        server.shutdown()
        thread.join()


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    with site(tmp_path) as made:
        monkeypatch.setenv("DUETIME_DB", str(tmp_path / "my.db"))
        made.room.publish(f"http://127.0.0.1:{made.port}")
        yield made


def assert_refused(cli: Cli, url: str, asked: list[str], *more: str) -> None:
    for command in COMMANDS:
        answer = cli(*command, *more)
        assert answer.code != 0 and answer.out == "" and "/login" not in answer.err
        assert f"what answers at {url} is not the server of the store" in answer.err and "--port" in answer.err
    assert len(asked) == len(COMMANDS) and all(path.startswith("/.well-known/duetime?nonce=") for path in asked)


@pytest.mark.socket
def test_the_server_of_the_store_gets_it(cli: Cli, own: Site) -> None:
    for command in COMMANDS:
        assert cli(*command).out.startswith(f"http://127.0.0.1:{own.port}/"), command
        assert cli(*command, "--port", str(own.port)).code == 0


@pytest.mark.socket
def test_another_program_at_its_address_gets_nothing(cli: Cli, own: Site) -> None:
    with stranger() as (url, asked):
        own.room.publish(url)
        assert_refused(cli, url, asked)
    assert "no Duetime server answers" in cli("open").err, "nor is it there any more"


@pytest.mark.socket
def test_nor_does_one_that_passes_the_question_on_to_the_server(cli: Cli, own: Site) -> None:
    with stranger(own.port) as (url, asked):
        own.room.publish(url)
        assert_refused(cli, url, asked)


@pytest.mark.socket
def test_nor_does_one_that_does_so_at_another_address_with_the_same_port(cli: Cli, own: Site) -> None:
    with stranger(own.port, "127.0.0.2", own.port) as (url, asked):
        assert_refused(cli, url, asked, "--host", "127.0.0.2", "--port", str(own.port))
        assert cli("open", "--link", "--host", "localhost", "--port", str(own.port)).code == 0


@pytest.mark.socket
def test_nor_does_the_server_of_another_store(cli: Cli, own: Site, tmp_path: Path) -> None:
    other = str(tmp_path / "other.db")
    for db in (other, str(tmp_path / "none.db")):
        if db == other:
            with site(tmp_path / "other", db=other) as there:
                there.room.publish(f"http://127.0.0.1:{there.port}")
        answer = cli("open", "--db", db, "--port", str(own.port))
        assert f"is not the server of the store {db}" in answer.err and "name its store with --db" in answer.err
    assert not (tmp_path / "none.db").exists()


@pytest.mark.socket
def test_the_proof_tells_nothing_else_and_needs_a_fresh_question(own: Site) -> None:
    published = read_publication(own.room.store.published())
    assert published is not None
    first, second = (own.ask("GET", f"/.well-known/duetime?nonce={nonce}").json for nonce in (NONCE, "cd" * 16))
    assert first.keys() == {"service", "proof"} and first["proof"] != second["proof"] != published.key
    for nonce in ("", "x" * 32, "ab" * 1000):
        assert own.ask("GET", f"/.well-known/duetime?nonce={nonce}").status == 400


@pytest.mark.socket
def test_a_server_gets_it_after_another_one_on_its_store_has_stopped(cli: Cli, own: Site) -> None:
    before = read_publication(own.room.store.published())
    published = own.room.publish("http://127.0.0.1:1")  # as the other one does when it starts and stops
    own.room.withdraw_address(published)
    for command in COMMANDS:
        answer = cli(*command, "--port", str(own.port))
        assert answer.code == 0 and answer.out.startswith(f"http://127.0.0.1:{own.port}/"), (command, answer.err)
    with stranger(own.port) as (url, asked):
        assert_refused(cli, url, asked, "--port", url.rpartition(":")[2])
    found = read_publication(own.room.store.published())
    assert found is not None and before is not None and found.url == "" and found.key != before.key


@pytest.mark.later
@pytest.mark.process
def test_a_server_that_stops_withdraws_its_address_and_not_that_of_another(cli: Cli, tmp_path: Path) -> None:
    def published_url() -> str:
        store = open_store(str(tmp_path / "my.db"))
        try:
            found = read_publication(store.published())
        finally:
            store.close()
        assert found is not None
        return found.url

    with serving(tmp_path) as first, serving(tmp_path, "--no-auth") as second:
        first.process.terminate()
        first.process.wait(30)
        url = second.url.removesuffix("/mcp")
        assert published_url() == url and cli("open", "--db", "my.db").out.startswith(url)
        second.process.terminate()
        second.process.wait(30)
        assert published_url() == ""
