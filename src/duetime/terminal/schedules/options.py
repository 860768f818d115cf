"""Options for the trigger and the policy of schedules of any kind, and their conversion for the engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from duetime.engine.clock import SECOND
from duetime.engine.errors import DuetimeError, InvalidInput
from duetime.engine.times import read_time
from duetime.engine.times.zones import known_zone
from duetime.service.calls import trigger_of
from duetime.terminal.context import Zone, duration

if TYPE_CHECKING:
    from duetime.app import App

Key = Annotated[str | None, typer.Option("--key", metavar="TEXT", help="Adding twice with one key adds once.")]
Name = Annotated[str | None, typer.Option("--name", metavar="NAME", help="What people call it.")]


@dataclass(frozen=True, slots=True)
class When:
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

    @property
    def is_given(self) -> bool:
        return any(each is not None for each in (self.at, self.delay, self.every, self.cron, self.rrule))

    def trigger(self) -> tuple[str, dict[str, Any]]:
        if sum(each is not None for each in (self.at, self.delay, self.every, self.cron, self.rrule)) != 1:
            raise InvalidInput("give exactly one of --at, --delay, --every, --cron and --rrule")
        every = None if self.every is None else duration(self.every, "--every") / SECOND
        at = self.at if self.delay is None else f"in {duration(self.delay, '--delay') // SECOND} seconds"
        type_, config = trigger_of(at=at, every=every, cron=self.cron, rrule=self.rrule)
        bounds = {"start": self.start, "end": self.end}
        jitter = {} if self.jitter is None else {"jitter": duration(self.jitter, "--jitter") / SECOND}
        return type_, config | {name: text for name, text in bounds.items() if text is not None} | jitter

    def changed(self) -> tuple[str, dict[str, Any]] | tuple[None, None]:
        """Return the new trigger of an edit, or none."""
        if self.is_given:
            return self.trigger()
        for option, given in (("tz", self.tz), ("start", self.start), ("end", self.end), ("jitter", self.jitter)):
            if given is not None:
                raise InvalidInput(f"--{option}: give it with a new --at, --delay, --every, --cron or --rrule")
        return None, None

    def notes(self, room: App) -> list[str]:
        """Return how an ambiguous time was understood. An invalid time is reported later."""
        if self.at is None:
            return []
        try:
            zone = known_zone(self.tz or room.scheduler.zone).key
            note = read_time(self.at, zone=zone, now=room.clock.now()).note
        except DuetimeError:
            return []
        return [note] if note else []


@dataclass(frozen=True, slots=True)
class Rules:
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

    def policy(self) -> dict[str, Any]:
        given = {
            "max_runs": self.max_runs,
            "max_attempts": self.max_attempts,
            "timeout": None if self.timeout is None else duration(self.timeout, "--timeout"),
            "backoff": None if self.backoff is None else duration(self.backoff, "--backoff"),
            "catch_up": self.catch_up,
            "overlap": self.overlap,
            "at_most_once": self.at_most_once or None,
        }
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Telling:
    """Options for reporting the outcome of each run to a topic."""

    deliver_to: Annotated[
        str | None, typer.Option("--deliver-to", metavar="TOPIC", help="The topic that hears how each run ended.")
    ] = None
    notify_on: Annotated[
        str | None,
        typer.Option("--notify-on", metavar="WHEN", help="With --deliver-to: always (the default), failure, success."),
    ] = None

    def policy(self) -> dict[str, Any]:
        given = {"deliver_to": self.deliver_to, "notify_on": self.notify_on}
        return {name: value for name, value in given.items() if value is not None}
