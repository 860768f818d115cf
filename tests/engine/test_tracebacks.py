"""Tracebacks of tasks: which frames are kept, how they are shortened and redacted, and which are the user's."""

from __future__ import annotations

import json
from pathlib import Path

from duetime.engine.outcome import Failed
from duetime.engine.redaction import redacted_outcome
from duetime.engine.tracebacks import (
    MAX_TRACEBACK_LENGTH,
    exceptions_of,
    frames_of,
    is_library,
    stored_traceback,
    traceback_of,
)
from duetime.kinds.jobs.registry import Registry
from tests.support.jobs import make_work

HERE = str(Path(__file__))


def deeper(depth: int) -> None:
    if depth:
        other(depth - 1)
    raise ValueError("the end")


def other(depth: int) -> None:
    deeper(depth)


def raised(depth: int = 0, message: str = "") -> BaseException:
    try:
        json.loads(message) if message else deeper(depth)
    except Exception as error:
        return error
    raise AssertionError


def test_it_begins_with_the_task_and_names_the_users_frames() -> None:
    from duetime.kinds.jobs.kind import JobKind

    registry = Registry()

    @registry.task
    def parse(text: str) -> object:
        return json.loads(text)

    outcome = JobKind(registry).execute(make_work("parse", "{nonsense"))
    assert isinstance(outcome, Failed) and outcome.traceback is not None
    lines = outcome.traceback.splitlines()
    assert lines[0] == "Traceback (most recent call last):" and HERE in lines[1]
    assert lines[-1].startswith("json.decoder.JSONDecodeError")
    frames = frames_of(outcome.traceback)
    assert [frame.function for frame in frames if frame.own] == ["parse"]
    assert frames[0].code == "return json.loads(text)" and frames[0].line > 0
    assert [frame.own for frame in frames] == [True, False, False, False]


def test_it_is_bounded_whatever_is_raised() -> None:
    mutual = stored_traceback(traceback_of(raised(depth=300)))
    assert len(mutual) <= MAX_TRACEBACK_LENGTH
    assert mutual.endswith("ValueError: the end") and "left out" not in mutual.splitlines()[0]
    wordy = stored_traceback(traceback_of(ValueError("line\n" * 100_000 + "last")))
    assert len(wordy) <= MAX_TRACEBACK_LENGTH and wordy.endswith("last") and "characters left out" in wordy
    long_line = stored_traceback(traceback_of(ValueError("x" * 1_000_000)))
    assert len(long_line) <= MAX_TRACEBACK_LENGTH

    class Broken(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    assert "Broken" in traceback_of(Broken())


def test_credentials_are_removed_before_it_is_cut() -> None:
    secret = "hunter2hunter2hunter2"
    outcome = Failed("no", traceback=traceback_of(ValueError(f"{secret} " * 3_000 + f"\npassword={'z' * 40}\0")))
    stored = redacted_outcome(outcome, json.dumps({"kwargs": {"password": secret}})).traceback
    assert stored is not None and "hunter2" not in stored and "zzzz" not in stored and "\0" not in stored
    assert len(stored) <= MAX_TRACEBACK_LENGTH


def test_credentials_of_several_lines_are_removed_wherever_they_are_indented() -> None:
    key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0\nBAQEFAASCBKcwggSjAgEAAo\n-----END KEY-----"
    group = ExceptionGroup("several", [ValueError(f"bad key: {key}")])
    outcome = Failed("no", traceback=traceback_of(group))
    stored = redacted_outcome(outcome, json.dumps({"kwargs": {"private_key": key}})).traceback
    assert stored is not None and "MIIEvQ" not in stored and "BAQEFA" not in stored and "bad key" in stored


def chained(message: str = "amount 129900 exceeds the limit") -> RuntimeError:
    def charge(left: int) -> None:
        if left:
            charge(left - 1)
        raise ValueError(message)

    try:
        try:
            charge(40)
        except ValueError as error:
            raise RuntimeError("the charge failed") from error
    except RuntimeError as error:
        return error
    raise AssertionError


def test_every_exception_of_a_chain_has_its_message() -> None:
    try:
        try:
            raise chained()
        except RuntimeError:
            raise LookupError("receipt")  # noqa: B904 - raised while handling it
    except LookupError as last:
        stored = stored_traceback(traceback_of(last))
    found = exceptions_of(stored)
    assert [(each.relation, each.error) for each in found] == [
        ("", "LookupError: receipt"),
        ("while handling", "RuntimeError: the charge failed"),
        ("caused by", "ValueError: amount 129900 exceeds the limit"),
    ]
    recursion = found[2].frames
    assert [frame.function for frame in recursion] == ["chained", "charge", "charge", "charge", "charge"]
    assert [frame.repeated for frame in recursion] == [0, 0, 0, 37, 0]
    assert all(frame.own for each in found for frame in each.frames)


def test_a_long_message_does_not_cost_another_exception_its_own() -> None:
    for message in ("x" * 30_000, "a line\n" * 5_000):
        error = chained(message)
        error.add_note("a note\n" * 3_000)
        stored = stored_traceback(traceback_of(error))
        assert len(stored) <= MAX_TRACEBACK_LENGTH
        found = exceptions_of(stored)
        assert [each.relation for each in found] == ["", "caused by"]
        assert found[0].error.startswith("RuntimeError: the charge failed")
        assert found[1].frames and found[1].error[-200:].count("a line") + found[1].error.count("xxx") > 0


def test_a_group_and_what_was_stored_before_are_read() -> None:
    group = exceptions_of(stored_traceback(traceback_of(BaseExceptionGroup("several", [ValueError("one"), raised()]))))
    assert [(each.relation, each.error) for each in group] == [("", "ExceptionGroup: several (2 sub-exceptions)")]
    assert [frame.function for frame in group[0].frames] == ["raised", "deeper"]
    assert [each.error for each in exceptions_of("ValueError (its traceback cannot be written)")] == [
        "ValueError (its traceback cannot be written)"
    ]
    cut = 'Traceback (most recent call last):\n  File "a.py", line 3, in f\n  ... 99 characters left out ...\n'
    cut += "and the rest"
    assert exceptions_of(cut)[0].error == "and the rest" and len(exceptions_of(cut)[0].frames) == 1
    assert exceptions_of("")[0].error == ""


def test_frames_of_libraries() -> None:
    for file in (
        "/usr/lib/python3.11/json/decoder.py",
        "/srv/.venv/lib/python3.12/site-packages/httpx/_client.py",
        r"C:\Python311\Lib\json\decoder.py",
        "<frozen runpy>",
        "/opt/src/duetime/kinds/jobs/kind.py",
    ):
        assert is_library(file), file
    for file in ("/srv/app/tasks.py", "tasks.py", r"C:\work\tasks.py", "/home/ada/duetime/tasks.py", "<string>"):
        assert not is_library(file), file
