"""Registry of the functions that jobs may call. A job names a registered task and never contains code."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, overload

from duetime.engine.errors import DuetimeError, InvalidInput
from duetime.engine.kind import LOCAL
from duetime.engine.policy.options import is_tag
from duetime.kinds.jobs.arguments import Arguments
from duetime.kinds.jobs.context import TaskContext
from duetime.kinds.jobs.loading import FILE_PREFIX

if TYPE_CHECKING:
    from duetime.engine.kind import Caller
    from duetime.engine.validation import NewSchedule

F = TypeVar("F", bound=Callable[..., Any])
Isolation = Literal["thread", "process"]
ELSEWHERE = "elsewhere"
"""Stands for the isolation of a task with `runs_on`."""
_NAME = re.compile(r"[^\W\d][\w.-]{0,99}")


class InvalidTask(DuetimeError):
    """The function cannot be registered as a task."""

    code = "invalid_task"


class DuplicateTask(InvalidTask):
    """Two functions are registered under one name."""

    code = "duplicate_task"


class Task:
    """A registered function."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        isolation: Isolation = "thread",
        operator: bool = False,
        local: bool = False,
        constants: Mapping[str, Any] | None = None,
        portable: bool = False,
        web: bool = False,
        gate: bool = False,
        needs: str | None = None,
        runs_on: str = "",
    ) -> None:
        """`operator`: only for operators. `local`: only for operators on this machine, without a token. `constants`:
        named arguments from the settings, which callers neither see nor change. `portable`: in a pipeline, it can run
        in the process of another step. `web`: not for agents' runs that may not use the web. `gate`: only in
        `only_if`, where it remembers something. `needs`: only for workers with this label. `runs_on`: an executor of
        the settings, such as a cluster."""
        self.function = function
        self.name = _name_of(function) if name is None else name
        self.description = inspect.cleandoc(description or function.__doc__ or "")
        self.runs_on = runs_on
        self.isolation: str = ELSEWHERE if runs_on and isolation == "thread" else isolation
        self.operator = operator or local
        self.local = local
        self.constants = dict(constants or {})
        self.portable = portable
        self.web = web
        self.gate = gate
        self.needs = None if needs is None else str(needs)
        self.schedule: NewSchedule | None = None
        """What its decorator declares; see `declaration_reader`."""
        _check(self)

    @cached_property
    def arguments(self) -> Arguments:
        """The arguments, read on first use because annotations may refer to names that the module defines later."""
        return Arguments(self.function, hidden=self.constants)

    @property
    def place(self) -> str:
        module = getattr(self.function, "__module__", "?")
        return f"{module}.{getattr(self.function, '__qualname__', repr(self.function))}"

    def call(self, args: Sequence[Any], kwargs: dict[str, Any], context: Callable[[], TaskContext]) -> Any:
        arguments = self.arguments
        if not arguments.direct:
            args, kwargs = arguments.adapt(args, kwargs, context)
        return self.function(*args, **kwargs, **self.constants)

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "description": self.description, "arguments": self.arguments.schema()}


class Registry:
    """A collection of tasks by name. Tasks of `base` take precedence, so a project can replace a built-in task."""

    def __init__(self, tasks: Iterable[Task] = (), *, base: Registry | None = None) -> None:
        self._tasks: dict[str, Task] = {}
        self._base = base
        self.extend(tasks)

    def add(self, task: Task) -> Task:
        present = self._tasks.setdefault(task.name, task)
        if present is not task:
            raise DuplicateTask(
                f"the task {task.name!r} is registered twice: by {present.place} and by {task.place}; "
                "give one of them another name: @task(name=...)"
            )
        return task

    def extend(self, tasks: Iterable[Task]) -> None:
        for task in tasks:
            self.add(task)

    @overload
    def task(self, function: F, /) -> F: ...

    @overload
    def task(
        self,
        /,
        *,
        name: str | None = None,
        description: str | None = None,
        isolation: Isolation = "thread",
        operator: bool = False,
        web: bool = False,
        needs: str | None = None,
        runs_on: str = "",
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        **schedule: Any,
    ) -> Callable[[F], F]: ...

    def task(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        description: str | None = None,
        isolation: Isolation = "thread",
        operator: bool = False,
        web: bool = False,
        needs: str | None = None,
        runs_on: str = "",
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        **schedule: Any,
    ) -> Any:
        """Register a function as a task and return it unchanged: `@task` or `@task(name=..., isolation="process")`.

        The default name is that of the function, and the default description its docstring. With `isolation="process"`,
        each run has its own process. With `operator`, agents cannot see or schedule the task. With `web`, the task
        reaches the network, so the runs of agents that may not use the web cannot schedule it. With `needs="gpu"`, only
        workers with the label `gpu` run it. With `runs_on`, the executor of this name in the settings runs it, such as
        a Dask cluster.

        With times, such as `every="1h"` or `when="every weekday at 8:30"`, a worker that starts creates a schedule with
        these options and the arguments `args` and `kwargs`, named after the task. It changes the schedule when the
        declaration changes, and cancels it when the declaration is gone.
        """

        def register(decorated: F) -> F:
            if not callable(decorated):
                raise InvalidTask(f"@task takes its options by name: @task(name={decorated!r})")
            options: dict[str, Any] = {"isolation": isolation, "operator": operator, "web": web, "needs": needs}
            options["runs_on"] = runs_on
            added = self.add(Task(decorated, name=name, description=description, **options))
            if schedule or args or kwargs:
                from duetime.kinds.jobs.declaration_reader import read_declaration  # most tasks declare nothing

                try:
                    module = decorated.__module__
                    own = schedule if needs is None else {**schedule, "needs": needs}
                    added.schedule = read_declaration(added.name, module, args, kwargs or {}, own)
                except InvalidInput as error:
                    raise InvalidTask(f"{added.name}: {error.message}") from None
            return decorated

        return register if function is None else register(function)

    def get(self, name: str) -> Task | None:
        inherited = self._base.get(name) if self._base is not None else None
        return inherited or self._tasks.get(name)

    def visible(self, name: str, caller: Caller) -> Task | None:
        """Return the task, or None if it does not exist or this caller may not schedule it."""
        task = self.get(name)
        if task is None or (task.operator and not caller.operator) or (task.local and caller.holder != LOCAL):
            return None
        return task

    def describe(self, caller: Caller) -> list[dict[str, Any]]:
        """Describe to agents the tasks that this caller may schedule, sorted by name."""
        return [task.describe() for task in self if self.visible(task.name, caller) is not None]

    def __iter__(self) -> Iterator[Task]:
        return iter(sorted(self._all().values(), key=lambda task: task.name))

    def __len__(self) -> int:
        return len(self._all())

    def _all(self) -> Mapping[str, Task]:
        return {**self._tasks, **(self._base._all() if self._base is not None else {})}


def _name_of(function: Any) -> str:
    name = getattr(function, "__name__", None)
    if not isinstance(name, str):
        raise InvalidTask(f"{function!r} has no name of its own; give one: @task(name=...)")
    return name


def _check(task: Task) -> None:
    function = task.function
    if not _NAME.fullmatch(task.name):
        raise InvalidTask(
            f"{task.name!r} cannot be the name of a task: it must begin with a letter or _, followed by "
            "letters, digits, '_', '.' and '-', at most 100; give one: @task(name=...)"
        )
    if task.needs is not None and not is_tag(task.needs):
        raise InvalidTask(f"{task.name}: needs must be a label such as 'gpu', in lowercase, not {task.needs!r}")
    if task.isolation not in (*get_args(Isolation), ELSEWHERE):
        raise InvalidTask(f"{task.name}: isolation must be 'thread' or 'process', not {task.isolation!r}")
    if task.runs_on:
        _check_elsewhere(task)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidTask(f"{task.name}: a generator does nothing when it is called; return a list instead")
    if task.isolation != "thread" and not getattr(function, "__qualname__", "<").replace(".", "_").isidentifier():
        how = "runs_on" if task.runs_on else "isolation='process'"
        raise InvalidTask(f"{task.name}: with {how} it must be a function at the top of a module")
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError) as error:
        raise InvalidTask(f"{task.name}: its arguments cannot be read ({error}); wrap it in a function") from error
    context = parameters.get("context")
    if context is not None and context.kind is inspect.Parameter.POSITIONAL_ONLY:
        raise InvalidTask(f"{task.name}: `context` must not be positional-only")


def _check_elsewhere(task: Task) -> None:
    """Refuse a task that other machines cannot import by name: code is named there and never sent."""
    if task.isolation != ELSEWHERE or task.needs is not None:
        raise InvalidTask(
            f"{task.name}: with runs_on, {task.runs_on} decides where it runs; leave isolation and needs out"
        )
    module = getattr(task.function, "__module__", None) or "__main__"
    is_script = module == "__main__" and getattr(sys.modules.get(module), "__spec__", None) is None
    if is_script or module.startswith(FILE_PREFIX):
        raise InvalidTask(
            f"{task.name}: {task.runs_on} cannot import it from a file; put it into a module that is installed on the "
            "cluster, too, and name that: --tasks package.module"
        )


default_registry = Registry()
task = default_registry.task
