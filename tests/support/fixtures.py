"""Fixtures that tests of several packages use: the command line, servers and simulations, all in this process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from typer.main import get_command

from duetime.app import build
from duetime.cli.main import main
from duetime.settings import Settings
from tests.support.api import Api, Client, serving_api
from tests.support.browsing import Browser, signed_in
from tests.support.cli import Answer, Cli
from tests.support.qstash import QStashHarness, counter
from tests.support.qstash_standin import StandIn
from tests.support.stage import Stage
from tests.support.web import Site, site

STORED = frozenset({
    "job", "prompt", "notify", "request", "change", "dead", "run", "runs", "import", "db",
    "show", "history", "stop", "pause", "resume", "cancel", "delete", "emit", "apply",
})  # fmt: skip
STORED_ALONE = frozenset({"upcoming", "inbox", "doctor", "export", "backup", "list", "tail", "top"})
"""Commands that open a store: those with subcommands, and those without."""
BUILT_ONCE = cache(get_command)
"""Typer builds a command again for each call, which takes as long as most commands; a real process calls only one."""


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """The command line in an empty folder, with only the given settings; on `my.db` unless another store is named."""
    for name in [name for name in os.environ if name.startswith("DUETIME_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("duetime.cli.root.get_command", BUILT_ONCE)

    def call(*arguments: str) -> Answer:
        command = arguments[0] if arguments else ""
        stored = (command in STORED and len(arguments) > 1) or command in STORED_ALONE
        ours = stored and not {"--db", "--help"} & set(arguments)
        if ours and command != "doctor" and not (tmp_path / "my.db").exists():
            build(Settings(db=str(tmp_path / "my.db"))).close()  # reading commands create no store
        given = (*arguments, "--db", "my.db") if ours else arguments
        capsys.readouterr()
        code = main(given)
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return call


@pytest.fixture
def harness() -> Iterator[QStashHarness]:
    """QStash's API on a settable clock, with a simulated receiver."""
    with counter() as made:
        yield made


@pytest.fixture
def qstash() -> Iterator[StandIn]:
    """A QStash replacement that misbehaves on request."""
    with StandIn() as there:
        yield there


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One server per test file."""
    with site(tmp_path_factory.mktemp("site")) as made:
        yield made


@pytest.fixture(scope="module")
def local(served: Site) -> Browser:
    return signed_in(served)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(str(tmp_path / "duetime.db"))
    yield made
    made.time.close()


@pytest.fixture(params=["sqlite", "postgres"])
def both(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    url = request.getfixturevalue("clean_postgres_url") if request.param == "postgres" else str(tmp_path / "duetime.db")
    made = Stage(url)
    yield made
    made.time.close()


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    """The REST API and the dashboard in this process, on a settable clock."""
    with serving_api(tmp_path) as made:
        yield made


@pytest.fixture
def ada(api: Api) -> Client:
    """An owner that uses the API."""
    return api.client("ada")
