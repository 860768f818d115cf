"""Pipelines such as `fetch('https://example.org') | shorten(words=50)` or `backup() and report('done')`, which are
parsed as data and never evaluated."""

from __future__ import annotations

import ast
import copy
import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from duetime.engine.errors import InvalidInput, UnknownTask
from duetime.engine.kind import Caller
from duetime.kinds.jobs.registry import Registry, Task

MOST_CHARACTERS = 8192
MOST_STEPS = 20
MOST_LEVELS = 20


class Unreadable(ValueError):
    """The text is not a pipeline of names, calls and literals."""


class Step(NamedTuple):
    task: str
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}  # noqa: RUF012  a named tuple's default, never changed
    nested: bool = False
    """Whether the arguments contain lists or objects, which are copied because a task may modify them."""
    apart: bool = False
    """Whether it follows `and`, so that it does not get the result of the step before it."""

    def arguments(self) -> tuple[list[Any], dict[str, Any]]:
        """Return a copy of the arguments for one call."""
        if self.nested:
            return copy.deepcopy(list(self.args)), copy.deepcopy(self.kwargs)
        return list(self.args), dict(self.kwargs)


@lru_cache(maxsize=1024)
def parse(text: str) -> tuple[Step, ...]:
    """Return the steps in order. Raises Unreadable."""
    if len(text) > MOST_CHARACTERS:
        raise Unreadable(f"longer than {MOST_CHARACTERS} characters")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise Unreadable("not an expression") from error
    steps: list[Step] = []
    for part in tree.values if isinstance(tree, ast.BoolOp) and isinstance(tree.op, ast.And) else [tree]:
        first, *rest = map(_step, _stages(part))
        steps += [first._replace(apart=bool(steps)), *rest]
    if len(steps) > MOST_STEPS:
        raise Unreadable(f"more than {MOST_STEPS} steps")
    return tuple(steps)


def _stages(node: ast.expr) -> list[ast.expr]:
    """Return the steps in order; Python parses `a | b | c` as `(a | b) | c`."""
    stages: list[ast.expr] = []
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        stages.append(node.right)
        node = node.left
    return [node, *reversed(stages)]


def _step(node: ast.expr) -> Step:
    if not isinstance(node, ast.Call):
        return Step(_name(node, MOST_LEVELS))
    args = tuple(_literal(arg) for arg in node.args)
    kwargs: dict[str, Any] = {}
    for keyword in node.keywords:
        if keyword.arg is None or keyword.arg in kwargs:
            raise Unreadable("an argument without a name or with the name of another")
        kwargs[keyword.arg] = _literal(keyword.value)
    nested = any(isinstance(value, list | dict) for value in (*args, *kwargs.values()))
    return Step(_name(node.func, MOST_LEVELS), args, kwargs, nested)


def _name(node: ast.expr, levels: int) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and levels:
        return f"{_name(node.value, levels - 1)}.{node.attr}"
    raise Unreadable("a step is the name of a task, or its call")


def _literal(node: ast.expr) -> Any:
    """Return the value of a literal that JSON has: strings, finite numbers, true, false, null, lists and objects."""
    try:
        return _json_value(ast.literal_eval(node), MOST_LEVELS)
    except (ValueError, TypeError, RecursionError) as error:
        raise Unreadable("an argument is a literal that JSON knows") from error


def _json_value(value: Any, levels: int) -> Any:
    """Return the value with lists for tuples. Raises ValueError."""
    if levels and isinstance(value, list | tuple):
        return [_json_value(item, levels - 1) for item in value]
    if levels and isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: _json_value(item, levels - 1) for key, item in value.items()}
    if levels and (value is None or isinstance(value, str | int) or (type(value) is float and math.isfinite(value))):
        return value
    raise ValueError("JSON does not know it, or it is nested too deeply")


# Plans: the tasks that a job calls, checked when the job is created and cached for its runs.

_UNKNOWN = "Unknown task: "
_SHOWN = 200
_MOST_NAMED = 100
"""Known tasks that the error for an unknown one names."""


class Stage(NamedTuple):
    task: Task
    step: Step


class Plan(NamedTuple):
    stages: tuple[Stage, ...]
    bare: Task | None
    """The task, if the job consists of only a task name, as most jobs do."""
    needs: str | None = None
    """The label of the workers that may run it."""

    @property
    def in_one_process(self) -> bool:
        """Return whether all steps run in one child process, so that a timeout ends all of them."""
        tasks = [stage.task for stage in self.stages]
        return any(task.isolation == "process" for task in tasks) and all(task.portable for task in tasks)


class Planner:
    def __init__(self, registry: Registry, labels: Sequence[str] = ()) -> None:
        self._registry, self._labels = registry, labels
        self.known = lru_cache(maxsize=4096)(self._known)
        """Returns the plan for a run. Permissions were checked when the job was created. Raises UnknownTask, also if
        the worker has no label that the tasks need: the job may be older than their needs."""

    def _known(self, text: str) -> Plan:
        plan = _plan(self._registry.get, text)
        if plan.needs is not None and plan.needs not in self._labels:
            raise UnknownTask(f"{text[:_SHOWN]} needs the label {plan.needs}, which this worker lacks", field="task")
        return plan

    def visible(self, text: str, caller: Caller) -> Plan:
        """Return the plan of tasks that a caller may schedule. Raises UnknownTask."""
        return _plan(lambda name: self._registry.visible(name, caller), text)

    def checked(
        self, text: str, args: Sequence[Any], kwargs: Mapping[str, Any], caller: Caller, *, gate: bool = False
    ) -> Plan:
        """Return the plan for a new job or gate. Raises InvalidInput that names the argument that does not fit."""
        bare = self._registry.visible(text, caller)
        if bare is not None and not bare.gate and not (gate and bare.runs_on):
            bare.arguments.check(bare.name, args, kwargs)
            return _bare(bare)
        try:
            plan = self.visible(text, caller)
        except UnknownTask as error:
            known = [task.name for task in self._registry if self._registry.visible(task.name, caller) is not None]
            _advise(error, known[:_MOST_NAMED])
            raise
        for index, (task, step) in enumerate(plan.stages):
            if task.gate and not gate:
                raise InvalidInput(field="task", problem=f"{task.name} compares with earlier looks; use it in only_if")
            if task.runs_on and (gate or len(plan.stages) > 1):
                alone = "let it be the only task of a job, and let another job follow that one"
                raise InvalidInput(
                    field="task", problem=f"{task.name} runs on {task.runs_on}, so it is no step; {alone}"
                )
            given_args, given_kwargs = step.arguments()
            if index == 0:
                given_args += args
                for name in kwargs:
                    if name in given_kwargs:
                        raise InvalidInput(field=name, problem="given twice, in the task and in kwargs")
                given_kwargs |= kwargs
            task.arguments.check(task.name, given_args, given_kwargs, piped=index > 0 and not step.apart)
        return plan


@lru_cache(maxsize=4096)
def _bare(task: Task) -> Plan:
    return Plan((Stage(task, Step(task.name)),), task, task.needs)


def _plan(find: Callable[[str], Task | None], text: str) -> Plan:
    task = find(text)
    if task is not None:  # this includes names that Python cannot parse, such as `nightly-report`
        return _bare(task)
    try:
        steps = parse(text)
    except Unreadable as error:
        refused = _unknown(text)
        if any(mark in text for mark in "()[]{}'\"|"):
            why = "check its brackets and quotes" if isinstance(error.__cause__, SyntaxError) else str(error)
            refused.details["hint"] = f"it cannot be read: {why}"
        raise refused from None
    stages = []
    for step in steps:
        task = find(step.task)
        if task is None:
            raise _unknown(step.task)
        stages.append(Stage(task, step))
    needs = sorted({stage.task.needs for stage in stages if stage.task.needs is not None})
    if len(needs) > 1:
        problem = f"its tasks need workers with different labels, {' and '.join(needs)}; give each its own job"
        raise InvalidInput(field="task", problem=problem)
    return Plan(tuple(stages), None, *needs)


def _unknown(text: str) -> UnknownTask:
    beginning = text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
    return UnknownTask(f"{_UNKNOWN}{beginning}", field="task")


def _advise(error: UnknownTask, known: list[str]) -> None:
    """Add what to do next to an error whose message agents know to the letter."""
    import difflib  # only an error needs it

    for near in difflib.get_close_matches(error.message.removeprefix(_UNKNOWN), known, n=1, cutoff=0.7):
        error.details["hint"] = f"did you mean {near}?"
    advice = error.details.get("hint", "`duetime job tasks` lists those that are known")
    error.details |= {"known_tasks": known, "problem": f"{error.message}; {advice}"}
    error.add_note(advice)
