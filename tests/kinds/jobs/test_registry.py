"""Which functions can be called by name, with which arguments, and who gets to know."""

from __future__ import annotations

import functools
import importlib
import re
import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pytest

from duetime.engine.errors import InvalidInput
from duetime.engine.kind import Caller
from duetime.kinds.jobs.builtin import TASKS, operator_tasks
from duetime.kinds.jobs.context import TaskContext
from duetime.kinds.jobs.loading import Location, TaskModuleError, find_function, load, load_entry_points, locate
from duetime.kinds.jobs.registry import DuplicateTask, InvalidTask, Registry, Task, default_registry, task

if TYPE_CHECKING:
    from collections.abc import Sequence as Unresolvable

ANYBODY = Caller("ann")
OPERATOR = Caller("ann", operator=True)


def report(
    title: str,
    pages: int = 3,
    *,
    style: Literal["plain", "rich"] = "plain",
    tags: Annotated[list[str] | None, "words to file it under"] = None,
    ratio: float = 1.0,
) -> None:
    """Writes a report.

    In full.
    """


def test_both_forms_of_the_decorator_leave_the_function_alone() -> None:
    registry = Registry()

    @registry.task
    def one() -> int:
        """Gives one."""
        return 1

    @registry.task(name="zwei", description="Gives two.", operator=True)
    def two() -> int:
        return 2

    assert (one(), two()) == (1, 2)
    assert [(each.name, each.description, each.operator) for each in registry] == [
        ("one", "Gives one.", False),
        ("zwei", "Gives two.", True),
    ]


def test_the_bare_decorator_registers_for_everybody() -> None:
    assert task.__self__ is default_registry  # type: ignore[attr-defined]


def test_a_name_is_taken_once() -> None:
    registry = Registry(TASKS)
    with pytest.raises(
        DuplicateTask, match=r"'echo' is registered twice: by duetime\.kinds\.jobs\.builtin\.echo and by"
    ):
        registry.task(name="echo")(report)


def test_a_base_is_found_and_comes_first() -> None:
    base = Registry()
    registry = Registry(TASKS, base=base)
    base.task(name="echo")(report)
    found = registry.get("echo")
    assert found is not None and found.function is report
    assert [each.name for each in registry] == ["echo", "event", "shorten"] and len(registry) == 3


@pytest.mark.parametrize(
    ("function", "options", "problem"),
    [
        (report, {"name": "a b"}, "cannot be the name"),
        (report, {"name": ""}, "cannot be the name"),
        (report, {"name": "x" * 101}, "cannot be the name"),
        (lambda: None, {}, "cannot be the name"),
        (functools.partial(report, "x"), {}, "no name of its own"),
        (report, {"isolation": "fork"}, "isolation must be"),
        (lambda: None, {"name": "x", "isolation": "process"}, "at the top of a module"),
        (max, {"name": "x"}, "cannot be read"),
    ],
)
def test_what_cannot_be_a_task(function: Any, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidTask, match=problem):
        Task(function, **options)


def test_generators_and_misplaced_options_are_refused() -> None:
    def generate() -> Iterator[int]:
        yield 1

    with pytest.raises(InvalidTask, match="generator"):
        Task(generate)
    with pytest.raises(InvalidTask, match="by name"):
        Registry().task("report")  # type: ignore[call-overload]


def test_a_description_for_agents() -> None:
    (described,) = Registry([Task(report)]).describe(ANYBODY)
    assert described == {
        "name": "report",
        "description": "Writes a report.\n\nIn full.",
        "arguments": {
            "type": "object",
            "properties": {
                "title": {"type": "string"},
                "pages": {"type": "integer", "default": 3},
                "style": {"enum": ["plain", "rich"], "default": "plain"},
                "tags": {
                    "anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}],
                    "description": "words to file it under",
                    "default": None,
                },
                "ratio": {"type": "number", "default": 1.0},
            },
            "required": ["title"],
            "additionalProperties": False,
        },
    }


def test_operators_see_more() -> None:
    registry = Registry((*TASKS, *operator_tasks(lambda: {}, lambda: {})))
    assert [each["name"] for each in registry.describe(ANYBODY)] == ["echo", "event", "shorten"]
    assert len(registry.describe(OPERATOR)) == 5
    assert registry.visible("prune_history", ANYBODY) is None
    assert registry.visible("prune_history", OPERATOR) is not None


@pytest.mark.parametrize(
    ("args", "kwargs", "field", "problem"),
    [
        ([], {}, "title", "title: missing"),
        ([5], {}, "title", "title: must be a text, not the number 5"),
        (["t", True], {}, "pages", "pages: must be a whole number, not true"),
        (["t", 2.0], {}, "pages", "must be a whole number"),
        (["t", 1, "rich"], {}, "args", "takes at most 2 by position, not 3"),
        (["t"], {"title": "u"}, "title", "given twice"),
        (["t"], {"colour": 1}, "colour", "colour: the task report has no such argument"),
        (["t"], {"style": "loud"}, "style", 'must be one of "plain", "rich"'),
        (["t"], {"style": ["plain"]}, "style", "must be one of"),
        (["t"], {"tags": ["a", 1]}, "tags", "a list, each item a text or null, not a list with the number 1"),
        (["t"], {"ratio": "1"}, "ratio", "must be a number, not a text"),
        (["t"], {"ratio": False}, "ratio", "must be a number, not false"),
    ],
)
def test_arguments_that_do_not_fit(args: list[Any], kwargs: dict[str, Any], field: str, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem) as caught:
        Task(report).arguments.check("report", args, kwargs)
    assert caught.value.field == field


def pack(
    names: list[str],
    counts: dict[str, int],
    flags: list[bool | None],
    hot: bool,
    rows: list[list[float]] | None,
    facts: dict[str, bool | str],
    rest: list[Any],
) -> None: ...


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("names", '[1, 2.50, true, null, "x", "5"]', ["1", "2.50", "true", "null", "x", "5"]),
        ("counts", '{"a": "1", "b": 2}', {"a": 1, "b": 2}),
        ("flags", '["True", false, null]', [True, False, None]),
        ("hot", "True", True),
        ("hot", "false", False),
        ("rows", '[["1", 2.5]]', [[1, 2.5]]),
        ("facts", '{"a": true, "b": "true", "c": 5}', {"a": True, "b": "true", "c": "5"}),
        ("rest", '["1", 2.50, true]', ["1", 2.5, True]),
    ],
)
def test_what_is_typed_has_the_types_of_the_task(name: str, text: str, value: object) -> None:
    arguments = Task(pack).arguments
    typed = arguments.typed([], {name: text})[1][name]
    assert (typed, repr(typed)) == (value, repr(value))
    arguments.named[name].shape.check(name, typed)


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("rest", '["1", True]', "must be a list, each item anything, not a text"),
        ("names", '[1, ["a"]]', "must be a list, each item a text, not a list with a list"),
        ("counts", '{"a": 1, "b": "one"}', "must be an object, each value a whole number, not an object with a text"),
        ("hot", "yes", "must be true or false, not a text"),
        ("hot", "1", "must be true or false, not the number 1"),
        ("rows", '["one"]', "must be a list, each item a list, each item a number or null, not a list with a text"),
    ],
)
def test_what_is_typed_and_does_not_fit_is_described(name: str, text: str, problem: str) -> None:
    arguments = Task(pack).arguments
    with pytest.raises(InvalidInput, match=f"{re.escape(f'{name}: {problem}')}$"):
        arguments.named[name].shape.check(name, arguments.typed([], {name: text})[1][name])


def test_arguments_that_fit() -> None:
    arguments = Task(report).arguments
    arguments.check("report", ["t", 2], {"tags": ["a"], "ratio": 1, "style": "rich"})
    arguments.check("report", [], {"title": "t"})
    arguments.check("report", [], {}, piped=True)


def test_a_step_must_take_what_the_one_before_passes_on() -> None:
    def nothing() -> None: ...

    def named(*, text: str) -> None: ...

    for function in (nothing, named):
        with pytest.raises(InvalidInput, match="takes no argument"):
            Task(function).arguments.check("it", [], {}, piped=True)
    with pytest.raises(InvalidInput, match="given twice"):
        Task(report).arguments.check("report", [], {"title": "t"}, piped=True)


def test_any_number_of_arguments() -> None:
    def collect(*items: int, **more: str) -> None: ...

    arguments = Task(collect).arguments
    arguments.check("collect", [1, 2, 3], {"a": "b"})
    with pytest.raises(InvalidInput, match="items: must be a whole number"):
        arguments.check("collect", [1, "2"], {})
    with pytest.raises(InvalidInput, match="a: must be a text"):
        arguments.check("collect", [], {"a": 1})
    assert arguments.schema()["furtherPositional"] == {"type": "integer"}
    assert arguments.schema()["additionalProperties"] == {"type": "string"}


def test_richer_annotations_are_read_strictly_and_converted() -> None:
    def wait_until(day: date, place: Path | None = None) -> tuple[date, Path | None]:
        return day, place

    rich = Task(wait_until)
    rich.arguments.check("wait_until", ["2026-02-10"], {})
    with pytest.raises(InvalidInput, match="day: ") as caught:
        rich.arguments.check("wait_until", ["soon"], {})
    assert caught.value.field == "day"
    assert rich.arguments.schema()["properties"]["day"] == {"type": "string", "format": "date"}
    assert rich.call(["2026-02-10"], {"place": "a"}, pytest.fail) == (date(2026, 2, 10), Path("a"))


def test_annotations_nobody_can_read_are_not_checked() -> None:
    def odd(a: Unresolvable[int], b: int, context: TaskContext) -> None: ...

    class Own: ...

    def own(a: Own) -> None: ...

    with pytest.raises(InvalidInput, match="b: must be a whole number"):
        Task(odd).arguments.check("odd", [1, "x"], {})
    assert Task(odd).arguments.context is not None
    Task(own).arguments.check("own", [1], {})


@pytest.mark.parametrize("args", [[], [1], [1, 2], [1, 2, 3]])
def test_a_context_stands_anywhere_and_is_nobodys_to_pass(args: list[int]) -> None:
    marker: Any = object()

    def first(context, *items: int) -> Any:  # type: ignore[no-untyped-def]
        return context, items

    def middle(a: int = 0, ctx: TaskContext | None = None, b: int = 0, c: int = 0) -> Any:
        return ctx, (a, b, c)

    def last(*items: int, context: TaskContext) -> Any:
        return context, items

    padded = (*args, 0, 0, 0)[:3]
    for function, expected in ((first, tuple(args)), (middle, padded), (last, tuple(args))):
        each = Task(function)
        assert each.call(args, {}, lambda: marker) == (marker, expected)
        name = "ctx" if function is middle else "context"
        assert name not in each.arguments.schema()["properties"]
        with pytest.raises(InvalidInput, match=f"{name}: the task t has no such argument"):
            each.arguments.check("t", [], {name: 1})


def test_a_context_that_is_something_else_is_an_argument() -> None:
    def quote(context: str) -> str:
        return context

    assert Task(quote).arguments.context is None
    assert Task(quote).call(["x"], {}, pytest.fail) == "x"


def test_modules_by_name_and_by_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "some_tasks_of_mine.py").write_text("def hello() -> str: return 'hi'\n")
    (tmp_path / "json.py").write_text("def hello() -> str: return 'hi'\n")
    by_name, by_file = load(["some_tasks_of_mine", "json.py"])
    assert load(["./json.py"]) == [by_file]
    for module in (by_name, by_file):
        assert find_function(locate(module.hello))() == "hi"
    for name in (by_name.__name__, by_file.__name__):
        monkeypatch.delitem(sys.modules, name)


def test_a_cluster_that_imports_a_task_keeps_other_threads_of_its_process_from_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unlike in the process of one task, which may start no worker while it imports the program of the task."""
    monkeypatch.syspath_prepend(tmp_path)
    content = "from duetime import Duetime\nwith Duetime(':memory:'):\n    started = 'started'.title\n"
    (tmp_path / "starts_a_worker.py").write_text(content)
    place = Location("starts_a_worker", None, "started")
    with pytest.raises(TaskModuleError, match="must not start a worker there"):
        find_function(place, alone=True)
    assert find_function(place)() == "Started"
    monkeypatch.delitem(sys.modules, "starts_a_worker")


@pytest.mark.parametrize(
    ("content", "name", "problem"),
    [
        (None, "no_such_tasks", "there is no module no_such_tasks; install it, give the path"),
        (None, "no_such/tasks.py", "there is no file no_such/tasks.py"),
        ("1/0", "broken_tasks", "broken_tasks could not be imported: ZeroDivisionError: division by zero"),
        ("1/0", "broken_tasks.py", "broken_tasks.py could not be imported: ZeroDivisionError"),
        ("import no_such_thing", "broken_tasks", "could not be imported: ModuleNotFoundError"),
        ("raise SystemExit(1)", "broken_tasks", "could not be imported: SystemExit: 1"),
        ("def f(:", "broken_tasks", "could not be imported: SyntaxError"),
    ],
)
def test_modules_that_cannot_be_loaded(
    content: str | None, name: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    if content is not None:
        (tmp_path / "broken_tasks.py").write_text(content)
    with pytest.raises(TaskModuleError, match=problem):
        load([name])


def announce(directory: Path, module: str) -> None:
    info = directory / "their_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[duetime.tasks]\ntheirs = {module}\n")


def test_the_program_itself_may_be_named_as_a_module(monkeypatch: pytest.MonkeyPatch) -> None:
    program = ModuleType("__main__")  # without a spec, as that of a script
    monkeypatch.setitem(sys.modules, "__main__", program)
    assert load(["__main__"]) == [program]


def test_installed_packages_announce_their_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    announce(tmp_path, "their_tasks")
    with pytest.raises(TaskModuleError, match=r"their_tasks \(entry point theirs .* could not be imported"):
        load_entry_points()
    (tmp_path / "their_tasks.py").write_text("")
    importlib.invalidate_caches()
    assert load_entry_points() == ["theirs"]
    monkeypatch.delitem(sys.modules, "their_tasks")


def test_a_file_that_the_program_has_imported_is_not_loaded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tasks would be registered twice."""
    (tmp_path / "imported_tasks.py").write_text("made = []\nmade.append(1)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    imported = importlib.import_module("imported_tasks")
    assert load([str(tmp_path / "imported_tasks.py")]) == [imported]
