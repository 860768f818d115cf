"""The entry point of the CLI. Every failure ends with one clear line and a documented exit code."""

from __future__ import annotations

import atexit
import gc
import io
import json
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from duetime.cli import command_named, is_earlier_name
from duetime.engine.errors import DuetimeError
from duetime.engine.value_class import NamedTuple
from duetime.service.errors import FAILED, INTERRUPTED, OK, PIPE_CLOSED, USAGE, error_class
from duetime.terminal import output
from duetime.terminal.completion import COMPLETION
from duetime.terminal.context import Application, config_named, register_builder, take_config
from duetime.terminal.declarations import CommandSet, Exit
from duetime.terminal.errors import command_message
from duetime.terminal.output import clean

if TYPE_CHECKING:
    from duetime.settings import Settings


class CommandFailure(NamedTuple):
    code: str
    message: str
    exit: int


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command. `--debug`, which prints tracebacks, and `--config FILE` may appear anywhere before `--`."""
    if arguments is None:
        gc.set_threshold(100_000)  # a command ends before there is garbage; `serve` sets its own
        atexit.register(gc.freeze)  # so that the interpreter does not search the modules for garbage at its end
    own = list(sys.argv[1:] if arguments is None else arguments)
    options = own[: own.index("--")] if "--" in own else own
    debug = "--debug" in options
    if debug:
        own.remove("--debug")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name that the terminal cannot encode must not fail
    try:
        own, config = take_config(own)
        with config_named(config):
            code = _call(own)
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit) as error:
        if isinstance(error, SystemExit) and not isinstance(error.__context__, BrokenPipeError):
            raise  # Typer itself exits only for a closed pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # so that the interpreter's last flush reports no error
        return PIPE_CLOSED
    except (Exception, KeyboardInterrupt) as error:
        if debug:
            import traceback

            traceback.print_exc()
        return _print_failure(failure_of(error), machine="--json" in options)
    return code


def _call(arguments: list[str]) -> int:
    while True:
        try:
            answer = _run(arguments)
        except Exit as end:
            return end.code
        except Exception as error:
            from duetime.terminal.input import answers_for

            added = answers_for(error, arguments)  # nothing was done yet, because the command line was only parsed
            if not added:
                raise
            arguments = [*arguments, *added]
        else:
            return answer if isinstance(answer, int) else OK


def _run(arguments: list[str]) -> Any:
    """Run the command of a line. Typer, which is slow to import, parses a line that does not say all that the
    declaration of its command asks for."""
    commands = command_named(arguments[0]) if arguments and COMPLETION not in os.environ else None
    if isinstance(commands, CommandSet) and not is_earlier_name(arguments):
        declared, line = commands.find(arguments[1:])
        if declared is not None and (values := declared.read(line)) is not None:
            return declared.call(values)
    from duetime.cli.root import command

    if COMPLETION in os.environ:
        from typer.completion import completion_init  # type: ignore[attr-defined]  # exported nowhere else

        completion_init()
    return command()(arguments, prog_name="duetime", standalone_mode=False)


def _print_failure(failure: CommandFailure, *, machine: bool) -> int:
    if failure.code == "help":
        print(failure.message, file=sys.stderr)
    elif machine:
        print(json.dumps({"error": {"code": failure.code, "message": failure.message}}), flush=True)
    else:
        text = f"duetime: {output.one_date_format(clean(failure.message))}"
        print(output.between_words(text, sys.stderr), file=sys.stderr)
    return failure.exit


def failure_of(error: BaseException) -> CommandFailure:
    if isinstance(error, DuetimeError):
        return CommandFailure(error.code, command_message(error), error_class(error.code).exit)
    if isinstance(error, KeyboardInterrupt):
        return CommandFailure("interrupted", "interrupted", INTERRUPTED)
    if hasattr(error, "format_message"):  # raised by Typer for a command line that cannot be parsed
        message = error.format_message()
        if type(error).__name__ == "NoArgsIsHelpError":
            return CommandFailure("help", message, USAGE)
        context = getattr(error, "ctx", None)
        text = " ".join(message.split()).rstrip(".")
        where = f"see {context.command_path} --help" if context is not None else ""
        text += f" {where.capitalize()}" if text.endswith("?") else f"; {where}" if where else ""
        return CommandFailure("usage", text, USAGE)
    kind, message = type(error).__name__, str(error) or "without a message"
    return CommandFailure("unexpected", f"unexpected {kind}: {message}; repeat it with --debug to see where", FAILED)


def _build(settings: Settings, *, tasks: bool, must_exist: bool) -> Application:
    from duetime.app import build

    return build(settings, tasks=tasks, must_exist=must_exist, use_published=True, lazy=not tasks)


register_builder(_build)
