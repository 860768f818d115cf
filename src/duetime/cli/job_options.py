"""The options that describe a job, and what they mean to the scheduler."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from duetime.api import trigger_of
from duetime.cli.frame import duration, pair_of, value_of
from duetime.core.clock import SECOND
from duetime.core.errors import InvalidInput
from duetime.core.model import Schedule

At = Annotated[str | None, typer.Option("--at", metavar="TIME", help='"tomorrow 9am", "in 2 hours", ISO 8601.')]
Every = Annotated[str | None, typer.Option("--every", metavar="SPAN", help="30s, 5m, 2h30m, 1d.")]
Cron = Annotated[str | None, typer.Option("--cron", metavar="EXPR", help='"0 9 * * 1-5", or @daily.')]
RRule = Annotated[str | None, typer.Option("--rrule", metavar="RULE", help='"FREQ=MONTHLY;BYDAY=-1FR".')]
Args = Annotated[
    list[str] | None, typer.Option("--arg", metavar="VALUE", help="An argument, as JSON or plain text. Repeatable.")
]
Kwargs = Annotated[
    list[str] | None, typer.Option("--kwarg", metavar="NAME=VALUE", help="A named argument. Repeatable.")
]
MaxRuns = Annotated[int | None, typer.Option("--max-runs", metavar="N", help="End after this many runs.")]
MaxAttempts = Annotated[int | None, typer.Option("--max-attempts", metavar="N", help="Tries in all when a run fails.")]
Timeout = Annotated[str | None, typer.Option("--timeout", metavar="SPAN", help="Stop a run that takes longer: 30s.")]
Backoff = Annotated[str | None, typer.Option("--backoff", metavar="SPAN", help="Wait before the first retry: 10s.")]
CatchUp = Annotated[
    str | None, typer.Option("--catch-up", metavar="HOW", help="After downtime: once (the default), all or skip.")
]
Overlap = Annotated[
    str | None,
    typer.Option("--overlap", metavar="HOW", help="While it still runs: skip (the default), queue or allow."),
]
AtMostOnce = Annotated[bool, typer.Option("--at-most-once", help="Never start a run twice, even after a crash.")]


def trigger(at: str | None, every: str | None, cron: str | None, rrule: str | None) -> tuple[str, dict[str, Any]]:
    seconds = None if every is None else duration(every, "--every") / SECOND
    try:
        return trigger_of(at=at, every=seconds, cron=cron, rrule=rrule)
    except InvalidInput:
        raise InvalidInput("give exactly one of --at, --every, --cron and --rrule") from None


def policy(
    max_runs: int | None,
    max_attempts: int | None,
    timeout: str | None,
    backoff: str | None,
    catch_up: str | None,
    overlap: str | None,
    at_most_once: bool,
) -> dict[str, Any]:
    given = {
        "max_runs": max_runs,
        "max_attempts": max_attempts,
        "timeout": None if timeout is None else duration(timeout, "--timeout"),
        "backoff": None if backoff is None else duration(backoff, "--backoff"),
        "catch_up": catch_up,
        "overlap": overlap,
        "at_most_once": at_most_once or None,
    }
    return {name: value for name, value in given.items() if value is not None}


def args_of(given: Sequence[str] | None) -> list[Any]:
    return [value_of(text) for text in given or ()]


def kwargs_of(given: Sequence[str] | None) -> dict[str, Any]:
    return dict(pair_of(text) for text in given or ())


def reworked(
    schedule: Schedule, task: str | None, arg: Sequence[str] | None, kwarg: Sequence[str] | None
) -> dict[str, Any]:
    payload: dict[str, Any] = json.loads(schedule.definition.payload)
    given = {
        "task": task,
        "args": None if arg is None else args_of(arg),
        "kwargs": None if kwarg is None else kwargs_of(kwarg),
    }
    return payload | {name: value for name, value in given.items() if value is not None}
