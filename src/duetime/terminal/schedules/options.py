"""Options for the trigger and the policy of schedules of any kind, and their conversion for the engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from duetime.engine.errors import InvalidInput
from duetime.service.when import WAYS, When, duration, parse_when
from duetime.terminal.context import Zone

Key = Annotated[str | None, typer.Option("--key", metavar="TEXT", help="Adding twice with one key adds once.")]
Name = Annotated[str | None, typer.Option("--name", metavar="NAME", help="What people call it.")]


@dataclass(frozen=True, slots=True)
class TriggerOptions:
    at: Annotated[str | None, typer.Option("--at", metavar="TIME", help='"tomorrow 9am", "in 2 hours", ISO 8601.')] = (
        None
    )
    delay: Annotated[str | None, typer.Option("--delay", metavar="SPAN", help="From now: 30m, 2h30m, 1d.")] = None
    every: Annotated[str | None, typer.Option("--every", metavar="SPAN", help="30s, 5m, 2h30m, 1d.")] = None
    cron: Annotated[str | None, typer.Option("--cron", metavar="EXPR", help='"0 9 * * 1-5", or @daily.')] = None
    rrule: Annotated[str | None, typer.Option("--rrule", metavar="RULE", help='"FREQ=MONTHLY;BYDAY=-1FR".')] = None
    tz: Zone = None
    start: Annotated[
        str | None, typer.Option("--start", metavar="TIME", help="Of what recurs: not before this time.")
    ] = None
    end: Annotated[str | None, typer.Option("--end", metavar="TIME", help="Of what recurs: not after it.")] = None
    jitter: Annotated[
        str | None, typer.Option("--jitter", metavar="SPAN", help="Up to this much later, at random: 5m.")
    ] = None

    def parsed(self) -> When:
        return parse_when(
            at=self.at,
            delay=self.delay,
            every=self.every,
            cron=self.cron,
            rrule=self.rrule,
            start=self.start,
            end=self.end,
            jitter=self.jitter,
            timezone=self.tz,
        )

    def changed(self) -> When | None:
        """Return the new trigger of an edit, or none."""
        if any(getattr(self, way) is not None for way in WAYS):
            return self.parsed()
        for option in ("tz", "start", "end", "jitter"):
            if getattr(self, option) is not None:
                raise InvalidInput(f"--{option}: give it with a new --at, --delay, --every, --cron or --rrule")
        return None


@dataclass(frozen=True, slots=True)
class PolicyOptions:
    max_runs: Annotated[int | None, typer.Option("--max-runs", metavar="N", help="End after this many runs.")] = None
    max_attempts: Annotated[
        int | None, typer.Option("--max-attempts", metavar="N", help="Tries in all when a run fails.")
    ] = None
    timeout: Annotated[
        str | None, typer.Option("--timeout", metavar="SPAN", help="Stop a run that takes longer: 30s.")
    ] = None
    backoff: Annotated[
        str | None, typer.Option("--backoff", metavar="SPAN", help="Wait before the first retry: 10s.")
    ] = None
    catch_up: Annotated[
        str | None, typer.Option("--catch-up", metavar="HOW", help="After downtime: once (the default), all or skip.")
    ] = None
    overlap: Annotated[
        str | None,
        typer.Option(
            "--overlap",
            metavar="HOW",
            help="While it still runs: skip (the default), queue, or allow (the default of notifications).",
        ),
    ] = None
    at_most_once: Annotated[
        bool, typer.Option("--at-most-once", help="Never start a run twice, even after a crash.")
    ] = False

    def given(self) -> dict[str, Any]:
        options = {
            "max_runs": self.max_runs,
            "max_attempts": self.max_attempts,
            "timeout": None if self.timeout is None else duration(self.timeout, "--timeout"),
            "backoff": None if self.backoff is None else duration(self.backoff, "--backoff"),
            "catch_up": self.catch_up,
            "overlap": self.overlap,
            "at_most_once": self.at_most_once or None,
        }
        return {name: value for name, value in options.items() if value is not None}


@dataclass(frozen=True, slots=True)
class DeliveryOptions:
    """Options for reporting the outcome of each run to a topic."""

    deliver_to: Annotated[
        str | None, typer.Option("--deliver-to", metavar="TOPIC", help="The topic that hears how each run ended.")
    ] = None
    notify_on: Annotated[
        str | None,
        typer.Option("--notify-on", metavar="WHEN", help="With --deliver-to: always (the default), failure, success."),
    ] = None

    def given(self) -> dict[str, Any]:
        options = {"deliver_to": self.deliver_to, "notify_on": self.notify_on}
        return {name: value for name, value in options.items() if value is not None}
