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
    kind: str
    owner: str
    name: str
    subject: str
    """What it is filed under: a task, an agent, a topic, a host."""
    status: str
    state_detail: str | None
    """Of what is not at rest: due, waiting_for_agent, taken, held_by_limit or running."""
    trigger: dict[str, Any]
    """In the words in which it can be given."""
    reads_as: str
    """The trigger in plain English."""
    timezone: str | None
    payload: Any
    """With *** in place of credentials."""
    policy: dict[str, Any] | None
    created_at: Moment
    updated_at: Moment
    next_run: Moment | None
    """When it fires next; null while it is paused."""
    last_run: Moment | None
    last_status: str | None
    last_error: str | None
    run_count: int
    max_runs: int | None
    failures_in_a_row: int
    note: str | None
    """Why it is broken, paused, held or ended early."""
    paused_until: Moment | None
    """When its pause ends by itself."""
    version: int
    limits: NotRequired[dict[str, Any]]
    """The limits in force, with the answer to a create, an edit or a resume."""


class RunShape(TypedDict):
    run_id: int
    schedule: str | None
    kind: str
    owner: str
    name: str
    cause: str
    due: Moment
    status: str
    state_detail: str | None
    """Of a run that is not over: due, waiting_for_agent, taken, held_by_limit or running."""
    attempt: int
    started: Moment | None
    finished: Moment | None
    duration_seconds: float | None
    """Of its latest attempt."""
    result: Any
    error: str | None
    report: str | None
    """How far it came, in its own words."""
    cost: dict[str, Any] | None
    """What it used, such as tokens and dollars, where that is known."""
    stopping: bool
    taken_until: Moment | None
    """Until when it is in the hands of whoever took it."""
    last: NotRequired[Moment | None]
    """Of a range that did not run: its last instant."""
    occurrences: NotRequired[int | None]
    at_least: NotRequired[bool | None]


class CreatedShape(ScheduleShape):
    warnings: list[str]
    """Why it might not fire, or not arrive."""
    warning_codes: list[str]
    """Their codes, in the same order."""


class AttemptShape(TypedDict):
    attempt: int
    started: Moment | None
    finished: Moment
    status: str
    error: str | None


class RunWithAttempts(RunShape):
    attempts: list[AttemptShape]
    """Earlier ones; the latest is the run itself."""


class MessageShape(TypedDict):
    run_id: int
    schedule: str | None
    id: str | None
    arrived: Moment | None
    topic: Any
    channel: Any
    receipt: Any
    title: Any
    message: Any
    tags: Any
    priority: Any
    click: Any


class MomentsShape(TypedDict):
    utc: Moment
    local: Moment


class PreviewShape(TypedDict):
    reads_as: str
    timezone: str
    next: list[MomentsShape]
    warnings: list[str]


class ComingShape(TypedDict):
    at: Moment
    kind: str
    id: str
    name: str
    reads_as: str
    topic: str | None
    """The topic that it sends to, or that hears of its results."""
    owner: str
    paused: NotRequired[bool]
    """It does not fire then unless it is resumed."""


class WorkerShape(TypedDict):
    id: int
    name: str
    lanes: list[str]
    session: bool
    """Lives only as long as some client is open."""
    started: Moment
    seen: Moment
    alive: bool
    lease_seconds: float


SHAPES = tuple(each for each in list(globals().values()) if is_typeddict(each))
EXTENDED = {"CreatedShape": "ScheduleShape", "RunWithAttempts": "RunShape"}
"""Shapes that add fields to another one."""
