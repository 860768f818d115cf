"""Log records: whatever text of others is in them, a record has one line that begins it, and no terminal obeys it."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from io import StringIO

import pytest

from duetime.cli.serve.shutdown import log_to
from duetime.engine.redaction import redacted_trace
from tests.support.cli import environment

HOSTILE = "boom\x1b]0;PWNED\x07\x1b[31mred\r\nFAKE 2026-01-01 CRITICAL duetime.worker: lies\x9b\u202e\u2028end"
LOGGERS = ("duetime", "uvicorn", "mcp")
WAYS = ("argument", "message", "traceback")


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Iterator[StringIO]:
    """What is written where `duetime serve` logs."""
    written = StringIO()
    monkeypatch.setattr(sys, "stderr", written)
    loggers = [logging.getLogger(name) for name in LOGGERS]
    before = [(logger.handlers[:], logger.level, logger.propagate) for logger in loggers]
    monkeypatch.setattr(logging, "lastResort", logging._StderrHandler(logging.WARNING))  # type: ignore[attr-defined]
    log_to(None)
    yield written
    for logger, state in zip(loggers, before, strict=True):
        logger.handlers[:], logger.level, logger.propagate = state


def write(logger: logging.Logger, way: str) -> None:
    if way == "argument":
        logger.warning("%s failed", HOSTILE)
    elif way == "message":
        logger.error(HOSTILE)
    else:
        try:
            raise RuntimeError(HOSTILE)
        except RuntimeError as error:
            logger.warning("run 7 failed", exc_info=error)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["duetime.jobs", "uvicorn.error", "mcp.server"])
def test_a_record_is_escaped_and_only_its_first_line_is_at_the_margin(name: str, way: str, log: StringIO) -> None:
    write(logging.getLogger(name), way)
    text = log.getvalue()
    first, *others = text.rstrip("\n").split("\n")
    assert "FAKE" in text
    assert not set(text) & set("\x1b\x07\r\x9b\u202e\u2028")
    assert not first.startswith(" ")
    assert others
    assert all(line.startswith("    ") for line in others)


def test_a_failed_run_is_one_line_with_the_users_own_frame(log: StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", log)
    trace = redacted_trace(_failure(), "{}")
    logging.getLogger("duetime.jobs").warning("%s (%s): run %s failed\n%s", "sync", "job_1", 7, trace)
    [line] = log.getvalue().splitlines()
    place = f"test_log_format.py:{_failure.__code__.co_firstlineno + 3} in _failure"
    assert line.endswith(
        f"WARNING duetime.jobs: sync (job_1): run 7 failed: json.decoder.JSONDecodeError: {NO_JSON} ({place})"
    )
    log_to(None, verbose=True)
    logging.getLogger("duetime.jobs").warning("run %s failed\n%s", 8, trace)
    assert "Traceback" in log.getvalue()
    log_to(None, live=True)
    before = log.getvalue()
    logging.getLogger("duetime.jobs").warning("run %s failed\n%s", 9, trace)
    assert log.getvalue() == before, "the live output shows it"


NO_JSON = "Expecting value: line 1 column 1 (char 0)"


def _failure() -> Exception:
    """Fails in the standard library, called from here."""
    try:
        json.loads("no")
    except ValueError as error:
        return error
    raise AssertionError


def test_packages_without_a_handler_are_escaped_as_well(log: StringIO) -> None:
    logging.Logger("asyncio").warning(HOSTILE)
    assert not set(log.getvalue()) & set("\x1b\x07\r\x9b\u202e\u2028")


@pytest.mark.process
def test_the_server_over_stdio_logs_in_the_same_way() -> None:
    log = f"logging.getLogger('x').error({HOSTILE!r})"
    code = f"import logging; from duetime.cli.serve.shutdown import log_to; log_to(None, verbose=True); {log}"
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, timeout=30, check=True)
    assert b"FAKE" in done.stderr
    assert b"\x1b" not in done.stderr
    assert b"\nFAKE" not in done.stderr
