"""The history of runs, of one schedule or of all kinds, including deleted schedules; and the details of one run."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final

from duetime.engine.clock import NEVER, SECOND, Instant
from duetime.engine.kind import Caller
from duetime.engine.model import (
    LIVE,
    LOCAL,
    UNWELL,
    Attempt,
    Cause,
    Definition,
    Run,
    RunId,
    RunStatus,
    Schedule,
    ScheduleId,
    first_start,
    status_of,
)
from duetime.engine.policy.follow_ups import message_key
from duetime.engine.queries import no_run
from duetime.engine.store import Page, RunQuery, Store
from duetime.engine.times import clock_local
from duetime.engine.value_class import dataclass
from duetime.service.lookup import find
from duetime.service.masking import LONGEST, masked, masked_payload, shortened
from duetime.service.operations.compare_runs import usual_seconds
from duetime.service.operations.declaration import (
    Answer,
    Field,
    Limit,
    OperationRequest,
    PagedRequest,
    ScheduleReference,
    Tagged,
    Time,
    check_choice,
    read_range,
)
from duetime.service.presenters import (
    View,
    actor_view,
    attempt_view,
    instant_view,
    message_shape,
    moment_view,
    run_shape,
)
from duetime.service.services import Call
from duetime.service.text import COUNTED, Count, clean_text
from duetime.settings.sections import INBOX

STATUSES: Final = (*(status.value for status in RunStatus), "live")
"""Statuses by which runs can be selected. `live`: all that may still change."""
SEARCHED: Final = 100_000
"""Number of newest runs among which tasks, tags, errors and durations are looked for, because no index has them."""
COUNTED_TO: Final = 10_000
"""Number up to which the runs of each status are counted."""
MAX_LISTED_TEXT: Final = 1000
"""Maximum length of a text within a result in a list of runs, in characters."""
_MAX_SCHEDULE_RESULT: Final = 200
"""Maximum length of a result in a list of schedules, in characters."""
_DELIVERED = frozenset({RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.LOST})
"""Statuses about which a message may have been sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History(PagedRequest):
    """The runs of a schedule, which may be deleted, or of all schedules; latest first."""

    schedule: Annotated[ScheduleReference | None, Field("The id or name of a schedule, which may be deleted.")] = None
    status: Annotated[
        str | None,
        Field(
            "One or more statuses with commas, such as failed,missed. `failed` includes lost runs, `live` is every run "
            "that has not ended. `missed` and `skipped` runs were due but did not run, and say why.",
            brief="Such as failed,missed; live: not over.",
            max_length=200,
        ),
    ] = None
    since: Annotated[
        Time | None, Field("Due at or after this time, such as yesterday.", brief="Due from: yesterday.", name="from")
    ] = None
    until: Annotated[
        Time | None,
        Field("Due until this time; a date includes the whole day.", brief="Due until; a day counts.", name="to"),
    ] = None
    tagged: Tagged = None
    task: Annotated[
        str | None,
        Field(
            "What runs: the task of a job, the agent of a prompt, the topic of a notification.",
            brief="Or agent, topic.",
            max_length=200,
        ),
    ] = None
    error: Annotated[
        str | None,
        Field("Part of the error, whatever the case of its ASCII letters.", brief="Part of it.", max_length=200),
    ] = None
    longer_than: Annotated[
        str | None,
        Field(
            "The last attempt took at least this long, such as 10m; one that is running counts until now.",
            brief="At least 10m.",
            max_length=200,
        ),
    ] = None
    shorter_than: Annotated[
        str | None,
        Field("The last attempt took at most this long, such as 2s.", brief="At most 2s.", max_length=200),
    ] = None
    limit: Limit = 20
    max_bytes: int | None = None
    """Maximum size of the results of one page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowRun(OperationRequest):
    """One run of any kind."""

    run: Annotated[int, Field("The number of a run.", brief="One run, in full.", name="run_id")]


def history(call: Call, request: History) -> Answer[Page[Run]]:
    """Return runs with their outcomes. Notes say which failures are not recorded in this store, and what a history
    without a match has instead."""
    return _read(call, request, query_of(call, request))


def history_with_facts(call: Call, request: History) -> tuple[Answer[Page[Run]], View]:
    """Do the same; with the first page, return the window as it was understood, and the number of its runs by status,
    whatever statuses were chosen. Of very many, `COUNTED` are counted, and many more that went wrong or are live;
    `counts_at_least` names the statuses of which there may be more."""
    query = query_of(call, request)
    if request.cursor is not None:
        return _read(call, request, query), {}
    counts = _count_by_status(call, query)
    is_whole, here = all(count.exact for count in counts.values()), chosen_statuses(request) or counts
    if is_whole and counts.keys().isdisjoint(here):  # a search need not look once more
        query = replace(query, ids=())
    if not is_whole:  # the first of very many may all have completed
        every = replace(query, status=None, statuses=(), cursor=None, count_to=COUNTED_TO)
        for part in (replace(every, statuses=tuple(UNWELL)), replace(every, status="live")):
            numbers = call.scheduler.run_counts(call.caller, part)
            is_exact = sum(numbers.values()) < COUNTED_TO
            for status, number in numbers.items():
                counts[status] = Count(max(number, counts.get(status, Count(0)).number), is_exact)
        counts.setdefault(RunStatus.COMPLETED, Count(0, exact=False))  # the first may all have failed
    answer = _read(call, request, query, counts)
    window = {"from": moment_view(query.due_from, call.zone), "to": moment_view(query.due_to, call.zone)}
    window = {name: value for name, value in window.items() if value is not None}
    facts: View = {**({"window": window} if window else {}), "counts": {name: counts[name].number for name in counts}}
    bounds = [status for status, count in counts.items() if not count.exact]
    return answer, {**facts, **({"counts_at_least": bounds} if bounds else {})}


def _read(
    call: Call, request: History, query: RunQuery, counts: Mapping[str, Count] | None = None
) -> Answer[Page[Run]]:
    page = call.scheduler.runs(call.caller, query)
    notes = [*(call.services.failure_notes(request.kind) if request.schedule is None else ())]
    notes += search_notes(query)
    if not page.items and request.cursor is None and (counts is not None or request.count_to != 0):
        others = _count_by_status(call, query) if counts is None else counts
        notes.append(_nothing_found(others, query, call.zone))
    return Answer(page, (), notes)


def search_notes(query: RunQuery) -> list[str]:
    """Return what a search leaves out."""
    return [_PARTLY_SEARCHED] if _is_partial(query) else []


def _is_partial(query: RunQuery) -> bool:
    return query.above is not None or query.below is not None


_PARTLY_SEARCHED: Final = (
    f"Only the newest {SEARCHED:,} runs, up to the end of the chosen time, were searched for this task, tag, error or"
    " duration; give a schedule, or the time from which to search."
)


def query_of(call: Call, request: History) -> RunQuery:
    """Return the query for the runs that match. What no index has is looked for among the newest runs, in the runs of
    one schedule, or in all of the time that was chosen."""
    reference = request.schedule
    since, until = read_range(call, request.since, request.until, ("from", "to"), past=True)
    least, most = _length(request.longer_than, "longer_than"), _length(request.shorter_than, "shorter_than")
    statuses = chosen_statuses(request)
    tag = None if statuses and {*statuses} <= UNWELL | LIVE else request.tagged  # these have an index
    is_scan = any(each is not None for each in (request.task, tag, request.error, least, most))
    is_limited = is_scan and reference is None and since is None
    above, below = _searched(call, request, until) if is_limited else (None, None)
    return RunQuery(
        **request.query(call),
        subject=None if request.task is None else clean_text(request.task),
        error=request.error or "",
        longer_than=None if least is None else (least, Instant(call.now - least)),
        shorter_than=most,
        above=above,
        below=below,
        schedule=None if reference is None else find(call, reference, deleted=True).definition.id,
        statuses=statuses,
        due_from=since,
        due_to=until,
        tagged=request.tagged,
        has_most_runs=until is not None and reference is None and _has_most_runs(call, request),
        most_bytes=request.max_bytes,
    )


def _length(text: str | None, name: str) -> int | None:
    if text is None:
        return None
    from duetime.service.when import duration  # other lists start without it

    return duration(text, name, zero=True)


def _newest(call: Call, request: History, below: RunId | None = None) -> RunId | None:
    """Return the last run that is too old to be searched; None if there is none."""
    owner = request.owner if call.caller.operator else call.caller.owner
    return call.scheduler.store.newest_but(owner, SEARCHED, below) or None


def _searched(call: Call, request: History, until: Instant | None) -> tuple[RunId | None, RunId | None]:
    """Return the runs between which runs are searched. Ids are nearly in the order of the times, so that of those with
    a later id than the first after `until`, a few are searched."""
    recent = _newest(call, request)
    if recent is None or until is None:
        return recent, None
    end = RunId(call.scheduler.store.first_run_due(until) + COUNTED_TO)
    return _newest(call, request, end), end


def _has_most_runs(call: Call, request: History) -> bool:
    """Return whether a scan of the owner's runs, which passes those after a window, reads mostly runs of the owner."""
    recent = _newest(call, request)
    return recent is not None and call.scheduler.store.newest_run() - recent < 3 * SEARCHED


def history_with_counts(call: Call, request: History) -> tuple[Answer[Page[Run]], dict[str, Count]]:
    """Return runs, and the number of those of every status that match, whatever status was chosen. Each is counted up
    to `COUNTED_TO`, and completed runs are counted among the newest, because no index has them."""
    query = query_of(call, request)
    counts = _count_every_status(call, request, replace(query, status=None, statuses=(), cursor=None))
    here = [counts[status] for status in chosen_statuses(request) or counts]
    if request.count_to == 0 and all(count == Count(0) for count in here):  # a search need not look once more
        query = replace(query, ids=())
    return _read(call, request, query), counts


def _count_every_status(call: Call, request: History, query: RunQuery) -> dict[str, Count]:
    parts: list[tuple[RunQuery, Collection[RunStatus]]] = [(replace(query, count_to=SEARCHED + 1), [*RunStatus])]
    if not _is_partial(query):  # each by its index
        recent, end = _searched(call, request, query.due_to) if query.schedule is None else (None, None)
        if recent is not None and query.due_from is not None:
            recent = max(recent, RunId(call.scheduler.store.first_run_due(query.due_from) - COUNTED_TO))
        completed = replace(query, status=RunStatus.COMPLETED, above=recent, below=end, count_to=COUNTED_TO + 1)
        parts = [
            (replace(query, status="live", count_to=2 * COUNTED_TO + 1), LIVE),
            (replace(query, statuses=tuple(UNWELL), count_to=2 * COUNTED_TO + 1), UNWELL),
            (completed, (RunStatus.COMPLETED,)),
        ]
    counts = dict.fromkeys((status.value for status in RunStatus), Count(0))
    for part, statuses in parts:
        numbers = call.scheduler.run_counts(call.caller, part)
        is_whole = sum(numbers.values()) < part.count_to and (_is_partial(query) or not _is_partial(part))
        for status in statuses:
            number = numbers.get(status, 0)
            counts[status.value] = Count(min(number, COUNTED_TO), is_whole and number <= COUNTED_TO)
    return counts


def sum_counts(counts: Iterable[Count]) -> Count:
    """Return the number of all of them, up to `COUNTED_TO`."""
    rows = list(counts)
    number = sum(each.number for each in rows)
    return Count(min(number, COUNTED_TO), number <= COUNTED_TO and all(each.exact for each in rows))


def _count_by_status(call: Call, query: RunQuery) -> dict[str, Count]:
    every_status = replace(query, status=None, statuses=(), cursor=None, count_to=COUNTED)
    numbers = call.scheduler.run_counts(call.caller, every_status)
    is_whole = sum(numbers.values()) < COUNTED
    return {status: Count(number, is_whole) for status, number in numbers.items()}


_WIDE: Final[dict[str, tuple[str, ...]]] = {
    RunStatus.FAILED.value: (RunStatus.FAILED, RunStatus.LOST), "live": tuple(LIVE),
}  # fmt: skip
"""Statuses that select several stored ones."""


def chosen_statuses(request: History) -> tuple[str, ...]:
    """Return every stored status that a request selects by a list with commas; none if it selects all."""
    statuses = [] if request.status is None else [part.strip() for part in request.status.split(",")]
    for each in statuses:
        check_choice("status", each, STATUSES)
    return tuple(dict.fromkeys(each for status in statuses for each in _WIDE.get(status, (status,))))


def _nothing_found(counts: Mapping[str, Count], query: RunQuery, zone: str) -> str:
    """Return what an empty history has instead, so that nobody takes a wrong filter for good news."""
    bounds = [("from", query.due_from), ("until", query.due_to)]
    window = "".join(f" {word} {clock_local(each, zone)}" for word, each in bounds if each is not None)
    others = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()) if status not in query.statuses)
    return f"No run matches{window}. " + (
        f"Those with other statuses: {others}." if others else "" if _is_partial(query) else "Nothing ran."
    )


def show_run(call: Call, request: ShowRun) -> Answer[Run]:
    """Return one run of a kind that the caller may see here."""
    run = call.scheduler.run(call.caller, request.run)
    if run is None or not call.serves(run.kind):
        raise no_run(run_id=request.run)
    return Answer(run)


# Runs as interfaces show them.


def run_views(call: Call, runs: Sequence[Run], *, brief: bool = False) -> list[View]:
    """Return runs for programs. One query maps the schedules' internal numbers to the public ids that users know, and
    another one finds which of them were deleted."""
    store, schedules = call.scheduler.store, [run.schedule for run in runs]
    ids, present = store.public_ids(schedules), store.public_ids(schedules, deleted=False)
    return [
        run_shape(run, ids, call.zone, brief=brief) | {"schedule_deleted": run.schedule not in present} for run in runs
    ]


def outcomes(call: Call, runs: Sequence[Run], longest: int = LONGEST) -> list[View]:
    """Return runs with their results, errors, durations, attempts, costs and deliveries, for people and agents."""
    ids = call.scheduler.store.public_ids([run.schedule for run in runs])
    rows = {run.id: _outcome(call, run, ids, longest) for run in runs}
    for id, request in stop_requests_of(call, runs).items():
        rows[id]["stop_requested"] = request
    for id, gate in gate_views(call, runs).items():
        rows[id] |= {"gate_failure": gate["failure"]} if gate["failure"] else {}
    return list(rows.values())


def _outcome(call: Call, run: Run, ids: Mapping[ScheduleId, str], longest: int) -> View:
    view = run_shape(run, ids, call.zone, brief=True)
    names = ("run_id", "kind", "owner", "name", "cause", "status", "state_detail", "due", "started", "finished")
    row: View = {
        "id": view["schedule"],
        **{name: view[name] for name in names},
        "due": instant_view(run.due, call.zone),
        "duration_seconds": view["duration_seconds"],
        "attempts": run.attempt,
        "earlier_attempts": [attempt_view(each, call.zone) for each in earlier_attempts(call, run)],
        "result": shortened(_text_of(view["result"]), longest),
        "error": shortened(view["error"], longest),
        "report": view["report"] if run.status in LIVE else None,
        "cost": view["cost"],
        "deliveries": deliveries_of(call, run),
    }
    if run.last is not None:
        last = instant_view(run.last, call.zone)
        row |= {"last": last, **{name: view[name] for name in ("occurrences", "at_least")}}
    return row


def latest_results(call: Call, schedules: Sequence[Schedule]) -> dict[ScheduleId, Any]:
    """Return the results of the latest completed runs of these schedules."""
    done = [each for each in schedules if each.progress.last_status == RunStatus.COMPLETED]
    results: dict[ScheduleId, Any] = {}
    for definition, _ in done:
        query = RunQuery(schedule=definition.id, status=RunStatus.COMPLETED, limit=1, count_to=0)
        for run in call.scheduler.runs(call.caller, query).items:
            hidden = masked(None if run.result is None else json.loads(run.result))
            results[definition.id] = shortened(_text_of(hidden), _MAX_SCHEDULE_RESULT)
    return results


def _text_of(result: Any) -> Any:
    """Return the text within a result, without anything else that was recorded with it, or the result itself."""
    text = result.get("text") if isinstance(result, dict) else None
    return text if isinstance(text, str) else result


def deliveries_of(call: Call, run: Run) -> list[View]:
    """Return the message about the end of a run, if one was created and is still stored."""
    store = call.scheduler.store
    messenger = store.messenger
    if messenger is None or run.kind == messenger.kind or run.status not in _DELIVERED:
        return []
    message = store.by_key(run.owner, message_key(run))
    if message is None:
        return []
    definition, progress = message
    view = {"topic": definition.subject, "message_id": definition.public_id, "status": status_of(progress)}
    if view["status"] == RunStatus.COMPLETED:
        view["reached"] = _reach_of(store, definition.id)
    return [view if progress.last_error is None else {**view, "error": masked(progress.last_error)}]


def _reach_of(store: Store, message: ScheduleId) -> str:
    """Return `phone` if a message was sent through a channel, and `inbox` if it is only stored here."""
    sent = store.runs(RunQuery(schedule=message, limit=1, count_to=0)).items
    channel = message_shape(sent[0], "UTC")["channel"] if sent else INBOX
    return INBOX if channel == INBOX else "phone"


def may_see_code(caller: Caller) -> bool:
    """Return whether a caller sees tracebacks, which show source code and paths: operators and `local` itself do, its
    agents' runs do not."""
    return caller.operator or (caller.owner == LOCAL and caller.depth == 0)


def run_details(call: Call, run: Run) -> View:
    """Return a run with all details, for programs and pages. The caller must be allowed to see the run. Only an
    operator sees its worker."""
    scheduler, caller, zone = call.scheduler, call.caller, call.zone
    sees_code = may_see_code(caller)
    has_traceback = sees_code and run.status in (RunStatus.FAILED, RunStatus.CANCELLED)  # each attempt has its own
    [shape] = run_views(call, [run])
    attempts, own = scheduler.store.attempts(run.id), scheduler.own_input(run)
    late = lateness(run, attempts)
    schedule = scheduler.schedule_of(caller, run)
    previous, following = scheduler.store.neighbours(run)
    workers = scheduler.store.workers() if caller.operator else ()
    return shape | {
        "traceback": masked(scheduler.store.traceback(run.id)) if has_traceback else None,
        "attempts": [
            attempt_view(each, zone) | {"traceback": masked(each.traceback) if sees_code else None} for each in attempts
        ],
        "payload": None if schedule is None else payload_shown(schedule.definition),
        "own_payload": own.payload is not None,
        "started_by": actor_view(own.actor),
        "gate": gate_views(call, [run]).get(run.id),
        "stop_request": stop_requests_of(call, [run]).get(run.id),
        "payload_changed": schedule is not None and schedule.definition.written > (run.started or NEVER),
        "late_seconds": None if late is None else round(late / SECOND, 3),
        "next_attempt": moment_view(next_attempt(call, run), zone),
        "usual_seconds": usual_seconds(call, run),
        "worker": next((each.name for each in workers if each.id == run.worker), None),
        "previous_run": previous,
        "following_run": following,
    }


def gate_views(call: Call, runs: Sequence[Run]) -> dict[RunId, View]:
    """Return what their gates gave to runs, or why they were not checked, of those that a gate let pass."""
    gifts = call.scheduler.store.gifts_of_runs([run.id for run in runs])
    return {
        id: {
            "result": None if gift.result is None else masked(json.loads(gift.result)),
            "failure": masked(gift.failure),
            "forced": gift.is_forced,
        }
        for id, gift in gifts.items()
    }


def stop_requests_of(call: Call, runs: Sequence[Run]) -> dict[RunId, View]:
    """Return who asked runs to stop and when, also if they went on to their end."""
    requests = call.scheduler.store.stop_requests([run.id for run in runs if run.started is not None])
    views: dict[RunId, View] = {}
    for run, request in requests.items():
        views[run] = {"at": instant_view(request.at, call.zone), "by": actor_view(request.actor)}
        if request.deadline is not None:
            views[run]["deadline"] = instant_view(request.deadline, call.zone)
    return views


def payload_shown(definition: Definition) -> Any:
    """Return the input of a schedule or of its run, with credentials masked."""
    return masked_payload(definition.kind, json.loads(definition.payload))


def lateness(run: Run, attempts: list[Attempt]) -> int | None:
    """Return how many microseconds after its due time the first attempt began; None for a run that was started
    manually."""
    started = first_start(run, attempts)
    return None if started is None or run.cause != Cause.TRIGGER else max(0, started - run.due)


def earlier_attempts(call: Call, run: Run) -> list[Attempt]:
    """Return the attempts besides the latest one, which a run's own row describes once it has started."""
    waits = run.attempt > 0 and run.status in (RunStatus.PENDING, RunStatus.QUEUED)
    return call.scheduler.store.attempts(run.id) if waits or run.attempt > 1 or run.deaths else []


def schedule_of(call: Call, run: Run) -> Schedule | None:
    """Return the schedule of a run with the input of the run, unless the schedule was deleted."""
    return call.scheduler.schedule_of(call.caller, run)


def with_schedules(call: Call, runs: Sequence[Run]) -> list[tuple[Run, Schedule | None]]:
    """Return each run with its schedule, as `schedule_of` does, with one query for all."""
    return call.scheduler.with_schedules(call.caller, runs)


def next_attempt(call: Call, run: Run) -> Instant | None:
    """Return the earliest time at which a waiting run, including one that failed before, starts."""
    return call.scheduler.store.starts_at(run) if run.status == RunStatus.PENDING else None
