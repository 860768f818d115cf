"""Fixtures for every test. PostgreSQL is started once, and only when a test asks for it."""

from __future__ import annotations

import gc
import importlib.metadata
import os
import ssl
import sys
import tempfile
import threading
from collections.abc import Generator, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import apsw
import httpcore2
import pytest
from hypothesis import HealthCheck, settings

from tests.support import postgres

pytest_plugins = [
    "tests.support.fixtures",
    "tests.support.quick",
    "tests.support.reporting",
    "tests.support.stages",
]

for name in list(os.environ):
    # What points this machine's own agents at their models and services is none of the tests' business.
    if name.startswith(("ANTHROPIC_", "OPENAI_", "GEMINI_", "GOOGLE_", "QSTASH_")):
        del os.environ[name]


_NO_SETTINGS = tempfile.TemporaryDirectory(prefix="duetime-no-settings-")
os.environ["XDG_CONFIG_HOME"] = _NO_SETTINGS.name
"""The settings file of whoever runs the tests is none of theirs."""

# A machine that does other work as well takes its time for an example.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

# Every HTTP client loads the certificate authorities of this machine, which takes longer than most tests.
_ONCE = pytest.MonkeyPatch()
_ONCE.setattr(ssl, "create_default_context", cache(ssl.create_default_context))
_ONCE.setattr(httpcore2, "default_ssl_context", cache(httpcore2.default_ssl_context))


_read_entry_points = cache(lambda folders, selected, read=importlib.metadata.entry_points: read(**dict(selected)))


def _entry_points(**selected: str) -> Any:
    """Read the files of all installed packages only if a folder of packages has changed: every application that is
    built asks for them, which takes longer than the rest of building it."""
    folders = tuple((folder, Path(folder).stat().st_mtime) for folder in sys.path if Path(folder).is_dir())
    return _read_entry_points(folders, tuple(selected.items()))


_ONCE.setattr(importlib.metadata, "entry_points", _entry_points)


@pytest.fixture(scope="session")
def migrated_memory(migrated_file: bytes) -> apsw.Connection:
    """A new SQLite store, to be copied into those in memory."""
    memory = apsw.Connection(":memory:")
    memory.deserialize("main", migrated_file[:18] + b"\1\1" + migrated_file[20:])  # without a WAL
    return memory


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The file of a new SQLite store."""
    from duetime.stores.sqlite.store import SqliteStore

    path = tmp_path_factory.mktemp("migrated") / "new.db"
    store = SqliteStore(path)
    store.migrate()
    store.close()
    return path.read_bytes()


FROM_NOTHING = (
    "faults", "kinds/jobs/test_clusters.py", "kinds/jobs/test_ray.py",
    "kinds/jobs/test_two_stores.py", "perf", "scorecard", "stores/test_maintenance.py",
)  # fmt: skip
"""Where new stores apply every migration, because that is tested or measured."""


@pytest.fixture(scope="module", autouse=True)
def new_stores(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let new SQLite stores begin with all tables: applying every migration takes longer than most tests. A file
    appears whole, as it may be opened by several at once."""
    from duetime.stores.sqlite import store
    from duetime.stores.sqlite.store_file import make_private

    if request.path.relative_to(Path(__file__).parent).as_posix().startswith(FROM_NOTHING):
        yield
        return
    make, migrate = make_private, store.SqliteStore.migrate
    content, whole_store = request.getfixturevalue("migrated_file"), request.getfixturevalue("migrated_memory")

    def make_with_tables(path: str) -> None:
        whole = Path(f"{path}.{os.getpid()}.{threading.get_ident()}")
        try:
            whole.touch(0o600)
            whole.write_bytes(content)
            Path(path).hardlink_to(whole)
        except OSError:
            make(path)
        finally:
            with suppress(OSError):
                whole.unlink(missing_ok=True)

    def migrate_by_copying(self: store.SqliteStore) -> None:
        if self.in_memory and self._writer.pragma("user_version") == 0:
            with self._writer.backup("main", whole_store, "main") as copying:
                copying.step()
        migrate(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "make_private", make_with_tables)
        patch.setattr(store.SqliteStore, "migrate", migrate_by_copying)
        yield


@pytest.fixture(scope="module", autouse=True)
def own_secrets() -> Iterator[None]:
    """Let a process forget the secrets that it learnt from the tests of a file: it leaves them out of every text from
    then on, also out of those that the next file compares."""
    from duetime.engine import redaction

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(redaction, "_known", set(redaction._known))
        yield


@pytest.fixture(scope="session")
def postgres_server_url() -> Iterator[str]:
    """The shared server. Tests take `postgres_url` instead."""
    try:
        with postgres.server_url(durable=False) as url:
            yield url
    except postgres.NoPostgres as reason:
        pytest.skip(str(reason))


@pytest.fixture
def postgres_url(postgres_server_url: str) -> Iterator[str]:
    """An empty database of the test's own, dropped at its end."""
    with postgres.empty_database(postgres_server_url) as url:
        yield url


@pytest.fixture(scope="session")
def clean_databases(postgres_server_url: str) -> Iterator[postgres.CleanDatabases]:
    databases = postgres.CleanDatabases(postgres_server_url, _migrate)
    yield databases
    databases.close()


def _migrate(url: str) -> None:
    from duetime.app import open_store

    store = open_store(url)
    store.migrate()
    store.close()


@pytest.fixture
def clean_postgres_url(clean_databases: postgres.CleanDatabases) -> Iterator[str]:
    """A database with all tables and no rows."""
    with clean_databases.lend() as url:
        yield url


@pytest.fixture
def private_postgres() -> Iterator[postgres.PostgresServer]:
    """A server of the test's own, started, for tests that stop and start it."""
    try:
        with postgres.running_server(durable=False) as server:
            yield server
    except postgres.NoPostgres as reason:
        pytest.skip(str(reason))


LONG = (
    "rest/test_schema.py",
    "scorecard/test_small_counted.py",
    "stores/test_stateful.py",
    "faults/test_four_workers.py",
    "e2e/test_builtin_agents.py",
    "e2e/test_xss.py",
    "e2e/test_dashboard.py",
    "e2e/test_xss_doors.py",
    "e2e/test_documents.py",
    "e2e/test_mcp_hostile.py",
    "e2e/test_mcp_tools.py",
    "kinds/notifications/test_qstash_faults.py",
    "e2e/test_mcp_subscriptions.py",
    "faults/test_deliveries.py",
    "e2e/test_mcp_ownership.py",
    "e2e/test_serve.py",
    "kinds/prompts/test_tools.py",
    "faults/test_deaths.py",
    "faults/test_store_away.py",
    "kinds/prompts/test_builtin_agent.py",
    "cli/test_runs.py",
    "faults/test_stopped.py",
    "stores/test_completions.py",
    "stores/test_expensive_triggers.py",
    "e2e/test_heartbeats.py",
    "e2e/test_stdio.py",
    "service/test_calendar.py",
    "stores/test_postgres.py",
    "faults/test_slots.py",
)
"""Files that take longest. Files are spread over several processes, and one of these at the end keeps all waiting."""


WAITING = ("faults",)
"""Folders whose tests wait more than they work: they are spread among the others, so that no processor is idle."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    tests = Path(__file__).parent
    order: dict[Path, float] = {tests / name: place - len(LONG) for place, name in enumerate(LONG)}
    others = [path for path in dict.fromkeys(item.path for item in items) if path not in order]
    waiting = [path for path in others if path.relative_to(tests).parts[0] in WAITING]
    for group in (waiting, [path for path in others if path not in waiting]):
        order |= {path: (place + 0.5) / len(group) for place, path in enumerate(group)}
    items.sort(key=lambda item: order[item.path])


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Spare the garbage collector what stays until the end, the modules and tests that were loaded, and let it look for
    the rest less often than usual: most of it goes without the collector."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)
        gc.enable()
