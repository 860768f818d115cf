"""Checks gates, the conditions in `only_if`: pipelines of tasks that are evaluated without starting a process for the
tasks that come with Duetime."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from duetime.engine.clock import SystemClock
from duetime.engine.encoding import encode
from duetime.engine.errors import InvalidInput, UnknownTask
from duetime.engine.kind import Caller, StopReason, StopSignal, Work
from duetime.engine.narrowing import may_use_web
from duetime.engine.outcome import Returned, Skipped
from duetime.engine.policy.gates import MOST_REMEMBERED, GateGift
from duetime.engine.urls import BadAddress, read_url
from duetime.kinds.jobs import gate_tasks
from duetime.kinds.jobs.arguments import told_as_piped
from duetime.kinds.jobs.builtin import PATIENCE, page_call
from duetime.kinds.jobs.gate_tasks import Memory, NotNow
from duetime.kinds.jobs.pipeline import Planner, Stage, Unreadable, parse
from duetime.kinds.jobs.registry import Task
from duetime.net.helper_threads import Abandoned, Helpers, NoneFree

if TYPE_CHECKING:
    from duetime.net.calls import HttpAnswer
    from duetime.net.client import Http

T = TypeVar("T")

LONGEST: Final = 30.0
"""Maximum seconds that a gate may take."""
_MOST_CHECKS: Final = 512
"""Maximum number of checks of one owner at once, including those whose tasks have not returned in time: more than a
worker has threads."""
_FIELD: Final = "only_if"
_WATCHES: Final = " files_changed"
_FOR_LOCALS: Final = "it is for users of this machine, who name the folders in watch_folders of the settings"
_CLOCK: Final = SystemClock()
_OVER: Final = f"it took longer than {LONGEST:g} s"


class GateFailed(Exception):
    """The gate could not be checked."""


class GateChecks:
    """Implements `engine.kind.Gates` for the kind that knows the tasks."""

    def __init__(
        self,
        planner: Planner,
        unknown_here: Callable[[Work, str], Returned],
        call: Callable[[Task, list[Any], dict[str, Any], Work], Any],
        http: Callable[[Sequence[str]], Http],
    ) -> None:
        """`unknown_here` returns a run whose tasks are not known, `call` calls a task that a project registered, and
        `http` returns the client that reaches only public addresses and these hosts."""
        self._planner, self._unknown_here, self._call_foreign, self._http = planner, unknown_here, call, http
        self._helpers = Helpers(_MOST_CHECKS)

    def check(self, gate: str, caller: Caller) -> None:
        try:
            parse(gate)
            for task, step in self._planner.checked(gate, (), {}, caller, gate=True).stages:
                if not _is_own(task) and not caller.sees(caller.owner, "job"):
                    raise InvalidInput(field=_FIELD, problem=f"the token has no scope for jobs, so not for {task.name}")
                if task.web and not may_use_web(caller):
                    problem = "this uses the web, which this agent's run may not; ask a person to do it"
                    raise InvalidInput(field=_FIELD, problem=problem)
                if task.function is gate_tasks.matches:
                    gate_tasks.matches("", *step.args, **step.kwargs)
                elif task.function is gate_tasks.files_changed:
                    gate_tasks.allowed_folder(*step.args, **{**step.kwargs, "folders": task.constants["folders"]})
        except Unreadable as error:
            example = "fetch('https://example.org/status') | field('state') | changed()"
            example += "; to compare, let a task of your own return true or false: size() | is_large()"
            raise InvalidInput(field=_FIELD, problem=f"{error}; write a pipeline of tasks: {example}") from None
        except UnknownTask as error:
            error.details["field"] = _FIELD
            if not error.message.endswith(_WATCHES):
                raise
            known = error.details.get("known_tasks", ())
            raise UnknownTask(f"{error.message}; {_FOR_LOCALS}", field=_FIELD, known=known) from None
        except InvalidInput as error:
            problem = error.problem if error.field == _FIELD else f"{error.field}: {error.problem}"
            raise InvalidInput(field=_FIELD, problem=problem) from None

    def closed_host(self, gate: str) -> str | None:
        from duetime.net.ssrf_guard import is_closed

        with suppress(UnknownTask, BadAddress):
            for task, step in (stage for stage in self._planner.known(gate).stages if stage.task.web):
                args, kwargs = step.arguments()
                url = read_url(str(kwargs.get("url") or next(iter(args), "")))
                if is_closed(url.host, url.port, task.constants["allowed_hosts"]):
                    return url.host
        return None

    def look(self, gate: str, memory: str | None, work: Work) -> GateGift | Skipped | Returned:
        try:
            stages = self._planner.known(gate).stages
        except UnknownTask as error:
            is_built_in = error.message.endswith(_WATCHES)
            advice = _FOR_LOCALS if is_built_in else "start a worker with the module that registers it"
            return self._unknown_here(work, f"{error}, in only_if; {advice}")
        stop = StopSignal()
        ends = _CLOCK.monotonic() + LONGEST
        evaluate = partial(self._evaluate, stages, memory, replace(work, stop=stop), ends)
        if all(_is_own(stage.task) for stage in stages):
            return evaluate()
        return self._beside(evaluate, stop, work.claim.definition.owner)

    def _beside(self, evaluate: Callable[[], T], stop: StopSignal, owner: str) -> T:
        """Evaluate in another thread, because a task may not return in time. A process and a coroutine are ended then;
        a thread cannot be."""
        try:
            return self._helpers.run(partial(copy_context().run, evaluate), LONGEST, owner)
        except NoneFree:
            raise GateFailed("too many earlier checks of gates have not returned") from None
        except Abandoned:
            stop.set(StopReason.TIMEOUT)
            raise GateFailed(_OVER) from None

    def _evaluate(self, stages: Sequence[Stage], memory: str | None, work: Work, ends: float) -> GateGift | Skipped:
        before: dict[str, Any] = {} if memory is None else json.loads(memory)
        memories = {str(index): Memory(before.get(str(index))) for index in range(len(stages))}
        value = result = reason = None
        for index, stage in enumerate(stages):
            if stage.step.apart:
                reason = reason or _refusal(stages[index - 1], value)
            is_compared = memory is None and any("memory" in each.task.constants for each in stages[index:])
            if reason is not None and not is_compared:
                break  # the first look goes on, so that each step has something to compare with
            if _CLOCK.monotonic() > ends:
                raise GateFailed(_OVER)
            try:
                value = self._call(stage, index, value, memories[str(index)], work, ends)
            except NotNow as refusal:
                reason = reason or str(refusal)
            except Exception:
                if reason is None:
                    raise
                break
            if not isinstance(value, bool):
                result = value
        else:
            reason = reason or _refusal(stages[-1], value)
        slots = [(name, slot) for name, slot in memories.items() if reason is None or slot.at_once]
        news = {name: slot.after for name, slot in slots if slot.after != slot.before}
        text = json.dumps({**before, **news}, ensure_ascii=False) if news else None
        if reason is not None:
            return Skipped(reason, text)
        return GateGift(memory=text, result=encode(value if result is None else result, MOST_REMEMBERED))

    def _call(self, stage: Stage, index: int, value: Any, memory: Memory, work: Work, ends: float) -> Any:
        task, step = stage
        args, kwargs = step.arguments()
        is_piped = index > 0 and not step.apart
        if is_piped:
            args.insert(0, value)
        try:
            if not _is_own(task):
                return self._call_foreign(task, args, kwargs, work)
            hidden = dict(task.constants)
            if "memory" in hidden:
                hidden["memory"] = memory
            if "get" in hidden:
                hidden["get"] = partial(self._get, hidden["allowed_hosts"], work.claim.definition.owner, ends)
            return task.function(*args, **kwargs, **hidden)
        except InvalidInput as error:
            raise (told_as_piped(error, task.name) if is_piped else error) from None

    def _get(self, allowed_hosts: Sequence[str], owner: str, ends: float, url: str) -> HttpAnswer:
        return self._http(allowed_hosts).send(page_call(url, min(PATIENCE, max(0.1, ends - _CLOCK.monotonic())), owner))


def _is_own(task: Task) -> bool:
    """Return whether a task comes with Duetime and ends in time by itself."""
    return task.portable or task.gate


def _refusal(stage: Stage, value: Any) -> str | None:
    """Return why a part of the gate lets nothing pass; a step that compares has decided that already."""
    return None if stage.task.gate or value else f"{stage.task.name} returned {encode(value, 100)}"
