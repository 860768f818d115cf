"""Options for the trigger and the policy of schedules of any kind, and their conversion for the engine."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Any

from duetime.engine.errors import InvalidInput
from duetime.service.when import WAYS, When, duration, parse_when
from duetime.terminal.context import Zone
from duetime.terminal.typer_ext import option

Key = Annotated[str | None, option("--key TEXT", "Adding twice with one key adds once.")]
Name = Annotated[str | None, option("--name NAME", "What people call it.")]

_SPANS = ("timeout", "backoff", "expire_after")
_OVERLAP = "While it still runs: skip (the default), queue, or allow (the default of notifications)."


@dataclass(frozen=True, slots=True)
class TriggerOptions:
    at: Annotated[str | None, option("--at TIME", '"tomorrow 9am", "in 2 hours", ISO 8601.')] = None
    delay: Annotated[str | None, option("--delay SPAN", "From now: 30m, 2h30m, 1d.")] = None
    every: Annotated[str | None, option("--every SPAN", "30s, 5m, 2h30m, 1d.")] = None
    cron: Annotated[str | None, option("--cron EXPR", '"0 9 * * 1-5", or @daily.')] = None
    rrule: Annotated[str | None, option("--rrule RULE", '"FREQ=MONTHLY;BYDAY=-1FR".')] = None
    when: Annotated[str | None, option("--when TEXT", '"every weekday at 8:30", "tonight": any of these in words.')] = (
        None
    )
    tz: Zone = None
    start: Annotated[str | None, option("--start TIME", "Of what recurs: not before this time.")] = None
    end: Annotated[str | None, option("--end TIME", "Of what recurs: not after it.")] = None
    jitter: Annotated[str | None, option("--jitter SPAN", "Up to this much later, at random: 5m.")] = None

    def parsed(self) -> When:
        values = asdict(self)
        return parse_when(timezone=values.pop("tz"), **values)

    def changed(self) -> When | None:
        """Return the new trigger of an edit, or none."""
        if any(getattr(self, way) is not None for way in WAYS):
            return self.parsed()
        for limit in ("tz", "start", "end", "jitter"):
            if getattr(self, limit) is not None:
                raise InvalidInput(f"--{limit}: give it with a new --at, --delay, --every, --cron, --rrule or --when")
        return None


@dataclass(frozen=True, slots=True)
class EditOptions(TriggerOptions):
    starting: Annotated[str | None, option("--starting TIME", "Of a new rule: the old one applies until then.")] = None

    def parsed(self) -> When:
        values = asdict(self)
        del values["starting"]
        return parse_when(timezone=values.pop("tz"), **values)


@dataclass(frozen=True, slots=True)
class NamedFields:
    """Options with the names of fields of a policy or of a payload."""

    def given(self) -> dict[str, Any]:
        values = {name: value for name, value in asdict(self).items() if value is not None and value is not False}
        spans = {name: duration(values[name], f"--{name.replace('_', '-')}") for name in _SPANS if name in values}
        return values | spans


@dataclass(frozen=True, slots=True)
class PolicyOptions(NamedFields):
    max_runs: Annotated[int | None, option("--max-runs N", "End after this many runs.")] = None
    max_attempts: Annotated[int | None, option("--max-attempts N", "Tries in all when a run fails.")] = None
    timeout: Annotated[str | None, option("--timeout SPAN", "Stop a run that takes longer: 30s.")] = None
    backoff: Annotated[str | None, option("--backoff SPAN", "Wait before the first retry: 10s.")] = None
    catch_up: Annotated[str | None, option("--catch-up HOW", "After downtime: once (the default), all or skip.")] = None
    overlap: Annotated[str | None, option("--overlap HOW", _OVERLAP)] = None
    at_most_once: Annotated[bool, option("--at-most-once", "Never start a run twice, even after a crash.")] = False


@dataclass(frozen=True, slots=True)
class ReportedOptions(PolicyOptions):
    """Options of the policy, with those for reporting the outcome of each run to a topic."""

    deliver_to: Annotated[str | None, option("--deliver-to TOPIC", "The topic that hears how each run ended.")] = None
    notify_on: Annotated[
        str | None, option("--notify-on WHEN", "With --deliver-to: always (the default), failure, success.")
    ] = None
