"""From the text of a job to the tasks it calls: checked for whoever makes it, remembered for whoever runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from duetime.core.errors import InvalidInput, UnknownTask
from duetime.core.kind import Caller
from duetime.kinds.pipeline import Step, Unreadable, parse
from duetime.kinds.registry import Registry, Task

_SHOWN = 200
_REMEMBERED = 4096


class Stage(NamedTuple):
    task: Task
    step: Step


class Plan(NamedTuple):
    stages: tuple[Stage, ...]
    bare: Task | None
    """The one task of a job that is nothing but its name: most jobs are."""

    @property
    def in_one_process(self) -> bool:
        """Whether all steps belong into one process of their own, so that a timeout ends them all."""
        tasks = [stage.task for stage in self.stages]
        return any(task.isolation == "process" for task in tasks) and all(task.portable for task in tasks)


class Planner:
    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._plans: dict[str, Plan] = {}

    def known(self, text: str) -> Plan:
        """For a run. Who may call what was checked when the job was made. Raises UnknownTask."""
        plan = self._plans.get(text)
        if plan is None:
            plan = _plan(text, self._registry.get)
            if len(self._plans) >= _REMEMBERED:
                self._plans.clear()  # cheaper than an order of use, and rarely needed
            self._plans[text] = plan
        return plan

    def checked(self, text: str, args: Sequence[Any], kwargs: Mapping[str, Any], caller: Caller) -> Plan:
        """For a new job. Raises InvalidInput, naming the argument that does not fit."""
        plan = _plan(text, lambda name: self._registry.visible(name, caller))
        for index, (task, step) in enumerate(plan.stages):
            given_args, given_kwargs = step.given()
            if index == 0:
                given_args += args
                _merge(given_kwargs, kwargs)
            task.arguments.check(task.name, given_args, given_kwargs, piped=index > 0)
        return plan


def _plan(text: str, find: Callable[[str], Task | None]) -> Plan:
    task = find(text)
    if task is not None:  # also names that Python cannot read, such as `nightly-report`
        return Plan((Stage(task, Step(task.name)),), task)
    try:
        steps = parse(text)
    except Unreadable:
        raise _unknown(text) from None
    stages = []
    for step in steps:
        task = find(step.task)
        if task is None:
            raise _unknown(step.task)
        stages.append(Stage(task, step))
    return Plan(tuple(stages), None)


def _unknown(text: str) -> UnknownTask:
    shown = text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
    return UnknownTask(f"Unknown task: {shown}", field="task")


def _merge(given: dict[str, Any], kwargs: Mapping[str, Any]) -> None:
    for name, value in kwargs.items():
        if name in given:
            raise InvalidInput(f"{name}: given twice, in the task and in kwargs", field=name)
        given[name] = value
