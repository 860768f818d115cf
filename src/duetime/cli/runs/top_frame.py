"""Frames of `duetime top`: one reading of the store, as a document for programs and as rows for a screen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from duetime.engine.clock import Instant
from duetime.engine.model import ScheduleId, WorkerId
from duetime.service.lookup import short_id
from duetime.service.operations.dead_letters import ListDeadLetters, dead_letters
from duetime.service.operations.history import History, history, next_attempt
from duetime.service.operations.status import health, workers
from duetime.service.operations.upcoming import coming
from duetime.service.presenters import coming_shape, instant_view, reads_as, worker_shape
from duetime.service.vocabulary import Health, Run, Schedule, WorkerRow, was_given_back
from duetime.service.workers import is_alive, kinds_taken
from duetime.terminal import output
from duetime.terminal.context import Application
from duetime.terminal.output import ahead, plural, relative, run_document, shortened, span

if TYPE_CHECKING:
    from rich.text import Text

MOST = 50
"""Maximum rows of one part: more than any screen has."""
_LOOKED_AT = 500
"""Maximum number of runs in progress that are read."""


class TopRow(NamedTuple):
    schedule: ScheduleId | None
    """What the keys act on; None for a worker."""
    run: Run | None
    cells: Sequence[object]


class Part(NamedTuple):
    title: str
    nothing: str
    """The text that is shown if there are no rows; without it, an empty part is left out."""
    columns: Sequence[str]
    """Headings after the first one, which is the title."""
    rows: Sequence[TopRow]
    total: int
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
    failed_total: int


def frame_of(app: Application) -> Frame:
    call, now = app.call, app.call.now

    def runs(status: str, limit: int = _LOOKED_AT) -> list[Run]:
        return history(call, History(status=status, limit=limit, count_to=0)).value.items

    running, pending = runs("running", 1000), runs("pending")
    dead = dead_letters(call, ListDeadLetters(limit=MOST)).value
    return Frame(
        now=now,
        zone=call.zone,
        store=app.store.url,
        health=health(call).value,
        workers=sorted(workers(call).value, key=lambda worker: (not is_alive(worker, now), worker.id)),
        running=sorted(running, key=lambda run: run.started or now)[:MOST],
        held=Counter(run.worker for run in running),
        retrying=[(run, next_attempt(call, run)) for run in pending if run.attempt and run.error][:MOST],
        waiting=sorted([*runs("waiting"), *filter(was_given_back, pending)], key=lambda run: run.due)[:MOST],
        next=coming(call, MOST),
        failed=sorted(dead.items, key=lambda run: run.finished or run.due, reverse=True),
        failed_total=dead.total,
    )


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
        "failed_total": frame.failed_total,
    }


def _run_shape(run: Run, zone: str) -> dict[str, Any]:
    return {"kind": run.kind, "name": run.name, "owner": run.owner} | run_document(run, zone)


def parts_of(frame: Frame) -> list[Part]:
    every = [_workers(frame), _running(frame), _retrying(frame), _waiting(frame), _next(frame), _failed(frame)]
    return [part for part in every if part.rows or part.nothing]


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
    return Part("WORKERS", nothing, ["NAME", "BUSY WITH", *spare], rows, len(rows), spare=spare)


def _running(frame: Frame) -> Part:
    rows = [
        _row(run, [span(frame.now - (run.started or frame.now)), run.attempt, run.report or ""])
        for run in frame.running
    ]
    return Part(
        "RUNNING", "Nothing.", ["NAME", "KIND", "FOR", "TRY", "PROGRESS"], rows, len(rows), spare=("KIND", "TRY")
    )


def _retrying(frame: Frame) -> Part:
    rows = [
        _row(run, [ahead(at, frame.now), plural(run.attempt, "time"), output.safe(run.error or "", "yellow")])
        for run, at in frame.retrying
    ]
    columns = ["NAME", "KIND", "NEXT TRY", "TRIED", "LAST ERROR"]
    return Part("RETRYING", "", columns, rows, len(rows), "bold yellow", spare=("KIND", "TRIED"))


def _waiting(frame: Frame) -> Part:
    rows = [_row(run, [relative(run.due, frame.now), _holder(run)]) for run in frame.waiting]
    return Part("WAITING", "", ["NAME", "KIND", "DUE", "TAKEN OR HELD"], rows, len(rows))


def _holder(run: Run) -> str:
    if was_given_back(run):
        return run.error or ""
    return "not yet" if run.holder is None else "yes"


def _row(run: Run, cells: Sequence[object]) -> TopRow:
    return TopRow(run.schedule, run, [run.id, shortened(run.name), _kind(run.kind), *cells])


def _kind(kind: str) -> Text:
    return output.safe(kind, "dim")


def _next(frame: Frame) -> Part:
    rows = []
    for each, progress in frame.next:
        rule = reads_as(each.trigger).replace(f" ({frame.zone})", "")
        due = ahead(progress.next, frame.now)
        late = output.safe(due, "bold yellow" if due.startswith("overdue") else "")
        rows.append(TopRow(each.id, None, [short_id(each), shortened(each.name), _kind(each.kind), late, rule]))
    return Part("NEXT", "Nothing.", ["NAME", "KIND", "WHEN", "RULE"], rows, len(rows), spare=("KIND", "RULE"))


def _failed(frame: Frame) -> Part:
    rows = [
        _row(run, [relative(run.finished or run.due, frame.now), output.safe(run.error or run.status, "red")])
        for run in frame.failed
    ]
    return Part("FAILED", "Nothing.", ["NAME", "KIND", "WHEN", "ERROR"], rows, frame.failed_total, "bold red")
