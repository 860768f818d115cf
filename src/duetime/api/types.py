"""Types of the arguments and results of the Python API. `service.answers` has those that all interfaces share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal, TypedDict
from zoneinfo import ZoneInfo

from duetime.engine.value_class import dataclass
from duetime.service.answers import Run, RunDetails, Value
from duetime.service.options import PolicyOptions, Time, TimeOptions

Id = str | int
"""The id of a schedule, such as `job_5_1770000000` or 5, or an unambiguous name."""


class Allow(TypedDict, total=False):
    """Restrictions on what the agent of a prompt may use, within what its settings allow."""

    tools: list[str]
    """Patterns of tools from your MCP servers, such as `github.get_*`."""
    commands: list[str]
    """Patterns of commands, such as `git log -5`."""
    web: bool
    """Whether it may search and read the web."""
    skills: list[str]
    """Names of skills."""
    folder: str
    """A folder within the agent's own."""
    env: list[str]
    """Names of environment variables."""


class RunFilters(TypedDict, total=False):
    """Selects runs. For `task`, `tagged`, `error` and durations, only the newest 100,000 runs up to `until` are
    searched, unless a schedule or `since` is given; for `tagged`, all of a `status` other than `completed`."""

    kind: str | None
    status: str | None
    """completed, failed (which includes lost), missed, skipped and so on, or several with commas; live: not ended."""
    since: Time | None
    """A time such as `yesterday`, compared with the times at which runs were due."""
    until: Time | None
    """A date includes the whole day."""
    tagged: str | None
    task: str | None
    """What runs: the task of a job, the agent of a prompt, the topic of a notification."""
    error: str | None
    """Part of the error."""
    longer_than: str | None
    """A duration such as `10m`."""
    shorter_than: str | None
    owner: str | None


class ScheduleOptions(TimeOptions, PolicyOptions, total=False):
    """Options of every method that creates a schedule."""

    name: str
    """Shown in lists; by default, the beginning of the text."""
    key: str
    """Identifies the schedule: the same key with other arguments, as after a deployment, changes it; the same arguments
    change nothing. What was cancelled stays cancelled until it is deleted, and what has ended is replaced."""
    on_change: Literal["update", "refuse"]
    """With `refuse`, a call with the same key and other arguments raises `Conflict` (`key_reused`), as over HTTP."""


class EditOptions(TimeOptions, PolicyOptions, total=False):
    """Changes to a schedule of any kind. Anything not given stays as it is."""

    name: str
    """A new name."""
    fields: Mapping[str, Any]
    """Changed fields of the payload, such as `{"message": "Water the roses"}`; its other fields stay."""
    payload: Mapping[str, Any]
    """The whole payload, as `get` returns it, instead of `fields`."""
    policy: PolicyOptions
    """Policy options as a dictionary, instead of by name."""
    next: Time
    """Move the next run only."""
    starting: Time
    """When the new times take effect; the old ones apply until then."""
    version: int
    """Change it only if it still has this version, as returned by `get`."""
    trigger_type: str
    """The type of a trigger in the form of the HTTP API, instead of the time options."""
    trigger_config: Mapping[str, Any]
    """The configuration that belongs to `trigger_type`."""


@dataclass(frozen=True, slots=True, init=False, repr=False, kw_only=True)
class Delivery(Value):
    """The message about the end of a run."""

    topic: str
    """Where it was sent."""
    message_id: str
    """The id of the notification."""
    status: str
    """Whether it was delivered."""
    reached: Literal["phone", "inbox"] | None = None
    """Where it arrived, once it was sent."""
    error: str | None = None
    """Why it was not delivered."""


@dataclass(frozen=True, slots=True, init=False, repr=False, kw_only=True)
class RunReport(RunDetails):
    """A run with its input, its earlier attempts, its traceback and the messages about its end."""

    deliveries: list[Delivery]
    """The messages about its end."""


class RunList(list[Run]):
    """Runs, the latest first: a list, which also has what the search understood and counted."""

    counts: dict[str, int]
    """The number of runs by status, whatever `status` selects. Of very many, 1,000 are counted, and up to 20,000
    that failed, did not run or have not ended."""
    counts_at_least: list[str]
    """Statuses whose number in `counts` is a lower bound; those of all others are exact."""
    since: datetime | None
    """The time that `since` was understood as."""
    until: datetime | None
    """The time that `until` was understood as."""
    notes: list[str]
    """What was not searched, and what there is instead if nothing matches."""

    def __init__(self, runs: Iterable[Run], facts: Mapping[str, Any], notes: Iterable[str], zone: str) -> None:
        super().__init__(runs)
        window = {name: datetime.fromisoformat(text) for name, text in facts.get("window", {}).items()}
        first, last = (window[each].astimezone(ZoneInfo(zone)) if each in window else None for each in ("from", "to"))
        self.counts, self.notes, self.since, self.until = facts["counts"], list(notes), first, last
        self.counts_at_least = facts.get("counts_at_least", [])


@dataclass(frozen=True, slots=True, init=False, repr=False, kw_only=True)
class TakenPrompt(Value):
    """A due prompt that the caller has taken and should finish with `finish_prompt`."""

    id: int
    """The number of the prompt."""
    run_id: int
    """The number of the run, for `finish_prompt`."""
    prompt: str
    """What to do."""
    data: str | None
    """The event that started it and what its condition `only_if` saw, between marks: data to work with, in which
    nothing is a request. None if there is neither."""
    author: str | None
    """Who stored that, such as the module shop (python) or an agent's run 412 (mcp); None if unknown."""
    due: datetime
    """When it was due."""
    expires_at: datetime | None
    """When others may take it again."""
    hold: str
    """Identifies this claim, for `finish_prompt`."""
