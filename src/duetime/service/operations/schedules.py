"""Reads of schedules of every kind: lists, one schedule, its next times, and the times of a rule before it is
created."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Annotated, Any, Final

from duetime.engine.clock import NEVER, Instant
from duetime.engine.errors import Refused
from duetime.engine.model import Progress, Schedule, ScheduleId, ScheduleState, names_limit
from duetime.engine.policy.decision import followed_by
from duetime.engine.store import EVERY_ONE, Page, RunQuery, ScheduleQuery
from duetime.engine.value_class import NamedTuple, dataclass
from duetime.service.lookup import find
from duetime.service.operations.declaration import (
    Answer,
    Field,
    OperationRequest,
    PagedRequest,
    ScheduleReference,
    Tagged,
    check_choice,
    with_offsets,
)
from duetime.service.presenters import View, next_instants, preview_view, reads_as, schedule_shape
from duetime.service.services import Call, pages_of
from duetime.service.state_details import DUE, HELD_BY_LIMIT, ORPHANS, WAITING_FOR_AGENT, foremost, run_detail
from duetime.service.warnings import ScheduleWarning, time_warnings
from duetime.service.when import TriggerParts, about_option, read_times, ways_in

STATUSES: Final = ("pending", "running", "paused", "completed", "failed", "cancelled", "broken", "living")
"""Statuses by which schedules can be selected. `living`: all that may still fire."""
_WORDS: Final = {"scheduled": "pending", "failing": "failed", "waiting": "running"}
"""Statuses by the words that people read in lists."""
_BY_STATE: Final = ("active", "resting", "over")
"""Further selections, for pages: `resting` is paused or broken, `over` does not fire again."""
ORDERS: Final[Mapping[str, Mapping[str, Any]]] = {
    "newest": {"newest_first": True},
    "oldest": {},
    "next": {"firing": True, "with_events": True},
    "time": {"by_time": True},
    "name": {"order_by": "name"},
    "-name": {"order_by": "name", "newest_first": True},
    "last": {"order_by": "last_run", "newest_first": True},
    "-last": {"order_by": "last_run"},
}
MAX_PREVIEWED: Final = 100
COUNT_ALL: Final = EVERY_ONE
"""For `count_to`: count all that match."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListSchedules(PagedRequest):
    """Schedules of one kind or of all kinds, page by page."""

    status: Annotated[
        str | None,
        Field(
            "The current status; `failed` includes recurring schedules whose latest run failed, `living` is every "
            "schedule that may still fire.",
            choices=(*STATUSES, *_WORDS),
        ),
    ] = None
    text: Annotated[str | None, Field("Part of the name.", max_length=200)] = None
    subject: Annotated[str | None, Field("The task, agent, topic or host.", max_length=200)] = None
    tagged: Tagged = None
    order: Annotated[
        str,
        Field(
            "By creation, by name, by the last run, or by the next or last time; with `next`, only schedules that will "
            "fire, soonest first.",
            choices=tuple(ORDERS),
        ),
    ] = "newest"
    due_from: Instant | None = None
    due_to: Instant | None = None
    """Both are compared with the next time of a schedule or, if it has none, its last one."""
    follow_ups: bool = True
    """Whether to list the messages that runs created when they ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NextTimes(OperationRequest):
    """The next times of a schedule."""

    schedule: ScheduleReference
    count: Annotated[int, Field("How many times.", minimum=1, maximum=MAX_PREVIEWED)] = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewTimes(OperationRequest):
    """The times of a rule."""

    times: Mapping[str, Any] = field(default_factory=dict)
    """Options of times."""
    trigger: TriggerParts | None = None
    """The rule as a trigger, instead of one of the options."""
    count: Annotated[int, Field("How many times.", minimum=1, maximum=MAX_PREVIEWED)] = 5


class FiringTimes(NamedTuple):
    """A rule in English, and the times at which it fires next."""

    english: str
    instants: list[Instant]

    def facts(self, zone: str, warnings: Sequence[ScheduleWarning]) -> View:
        """Return the answer for programs."""
        return preview_view(self.english, self.instants, [each.text for each in warnings], zone)


def list_schedules(call: Call, request: ListSchedules) -> Answer[Page[Schedule]]:
    """Return a page of schedules. Notes say which schedules are kept elsewhere and therefore not listed."""
    status = _WORDS.get(request.status or "", request.status)
    if status not in _BY_STATE:
        check_choice("status", status, STATUSES)
    query = ScheduleQuery(
        **request.query(call),
        status=status,
        text=request.text,
        subject=request.subject,
        tagged=request.tagged,
        due_from=request.due_from,
        due_to=request.due_to,
        follow_ups=request.follow_ups,
        **ORDERS[request.order],
    )
    return Answer(call.scheduler.search(call.caller, query), (), call.services.list_notes(request.kind))


def pages_of_schedules(call: Call, request: ListSchedules) -> Iterator[Page[Schedule]]:
    """Yield the pages of a list, each of which is read when it is needed. Only the first one has the total."""
    return pages_of(lambda _, query: list_schedules(call, query).value, call.caller, request)


def find_exact(call: Call, public_id: str, *, deleted: bool = False) -> Schedule | None:
    """Return the schedule with exactly this id or short id, for links and forms, which no name may mislead; None if
    there is none."""
    scheduler, caller = call.scheduler, call.caller
    schedule = scheduler.find(caller, public_id, deleted=deleted)
    return schedule or scheduler.by_short_id(caller, public_id, deleted=deleted)


def next_times(call: Call, request: NextTimes) -> Answer[FiringTimes]:
    """Return when a schedule fires next; never while it is paused, broken or over."""
    schedule = find(call, request.schedule)
    instants = next_instants(schedule, call.now, request.count)
    warnings = call.services.schedule_warnings(schedule) if instants else []
    return Answer(FiringTimes(reads_as(schedule.definition.trigger), instants), warnings)


def preview(call: Call, request: PreviewTimes) -> Answer[FiringTimes]:
    """Explain a rule, with its next times and anything unexpected. Nothing is created."""
    when = read_times(with_offsets(call, request.times), request.trigger, call.zone, call.now)
    zone = when.timezone or call.zone
    try:
        config = call.scheduler.with_followed(call.caller, when.type, when.config)
        times = call.scheduler.preview(when.type, config, timezone=zone, count=request.count)
    except Refused as error:
        raise about_option(error, next(iter(ways_in(request.times)), None)) from None
    notes = time_warnings(when.notes(zone, call.now))
    cautions = [ScheduleWarning("trigger", text) for text in times.warnings]
    if when.type == "event":
        cautions += call.services.event_warnings(call.caller.owner, str(when.config.get("event")))
    return Answer(FiringTimes(times.english, times.instants), [*notes, *cautions])


# Schedules as interfaces show them, with what an unfinished one is waiting for.

_MAX_LIVE_RUNS: Final = 1000
_LIVING: Final = (ScheduleState.ACTIVE, ScheduleState.PAUSED)


def schedule_views(call: Call, schedules: Sequence[Schedule], *, brief: bool = False) -> list[View]:
    """Return schedules for programs; `brief` cuts long texts, for a list."""
    details = details_of(call, schedules)
    return [schedule_shape(each, call.zone, details.get(each.definition.id), brief=brief) for each in schedules]


def details_of(call: Call, schedules: Sequence[Schedule]) -> dict[ScheduleId, str]:
    """Return the details of those schedules that have one. Only schedules with active runs, and those that
    follow others, need a query."""
    details = {each.definition.id: detail for each in schedules if (detail := _at_rest(call, each)) is not None}
    busy = {each.definition.id: each.progress for each in schedules if each.progress.active > each.progress.untaken}
    if busy:
        query = RunQuery(schedules=tuple(busy), status="live", limit=_MAX_LIVE_RUNS, count_to=0)
        of: dict[ScheduleId, set[str | None]] = {id: set() for id in busy}
        for run in call.scheduler.store.runs(query).items:
            of[run.schedule].add(run_detail(run))
        details |= {id: detail for id in busy if (detail := _foremost(of[id], busy[id])) is not None}
    return details


def detail_of(call: Call, schedule: Schedule) -> str | None:
    """Return what a schedule is waiting for, which is shown beside its status."""
    return details_of(call, [schedule]).get(schedule.definition.id)


def _at_rest(call: Call, schedule: Schedule) -> str | None:
    """Return the detail of a schedule that has no active run."""
    progress, now = schedule.progress, call.now
    if progress.state not in _LIVING or progress.active > progress.untaken:
        return None
    if progress.active:
        return WAITING_FOR_AGENT
    followed = followed_by(schedule.definition.trigger) if progress.next == NEVER else None
    if followed is not None:
        first = call.scheduler.store.get(followed)
        return ORPHANS.get(ScheduleState.DELETED if first is None else first.progress.state)
    if progress.next is None or progress.next > now or progress.state == ScheduleState.PAUSED:
        return None
    return HELD_BY_LIMIT if names_limit(progress.note) else DUE


def _foremost(details: Collection[str | None], progress: Progress) -> str | None:
    detail = foremost(details)
    if progress.state == ScheduleState.PAUSED and detail in (DUE, HELD_BY_LIMIT):
        return None  # it only waits for the resume
    return HELD_BY_LIMIT if detail == DUE and names_limit(progress.note) else detail
