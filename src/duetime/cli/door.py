"""Where every command goes in and out: whatever happens, one clear line and a documented exit code."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from typing import Any, NamedTuple

from duetime.cli.configured import Named, take_config
from duetime.cli.text import clean
from duetime.cli.wording import worded
from duetime.core.errors import DuetimeError

OK, FAILED, USAGE, NOT_FOUND, REFUSED, STORE = range(6)
INTERRUPTED = 128 + signal.SIGINT
PIPE_CLOSED = 128 + 13  # SIGPIPE, which not every system has

_EXITS = {
    **dict.fromkeys(("invalid", "invalid_trigger", "unknown_zone", "unreadable_time", "unknown_task"), USAGE),
    "not_found": NOT_FOUND,
    **dict.fromkeys(("not_possible", "conflict", "busy", "depth", "quota", "key_reused", "not_yours"), REFUSED),
    **dict.fromkeys(("store_unavailable", "store_unusable", "worker_gone"), STORE),
}


COMPLETION = "_DUETIME_COMPLETE"
"""Set where a shell asks for completions instead of running a command."""


class Failure(NamedTuple):
    code: str
    message: str
    exit: int


def run(arguments: Sequence[str]) -> int:
    """`--debug` and `--config FILE` may stand anywhere; the first shows the trace of whatever goes wrong."""
    own = list(arguments)
    options = own[: own.index("--")] if "--" in own else own
    debug = "--debug" in options
    if debug:
        own.remove("--debug")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name must not fail for a terminal's encoding
    try:
        own, config = take_config(own)
        with Named(config):
            code = _call(own)
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit) as error:
        if isinstance(error, SystemExit) and not isinstance(error.__context__, BrokenPipeError):
            raise  # Typer exits by itself for a closed pipe alone
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # so that the last flush of the interpreter says nothing
        return PIPE_CLOSED
    except (Exception, KeyboardInterrupt) as error:
        if debug:
            traceback.print_exc()
        return _tell(failure_of(error), machine="--json" in options)
    return code


def _call(arguments: list[str]) -> int:
    from duetime.cli.rooms import command

    if COMPLETION in os.environ:
        from typer.completion import completion_init  # type: ignore[attr-defined]  # it has no other door

        completion_init()
    answer: Any = command()(arguments, prog_name="duetime", standalone_mode=False)
    return answer if isinstance(answer, int) else OK


def _tell(failure: Failure, *, machine: bool) -> int:
    if failure.code == "help":
        print(failure.message, file=sys.stderr)
    elif machine:
        document = {"error": {"code": failure.code, "message": failure.message}}
        print(json.dumps(document), flush=True)
    else:
        print(f"duetime: {clean(failure.message)}", file=sys.stderr)
    return failure.exit


def failure_of(error: BaseException) -> Failure:
    if isinstance(error, DuetimeError):
        code = getattr(error, "reason", error.code)
        return Failure(code, worded(error, code), _EXITS.get(code, FAILED))
    if isinstance(error, KeyboardInterrupt):
        return Failure("interrupted", "interrupted", INTERRUPTED)
    if hasattr(error, "format_message"):  # what Typer raises for a command line that cannot be read
        return _usage(error)
    kind, said = type(error).__name__, str(error) or "without a message"
    return Failure("unexpected", f"unexpected {kind}: {said}; repeat it with --debug to see where", FAILED)


def _usage(error: Any) -> Failure:
    message = error.format_message()
    if type(error).__name__ == "NoArgsIsHelpError":
        return Failure("help", message, USAGE)
    message = " ".join(message.split()).rstrip(".")
    context = getattr(error, "ctx", None)
    where = f"; see {context.command_path} --help" if context is not None else ""
    return Failure("usage", message + where, USAGE)
