"""Upcoming occurrences of all schedules within a window, in time order."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, NamedTuple

from duetime.engine.clock import Instant
from duetime.engine.errors import DuetimeError
from duetime.engine.kind import Caller
from duetime.engine.model import Schedule, ScheduleState
from duetime.engine.policy.options import policy_from_json
from duetime.engine.policy.pauses import is_held
from duetime.engine.result import Err
from duetime.engine.store import PAGE_BYTES, ScheduleQuery
from duetime.engine.triggers import Trigger, trigger_from_json
from duetime.engine.triggers.step_budget import LIST_STEPS, step_budget
from duetime.service.kind_spec import OccurrenceWindow, check_kind
from duetime.service.operations.declaration import Answer, Field, Kind, Owner, Time, check_owner, read_range
from duetime.service.presenters import View, coming_shape
from duetime.service.services import Call, Services, pages_of
from duetime.service.warnings import ScheduleWarning

MOST_READ = 2000
"""Maximum number of schedules that are read for one list."""
MOST_LATER = 20
"""Maximum number of schedules that are named because they have no row in a list that was cut."""
_PAGE = 200
_MISSING = "Some times may be missing: so much is scheduled that not all of it was read. Ask for one kind or topic."
_EXPENSIVE = "Some times are missing: the rules of some schedules take too many steps to evaluate."

Occurrence = tuple[Instant, Schedule]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListUpcoming:
    """What fires next, in time order."""

    start: Annotated[
        Time | None, Field("Only from this time on; by default, now.", brief="From then: tomorrow.", name="from")
    ] = None
    until: Annotated[
        Time | None, Field("Only up to this time; a date includes the whole day.", brief="Until then: 2026-02-10.")
    ] = None
    kind: Kind = None
    topic: Annotated[
        str | None,
        Field("Only schedules that send or report to this topic.", brief="Only to this topic.", max_length=200),
    ] = None
    include_paused: Annotated[
        bool, Field("Include times at which paused schedules would fire.", brief="Paused ones too.")
    ] = False
    owner: Owner = None
    count: Annotated[int, Field("Maximum number of times.", brief="At most; default 20.", minimum=1, maximum=100)] = 20


class UpcomingTimes(NamedTuple):
    """Occurrences in the order of their times."""

    rows: list[View]
    more: bool
    """Whether the window has further occurrences that are not among the rows."""
    later: list[View]
    """If so, the schedules without a row, each with its first time in the window."""

    def facts(self, zone: str, warnings: Sequence[ScheduleWarning]) -> View:
        """Return the answer for programs."""
        facts = {"upcoming": self.rows, "count": len(self.rows), "more": self.more, "timezone": zone}
        further = {"later": self.later, "warnings": [each.text for each in warnings]}
        return facts | {name: value for name, value in further.items() if value}


def upcoming(call: Call, request: ListUpcoming) -> Answer[UpcomingTimes]:
    """Return what fires in a window, each row with its owner and its topic. Warnings say why something may be
    missing."""
    check_kind(request.kind)
    kinds = call.kinds if request.kind is None else (request.kind,)
    span = read_range(call, request.start, request.until, ("from", "until"))
    owner, now = check_owner(call, request.owner), call.scheduler.clock.now()
    window = OccurrenceWindow(now, request.count, *span, kinds, request.topic, request.include_paused, owner)
    return _upcoming(call.services, call.caller, window, call.zone)


def coming(
    call: Call,
    limit: int,
    until: Instant | None = None,
    *,
    owner: str | None = None,
    kind: str | None = None,
    text: str | None = None,
) -> list[Schedule]:
    """Return the schedules that fire next, in the order of their next times, for pages and screens. `text` is a part of
    the name."""
    return call.scheduler.coming(call.caller, until, limit, owner, kind=kind, text=text)


def _upcoming(services: Services, caller: Caller, asked: OccurrenceWindow, zone: str) -> Answer[UpcomingTimes]:
    schedules, whole = _read(services, caller, asked)
    further, unread = _kept_outside(services, caller, asked)
    schedules += further
    with step_budget(LIST_STEPS):
        found, rest, evaluated = _first(schedules, asked)
    warnings = ([] if whole else [_MISSING]) + ([] if evaluated else [_EXPENSIVE]) + unread
    rows = [(at, _row(services, at, each, zone)) for at, each in found]
    later = [(at, _row(services, at, each, zone)) for at, each in rest]
    beyond = sorted([*rows[asked.count :], *later], key=_time)
    more = bool(beyond) or not whole or not evaluated
    shown = [row for _, row in rows[: asked.count]]
    times = UpcomingTimes(shown, more, _without(shown, [row for _, row in beyond]))
    return Answer(times, [ScheduleWarning("incomplete", text) for text in warnings])


def _time(row: tuple[Instant, View]) -> Instant:
    return row[0]


def _without(shown: Sequence[View], beyond: Sequence[View]) -> list[View]:
    """Return the first row of each schedule that is not shown."""
    known, found = {row["id"] for row in shown}, list[View]()
    for row in beyond:
        if row["id"] not in known:
            known.add(row["id"])
            found.append(row)
    return found[:MOST_LATER]


def _row(services: Services, at: Instant, schedule: Schedule, zone: str) -> View:
    definition, progress = schedule
    row = coming_shape(at, schedule, zone)
    row |= {"topic": services.topic_of(definition), "owner": definition.owner}
    until = definition.resume_at
    return {**row, "paused": True} if progress.state == ScheduleState.PAUSED and not (until and at >= until) else row


# -- reading the schedules --------------------------------------------------------------------------------------------


def _read(services: Services, caller: Caller, asked: OccurrenceWindow) -> tuple[list[Schedule], bool]:
    """Return the schedules that may fire in the window, and whether these are all of them."""
    kind = next(iter(asked.kinds)) if asked.kinds is not None and len(asked.kinds) == 1 else None
    query = ScheduleQuery(
        owner=asked.owner, kind=kind, limit=max(_PAGE, asked.count), count_to=0, most_bytes=8 * PAGE_BYTES
    )
    found, whole = _matching(services, caller, asked, replace(query, firing=True, due_to=asked.until))
    paused, all_of_them = _matching(services, caller, asked, replace(query, status="paused"))
    return found + paused, whole and all_of_them


def _kept_outside(services: Services, caller: Caller, asked: OccurrenceWindow) -> tuple[list[Schedule], list[str]]:
    """Return the schedules that are kept outside of this store, and why some are missing. Other services list the
    schedules of one owner, so they are queried only for the caller's own."""
    found: list[Schedule] = []
    warnings: list[str] = []
    for kind, outside in services.outside(kinds=asked.kinds).items() if asked.owner in (None, caller.owner) else ():
        kept = outside.schedules(caller, asked.topic)
        if isinstance(kept, Err):
            missing = f"{services.specs[kind].plural.capitalize()} are missing here, for they cannot be listed"
            warnings.append(f"{missing}: {kept.message.rstrip('.')}.")
        else:
            found += [each for each in kept.value if _is_asked_for(services, each, asked)]
    return found, warnings


def _matching(
    services: Services, caller: Caller, asked: OccurrenceWindow, query: ScheduleQuery
) -> tuple[list[Schedule], bool]:
    found: list[Schedule] = []
    read = 0
    for page in pages_of(services.scheduler.search, caller, query):
        read += len(page.items)
        found += [each for each in page.items if _is_asked_for(services, each, asked)]
        # In the order of their starts, each of them fires in a window without a start, so these are enough.
        if page.cursor is None or (query.firing and asked.start is None and len(found) > asked.count):
            break
        if read >= MOST_READ:
            return found, False
    return found, True


def _is_asked_for(services: Services, schedule: Schedule, asked: OccurrenceWindow) -> bool:
    """Return whether a schedule has the requested kind and topic, and is not paused indefinitely."""
    definition, progress = schedule
    if asked.kinds is not None and definition.kind not in asked.kinds:
        return False
    if progress.state == ScheduleState.PAUSED and definition.resume_at is None and not asked.include_paused:
        return False
    return asked.topic is None or asked.topic in (services.topic_of(definition), definition.subject)


# -- merging their occurrences ----------------------------------------------------------------------------------------


def _first(schedules: Sequence[Schedule], asked: OccurrenceWindow) -> tuple[list[Occurrence], list[Occurrence], bool]:
    """Return the first occurrences, one more than asked for; the first ones of schedules without any of these; and
    whether every rule could be evaluated. Only what is returned is evaluated."""
    found: list[Occurrence] = []
    evaluated, seen = True, set[int]()
    streams = [_instants_of(schedule, asked) for schedule in schedules]
    heap: list[tuple[Instant, int]] = []

    def advance(place: int) -> bool:
        try:
            instant = next(streams[place], None)
        except DuetimeError:
            return False
        if instant is not None:
            heapq.heappush(heap, (instant, place))
        return True

    for place in range(len(schedules)):
        evaluated = advance(place) and evaluated
    while heap and len(found) <= asked.count:
        instant, place = heapq.heappop(heap)
        seen.add(place)
        found.append((instant, schedules[place]))
        evaluated = advance(place) and evaluated
    rest = [(instant, schedules[place]) for instant, place in sorted(heap) if place not in seen]
    return found, rest[:MOST_LATER], evaluated


def _instants_of(schedule: Schedule, asked: OccurrenceWindow) -> Iterator[Instant]:
    definition, progress = schedule
    if progress.next is None:
        return
    resumed = definition.resume_at if progress.state == ScheduleState.PAUSED else None
    if resumed is not None and progress.next < resumed and is_held(schedule, resumed):
        if (asked.start is None or resumed >= asked.start) and (asked.until is None or resumed <= asked.until):
            yield resumed
        return
    if progress.state == ScheduleState.PAUSED and progress.next <= asked.now:
        following = trigger_from_json(definition.trigger).next_after(asked.now)
        if following is None:
            return
    else:
        following = progress.next
    if resumed is not None and not asked.include_paused:
        asked = replace(asked, start=max(asked.start or asked.now, resumed))
    limit = policy_from_json(definition.policy).max_runs
    yield from instants(definition.trigger, following, asked, None if limit is None else limit - progress.run_count)


def instants(stored: str, first: Instant, asked: OccurrenceWindow, left: int | None = None) -> Iterator[Instant]:
    """Yield the occurrences of a stored trigger in a window. The first is given, because an edit may have moved it off
    the rule, or it is overdue. `left` is the maximum number, counted from the first one."""
    following: Instant | None = first
    trigger: Trigger | None = None
    if asked.start is not None and first < asked.start:
        trigger, before = trigger_from_json(stored), Instant(asked.start - 1)
        left = None if left is None else left - 1 - trigger.count(first, before, left)
        following = trigger.next_after(before)
    while following is not None and (asked.until is None or following <= asked.until):
        if left is not None and left <= 0:
            return
        yield following
        left = None if left is None else left - 1
        trigger = trigger or trigger_from_json(stored)
        following = trigger.next_after(max(following, asked.now))
