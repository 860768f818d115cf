"""`duetime top`: workers, running and upcoming work, and failures, refreshed until it is stopped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from duetime.cli.serve.shutdown import StopButton
from duetime.engine.clock import Instant
from duetime.engine.model import Run, Schedule, WorkerId, WorkerRow
from duetime.engine.store import Health, RunQuery
from duetime.service.errors import unwrap
from duetime.service.presenters import coming_shape, instant_view, is_alive, reads_as, worker_shape
from duetime.service.services import OPERATOR
from duetime.terminal import output
from duetime.terminal.context import Application, Db, Json, opened
from duetime.terminal.output import ahead, clean, clock_time, plural, relative, run_document, shortened, span
from duetime.terminal.typer_ext import PlainCommand, option, single

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

MOST = 50
"""Maximum rows of one part: more than any screen has."""
_RESERVED = 14
"""Lines for headings, the first line and the blank lines between the parts."""
NARROW = 72
"""Width of a screen below which less important columns are left out."""


class Part(NamedTuple):
    title: str
    nothing: str
    """Text that is shown where there are no rows."""
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]


class Frame(NamedTuple):
    now: Instant
    zone: str
    store: str
    health: Health
    workers: Sequence[WorkerRow]
    running: Sequence[Run]
    held: Counter[WorkerId | None]
    next: Sequence[Schedule]
    failed: Sequence[Run]


def frame_of(app: Application) -> Frame:
    scheduler, now = app.scheduler, app.clock.now()
    running = unwrap(scheduler.runs(OPERATOR, RunQuery(status="running", limit=1000, count_to=0))).items
    return Frame(
        now=now,
        zone=scheduler.zone,
        store=app.store.url,
        health=app.store.health(now),
        workers=sorted(scheduler.workers(), key=lambda worker: (not is_alive(worker, now), worker.id)),
        running=sorted(running, key=lambda run: run.started or now)[:MOST],
        held=Counter(run.worker for run in running),
        next=scheduler.coming(OPERATOR, None, MOST),
        failed=unwrap(scheduler.runs(OPERATOR, RunQuery(status="dead", limit=MOST, count_to=0))).items,
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
        "next": [coming_shape(each.progress.next or now, each, zone) for each in frame.next],
        "failed": [_run_shape(run, zone) for run in frame.failed],
    }


def _run_shape(run: Run, zone: str) -> dict[str, Any]:
    return {"kind": run.kind, "name": run.name, "owner": run.owner} | run_document(run, zone)


def laid_out(frame: Frame, lines: int) -> RenderableType:
    """Lay out a frame in at most `lines` lines: each part gives up rows before any part disappears."""
    from rich.console import Group
    from rich.text import Text

    parts = [_workers(frame), _running(frame), _next(frame), _failed(frame)]
    shown: list[RenderableType] = [_first_line(frame)]
    for (title, nothing, columns, rows), most in zip(
        parts, _shares([len(part[3]) for part in parts], lines), strict=True
    ):
        more = f"  {len(rows)} in all" if len(rows) > most else ""
        shown += [Text(), Text(f"{title}{more}", style="bold")]
        shown.append(_grid(columns, rows[:most]) if rows else output.safe(nothing, "dim"))
    return Group(*shown)


def _grid(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> RenderableType:
    """Return a table; a narrow screen only has space for the first two columns and the last one."""
    if output.width() >= NARROW:
        return output.grid(columns, rows)
    return output.grid([*columns[:2], columns[-1]], [[*row[:2], row[-1]] for row in rows])


def _shares(wanted: Sequence[int], lines: int) -> list[int]:
    """Return the rows for each part: as many as it has, or else an equal share of what the shorter ones leave."""
    left = max(lines - _RESERVED, len(wanted))
    shares = [0] * len(wanted)
    for place, number in enumerate(sorted(range(len(wanted)), key=lambda each: wanted[each])):
        shares[number] = min(wanted[number], left // (len(wanted) - place))
        left -= shares[number]
    return shares


def _first_line(frame: Frame) -> RenderableType:
    health = frame.health
    oldest = "" if health.oldest_due is None else f", the oldest by {span(frame.now - health.oldest_due)}"
    late = f"{health.overdue:,} overdue{oldest}" if health.overdue else "nothing overdue"
    text = f"{clock_time(frame.now, frame.zone)}  {plural(health.schedules, 'schedule')}, {late}  {clean(frame.store)}"
    alive = any(is_alive(worker, frame.now) for worker in frame.workers)
    line = output.safe(text, "bold yellow" if health.overdue and not alive else "bold")
    line.no_wrap, line.overflow = True, "ellipsis"
    return line


def _workers(frame: Frame) -> Part:
    rows = []
    for worker in frame.workers:
        alive = is_alive(worker, frame.now)
        state = output.safe("alive" if alive else "silent", "green" if alive else "bold red")
        lease = f"{span(worker.lease)} lease, beat {relative(worker.seen, frame.now)}"
        stays = "while a client is open" if worker.session else f"up {span(frame.now - worker.started)}"
        # The kinds that a worker takes, without the separate lanes within a kind, which every worker has.
        kinds = ", ".join(dict.fromkeys(lane.partition(":")[0] for lane in worker.lanes.split(",")))
        rows.append([state, shortened(worker.name), frame.held[worker.id], lease, stays, kinds])
    nothing = "None, so nothing fires: start one with `duetime worker`."
    return Part("WORKERS", nothing, ["STATE", "NAME", "RUNS", "LEASE", "SINCE", "LANES"], rows)


def _running(frame: Frame) -> Part:
    rows = []
    for run in frame.running:
        length = span(frame.now - (run.started or frame.now))
        rows.append([run.id, shortened(run.name), run.kind, run.attempt, run.report or "", length])
    return Part("RUNNING", "Nothing.", ["RUN", "NAME", "KIND", "TRY", "SAYS", "FOR"], rows)


def _next(frame: Frame) -> Part:
    rows = []
    for each, progress in frame.next:
        rule = reads_as(each.trigger).replace(f" ({frame.zone})", "")
        rows.append([ahead(progress.next, frame.now), shortened(each.name), each.kind, rule])
    return Part("NEXT", "Nothing.", ["WHEN", "NAME", "KIND", "RULE"], rows)


def _failed(frame: Frame) -> Part:
    rows = [
        [relative(run.finished or run.due, frame.now), shortened(run.name), run.kind, run.error or run.status]
        for run in frame.failed
    ]
    return Part("FAILED LATELY", "Nothing.", ["WHEN", "NAME", "KIND", "ERROR"], rows)


ENDLESS = 10_000
"""Maximum lines without a terminal: nothing is left out of a file."""

commands = single()


@commands.command(cls=PlainCommand)
def top(
    once: Annotated[bool, option("--once", "Print it once, and end.")] = False,
    interval: Annotated[float, option("--interval SECONDS", "Between two looks.", min=0.2, max=3600)] = 1.0,
    db: Db = None,
    json_: Json = False,
) -> None:
    """Watch the store until Ctrl-C. Where nobody could watch, in a file or with --json, it is printed once."""
    with opened(db) as app:
        if json_:
            output.print_json(frame_view(frame_of(app)))
            return
        console = output.console()
        if once or not console.is_terminal:
            console.print(laid_out(frame_of(app), ENDLESS if not console.is_terminal else console.height))
            return
        button = StopButton()
        with button.installed():
            (_print_again if console.is_dumb_terminal else _watch)(app, console, button, interval)


def _watch(app: Application, console: Console, button: StopButton, interval: float) -> None:
    from rich.live import Live

    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            live.update(laid_out(frame_of(app), console.height), refresh=True)
            if button.asked.wait(interval):
                return


def _print_again(app: Application, console: Console, button: StopButton, interval: float) -> None:
    """Print frames one below the other, for a terminal that cannot move its cursor."""
    while True:
        console.print(laid_out(frame_of(app), console.height))
        if button.asked.wait(interval):
            return
        console.print()
