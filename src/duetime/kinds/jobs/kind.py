"""The job kind: a run calls registered tasks in a pool thread, on the event loop, or in child processes."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import CoroutineType, MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from duetime.engine.clock import SECOND, Instant, datetime_of
from duetime.engine.encoding import clean_text, encode, error_text
from duetime.engine.errors import InvalidInput, UnknownTask
from duetime.engine.kind import LOCAL, STOPPED, Caller, Prepared, StopReason, ThreadUse, Work
from duetime.engine.model import executor_holder, times_given_back
from duetime.engine.outcome import Cancelled, Completed, Failed, Outcome, Returned, Waiting, wait_for_others
from duetime.engine.redaction import redacted, redacted_trace, secrets_of
from duetime.engine.triggers.cron import WITHOUT_SECONDS, malformed
from duetime.kinds.jobs.arguments import as_json, told_as_piped
from duetime.kinds.jobs.context import ProcessFailed, RetryLater, Stopped, TaskContext, TaskEvent, outcome_of
from duetime.kinds.jobs.pipeline import Plan, Planner
from duetime.kinds.jobs.registry import Registry, Task, default_registry
from duetime.service.kind_spec import KindHooks, KindStatus
from duetime.service.workers import work_entry

if TYPE_CHECKING:
    from duetime.engine.clock import Clock
    from duetime.engine.model import WorkerId
    from duetime.engine.policy.options import Policy
    from duetime.engine.scheduler import Scheduler
    from duetime.kinds.jobs.gates import GateChecks
    from duetime.kinds.jobs.runners import AsyncLoop, ProcessRunner
    from duetime.net.client import Http
    from duetime.settings import ExecutorSettings

T = TypeVar("T")
log = logging.getLogger("duetime.jobs")
UNKNOWN_WAIT = 10 * SECOND
"""Longest delay before a run whose task was unknown is offered to workers again; the first delays are shorter."""
TRACKS = "job:on"
"""The first part of what a worker publishes about an executor."""
_DONE = Completed()
_FIELDS = frozenset({"task", "args", "kwargs"})
_decode = json.JSONDecoder().raw_decode
"""Costs half as much as `json.loads`, and is sufficient because stored payloads have no surrounding whitespace."""


def refuse_seconds(expression: str) -> None:
    if len(expression.split()) == 6:
        error = malformed(expression)
        error.details["hint"] = WITHOUT_SECONDS
        error.add_note(WITHOUT_SECONDS)
        raise error


class JobKind(KindHooks):
    """The kind whose runs call tasks.

    `grace`: seconds that a cancelled process has to end by itself. `patience`: seconds that a child lives without
    hearing from its worker, unless the worker's lease ends earlier. `labels`: those of the worker of this process.
    """

    name = "job"
    thread_use = ThreadUse.SHARED
    templates = ("args", "kwargs")

    def __init__(
        self,
        registry: Registry = default_registry,
        *,
        grace: float = 5.0,
        patience: float = 30.0,
        scheduler: Callable[[], Scheduler] | None = None,
        labels: Sequence[str] = (),
        executors: Mapping[str, ExecutorSettings] = MappingProxyType({}),
    ) -> None:
        self.registry, self._scheduler, self.labels, self.executors = registry, scheduler, labels, executors
        self._planner = Planner(registry, labels)
        self._limits = {"grace": grace, "patience": patience}
        self._starting = threading.Lock()
        self._parts: dict[str, Any] = {}
        self._told: set[str] = set()
        self._trackers: list[threading.Thread] = []

    def public_id(self, now: Instant, trigger_type: str) -> str:
        return f"job_{{id}}_{now // SECOND}"

    def prepare(self, payload: Mapping[str, Any], caller: Caller) -> Prepared:
        if not payload.keys() <= _FIELDS:
            name = next(key for key in payload if key not in _FIELDS)
            raise InvalidInput(field=name, problem="a job has no such field; it has task, args, kwargs")
        text, args, kwargs = payload.get("task"), payload.get("args"), payload.get("kwargs")
        text = text.strip() if isinstance(text, str) else ""
        if not text:
            raise InvalidInput(field="task", problem="must be the name of a task, or a pipeline of tasks")
        args = [] if args is None or args == [] else as_json("args", args, list)
        kwargs = {} if kwargs is None or kwargs == {} else as_json("kwargs", kwargs, dict)
        plan = self._planner.checked(text, args, kwargs, caller)
        prepared = {"task": text, "args": args, "kwargs": kwargs}
        web = "task" if caller.grant is not None and any(stage.task.web for stage in plan.stages) else ""
        policy, task = {} if plan.needs is None else {"needs": plan.needs}, plan.stages[0].task
        job = Prepared(prepared, task.name, policy, check_cron=refuse_seconds, web=web)
        return job._replace(agree=partial(self._agree, task.runs_on)) if task.runs_on else job

    def _agree(self, executor: str, policy: Policy) -> None:
        """Refuse what an executor cannot promise."""
        if policy.at_most_once:
            problem = f"{executor} runs a call again if one of its machines dies; leave it out, or runs_on of the task"
            raise InvalidInput(field="at_most_once", problem=problem)
        settings = self.executors.get(executor)
        if policy.timeout is None and settings is not None:
            from duetime.kinds.jobs.executors import executor_type

            if executor_type(settings.type).needs_timeout:
                problem = f"{settings.type} can lose a call without a trace, so it needs a timeout, such as 10m"
                raise InvalidInput(field="timeout", problem=problem)

    def tasks_of(self, text: str, caller: Caller) -> list[Task]:
        """Return the task, or those of a pipeline, that a caller may schedule. Raises UnknownTask."""
        return [stage.task for stage in self._planner.visible(text, caller).stages]

    def known_work(self) -> list[str]:
        return [task.name for task in self.registry if not task.runs_on or task.runs_on in self.executors]

    def execute(self, work: Work) -> Outcome:
        try:
            payload, _ = _decode(work.claim.definition.payload)
            if work.event is not None:
                payload = dict(work.filled(payload, self.templates))
            plan = self._planner.known(payload["task"])
        except UnknownTask as error:
            return self._unknown_here(work, f"{error}; start a worker with the module that registers it")
        try:
            task = plan.bare
            if task is None or task.isolation != "thread":
                return self._run_stages(plan, payload, work)
            return _completed(self._call(task, payload["args"], payload["kwargs"], work))
        except Stopped:
            return _stopped(work)
        except BaseException as error:  # a task may even raise SystemExit, which must not end the thread
            _log(work, error)
            return outcome_of(error)

    def _unknown_here(self, work: Work, reason: str) -> Returned:
        """Release the run with a visible reason instead of failing it, because another worker may know the task."""
        if reason not in self._told:
            self._told.add(reason)
            log.warning("%s; until then its runs wait", reason)
        return Returned(reason, wait_for_others(times_given_back(work.claim.run), UNKNOWN_WAIT))

    @property
    def gates(self) -> GateChecks:
        from duetime.kinds.jobs.gates import GateChecks  # only schedules with a gate need it

        parts = self._planner, self._unknown_here, self._call_alone, self._http
        return self._part("gates", partial(GateChecks, *parts))

    def _http(self, allowed_hosts: Sequence[str]) -> Http:
        from duetime.kinds.jobs.builtin import guarded_http

        return self._part("http", partial(guarded_http, allowed_hosts, connections=32))

    def _call_alone(self, task: Task, args: list[Any], kwargs: dict[str, Any], work: Work) -> Any:
        """Call one task, in a process of its own if it needs one."""
        if task.isolation == "thread":
            return self._call(task, args, kwargs, work)
        steps, context = [(task, args, kwargs, True)], self._context(work)
        return json.loads(self._process_runner().run(steps, context, work.stop, lease=work.lease, last=False))

    def status(self, owner: str) -> KindStatus:
        views = self.executor_views() if owner == LOCAL else []  # clusters belong to the operator
        return KindStatus({"executors": views} if views else {})

    def executor_views(self) -> list[dict[str, Any]]:
        from duetime.kinds.jobs.executors.status import executor_views

        return [] if self._scheduler is None else executor_views(self._scheduler(), self.executors)

    def entries(self) -> list[str]:
        """Return what a worker of this process publishes in its row: the executors whose runs it can track."""
        return [work_entry(TRACKS, name) for name in self.executors]

    def track(self, worker: Callable[[], WorkerId | None], clock: Clock, stopping: threading.Event) -> None:
        """Track the runs that were handed to executors, in threads that end when the worker stops."""
        if self.executors and self._scheduler is not None:
            from duetime.kinds.jobs.executors.tracker import Tracker

            store = self._scheduler().store
            for name, settings in self.executors.items():
                tracker = Tracker(name, settings, store, clock, worker, self.call_text, work_entry(TRACKS, name))
                thread = threading.Thread(target=tracker.run, args=(stopping,), name=f"duetime-on-{name}", daemon=True)
                thread.start()
                self._trackers.append(thread)

    def call_text(self, work: Work) -> str:
        """Return the text with which an executor calls the task of a run. Raises UnknownTask."""
        from duetime.kinds.jobs.remote import text_of_call

        payload = work.filled(work.payload, self.templates)
        task, step = self._planner.known(payload["task"]).stages[0]
        args, kwargs = step.arguments()
        return text_of_call(task, args + payload["args"], {**kwargs, **payload["kwargs"]}, self._context(work))

    def close(self) -> None:
        for thread in self._trackers:
            thread.join(5.0)
        with self._starting:
            parts = [self._parts[name] for name in ("http", "processes", "loop") if name in self._parts]
        for part in parts:
            part.close()

    def _run_stages(self, plan: Plan, payload: dict[str, Any], work: Work) -> Outcome:
        if plan.stages[0].task.runs_on:
            return self._hand_over(plan.stages[0].task, work)
        value: Any = None
        final, together = len(plan.stages) - 1, plan.in_one_process
        for index, (task, step) in enumerate(plan.stages):
            args, kwargs = step.arguments()
            if index == 0:
                args += payload["args"]
                kwargs |= payload["kwargs"]
            else:
                if work.stop.is_set():
                    raise Stopped
                if not step.apart:
                    args.insert(0, value)
            if task.isolation == "thread" and not together:
                try:
                    value = self._call(task, args, kwargs, work)
                except InvalidInput as error:
                    raise (told_as_piped(error, task.name) if index and not step.apart else error) from None
                continue
            then = [(later, *own.arguments(), own.apart) for later, own in plan.stages[1:]] if together else []
            steps, last = [(task, args, kwargs, True), *then], together or index == final
            text = self._process_runner().run(steps, self._context(work), work.stop, lease=work.lease, last=last)
            if last:
                return Completed(None if text == "null" else text)
            value = json.loads(text)
        return _completed(value)

    def _hand_over(self, task: Task, work: Work) -> Outcome:
        """Let the run wait without a thread until the tracker of its executor records how it ended. Nothing is sent to
        the executor here, so that no run is lost between that and the record."""
        name, policy = task.runs_on, work.policy
        if name not in self.executors:
            advice = f"start one that has [executors.{name}] in its settings"
            return self._unknown_here(work, f"{task.name} runs on {name}, which this worker does not know; {advice}")
        self._agree(name, policy)
        started = work.claim.run.started or work.claim.at
        until = None if policy.timeout is None else Instant(started + policy.timeout)
        return Waiting(until, executor_holder(name))

    def _call(self, task: Task, args: list[Any], kwargs: dict[str, Any], work: Work) -> Any:
        value = task.call(args, kwargs, partial(self._context, work))
        if type(value) is CoroutineType:
            return self._event_loop().run(value, work.stop)
        return value

    def _context(self, work: Work) -> TaskContext:
        run, definition, event = work.claim.run, work.claim.definition, work.event
        sends = {} if self._scheduler is None else {"emit": partial(_emit, self._scheduler, work)}
        return TaskContext(
            run_id=run.id,
            attempt=run.attempt,
            due=datetime_of(run.due),
            name=definition.name,
            job_id=definition.public_id,
            owner=definition.owner,
            cancelled=work.stop,
            progress=lambda text: work.report(clean_text(str(text)[:500])),
            event=event and TaskEvent(event.id, event.name, datetime_of(event.at), json.loads(event.data)),
            gate=None if work.gift is None or work.gift.result is None else json.loads(work.gift.result),
            **sends,
        )

    def _event_loop(self) -> AsyncLoop:
        from duetime.kinds.jobs.runners import AsyncLoop  # asyncio is slow to import

        return self._part("loop", AsyncLoop)

    def _process_runner(self) -> ProcessRunner:
        from duetime.kinds.jobs.runners import ProcessRunner

        return self._part("processes", partial(ProcessRunner, **self._limits))

    def _part(self, name: str, start: Callable[[], T]) -> T:
        """Return a part of this kind that is started on first use, because few workers need it."""
        with self._starting:
            if name not in self._parts:
                self._parts[name] = start()
            part: T = self._parts[name]
            return part


def _emit(
    scheduler: Callable[[], Scheduler], work: Work, event: str, data: Any = None, *, key: str | None = None
) -> int | None:
    definition = work.claim.definition
    caller = Caller(definition.owner, depth=work.depth + 1)
    return scheduler().emit(caller, event, data, key, is_persons=definition.depth == 0).event_id


def _completed(value: Any) -> Completed:
    return _DONE if value is None else Completed(encode(value))


def _stopped(work: Work) -> Outcome:
    reason = work.stop.reason
    if reason is StopReason.CANCELLED:
        return Cancelled(STOPPED[reason])
    if reason is StopReason.TIMEOUT:
        return Failed(f"timed out after {(work.policy.timeout or 0) / SECOND:g} s")
    return Failed(STOPPED[reason or StopReason.SHUTDOWN])


def _log(work: Work, error: BaseException) -> None:
    """Log a failure with its trace, which is for the operator only; people and agents see the type and the message."""
    run, definition = work.claim.run, work.claim.definition
    facts = (definition.public_id, definition.subject, run.id, run.attempt)
    if isinstance(error, RetryLater):
        reason = redacted(error_text(error), secrets_of(definition.payload))
        log.info("%s (%s): run %s, attempt %s asked to be retried: %s", *facts, reason)
    elif isinstance(error, ProcessFailed):
        trace = redacted(error.trace or error.error, secrets_of(definition.payload))
        log.warning("%s (%s): run %s, attempt %s failed: %s", *facts, trace)
    else:
        log.warning("%s (%s): run %s, attempt %s failed\n%s", *facts, redacted_trace(error, definition.payload))
