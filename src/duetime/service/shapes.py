"""The data that interfaces show of each entity. The API's response models are these types; their docstrings are part
of its OpenAPI document, so they describe the data to its users."""

from __future__ import annotations

from typing import (
    Annotated,
    Any,
    NotRequired,  # pydantic needs this one before Python 3.12
)

from typing_extensions import TypedDict, is_typeddict


class _DateTime:
    """Marks a text as an instant in the JSON schema."""

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        return {**handler(schema), "format": "date-time"}


Moment = Annotated[str, _DateTime()]
"""ISO 8601 with offset, in the requested time zone."""


class ScheduleShape(TypedDict):
    id: str
    """Such as job_5_1770000000."""
    kind: str
    """job, prompt, notification, request, or a kind of another package."""
    owner: str
    """Who it belongs to."""
    name: str
    """Its name in lists."""
    subject: str
    """The task, agent, topic or host."""
    status: str
    """pending, running, paused, completed, failed, cancelled or broken."""
    state_detail: str | None
    """More about an active schedule: due, waiting_for_agent, taken, held_by_limit or running."""
    trigger: dict[str, Any]
    """The trigger in the form in which it can be created."""
    reads_as: str
    """The trigger in plain English."""
    timezone: str | None
    """The time zone of the trigger."""
    payload: Any
    """What to do, with credentials shown as ***."""
    author: str | None
    """Who wrote the payload last, such as ada (dashboard) or an agent's run 412 (mcp); null if unknown."""
    policy: dict[str, Any] | None
    """The policy in force; durations are in seconds."""
    created_at: Moment
    """When it was created."""
    updated_at: Moment
    """When it was last changed."""
    next_run: Moment | None
    """When it fires next; null while it is paused."""
    last_run: Moment | None
    """When its latest run was due."""
    last_status: str | None
    """How its latest run ended."""
    last_error: str | None
    """The error of its latest run."""
    run_count: int
    """Executed occurrences, and those that are queued behind an earlier run; without retries, missed and skipped
    ones."""
    max_runs: int | None
    """It ends after this many runs."""
    failures_in_a_row: int
    """Consecutive failures up to now."""
    note: str | None
    """Why it is broken, paused, held or ended early."""
    paused_until: Moment | None
    """When it resumes automatically."""
    version: int
    """Changes with every edit."""
    limits: NotRequired[dict[str, Any]]
    """The limits in force; only in the answer to a create, an edit or a resume."""
    falls_into_pause: NotRequired[str]
    """What the pause skips or holds; only in the answer to a pause."""


class RunShape(TypedDict):
    run_id: int
    """Its number; the same for every attempt."""
    schedule: str | None
    """The id of its schedule."""
    kind: str
    """The kind of its schedule."""
    owner: str
    """Who it belongs to."""
    name: str
    """The name of its schedule."""
    cause: str
    """Why it ran: its trigger, or a request to run it now."""
    due: Moment
    """When it was due."""
    status: str
    """pending, queued, running, waiting, completed, failed, cancelled, missed, skipped or lost."""
    state_detail: str | None
    """More about an active run: due, waiting_for_agent, taken, held_by_limit or running."""
    attempt: int
    """The number of the latest attempt."""
    started: Moment | None
    """When the latest attempt started."""
    finished: Moment | None
    """When it ended."""
    duration_seconds: float | None
    """The duration of its latest attempt."""
    result: Any
    """What it returned, as JSON."""
    error: str | None
    """Why it failed, or was missed or skipped."""
    report: str | None
    """The latest progress text."""
    cost: dict[str, Any] | None
    """What it used, such as tokens and dollars, if known."""
    stopping: bool
    """Whether it was asked to stop."""
    taken_until: Moment | None
    """Until when the agent that took it may finish it."""
    ended: NotRequired[bool]
    """Whether it has ended; only in the answer to somebody who waited for it."""
    reason: NotRequired[str | None]
    """Why it has not ended although somebody waited for it."""
    warnings: NotRequired[list[str]]
    """Why it might not begin; only in the answer to somebody who started it."""
    warning_codes: NotRequired[list[str]]
    """The codes of the warnings, in the same order."""
    notes: NotRequired[list[str]]
    """What follows it, such as nothing; only in the answer to somebody who started it."""
    last: NotRequired[Moment | None]
    """For a range of occurrences that did not run: its last instant."""
    occurrences: NotRequired[int | None]
    """For such a range: how many occurrences it has."""
    at_least: NotRequired[bool | None]
    """Whether there are more occurrences than were counted."""


class CreatedShape(ScheduleShape):
    warnings: list[str]
    """Why it might not fire or not arrive."""
    warning_codes: list[str]
    """The codes of the warnings, in the same order."""


class AttemptShape(TypedDict):
    attempt: int
    """Its number, starting at 1."""
    started: Moment | None
    """When it started."""
    finished: Moment
    """When it ended."""
    status: str
    """How it ended."""
    error: str | None
    """Why it failed."""
    retried: Moment | None
    """When somebody retried the run after this attempt; null if it was retried automatically."""
    retried_by: str | None
    """Who did, such as ada (dashboard)."""
    traceback: str | None
    """Of an exception, with *** in place of credentials."""


class RunWithAttempts(RunShape):
    attempts: list[AttemptShape]
    """Earlier attempts; the latest one is the run itself."""
    traceback: str | None
    """Of the exception that it failed with, with *** in place of credentials."""
    payload: Any
    """Its input, with *** in place of credentials; null if its schedule was deleted."""
    own_payload: bool
    """Whether it was started with another input than its schedule has."""
    started_by: str | None
    """Who started it by hand, such as ada (dashboard); null if its trigger did."""
    payload_changed: bool
    """Whether its schedule was edited after it began: `payload` is then that of now."""
    late_seconds: float | None
    """How long after its time the first attempt began."""
    next_attempt: Moment | None
    """When it is tried again, while it waits for that."""
    worker: str | None
    """The worker that has it, or had it last. Only operators see it."""
    previous_run: int | None
    """The run of the same schedule that was due before it."""
    following_run: int | None
    """The run of the same schedule that was due after it."""


class MessageShape(TypedDict):
    run_id: int
    """The run that delivered it."""
    schedule: str | None
    """The id of its schedule."""
    mark: str
    """`unread`, `read` or `dismissed`."""
    id: str | None
    """The id of the message."""
    arrived: Moment | None
    """When it was delivered."""
    topic: Any
    """The topic it was sent to."""
    channel: Any
    """How it was delivered, such as ntfy or inbox."""
    receipt: Any
    """What the receiver answered."""
    title: Any
    """Its title."""
    message: Any
    """Its text."""
    tags: Any
    """Its tags."""
    priority: Any
    """Its priority, 1 (lowest) to 5 (highest)."""
    click: Any
    """The address that it opens."""


class MomentsShape(TypedDict):
    utc: Moment
    """In UTC."""
    local: Moment
    """In the time zone of the schedule."""


class PreviewShape(TypedDict):
    reads_as: str
    """The trigger in plain English."""
    timezone: str
    """The time zone in which it is evaluated."""
    next: list[MomentsShape]
    """The next times."""
    warnings: list[str]
    """What may be unexpected."""


class ComingShape(TypedDict):
    at: Moment
    """When it fires."""
    kind: str
    """The kind of the schedule."""
    id: str
    """The id of the schedule."""
    name: str
    """The name of the schedule."""
    reads_as: str
    """The trigger in plain English."""
    topic: str | None
    """The topic that it sends to, or that receives its results."""
    owner: str
    """Who it belongs to."""
    paused: NotRequired[bool]
    """Whether it is paused, and fires only if it is resumed."""


class WorkerShape(TypedDict):
    id: int
    """Its number."""
    name: str
    """The host and process."""
    lanes: list[str]
    """The lanes of the due queue that it takes work from."""
    session: bool
    """Whether it ends when its client is closed."""
    started: Moment
    """When it started."""
    seen: Moment
    """When it last renewed its lease."""
    alive: bool
    """Whether its lease is valid."""
    lease_seconds: float
    """How long it may stay silent before others take over."""


SHAPES = tuple(each for each in list(globals().values()) if is_typeddict(each))
EXTENDED = {"CreatedShape": "ScheduleShape", "RunWithAttempts": "RunShape"}
"""Shapes that add fields to another one."""
