"""Upcoming occurrences of all schedules within a window, in time order."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from operator import itemgetter
from typing import Annotated, Any

from duetime.engine.clock import DAY, NEVER, Instant
from duetime.engine.errors import DuetimeError
from duetime.engine.model import Schedule, ScheduleState
from duetime.engine.policy.options import policy_from_json
from duetime.engine.policy.pauses import is_held
from duetime.engine.store import PAGE_BYTES, ScheduleQuery
from duetime.engine.triggers import Trigger, trigger_from_json
from duetime.engine.triggers.step_budget import LIST_STEPS, step_budget
from duetime.engine.value_class import NamedTuple, dataclass
from duetime.service.kind_spec import check_kind
from duetime.service.operations.declaration import (
    Answer,
    Field,
    Kind,
    OperationRequest,
    Owner,
    Tagged,
    Time,
    check_owner,
    read_range,
)
from duetime.service.presenters import View, coming_shape, instant_view, moment_view
from duetime.service.services import Call, pages_of
from duetime.service.text import Count
from duetime.service.warnings import ScheduleWarning

MOST_READ = 2000
"""Maximum number of schedules that are read for one list."""
MOST_ON_EVENTS = 20
"""Maximum number of schedules that are named because they wait for an event."""
MAX_TIMES = 5
"""Maximum number of times that the row of one schedule has, if it has one row."""
_PAGE = 200
_MISSING = "Some times may be missing: so much is scheduled that not all of it was read. Ask for one kind or topic."
MORE_ON_EVENTS = f"More schedules wait for events than the {MOST_ON_EVENTS} in on_events. Ask for one kind or topic."
_EXPENSIVE = "Some times are missing: the rules of some schedules take too many steps to evaluate."

Occurrence = tuple[Instant, Schedule]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListUpcoming(OperationRequest):
    """What fires next, in time order. In a window of more than a day, and if not all times fit, each schedule has one
    row with its next times, so that a frequent one does not hide the others."""

    start: Annotated[
        Time | None, Field("Only from this time on; by default, now.", brief="From then: tomorrow.", name="from")
    ] = None
    until: Annotated[
        Time | None, Field("Only up to this time; a date includes the whole day.", brief="To 2026-02-10 inclusive.")
    ] = None
    kind: Kind = None
    topic: Annotated[
        str | None,
        Field(
            "Only with this topic, to which they send or report, or with this task or agent.",
            brief="Only this topic, task or agent.",
            max_length=200,
        ),
    ] = None
    tagged: Tagged = None
    include_paused: Annotated[
        bool, Field("Include times at which paused schedules would fire.", brief="Paused ones too.")
    ] = False
    owner: Owner = None
    count: Annotated[int, Field("Maximum number of times.", brief="At most; default 20.", minimum=1, maximum=100)] = 20


class UpcomingTimes(NamedTuple):
    """Occurrences in the order of their times."""

    rows: list[View]
    more: bool
    """Whether further schedules fire in the window or wait for events, or not all could be read."""
    start: Instant | None
    until: Instant | None
    """The window, as far as one was given."""
    on_events: Sequence[View] = ()
    """Schedules that wait for an event, and so have no time."""

    def facts(self, zone: str, warnings: Sequence[ScheduleWarning]) -> View:
        """Return the answer for programs."""
        facts = {"upcoming": self.rows, "count": len(self.rows), "more": self.more, "timezone": zone}
        window = {"from": moment_view(self.start, zone), "until": moment_view(self.until, zone)}
        window = {name: value for name, value in window.items() if value}
        texts = [each.text for each in warnings]
        further = {"window": window, "on_events": list(self.on_events), "warnings": texts}
        return facts | {name: value for name, value in further.items() if value}


class _Window(NamedTuple):
    """A request whose times were read."""

    now: Instant
    start: Instant | None
    until: Instant | None
    request: ListUpcoming


def upcoming(call: Call, request: ListUpcoming) -> Answer[UpcomingTimes]:
    """Return what fires in a window, each row with its owner and its topic. Warnings say why something may be
    missing."""
    check_kind(request.kind)
    check_owner(call, request.owner)
    call = call if request.kind is None else call._replace(kinds=(request.kind,))
    window = _Window(call.now, *read_range(call, request.start, request.until, ("from", "until")), request)
    rows, more, missing = _times(call, window)
    on_events, whole = _on_events(call, window)
    missing = missing if whole else [*missing, MORE_ON_EVENTS]
    times = UpcomingTimes(rows, more or not whole, window.start, window.until, on_events)
    return Answer(times, [ScheduleWarning("incomplete", text) for text in missing])


def _on_events(call: Call, window: _Window) -> tuple[list[View], bool]:
    """Return the schedules that wait for events, in place of the times that they do not have, and whether these are all
    of them."""
    window = window._replace(request=replace(window.request, count=MOST_ON_EVENTS))
    query = replace(_query(call, window.request), firing=True, with_events=True, due_from=NEVER)
    schedules, whole = _matching(call, window, query)
    rows = [_row(call, NEVER, each) for each in schedules[:MOST_ON_EVENTS]]
    views = [{name: row[name] for name in ("id", "short_id", "kind", "name", "reads_as", "owner")} for row in rows]
    return views, whole and len(schedules) <= MOST_ON_EVENTS


def _times(call: Call, window: _Window) -> tuple[list[View], bool, list[str]]:
    """Return a row for every occurrence of a short window or, if that is too much, one for each schedule; also whether
    there is more, and why something may be missing."""
    schedules, whole = _read(call, window)
    further, unread = _kept_outside(call, window)
    schedules, warnings = [*schedules, *further], [*([] if whole else [_MISSING]), *unread]
    if window.until is None or window.until - (window.start or window.now) <= DAY:
        with step_budget(LIST_STEPS):
            occurrences, evaluated = _first(schedules, window)
        if len(occurrences) <= window.request.count:
            rows = [_row(call, at, each) for at, each in occurrences]
            return rows, not (whole and evaluated), warnings + ([] if evaluated else [_EXPENSIVE])
    return _by_schedule(call, window, schedules, warnings)


def _by_schedule(
    call: Call, window: _Window, schedules: Sequence[Schedule], warnings: list[str]
) -> tuple[list[View], bool, list[str]]:
    """Return one row for each schedule that fires in the window, with its first times there."""
    rows: list[tuple[Instant, View]] = []
    with step_budget(LIST_STEPS):
        for schedule in schedules:
            try:
                times = list(islice(_instants_of(schedule, window), MAX_TIMES + 1))
            except DuetimeError:
                warnings = [*warnings, _EXPENSIVE] if _EXPENSIVE not in warnings else warnings
                continue
            if times:
                views = [instant_view(each, call.zone) for each in times[:MAX_TIMES]]
                further = {"more_times": True} if len(times) > MAX_TIMES else {}
                rows.append((times[0], {**_row(call, times[0], schedule), "times": views, **further}))
    rows.sort(key=itemgetter(0))
    count = window.request.count
    return [row for _, row in rows[:count]], len(rows) > count or bool(warnings), warnings


def coming(call: Call, limit: int, until: Instant | None = None, **filters: Any) -> list[Schedule]:
    """Return the schedules that fire next, for pages and screens, in the order of the instants that people see: jitter
    may delay a start beyond a later one. `filters` are an owner, a kind, and a `text`, which is a part of the name."""
    query = ScheduleQuery(**filters, firing=True, due_to=until, limit=limit, count_to=0, most_bytes=8 * PAGE_BYTES)
    schedules = call.scheduler.search(call.caller, query).items
    return sorted(schedules, key=lambda each: (each.progress.next or 0, each.definition.id))


def count_coming(call: Call, text: str | None = None) -> Count:
    """Return how many schedules will fire; with a `text`, those that have it in their name."""
    page = call.scheduler.search(call.caller, ScheduleQuery(text=text, firing=True, limit=1))
    return Count(page.total, page.total_exact)


def _row(call: Call, at: Instant, schedule: Schedule) -> View:
    definition, progress = schedule
    row = coming_shape(at, schedule, call.zone)
    row |= {"topic": call.services.topic_of(definition), "owner": definition.owner}
    until = definition.resume_at
    return {**row, "paused": True} if progress.state == ScheduleState.PAUSED and not (until and at >= until) else row


# -- reading the schedules --------------------------------------------------------------------------------------------


def _read(call: Call, window: _Window) -> tuple[list[Schedule], bool]:
    """Return the schedules that may fire in the window, and whether these are all of them."""
    query = _query(call, window.request)
    firing, whole = _matching(call, window, replace(query, firing=True, due_to=window.until))
    paused, all_of_them = _matching(call, window, replace(query, status="paused"))
    return firing + paused, whole and all_of_them


def _query(call: Call, request: ListUpcoming) -> ScheduleQuery:
    size, kinds = max(_PAGE, request.count), () if request.kind or call.kinds is None else tuple(call.kinds)
    return ScheduleQuery(
        request.owner, request.kind, kinds, tagged=request.tagged, limit=size, count_to=0, most_bytes=8 * PAGE_BYTES
    )


def _kept_outside(call: Call, window: _Window) -> tuple[list[Schedule], list[str]]:
    """Return the schedules that are kept outside of this store, and why some are missing. Other services list the
    schedules of one owner, so they are queried only for the caller's own."""
    schedules, warnings, request = list[Schedule](), list[str](), window.request
    is_own = request.owner in (None, call.caller.owner) and request.tagged is None
    for kind, outside in call.services.outside(kinds=call.kinds).items() if is_own else ():
        try:
            remote = outside.schedules(call.caller, request.topic)
        except DuetimeError as error:
            missing = f"{call.services.specs[kind].plural.capitalize()} are missing here, for they cannot be listed"
            warnings.append(f"{missing}: {error.message.rstrip('.')}.")
        else:
            schedules += [each for each in remote if _is_selected(call, each, request)]
    return schedules, warnings


def _matching(call: Call, window: _Window, query: ScheduleQuery) -> tuple[list[Schedule], bool]:
    schedules, read, request = list[Schedule](), 0, window.request
    for page in pages_of(call.scheduler.search, call.caller, query):
        read += len(page.items)
        schedules += [each for each in page.items if _is_selected(call, each, request)]
        # In the order of their starts, each of them fires in a window without a start, so these are enough.
        if page.cursor is None or (query.firing and window.start is None and len(schedules) > request.count):
            break
        if read >= MOST_READ:
            return schedules, False
    return schedules, True


def _is_selected(call: Call, schedule: Schedule, request: ListUpcoming) -> bool:
    """Return whether a schedule has the requested topic, and is not paused indefinitely."""
    definition, progress = schedule
    if progress.state == ScheduleState.PAUSED and definition.resume_at is None and not request.include_paused:
        return False
    return request.topic is None or request.topic in (call.services.topic_of(definition), definition.subject)


# -- merging their occurrences ----------------------------------------------------------------------------------------


def _first(schedules: Sequence[Schedule], window: _Window) -> tuple[list[Occurrence], bool]:
    """Return the first occurrences, one more than requested, and whether every rule could be evaluated. Only what is
    returned is evaluated."""
    expensive: list[Schedule] = []

    def occurrences_of(schedule: Schedule) -> Iterator[Occurrence]:
        try:
            yield from ((instant, schedule) for instant in _instants_of(schedule, window))
        except DuetimeError:
            expensive.append(schedule)

    merged = heapq.merge(*map(occurrences_of, schedules), key=itemgetter(0))
    return list(islice(merged, window.request.count + 1)), not expensive


def _instants_of(schedule: Schedule, window: _Window) -> Iterator[Instant]:
    definition, progress = schedule
    if progress.next is None:
        return
    resumed = definition.resume_at if progress.state == ScheduleState.PAUSED else None
    if resumed is not None and progress.next < resumed and is_held(schedule, resumed):
        if (window.start is None or resumed >= window.start) and (window.until is None or resumed <= window.until):
            yield resumed
        return
    following: Instant | None = progress.next
    if progress.state == ScheduleState.PAUSED:
        passed = window.now  # what a pause skips does not run, and does not count towards max_runs
        if resumed is not None and not window.request.include_paused:
            passed = max(passed, Instant(resumed - 1))
            window = window._replace(start=max(window.start or window.now, resumed))
        if progress.next <= passed:
            following = trigger_from_json(definition.trigger).next_after(passed)
    if following is None:
        return
    limit = policy_from_json(definition.policy).max_runs
    yield from instants(definition.trigger, following, window, None if limit is None else limit - progress.run_count)


def instants(stored: str, first: Instant, window: _Window, left: int | None = None) -> Iterator[Instant]:
    """Yield the occurrences of a stored trigger in a window. The first is given, because an edit may have moved it off
    the rule, or it is overdue. `left` is the maximum number, counted from the first one."""
    following: Instant | None = first
    trigger: Trigger | None = None
    if window.start is not None and first < window.start:
        trigger, before = trigger_from_json(stored), Instant(window.start - 1)
        left = None if left is None else left - 1 - trigger.count(first, before, left)
        following = trigger.next_after(before)
    while following is not None and (window.until is None or following <= window.until):
        if left is not None and left <= 0:
            return
        yield following
        left = None if left is None else left - 1
        trigger = trigger or trigger_from_json(stored)
        following = trigger.next_after(max(following, window.now))
