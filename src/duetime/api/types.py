"""Types of the Python API: what its methods take and return. `service.shapes` has those that all interfaces share."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Literal, NotRequired, TypedDict

from duetime.service.shapes import (
    ComingShape,
    CreatedShape,
    MessageShape,
    RunShape,
    RunWithAttempts,
    ScheduleShape,
    WorkerShape,
)

Time = datetime | str
"""A datetime with a time zone, or a text such as `tomorrow 9am`, `in 2 hours` or `2026-12-24T18:00:00+01:00`."""
Duration = timedelta | float | str
"""A timedelta, seconds, or a text such as `2h30m`."""
Id = str | int
"""The id of a schedule, such as `job_5_1770000000` or 5, or a name that only one has."""

# The class `Managing` has a method named `list`, so that its methods cannot name the type itself.
Schedules = list[ScheduleShape]
Runs = list[RunShape]
Messages = list[MessageShape]
Workers = list[WorkerShape]


class Allow(TypedDict, total=False):
    """What the agent of a prompt may use, within what its settings allow."""

    tools: list[str]
    """Patterns of tools of the user's own MCP servers, such as `github.get_*`."""
    commands: list[str]
    """Patterns of commands, such as `git log *`."""
    web: bool
    skills: list[str]
    folder: str
    env: list[str]
    """Names of environment variables."""


class TimeOptions(TypedDict, total=False):
    """When a schedule fires: exactly one of the first six, and what limits it."""

    when: str
    """Any of the following five in words, such as `every weekday at 8:30`."""
    at: Time
    """Once, at this time."""
    delay: Duration
    """Once, after this time."""
    every: Duration
    """Days and weeks in words, such as `1d`, keep the wall-clock time; everything else is exact."""
    cron: str
    """A cron expression, such as `0 9 * * MON-FRI`."""
    rrule: str
    """A recurrence rule of RFC 5545, such as `FREQ=MONTHLY;BYDAY=-1FR`."""
    start: Time
    """Nothing fires before."""
    end: Time
    """Nothing fires after."""
    jitter: Duration
    """Each start is delayed by up to this long, so that many schedules do not start at once."""
    timezone: str
    """An IANA name such as `Europe/Berlin`; by default that of the settings."""


class PolicyOptions(TypedDict, total=False):
    """What happens when a run is late, overlaps with another one, fails or ends."""

    catch_up: Literal["once", "all", "skip"]
    """What runs of the occurrences that were missed."""
    catch_up_limit: int
    overlap: Literal["skip", "queue", "allow"]
    """What happens to an occurrence while the previous run is not over."""
    queue_limit: int
    max_attempts: int
    backoff: Duration
    """Delay before the second attempt; it doubles with each further one."""
    backoff_limit: Duration
    timeout: Duration | None
    """How long one attempt may take."""
    at_most_once: bool
    """Never repeat a run that may have begun."""
    max_runs: int | None
    grace: Duration
    """How late an occurrence may start before it counts as missed."""
    pause_after: int
    """Consecutive failures after which a recurring schedule is paused; 0 means never."""
    deliver_to: str | None
    """The topic that is told how each run ended."""
    notify_on: Literal["failure", "success", "always"]
    untaken: Literal["replace", "keep", "expire"]
    """What becomes of an occurrence that waits for an agent until the next one is due."""
    expire_after: Duration | None
    """With `untaken` expire: how long it waits."""


class ScheduleOptions(TimeOptions, PolicyOptions, total=False):
    """Options of everything that can be created."""

    name: str
    """For lists; by default the beginning of the text."""
    key: str
    """With a key, repeating the call, for example when a script is restarted, returns the first schedule."""


class EditOptions(TimeOptions, PolicyOptions, total=False):
    """What can be changed of a schedule of any kind. What is not given stays as it is."""

    name: str
    fields: Mapping[str, Any]
    """Fields of the payload, such as `{"message": "Water the roses"}`; its other fields stay."""
    payload: Mapping[str, Any]
    """The whole payload, as `get` returns it, in place of `fields`."""
    policy: PolicyOptions
    """Policy options, like those that are given by their own names."""
    next: Time
    """Move the next run only."""
    starting: Time
    """The old times apply until this one, and the new times from it on."""
    version: int
    """Only if it still has this version, as `get` returned it."""
    trigger_type: str
    trigger_config: Mapping[str, Any]


class Edited(ScheduleShape):
    """A schedule after an edit."""

    warnings: list[str]
    """What may surprise about it now."""
    running: bool
    """Whether a run was under way. It keeps its values: the edit applies from the next one."""


class Changed(TypedDict):
    """A schedule after it was paused, resumed, cancelled or deleted. Of one that another service keeps, only the id is
    known."""

    id: str
    kind: str | None
    name: str | None
    status: str | None
    next_run: str | None
    """None while it is paused."""
    paused_until: str | None
    note: str | None
    kept_at: str | None
    """The other service, if it is not kept in this store."""


class Created(CreatedShape):
    """A new schedule, and what its creator should know."""

    created: bool
    """False if the key was used before and this is the schedule of that time."""


class Upcoming(TypedDict):
    """Occurrences in the order of their times."""

    upcoming: list[ComingShape]
    more: bool
    """Whether the range has occurrences that are not listed."""
    later: list[ComingShape]
    """If it has: schedules of which none is listed, each with its first time in the range."""
    warnings: list[str]
    """Why something may be missing."""


class Delivery(TypedDict):
    """The message about how a run ended."""

    topic: str
    message_id: str
    status: str
    reached: NotRequired[Literal["phone", "inbox"]]
    """Once it was sent."""
    error: NotRequired[str | None]


class RunDetails(RunWithAttempts):
    """A run with its earlier attempts and the messages about its end."""

    deliveries: list[Delivery]


class ServerStatus(TypedDict):
    """What is set up, whether it runs, what was used and what failed."""

    now: str
    timezone: str
    server: dict[str, Any]
    """Where it runs, its workers, and whether it stays up without an agent client."""
    topics: list[str]
    """Topics that schedules send to."""
    agents: list[dict[str, Any]]
    channels: list[dict[str, Any]]
    default_topic: str | None
    spent: dict[str, Any]
    """What agents used today and this week."""
    limits: dict[str, Any]
    failures_of_the_last_day: dict[str, Any]
    when_off: str
    """What happens to work that is due while no worker runs."""
    warnings: list[dict[str, str]]
    warning_codes: dict[str, str]
    """What each code means."""


class TakenPrompt(TypedDict):
    """A due prompt that the caller took, to be finished with `finish_prompt`."""

    id: int
    run_id: int
    prompt: str
    due: str
    expires_at: str | None
    """From then on somebody else may take it."""
    hold: str
    """Identifies this taking, for `finish_prompt`."""
