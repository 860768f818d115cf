"""What stands in the query of a request: filters, pages and zones. Unknown names are refused, as in bodies."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from duetime.core.clock import Instant
from duetime.core.errors import DuetimeError
from duetime.core.times import read_time
from duetime.core.triggers import known_zone
from duetime.faces.http.api.given import Key, Text, Time, Zone
from duetime.faces.http.api.refusing import refuse
from duetime.faces.mcp.tool import Call

ScheduleStatus = Literal["pending", "running", "completed", "failed", "cancelled", "paused", "broken"]
RunStatus = Literal[
    "pending", "queued", "running", "waiting", "completed", "failed", "cancelled", "missed", "skipped", "lost"
]
Name = Annotated[Text, Field(min_length=1, max_length=200)]
Cursor = Annotated[Text, Field(max_length=200, description="`next_cursor` of the page before.")]


Limit = Annotated[int, Field(ge=1, le=1000, description="How many at most.")]
OF_KIND = "job, prompt, notification or request; all of them, if absent."
OF_OWNER = "Whose; for operators, who otherwise see all owners."


class Asked(BaseModel):
    model_config = ConfigDict(extra="forbid")

    timezone: Zone | None = Field(
        default=None, description="In which times are read and shown; the caller's, if absent."
    )


class Paged(Asked):
    limit: Limit = 100
    cursor: Cursor | None = None


class Owned(Paged):
    owner: Name | None = Field(default=None, description=OF_OWNER)


class SchedulesAsked(Owned):
    kind: Key | None = Field(default=None, description=OF_KIND)
    status: ScheduleStatus | None = Field(
        default=None, description="As it stands now; a recurring one whose latest run failed is among the failed too."
    )
    text: Name | None = Field(default=None, description="Part of the name.")
    subject: Name | None = Field(default=None, description="What it is filed under: a task, an agent, a topic, a host.")
    order: Literal["newest", "oldest", "next"] = Field(
        default="newest",
        description="By creation; or `next`: only what will fire, the soonest start first.",
    )


class RunsAsked(Owned):
    kind: Key | None = Field(default=None, description=OF_KIND)
    status: RunStatus | None = Field(
        default=None, description="How it stands; missed and skipped: it was due and did not run, and why is told."
    )
    schedule: Name | None = Field(default=None, description="The id of a schedule; one that was deleted too.")
    from_: Time | None = Field(default=None, alias="from", description="Due at or after.")
    to: Time | None = Field(default=None, description="Due until then; a day without a time counts as a whole.")


class DeadAsked(Owned):
    kind: Key | None = Field(default=None, description=OF_KIND)


class InboxAsked(Owned):
    topic: Name | None = Field(default=None, description="What was sent to this topic alone.")


class NextAsked(Asked):
    count: Annotated[int, Field(ge=1, le=100, description="How many times.")] = 10


class EventsAsked(Asked):
    owner: Name | None = Field(default=None, description=OF_OWNER)


class UpcomingAsked(Asked):
    count: Annotated[int, Field(ge=1, le=100, description="How many times at most.")] = 20
    until: Time | None = Field(
        default=None, description="Nothing later than this; a day without a time counts as a whole."
    )
    owner: Name | None = Field(default=None, description=OF_OWNER)


def zone_of(call: Call, given: str | None) -> str:
    return call.zone if given is None else known_zone(given).key


def owner_of(call: Call, given: str | None) -> str | None:
    """None: all owners. Whether somebody else has anything is not told to those who may not ask."""
    if given is not None and not call.caller.operator and given != call.caller.owner:
        raise refuse("operators_only", "owner: needs a token with the scope operator; leave it out", "owner")
    return given if call.caller.operator else call.caller.owner


def time_of(text: str | None, field: str, zone: str, now: Instant, *, last: bool = False) -> Instant | None:
    """As the `last` one that counts, a day without a time is meant as a whole."""
    if text is None:
        return None
    try:
        read = read_time(text, zone=zone, now=now)
        return read.last(zone) if last else read.instant
    except DuetimeError as error:
        raise refuse("unreadable_time", f"{field}: {error.message}", field) from error
