"""`duetime worker`: runs what is due until it is told to stop."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, NoReturn

from duetime.app import App, build
from duetime.cli.runs.tail import Stream
from duetime.cli.serve.demo import DB, LOG, SAMPLES, create_samples, demo_settings
from duetime.cli.serve.shutdown import LOOK, StopButton, StoppedAtOnce, log_to
from duetime.engine.clock import SECOND
from duetime.engine.errors import StoreUnavailable
from duetime.processes.memory import limit_arenas, relaxed_collector
from duetime.service.distribution import version
from duetime.service.errors import FAILED, INTERRUPTED, OK
from duetime.service.masking import without_password
from duetime.service.operations import upcoming
from duetime.service.presenters import reads_as
from duetime.service.vocabulary import Schedule, ScheduleState, clock_local
from duetime.settings import Settings
from duetime.settings.working_folder import leave_folder
from duetime.terminal import output
from duetime.terminal.context import Db, Json, Tasks, program, settings_for
from duetime.terminal.declarations import option, single
from duetime.terminal.output import clean, coming, plural, span

if TYPE_CHECKING:
    from duetime.engine.worker.threads import Engine
    from duetime.http.server import HttpServer


@dataclass(frozen=True)
class WorkerCommandOptions:
    """The options that `duetime worker` and `duetime serve` have in common."""

    db: Db = None
    tasks: Tasks = None
    threads: Annotated[int | None, option("--threads", "Maximum number of runs at the same time.", min=1, max=1000)] = (
        None
    )
    lease: Annotated[
        float | None, option("--lease", "Seconds without a heartbeat after which other workers take over.", min=1)
    ] = None
    label: Annotated[
        list[str] | None, option("--label NAME", "Label of this worker, which runs tasks that need it. Repeatable.")
    ] = None
    live: Annotated[bool, option("--live", "Show every run as it happens.")] = False
    verbose: Annotated[bool, option("--verbose", "Log the whole traceback of a failed run.")] = False
    quiet: Annotated[bool, option("--quiet", "Print nothing but warnings and failures.")] = False
    no_wait: Annotated[
        bool, option("--no-wait", "Fail if the store cannot be reached at the start, instead of waiting for it.")
    ] = False
    demo: Annotated[bool, option("--demo", "Run sample tasks in a separate SQLite file, and show them live.")] = False
    json_: Json = False

    def settings(self, **further: object) -> Settings:
        """Return the settings with these options, and with further ones of a command."""
        own = {"db": self.db, "tasks": self.tasks, "labels": self.label, "threads": self.threads, "lease": self.lease}
        settings = settings_for(own | further)
        return demo_settings(settings, self.db) if self.demo else settings

    def leave_folder(self, settings: Settings) -> Settings:
        """Leave the current folder, unless the demo or a named task module is in it."""
        return settings if self.demo or self.tasks is not None else leave_folder(settings)

    def start_logging(self) -> None:
        log_to(LOG if self.demo else None, verbose=self.verbose, live=self.live)


# Messages at start and stop.


def print_start(app: App, name: str, samples: list[Schedule], options: WorkerCommandOptions) -> None:
    if options.quiet:
        return
    now, zone = app.clock.now(), app.scheduler.zone
    health = app.store.health(now)
    names = [task.name for task in app.registry]
    store = f"{health.details.get('engine', '')}, {health.details.get('file') or app.store.url}"
    if options.json_:
        facts = {"worker": name, "store": store, "schema": health.schema, "timezone": zone}
        counts = {"schedules": health.schedules, "due": health.due, "overdue": health.overdue}
        output.print_json_line({"event": "started", **facts, "tasks": names, **counts})
        return
    first = next(iter(upcoming.coming(app.call, 1)), None)
    waiting = f"{plural(health.schedules, 'schedule')}, {health.overdue:,} due now"
    if first is not None:
        waiting += f"; next: {first.definition.name}, {coming(first.progress.next, zone, now)}"
    print(f"Duetime {version()}, worker {clean(name)}")
    output.facts([
        ("store", store),
        ("zone", f"{zone}, now {clock_local(now, zone)}"),
        ("tasks", ", ".join(names)),
        *([("labels", ", ".join(app.settings.labels))] if app.settings.labels else ()),
        ("work", waiting),
        ("stop", "Ctrl-C waits for what runs; a second one stops at once"),
    ])  # fmt: skip
    if samples:
        pairs = zip(SAMPLES, samples, strict=True)
        rows = [(schedule.definition.name, shows, _when(schedule)) for (shows, _), schedule in pairs]
        print()
        output.table(["SAMPLE", "SHOWS", "WHEN"], rows)
    print(flush=True)


def _when(schedule: Schedule) -> str:
    """Return when a sample fires, or its state if somebody paused, cancelled or deleted it."""
    state = schedule.progress.state
    resting = state in (ScheduleState.PAUSED, ScheduleState.CANCELLED, ScheduleState.DELETED)
    return state if resting else reads_as(schedule.definition.trigger).split(" (")[0]


def print_stop(app: App, stream: Stream | None, left: int, options: WorkerCommandOptions) -> None:
    if options.quiet:
        return
    counts = dict(stream.counts) if stream is not None else {}
    if options.json_:
        output.print_json_line({"event": "stopped", "runs": counts, "unrecorded": left})
        return
    if left:
        output.say(f"Stopped; {plural(left, 'run')} did not end in time and will be taken over by another worker.")
    else:
        print("Stopped; everything is recorded.")
    if stream is not None:
        print(stream.summary())
    if options.demo:
        db = without_password(app.settings.db)
        output.say(f"\nEverything is kept in {clean(db)}; traces of failures are in {LOG}. Try next:")
        for line in (("list", "--db", db), ("next", "0 9 * * 1-5"), ("doctor", "--db", db)):
            print(f"  {program(*line)}")
        add = ("job", "add", "hello", "--task", "echo", "--arg", "hi", "--at", "in 20 seconds", "--db", db)
        again = ("serve", "--demo", *(() if db == DB else ("--db", db)))
        print(f"  {program(*add)}\n  {program(*again)}")


_RETRY = 1.0
"""Seconds between two attempts to reach the store at the start."""
commands = single()


@commands.command()
def worker(
    options: WorkerCommandOptions,
    drain: Annotated[
        bool, option("--drain", "When told to stop, wait for running work as long as it takes, not as `drain` says.")
    ] = False,
) -> int:
    """Run what is due, without a server. Ctrl-C or SIGTERM waits for running work and stops; a second one stops at
    once."""
    settings = options.leave_folder(options.settings())
    if drain:
        settings = replace(settings, drain=threading.TIMEOUT_MAX)
    with closing(build_when_reachable(settings, wait=not options.no_wait)) as app:
        options.start_logging()
        return work_until_stopped(app, options)


def build_when_reachable(settings: Settings, *, wait: bool) -> App:
    """Build the app. While its store cannot be reached, wait for it and say so."""
    problem = ""
    while True:
        try:
            return build(settings)
        except StoreUnavailable as error:
            if not wait:
                raise
            if error.message != problem:
                problem = error.message
                output.warn([f"{problem}. Waiting for it; with --no-wait, this command fails instead."])
        threading.Event().wait(_RETRY)


def work_until_stopped(
    app: App,
    options: WorkerCommandOptions,
    http: HttpServer | None = None,
    introduce: Callable[[], None] = lambda: None,
) -> int:
    """Run a worker, and the HTTP server if there is one, until a signal or a failure. Return the exit code."""
    limit_arenas()
    button = StopButton()
    engine = app.engine()
    engine.on_failure = button.stop.set
    stream = None
    with relaxed_collector(), button.installed(), ExitStack() as ending:
        try:
            if http is not None:  # so that whoever learns of the server finds a worker
                engine.start()
                http.start()
                introduce()
            print_start(app, engine.options.name, create_samples(app) if options.demo else [], options)
            if options.demo or options.live:
                stream = Stream(app, json_=options.json_, bar=options.demo)
                ending.callback(stream.close)
            if http is None:  # so that the stream shows runs from the first one on
                engine.start()
            pause = LOOK if stream else 1.0 if http else 60.0
            while not button.stop.wait(pause) and engine.failure is None:
                if http is not None and not http.serving:
                    break
                if stream is not None:
                    stream.refresh()
            left = drain_engine(engine, http, app.settings, stream, silent=options.json_ or options.quiet)
        except StoppedAtOnce:
            leave_at_once(engine, stream)
        except BaseException:
            engine.stop(0)
            raise
    failure = engine.failure or (None if http is None else http.failure)
    if failure is not None:
        raise failure
    print_stop(app, stream, left, options)
    return FAILED if left else OK


def drain_engine(
    engine: Engine, http: HttpServer | None, settings: Settings, stream: Stream | None, *, silent: bool
) -> int:
    """Stop the server, and the worker once its runs have ended or their time is up; return how many runs are left."""
    if http is not None:
        http.ask_to_stop()
    held = [clean(item.claim.definition.name) for item in list(engine.worker.claimed.values()) if item.begun]
    if stream is not None:
        stream.close()
    if not silent:
        most = "" if settings.drain == threading.TIMEOUT_MAX else f" at most {settings.drain:g} s"
        waiting = f", waiting{most} for {', '.join(held[:5])}" if held else ""
        more = f" and {len(held) - 5} more" if len(held) > 5 else ""
        print(f"Stopping{waiting}{more} ...", flush=True)
    left = engine.stop(settings.drain)
    if stream is not None and engine.failure is None:
        stream.refresh()
    if http is not None:
        http.stop()
    return left


def leave_at_once(engine: Engine, stream: Stream | None) -> NoReturn:
    """Exit without waiting, not even for threads; another worker takes over running work when the lease expires."""
    if stream is not None:
        stream.close()
    left = len(engine.worker.claimed)
    lease = span(int(engine.options.lease * SECOND))
    print(f"Stopped at once. Unfinished runs: {left}; another worker takes them over after {lease}.", file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(INTERRUPTED)
