"""The tasks for gates, and how a pipeline of them is checked and evaluated."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from duetime.engine.clock import SystemClock
from duetime.engine.errors import InvalidInput, UnknownTask
from duetime.engine.kind import Caller, StopSignal, Work
from duetime.engine.model import LOCAL
from duetime.engine.outcome import Returned, Skipped
from duetime.engine.policy.claim import Claim
from duetime.engine.policy.gates import FIRST_LOOK, MOST_REMEMBERED
from duetime.engine.policy.rows import begin, new_run
from duetime.kinds.jobs import gates as gates_module
from duetime.kinds.jobs.builtin import LARGEST
from duetime.kinds.jobs.gate_tasks import field, matches, tasks_of
from duetime.kinds.jobs.gates import GateFailed
from duetime.kinds.jobs.kind import JobKind
from duetime.kinds.jobs.registry import Registry, Task
from duetime.net.helper_threads import Helpers
from duetime.settings import Settings
from tests.support.drafts import T0, once
from tests.support.receiver import Behaviour, Receiver, Request

PERSON = Caller(LOCAL, operator=True)
AGENT = Caller(LOCAL, depth=1, grant='{"web": false}')
NO = "nothing passes"
SETTINGS = Settings(allowed_hosts=("127.0.0.1",))


def kind_with(*tasks: Task, settings: Settings = SETTINGS) -> JobKind:
    return JobKind(Registry((*tasks_of(settings), *tasks)))


@pytest.fixture
def kind() -> Iterator[JobKind]:
    values: list[Any] = []
    made = kind_with(Task(lambda: values[-1], name="value"))
    made.values = values  # type: ignore[attr-defined]
    yield made
    made.close()


def work() -> Work:
    definition, *_ = begin(once(), 1)  # type: ignore[arg-type]
    run = new_run(1, definition, T0, "running")  # type: ignore[arg-type]
    return Work(Claim(run, definition, T0), StopSignal(), lambda text: None)


class GateLook(NamedTuple):
    """What a gate saw: why it lets nothing pass, or what the work gets."""

    reason: str | None
    memory: str | None = None
    result: str | None = None


def look(kind: JobKind, gate: str, memory: str | None = None) -> GateLook:
    seen = kind.gates.look(gate, memory, work())
    assert not isinstance(seen, Returned)
    return GateLook(*(seen.reason, seen.memory) if isinstance(seen, Skipped) else (None, seen.memory, seen.result))


def looks(kind: JobKind, gate: str, *values: Any) -> list[Any]:
    """Return what the gate lets pass of these values, one after the other, each with success."""
    memory, results = None, []
    for value in values:
        kind.values.append(value)  # type: ignore[attr-defined]
        seen = look(kind, gate, memory)
        memory = seen.memory or memory
        assert len((memory or "").encode()) <= MOST_REMEMBERED
        results.append(NO if seen.reason is not None else json.loads(seen.result or "null"))
    return results


@pytest.mark.parametrize(
    ("values", "passed"),
    [
        (["a", "a", "b", "b", "a"], [NO, NO, "b", NO, "a"]),
        ([1, 1.0, True, "1", None, 0], [NO, 1.0, True, "1", None, 0]),
        ([{"a": 1, "b": 2}, {"a": 1, "b": 2}, {"a": 1, "b": 3}], [NO, NO, {"a": 1, "b": 3}]),
        (["", None, ""], [NO, None, ""]),
    ],
)
def test_changed_compares_with_the_last_success(kind: JobKind, values: list[Any], passed: list[Any]) -> None:
    assert looks(kind, "value() | changed()", *values) == passed


def test_of_a_long_value_a_digest_is_remembered_and_the_beginning_given(kind: JobKind) -> None:
    *no, cut = looks(kind, "value() | changed()", "x" * 100_000, "x" * 100_000, "x" * 99_999 + "y")
    assert no == [NO, NO] and cut["cut"] is True and cut["size"] == 100_002
    assert len(json.dumps(cut)) <= MOST_REMEMBERED + 10


def test_became_needs_another_value_before(kind: JobKind) -> None:
    gate = "value() | became('up')"
    assert looks(kind, gate, "up", "up", "down", "up", "up", "down", "up") == [NO] * 3 + ["up", NO, NO, "up"]
    assert looks(kind, gate, "down", "up") == [NO, "up"]


def test_conditions_without_a_memory_pass_at_the_first_look_and_give_what_they_looked_at(kind: JobKind) -> None:
    assert looks(kind, "value() | contains('error')", "an error", "an error", "fine") == ["an error", "an error", NO]
    assert looks(kind, "value() | matches('v*.*')", "v1.2", "1.2") == ["v1.2", NO]
    gate = "value() | contains('error') | became(True)"
    assert looks(kind, gate, "fine", "an error", "another error", "fine", "error") == [NO, "an error", NO, NO, "error"]
    assert looks(kind, "value()", 0, 3, "", [], ["x"], False, True) == [NO, 3, NO, NO, ["x"], NO, True]


def test_both_parts_must_pass_and_the_first_look_sees_both(kind: JobKind) -> None:
    gate = "value() | field('a') | changed() and value() | field('b') | changed()"
    values = [{"a": 1, "b": 1}, {"a": 2, "b": 1}, {"a": 2, "b": 2}, {"a": 2, "b": 3}, {"a": 3, "b": 3}]
    assert looks(kind, gate, *values) == [NO, NO, 2, NO, 3], "what changed alone is compared again"
    gate = "value() | field('a') and value() | field('b') | changed()"
    assert looks(kind, gate, {"a": 0, "b": 1}, {"a": 1, "b": 1}, {"a": 1, "b": 2}) == [NO, NO, 2]


def test_what_one_part_refuses_is_refused_although_a_later_part_fails(kind: JobKind) -> None:
    calls: list[str] = []

    def page() -> str:
        calls.append("page")
        raise OSError("it is away")

    failing = kind_with(Task(lambda: False, name="is_open"), Task(page))
    for _ in range(2):
        assert look(failing, "is_open() and page()").reason == "is_open returned false"
    assert calls == [], "it is not called for nothing"
    assert look(failing, "is_open() and page() | changed()").reason == "is_open returned false"
    with pytest.raises(OSError, match="it is away"):
        look(failing, "page() and is_open()")
    failing.close()


def test_the_first_look_says_so_and_later_ones_say_what_they_saw(kind: JobKind) -> None:
    kind.values.append("a")  # type: ignore[attr-defined]
    first = look(kind, "value() | changed()")
    assert (first.reason, first.memory) == (FIRST_LOOK, '{"1": "=\\"a\\""}')
    assert look(kind, "value() | changed()", first.memory) == GateLook("nothing has changed")
    assert look(kind, "value() | became('b')", '{"1": false}').reason == 'it is not "b"'
    assert look(kind, "value() | contains('b')").reason == "contains returned false"


@pytest.mark.parametrize(
    ("text", "pattern", "fits"),
    [
        ("abc", "abc", True),
        ("abc", "ab", False),
        ("abc", "a*", True),
        ("abc", "*c", True),
        ("abc", "*b*", True),
        ("abc", "*", True),
        ("", "*", True),
        ("", "", True),
        ("ab", "ab*b", False),
        ("abab", "ab*ab", True),
        ("aXbXc", "a*b*c", True),
        ("aXcXb", "a*b*c", False),
        ("a?c", "a?*", True),
        ("abc", "a?c", False),
        ("aab", "a*ab*", True),
    ],
)
def test_matches(text: str, pattern: str, fits: bool) -> None:
    assert matches(text, pattern) is fits


def test_matches_never_goes_back() -> None:
    text, clock = "a" * LARGEST, SystemClock()
    begun = clock.monotonic()
    assert not matches(text, "*a" * 500 + "*b*")
    assert not matches(text, "a*" * 1000 + "b")
    assert clock.monotonic() - begun < 2


def test_a_regular_expression_is_refused_with_what_to_write() -> None:
    for pattern in (r"v\d+", "a.*b", "^a", "(?i)x", "a.+"):
        with pytest.raises(InvalidInput, match=r"write \* for any text"):
            matches("x", pattern)


@pytest.mark.parametrize(
    ("value", "path", "found"),
    [
        ('{"a": {"b": [1, {"c": "x"}]}}', "a.b.1.c", "x"),
        ({"a": [1, 2]}, "a.1", 2),
        ({"a": [1, 2]}, "a.7", None),
        ({"a": [1, 2]}, "a.-1", None),
        ({"a": 1}, "a.b", None),
        ("[]", "x", None),
    ],
)
def test_field(value: Any, path: str, found: Any) -> None:
    assert field(value, path) == found


def test_field_of_what_is_not_json_is_an_error() -> None:
    for text in ("<html>", "[" * 100_000):
        with pytest.raises(InvalidInput, match="is not JSON"):
            field(text, "a")


# -- checks at creation ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gate", "problem"),
    [
        ("fetch(", "not an expression; write a pipeline"),
        ("1 + 1", "a step is the name of a task"),
        ("value() > 10", "to compare, let a task of your own return true or false"),
        ("value() | matches('a.*')", "write \\* for any text"),
        ("changed() | changed()", "value: missing"),
        ("echo('x') | field()", "path: missing"),
        ("echo('x') | changed(memory=1)", "has no such argument"),
        (
            "files_changed('/etc')",
            "Unknown task: files_changed; it is for users of this machine, who name the folders in watch",
        ),
        ("nonsense() | changed()", "Unknown task: nonsense"),
    ],
)
def test_a_gate_that_cannot_work_is_refused(kind: JobKind, gate: str, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem) as refusal:
        kind.gates.check(gate, PERSON)
    assert refusal.value.field == "only_if"


def test_tasks_that_remember_are_for_gates_only(kind: JobKind) -> None:
    kind.gates.check("echo('x') | changed()", PERSON)
    for task in ("echo('x') | changed()", "became"):
        with pytest.raises(InvalidInput, match="use it in only_if"):
            kind.prepare({"task": task}, PERSON)
    kind.prepare({"task": "echo('{}') | field('a')"}, PERSON)


def test_an_agent_that_may_not_use_the_web_has_no_fetch_in_a_gate(kind: JobKind) -> None:
    kind.gates.check("echo('x') | changed()", AGENT)
    for task in ("fetch", "status"):
        with pytest.raises(InvalidInput, match="only_if: this uses the web"):
            kind.gates.check(f"{task}('https://example.org') | changed()", AGENT)


def test_a_token_without_the_scope_for_jobs_has_only_the_tasks_of_duetime(kind: JobKind) -> None:
    caller = Caller("ada", scopes=("kind:prompt",))
    kind.gates.check("fetch('https://example.org') | changed()", caller)
    with pytest.raises(InvalidInput, match="no scope for jobs, so not for value"):
        kind.gates.check("value() | changed()", caller)
    kind.gates.check("value() | changed()", Caller("ada", scopes=("kind:prompt", "kind:job")))


def test_a_worker_without_the_task_returns_the_run(kind: JobKind) -> None:
    returned = kind.gates.look("elsewhere() | changed()", None, work())
    assert isinstance(returned, Returned) and "Unknown task: elsewhere, in only_if" in str(returned.reason)
    returned = kind.gates.look("files_changed('/x')", None, work())
    assert isinstance(returned, Returned) and "; start a worker" not in str(returned.reason)
    assert "files_changed, in only_if; it is for users of this machine" in str(returned.reason)
    assert str(returned.reason).endswith("watch_folders of the settings")


# -- pages -------------------------------------------------------------------------------------------------------------


def test_fetch_and_status_read_pages_without_a_process(kind: JobKind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JobKind, "_process_runner", lambda self: pytest.fail("a process was started"))
    with Receiver() as server:
        answers = iter([Behaviour(body=b'{"state": "red"}'), Behaviour(body=b'{"state": "green"}'), Behaviour(503)])
        server.behave = lambda request: next(answers)
        gate = f"fetch('{server.url}') | field('state') | changed()"
        first = look(kind, gate)
        second = look(kind, gate, first.memory)
        assert (first.reason, second.result) == (FIRST_LOOK, '"green"')
        assert look(kind, f"status('{server.url}')").result == "503"
        url = server.url
    assert look(kind, f"status('{url}') | became(0)", '{"1": false}').result == "0", "nobody answers"
    with pytest.raises(Exception, match=r"refused|connect"):
        look(kind, gate)


def test_a_private_address_is_refused(kind: JobKind) -> None:
    guarded = kind_with(settings=Settings())
    for task in ("fetch", "status"):
        with pytest.raises(Exception, match="only public hosts may be called"):
            look(guarded, f"{task}('http://127.0.0.1:1')")
    guarded.close()


def _answer_with(body: bytes, request: Request) -> Behaviour:
    return Behaviour(headers={"Content-Type": "text/html"}, body=body)


def test_a_hostile_page_hurts_nobody(kind: JobKind) -> None:
    """The largest page, made of what takes long in careless readers."""
    clock = SystemClock()
    pages = [b"<" * LARGEST, b"<a " * (LARGEST // 3), b"&#1" * (LARGEST // 3), b"[" * LARGEST, b"\n" * LARGEST]
    with Receiver() as server:
        for body in pages:
            server.behave = partial(_answer_with, body)
            begun = clock.monotonic()
            assert look(kind, f"fetch('{server.url}') | contains('x') | changed()").reason == FIRST_LOOK
            assert clock.monotonic() - begun < 10


# -- files -------------------------------------------------------------------------------------------------------------


def test_files_changed_names_new_and_changed_files(tmp_path: Path) -> None:
    folder = tmp_path / "inbox"
    (folder / "below").mkdir(parents=True)
    (folder / "a.txt").write_text("a")
    kind = kind_with(settings=Settings(watch_folders=(str(tmp_path),)))
    gate = f"files_changed({str(folder)!r})"
    kind.gates.check(gate, PERSON)
    first = look(kind, gate)
    assert first.reason == FIRST_LOOK and look(kind, gate, first.memory).reason == "no file has changed"
    (folder / "below" / "b.txt").write_text("b")
    second = look(kind, gate, first.memory)
    assert json.loads(second.result or "") == {"changed": ["below/b.txt"], "number_of_files": 2}
    (folder / "a.txt").unlink()
    third = look(kind, gate, second.memory)
    assert json.loads(third.result or "") == {"changed": [], "number_of_files": 1}
    (folder / "copy.txt").write_text("a")
    os.utime(folder / "copy.txt", (1_600_000_000, 1_600_000_000))
    fourth = look(kind, gate, third.memory)
    assert json.loads(fourth.result or "")["changed"] == ["copy.txt"], "a copy keeps the time of its original"


def test_files_changed_stays_below_the_folders_of_the_settings(tmp_path: Path) -> None:
    allowed, other = tmp_path / "allowed", tmp_path / "other"
    allowed.mkdir()
    other.mkdir()
    (allowed / "link").symlink_to(other)
    kind = kind_with(settings=Settings(watch_folders=(str(allowed),)))
    for folder in (str(other), str(allowed / ".." / "other"), str(allowed / "link"), "allowed", "/"):
        with pytest.raises(InvalidInput, match="below one of watch_folders"):
            kind.gates.check(f"files_changed({folder!r})", PERSON)
        with pytest.raises(InvalidInput, match="below one of watch_folders"):
            look(kind, f"files_changed({folder!r})")
    for caller in (Caller("ada"), Caller("ada", operator=True, holder="token"), Caller(LOCAL)):
        with pytest.raises(UnknownTask):
            kind.gates.check(f"files_changed({str(allowed)!r})", caller)
    (other / "secret.txt").write_text("x")
    first = look(kind, f"files_changed({str(allowed)!r})")
    (other / "secret.txt").write_text("xy")
    os.utime(other / "secret.txt", ns=(1, 1))
    assert look(kind, f"files_changed({str(allowed)!r})", first.memory).reason == "no file has changed"


# -- time --------------------------------------------------------------------------------------------------------------


def test_a_task_that_does_not_return_in_time_fails_the_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gates_module, "LONGEST", 0.7)
    done = threading.Event()
    kind = kind_with(Task(lambda: done.wait(60), name="slow"))
    kind.gates._helpers = Helpers(2)
    for _ in range(2):
        with pytest.raises(GateFailed, match="it took longer"):
            look(kind, "slow() | changed()")
    with pytest.raises(GateFailed, match="too many earlier checks of gates have not returned"):
        look(kind, "slow() | changed()")
    done.set()
    for thread in threading.enumerate():
        if thread.name == "duetime-helper":
            thread.join(10)
    monkeypatch.setattr(gates_module, "LONGEST", 30)
    assert look(kind, "slow() | changed()").reason == FIRST_LOOK
