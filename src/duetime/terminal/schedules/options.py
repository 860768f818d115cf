"""Options for the trigger and the policy of schedules of any kind, and their conversion for the engine."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

from duetime.engine.clock import SECOND
from duetime.engine.errors import InvalidInput
from duetime.terminal.completion import TOPICS, ZONES
from duetime.terminal.typer_ext import option, under

if TYPE_CHECKING:
    from duetime.service.when import When

Key = Annotated[str | None, option("--key TEXT", "Idempotency key: adding twice with the same key adds once.")]
Name = Annotated[str | None, option("--name NAME", "Name of the schedule.")]

_when, _policy, _outcome = under("When it runs"), under("Retries and limits"), under("Outcome")
_SPANS = ("timeout", "backoff", "expire_after")
_NUMBERS = ("max_runs", "max_attempts")
_OVERLAP = "While it still runs: skip (the default), queue, or allow (the default of notifications)."


@dataclass(frozen=True, slots=True)
class TriggerOptions:
    at: Annotated[str | None, _when("--at TIME", 'Once, at this time: "tomorrow 9am", "in 2 hours" or ISO 8601.')] = (
        None
    )
    delay: Annotated[str | None, _when("--delay SPAN", "Once, after this time: 30m, 2h30m, 1d.")] = None
    every: Annotated[str | None, _when("--every SPAN", "Repeatedly, with this interval: 30s, 5m, 2h30m, 1d.")] = None
    cron: Annotated[str | None, _when("--cron EXPR", 'By a cron expression: "0 9 * * 1-5" or @daily.')] = None
    rrule: Annotated[str | None, _when("--rrule RULE", 'By a recurrence rule: "FREQ=MONTHLY;BYDAY=-1FR".')] = None
    when: Annotated[
        str | None, _when("--when TEXT", 'In words: "every weekday at 8:30", "friday at nine", "every 2 hours".')
    ] = None
    tz: Annotated[str | None, _when("--tz ZONE", "IANA time zone, such as Europe/Berlin.", **ZONES)] = None
    start: Annotated[str | None, _when("--start TIME", "First possible run of a recurring schedule.")] = None
    end: Annotated[str | None, _when("--end TIME", "Last possible run of a recurring schedule.")] = None
    jitter: Annotated[str | None, _when("--jitter SPAN", "Delay each run by a random time up to this: 5m.")] = None

    def parsed(self) -> When:
        from duetime.service.when import parse_when  # the help of a command needs none of it

        values = asdict(self)
        return parse_when(timezone=values.pop("tz"), **values)


@dataclass(frozen=True, slots=True)
class EditOptions(TriggerOptions):
    """Options of an edit. A recurring schedule keeps its rule if only a time is given: its next run is moved."""

    starting: Annotated[
        str | None, _when("--starting TIME", "When the new rule replaces the old one; by default now.")
    ] = None

    def changed(self) -> tuple[When | None, dict[str, Any]]:
        """Return the new time or rule, if one is given, and the limits of the new rule or otherwise of the current one;
        `none` removes a limit."""
        from duetime.service.when import NONE, WAYS, duration, parse_when

        ways = {way: value for way in WAYS if (value := getattr(self, way)) is not None}
        given = {name: value for name in ("start", "end", "jitter") if (value := getattr(self, name)) is not None}
        limits: dict[str, Any] = {name: None if value.lower() == NONE else value for name, value in given.items()}
        if limits.get("jitter") is not None:
            limits["jitter"] = duration(limits["jitter"], "jitter") / SECOND
        if ways:
            return parse_when(**ways, timezone=self.tz), limits
        return None, limits if self.tz is None else {**limits, "timezone": self.tz}


@dataclass(frozen=True, slots=True)
class NamedFields:
    """Options with the names of the fields of a policy or a payload."""

    def given(self) -> dict[str, Any]:
        from duetime.service.when import NONE, duration

        values = {name: value for name, value in asdict(self).items() if value is not None and value is not False}
        for name in values.keys() & {*_SPANS, *_NUMBERS, "deliver_to"}:
            option_, text = f"--{name.replace('_', '-')}", values[name]
            if text.lower() == NONE:
                values[name] = None
            elif name in _SPANS:
                values[name] = duration(text, option_)
            elif name in _NUMBERS:
                values[name] = _number(text, option_)
        if getattr(self, "at_most_once", None) is False:
            values["at_most_once"] = None
        return values


def _number(text: str, option_: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InvalidInput(f"{option_}: {text[:40]!r} is not a whole number") from None


@dataclass(frozen=True, slots=True)
class PolicyOptions(NamedFields):
    max_runs: Annotated[str | None, _policy("--max-runs N", "End after this many runs; none: no limit.")] = None
    max_attempts: Annotated[str | None, _policy("--max-attempts N", "Maximum number of attempts if a run fails.")] = (
        None
    )
    timeout: Annotated[
        str | None, _policy("--timeout SPAN", "Stop a run that takes longer than this: 30s; none: never.")
    ] = None
    backoff: Annotated[str | None, _policy("--backoff SPAN", "Wait this long before the first retry: 10s.")] = None
    catch_up: Annotated[str | None, _policy("--catch-up HOW", "After downtime: once (the default), all or skip.")] = (
        None
    )
    overlap: Annotated[str | None, _policy("--overlap HOW", _OVERLAP)] = None
    at_most_once: Annotated[
        bool | None,
        _policy("--at-most-once/--no-at-most-once", "Whether a run is never started twice, even after a crash."),
    ] = None


@dataclass(frozen=True, slots=True)
class ReportedOptions(PolicyOptions):
    """Options of the policy, with those for reporting the outcome of each run to a topic."""

    deliver_to: Annotated[
        str | None, _outcome("--deliver-to TOPIC", "Topic to notify of the outcome of each run, or none.", **TOPICS)
    ] = None
    notify_on: Annotated[
        str | None, _outcome("--notify-on WHEN", "With --deliver-to: always (the default), failure or success.")
    ] = None
