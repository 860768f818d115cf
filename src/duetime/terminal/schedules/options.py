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
_LIMITS = ("tz", "start", "end", "jitter")
NONE = "none"
"""What takes an option back, so that its default applies."""
_OVERLAP = "While it still runs: skip (the default), queue, or allow (the default of notifications)."


def _parsed(values: dict[str, Any]) -> When:
    from duetime.service.when import parse_when  # the help of a command needs none of it

    return parse_when(timezone=values.pop("tz"), **values)


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
        return _parsed(asdict(self))


@dataclass(frozen=True, slots=True)
class EditOptions(TriggerOptions):
    starting: Annotated[
        str | None, _when("--starting TIME", "When the new rule replaces the old one; by default now.")
    ] = None

    def parsed(self) -> When:
        values = asdict(self)
        del values["starting"]
        return _parsed(values)

    def changed(self, trigger: str) -> When | None:
        """Return the new trigger of an edit, or none. A zone, a start, an end or a jitter alone changes the present
        rule; `none` takes one back."""
        from duetime.service.presenters import trigger_shape
        from duetime.service.when import WAYS, When, duration

        if any(getattr(self, way) is not None for way in WAYS):
            return self.parsed()
        given = {name: value for name in _LIMITS if (value := getattr(self, name)) is not None}
        if not given:
            return None
        config = trigger_shape(trigger)
        if config["type"] == "changing":
            raise _needs_rule(given, "its rule changes at a set time; give the new rule as well, such as --cron")
        if "timezone" not in config:
            raise _needs_rule(given, "its rule cannot be read; give a new one with its zone, such as --cron and --tz")
        type_, zone = config.pop("type"), config.pop("timezone")
        zone = given.pop("tz", zone)
        for name, value in given.items():
            config.pop(name, None)
            if value.lower() != NONE:
                config[name] = duration(value, "jitter") / SECOND if name == "jitter" else value
        return When(type_, config, zone)


def _needs_rule(given: dict[str, str], problem: str) -> InvalidInput:
    return InvalidInput(f"--{next(iter(given))}: {problem}")


@dataclass(frozen=True, slots=True)
class NamedFields:
    """Options with the names of fields of a policy or of a payload."""

    def given(self) -> dict[str, Any]:
        from duetime.service.when import duration

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
