"""How a run reaches the tools: the server's address, or a server of its own with all that it needs to find."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from duetime.engine.clock import MINUTE, SystemClock
from duetime.engine.policy.claim import Claim
from duetime.kinds.prompts.access import RunAccess
from duetime.security.claims import Grant
from duetime.security.redaction import Secrets
from duetime.security.tokens import Tokens
from duetime.service.tokens import load_tokens
from duetime.settings import CONFIG, NotificationSettings, Settings, load_settings, user_file
from duetime.settings.own_commands import RUN_FOLDER, RUN_TOKEN, store_options
from duetime.stores.sqlite.store import SqliteStore
from tests.support.drafts import T0, once
from tests.support.hand import Hand, create
from tests.support.settings import write_trusted
from tests.support.tokens import MemoryRevocations

URL = "http://127.0.0.1:8765/mcp"


@pytest.fixture
def claim() -> Claim:
    store = SqliteStore(":memory:")
    store.migrate()
    create(store, once(kind="prompt", owner="ada"))
    [claim] = Hand(store).claim(T0, lanes=("prompt",))
    return claim._replace(definition=claim.definition._replace(depth=2))


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


def tokens() -> Tokens:
    made = load_tokens(Settings(), SystemClock(), MemoryRevocations())
    made.is_under_way = lambda _run, _fence: True
    return made


def test_the_servers_own_address(claim: Claim) -> None:
    access = RunAccess(Settings(url=URL), SystemClock(), "Europe/Berlin", MemoryRevocations())(claim, 60.0, 3, "{}")
    assert (access.url, access.command, access.env) == (URL, (), {})
    grant: Grant = tokens().verify(access.token)
    assert (grant.owner, grant.depth, grant.run, grant.fence) == ("ada", 3, claim.run.id, claim.run.fence)
    assert (grant.operator, grant.expires - grant.issued) == (False, 2 * MINUTE // 1_000_000)


def test_a_server_of_its_own(claim: Claim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"DUETIME_TIMEZONE": "Asia/Tokyo", "DUETIME_SECRET": "s" * 64, "AWS_KEY": "not-yours"}.items():
        monkeypatch.setenv(name, value)
    settings = Settings(db="my.db", tasks=("mine.py",), tools=("prompts",))
    access = RunAccess(settings, SystemClock(), "UTC", MemoryRevocations())(claim, 60.0, 3, "{}")
    assert access.url is None
    assert list(access.command) == [
        sys.executable, "-P", "-m", "duetime", "mcp", "--tasks", str(tmp_path / "mine.py"), "--tools", "prompts",
    ]  # fmt: skip
    assert access.token not in " ".join(access.command), "everybody on a machine sees arguments"
    assert access.env[RUN_TOKEN] == access.token and access.env[RUN_FOLDER] == str(tmp_path)
    assert access.env["DUETIME_DB"] == str(tmp_path / "my.db")
    assert (access.env["DUETIME_TIMEZONE"], access.env["DUETIME_SECRET"]) == ("Asia/Tokyo", "s" * 64)
    assert access.env["XDG_DATA_HOME"] == str(tmp_path / "data") and "AWS_KEY" not in access.env
    said = Secrets(access.token, access.env).without(f"{access.token} {'s' * 64}")
    assert said == "*** ***"


OF_POSTGRES = {"PGPASSWORD", "PGSSLMODE"}
OF_QSTASH = {"QSTASH_TOKEN", "QSTASH_URL", "DUETIME_NOTIFICATIONS_QSTASH_TOKEN", "DUETIME_NOTIFICATIONS_TOKEN"}
NEVER = {"DUETIME_TOKEN", "DUETIME_AUTHORIZATION", "DUETIME_RUN", "DUETIME_NOTIFICATIONS_KEY", "OPENAI_API_KEY"}
ALWAYS = {"DUETIME_CONFIG", "DUETIME_LEASE", "DUETIME_NOTIFICATIONS_SERVER", "DUETIME_HEARTBEAT_EVERY", "PYTHONPATH"}


@pytest.mark.parametrize(
    ("settings", "needed"),
    [
        (Settings(db="my.db"), set()),
        (Settings(db="postgres.db"), set()),
        (Settings(db="postgresql://me@host/db"), OF_POSTGRES),
        (Settings(db="my.db", notifications=NotificationSettings(backend="qstash")), OF_QSTASH),
    ],
    ids=["here", "in-a-file-of-that-name", "in-postgres", "at-qstash"],
)
def test_it_is_trusted_with_no_credential_that_it_does_not_need(
    settings: Settings, needed: set[str], claim: Claim, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything = OF_POSTGRES | OF_QSTASH | NEVER | ALWAYS
    for name in everything:
        monkeypatch.setenv(name, "something")
    access = RunAccess(settings, SystemClock(), "UTC", MemoryRevocations())(claim, 60.0, 3, "{}")
    assert set(access.env) & everything == needed | ALWAYS


def test_the_password_in_an_address_is_not_kept() -> None:
    url = "postgresql://me:hidden@host/db"
    assert Secrets("", {"DUETIME_DB": url}).without(f"I saw {url}") == "I saw ***"


@pytest.mark.parametrize("source", ["environment", "named file", "file of the folder"])
def test_a_terminal_knows_nothing_of_the_environment_and_folder_of_a_server(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f'db = "{tmp_path / "own.db"}"\n'
    if source == "environment":
        monkeypatch.setenv("DUETIME_DB", str(tmp_path / "own.db"))
    elif source == "named file":
        (tmp_path / "named.toml").write_text(text)
        monkeypatch.setenv(CONFIG, str(tmp_path / "named.toml"))
    else:
        write_trusted(tmp_path, text)
    assert store_options(load_settings()) == ["--db", str(tmp_path / "own.db")]


def test_a_terminal_finds_the_usual_store_and_that_of_the_users_own_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    assert store_options(load_settings()) == []
    user_file().parent.mkdir(parents=True)
    user_file().write_text('db = "own.db"\n')
    assert store_options(load_settings()) == []
    user_file().write_text("db = 5\n")
    assert store_options(Settings()) == ["--db", Settings().path_of_db()]
