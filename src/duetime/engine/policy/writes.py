"""The rows that a decision wants written. Stores apply them in one transaction and never interpret them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from duetime.engine.clock import Instant
from duetime.engine.model import Attempt, Definition, DueEntry, Progress, Run, RunId, ScheduleId
from duetime.engine.policy.create import Draft

NewId = Callable[[], RunId]


class Extension(NamedTuple):
    """Further occurrences that join an open range row."""

    run: RunId
    last: Instant
    added: int


class Message(NamedTuple):
    """What an owner is told. Its key is reserved, so that it is told once."""

    owner: str
    key: str
    topic: str
    title: str
    text: str
    went_well: bool
    tags: tuple[str, ...] = ()
    """By the tag of its run, a reader can look the run up: channels show tags, or pass them on."""


FollowUp: TypeAlias = Draft | Message


@dataclass(slots=True)
class Writes:
    """Rows to write. Progress is keyed by schedule: several decisions about one in a batch build on each other."""

    new_runs: list[Run] = field(default_factory=list)
    runs: dict[RunId, Run] = field(default_factory=dict)
    extensions: list[Extension] = field(default_factory=list)
    progress: dict[ScheduleId, Progress] = field(default_factory=dict)
    definitions: list[Definition] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    due_gone: list[DueEntry] = field(default_factory=list)
    """Entries to remove from the queue; matched by schedule and run."""
    due_gone_of: list[ScheduleId] = field(default_factory=list)
    """Schedules all of whose entries are removed from the queue."""
    due_new: list[DueEntry] = field(default_factory=list)
    spared: dict[RunId, int] = field(default_factory=dict)
    """Runs that a worker's death does not count against, with the number that `policy.rescue` reads the next time."""
    follow_ups: list[FollowUp] = field(default_factory=list)
    """Messages and callbacks that this decision sends, such as the message that tells how a run ended."""

    def withdraw(self, schedule: ScheduleId) -> None:
        """Remove everything of this schedule from the queue, even what was decided a moment ago."""
        self.due_gone_of.append(schedule)
        self.due_new = [entry for entry in self.due_new if entry.schedule != schedule]

    def progress_of(self, row: Progress) -> Progress:
        return self.progress.get(row.schedule, row)
