"""The context of every command: its application and settings, common options, values and command lines.

`cli.main` registers the function that builds the application, because commands are in a lower layer.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

from duetime.engine.errors import InvalidInput
from duetime.terminal import output
from duetime.terminal.declarations import is_reading, option
from duetime.terminal.output import clean

if TYPE_CHECKING:
    from duetime.engine.clock import Clock
    from duetime.engine.scheduler import Scheduler
    from duetime.engine.store import Store
    from duetime.service.services import Call, Services
    from duetime.service.warnings import ScheduleWarning
    from duetime.settings import Settings


class Application(Protocol):
    @property
    def settings(self) -> Settings: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def store(self) -> Store: ...

    @property
    def scheduler(self) -> Scheduler: ...

    @property
    def services(self) -> Services: ...

    @property
    def call(self) -> Call: ...

    def close(self) -> None: ...


_builders: list[Callable[..., Application]] = []


def register_builder(build: Callable[..., Application]) -> None:
    """Set the function that opens the store and assembles the application."""
    _builders[:] = [build]


# Settings of one command: `--config`, and a warning on standard error about a settings file that is ignored.

OPTION = "--config"
VARIABLE = "DUETIME_CONFIG"


def settings_for(flags: Mapping[str, Any] | None = None) -> Settings:
    """Load the settings from the command line, the environment and the settings file. If the current folder has a
    settings file that is not trusted, refuse commands that may write, unless the store is named; others ignore it."""
    from duetime.settings import load_settings

    settings = load_settings(flags)
    origin = settings.origin
    if origin.refusal and origin.changed and _trusted_again():
        return settings_for(flags)
    if origin.refusal and not is_reading():
        from duetime.service.errors import refuse

        raise refuse("not_possible", origin.refusal)
    if origin.ignored:
        print(f"duetime: {clean(origin.ignored)}", file=sys.stderr)
    return settings


def _trusted_again() -> bool:
    """Show a person what has changed in the settings file of this folder since it was trusted, and ask whether to trust
    it as it is now."""
    from duetime.settings import FILE, data_folder
    from duetime.settings.locations import TrustedFiles, read_file_once
    from duetime.terminal.input import agreed, is_interactive

    file, files = read_file_once(Path.cwd() / FILE), TrustedFiles(data_folder())
    if file is None or not is_interactive():
        return False
    print("\n".join(map(clean, [f"{file.path} has changed since you trusted it:", *files.lines_to_review(file)])))
    if not agreed("Trust it as it is now?"):
        return False
    files.add(file)
    return True


def take_config(arguments: Sequence[str]) -> tuple[list[str], str | None]:
    """Return the other arguments, and the file that `--config FILE` names anywhere before `--`."""
    own = list(arguments)
    end = own.index("--") if "--" in own else len(own)
    for place, word in enumerate(own[:end]):
        name, equals, file = word.partition("=")
        if name == OPTION:
            following = place + 1 if equals else place + 2
            file = file if equals else "".join(own[place + 1 : end][:1])
            if not file:
                raise InvalidInput(f"{OPTION}: name a settings file after it")
            return [*own[:place], *own[following:]], str(Path(file).expanduser().absolute())
    return own, None


@contextmanager
def config_named(file: str | None) -> Iterator[None]:
    """Make a command and the processes that it starts read the named file, through a variable that is restored on
    exit."""
    before = os.environ.get(VARIABLE)
    if file is not None:
        os.environ[VARIABLE] = file
    try:
        yield
    finally:
        if file is not None:
            os.environ.pop(VARIABLE, None)
            os.environ |= {} if before is None else {VARIABLE: before}


# Common options, opening the store, parsing values, and command lines to suggest.

Tools = Annotated[
    str | None, option("--tools NAMES", "Tools to offer: jobs,prompts,notifications or names of tools; by default all.")
]

Db = Annotated[
    str | None, option("--db URL", "Store to use: a file or postgresql://...; by default that of the settings.")
]
Json = Annotated[bool, option("--json", "Print JSON instead of text.")]
Limit = Annotated[int, option("--limit -n", "Maximum number to show, newest first.", min=1, max=1000)]
Cursor = Annotated[str | None, option("--cursor TEXT", "Continue after an earlier page, by its next_cursor.")]
Tasks = Annotated[list[str] | None, option("--tasks MODULE", "Module or .py file that registers tasks. Repeatable.")]


def opened(
    db: str | None, tasks: Sequence[str] | None = None, *, load_tasks: bool = False, making: bool = False
) -> closing[Application]:
    """Open the application for one command, and close it afterwards. `load_tasks` is for commands that check or call
    tasks. `making` is for commands that create schedules: they may create the store."""
    settings = settings_for({"db": db, "tasks": tasks})
    [build] = _builders
    return closing(build(settings, tasks=load_tasks, must_exist=db is not None and not making))


def program(*arguments: str) -> str:
    """Return a command line that works when it is copied, even if `duetime` is not on the PATH."""
    import shutil

    called = Path(sys.argv[0])
    if shutil.which("duetime"):
        start = "duetime"
    elif called.name == "duetime":
        start = str(called)
    else:
        start = "python -m duetime"
    return " ".join((start, *map(shlex.quote, arguments)))


def again(app: Application, *arguments: str) -> str:
    """Return the command line of another command on the same store."""
    from duetime.service.masking import without_password

    settings = app.settings
    named = settings.db if "the command line" in settings.sources else ""
    return program(*arguments, *(("--db", without_password(named)) if named else ()))


def print_warnings(
    app: Application, warnings: Sequence[ScheduleWarning], *, tasks: Sequence[str] | None = None
) -> None:
    """Print warnings for a person, and how to start a worker on this store if one is missing."""
    from duetime.service.services import WORKER_WARNINGS

    output.warn([each.text for each in warnings])
    if any(each.code in WORKER_WARNINGS for each in warnings):
        named = [part for module in tasks or () for part in ("--tasks", module)]
        output.note(f"start one: {again(app, 'worker', *named)}")


def print_done(
    app: Application,
    json_: bool,
    document: Mapping[str, Any],
    text: str,
    warnings: Sequence[ScheduleWarning],
    *,
    tasks: Sequence[str] | None = None,
) -> None:
    """Print what a command did, with its warnings: a document for a program, or a text for a person."""
    from duetime.service.warnings import warning_facts

    output.print_result(json_, {**document, **warning_facts(warnings)}, text)
    if not json_:
        print_warnings(app, warnings, tasks=tasks)


def given_text(text: str) -> str:
    """Return the text, or standard input if the text is a dash."""
    return sys.stdin.read().rstrip("\n") if text == "-" else text
