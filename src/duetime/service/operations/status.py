"""The status of an installation for one caller: what is set up, what is running, usage and failures; and figures of the
last day."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from duetime.engine.clock import DAY, HOUR, SECOND, Instant
from duetime.engine.errors import DuetimeError
from duetime.engine.kind import LOCAL
from duetime.engine.model import RunStatus, Schedule, ScheduleState, WorkerRow
from duetime.engine.redaction import without_password
from duetime.engine.store import Health, ScheduleQuery
from duetime.engine.store_interfaces import Timing
from duetime.service.distribution import version
from duetime.service.masking import masked
from duetime.service.operations.attention import ListAttention, attention, problem_view
from duetime.service.operations.declaration import Answer
from duetime.service.operations.history import MAX_LISTED_TEXT, History, history, outcomes
from duetime.service.operations.overview import untaken_runs
from duetime.service.operations.schedules import ListSchedules, list_schedules
from duetime.service.presenters import View, instant_view, moment_view, worker_shape
from duetime.service.services import Call
from duetime.service.warnings import EXPLANATIONS
from duetime.service.workers import kinds_taken, living

WHEN_OFF: Final = (
    "Nothing fires while no worker runs, and nothing is lost: once one runs again, a schedule whose time has passed "
    "runs once (catch_up once, the default), once for each missed time (all), or not at all (skip). History shows "
    "what was missed."
)
_MOST_FAILURES: Final = 5
_MOST_SHOWN: Final = 20
"""Maximum number of incidents, waiting runs, long runs and paused schedules that are listed."""
_MOST_NAMES: Final = 50
"""Maximum number of names of events that are listed."""
_LOOKED_AT: Final = 1000
"""Maximum number of schedules whose topics are listed."""
_LIVING: Final = (ScheduleState.ACTIVE, ScheduleState.PAUSED, ScheduleState.BROKEN)
_ALWAYS = "A worker runs without an agent client, so that work is carried out whether or not a client is open."


def status(call: Call) -> Answer[View]:
    """Return the status. Information for the operator, such as names of machines, is shown only to the operator and to
    the local owner."""
    services, caller = call.services, call.caller
    now = services.scheduler.clock.now()
    kinds: dict[str, Any] = {}
    labels = services.label_warnings() if caller.operator or caller.owner == LOCAL else []
    warnings = [*services.worker_warnings(), *labels, *services.process_warnings()]
    for kind in services.kinds:
        status = services.hooks(kind).status(caller.owner)
        warnings += status.warnings
        kinds |= status.facts
    codes = {each.code for each in warnings}
    view = {
        "now": instant_view(now, call.zone),
        "timezone": call.zone,
        **_attention(call, now, bool(warnings)),
        "server": _server(call, now),
        "topics": _topics(call),
        "hooks": _hooks(call),
        "events": _events(call),
        **kinds,
        "limits": {**_limits(call), **kinds.get("limits", {})},
        "failures_of_the_last_day": _failures(call, now),
        "when_off": WHEN_OFF,
        "warnings": [each._asdict() for each in warnings],
        "warning_codes": {code: text for code, text in EXPLANATIONS.items() if code in codes},
    }
    return Answer(view, warnings)


def _attention(call: Call, now: Instant, is_warned: bool) -> View:
    """Return what is wrong, what waits and since when, what runs for long, and what is paused."""
    problems, waiting = _problems(call), untaken_runs(call).value.items[:_MOST_SHOWN]
    running = history(call, History(status=RunStatus.RUNNING, limit=_LOOKED_AT, count_to=0)).value.items
    long_runs = [run for run in running if run.started is not None and run.started < now - HOUR]
    paused = list_schedules(call, ListSchedules(status="paused", limit=_MOST_SHOWN, count_to=0)).value.items
    further = {
        "waiting": [{"name": masked(each.name), "run_id": each.id, "since": instant_view(each.due, call.zone)}
                    for each in waiting],
        "long_runs": [{"name": masked(each.name), "run_id": each.id, "since": moment_view(each.started, call.zone)}
                      for each in long_runs[:_MOST_SHOWN]],
        "paused": [_paused(each, call.zone) for each in paused],
    }  # fmt: skip
    is_open = any(each["status"] == "open" for each in problems)
    view = {"all_right": not (is_open or waiting or is_warned), "problems": problems}
    return view | further


def _problems(call: Call) -> list[View]:
    """Return what is wrong, the latest first, and then what was resolved and is not over; what waits is apart."""
    rows = attention(call, ListAttention(limit=_MOST_SHOWN)).value.items
    resolved = call.scheduler.incidents(call.caller, _MOST_SHOWN, resolved=True)
    problems = [row for row in rows if row["run_status"] != RunStatus.WAITING]
    return problems + [problem_view(call, each) for each in resolved]


def _hooks(call: Call) -> list[View]:
    rows = call.scheduler.store.hooks(call.caller.owner, _MOST_SHOWN)
    return [{"id": each.id, "name": each.name, "last_used": instant_view(each.used, call.zone)} for each in rows]


def _paused(schedule: Schedule, zone: str) -> View:
    definition, progress = schedule
    view = {
        "id": definition.public_id,
        "name": masked(definition.name),
        "until": moment_view(definition.resume_at, zone),
    }
    return view if progress.note is None else {**view, "note": masked(progress.note)}


def workers(call: Call, most: int | None = None) -> Answer[list[View]]:
    """Return the workers of this store, or the first of them, for programs, and whether each is alive."""
    now = call.now
    return Answer([worker_shape(each, now, call.zone) for each in worker_rows(call)[:most]])


def worker_rows(call: Call) -> list[WorkerRow]:
    """Return the workers of this store as it has them."""
    return call.scheduler.store.workers()


def executors(call: Call) -> list[View]:
    """Return the executors on which kinds run work for the operator, such as clusters."""
    return [view for kind in call.services.kinds for view in call.services.hooks(kind).executor_views()]


def health(call: Call) -> Health:
    """Return the state of the store, as only an operator may see it."""
    return call.scheduler.store.health(call.now)


def _server(call: Call, now: Instant) -> View:
    workers = living(worker_rows(call), now)
    lasting = [each for each in workers if not each.session]
    store = call.scheduler.store.url
    view: dict[str, Any] = {
        "version": version(),
        "timezone": call.scheduler.zone,
        "store": "postgresql" if store.startswith("postgres") else "sqlite",
        "stays_up": bool(lasting),
        "workers": len(workers),
    }
    if lasting:
        view["explanation"] = _ALWAYS
    if not (call.caller.operator or call.caller.owner == LOCAL):
        return view
    rows = [{"name": each.name, "session": bool(each.session), "takes": kinds_taken(each)} for each in workers]
    return {**view, "machine": platform.node(), "address": without_password(store), "workers": rows}


def _topics(call: Call) -> list[str]:
    """Return the topics to which the caller's schedules that may still fire send or report."""
    # Not by status, which would read and sort all of the owner's schedules.
    query = ScheduleQuery(owner=call.caller.owner, limit=_LOOKED_AT, newest_first=True, count_to=0)
    topics = set[str | None]()
    with suppress(DuetimeError):
        items = call.scheduler.search(call.caller, query).items
        topics |= {call.services.topic_of(each.definition) for each in items if each.progress.state in _LIVING}
    for outside in call.services.outside().values():
        with suppress(DuetimeError):
            topics |= {call.services.topic_of(each.definition) for each in outside.schedules(call.caller)}
    return sorted(topic for topic in topics if topic)


def _events(call: Call) -> list[View]:
    """Return the names of the events that arrived, the latest first."""
    names = call.scheduler.store.event_names(call.caller.owner, _LOOKED_AT)
    latest = sorted(names, key=names.__getitem__, reverse=True)[:_MOST_NAMES]
    return [{"name": name, "last": instant_view(names[name], call.zone)} for name in latest]


def _limits(call: Call) -> Mapping[str, Any]:
    limits = call.scheduler.limits
    known = {
        "schedules": limits.schedules,
        "smallest_interval_seconds": limits.smallest_interval / SECOND,
        "runs_per_hour": limits.runs_per_hour,
        "payload_bytes": limits.payload_bytes,
        "stored_bytes": None if call.caller.owner == LOCAL else limits.stored_bytes,
        "agent_depth": limits.depth,
        "failures_in_a_row_before_a_pause": limits.pause_after,
    }
    return {name: value for name, value in known.items() if value}


_LIMITS = {
    "schedules": "at most {:,} schedules",
    "smallest_interval_seconds": "at least {:g} s between runs",
    "runs_per_hour": "at most {:,} runs per hour",
    "payload_bytes": "at most {:,} bytes for a payload",
    "stored_bytes": "at most {:,} bytes stored",
    "agent_depth": "agents schedule for agents at most {} deep",
    "failures_in_a_row_before_a_pause": "paused after {} failures in a row",
}


def limit_text(name: str, value: float) -> str:
    """Return a limit in words."""
    return _LIMITS[name].format(value) if name in _LIMITS else f"{name.replace('_', ' ')} {value:,}"


def _failures(call: Call, now: Instant) -> View:
    request = History(status="failed", since=Instant(now - DAY), owner=call.caller.owner, limit=_MOST_FAILURES)
    page = history(call, request).value
    names = ("id", "kind", "name", "run_id", "due", "error")
    latest = [{name: row[name] for name in names} for row in outcomes(call, page.items, MAX_LISTED_TEXT)]
    view = {"count": page.total, "latest": latest}
    return view if page.total_exact else {**view, "at_least": True}


# Figures of the last day.

MOST: Final = 1_000
"""Number of latest runs that are examined. If more ran in a day, the figures cover a shorter time, which they name."""
SLICES: Final = 24
"""Number of parts of that time, for a line that shows how a figure changed."""
_ENDED: Final = (RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.LOST)


class Figure(NamedTuple):
    """A figure for the whole time and for each of its parts; None where nothing ran."""

    value: float | None
    parts: Sequence[float | None]


class DayFigures(NamedTuple):
    runs: int
    since: Instant
    """The beginning of the time that the figures cover: a day ago, or later if too much ran since."""
    success: Figure
    """Percentage of ended runs that completed."""
    lateness: Figure
    """95th percentile of how late runs started, in microseconds; only for runs that a trigger caused."""


def day_figures(call: Call) -> DayFigures:
    """Return the figures of the caller's runs or, for an operator, of all runs."""
    now = call.scheduler.clock.now()
    owner = None if call.caller.operator else call.caller.owner
    endings = call.scheduler.store.endings(owner, MOST)
    since = Instant(now - DAY)
    if len(endings) == MOST:
        since = max(since, min(_instant(each) for each in endings))
    recent = [each for each in endings if _instant(each) >= since]
    parts: list[list[Timing]] = [[] for _ in range(SLICES)]
    width = max(1, (now - since) // SLICES + 1)
    for each in recent:
        parts[min(SLICES - 1, max(0, (_instant(each) - since) // width))].append(each)
    return DayFigures(
        len(recent),
        since,
        Figure(_success(recent), [_success(part) for part in parts]),
        Figure(_lateness(recent), [_lateness(part) for part in parts]),
    )


def _instant(run: Timing) -> Instant:
    return run.finished or run.started or run.due


def _success(runs: Sequence[Timing]) -> float | None:
    ended = [each.status for each in runs if each.status in _ENDED]
    return 100 * ended.count(RunStatus.COMPLETED) / len(ended) if ended else None


def _lateness(runs: Sequence[Timing]) -> float | None:
    late = sorted(each.late for each in runs if each.late is not None)
    return float(late[min(len(late) - 1, len(late) * 95 // 100)]) if late else None
