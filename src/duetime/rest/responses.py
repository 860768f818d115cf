"""Models of responses for the OpenAPI document. `service.presenters` builds them; a test checks that both agree."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

Moment = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
"""ISO 8601 with offset, in the requested time zone."""


class Shape(BaseModel):
    """Closed: what is answered is described."""

    model_config = ConfigDict(extra="forbid")


class Problem(BaseModel):
    """RFC 9457."""

    type: str = Field(description="A URN that programs can tell apart.")
    title: str
    status: int
    detail: str = Field(description="What was refused, why, and what to do next.")
    field: str | None = Field(default=None, description="What of the request it is about.")
    errors: list[dict[str, str]] | None = Field(
        default=None, description="All that was found wrong, each with its field."
    )


class ScheduleShape(Shape):
    id: str
    kind: str
    owner: str
    name: str
    subject: str = Field(description="What it is filed under: a task, an agent, a topic, a host.")
    status: str
    trigger: dict[str, Any] = Field(description="In the words in which it can be given.")
    reads_as: str = Field(description="The trigger in plain English.")
    timezone: str | None
    payload: Any = Field(description="With *** in place of credentials.")
    policy: dict[str, Any] | None
    created_at: Moment
    updated_at: Moment
    next_run: Moment | None = Field(description="When it fires next; of one that is paused, when it would.")
    last_run: Moment | None
    last_status: str | None
    last_error: str | None
    run_count: int
    max_runs: int | None
    failures_in_a_row: int
    note: str | None = Field(description="Why it is broken, held or ended early.")
    version: int


class CreatedShape(ScheduleShape):
    warnings: list[str] = Field(description="Why it might not fire, or not arrive.")


class RunShape(Shape):
    run_id: int
    schedule: str | None
    kind: str
    owner: str
    name: str
    cause: str
    due: Moment
    status: str
    attempt: int
    started: Moment | None
    finished: Moment | None
    result: Any
    error: str | None
    report: str | None = Field(description="How far it came, in its own words.")
    stopping: bool
    taken_until: Moment | None = Field(description="Until when it is in the hands of whoever took it.")
    last: Moment | None = Field(default=None, description="Of a range that did not run: its last instant.")
    occurrences: int | None = None
    at_least: bool | None = None


class AttemptShape(Shape):
    attempt: int
    started: Moment | None
    finished: Moment
    status: str
    error: str | None


class RunWithAttempts(RunShape):
    attempts: list[AttemptShape] = Field(description="Earlier ones; the latest is the run itself.")


class PageShape(Shape):
    total: int = Field(description="How many match.")
    total_exact: bool = Field(description="False: there are at least so many.")
    next_cursor: str | None = Field(description="For the next page; null when this is the last.")


class SchedulesShape(PageShape):
    schedules: list[ScheduleShape]
    notes: list[str] = Field(default=[], description="What is kept elsewhere, and so is not in this list.")


class RunsShape(PageShape):
    runs: list[RunShape]


class MessageShape(Shape):
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


class InboxShape(PageShape):
    messages: list[MessageShape]


class MomentsShape(Shape):
    utc: Moment
    local: Moment


class PreviewShape(Shape):
    reads_as: str
    timezone: str
    next: list[MomentsShape]
    warnings: list[str]


class ComingShape(Shape):
    at: Moment
    kind: str
    id: str
    name: str
    reads_as: str
    owner: str


class UpcomingShape(Shape):
    upcoming: list[ComingShape]
    count: int
    timezone: str
    warnings: list[str] = Field(default=[], description="Why something may be missing.")


class TasksShape(Shape):
    tasks: list[dict[str, Any]]
    total: int


class WorkerShape(Shape):
    id: int
    name: str
    lanes: list[str]
    session: bool = Field(description="Lives only as long as some client is open.")
    started: Moment
    seen: Moment
    alive: bool
    lease_seconds: float


class WorkersShape(Shape):
    workers: list[WorkerShape]


class NamedShape(Shape):
    name: str
    type: str


class AgentsShape(Shape):
    agents: list[NamedShape]


class ChannelsShape(Shape):
    channels: list[NamedShape]


class CallerShape(Shape):
    owner: str
    operator: bool
    timezone: str
    depth: int = Field(description="How many agent runs stand between a person and this caller.")
