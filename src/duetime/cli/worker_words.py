"""What a worker says when it begins and when it has stopped."""

from __future__ import annotations

from duetime.api import LOCAL
from duetime.cli import demo, screen
from duetime.cli.frame import program, version
from duetime.cli.live import Stream
from duetime.cli.text import clean, coming, plural
from duetime.compose import App
from duetime.core.masking import without_password
from duetime.core.model import Schedule, ScheduleState
from duetime.core.times import format_local
from duetime.faces.present import schedule_view


def greet(room: App, name: str, samples: list[Schedule], json_: bool) -> None:
    now, zone = room.clock.now(), room.scheduler.zone
    health = room.store.health(now)
    names = [task.name for task in room.registry]
    store = f"{health.details.get('engine', '')}, {health.details.get('file') or room.store.url}"
    if json_:
        facts = {"worker": name, "store": store, "schema": health.schema, "timezone": zone}
        counts = {"schedules": health.schedules, "due": health.due, "overdue": health.overdue}
        screen.print_json_line({"event": "started", **facts, "tasks": names, **counts})
        return
    first = next(iter(room.scheduler.coming(LOCAL, None, 1)), None)
    waiting = f"{plural(health.schedules, 'schedule')}, {health.overdue:,} due now"
    if first is not None:
        waiting += f"; next: {first.definition.name}, {coming(first.progress.next, zone, now)}"
    print(f"Duetime {version()}, worker {clean(name)}")
    screen.facts([
        ("store", store),
        ("zone", f"{zone}, now {format_local(now, zone)}"),
        ("tasks", ", ".join(names)),
        ("work", waiting),
        ("stop", "Ctrl-C waits for what runs; a second one stops at once"),
    ])  # fmt: skip
    if samples:
        pairs = zip(demo.SAMPLES, samples, strict=True)
        rows = [(made.definition.name, sample.shows, _when(made, zone)) for sample, made in pairs]
        print()
        screen.table(["SAMPLE", "SHOWS", "WHEN"], rows)
    print(flush=True)


def _when(schedule: Schedule, zone: str) -> str:
    """A sample that somebody paused, cancelled or deleted stays so."""
    state = schedule.progress.state
    resting = state in (ScheduleState.PAUSED, ScheduleState.CANCELLED, ScheduleState.DELETED)
    return state if resting else str(schedule_view(schedule, zone)["reads_as"]).split(" (")[0]


def farewell(stream: Stream | None, left: int, *, demo_db: str | None, json_: bool) -> None:
    counts = dict(stream.counts) if stream is not None else {}
    if json_:
        screen.print_json_line({"event": "stopped", "runs": counts, "unrecorded": left})
        return
    if left:
        print(f"Stopped; {plural(left, 'run')} did not end in time and will be taken over by another worker.")
    else:
        print("Stopped; everything is recorded.")
    if stream is not None:
        print(stream.summary())
    if demo_db is not None:
        db = without_password(demo_db)
        print(f"\nEverything is kept in {clean(db)}; traces of failures are in {demo.LOG}. Try next:")
        for line in (("job", "list", "--db", db), ("next", "0 9 * * 1-5"), ("doctor", "--db", db)):
            print(f"  {program(*line)}")
        add = ("job", "add", "hello", "--task", "echo", "--arg", "hi", "--at", "in 20 seconds", "--db", db)
        again = ("serve", "--demo", *(() if db == demo.DB else ("--db", db)))
        print(f"  {program(*add)}\n  {program(*again)}")
