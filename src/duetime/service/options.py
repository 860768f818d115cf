"""The options of a schedule: its times and its policy. Each is declared once, here, and every interface follows: the
Python API has the classes as types, the others read the tables that are made from them."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Annotated, Any, Final, Literal, TypedDict, get_type_hints

from duetime.engine.policy.options import RULES, OptionRule, Policy
from duetime.engine.value_class import NamedTuple

Time = datetime | str
"""A datetime with a time zone, or a text such as `tomorrow 9am`, `in 2 hours` or `2026-12-24T18:00:00+01:00`."""
Duration = timedelta | float | str
"""A timedelta, seconds, or a text such as `2h30m`."""


class Option(NamedTuple):
    """What all interfaces say about an option. Bounds, choices and the default are those of the engine."""

    sentence: str
    """Describes it in the Python API, the HTTP API and the help of commands. Other options are named in backticks."""
    brief: str = ""
    """Describes the argument of a tool, for agents; by default, the sentence does."""
    example: str = ""
    placeholder: str = ""
    """Stands for the value in the help of commands; by default, it follows from the type."""
    usual: str = ""
    """The default in the help of commands, if it differs between kinds."""
    is_outcome: bool = False
    """Whether it says who learns of the outcome of a run."""


class Input(NamedTuple):
    """The input of an option in the dashboard's form."""

    label: str
    hint: str = ""
    is_rare: bool = False
    """Whether it is shown only on request."""
    is_for_waiting: bool = False
    """Whether it is shown only for kinds whose runs may wait for somebody to take them."""


class Fact(NamedTuple):
    """An option on the page of a schedule."""

    label: str
    value: str = "{}"
    words: Mapping[str, str] = {}
    """How certain values read, such as choices, which the form also shows so."""


class TimeOptions(TypedDict, total=False):
    """When a schedule fires: exactly one of the first eight options, and optional limits."""

    when: Annotated[
        str,
        Option(
            "In words: tomorrow at 9; every weekday at 8:30; on github.push where ref = main at most every 10m; "
            "after backup fails. Arguments and messages take in {text}, {error} or the event's {ref}; agents get all.",
            example="every weekday at 8:30",
            placeholder="TEXT",
        ),
    ]
    at: Annotated[Time, Option('Once, at this time: "tomorrow 9am", "in 2 hours" or ISO 8601.', example="tomorrow 9am")]
    delay: Annotated[Duration, Option("Once, after this duration: 30m, 2h30m, 1d.", example="2h30m")]
    every: Annotated[
        Duration,
        Option(
            "At this interval: 30s, 2h30m, 1d. Days and weeks as text keep the wall-clock time.",
            "Interval, such as 2h30m; at is its first time.",
            "2h30m",
        ),
    ]
    cron: Annotated[
        str, Option('By a cron expression: "0 9 * * MON-FRI" or @daily.', example="0 9 * * 1-5", placeholder="EXPR")
    ]
    rrule: Annotated[
        str,
        Option(
            'By a recurrence rule: "FREQ=MONTHLY;BYDAY=-1FR".', example="FREQ=MONTHLY;BYDAY=-1FR", placeholder="RULE"
        ),
    ]
    on: Annotated[
        str,
        Option(
            "When an event arrives, such as github.push where ref = main.", example="github.push", placeholder="EVENT"
        ),
    ]
    after: Annotated[
        str,
        Option(
            "After another schedule: its name or id, and succeeds (the default), fails or ends.",
            example="backup succeeds",
            placeholder="NAME",
        ),
    ]
    start: Annotated[Time, Option("First possible time of a recurring schedule.", "Not before: monday.", "monday")]
    end: Annotated[
        Time,
        Option(
            "Last possible time of a recurring schedule; a date includes that day.",
            "Until; a day counts.",
            "2026-12-31",
        ),
    ]
    jitter: Annotated[Duration, Option("Maximum random delay of each start, such as 5m.", example="5m")]
    timezone: Annotated[
        str, Option("IANA time zone, such as Europe/Berlin; by default, that of the settings.", placeholder="ZONE")
    ]


class PolicyOptions(TypedDict, total=False):
    """Rules for runs that are late, overlap another one, fail or end."""

    max_attempts: Annotated[
        int,
        Option("Total number of attempts if a run fails.", "Tries", "3"),
        Input("Maximum attempts"),
        Fact("attempts", "at most {}", {"1": "1, never retried"}),
    ]
    timeout: Annotated[
        Duration | None,
        Option("Longest duration of one attempt.", "How long a run may take", "30s"),
        Input("Timeout", "Seconds, or such as 30s or 5m."),
        Fact("timeout", "after {}", {"None": "none"}),
    ]
    catch_up: Annotated[
        Literal["once", "all", "skip"],
        Option("Which missed occurrences run after downtime: the newest, all or none.", "Missed while off"),
        Input("After downtime"),
        Fact(
            "after downtime",
            words={"once": "run once", "all": "run everything that was missed", "skip": "skip what was missed"},
        ),
    ]
    overlap: Annotated[
        Literal["skip", "queue", "allow", "latest"],
        Option(
            "What happens to an occurrence while the previous run is still active. With latest, the newest event "
            "replaces the one that waits.",
            "If still running",
            usual="skip; for notifications and requests, allow; on events, latest for prompts and queue for jobs",
        ),
        Input("If the previous run is still active"),
        Fact(
            "if the previous run is still active",
            words={"skip": "skip it", "queue": "queue it", "allow": "run both", "latest": "queue the newest event"},
        ),
    ]
    max_runs: Annotated[
        int | None,
        Option("The schedule ends after this many runs.", "Ends after so many runs", "10"),
        Input("Maximum runs", "Ends after this many."),
        Fact("ends", "after {} runs", {"None": "never", "1": "after 1 run"}),
    ]
    pause_after: Annotated[
        int,
        Option("Consecutive failures after which a recurring schedule is paused; 0 means never.", example="10"),
        Input("Pause after consecutive failures", "0 means never."),
        Fact("pauses itself", "after {} failures in a row", {"0": "never", "1": "after 1 failure in a row"}),
    ]
    untaken: Annotated[
        Literal["replace", "keep", "expire"],
        Option("What happens to an occurrence that no agent has taken when the next one is due."),
        Input("If no agent takes it", is_for_waiting=True),
        Fact(
            "if no agent takes it",
            words={
                "replace": "replace it with the next occurrence",
                "keep": "keep it waiting",
                "expire": "let it expire",
            },
        ),
    ]
    expire_after: Annotated[
        Duration | None,
        Option("With `untaken` expire: how long it waits.", example="2h"),
        Input("Expires after", "With expire: such as 2h.", is_for_waiting=True),
        Fact("expires", "after {}", {"None": "never"}),
    ]
    deliver_to: Annotated[
        str | None,
        Option(
            "The topic that receives the outcome of each run.",
            "Topic for each result: daily-report",
            "daily-report",
            is_outcome=True,
        ),
        Input("Send the result to", "A notification topic."),
        Fact("result sent to", words={"None": "nobody"}),
    ]
    alert: Annotated[
        Literal["first", "every", "off"],
        Option(
            "When you are told that something went wrong: the first time and when it is over, every time, or never.",
            "Told of problems",
        ),
        Input("Alerts"),
        Fact("alerts", words={"first": "the first time and when it is over", "every": "every time", "off": "never"}),
    ]
    notify_on: Annotated[
        Literal["always", "failure", "success", "change"],
        Option(
            "Which outcomes are sent to `deliver_to`; change: those that differ from the one sent last.",
            is_outcome=True,
        ),
        Input("Send the result"),
        Fact(
            "result sent",
            words={
                "always": "always",
                "failure": "when it failed",
                "success": "when it succeeded",
                "change": "when it differs from the last one",
            },
        ),
    ]
    only_if: Annotated[
        str | None,
        Option(
            "A pipeline of tasks, checked before each run without a model; the run is skipped unless it passes.",
            "Run only if this passes",
            "fetch('https://ci.example') | field('a.b') | changed(), or became('x'), contains, matches, status",
        ),
        Input("Only if", "Tasks, such as fetch('https://example.org') | changed()."),
        Fact("only if", words={"None": "always"}),
    ]
    gate_failure: Annotated[
        Literal["run", "skip"],
        Option("What happens if `only_if` cannot be checked."),
        Input("If that cannot be checked", is_rare=True),
        Fact("if that cannot be checked", words={"run": "run it anyway", "skip": "skip it"}),
    ]
    tagged: Annotated[
        Sequence[str] | str | None,
        Option(
            "Tags by which it is found, changed together with others, and its alerts are sent elsewhere.",
            example="nightly",
            placeholder="TAGS",
        ),
        Input("Tags", "With commas: backup, nightly."),
        Fact("tags", words={"": "none"}),
    ]
    ping: Annotated[
        str | None,
        Option(
            "A monitoring address that is called when a run starts (with /start), succeeds, or fails (with /fail).",
            example="https://hc.example",
            is_outcome=True,
        ),
        Input("Monitoring address", "Called at start, success and failure.", is_rare=True),
        Fact("monitoring address", words={"None": "none"}),
    ]
    at_most_once: Annotated[
        bool,
        Option("Never repeat a run that may have started, even after a crash."),
        Input("At most once: never retry, even after a crash"),
        Fact(
            "at most once",
            words={"True": "yes, never retried, even after a crash", "False": "no, run again after a crash"},
        ),
    ]
    catch_up_limit: Annotated[
        int,
        Option("With `catch_up` all: at most this many.", example="100"),
        Input("Maximum runs after downtime", "If everything that was missed runs.", is_rare=True),
        Fact("runs after downtime", "at most {}"),
    ]
    queue_limit: Annotated[
        int,
        Option("With `overlap` queue: at most this many wait.", example="100"),
        Input("Maximum queued runs", "If overlapping runs are queued.", is_rare=True),
        Fact("queued runs", "at most {}"),
    ]
    backoff: Annotated[
        Duration,
        Option("Delay before the second attempt, doubled with each further one.", example="10s"),
        Input("First retry after", "Doubled with each further attempt.", is_rare=True),
        Fact("first retry", "after {}, doubled each time"),
    ]
    backoff_limit: Annotated[
        Duration,
        Option("Longest delay between two attempts.", example="1h"),
        Input("Longest delay between attempts", is_rare=True),
        Fact("between retries", "at most {}"),
    ]
    grace: Annotated[
        Duration,
        Option("How late an occurrence may start before it counts as missed.", example="1m"),
        Input("Counts as missed when late by", is_rare=True),
        Fact("counts as missed", "when {} late", {"0": "when late"}),
    ]


class PolicyOption(NamedTuple):
    """An option of the policy: its name, what it accepts, its default and its texts."""

    name: str
    rule: OptionRule
    default: Any
    texts: Option
    input: Input
    fact: Fact

    @property
    def argument(self) -> str:
        """Its name where durations are numbers of seconds, such as `timeout_seconds`."""
        return f"{self.name}{_SUFFIX}" if self.rule.type == "duration" else self.name


@cache
def time_options() -> Mapping[str, Option]:
    """Return the texts of the options that say when a schedule fires, by name."""
    return {name: hint.__metadata__[0] for name, hint in get_type_hints(TimeOptions, include_extras=True).items()}


@cache
def policy_options() -> Mapping[str, PolicyOption]:
    """Return the options of the policy, by name."""
    usual, hints = Policy(), get_type_hints(PolicyOptions, include_extras=True)
    return {
        name: PolicyOption(name, RULES[name], getattr(usual, name), *hint.__metadata__) for name, hint in hints.items()
    }


TIME_LIMITS: Final = ("start", "end", "jitter")
"""Options of times that limit a rule, whichever way it is given."""
IN_SECONDS: Final = frozenset(name for name, rule in RULES.items() if rule.type == "duration")
"""Options that are stored in microseconds; most interfaces show them in seconds, under names such as
`timeout_seconds`."""
_SUFFIX: Final = "_seconds"


def option_name(argument: str) -> str:
    """Return the name of an option from its name in seconds, or any other name as it is."""
    name = argument.removesuffix(_SUFFIX)
    return name if name in IN_SECONDS else argument
