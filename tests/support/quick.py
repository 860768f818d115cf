"""The option `--quick`: runs only tests that start no process, open no socket and need no PostgreSQL, and proves it.

Other tests carry a marker that says what they need. Some markers follow from the folder or from a fixture, the others
are written in the test files. A test without a marker that starts a process or opens a socket anyway fails.
"""

from __future__ import annotations

import multiprocessing.process
import socket
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import psycopg
import pytest

TESTS = Path(__file__).parents[1]

SELECTION = "not process and not socket and not postgres and not slow and not later"
"""What `--quick` runs, as an expression for `-m`."""

FOLDERS = {
    "agents": "process",
    "cli": "slow",
    "dashboard": "socket",
    "e2e": "process",
    "faults": "process",
    "perf": "slow",
    "rest": "slow",
    "scorecard": "process",
}
"""Folders whose tests all have the same requirement: they are not even imported."""

FILES = {
    "engine/policy/test_policies.py": "slow",
    "engine/policy/test_state_diagram.py": "slow",
    "engine/triggers/test_cron.py": "slow",
    "engine/triggers/test_step_budget.py": "slow",
    "engine/worker/test_retention.py": "slow",
    "kinds/notifications/test_tools.py": "slow",
    "kinds/prompts/test_envelope.py": "slow",
    "kinds/prompts/test_tools.py": "slow",
    "kinds/prompts/test_unknown_agents.py": "slow",
    "kinds/requests/test_qstash_logs.py": "slow",
    "kinds/test_installed_kind.py": "process",
    "net/test_host_limits.py": "slow",
    "service/test_expensive_rules.py": "slow",
    "stores/test_expensive_triggers.py": "slow",
    "stores/test_maintenance.py": "slow",
}
"""Files that take seconds, or whose tests start processes: they are not imported either."""

FIXTURES = {
    "postgres_server_url": "postgres",
    "postgres_url": "postgres",
    "private_postgres": "postgres",
    "qstash": "socket",
    "served": "socket",
}
"""Fixtures that mark the tests which use them."""

SUPPORT = {
    "agents": "process",
    "backends": "socket",
    "browsing": "socket",
    "chatting": "process",
    "channels": "socket",
    "deliveries": "socket",
    "documents": "process",
    "isolated": "process",
    "model_server": "socket",
    "ntfy": "socket",
    "programs": "process",
    "qstash_standin": "socket",
    "receiver": "socket",
    "strangers": "socket",
    "terminal": "process",
    "web": "socket",
    "worker_process": "process",
    "workers": "process",
}
"""Modules of tests/support that mark the test files which import from them."""

PROCESS_EVENTS = frozenset(
    {"os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system", "pty.spawn", "subprocess.Popen"}
)
SOCKET_EVENTS = frozenset({"socket.bind", "socket.connect", "socket.getaddrinfo", "socket.sendto"})


class NotQuickError(OSError):
    """Raised where a quick test does what only a marked test may do; an OSError, so that no helper thread hangs."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="run only tests without a process, a socket or PostgreSQL")


def pytest_configure(config: pytest.Config) -> None:
    if not config.getoption("quick"):
        return
    config.option.markexpr = config.option.markexpr or SELECTION
    config.pluginmanager.register(Guarded(), "quick-guard")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip the folders that have no quick test. None leaves the decision to others."""
    left_out = _folder(collection_path) in FOLDERS or _file(collection_path) in FILES
    return True if config.getoption("quick") and left_out else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        names = {mark for fixture, mark in FIXTURES.items() if fixture in getattr(item, "fixturenames", ())}
        callspec = getattr(item, "callspec", None)
        if callspec is not None and "postgres" in callspec.params.values():
            names.add("postgres")
        if (folder := _folder(item.path)) in FOLDERS:
            names.add(FOLDERS[folder])
        if (file := _file(item.path)) in FILES:
            names.add(FILES[file])
        names |= _marks_of_imports(getattr(item, "module", None))
        for name in names:
            item.add_marker(name)


@cache
def _marks_of_imports(module: ModuleType | None) -> set[str]:
    origins = {getattr(value, "__module__", "") or "" for value in vars(module).values()} if module else set()
    return {mark for name, mark in SUPPORT.items() if f"tests.support.{name}" in origins}


class Guarded:
    """Fails every test that does what a quick test may not do, even if the product survived the refusal."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self) -> Generator[None, Any, Any]:
        return (yield from _checked())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Generator[None, Any, Any]:
        return (yield from _checked())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self) -> Generator[None, Any, Any]:
        return (yield from _checked())


def _checked() -> Generator[None, Any, Any]:
    with guard() as broken:
        result = yield
    if broken:
        pytest.fail(f"not a quick test: {', '.join(sorted(set(broken)))}; mark it, or do without", pytrace=False)
    return result


@contextmanager
def guard() -> Iterator[list[str]]:
    """Refuse processes, sockets and PostgreSQL, and collect what was refused."""
    _install()
    broken: list[str] = []
    _watched.append(broken)
    try:
        with (
            patch.object(multiprocessing.process.BaseProcess, "start", _refuse_process),
            patch.object(psycopg, "connect", _refuse_postgres),
            patch.object(psycopg.Connection, "connect", _refuse_postgres),
            patch.object(psycopg.AsyncConnection, "connect", _refuse_postgres),
        ):
            yield broken
    finally:
        _watched.pop()


_watched: list[list[str]] = []
"""What was refused in each open guard, innermost last."""


@cache
def _install() -> None:
    sys.addaudithook(_audit)  # it cannot be removed again, so it is added only once


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if not _watched:
        return
    if event in PROCESS_EVENTS:
        _refuse(f"process ({event})")
    elif event in SOCKET_EVENTS or (event == "socket.__new__" and arguments[1] != socket.AF_UNIX):
        _refuse(f"socket ({event})")  # an event loop creates a pair of AF_UNIX sockets for itself, which is allowed


def _refuse_process(*_: object) -> None:
    _refuse("process (multiprocessing)")


def _refuse_postgres(*_: object, **__: object) -> None:
    _refuse("postgres (psycopg)")


def _refuse(what: str) -> None:
    if _watched:
        _watched[-1].append(what)
    raise NotQuickError(f"a quick test may not use this: {what}")


@cache
def _folder(path: Path) -> str:
    inside = path.relative_to(TESTS).parts if path.is_relative_to(TESTS) else ()
    return inside[0] if inside else ""


@cache
def _file(path: Path) -> str:
    return path.relative_to(TESTS).as_posix() if path.is_relative_to(TESTS) else ""
