"""`duetime worker`: runs what is due until it is told to stop."""

from __future__ import annotations

from typing import Annotated

import typer

from duetime.cli import demo as demonstration
from duetime.cli.configured import settings_for
from duetime.cli.door import FAILED, OK
from duetime.cli.frame import Db, Json, Tasks
from duetime.cli.live import Stream
from duetime.cli.plain import PlainCommand, single
from duetime.cli.stopping import LOOK, StopButton, StoppedAtOnce, drain, leave_at_once, log_to
from duetime.cli.worker_words import farewell, greet
from duetime.compose import App, build
from duetime.settings import Settings

app = single()


@app.command(cls=PlainCommand)
def worker(
    tasks: Tasks = None,
    db: Db = None,
    threads: Annotated[int | None, typer.Option(min=1, max=1000, help="Runs at a time.")] = None,
    lease: Annotated[float | None, typer.Option(min=1, help="Seconds of silence after which others take over.")] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Sample tasks on a SQLite file, shown live.")] = False,
    live: Annotated[bool, typer.Option("--live", help="Show every run, for trying things out.")] = False,
    json_: Json = False,
) -> None:
    """Run what is due. Ctrl-C waits for what runs and stops; a second Ctrl-C stops at once."""
    flags = {"db": db, "tasks": tuple(tasks) if tasks else None, "threads": threads, "lease": lease}
    settings = settings_for(flags)
    if demo:
        settings = demonstration.demo_settings(settings, db)
    room = build(settings)
    try:
        log_to(demonstration.LOG if demo else None)
        code = _work(room, settings, demo=demo, live=live, json_=json_)
    finally:
        room.close()
    raise typer.Exit(code)


def _work(room: App, settings: Settings, *, demo: bool, live: bool, json_: bool) -> int:
    button = StopButton()
    engine = room.engine()
    stream = Stream(room, json_=json_, bar=False) if live and not demo else None
    with button.installed():
        samples = demonstration.plant(room) if demo else []
        greet(room, engine.worker.name, samples, json_)
        if demo:
            stream = Stream(room, json_=json_, bar=True)
        try:
            engine.start()
            while not button.asked.wait(LOOK if stream else 1.0) and engine.failure is None:
                if stream is not None:
                    stream.refresh()
            left = drain(engine, settings, stream, json_)
        except StoppedAtOnce:
            leave_at_once(engine, stream)
        finally:
            if stream is not None:
                stream.close()
    if engine.failure is not None:
        raise engine.failure
    farewell(stream, left, demo_db=settings.db if demo else None, json_=json_)
    return FAILED if left else OK
