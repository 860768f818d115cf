"""Checks that belong to no kind: the machine, the packages, the file system, the store; and those of the kinds."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from contextlib import closing
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from duetime.app import App, build
from duetime.cli.serve.demo import existing_samples
from duetime.engine.clock import MINUTE, SECOND, Clock, Instant, SystemClock
from duetime.engine.errors import DuetimeError
from duetime.engine.model import ScheduleId
from duetime.service.checks import Check, Checks, Installation
from duetime.service.kind_spec import known_specs, load
from duetime.service.masking import masked, without_password
from duetime.service.operations.history import History, history
from duetime.service.operations.schedules import COUNT_ALL, ListSchedules, list_schedules
from duetime.service.operations.status import health as store_health
from duetime.service.operations.status import worker_rows
from duetime.service.services import Call
from duetime.service.vocabulary import Health, Page, Schedule, clock_local, names_limit, was_given_back
from duetime.service.workers import is_alive
from duetime.settings import Settings, local_zone
from duetime.settings.locations import store_file
from duetime.terminal.context import again, program
from duetime.terminal.output import clean, plural, relative, span

PACKAGES = ("apsw", "cronsim", "pydantic", "rich", "typer", "tzdata", "tzlocal")
SAFE_SQLITE = (3, 51, 3)
"""First version of SQLite without the rare loss of commits when a WAL file is reset under several connections."""
NETWORK = frozenset({
    "nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "fuse.s3fs", "afs", "ceph", "glusterfs", "vboxsf",
})  # fmt: skip
LITTLE_SPACE = 100 * 1024 * 1024


def machine_checks(settings: Settings) -> Iterator[Check]:
    yield Check("ok", "python", f"{sys.version.split()[0]} at {sys.executable}")
    yield _packages()
    yield _sqlite()
    yield _zone(settings)


def _packages() -> Check:
    packages, missing = [], []
    for name in PACKAGES:
        try:
            packages.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    if missing:
        return Check("fail", "packages", f"missing: {', '.join(missing)}; install Duetime again, with its dependencies")
    try:
        packages.append(f"psycopg {version('psycopg')}")
    except PackageNotFoundError:
        packages.append("no psycopg (PostgreSQL needs duetime[postgres])")
    return Check("ok", "packages", ", ".join(packages))


def _sqlite() -> Check:
    import apsw

    library = apsw.sqlite_lib_version()
    if tuple(map(int, library.split("."))) < SAFE_SQLITE:
        return Check("warn", "sqlite", f"{library} may lose commits in rare cases; install a newer apsw")
    return Check("ok", "sqlite", f"{library}, bundled with Duetime")


def _zone(settings: Settings) -> Check:
    try:
        zone = local_zone(settings)
    except DuetimeError as error:
        return Check("fail", "zone", error.message)
    now = SystemClock().now()
    if zone in ("UTC", "Etc/UTC") and not settings.timezone:
        advice = 'if you live elsewhere, set timezone = "Europe/Berlin" or the like'
        return Check("ok", "zone", f"{zone}, the machine's: times without a zone are read in UTC; {advice}")
    whose = "as set" if settings.timezone else "the machine's"
    return Check("ok", "zone", f"{zone}, {whose}; it is now {clock_local(now, zone)}")


def kind_checks(select: Callable[[Checks], Iterable[Check]]) -> Iterator[Check]:
    """Yield some of the checks of every kind. One that fails itself does not prevent the others."""
    for spec in known_specs().values():
        try:
            yield from select(load(spec.checks)) if spec.checks else ()
        except DuetimeError:
            raise
        except Exception as error:
            problem = clean(masked(f"{type(error).__name__}: {error}"))
            yield Check(
                "fail", spec.name, f"its check {spec.checks} failed: {problem}; report it to who wrote the kind"
            )


def store_file_checks(url: str) -> Iterator[Check]:
    """For SQLite, check whether the file exists, and whether its disk is reliable (not a network disk) and has free
    space."""
    path = store_file(url)
    if path is None:
        return
    place = next((folder for folder in (path.resolve(), *path.resolve().parents) if folder.exists()), Path("/"))
    if not path.exists():
        advice = f"the first job or worker makes it: {program('job', 'add', '--help')}"
        yield Check("warn", "store", f"there is no {clean(path)} yet; {advice}")
    kind = file_system(place)
    if kind in NETWORK:
        problem = f"{clean(place)} is on {kind}, where SQLite's locks do not hold"
        yield Check("fail", "disk", f"{problem}; use a local disk, or PostgreSQL")
    if not os.access(place, os.W_OK) or not os.access(path.resolve().parent if path.exists() else place, os.W_OK):
        problem = f"{clean(place)} cannot be written: it is read-only, or belongs to another user"
        yield Check("fail", "disk", f"{problem}; name another store with --db, or change its permissions")
        return
    free = shutil.disk_usage(place).free
    if free < LITTLE_SPACE:
        yield Check("warn", "disk", f"only {free // 2**20} MB are left at {clean(place)}; make room")
    elif kind not in NETWORK:
        yield Check("ok", "disk", f"{kind or 'local'}, {free / 2**30:.1f} GB free")


def file_system(place: Path, mounts: Path = Path("/proc/self/mounts")) -> str | None:
    """Return the type of the file system, or None if the machine does not report it."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None
    best: tuple[int, str | None] = (0, None)
    for line in lines:
        _, target, kind, *_ = line.split(" ")
        target = target.encode("latin-1", "replace").decode("unicode_escape")  # a space is written \040
        if place == Path(target) or Path(target) in place.parents:
            best = max(best, (len(target), kind), key=lambda mount: mount[0])
    return best[1]


# Checks of a reachable store: its schema, its clock, its workers, and schedules with problems.

SKEW = 1 * SECOND
MAX_RUNS = 1000
"""Number of pending runs that are looked at: enough to detect failed ones, and still fast."""


def store_checks(settings: Settings, clock: Clock) -> Iterator[Check]:
    with closing(build(settings, clock=clock, tasks=False, use_published=True)) as app:
        health = store_health(app.call)
        yield Check("ok", "store", f"{health.details.get('engine', '')} at {clean(app.store.url)}")
        yield Check("ok", "schema", f"version {health.schema}, {plural(health.schedules, 'schedule')}")
        for warning in app.services.process_warnings():
            yield Check("warn", "settings", clean(warning.text))
        yield from _clock(app, clock)
        samples = frozenset(each.definition.id for each in existing_samples(app))
        alive = yield from _workers(app, clock.now(), demo=bool(samples))
        if alive or not samples:  # the demo is stopped, and what is due waits for its next start
            yield from _overdue(health, alive, clock.now())
        yield from _troubled(app.call, samples)
        yield from _retrying(app, samples)
        installation = Installation(settings, clock, app.services, samples)
        yield from kind_checks(lambda checks: checks.store(installation))


def _clock(app: App, clock: Clock) -> Iterator[Check]:
    before = clock.now()
    there = app.store.now()
    if there is None:
        return  # a store in a file has no clock of its own
    apart = there - (before + clock.now()) // 2
    if abs(apart) > SKEW:
        side = "ahead of" if apart > 0 else "behind"
        message = f"the database's clock is {span(abs(apart))} {side} this machine's; set both by NTP"
        yield Check("warn", "clock", message)
    else:
        yield Check("ok", "clock", f"this machine and the database agree within {span(abs(apart))}")


def _workers(app: App, now: Instant, *, demo: bool) -> Generator[Check, None, int]:
    rows = worker_rows(app.call)
    alive = [row for row in rows if is_alive(row, now)]
    for row in rows:
        seen = relative(row.seen, now)
        if row in alive:
            yield Check("ok", "worker", f"{clean(row.name)}, last beat {seen}")
        elif not demo:
            yield Check("warn", "worker", f"{clean(row.name)} is silent, last beat {seen}; its runs wait for a worker")
    if not alive and demo:
        yield Check("ok", "worker", f"the demo is stopped; start it again: {program('serve', '--demo')}")
    elif not alive:
        db = app.settings.db
        how = program("worker", *(("--db", without_password(db)) if db else ()))
        yield Check("warn", "worker", f"none is running, so nothing fires; start one: {how}")
    for each in app.services.label_warnings():
        yield Check("warn", "labels", each.text)
    return len(alive)


def _overdue(health: Health, alive: int, now: Instant) -> Iterator[Check]:
    oldest = health.oldest_due
    if not health.overdue or oldest is None:
        yield Check("ok", "due", f"nothing is overdue; {plural(health.running, 'run')} active")
    elif alive and now - oldest < MINUTE:
        yield Check("ok", "due", f"{health.overdue:,} due now, the oldest since {span(now - oldest)}")
    else:
        cause = "the workers do not keep up: start more, or give them --threads" if alive else "start a worker"
        yield Check("warn", "due", f"{health.overdue:,} overdue, the oldest by {span(now - oldest)}; {cause}")


Samples = Collection[ScheduleId]
"""Schedules of the demo, some of which fail on purpose."""


def _troubled(call: Call, samples: Samples) -> Iterator[Check]:
    broken, failed = _some(call, "broken", ()), _some(call, "failed", samples)
    if broken.items:
        advice = f"fix the trigger with {_command(broken, 'edit ID')}, or delete it"
        yield Check("fail", "broken", f"{_named(broken)}; {advice}")
    else:
        yield Check("ok", "broken", "no schedule is broken")
    if failed.items:
        yield Check("warn", "failed", f"{_named(failed)}; `duetime history ID` shows why")
    else:
        yield Check("ok", "failed", f"no schedule's last run failed{_left_out(samples)}")


def _left_out(samples: Samples) -> str:
    return "; not counting the samples of the demo, some of which fail on purpose" if samples else ""


def _some(call: Call, status: str, samples: Samples) -> Page[Schedule]:
    request = ListSchedules(status=status, limit=3 + len(samples), count_to=COUNT_ALL)
    page = list_schedules(call, request).value
    others = [each for each in page.items if each.definition.id not in samples]
    return page._replace(items=others[:3], total=page.total - (len(page.items) - len(others)))


def _retrying(app: App, samples: Samples) -> Iterator[Check]:
    """Report runs that failed and wait for another attempt, which no status of a schedule shows."""
    pending = history(app.call, History(status="pending", limit=MAX_RUNS, count_to=0)).value.items
    held = [run for run in pending if was_given_back(run) and not names_limit(run.error)]
    if held:
        them = "it" if len(held) == 1 else "them"
        problem = f"{plural(len(held), 'run')} due, but no worker can start {them}, such as {clean(held[0].name)}"
        yield Check("warn", "waiting", f"{problem}: {clean(masked(held[0].error))}")
    failed = [run for run in pending if run.attempt and run.error and run.schedule not in samples]
    if failed:
        first = failed[0]
        advice = f"{again(app, 'run', 'show', str(first.id))} shows when it is tried again"
        problem = f"{plural(len(failed), 'run')} failed and will be retried, such as {clean(first.name)}"
        yield Check("warn", "retry", f"{problem}: {clean(masked(first.error))}; {advice}")
    else:
        yield Check("ok", "retry", f"no run waits for another attempt{_left_out(samples)}")


def _named(page: Page[Schedule]) -> str:
    named = ", ".join(f"{clean(item.definition.name)} ({item.definition.short_id})" for item in page.items)
    return f"{page.total:,}: {named}{'' if page.total <= len(page.items) else ' and others'}"


def _command(page: Page[Schedule], verb: str) -> str:
    """Return the commands for the kinds on the page; a kind without any is shown in the dashboard."""
    kinds = {item.definition.kind for item in page.items}
    named = [f"`{spec.command} {verb}`" for spec in known_specs().values() if spec.command and spec.name in kinds]
    return " or ".join(named or ["the dashboard"])
