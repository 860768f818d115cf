"""Jobs from their payload to their outcome, in threads and on the event loop."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from duetime.engine.clock import SECOND, Instant, datetime_of
from duetime.engine.errors import InvalidInput, UnknownTask
from duetime.engine.kind import Caller, StopReason, StopSignal
from duetime.engine.outcome import FIRST_WAIT, Cancelled, Completed, Failed, Retry, Returned
from duetime.kinds.jobs.builtin import TASKS, operator_tasks
from duetime.kinds.jobs.context import PermanentError, RetryLater, TaskContext
from duetime.kinds.jobs.kind import UNKNOWN_WAIT, JobKind
from duetime.kinds.jobs.registry import Registry
from duetime.rest.errors import answer_of
from tests.support.jobs import DUE, make_work

ANYBODY = Caller("ann")


@pytest.fixture
def kind() -> Iterator[JobKind]:
    registry = Registry((*TASKS, *operator_tasks(lambda: {"place": "x"}, lambda: {"pruned": 3})))

    @registry.task
    def add(a: int, b: int = 1) -> int:
        return a + b

    @registry.task(name="nightly-report")
    def report() -> None: ...

    @registry.task
    def grow(items: list[int]) -> list[int]:
        items.append(1)
        return items

    @registry.task(name="fail")
    def fail_(how: str) -> None:
        raise {
            "plain": ValueError("bad"),
            "permanent": PermanentError("no use"),
            "later": RetryLater(1.5, "busy"),
            "exit": SystemExit(3),
            "interrupt": KeyboardInterrupt(),
        }[how]

    kind = JobKind(registry)
    yield kind
    kind.close()


def test_ids(kind: JobKind) -> None:
    assert kind.name == "job"
    assert kind.public_id(Instant(1_738_764_000 * SECOND + 5), "once").format(id=1) == "job_1_1738764000"


def test_a_payload_in_its_normal_form(kind: JobKind) -> None:
    assert kind.prepare({"task": " add ", "args": (1,)}, ANYBODY)[:2] == (
        {"task": "add", "args": [1], "kwargs": {}},
        "add",
    )
    prepared = kind.prepare({"task": "echo('a b c') | shorten(words=2)", "args": None}, ANYBODY)
    assert prepared.subject == "echo"
    assert kind.prepare({"task": "nightly-report"}, ANYBODY).subject == "nightly-report"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("nosuch", "nosuch"),
        ("nosuch(1)", "nosuch"),
        ("echo(1) | nosuch", "nosuch"),
        ("prune_history", "prune_history"),
        ("echo(1) | prune_history", "prune_history"),
        ("__import__('os').system('true')", "__import__('os').system('true')"),
        ("1 + 1", "1 + 1"),
        ("x" * 500, "x" * 200 + "..."),
    ],
)
def test_unknown_tasks(kind: JobKind, text: str, shown: str) -> None:
    with pytest.raises(UnknownTask) as caught:
        kind.prepare({"task": text}, ANYBODY)
    assert (caught.value.message, caught.value.code, caught.value.field) == (
        f"Unknown task: {shown}",
        "unknown_task",
        "task",
    )


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("ecko", "did you mean echo?"),
        ("echo(1) | shortn(words=5)", "did you mean shorten?"),
        ("nosuch", "`duetime job tasks` lists those that are known"),
        ("prune_histor", "`duetime job tasks` lists those that are known"),
        ("echo('a long text' | shorten(words=5)", "it cannot be read: check its brackets and quotes"),
        ("echo('a long text) | shorten", "it cannot be read: check its brackets and quotes"),
        ("echo(1 + 1)", "it cannot be read: an argument is a literal that JSON knows"),
    ],
)
def test_an_unknown_task_says_what_to_do_next(kind: JobKind, text: str, advice: str) -> None:
    with pytest.raises(UnknownTask) as caught:
        kind.prepare({"task": text}, ANYBODY)
    error = caught.value
    assert (error.__notes__, error.problem) == ([advice], f"{error.message}; {advice}")
    assert bytes(answer_of(error).body).decode().count(advice) == 1


def test_operators_know_more_tasks(kind: JobKind) -> None:
    assert kind.prepare({"task": "prune_history"}, Caller("ann", operator=True)).subject == "prune_history"
    assert kind.execute(make_work("prune_history")) == Completed('{"pruned":3}')


@pytest.mark.parametrize(
    ("payload", "field"),
    [
        ({}, "task"),
        ({"task": 5}, "task"),
        ({"task": "  "}, "task"),
        ({"task": "add", "more": 1}, "more"),
        ({"task": "add", "args": {"a": 1}}, "args"),
        ({"task": "add", "args": "1"}, "args"),
        ({"task": "add", "kwargs": [1]}, "kwargs"),
        ({"task": "echo", "args": [float("nan")]}, "args"),
        ({"task": "echo", "args": [object()]}, "args"),
        ({"task": "add"}, "a"),
        ({"task": "add", "args": ["1"]}, "a"),
        ({"task": "add(1)", "args": ["2"]}, "b"),
        ({"task": "add(1, b=2)", "kwargs": {"b": 3}}, "b"),
        ({"task": "echo(1) | add(b='2')"}, "b"),
        ({"task": "echo(1) | add(1, 2)"}, "args"),
        ({"task": "echo(1) | nightly"}, "task"),
    ],
)
def test_payloads_that_do_not_fit(kind: JobKind, payload: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        kind.prepare(payload, ANYBODY)
    assert caught.value.field == field
    assert field in caught.value.message or isinstance(caught.value, UnknownTask)


def test_outcomes(kind: JobKind) -> None:
    assert kind.execute(make_work("nightly-report")) == Completed(None)
    assert kind.execute(make_work("add", 2, b=3)) == Completed("5")
    assert kind.execute(make_work("echo('a b c') | shorten(words=2)")) == Completed('"a b ..."')
    assert kind.execute(make_work("echo | add(5)", 2)) == Completed("7")


def test_a_step_after_and_does_not_get_the_result_before_it(kind: JobKind) -> None:
    assert kind.execute(make_work("echo and add(5)", 2)) == Completed("6")
    assert kind.execute(make_work("echo(1) | add(1) and echo('b c d') | shorten(words=2)")) == Completed('"b c ..."')
    assert isinstance(kind.execute(make_work("fail('plain') and add(5)")), Failed), "what comes after it does not run"
    kind.prepare({"task": "echo(1) and add(1, 2)"}, ANYBODY)
    with pytest.raises(InvalidInput, match=r"unless you write and instead of \|$"):
        kind.prepare({"task": "echo(1) | add(1, 2)"}, ANYBODY)
    with pytest.raises(InvalidInput) as caught:
        kind.prepare({"task": "echo(1) and add"}, ANYBODY)
    assert caught.value.field == "a" and "step before" not in caught.value.message


def test_a_literal_is_fresh_for_every_run(kind: JobKind) -> None:
    work = make_work("grow([])")
    assert [kind.execute(work) for _ in range(2)] == [Completed("[1]"), Completed("[1]")]


@pytest.mark.parametrize(
    ("how", "outcome"),
    [
        ("plain", Failed("ValueError: bad")),
        ("permanent", Failed("PermanentError: no use", permanent=True)),
        ("later", Retry("RetryLater: busy", after=1_500_000)),
        ("exit", Failed("SystemExit: 3")),
        ("interrupt", Failed("KeyboardInterrupt")),
    ],
)
def test_failures(kind: JobKind, how: str, outcome: Any) -> None:
    assert kind.execute(make_work("fail", how)) == outcome


def test_the_traceback_is_logged_and_kept_apart_from_the_error(kind: JobKind, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "duetime.jobs"):
        outcome = kind.execute(make_work("fail", "plain"))
    assert isinstance(outcome, Failed) and "Traceback" not in outcome.error
    assert outcome.traceback is not None and outcome.traceback.endswith("ValueError: bad")
    assert "Traceback" in caplog.text and "job_7_1" in caplog.text


def test_a_task_that_this_worker_does_not_know_is_left_to_others(kind: JobKind) -> None:
    reason = "Unknown task: gone; start a worker with the module that registers it"
    work = make_work("echo(1) | gone")
    assert kind.execute(work) == Returned(reason, FIRST_WAIT)
    often = work.claim._replace(run=work.claim.run._replace(fence=40))
    assert kind.execute(replace(work, claim=often)) == Returned(reason, UNKNOWN_WAIT)


def test_a_task_learns_about_its_run(kind: JobKind) -> None:
    seen: list[TaskContext] = []

    @kind.registry.task
    def look(context: TaskContext) -> None:
        seen.append(context)
        context.progress("half\0way")

    told: list[str] = []
    work = make_work("look", report=told.append)
    assert kind.execute(work) == Completed(None)
    (context,) = seen
    assert (context.run_id, context.attempt, context.name, context.owner) == (41, 2, "nightly", "ann")
    assert context.due == datetime_of(DUE)
    assert context.due.utcoffset() is not None
    assert told == ["half\ufffdway"]
    assert not context.cancelled.is_set()
    work.stop.set(StopReason.CANCELLED)
    assert context.cancelled.wait(0)


def test_no_further_step_once_it_should_stop(kind: JobKind) -> None:
    stop = StopSignal()

    @kind.registry.task
    def pull() -> int:
        stop.set(StopReason.CANCELLED)
        return 1

    assert kind.execute(make_work("pull | fail", stop=stop)) == Cancelled("stopped on request")


def test_async_tasks_share_one_loop(kind: JobKind) -> None:
    @kind.registry.task
    async def which(value: int) -> list[Any]:
        await asyncio.sleep(0)
        return [value, threading.current_thread().name]

    for value in (1, 2):
        assert kind.execute(make_work("which", value)) == Completed(
            json.dumps([value, "duetime-async"], separators=(",", ":"))
        )


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), ValueError("bad"), asyncio.CancelledError()])
def test_no_error_ends_the_loop(kind: JobKind, error: BaseException) -> None:
    @kind.registry.task
    async def burst() -> None:
        raise error

    @kind.registry.task
    async def after() -> int:
        return 1

    assert isinstance(kind.execute(make_work("burst")), Failed)
    assert kind.execute(make_work("after")) == Completed("1")


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [
        (StopReason.TIMEOUT, Failed("timed out after 2.5 s")),
        (StopReason.CANCELLED, Cancelled("stopped on request")),
        (StopReason.SHUTDOWN, Failed("the worker stopped before it was done")),
    ],
)
def test_async_tasks_are_cancelled(kind: JobKind, reason: StopReason, outcome: Any) -> None:
    stop = StopSignal()
    tidied = threading.Event()

    @kind.registry.task
    async def hang() -> None:
        stop.set(reason)
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)  # cleaning up may wait as well
            tidied.set()

    assert kind.execute(make_work("hang", stop=stop, policy='{"timeout": 2500000}')) == outcome
    assert tidied.is_set()


def test_closing_ends_what_runs(kind: JobKind) -> None:
    begun = threading.Event()
    outcomes: list[Any] = []

    @kind.registry.task
    async def hang() -> None:
        begun.set()
        await asyncio.Event().wait()

    thread = threading.Thread(target=lambda: outcomes.append(kind.execute(make_work("hang"))))
    thread.start()
    assert begun.wait(30)
    kind.close()
    thread.join(30)
    assert outcomes == [Failed("the worker stopped before it was done")]


@pytest.mark.process
def test_importing_jobs_is_cheap() -> None:
    """What is slow to import waits until a task needs it: every command of `duetime` imports this."""
    slow = "('pydantic', 'asyncio', 'subprocess')"
    code = f"import sys, duetime.kinds.jobs.kind; print([m for m in {slow} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
