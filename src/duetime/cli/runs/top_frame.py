"""Frames of `duetime top`: one reading of the store, as a document for programs and as rows for a screen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from duetime.engine.clock import Instant
from duetime.engine.errors import NotFound
from duetime.engine.model import ScheduleId, WorkerId
from duetime.service.lookup import find
from duetime.service.operations.dead_letters import ListDeadLetters, dead_letters
from duetime.service.operations.history import History, history, next_attempt
from duetime.service.operations.status import health, worker_rows
from duetime.service.operations.upcoming import coming, count_coming
from duetime.service.presenters import coming_shape, instant_view, reads_as, worker_shape
from duetime.service.text import Count
from duetime.service.vocabulary import Health, Run, Schedule, ScheduleState, WorkerRow, was_given_back
from duetime.service.workers import is_alive, kinds_taken
from duetime.terminal import output
from duetime.terminal.context import Application
from duetime.terminal.output import ahead, plural, relative, run_document, shortened, span

MOST = 50
"""Maximum rows of one part: more than any screen has."""
_LOOKED_AT = 500
"""Maximum number of runs in progress that are read."""


class TopRow(NamedTuple):
    schedule: ScheduleId | None
    """What the keys act on; None for a worker."""
    run: Run | None
    cells: Sequence[object]
    is_paused: bool = False

    @property
    def key(self) -> tuple[ScheduleId | None, object]:
        """Identifies a row when it is read again."""
        return self.schedule, None if self.run is None else self.run.id


class Part(NamedTuple):
    title: str
    nothing: str
    """The text that is shown if there are no rows; without it, an empty part is left out."""
    columns: Sequence[str]
    """Headings after the first one, which is the title."""
    rows: Sequence[TopRow]
    total: Count
    style: str = "bold cyan"
    spare: Sequence[str] = ("KIND",)
    """Columns that a narrow screen leaves out."""


class Frame(NamedTuple):
    now: Instant
    zone: str
    store: str
    health: Health
    workers: Sequence[WorkerRow]
    running: Sequence[Run]
    held: Counter[WorkerId | None]
    retrying: Sequence[tuple[Run, Instant | None]]
    """Runs that failed before, each with the time of its next attempt."""
    waiting: Sequence[Run]
    next: Sequence[Schedule]
    failed: Sequence[Run]
    totals: Mapping[str, Count]
    """How many there are of what is cut to `MOST`."""


def frame_of(app: Application, text: str = "", places: Mapping[ScheduleId, int] | None = None) -> Frame:
    """Read the store. `text` is a part of the name, or of the error of a run, of all that is read; `places` are the
    rows of schedules that keep their place among the next ones, even while they are paused."""
    call, now, exact = app.call, app.call.now, dict[str, bool]()

    def runs(status: str, limit: int = _LOOKED_AT) -> list[Run]:
        items = history(call, History(status=status, limit=limit, count_to=0)).value.items
        exact[status] = len(items) < limit
        return [run for run in items if _has(text, run.name, run.error)]

    running, pending = runs("running", 1000), runs("pending")
    retrying = [run for run in pending if run.attempt and run.error]
    waiting = sorted([*runs("waiting"), *filter(was_given_back, pending)], key=lambda run: run.due)
    schedules, total = _coming(app, text, places or {})
    dead = dead_letters(call, ListDeadLetters(limit=MOST, text=text)).value
    totals = {"RUNNING": Count(len(running), exact["running"]), "NEXT": total, "FAILED": Count(dead.total)}
    totals["RETRYING"] = Count(len(retrying), exact["pending"])
    totals["WAITING"] = Count(len(waiting), exact["waiting"] and exact["pending"])
    return Frame(
        now=now,
        zone=call.zone,
        store=app.store.url,
        health=health(call),
        workers=sorted(worker_rows(call), key=lambda worker: (not is_alive(worker, now), worker.id)),
        running=sorted(running, key=lambda run: run.started or now)[:MOST],
        held=Counter(run.worker for run in running),
        retrying=[(run, next_attempt(call, run)) for run in retrying[:MOST]],
        waiting=waiting[:MOST],
        next=schedules,
        failed=sorted(dead.items, key=lambda run: run.finished or run.due, reverse=True),
        totals=totals,
    )


def _has(text: str, *parts: str | None) -> bool:
    return any(text.lower() in (part or "").lower() for part in parts)


def _coming(app: Application, text: str, places: Mapping[ScheduleId, int]) -> tuple[list[Schedule], Count]:
    """Return the schedules that fire next, with those in `places` where they were, and how many there are."""
    schedules = coming(app.call, MOST, text=text or None)
    total = count_coming(app.call, text or None) if len(schedules) >= MOST else Count(len(schedules))
    for id, place in sorted(places.items(), key=lambda each: each[1]):
        schedule = schedule_now(app, id)
        if schedule is None or schedule.progress.next is None or not _has(text, schedule.definition.name):
            continue
        schedules = [each for each in schedules if each.definition.id != id]
        schedules.insert(place, schedule)
        total = total._replace(number=total.number + (schedule.progress.state == ScheduleState.PAUSED))
    return schedules[:MOST], total


def schedule_now(app: Application, id: ScheduleId | None) -> Schedule | None:
    """Return a schedule as it is now; None if there is none."""
    if id is not None:
        with suppress(NotFound):
            return find(app.call, id, deleted=True)
    return None


def frame_view(frame: Frame) -> dict[str, Any]:
    now, zone, health = frame.now, frame.zone, frame.health
    return {
        "at": instant_view(now, zone),
        "store": frame.store,
        "schedules": health.schedules,
        "due": health.due,
        "overdue": health.overdue,
        "workers": [worker_shape(each, now, zone) | {"running": frame.held[each.id]} for each in frame.workers],
        "running": [_run_shape(run, zone) | {"worker": run.worker} for run in frame.running],
        "retrying": [_run_shape(run, zone) | {"next_attempt": instant_view(at, zone)} for run, at in frame.retrying],
        "waiting": [_run_shape(run, zone) for run in frame.waiting],
        "next": [coming_shape(each.progress.next or now, each, zone) for each in frame.next],
        "failed": [_run_shape(run, zone) for run in frame.failed],
        "failed_total": frame.totals["FAILED"].number,
    }


def _run_shape(run: Run, zone: str) -> dict[str, Any]:
    return {"kind": run.kind, "name": run.name, "owner": run.owner} | run_document(run, zone)


def parts_of(frame: Frame) -> Iterator[Part]:
    now, totals = frame.now, frame.totals
    yield _workers(frame)
    rows = [_row(run, span(now - (run.started or now)), run.attempt, run.report or "") for run in frame.running]
    columns = ("NAME", "KIND", "FOR", "TRY", "PROGRESS")
    yield Part("RUNNING", "Nothing.", columns, rows, totals["RUNNING"], spare=("KIND", "TRY"))
    rows = [
        _row(run, ahead(at, now), plural(run.attempt, "time"), output.safe(run.error or "", "yellow"))
        for run, at in frame.retrying
    ]
    columns = ("NAME", "KIND", "NEXT TRY", "TRIED", "LAST ERROR")
    yield Part("RETRYING", "", columns, rows, totals["RETRYING"], "bold yellow", spare=("KIND", "TRIED"))
    rows = [_row(run, relative(run.due, now), _holder(run)) for run in frame.waiting]
    yield Part("WAITING", "", ("NAME", "KIND", "DUE", "TAKEN OR HELD"), rows, totals["WAITING"])
    yield _next(frame)
    rows = [
        _row(run, relative(run.finished or run.due, now), output.safe(run.error or run.status, "red"))
        for run in frame.failed
    ]
    yield Part("FAILED", "Nothing.", ("NAME", "KIND", "WHEN", "ERROR"), rows, totals["FAILED"], "bold red")


def _workers(frame: Frame) -> Part:
    rows = []
    for worker in frame.workers:
        alive = is_alive(worker, frame.now)
        state = output.safe("alive" if alive else "silent", "green" if alive else "bold red")
        lease = f"{span(worker.lease)} lease, beat {relative(worker.seen, frame.now)}"
        stays = "while a client is open" if worker.session else f"up {span(frame.now - worker.started)}"
        kinds = ", ".join(kinds_taken(worker))
        cells = [state, shortened(worker.name), plural(frame.held[worker.id], "run"), lease, stays, kinds]
        rows.append(TopRow(None, None, cells))
    nothing = "None, so nothing fires: start one with `duetime serve` or `duetime worker`."
    spare = ("LEASE", "SINCE", "LANES")
    return Part("WORKERS", nothing, ["NAME", "BUSY WITH", *spare], rows, Count(len(rows)), spare=spare)


def _holder(run: Run) -> str:
    if was_given_back(run):
        return run.error or ""
    return "not yet" if run.holder is None else "yes"


def _row(run: Run, *cells: object) -> TopRow:
    return TopRow(run.schedule, run, [run.id, shortened(run.name), output.safe(run.kind, "dim"), *cells])


def _next(frame: Frame) -> Part:
    rows = []
    for each, progress in frame.next:
        rule = reads_as(each.trigger).replace(f" ({frame.zone})", "")
        is_paused = progress.state == ScheduleState.PAUSED
        due = "paused" if is_paused else ahead(progress.next, frame.now)
        late = output.safe(due, "bold yellow" if is_paused or due.startswith("overdue") else "")
        cells = [each.short_id, shortened(each.name), output.safe(each.kind, "dim"), late, rule]
        rows.append(TopRow(each.id, None, cells, is_paused))
    columns = ["NAME", "KIND", "WHEN", "RULE"]
    return Part("NEXT", "Nothing.", columns, rows, frame.totals["NEXT"], spare=("KIND", "RULE"))
