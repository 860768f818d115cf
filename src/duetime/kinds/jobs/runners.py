"""Runners of tasks: the event loop that all `async def` tasks share, and child processes for isolation="process"."""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import logging
import re
import sys
import threading
from collections.abc import Coroutine, Sequence
from typing import Any

from duetime.engine.encoding import clean_text, encode_whole, json_object
from duetime.engine.errors import DuetimeError
from duetime.engine.kind import StopReason, StopSignal
from duetime.engine.worker.capture import LOG_ONLY, byte_writer, write_log
from duetime.engine.worker.lease import Lease
from duetime.kinds.jobs.context import LONGEST, CancelSignal, ProcessFailed, Stopped, TaskContext
from duetime.kinds.jobs.loading import locate
from duetime.kinds.jobs.registry import Task
from duetime.processes.child import Sink, StopRequest, show_operator, signal_name
from duetime.processes.output import LineBuffer
from duetime.processes.supervisor import ChildLease, GuardedCall

log = logging.getLogger("duetime.jobs")
LOOK_EVERY = 0.05
"""Seconds between two checks of the stop signals: one timer for all tasks instead of a waiting thread per task."""


class AsyncLoop:
    def __init__(self) -> None:
        self._starting = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False
        self._watched: dict[asyncio.Task[Any], CancelSignal] = {}
        self._looking = False

    def run(self, coroutine: Coroutine[Any, Any, Any], stop: CancelSignal) -> Any:
        """Run the coroutine and block the calling thread. Raises Stopped if it was cancelled by `stop` or `close`."""
        try:
            loop = self._started()
        except Stopped:
            coroutine.close()
            raise
        future = asyncio.run_coroutine_threadsafe(self._watch(coroutine, stop), loop)
        try:
            value, error = future.result()
        except concurrent.futures.CancelledError:
            if stop.is_set() or self._closed:
                raise Stopped from None
            raise
        if error is not None:
            raise error
        return value

    def close(self) -> None:
        """Cancel the running tasks and end the thread."""
        with self._starting:
            self._closed = True
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None:
            return
        ending = asyncio.run_coroutine_threadsafe(self._cancel_all(), loop)
        try:
            ending.result(5)
        except TimeoutError:
            log.warning("an async task does not end although it was cancelled; it is left behind")
        loop.call_soon_threadsafe(loop.stop)
        thread.join(5)
        if not thread.is_alive():
            loop.close()

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._closed:
                raise Stopped
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._serve, args=(self._loop,), name="duetime-async", daemon=True
                )
                self._thread.start()
            return self._loop

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        while True:
            try:
                loop.run_forever()
                return
            except (SystemExit, KeyboardInterrupt):
                # asyncio lets these exceptions escape from the loop, but one task must not end the loop for all others.
                log.warning("an async task raised SystemExit or KeyboardInterrupt; the loop continues")

    async def _watch(self, coroutine: Coroutine[Any, Any, Any], stop: CancelSignal) -> tuple[Any, BaseException | None]:
        """Return the result, or an error that must not end the loop."""
        current = asyncio.current_task()
        assert current is not None
        self._watched[current] = stop
        if not self._looking:
            self._looking = True
            asyncio.get_running_loop().call_soon(self._look)
        try:
            return await coroutine, None
        except (SystemExit, KeyboardInterrupt) as error:
            return None, error
        finally:
            self._watched.pop(current, None)

    def _look(self) -> None:
        """Cancel tasks whose stop signal is set, once each, because a second cancel would interrupt their cleanup."""
        for task, stop in list(self._watched.items()):
            if stop.is_set():
                del self._watched[task]
                task.cancel()
        self._looking = bool(self._watched)
        if self._looking:
            asyncio.get_running_loop().call_later(LOOK_EVERY, self._look)

    async def _cancel_all(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)


# Runner for tasks with isolation='process': each call gets its own process group, which can be killed as a whole.

CHILD = "duetime.kinds.jobs.process_child"
_MOST_HELD = 32 * 1024 * 1024
MOST_PASSED = 4 * 1024 * 1024
"""Maximum bytes of arguments or of a result that are passed to or from a process; far less of a result is stored."""
_LINGER = 1.0
"""Seconds that a process has to exit by itself after it has answered, so that its exit handlers can run."""
_STOP = StopRequest("stopped")
_MARK = LOG_ONLY.encode()
_LOG_ONLY = re.compile(_MARK + rb"[^\n]*\n?")
_NO_ANSWER = "its process returned an invalid answer"

Call = tuple[Task, Sequence[Any], dict[str, Any], bool]
"""A step. The result of the previous step in the same process is inserted as its first argument, unless it is apart."""


class ProcessRunner:
    """Runs tasks in child processes. `grace`: seconds that a cancelled task has to end by itself. `patience`: seconds
    that a child lives without hearing from its worker, unless the worker's lease ends earlier."""

    def __init__(self, *, grace: float = 5.0, patience: float = 30.0) -> None:
        self._grace = grace
        self._patience = patience
        self._closed = False

    def run(
        self,
        steps: Sequence[Call],
        context: TaskContext,
        stop: StopSignal,
        *,
        lease: Lease | None = None,
        last: bool = True,
    ) -> str:
        """Return the result as JSON text: cut to the size that is stored if these are the `last` steps, complete
        otherwise. Raises Stopped or ProcessFailed."""
        lines = LineBuffer(_MOST_HELD)
        answers: list[dict[str, Any]] = []

        def receive(data: bytes) -> None:
            """Process the child's reports: its progress, then one answer. Raises ProcessFailed."""
            for message in map(json_object, lines.feed(data)):
                if message is None:
                    raise ProcessFailed(_NO_ANSWER)
                if answers:
                    return
                if "progress" in message:
                    context.progress(clean_text(str(message["progress"])))
                elif "log" in message:
                    write_log(str(message["log"]))
                elif "emit" in message:
                    _emit(context, message)
                else:
                    answers.append(message)
            if lines.skipped:
                raise ProcessFailed("its process answered with more than can be taken")

        output = _output_sink()
        request = _request(steps, context, last, logs=output is not None)
        process = GuardedCall(CHILD, request, ChildLease(lease, self._patience), receive, output)
        try:
            stopped = process.watch(lambda: self._stop_request(stop), lambda: bool(answers))
            if stopped is None or answers:
                process.wait(_LINGER, lambda: process.exited)
        finally:
            exited = process.exited
            status = process.close()
        if answers:
            return result_of(answers[0])
        if stopped is None and not process.expired:
            raise ProcessFailed(_how_it_ended(status) if exited else "its process closed the way back to us")
        if stopped is None:  # its deadline passed, which is not the task's fault
            stop.set(StopReason.LEASE)
        raise Stopped

    def close(self) -> None:
        """Stop all running calls: each notices within a tick and kills its process."""
        self._closed = True

    def _stop_request(self, stop: StopSignal) -> StopRequest | None:
        if self._closed:
            return _STOP
        if stop.reason is StopReason.CANCELLED:
            return StopRequest("cancelled", self._grace)
        return _STOP if stop.is_set() else None


def _output_sink() -> Sink | None:
    """Return what receives the output of a process, so that it is in the log of its run and where operators look."""
    write = byte_writer()
    if write is None:
        return None

    def receive(data: bytes) -> None:
        write(data.replace(_MARK, b""))
        show_operator(_LOG_ONLY.sub(b"", data))

    return receive


def _request(steps: Sequence[Call], context: TaskContext, last: bool, *, logs: bool) -> bytes:
    about, call = description_of(steps, context, last, logs=logs)
    return f"{json.dumps({'path': sys.path, **about})}\n{call}\n".encode()


def description_of(
    steps: Sequence[Call], context: TaskContext, last: bool, *, logs: bool = False
) -> tuple[dict[str, Any], str]:
    """Return what another process needs to know to run these steps, and their arguments as JSON."""
    name = steps[0][0].name
    call = encode_whole([[list(args), {**kwargs, **task.constants}] for task, args, kwargs, _ in steps])
    if len(call) > MOST_PASSED:
        raise ProcessFailed(f"{name}: its arguments are too large for a process", permanent=True)
    about = {
        "task": name,
        "functions": [locate(task.function)._asdict() for task, *_ in steps],
        "apart": [apart for *_, apart in steps],
        "last": last,
        "logs": logs,
        "limit": MOST_PASSED,
        "context": {
            "due": context.due.isoformat(),
            **{name: getattr(context, name) for name in ("run_id", "attempt", "name", "job_id", "owner", "gate")},
        },
    }
    if context.event is not None:
        about["event"] = {**context.event._asdict(), "at": context.event.at.isoformat()}
    return about, call


def _emit(context: TaskContext, message: dict[str, Any]) -> None:
    """Send an event for a child. If it cannot be stored, the run fails: the child has gone on meanwhile."""
    try:
        context.emit(message["emit"], message.get("data"), key=message.get("key"))
    except DuetimeError as error:
        raise ProcessFailed(f"its event could not be sent: {error.message}", permanent=error.permanent) from None


def result_of(answer: dict[str, Any]) -> str:
    """Return the result that another process answered, as JSON text. Raises ProcessFailed."""
    if isinstance(answer.get("result"), str):
        return str(answer["result"])
    retry = answer.get("retry")
    raise ProcessFailed(
        str(answer.get("error", _NO_ANSWER)),
        permanent=answer.get("permanent") is True,
        retry=min(max(0.0, float(retry)), LONGEST) if isinstance(retry, int | float) else None,
        trace=str(answer.get("trace") or "") or None,
    )


def _how_it_ended(status: int) -> str:
    if status >= 0:
        return f"its process ended without a result, with exit code {status}"
    return f"its process was ended by {signal_name(-status)}"
