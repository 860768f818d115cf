"""Models of responses for the OpenAPI document; those of single entities are the answers of the service."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from duetime.service import answers


class ClosedModel(BaseModel):
    """Closed: what is answered is described."""

    model_config = ConfigDict(extra="forbid")


class Problem(BaseModel):
    """RFC 9457."""

    type: str = Field(description="A URN that identifies the kind of error.")
    title: str
    status: int
    detail: str = Field(description="What was refused, why, and what to do next.")
    field: str | None = Field(default=None, description="The part of the request at fault.")
    errors: list[dict[str, str]] | None = Field(default=None, description="All problems, each with its field.")


class PageShape(ClosedModel):
    total: int = Field(description="How many match.")
    total_exact: bool = Field(description="Whether `total` is exact; if false, there are at least that many.")
    next_cursor: str | None = Field(description="Cursor of the next page; null on the last page.")


class SchedulesShape(PageShape):
    schedules: list[answers.Schedule]
    notes: list[str] = Field(default=[], description="What is kept elsewhere and therefore not listed.")


class ChangedShape(ClosedModel):
    matched: int
    changed: int
    dry_run: bool
    failed: list[dict[str, Any]] = Field(description="What could not be changed, each with `id` and `error`.")
    schedules: list[dict[str, Any]] = Field(
        description="What matched, each with `id`, `kind` and `name`; for a pause, with `paused_until` and "
        "`falls_into_pause`."
    )


class RunsShape(PageShape):
    runs: list[answers.Run]
    notes: list[str] = Field(default=[], description="Which failures are kept elsewhere and therefore not listed.")
    window: dict[str, datetime] = Field(default={}, description="The window as it was understood, `from` and `to`.")
    counts: dict[str, int] = Field(
        default={},
        description="The number of runs in it by status, whatever `status` selects. Of very many, 1,000 are counted, "
        "and up to 20,000 that failed, did not run or have not ended.",
    )
    counts_at_least: list[str] = Field(
        default=[], description="Statuses whose number in `counts` is a lower bound; those of all others are exact."
    )


class RefusedRun(ClosedModel):
    run_id: int
    code: str
    message: str


class DealtShape(ClosedModel):
    runs: list[int] = Field(description="Numbers of the runs that were retried, resolved or reopened.")
    refused: list[RefusedRun] = Field(description="Those that were refused, each with the reason.")
    warnings: list[str] = Field(description="Reasons why what was retried might not begin.")
    warning_codes: list[str] = Field(description="The codes of the warnings, in the same order.")
    notes: list[str] = Field(default=[], description="Which runs were not searched and therefore not changed.")


class AttentionShape(ClosedModel):
    attention: list[answers.Incident]
    more: bool = Field(description="Whether there may be more: of very many runs, only the latest are looked at.")


class MarksShape(ClosedModel):
    marked: int = Field(description="How many were marked.")
    notes: list[str] = Field(description="Why some were not marked.")


class HooksShape(ClosedModel):
    hooks: list[answers.Hook]
    notes: list[str] = Field(description="Why deliveries may not arrive.")


class StoppedShape(ClosedModel):
    runs: list[answers.Run] = Field(description="The stopped runs: cancelled, or still running and asked to stop.")
    schedule: answers.Schedule | None = Field(description="The schedule, which continues.")
    confirmation: str


class InboxShape(PageShape):
    messages: list[answers.Message]


class TasksShape(ClosedModel):
    tasks: list[dict[str, Any]]
    total: int


class WorkersShape(ClosedModel):
    workers: list[answers.WorkerState]


class NamedShape(ClosedModel):
    name: str
    type: str


class AgentsShape(ClosedModel):
    agents: list[NamedShape]


class ChannelsShape(ClosedModel):
    channels: list[NamedShape]


class CallerShape(ClosedModel):
    owner: str
    operator: bool
    timezone: str
    depth: int = Field(description="Number of nested agent runs above this caller; 0 for a person.")
