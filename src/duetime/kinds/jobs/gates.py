"""Checks gates, the conditions in `only_if`: pipelines of tasks that are evaluated without starting a process for the
tasks that come with Duetime."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from duetime.engine.clock import SystemClock
from duetime.engine.encoding import encode
from duetime.engine.errors import InvalidInput, UnknownTask
from duetime.engine.gate import GateLook
from duetime.engine.kind import Caller, StopReason, StopSignal, Work
from duetime.engine.narrowing import may_use_web
from duetime.engine.outcome import Returned
from duetime.engine.policy.gates import MOST_REMEMBERED
from duetime.kinds.jobs import builtin, gate_tasks
from duetime.kinds.jobs.arguments import told_as_piped
from duetime.kinds.jobs.gate_tasks import Memory, NotNow
from duetime.kinds.jobs.pipeline import Plan, Planner, Stage, Unreadable, parse

if TYPE_CHECKING:
    from duetime.kinds.jobs.registry import Task
    from duetime.net.client import Http

T = TypeVar("T")

LONGEST: Final = 30.0
"""Maximum seconds that a gate may take."""
_MOST_LOST: Final = 8
"""Maximum number of gates whose tasks have not returned in time and still occupy a thread."""
_FIELD: Final = "only_if"
_CLOCK: Final = SystemClock()
_OVER: Final = f"it took longer than {LONGEST:g} s"


class TaskCaller(Protocol):
    """What gates need of the kind that knows the tasks."""

    planner: Planner

    def unknown_here(self, work: Work, reason: str) -> Returned: ...

    def call_alone(self, task: Task, args: list[Any], kwargs: dict[str, Any], work: Work) -> Any: ...


class GateFailed(Exception):
    """The gate could not be checked."""


class BoundedStop(StopSignal):
    """The stop signal of a run, which is also set when the time of its gate is over."""

    __slots__ = ("_ends", "_outer")

    def __init__(self, outer: StopSignal, ends: float) -> None:
        super().__init__()
        self._outer, self._ends = outer, ends

    @property
    def reason(self) -> StopReason | None:
        return self._outer.reason or (StopReason.TIMEOUT if self.left <= 0 else None)

    @property
    def left(self) -> float:
        return self._ends - _CLOCK.monotonic()

    def is_set(self) -> bool:
        return self.reason is not None

    def set(self, reason: StopReason) -> None:
        self._outer.set(reason)

    def wait(self, timeout: float | None = None) -> bool:
        left = max(0.0, self.left)
        return self._outer.wait(left if timeout is None else min(left, timeout)) or self.is_set()


class GateChecks:
    """Implements `engine.gate.Gates`."""

    def __init__(self, kind: TaskCaller) -> None:
        self._kind = kind
        self._opening = threading.Lock()
        self._http: Http | None = None
        self._lost: list[threading.Thread] = []

    def check(self, gate: str, caller: Caller) -> None:
        try:
            parse(gate)
            plan = self._kind.planner.checked(gate, (), {}, caller, gate=True)
            for task, step in plan.stages:
                if task.web and not may_use_web(caller):
                    problem = "this uses the web, which this agent's run may not; ask a person to do it"
                    raise InvalidInput(field=_FIELD, problem=problem)
                if task.function is gate_tasks.matches:
                    gate_tasks.matches("", *step.args, **step.kwargs)
                elif task.function is gate_tasks.files_changed:
                    gate_tasks.allowed_folder(*step.args, **{**step.kwargs, "folders": task.constants["folders"]})
        except Unreadable as error:
            example = "fetch('https://example.org/status') | field('state') | changed()"
            raise InvalidInput(field=_FIELD, problem=f"{error}; write a pipeline of tasks: {example}") from None
        except UnknownTask as error:
            raise UnknownTask(error.message, field=_FIELD, known=error.details.get("known", ())) from None
        except InvalidInput as error:
            if error.field == _FIELD:
                raise
            raise InvalidInput(field=_FIELD, problem=f"{error.field}: {error.problem}") from None

    def look(self, gate: str, memory: str | None, work: Work) -> GateLook | Returned:
        try:
            plan = self._kind.planner.known(gate)
        except UnknownTask as error:
            return self._kind.unknown_here(
                work, f"{error}, in only_if; start a worker with the module that registers it"
            )
        stop = BoundedStop(work.stop, _CLOCK.monotonic() + LONGEST)
        evaluate = partial(self._evaluate, plan, memory, replace(work, stop=stop), stop)
        return evaluate() if all(map(self._is_bounded, plan.stages)) else self._beside(evaluate, stop)

    def close(self) -> None:
        with self._opening:
            if self._http is not None:
                self._http.close()
                self._http = None

    def _is_bounded(self, stage: Stage) -> bool:
        return stage.task.function in _OWN or stage.task.isolation == "process"

    def _beside(self, evaluate: Callable[[], T], stop: BoundedStop) -> T:
        """Evaluate in another thread, which is left alone if a task does not return in time, because a thread cannot be
        killed."""
        with self._opening:
            self._lost = [thread for thread in self._lost if thread.is_alive()]
            if len(self._lost) >= _MOST_LOST:
                raise GateFailed(f"{len(self._lost)} earlier checks of gates have not returned")
        ends: list[T | BaseException] = []
        thread = threading.Thread(target=lambda: ends.append(_caught(evaluate)), name="duetime-gate", daemon=True)
        thread.start()
        thread.join(max(0.0, stop.left))
        if not ends:
            self._lost.append(thread)
            raise GateFailed(_OVER)
        if isinstance(ends[0], BaseException):
            raise ends[0]
        return ends[0]

    def _evaluate(self, plan: Plan, memory: str | None, work: Work, stop: BoundedStop) -> GateLook:
        before: dict[str, Any] = {} if memory is None else json.loads(memory)
        memories = {str(index): Memory(before.get(str(index))) for index in range(len(plan.stages))}
        value: Any = None
        result: Any = None
        reason: str | None = None
        for index, stage in enumerate(plan.stages):
            if stage.step.apart:
                reason = reason or _refusal(plan.stages[index - 1], value)
            if reason is not None and memory is not None:
                break  # the first look goes on, so that each step has something to compare with
            if stop.is_set():
                raise GateFailed(_OVER)
            try:
                value = self._call(stage, index, value, memories[str(index)], work, stop)
            except NotNow as refusal:
                reason = reason or str(refusal)
            if not isinstance(value, bool):
                result = value
        else:
            reason = reason or _refusal(plan.stages[-1], value)
        if stop.is_set():
            raise GateFailed(_OVER)
        news = {
            name: slot.after
            for name, slot in memories.items()
            if slot.after != slot.before and (reason is None or slot.at_once)
        }
        text = json.dumps({**before, **news}, ensure_ascii=False) if news else None
        return GateLook(
            reason, text, None if reason is not None else encode(value if result is None else result, MOST_REMEMBERED)
        )

    def _call(self, stage: Stage, index: int, value: Any, memory: Memory, work: Work, stop: BoundedStop) -> Any:
        task, step = stage
        args, kwargs = step.arguments()
        is_piped = index > 0 and not step.apart
        if is_piped:
            args.insert(0, value)
        try:
            if task.gate:
                return task.function(*args, **kwargs, **{**task.constants, "memory": memory})
            if task.function in (builtin.fetch, gate_tasks.status):
                read = builtin.read_page if task.function is builtin.fetch else builtin.status_of
                patience = min(builtin.PATIENCE, max(0.1, stop.left))
                return read(self._open_http(task.constants), *args, **kwargs, patience=patience)
            return self._kind.call_alone(task, args, kwargs, work)
        except InvalidInput as error:
            raise (told_as_piped(error, task.name) if is_piped else error) from None

    def _open_http(self, constants: Mapping[str, Any]) -> Http:
        with self._opening:
            if self._http is None:
                self._http = builtin.open_http(constants["allowed_hosts"], connections=32)
            return self._http


_OWN: Final = frozenset({
    builtin.fetch, builtin.echo, builtin.shorten, gate_tasks.changed, gate_tasks.became, gate_tasks.contains,
    gate_tasks.matches, gate_tasks.field, gate_tasks.status, gate_tasks.files_changed,
})  # fmt: skip
"""The tasks that come with Duetime and end in time by themselves."""


def _refusal(stage: Stage, value: Any) -> str | None:
    """Return why a part of the gate lets nothing pass; a step that compares has decided that already."""
    return None if stage.task.gate or value else f"{stage.task.name} returned {encode(value, 100)}"


def _caught(evaluate: Callable[[], T]) -> T | BaseException:
    try:
        return evaluate()
    except BaseException as error:  # it is raised again in the thread of the run
        return error
