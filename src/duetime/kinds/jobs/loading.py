"""Loads modules that register tasks: by name, by file, or from the entry points of installed packages."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

from duetime.engine.encoding import error_text
from duetime.engine.errors import DuetimeError

GROUP = "duetime.tasks"
FILE_PREFIX = "duetime_file_"
task_modules: Final[set[str]] = set()
"""The names of the modules that were loaded here, in this process."""
imported_for_a_task: Final[list[str]] = []
"""The module or file that this process, which runs one task, is importing at this moment to find its function."""


class TaskModuleError(DuetimeError):
    """A module with tasks cannot be loaded."""

    code = "task_module"


def load(modules: Iterable[str], folder: str | None = ".") -> list[ModuleType]:
    """Import each module, which registers its tasks. A module is a dotted name or the path of a `.py` file. Dotted
    names are searched for among installed modules, then in `folder`, which is None if no folder is trusted."""
    loaded = [load_file(name) if name.endswith(".py") else load_module(name, folder) for name in modules]
    task_modules.update(module.__name__ for module in loaded)
    return loaded


def load_module(name: str, folder: str | None = None) -> ModuleType:
    top = name.partition(".")[0]
    if folder is not None and top not in sys.modules and importlib.util.find_spec(top) is None:
        place = str(Path(folder).resolve())
        if place not in sys.path:
            sys.path.append(place)  # at the end, so that its files shadow nothing that is installed
    return _guarded(name, lambda: importlib.import_module(name))


def load_file(path: str) -> ModuleType:
    """Load a file under a unique module name, so that a file called `json.py` does not replace another module."""
    file = Path(path).resolve()
    if not file.is_file():
        raise TaskModuleError(f"there is no file {path}; name an existing .py file with tasks, or a module")
    name = f"{FILE_PREFIX}{file.stem}_{zlib.crc32(str(file).encode()):08x}"
    if (present := sys.modules.get(name) or _imported(file)) is not None:
        return present
    if str(file.parent) not in sys.path:
        sys.path.append(str(file.parent))  # at the end, so that neighbouring files shadow nothing
    return _guarded(path, lambda: _execute_file(name, file))


def _imported(file: Path) -> ModuleType | None:
    """Return the module that the program itself has imported from this file, whose tasks are already registered."""
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if isinstance(path, str) and path.endswith(file.name) and Path(path).resolve() == file:
            return module
    return None


def load_entry_points() -> list[str]:
    """Load the entry points of installed packages in the group `duetime.tasks`; return their names."""
    from importlib.metadata import entry_points

    names = []
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        _guarded(f"{point.value} (entry point {point.name} of the group {GROUP})", point.load)
        names.append(point.name)
        task_modules.add(point.module)
    return names


class Location(NamedTuple):
    """Where another process finds a function."""

    module: str
    path: str | None
    qualname: str


def locate(function: Callable[..., Any]) -> Location:
    """Return where a function is. Raise TaskModuleError if it was defined interactively and is therefore in no file."""
    module = sys.modules.get(function.__module__)
    spec = getattr(module, "__spec__", None)
    file = getattr(module, "__file__", None)
    if function.__module__ == "__main__" and spec is not None:
        return Location(spec.name, None, function.__qualname__)
    if function.__module__ != "__main__" and not function.__module__.startswith(FILE_PREFIX):
        return Location(function.__module__, None, function.__qualname__)
    if file is None:
        raise TaskModuleError(
            f"{function.__qualname__} is in no file, so its own process cannot find it; put it into a module"
        )
    return Location(function.__module__, str(file), function.__qualname__)


def find_function(location: Location, *, alone: bool = False) -> Callable[..., Any]:
    """Import a function. `alone` says that this process does nothing else, as opposed to the threads of a cluster."""
    if alone:
        imported_for_a_task.append(location.path or location.module)
    try:
        module = load_file(location.path) if location.path is not None else load_module(location.module)
    finally:
        imported_for_a_task.clear()
    value: Any = module
    for part in location.qualname.split("."):
        value = getattr(value, part, None)
    if not callable(value):
        raise TaskModuleError(
            f"{location.module} has no function {location.qualname} at its top; "
            "a task with isolation='process' must be found there under its own name"
        )
    return value  # type: ignore[no-any-return]  # a callable, whatever else it is


def _execute_file(name: str, file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None  # it is a file that ends in .py
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # before it runs, as an import does, because dataclasses look up their module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _guarded(name: str, action: Callable[[], ModuleType]) -> ModuleType:
    try:
        return action()
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if name != missing and not name.startswith(f"{missing}."):
            raise _failed(name, error) from error
        raise TaskModuleError(
            f"there is no module {name}; install it, give the path of its .py file, "
            "or name it with --tasks in the folder that contains it"
        ) from error
    except (Exception, SystemExit) as error:
        raise _failed(name, error) from error


def _failed(name: str, error: BaseException) -> TaskModuleError:
    return TaskModuleError(f"{name} could not be imported: {error_text(error)}")
